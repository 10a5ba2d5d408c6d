"""The pages for people: received records, behind a login, and the manual with its OpenAPI document.

Owns: paths, forms, templates and headers of these pages. They are rendered on the server, without scripts or content from other
hosts. All other requests go to the application. Changes no record; the displayed fields come from the contract.
"""

import secrets
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any, cast
from urllib.parse import parse_qs, urlencode

import msgspec
from jinja2 import Environment
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loadsheet.contract import (
    BY_NAME,
    PATH_PREFIX,
    Assumptions,
    example_steps,
    fields_shown,
    overview_of,
    quote_summary,
    status_report,
)
from loadsheet.display_text import templates_of
from loadsheet.exchange.api_description import chapters, document, fixed_errors, open_points
from loadsheet.exchange.auth import CSRF_COOKIE, Session, Sessions, TooManyLogins, is_same_site_post, set_csrf_cookie
from loadsheet.exchange.browsing import CALLS_KEPT, Browser, CallRecorder, Calls
from loadsheet.exchange.effects import key_text
from loadsheet.exchange.record_store import StoreFailed
from loadsheet.exchange.wire import encode

OPENAPI_PATH, DOCS_PATH = "/openapi.json", "/docs"

_FORM_BYTES_MAX = 8192
_OVERVIEW_ROWS, _WALL_ROWS, _PROBLEM_ROWS = 8, 6, 5
_CALLS_ROWS = 100
_SEARCH_LENGTH_MAX = 200
_DIGITS_MAX = 9
_REFRESH_S = 30

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # stricter policies remove the origin from our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

_TONES = {
    "good": ("deliver", "dlv", "complete", "accept", "award", "pod", "closed", "done"),
    "bad": ("cancel", "reject", "exception", "refus", "damag", "fail", "withdraw"),
    "note": ("delay", "hold", "late", "wait"),
    "live": ("open", "active", "transit", "in transit", "pick", "pu", "dep", "arr", "load", "new"),
}
_STATIC = {"/web/style.css": "text/css", "/web/icon.svg": "image/svg+xml"}

Handler = Callable[[Request, Session], Awaitable[Response]]


class PageHeaders:
    """Middleware: the security headers of pages. With `https`, requests count as sent over TLS."""

    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self._app, self._https = app, https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_page(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app({**scope, "scheme": "https"} if self._https else scope, receive, send_page)


class Pages:
    """The application of the interface with the pages for people in front of it."""

    def __init__(
        self,
        api: ASGIApp,
        sessions: Sessions,
        assumptions: Assumptions,
        *,
        docs_open: bool = True,
        tls_in_front: bool = False,
    ) -> None:
        """`docs_open` shows manual and OpenAPI document without a login.

        With `tls_in_front`, cookies are sent over TLS only, although requests arrive here without it.
        """
        self._calls = Calls()
        self._api = CallRecorder(api, self._calls)
        self._sessions, self._browser, self._assumptions = sessions, Browser(sessions.store), assumptions
        self._docs_open = docs_open
        self._document = encode(document(assumptions, version("loadsheet")))
        secured = [Middleware(PageHeaders, https=tls_in_front)]
        open_pages = {
            "/": self._home,
            DOCS_PATH: self._docs,
            OPENAPI_PATH: self._openapi,
            **dict.fromkeys(_STATIC, _static),
        }
        pages: dict[str, Handler] = {
            "/web/tenders": self._list,
            "/web/orders": self._list,
            "/web/tender": self._record,
            "/web/order": self._record,
            "/web/calls": self._latest_calls,
            "/web/search": self._search,
        }
        self._app = Starlette(
            routes=[
                *(Route(path, handler, middleware=secured) for path, handler in open_pages.items()),
                *(Route(path, self._logged_in(handler), middleware=secured) for path, handler in pages.items()),
                Route("/web/login", self._login, methods=["POST"], middleware=secured),
                Route("/web/logout", self._logged_in(self._logout), methods=["GET", "POST"], middleware=secured),
            ],
            exception_handlers={StoreFailed: self._store_failed, HTTPException: self._no_page},
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page, or pass it to the application."""
        is_call = scope["type"] != "http" or scope["path"].startswith(PATH_PREFIX)
        await (self._api if is_call else self._app)(scope, receive, send)

    async def _no_page(self, _request: Request, _error: Exception) -> Response:
        return cast("Response", self._api)  # Starlette calls it like a response

    async def _store_failed(self, _request: Request, _error: Exception) -> Response:
        text = "The exchange cannot read its database at the moment. Please try again later."
        return self._page("message.html", None, status=503, title="Not available", text=text)

    def _logged_in(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            session = await self._sessions.current(request)
            return await handler(request, session) if session else RedirectResponse("/", 303)

        return answer

    async def _home(self, request: Request) -> Response:
        if "authorization" in request.headers:  # a program calls an unknown path
            return cast("Response", self._api)
        session = await self._sessions.current(request)
        return await self._overview(request, session) if session else self._login_form(request)

    def _login_form(self, request: Request, *, status: int = 200, message: str = "") -> Response:
        csrf_token = secrets.token_urlsafe(32)
        response = self._page(
            "login.html", None, status=status, message=message, csrf_token=csrf_token, docs_open=self._docs_open
        )
        set_csrf_cookie(request, response, csrf_token)
        return response

    async def _login(self, request: Request) -> Response:
        form = await _form(request)
        if not is_same_site_post(request, form.get("proof", ""), request.cookies.get(CSRF_COOKIE, "")):
            return self._login_form(request, status=400, message="The form has expired. Please try again.")
        response = RedirectResponse("/", 303)
        try:
            if await self._sessions.login(request, form.get("token", "").strip(), response):
                return response
        except TooManyLogins:
            return self._login_form(request, status=429, message="Too many failed logins. Please wait a moment.")
        return self._login_form(request, status=403, message="This token is not authorised.")

    async def _logout(self, request: Request, session: Session) -> Response:
        form = await _form(request)
        response = RedirectResponse("/", 303)
        if is_same_site_post(request, form.get("proof", ""), session.csrf_token):
            await self._sessions.logout(request, response)
        return response

    async def _overview(self, request: Request, session: Session) -> Response:
        party = _party(session)
        refresh = _REFRESH_S if request.query_params.get("wall") else 0
        counts = await self._browser.counts(party)
        tenders, orders = [
            await self._browser.lines(subject, party, rows=_WALL_ROWS if refresh else _OVERVIEW_ROWS)
            for subject in ("tender", "order")
        ]
        problems = [
            call for call, _ in zip(self._calls.latest(party, problems=True), range(_PROBLEM_ROWS), strict=False)
        ]
        return self._page(
            "overview.html", session, counts=counts, tenders=tenders, orders=orders, problems=problems, refresh=refresh
        )

    async def _list(self, request: Request, session: Session) -> Response:
        subject = request.url.path.rpartition("/")[2].removesuffix("s")
        before, after = _number(request, "before"), _number(request, "after")
        party = _party(session)
        lines = await self._browser.lines(subject, party, before=before, after=after)
        return self._page("list.html", session, subject=subject, lines=lines)

    async def _record(self, request: Request, session: Session) -> Response:
        subject = request.url.path.rpartition("/")[2]
        key = request.query_params.get("id", "")
        whole = await self._browser.whole(subject, key, _party(session))
        if whole is None:
            text = f"No {subject} with this identifier exists, or you may not see it."
            return self._page("message.html", session, status=404, title="Not found", text=text)
        record = BY_NAME[f"{subject}.list"].record
        decisions = [quote_summary(item) for item in whole.decisions]
        return self._page(
            f"{subject}.html",
            session,
            number=whole.number,
            overview=overview_of(record, whole.content),
            fields=fields_shown(record, whole.content),
            quotes=[
                (quote := quote_summary(item), [d for d in decisions if d.carrier == quote.carrier])
                for item in whole.quotes
            ],
            without_quote=[
                d for d in decisions if d.carrier not in {quote_summary(quote).carrier for quote in whole.quotes}
            ],
            moments=[status_report(event) for event in reversed(whole.events)],
        )

    async def _latest_calls(self, request: Request, session: Session) -> Response:
        problems = bool(request.query_params.get("problems"))
        page = _number(request, "page") or 1
        calls = list(self._calls.latest(_party(session), problems=problems))
        here = calls[(page - 1) * _CALLS_ROWS : page * _CALLS_ROWS]
        return self._page(
            "calls.html",
            session,
            calls=here,
            problems=problems,
            page=page,
            more=page * _CALLS_ROWS < len(calls),
            kept=CALLS_KEPT,
        )

    async def _search(self, request: Request, session: Session) -> Response:
        text = request.query_params.get("q", "").strip()[:_SEARCH_LENGTH_MAX].replace("\0", "")
        found = await self._browser.search(text, _party(session)) if text else {}
        only = [(subject, line) for subject, lines in found.items() for line in lines if line.overview.key == text]
        if len(only) == 1 and sum(map(len, found.values())) == 1:
            return RedirectResponse(f"/web/{only[0][0]}?{urlencode({'id': text})}", 303)
        return self._page("search.html", session, text=text, found=found)

    async def _docs(self, request: Request) -> Response:
        session = await self._sessions.current(request)
        if not (self._docs_open or session):
            return RedirectResponse("/", 303)
        return self._page(
            "docs.html",
            session,
            chapters=chapters(self._assumptions),
            fixed=fixed_errors(),
            points=open_points(self._assumptions),
            steps=example_steps(),
            docs_open=self._docs_open,
        )

    async def _openapi(self, request: Request) -> Response:
        if self._docs_open or await self._sessions.current(request):
            return Response(self._document, media_type="application/json")
        return RedirectResponse("/", 303)

    def _page(self, template: str, session: Session | None, *, status: int = 200, **values: Any) -> Response:
        text = _environment().get_template(template).render({**values, "session": session})
        return Response(text, status, media_type="text/html")


def _party(session: Session) -> str:
    return key_text(session.caller.party)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form; empty for any other body."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _FORM_BYTES_MAX:
            return {}
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None


async def _static(request: Request) -> Response:
    """A static file of the pages."""
    file = resources.files("loadsheet.exchange") / "templates" / request.url.path.rpartition("/")[2]
    headers = {"cache-control": "max-age=3600"}
    return Response(file.read_bytes(), media_type=_STATIC[request.url.path], headers=headers)


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[[Any], str]] = {
        "json": lambda value: msgspec.json.format(encode(value), indent=2).decode(),  # numbers with all their digits
        "moment": lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S"),
        "tone": _tone,
        "count": "{:,}".format,
        "query": lambda identifier: urlencode({"id": identifier}),
    }
    return templates_of("loadsheet.exchange", filters)


def _tone(status: str) -> str:
    """The colour of a status, guessed from common words, because the interface has no closed list."""
    word = status.strip().lower()
    for tone, stems in _TONES.items():
        if any(word.startswith(stem) for stem in stems):
            return tone
    return "plain"

"""The faces for people: the page of what arrived, behind a login, and the manual with its OpenAPI document.

Owns: paths, forms and headers of these pages, all rendered here on the server: no script, nothing from another host. Everything
else is the application's, with its answers as they are. Changes no record; what is shown of records comes from the contract.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from loadsheet.contract import BY_NAME, Assumptions, example_steps, moment, offer, overview_of, shown
from loadsheet.exchange.browsing import Browser
from loadsheet.exchange.calls import CALLS_KEPT, CallRecorder, Calls
from loadsheet.exchange.effects import key_text
from loadsheet.exchange.manual import chapters, fixed_errors, open_points
from loadsheet.exchange.openapi import document
from loadsheet.exchange.rendering import HEADERS, render, static
from loadsheet.exchange.sessions import FORM_COOKIE, Session, Sessions, TooManyLogins, is_our_form, new_form
from loadsheet.exchange.store import Store, StoreFailed
from loadsheet.exchange.tokens import Doorkeeper
from loadsheet.exchange.wire import encode
from loadsheet.exchange.wrong_tokens import Guesses

OPENAPI_PATH, DOCS_PATH = "/openapi.json", "/docs"

_FORM_BYTES_MAX = 8192
_OVERVIEW_ROWS, _WALL_ROWS, _PROBLEM_ROWS = 8, 6, 5
_CALLS_ROWS = 100
_SEARCH_LENGTH_MAX = 200
_DIGITS_MAX = 9
_REFRESH_S = 30

Handler = Callable[[Request, Session], Awaitable[Response]]


class Faces:
    """The application of the interface with the pages for people in front of it."""

    def __init__(
        self,
        api: ASGIApp,
        *,
        store: Store,
        doorkeeper: Doorkeeper,
        assumptions: Assumptions,
        version: str,
        docs_open: bool = True,
        tls_in_front: bool = False,
        guesses: Guesses | None = None,
        failed_s: float = 1.0,
    ) -> None:
        """`docs_open` shows manual and OpenAPI document to everybody; else they need a login, as the other pages do.

        With `tls_in_front` cookies are sent over TLS alone, although requests reach us without it. `guesses` counts failed logins.
        """
        self._calls = Calls()
        self._api = CallRecorder(api, self._calls)
        self._browser, self._assumptions = Browser(store), assumptions
        self._sessions = Sessions(doorkeeper, store, guesses=guesses, failed_s=failed_s)
        self._docs_open, self._tls_in_front = docs_open, tls_in_front
        self._document = encode(document(assumptions, version))
        self._pages: dict[str, Handler] = {
            "/": self._overview,
            "/web/tenders": self._list,
            "/web/orders": self._list,
            "/web/tender": self._one,
            "/web/order": self._one,
            "/web/calls": self._latest_calls,
            "/web/search": self._search,
            "/web/logout": self._logout,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page, or hand it to the application."""
        if scope["type"] != "http" or not self._is_ours(scope):
            await self._api(scope, receive, send)
            return
        response = await self._respond(Request({**scope, "scheme": "https"} if self._tls_in_front else scope, receive))
        response.headers.update(HEADERS)
        response.headers.setdefault("cache-control", "no-store")
        await response(scope, receive, send)

    def _is_ours(self, scope: Scope) -> bool:
        path, reading = scope["path"], scope["method"] in ("GET", "HEAD")
        if path == "/":  # a call with a token is a program's: to it, / is a path that is no operation
            return reading and not any(name == b"authorization" for name, _ in scope["headers"])
        open_to_reading = path in self._pages or path in (OPENAPI_PATH, DOCS_PATH) or static(path) is not None
        return (reading and open_to_reading) or (scope["method"] == "POST" and path in ("/web/login", "/web/logout"))

    async def _respond(self, request: Request) -> Response:
        path = request.url.path
        if (file := static(path)) is not None:
            content, kind = file
            return Response(content, media_type=kind, headers={"cache-control": "max-age=3600"})
        try:
            if path == "/web/login":
                return await self._login(request)
            session = await self._sessions.current(request)
            if path in (OPENAPI_PATH, DOCS_PATH) and (self._docs_open or session):
                return self._openapi() if path == OPENAPI_PATH else self._docs(session)
            if session is None:
                return self._login_form(request) if path == "/" else RedirectResponse("/", 303)
            return await self._pages[path](request, session)
        except StoreFailed:
            return self._page("message.html", None, status=503, title="Not now", text="The store cannot be read now.")

    def _login_form(self, request: Request, *, status: int = 200, said: str = "") -> Response:
        proof = secrets.token_urlsafe(32)
        response = self._page("login.html", None, status=status, said=said, proof=proof, docs_open=self._docs_open)
        new_form(request, response, proof)
        return response

    async def _login(self, request: Request) -> Response:
        form = await _form(request)
        if not is_our_form(request, form.get("proof", ""), request.cookies.get(FORM_COOKIE, "")):
            return self._login_form(request, status=400, said="The form had expired. Please try again.")
        response = RedirectResponse("/", 303)
        try:
            if await self._sessions.login(request, form.get("token", "").strip(), response):
                return response
        except TooManyLogins:
            return self._login_form(request, status=429, said="Too many logins fail right now. Please wait a little.")
        return self._login_form(request, status=403, said="This token is not authorised.")

    async def _logout(self, request: Request, session: Session) -> Response:
        form = await _form(request)
        response = RedirectResponse("/", 303)
        if is_our_form(request, form.get("proof", ""), session.form):
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
            noted for noted, _ in zip(self._calls.latest(party, problems=True), range(_PROBLEM_ROWS), strict=False)
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

    async def _one(self, request: Request, session: Session) -> Response:
        subject = request.url.path.rpartition("/")[2]
        key = request.query_params.get("id", "")
        whole = await self._browser.whole(subject, key, _party(session))
        if whole is None:
            text = f"There is no {subject} with this identifier that you may see."
            return self._page("message.html", session, status=404, title="Not found", text=text)
        record = BY_NAME[f"{subject}.list"].record
        decisions = [offer(one) for one in whole.decisions]
        return self._page(
            f"{subject}.html",
            session,
            number=whole.number,
            overview=overview_of(record, whole.content),
            fields=shown(record, whole.content),
            quotes=[
                (quote := offer(one), [d for d in decisions if d.carrier == quote.carrier]) for one in whole.quotes
            ],
            lone=[one for one in decisions if one.carrier not in {offer(quote).carrier for quote in whole.quotes}],
            moments=[moment(one) for one in reversed(whole.events)],
        )

    async def _latest_calls(self, request: Request, session: Session) -> Response:
        problems = bool(request.query_params.get("problems"))
        page = _number(request, "page") or 1
        noted = list(self._calls.latest(_party(session), problems=problems))
        here = noted[(page - 1) * _CALLS_ROWS : page * _CALLS_ROWS]
        return self._page(
            "calls.html",
            session,
            calls=here,
            problems=problems,
            page=page,
            more=page * _CALLS_ROWS < len(noted),
            kept=CALLS_KEPT,
        )

    async def _search(self, request: Request, session: Session) -> Response:
        text = request.query_params.get("q", "").strip()[:_SEARCH_LENGTH_MAX].replace("\0", "")
        found = await self._browser.search(text, _party(session)) if text else {}
        only = [(subject, line) for subject, lines in found.items() for line in lines if line.overview.key == text]
        if len(only) == 1 and sum(map(len, found.values())) == 1:
            return RedirectResponse(f"/web/{only[0][0]}?{urlencode({'id': text})}", 303)
        return self._page("search.html", session, text=text, found=found)

    def _docs(self, session: Session | None) -> Response:
        return self._page(
            "docs.html",
            session,
            chapters=chapters(self._assumptions),
            fixed=fixed_errors(),
            points=open_points(self._assumptions),
            steps=example_steps(),
            docs_open=self._docs_open,
        )

    def _openapi(self) -> Response:
        return Response(self._document, media_type="application/json")

    def _page(self, template: str, session: Session | None, *, status: int = 200, **values: Any) -> Response:
        return Response(render(template, {**values, "session": session}), status, media_type="text/html")


def _party(session: Session) -> str:
    return key_text(session.caller.party)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small posted form; empty for anything else."""
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

"""Sessions of the pages: a token opens a session, a cookie carries it, and it expires.

Owns: sessions (in the database, by the hash of their cookie, shared by all processes on it), cookies, the CSRF proof of forms, and
the delay of failed logins. Knows no page. Stores only a mark of the token.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select
from starlette.requests import Request
from starlette.responses import Response

from loadsheet.exchange.store import Store
from loadsheet.exchange.store.schema import SESSIONS
from loadsheet.exchange.tokens import Authenticator, Caller, WrongTokenLimit

SESSION_S = 8 * 3600
FORM_S = 3600
FAILED_S = 1.0  # duration of every failed login, whatever the reason
SESSION_COOKIE = "loadsheet_session"
FORM_COOKIE = "loadsheet_form"
SESSIONS_MAX = 1000  # beyond it, the session that ends first is dropped


class OpenSession(NamedTuple):
    """A stored session: hash of its cookie, mark of its token, proof of its forms, end (seconds since 1970, UTC)."""

    name: str
    mark: str
    form: str
    ends: int


class Session(NamedTuple):
    """An open session: its caller, and the proof in its forms."""

    caller: Caller
    form: str


class TooManyLogins(Exception):
    """Too many logins failed from the same address or with the same token."""


class Sessions:
    """The open sessions of a store. All methods raise StoreFailed. `clock` returns seconds since 1970, UTC."""

    def __init__(
        self,
        authenticator: Authenticator,
        store: Store,
        *,
        wrong_tokens: WrongTokenLimit | None = None,
        failed_s: float = FAILED_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._authenticator, self.store = authenticator, store
        self._failed_s, self._clock = failed_s, clock
        self._wrong_tokens = wrong_tokens or WrongTokenLimit()

    async def current(self, request: Request) -> Session | None:
        """The session of the request's cookie, if it is open and its token still valid."""
        cookie = request.cookies.get(SESSION_COOKIE, "")
        if not cookie:
            return None
        kept = await self.store.read(partial(find_session, name=_hashed(cookie)))
        if kept is None or kept.ends <= self._clock():
            return None
        caller = await self._authenticator.holder(kept.mark, cookie)
        return Session(caller, kept.form) if caller else None

    async def login(self, request: Request, token: str, response: Response) -> bool:
        """Open a session for a valid token and set its cookie in the response; False for an invalid one, after a delay.

        A valid token is always accepted, even after many wrong ones. Raises TooManyLogins.
        """
        started = time.monotonic()
        if await self._authenticator.caller(token) is None:
            if not await self._wrong_tokens.held_back(request.client, token):
                raise TooManyLogins
            await asyncio.sleep(max(0.0, started + self._failed_s - time.monotonic()))
            return False
        cookie, now = secrets.token_urlsafe(32), int(self._clock())
        mark = self._authenticator.mark_of(token, cookie)
        opened = OpenSession(_hashed(cookie), mark, secrets.token_urlsafe(32), now + SESSION_S)
        await self.store.change(partial(add_session, session=opened, now=now))
        _set(request, response, SESSION_COOKIE, cookie, SESSION_S)
        _drop(request, response, FORM_COOKIE)
        return True

    async def logout(self, request: Request, response: Response) -> None:
        """Close the request's session in all processes and delete its cookie."""
        name = _hashed(request.cookies.get(SESSION_COOKIE, ""))
        await self.store.change(partial(remove_session, name=name))
        _drop(request, response, SESSION_COOKIE)


def new_form(request: Request, response: Response, proof: str) -> None:
    """Bind the login form that carries `proof` to this browser."""
    _set(request, response, FORM_COOKIE, proof, FORM_S)


def is_our_form(request: Request, proof: str, expected: str) -> bool:
    """Whether a form was sent from our own page, by its proof and by the origin that the browser reports."""
    origin = request.headers.get("origin")
    ours = origin is None or origin.partition("://")[2] == request.headers.get("host")
    site = request.headers.get("sec-fetch-site", "same-origin")
    return bool(expected) and ours and site == "same-origin" and hmac.compare_digest(_hashed(proof), _hashed(expected))


def find_session(connection: Connection, name: str) -> OpenSession | None:
    """The session with this name, even if it has expired."""
    row = connection.execute(select(SESSIONS).where(SESSIONS.c.name == name)).one_or_none()
    return None if row is None else OpenSession(*row)


def add_session(connection: Connection, session: OpenSession, now: int) -> None:
    """Store a session; delete expired ones, and those that end first if there are too many."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.ends <= now))
    held = connection.scalar(select(func.count()).select_from(SESSIONS)) or 0
    if held >= SESSIONS_MAX:
        first = select(SESSIONS.c.name).order_by(SESSIONS.c.ends).limit(held - SESSIONS_MAX + 1)
        connection.execute(delete(SESSIONS).where(SESSIONS.c.name.in_(first)))
    connection.execute(insert(SESSIONS), session._asdict())


def remove_session(connection: Connection, name: str) -> None:
    """Delete a session."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.name == name))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _set(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        name, value, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )


def _drop(request: Request, response: Response, name: str) -> None:
    response.delete_cookie(name, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/")

"""Who is looking: a token opens a session, a cookie carries it, and it ends by itself.

Owns: sessions (in the database, by the hash of their cookie, so that all processes on it know them), cookies, the proof that a
form is ours, and the pace of failed logins. Knows no page. Of a token only its mark is kept.
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
FAILED_S = 1.0  # every failed login takes so long, whatever was wrong with it
SESSION_COOKIE = "loadsheet_session"
FORM_COOKIE = "loadsheet_form"
SESSIONS_MAX = 1000  # with one more the one that ends first goes


class OpenSession(NamedTuple):
    """A session as it is kept: hash of its cookie, mark of its token, proof of its forms, end (seconds since 1970, UTC)."""

    name: str
    mark: str
    form: str
    ends: int


class Session(NamedTuple):
    """An open session: whose it is, and the proof that its own forms carry."""

    caller: Caller
    form: str


class TooManyLogins(Exception):
    """The token is wrong, and so were too many before it, from the same address or with the same token."""


class Sessions:
    """The open sessions of a store. All verbs raise StoreFailed. `clock` gives seconds since 1970, UTC."""

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
        """The session that the request's cookie names, if it is open and its token still good."""
        cookie = request.cookies.get(SESSION_COOKIE, "")
        if not cookie:
            return None
        kept = await self.store.read(partial(find_session, name=_hashed(cookie)))
        if kept is None or kept.ends <= self._clock():
            return None
        caller = await self._authenticator.holder(kept.mark, cookie)
        return Session(caller, kept.form) if caller else None

    async def login(self, request: Request, token: str, response: Response) -> bool:
        """Open a session for a good token and put its cookie into the response; False for any other, after a while.

        A good token is never turned away, however many wrong ones come. Raises TooManyLogins.
        """
        came = time.monotonic()
        if await self._authenticator.caller(token) is None:
            if not await self._wrong_tokens.held_back(request.client, token):
                raise TooManyLogins
            await asyncio.sleep(max(0.0, came + self._failed_s - time.monotonic()))
            return False
        cookie, now = secrets.token_urlsafe(32), int(self._clock())
        mark = self._authenticator.mark_of(token, cookie)
        opened = OpenSession(_hashed(cookie), mark, secrets.token_urlsafe(32), now + SESSION_S)
        await self.store.change(partial(add_session, session=opened, now=now))
        _set(request, response, SESSION_COOKIE, cookie, SESSION_S)
        _drop(request, response, FORM_COOKIE)
        return True

    async def logout(self, request: Request, response: Response) -> None:
        """Close the request's session, at all processes, and take its cookie back."""
        name = _hashed(request.cookies.get(SESSION_COOKIE, ""))
        await self.store.change(partial(remove_session, name=name))
        _drop(request, response, SESSION_COOKIE)


def new_form(request: Request, response: Response, proof: str) -> None:
    """Bind the login form that carries `proof` to this browser."""
    _set(request, response, FORM_COOKIE, proof, FORM_S)


def is_our_form(request: Request, proof: str, expected: str) -> bool:
    """Whether a posted form was sent from our own page: by its proof, and by what the browser says of its origin."""
    origin = request.headers.get("origin")
    ours = origin is None or origin.partition("://")[2] == request.headers.get("host")
    site = request.headers.get("sec-fetch-site", "same-origin")
    return bool(expected) and ours and site == "same-origin" and hmac.compare_digest(_hashed(proof), _hashed(expected))


def find_session(connection: Connection, name: str) -> OpenSession | None:
    """The session of this name, also if its time is over."""
    row = connection.execute(select(SESSIONS).where(SESSIONS.c.name == name)).one_or_none()
    return None if row is None else OpenSession(*row)


def add_session(connection: Connection, session: OpenSession, now: int) -> None:
    """Keep a session; those that are over by `now` go, and the one that ends first if there are too many."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.ends <= now))
    held = connection.scalar(select(func.count()).select_from(SESSIONS)) or 0
    if held >= SESSIONS_MAX:
        first = select(SESSIONS.c.name).order_by(SESSIONS.c.ends).limit(held - SESSIONS_MAX + 1)
        connection.execute(delete(SESSIONS).where(SESSIONS.c.name.in_(first)))
    connection.execute(insert(SESSIONS), session._asdict())


def remove_session(connection: Connection, name: str) -> None:
    """Forget a session."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.name == name))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _set(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        name, value, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )


def _drop(request: Request, response: Response, name: str) -> None:
    response.delete_cookie(name, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/")

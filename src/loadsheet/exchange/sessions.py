"""Who is looking: a token opens a session, a cookie carries it, and it ends by itself.

Owns: sessions (in this process's memory, by the hash of their name), cookies, the proof that a form is ours, and the pace of
failed logins. Knows no page. Of a token only the digest is kept.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from loadsheet.exchange.tokens import Caller, Doorkeeper, Token, digest_of, utc_now

SESSION_S = 8 * 3600
FORM_S = 3600
FAILED_S = 1.0  # every failed login takes so long, whatever was wrong with it
WAITING_MAX = 16  # failed logins that wait at the same time; more are turned away at once
SESSIONS_MAX = 1000
SESSION_COOKIE = "loadsheet_session"
FORM_COOKIE = "loadsheet_form"


Find = Callable[[str], Awaitable[Token | None]]


class Session(NamedTuple):
    """An open session: whose it is, the proof that its own forms carry, and when it ends; `digest` is that of its token."""

    caller: Caller
    form: str
    ends: float
    digest: str


class TooManyLogins(Exception):  # noqa: N818 (named for what happened)
    """So many logins fail at this moment that no more are looked at."""


class Sessions:
    """The open sessions of this process. `clock` gives seconds that only rise."""

    def __init__(
        self,
        doorkeeper: Doorkeeper,
        find: Find,
        *,
        failed_s: float = FAILED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`find` looks the digest of a token up, to see whether it is still good."""
        self._doorkeeper, self._find = doorkeeper, find
        self._failed_s, self._clock = failed_s, clock
        self._open: dict[bytes, Session] = {}
        self._waiting = 0

    async def current(self, request: Request) -> Session | None:
        """The session that the request's cookie names, if it is open and its token still good. Raises what `find` raises."""
        name = _hashed(request.cookies.get(SESSION_COOKIE, ""))
        session = self._open.get(name)
        if session is None:
            return None
        token = await self._find(session.digest)  # None: the operator's own, which lives as long as this process
        if session.ends <= self._clock() or (token is not None and token.state(utc_now()) != "usable"):
            self._open.pop(name, None)
            return None
        return session

    async def login(self, request: Request, token: str, response: Response) -> bool:
        """Open a session for a good token and put its cookie into the response; False for any other, after a while.

        Raises TooManyLogins, and what the doorkeeper raises.
        """
        if self._waiting >= WAITING_MAX:
            raise TooManyLogins
        came = self._clock()
        self._waiting += 1
        try:
            caller = await self._doorkeeper.caller(token)
            if caller is None:
                await asyncio.sleep(max(0.0, came + self._failed_s - self._clock()))
                return False
        finally:
            self._waiting -= 1
        name = secrets.token_urlsafe(32)
        self._open[_hashed(name)] = Session(
            caller, secrets.token_urlsafe(32), self._clock() + SESSION_S, digest_of(token)
        )
        while len(self._open) > SESSIONS_MAX:
            del self._open[next(iter(self._open))]
        _set(request, response, SESSION_COOKIE, name, SESSION_S)
        _drop(request, response, FORM_COOKIE)
        return True

    def logout(self, request: Request, response: Response) -> None:
        """Close the request's session and take its cookie back."""
        self._open.pop(_hashed(request.cookies.get(SESSION_COOKIE, "")), None)
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


def _hashed(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _set(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        name, value, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )


def _drop(request: Request, response: Response, name: str) -> None:
    response.delete_cookie(name, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/")

"""Who may call the exchange: tokens of parties and operators, the delay of wrong tokens, and the sessions of the pages.

Owns: how tokens are made, hashed, stored and compared, when they are usable, and the authentication. The text of a token is neither
stored nor logged.

Refusals of wrong tokens are rate-limited for each address and for each wrong token: further ones are delayed, then answered 429.
They are counted in this process, for calls and logins together. A valid token is always served at once, whatever else its address
sends; only refusals are delayed.

A token opens a session of the pages, and a cookie carries it until it expires. Sessions are stored by the hash of their cookie, and
shared by all processes on a database.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError
from starlette.requests import Request
from starlette.responses import Response

from loadsheet.errors import SettingsError
from loadsheet.exchange.database import COUNTERS, SESSIONS, TOKENS, open_engine
from loadsheet.exchange.record_store import Store, lock_counts

Clock = Callable[[], datetime]

REMEMBERED_S = 1.0  # cache time of a valid token: a revoked one works at most this much longer

PER_SECOND = 10.0
WAIT_MAX_S = 2.0  # longest delay of a refusal; beyond it the answer is an immediate 429, which frees the connection
KEYS_MAX = 10_000  # addresses (and tokens) with their own count; beyond it the least recently used one is dropped
_BURST_S = 1.0
_NETWORK_BYTES = 8  # network part of an IPv6 address: its owner has all addresses of the network
_SECRET_BYTES = 32
_PREFIX = "lsx_"  # lets scanners for leaked secrets recognise a token

SESSION_S = 8 * 3600
FORM_S = 3600
FAILED_S = 1.0  # duration of every failed login, whatever the reason
SESSION_COOKIE = "loadsheet_session"
CSRF_COOKIE = "loadsheet_form"
SESSIONS_MAX = 1000  # beyond it, the session that ends first is dropped

_BUSY_TIMEOUT_S = 10.0
_YEARS_MAX = 100
_MOMENTS = ("created", "expires", "revoked")  # the columns of a token that hold moments


def utc_now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the exchange stores it. `party` is empty for an operator. Times are aware, in UTC."""

    number: int
    name: str
    digest: str
    party: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None

    def state(self, now: datetime) -> str:
        """Its state: `usable`, `expired` or `revoked`."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and self.expires <= now else "usable"


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: the party (empty for an operator) and the name of the token."""

    party: str
    name: str


_OPERATOR = Caller("", "operator")


class Authenticator:
    """Identifies callers by token: the operator's own, given at the start, and those in the database."""

    def __init__(self, operator_token: str | None, store: Store, clock: Clock | None = None) -> None:
        """`clock` decides when tokens expire."""
        self._operator = operator_token and digest_of(operator_token)
        self.store, self._clock = store, clock or utc_now
        self._seen: dict[str, tuple[Token, float]] = {}

    def mark_of(self, secret: str, salt: str) -> str:
        """The value to store for recognising a valid token: its digest. The operator's own token may be guessable from its digest,
        because people choose it. So its digest is mixed with `salt`, which must not be stored with it.
        """
        digest = digest_of(secret)
        return _mixed(digest, salt) if self._is_operator(digest) else digest

    async def holder(self, mark: str, salt: str) -> Caller | None:
        """The caller for the token with this mark; None if it is no longer valid. Raises StoreFailed."""
        if self._operator and hmac.compare_digest(mark, _mixed(self._operator, salt)):
            return _OPERATOR
        token = await self.store.read(partial(find_token, digest=mark))
        return Caller(token.party, token.name) if token and token.state(self._clock()) == "usable" else None

    async def caller(self, secret: str) -> Caller | None:
        """The caller for this token; None if it is unknown, expired or revoked. Raises StoreFailed."""
        digest = digest_of(secret)
        if self._is_operator(digest):
            return _OPERATOR
        token, until = self._seen.get(digest, (None, 0.0))
        if token is None or until < time.monotonic():
            self._seen.pop(digest, None)
            token = await self.store.read(partial(find_token, digest=digest))
            if token is None or not hmac.compare_digest(digest, token.digest):
                return None
            self._seen[digest] = (token, time.monotonic() + REMEMBERED_S)
        return Caller(token.party, token.name) if token.state(self._clock()) == "usable" else None

    def _is_operator(self, digest: str) -> bool:
        return bool(self._operator) and hmac.compare_digest(digest, str(self._operator))


class LeakyBuckets:
    """A leaky bucket for each key: `per_second` requests pass, a second's worth of them (at least one) at once, others wait.

    Requests that would wait longer than `wait_max_s` are not counted. `clock` returns seconds.
    """

    def __init__(self, per_second: float, wait_max_s: float, clock: Callable[[], float]) -> None:
        self._step = 1 / per_second
        self._wait_max_s, self._clock = wait_max_s, clock
        self._empty_at: OrderedDict[bytes | str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._empty_at)

    def wait(self, key: bytes | str) -> float:
        """Seconds that the next request waits, 0 if it passes at once. It is counted unless it waits longer than `wait_max_s`."""
        now = self._clock()
        empty_at = max(self._empty_at.pop(key, 0.0), now) + self._step
        wait = max(round(empty_at - now - max(_BURST_S, self._step), 6), 0.0)
        self._empty_at[key] = empty_at if wait <= self._wait_max_s else empty_at - self._step
        if len(self._empty_at) > KEYS_MAX:
            self._empty_at.popitem(last=False)
        return wait


class WrongTokenLimit:
    """The rate limit of refusals: `per_second` for each address and for each token, a second's worth at once (0: no limit).

    `clock` returns seconds.
    """

    def __init__(self, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._wait_max_s = max(WAIT_MAX_S, 1 / per_second) if per_second else 0.0
        if per_second:
            self._addresses, self._tokens = (LeakyBuckets(per_second, self._wait_max_s, clock) for _ in range(2))

    async def delay_refusal(self, client: Sequence[object] | None, token: str) -> bool:
        """Delay the refusal of this wrong token for this client (address and port); False at once if the delay would be too long."""
        wait = self.wait(str(client[0]) if client else "", token) if self._per_second else 0.0
        if wait is None:
            return False
        if wait > 0:
            await asyncio.sleep(wait)
        return True

    def wait(self, address: str, token: str = "") -> float | None:
        """Count the next refusal of this token at this address and return its delay in seconds; None for more than `WAIT_MAX_S`.

        Empty addresses and tokens are not counted.
        """
        keys = ((self._addresses, _network(address)), (self._tokens, digest_of(token) if token else ""))
        longest = max((buckets.wait(key) for buckets, key in keys if key), default=0.0)
        return longest if longest <= self._wait_max_s else None

    def refusal_text(self) -> str:
        """The text of the 429."""
        return f"more than {self._per_second:g} calls per second with tokens that are not authorised; try again later"


class TokenAdmin:
    """The tokens of a database, open within a `with` block. Running exchanges see every change.

    Raises SettingsError for a database that cannot be used.
    """

    def __init__(self, database_url: str, clock: Clock = utc_now) -> None:
        self._engine = open_engine(database_url, _BUSY_TIMEOUT_S)
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()

    def add(self, party: str, *, name: str = "", expires_days: int | None = None) -> tuple[Token, str]:
        """A new token for a party (empty: an operator) and its secret, which is returned only here.

        `name` identifies the token (empty: made from party and number). Raises SettingsError for a name that is taken.
        """
        now = self._now()
        if expires_days is not None and not 0 < expires_days <= _YEARS_MAX * 366:
            raise SettingsError(f"token: it cannot expire in {expires_days} days. Give 1 day to {_YEARS_MAX} years")
        if any(not text.isprintable() or text != text.strip() for text in (party, name)):
            raise SettingsError("token: party and name must not contain control characters or surrounding spaces")
        expires = None if expires_days is None else now + timedelta(days=expires_days)
        secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        with self._transaction(writes=True) as connection:
            number = lock_counts(connection)[TOKENS.name].last + 1
            token = Token(number, name or f"{party or 'operator'}-{number}", digest_of(secret), party, now, expires)
            if token.name.isdigit() or connection.scalar(select(TOKENS.c.number).where(TOKENS.c.name == token.name)):
                raise SettingsError(f"token: the name {token.name!r} is taken or a number. Choose another name")
            row = {
                key: value and value.isoformat() if key in _MOMENTS else value for key, value in asdict(token).items()
            }
            connection.execute(insert(TOKENS), row)
            connection.execute(update(COUNTERS).where(COUNTERS.c.name == TOKENS.name).values(last=number))
        return token, secret

    def all(self) -> Sequence[Token]:
        """All tokens, oldest first."""
        with self._transaction() as connection:
            return all_tokens(connection)

    def revoke(self, name_or_number: str) -> Token:
        """Make a token unusable for good. Raises SettingsError if no token has this name or number."""
        token = next((each for each in self.all() if name_or_number in (each.name, str(each.number))), None)
        if token is None:
            raise SettingsError(
                f"token: {name_or_number!r} does not exist. `loadsheet exchange token list` shows all tokens"
            )
        if token.revoked:
            return token
        now = self._now()
        with self._transaction(writes=True) as connection:
            connection.execute(update(TOKENS).where(TOKENS.c.number == token.number).values(revoked=now.isoformat()))
        return replace(token, revoked=now)

    def _now(self) -> datetime:
        return self._clock().replace(microsecond=0)

    @contextmanager
    def _transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        try:
            with self._engine.connect().execution_options(writes=writes) as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            raise SettingsError(f"database: it is not available ({error.orig})") from error


def find_token(connection: Connection, digest: str) -> Token | None:
    """The token with this digest, usable or not."""
    row = connection.execute(select(TOKENS).where(TOKENS.c.digest == digest)).one_or_none()
    return None if row is None else _token(row)


def all_tokens(connection: Connection) -> Sequence[Token]:
    """All tokens, oldest first."""
    return [_token(row) for row in connection.execute(select(TOKENS).order_by(TOKENS.c.number))]


def _token(row: Row[Any]) -> Token:
    values = row._asdict()
    return Token(**values | {key: values[key] and datetime.fromisoformat(values[key]) for key in _MOMENTS})


class OpenSession(NamedTuple):
    """A stored session: hash of its cookie, mark of its token, the CSRF token of its forms, end (seconds since 1970, UTC)."""

    name: str
    mark: str
    csrf_token: str
    ends: int


class Session(NamedTuple):
    """An open session: its caller, and the CSRF token in its forms."""

    caller: Caller
    csrf_token: str


class TooManyLogins(Exception):
    """Too many logins failed from the same address or with the same token."""


class Sessions:
    """The open sessions of a store. All methods raise StoreFailed. `clock` returns seconds since 1970, UTC."""

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        wrong_tokens: WrongTokenLimit | None = None,
        failed_s: float = FAILED_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._authenticator, self.store = authenticator, authenticator.store
        self._failed_s, self._clock = failed_s, clock
        self._wrong_tokens = wrong_tokens or WrongTokenLimit()

    async def current(self, request: Request) -> Session | None:
        """The session of the request's cookie, if it is open and its token still valid."""
        cookie = request.cookies.get(SESSION_COOKIE, "")
        if not cookie:
            return None
        kept = await self.store.read(partial(find_session, name=digest_of(cookie)))
        if kept is None or kept.ends <= self._clock():
            return None
        caller = await self._authenticator.holder(kept.mark, cookie)
        return Session(caller, kept.csrf_token) if caller else None

    async def login(self, request: Request, token: str, response: Response) -> bool:
        """Open a session for a valid token and set its cookie in the response; False for an invalid one, after a delay.

        A valid token is always accepted, even after many wrong ones. Raises TooManyLogins.
        """
        started = time.monotonic()
        if await self._authenticator.caller(token) is None:
            if not await self._wrong_tokens.delay_refusal(request.client, token):
                raise TooManyLogins
            await asyncio.sleep(max(0.0, started + self._failed_s - time.monotonic()))
            return False
        cookie, now = secrets.token_urlsafe(32), int(self._clock())
        mark = self._authenticator.mark_of(token, cookie)
        opened = OpenSession(digest_of(cookie), mark, secrets.token_urlsafe(32), now + SESSION_S)
        await self.store.change(partial(add_session, session=opened, now=now))
        _set(request, response, SESSION_COOKIE, cookie, SESSION_S)
        _drop(request, response, CSRF_COOKIE)
        return True

    async def logout(self, request: Request, response: Response) -> None:
        """Close the request's session in all processes and delete its cookie."""
        name = digest_of(request.cookies.get(SESSION_COOKIE, ""))
        await self.store.change(partial(remove_session, name=name))
        _drop(request, response, SESSION_COOKIE)


def set_csrf_cookie(request: Request, response: Response, token: str) -> None:
    """Bind the login form that carries this CSRF token to this browser."""
    _set(request, response, CSRF_COOKIE, token, FORM_S)


def is_same_site_post(request: Request, token: str, expected: str) -> bool:
    """Whether a form was sent from our own page, by its CSRF token and by the origin that the browser reports."""
    origin = request.headers.get("origin")
    ours = origin is None or origin.partition("://")[2] == request.headers.get("host")
    site = request.headers.get("sec-fetch-site", "same-origin")
    return (
        bool(expected) and ours and site == "same-origin" and hmac.compare_digest(digest_of(token), digest_of(expected))
    )


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
    connection.execute(insert(SESSIONS).values(tuple(session)))


def remove_session(connection: Connection, name: str) -> None:
    """Delete a session."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.name == name))


def _set(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    response.set_cookie(
        name, value, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
    )


def _drop(request: Request, response: Response, name: str) -> None:
    response.delete_cookie(name, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/")


def digest_of(secret: str) -> str:
    """SHA-256 of a token or cookie in hex. They have enough entropy that neither salt nor a slow hash is needed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _mixed(digest: str, salt: str) -> str:
    return hmac.new(salt.encode("utf-8", "surrogatepass"), digest.encode(), hashlib.sha256).hexdigest()


def _network(address: str) -> bytes | str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # a socket file
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return parsed.ipv4_mapped.packed if parsed.ipv4_mapped else parsed.packed[:_NETWORK_BYTES]
    return parsed.packed

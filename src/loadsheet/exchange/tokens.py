"""Tokens: who may call the exchange, as a party or as an operator, and the delay of wrong tokens.

Owns: how tokens are made, hashed and compared, when they are usable, and the authentication. Knows no SQL and no operation. The
text of a token is neither stored nor logged.

Refusals of wrong tokens are rate-limited for each address and for each wrong token: further ones are delayed, then answered 429.
They are counted in this process, for calls and logins together. A valid token is always served at once, whatever else its address
sends; only refusals are delayed.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

Clock = Callable[[], datetime]

REMEMBERED_S = 1.0  # cache time of a valid token: a revoked one works at most this much longer

PER_SECOND = 10.0
WAIT_MAX_S = 2.0  # longest delay of a refusal; beyond it the answer is an immediate 429, which frees the connection
KEYS_MAX = 10_000  # addresses (and tokens) with their own count; beyond it the least recently used one is dropped
_BURST_S = 1.0
_NETWORK_BYTES = 8  # network part of an IPv6 address: its owner has all addresses of the network
_SECRET_BYTES = 32
_PREFIX = "lsx_"  # lets scanners for leaked secrets recognise a token


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

    def as_revoked(self, now: datetime) -> "Token":
        """The same token, revoked."""
        return replace(self, revoked=now)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: the party (empty for an operator) and the name of the token."""

    party: str
    name: str


_OPERATOR = Caller("", "operator")


class Authenticator:
    """Identifies callers by token: the operator's own, given at the start, and those in the database."""

    def __init__(
        self, operator_token: str | None, find: Callable[[str], Awaitable[Token | None]], clock: Clock | None = None
    ) -> None:
        """`find` looks up a digest in the database; `clock` decides when tokens expire."""
        self._operator = operator_token and digest_of(operator_token)
        self._find, self._clock = find, clock or utc_now
        self._seen: dict[str, tuple[Token, float]] = {}

    def mark_of(self, secret: str, salt: str) -> str:
        """The value to store for recognising a valid token: its digest. The operator's own token may be guessable from its digest,
        because people choose it. So its digest is mixed with `salt`, which must not be stored with it.
        """
        digest = digest_of(secret)
        return _mixed(digest, salt) if self._is_operator(digest) else digest

    async def holder(self, mark: str, salt: str) -> Caller | None:
        """The caller for the token with this mark; None if it is no longer valid. Raises the exceptions of `find`."""
        if self._operator and hmac.compare_digest(mark, _mixed(self._operator, salt)):
            return _OPERATOR
        token = await self._find(mark)
        return Caller(token.party, token.name) if token and token.state(self._clock()) == "usable" else None

    async def caller(self, secret: str) -> Caller | None:
        """The caller for this token; None if it is unknown, expired or revoked. Raises the exceptions of `find`."""
        digest = digest_of(secret)
        if self._is_operator(digest):
            return _OPERATOR
        token, until = self._seen.get(digest, (None, 0.0))
        if token is None or until < time.monotonic():
            self._seen.pop(digest, None)
            token = await self._find(digest)
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

    async def held_back(self, client: Sequence[object] | None, token: str) -> bool:
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


def utc_now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def new_secret() -> str:
    """A new token: 256 random bits in characters that are valid in headers."""
    return _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(secret: str) -> str:
    """SHA-256 in hex. Tokens have enough entropy that neither salt nor a slow hash is needed."""
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

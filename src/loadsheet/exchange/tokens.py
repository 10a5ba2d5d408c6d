"""Tokens: who may call the exchange, as a party or as an operator, and what wrong tokens cost.

Owns: how tokens are made, hashed, compared, and when one is usable; the gate before the application. Knows no SQL and no
operation. A token's text is kept nowhere: neither in the database nor in a log.

Wrong tokens cost time: one address, and one wrong token, gets so many refusals a second, further ones later, then a 429. They are
counted in this process, for calls and logins together. A good token is looked up and served at once, whatever else its address
sends: only the answer that says no is held back.
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

REMEMBERED_S = 1.0  # a token that was good is good for so long again: the longest that a revoked one goes on working

PER_SECOND = 10.0
WAIT_MAX_S = 2.0  # longer than this no refusal is held back: then it is a 429, and the connection is free at once
KEYS_MAX = (
    10_000  # so many addresses (and tokens) have a count of their own; beyond it the longest unused one begins anew
)
_BURST_S = 1.0
_NETWORK_BYTES = 8  # of an IPv6 address: whoever has one has all that share these
_SECRET_BYTES = 32
_PREFIX = "lsx_"  # lets scanners for leaked secrets recognise a token


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the exchange keeps it. `party` is empty for an operator's. Moments are aware, in UTC."""

    number: int
    name: str
    digest: str
    party: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None

    def state(self, now: datetime) -> str:
        """What can be done with it: `usable`, `expired` or `revoked`."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires and self.expires <= now else "usable"

    def as_revoked(self, now: datetime) -> "Token":
        """The same token, revoked."""
        return replace(self, revoked=now)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: the party, empty for an operator, and the name of the token."""

    party: str
    name: str


_OPERATOR = Caller("", "operator")


class Authenticator:
    """Knows callers by their tokens: the operator's own, given at the start, and those that the database holds."""

    def __init__(
        self, operator_token: str | None, find: Callable[[str], Awaitable[Token | None]], clock: Clock | None = None
    ) -> None:
        """`find` looks a digest up in the database; `clock` tells when tokens expire."""
        self._operator = operator_token and digest_of(operator_token)
        self._find, self._clock = find, clock or utc_now
        self._seen: dict[str, tuple[Token, float]] = {}

    def mark_of(self, secret: str, salt: str) -> str:
        """What may stand in the database to know a good token's holder again: its digest. Of the operator's own, which people
        choose and others could guess from its digest, only a mixture with `salt`, which must not be kept beside it.
        """
        digest = digest_of(secret)
        return _mixed(digest, salt) if self._is_operator(digest) else digest

    async def holder(self, mark: str, salt: str) -> Caller | None:
        """Who holds the token with this mark now; None if it is no longer good. Raises what `find` raises."""
        if self._operator and hmac.compare_digest(mark, _mixed(self._operator, salt)):
            return _OPERATOR
        token = await self._find(mark)
        return Caller(token.party, token.name) if token and token.state(self._clock()) == "usable" else None

    async def caller(self, secret: str) -> Caller | None:
        """Who holds this token; None if it is unknown, expired or revoked. Raises what `find` raises."""
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
    """A leaky bucket for each key: so many a second pass, a second's worth of them (at least one) at once, further ones wait.

    One that would wait for longer than `wait_max_s` does not count. `clock` gives seconds.
    """

    def __init__(self, per_second: float, wait_max_s: float, clock: Callable[[], float]) -> None:
        self._step = 1 / per_second
        self._wait_max_s, self._clock = wait_max_s, clock
        self._empty_at: OrderedDict[bytes | str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._empty_at)

    def wait(self, key: bytes | str) -> float:
        """Seconds that the next one waits, 0 if it passes at once; it is counted unless that is longer than `wait_max_s`."""
        now = self._clock()
        empty_at = max(self._empty_at.pop(key, 0.0), now) + self._step
        wait = max(round(empty_at - now - max(_BURST_S, self._step), 6), 0.0)
        self._empty_at[key] = empty_at if wait <= self._wait_max_s else empty_at - self._step
        if len(self._empty_at) > KEYS_MAX:
            self._empty_at.popitem(last=False)
        return wait


class WrongTokenLimit:
    """The pace of refused tokens: `per_second` of them for each address and for each token, a second's worth at once (0: no limit).

    `clock` gives seconds.
    """

    def __init__(self, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._wait_max_s = max(WAIT_MAX_S, 1 / per_second) if per_second else 0.0
        if per_second:
            self._addresses, self._tokens = (LeakyBuckets(per_second, self._wait_max_s, clock) for _ in range(2))

    async def held_back(self, client: Sequence[object] | None, token: str) -> bool:
        """Wait as long as this wrong token of this client (address and port) costs; false at once if that would be too long."""
        wait = self.wait(str(client[0]) if client else "", token) if self._per_second else 0.0
        if wait is None:
            return False
        if wait > 0:
            await asyncio.sleep(wait)
        return True

    def wait(self, address: str, token: str = "") -> float | None:
        """Seconds that the next refusal of this token at this address waits, and counts it; None for more than `WAIT_MAX_S`.

        An empty address or token has no count.
        """
        keys = ((self._addresses, _network(address)), (self._tokens, digest_of(token) if token else ""))
        longest = max((buckets.wait(key) for buckets, key in keys if key), default=0.0)
        return longest if longest <= self._wait_max_s else None

    def refusal_text(self) -> str:
        """The text of the 429."""
        return f"more than {self._per_second:g} calls a second with tokens that are not authorised; try again later"


def utc_now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def new_secret() -> str:
    """A new token: 256 random bits in letters that every header carries."""
    return _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(secret: str) -> str:
    """SHA-256 in hex. The token has more entropy than the digest could lose, so neither salt nor a slow hash is needed."""
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

"""Tokens: who may call the exchange, as a party or as an operator, and how a request shows it.

Owns: how tokens are made, hashed, compared, and when one is usable; the gate before the application. Knows no SQL and no
operation. A token's text is kept nowhere: neither in the database nor in a log.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

Clock = Callable[[], datetime]

REMEMBERED_S = 1.0  # a token that was good is good for so long again: the longest that a revoked one goes on working

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


class Doorkeeper:
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

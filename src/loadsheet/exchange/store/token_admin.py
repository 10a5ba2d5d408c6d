"""Tokens in the database: the exchange looks them up, and commands add and revoke them while it runs.

Owns: the statements that read and change tokens, and the conversion of a row to a `Token`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import DBAPIError

from loadsheet.exchange.store.opening import open_engine
from loadsheet.exchange.store.schema import COUNTERS, TOKENS
from loadsheet.exchange.store.transactions import lock_counts
from loadsheet.exchange.tokens import Clock, Token, digest_of, new_secret, utc_now
from loadsheet.problems import SettingsError

_BUSY_TIMEOUT_S = 10.0
_YEARS_MAX = 100


class TokenOffice:
    """The tokens of a database, open within a `with` block. Raises SettingsError for a database that cannot be used."""

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
        secret = new_secret()
        try:
            with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                number = lock_counts(connection)[TOKENS.name].last + 1
                token = Token(number, name or f"{party or 'operator'}-{number}", digest_of(secret), party, now, expires)
                if token.name.isdigit() or connection.scalar(
                    select(TOKENS.c.number).where(TOKENS.c.name == token.name)
                ):
                    raise SettingsError(f"token: the name {token.name!r} is taken or a number. Choose another name")
                connection.execute(insert(TOKENS), _row(token))
                connection.execute(update(COUNTERS).where(COUNTERS.c.name == TOKENS.name).values(last=number))
        except DBAPIError as error:
            raise _unusable(error) from error
        return token, secret

    def all(self) -> Sequence[Token]:
        """All tokens, oldest first."""
        try:
            with self._engine.begin() as connection:
                return all_tokens(connection)
        except DBAPIError as error:
            raise _unusable(error) from error

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
        try:
            with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                connection.execute(
                    update(TOKENS).where(TOKENS.c.number == token.number).values(revoked=now.isoformat())
                )
        except DBAPIError as error:
            raise _unusable(error) from error
        return token.as_revoked(now)

    def _now(self) -> datetime:
        return self._clock().replace(microsecond=0)


def _row(token: Token) -> dict[str, object]:
    return {
        "number": token.number,
        "name": token.name,
        "digest": token.digest,
        "party": token.party,
        "created": token.created.isoformat(),
        "expires": token.expires and token.expires.isoformat(),
    }


def _unusable(error: DBAPIError) -> SettingsError:
    return SettingsError(f"database: it is not available ({error.orig})")


def find_token(connection: Connection, digest: str) -> Token | None:
    """The token with this digest, usable or not."""
    row = connection.execute(select(TOKENS).where(TOKENS.c.digest == digest)).one_or_none()
    return None if row is None else _token(row)


def all_tokens(connection: Connection) -> Sequence[Token]:
    """All tokens, oldest first."""
    return [_token(row) for row in connection.execute(select(TOKENS).order_by(TOKENS.c.number))]


def _token(row: Row[Any]) -> Token:
    return Token(
        number=row.number,
        name=row.name,
        digest=row.digest,
        party=row.party,
        created=datetime.fromisoformat(row.created),
        expires=datetime.fromisoformat(row.expires) if row.expires else None,
        revoked=datetime.fromisoformat(row.revoked) if row.revoked else None,
    )

"""The statements that read tokens.

Owns: how a row becomes a `Token`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from loadsheet.exchange.store.schema import TOKENS
from loadsheet.exchange.tokens import Token


def find(connection: Connection, digest: str) -> Token | None:
    """The token of this digest, usable or not."""
    row = connection.execute(select(TOKENS).where(TOKENS.c.digest == digest)).one_or_none()
    return None if row is None else _token(row)


def all_of(connection: Connection) -> Sequence[Token]:
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

"""Up to which moment the schedules of one ledger are done, kept with it: where one process runs them."""

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, insert, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.schema import meta

_NAME = "schedules"


def schedules_done(connection: Connection) -> dict[str, str]:
    """Up to when (ISO 8601 UTC) all of each schedule is done, by its name."""
    return codec.decode_texts_by_name(
        connection.scalar(select(meta.c.value).where(meta.c.name == _NAME)) or codec.NOTHING
    )


def keep_schedules_done(connection: Connection, done: Mapping[str, str]) -> None:
    """Keep what `schedules_done` then gives."""
    value = msgspec.json.encode(dict(sorted(done.items()))).decode()
    if not connection.execute(update(meta).where(meta.c.name == _NAME).values(value=value)).rowcount:
        connection.execute(insert(meta).values(name=_NAME, value=value))

"""Documents whose rows came back in a fix file as they were: nobody corrected them, so they say nothing new.

Owns: when rows are the same. Only reads.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import with_contents
from loadsheet.ledger.ledger_tables import Statement
from loadsheet.mapping.documents import FIX_OF, SourceRow

Cells = tuple[str, tuple[str, ...]]


def cells_of(rows: Iterable[SourceRow]) -> "Counter[Cells]":
    """What is compared of rows: each one's table and cells."""
    return Counter((row.table, row.cells) for row in rows)


def uncorrected(
    connection: Connection, documents: Iterable[tuple[Mapping[str, Sequence[int]], Sequence[SourceRow]]]
) -> list[int]:
    """For each of these documents, given by its `items` and rows, the newest entry whose rows came back in it as they were; 0: none."""
    given = [(items.get(FIX_OF, ()), rows) for items, rows in documents]
    wanted = sorted({entry for entries, _ in given for entry in entries})
    found = with_contents(connection, _ENTRIES.rows_of(connection, wanted))
    before = {row.id: cells_of(codec.decode_rows(content.rows)) for row, content in found}
    return [
        max((entry for entry in entries if before.get(entry) == cells_of(rows)), default=0) for entries, rows in given
    ]


_ENTRIES = Statement("select id, payload, rows from entries where id in (:wanted)")

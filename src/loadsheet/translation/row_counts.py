"""Rows on their way from reading to mapping: counted, and looked at by the sentinel.

Owns: the count of rows that is held against what the ledger was handed. That count knows nothing of mappings, so that it cannot share
their faults.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from loadsheet.mapping.compile import Mapping as CompiledMapping
from loadsheet.mapping.documents import TableNotes
from loadsheet.mapping.headings import column_uses, headings_of
from loadsheet.reading import Row, Sentinel, Table


class Watched:
    """Tables of a mapping whose rows are counted whenever they are read to their end; the sentinel looks at them as well, unless it need
    not.
    """

    def __init__(self, mapping: CompiledMapping, tables: Mapping[str, Table], *, sentinel: bool = True) -> None:
        self.rows: Counter[str] = Counter()
        self._mapping, self._read = mapping, tables
        uses = column_uses(mapping) if sentinel else {}
        self._sentinels = {name: Sentinel(table, uses.get(name, {})) for name, table in tables.items() if sentinel}
        self.tables = {name: table.watched(self._counting(table)) for name, table in tables.items()}

    def notes(self) -> dict[str, TableNotes]:
        """What was seen of each table; known when its rows were read."""
        return {name: self._notes_on(self._read[name], sentinel) for name, sentinel in self._sentinels.items()}

    def _notes_on(self, table: Table, sentinel: Sentinel) -> TableNotes:
        if table.at:  # a fix file: its original was looked at
            return TableNotes(sentinel.problems())
        same_sheet = (table.file, table.sheet, table.header)
        others = [one for one in self._read.values() if (one.file, one.sheet, one.header) == same_sheet]
        unused, problems = headings_of(self._mapping, table, others, sentinel.filled)
        return TableNotes((*problems, *sentinel.problems()), unused, sentinel.blank_rows)

    def _counting(self, table: Table) -> Callable[[], Iterator[Row]]:
        sentinel = self._sentinels.get(table.name)

        def counted() -> Iterator[Row]:
            count = 0
            rows = table.rows() if sentinel is None else sentinel.watch(table.rows())
            for count, row in enumerate(rows, start=1):  # noqa: B007 (the count is what we are here for)
                yield row
            self.rows[table.name] = count

        return counted

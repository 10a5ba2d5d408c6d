"""Rows on their way from reading to mapping: counted, and looked at by the sentinel.

Owns: the count of rows that is held against what the ledger was handed. It knows nothing of mappings, so that it cannot share their faults.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from loadsheet.problems import Problem
from loadsheet.reading import Row, Sentinel, Table


class Watched:
    """Tables whose rows are counted whenever they are read to their end; the sentinel looks at them as well, unless it need not."""

    def __init__(self, tables: Mapping[str, Table], *, sentinel: bool = True) -> None:
        self.rows: Counter[str] = Counter()
        self._sentinels = {name: Sentinel(table) for name, table in tables.items()} if sentinel else {}
        self.tables = {name: table.watched(self._counting(table)) for name, table in tables.items()}

    def suspected(self) -> dict[str, tuple[Problem, ...]]:
        """What looks damaged in which table."""
        return {name: sentinel.problems() for name, sentinel in self._sentinels.items()}

    def _counting(self, table: Table) -> Callable[[], Iterator[Row]]:
        sentinel = self._sentinels.get(table.name)

        def counted() -> Iterator[Row]:
            count = 0
            rows = table.rows() if sentinel is None else sentinel.watch(table.rows())
            for count, row in enumerate(rows, start=1):  # noqa: B007 (the count is what we are here for)
                yield row
            self.rows[table.name] = count

        return counted

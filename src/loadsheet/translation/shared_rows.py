"""The rows of sheets that several mappings read: each row counts once, whatever they make of it.

Rows are compared by their number, so the mappings may find different headings and leave out different rows. The first document with a
row counts it, later ones share it. A row is ignored only if no mapping makes anything of it. Its rule is that of the first mapping.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from loadsheet.mapping.documents import COUNTED_IN, SHARED, Document, Ignored, part_of_table
from loadsheet.mapping.rows import source_row
from loadsheet.reading import Row, Table


class RowMarks:
    """A mark for each row of a sheet, by the row's number (0: none), in two bytes a row. Its length is the number of marked rows."""

    def __init__(self) -> None:
        self._marks = array("H")
        self._count = 0

    def add(self, number: int, mark: int = 1) -> bool:
        """Mark a row that has no mark. Returns whether it had none."""
        marks = self._marks
        if number >= len(marks):
            marks.frombytes(bytes(2 * max(number + 1 - len(marks), len(marks))))  # doubles, so that few rows extend it
        if marks[number]:
            return False
        marks[number] = mark
        self._count += 1
        return True

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, unchanged. They are marked."""
        for row in rows:
            self.add(row.number)
            yield row

    def has_others(self, than: "RowMarks") -> bool:
        """Whether a row is marked here but not there."""
        return any(mark and not than[number] for number, mark in enumerate(self._marks))

    def __getitem__(self, number: int) -> int:
        return self._marks[number] if number < len(self._marks) else 0

    def __len__(self) -> int:
        return self._count


def with_counting_tables(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The tables of a drop. A table on a sheet that a mapping before reads names, in `found`, the table there that counts the rows."""
    first: dict[tuple[str, str], Table] = {}
    marked = {}
    for name, table in tables.items():
        counting = first.setdefault((table.file, table.sheet), table)
        is_shared = part_of_table(counting.name) != part_of_table(name)
        marked[name] = replace(table, found={**table.found, COUNTED_IN: counting.name}) if is_shared else table
    return marked


def counting_tables(tables: Mapping[str, Table]) -> dict[str, str]:
    """The table that counts the rows of each table on a sheet that several mappings read."""
    found = {name: table.found[COUNTED_IN] for name, table in tables.items() if COUNTED_IN in table.found}
    return {counting: counting for counting in found.values()} | found


class SharedRows:
    """Counts the rows that the documents of all mappings of a drop are made from."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables, self._counted_in = tables, counting_tables(tables)
        self._used = {counting: RowMarks() for counting in self._counted_in.values()}
        self._left = {counting: RowMarks() for counting in self._used}  # marked with the number of the rule
        self._rules: dict[str, int] = {}

    def once(self, items: Iterable[Document | Ignored]) -> Iterator[Document | Ignored]:
        """The documents of one mapping; those that share rows with earlier ones say so. Ignored rows of shared sheets come at the end."""
        for item in items:
            if isinstance(item, Document):
                yield self._counted_once(item)
            elif (counting := self._counted_in.get(item.row.table)) is None:
                yield item
            else:
                self._left[counting].add(item.row.number, self._rules.setdefault(item.rule, len(self._rules) + 1))

    def ignored(self) -> Iterator[Ignored]:
        """The rows of shared sheets that no mapping made anything of, after the last document. Reads their sheets again."""
        rules = dict(zip(self._rules.values(), self._rules, strict=True))
        for name, counting in self._counted_in.items():
            table, left, used = self._tables[name], self._left[counting], self._used[counting]
            for row in table.rows() if left.has_others(used) else ():
                if left[row.number] and used.add(row.number):
                    yield Ignored(source_row(table, row), rules[left[row.number]])

    def _counted_once(self, document: Document) -> Document:
        before = document.items.get(SHARED, ())
        shared = []
        for index, row in enumerate(document.rows):
            counting = self._counted_in.get(row.table)
            if index in before if counting is None else not self._used[counting].add(row.number):
                shared.append(index)
        if tuple(shared) == before:
            return document
        items = {name: indexes for name, indexes in document.items.items() if name != SHARED}
        return replace(document, items={**items, SHARED: tuple(shared)} if shared else items)

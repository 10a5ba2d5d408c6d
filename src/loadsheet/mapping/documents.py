"""The values of mapping: documents, their source rows, ignored rows, descriptions of columns, and lineage.

`locate` finds the cells that a payload value came from; nothing is stored per value. Payload paths are given as patterns. A list with
one item per row is `packages[].weight`. A list with explicit entries is `order_references[0].value`; if some entries were left out,
`RowLinks.present` lists those that a document has.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product
from typing import Any, Literal, NamedTuple

import msgspec

from loadsheet.problems import Problem
from loadsheet.workbook_marks import table_of

_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode  # `show --help` does without the contract


class SourceRow(NamedTuple):
    """One row of a source file as it was read: the mapping's table name, the row number from 1, and the cells as text.

    `natives` are the cells that a workbook held as number, datetime, date, time or flag: position from 0, kind, and the value in
    the canonical text of `reading.tables.Native`. Rows of text files have none.
    """

    table: str
    number: int
    cells: tuple[str, ...]
    natives: tuple[tuple[int, str, str], ...] = ()


Indexes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowLinks:
    """How the rows of a document and the entries of its lists belong together, where their order alone does not tell. Most documents have
    no links. Rows are given as indexes.

    - `rows`: for each row of a table, the document's row that it was made from; for a column that looks up rows (`rows.sku`), which row of the
      other table each row found, or -1
    - `sets`: for each row of a table, the column set that it was made from
    - `present`: by payload path, the entries that are present of a list that the mapping writes out, if some were left out
    - `inner_rows`: by payload path, for each item of an inner list, its row in the table
    - `shared`: rows that are counted elsewhere: by an earlier document, or as ignored rows that are looked up
    - `looked_up`: rows that other rows of the document look up
    - `fix_of`: the entries of the ledger whose rows came back in a fix file
    - `ordered`: the lists with `ordered: true` in the mapping
    - `times_of_run`: the fields that hold `$now` and nothing of a row
    """

    rows: dict[str, Indexes] = field(default_factory=dict)
    sets: dict[str, Indexes] = field(default_factory=dict)
    present: dict[str, Indexes] = field(default_factory=dict)
    inner_rows: dict[str, Indexes] = field(default_factory=dict)
    shared: Indexes = ()
    looked_up: Indexes = ()
    fix_of: Indexes = ()
    ordered: frozenset[str] = frozenset()
    times_of_run: frozenset[str] = frozenset()

    def own(self, rows: tuple[SourceRow, ...]) -> tuple[SourceRow, ...]:
        """The rows that the document counts itself: all, unless one file row gives several documents."""
        return rows if not self.shared else tuple(row for index, row in enumerate(rows) if index not in self.shared)


NO_LINKS = RowLinks()


@dataclass(frozen=True, slots=True)
class Document:
    """One record to submit, or the reasons why it cannot be: everything the ledger keeps about it.

    - `payload`: the request record as JSON (UTF-8, numbers exact), empty if it could not be built
    - `content_hash`: SHA-256 (hex) of the record with sorted keys, so that key order does not matter, without fields that hold only `$now`
    - `rows`: all its source rows
    - `links`: how its rows and the entries of its lists belong together
    - `alternative`: what to send if the record already exists according to the ledger
    - `ordered`: the paths of lists whose order is content; other lists have the order of the sheet's rows, which has no meaning
    """

    operation: str
    key: str
    lane: str
    payload: bytes
    content_hash: str
    rows: tuple[SourceRow, ...]
    problems: tuple[Problem, ...] = ()
    links: RowLinks = NO_LINKS
    alternative: "AlternativeForm | None" = None
    ordered: tuple[str, ...] = ()

    @property
    def own_rows(self) -> tuple[SourceRow, ...]:
        """Its source rows without those that are counted elsewhere."""
        return self.links.own(self.rows)

    @property
    def record(self) -> dict[str, Any]:
        """The payload as Python values, its numbers as exact Decimals; empty if it could not be built."""
        return _decode(self.payload) if self.payload else {}

    @property
    def usable(self) -> bool:
        """Whether it may be sent: it has a payload, and no problem worse than a warning."""
        return bool(self.payload) and all(problem.level == "warning" for problem in self.problems)


class AlternativeForm(NamedTuple):
    """The other form of an upsert, usually the update for a record that may exist already: its operation, payload and content hash."""

    operation: str
    payload: bytes
    content_hash: str


LOOKUP_RULE = "lookup: "
"""The beginning of the rule by which rows are ignored that other rows look up."""

MEANT_FOR = "mapping"
"""The value of a problem that refuses a file: the mapping that takes it."""

MEANT_IN = "language"
"""The value of such a problem with the language of that mapping's sheets."""

COUNTED_IN = "rows counted in"
"""The key in the notes on a table of the table that counts its rows, because a mapping before reads the same sheet."""

JOINT = " + "
"""Stands between the names of the mappings that read a file together, and between their operations."""

SHARED_LIST = "shared.list"
"""The first of the files of their combination: the paths of the mappings among the others, one a line."""


def part_of_table(table: str) -> str:
    """What the names of all tables of one mapping begin with if several mappings read the file: `acme/` for `acme/rows`. Else empty."""
    return table[: table_of(table).rfind("/") + 1]


def column_path(table: str, column: str) -> str:
    """The path in a lineage of a column of a table made from column sets: `(items).weight`."""
    return f"({table}).{column}"


class Ignored(NamedTuple):
    """A row left out by a rule of the mapping, and that rule in words."""

    row: SourceRow
    rule: str


class Source(NamedTuple):
    """Where a payload value comes from: a column of a table (its name in the mapping and its label), and over which rows of
    the document: the `first` row of that table, `each` row with its own list item, the row of the list `around`, or `all` of them. `via` is
    the column of another table that looks the row up (`rows.sku`); then `rows` are those of that other table.
    """

    table: str
    column: str
    label: str
    rows: Literal["first", "each", "around", "all"]
    via: str = ""


@dataclass(frozen=True, slots=True)
class ColumnGuide:
    """The description of a column for shippers: what it takes, in words (`a date such as 04.03.2026`), the allowed values if there is a
    list, and whether it must be filled.
    """

    takes: str
    choices: tuple[str, ...] = ()
    required: bool = False


class TableNotes(NamedTuple):
    """The notes on a table after all its rows were read: warnings, unused columns (by heading, otherwise by letter), and the number of
    skipped blank rows.
    """

    problems: tuple[Problem, ...] = ()
    unused: tuple[str, ...] = ()
    blank_rows: int = 0


Lineage = dict[str, tuple[Source, ...]]
"""Payload path pattern (`packages[].weight`) -> its sources. An empty tuple is a constant of the mapping. The columns of a table
made from column sets are included, `(items).weight` with one source for each set. Paths of a mapping that reads the file with others
begin with its name: `acme/packages[].weight`.
"""


def fields_of(lineage: Lineage) -> frozenset[str]:
    """The fields of the record itself that have a source or a constant: `packages` for `acme/packages[].weight`."""
    return frozenset(path.rpartition("/")[2].partition(".")[0].removesuffix("[]") for path in lineage)


# ---- from a payload path to its cells ----

STEP = re.compile(r"\[([0-9]+)\]")
"""A list item in a payload path."""


class Place(NamedTuple):
    """A cell of a document's rows: table, index into the document's rows, the column's name in the mapping and its label.
    Derived values and whole rows have no column.
    """

    table: str
    row: int
    column: str
    label: str


class Trace(NamedTuple):
    """One source of a payload value: the row's index in its table (`nth`) and in the document (`row`), and the column's label there."""

    source: Source
    nth: int
    row: int
    label: str


def locate(lineage: Lineage, rows: Sequence[SourceRow], links: RowLinks, path: str) -> tuple[Place, ...]:
    """The cells behind a payload path such as `packages[1].weight`, the most relevant first; none for constants of the mapping. For a path
    that the mapping does not fill, the enclosing path is used.
    """
    traces = trace(lineage, rows, links, path)
    return tuple(Place(rows[found.row].table, found.row, found.source.column, found.label) for found in traces)


def filled_fields(rows: Sequence[SourceRow], lineage: Lineage, headers: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The fields of a record that its mapping fills from these rows: those of constants and of cells that are not blank. `headers` are the
    headings of the tables, by name.
    """
    part = part_of_table(rows[0].table) if rows else ""
    filled = {
        (table_of(row.table), label)
        for row in rows
        for label, cell in zip(headers[row.table], row.cells, strict=False)
        if cell.strip()
    }
    paths = (
        path.removeprefix(part)
        for path, sources in lineage.items()
        if path.startswith(part) and (not sources or any((source.table, source.label) in filled for source in sources))
    )
    return frozenset(re.split(r"[.\[]", path, maxsplit=1)[0] for path in paths if not path.startswith("("))


def trace(lineage: Lineage, rows: Sequence[SourceRow], links: RowLinks, path: str) -> tuple[Trace, ...]:
    """The sources behind a payload path, as in `locate`, with the mapping's tables and their rows."""
    part = part_of_table(rows[0].table) if rows else ""
    while path:
        for sources, indexes in _matches(lineage, links, path, part):
            return tuple(found for source in sources for found in _traces(lineage, source, rows, links, indexes))
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ()


def _matches(lineage: Lineage, links: RowLinks, path: str, part: str) -> Iterator[tuple[tuple[Source, ...], list[int]]]:
    indexes = [int(index) for index in STEP.findall(path)]
    for spelled in product((True, False), repeat=len(indexes)):
        pattern, end = "", 0
        of_rows = []
        for is_row, index, match in zip(spelled, indexes, STEP.finditer(path), strict=True):
            pattern += path[end : match.start()]
            entries = links.present.get(path[: match.start()], ())
            entry = entries[index] if index < len(entries) else index
            pattern += "[]" if is_row else f"[{entry}]"
            end = match.end()
            if is_row:
                among = links.inner_rows.get(path[: match.start()], ())
                of_rows.append(among[index] if index < len(among) else index)
        sources = lineage.get(part + pattern + path[end:])
        if sources is not None:
            yield sources, of_rows


def _traces(
    lineage: Lineage,
    source: Source,
    rows: Sequence[SourceRow],
    links: RowLinks,
    indexes: Sequence[int],
) -> list[Trace]:
    own = links.rows.get(source.table)
    if own is None:
        own = tuple(index for index, row in enumerate(rows) if table_of(row.table) == source.table)
    through = links.rows.get(source.via, ()) if source.via else None
    nths: Sequence[int] = range(len(own) if through is None else len(through))
    if source.rows == "first":
        nths = nths[:1]
    elif source.rows != "all" and indexes:
        wanted = indexes[-1] if source.rows == "each" else indexes[-2 if len(indexes) > 1 else -1]
        nths = nths[wanted : wanted + 1]
    if through is not None:
        nths = [through[nth] for nth in nths if through[nth] >= 0]
    return [Trace(source, nth, own[nth], _label(lineage, source, links, nth)) for nth in nths]


def _label(lineage: Lineage, source: Source, links: RowLinks, nth: int) -> str:
    """The label of the column in the row's own set, where the table is made from column sets."""
    of_sets = lineage.get(column_path(source.table, source.column))
    sets = links.sets.get(source.table, ())
    return of_sets[sets[nth]].label if of_sets and nth < len(sets) else source.label


def main_path(source: Sequence[str]) -> str:
    """The path of a kept mapping in its own folder, from the paths of its files; of a combination that of the first mapping."""
    return source[0] if source[0] != SHARED_LIST else source[1].partition("/")[2]

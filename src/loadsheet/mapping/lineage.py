"""Where the values of a payload come from: from a payload path to the cells, with nothing stored per value.

Paths are given as patterns. A list with one item per row is `packages[].weight`. A list with explicit entries is
`order_references[0].value`; if some entries were left out, `Document.items` lists those that a document has.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from loadsheet.mapping.documents import Lineage, Source, SourceRow, list_of, rows_of, sets_of

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


def locate(
    lineage: Lineage, rows: Sequence[SourceRow], items: Mapping[str, tuple[int, ...]], path: str
) -> tuple[Place, ...]:
    """The cells behind a payload path such as `packages[1].weight`, the most relevant first; none for constants of the mapping. For a path
    that the mapping does not fill, the enclosing path is used.
    """
    traces = trace(lineage, rows, items, path)
    return tuple(Place(rows[found.row].table, found.row, found.source.column, found.label) for found in traces)


def trace(
    lineage: Lineage, rows: Sequence[SourceRow], items: Mapping[str, tuple[int, ...]], path: str
) -> tuple[Trace, ...]:
    """The sources behind a payload path, as in `locate`, with the mapping's tables and their rows."""
    while path:
        for sources, indexes in _matches(lineage, items, path):
            return tuple(found for source in sources for found in _traces(lineage, source, rows, items, indexes))
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ()


def _matches(
    lineage: Lineage, items: Mapping[str, tuple[int, ...]], path: str
) -> Iterator[tuple[tuple[Source, ...], list[int]]]:
    indexes = [int(index) for index in STEP.findall(path)]
    for spelled in product((True, False), repeat=len(indexes)):
        pattern, end = "", 0
        of_rows = []
        for is_row, index, match in zip(spelled, indexes, STEP.finditer(path), strict=True):
            pattern += path[end : match.start()]
            entries = items.get(path[: match.start()], ())
            entry = entries[index] if index < len(entries) else index
            pattern += "[]" if is_row else f"[{entry}]"
            end = match.end()
            if is_row:
                among = items.get(list_of(path[: match.start()]), ())
                of_rows.append(among[index] if index < len(among) else index)
        sources = lineage.get(pattern + path[end:])
        if sources is not None:
            yield sources, of_rows


def _traces(
    lineage: Lineage,
    source: Source,
    rows: Sequence[SourceRow],
    items: Mapping[str, tuple[int, ...]],
    indexes: Sequence[int],
) -> list[Trace]:
    own = items.get(rows_of(source.table))
    if own is None:
        own = tuple(index for index, row in enumerate(rows) if row.table == source.table)
    nths = range(len(own))
    if source.rows == "first":
        nths = nths[:1]
    elif source.rows != "all" and indexes:
        wanted = indexes[-1] if source.rows == "each" else indexes[-2 if len(indexes) > 1 else -1]
        nths = nths[wanted : wanted + 1]
    return [Trace(source, nth, own[nth], _label(lineage, source, items, nth)) for nth in nths]


def _label(lineage: Lineage, source: Source, items: Mapping[str, tuple[int, ...]], nth: int) -> str:
    """The label of the column in the row's own set, where the table is made from column sets."""
    of_sets = lineage.get(f"{rows_of(source.table)}.{source.column}")
    sets = items.get(sets_of(source.table), ())
    return of_sets[sets[nth]].label if of_sets and nth < len(sets) else source.label

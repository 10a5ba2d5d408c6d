"""Where the values of a payload come from: from a payload path to the cells, with nothing stored per value.

Owns: the patterns. A list that has one item a row is written `packages[].weight`, one that the mapping writes out entry by entry
`order_references[0].value`; `Document.items` says which entries a document has where some were left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from loadsheet.mapping.documents import Lineage, Source, SourceRow

_STEP = re.compile(r"\[([0-9]+)\]")


class Place(NamedTuple):
    """A cell of a document's rows: table, index into the document's rows, the column's name in the mapping and its label.
    Derived values and whole rows have no column.
    """

    table: str
    row: int
    column: str
    label: str


def locate(
    lineage: Lineage, rows: Sequence[SourceRow], items: Mapping[str, tuple[int, ...]], path: str
) -> tuple[Place, ...]:
    """The cells behind a payload path such as `packages[1].weight`, most telling first; none for values that the mapping itself
    supplies. A path that the mapping does not fill is answered for what encloses it.
    """
    while path:
        for sources, indexes in _matches(lineage, items, path):
            return tuple(place for source in sources for place in _places(source, rows, indexes))
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ()


def _matches(
    lineage: Lineage, items: Mapping[str, tuple[int, ...]], path: str
) -> Iterator[tuple[tuple[Source, ...], list[int]]]:
    indexes = [int(index) for index in _STEP.findall(path)]
    for spelled in product((True, False), repeat=len(indexes)):
        pattern, end = "", 0
        for is_row, index, match in zip(spelled, indexes, _STEP.finditer(path), strict=True):
            pattern += path[end : match.start()]
            entries = items.get(path[: match.start()], ())
            entry = entries[index] if index < len(entries) else index
            pattern += "[]" if is_row else f"[{entry}]"
            end = match.end()
        sources = lineage.get(pattern + path[end:])
        if sources is not None:
            yield sources, [index for is_row, index in zip(spelled, indexes, strict=True) if is_row]


def _places(source: Source, rows: Sequence[SourceRow], indexes: Sequence[int]) -> list[Place]:
    own = [index for index, row in enumerate(rows) if row.table == source.table]
    if source.rows == "first":
        own = own[:1]
    elif source.rows == "each":
        own = own[indexes[0] : indexes[0] + 1] if indexes else own
    return [Place(source.table, index, source.column, source.label) for index in own]

"""The rows of one document by table: gathered from files or made from column sets, and which rows belong to which.

Handles tables joined to a table other than the main one (`join.to`) and tables made from another table's column sets (`from`). Records
the file rows a document is made from, so that each row is counted once however many rows or documents were made from it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loadsheet.mapping.documents import SHARED, SourceRow, rows_of, sets_of
from loadsheet.mapping.plans import JoinPlan, TablePlan
from loadsheet.mapping.rows import ReadRow, RowReader
from loadsheet.mapping.views import is_first, set_number, with_set_number
from loadsheet.reading.tables import Row

Nested = Mapping[int, Sequence[Sequence[int]]]
"""Position of a table -> for each row of the table it belongs to, the indexes of its own rows."""


class SourceRows(NamedTuple):
    """The file rows of a document; `items` maps the rows of kind and set tables to them."""

    rows: tuple[SourceRow, ...]
    items: dict[str, tuple[int, ...]]


def expand_sets(
    readers: Sequence[RowReader], rows: Sequence[Sequence[Row]]
) -> tuple[list[Sequence[Row]], dict[int, list[list[int]]]]:
    """All rows of a document by table position, including tables made from column sets; and for those, which of their rows came from
    each row of the other table.
    """
    found: list[Sequence[Row]] = list(rows)
    nested: dict[int, list[list[int]]] = {}
    for position, reader in enumerate(readers):
        if (of := reader.plan.made_of) is None:
            continue
        own: list[Row] = []
        nested[position] = []
        for row in found[of]:
            if row.problem is not None:  # its document is refused, so its sets are not read
                continue
            parts = [with_set_number(part, 0) for part in reader.view.expand(row)]
            kept = [part for part in parts if not reader.leaves_out(part)]
            nested[position].append(list(range(len(own), len(own) + len(kept))))
            own += kept
        found[position] = own
    return found, nested


def source_rows(readers: Sequence[RowReader], rows: Sequence[Sequence[Row]]) -> SourceRows:
    """The file rows behind the rows of a document, each once."""
    found: list[SourceRow] = []
    places: dict[tuple[str, int], int] = {}
    items: dict[str, tuple[int, ...]] = {}
    shared: dict[int, bool] = {}
    for reader, own in zip(readers, rows, strict=True):
        indexes = []
        for row in own:
            key = (reader.table.name, row.number)
            if key not in places:
                places[key] = len(found)
                found.append(reader.view.source(row))
            indexes.append(places[key])
            if reader.plan.sets is not None and reader.plan.made_of is None:
                shared[indexes[-1]] = shared.get(indexes[-1], True) and not is_first(row)
        if reader.plan.is_view:
            items[rows_of(reader.plan.name)] = tuple(indexes)
        if reader.plan.sets is not None:
            items[sets_of(reader.plan.name)] = tuple(max(set_number(row), 0) for row in own)
    if any(shared.values()):
        items[SHARED] = tuple(sorted(index for index, is_shared in shared.items() if is_shared))
    return SourceRows(tuple(found), items)


class JoinedRows(NamedTuple):
    """The result of a join: for each row of the other table the indexes of the rows here, and the rows without a partner."""

    of: list[list[int]]
    unmatched: list[int]


def join_rows(join: JoinPlan, here: Sequence[Sequence[Any]], there: Sequence[Sequence[Any]]) -> JoinedRows:
    """Joins the rows of one document on their column values. A blank matches nothing."""
    own, other = [pair[0] for pair in join.on], [pair[1] for pair in join.on]
    by_key: dict[tuple[Any, ...], list[int]] = {}
    for index, values in enumerate(here):
        by_key.setdefault(tuple([values[place] for place in own]), []).append(index)
    of: list[list[int]] = []
    met: set[int] = set()
    for values in there:
        key = tuple([values[place] for place in other])
        mine = [] if None in key else by_key.get(key, [])
        of.append(mine)
        met.update(mine)
    return JoinedRows(of, [index for index in range(len(here)) if index not in met])


def inner_joins(tables: Sequence[TablePlan], joins: Mapping[int, JoinPlan]) -> list[tuple[int, JoinPlan]]:
    """The tables joined to a table other than the main one."""
    return [
        (table.position, joins[table.position])
        for table in tables
        if table.position in joins and joins[table.position].to
    ]


def values_of(read: Sequence[ReadRow]) -> list[Sequence[Any]]:
    """The values of these rows."""
    return [row.values for row in read]

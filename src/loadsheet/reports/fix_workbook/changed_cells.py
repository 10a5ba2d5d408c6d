"""The cells in which a held version differs from the one that came before, for its sender: under the sender's headings, with both values."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain

from loadsheet.languages import Words
from loadsheet.ledger import Entry, Origin
from loadsheet.ledger.changed_values import FIELDS, OTHER_VERSION, ChangedValue, further_changes, kept_changes
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import Problem, Where

_ITEMS, _INDEX = re.compile(r"\d+ items?"), re.compile(r"\[\d+\]")


def placing(queries: LedgerQueries, words: Words) -> Callable[[Entry], Entry]:
    """A function that gives the problems of an entry that was held for its changes the cells of these, and words them for its sender."""
    origin = cache(queries.origin)

    def place(entry: Entry) -> Entry:
        if not any(problem.code in OTHER_VERSION for problem in entry.problems) or not entry.rows or entry.removed:
            return entry
        problems = tuple(_placed(problem, entry, origin(entry.drop), words) for problem in entry.problems)
        return entry._replace(problems=problems)

    return place


def _placed(problem: Problem, entry: Entry, origin: Origin, words: Words) -> Problem:
    changes = kept_changes(problem) if problem.code in OTHER_VERSION else []
    if not changes:  # of an old ledger
        return problem
    cells = [[where for where in origin.stating(entry, change.path) if where.column] for change in changes]
    told = _not_derived(list(zip(changes, cells, strict=True)))
    texts = [_text_of(change, found, origin, words) for change, found in told]
    text, more = "; ".join(dict.fromkeys(texts)), further_changes(problem)
    if more:
        text = words.say("{names} and {count} more", names=text, count=words.number(more))
    first, *others = dict.fromkeys(chain.from_iterable(cells)) or (problem.where,)
    found = next(
        (
            origin.cell(row, first.column)
            for row in entry.rows
            if origin.tables[row.table].where(row.number, first.column) == first
        ),
        "",
    )
    return replace(problem, where=first, found=found, also=tuple(others), values={**problem.values, FIELDS: text})


def _not_derived(
    changes: Sequence[tuple[ChangedValue, Sequence[Where]]],
) -> Iterator[tuple[ChangedValue, Sequence[Where]]]:
    """The changes with their cells, without those that follow from others: all their cells are in changes of as few columns."""
    told: set[Where] = set()
    for change, cells in sorted(changes, key=lambda one: len({where.column for where in one[1]})):
        if not cells or not told.issuperset(cells):
            yield change, cells
        told.update(cells)


def _text_of(change: ChangedValue, cells: Sequence[Where], origin: Origin, words: Words) -> str:
    """A change such as `Weight 12 -> 15`. What comes from no cell has the name of its field."""
    name = " / ".join(dict.fromkeys(where.column for where in cells)) or change.path
    if change.old is None or change.new is None:
        return name
    if any(map(_ITEMS.fullmatch, (change.old, change.new))):
        of_rows = f"{_INDEX.sub('[]', change.path)}[]"
        return words.say("number of rows") if any(of_rows in path for path in origin.lineage) else name
    old, new = (
        words.payload_value(text, "number") if text else words.say("(blank)") for text in (change.old, change.new)
    )
    return f"{name} {old} -> {new}"

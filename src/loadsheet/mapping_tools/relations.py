"""How the tables of a drop belong together, by the values that their columns share and not by headings alone.

Owns: the table whose rows are the records, the table with their lines, and code tables offered for the rest. Values may have lost their
leading zeros in one of the tables.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from loadsheet.mapping_tools.columns import NUMBERS, Column
from loadsheet.mapping_tools.sheet_profiles import Sheet
from loadsheet.mapping_tools.vocabulary import words_of
from loadsheet.mapping_tools.yaml_values import flow
from loadsheet.reading import fold

BELONGS = 0.5  # share of common keys for two tables to be joined
_ALL = 0.9  # share of values that a code table must hold
_DISTINCT_MIN = 2
_TEXTS = frozenset({"text", "integer", "country", "currency"})


class Tables(NamedTuple):
    """The number of the table with the records, that of the table with their lines (-1: none) and the column of each by which they join, and
    remarks on other tables, by their numbers.
    """

    main: int
    lines: int = -1
    main_key: Column | None = None
    lines_key: Column | None = None
    offers: tuple[tuple[int, str], ...] = ()


def related(sheets: Sequence[Sheet], key: Column | None, of: int) -> Tables:
    """The tables as they belong together, where `key` in table `of` identifies the records. Without a key, that table alone."""
    if key is None:
        return Tables(of)
    holders = {of: key}
    for number, sheet in enumerate(sheets):
        if number != of and (column := _partner(key, sheet)) is not None:
            holders[number] = column
    main = max(holders, key=lambda number: (_distinct(holders[number]), number == of, -number))
    others = [number for number in holders if number != main and belongs(holders[main], holders[number])]
    lines = max(others, key=lambda number: (holders[number].rows, -number), default=-1)
    found = Tables(main, lines, holders[main], holders.get(lines))
    return found._replace(offers=tuple(_offers(sheets, found)))


def _distinct(column: Column) -> float:
    return len(column.cells.values) / max(1, column.filled)


def _partner(key: Column, sheet: Sheet) -> Column | None:
    """The column of another table with the values of a key: the one with its heading, else the one that shares the most values."""
    same = sheet.column(key.label)
    if same is not None:
        return same
    shares = [(share(column, key), -column.position, column) for column in sheet.columns if _can_identify(column)]
    best = max(shares, key=lambda one: one[:2], default=(0.0, 0, None))
    return best[2] if best[0] >= _ALL else None


def _can_identify(column: Column) -> bool:
    return column.guess.type in _TEXTS and len(column.cells.values) >= _DISTINCT_MIN and not column.holds_moments


def share(one: Column, other: Column) -> float:
    """The share of the different values of one column that also occur in the other, with or without leading zeros."""
    mine, theirs = _bare(one), _bare(other)
    return len(mine & theirs) / max(1, len(mine))


def belongs(one: Column, other: Column) -> bool:
    """Whether two key columns have enough common values to be joined."""
    mine, theirs = set(one.cells.shown), set(other.cells.shown)
    agree = len(mine & theirs) >= BELONGS * max(1, min(len(mine), len(theirs)))
    return agree or padding(one, other) > 0 or padding(other, one) > 0


def padding(keys: Column, others: Column) -> int:
    """The length of keys that match `others` padded with leading zeros; 0 if padding does not make them match."""
    mine, theirs = set(keys.cells.shown), set(others.cells.shown)
    lengths = {len(text) for text in mine}
    least = BELONGS * max(1, min(len(mine), len(theirs)))
    if len(lengths) != 1 or not any(text.startswith("0") for text in mine) or len(mine & theirs) >= least:
        return 0
    (length,) = lengths
    return length if len(mine & {text.rjust(length, "0") for text in theirs}) >= least else 0


def common(one: Column, other: Column) -> int:
    """The number of different values that two columns share, without leading zeros."""
    return len(_bare(one) & _bare(other))


def _bare(column: Column) -> set[str]:
    return {text.lstrip("0") or text for text in column.cells.shown}


def _offers(sheets: Sequence[Sheet], found: Tables) -> Iterator[tuple[int, str]]:
    """Remarks on the tables that are not joined: code tables for a column, or tables of the same layout."""
    for number, sheet in enumerate(sheets):
        if number in (found.main, found.lines):
            continue
        if offer := _code_table(sheet, [sheets[place] for place in (found.main, found.lines) if place >= 0]):
            yield number, offer
        elif [fold(column.label) for column in sheet.columns] == [
            fold(column.label) for column in sheets[found.main].columns
        ]:
            yield (
                number,
                "it has the columns of the table that is read; write a mapping for it, or put its rows below the others",
            )


def _code_table(sheet: Sheet, used: Sequence[Sheet]) -> str:
    """The offer to use a table as a code table, for the column whose values it holds; empty if it holds those of none."""
    best, offer = (_ALL, 0), ""
    for column in sheet.columns:
        if not (column.is_unique and _can_identify(column)) or column.guess.type in NUMBERS - {"integer"}:
            continue
        for table in used:
            for other in table.columns:
                size = len(other.cells.values)
                if _can_identify(other) and (share(other, column), size) >= best:
                    best = share(other, column), size
                    offer = _offer(sheet, column, other)
    return offer


def _offer(sheet: Sheet, key: Column, other: Column) -> str:
    """How to use a table as a code table for a column of another one."""
    name, column = ("_".join(words_of(text)) for text in (sheet.title or sheet.path.stem, key.label))
    spec = {name: {"table": name, "key": column}}
    return (
        f"its column {key.label} holds {common(other, key)} of {len(other.cells.values)} values of {other.label}: to look up its values,"
        f" add the table {name} with its columns, lookups: {flow(spec)}, and lookup: {name} at {other.label}"
    )

"""Moments in two columns: a date, and beside it the time of day (`Ladedatum` and `Ladezeit`).

Owns: which column of times belongs to a date, and the expression that joins them.
"""

from loadsheet.mapping_tools.suggest import Draft, DraftColumn, DraftTable
from loadsheet.reading import Native

_OF_A_MOMENT = frozenset({"pickup", "delivery", "early", "late"})  # what tells one moment of a record from another


def clock_of(draft: Draft, table: DraftTable, day: DraftColumn) -> DraftColumn | None:
    """The unused column of times that stands for the same moment as a column of dates; None if there is none, or the dates have
    their time with them.
    """
    if day.keys.get("type") != "datetime" or _has_clock(day):
        return None
    moment = day.column.concepts & _OF_A_MOMENT
    alike = (
        clock
        for where, clock in draft.unused
        if where is table and clock.keys.get("type") == "time" and clock.column.concepts & _OF_A_MOMENT == moment
    )
    return next(alike, None)


def join(draft: Draft, day: DraftColumn, clock: DraftColumn) -> None:
    """Makes both columns as the expression needs them: the date without a time, the time used."""
    day.keys["type"] = "date"
    if not day.nullable and len(clock.column.filled) == len(clock.column.cells):
        clock.keys["required"], clock.nullable = True, False
    draft.unused = [(where, one) for where, one in draft.unused if one is not clock]


def moment_in(day: DraftColumn, day_ref: str, clock: DraftColumn | None = None, clock_ref: str = "") -> tuple[str, str]:
    """The expression for a moment, and the condition under which there is one (empty: always)."""
    text = f"({day_ref} ?? $now)" if day.nullable else day_ref
    if clock is not None:
        text += f' + ({clock_ref} ?? t"PT0S")' if clock.nullable else f" + {clock_ref}"
    return text, f"{day_ref} != null" if day.nullable else ""


def _has_clock(day: DraftColumn) -> bool:
    formats = day.keys.get("formats", [])
    if any("%H" in one or "%I" in one for one in formats):
        return True
    natives = (cell for cell in day.column.filled if isinstance(cell, Native) and cell.kind == "datetime")
    return any(not cell.endswith(" 00:00:00") for cell in natives)

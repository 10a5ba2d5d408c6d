"""Milestone columns: a sheet with a row per record and a date under each event that has happened (`Picked up`, `Arrived`).

Owns: which columns these are, and the sets of the mapping language that make an event of each filled one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from loadsheet.contract import DATE_SHAPES, Action, Field
from loadsheet.mapping_tools.column_profiles import CHECK, Column, Guess, Sheet
from loadsheet.mapping_tools.field_matching import Filled, Match, meaning, milestones
from loadsheet.mapping_tools.vocabulary import Reading, words_of

_LABEL = "{set}"  # what stands in a heading where the word of each set stands in the sheet
_LEAST = 2  # one date alone is a moment of the record


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of a table: the headings with the code of each, and the two columns that they are read through, by payload path."""

    codes: dict[str, str]
    at: Column
    event: Column
    paths: dict[str, Column]

    @property
    def formats(self) -> dict[str, Any]:
        """The keys of the date column besides its label and type."""
        return self.at.guess.keys


def code_of_event(fields: Sequence[Field]) -> Field | None:
    """The field that says which event a record is, where the operation has one."""
    return next((one for one in fields if {"status", "code"} <= meaning(one) and one.record is None), None)


def says_event(match: Match) -> bool:
    """Whether a column says what each record's event is."""
    told = {
        one.name for one in match.operation.record.fields if "status" in meaning(one) and one.kind not in DATE_SHAPES
    }
    return bool(told & match.filled.keys())


def in_sets(match: Match, sheets: Sequence[Sheet], main: int) -> tuple[Match, Sheet, Sets | None]:
    """The match and the main sheet with the milestone columns gathered in sets; both as they are where the sheet has no such columns,
    another column says the event, or the operation knows none.
    """
    sheet = sheets[main]
    fields = match.operation.record.fields
    code, moment = (
        code_of_event(fields),
        next((one for one in fields if {"status", "moment"} <= meaning(one) and one.kind in DATE_SHAPES), None),
    )
    found = milestones(sheet)
    is_status = match.operation.action is Action.STATUS
    if not is_status or code is None or moment is None or len(found) < _LEAST or says_event(match):
        return match, sheet, None
    at, event = _at(found), _event(found)
    rest = tuple(column for column in sheet.columns if all(column is not one for one in found))
    kept = {
        path: filled
        for path, filled in match.filled.items()
        if path != moment.name and (filled.sheet != main or all(filled.column is not one for one in found))
    }
    kept[code.name] = Filled(main, event, 1.0, "the codes are the headings; what does the exchange call these events?")
    kept[moment.name] = Filled(main, at, 1.0)
    codes = {column.label: "_".join(words_of(column.label)).upper() for column in found}
    sets = Sets(codes, at, event, {code.name: event, moment.name: at})
    return Match(match.operation, kept, match.total), replace(sheet, columns=(*rest, at, event)), sets


def _at(found: Sequence[Column]) -> Column:
    """The moments of all milestones as one column."""
    cells = tuple(
        next((cell for cell in row if cell.strip()), "") for row in zip(*(one.cells for one in found), strict=True)
    )
    formats = list(dict.fromkeys(one for column in found for one in column.guess.keys.get("formats", [])))
    said = f"{sum(len(column.filled) for column in found)} values under {len(found)} headings"
    strangers = [note for column in found for note in column.guess.evidence.split("; ")[1:] if CHECK in note]
    guess = Guess("datetime", {"formats": formats} if formats else {}, "; ".join([said, *strangers]))
    return Column(_LABEL, -1, cells, Reading(frozenset({"status", "moment"}), (), found[0].reading.languages), guess)


def _event(found: Sequence[Column]) -> Column:
    reading = Reading(frozenset({"status", "code"}), (), found[0].reading.languages)
    return Column("event", -2, found[0].cells, reading, Guess("text", {}, "the code of the set"))

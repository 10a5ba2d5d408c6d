"""Columns that repeat in a row: a date under each milestone (`Picked up`, `Arrived`), and numbered items (`Item 1`, `Qty 1`, `Item 2` ...).

Owns: how such columns are recognised, and the columns that read the sets in a mapping. Knows no field names.
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loadsheet.contract import DATE_SHAPES, Action
from loadsheet.mapping.schema import SET
from loadsheet.mapping_tools.column_types import guess_type
from loadsheet.mapping_tools.columns import CHECK, MOMENTS, Cells, Column, Guess
from loadsheet.mapping_tools.field_matching import Filled, Match
from loadsheet.mapping_tools.headings import Reading, event_code_field, gives_event, meaning, words_of
from loadsheet.mapping_tools.sheet_profiles import Sheet

_PLANNED = frozenset({"estimated", "early", "late"})  # headings of planned moments, not of events
_LEAST = 2  # a single date is a moment of the record
_OF_ITEMS = frozenset({"item", "quantity", "weight", "package", "volume", "length", "width", "height"})
_NUMBERED = re.compile(r"(.*\D)([0-9]{1,2})(\s*[(\[].*|)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of a table: the code of each word in the headings, the columns that read them, and the name of the column with the word itself
    (None: not needed). `filled_by` are the columns that make a set count as filled.
    """

    codes: Mapping[str, str]
    columns: tuple[Column, ...]
    filled_by: tuple[Column, ...]
    word: Column | None = None
    always: frozenset[int] = frozenset()
    """The positions of columns that are filled wherever their set is."""
    repeated: bool = False
    """Whether the headings of the sets are the same, without a word or number of their own."""


# ---- milestones ----


def milestones(sheet: Sheet) -> list[Column]:
    """The columns with the time of an event."""
    return [
        column
        for column in sheet.columns
        if column.concepts & {"milestone"} and not column.concepts & _PLANNED and column.guess.type in MOMENTS
    ]


def in_sets(match: Match, sheets: Sequence[Sheet], main: int) -> tuple[Match, Sheet, Sets | None]:
    """The match and the main sheet with the milestone columns combined into sets. Both are unchanged if the sheet has no such columns,
    another column gives the event, or the operation has no events.
    """
    sheet, fields = sheets[main], match.operation.record.fields
    code = event_code_field(fields)
    moment = next(
        (field for field in fields if {"status", "moment"} <= meaning(field) and field.kind in DATE_SHAPES), None
    )
    found = milestones(sheet)
    if (
        match.operation.action is not Action.STATUS
        or code is None
        or moment is None
        or len(found) < _LEAST
        or gives_event(match.operation, match.filled)
    ):
        return match, sheet, None
    at, event = _moment_column(found), _event_column(found)
    rest = tuple(column for column in sheet.columns if column not in found)
    kept = {path: filled for path, filled in match.filled.items() if path != moment.name and filled.column not in found}
    doubt = "the codes are the headings; replace them with the codes of the exchange"
    kept[code.name] = Filled(main, event, 1.0, doubt)
    kept[moment.name] = Filled(main, at, 1.0)
    codes = {column.label: "_".join(words_of(column.label)).upper() for column in found}
    sets = Sets(codes, (at,), (at,), event, frozenset({at.position}))
    return Match(match.operation, kept), replace(sheet, columns=(*rest, at, event)), sets


def _moment_column(found: Sequence[Column]) -> Column:
    """One column with the moments of all milestones."""
    formats = list(dict.fromkeys(format_ for column in found for format_ in column.guess.keys.get("formats", [])))
    evidence = f"{sum(column.filled for column in found)} values under {len(found)} headings"
    remarks = [note for column in found for note in column.guess.evidence.split("; ")[1:] if CHECK in note]
    guess = Guess("datetime", {"formats": formats} if formats else {}, "; ".join([evidence, *dict.fromkeys(remarks)]))
    reading = Reading(frozenset({"status", "moment"}), (), found[0].reading.languages)
    return Column(SET, -1, reading, "", _merged([column.cells for column in found]), guess)


def _event_column(found: Sequence[Column]) -> Column:
    reading = Reading(frozenset({"status", "code"}), (), found[0].reading.languages)
    return Column("event", -2, reading, "", found[0].cells, Guess("text", {}, "the code of the set"))


def _merged(cells: Sequence[Cells]) -> Cells:
    """The cells of several columns as those of one: the values of all, and for each row the first cell that is not blank."""
    places: dict[str, int] = {}
    counts: Counter[int] = Counter()
    own = []
    for one in cells:
        own.append([places.setdefault(value, len(places)) for value in one.values])
        for place, count in zip(own[-1], one.counts, strict=True):
            counts[place] += count
    codes = array("i", [-1]) * len(cells[0].codes)
    for one, known in zip(reversed(cells), reversed(own), strict=True):
        for row, code in enumerate(one.codes):
            if code >= 0:
                codes[row] = known[code]
    return Cells(tuple(places), tuple(counts[place] for place in range(len(places))), codes)


# ---- numbered items ----


def with_items(sheet: Sheet) -> tuple[Sheet, Sets | None]:
    """The sheet with the columns of repeated items combined into sets; unchanged if it has none."""
    numbered: dict[str, dict[int, Column]] = defaultdict(dict)
    repeated: dict[str, dict[int, Column]] = defaultdict(dict)
    for column in sheet.columns:
        if column.occurrence:
            repeated[f"{column.label} {SET}"][column.occurrence] = column
        elif found := _NUMBERED.fullmatch(column.label):
            numbered[f"{found[1]}{SET}{found[3]}"][int(found[2])] = column
    items = _largest_families(numbered)
    is_repeated = not items
    if is_repeated and _are_in_turn(families := _largest_families(repeated)):
        items = families
    if not items:
        return sheet, None
    columns = [_combined_column(label, own, sheet) for label, own in items.items()]
    positions = {column.position for own in items.values() for column in own.values()}
    rest = [column for column in sheet.columns if column.position not in positions]
    by = max(items, key=lambda label: sum(column.filled for column in items[label].values()))
    always = frozenset(own[1].position for own in items.values() if _is_always(own, items[by]))
    codes = {str(number): str(number) for number in range(1, len(items[by]) + 1)}
    merged = sorted([*rest, *columns], key=lambda column: column.position)
    filled_by = (columns[list(items).index(by)],)
    sets = Sets(codes, tuple(columns), filled_by, None, always, is_repeated)
    return replace(sheet, columns=tuple(merged)), sets


def _largest_families(families: Mapping[str, dict[int, Column]]) -> dict[str, dict[int, Column]]:
    """The families of columns about items that have the most members, numbered from 1, and those that stand among them in every set; none if
    only one is about items.
    """
    complete = {
        label: own for label, own in families.items() if len(own) > 1 and sorted(own) == list(range(1, len(own) + 1))
    }
    known = {label for label, own in complete.items() if own[1].concepts & _OF_ITEMS}
    size = max((len(complete[label]) for label in known), default=0)
    items = {label: own for label, own in complete.items() if label in known and len(own) == size}
    if len(items) < _LEAST:
        return {}
    beside = [label for label, own in complete.items() if label not in items and len(own) == size]
    together = {label for label in beside if _are_in_turn({**items, label: complete[label]})}
    return {label: own for label, own in complete.items() if label in items or label in together}


def _are_in_turn(items: Mapping[str, dict[int, Column]]) -> bool:
    """Whether the columns stand in the same order in every set."""
    families = sorted(items.values(), key=lambda own: own[1].position)
    by_set = zip(*([own[number].position for number in sorted(own)] for own in families), strict=True)
    positions = [position for places in by_set for position in places]
    return positions == sorted(positions)


def _is_always(own: Mapping[int, Column], by: Mapping[int, Column]) -> bool:
    """Whether the columns of one family are filled wherever those of another are."""
    return all(
        mine >= 0 or other < 0
        for number, column in own.items()
        for mine, other in zip(column.cells.codes, by[number].cells.codes, strict=True)
    )


def _combined_column(label: str, own: Mapping[int, Column], sheet: Sheet) -> Column:
    first, cells = own[1], _merged([own[number].cells for number in sorted(own)])
    guess = guess_type(cells, first.reading, first.unit, sheet.habits.locale)
    first_words, *more = guess.evidence.split("; ")
    guess = guess._replace(evidence="; ".join([f"{first_words}, under {len(own)} headings", *more]))
    return replace(first, label=label, cells=cells, guess=guess, occurrence=0)

"""Columns that hold several values: in one cell (`01067 Dresden`, `120x80x100 cm`), or in a row that repeats them (`Item 1`, `Qty 1`, `Item 2`, `Qty 2`; a date
under each milestone). And what single cells show: values that may stand for blank, lost zeros, states of rows to leave out.

Owns: how such columns are recognised, and the columns that read their parts or sets; a part is found by a pattern of the mapping language.
What single cells show changes no draft: it is offered in comments marked CHECK. Knows no field names.
"""

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loadsheet.contract import DATE_SHAPES, Action
from loadsheet.mapping.schema import SET
from loadsheet.mapping.units import ALIASES
from loadsheet.mapping.yamlfile import flow
from loadsheet.mapping_tools.column_types import as_text, guess_type, times_in
from loadsheet.mapping_tools.columns import (
    CHECK,
    MOMENTS,
    Cells,
    Column,
    Guess,
    a_few,
    enough_readable,
    renamed,
)
from loadsheet.mapping_tools.field_matching import Filled, Match
from loadsheet.mapping_tools.headings import (
    MEASURES,
    SIDES,
    SIDES_OF_BOX,
    Reading,
    concepts_of,
    event_code_field,
    gives_event,
    reading_of,
    sides_in,
    vocabulary,
    words_of,
)
from loadsheet.mapping_tools.sheet_profiles import Sheet

# ---- several values in one cell ----

_ZIP = r"(?:[A-Z]{1,2}-)?[0-9]{4,5}(?: ?[A-Z]{2})?|[0-9]{3} [0-9]{2}|[0-9]{2}-[0-9]{3}"
_TIME = r"[0-9]{1,2}(?:[:.h][0-9]{2})?"
_LAYOUTS = (
    (frozenset({"postal", "city"}), rf"(?P<postal>{_ZIP})[ ,]+(?P<city>[^0-9].*)"),
    (frozenset({"postal", "city"}), rf"(?P<city>[^0-9]*[^0-9 ,/])[ ,/]+(?P<postal>{_ZIP})"),
    *((frozenset({town}), rf"(?P<postal>{_ZIP})[ ,]+(?P<city>[^0-9].*)") for town in ("place", "city")),
    (frozenset({"address"}), rf"(?P<address>.+?), *(?P<postal>{_ZIP}) +(?P<city>[^0-9,]+)"),
    (frozenset({"moment"}), rf"[^0-9]*(?P<early>{_TIME})h?[^0-9:.h]+(?P<late>{_TIME})[^0-9]*"),
)
"""The concepts that a heading must have, and the pattern of the cells, with a group for the concept of each part."""
_TOWN = frozenset({"postal", "city", "province"})

_OF_SIDES = frozenset({"dimensions", "weight"})  # `Maße` is French for weights, without its accents
_BETWEEN_SIDES = " *[xX\u00d7*/] *"
_SIDE = r"[0-9]+(?:[.,][0-9]+)?"
_UNIT = r"(?P<unit>[^\W\d_]+|[\"″])?"
_A_BOX = re.compile(rf"{_SIDE}.*?{_BETWEEN_SIDES}{_SIDE}.*?{_BETWEEN_SIDES}{_SIDE} *{_UNIT}")
_NO_FIELD = Reading(frozenset({"unused"}), (), Counter())


@dataclass(frozen=True, eq=False)
class Parts:
    """The columns of the parts of a column, by the names of their groups in its pattern."""

    whole: Column
    pattern: str
    columns: Mapping[str, Column]

    @property
    def example(self) -> str:
        """The first cell that has the parts, for messages about cells that have not."""
        return next(text for text in self.whole.cells.texts if re.fullmatch(self.pattern, text))

    def split(self, names: Mapping[str, str]) -> str:
        """The pattern for `split` with groups of these names; the other parts have no name."""
        found = self.pattern
        for concept in self.columns:
            found = found.replace(f"?P<{concept}>", f"?P<{names[concept]}>" if concept in names else "?:")
        return found


def with_parts(sheet: Sheet) -> tuple[Sheet, list[Parts]]:
    """The sheet with columns for the parts of its cells, beside the whole ones; unchanged if no cell has parts."""
    found: list[Parts] = []
    columns: list[Column] = []
    for column in sheet.columns:
        if parts := _parts(column, sheet.notation.locale):
            found.append(parts)
            columns += [parts.whole, *parts.columns.values()]
        else:
            columns.append(column)
    return replace(sheet, columns=tuple(columns)), found


def _parts(column: Column, locale: str) -> Parts | None:
    for pattern, unit, doubt in () if column.cells.kinds else (*_layouts(column), *_boxes(column)):
        matches = {text: re.fullmatch(pattern, text) for text in column.cells.texts}
        read = sum(column.cells.texts[text] for text, match in matches.items() if match)
        if enough_readable(read, column.filled_count) and (len(matches) > 1 or "postal" not in pattern):
            guess = as_text(column.cells)
            whole = replace(column, reading=_NO_FIELD, guess=guess._replace(evidence=f"{guess.evidence}{doubt}"))
            measured, evidence = replace(column, unit=unit), f"in {read} of {column.filled_count} values"
            return Parts(whole, pattern, dict(_columns(measured, matches, evidence, locale)))
    return None


def _layouts(column: Column) -> Iterator[tuple[str, str, str]]:
    """The patterns that the heading of a column of texts allows, without a unit and a doubt."""
    if column.guess.type == "text":
        if slashed := _slashed(column.label):
            yield slashed, "", ""
        yield from ((pattern, "", "") for concepts, pattern in _LAYOUTS if concepts <= column.concepts)


def _slashed(label: str) -> str:
    """The pattern of cells such as `Dallas / TX / 75201` below `City / State / ZIP`; empty if a heading does not name its parts in this way."""
    parts = [next(iter(reading_of(part).concepts & _TOWN), "") for part in label.split("/")]
    are_named = len(parts) > 1 and all(parts) and len({*parts}) == len(parts)
    return " */ *".join(f"(?P<{part}>[^/]*?)" for part in parts) if are_named else ""


def _boxes(column: Column) -> Iterator[tuple[str, str, str]]:
    """The pattern of the sides of packages in cells such as `1,20 x 0,80 x 1,00 m`, with their unit (cells in another one are refused) and the
    doubts about them.
    """
    found = [box for text in column.cells.texts if (box := _A_BOX.fullmatch(text))]
    if not found or not column.concepts & _OF_SIDES:
        return
    spelled = Counter(word for box in found if (word := box["unit"]))
    unit = ALIASES.get(spelled.most_common(1)[0][0].casefold(), "") if spelled else ""
    words = "|".join(sorted(re.escape(word) for word in spelled if ALIASES.get(word.casefold()) == unit))
    behind = f"(?: *(?:{words}))?" if unit else ""
    order = sides_in(column.label)
    doubt = "" if order else f"; {CHECK} the order of its parts: length, width, height"
    doubt += f"; {CHECK} the unit of cells without one" if unit and spelled.total() < len(found) else ""
    yield (
        _BETWEEN_SIDES.join(f"(?P<{name}>{_SIDE}){behind}" for name in order or SIDES_OF_BOX),
        unit or column.unit,
        doubt,
    )


def _columns(
    column: Column, matches: Mapping[str, re.Match[str] | None], evidence: str, locale: str
) -> Iterator[tuple[str, Column]]:
    first = next(match for match in matches.values() if match)
    for number, concept in enumerate(first.groupdict(), start=1):
        values = [(match[concept] if (match := matches[value.strip()]) else "") for value in column.cells.values]
        cells = renamed(column.cells, values)
        reading = replace(column.reading, concepts=(column.concepts & (SIDES | {"moment"})) | {concept}, unknown=())
        times = times_in(cells, "%H:%M", "%H.%M", "%Hh%M", "%H") if concept in {"early", "late"} else None
        guess = times or Guess("text", {}, "")
        said = f"part {number} of the cell, {evidence}"
        if concept in MEASURES:
            guess = guess_type(cells, reading, column.unit, locale)
            said = f"{said}; {guess.evidence}"
        guess = guess._replace(evidence=said)
        yield concept, Column(f"{column.label} {concept}", column.position, reading, "", cells, guess)


# ---- observations for the author ----

_FOR_BLANK = re.compile(r"([xX*?._\-])\1+|[-?.*]|none|unknown|tbd|tba", re.IGNORECASE)
_STATES_MOST = 12  # different values
_CANCELLED = ("delete",)
_CHOOSING = frozenset(
    ("ship", "send", "export", "include", "select", "selected", "release", "released", "approved", "active", "senden", "versenden", "freigegeben", "freigabe", "aktiv",
     "envoyer", "enviar")
)  # fmt: skip
"""Words of headings of columns that may say which rows are meant, such as a checkbox `Ship?`."""
_LEFT_OUT = ("delete", "dropped")  # what a state says of rows that are not to be sent
_RETURNS = ("return",)
_WITH_DECIMALS = re.compile("[0-9]+[.]0+")
_NUMBER_AND_LINE = re.compile(r"(?P<order>.*[0-9])[-/.](?P<line>[0-9]{1,6})")
_ORDERS_LEAST = 3
_ZEROS_MOST = 2  # digits that a postal code may have lost, where others may be of other countries


def review_comments(sheet: Sheet, column: Column, name: str, *, at_top: bool, deletes: bool) -> Iterator[str]:
    """Comments for a column of this name in the draft. `at_top`: only the first row of a record has a cell. `deletes`: all rows are of records
    to be deleted.
    """
    for_blank = [text for text in column.cells.shown if _FOR_BLANK.fullmatch(text)]
    if for_blank and column.guess.type == "text":
        yield f"{CHECK} whether {a_few(for_blank)} means blank: blank: {flow(for_blank)}"
    with_decimals = [text for text in column.cells.shown if _WITH_DECIMALS.fullmatch(text)]
    if column.guess.type == "text" and 2 * len(with_decimals) > len(column.cells.shown):
        yield f"{CHECK} {a_few(with_decimals[:1])}: a program added decimals; to send it without: $replace({name}, r'[.]0+$', '')"
    if column.guess.type == "text" and (lines := _numbers_of_lines(column)):
        yield lines
    if "postal" in column.concepts and (lost := _lost_zeros(sheet, column)):
        yield lost
    states = list(column.cells.shown)
    if "status" in column.concepts and column.guess.type == "text" and len(states) <= _STATES_MOST:
        yield from _of_states(states, name, at_top=at_top)
    if column.guess.type == "text" and len(states) <= _STATES_MOST and (back := _of_words(states, _RETURNS)):
        yield f"{CHECK} whether rows with {a_few(back)} go the other way; all are sent from the pickup to the delivery"
    is_yes_or_no, has_blank = column.guess.type == "yesno", column.filled_count < column.rows
    is_marked = (is_yes_or_no and (has_blank or len(states) > 1)) or (has_blank and len(states) == 1)
    if is_marked and _CHOOSING & {*words_of(column.label)}:
        rule = f"{name} != true" if is_yes_or_no else f"{name} == null"
        yield (
            f"{CHECK} whether only rows with a yes are to be sent; all are. To leave out the others, by the table under source.tables:"
            f" ignore_rows: '{rule}'"
        )
    if not deletes and any(
        len(word) > 1 and vocabulary().value_meant(word, _CANCELLED) for word in words_of(column.label)
    ):
        yield from _of_cancelled(column, name, at_top=at_top)


def _numbers_of_lines(column: Column) -> str:
    """The offer to take the number of the line off numbers such as `4711-10`, `4711-20`: most have several lines, each of which begins with the same."""
    found = [_NUMBER_AND_LINE.fullmatch(text) for text in column.cells.shown]
    lines: dict[str, list[int]] = defaultdict(list)
    for match in found:
        if match is None:
            return ""
        lines[match["order"]].append(int(match["line"]))
    several = [text for text, own in lines.items() if len(own) > 1]
    if len(several) < _ORDERS_LEAST or len(several) * 3 < len(lines) or len({min(own) for own in lines.values()}) > 1:
        return ""
    own = [match[0] for match in found if match is not None and match["order"] == several[0]]
    pattern = "(?P<order>.+)[-/.](?P<line>[0-9]+)"
    return f"{CHECK} whether {a_few(own)} are lines of one order; each is sent as one. To join them: split: '{pattern}', and group by a column with part_of"


def _of_cancelled(column: Column, name: str, *, at_top: bool) -> Iterator[str]:
    """The offer to ignore rows by a column such as `Cancelled at`, which only cancelled orders fill in."""
    if column.guess.type == "yesno":
        rule = f"{name} == true"
    elif column.filled_count < column.rows and column.guess.type in {"text", *MOMENTS}:
        rule = f"{name} != null"
    else:
        return
    said = "fill_down: its first row says so" if at_top else "only if each of them says so"
    yield (
        f"{CHECK} whether a cell here says that an order is cancelled; all are sent. To leave out its rows, by the table under source.tables"
        f" ({said}): ignore_rows: '{rule}'"
    )


def _lost_zeros(sheet: Sheet, column: Column) -> str:
    """The offer to pad postal codes that are shorter than the others; empty if they may be those of another country."""
    codes = list(column.cells.shown)
    longest = max(map(len, codes), default=0)
    short = [text for text in codes if len(text) < longest]
    countries = {text for other in sheet.columns if "country" in other.concepts for text in other.cells.shown}
    least = longest - (_ZEROS_MOST if len(countries) > 1 else 1)
    if not short or not all(text.isdecimal() for text in codes) or min(map(len, short)) > least:
        return ""
    return f"{CHECK} whether {a_few(short)} lost zeros, others have {longest} digits: pad_left: {{to: {longest}}}"


def _of_words(states: list[str], meaning: tuple[str, ...]) -> list[str]:
    """The states with a word of such a meaning, unless all are. A letter alone is no word."""
    meant = vocabulary().value_meant
    found = [text for text in states if any(len(word) > 1 and meant(word, meaning) for word in words_of(text))]
    return found if len(found) < len(states) else []


def _of_states(states: list[str], name: str, *, at_top: bool) -> Iterator[str]:
    """The offer to ignore rows with some of these states, if not all are alike."""
    if out := _of_words(states, _LEFT_OUT):
        texts = ", ".join(f'"{text}"' for text in out)
        rule = f"{name} == {texts}" if len(out) == 1 else f"{name} in [{texts}]"
        said = "orders whose first row has" if at_top else "rows with"
        yield f"{CHECK} whether {said} {a_few(out)} are to be left out, by the table under source.tables: ignore_rows: '{rule}'"


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
    word: Column | None
    always: frozenset[int]
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
        (field for field in fields if {"status", "moment"} <= concepts_of(field) and field.kind in DATE_SHAPES), None
    )
    found = milestones(sheet)
    if moment is not None and len(found) == 1 and moment.name not in match.by_path:
        only = Filled(main, found[0], 1.0, "it is the moment of one event only")
        match = Match(match.operation, match.by_path | {moment.name: only})
    if (
        match.operation.action is not Action.STATUS
        or code is None
        or moment is None
        or len(found) < _LEAST
        or gives_event(match.operation, match.by_path)
    ):
        return match, sheet, None
    at = _moment_column(found)
    reading = Reading(frozenset({"status", "code"}), (), found[0].reading.languages)
    event = Column("event", -2, reading, "", found[0].cells, Guess("text", {}, "the code of the set"))
    rest = tuple(column for column in sheet.columns if column not in found)
    kept = {path: one for path, one in match.by_path.items() if path != moment.name and one.column not in found}
    doubt = "the codes are the headings; replace them with the codes of the exchange"
    kept[code.name] = Filled(main, event, 1.0, doubt)
    kept[moment.name] = Filled(main, at, 1.0)
    codes = {column.label: "_".join(words_of(column.label)).upper() for column in found}
    sets = Sets(codes, (at,), (at,), event, frozenset({at.position}))
    return Match(match.operation, kept), replace(sheet, columns=(*rest, at, event)), sets


def _moment_column(found: Sequence[Column]) -> Column:
    """One column with the moments of all milestones."""
    formats = list(dict.fromkeys(format_ for column in found for format_ in column.guess.keys.get("formats", [])))
    evidence = f"{sum(column.filled_count for column in found)} values under {len(found)} headings"
    remarks = [note for column in found for note in column.guess.evidence.split("; ")[1:] if CHECK in note]
    guess = Guess("datetime", {"formats": formats} if formats else {}, "; ".join([evidence, *dict.fromkeys(remarks)]))
    reading = Reading(frozenset({"status", "moment"}), (), found[0].reading.languages)
    return Column(SET, -1, reading, "", _merged([column.cells for column in found]), guess)


def _merged(cells: Sequence[Cells]) -> Cells:
    """The cells of several columns as those of one: the values of all, and for each row the first cell that is not blank."""
    places: dict[str, int] = {}
    counts: Counter[int] = Counter()
    own = []
    for one in cells:
        own.append([places.setdefault(value, len(places)) for value in one.values])
        for place, count in zip(own[-1], one.counts, strict=True):
            counts[place] += count
    value_indexes = array("i", [-1]) * len(cells[0].value_indexes)
    for one, known in zip(reversed(cells), reversed(own), strict=True):
        for row, code in enumerate(one.value_indexes):
            if code >= 0:
                value_indexes[row] = known[code]
    return Cells(tuple(places), tuple(counts[place] for place in range(len(places))), value_indexes)


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
    by = max(items, key=lambda label: sum(column.filled_count for column in items[label].values()))
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
        for mine, other in zip(column.cells.value_indexes, by[number].cells.value_indexes, strict=True)
    )


def _combined_column(label: str, own: Mapping[int, Column], sheet: Sheet) -> Column:
    first, cells = own[1], _merged([own[number].cells for number in sorted(own)])
    guess = guess_type(cells, first.reading, first.unit, sheet.notation.locale)
    first_words, *more = guess.evidence.split("; ")
    guess = guess._replace(evidence="; ".join([f"{first_words}, under {len(own)} headings", *more]))
    return replace(first, label=label, cells=cells, guess=guess, occurrence=0)

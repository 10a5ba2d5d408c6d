"""Parts of the payload of a draft: its lines of YAML, nested lists, moments in two columns, and usual values.

Owns: the unused columns about package contents and parties, the packages of a row, and the time of a date column: its time column
(`Ladedatum` and `Ladezeit`), or an assumed time. Also country, currency and time zone where no column has them: by the notation of the sheet,
its countries and its currency; every value from there is marked CHECK. Fields and roles are identified by their meaning in the contract.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from loadsheet.contract import Field, Record
from loadsheet.mapping.notations import format_parser
from loadsheet.mapping.schema import SET
from loadsheet.mapping_tools.column_types import DAY_NUMBERS, code_named, currency_code
from loadsheet.mapping_tools.columns import CHECK, MOMENTS, UTC_WORDS, Column
from loadsheet.mapping_tools.drafts import Draft, DraftColumn, DraftTable
from loadsheet.mapping_tools.field_matching import best_columns
from loadsheet.mapping_tools.headings import SIDES, concepts_of, vocabulary
from loadsheet.reading import Native, fold_label
from loadsheet.similar_text import short_list

_Found = list[tuple[Field, DraftColumn]]

_KILOS, _CENTIMETRES = "KG", "CM"  # the units of weights and of lengths
_EARLIEST, _LATEST = "PT8H", "PT16H"  # assumed times of a window whose days have none
_NO_REFERENCE = frozenset({"other", "unused", "moment", "status"})  # concepts of headings that are no references
_HOUSE_NUMBER = re.compile(r"[0-9]{1,5} ?[a-z]?(?: ?[-/] ?[0-9]{1,5} ?[a-z]?)?$|s/?n$", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"\s*[0-9]+$")
_CONTACTS = frozenset({"contact", "phone", "email", "payer"})
_ROLES = ("payer", "carrier", "pickup", "delivery")  # the first one in the heading; the last is the default


class Line(NamedTuple):
    """A line under `payload:`: its depth, its text, and its comment."""

    depth: int
    text: str
    remark: str = ""


@dataclass(slots=True)
class Payload:
    """The finished payload of a draft: its lines, the constants (None: to fill in) with their meanings, the expression for the volume of a package
    (empty: not needed), and the time zone with its comment.
    """

    lines: list[Line] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    volume: str = ""
    zone: str = ""
    zone_column: DraftColumn | None = None
    zone_remark: str = ""


# ---- package contents and parties ----


def unit_leaf(field_: Field) -> str:
    """The leaf of a unit, without its closing brace."""
    usual = next(iter(field_.known), _CENTIMETRES)
    return f"{{value: {_KILOS if _KILOS in field_.known else usual}"


def take_contents_entry(draft: Draft, table: DraftTable, record: Record) -> list[tuple[int, str]]:
    """The entry for the contents of a package, from the matching columns of its table; empty if none matches. Marks them as used."""
    own = [drafted for drafted in draft.unused if drafted.table is table and "inner" in drafted.column.concepts]
    found = _matching_columns(own, record, frozenset({"inner"}), draft)
    draft.mark_used(*(drafted for _, drafted in found))
    by_measure = {concepts_of(field_): drafted.name for field_, drafted in found}
    texts = []
    for field_ in record.fields:
        drafted = next((drafted for filled, drafted in found if filled is field_), None)
        measured = by_measure.get(concepts_of(field_) - {"unit"}) if "unit" in concepts_of(field_) else None
        if drafted is not None:
            texts.append(f"{field_.name}: {{col: {drafted.name}}}")
        elif measured is not None:
            texts.append(f"{field_.name}: {unit_leaf(field_)}, when: '{measured} != null'}}")
    return _entry(texts, 0) if found else []


def take_party_entries(draft: Draft, record: Record) -> list[tuple[int, str]]:
    """An entry for each party whose contact, telephone, mail or payer role is in columns of the record's own table. Marks them as used."""
    role = next((field_ for field_ in record.fields if field_.known), None)
    if role is None:
        return []
    lines = []
    for concept in _ROLES:
        contacts = (drafted for drafted in draft.of_record() if drafted.column.concepts & _CONTACTS)
        roles = {one: next((role for role in _ROLES if role in one.column.concepts), _ROLES[-1]) for one in contacts}
        own = [one for one, role_of in roles.items() if role_of == concept]
        named = next((known for known in role.known if concept in vocabulary().read(known).concepts), "")
        found = _matching_columns(own, record, frozenset({concept}), draft) if named else []
        if concept == "payer":  # a heading with only the payer concept has names
            rest = [one for one in own if one.column.concepts == {"payer"} and one.keys["type"] == "text"]
            name = next((field_ for field_ in record.fields if concepts_of(field_) == {"company"}), None)
            found += [(name, rest[0])] if rest and name is not None and named else []
        if not found:
            continue
        draft.mark_used(*(drafted for _, drafted in found))
        there = " or ".join(f"{draft.ref(drafted)} != null" for _, drafted in found)
        texts = [f"{field_.name}: {_take_name_or_col(draft, drafted, own)}" for field_, drafted in found]
        lines += _entry([f"when: '{there}'", f"{role.name}: {{value: {named}}}", *texts], 0)
    return lines


def take_numbered_entries(draft: Draft, record: Record) -> list[Line]:
    """One entry for each of columns such as Carrier 1, Carrier 2. Marks them as used."""
    lines = []
    for drafted in [one for one in draft.unused if one.table is draft.main and one.column.concepts == {"carrier"}]:
        if drafted.column.reading.number and drafted.keys["type"] == "text":
            ref = draft.ref(drafted)
            lines += [Line(3, f"- when: '{ref} != null'"), Line(4, f"{record.fields[0].name}: {{col: {ref}}}")]
            draft.mark_used(drafted)
    return lines


def _take_name_or_col(draft: Draft, drafted: DraftColumn, own: Sequence[DraftColumn]) -> str:
    """The leaf for a column; a first and a last name are joined. Marks columns of names as used."""
    both = [next((one for one in own if part in one.column.concepts), None) for part in ("given", "family")]
    if drafted not in both or None in both:
        return f"{{col: {draft.ref(drafted)}}}"
    names = list(dict.fromkeys(one for one in both if one is not None))  # `Full name` is both
    draft.mark_used(*names)
    if len(names) == 1:
        return f"{{col: {draft.ref(drafted)}}}"
    return f"{{expr: '{joined(draft, names)}'}}"


def _matching_columns(own: Sequence[DraftColumn], record: Record, context: frozenset[str], draft: Draft) -> _Found:
    """The columns that fill fields of a record, in the order of its fields."""
    columns = best_columns([drafted.column for drafted in own], record, draft.operation, context)
    by_column = {id(drafted.column): drafted for drafted in own}
    return [(field_, by_column[id(columns[field_.name])]) for field_ in record.fields if field_.name in columns]


def _entry(texts: Sequence[str], depth: int) -> list[tuple[int, str]]:
    """The lines of one entry of a list."""
    return [(depth, f"- {texts[0]}"), *((depth + 1, text) for text in texts[1:])]


def is_reference(concepts: frozenset[str]) -> bool:
    """Whether a heading names a reference, or another number of an order or a tender."""
    if concepts & _NO_REFERENCE:
        return False
    return "reference" in concepts or (bool(concepts & {"order", "tender"}) and concepts <= {"order", "tender", "id"})


# ---- names and streets in several columns ----


def take_further_columns(draft: Draft, field_: Field, first: DraftColumn) -> list[DraftColumn]:
    """The unused columns that go on with the name or street in another one: further lines (`Name 2`), and house numbers. Marks them as used
    and makes them texts: a house number may be `12a`.
    """
    concepts, others = (
        concepts_of(field_),
        [one.column for one in draft.by_path.values() if one.table is first.table],
    )
    found = []
    for one in (one for one in draft.unused if one.table is first.table and one.column.filled_count):
        is_line = bool(concepts & {"company", "address"}) and _is_next_line(one.column, first.column, others)
        if is_line or ("address" in concepts and _is_house_number(one.column, first.column)):
            one.keys = {name: one.keys[name] for name in ("label", "occurrence") if name in one.keys} | {"type": "text"}
            found.append(one)
    draft.mark_used(*found)
    return found


def join_columns(draft: Draft, first: DraftColumn, further: Sequence[DraftColumn]) -> str:
    """The leaf for a text in several columns, in their order. Without the first one, there is none."""
    in_order = sorted((first, *further), key=lambda one: one.column.position)
    there = f", when: '{draft.ref(first)} != null'" if first.nullable else ""
    return f"{{expr: '{joined(draft, in_order)}'{there}}}"


def names_on(side: frozenset[str], table: DraftTable) -> list[DraftColumn]:
    """The columns with the first and the last name of the person on a side, in their order. Names without a side are those of the delivery."""
    persons = (one for one in table.columns if one.column.concepts & {"given", "family"} and one.column.filled_count)
    own = side or {"delivery"}
    return [
        one
        for one in persons
        if (one.column.concepts & SIDES or {"delivery"}) == own and "payer" not in one.column.concepts
    ]


def joined(draft: Draft, columns: Iterable[DraftColumn]) -> str:
    """The expression for the texts of several columns, with blanks between them."""
    return f'$join([{", ".join(map(draft.ref, columns))}], " ")'


def _is_next_line(column: Column, first: Column, others: Iterable[Column]) -> bool:
    """Whether a heading is the first one with a higher number, as `Name 2` is for `Name` and `Name 1`, and none of the others is between them."""
    base, number = _line_number(column)
    lower = [own for one in (first, *others) for other, own in [_line_number(one)] if other == base and own < number]
    return max(lower, default=0) == _line_number(first)[1] and _line_number(first)[0] == base


def _line_number(column: Column) -> tuple[str, int]:
    """A heading without the number at its end, and this number (1: none)."""
    label = fold_label(column.label)
    found = _LAST_NUMBER.search(label)
    return (label[: found.start()], int(found[0])) if found else (label, 1)


def _is_house_number(column: Column, street: Column) -> bool:
    """Whether a heading says that a column has house numbers, or it stands right after the street, with a heading such as `No.` and values of
    which nine in ten are such as `12a`.
    """
    concepts, sides = column.concepts, column.concepts & SIDES
    if "house" in concepts:
        return sides in (frozenset(), street.concepts & SIDES)
    is_next = column.position == street.position + 1 and concepts - SIDES - {"name", "address"} == {"id"}
    return is_next and sum(not _HOUSE_NUMBER.match(text) for text in column.cells.shown) * 10 <= len(column.cells.shown)


# ---- dates without a time of day, and those with it in another column ----


def clock_of(draft: Draft, day: DraftColumn, *, late: bool = False) -> DraftColumn | None:
    """The unused column with the times of a date column, or with `late` those of the end of its window; None if there is none, the dates
    include their times, or each event of a set has its own.
    """
    if not is_without_clock(day):
        return None
    ends = late or "late" in day.column.concepts
    times = [one for one in draft.unused if one.table is day.table and one.keys.get("type") == "time"]
    times = [clock for clock in times if ("late" in clock.column.concepts) == ends]
    alike = [clock for clock in times if clock.column.concepts & SIDES == day.column.concepts & SIDES]
    alike = alike or [clock for clock in times if is_time_of(clock.column, day.column)]
    return alike[0] if len(alike) == 1 or (alike and day.column.label != SET) else None


def is_time_of(clock: Column, day: Column) -> bool:
    """Whether a column of times may be that of days: of their side, or without one right beside them: `New time` beside `New delivery date`."""
    side = clock.concepts & SIDES
    return side == day.concepts & SIDES or (not side and clock.position == day.position + 1)


def join_clock(draft: Draft, day: DraftColumn, clock: DraftColumn) -> None:
    """Prepare both columns for the expression: the date without a time, the time column marked as used."""
    day.keys["type"] = "date"
    if not day.nullable and clock.column.filled_count == clock.column.rows:
        clock.keys["required"], clock.nullable = True, False
    draft.mark_used(clock)


def doubt_of_clock(day: DraftColumn, clock: DraftColumn) -> str:
    """The comment on a column with the times of a date column: what is sent where one of them is blank."""
    without = f"; not sent without {day.column.label}" if clock.nullable and day.nullable else ""
    return (
        f"{CHECK}: {clock.column.label} as its time{'; 00:00 where that is blank' if clock.nullable else ''}{without}"
    )


def over_midnight(draft: Draft, early: DraftColumn | None, late: DraftColumn) -> tuple[str, str]:
    """What to add to the day of the end of a window whose times (`late`) are sometimes before those of its beginning, with a remark; empty otherwise."""
    if early is None or not any(end < start for start, end in _pairs_of_times(early.column, late.column)):
        return "", ""
    start, end = (f'({draft.ref(one)} ?? t"PT0S")' if one.nullable else draft.ref(one) for one in (early, late))
    return f' + ({end} < {start} ? t"P1D" : t"PT0S")', ", on the next day where it is before the beginning"


def _pairs_of_times(early: Column, late: Column) -> Iterator[tuple[datetime, datetime]]:
    """The times of day in both columns, row by row."""
    formats = [*early.guess.keys.get("formats", []), *late.guess.keys.get("formats", []), "%H:%M:%S"]
    readers = [format_parser(format_, None) for format_ in formats]
    starts, ends = (
        [next(filter(None, (read(value.strip()) for read in readers)), None) for value in one.cells.values]
        for one in (early, late)
    )
    for value_indexes in set(zip(early.cells.value_indexes, late.cells.value_indexes, strict=True)):
        start, end = starts[value_indexes[0]], ends[value_indexes[1]]
        if min(value_indexes) >= 0 and start is not None and end is not None:
            yield start, end


def as_date_at_assumed_time(day: DraftColumn, text: str) -> str:
    """Make a column without times a date. Returns the expression for its days (`text`) at an assumed time: otherwise 00:00 would be sent."""
    day.keys["type"] = "date"
    return f'$at({text}, t"{_LATEST if "late" in day.column.concepts else _EARLIEST}")'


_DIFFER = "; its dates differ within a record"


def of_days(draft: Draft, field_: Field, day: DraftColumn, other: DraftColumn | None) -> tuple[str, str]:
    """The leaf, with its comment, for a moment whose column has days without a time: those of a pickup or a delivery get an assumed one, the
    end of a window without a day has that of its `other` end.
    """
    ref, concepts = draft.ref(day), concepts_of(field_)
    differ = draft.varies(day) and not day.nullable
    days = of_rows(day, late="late" in concepts)
    if not concepts & SIDES:
        leaf = f"{{expr: '{days}'}}" if differ else f"{{col: {ref}}}"
        return leaf, f"{CHECK} the time: no column has it; sent as 00:00{_DIFFER * differ}"
    remark = f"{CHECK} the time; no column has it"
    if differ:
        return f"{{expr: '{as_date_at_assumed_time(day, days)}'}}", f"{remark}{_DIFFER}"
    if day.nullable and other is not None and not other.nullable and is_without_clock(other):
        return f"{{expr: '{as_date_at_assumed_time(day, f'{ref} ?? {draft.ref(other)}')}'}}", remark
    text, there = moment_in(draft, day, None)
    return f"{{expr: '{text}', when: '{there}'}}" if there else f"{{expr: '{text}'}}", remark


def of_rows(day: DraftColumn, *, late: bool) -> str:
    """The expression for the first moment, or the last one, of a column whose moments differ within a record."""
    return f"${'latest' if late else 'earliest'}([r.{day.name} for r in {day.table.name}])"


def moment_in(draft: Draft, day: DraftColumn, clock: DraftColumn | None, next_day: str = "") -> tuple[str, str]:
    """The expression for a moment, and the condition that it has a value (empty: always). Days without a time get an assumed one."""
    ref = draft.ref(day)
    text = f"({ref} ?? $now)" if day.nullable else ref
    if clock is None and draft.varies(day) and not day.nullable:
        text = of_rows(day, late="late" in day.column.concepts)
    if clock is None and is_without_clock(day):
        text = as_date_at_assumed_time(day, text)
    if clock is not None:
        time = draft.ref(clock)
        text += f'{next_day} + ({time} ?? t"PT0S")' if clock.nullable else f"{next_day} + {time}"
    return text, f"{ref} != null" if day.nullable else ""


def is_without_clock(day: DraftColumn) -> bool:
    """Whether a column has days without a time of day."""
    formats = day.keys.get("formats", [])
    if day.keys.get("type") not in MOMENTS or any(f"%{letter}" in format_ for format_ in formats for letter in "HIs"):
        return False
    natives = [cell for cell in day.column.cells.values if isinstance(cell, Native)]
    midnights = (cell.endswith(" 00:00:00") for cell in natives if cell.kind == "datetime")
    numbers = day.column.cells.shown if DAY_NUMBERS in formats else ()
    return all(midnights) and not any(mark in text for text in numbers for mark in ".,")


# ---- usual values ----


def habits_of(draft: Draft) -> dict[str, str]:
    """The defaults `country`, `currency` and `zone`, as far as they are known: of the sheet's locale or language, else of the country that its
    cells name. A currency in a heading counts before both.
    """
    known, own = vocabulary(), draft.main.sheet.notation
    is_read = own.languages[own.locale[:2]] > 0  # else only its numbers are like those of the locale
    by_locale = [dict(habits) for habits in known.habits.values() if is_read and habits["locale"] == own.locale]
    habits = by_locale[0] if by_locale else dict(known.habits[own.language])
    currency = currency_of(draft)
    if "country" not in habits and (country := _country_of(draft, currency)):
        habits |= {"country": country, **known.countries.get(country, {})}
    return habits | ({"currency": currency} if currency else {})


def heading_in_utc(draft: Draft) -> str:
    """The heading of a moment in use that says UTC or GMT; empty if none does."""
    columns = [drafted.column for drafted in draft.by_path.values() if drafted.column.guess.type in MOMENTS]
    return next((column.label for column in columns if UTC_WORDS & {*column.reading.unknown}), "")


def coded_zones(draft: Draft) -> str:
    """The remark on a column with the zone of each row in codes, such as ET; empty without one."""
    for drafted in draft.main.columns:
        if "timezone" in drafted.column.concepts and drafted.column.guess.type == "text":
            codes = short_list(list(drafted.column.cells.shown))
            return (
                f"; {CHECK}: {drafted.column.label} has a zone for each row ({codes}). To use it, give it type: timezone and "
                f"one_of: {{CODE: America/New_York}}, and write {{col: {drafted.name}, default: ...}} here"
            )
    return ""


def _country_of(draft: Draft, currency: str) -> str:
    """The country that at least half of the cells name, or else the only one with this currency; empty if there is none."""
    counts: Counter[str] = Counter()
    for drafted in draft.by_path.values():
        if drafted.column.guess.type == "country":
            for text, count in drafted.column.cells.shown.items():
                counts[code_named("country", text, drafted.table.sheet.notation.locale)] += count
    del counts[""]
    if counts:
        country, count = counts.most_common(1)[0]
        return country if count * 2 >= counts.total() else ""
    own = [country for country, habits in vocabulary().countries.items() if habits["currency"] == currency]
    return own[0] if len(own) == 1 else ""


def currency_of(draft: Draft) -> str:
    """The only currency in the headings, such as `Value (INR)`, and in the cells, such as `$ 12.50`; empty if there is none."""
    columns = [drafted.column for table in draft.tables for drafted in table.columns]
    found = {currency_code(word, draft.notation.locale) for column in columns for word in column.reading.unknown}
    found |= {column.guess.keys.get("currency", "") for column in columns}
    found.discard("")
    return found.pop() if len(found) == 1 else ""

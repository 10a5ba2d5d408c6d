"""Cells to values: for every column of a mapping one function, compiled at load.

Values are str, Decimal, bool, datetime (aware) and timedelta (a time of day). Money and weights never become a binary float. Texts are
trimmed of Unicode white space and composed, so every way of typing `Köln` gives the same text. Contradictory settings of a column
are refused at load. Knows no row and no file.

`plan_column` wraps the parser of the type (`_parser_of`) in the steps of all types (`_cell_parser`). `rows.RowReader` calls it for each cell,
then applies the `RowStep` of the column, and last finds the rows of other tables.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from loadsheet.mapping.calculation import Calendar
from loadsheet.mapping.codes import Amount, country_parser, currency_parser, yes_no_parser, zone_parser
from loadsheet.mapping.converters import Converter, converter
from loadsheet.mapping.layouts import choices_of
from loadsheet.mapping.lookups import Lookup, range_parser
from loadsheet.mapping.notations import (
    PARTED,
    canonical,
    check_zone_word,
    decimal_mark,
    format_parser,
    formats_parser,
    is_locale,
    localize,
    number_parser,
)
from loadsheet.mapping.plans import (
    CellProblem,
    ColumnPlan,
    Convert,
    Fold,
    RowStep,
    SettingError,
    Slot,
    TableLookup,
    Type,
    ValueWithWarning,
)
from loadsheet.mapping.schema import Column
from loadsheet.mapping.texts import (
    before_row,
    choice_parser,
    row_step_of,
    stripped_cell,
    text_contradictions,
    text_parser,
    without_apostrophe,
)
from loadsheet.mapping.units import Quantity, conversion_factor, unit_named, which_ton, with_unit_of
from loadsheet.mapping.yamlfile import Loc, YamlFile
from loadsheet.reading.tables import Native
from loadsheet.similar_text import closest_or_known

_Parse = Callable[[str], Any]

NUMBERS = frozenset({"integer", "decimal", "quantity"})
_TYPES = {
    **dict.fromkeys(("text", "country", "currency", "timezone"), Type.TEXT),
    **dict.fromkeys(NUMBERS, Type.NUMBER),
    **dict.fromkeys(("date", "datetime"), Type.MOMENT),
    "time": Type.SPAN,
    "yesno": Type.FLAG,
}
_TIMES = ("%H:%M:%S", "%H:%M")
_CLOCK = re.compile("%-?[HIMSscXT]")  # the time of day in a format
_IN_DIGITS = re.compile("(%[YymdHMSsfE])+")  # a format of digits alone, which a workbook may hold as a number: 20261201


@dataclass(frozen=True, slots=True)
class Conventions:
    """How the cells of a file are written: the mapping's `source:`, resolved, its code tables (files, and tables of the drop) and calendars.
    Without a `zone`, moments stay local times. `zone_column` names the column with the zone of each row. `blank` are texts that count as
    blank.
    """

    locale: str | None
    dates: tuple[str, ...]
    zone: ZoneInfo | None
    zone_column: str | None = None
    fold: Fold = "error"
    units: Mapping[str, str] = field(default_factory=dict)
    blank: tuple[str, ...] = ()
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    calendars: Mapping[str, Calendar] = field(default_factory=dict)
    table_lookups: Mapping[str, TableLookup] = field(default_factory=dict)

    @property
    def zone_of_days(self) -> ZoneInfo | None:
        """The time zone of every day in the file; None if each row has its own."""
        return (self.zone or ZoneInfo("UTC")) if self.zone_column is None else None


def plan_column(spec: Column, index: int, conventions: Conventions, file: YamlFile, loc: Loc) -> ColumnPlan | None:
    """Compile the column at `loc`, which ends in its name. Errors in its settings become findings of the file."""
    if conventions.blank:
        spec = spec.model_copy(update={"blank": [*spec.blank, *conventions.blank]})
    for key in spec.misplaced():
        file.refuse((*loc, key), f"{key} does not apply to type {spec.type}", at_key=True)
    lookup = _lookup(spec, {**conventions.lookups, **conventions.table_lookups}, file, loc)
    for clash in contradictions(spec, lookup):
        file.refuse((*loc, clash.key), clash.text, clash.hint, at_key=True)
    if spec.lookup_with and spec.lookup is None:
        file.refuse((*loc, "lookup_with"), "lookup_with needs a lookup", at_key=True)
    if lookup is not None and spec.type != "text" and (lookup.more_keys or lookup.searched is None):
        message = f"{spec.lookup} has keys, and {spec.type} is searched in a range only"
        file.refuse((*loc, "lookup"), message, "use a column of type text with lookup_with")
        return None
    if lookup is not None and spec.type == "text" and len(spec.lookup_with) != lookup.more_keys:
        count, last = lookup.more_keys, ", the last for the range" if lookup.searched is not None else ""
        message = f"{spec.lookup} is searched by {count + 1} values: this column and {count} more{last}"
        key = "lookup_with" if spec.lookup_with else "lookup"
        file.refuse((*loc, key), message, "list their columns in lookup_with")
        return None
    table = lookup if isinstance(lookup, TableLookup) else None
    codes = lookup if isinstance(lookup, Lookup) else None
    try:
        parse = _parser_of(spec, conventions, codes)
        if codes is not None and spec.type != "text":
            parse = range_parser(parse, codes)
        row_step = _row_step(spec, codes, table, parse)
        custom = converter(spec.convert) if spec.convert is not None else None
    except SettingError as error:
        where = ("source", "dates") if error.key == "dates" else (*loc, error.key)
        file.refuse(where, error.text, error.hint)
        return None
    locating = [*spec.whereabouts(), *(["occurrence"] if spec.occurrence else [])]
    for key in locating[1:]:
        file.refuse((*loc, key), f"{key} and {locating[0]} cannot be combined: both locate the cells", at_key=True)
    default = _default(spec, custom.before(parse, None) if custom else parse, file, loc)
    read_later = spec.unit_column is not None
    convert = _cell_parser(spec, (lambda cell: cell) if read_later else parse, default, custom)
    zoned = conventions.zone_column is not None and spec.type in {"date", "datetime"} and lookup is None
    slot = _slot(spec, index, lookup, default)
    slot = replace(slot, declared_at=file.place(loc), is_code=spec.lookup is not None or spec.one_of is not None)
    formats = tuple(spec.formats or (conventions.dates if spec.type in {"date", "datetime"} else ()))
    written = (format_ for format_ in formats if "%E" not in format_)  # people write dates, not numbers of days
    writes = next((format_ for format_ in written if spec.type != "date" or not _CLOCK.search(format_)), "")
    name, locale = str(loc[-1]), spec.locale or conventions.locale
    choices = choices_of(spec, lookup, locale)
    return ColumnPlan(
        name, spec, slot, convert, zoned, row_step, name,
        choices=choices, writes=writes, formats=formats, locale=locale, reference=table,
    )  # fmt: skip


def _row_step(
    spec: Column, codes: Lookup | None, table: TableLookup | None, parse: Callable[..., Any]
) -> RowStep | None:
    """The steps that need the whole row, or None. Raises SettingError."""
    if spec.unit_column is not None:
        return with_unit_of(spec.unit_column, parse)
    if table is not None:
        return before_row(spec, table.searched)
    return row_step_of(spec, codes) if spec.type == "text" else None


def _lookup(
    spec: Column, lookups: Mapping[str, Lookup | TableLookup], file: YamlFile, loc: Loc
) -> Lookup | TableLookup | None:
    if spec.lookup is None or spec.lookup in lookups:
        return lookups.get(spec.lookup or "")
    known = file.values.get("lookups") or {}
    if spec.lookup not in known:  # an invalid table has its own finding
        hint = closest_or_known(spec.lookup, known)
        file.refuse((*loc, "lookup"), f'there is no lookup "{spec.lookup}"', hint)
    return None


def _slot(spec: Column, index: int, lookup: Lookup | TableLookup | None, default: object) -> Slot:
    nullable = not (spec.required or spec.from_set) and default is None
    if lookup is None:
        return Slot(index, _TYPES[spec.type], nullable)
    nullable = nullable or lookup.missing == "blank"
    if isinstance(lookup, TableLookup) or lookup.has_named_values:
        return Slot(index, Type.CODE_ROW, nullable, lookup.code_columns)
    (only,) = lookup.code_columns
    return Slot(index, only.type, nullable or only.nullable)


def _default(spec: Column, parse: _Parse, file: YamlFile, loc: Loc) -> Any:
    if spec.default is None:
        return None
    if spec.type == "yesno" and spec.default in ("yes", "no"):  # the mapping's own words, in any language
        return spec.default == "yes"
    value = parse(_as_cell(spec.default))
    if isinstance(value, CellProblem):
        file.refuse((*loc, "default"), f"default {spec.default} is not a value of this column", value.hint)
        return None
    return value.value if isinstance(value, ValueWithWarning) else value


def _as_cell(value: object) -> str:
    if isinstance(value, bool):
        return Native(str(value).lower(), "flag")
    return Native(str(value), "number") if isinstance(value, int | Decimal) else str(value)


# ---- one cell ----

_NO_VALUE = {
    "error": CellProblem("R207"),
    "formula": CellProblem("R208", hint="open the file in Excel and save it, or type the value in its place"),
    "object": CellProblem("C313", hint="a frame holds texts, numbers, dates, times, flags and blanks"),
}
"""The problems of workbook cells and objects that have no value, by their kind."""

_ERROR = re.compile(
    "#(DIV/0|DEEL/0|DZIEL/0|REF|BEZUG|RIF|VERW|ADR|VALUE|WERT|VALEUR|VALOR|VALORE|WAARDE|ARG|NUM|ZAHL|NOMBRE|GETAL|LICZBA|NÚM|N/D|NULL)!"
    "|#(NAME|NOM|NOME|NAAM|NAZWA)[?]|#¡(DIV/0|REF|VALOR|NUM|NULO)!|#¿NOMBRE[?]|#N/[ABD]|#NV|#{4,}"
)  # as a text file has the errors of a workbook, and cells of columns that were too narrow
_REFERENCE = r"\$?[A-Z]{1,3}\$?[1-9][0-9]*(?![0-9A-Z])"
_FORMULA = re.compile(
    rf"=[-+(]{{0,9}}(?:{_REFERENCE}|[A-Z][A-Z0-9.]*\(.*\)|[^=]*!{_REFERENCE}).*", re.DOTALL
)  # as a fix workbook shows one without a saved value, and as programs export it


def _cell_parser(spec: Column, parse: _Parse, default: object, custom: Converter | None) -> Convert:
    """The steps of all types: workbook errors, trimming, blanks, defaults, required values, the converter `custom`."""
    blank = CellProblem("C301") if spec.required and default is None else default
    tokens = frozenset(spec.blank)
    whole = str if spec.type == "text" else without_apostrophe
    if custom is not None:
        parse = custom.before(parse, blank)

    def convert(cell: str) -> Any:
        if type(cell) is not str and isinstance(cell, Native) and cell.kind in _NO_VALUE:
            return _NO_VALUE[cell.kind]
        text = stripped_cell(cell)
        if not text or text in tokens:
            return blank
        if text[0] in "#=" and (kind := _kind_without_value(text)):
            return _NO_VALUE[kind]
        return parse(whole(text) if type(cell) is str else cell)

    return convert


def _kind_without_value(text: str) -> str:
    """What a text stands for: an `error` of a workbook, a `formula`, or a value (empty)."""
    if _ERROR.fullmatch(text):
        return "error"
    return "formula" if _FORMULA.fullmatch(text) else ""


def _parser_of(spec: Column, conventions: Conventions, lookup: Lookup | None) -> _Parse:
    locale = spec.locale or conventions.locale
    if locale is not None and not is_locale(locale):
        raise SettingError("locale", f"locale {locale} is not known", "such as de_DE or en_GB")
    if spec.type == "text":
        return text_parser(spec, lookup)
    if spec.type in NUMBERS:
        return _number_parser(spec, conventions, locale)
    if spec.type in {"date", "datetime"}:
        return _moment_parser(spec, conventions, locale)
    if spec.type == "time":
        return _time_parser(spec, locale)
    if spec.type == "yesno":
        return yes_no_parser(locale, spec.yes, spec.no)
    if spec.type == "timezone":
        read = _zone_parser(spec)
    else:
        read = (country_parser if spec.type == "country" else currency_parser)(locale)
    return lambda cell: read((cell.without_currency if isinstance(cell, Native) else cell).strip())


def _zone_parser(spec: Column) -> _Parse:
    """Reads the name of a time zone, or a code that stands for one. Raises SettingError."""
    read, choose = zone_parser(), choice_parser(spec)
    meanings = spec.one_of.values() if isinstance(spec.one_of, dict) else spec.one_of or ()
    if wrong := next((name for name in meanings if isinstance(read(name), CellProblem)), ""):
        raise SettingError("one_of", f"one_of: {wrong} is not the name of a time zone", "such as America/New_York")

    def read_code(text: str) -> Any:
        name = choose(text)
        return name if isinstance(name, CellProblem) else read(name)

    return read_code if spec.one_of else read


# ---- numbers ----


def _number_parser(spec: Column, conventions: Conventions, locale: str | None) -> _Parse:
    if locale is None:
        raise SettingError("type", f"{spec.type} needs a locale", "set source.locale, such as de_DE for 1.234,56")
    is_whole = spec.type == "integer" or spec.places == 0
    read: Callable[..., Decimal | CellProblem] = number_parser(locale, Decimal(12) if is_whole else PARTED)
    of_number: Callable[..., Decimal | CellProblem] = _plain
    if spec.type == "quantity":
        unit, assumed = _units(spec, conventions, locale)
        quantity = Quantity(number_parser(locale), unit=unit, assumed=assumed, extra=conventions.units, locale=locale)
        read, of_number = quantity.read, quantity.of_number
    elif spec.currency is not None:
        amount = Amount(spec.currency, locale)
        read, of_number = amount.read, amount.of_number
    elif is_whole:
        read = _whole_parser(read, decimal_mark(locale))
    check = _range_check(spec)

    def parse(cell: str, *unit: str) -> Any:
        if not isinstance(cell, Native):
            number = read(cell, *unit)
        elif cell.kind == "number":
            number = of_number(cell, *unit)
        else:
            number = CellProblem("C302", {"locale": locale}, f"the cell is a {cell.kind}")
        return number if isinstance(number, CellProblem) else check(number)

    return parse


def _whole_parser(read: Callable[[str], Decimal | CellProblem], point: str) -> Callable[[str], Decimal | CellProblem]:
    """A reader of whole numbers that refuses `1,000` where the comma is the decimal mark: it may be 1 or 1000. It is no proposal either."""
    thousands = re.compile(rf"[^0-9]*[1-9][0-9]{{0,2}}{re.escape(point)}000[^0-9]*")

    def read_whole(text: str) -> Decimal | CellProblem:
        number = read(text)
        shown = str(number.values.get("second", "")) if isinstance(number, CellProblem) else text
        if not thousands.fullmatch(shown):
            return number
        whole = Decimal(shown.partition(point)[0]) if isinstance(number, CellProblem) else number
        first, second = f"{whole * 1000}", f"{whole}"
        return CellProblem("C316", {"first": first, "second": second}, f"write {first} or {second}")

    return read_whole


def _plain(cell: Native) -> Decimal:
    return canonical(Decimal(cell))


def _units(spec: Column, conventions: Conventions, locale: str) -> tuple[str, str]:
    """The unit of the values, and the unit of cells without one, by pint's names."""
    if spec.unit is None:
        raise SettingError("type", "quantity needs a unit", "such as unit: kg")
    if unclear := which_ton(spec.from_unit or "", conventions.units, locale):
        raise SettingError("from_unit", f"from_unit: {spec.from_unit} is ambiguous", unclear)
    names = {}
    for key, word in (("unit", spec.unit), ("from_unit", spec.from_unit or spec.unit)):
        try:
            names[key] = unit_named(word, conventions.units)
        except ValueError as error:
            raise SettingError(key, f"{key}: {word} is not a known unit", str(error)) from None
    if conversion_factor(names["from_unit"], names["unit"]) is None:
        raise SettingError("from_unit", f"{spec.from_unit} and {spec.unit} measure different things")
    return names["unit"], names["from_unit"]


def _range_check(spec: Column) -> Callable[[Decimal], Any]:
    low, high, places, whole = spec.min, spec.max, spec.places, spec.type == "integer"
    expected = " ".join([*([f"from {low}"] if low is not None else []), *([f"to {high}"] if high is not None else [])])
    out_of_range, not_whole = CellProblem("C305", {"expected": expected}), CellProblem("C303")
    too_fine = CellProblem("C305", {"expected": f"at most {places} digits after the decimal point"})

    def check(number: Decimal) -> Any:
        if whole and number != number.to_integral_value():
            return not_whole
        if (low is not None and number < low) or (high is not None and number > high):
            return out_of_range
        if places is not None and -int(number.as_tuple().exponent) > places:
            return too_fine
        return number

    return check


# ---- dates and times ----


def _moment_parser(spec: Column, conventions: Conventions, locale: str | None) -> _Parse:
    zone_name = None if conventions.zone_column is not None or conventions.zone is None else conventions.zone.key
    formats = list(spec.formats or conventions.dates)
    read = _declared(spec, formats, locale, zone_name)
    texts = {"number"} if any(map(_IN_DIGITS.fullmatch, formats)) else set[str]()
    is_date, zone, fold = spec.type == "date", conventions.zone or ZoneInfo("UTC"), conventions.fold
    with_time = CellProblem("C304", {"expected": "a date without a time"})

    def parse(cell: str) -> Any:
        moment = _native_moment(cell) if isinstance(cell, Native) and cell.kind not in texts else read(cell)
        if isinstance(moment, CellProblem):
            return moment
        if is_date and (moment.hour, moment.minute, moment.second) != (0, 0, 0):
            return with_time
        if conventions.zone_column is not None:
            return moment
        return moment.replace(tzinfo=zone) if is_date else localize(moment, zone, fold)

    return parse


def _native_moment(cell: Native) -> datetime | CellProblem:
    if cell.kind in {"date", "datetime"}:
        return datetime.fromisoformat(cell)
    hint = f"the cell is a {cell.kind}; format it as a date"
    return CellProblem("C304", {"expected": "a date"}, hint)


def is_day(column: ColumnPlan, cell: str) -> bool:
    """Whether a cell of a column of dates (if it is blank, the default) holds a day without a time."""
    if column.spec.type == "date":
        return True
    if isinstance(cell, Native) and cell.kind != "number":
        return cell.kind == "date"
    text = cell.strip() or str(column.spec.default or "")
    days = (format_parser(format_, column.locale) for format_ in column.formats if not _CLOCK.search(format_))
    return any(moment.time() == time.min for read in days if (moment := read(text)) is not None)


_END_OF_DAY = datetime.fromisoformat("1900-01-02")  # 24:00


def _time_parser(spec: Column, locale: str | None) -> _Parse:
    read = _declared(spec, spec.formats or list(_TIMES), locale)

    def parse(cell: str) -> Any:
        if not isinstance(cell, Native):
            moment = read(cell)
        elif cell.kind == "time":
            moment = _END_OF_DAY if cell == "24:00:00" else datetime.fromisoformat(f"1900-01-01 {cell}")
        else:
            hint = f"the cell is a {cell.kind}; format it as a time"
            moment = CellProblem("C304", {"expected": "a time of day"}, hint)
        if isinstance(moment, CellProblem):
            return moment
        is_end = moment == _END_OF_DAY
        return timedelta(days=is_end, hours=moment.hour, minutes=moment.minute, seconds=moment.second)

    return parse


def _declared(
    spec: Column, formats: list[str], locale: str | None, zone: str | None = None
) -> Callable[[str], datetime | CellProblem]:
    try:
        for format_ in formats:
            check_zone_word(format_, zone)
        return formats_parser(formats, locale, "time" if spec.type == "time" else "day")
    except ValueError as error:
        key = "formats" if spec.formats else "dates"
        raise SettingError(key, f"invalid date format: {error}") from None


def contradictions(spec: Column, lookup: Lookup | TableLookup | None) -> Iterator[SettingError]:
    """Settings of a column that contradict each other, with what to do."""
    if spec.type in {"text", "timezone"}:
        yield from text_contradictions(spec, lookup)
    if spec.unit_column is not None and lookup is not None:
        text = "unit_column and lookup cannot be combined"
        yield SettingError("unit_column", text, "look the value up in another column")
    words = spec.one_of or [*spec.yes, *spec.no]
    if blank := [word for word in words if word in spec.blank]:
        key = "one_of" if spec.one_of else "yes" if blank[0] in spec.yes else "no"
        text = f'"{blank[0]}" is also listed under blank, so no cell can have this value'
        yield SettingError(key, text, "remove it from one of the two")

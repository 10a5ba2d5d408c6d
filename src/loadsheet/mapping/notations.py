"""Numbers, dates and times as a sheet writes them: text to exact Decimal, to aware datetime, or to timedelta for a time of day.

Numbers are read by Babel's parser, always strict. A text in another notation is never guessed: with `de_DE`, `1.5` is refused with both
readings (15 or 1,5).

Date formats use the listed strptime directives and are compiled once. Each must hold a complete date, or the hour of a time. Declared
formats are tried in order; nothing is guessed. A local time that a clock change skips is refused. A repeated one is refused unless
`source.fold` chooses. Two-digit years are 1969 to 2068, as in POSIX. Knows no column and no cell.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal
from functools import cache
from typing import Literal
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import get_day_names, get_month_names
from babel.numbers import NumberFormatError, format_decimal, get_decimal_symbol, get_group_symbol, parse_decimal

from loadsheet.mapping.plans import CellProblem, Fold
from loadsheet.similar_text import digits_meant, proposal_of

PARTED = Decimal("1234.5")
_ZERO = Decimal(0)  # also for -0
_WIDE = Context(prec=400)  # digits of the longest number that a workbook can hold, and more
_LONGEST = 40  # characters; more digits than Decimal keeps exactly
_MINUS = {"-", "\N{MINUS SIGN}", "\N{EN DASH}"}
_SIGNED = {*_MINUS, "+"}
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
_BESIDE = re.compile(r"[^\d\s.,'\u2019+\-\u2212\u2013()]+\.?")  # beside a number


def is_locale(name: str) -> bool:
    """Whether Babel knows this locale, such as `de_DE`."""
    try:
        Locale.parse(name)
    except (UnknownLocaleError, ValueError):
        return False
    return True


def decimal_mark(locale: str) -> str:
    """The decimal mark of this locale. Raises babel.UnknownLocaleError."""
    return get_decimal_symbol(Locale.parse(locale))


def number_parser(locale: str, example: Decimal = PARTED) -> Callable[[str], Decimal | CellProblem]:
    """A function from trimmed text to Decimal, or to CellProblem with C302 or C316. Digits are 0-9 only. Group separators
    are complete (as the locale groups) or absent. No exponent. The hint for other texts shows how to write `example`.
    Raises babel.UnknownLocaleError.
    """
    language = Locale.parse(locale)
    group, point = get_group_symbol(language), get_decimal_symbol(language)
    simple = re.compile(rf"([0-9]{{1,28}})(?:{re.escape(point)}([0-9]{{1,12}}))?")
    allowed = re.compile(rf"[0-9{re.escape(group + point)}.,]*[0-9][0-9{re.escape(group + point)}.,]*")
    not_a_number = CellProblem("C302", {"locale": locale}, f"write it like {format_decimal(example, locale=language)}")
    foreign = {".", ","} - {group, point}  # Babel would accept a dot in a locale with another decimal mark

    def exact(digits: str) -> Decimal | None:
        try:
            return canonical(parse_decimal(digits, locale=language, strict=True))
        except NumberFormatError:
            return None

    def refused(digits: str, sign: str) -> CellProblem:
        meant = {exact(option): option for option in reversed(_options(digits, locale, group, point))}
        meant.pop(None, None)
        return _refusal([f"{sign}{option}" for option in reversed(meant.values())], not_a_number)

    def with_digits(digits: str, sign: str) -> CellProblem:
        meant = digits_meant(digits) if len(digits) <= _LONGEST else ""
        amount, word = split_amount(digits) if len(digits) <= _LONGEST else (digits, "")
        if _is_sign(word) and isinstance(read(amount), Decimal):
            return CellProblem("C302", {"locale": locale}, f"write it like {sign}{amount}")
        is_number = allowed.fullmatch(meant) and not any(mark in meant for mark in foreign) and exact(meant) is not None
        return _refusal([f"{sign}{meant}"] if is_number else [], not_a_number)

    def read(text: str) -> Decimal | CellProblem:
        digits, sign = _unsigned(text)
        signed = Decimal.copy_negate if sign else Decimal.copy_abs  # unlike a product, neither rounds
        plain = simple.fullmatch(digits)
        if plain is not None:
            whole, part = plain.groups("")
            part = part.rstrip("0")
            return signed(Decimal(f"{whole}.{part}" if part else whole)) or _ZERO
        grouped = _with_group(digits, group)
        if len(grouped) > _LONGEST or not allowed.fullmatch(grouped):
            return with_digits(grouped, sign)
        number = None if any(mark in grouped for mark in foreign) else exact(grouped)
        return refused(grouped, sign) if number is None else signed(number) or _ZERO

    return read


def _unsigned(text: str) -> tuple[str, str]:
    """A number without its sign, and the sign if it is a minus. SAP writes it behind the number; `12,-` is a price. Accountants write
    `(12.50)`.
    """
    if inner := _in_brackets(text):
        return inner, "-"
    if text[:1] in _MINUS:
        return text[1:].lstrip(), "-"
    if text[-1:] in _MINUS and text[:-1].rstrip()[-1:].isdigit():
        return text[:-1].rstrip(), "-"
    return text.removeprefix("+"), ""


def _in_brackets(text: str) -> str:
    """What stands between brackets around the whole text; empty if there are none."""
    return text[1:-1].strip() if text[:1] == "(" and text[-1:] == ")" else ""


def _options(digits: str, locale: str, group: str, point: str) -> list[str]:
    """Possible readings of a number in another notation; some may not be numbers."""
    found: list[str] = []
    for mark in sorted({".", ","} - {group, point}):
        if digits.count(mark) == 1 or re.fullmatch(
            rf"[0-9]{{1,3}}({re.escape(mark)}[0-9]{{3}})+([^0-9{mark}][0-9]*)?", digits
        ):
            found.append(digits.replace(mark, ""))
        found.append(digits.replace(mark, point))
    if not found:
        try:
            parse_decimal(digits, locale=locale, strict=True)
        except NumberFormatError as error:
            found += error.suggestions or []
    marks = re.findall(r"[^0-9]", digits)
    if len(set(marks)) > 1 and marks.count(marks[-1]) == 1:
        whole, _, part = digits.rpartition(marks[-1])
        found.append(f"{re.sub('[^0-9]', '', whole)}{point}{part}")
    return found


def number_text(number: Decimal, locale: str | None, *, grouped: bool = True) -> str:
    """A number as people write it in this locale, with all its digits."""
    return format_decimal(number, locale=locale or "en", decimal_quantization=False, group_separator=grouped)


def canonical(number: Decimal) -> Decimal:
    """The same number without an exponent and without zeros after its last digit: 12.50 is 12.5, 1E+3 is 1000. So a number has
    one spelling, whether it came from a workbook or a text, and equal records have equal hashes.
    """
    if not number:
        return Decimal(0)
    shortest = number.normalize(_WIDE)
    return shortest if int(shortest.as_tuple().exponent) <= 0 else shortest.quantize(Decimal(1), context=_WIDE)


def split_amount(text: str) -> tuple[str, str]:
    """A number and the word or sign before or behind it: `-12,50` and `€` for `-€ 12,50` and `(€ 12,50)`, `12,50` and `EUR` for
    `12,50 EUR`. The word is empty if there is none, or more than one.
    """
    if inner := _in_brackets(text):
        amount, word = split_amount(inner)
        return f"-{amount}", word
    words = _BESIDE.findall(text)
    if len(words) != 1:
        return text, ""
    before, _, after = text.partition(words[0])
    before, after = before.strip(), after.strip()
    if before and after and before not in _SIGNED and after not in _MINUS:
        return text, ""
    amount = before + after
    inner = _in_brackets(amount)
    return f"-{inner}" if inner else amount, words[0]


def _is_sign(word: str) -> bool:
    return len(word) == 1 and unicodedata.category(word) == "Sc"


def _with_group(text: str, group: str) -> str:
    """The text with any typed space or apostrophe replaced by the locale's group separator."""
    if group.isspace():
        return "".join(group if unicodedata.category(letter) == "Zs" else letter for letter in text)
    if group in _APOSTROPHES:
        return text.replace("'", group).replace("\N{RIGHT SINGLE QUOTATION MARK}", group)
    return text


def _refusal(suggestions: list[str], otherwise: CellProblem) -> CellProblem:
    if len(suggestions) > 1:
        first, second = suggestions[:2]
        return CellProblem("C316", {"first": first, "second": second}, f"write {first} or {second}")
    return CellProblem("C302", otherwise.values, proposal_of(suggestions[0])) if suggestions else otherwise


# ---- dates and times ----

DIRECTIVES = "%Y %y %m %d %a %A %H %I %M %S %f %p %b %B %z %s %E %%"
_DAY_ZERO = datetime.fromisoformat("1899-12-30")  # of Excel, from 1 March 1900 on

_ZONES = {
    "Z": 0, "UTC": 0, "GMT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "CET": 1, "CEST": 2,
}  # fmt: skip
"""Hours from UTC of the zones that RFC 5322 names, and of Central Europe."""
_PIECES = {
    "Y": "(?P<year>[0-9]{4})",
    "y": "(?P<short_year>[0-9]{2})",
    "m": "(?P<month>[0-9]{1,2})",
    "d": "(?P<day>[0-9]{1,2})",
    "H": "(?P<hour>[0-9]{1,2})",
    "I": "(?P<half_day_hour>[0-9]{1,2})",
    "M": "(?P<minute>[0-9]{1,2})",
    "S": "(?P<second>[0-9]{1,2})",
    "f": "(?P<fraction>[0-9]{1,9})",
    "s": "(?P<epoch>[0-9]{10})",  # so that %s%f are milliseconds
    "E": "(?P<serial>[1-9][0-9]{4}(?:[.,][0-9]{1,20})?)",
    "p": r"(?P<half>[AaPp]\.?\s?[Mm]\.?)",  # `a. m.` in Spanish
    "z": rf"(?P<offset>{'|'.join(_ZONES)}|[+-][0-9]{{2}}:?[0-9]{{2}})",
    "%": "%",
}
"""The patterns of all directives but those of names, which differ by language."""

_OF_A_DAY = {"year (%Y)": "YysE", "month (%m)": "mbBsE", "day (%d)": "dsE"}
_OF_A_TIME = {"hour (%H)": "HI"}
_WHOLE = {"s", "E"}  # directives that are whole moments
_OFFICE = {
    "yyyy": "%Y", "jjjj": "%Y", "aaaa": "%Y", "yy": "%y", "mmmm": "%B", "mmm": "%b", "mm": "%m", "m": "%m", "dd": "%d", "d": "%d",
    "tt": "%d", "ddd": "%a", "ttt": "%a", "dddd": "%A", "tttt": "%A", "hh": "%H", "h": "%H", "ss": "%S", "s": "%S",
}  # fmt: skip
"""Letters of spreadsheet formats, also of German and French ones."""
_EXAMPLE_ZONE = timezone(timedelta(hours=2))
_UTC_WORD = re.compile(r"%[HIMSfp]\s*(Z|UTC|GMT)(?![A-Za-z%])")
_UTC = frozenset({"UTC", "Etc/UTC", "Etc/Zulu", "Zulu", "Etc/UCT", "UCT", "Universal", "Etc/Universal"})
_DOTLESS_I = "\N{LATIN SMALL LETTER DOTLESS I}"
_DOT_ABOVE = "\N{COMBINING DOT ABOVE}"  # İ in small letters is i with this dot
_PIVOT = 69  # two-digit years from here on are 19xx


def format_parser(format_: str, locale: str | None, *, any_weekday: bool = False) -> Callable[[str], datetime | None]:
    """A function from trimmed text to datetime (naive, or aware if the format has %z or %s); None if the text does not match, or if its weekday
    is not that of the date (unless `any_weekday`). Raises ValueError for a directive that is unsupported or used twice.
    """
    pattern = re.compile(_pattern(format_, locale), re.IGNORECASE)

    def read(text: str) -> datetime | None:
        match = pattern.fullmatch(text)
        if match is None:
            return None
        found = match.groupdict()
        try:
            moment = _moment(found, locale)
        except (ValueError, OverflowError):  # 31 February, 25 o'clock
            return None
        weekday, day = found.get("weekday"), moment - timedelta(days=found.get("hour") == "24")
        fits = any_weekday or weekday is None or weekday_numbers(locale)[_folded(weekday)] == day.weekday()
        return moment if fits else None

    return read


@cache
def month_numbers(locale: str | None) -> dict[str, int]:
    """The months by their names and abbreviations in English and in a locale, folded (see `_folded`), with and without a dot."""
    return _numbers_of(get_month_names, locale)


@cache
def weekday_numbers(locale: str | None) -> dict[str, int]:
    """The days of the week (0 is Monday) by their names and abbreviations, as `month_numbers` has the months."""
    return _numbers_of(get_day_names, locale)


def _numbers_of(names_of: Callable[..., Mapping[int, str]], locale: str | None) -> dict[str, int]:
    names: dict[str, int] = {}
    for language in [Locale("en"), *([Locale.parse(locale)] if locale else [])]:
        for width in ("wide", "abbreviated"):
            for context in ("format", "stand-alone"):
                for number, name in names_of(width, context, language).items():
                    names[_folded(name)] = names[_folded(name).rstrip(".")] = number
    return names


def _folded(name: str) -> str:
    """A name in small letters, where the two letters i of Turkish are one: only the language says which of them is the small I."""
    small = unicodedata.normalize("NFC", name.casefold())  # Μαΐου comes apart
    return small.replace(f"i{_DOT_ABOVE}", "i").replace(_DOTLESS_I, "i")


def _pattern(format_: str, locale: str | None) -> str:
    parts, used = [], set()
    packed = {at for run in re.finditer(r"(%[YymdHIMS]){2,}", format_) for at in range(*run.span())}
    for piece in re.finditer(r"([^%]+)|%(.?)", format_):
        plain, directive = piece[1], piece[2]
        if plain:
            parts.append(re.escape(plain).replace(r"\ ", r"\s+"))
            continue
        if directive != "%" and directive in used:
            raise ValueError(f"%{directive} is used twice")
        used.add(directive)
        if directive in {"b", "B"}:
            parts.append(f"(?P<month_name>{_one_of(month_numbers(locale))})")
        elif directive in {"a", "A"}:
            parts.append(f"(?P<weekday>{_one_of(weekday_numbers(locale))})")
        elif directive in _PIECES:
            # without a mark between them, 1122026 may be 1.12. or 11.2.: a zero was lost
            parts.append(_PIECES[directive].replace("{1,2}", "{2}" if piece.start() in packed else "{1,2}"))
        else:
            raise ValueError(f"%{directive} is not supported; use one of {DIRECTIVES}")
    return "".join(parts)


def _one_of(names: Iterable[str]) -> str:
    any_i = f"[i{_DOTLESS_I}İ]{_DOT_ABOVE}?"
    return "|".join(re.escape(name).replace("i", any_i) for name in sorted(names, key=len, reverse=True))


def _moment(found: Mapping[str, str | None], locale: str | None) -> datetime:
    name = found.get("month_name")
    month = month_numbers(locale)[_folded(name)] if name else int(found.get("month") or 1)
    fraction = int((found.get("fraction") or "").ljust(6, "0")[:6])
    if epoch := found.get("epoch"):
        return datetime.fromtimestamp(int(epoch), UTC).replace(microsecond=fraction)
    if serial := found.get("serial"):
        return _DAY_ZERO + timedelta(seconds=round(float(serial.replace(",", ".")) * 86_400))
    day, hour = (_year(found), month, int(found.get("day") or 1)), _hour(found)
    rest = (int(found.get("minute") or 0), int(found.get("second") or 0), fraction)
    is_end = hour == 24 and not any(rest)  # of the day
    return datetime(*day, 0 if is_end else hour, *rest, tzinfo=_offset(found.get("offset"))) + timedelta(days=is_end)


def _year(found: Mapping[str, str | None]) -> int:
    short = found.get("short_year")
    if short:
        return int(short) + (1900 if int(short) >= _PIVOT else 2000)
    return int(found.get("year") or 1900)


def _hour(found: Mapping[str, str | None]) -> int:
    half_day_hour = found.get("half_day_hour")
    if half_day_hour is None:
        return int(found.get("hour") or 0)
    hour = int(half_day_hour)
    if not 1 <= hour <= 12:
        raise ValueError(half_day_hour)
    return hour % 12 + (12 if (found.get("half") or "a")[0] in "pP" else 0)


def _offset(text: str | None) -> tzinfo | None:
    if not text:
        return None
    if text[0].isalpha():
        return timezone(timedelta(hours=_ZONES[text.upper()]))
    return datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo


def formats_parser(
    formats: Sequence[str], locale: str | None, of: Literal["day", "time"] = "day"
) -> Callable[[str], datetime | CellProblem]:
    """A function that tries the formats in order; C304 with all formats if none fits. Raises ValueError for an invalid or incomplete format
    (no whole day, or no hour of a time), and for two formats that read the same text as different moments.
    """
    for format_ in formats:
        _check_whole(format_, _OF_A_DAY if of == "day" else _OF_A_TIME)
    readers = [format_parser(format_, locale) for format_ in formats]
    on_any_day = [format_parser(format_, locale, any_weekday=True) for format_ in formats]
    for place, format_ in enumerate(formats):
        for other, reader in zip(formats[:place], on_any_day, strict=False):
            if (text := _contradiction(format_, on_any_day[place], reader)) is not None:
                raise ValueError(f"{other} and {format_} read {text} as different dates")
    expected = (
        " or ".join(_example(format_, locale) for format_ in formats)
        or "a date cell of a workbook (no text format is declared)"
    )
    problem = CellProblem("C304", {"expected": expected})

    def read(text: str) -> datetime | CellProblem:
        for reader in readers:
            moment = reader(text)
            if moment is not None:
                return moment
        moment = next((moment for reader in on_any_day if (moment := reader(text)) is not None), None)
        if moment is None:
            return problem
        return problem._replace(hint=f"{moment:%Y-%m-%d} is another day of the week; correct the day or the date")

    return read


def check_zone_word(format_: str, zone: str | None) -> None:
    """Raises ValueError for a format with a literal UTC mark behind a time (`%H:%MZ`) if times are in another `zone` (a name of the time-zone
    database; None: unknown).
    """
    found = _UTC_WORD.search(format_)
    if found is not None and zone not in _UTC:
        word = found[1]
        raise ValueError(
            f"{word} in {format_} is plain text, but times are {'local' if zone is None else f'those of {zone}'};"
            f" write %z instead of {word}"
        )


def check_written(format_: str) -> None:
    """Raises ValueError for a format that cannot write: unknown directives, no directives, %s or %E, or %I without %p."""
    used = _directives(format_)
    format_parser(format_, None)
    if whole := used & _WHOLE:
        raise ValueError(f"{format_} has %{min(whole)}, which can only be read")
    if "I" in used and "p" not in used:
        raise ValueError(f"{format_} has %I without %p, so 2 am and 2 pm look the same; write %H")


def _check_whole(format_: str, parts: Mapping[str, str]) -> None:
    used = _directives(format_)
    if "I" in used and "p" not in used:
        raise ValueError(f"{format_} has %I without %p, so am and pm look the same; write %H, or %I with %p")
    if "p" in used and "I" not in used:
        raise ValueError(f"{format_} has %p without %I, so am and pm have no effect; write %I")
    if (whole := used & _WHOLE) and used - {min(whole), "%"} - ({"f"} if "s" in whole else set()):
        raise ValueError(f"{format_} has %{min(whole)}, which is a whole moment, and other parts of one")
    missing = [part for part, letters in parts.items() if used.isdisjoint(letters)]
    if missing and not used.isdisjoint("YymdHIMSfsbBE"):
        raise ValueError(f"{format_} has no {' and no '.join(missing)}")


def _directives(format_: str) -> set[str]:
    """The letters of the directives. Raises ValueError with a proposal if there are none."""
    used = set(re.findall(r"%(.?)", format_))
    if used - {"%"}:
        return used
    meant = _from_office(format_)
    if not used and "%" in meant:
        raise ValueError(f"{format_} has no directive: write {meant}")
    raise ValueError(f"{format_ or 'an empty format'} has no directive: write for example %d.%m.%Y %H:%M")


def _from_office(format_: str) -> str:
    """The strptime form of a format such as `dd.mm.yyyy hh:mm`. `mm` after an hour means minutes."""
    found, hour = "", False
    for run in re.findall(r"(?i)([ymdhsjat])(\1*)|(.)", format_):
        word = f"{run[0]}{run[1]}".lower()
        directive = _OFFICE.get(word, f"{run[0]}{run[1]}{run[2]}")
        found += "%M" if hour and directive == "%m" else directive
        hour = directive == "%H" or (hour and not directive.startswith("%"))
    return found


def _contradiction(
    format_: str, own: Callable[[str], datetime | None], other: Callable[[str], datetime | None]
) -> str | None:
    """A text of this format that the other format reads as another moment, if any."""
    text = in_format(datetime(2003, 4, 5, 6, 7, 8, tzinfo=_EXAMPLE_ZONE), format_)  # any two parts can be swapped
    theirs = other(text)
    return text if theirs is not None and theirs != own(text) else None


def _example(format_: str, locale: str | None) -> str:
    """A moment in a format, with the names of the month and the day in the language of the file."""
    moment, language = datetime(2026, 3, 31, 14, 5, tzinfo=_EXAMPLE_ZONE), Locale.parse(locale or "en")
    names = {
        "%a": get_day_names("abbreviated", "format", language)[moment.weekday()],
        "%A": get_day_names("wide", "format", language)[moment.weekday()],
        "%b": get_month_names("abbreviated", "format", language)[moment.month],
        "%B": get_month_names("wide", "format", language)[moment.month],
    }
    for directive, name in names.items():
        format_ = format_.replace(directive, name)
    return in_format(moment, format_)


def in_format(moment: datetime, format_: str) -> str:
    """A moment in a format, one without an offset in that of the examples. Not every system knows %s, and none %E."""
    moment = moment if moment.tzinfo else moment.replace(tzinfo=_EXAMPLE_ZONE)
    day = (moment.replace(tzinfo=None) - _DAY_ZERO).days
    return moment.strftime(format_.replace("%s", str(int(moment.timestamp()))).replace("%E", str(day)))


def localize(moment: datetime, zone: ZoneInfo, fold: Fold) -> datetime | CellProblem:
    """A moment in the zone. A naive one is local time there: C314 if that time does not exist, C315 if it occurs twice and `fold` does
    not choose. An aware one (its text had an offset) is converted to the zone.
    """
    if moment.tzinfo is not None:
        return moment.astimezone(zone)
    first = moment.replace(tzinfo=zone)
    second = first.replace(fold=1)
    if first.utcoffset() == second.utcoffset():
        return first
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment:
        return CellProblem("C314", {"timezone": zone.key})
    if fold == "error":
        return CellProblem(
            "C315", {"timezone": zone.key}, "the mapping can say which is meant: source.fold: first or second"
        )
    return second if fold == "second" else first


def offset_minutes(moment: datetime) -> int:
    """The UTC offset of an aware datetime in minutes, east positive."""
    return int((moment.utcoffset() or timedelta()).total_seconds() // 60)

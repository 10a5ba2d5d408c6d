"""How a file writes dates and numbers: the formats of a column's dates, and the locale of the numbers.

Distinct texts are gathered by shape (`99.99.9999 99:99`), so a format is tried on few texts of each shape and not on every cell. Formats are
read by the readers of a mapping: what is guessed here reads the same in a run.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from loadsheet.mapping.codes import currencies_meant
from loadsheet.mapping.notations import decimal_mark, format_parser, formats_parser, number_parser, split_amount
from loadsheet.mapping.plans import CellProblem
from loadsheet.mapping.texts import without_apostrophe
from loadsheet.mapping_tools.columns import CHECK, sample, weekday_in

_DIGITS = str.maketrans("0123456789", "9999999999")
_SHAPES_MAX = 200
_FORMATS_MAX = 4
_NEAR = 31  # days
_RARE = 0.004  # share of a column's dates; a format for fewer is a typing error

_CLOCK = re.compile(
    r"(?P<between>[ ]+|T|, ?| - )(?P<hour>9{1,2}):99(?P<second>:99)?(?P<fraction>\.9{1,9})?(?P<half> ?[AaPp]\.? ?[Mm]\.?)?"
    r"(?P<gap> )?(?P<zone>Z|UTC|GMT|[ECMP][SD]T|CES?T|[+-]99:?99)?(?P<word> ?(?:Uhr|uhr|h))?$"
)
_DAY = re.compile(
    r"(?P<numbers>(?P<one>9{1,4})(?P<sep>\. |[./\- ])(?P<two>9{1,2})(?P=sep)(?P<three>9{4}|9{1,2}))\.?$"
    r"|(?P<signed>9{4}年9{1,2}月9{1,2}日)$"
    r"|(?P<packed>9{8})$"
    r"|(?P<named>9{1,2}(?P<dot>\.)?(?P<by>[ \-/.]*)(?P<month>[^\W\d_]{3,10})\.?(?P<then>[ \-/.,]+)(?P<year>9{4}|9{2}))$"
    r"|(?P<leading>[^\W\d_]{3,10}\.?(?P<space>[ \-])9{1,2}(?P<comma>,)?(?P<after>[ ]?(?=9{4})|-)(?P<last>9{4}|9{2}))$"
)
_OF_YEAR = re.compile(r"(?<=[0-9]{4}) ?[r\u0433]\.$")  # the word for a year in Polish (`13.11.2026 r.`) and Russian
_LONGEST = 100  # characters of a number with its unit; a remark may have thousands
_SPACES = re.compile(r"\s+")
_A_MARK = re.compile(r"[0-9][.,'\u2019\u00a0\u202f][0-9]")
_A_DATE = re.compile(r"[0-9]{1,4}([./\- ])[0-9]{1,2}\1[0-9]{2,4}(?![0-9])")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,'\u2019\u00a0\u202f ]*")
_WITHOUT_CENTS = re.compile(r"(?<=[0-9])[.,](-{1,2}|\u2013)(?=$| ?[€$£]$| ?[A-Z]{3}$)")  # a price such as `12,- €`
_CURRENCY = re.compile("[€$£]|[A-Z]{3}|^Fr")
_AFTER = re.compile(r"[^\W\d_][\w.³*/]*$|[€$£%]$")
_LOCALES = ("en_GB", "de_DE", "fr_FR", "sv_SE", "de_CH", "en_IN")
_OTHER_MARKS = {"en": ("en_DE", "en_SE"), "de": ("de_CH",), "es": ("es_MX",), "it": ("it_CH",)}
"""Locales of these languages with the marks of others: a sheet gets its reports in the language of its headings, whatever marks its numbers have."""


class Formats(NamedTuple):
    """The formats that read the dates of a column, best first, the number of cells that they read, and texts that none reads. `order` is what
    the dates prove, `day` or `month` first; if they prove nothing, `ambiguous` is the format with day and month swapped.
    """

    formats: tuple[str, ...]
    read: int
    others: tuple[str, ...]
    ambiguous: str
    order: str


class _Style(NamedTuple):
    """A shape with its texts and the number of cells."""

    shape: str
    texts: list[str]
    cells: int


def formats_of(counts: Mapping[str, int], locale: str | None, order: str) -> Formats | None:
    """The date formats of these trimmed texts (with their numbers of cells); None if most are no dates. `order` (day or month) is what other
    columns of the file prove.
    """
    styles = list(_styles(counts))
    found = [(*readings, style) for style in styles if (readings := _readings(style, locale))]
    if not found:
        return None
    chosen, ambiguous, proved = _settle_order(found, locale, order)
    kept: dict[str, int] = defaultdict(int)
    for format_, style in zip(chosen, (style for _, _, style in found), strict=True):
        kept[format_] += style.cells
    total = sum(kept.values())
    # programs that write fractions of a second leave them out on the full second, which is rare
    often = [one for one in kept if kept[one] > _RARE * total or len(kept) == 1 or f"{one}.%f" in kept]
    frequent = sorted(often, key=lambda one: -kept[one])
    formats = tuple(compatible(frequent[:_FORMATS_MAX], locale))
    read, others = 0, list[str]()
    for style in styles:
        texts = sample(style.texts)
        missed = [text for text in texts if all(_reader_of(one, locale)(text) is None for one in formats)]
        read += round(style.cells * (1 - sum(map(counts.__getitem__, missed)) / sum(map(counts.__getitem__, texts))))
        others += missed[:3]
    return Formats(formats, read, tuple(others), ambiguous, proved) if read * 2 >= sum(counts.values()) else None


def order_near(counts: Mapping[str, int], day: date, locale: str | None) -> str:
    """The order (day or month first) that puts all dates within a month of `day`, such as that of the file; empty if both or none do."""
    near = []
    for order in ("day", "month"):
        found = formats_of(counts, locale, order)
        read = [_reader_of(found.formats[0], locale)(text) for text in sample(list(counts))] if found else [None]
        if all(moment is not None and abs((moment.date() - day).days) <= _NEAR for moment in read):
            near.append(order)
    return near[0] if len(near) == 1 else ""


def _styles(counts: Mapping[str, int]) -> Iterator[_Style]:
    by_shape: dict[str, list[str]] = defaultdict(list)
    cells: dict[str, int] = defaultdict(int)
    for text, count in counts.items():
        shape = _SPACES.sub(" ", text.translate(_DIGITS))
        by_shape[shape].append(text)
        cells[shape] += count
    for shape in sorted(by_shape, key=lambda shape: -cells[shape])[:_SHAPES_MAX]:
        yield _Style(shape, by_shape[shape], cells[shape])


def _readings(style: _Style, locale: str | None) -> tuple[str, str] | None:
    """The format that reads the most texts of a style, and another one that reads as many (empty: none). Day first comes first."""
    texts = sample(style.texts)
    years = {
        format_: [moment.year for text in texts if (moment := _reader_of(format_, locale)(text)) is not None]
        for format_ in _candidates(style.shape)
    }
    counts = {format_: len(years[format_]) for format_ in _with_year_at_one_end(years)}
    most = max(counts.values(), default=0)
    best = [format_ for format_, count in counts.items() if count == most]
    return (best[0], best[1] if len(best) > 1 else "") if most and most * 2 >= len(texts) else None


def _with_year_at_one_end(years: Mapping[str, Sequence[int]]) -> list[str]:
    """The formats whose year is on the side that gives fewer different years, by the years that each format reads. Days taken for years, as in
    `26-11-23`, give many.
    """
    first = [format_ for format_ in years if format_.startswith("%y") and years[format_]]
    last = [format_ for format_ in years if format_ not in first and years[format_]]
    if not first or not last:
        return list(years)
    often = max(last, key=lambda format_: len(years[format_]))
    fewer = len(set(years[often])) - len(set(years[first[0]]))
    return last if fewer < 0 else first if fewer else list(years)


def _candidates(shape: str) -> tuple[str, ...]:
    """The formats that could have written texts of this shape."""
    if weekday := weekday_in(shape):
        after = weekday.lstrip(weekday.rstrip("., "))
        return tuple(f"%a{after}{format_}" for format_ in _candidates(shape[len(weekday) :])) or _of_days(shape)
    return _of_days(shape)


def _of_days(shape: str) -> tuple[str, ...]:
    if word := _OF_YEAR.search(shape):
        return tuple(f"{format_}{word[0]}" for format_ in _of_days(shape[: word.start()]))
    clock = _CLOCK.search(shape)
    day = _DAY.match(shape[: clock.start()] if clock else shape)
    if day is None:
        return ()
    tail = _clock_format(clock) if clock else ""
    return tuple(f"{format_}{tail}" for format_ in _day_formats(day))


def _day_formats(day: re.Match[str]) -> list[str]:
    if day["packed"]:
        return ["%Y%m%d", "%d%m%Y", "%m%d%Y"]
    if day["signed"]:
        return ["%Y年%m月%d日"]
    if day["named"]:
        year = "%Y" if len(day["year"]) == 4 else "%y"
        dot = "." if day["then"].startswith(".") and len(day["then"]) > 1 else ""  # of the month's abbreviation
        return [f"%d{day['dot'] or ''}{day['by']}%b{dot}{day['then'].lstrip('.') or '.'}{year}"]
    if day["leading"]:
        return [f"%b{day['space']}%d{day['comma'] or ''}{day['after']}{'%Y' if len(day['last']) == 4 else '%y'}"]
    return _numbered(day["sep"], len(day["one"]), len(day["three"]))


def _numbered(sep: str, first: int, last: int) -> list[str]:
    """The formats of days written in numbers, by the digits of their first and last part. Dots stand between day and month."""
    if first == 4 and last <= 2:
        return [f"%Y{sep}%m{sep}%d"]
    if first > 2 or last == 1:
        return []
    year = "%Y" if last == 4 else "%y"
    if sep.startswith("."):
        return [f"%d{sep}%m{sep}{year}"]
    found = [f"%d{sep}%m{sep}{year}", f"%m{sep}%d{sep}{year}"]
    return found if last == 4 else [*found, f"%y{sep}%m{sep}%d"]


def _clock_format(clock: re.Match[str]) -> str:
    half = clock["half"] or ""
    parts = [
        clock["between"], "%I" if half else "%H", ":%M", ":%S" if clock["second"] else "", ".%f" if clock["fraction"] else "",
        f"{' ' if half.startswith(' ') else ''}%p" if half else "", f"{clock['gap'] or ''}%z" if clock["zone"] else "", clock["word"] or "",
    ]  # fmt: skip
    return "".join(parts)


_reader_of = cache(format_parser)


def _settle_order(
    found: Sequence[tuple[str, str, _Style]], locale: str | None, order: str
) -> tuple[list[str], str, str]:
    """The format of each style, the other reading if nothing decides between day and month first, and the order that the styles prove. What
    some styles prove holds for the rest; else the order with the shorter span of time, as the dates of one file are mostly close together.
    """
    proved = {_order(format_) for format_, other, _ in found if not other and _order(format_)}
    open_ = next(((format_, other) for format_, other, _ in found if other), None)
    known = proved.pop() if len(proved) == 1 else ""
    if open_ is None:
        return [format_ for format_, _, _ in found], "", known
    if known or order:
        swap = (known or order) == "month"
    else:
        texts = [text for _, other, style in found if other for text in sample(style.texts)]
        swap = _span(texts, open_[1], locale) < _span(texts, open_[0], locale)
    chosen = [other if other and swap else format_ for format_, other, _ in found]
    return chosen, "" if known or order else open_[0 if swap else 1], known


def _order(format_: str) -> str:
    """Whether the day or the month comes first; empty for formats that cannot be misread. Dots always separate day and month."""
    day = format_.removeprefix("%a").lstrip("., ")
    if "%b" in day or "." in day[:6] or day.startswith(("%Y", "%y")):
        return ""
    return "day" if day.startswith("%d") else "month"


def _span(texts: Iterable[str], format_: str, locale: str | None) -> float:
    moments = [
        moment.replace(tzinfo=None) for text in texts if (moment := _reader_of(format_, locale)(text)) is not None
    ]
    return float((max(moments) - min(moments)).total_seconds()) if moments else 0.0


def compatible(formats: Iterable[str], locale: str | None) -> list[str]:
    """The formats without those that a mapping refuses beside the earlier ones, as both read a text as different dates."""
    kept: list[str] = []
    for format_ in formats:
        try:
            formats_parser([*kept, format_], locale)
        except ValueError:
            continue
        kept.append(format_)
    return kept


# ---- numbers ----


def number_of(text: str) -> tuple[str, str] | None:
    """The number and the unit or currency in a text, such as `12,5` and `kg`; None if it is no number. Only a currency may stand in front."""
    bare = without_apostrophe(text.strip())
    bare = _WITHOUT_CENTS.sub("", bare) if _CURRENCY.search(bare) else bare
    if len(bare) > _LONGEST:
        return None
    behind = _AFTER.search(bare)
    digits, unit = (bare[: behind.start()].rstrip(), behind[0]) if behind else split_amount(bare)
    if unit and not behind and not currencies_meant(unit):
        return None
    if digits[-1:] == "-" and digits[:1].isdigit() and digits[:-1].rstrip()[-1:].isdigit():
        digits = f"-{digits[:-1].rstrip()}"  # as SAP writes it; `12,-` is a price
    return (digits, unit) if _NUMBER.fullmatch(digits) else None


def shapes_of_numbers(texts: Mapping[str, int]) -> dict[str, int]:
    """One example for each shape of a number that has marks, with the number of cells of that shape."""
    examples: dict[str, tuple[str, int]] = {}
    for text, count in texts.items():
        found = number_of(text)
        if found is not None and _A_MARK.search(found[0]) and not _A_DATE.match(text):
            shape = found[0].translate(_DIGITS)
            example, cells = examples.get(shape, (found[0], 0))
            examples[shape] = example, cells + count
    return dict(examples.values())


def locale_of(
    numbers: Mapping[str, int], locales: Sequence[str], countries: Mapping[str, int], *, is_read: bool = True
) -> tuple[str, str]:
    """The locale that reads most of these numbers (an example of each shape with its cells), and the evidence. Ties go to the locale that
    reads more of the cells with countries (`countries`: the cells that each locale reads), then to the first of `locales`.
    `is_read`: the headings are in a known language, that of the first locale.
    """
    language = locales[0][:2]
    own = [name for name in locales if name[:2] == language]  # such as pt_PT and pt_BR
    own += _OTHER_MARKS.get(language, ()) if is_read else ()
    candidates = list(dict.fromkeys([*own, *_LOCALES, *locales]))
    counted = {
        name: sum(numbers[text] for text in numbers if not isinstance(reader_of_numbers(name)(text), CellProblem))
        for name in candidates
    }
    best = max(candidates, key=lambda name: (counted[name], countries.get(name, 0), -candidates.index(name)))
    if numbers:
        evidence = f"{counted[best]} of {sum(numbers.values())} numbers with a decimal mark are in {best} notation"
        others = [text for text in numbers if isinstance(reader_of_numbers(best)(text), CellProblem)]
        evidence += f"; {CHECK} the others, such as {others[0]}" if others else ""
        marks = {decimal_mark(name) for name in candidates if counted[name] == counted[best]}
        evidence += (
            f"; {CHECK} whether {text} means thousands" if len(marks) > 1 and (text := next(iter(numbers))) else ""
        )
    else:
        decides = "the language of the headings decides" if is_read else f"{CHECK}, no heading is in a known language"
        evidence = f"no number has a decimal mark; {decides}"
    return best, evidence + (f"; {countries[best]} countries are in its language" if countries.get(best) else "")


reader_of_numbers = cache(number_parser)
"""A reader of numbers, made once for each locale."""

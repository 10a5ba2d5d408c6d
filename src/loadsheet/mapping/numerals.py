"""Numbers as a locale writes them: text to exact Decimal.

Uses Babel's number parser, always strict. A text in another notation is never guessed: with `de_DE`, `1.5` is refused with both readings
(15 or 1,5). Knows no column and no cell.
"""

import re
import unicodedata
from collections.abc import Callable
from decimal import Context, Decimal

from babel import Locale, UnknownLocaleError
from babel.numbers import NumberFormatError, format_decimal, get_decimal_symbol, get_group_symbol, parse_decimal

from loadsheet.mapping.values import CellProblem

_ZERO = Decimal(0)  # also for -0
_WIDE = Context(prec=400)  # digits of the longest number that a workbook can hold, and more
_LONGEST = 40  # characters; more digits than Decimal keeps exactly
_MINUS = {"-", "\N{MINUS SIGN}", "\N{EN DASH}"}
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"


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


def number_reader(locale: str) -> Callable[[str], Decimal | CellProblem]:
    """A function from trimmed text to Decimal, or to CellProblem with C302 or C316. Digits are 0-9 only; a group separator stands
    between every three digits (or as the locale groups) or nowhere; no exponent. Raises babel.UnknownLocaleError.
    """
    language = Locale.parse(locale)
    group, point = get_group_symbol(language), get_decimal_symbol(language)
    simple = re.compile(rf"([0-9]{{1,28}})(?:{re.escape(point)}([0-9]{{1,12}}))?")
    allowed = re.compile(rf"[0-9{re.escape(group + point)}.,]*[0-9][0-9{re.escape(group + point)}.,]*")
    example = f"write it like {format_decimal(Decimal('1234.5'), locale=language)}"
    not_a_number = CellProblem("C302", {"locale": locale}, example)
    foreign = {".", ","} - {group, point}  # Babel would take a dot for the point of a locale that has another one

    def exact(digits: str) -> Decimal | None:
        try:
            return canonical(parse_decimal(digits, locale=language, strict=True))
        except NumberFormatError:
            return None

    def refused(digits: str, sign: str) -> CellProblem:
        meant = {exact(option): option for option in reversed(_options(digits, locale, group, point))}
        meant.pop(None, None)
        return _refusal([f"{sign}{option}" for option in reversed(meant.values())], not_a_number)

    def read(text: str) -> Decimal | CellProblem:
        signed, digits, sign = (
            (Decimal.copy_negate, text[1:].lstrip(), "-")
            if text[:1] in _MINUS
            else (Decimal.copy_abs, text.removeprefix("+"), "")  # neither rounds, as a product would
        )
        plain = simple.fullmatch(digits)
        if plain is not None:
            whole, part = plain.groups("")
            part = part.rstrip("0")
            return signed(Decimal(f"{whole}.{part}" if part else whole)) or _ZERO
        grouped = _with_group(digits, group)
        if len(grouped) > _LONGEST or not allowed.fullmatch(grouped):
            return not_a_number
        number = None if any(mark in grouped for mark in foreign) else exact(grouped)
        return refused(grouped, sign) if number is None else signed(number) or _ZERO

    return read


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


def canonical(number: Decimal) -> Decimal:
    """The same number without an exponent and without zeros after its last digit: 12.50 is 12.5, 1E+3 is 1000. So a number has
    one spelling, whether it came from a workbook or a text, and equal records have equal hashes.
    """
    if not number:
        return Decimal(0)
    shortest = number.normalize(_WIDE)
    return shortest if int(shortest.as_tuple().exponent) <= 0 else shortest.quantize(Decimal(1), context=_WIDE)


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
    return CellProblem("C302", otherwise.values, f"did you mean {suggestions[0]}?") if suggestions else otherwise

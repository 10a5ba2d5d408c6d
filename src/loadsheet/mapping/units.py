"""Units of weight, volume and length: amounts with a unit, converted exactly.

Common units have their own aliases and sizes (pint does not know KGS, LBS, CBM and Ton). pint is loaded only for other units and calculates
with Decimal. `Ton` is the metric ton, as in the interface. Another ton is declared under `source.units`; for a US sheet this is required.
Knows no column.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from babel import Locale

from loadsheet.mapping.notations import canonical
from loadsheet.mapping.plans import CellProblem, RowStep
from loadsheet.reading.tables import Native
from loadsheet.similar_text import did_you_mean, did_you_mean_value, proposal_of, proposed_value

if TYPE_CHECKING:
    import pint

ALIASES: dict[str, str] = {
    alias: unit
    for unit, aliases in {
        "kilogram": "kg kgs kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kilogramos quilos quilogramas kgm кг 公斤 千克",
        "gram": "g gr grs gm gms gram grams gramm gramme grammes gramos gramas grammi grm 克",
        "tonne": "t to tn ton tons tonne tonnes tonnen toneladas tonnellate mt tne т тн тонн 吨",
        "pound": "lb lbs pound pounds libras libbre lbm lbr",
        "ounce": "oz ounce ounces onz",
        "meter**3": "m3 m³ m^3 m**3 cbm cum mtq cubicmeter cubicmeters cubicmetre cubicmetres meter**3 м3 м³ кубм 立方米",
        "centimeter**3": "cm3 cm³ cm^3 cm**3 ccm cc cmq",
        "foot**3": "ft3 ft³ ft^3 ft**3 cft cuft ftq cubicfoot cubicfeet foot**3",
        "inch**3": "in3 in³ in^3 in**3 cuin inq inch**3",
        "liter": "l lt ltr liter liters litre litres dm3 dm³ cdm dmq л 升",
        "meter": "m м mtr mtrs mts meter meters metre metres metros metri",
        "centimeter": "cm см 厘米 cms cmt centimeter centimeters centimetre centimetres centimetros centímetros centimetri",
        "millimeter": "mm мм 毫米 mms mmt millimeter millimeters millimetre millimetres",
        "foot": "ft foot feet fot '",
        "yard": "yd yds yard yards yrd",
        "inch": 'in inch inches inh " ″',
    }.items()
    for alias in aliases.split()
}
"""Unit words, folded to lower case and without spaces and dots -> pint's name. Includes the codes of UN/ECE Recommendation 20 from EDI
systems (KGM, LBR, MTQ ...).
"""


_SIZES: dict[str, dict[str, str]] = {
    "kilogram": {"kilogram": "1", "gram": "0.001", "tonne": "1000", "pound": "0.45359237", "ounce": "0.028349523125"},
    "meter**3": {
        "meter**3": "1",
        "centimeter**3": "0.000001",
        "liter": "0.001",
        "foot**3": "0.028316846592",
        "inch**3": "0.000016387064",
    },
    "meter": {
        "meter": "1",
        "centimeter": "0.01",
        "millimeter": "0.001",
        "foot": "0.3048",
        "yard": "0.9144",
        "inch": "0.0254",
    },
}
"""The measure of each unit above, and its exact size in that measure's base unit."""

_MEASURES = {unit: (measure, Decimal(size)) for measure, sizes in _SIZES.items() for unit, size in sizes.items()}
_CALLED = {"kilogram": "a weight", "meter**3": "a volume", "meter": "a length"}
_TONS = frozenset({"ton", "tons", "tn"})
"""Words for 2,000 pounds in the United States and for 1,000 kilograms elsewhere."""
_WHICH_TON = "in the United States a ton is 2,000 lb, elsewhere 1,000 kg: say which under source.units: {ton: short_ton} or {ton: tonne}"
_SPACED = re.compile(r"[\s.]")
_UNIT = re.compile(r"[^\W\d_]|[\"'″](?![0-9])")
_SHOWN = re.compile(r"(?P<before>\D*?)-?(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<after>.*)", re.DOTALL)
_THOUSANDS_MAX = 4
_CLEAN = Context(prec=22)  # pint converts via thirds of a yard, so the last of 28 digits is wrong


@cache
def _registry() -> "pint.UnitRegistry[Decimal]":
    import pint

    return pint.UnitRegistry(non_int_type=Decimal)


def unit_named(word: str, extra: Mapping[str, str]) -> str:
    """Pint's name for a unit in a mapping or a cell. Raises ValueError with a proposal for an unknown unit."""
    pint_name = _known_unit(word, extra)
    if not pint_name:
        raise ValueError(did_you_mean(word, [*extra, *ALIASES]))
    return pint_name


def _known_unit(word: str, extra: Mapping[str, str]) -> str:
    pint_name = _declared(word, extra) or common_unit(word)
    return pint_name if pint_name and is_unit(pint_name) else ""


def common_unit(word: str) -> str:
    """Pint's name for a common unit in any spelling; empty if it is none."""
    return ALIASES.get(_folded(word), "")


def _declared(word: str, extra: Mapping[str, str]) -> str | None:
    """The mapping's meaning of a word in any spelling: declaring `ton` also declares `Tons`."""
    if word in extra:
        return extra[word]
    found = {pint_name for other, pint_name in extra.items() if _one_word(_folded(other)) == _one_word(_folded(word))}
    return found.pop() if len(found) == 1 else None


def _one_word(word: str) -> str:
    return "ton" if word in _TONS else word


def _folded(word: str) -> str:
    return _SPACED.sub("", word.casefold())


def is_unit(name: str) -> bool:
    """Whether pint knows a unit of this name."""
    if name in ALIASES.values():
        return True
    from pint import PintError

    try:
        _registry().parse_units(name)
    except (PintError, ValueError, AttributeError, TypeError, AssertionError):  # what pint's parser raises
        return False
    return True


def which_ton(word: str, extra: Mapping[str, str], locale: str | None) -> str:
    """The hint to declare the kind of ton if a US sheet does not define it; otherwise empty."""
    is_open = _folded(word) in _TONS and _declared(word, extra) is None
    return _WHICH_TON if is_open and locale is not None and Locale.parse(locale).territory == "US" else ""


@cache
def conversion_factor(unit: str, target: str) -> Decimal | None:
    """The exact factor from `unit` to `target`, or None if they measure different things. Both are pint's names."""
    if unit == target:
        return Decimal(1)
    if unit not in _MEASURES or target not in _MEASURES:
        return factor_by_pint(unit, target)
    (measure, size), (other, per) = _MEASURES[unit], _MEASURES[target]
    return canonical(_CLEAN.divide(size, per)) if measure == other else None


def factor_by_pint(unit: str, target: str) -> Decimal | None:
    """The factor by pint, for any of its units."""
    from pint import DimensionalityError

    try:
        magnitude = Decimal(_registry().Quantity(Decimal(1), unit).to(target).magnitude)
    except DimensionalityError:
        return None
    return canonical(_CLEAN.plus(magnitude))


class Quantity:
    """Reads amounts in `unit`: from trimmed text such as `12,5 kg`, and from workbook numbers, whose format may hold the unit.

    Without a unit, `assumed` is used. Units are pint's names, `extra` holds further words for them. Unknown and incompatible units
    give C307, as do tons in US sheets that `extra` does not define.
    """

    def __init__(
        self,
        read_number: Callable[[str], Decimal | CellProblem],
        *,
        unit: str,
        assumed: str,
        extra: Mapping[str, str],
        locale: str | None = None,
    ) -> None:
        """`read_number` reads a number in the notation of the sheet."""
        self._read_number, self._unit, self._extra, self._locale = read_number, unit, extra, locale
        self._per_assumed = conversion_factor(assumed, unit) or Decimal(1)
        self._wrong = CellProblem("C307", {"expected": _expected(unit)})

    def read(self, text: str, beside: str = "") -> Decimal | CellProblem:
        """The amount of a text. `beside` is the unit that another cell of its row names, if any."""
        digits, word = _split(text)
        if text[-1:].isdigit() and word not in self._extra and not common_unit(word):
            digits, word = text, ""  # a wrong number such as 4O8,5, but not 7 m3
        number = self._read_number(digits or text)
        amount = number if isinstance(number, CellProblem) else self._amount(number, word, beside)
        return self._with_digits(text, amount) if isinstance(amount, CellProblem) else amount

    def _with_digits(self, text: str, otherwise: CellProblem) -> CellProblem:
        """The problem of an amount such as `1OO kg` or `1O`, whose number has letters that look like digits; any other problem unchanged."""
        start, space, word = text.partition(" ")
        number = self._read_number(start)
        meant = proposed_value(number.hint) if isinstance(number, CellProblem) else ""
        if not isinstance(number, CellProblem) or not meant:
            return otherwise
        of_word = isinstance(self._factor(word.strip()), Decimal)
        if not (of_word if word else not _known_unit(_split(text)[1], self._extra)):
            return otherwise
        return number._replace(hint=proposal_of(f"{meant}{space}{word}"))

    def of_number(self, cell: Native, beside: str = "") -> Decimal | CellProblem:
        """The amount of a workbook number: the words of its format count as its unit. `beside` as in `read`."""
        number = canonical(Decimal(cell))
        found = _SHOWN.fullmatch(cell.without_currency) if cell.without_currency != cell else None
        if found is None or not _UNIT.search(found["before"] + found["after"]):
            return self._amount(number, "", beside)
        seen = Decimal(found["number"])
        word = (found["before"] + found["after"]).strip(" -+()\xa0\u202f")
        if seen not in {abs(number.scaleb(-3 * thousands)) for thousands in range(_THOUSANDS_MAX)}:
            return self._wrong._replace(
                hint=f"the number is {number}, and its format shows it as {cell.without_currency}"
            )
        return self._amount(seen.copy_sign(number), word, beside)

    def _amount(self, number: Decimal, word: str, beside: str) -> Decimal | CellProblem:
        per = self._factor(word or beside) if word or beside else self._per_assumed
        if beside and word and per != self._factor(beside):
            return self._wrong._replace(hint=f"the cell says {word}, and the column of its unit says {beside}")
        if beside and isinstance(per, CellProblem):
            return per._replace(hint="; ".join(filter(None, [f'the column of its unit says "{beside}"', per.hint])))
        return per if isinstance(per, CellProblem) else number if per == 1 else canonical(number * per)

    def _factor(self, word: str) -> Decimal | CellProblem:
        if unclear := which_ton(word, self._extra, self._locale):
            return self._wrong._replace(hint=unclear)
        pint_name = _known_unit(word, self._extra)
        if not pint_name:
            return self._wrong._replace(hint=did_you_mean_value(word, _words_for(self._unit, self._extra)))
        found = conversion_factor(pint_name, self._unit)
        return self._wrong._replace(hint=_another_measure(word, pint_name, self._unit)) if found is None else found


def with_unit_of(column: str, parse: Callable[..., Any]) -> RowStep:
    """Reads a quantity when its row is read, with the unit in another column. A default is a number already."""

    def in_unit(cell: Any, units: Sequence[Any]) -> Any:
        return cell if isinstance(cell, Decimal) else parse(cell, *units)

    return RowStep(in_unit, (column,))


def _words_for(unit: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The words for units that measure the same, and pint's names for them."""
    words = {**ALIASES, **extra}
    known = {word: pint_name for word, pint_name in words.items() if is_unit(pint_name)}
    return {word: pint_name for word, pint_name in known.items() if conversion_factor(pint_name, unit) is not None}


def _another_measure(word: str, pint_name: str, unit: str) -> str:
    measures = [_CALLED[_MEASURES[name][0]] if name in _MEASURES else "something else" for name in (pint_name, unit)]
    name = f"cubic {pint_name.removesuffix('**3')}" if pint_name.endswith("**3") else pint_name
    return f"{word} means {name}, which measures {measures[0]}" + (f", not {measures[1]}" if unit in _MEASURES else "")


def _split(text: str) -> tuple[str, str]:
    """The number and the unit after it. The unit begins with a letter, or with a quote that no digit follows (1'234 is one number).
    Without a digit the number is empty.
    """
    found = _UNIT.search(text)
    end = found.start() if found is not None else len(text)
    digits = text[:end].rstrip()
    return (digits, text[end:].strip()) if any(letter.isdigit() for letter in digits) else ("", "")


def _expected(unit: str) -> str:
    same = [name for name in dict.fromkeys(ALIASES.values()) if conversion_factor(name, unit) is not None]
    words = [next(alias for alias, name in ALIASES.items() if name == pint_name) for pint_name in same]
    return "one of " + ", ".join(words) if words else unit

"""Words with a fixed meaning: units, countries, currencies, time zones, yes and no; and the closest word to a wrong one.

Words are known in the file's language (Babel's names of territories and currencies) and in English. Common units have their own
aliases and sizes (pint does not know KGS, LBS, CBM and Ton). pint is loaded only for other units and calculates with Decimal. `Ton` is
the metric ton, as in the interface. Another ton is declared under `source.units`; for a US sheet this is required.

The hint "did you mean": names in a mapping may be several letters off. The value of a cell (`near`) may not: a code with
another digit is another code, not a typing error. The exception are characters that look alike, such as O for 0. A proposal is only
shown, never applied. Knows no column and no cell.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING

from babel import Locale
from babel.core import get_global
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from loadsheet.confusables import skeleton
from loadsheet.mapping.notations import canonical, zone_names
from loadsheet.mapping.plans import CellProblem, SettingError
from loadsheet.reading.tables import Native

if TYPE_CHECKING:
    import pint

_CLOSE_ENOUGH = 60  # of 100; lower values give confusing proposals
_NEAR_LETTERS_MIN = 3  # one letter of two is half the word


def nearest(name: str, patterns: Iterable[str], most: int = 3) -> list[str]:
    """The file name patterns most similar to a file's name, the closest first. Folders are ignored."""
    bare = name.rpartition("/")[2].casefold()
    likeness = {pattern: fuzz.ratio(bare, pattern.rpartition("/")[2].casefold()) for pattern in patterns}
    return sorted(likeness, key=lambda pattern: -likeness[pattern])[:most]


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?` for a name, ignoring case, or an empty text."""
    by_folded = {option.casefold(): option for option in options}
    found = process.extractOne(word.casefold(), by_folded.keys(), scorer=fuzz.ratio, score_cutoff=_CLOSE_ENOUGH)
    return f"did you mean {by_folded[found[0]]}?" if found else ""


def closest_or_known(word: str, options: Iterable[str], most: int = 30) -> str:
    """The hint `did you mean X?`, or a list of the options."""
    names = list(options)
    return did_you_mean(word, names) or f"known: {some(names, most) or 'none'}"


def near(word: str, options: Iterable[str]) -> str:
    """The one option within one typing error of a value, ignoring case, or an empty text. A typing error is a letter too many, missing or
    wrong, or two neighbours swapped. Digits must agree. If no option is that close: the one option that looks the same. `options` may
    map each option to its meaning: options with the same meaning count as one.
    """
    typed, names = word.casefold(), list(options)
    found: list[str] = []
    if len(typed) >= _NEAR_LETTERS_MIN:
        folded = [name.casefold() for name in names]
        close = process.extract(typed, folded, scorer=OSA.distance, score_cutoff=1, limit=None)
        found = [names[place] for _, _, place in close if _digits(names[place]) == _digits(typed)]
    if not found and any(letter.isdecimal() or letter.isalpha() for letter in word):
        looks = skeleton(word)
        found = [name for name in names if skeleton(name) == looks]
    meanings = {options[name] for name in found} if isinstance(options, Mapping) else set(found)
    return found[0] if len(meanings) == 1 else ""


def did_you_mean_value(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?` for the value of a cell, or an empty text."""
    option = near(word, options)
    return f"did you mean {option}?" if option else ""


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())


def some(options: Iterable[str], most: int = 8) -> str:
    """The options as a short list: `a, b, c` or `a, b, ... (40 in all)`."""
    names = list(options)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, ... ({len(names)} in all)"


# ---- countries, currencies, time zones, yes and no ----

NO_COUNTRIES = frozenset({"EU", "EZ", "QO", "UN", "XA", "XB", "ZZ"})  # CLDR's territories that are not countries
_CODE = 3  # letters
_SIGNS = {  # signs of one currency only
    "€": "EUR", "zł": "PLN", "Kč": "CZK", "₹": "INR", "₺": "TRY", "₪": "ILS", "₴": "UAH", "₫": "VND", "฿": "THB",
    "US$": "USD", "A$": "AUD", "C$": "CAD", "S$": "SGD", "HK$": "HKD", "NZ$": "NZD", "R$": "BRL",
}  # fmt: skip
_ALIASES = {
    "AE": "emirates, uae, vae, emirate, united arab emirates, vereinigte arabische emirate", "BA": "bosnia, bosnien, bosnia herzegovina",
    "BN": "brunei darussalam", "BO": "plurinational state of bolivia", "BY": "white russia, weissrussland, republic of belarus",
    "CD": "drc, dr congo, congo drc, congo kinshasa, democratic republic of the congo, zaire", "CG": "congo brazzaville, republic of the congo",
    "CH": "helvetia, swiss confederation", "CI": "ivory coast, elfenbeinküste", "CN": "prc, people's republic of china", "CV": "cape verde, cabo verde, kapverden",
    "CZ": "czech republic, tschechische republik, tschechei, république tchèque, repubblica ceca, república checa",
    "DE": "federal republic of germany, bundesrepublik deutschland, brd", "FM": "federated states of micronesia", "FK": "falkland islands, malvinas",
    "GB": "uk, britain, great britain, grossbritannien, united kingdom of great britain and northern ireland, grande bretagne, gran bretagna, "
    "gran bretaña, storbritannien, wielka brytania",
    "GM": "gambia", "BS": "bahamas", "HK": "hong kong, hongkong", "IE": "eire, republic of ireland, republik irland", "IR": "islamic republic of iran",
    "KP": "dprk, democratic people's republic of korea", "KR": "republic of korea, korea south, rok", "LA": "lao pdr, lao people's democratic republic, lao",
    "LY": "libyan arab jamahiriya", "MD": "moldavia, moldawien, republic of moldova", "MK": "macedonia, mazedonien, republic of north macedonia, fyrom",
    "MM": "burma, birma, myanmar", "MO": "macau, macao", "NL": "holland, hollande, olanda, holanda, holandia, netherlands, the netherlands",
    "PS": "palestine, palästina, state of palestine", "RU": "russian federation, russische föderation", "SK": "slovak republic, slowakische republik",
    "SY": "syrian arab republic", "SZ": "swaziland, swasiland", "TL": "east timor, osttimor", "TR": "turkey, türkiye, turkiye",
    "TW": "taiwan province of china, republic of china", "TZ": "united republic of tanzania",
    "US": "usa, ee uu, eeuu, united states of america, the united states, vereinigte staaten von amerika, états unis d'amérique",
    "VA": "vatican, vatikan, holy see", "VE": "bolivarian republic of venezuela", "VN": "viet nam", "ZA": "rsa",
}  # fmt: skip
"""Other names of countries beside CLDR's: spellings, official and former names."""
_PARTS = {
    "GB": "england, scotland, schottland, wales, northern ireland, nordirland, angleterre, inghilterra, inglaterra, anglia",
    "US": "america, amerika", "CH": "swiss", "KR": "korea",
}  # fmt: skip
"""Ambiguous names, smaller or larger than a country: proposed, never accepted."""
YES_NO = {
    "en": ("yes y true 1", "no n false 0"),
    "cs": ("ano", "ne"),
    "da": ("ja", "nej"),
    "de": ("ja j wahr", "nein falsch"),
    "es": ("sí si s", "no"),
    "fi": ("kyllä", "ei"),
    "fr": ("oui o vrai", "non faux"),
    "it": ("sì si s", "no"),
    "nb": ("ja", "nei"),
    "nl": ("ja j", "nee"),
    "no": ("ja", "nei"),
    "pl": ("tak t", "nie"),
    "pt": ("sim s", "não nao"),
    "sv": ("ja", "nej"),
}


def country_reader(locale: str | None) -> Callable[[str], str | CellProblem]:
    """A function from text to the two-letter code (ISO 3166): names in the locale's language, then in English, two- and
    three-letter codes; C308 with a proposal otherwise.
    """
    codes, plainly = _countries(locale), _plain_countries(locale)
    language = Locale.parse(locale or "en")
    written = (name for one in (language, Locale("en")) for name in one.territories.values() if len(name) > 3)
    names = {name: codes[name.casefold()] for name in written if name.casefold() in codes}
    parts = {plain(word): code for code, words in _PARTS.items() for word in words.split(", ")}

    def read(text: str) -> str | CellProblem:
        code = (
            codes.get(text.casefold())
            or plainly.get(_plain_name(text))
            or plainly.get(_plain_name("{2} {0}".format(*text.partition(","))))
        )
        if code is not None:
            return code
        meant = parts.get(plain(text))
        named = f"did you mean {language.territories[meant]}?" if meant else did_you_mean_value(text, names)
        return CellProblem("C308", hint=named)

    return read


def plain(text: str) -> str:
    """A name without case, accents and punctuation: `Türkiye` is `turkiye`, `U.S.A.` is `usa`."""
    apart = unicodedata.normalize(
        "NFKD", text.replace("&", " and ").replace(".", ". " if " " in text else "").casefold()
    )
    letters = (" " if not letter.isalnum() else letter for letter in apart if not unicodedata.combining(letter))
    words = "".join(letters).split()
    return " ".join("saint" if word == "st" else word for word in words)


def _plain_name(text: str) -> str:
    return plain(text).removeprefix("the ")


@cache
def _plain_countries(locale: str | None) -> dict[str, str]:
    """The countries by their names without case, accents and punctuation, other names included. Excludes two-letter codes, as `D.E.` is
    ambiguous, and names of two countries.
    """
    found: dict[str, set[str]] = {}
    for code, words in _ALIASES.items():
        for word in words.split(", "):
            found.setdefault(_plain_name(word), set()).add(code)
    named = {name: code for name, code in _countries(locale).items() if len(name) > 3}
    for name, code in named.items():
        found.setdefault(_plain_name(name), {code}).add(code)
    return {name: codes.pop() for name, codes in found.items() if len(codes) == 1}


@cache
def _countries(locale: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for language in [*([Locale.parse(locale)] if locale else []), Locale("en")]:
        for code, name in language.territories.items():
            if len(code) == 2 and code.isalpha() and code not in NO_COUNTRIES:
                found.setdefault(name.casefold(), code)
                found.setdefault(code.casefold(), code)
    for alias, codes in get_global("territory_aliases").items():
        if alias.isalpha() and len(codes) == 1 and codes[0].casefold() in found:
            found.setdefault(alias.casefold(), codes[0])
    return found


def currency_reader(locale: str | None = None) -> Callable[[str], str | CellProblem]:
    """A function from text to the currency code (ISO 4217) in capitals: codes, names in the locale's language, then in English, and
    signs that only one currency has (`€`; `$` is that of many); C309 with a proposal otherwise.
    """
    codes = _currencies(locale)
    proposed = {name.upper() if len(name) == _CODE else name: code for name, code in codes.items()}

    def read(text: str) -> str | CellProblem:
        code = _SIGNS.get(text) or codes.get(text.casefold())
        return code or CellProblem("C309", hint=did_you_mean_value(text, proposed))

    return read


@cache
def _currencies(locale: str | None) -> dict[str, str]:
    found = {code.casefold(): code for code in get_global("all_currencies")}
    for language in [*([Locale.parse(locale)] if locale else []), Locale("en")]:
        for code in language.currencies.keys() & set(currency_codes()):
            found.setdefault(language.currencies[code].casefold(), code)
    return found


@cache
def currency_codes() -> tuple[str, ...]:
    """The codes of the currencies that are legal tender today, sorted. Names of others are not read, so `Franc` is not ambiguous."""
    uses = (use for some in get_global("territory_currencies").values() for use in some)
    return tuple(sorted({code for code, _, until, tender in uses if tender and until is None}))


def zone_reader() -> Callable[[str], str | CellProblem]:
    """A function from text to the name of a time zone; C311 with a proposal otherwise."""
    by_folded = {name.casefold(): name for name in zone_names()}

    def read(text: str) -> str | CellProblem:
        name = by_folded.get(text.casefold().replace(" ", "_"))
        return name or CellProblem("C311", hint=did_you_mean_value(text, zone_names()))

    return read


def yes_no_reader(locale: str | None, yes: Iterable[str], no: Iterable[str]) -> Callable[[str], bool | CellProblem]:
    """A function from text to bool: by the given words, or by default those of the locale's language and of English; C310 otherwise. Raises
    SettingError for a word that means both.
    """
    language = Locale.parse(locale).language if locale else "en"
    given_yes, given_no = list(yes), list(no)
    words = _by_folded(given_yes or _usual_words(language, 0))
    denials = _by_folded(given_no or _usual_words(language, 1))
    if both := [word for word in denials if word in words]:
        denied = denials[both[0]] if given_no else f"{denials[both[0]]} (the usual words)"
        message = f"{words[both[0]]} means yes and {denied} means no, but capitals are ignored"
        raise SettingError("no" if given_no else "yes", message, "list different words under yes: and no:")
    meanings = {**dict.fromkeys(words, True), **dict.fromkeys(denials, False)}

    def read(text: str) -> bool | CellProblem:
        meaning = meanings.get(text.casefold())
        return CellProblem("C310", hint="write " + " or ".join(meanings)) if meaning is None else meaning

    return read


def _usual_words(language: str, place: int) -> list[str]:
    return [word for code in {"en": 0, language: 0} for word in YES_NO.get(code, ("", ""))[place].split()]


def _by_folded(words: Iterable[str]) -> dict[str, str]:
    return {word.casefold(): word for word in words}


# ---- units ----

ALIASES: dict[str, str] = {
    alias: unit
    for unit, aliases in {
        "kilogram": "kg kgs kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kgm",
        "gram": "g gr grs gram grams gramm gramme grammes grm",
        "tonne": "t to tn ton tons tonne tonnes tonnen mt tne",
        "pound": "lb lbs pound pounds lbm lbr",
        "ounce": "oz ounce ounces onz",
        "meter**3": "m3 m³ m^3 m**3 cbm cum mtq cubicmeter cubicmeters cubicmetre cubicmetres meter**3",
        "centimeter**3": "cm3 cm³ cm^3 cm**3 ccm cc cmq",
        "foot**3": "ft3 ft³ ft^3 ft**3 cft cuft ftq cubicfoot cubicfeet foot**3",
        "inch**3": "in3 in³ in^3 in**3 cuin inq inch**3",
        "liter": "l lt ltr liter liters litre litres",
        "meter": "m mtr meter meters metre metres",
        "centimeter": "cm cms cmt centimeter centimeters centimetre centimetres",
        "millimeter": "mm mms mmt millimeter millimeters millimetre millimetres",
        "foot": "ft foot feet fot '",
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
    "meter": {"meter": "1", "centimeter": "0.01", "millimeter": "0.001", "foot": "0.3048", "inch": "0.0254"},
}
"""The measure of each unit above, and its exact size in that measure's base unit."""

_MEASURES = {unit: (measure, Decimal(size)) for measure, sizes in _SIZES.items() for unit, size in sizes.items()}
_CALLED = {"kilogram": "a weight", "meter**3": "a volume", "meter": "a length"}
_TONS = frozenset({"ton", "tons", "tn"})
"""Words for 2,000 pounds in the United States and for 1,000 kilograms elsewhere."""
_WHICH_TON = "in the United States a ton is 2,000 lb, elsewhere 1,000 kg: say which under source.units: {ton: short_ton} or {ton: tonne}"
_SPACED = re.compile(r"[\s.]")
_MEANT = re.compile(r"did you mean (.+)\?")
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
    pint_name = _declared(word, extra) or ALIASES.get(_folded(word))
    if pint_name is None or not is_unit(pint_name):
        raise ValueError(did_you_mean(word, [*extra, *ALIASES]))
    return pint_name


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
def factor(of: str, to: str) -> Decimal | None:
    """The exact factor from `of` to `to`, or None if they measure different things. Both are pint's names."""
    if of == to:
        return Decimal(1)
    if of not in _MEASURES or to not in _MEASURES:
        return factor_by_pint(of, to)
    (measure, size), (other, per) = _MEASURES[of], _MEASURES[to]
    return canonical(_CLEAN.divide(size, per)) if measure == other else None


def factor_by_pint(of: str, to: str) -> Decimal | None:
    """The factor by pint, for any of its units."""
    from pint import DimensionalityError

    try:
        magnitude = Decimal(_registry().Quantity(Decimal(1), of).to(to).magnitude)
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
        self._per_assumed = factor(assumed, unit) or Decimal(1)
        self._wrong = CellProblem("C307", {"expected": _expected(unit)})

    def read(self, text: str) -> Decimal | CellProblem:
        """The amount of a text."""
        digits, word = _split(text)
        if text[-1:].isdigit() and word not in self._extra and _folded(word) not in ALIASES:
            digits, word = text, ""  # a wrong number such as 4O8,5, but not 7 m3
        number = self._read_number(digits or text)
        amount = number if isinstance(number, CellProblem) else self._amount(number, word)
        return self._with_digits(text, amount) if isinstance(amount, CellProblem) else amount

    def _with_digits(self, text: str, otherwise: CellProblem) -> CellProblem:
        """The problem of an amount such as `1OO kg`, whose number has letters that look like digits; any other problem unchanged."""
        start, _, word = text.partition(" ")
        number = self._read_number(start) if word and not isinstance(self._factor(word.strip()), CellProblem) else None
        meant = _MEANT.fullmatch(number.hint) if isinstance(number, CellProblem) else None
        return otherwise if meant is None else CellProblem("C302", {}, f"did you mean {meant[1]} {word}?")

    def of_number(self, cell: Native) -> Decimal | CellProblem:
        """The amount of a workbook number: the words of its format count as its unit."""
        number = canonical(Decimal(cell))
        found = _SHOWN.fullmatch(cell.shown) if cell.shown != cell else None
        if found is None or not _UNIT.search(found["before"] + found["after"]):
            return self._amount(number, "")
        seen = Decimal(found["number"])
        word = (found["before"] + found["after"]).strip(" -+()\xa0\u202f")
        if seen not in {abs(number.scaleb(-3 * thousands)) for thousands in range(_THOUSANDS_MAX)}:
            return self._wrong._replace(hint=f"the number is {number}, and its format shows it as {cell.shown}")
        return self._amount(seen.copy_sign(number), word)

    def _amount(self, number: Decimal, word: str) -> Decimal | CellProblem:
        per = self._factor(word) if word else self._per_assumed
        return per if isinstance(per, CellProblem) else number if per == 1 else canonical(number * per)

    def _factor(self, word: str) -> Decimal | CellProblem:
        if unclear := which_ton(word, self._extra, self._locale):
            return self._wrong._replace(hint=unclear)
        try:
            pint_name = unit_named(word, self._extra)
        except ValueError:
            return self._wrong._replace(hint=did_you_mean_value(word, _words_for(self._unit, self._extra)))
        found = factor(pint_name, self._unit)
        return self._wrong._replace(hint=_another_measure(word, pint_name, self._unit)) if found is None else found


def _words_for(unit: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The words for units that measure the same, and pint's names for them."""
    words = {**ALIASES, **extra}
    return {
        word: pint_name
        for word, pint_name in words.items()
        if is_unit(pint_name) and factor(pint_name, unit) is not None
    }


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
    same = [name for name in dict.fromkeys(ALIASES.values()) if factor(name, unit) is not None]
    words = [next(alias for alias, name in ALIASES.items() if name == pint_name) for pint_name in same]
    return "one of " + ", ".join(words) if words else unit

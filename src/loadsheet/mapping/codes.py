"""Countries, currencies, time zones, yes and no, as people write them.

They are known in the file's language (Babel's names of territories and currencies) and in English. Knows no column.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cache

from babel import Locale
from babel.core import get_global
from babel.numbers import get_territory_currencies

from loadsheet.contract import zone_names
from loadsheet.mapping.notations import canonical, number_parser, split_amount
from loadsheet.mapping.plans import CellProblem, SettingError
from loadsheet.reading.tables import Native
from loadsheet.similar_text import did_you_mean_value, proposal_of

NO_COUNTRIES = frozenset({"EU", "EZ", "QO", "UN", "XA", "XB", "ZZ"})  # CLDR's territories that are not countries
_CODE = 3  # letters
_SIGNS = {  # signs and short forms of one currency only
    "€": "EUR", "zł": "PLN", "Kč": "CZK", "TL": "TRY", "RMB": "CNY", "₹": "INR", "₺": "TRY", "₪": "ILS", "₴": "UAH", "₫": "VND", "฿": "THB",
    "₽": "RUB", "₩": "KRW", "₱": "PHP", "₦": "NGN", "₸": "KZT", "₾": "GEL", "₼": "AZN", "US$": "USD", "A$": "AUD", "C$": "CAD", "S$": "SGD", "HK$": "HKD", "NZ$": "NZD", "R$": "BRL",
}  # fmt: skip
_NO_CENTS = re.compile("(?<=[0-9])[.,][-\N{EN DASH}\N{EM DASH}]{1,2}$")
_SHARED_SIGNS = {
    "$": ("USD", "CAD", "AUD", "NZD", "SGD", "HKD", "MXN", "ARS", "CLP", "COP"), "£": ("GBP", "EGP"), "¥": ("JPY", "CNY"),
    "kr": ("SEK", "NOK", "DKK", "ISK"), "rs": ("INR", "PKR", "LKR", "NPR"), "fr": ("CHF",), "ft": ("HUF",), "lei": ("RON",),
}  # fmt: skip
"""Signs that several currencies have, the most frequent first, and short words that are read beside an amount only."""
_ALIASES = {
    "AE": "emirates, uae, vae, emirate, united arab emirates, vereinigte arabische emirate, emiratos árabes", "AT": "oesterreich",
    "BA": "bosnia, bosnien, bosnie, bosnia herzegovina, bosnien herzegowina", "BN": "brunei darussalam",
    "BO": "plurinational state of bolivia", "BS": "bahamas", "BY": "white russia, weissrussland, wit rusland, republic of belarus",
    "CD": "drc, dr congo, congo drc, congo kinshasa, democratic republic of the congo, zaire", "CG": "congo brazzaville, republic of the congo",
    "CH": "helvetia, swiss confederation", "CI": "ivory coast, elfenbeinküste, costa de marfil, costa do marfim, wybrzeże kości słoniowej",
    "CN": "prc, people's republic of china", "CV": "cape verde, cabo verde, kapverden",
    "CZ": "czech republic, tschechische republik, tschechei, république tchèque, repubblica ceca, república checa, república tcheca, republika czeska",
    "DE": "federal republic of germany, bundesrepublik deutschland, brd", "DO": "rep dominicana",
    "FK": "falkland islands, malvinas", "FM": "federated states of micronesia",
    "GB": "uk, britain, great britain, grossbritannien, united kingdom of great britain and northern ireland, grande bretagne, gran bretagna, gran bretaña, "
    "grã bretanha, groot brittannië, ver königreich, storbritannien, wielka brytania", "GM": "gambia", "HK": "hong kong, hongkong",
    "IE": "eire, republic of ireland, republik irland", "IR": "islamic republic of iran", "KP": "dprk, democratic people's republic of korea",
    "KR": "republic of korea, korea south, rok", "LA": "lao pdr, lao people's democratic republic, lao", "LY": "libyan arab jamahiriya",
    "MD": "moldavia, moldawien, republic of moldova", "MK": "macedonia, mazedonien, macédoine, macedonië, republic of north macedonia, fyrom",
    "MM": "burma, birma, birmania, birmanie, birmânia, myanmar", "MO": "macau, macao", "MX": "méjico",
    "NL": "holland, hollande, olanda, holanda, holandia, netherlands, the netherlands",
    "PS": "palestine, palästina, state of palestine", "RU": "russian federation, russische föderation", "SA": "arabia saudita",
    "SK": "slovak republic, slowakische republik", "SY": "syrian arab republic", "SZ": "swaziland, swasiland, suazilandia", "TL": "east timor, osttimor",
    "TR": "turkey, türkiye, turkiye", "TW": "taiwan province of china, republic of china", "TZ": "united republic of tanzania",
    "US": "usa, vs, eua, ee uu, eeuu, united states of america, the united states, vereinigte staaten von amerika, états unis d'amérique", "VA": "vatican, vatikan, holy see",
    "VE": "bolivarian republic of venezuela", "VN": "viet nam", "ZA": "rsa",
}  # fmt: skip
"""Other names of countries beside CLDR's: spellings, official and former names."""
_ON_VEHICLES = {
    "A": "AT", "B": "BE", "D": "DE", "E": "ES", "F": "FR", "FL": "LI", "H": "HU", "I": "IT", "L": "LU", "N": "NO", "P": "PT", "S": "SE",
    "SLO": "SI",
}  # fmt: skip
"""Distinguishing signs of vehicles (UN) that are not codes of ISO 3166, as logistics lists of Europe write countries."""
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


def country_parser(locale: str | None) -> Callable[[str], str | CellProblem]:
    """A function from text to the two-letter code (ISO 3166): names in the locale's language, then in English, two- and
    three-letter codes, signs of vehicles such as D and A; C308 with a proposal otherwise.
    """
    codes, plainly = _countries(locale), _plain_countries(locale)
    language = Locale.parse(locale or "en")
    written = (name for one in (language, Locale("en")) for name in one.territories.values() if len(name) > 3)
    names = {name: codes[name.casefold()] for name in written if name.casefold() in codes}
    parts = {folded_name(word): code for code, words in _PARTS.items() for word in words.split(", ")}

    def read(text: str) -> str | CellProblem:
        code = (
            codes.get(text.casefold())
            or _ON_VEHICLES.get(text)
            or plainly.get(_plain_name(text))
            or plainly.get(_plain_name("{2} {0}".format(*text.partition(","))))
        )
        if code is not None:
            return code
        meant = parts.get(folded_name(text))
        named = proposal_of(language.territories[meant]) if meant else did_you_mean_value(text, names)
        return CellProblem("C308", hint=named)

    return read


def folded_name(text: str) -> str:
    """A name without case, accents and punctuation: `Türkiye` is `turkiye`, `U.S.A.` is `usa`."""
    apart = unicodedata.normalize(
        "NFKD", text.replace("&", " and ").replace(".", ". " if " " in text else "").casefold()
    )
    letters = (" " if not letter.isalnum() else letter for letter in apart if not unicodedata.combining(letter))
    words = "".join(letters).split()
    return " ".join("saint" if word == "st" else word for word in words)


def _plain_name(text: str) -> str:
    return folded_name(text).removeprefix("the ")


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


def currency_parser(locale: str | None = None) -> Callable[[str], str | CellProblem]:
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


def currencies_meant(word: str, locale: str | None = None) -> tuple[str, ...]:
    """The currencies that a word or sign beside an amount may mean: one for `€`, `EUR` and `euro`, many for `$`. That of the locale's
    country comes first, then the most frequent.
    """
    code = _SIGNS.get(word) or _currencies(locale).get(word.casefold())
    if code:
        return (code,)
    shared = _SHARED_SIGNS.get(word.casefold().rstrip("."), ())
    country = Locale.parse(locale).territory if locale else None
    own = get_territory_currencies(country) if country else ()
    return tuple(sorted(shared, key=lambda currency: currency not in own))


class Amount:
    """Reads amounts in one currency: from trimmed text such as `€ 12.00`, and from workbook numbers, whose format may show a currency.
    C307 for an amount in another currency.
    """

    def __init__(self, currency: str, locale: str) -> None:
        """Raises SettingError if the currency is not a code."""
        if currency not in currency_codes():
            hint = did_you_mean_value(currency, {code: code for code in currency_codes()}) or "such as EUR"
            raise SettingError("currency", f"currency: {currency} is not a currency code", hint)
        self._currency, self._locale, self._read_number = currency, locale, number_parser(locale)
        self._elsewhere = CellProblem("C307", {"expected": f"an amount in {currency}"})

    def read(self, text: str) -> Decimal | CellProblem:
        """The number of an amount: `12.00`, `€ 12.00`, `12.00 EUR` and `12.-` are one. Otherwise the problems of `number_parser`."""
        number = self._read_number(text)
        if not isinstance(number, CellProblem):
            return number
        digits, word = split_amount(text)
        whole, meant = _NO_CENTS.sub("", digits), currencies_meant(word, self._locale)
        amount = self._read_number(whole) if meant or (whole != digits and not word) else number
        return self._in_currency(amount, meant)

    def of_number(self, cell: Native) -> Decimal | CellProblem:
        """The amount of a workbook number. Other words in its format than a currency are ignored."""
        _, word = split_amount(cell.displayed)
        return self._in_currency(canonical(Decimal(cell)), currencies_meant(word, self._locale))

    def _in_currency(self, amount: Decimal | CellProblem, meant: Sequence[str]) -> Decimal | CellProblem:
        is_elsewhere = meant and self._currency not in meant and not isinstance(amount, CellProblem)
        return self._elsewhere if is_elsewhere else amount


def zone_parser() -> Callable[[str], str | CellProblem]:
    """A function from text to the name of a time zone; C311 with a proposal otherwise."""
    by_folded = {name.casefold(): name for name in zone_names()}

    def read(text: str) -> str | CellProblem:
        name = by_folded.get(text.casefold().replace(" ", "_"))
        return name or CellProblem("C311", hint=did_you_mean_value(text, zone_names()))

    return read


def yes_no_parser(locale: str | None, yes: Iterable[str], no: Iterable[str]) -> Callable[[str], bool | CellProblem]:
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
    hint = "write " + " or ".join(next(iter(known.values()), "") for known in (words, denials))

    def read(text: str) -> bool | CellProblem:
        meaning = meanings.get(text.casefold())
        return CellProblem("C310", hint=hint) if meaning is None else meaning

    return read


def _usual_words(language: str, place: int) -> list[str]:
    return [word for code in {language: 0, "en": 0} for word in YES_NO.get(code, ("", ""))[place].split()]


def _by_folded(words: Iterable[str]) -> dict[str, str]:
    return {word.casefold(): word for word in words}

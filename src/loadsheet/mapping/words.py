"""Words with a fixed meaning: countries, currencies, time zones, yes and no.

Owns: Babel's names of territories and its list of currency codes. A word counts in the file's language or in English.
Knows no column and no cell.
"""

from collections.abc import Callable, Iterable
from functools import cache
from zoneinfo import available_timezones

from babel import Locale
from babel.core import get_global

from loadsheet.mapping.suggestions import did_you_mean
from loadsheet.mapping.wrong import SettingError, Wrong

_NO_COUNTRIES = frozenset({"EU", "EZ", "QO", "UN", "XA", "XB", "ZZ"})  # CLDR's territories that are none
_CODE = 3  # letters
_SIGNS = {  # of one currency only
    "€": "EUR", "zł": "PLN", "Kč": "CZK", "₹": "INR", "₺": "TRY", "₪": "ILS", "₴": "UAH", "₫": "VND", "฿": "THB",
    "US$": "USD", "A$": "AUD", "C$": "CAD", "S$": "SGD", "HK$": "HKD", "NZ$": "NZD", "R$": "BRL",
}  # fmt: skip
_ALIKE = 75  # of 100: names of countries end alike, and Nordland is not Ireland
_MEANT = {
    word: code
    for code, words in {
        "GB": "england, scotland, schottland, wales, britain, great britain, grossbritannien, großbritannien, northern ireland, nordirland, "
        "angleterre, grande bretagne, gran bretagna, inghilterra, inglaterra, gran bretaña, storbritannien, wielka brytania, anglia",
        "NL": "holland, hollande, olanda, holanda, holandia",
        "US": "america, amerika, united states of america, vereinigte staaten von amerika, états unis d'amérique, the united states",
        "CZ": "czech republic, tschechische republik, tschechei, république tchèque, repubblica ceca, república checa",
        "SK": "slovak republic, slowakische republik",
        "CH": "helvetia, swiss, swiss confederation",
        "AE": "emirates, uae, vae, emirate",
        "BA": "bosnia, bosnien",
        "BY": "white russia, weissrussland, weißrussland",
        "CI": "ivory coast",
        "DE": "federal republic of germany, bundesrepublik deutschland, brd",
        "HK": "hong kong, hongkong",
        "IE": "eire, republic of ireland, republik irland",
        "KR": "korea, republic of korea",
        "MD": "moldavia, moldawien",
        "MK": "macedonia, mazedonien",
        "MM": "burma, birma",
        "MO": "macau, macao",
        "RU": "russian federation, russische föderation",
        "SZ": "swaziland, swasiland",
        "TL": "east timor, osttimor",
        "TR": "turkey, türkiye, turkiye",
        "VA": "vatican, vatikan",
        "ZA": "rsa",
    }.items()
    for word in words.split(", ")
}
"""What countries and parts of them are called beside CLDR's names: proposed, as nobody need mean the whole by the part."""
_YES_NO = {
    "en": ("yes y true 1", "no n false 0"),
    "cs": ("ano", "ne"),
    "da": ("ja", "nej"),
    "de": ("ja j wahr", "nein falsch"),
    "es": ("si sí s", "no"),
    "fi": ("kyllä", "ei"),
    "fr": ("oui o vrai", "non faux"),
    "it": ("si sì s", "no"),
    "nb": ("ja", "nei"),
    "nl": ("ja j", "nee"),
    "no": ("ja", "nei"),
    "pl": ("tak t", "nie"),
    "pt": ("sim s", "não nao"),
    "sv": ("ja", "nej"),
}


def country_reader(locale: str | None) -> Callable[[str], str | Wrong]:
    """A function from text to the two-letter code (ISO 3166): names in the locale's language, then in English, two- and
    three-letter codes; C308 with a proposal otherwise.
    """
    codes = _countries(locale)
    language = Locale.parse(locale or "en")
    names = [name for name in codes if len(name) > 3]  # noqa: PLR2004 (names, not codes)

    def read(text: str) -> str | Wrong:
        code = codes.get(text.casefold())
        if code is not None:
            return code
        plain = _plain(text)
        meant = _MEANT.get(plain) or codes.get(plain)
        named = f"did you mean {language.territories[meant]}?" if meant else did_you_mean(text, names, _ALIKE)
        return Wrong("C308", hint=named)

    return read


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace(".", "").replace("-", " ").split())


@cache
def _countries(locale: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for language in [*([Locale.parse(locale)] if locale else []), Locale("en")]:
        for code, name in language.territories.items():
            if len(code) == 2 and code.isalpha() and code not in _NO_COUNTRIES:  # noqa: PLR2004 (ISO 3166-1 alpha-2)
                found.setdefault(name.casefold(), code)
                found.setdefault(code.casefold(), code)
    for alias, codes in get_global("territory_aliases").items():
        if alias.isalpha() and len(codes) == 1 and codes[0].casefold() in found:
            found.setdefault(alias.casefold(), codes[0])
    return found


def currency_reader(locale: str | None = None) -> Callable[[str], str | Wrong]:
    """A function from text to the currency code (ISO 4217) in capitals: codes, names in the locale's language, then in English, and
    signs that only one currency has (`€`; `$` is that of many); C309 with a proposal otherwise.
    """
    codes = _currencies(locale)
    proposed = [name.upper() if len(name) == _CODE else name for name in codes]

    def read(text: str) -> str | Wrong:
        code = _SIGNS.get(text) or codes.get(text.casefold())
        return code or Wrong("C309", hint=did_you_mean(text, proposed))

    return read


@cache
def _currencies(locale: str | None) -> dict[str, str]:
    found = {code.casefold(): code for code in get_global("all_currencies")}
    for language in [*([Locale.parse(locale)] if locale else []), Locale("en")]:
        for code in _tender().intersection(language.currencies):
            found.setdefault(language.currencies[code].casefold(), code)
    return found


@cache
def _tender() -> frozenset[str]:
    """The currencies that are legal tender somewhere today: names of others are not read, so that `Franc` is nobody's guess."""
    uses = (use for some in get_global("territory_currencies").values() for use in some)
    return frozenset(code for code, _, until, tender in uses if tender and until is None)


@cache
def zone_names() -> frozenset[str]:
    """Every time zone name of the IANA database at hand."""
    return frozenset(available_timezones())


def zone_reader() -> Callable[[str], str | Wrong]:
    """A function from text to the name of a time zone; C311 with a proposal otherwise."""
    by_folded = {name.casefold(): name for name in zone_names()}

    def read(text: str) -> str | Wrong:
        name = by_folded.get(text.casefold().replace(" ", "_"))
        return name or Wrong("C311", hint=did_you_mean(text, zone_names()))

    return read


def yes_no_reader(locale: str | None, yes: Iterable[str], no: Iterable[str]) -> Callable[[str], bool | Wrong]:
    """A function from text to bool: the given words, or if there are none those of the locale's language and of English; C310. Raises
    SettingError for a word that would mean both.
    """
    language = Locale.parse(locale).language if locale else "en"
    given_yes, given_no = list(yes), list(no)
    words = _by_fold(given_yes or _usual(language, 0))
    denials = _by_fold(given_no or _usual(language, 1))
    if both := [word for word in denials if word in words]:
        denied = denials[both[0]] if given_no else f"{denials[both[0]]} (the usual words)"
        said = f"{words[both[0]]} means yes, and no is {denied}: capitals make no difference here"
        raise SettingError("no" if given_no else "yes", said, "say under yes: and no: which words mean which")
    meanings = {**dict.fromkeys(words, True), **dict.fromkeys(denials, False)}

    def read(text: str) -> bool | Wrong:
        meaning = meanings.get(text.casefold())
        return Wrong("C310", hint="write " + " or ".join(meanings)) if meaning is None else meaning

    return read


def _usual(language: str, place: int) -> list[str]:
    return [word for code in {"en": 0, language: 0} for word in _YES_NO.get(code, ("", ""))[place].split()]


def _by_fold(words: Iterable[str]) -> dict[str, str]:
    return {word.casefold(): word for word in words}

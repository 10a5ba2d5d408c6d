"""How the second translations read cells: texts, numbers, units, dates and flags, by the standard library alone.

Nothing in this folder that says what is right imports loadsheet: where both make the same mistake, it is in the rules, not in the code.
"""

import re
import unicodedata
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

MONTHS = {
    "en": ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"],
    "de": ["januar", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november", "dezember"],
}  # fmt: skip
GROUPED = {  # how digits may be grouped, and the mark before the fraction
    "de": (r"[0-9]{1,3}(?:\.[0-9]{3})+", ","),
    "en": (r"[0-9]{1,3}(?:,[0-9]{3})+", "."),
    "in": (r"[0-9]{1,2}(?:,[0-9]{2})*,[0-9]{3}", "."),
    "fr": (r"[0-9]{1,3}(?: [0-9]{3})+", ","),
    "sv": (r"[0-9]{1,3}(?: [0-9]{3})+", ","),
}
UNITS = {
    "kg": {"kg": "1", "g": "0.001", "t": "1000", "lb": "0.45359237", "lbs": "0.45359237", "oz": "0.028349523125"},
    "m3": {"m3": "1", "m³": "1", "cbm": "1", "l": "0.001", "ft3": "0.028316846592", "cuft": "0.028316846592"},
    "cm": {"cm": "1", "m": "100", "mm": "0.1", "in": "2.54", "ft": "30.48"},
}


MINUS = ("-", "\N{MINUS SIGN}", "\N{EN DASH}")


class FaultError(Exception):
    """A cell that nobody may send as it is."""


def text(cell, *, required=False, default=None):
    """A text without the white space around it and without invisible characters, composed; no-break characters are ordinary ones."""
    seen = "".join(letter for letter in cell if unicodedata.category(letter) != "Cf" or letter in "\u200c\u200d")
    typed = re.sub("[\u00a0\u2007\u202f]", " ", re.sub("[\u2010\u2011]", "-", seen))
    found = unicodedata.normalize("NFC", typed.strip())
    if not found and required and default is None:
        raise FaultError
    return found or default


def one_of(cell, meanings, *, fold=False, default=None, required=True):
    found = text(cell, required=required and default is None, default=default)
    known = {key.casefold(): value for key, value in meanings.items()} if fold else meanings
    if found is None:
        return None
    if (found.casefold() if fold else found) not in known:
        raise FaultError
    return known[found.casefold() if fold else found]


def number(cell, locale, *, low=None, high=None, whole=False, places=None, required=False, default=None):
    """A number as the locale writes it: grouped in full or not at all, with so many `places` after the decimal mark at most."""
    found = text(cell, required=required, default=default) if isinstance(cell, str) else cell
    if found is None or isinstance(found, Decimal):
        return found
    grouped, point = GROUPED[locale]
    if " " in grouped:
        found = "".join(" " if unicodedata.category(letter) == "Zs" else letter for letter in found)
    match = re.fullmatch(rf"([{''.join(MINUS)}+]?)\s*({grouped}|[0-9]+)(?:{re.escape(point)}([0-9]+))?", found)
    if match is None:
        raise FaultError
    value = Decimal(f"{re.sub('[^0-9]', '', match[2])}.{match[3] or '0'}") * (-1 if match[1] in MINUS else 1)
    beyond = (low is not None and value < Decimal(low)) or (high is not None and value > Decimal(high))
    too_fine = places is not None and -value.normalize().as_tuple().exponent > places
    if beyond or too_fine or (whole and value % 1):
        raise FaultError
    return value


def quantity(cell, locale, measure, *, low=None, assumed=None, required=False, default=None):
    """An amount with a unit behind it, or in the unit that is assumed."""
    found = text(cell, required=required, default=default) if isinstance(cell, str) else cell
    if found is None:
        return None
    word, bare = assumed or measure, found
    if isinstance(found, str) and (match := re.fullmatch(r"(.*?[0-9])\s*([^\W\d]\S*)", found)):
        bare, word = match[1], match[2].casefold()
    if word not in UNITS[measure]:
        raise FaultError
    value = number(bare, locale) * Decimal(UNITS[measure][word])
    if low is not None and value < Decimal(low):
        raise FaultError
    return value


def moment(cell, styles, zone, *, required=True, language="en", twice=False):
    """A local time that the clocks of the zone show exactly once, or `twice` too, and then the first is meant. `styles` as strptime has
    them, months by name in any language here.
    """
    found = text(cell, required=required) if isinstance(cell, str) else cell
    if found is None:
        return None
    if isinstance(found, str):
        found = next((read for style in styles if (read := _dated(found, style, language)) is not None), None)
        if found is None:
            raise FaultError
    first = found.replace(tzinfo=ZoneInfo(zone))
    earlier, later = first.utcoffset(), first.replace(fold=1).utcoffset()
    if earlier < later or (earlier != later and not twice):
        raise FaultError
    return first


def _dated(found, style, language):
    if "%B" in style or "%b" in style:
        for names in (MONTHS["en"], MONTHS[language]):
            for place, name in enumerate(names, 1):
                found = re.sub(
                    rf"(?i)(?<![^\W\d]){name}(?![^\W\d])|(?<![^\W\d]){name[:3]}\.?(?![^\W\d])", f"{place:02}", found
                )
        style = style.replace("%B", "%m").replace("%b", "%m")
    if not found.isascii():
        return None
    try:
        return datetime.strptime(found, style)
    except ValueError:
        return None


def flag(cell, yes, no, *, default=None):
    found = text(cell, default=default) if isinstance(cell, str) else cell
    if isinstance(found, bool):
        return "yes" if found else "no"
    if found is None or found.casefold() not in {*yes, *no, "yes", "no"}:
        raise FaultError
    return "yes" if found.casefold() in {*yes, "yes"} else "no"

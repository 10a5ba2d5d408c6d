"""Values of payloads as people write them, in the language of a sheet."""

import re
from decimal import Decimal

from loadsheet.languages import Words

_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::00(?:\.0+)?)?(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


def written(value: str, kind: str, words: Words) -> str:
    """A payload value as people write it: in German, `40.143` is `40,143` and `2026-03-04 09:00:00` is `04.03.2026 09:00`. What changed
    as a text or word (`kind`) stays as it is.
    """
    if kind in ("text", "word"):
        return value
    if _PLAIN_NUMBER.fullmatch(value):
        return words.decimal(Decimal(value))
    if moment := _MOMENT.fullmatch(value):
        day, minute, seconds, zone = moment.groups("")
        return f"{words.day(day)} {minute}{seconds}{' UTC' if zone == 'Z' else zone}".rstrip()
    return value

"""Converters as another package has them; the folder beside this file says so to `importlib.metadata`."""

from datetime import date
from decimal import Decimal


def gtin(text):
    """An item number in 14 digits. Raises ValueError if it is none."""
    digits = text.replace(" ", "")
    if not digits.isdecimal() or not 8 <= len(digits) <= 14:
        raise ValueError("a GTIN has 8 to 14 digits")
    if sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(reversed(digits))) % 10:
        raise ValueError("its last digit does not agree with the others: a digit is wrong")
    return digits.zfill(14)


def swapped(text):
    """Some texts are other values, one is blank, and one is refused: for the tests of pairs of options."""
    if text == "x":
        return Decimal(text)  # what converters do that do not check
    values = {"ab": "a-1", "-": None, "1": 12, "12": Decimal(7), "05.03.2026": date(2026, 3, 4), "maybe": True}
    return values.get(text, text)

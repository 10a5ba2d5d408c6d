"""The locale in which the numbers of a file are written, by its numbers, its countries and the language of its headings.

Owns: what counts as a number with its unit, and which locales are tried.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from loadsheet.mapping.quantities import number_reader
from loadsheet.mapping.values import CellProblem
from loadsheet.mapping.words import country_reader
from loadsheet.mapping_tools.vocabulary import vocabulary
from loadsheet.reading import Native

QUANTITY = re.compile(r"([+-]?[0-9][0-9.,'\s]*)([^\W\d_][\w.³*]*)?")
"""A number, and the unit behind it."""

_LOCALES = ("en_GB", "de_DE", "fr_FR", "sv_SE", "de_CH", "en_IN")
_ROWS, _NUMBERS = 2_000, 5_000  # looked at, at most

Table = tuple[Sequence[str], Sequence[tuple[int, tuple[str, ...]]]]
"""The labels of a table, and its rows."""


def locale_by(tables: Sequence[Table], language: str) -> tuple[str, str]:
    """The locale that reads most of what looks like a decimal number, and the evidence; among equals the one of `language`."""
    texts = _decimals(tables)
    own = vocabulary().habits[language]["locale"]
    others = [*_LOCALES, *(known["locale"] for known in vocabulary().habits.values())]
    candidates = list(dict.fromkeys([own, *others]))
    numbers = {locale: _readable(texts[:_NUMBERS], number_reader(locale)) for locale in candidates}
    countries = _countries(tables)
    named = (
        {locale: _readable(countries, country_reader(locale)) for locale in candidates}
        if countries
        else dict.fromkeys(candidates, 0)
    )
    best = max(candidates, key=lambda locale: (numbers[locale], named[locale], -candidates.index(locale)))
    said = f"{numbers[best]} of {len(texts[:_NUMBERS])} numbers with a decimal mark read as {best} writes them"
    if not texts:
        said = f"no number with a decimal mark tells; the headings are {language}"
    if countries and named[best] > named["en_GB"]:
        said += f", and {named[best]} of {len(countries)} countries"
    return best, said


def _decimals(tables: Sequence[Table]) -> list[str]:
    return [
        match[1].strip()
        for _, rows in tables
        for _, cells in rows[:_ROWS]
        for cell in cells
        if not isinstance(cell, Native)
        and (match := QUANTITY.fullmatch(cell.strip()))
        and any(mark in cell for mark in ".,")
    ]


def _readable(texts: Sequence[str], read: Callable[[str], Any]) -> int:
    return sum(not isinstance(read(text), CellProblem) for text in texts)


def _countries(tables: Sequence[Table]) -> list[str]:
    """The cells below headings that mean a country."""
    return [
        cells[position].strip()
        for labels, rows in tables
        for position, label in enumerate(labels)
        if "country" in vocabulary().read(label).concepts
        for _, cells in rows[:_ROWS]
        if position < len(cells) and cells[position].strip()
    ]

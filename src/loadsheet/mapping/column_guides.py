"""What each column of a sheet takes, in words for its sender: for templates, fix workbooks and error texts."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from loadsheet.mapping.documents import ColumnGuide
from loadsheet.mapping.layouts import wanted_columns
from loadsheet.mapping.patterns import example_of, group_names
from loadsheet.mapping.plans import ColumnPlan, TablePlan

Language = Literal["en", "de"]

MOMENT = datetime(2026, 3, 24, 8, 0)  # noqa: DTZ001 (a local time in an example)
"""A moment for examples: its day cannot be mistaken for a month."""

_NAMED = re.compile("%[bBp]")  # these differ by language

CHOICES_MAX = 300
"""Longer lists are not offered as choices."""

_UNIT_SIGNS = {"in": "inch", "m**3": "m³", "ft**3": "ft³", "in**3": "in³", "cm**3": "cm³"}
_DESCRIBED: dict[str, tuple[str, str]] = {
    "text": ("a text", "ein Text"),
    "integer": ("a whole number", "eine ganze Zahl"),
    "decimal": ("a number", "eine Zahl"),
    "quantity": ("a number (add the unit if it differs)", "eine Zahl (Einheit angeben, falls sie abweicht)"),
    "date": ("a date", "ein Datum"),
    "datetime": ("a date and time", "ein Datum mit Uhrzeit"),
    "time": ("a time of day", "eine Uhrzeit"),
    "country": ("a country: name or two-letter code", "ein Land: Name oder Kürzel aus zwei Buchstaben"),
    "currency": ("a three-letter currency code", "ein Währungskürzel mit drei Buchstaben"),
    "yesno": ("yes or no", "ja oder nein"),
    "timezone": ("the name of a time zone, such as Europe/Berlin", "der Name einer Zeitzone, etwa Europe/Berlin"),
}
_DETAILS: dict[str, tuple[str, str]] = {
    "min": ("at least {:f}", "mindestens {:f}"),
    "max": ("at most {:f}", "höchstens {:f}"),
    "places": ("at most {} decimals", "höchstens {} Nachkommastellen"),
    "max_length": ("at most {} characters", "höchstens {} Zeichen"),
}


def language_of(locale: str | None) -> str:
    """The language of a locale (`de_DE` gives `de`); empty if there is no locale."""
    return (locale or "").partition("_")[0].casefold()


def column_guides_of(tables: Sequence[TablePlan], locale: str | None) -> dict[str, dict[str, ColumnGuide]]:
    """The descriptions of a file's columns, by table and by every heading that a column may have. In German for German sheets, else in
    English.
    """
    language: Language = "de" if language_of(locale) == "de" else "en"
    found: dict[str, dict[str, ColumnGuide]] = {}
    for table in tables:
        own = found.setdefault(table.source or table.name, {})
        by_name = {f"{table.prefix}{column.name}": column for column in table.columns}
        for wanted in wanted_columns(table):
            column = by_name.get(wanted.name.partition("#")[0])
            if column is not None:
                choices = column.choices if len(column.choices) <= CHOICES_MAX else ()
                guide = ColumnGuide(expected(column, language), choices, column.spec.required)
                own |= {label: guide for label in wanted.shown if label not in own}
    return found


def expected(column: ColumnPlan, language: Language) -> str:
    """What the cells of a column hold, in one sentence."""
    spec, german = column.spec, language == "de"
    parts = [_DESCRIBED[spec.type][german]]
    if column.writes and not _NAMED.search(column.writes):
        parts[0] += f"{', etwa' if german else ', such as'} {MOMENT.strftime(column.writes)}"
    unit = spec.from_unit or spec.unit
    if unit:
        parts.append(f"in {_UNIT_SIGNS.get(unit, unit)}")
    details = ((words, getattr(spec, key)) for key, words in _DETAILS.items())
    parts += [words[german].format(value) for words, value in details if value is not None]
    example = spec.example if spec.example is not None else example_of(spec.pattern or "")
    if spec.pattern and example:
        parts.append(f"{'etwa' if german else 'such as'} {example}")
    if spec.split:
        parts.append(f"{'bestehend aus' if german else 'made of'} {', '.join(group_names(spec.split))}")
    if spec.default is not None:
        parts.append(f"{'leer bedeutet' if german else 'blank means'} {spec.default}")
    return ", ".join(parts)

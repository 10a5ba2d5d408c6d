"""Descriptions of columns for shippers, in English or German: what a column takes, and the values to choose from.

They are made from the mapping's own keys, so that they always match the conversion. Knows no workbook and no row.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from loadsheet.mapping.documents import ColumnGuide
from loadsheet.mapping.plans import ColumnPlan, TablePlan, in_every_set
from loadsheet.mapping.schema import SET
from loadsheet.mapping.texts import example_of, group_names

Language = Literal["en", "de"]

MOMENT = datetime(2026, 3, 24, 8, 0)  # noqa: DTZ001 (a local time in an example)
"""A moment for examples: its day cannot be mistaken for a month."""

_NAMED = re.compile("%[bBp]")  # these differ by language

CHOICES_MAX = 300
"""Longer lists are not offered as choices."""

_UNITS = {"in": "inch", "m**3": "m³", "ft**3": "ft³", "in**3": "in³", "cm**3": "cm³"}
_TYPES: dict[str, tuple[str, str]] = {
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
        for column in table.columns:
            if column.spec.whereabouts():
                continue
            choices = column.choices if len(column.choices) <= CHOICES_MAX else ()
            guide = ColumnGuide(expected(column, language), choices, column.spec.required)
            for label in _labels(column, table):
                own.setdefault(label, guide)
    return found


def _labels(column: ColumnPlan, table: TablePlan) -> Iterator[str]:
    words = [word for word, _ in table.sets.words] if table.sets is not None and in_every_set(column) else [""]
    for label in (column.label, *column.spec.aliases):
        yield from (label.replace(SET, word) for word in words)


def expected(column: ColumnPlan, language: Language) -> str:
    """What the cells of a column hold, in one sentence."""
    spec, german = column.spec, language == "de"
    parts = [_TYPES[spec.type][german]]
    if column.writes and not _NAMED.search(column.writes):
        parts[0] += f"{', etwa' if german else ', such as'} {MOMENT.strftime(column.writes)}"
    unit = spec.from_unit or spec.unit
    if unit:
        parts.append(f"in {_UNITS.get(unit, unit)}")
    if spec.min is not None:
        parts.append(f"{'mindestens' if german else 'at least'} {spec.min:f}")
    if spec.max is not None:
        parts.append(f"{'höchstens' if german else 'at most'} {spec.max:f}")
    if spec.places is not None:
        parts.append(
            f"{'höchstens' if german else 'at most'} {spec.places} {'Nachkommastellen' if german else 'decimals'}"
        )
    if spec.max_length is not None:
        parts.append(
            f"{'höchstens' if german else 'at most'} {spec.max_length} {'Zeichen' if german else 'characters'}"
        )
    example = spec.example if spec.example is not None else example_of(spec.pattern or "")
    if spec.pattern and example:
        parts.append(f"{'etwa' if german else 'such as'} {example}")
    if spec.split:
        parts.append(f"{'bestehend aus' if german else 'made of'} {', '.join(group_names(spec.split))}")
    if spec.default is not None:
        parts.append(f"{'leer bedeutet' if german else 'blank means'} {spec.default}")
    return ", ".join(parts)

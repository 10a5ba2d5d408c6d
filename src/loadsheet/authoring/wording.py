"""What the guide of a template says to a shipper, in English and German.

Owns: the words. What a column expects is told from the mapping's own keys, so guide and conversion cannot drift apart. Knows no
workbook.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from loadsheet.mapping.conversion import ColumnPlan

Language = Literal["en", "de"]

MOMENT = datetime(2026, 3, 24, 8, 0)  # noqa: DTZ001 (a local time in an example)
_CODES_SHOWN = 12

_UNITS = {"in": "inch", "m**3": "m³", "ft**3": "ft³", "in**3": "in³", "cm**3": "cm³"}
_TYPES: dict[str, tuple[str, str]] = {
    "text": ("a text", "ein Text"),
    "integer": ("a whole number", "eine ganze Zahl"),
    "decimal": ("a number", "eine Zahl"),
    "quantity": ("a number; another unit is written behind it", "eine Zahl; eine andere Einheit steht dahinter"),
    "date": ("a date", "ein Datum"),
    "datetime": ("a date with its time", "ein Datum mit Uhrzeit"),
    "time": ("a time of day", "eine Uhrzeit"),
    "country": ("a country: its name or its two letters", "ein Land: sein Name oder seine zwei Buchstaben"),
    "currency": ("a currency code of three letters", "ein Währungskürzel mit drei Buchstaben"),
    "yesno": ("yes or no", "ja oder nein"),
    "timezone": ("the name of a time zone, such as Europe/Berlin", "der Name einer Zeitzone, etwa Europe/Berlin"),
}


@dataclass(frozen=True, slots=True)
class Words:
    """The fixed texts of one language."""

    sheet: str
    title: str
    rules: tuple[str, ...]
    heads: tuple[str, ...]
    required: str
    optional: str
    example: str
    grouped: str


WORDS: dict[Language, Words] = {
    "en": Words(
        "Guide",
        "How to fill in this workbook",
        (
            "Fill in the coloured sheets, one row after the other, below the headings. Keep the headings as they are.",
            "Columns with a star are required. Blank rows and columns of your own are passed over.",
            "Cells with a small arrow hold a list: choose from it. Rest the pointer on a heading to see what is expected.",
            "The sheet Example shows rows as they should be; it is not read.",
            "If a row is refused, you get the file back with the reason in the very cell.",
        ),
        ("Sheet", "Column", "Required", "What is expected", "Allowed", "Example", "Remark"),
        "required",
        "may be blank",
        "Example",
        "Rows with the same {key} are one record: {same} must say the same in all of them.",
    ),
    "de": Words(
        "Anleitung",
        "So wird diese Mappe ausgefüllt",
        (
            "Füllen Sie die farbigen Blätter Zeile für Zeile unter den Überschriften aus. Lassen Sie die Überschriften, wie sie sind.",
            "Spalten mit Stern sind Pflicht. Leere Zeilen und eigene Spalten werden übergangen.",
            "Zellen mit einem kleinen Pfeil haben eine Liste: Wählen Sie daraus. Ruht der Zeiger auf einer Überschrift, steht dort, was erwartet wird.",
            "Das Blatt Example zeigt Zeilen, wie sie sein sollen; es wird nicht gelesen.",
            "Wird eine Zeile abgelehnt, bekommen Sie die Datei zurück, mit dem Grund in genau der Zelle.",
        ),
        ("Blatt", "Spalte", "Pflicht", "Was erwartet wird", "Erlaubt", "Beispiel", "Hinweis"),
        "Pflicht",
        "darf leer sein",
        "Beispiel",
        "Zeilen mit gleicher {key} sind ein Datensatz: {same} müssen in allen gleich sein.",
    ),
}


def expected(column: ColumnPlan, language: Language) -> str:
    """What the cells of a column hold, in one sentence."""
    spec, german = column.spec, language == "de"
    parts = [_TYPES[spec.type][german]]
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
    if spec.pattern:
        parts.append(f"{'nach dem Muster' if german else 'like the pattern'} {spec.pattern}")
    if spec.default is not None:
        parts.append(f"{'leer bedeutet' if german else 'blank means'} {spec.default}")
    return ", ".join(parts)


def allowed(codes: Sequence[str]) -> str:
    """The codes of a column as one short list."""
    shown = ", ".join(codes[:_CODES_SHOWN])
    return f"{shown}, ... ({len(codes)})" if len(codes) > _CODES_SHOWN else shown


def note(column: ColumnPlan, codes: Sequence[str], *, required: bool) -> str:
    """What stands behind a heading: both languages, short."""
    lines = []
    for language in ("en", "de"):
        words = WORDS[language]
        lines.append(f"{expected(column, language)}; {words.required if required else words.optional}")
    lines += [allowed(codes)] if codes else []
    lines += [column.spec.note] if column.spec.note else []
    return "\n".join(lines)

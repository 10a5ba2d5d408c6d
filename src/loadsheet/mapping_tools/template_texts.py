"""What the guide of a template says to a shipper, in English and German.

Owns: the words around the columns; what a column itself takes is told by `mapping.column_guides`. Knows no workbook.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from loadsheet.mapping.column_guides import Language, expected
from loadsheet.mapping.plans import ColumnPlan

_CODES_SHOWN = 12


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
    no_example: str
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
        "only the sheet's author knows one: ask for it",
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
        "das weiß nur, wer die Mappe gemacht hat: bitte fragen",
        "Zeilen mit gleicher {key} sind ein Datensatz: {same} müssen in allen gleich sein.",
    ),
}


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

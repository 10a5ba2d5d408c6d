"""Code tables: CSV files beside a mapping that say what a shipper's code means.

Owns: reading and checking them. Keys are compared trimmed and in Unicode's composed form, with or without case. A key that
stands twice with different values is refused at load, with both lines. Knows no column and no cell.
"""

import csv
import unicodedata
from dataclasses import dataclass
from io import StringIO
from typing import Literal

from loadsheet.mapping.language import LookupSpec
from loadsheet.mapping.suggestions import did_you_mean, some
from loadsheet.mapping.yamlfile import Loc, YamlFile

Codes = tuple[str | None, ...]
"""The values that a key stands for, in the order of `Lookup.columns`; a blank one is None."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A code table in memory. `many` says that values are named (`event.code`); otherwise the one column is the value."""

    name: str
    columns: tuple[str, ...]
    many: bool
    rows: dict[str, Codes]
    keys: tuple[str, ...]
    ignore_case: bool
    missing: Literal["error", "keep", "blank"]
    content: bytes

    def find(self, key: str) -> Codes | None:
        """The row of a key, or None."""
        return self.rows.get(folded(key, ignore_case=self.ignore_case))

    def may_be_blank(self, column: str) -> bool:
        """Whether any row leaves this column blank."""
        place = self.columns.index(column)
        return any(row[place] is None for row in self.rows.values())


def folded(text: str, *, ignore_case: bool) -> str:
    """A text as keys are compared: trimmed, composed, and without case if so said."""
    plain = unicodedata.normalize("NFC", text.strip())
    return plain.casefold() if ignore_case else plain


def read_lookup(name: str, spec: LookupSpec, file: YamlFile, loc: Loc) -> Lookup | None:
    """Reads a code table. What is wrong with it becomes a finding of the mapping file, and the answer is None."""
    path = file.owner((*loc, "file")).parent / spec.file
    values = [spec.key, *(spec.value if isinstance(spec.value, list) else [spec.value])]
    try:
        content = path.read_bytes()
        header, rows = _rows(content.decode("utf-8-sig"), values)
    except OSError as error:
        file.refuse(
            (*loc, "file"), f"{spec.file} cannot be read: {error.strerror}", "the path is relative to the mapping"
        )
        return None
    except UnicodeDecodeError as error:
        file.refuse((*loc, "file"), f"{spec.file} is not UTF-8: first bad byte at offset {error.start}")
        return None
    except csv.Error as error:
        file.refuse((*loc, "file"), f"{spec.file} is not CSV: {error}")
        return None
    unknown = [column for column in values if column not in header]
    for column in unknown:
        where = (*loc, "key" if column == spec.key else "value")
        file.refuse(
            where, f'{spec.file} has no column "{column}"', did_you_mean(column, header) or f"it has {some(header)}"
        )
    if unknown:
        return None
    if isinstance(spec.value, list) and spec.missing == "keep":
        file.refuse((*loc, "missing"), "keep needs a single value column", "name one column instead of a list")
    places = [header.index(column) for column in values]
    meanings = [(line, _cells(row, places)) for line, row in rows]
    return _table(name, spec, content, _checked(meanings, spec, file, loc))


def _rows(text: str, wanted: list[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header and numbered rows, read with the delimiter that shows most of the wanted columns."""
    best: list[tuple[int, list[str]]] = []
    for delimiter in (",", ";", "\t"):
        reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
        if rows and (not best or _shown(rows, wanted) > _shown(best, wanted)):
            best = rows
    return (best[0][1], best[1:]) if best else ([], [])


def _shown(rows: list[tuple[int, list[str]]], wanted: list[str]) -> int:
    return sum(column in rows[0][1] for column in wanted)


def _cells(row: list[str], places: list[int]) -> list[str]:
    return [unicodedata.normalize("NFC", row[place]) if place < len(row) else "" for place in places]


def _checked(
    meanings: list[tuple[int, list[str]]], spec: LookupSpec, file: YamlFile, loc: Loc
) -> list[tuple[str, Codes]]:
    """Keys with their values; a key with two meanings is a finding."""
    found: list[tuple[str, Codes]] = []
    first: dict[str, tuple[int, Codes]] = {}
    for line, (key, *values) in meanings:
        codes = tuple(value or None for value in values)
        known_line, known = first.setdefault(folded(key, ignore_case=spec.ignore_case), (line, codes))
        if known != codes:
            file.refuse(loc, f'{spec.file} gives "{key}" two meanings, in lines {known_line} and {line}')
        found.append((key, codes))
    return found


def _table(name: str, spec: LookupSpec, content: bytes, meanings: list[tuple[str, Codes]]) -> Lookup:
    many = isinstance(spec.value, list)
    columns = tuple(spec.value) if isinstance(spec.value, list) else (spec.value,)
    rows = {folded(key, ignore_case=spec.ignore_case): codes for key, codes in meanings}
    return Lookup(name, columns, many, rows, tuple(key for key, _ in meanings), spec.ignore_case, spec.missing, content)

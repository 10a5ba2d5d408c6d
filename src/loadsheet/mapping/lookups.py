"""Code tables: CSV files beside a mapping with the meanings of a shipper's codes.

Keys are compared trimmed and in Unicode's composed form, with or without case. With wildcards, a key ending in `*` matches all codes
with that prefix. A key that occurs twice with different values is refused at load, with both lines. Knows no column and no cell.
"""

import csv
import unicodedata
from dataclasses import dataclass
from io import StringIO
from typing import Literal

from loadsheet.mapping.schema import LookupSpec
from loadsheet.mapping.words import did_you_mean, some
from loadsheet.mapping.yamlfile import Loc, YamlFile

_TABLES = frozenset({".csv", ".tsv", ".txt"})
Codes = tuple[str | None, ...]
"""The values of a key, in the order of `Lookup.columns`; None for a blank."""

Form = tuple[int | None, ...]
"""The compared length of each key: all of it (None), or the number of letters before its wildcard."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A code table in memory. With `many`, values are named (`event.code`); else the single column is the value. `keys` are the first keys
    without wildcards, as written. `by_form` holds the rows of each form, the most specific form first.
    """

    columns: tuple[str, ...]
    many: bool
    by_form: tuple[tuple[Form, dict[tuple[str, ...], Codes]], ...]
    keys: tuple[str, ...]
    more_keys: int
    ignore_case: bool
    missing: Literal["error", "keep", "blank"]
    content: bytes

    def find(self, *keys: str) -> Codes | None:
        """The row of a key, or of several, or None."""
        parts = [folded(key, ignore_case=self.ignore_case) for key in keys]
        for form, rows in self.by_form:
            found = rows.get(tuple(part[:length] for part, length in zip(parts, form, strict=True)))
            if found is not None:
                return found
        return None

    def knows(self, key: str) -> bool:
        """Whether any row has this first key, written out."""
        return folded(key, ignore_case=self.ignore_case) in {
            folded(known, ignore_case=self.ignore_case) for known in self.keys
        }

    @property
    def meanings(self) -> list[Codes]:
        """The values of all rows."""
        return [codes for _, rows in self.by_form for codes in rows.values()]

    def may_be_blank(self, column: str) -> bool:
        """Whether any row leaves this column blank."""
        place = self.columns.index(column)
        return any(row[place] is None for row in self.meanings)


def folded(text: str, *, ignore_case: bool) -> str:
    """A text in the form in which keys are compared: trimmed, composed, and without case if `ignore_case`."""
    plain = unicodedata.normalize("NFC", text.strip())
    return plain.casefold() if ignore_case else plain


def read_lookup(spec: LookupSpec, file: YamlFile, loc: Loc) -> Lookup | None:
    """Read a code table. If it is invalid, add findings to the mapping file and return None."""
    path = file.beside(spec.file, (*loc, "file"))
    if path is None:
        return None
    values = [*spec.key, *(spec.value if isinstance(spec.value, list) else [spec.value])]
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
        where = (*loc, "key" if column in spec.key else "value")
        hint = did_you_mean(column, header) or f"it has {some(header)}"
        is_table = path.suffix.lower() in _TABLES  # do not quote the content of any other file
        file.refuse(where, f'{spec.file} has no column "{column}"', hint if is_table else "is it a code table?")
    if unknown:
        return None
    if isinstance(spec.value, list) and spec.missing == "keep":
        file.refuse((*loc, "missing"), "keep needs a single value column", "name one column instead of a list")
    places = [header.index(column) for column in values]
    meanings = [(line, _cells(row, places)) for line, row in rows]
    return _table(spec, content, _checked(meanings, spec, file, loc))


def _rows(text: str, wanted: list[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header and numbered rows, with the delimiter that gives most of the wanted columns. Raises csv.Error."""
    if "\0" in text:
        raise csv.Error("it holds NUL characters")
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
) -> list[tuple[list[str], Codes]]:
    """Keys with their values; a key with two meanings is a finding, and so is a wildcard that is not at the end."""
    found: list[tuple[list[str], Codes]] = []
    first: dict[tuple[Form, tuple[str, ...]], tuple[int, Codes]] = {}
    for line, cells in meanings:
        keys, codes = cells[: len(spec.key)], tuple(value or None for value in cells[len(spec.key) :])
        shown = ", ".join(keys)
        if spec.wildcards and any("*" in key[:-1] for key in keys):
            file.refuse(loc, f'{spec.file}, line {line}: "{shown}" has a * that is not at the end')
        known_line, known = first.setdefault(_key(keys, spec), (line, codes))
        if known != codes:
            file.refuse(loc, f'{spec.file} gives "{shown}" two meanings, in lines {known_line} and {line}')
        found.append((keys, codes))
    return found


def _key(keys: list[str], spec: LookupSpec) -> tuple[Form, tuple[str, ...]]:
    """The form of a row's keys, and the compared part of them."""
    plain = [folded(key, ignore_case=spec.ignore_case) for key in keys]
    form = tuple(len(key) - 1 if spec.wildcards and key.endswith("*") else None for key in plain)
    return form, tuple(key[:length] for key, length in zip(plain, form, strict=True))


def _table(spec: LookupSpec, content: bytes, meanings: list[tuple[list[str], Codes]]) -> Lookup:
    many = isinstance(spec.value, list)
    columns = tuple(spec.value) if isinstance(spec.value, list) else (spec.value,)
    forms: dict[Form, dict[tuple[str, ...], Codes]] = {}
    for keys, codes in meanings:
        form, key = _key(keys, spec)
        forms.setdefault(form, {})[key] = codes
    ranked = sorted(forms.items(), key=lambda one: [_LONGEST if length is None else length for length in one[0]])
    shown = dict.fromkeys(keys[0] for keys, _ in meanings if not (spec.wildcards and keys[0].endswith("*")))
    return Lookup(
        columns, many, tuple(reversed(ranked)), tuple(shown), len(spec.key) - 1, spec.ignore_case, spec.missing, content
    )  # fmt: skip


_LONGEST = 1 << 30  # more letters than any key has

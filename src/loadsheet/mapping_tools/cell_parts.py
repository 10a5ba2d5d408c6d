"""Several values in one cell: `01067 Dresden`, or a whole address such as `Kade 8, 9711 LM Groningen`.

Owns: how such cells are recognised, and the columns that read their parts. A part is found by a pattern of the mapping language.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from loadsheet.mapping_tools.columns import Column, Guess, enough, renamed
from loadsheet.mapping_tools.sheet_profiles import Sheet
from loadsheet.mapping_tools.vocabulary import SIDES

_ZIP = r"(?:[A-Z]{1,2}-)?[0-9]{4,5}(?: ?[A-Z]{2})?|[0-9]{3} [0-9]{2}|[0-9]{2}-[0-9]{3}"
_LAYOUTS = (
    (frozenset({"postal", "city"}), rf"(?P<postal>{_ZIP})[ ,]+(?P<city>[^0-9].*)"),
    (frozenset({"postal", "city"}), rf"(?P<city>[^0-9]+?),? +(?P<postal>{_ZIP})"),
    (frozenset({"address"}), rf"(?P<address>.+?), *(?P<postal>{_ZIP}) +(?P<city>[^0-9,]+)"),
)
"""The concepts that a heading must have, and the pattern of the cells, with a group for the concept of each part."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The columns of the parts of a column, by the names of their groups in its pattern."""

    whole: Column
    pattern: str
    columns: Mapping[str, Column]

    def split(self, names: Mapping[str, str]) -> str:
        """The pattern for `split` with groups of these names; the other parts have no name."""
        found = self.pattern
        for concept in self.columns:
            found = found.replace(f"?P<{concept}>", f"?P<{names[concept]}>" if concept in names else "?:")
        return found


def with_parts(sheet: Sheet) -> tuple[Sheet, list[Parts]]:
    """The sheet with columns for the parts of its cells, beside the whole ones; unchanged if no cell has parts."""
    found: list[Parts] = []
    columns: list[Column] = []
    for column in sheet.columns:
        if parts := _parts(column):
            found.append(parts)
            columns += [parts.whole, *parts.columns.values()]
        else:
            columns.append(column)
    return replace(sheet, columns=tuple(columns)), found


def _parts(column: Column) -> Parts | None:
    if column.guess.type != "text" or column.cells.kinds:
        return None
    for concepts, pattern in _LAYOUTS:
        matches = (
            {text: re.fullmatch(pattern, text) for text in column.cells.texts} if concepts <= column.concepts else {}
        )
        read = sum(column.cells.texts[text] for text, match in matches.items() if match)
        if enough(read, column.filled) and len(matches) > 1:
            evidence = f"in {read} of {column.filled} values"
            return Parts(_unnamed(column), pattern, dict(_columns(column, matches, evidence)))
    return None


def _unnamed(column: Column) -> Column:
    """The whole column, which fills no field itself."""
    return replace(column, reading=replace(column.reading, concepts=frozenset({"unused"})))


def _columns(
    column: Column, matches: Mapping[str, re.Match[str] | None], evidence: str
) -> Iterator[tuple[str, Column]]:
    first = next(match for match in matches.values() if match)
    for number, concept in enumerate(first.groupdict(), start=1):
        values = [(match[concept] if (match := matches[value.strip()]) else "") for value in column.cells.values]
        cells = renamed(column.cells, values)
        reading = replace(column.reading, concepts=(column.concepts & SIDES) | {concept}, unknown=())
        yield (
            concept,
            Column(
                f"{column.label} {concept}",
                column.position,
                reading,
                "",
                cells,
                Guess("text", {}, f"part {number} of the cell, {evidence}"),
            ),
        )

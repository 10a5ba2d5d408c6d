"""The draft of a mapping as values: its tables and columns, and what fills which field. `suggest.py` makes it, `yaml_writer.py` writes it.

It takes over what the mappings of a folder have in common: constants such as the sender, and the time zone. So few places are left to fill
in. A mapping that cannot be read is passed over.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadsheet.contract import Operation
from loadsheet.display_text import has_control
from loadsheet.mapping import mapping_files
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.mapping_tools.column_sets import Sets
from loadsheet.mapping_tools.columns import NUMBERS, Column
from loadsheet.mapping_tools.sheet_profiles import Habits, Sheet
from loadsheet.mapping_tools.target_choice import Chooser
from loadsheet.problems import MappingError

FILL_IN = "FILL IN"  # marks what the author must complete before the draft loads


@dataclass(slots=True, eq=False)
class DraftColumn:
    """A column of the draft: its table and name, the sheet's column, its keys, and its comment."""

    table: "DraftTable"
    name: str
    column: Column
    keys: dict[str, Any] = field(default_factory=dict)
    remark: str = ""
    nullable: bool = True


@dataclass(slots=True, eq=False)
class DraftTable:
    """A table of the draft: its name, the sheet, its columns, its join, the rule for ignored rows, and the column sets. `source` is the table
    whose rows have the sets.
    """

    name: str
    sheet: Sheet
    columns: list[DraftColumn] = field(default_factory=list)
    join: str = ""
    ignore: str = ""
    sets: Sets | None = None
    source: "DraftTable | None" = None

    def named(self, column: Column) -> DraftColumn:
        """The draft's column for a column of the sheet."""
        return next(found for found in self.columns if found.column is column)


@dataclass(frozen=True, slots=True)
class FolderValues:
    """The values that all mappings of a folder agree on, by the field of the record, each with the number of mappings; and their zone."""

    fields: dict[str, tuple[str, int]] = field(default_factory=dict)
    zone: str = ""


@dataclass(slots=True)
class Draft:
    """The input of `yaml_writer.py`. `filled` has the columns by payload path, `unused` the columns without a field. `doubts` has the
    reasons why a path may be filled wrongly. `left_out` are the sheets that are not read, with the reason. `chooser` is the column with the
    operation of each row, `chosen_by` that column if the draft uses it. The author has to confirm an operation that is not `is_confirmed`.
    """

    name: str
    operation: Operation
    why: str
    tables: list[DraftTable]
    filled: dict[str, DraftColumn]
    unused: list[DraftColumn]
    folder: FolderValues
    doubts: dict[str, str] = field(default_factory=dict)
    group: list[str] = field(default_factory=list)
    one_value: list[str] = field(default_factory=list)
    of_group: set[str] = field(default_factory=set)
    left_out: list[tuple[Sheet, str]] = field(default_factory=list)
    chooser: Chooser | None = None
    chosen_by: DraftColumn | None = None
    evidence: list[str] = field(default_factory=list)
    is_confirmed: bool = True

    @property
    def main(self) -> DraftTable:
        """The table whose rows (or groups of rows) are the records."""
        return self.tables[0]

    @property
    def is_joined(self) -> bool:
        """Whether there are several tables, so that names need a table prefix."""
        return len(self.tables) > 1

    @property
    def habits(self) -> Habits:
        """The notation of the table with the most numbers that show it."""
        return max((table.sheet.habits for table in self.tables), key=lambda habits: habits.numbers)

    def own_locale(self, drafted: DraftColumn) -> str:
        """The locale of a column in a file with another notation, if its cells depend on it; empty otherwise."""
        own, type_ = drafted.table.sheet.habits, drafted.keys.get("type")
        if own.locale == self.habits.locale or drafted.keys.keys() & {"locale", "yes"}:
            return ""
        has_words = type_ in {"country", "currency", "yesno"} or any(
            "%b" in one or "%a" in one for one in drafted.keys.get("formats", [])
        )
        return own.locale if has_words or (type_ in NUMBERS and own.numbers) else ""

    def ref(self, drafted: DraftColumn) -> str:
        """The name of a column in expressions."""
        return f"{drafted.table.name}.{drafted.name}" if self.is_joined else drafted.name

    def use(self, *used: DraftColumn) -> None:
        """Mark columns as used."""
        self.unused = [drafted for drafted in self.unused if drafted not in used]

    def varies(self, drafted: DraftColumn) -> bool:
        """Whether a column may have several values in one record."""
        return drafted.table is not self.main or (bool(self.group) and drafted.name not in self.of_group)

    def of_record(self) -> Iterator[DraftColumn]:
        """The unused columns with one value for the whole record."""
        return (drafted for drafted in self.unused if not self.varies(drafted) and drafted.column.filled)


def values_of(folder: Path) -> FolderValues:
    """What the mappings in a folder have in common; nothing if it does not exist."""
    fields: dict[str, list[str]] = defaultdict(list)
    zones: list[str] = []
    for path in mapping_files(folder) if folder.is_dir() else ():
        try:
            values = read_yaml(path).values
        except (MappingError, OSError):
            continue
        if not isinstance(values, dict):
            continue
        source, payload = values.get("source"), values.get("payload")
        if isinstance(source, dict) and isinstance(source.get("timezone"), str):
            zones.append(source["timezone"])
        if isinstance(payload, dict):
            for name, leaf in payload.items():
                if text := _constant(leaf, values.get("constants")):
                    fields[str(name)].append(text)
    common = {name: (texts[0], len(texts)) for name, texts in fields.items() if len(set(texts)) == 1}
    return FolderValues(common, zones[0] if len(set(zones)) == 1 else "")


def _constant(leaf: Any, constants: Any) -> str:
    """The text of a leaf that is the same in every record; empty if it is no text."""
    if not isinstance(leaf, dict):
        return ""
    value = leaf.get("value")
    if "const" in leaf:
        value = constants
        for part in str(leaf["const"]).split("."):
            value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def flow(value: Any) -> str:
    """A value as YAML on one line. Texts are quoted where YAML could read them as another type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(inner) for inner in value) + "]"
    text = str(value)
    if isinstance(value, int) or _is_plain(text):
        return text
    return json.dumps(text.replace("\n", " ").replace("\t", " "), ensure_ascii=has_control(text))


def _is_plain(text: str) -> bool:
    """Whether a text may stand without quotes in a flow mapping."""
    if (
        not text
        or text != text.strip()
        or text.casefold() in {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"}
    ):
        return False
    if not text[0].isalpha() or any(mark in text for mark in ":#,[]{}&*!|>'\"%@`\\\n\t"):
        return False
    return text.isprintable()

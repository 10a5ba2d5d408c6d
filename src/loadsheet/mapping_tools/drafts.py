"""The draft of a mapping as values: its operation, its tables and columns, and what fills which field. `suggest.py` makes it,
`yaml_writer.py` writes it.

Owns: the evidence for each operation, as points with reasons (they only compare the operations of one sheet), the column that chooses
the operation of each row, the names and codes of columns, and columns with the unit of an amount beside them.

A draft takes over what the mappings of a folder have in common: constants such as the sender, and the time zone. So few places are left to
fill in. A mapping that cannot be read is passed over.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadsheet.contract import BY_NAME, DATE_SHAPES, WRITES, Action, Field, Operation
from loadsheet.errors import MappingError
from loadsheet.mapping.mapping_folder import mapping_files
from loadsheet.mapping.table_planning import RESERVED
from loadsheet.mapping.units import common_unit, conversion_factor, unit_named
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.mapping_tools.column_types import code_named
from loadsheet.mapping_tools.columns import CHECK, NUMBERS, Column, a_few
from loadsheet.mapping_tools.compound_columns import Sets, milestones
from loadsheet.mapping_tools.field_matching import Match, match
from loadsheet.mapping_tools.headings import (
    MEASURES,
    SIDES,
    concepts_of,
    event_code_field,
    gives_event,
    reading_of,
    vocabulary,
    words_of,
)
from loadsheet.mapping_tools.sheet_profiles import FileNotation, Sheet

_OF_STATUS = 3  # headings such as Status Code, Status Text and Event Date
_EVENTS = 3  # milestones with dates in a tracking sheet
_MANY = 8  # fields with a column in a sheet of whole records, not of changes
_MISSING_MOST = 5.0  # points; many fields that a create needs can be computed
_SOME = 6  # fields with a column in a sheet of whole records with places on both sides
_WITH_LINES = 3  # fields of the record in a sheet that has packages as well
_FEW = 4  # columns in a sheet of cancellations
_PLACES = 3  # fields of addresses in a sheet of whole records
_TENDER = "tender"
_ACTIONS_MOST = 8  # different codes
_RESERVED = RESERVED | {"rows", "main"}
_CODES_MOST = 12  # different names of countries or currencies to list
CODE_EXAMPLES = {"country": ("DE", "US", "..."), "currency": ("EUR", "USD", "...")}
_RARE = 20  # a code that occurs once in this many cells is probably a typing error
_OF_ROWS = (Action.CREATE, Action.UPDATE, Action.DELETE)  # what a column of actions may say


@dataclass(frozen=True, slots=True)
class OperationCandidate:
    """An operation that the sheets may be for: the columns of its fields, its points, and the reasons in words."""

    match: Match
    points: float
    reasons: tuple[str, ...]


def ranked_operations(sheets: Sequence[Sheet]) -> list[OperationCandidate]:
    """The possible operations of the sheets, the most likely first."""
    found = []
    for operation in WRITES:
        filled = match(sheets, operation)
        evidence = list(_evidence(filled, sheets))
        points = filled.total + sum(weight for weight, _ in evidence)
        reasons = [text for weight, text in sorted(evidence, key=lambda one: -abs(one[0])) if weight > 0 and text]
        found.append(OperationCandidate(filled, points, tuple(reasons)))
    return sorted(found, key=lambda candidate: -candidate.points)


def _evidence(found: Match, sheets: Sequence[Sheet]) -> Iterator[tuple[float, str]]:
    """What speaks for an operation (points above 0) and against it, in points and words."""
    operation, by_path = found.operation, found.by_path
    key = by_path.get(operation.record.key[0])
    yield (1.5, f"{key.column.label} identifies the records") if key else (-4.0, "")
    required = [field for field in operation.record.fields if field.is_required(creates=operation.creates)]
    missing = sum(field.name not in by_path for field in required)
    yield -min(0.35 * missing, _MISSING_MOST), ""
    yield from _of_action(found, sheets)
    words = _names(sheets)
    if verb := words & vocabulary().verbs[operation.action]:
        yield 3.0, f"the name has the word {min(verb)}"
    named = any(word.startswith(operation.subject) for word in words)
    yield 0.5 * named, ""
    if operation.subject == _TENDER:
        headings = (column.label for sheet in sheets for column in sheet.columns)
        names = (name for sheet in sheets for name in (sheet.path.stem, sheet.title))
        tender = named or any(_TENDER in reading_of(text).concepts for text in (*names, *headings))
        yield (0.0, "") if tender else (-6.0, "")


def is_named(operation: Operation, sheets: Sequence[Sheet]) -> bool:
    """Whether the name of a file or sheet has a word for what the operation does."""
    return not _names(sheets).isdisjoint(vocabulary().verbs[operation.action])


def _names(sheets: Sequence[Sheet]) -> set[str]:
    """The words of the names of files and sheets."""
    return {word for sheet in sheets for text in (sheet.path.stem, sheet.title) for word in words_of(text)}


def _of_action(found: Match, sheets: Sequence[Sheet]) -> Iterator[tuple[float, str]]:
    operation, by_path = found.operation, found.by_path
    columns = sum(len(sheet.columns) for sheet in sheets)
    places = _of_places(found)
    of_record = sum("[]" not in path for path in by_path)
    has_lines = len(by_path) > of_record >= _WITH_LINES
    some = len(by_path) >= _SOME and places >= _PLACES - 1
    of_packages = not places and all("[]" in path or path == operation.record.key[0] for path in by_path)
    many = not of_packages and (len(by_path) >= _MANY or places >= _PLACES or has_lines or some)
    if operation.action is Action.CREATE:
        yield (8.0, f"{_columns_of(len(by_path))}, {places} of them for addresses") if many else (-2.0, "")
    elif operation.action is Action.UPDATE:
        yield (0.0, "") if many else (1.5, f"only {_columns_of(len(by_path))}, as in changes")
    elif operation.action is Action.DELETE:
        is_key = columns == 1 and operation.record.key[0] in by_path
        yield (2.0, "only the key has a column") if is_key else (0.0 if columns <= _FEW else -4.0, "")
    elif operation.action is Action.QUOTE:
        rates = (path for path, field in operation.record.walk() if "rate" in concepts_of(field))
        rate = next((by_path[path] for path in rates if path in by_path), None)
        yield (2.0, f"{rate.column.label} has the rate of a carrier") if rate else (0.0, "")
    elif operation.action is Action.STATUS:
        events = max(len(milestones(sheet)) for sheet in sheets)
        if events >= _EVENTS:
            yield 2.0 * events, f"{events} headings are events with a date below them"
        code, fields = event_code_field(operation.record.fields), operation.record.fields
        moment = any(f.name in by_path for f in fields if "status" in concepts_of(f) and f.kind in DATE_SHAPES)
        of_status = sum("status" in column.concepts for sheet in sheets for column in sheet.columns)
        if of_status >= _OF_STATUS:
            yield 2.0, f"{of_status} headings are about the status or an event"
        if code is not None and of_status and gives_event(operation, by_path) and moment:
            yield 3.0, "each row has an event and its time"
        elif not moment and not events:
            yield -4.0, ""


def _columns_of(count: int) -> str:
    return "1 field has a column" if count == 1 else f"{count} fields have a column"


def _of_places(found: Match) -> int:
    """The number of fields of an address with a column. Changes seldom have some."""
    fields = dict(found.operation.record.walk())
    return sum(
        bool(concepts_of(fields[path]) & SIDES) and fields[path].kind not in DATE_SHAPES and "[]" not in path
        for path in found.by_path
    )


# ---- a column that marks each row as new, changed or cancelled ----


@dataclass(frozen=True, slots=True)
class Chooser:
    """The column that chooses the operation, and the operation of each of its codes."""

    column: Column
    codes: dict[str, str]

    @property
    def operation(self) -> str:
        """The operation whose payload covers all codes: create, if a code means it."""
        return min(self.codes.values(), key=lambda name: _OF_ROWS.index(BY_NAME[name].action))


def operation_column(sheet: Sheet, subject: str) -> Chooser | None:
    """The column of a sheet that chooses the operation of each row, if any. `subject` is the subject of the rows, such as order."""
    by_action: dict[str, Operation] = {one.action: one for one in WRITES if one.subject == subject}
    found = (_action_codes(column, by_action) for column in sheet.columns)
    return next((Chooser(column, codes) for column, codes in zip(sheet.columns, found, strict=True) if codes), None)


def unread_actions(sheet: Sheet) -> Iterator[str]:
    """The headings, with cells, of columns that say what happens to each row in codes that are not all known. Some mean a cancellation."""
    for column in sheet.columns:
        cells = list(column.cells.shown)
        deletes = any(vocabulary().value_meant(cell, _OF_ROWS) == Action.DELETE for cell in cells)
        if deletes and 1 < len(cells) <= _ACTIONS_MOST and vocabulary().action_headings & set(words_of(column.label)):
            yield f"{column.label} ({a_few(cells)})"


def _action_codes(column: Column, by_action: Mapping[str, Operation]) -> dict[str, str]:
    cells = list(column.cells.shown)
    if not cells or len(cells) > _ACTIONS_MOST:
        return {}
    actions = [vocabulary().value_meant(cell, _OF_ROWS) for cell in cells]
    meant = [by_action[action].name for action in actions if action in by_action]
    named = bool(vocabulary().action_headings & set(words_of(column.label)))
    letters = any(len(cell) == 1 for cell in cells)
    if len(meant) < len(cells) or (not named and (letters or column.concepts)):
        return {}
    return dict(zip(cells, meant, strict=True)) if named or len(set(meant)) > 1 else {}


# ---- the draft ----

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
    whose rows have the sets. `has_heads`: the first of several rows of a record is a head, which is ignored.
    """

    name: str
    sheet: Sheet
    columns: list[DraftColumn] = field(default_factory=list)
    join: str = ""
    ignore: str = ""
    sets: Sets | None = None
    source: "DraftTable | None" = None
    has_heads: bool = False

    def leave_out(self, rule: str) -> None:
        """Ignore the rows of this rule as well."""
        self.ignore = f"{self.ignore} or {rule}" if self.ignore else rule

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
    """The input of `yaml_writer.py`. `by_path` has the columns by payload path, `unused` the columns without a field. `doubts` has the
    reasons why a path may be filled wrongly. `left_out` are the sheets that are not read, with the reason. `same_kind` are those that are
    read alike, if there are several. `chooser` is the column with the operation of each row, `chosen_by` that column if the draft uses it.
    The author has to confirm an operation that is not `is_confirmed`.
    """

    name: str
    operation: Operation
    why: str
    tables: list[DraftTable]
    by_path: dict[str, DraftColumn]
    unused: list[DraftColumn]
    folder: FolderValues
    doubts: dict[str, str]
    group: list[str] = field(default_factory=list)
    one_value: list[str] = field(default_factory=list)
    of_group: set[str] = field(default_factory=set)
    left_out: list[tuple[Sheet, str]] = field(default_factory=list)
    same_kind: list[Sheet] = field(default_factory=list)
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
    def notation(self) -> FileNotation:
        """The notation of the table with the most numbers that show it."""
        return max((table.sheet.notation for table in self.tables), key=lambda notation: notation.numbers)

    def keys_of(self, drafted: DraftColumn) -> dict[str, Any]:
        """The keys of a column, with its own locale if it has one."""
        own = self._own_locale(drafted)
        return {**drafted.keys, "locale": own} if own else drafted.keys

    def _own_locale(self, drafted: DraftColumn) -> str:
        """The locale of a column in a file with another notation, if its cells depend on it; empty otherwise."""
        own, type_ = drafted.table.sheet.notation, drafted.keys.get("type")
        if own.locale == self.notation.locale or drafted.keys.keys() & {"locale", "yes"}:
            return ""
        has_words = type_ in {"country", "currency", "yesno"} or any(
            "%b" in one or "%a" in one for one in drafted.keys.get("formats", [])
        )
        return own.locale if has_words or (type_ in NUMBERS and own.numbers) else ""

    def ref(self, drafted: DraftColumn) -> str:
        """The name of a column in expressions."""
        return f"{drafted.table.name}.{drafted.name}" if self.is_joined else drafted.name

    def mark_used(self, *used: DraftColumn) -> None:
        """Mark columns as used."""
        self.unused = [drafted for drafted in self.unused if drafted not in used]

    def doubted(self, path: str, remark: str = "") -> str:
        """A comment with the doubt about the column of this path."""
        doubt = self.doubts.get(path)
        return "; ".join(filter(None, (f"{CHECK}: {doubt}", remark))) if doubt else remark

    def varies(self, drafted: DraftColumn) -> bool:
        """Whether a column may have several values in one record."""
        return drafted.table is not self.main or (bool(self.group) and drafted.name not in self.of_group)

    def of_record(self) -> Iterator[DraftColumn]:
        """The unused columns with one value for the whole record."""
        return (drafted for drafted in self.unused if not self.varies(drafted) and drafted.column.filled_count)


def codes_of(column: Column, field_: Field, locale: str) -> tuple[dict[str, str | None] | list[str], str]:
    """The codes of a column with the matching values of the interface, or without any the countries or currencies; None for an unknown code.
    Nothing if there are many values or none is a country or currency.
    """
    counts, known = Counter(column.cells.shown), field_.known
    meant = {code: vocabulary().value_meant(code, known) or None for code in counts} if known else {}
    kind = next(iter(CODE_EXAMPLES.keys() & concepts_of(field_)), "")
    meant = meant or (_codes_named(kind, counts, locale) if kind else {})
    rare = [
        code for code, value in meant.items() if value is None and counts[code] == 1 and column.filled_count >= _RARE
    ]
    for code in rare:
        del meant[code]
    remark = f"; {CHECK}: left out as a typing error: {', '.join(rare)}" if rare else ""
    if any(value is None for value in meant.values()):
        remark += f"; {FILL_IN} the meaning of the codes: {', '.join(known or CODE_EXAMPLES[kind])}"
    if meant and all(code == value for code, value in meant.items()):
        return list(meant), remark
    return meant, remark


def _codes_named(kind: str, counts: Counter[str], locale: str) -> dict[str, str | None]:
    """The countries or currencies that texts name, in the language of the file or in another."""
    if len(counts) > _CODES_MOST:
        return {}
    locales = vocabulary().locales_from(locale)
    codes = {text: next(filter(None, (code_named(kind, text, one) for one in locales)), None) for text in counts}
    return codes if any(codes.values()) else {}


def slug(text: str, between: str = "_") -> str:
    """A name of letters, digits and `between` from a text."""
    name = between.join(re.findall(r"[a-z0-9]+", " ".join(words_of(text))))
    return f"c_{name}" if name[:1].isdigit() else name


def unique_name(name: str, taken: set[str]) -> str:
    """A name that is not taken and no word of the language; it is taken then."""
    wanted, number = f"{name}_" if name in _RESERVED else name, 1
    while wanted in taken:
        number += 1
        wanted = f"{name}_{number}"
    taken.add(wanted)
    return wanted


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


# ---- units in a column of their own, as ERP systems and marketplaces export them ----


def take_units(made: Draft) -> None:
    """Let each amount without a unit of its own read it from the nearest column that holds units of its measure, the one to its right first."""
    for table in made.tables:
        of_units = MEASURES.keys() | {"unit"}
        named = (one for one in table.columns if one.column.concepts & of_units or not one.column.concepts)
        units = [one for one in named if (words := one.column.cells.shown) and all(map(common_unit, words))]
        for amount in table.columns:
            steps = {
                unit: unit.column.position - amount.column.position
                for unit in units
                if unit is not amount and _is_unit_of(amount, unit)
            }
            if steps:
                _read_unit_from(made, amount, min(steps, key=lambda unit: (steps[unit] < 0, abs(steps[unit]))))


def _is_unit_of(amount: DraftColumn, unit: DraftColumn) -> bool:
    own = amount.keys.get("unit")
    if amount.keys.get("type") != "quantity" or amount.column.unit or not own:
        return False
    words = unit.column.cells.shown
    return all(conversion_factor(common_unit(word), unit_named(own, {})) is not None for word in words)


def _read_unit_from(made: Draft, amount: DraftColumn, unit: DraftColumn) -> None:
    """The unit column fills no field itself: the amount is converted, so its field of the unit is a constant."""
    amount.keys.pop("from_unit", None)
    amount.keys["unit_column"] = unit.name
    amount.remark = "; ".join(part for part in amount.remark.split("; ") if not part.startswith(f"{CHECK} the unit"))
    amount.remark += f"; its unit is in {unit.column.label}"
    unit.keys["type"], unit.remark = "text", f"the units of {amount.column.label}"
    unit.keys.pop("one_of", None)  # the amount needs the units as written
    made.by_path = {path: drafted for path, drafted in made.by_path.items() if drafted is not unit}
    made.mark_used(unit)

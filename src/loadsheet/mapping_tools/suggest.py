"""A draft of a mapping from a sheet: tables, columns, key, grouping, and the payload as far as possible.

Owns: every decision of `suggest`, and the two marks. The author must complete each `FILL IN` before the draft loads. `CHECK` marks a
guess that the sheet does not prove. Knows no file layout: `yaml_writer.py` turns the draft into text.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadsheet.contract import BY_NAME, WRITES, Action, Operation
from loadsheet.mapping_tools.column_types import CHECK, vocabulary, words_of
from loadsheet.mapping_tools.field_matching import Filled, Match, Sets, best_operation, in_sets, match
from loadsheet.mapping_tools.sheet_profiles import Column, Sheet
from loadsheet.reading import SUM_WORDS, fold

FILL_IN = "FILL IN"

_AGREES = 0.9  # share of groups with one value, for a column of the whole record
_BELONGS = 0.5  # share of common keys for two tables to be joined
_RARE = 20  # a code that occurs once in this many cells is probably a typing error
_RESERVED = frozenset({"and", "or", "not", "in", "for", "if", "null", "true", "false", "inf", "nan", "rows", "main"})
_ACTIONS_MOST = 8  # different codes
_ACTION_LETTERS = {"c": Action.CREATE, "n": Action.CREATE, "a": Action.CREATE, "i": Action.CREATE, "u": Action.UPDATE, "m": Action.UPDATE,
            "d": Action.DELETE, "x": Action.DELETE}  # fmt: skip
_ACTION_WORDS = {
    Action.CREATE: "create created new neu neuanlage add added insert nouveau nuevo nieuw ny",
    Action.UPDATE: "update updated change changed modify modified amend amended anderung geandert modification cambio wijziging andrad",
    Action.DELETE: "delete deleted cancel cancelled canceled storno storniert loschen geloscht annule annulation anulado geannuleerd",
}
_ACTION_BY_WORD = _ACTION_LETTERS | {word: action for action, words in _ACTION_WORDS.items() for word in words.split()}
_ACTION_HEADINGS = {
    "action", "aktion", "operation", "op", "change", "changetype", "anderung", "anderungsart", "kennzeichen", "kz", "satzart",
    "vorgang", "accion", "mutatie", "atgard", "transaction", "function", "funktion", "verb", "record",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chooser:
    """The column that chooses the operation, and the operation of each of its codes."""

    column: Column
    codes: dict[str, str]

    @property
    def operation(self) -> str:
        """The operation whose payload covers all codes: create, if a code means it."""
        return min(self.codes.values(), key=_rank)


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
    """A table of the draft: its name, the sheet, its columns, its join, the rule for ignored rows, and the column sets."""

    name: str
    sheet: Sheet
    columns: list[DraftColumn] = field(default_factory=list)
    join: str = ""
    ignore: str = ""
    sets: Sets | None = None

    def named(self, column: Column) -> DraftColumn:
        """The draft's column for a column of the sheet."""
        return next(found for found in self.columns if found.column is column)


@dataclass(slots=True)
class Draft:
    """The input of `yaml_writer.py`. `filled` has the columns by payload path, `unused` the columns without a field. `doubts` has the
    reasons why a path may be filled wrongly. `chooser` is the column with the operation of each row, `chosen_by` that column if the draft
    uses it.
    """

    name: str
    operation: Operation
    likely: tuple[tuple[str, float], ...]
    tables: list[DraftTable]
    filled: dict[str, DraftColumn]
    unused: list[DraftColumn]
    doubts: dict[str, str] = field(default_factory=dict)
    group: list[str] = field(default_factory=list)
    one_value: list[str] = field(default_factory=list)
    left_out: list[Sheet] = field(default_factory=list)
    chooser: Chooser | None = None
    chosen_by: DraftColumn | None = None
    evidence: list[str] = field(default_factory=list)

    @property
    def main(self) -> DraftTable:
        """The table whose rows (or groups of rows) are the records."""
        return self.tables[0]

    @property
    def is_joined(self) -> bool:
        """Whether there are several tables, so that names need a table prefix."""
        return len(self.tables) > 1

    def ref(self, drafted: DraftColumn) -> str:
        """The name of a column in expressions."""
        return f"{drafted.table.name}.{drafted.name}" if self.is_joined else drafted.name

    def use(self, *used: DraftColumn) -> None:
        """Mark columns as used."""
        self.unused = [drafted for drafted in self.unused if drafted not in used]

    def of_record(self) -> Iterator[DraftColumn]:
        """The unused columns with one value for the whole record."""
        for drafted in self.unused:
            whole = drafted.table is self.main and (not self.group or drafted.name in self.one_value)
            if whole and drafted.column.filled:
                yield drafted


def draft(sheets: Sequence[Sheet], target: str | None) -> Draft:
    """The draft for these sheets. The operation is `target` or, by default, the most likely one."""
    ranked = best_operation(sheets)
    found = match(sheets, BY_NAME[target]) if target else ranked[0]
    choosing = chooser(sheets[_related(sheets, found)[0]], found.operation.subject)
    if choosing is not None and target is None:
        found = match(sheets, BY_NAME[choosing.operation])
    main, joined = _related(sheets, found)
    found, own, sets = in_sets(found, sheets, main)
    sheets = [own if number == main else sheet for number, sheet in enumerate(sheets)]
    tables = [
        DraftTable(_table_name(sheets[number], sheets, is_main=number == main), sheets[number])
        for number in (main, *joined)
    ]
    tables[0].sets = sets
    places = {number: tables[place] for place, number in enumerate((main, *joined))}
    found = _by_table(found, places, main)
    key = found.filled.get(found.operation.record.key[0])
    made = Draft(
        name=_slug("-".join(words_of(re.sub(r"[0-9]", " ", sheets[main].path.stem))) or "draft", "-"),
        operation=found.operation,
        likely=tuple((match_.operation.name, match_.total) for match_ in ranked[:3]),
        tables=tables,
        filled={},
        unused=[],
        doubts={path: filled.doubt for path, filled in found.filled.items() if filled.doubt},
        left_out=[sheet for number, sheet in enumerate(sheets) if number not in places],
    )
    _name_columns(made, found, places, key)
    if choosing is not None:
        _choose(made, choosing, by_it=target is None)
    if made.is_joined and key is not None:
        _join(made, key.column)
    if key is not None:
        _group(made, key.column)
    return made


# ---- a column that marks each row as new, changed or cancelled ----


def _rank(name: str) -> int:
    return list(_ACTION_WORDS).index(next(operation.action for operation in WRITES if operation.name == name))


def chooser(sheet: Sheet, subject: str) -> Chooser | None:
    """The column of a sheet that chooses the operation of each row, if any. `subject` is the subject of the rows, such as order."""
    by_action = {operation.action: operation for operation in WRITES if operation.subject == subject}
    found = (_action_codes(column, by_action) for column in sheet.columns)
    return next((Chooser(column, codes) for column, codes in zip(sheet.columns, found, strict=True) if codes), None)


def _action_codes(column: Column, by_action: dict[Action, Operation]) -> dict[str, str]:
    cells = list(dict.fromkeys(cell.strip() for cell in column.filled))
    actions = [_ACTION_BY_WORD.get(fold(cell)) for cell in cells]
    meant = [by_action[action].name for action in actions if action in by_action]
    named = bool(_ACTION_HEADINGS & set(words_of(column.label)))
    letters = any(len(cell) == 1 for cell in cells)
    if (
        not cells
        or len(cells) > _ACTIONS_MOST
        or len(meant) < len(cells)
        or (not named and (letters or column.concepts))
    ):
        return {}
    return dict(zip(cells, meant, strict=True)) if named or len(set(meant)) > 1 else {}


# ---- tables ----


def _related(sheets: Sequence[Sheet], found: Match) -> tuple[int, list[int]]:
    """The sheet whose rows are the records, and the sheets that share its key."""
    key = found.filled.get(found.operation.record.key[0])
    if key is None:
        return max(range(len(sheets)), key=lambda number: len(sheets[number].columns)), []
    holders = {
        number: column
        for number, sheet in enumerate(sheets)
        if (column := _same_label(sheet, key.column.label)) is not None
    }
    # in the main table each key occurs once
    distinct = {number: len(set(column.filled)) / max(1, len(column.filled)) for number, column in holders.items()}
    main = max(holders, key=lambda number: (distinct[number], -number))
    others = [
        number for number, column in holders.items() if number != main and _belongs(holders[main].filled, column.filled)
    ]
    return main, others[:1]  # a record has one list of packages


def _belongs(keys: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two tables have enough common keys to be joined, with or without leading zeros."""
    return _agree(keys, others) or padding(keys, others) > 0 or padding(others, keys) > 0


def _agree(keys: Sequence[str], others: Sequence[str]) -> bool:
    mine, theirs = ({cell.strip() for cell in cells} for cells in (keys, others))
    return len(mine & theirs) >= _BELONGS * max(1, min(len(mine), len(theirs)))


def padding(keys: Sequence[str], others: Sequence[str]) -> int:
    """The length of keys that match `others` padded with leading zeros; 0 if padding does not make them match."""
    lengths = {len(cell.strip()) for cell in keys}
    zeros = any(cell.strip().startswith("0") for cell in keys)
    if len(lengths) != 1 or not zeros or _agree(keys, others):
        return 0
    (length,) = lengths
    return length if _agree(keys, [cell.strip().rjust(length, "0") for cell in others]) else 0


def _bare(cells: Sequence[str]) -> set[str]:
    return {cell.strip().lstrip("0") for cell in cells}


def _same_label(sheet: Sheet, label: str) -> Column | None:
    return next((column for column in sheet.columns if fold(column.label) == fold(label)), None)


def _by_table(found: Match, places: dict[int, DraftTable], main: int) -> Match:
    """The match without columns of other sheets. Lists are filled from the joined table, other fields from the main table or by sums."""
    kept = {}
    for path, filled in found.filled.items():
        if filled.sheet not in places:
            continue
        in_list = "[]" in path
        summed = filled.column.guess.type in {"integer", "decimal", "quantity"}
        if len(places) > 1 and not in_list and filled.sheet != main and not summed:
            continue
        if len(places) > 1 and in_list and filled.sheet == main:
            continue
        kept[path] = filled
    if found.operation.record.key[0] in kept:
        key = kept[found.operation.record.key[0]]
        column = _same_label(places[main].sheet, key.column.label) or key.column
        kept[found.operation.record.key[0]] = Filled(main, column, key.score)
    return Match(found.operation, kept, found.total)


def _table_name(sheet: Sheet, sheets: Sequence[Sheet], *, is_main: bool) -> str:
    if len(sheets) == 1:
        return "rows"
    several = len({other.path for other in sheets}) > 1
    return _slug(sheet.path.stem if several and not sheet.title else sheet.title or sheet.path.stem) or (
        "main_rows" if is_main else "lines"
    )


# ---- columns ----


def _name_columns(made: Draft, found: Match, places: dict[int, DraftTable], key: Filled | None) -> None:
    fields = {(filled.sheet, filled.column.position): path for path, filled in found.filled.items()}
    for number, table in places.items():
        taken = {other.name for other in made.tables}  # a column with a table's name would hide it in expressions
        rows = _rows_in_use(table, key.column if key else None, made)
        for column in table.sheet.columns:
            name = _unique(_slug(column.label) or f"c{column.position + 1}", taken)
            path = fields.get((number, column.position), "")
            drafted = DraftColumn(table, name, column)
            if table.sets is not None and column in (table.sets.at, table.sets.event):
                _describe_in_set(drafted, table.sets)
            else:
                _describe(drafted, path, found.operation, rows)
            table.columns.append(drafted)
            if path:
                made.filled[path] = drafted
            else:
                made.unused.append(drafted)
    order = list(found.filled)
    made.filled = {path: made.filled[path] for path in sorted(made.filled, key=order.index)}


def _rows_in_use(table: DraftTable, key: Column | None, made: Draft) -> list[int]:
    """The rows that are records. A total row below them becomes the rule for ignored rows."""
    every = list(range(len(table.sheet.rows)))
    own = _same_label(table.sheet, key.label) if key is not None else None
    if own is None:
        return every
    for row in every:
        if own.cells[row].strip():
            continue
        for column in table.sheet.columns:
            word = column.cells[row].strip()
            if fold(word) in SUM_WORDS:
                table.ignore = f'{_slug(own.label)} == null and {_slug(column.label)} == "{word}"'
                made.evidence.append(f"row {table.sheet.rows[row]} has no {own.label} and contains {word}: a total row")
    return [row for row in every if own.cells[row].strip() or not table.ignore]


def _describe_in_set(drafted: DraftColumn, sets: Sets) -> None:
    """Set the keys of one of the two columns that read the sets."""
    column = drafted.column
    drafted.keys = {"label": column.label, "type": "datetime", "required": True, **sets.at.guess.keys}
    if column is sets.event:
        drafted.keys = {"from_set": True, "type": "text"}
    elif drafted.name == "set":
        drafted.name = "at"
    drafted.remark, drafted.nullable = column.guess.evidence, False


def _describe(drafted: DraftColumn, path: str, operation: Operation, rows: Sequence[int]) -> None:
    """Set the keys and the comment of a column that fills the field at `path` (empty: none)."""
    column = drafted.column
    keys = drafted.keys = {"label": column.label, "type": column.guess.type}
    blank = sum(not column.cells[row].strip() for row in rows)
    drafted.remark = column.guess.evidence
    is_key = path in operation.record.key
    if is_key or (path and not blank):
        keys["required"] = True
        drafted.nullable = False
    if is_key:
        keys["key"] = True
    keys |= column.guess.keys
    known = next((field.known for where, field in operation.record.walk() if where == path), ())
    if known and column.guess.type == "text" and path:
        keys["one_of"], remark = _codes(column, known)
        drafted.remark += remark
    if blank and path:
        drafted.remark += f"; {blank} of {len(rows)} are blank"


def _codes(column: Column, known: tuple[str, ...]) -> tuple[dict[str, str | None] | list[str], str]:
    """The codes of a column with the matching values of the interface; None for an unknown code."""
    counts = Counter(cell.strip() for cell in column.filled)
    meant = {code: vocabulary().value_meant(code, known) or None for code in counts}
    rare = [
        code for code, value in meant.items() if value is None and counts[code] == 1 and len(column.filled) >= _RARE
    ]
    for code in rare:
        del meant[code]
    remark = f"; left out as a typing error: {', '.join(rare)}" if rare else ""
    if any(value is None for value in meant.values()):
        remark += f"; {FILL_IN} the meaning of the codes: {', '.join(known)}"
    if meant and all(code == value for code, value in meant.items()):
        return list(meant), remark
    return meant, remark


def _slug(text: str, between: str = "_") -> str:
    words = re.findall(r"[a-z0-9]+", " ".join(words_of(text)))
    slug = between.join(words)
    return f"c_{slug}" if slug[:1].isdigit() else slug


def _unique(name: str, taken: set[str]) -> str:
    wanted, number = f"{name}_" if name in _RESERVED else name, 1
    while wanted in taken:
        number += 1
        wanted = f"{name}_{number}"
    taken.add(wanted)
    return wanted


def _choose(made: Draft, choosing: Chooser, *, by_it: bool) -> None:
    """Let the column choose the operation, or only add a comment if the author named an operation."""
    made.chooser = choosing
    drafted = next(
        (candidate for candidate in made.main.columns if candidate.column.label == choosing.column.label), None
    )
    if not by_it or drafted is None:
        return
    made.chosen_by = drafted
    made.filled = {path: found for path, found in made.filled.items() if found is not drafted}
    made.use(drafted)
    drafted.keys = {"label": drafted.column.label, "type": "text", "required": True, "one_of": choosing.codes}
    drafted.nullable = False
    drafted.remark += f"; {CHECK} the meaning of each code"


# ---- key, join, group ----


def _join(made: Draft, key: Column) -> None:
    main = _same_label(made.main.sheet, key.label)
    for table in made.tables[1:]:
        other = _same_label(table.sheet, key.label)
        if main is None or other is None:
            continue
        for short, long in ((other, main), (main, other)):
            if length := padding(long.filled, short.filled):
                table_of_it = table if short is other else made.main
                table_of_it.named(short).keys["pad_left"] = {"to": length}
                table_of_it.named(
                    short
                ).remark += f"; {CHECK} the leading zeros: with them the values match the other file"
        common = len(_bare(main.filled) & _bare(other.filled))
        made.evidence.append(
            f"{table.name} is joined on {other.label}: {common} of {len(set(other.filled))} values also occur in {made.main.name}"
        )
        drafted = table.named(other)
        drafted.keys["required"], drafted.nullable = True, False
        table.join = f"{drafted.name}: {made.main.named(main).name}"
        made.use(drafted)


def _group(made: Draft, key: Column) -> None:
    """Group the rows of a key into one record if the record has a list for them. Columns with one value for each group are recorded."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for row, cell in enumerate(key.cells):
        if cell.strip():
            groups[cell.strip()].append(row)
    several = [rows for rows in groups.values() if len(rows) > 1]
    if made.is_joined or made.operation.repeatable or not several or not any("[]" in path for path in made.filled):
        return
    made.group = [made.main.named(key).name]
    made.evidence.append(
        f"{len(several)} of {len(groups)} values of {key.label} occur in several rows, so rows are grouped"
    )
    for drafted in made.main.columns:
        same = sum(len({drafted.column.cells[row] for row in rows}) == 1 for rows in several)
        in_list = any("[]" in path for path, filled in made.filled.items() if filled is drafted)
        if drafted.name not in made.group and not in_list and same >= _AGREES * len(several):
            made.one_value.append(drafted.name)

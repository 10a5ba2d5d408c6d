"""Tables of a drop in which other tables look up one row: products, rates, sites.

`plan_lookups` compiles the lookups of such tables. `ReferenceRows` holds the rows of a table in memory by their keys while the other tables
are read. The row that is found is a value of the row that looks it up, so its columns keep their types, and its problems their cells. Knows no
payload.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from loadsheet.mapping.conversion import is_day
from loadsheet.mapping.documents import LOOKUP_RULE, Ignored
from loadsheet.mapping.grouping import KeyedTable
from loadsheet.mapping.lookups import Interval, Range, found_by, group_by_key_form, has_keys, not_in
from loadsheet.mapping.plans import CONSEQUENCE, CellProblem, CodeColumn, FoundRow, Shape, TableLookup, TablePlan, Type
from loadsheet.mapping.rows import ReadRow, RowReader
from loadsheet.mapping.schema import LookupSpec, TableSpec
from loadsheet.mapping.yamlfile import Loc, YamlFile
from loadsheet.reading.tables import Row
from loadsheet.similar_text import closest_or_known, did_you_mean_value, short_list

_REMEMBERED = 4_096  # keys that were searched
_COMPARED = 1_000  # keys that a missing one is compared with
_OF_FILES = ("file", "value", "types")

# ---- compiling ----


def plan_lookups(
    specs: Mapping[str, LookupSpec], tables: Sequence[TablePlan], file: YamlFile
) -> tuple[list[TablePlan], dict[str, TableLookup]]:
    """These tables with their lookups, and the lookups by name. One that cannot be used is left out, with its findings."""
    named, found = {table.name: table for table in tables}, dict[str, TableLookup]()
    for name, spec in specs.items():
        if spec.table in named and (lookup := _lookup(name, spec, named[spec.table], file)) is not None:
            found[name] = lookup
    own = [tuple(one for one in found.values() if one.position == table.position) for table in tables]
    return [replace(table, lookups=lookups) for table, lookups in zip(tables, own, strict=True)], found


def cells_of(shape: Shape, looking_up: Collection[int]) -> Shape:
    """The values of a row before rows of other tables are found: the columns that look up are texts."""
    slots = {
        name: replace(slot, type=Type.TEXT, code_columns=()) if slot.index in looking_up else slot
        for name, slot in shape.slots.items()
    }
    return replace(shape, slots=slots)


def check_looked_up(lookups: Mapping[str, LookupSpec], tables: Mapping[str, TableSpec], file: YamlFile) -> bool:
    """Whether every lookup in a table names one, and these tables have rows of their own."""
    before = len(file.findings)
    named = {lookup.table for lookup in lookups.values() if lookup.table is not None}
    for name, lookup in lookups.items():
        if lookup.table is not None and lookup.table not in tables:
            hint = closest_or_known(lookup.table, tables)
            file.refuse(("lookups", name, "table"), f'there is no table "{lookup.table}"', hint)
    for name, table in tables.items():
        loc: Loc = ("source", "tables", name)
        for key, value in (("join", table.join), ("from", table.from_)):
            if name in named and value is not None:
                file.refuse((*loc, key), f"{name} is looked up, so it has no {key}", at_key=True)
        if table.from_ in named and name not in named:
            hint = f"write sets on {table.from_} itself"
            file.refuse((*loc, "from"), f"{table.from_} is looked up, so no table is made from it", hint)
    return len(file.findings) == before


def _lookup(name: str, spec: LookupSpec, table: TablePlan, file: YamlFile) -> TableLookup | None:
    loc: Loc = ("lookups", name)
    before = len(file.findings)
    _check_options(spec, table, file, loc)
    _check_columns(table, file)
    keys = _columns(spec.key, table, file, (*loc, "key"))
    slots = sorted(table.shape.slots.items(), key=lambda named: named[1].index)
    for column_name, slot in slots:
        if slot.index in keys and slot.type not in (Type.TEXT, Type.CODE_ROW):
            text = f"{column_name} of {table.name} is {slot.type.value}; a key of a code table is a text"
            file.refuse((*loc, "key"), text, "give the column type: text")
    bounds = _bounds(spec, table, file, loc)
    if not has_keys(spec, file, loc) or len(file.findings) > before:
        return None
    searched = slots[bounds[0]][1].type if bounds is not None else None
    days = {column.slot.index for column in table.columns if column.spec.type == "date"}
    of_days = bounds is not None and days.issuperset(bounds)
    codes = tuple(
        CodeColumn(of, slot.nullable, slot.type, "" if slot.is_code else slot.declared_at) for of, slot in slots
    )
    return TableLookup(name, spec, table.position, keys, bounds, codes, searched, of_days)


def _check_options(spec: LookupSpec, table: TablePlan, file: YamlFile, loc: Loc) -> None:
    """Refuse the settings that only a file can have."""
    for key in _OF_FILES:
        if key in spec.model_fields_set:
            hint = "" if key == "file" else f"the columns of {table.name} have their types, and each can be named"
            file.refuse((*loc, key), f"{key} is for the file of a code table", hint, at_key=True)
    if spec.missing == "keep":
        file.refuse((*loc, "missing"), "keep needs a file with a single value column", "write missing: error or blank")
    if spec.range is not None and "gaps" in spec.range.model_fields_set:
        hint = f"a value in no row of {table.name} is a problem of its record"
        file.refuse((*loc, "range", "gaps"), "gaps is for the file of a code table", hint, at_key=True)


def _check_columns(table: TablePlan, file: YamlFile) -> None:
    """Refuse columns whose values are rows themselves: a row that is found has plain values."""
    for column in table.columns:
        here: Loc = ("columns", table.name, column.name, "lookup")
        if column.spec.lookup is not None and "table" in file.values["lookups"].get(column.spec.lookup, ()):
            text = f"{column.name} of {table.name} is itself looked up in a table"
            file.refuse(here, text, "look it up in the other table")
        elif column.slot.type is Type.CODE_ROW:
            text = f"{column.name} of {table.name} is itself a row of a code table"
            file.refuse(here, text, "name one value in the code table")


def _columns(names: Sequence[str], table: TablePlan, file: YamlFile, loc: Loc) -> tuple[int, ...]:
    slots = table.shape.slots
    for name in names:
        if name not in slots:
            file.refuse(loc, f'{table.name} has no column "{name}"', closest_or_known(name, slots))
    return tuple(slots[name].index for name in names if name in slots)


def _bounds(spec: LookupSpec, table: TablePlan, file: YamlFile, loc: Loc) -> tuple[int, int] | None:
    if spec.range is None:
        return None
    found = _columns([spec.range.from_, spec.range.to], table, file, (*loc, "range"))
    types = [slot.type for slot in table.shape.slots.values() if slot.index in found]
    wrong = next((type_ for type_ in types if type_ not in (Type.NUMBER, Type.MOMENT)), None)
    if wrong is not None:
        file.refuse((*loc, "range"), f"a bound of a range is a number or a date, not {wrong.value}")
    elif len(set(types)) > 1:
        file.refuse((*loc, "range"), "one bound of the range is a number and the other a date")
    return (found[0], found[1]) if len(found) == 2 else None


# ---- the rows in memory ----


class UnusableRow(NamedTuple):
    """A row of the table at `position` that cannot be found, because reading it or its key was refused."""

    position: int
    row: Row


def read_references(readers: Sequence[RowReader]) -> Iterator[Ignored | UnusableRow]:
    """Read the tables that are looked up, and give the readers of the other tables their rows. Each file row comes out once: ignored, because
    it makes no record, or unusable. Iterate it before the other tables are read.
    """
    references: dict[str, ReferenceRows] = {}
    for reader in readers:
        if reader.plan.lookups:
            own = [ReferenceRows(lookup, reader) for lookup in reader.plan.lookups]
            yield from _rows(reader, own)
            references |= {each.lookup.name: each for each in own}
    for reader in readers:
        reader.references = {name: each.find for name, each in references.items()}


def _rows(reader: RowReader, references: Sequence["ReferenceRows"]) -> Iterator[Ignored | UnusableRow]:
    needed = {index for each in references for index in (*each.lookup.columns, *(each.lookup.bounds or ()))}
    rule = f"{LOOKUP_RULE}other tables look up the rows of {reader.plan.name}"
    last = 0
    for item in KeyedTable(reader):
        if isinstance(item, Ignored):
            yield item
            continue
        found = reader.read(item.row) if item.key is not None and item.row.problem is None else None
        if found is None or not needed.isdisjoint(found.refused):
            yield UnusableRow(reader.plan.position, item.row)
            last = item.row.number
            continue
        for each in references:
            each.add(found)
        if item.row.number != last:  # column sets make several rows of one
            yield Ignored(reader.view.source(item.row), rule)
            last = item.row.number
    for each in references:
        each.finish()


class ReferenceRows:
    """The rows of a table by the keys of one lookup. Call `add` for each row, then `finish`, then `find`."""

    def __init__(self, lookup: TableLookup, reader: RowReader) -> None:
        self.lookup, self._reader = lookup, reader
        spec, table = lookup.spec, reader.table
        self._place = table.sheet or table.file
        self._range = None
        if spec.range is not None and lookup.searched is not None:
            self._range = Range(lookup.searched, lookup.of_days, spec.range.upper == "included", spec.match)
        self._compared = [slot.index for slot in reader.plan.shape.slots.values() if slot.index not in lookup.columns]
        self._rows: list[tuple[Sequence[str], Interval]] = []
        self._forms: Sequence[tuple[Any, Mapping[tuple[str, ...], list[Interval]]]] = ()
        self._known: tuple[str, ...] = ()
        self._found: dict[tuple[Any, ...], FoundRow] = {}

    def add(self, row: ReadRow) -> None:
        """Add a row of the table."""
        low, high = None, None
        if self._range is not None and self.lookup.bounds is not None:
            first, last = self.lookup.bounds
            low = self._range.comparable(row.values[first])
            columns, place = self._reader.plan.columns, self._reader.view.position(last, row.row)
            is_whole = place is not None and last < len(columns) and is_day(columns[last], row.row.cells[place])
            high = self._range.upper(row.values[last], has_time=not is_whole)
        keys = ["" if (key := row.values[index]) is None else str(key) for index in self.lookup.columns]
        self._rows.append((keys, Interval(row.row.number, low, high, (row,))))

    def finish(self) -> None:
        """Sort the rows by their keys."""
        spec = self.lookup.spec
        self._forms = group_by_key_form(self._rows, wildcards=spec.wildcards, ignore_case=spec.ignore_case)
        first = dict.fromkeys(keys[0] for keys, _ in self._rows if keys)
        self._known = tuple(key for key in first if key and not (spec.wildcards and key.endswith("*")))
        self._rows = []

    def find(self, keys: Sequence[Any]) -> FoundRow:
        """The row for these keys; with a range, the last one is the value that is searched."""
        wanted = tuple(keys)
        found = self._found.get(wanted)
        if found is None:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            found = self._found[wanted] = self._search(wanted)
        return found

    def _search(self, keys: tuple[Any, ...]) -> FoundRow:
        texts = keys if self._range is None else keys[:-1]
        rows = found_by(self._forms, texts, ignore_case=self.lookup.spec.ignore_case) or []
        held = rows
        if self._range is not None:
            value = None if keys[-1] == "" else self._range.comparable(keys[-1])
            held = [row for row in rows if value is not None and self._range.holds(row, value)]
            if not held and rows and value is not None and self.lookup.missing == "error":
                return FoundRow(not_in(value, rows, self._place))
            if rows and value is None and self.lookup.missing == "error":
                return FoundRow(self._unknown("fill in the value that the range is searched for"))
        if not held:
            return FoundRow(None if self.lookup.missing == "blank" else self._missed(texts))
        if self._range is not None and self._range.match != "only":
            held = [held[0 if self._range.match == "first" else -1]]
        (first,) = held[0].values
        other = next((row for row in held[1:] if self._differs(first, row.values[0])), None)
        if other is not None:
            return FoundRow(self._ambiguous(keys, held[0], other), (first, other.values[0]))
        return FoundRow(CONSEQUENCE if first.refused else first.values, (first,))

    def _differs(self, one: ReadRow, other: ReadRow) -> bool:
        return one.refused.keys() != other.refused.keys() or any(
            one.values[index] != other.values[index] for index in self._compared
        )

    def _ambiguous(self, keys: Sequence[Any], one: Interval, other: Interval) -> CellProblem:
        shown = (f"{row.line} ({row})" if self._range is not None else str(row.line) for row in (one, other))
        key = ", ".join(str(key if self._range is None else self._range.comparable(key)) for key in keys)
        return CellProblem("C321", {"table": self._place, "key": key, "rows": ", ".join(shown)})

    def _missed(self, texts: Sequence[str]) -> CellProblem:
        hint = f"add a row for it to {self._place}"
        if len(texts) > 1:
            others = " and ".join(text or "a blank" for text in texts[1:])
            hint = f"{self._place} has no row for this value with {others}"
        elif texts and len(self._known) <= _COMPARED:
            hint = did_you_mean_value(texts[0], self._known) or hint
        return self._unknown(hint)

    def _unknown(self, hint: str) -> CellProblem:
        return CellProblem("C306", {"expected": short_list(self._known) or "no values"}, hint)

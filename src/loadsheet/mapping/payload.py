"""The record of each operation: chosen by the mapping or by a column, and its payload tree compiled against the contract.

Handles `target`, `payload` and `payload_of`. One payload tree serves several operations: each operation takes the fields that its record
has. `order.upsert` creates an order or, if the ledger knows it, updates it: both payloads are made.

A tree has objects and lists (`each` row, or entries written out under `list`). Compiling it finds fields that do not exist, required
fields that are missing, and the lineage of every path. Field names come from the contract only. Empty lists and objects are left out. An
array that must be sent empty is written `{value: []}`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from loadsheet.contract import (
    BY_NAME,
    DATE_SHAPES,
    KIND_DESCRIPTIONS,
    SENDING_ORDER,
    WRITES,
    Action,
    Checker,
    Field,
    FieldKind,
    Operation,
    Record,
    When,
    checker,
    is_valid_date_text,
    other_end,
)
from loadsheet.mapping.documents import Lineage
from loadsheet.mapping.leaves import OMIT, LeafContext, Make, PayloadContext, check_units, notes_on_offset, plan_leaf
from loadsheet.mapping.lookups import Lookup
from loadsheet.mapping.names import Condition, DocumentFrame, with_positions
from loadsheet.mapping.plans import TablePlan, Type
from loadsheet.mapping.schema import MappingSpec, Target
from loadsheet.mapping.yamlfile import Loc, YamlFile, read_part
from loadsheet.similar_text import closest_or_known, did_you_mean, short_list

_OPERATIONS: dict[str, tuple[Operation, ...]] = {operation.name: (operation,) for operation in WRITES} | {
    f"{subject}.upsert": (BY_NAME[f"{subject}.create"], BY_NAME[f"{subject}.update"]) for subject in ("order", "tender")
}
"""The operations behind the names that `target` may have."""


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """The `target` section: the operation's name, or the column that holds it. `operations` are the possible ones, as far as known."""

    name: str
    column: str | None
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """The record of one operation. `make` fills it as far as possible. `ordered` are the lists whose order is content, `declared_ordered`
    those of them with `ordered: true`. `times_of_run` are the fields that hold `$now` and nothing of a row, which are no content: else what
    comes again would be a change. `alternative` is the variant for a record that exists already.
    """

    operation: Operation
    make: Make
    check_record: Checker
    ordered: tuple[str, ...]
    declared_ordered: frozenset[str]
    times_of_run: frozenset[str]
    alternative: "Variant | None" = None


@dataclass(frozen=True, slots=True)
class Targets:
    """The variants by operation name. `chooser` is the index of the choosing column in the main table, None for a fixed operation. `fixed`
    is also used for a row whose operation cannot be read. `known` holds the values that the interface names for the fields to which a
    column is sent as it is, by table and column.
    """

    fixed: Variant
    chooser: int | None
    by_name: Mapping[str, Variant]
    operations: tuple[Operation, ...]
    lineage: Lineage
    known: Mapping[tuple[str, str], tuple[str, ...]]
    notes: tuple[str, ...]


def read_target(value: object, file: YamlFile) -> TargetPlan | None:
    """Read `target`; None with the finding if it is invalid. For a chosen operation, a placeholder is used until the columns are compiled."""
    loc: Loc = ("target",)
    if isinstance(value, dict):
        spec = read_part(Target, file, value, loc)
        return TargetPlan("", spec.col, (_most_like(file.values.get("payload")),)) if spec is not None else None
    if not isinstance(value, str):
        file.refuse(loc, f"target takes the name of an operation, found {'nothing' if value is None else value}")
        return None
    if value not in _OPERATIONS:
        file.refuse(loc, f'"{value}" is not an operation', closest_or_known(value, _OPERATIONS))
        return None
    return TargetPlan(value, None, _OPERATIONS[value])


def _most_like(payload: object) -> Operation:
    """The create operation whose record has most of the payload's fields. All operations that a column can choose have the same key."""
    fields = payload if isinstance(payload, dict) else {}
    creations = (BY_NAME["order.create"], BY_NAME["tender.create"])
    return max(creations, key=lambda operation: sum(operation.record.field(str(name)) is not None for name in fields))


def plan_targets(
    target: TargetPlan, spec: MappingSpec, context: PayloadContext, lookups: Mapping[str, Lookup]
) -> Targets | None:
    """The compiled variants, or None with the findings."""
    file = context.names.file
    main = context.names.tables[0]
    chosen = [target.name] if target.column is None else _chosen(target.column, main, lookups, file)
    if not chosen:
        return None
    names = sorted(dict.fromkeys(chosen), key=lambda name: SENDING_ORDER.index(_OPERATIONS[name][0].name))
    operations = sorted(
        {operation.name for name in names for operation in _OPERATIONS[name]}, key=list(SENDING_ORDER).index
    )
    for name in set(spec.payload_of).difference(operations):
        hint = closest_or_known(name, operations)
        file.refuse(("payload_of", name), f'"{name}" is not an operation of this mapping', hint, at_key=True)
    planner = _Variants(spec, context, operations)
    by_name = {name: planner.variant(name) for name in names}
    slot = main.shape.slots.get(target.column or "")
    return Targets(
        by_name[names[0]],
        slot.index if slot is not None else None,
        by_name,
        tuple(BY_NAME[name] for name in operations),
        planner.lineage,
        planner.known,
        tuple(dict.fromkeys(planner.notes)),
    )


def _chosen(column: str, main: TablePlan, lookups: Mapping[str, Lookup], file: YamlFile) -> list[str]:
    """The operation names that the choosing column can hold; empty, with the finding, if it is invalid."""
    loc: Loc = ("target", "col")
    slot = main.shape.slots.get(column)
    if slot is None or slot.index >= len(main.columns):
        known = [other.name for other in main.columns]
        file.refuse(loc, f'{main.name} has no column "{column}"', closest_or_known(column, known))
        return []
    spec = main.columns[slot.index].spec
    if slot.type is not Type.TEXT or slot.nullable:
        file.refuse(loc, f"{column} must be a text that is never blank", "set required: true or a default")
        return []
    values: list[str | None] = []
    if isinstance(spec.one_of, dict):
        values = list(spec.one_of.values())
    elif spec.lookup is not None and spec.lookup in lookups:
        values = [row[0] for row in lookups[spec.lookup].meanings]
    if not values:
        text = f"{column} needs one_of or a lookup that gives the operation"
        file.refuse(loc, text, "such as one_of: {C: order.create}")
        return []
    wrong = [value for value in values if value not in _OPERATIONS]
    for value in wrong:
        file.refuse(loc, f'{column} gives "{value}", which is not an operation', did_you_mean(str(value), _OPERATIONS))
    found = [value for value in values if value is not None and value not in wrong]
    kinds = {_OPERATIONS[value][0].subject for value in found}
    if len(kinds) > 1 or any(_OPERATIONS[value][0].repeatable for value in found if len(set(found)) > 1):
        file.refuse(loc, "a mapping handles either orders or tenders; events and quotes need separate mappings")
    return [] if wrong else found


class _Variants:
    """Compiles the variants of one mapping. The payload tree is checked against the first operation in full; the others skip fields that
    only the first has.
    """

    def __init__(self, spec: MappingSpec, context: PayloadContext, operations: list[str]) -> None:
        self.lineage: Lineage = {}
        self.known: dict[tuple[str, str], tuple[str, ...]] = {}
        self.notes: list[str] = []
        self._spec = spec
        self._around = context
        self._operations = [BY_NAME[name] for name in operations]
        self._variants: dict[str, Variant] = {}

    def variant(self, name: str) -> Variant:
        """The variant of an operation, or of both sides of an upsert."""
        operation, *others = _OPERATIONS[name]
        found = self._variant(operation)
        return replace(found, alternative=self._variant(others[0])) if others else found

    def _variant(self, operation: Operation) -> Variant:
        if operation.name not in self._variants:
            spec, loc = self._tree(operation)
            tree = _Tree(operation, self._around)
            nodes = tree.fields(spec, operation.record, None, "", loc)
            tree.check_constants(loc)
            tree.note_half_windows(spec, loc)
            for path, sources in tree.lineage.items():
                self.lineage[path] = tuple(dict.fromkeys((*self.lineage.get(path, ()), *sources)))
            self.known |= tree.known
            self.notes += tree.notes
            check_record, ordered = checker(operation, self._around.assumptions), (*tree.ordered, *tree.written_out)
            declared, times_of_run = frozenset(tree.ordered), frozenset(tree.times_of_run)
            self._variants[operation.name] = Variant(
                operation, _object(nodes), check_record, ordered, declared, times_of_run
            )
        return self._variants[operation.name]

    def _tree(self, operation: Operation) -> tuple[Mapping[str, Any], Loc]:
        own = self._spec.payload_of.get(operation.name)
        if own is not None:
            return own, ("payload_of", operation.name)
        tree = self._spec.payload
        sharing = [other for other in self._operations if other.name not in self._spec.payload_of]
        if len(sharing) > 1:
            known = {name for name in tree if any(other.record.field(name) is not None for other in sharing)}
            mine = {name for name in tree if operation.record.field(name) is not None}
            unknown = set(tree) - known if operation is sharing[0] else set()  # report it once
            tree = {name: value for name, value in tree.items() if name in mine | unknown}
        return tree, ("payload",)


# ---- the tree ----

_SAMPLE = datetime(2026, 10, 24, 13, 30, 59, tzinfo=UTC)


class _Node(NamedTuple):
    """A compiled field: its maker, and its value if it is constant."""

    name: str
    make: Make
    constant: Any = OMIT


class _Tree:
    """Walks tree and record together. `item` is the table that the surrounding list iterates over, None outside of lists."""

    def __init__(self, operation: Operation, context: PayloadContext) -> None:
        self.lineage: Lineage = {}
        self.known: dict[tuple[str, str], tuple[str, ...]] = {}
        self.notes: list[str] = []
        self.ordered: dict[str, None] = {}
        self.times_of_run: set[str] = set()
        self.written_out: dict[str, None] = {}
        self._operation = operation
        self._context = context
        self._file = context.names.file
        self._assumptions = context.assumptions
        self._fixed: dict[str, Any] = {}  # constants at the top of the record

    def fields(self, spec: Mapping[str, Any], record: Record, item: int | None, path: str, loc: Loc) -> list[_Node]:
        """The fields of one object."""
        fields: list[_Node] = []
        leaves: dict[str, Any] = {}
        given: set[str] = set()
        for name, value in spec.items():
            here = (*loc, name)
            found = self._field(name, record, here)
            if found is not None:
                given.add(found.name)
                spelling = self._assumptions.history_description  # the exchange accepts one of two spellings
                wire = spelling if spelling in found.spellings else found.name
                context = LeafContext(found, record, item, f"{path}.{wire}" if path else wire, self._context)
                node = self._node(wire, value, context, here)
                if node is not None:
                    fields.append(node)
                    leaves[node.name] = value
        check_units(leaves, item, self._context, loc)
        self._demand(given, record, loc)
        return fields

    def _field(self, name: str, record: Record, loc: Loc) -> Field | None:
        found = record.field(name)
        if found is None:
            options = [known.name for known in record.fields if known.when is not When.LISTED]
            hint = closest_or_known(name, options, 12)
            self._file.refuse(loc, f'{record.name} has no field "{name}"', hint, at_key=True)
            return None
        if found.when is When.LISTED and self._assumptions.listing_only_fields == "reject":
            hint = "set assumptions.listing_only_fields to accept if the exchange accepts it"
            self._file.refuse(loc, f"{name} exists in listings only, not in {self._operation.name}", hint, at_key=True)
            return None
        return found

    def _demand(self, given: set[str], record: Record, loc: Loc) -> None:
        creates = self._operation.creates
        for wanted in record.fields:
            if wanted.name not in given and wanted.is_required(creates=creates):
                where = ".".join(str(step) for step in loc)
                text = f"{where} lacks {wanted.name}, which {self._operation.name} requires"
                self._file.refuse(loc, text, at_key=True)

    def _node(self, name: str, value: Any, context: LeafContext, loc: Loc) -> _Node | None:
        found = context.field
        if found.kind is FieldKind.ARRAY and found.record is not None:
            array = self._array(value, found.record, context, loc)
            return _Node(name, array) if array else None
        if found.kind is FieldKind.OBJECT and found.record is not None:
            if not isinstance(value, dict):
                self._file.refuse(loc, f"{found.name} is an object", "write its fields below it")
                return None
            nodes = self.fields(value, found.record, context.item, context.path, loc)
            make = _object(nodes)
            return _Node(name, lambda frame: make(frame) or OMIT)
        leaf = plan_leaf(value, context, loc)
        if leaf is None:
            return None
        if value.get("format") is not None and found.kind in DATE_SHAPES:
            self._check_format(value["format"], found, (*loc, "format"))
        self.lineage[context.path] = leaf.sources
        if found.known and value.keys() <= {"col", "unless_blank", "default", "when"} and len(leaf.sources) == 1:
            table, column, *_, via = leaf.sources[0]
            if not via and value.get("col", "").rpartition(".")[2] == column:
                before = self.known.get((table, column), found.known)
                self.known[table, column] = tuple(one for one in before if one in found.known)
        if "$now" in str(value.get("expr")) and not leaf.sources and "when" not in value:
            self.times_of_run.add(context.path)
        if leaf.constant is not OMIT:
            self._note_constant(leaf.constant, found, context.path, loc)
        return _Node(name, leaf.make, leaf.constant if leaf.is_fixed else OMIT)

    def _check_format(self, format_: str, found: Field, loc: Loc) -> None:
        """Check that the field accepts what a format writes. Otherwise every record would be refused."""
        if not is_valid_date_text(found.kind, sample := _SAMPLE.strftime(format_)):
            text = f"{found.name} would be {sample}; it takes {KIND_DESCRIPTIONS[found.kind]}"
            self._file.refuse(loc, text, "remove format: a date is written in the form of the field")

    def _note_constant(self, constant: object, found: Field, path: str, loc: Loc) -> None:
        notes = list(notes_on_offset(constant, found, self._file))
        if constant == "" and found.when in (When.ALWAYS, When.ON_CREATE):
            notes.append(f"{path} is required and sent empty (assumptions.empty_required)")
        if found.known and constant not in found.known and self._assumptions.known_values == "open":
            notes.append(f'{path} is "{constant}"; the interface names {short_list(found.known)}')
        if notes:
            self.notes += [f"{self._file.place(loc)}: {note}" for note in notes]
        if "." not in path and "[" not in path:
            self._fixed[path] = constant

    def check_constants(self, loc: Loc) -> None:
        """Check the top-level constants against the contract once, instead of in each document."""
        for fault in checker(self._operation, self._assumptions)(self._fixed):
            if fault.path in self._fixed:
                self._file.refuse((*loc, fault.path), f'"{self._fixed[fault.path]}": {fault.path} {fault.text}')

    def note_half_windows(self, spec: Mapping[str, Any], loc: Loc) -> None:
        """Note each end of a window that a change sends without the other one."""
        for name in spec if self._operation.action is Action.UPDATE else ():
            if (other := other_end(name)) and other not in spec:
                place = self._file.place((*loc, name))
                self.notes.append(f"{place}: {name} without {other}: the exchange keeps the old one")

    # ---- lists ----

    def _array(self, value: Any, record: Record, context: LeafContext, loc: Loc) -> Make | None:
        if isinstance(value, dict) and set(value) == {"value"} and value["value"] == []:
            self.lineage[context.path] = ()
            return lambda _: []
        if isinstance(value, dict) and set(value) - {"ordered"} == {"each", "item"} and isinstance(value["item"], dict):
            if not isinstance(value.get("ordered", False), bool):
                self._file.refuse((*loc, "ordered"), "ordered takes true or false")
            elif value.get("ordered"):
                self.ordered[context.path] = None
            return self._each(value, record, context, loc)
        if isinstance(value, dict) and set(value) == {"list"} and isinstance(value["list"], list):
            return self._written_out(value["list"], record, context, (*loc, "list"))
        hint = "write {each: TABLE, item: {...}}, {list: [{...}]} or {value: []}"
        self._file.refuse(loc, f"{context.path} is a list", hint)
        return None

    def _each(self, value: dict[str, Any], record: Record, context: LeafContext, loc: Loc) -> Make | None:
        outer = self._context
        names = outer.names
        position = names.list_position(str(value["each"]))
        if position is None:
            hint = closest_or_known(str(value["each"]), names.list_names())
            self._file.refuse((*loc, "each"), f'there is no table "{value["each"]}"', hint)
            return None
        if context.item is not None and (position == context.item or names.tables[position].belongs_to != context.item):
            to = names.tables[context.item].name
            hint = f"join {names.tables[position].name} to {to}, or write the entries out under list:"
            self._file.refuse((*loc, "each"), f"its rows do not belong to the rows of {to}", hint)
            return None
        if context.item is not None:  # a list inside the list
            self._context = replace(outer, names=names.inside(context.item))
        nodes = self.fields(value["item"], record, position, f"{context.path}[]", (*loc, "item"))
        self._context = outer
        if context.item is not None:
            return _each_inner_row(_object(nodes), position, context.path)
        return _each_row(_object(nodes), position, names.children(position))

    def _written_out(self, entries: list[Any], record: Record, context: LeafContext, loc: Loc) -> Make:
        item, path = context.item, context.path
        self.written_out[path] = None
        made: list[tuple[Make, Condition | None]] = []
        for number, entry in enumerate(entries):
            here = (*loc, number)
            if not isinstance(entry, dict):
                self._file.refuse(here, "an entry of a list must be a mapping of fields to values")
                continue
            fields = {name: value for name, value in entry.items() if name != "when"}
            before = set(self.lineage)
            nodes = self.fields(fields, record, item, f"{path}[]", here)
            for inner in [inner for inner in self.lineage if inner not in before and inner.startswith(f"{path}[]")]:
                # each entry keeps its own sources
                self.lineage[f"{path}[{number}]{inner.removeprefix(f'{path}[]')}"] = self.lineage.pop(inner)
            condition = None
            if (when := entry.get("when")) is not None:
                condition = context.payload.names.condition_at(str(when), item, path, (*here, "when"))
            made.append((_object(nodes), condition))
        return _entries(made, path)


# ---- makers ----


def _object(fields: Sequence[_Node]) -> Make:
    """Copy the constants, then fill in the rest, in the order of the mapping."""
    template = {node.name: node.constant for node in fields}
    filled = tuple((node.name, node.make) for node in fields if node.constant is OMIT)

    def make(frame: DocumentFrame) -> dict[str, Any]:
        record = template.copy()
        for name, make_value in filled:
            value = make_value(frame)
            if value is OMIT:
                del record[name]
            else:
                record[name] = value
        return record

    return make


def _each_row(make: Make, position: int, children: tuple[int, ...]) -> Make:
    """One item for each row of a table. Inside an item, child tables are limited to the rows of that row."""

    def made(frame: DocumentFrame) -> Any:
        row, row_refused, everything = frame.row, frame.row_refused, frame.lists
        items = []
        frame.at.append(0)
        for index, values in enumerate(everything[position]):
            frame.row, frame.at[-1] = values, index
            if children:
                frame.outer_index = index
                frame.lists = everything
                frame.narrow(children, index)
            if frame.all_refused:
                frame.row_refused = frame.rows_refused[position][index]
            items.append(make(frame))
        frame.at.pop()
        frame.row, frame.row_refused, frame.lists = row, row_refused, everything
        return items or OMIT

    return made


def _each_inner_row(make: Make, position: int, path: str) -> Make:
    """One item for each child row of the row of the surrounding list."""

    def made(frame: DocumentFrame) -> Any:
        row, row_refused, outer, outer_refused = frame.row, frame.row_refused, frame.outer, frame.outer_refused
        among, items = frame.nested[position][frame.outer_index], []
        if among:
            frame.inner_rows[with_positions(path, frame.at)] = tuple(among)
        frame.outer, frame.outer_refused = row, row_refused
        frame.at.append(0)
        for place, (index, values) in enumerate(zip(among, frame.lists[position], strict=True)):
            frame.row, frame.at[-1] = values, place
            if frame.all_refused:
                frame.row_refused = frame.rows_refused[position][index]
            items.append(make(frame))
        frame.at.pop()
        frame.row, frame.row_refused, frame.outer, frame.outer_refused = row, row_refused, outer, outer_refused
        return items or OMIT

    return made


def _entries(entries: Sequence[tuple[Make, Condition | None]], path: str) -> Make:
    """The explicit entries of a list."""

    def made(frame: DocumentFrame) -> Any:
        items: list[Any] = []
        kept: list[int] = []
        here = with_positions(path, frame.at)
        frame.at.append(0)
        for number, (make, condition) in enumerate(entries):
            frame.at[-1] = len(items)
            value = make(frame) if condition is None or condition.holds(frame) else None
            if value:
                items.append(value)
                kept.append(number)
        frame.at.pop()
        if items and len(kept) < len(entries):
            frame.present[here] = tuple(kept)
        return items or OMIT

    return made

"""The payload tree of a mapping, compiled against the record it fills.

Owns: objects, lists (`each` row, or entries written out under `list`), which fields exist, which are required, and the lineage of
every path. Field names come from the contract only. Empty lists and objects are left out. An array that must be
sent empty is written `{value: []}`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from loadsheet.contract import (
    DATE_SHAPES,
    EXPECTED,
    Field,
    Kind,
    Operation,
    Record,
    When,
    check,
    in_date_shape,
    unit_field,
)
from loadsheet.mapping.documents import Lineage, in_order, list_of
from loadsheet.mapping.leaves import (
    OMIT,
    Condition,
    Copied,
    LeafContext,
    Make,
    PayloadContext,
    concrete,
    constant_at,
    plan_condition,
    plan_leaf,
)
from loadsheet.mapping.names import Draft
from loadsheet.mapping.words import closest_or_known, factor, some, unit_named
from loadsheet.mapping.yamlfile import Loc

_SAMPLE = datetime(2026, 10, 24, 13, 30, 59, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PayloadPlan:
    """The compiled payload: `make` fills a record as far as possible; `notes` are lines for the author. `ordered` are the lists with
    `ordered: true`, `written_out` those with explicit entries, and `declared` is `ordered` in the form of `Document.items`
    (see `documents.in_order`).
    """

    make: Make
    lineage: Lineage
    notes: tuple[str, ...]
    ordered: tuple[str, ...] = ()
    written_out: tuple[str, ...] = ()
    declared: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def plan_payload(spec: Mapping[str, Any], loc: Loc, operation: Operation, context: PayloadContext) -> PayloadPlan:
    """Compile the tree at `loc`. Errors become findings of the file."""
    planner = _Planner(operation, context)
    nodes = planner.fields(spec, operation.record, None, "", loc)
    planner.check_constants(loc)
    return PayloadPlan(
        _object(nodes),
        planner.lineage,
        tuple(planner.notes),
        tuple(planner.ordered),
        tuple(planner.written_out),
        in_order(planner.ordered),
    )


class _Node(NamedTuple):
    """A compiled field: its maker, its value if it is constant, and the value of the current row that it copies, if any."""

    name: str
    make: Make
    constant: Any = OMIT
    copied: Copied | None = None


class _Planner:
    """Walks tree and record together. `item` is the table that the surrounding list iterates over, None outside of lists."""

    def __init__(self, operation: Operation, context: PayloadContext) -> None:
        self.lineage: Lineage = {}
        self.notes: list[str] = []
        self.ordered: dict[str, None] = {}
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
                wire = self._wire(found)
                context = LeafContext(found, record, item, f"{path}.{wire}" if path else wire, self._context)
                node = self._node(wire, value, context, here)
                if node is not None:
                    fields.append(node)
                    leaves[node.name] = value
        self._check_units(leaves, item, loc)
        self._demand(given, record, loc)
        return fields

    def _check_units(self, leaves: Mapping[str, Any], item: int | None, loc: Loc) -> None:
        """Check quantities whose unit field is a constant: the column must have that unit. Calculated quantities and units in columns are
        only known when rows are read.
        """
        extra = (self._file.values or {}).get("source", {}).get("units") or {}
        for name, leaf in leaves.items():
            if not isinstance(leaf, Mapping) or not isinstance(leaf.get("col"), str):
                continue
            other_field = unit_field(name)
            stated = self._stated(leaves.get(other_field))
            if not isinstance(stated, str):
                continue
            found = self._context.names.column(leaf["col"], item, (*loc, name, "col"))
            column = found and next((plan for plan in found[0].columns if plan.name == found[1]), None)
            if not column or column.spec.type != "quantity" or column.spec.unit is None:
                continue
            unit = column.spec.unit
            try:
                times = factor(unit_named(unit, extra), unit_named(stated, extra))
            except ValueError:  # a unit of the exchange's own that cannot be compared
                continue
            if times != 1:
                brought = f"set unit: {stated.lower()} on the column {column.name} to convert it"
                hint = brought if times is not None else "they measure different things"
                self._file.refuse((*loc, name), f"{name} is in {unit}, but {other_field} is {stated}", hint)

    def _stated(self, leaf: object) -> object:
        """The value of a constant leaf; None for any other leaf."""
        if not isinstance(leaf, Mapping):
            return None
        return constant_at(self._context.constants, str(leaf["const"])) if "const" in leaf else leaf.get("value")

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

    def _wire(self, found: Field) -> str:
        """The name as sent. The assumptions choose between two spellings."""
        chosen = self._assumptions.history_description
        return chosen if chosen in found.spellings else found.name

    def _demand(self, given: set[str], record: Record, loc: Loc) -> None:
        creates = self._operation.creates
        for wanted in record.fields:
            needed = wanted.when is When.ALWAYS or (wanted.when is When.ON_CREATE and creates)
            if needed and wanted.name not in given:
                where = ".".join(str(step) for step in loc)
                self._file.refuse(
                    loc, f"{where} lacks {wanted.name}, which {self._operation.name} requires", at_key=True
                )

    def _node(self, name: str, value: Any, context: LeafContext, loc: Loc) -> _Node | None:
        found = context.field
        if found.kind is Kind.ARRAY and found.record is not None:
            array = self._array(value, found.record, context, loc)
            return _Node(name, array) if array else None
        if found.kind is Kind.OBJECT and found.record is not None:
            if not isinstance(value, dict):
                self._file.refuse(loc, f"{found.name} is an object", "write its fields below it")
                return None
            nodes = self.fields(value, found.record, context.item, context.path, loc)
            return _Node(name, _or_nothing(_object(nodes)))
        leaf = plan_leaf(value, context, loc)
        if leaf is None:
            return None
        if value.get("format") is not None and found.kind in DATE_SHAPES:
            self._check_format(value["format"], found, (*loc, "format"))
        self.lineage[context.path] = leaf.sources
        if leaf.constant is not OMIT:
            self._note_constant(leaf.constant, found, context.path, loc)
        return _Node(name, leaf.make, leaf.constant if leaf.is_fixed else OMIT, leaf.copied)

    def _check_format(self, format_: str, found: Field, loc: Loc) -> None:
        """Check that the field accepts what a format writes. Otherwise every record would be refused."""
        sample = _SAMPLE.strftime(format_)
        if not in_date_shape(found.kind, sample):
            text = f"{found.name} would be {sample}; it takes {EXPECTED[found.kind]}"
            self._file.refuse(loc, text, "remove format: a date is written in the form of the field")

    def _note_constant(self, constant: object, found: Field, path: str, loc: Loc) -> None:
        line = self._file.marks.get(loc, (0, 0))[0]
        if constant == "" and found.when in (When.ALWAYS, When.ON_CREATE):
            self.notes.append(f"line {line}: {path} is required and sent empty (assumptions.empty_required)")
        if found.known and constant not in found.known and self._assumptions.known_values == "open":
            self.notes.append(f'line {line}: {path} is "{constant}"; the interface names {some(found.known)}')
        if "." not in path and "[" not in path:
            self._fixed[path] = constant

    def check_constants(self, loc: Loc) -> None:
        """Check the top-level constants against the contract once, instead of in each document."""
        for fault in check(self._operation, self._fixed, self._assumptions):
            if fault.path in self._fixed:
                self._file.refuse((*loc, fault.path), f'"{self._fixed[fault.path]}": {fault.path} {fault.text}')

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
        self._file.refuse(
            loc, f"{context.path} is a list", "write {each: TABLE, item: {...}}, {list: [{...}]} or {value: []}"
        )
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
            self._number_entry(before, f"{path}[]", number)
            when = entry.get("when")
            condition = plan_condition(str(when), context, (*here, "when")) if when is not None else None
            made.append((_object(nodes), condition))
        return _entries(made, path)

    def _number_entry(self, before: set[str], pattern: str, number: int) -> None:
        """Put the entry's number into its paths, so that each entry keeps its own sources."""
        for path in [path for path in self.lineage if path not in before and path.startswith(pattern)]:
            self.lineage[f"{pattern[:-2]}[{number}]{path[len(pattern) :]}"] = self.lineage.pop(path)


# ---- makers ----


def _object(fields: Sequence[_Node]) -> Make:
    """Copy the constants and the values of the current row, then fill in the rest, in the order of the mapping."""
    template = {node.name: node.constant for node in fields}
    copied = tuple((node.name, *node.copied) for node in fields if node.copied is not None)
    filled = tuple((node.name, node.make) for node in fields if node.constant is OMIT and node.copied is None)

    def make(draft: Draft) -> dict[str, Any]:
        record = template.copy()
        row = draft.row
        for name, index, default in copied:
            value = row[index]
            if value is None:
                value = default
            if value is OMIT:
                del record[name]
            else:
                record[name] = value
        for name, make_value in filled:
            value = make_value(draft)
            if value is OMIT:
                del record[name]
            else:
                record[name] = value
        return record

    return make


def _or_nothing(make: Make) -> Make:
    return lambda draft: make(draft) or OMIT


def _each_row(make: Make, position: int, children: tuple[int, ...]) -> Make:
    """One item for each row of a table. Inside an item, child tables are limited to the rows of that row."""

    def made(draft: Draft) -> Any:
        row, row_refused, everything = draft.row, draft.row_refused, draft.lists
        items = []
        draft.at.append(0)
        for index, values in enumerate(everything[position]):
            draft.row, draft.at[-1] = values, index
            if children:
                draft.outer_index = index
                draft.lists = everything
                draft.narrow(children, index)
            if draft.all_refused:
                draft.row_refused = draft.rows_refused[position][index]
            items.append(make(draft))
        draft.at.pop()
        draft.row, draft.row_refused, draft.lists = row, row_refused, everything
        return items or OMIT

    return made


def _each_inner_row(make: Make, position: int, path: str) -> Make:
    """One item for each child row of the row of the surrounding list."""

    def made(draft: Draft) -> Any:
        row, row_refused, outer, outer_refused = draft.row, draft.row_refused, draft.outer, draft.outer_refused
        among, items = draft.nested[position][draft.outer_index], []
        if among:
            draft.items[list_of(concrete(path, draft.at))] = tuple(among)
        draft.outer, draft.outer_refused = row, row_refused
        draft.at.append(0)
        for place, (index, values) in enumerate(zip(among, draft.lists[position], strict=True)):
            draft.row, draft.at[-1] = values, place
            if draft.all_refused:
                draft.row_refused = draft.rows_refused[position][index]
            items.append(make(draft))
        draft.at.pop()
        draft.row, draft.row_refused, draft.outer, draft.outer_refused = row, row_refused, outer, outer_refused
        return items or OMIT

    return made


def _entries(entries: Sequence[tuple[Make, Condition | None]], path: str) -> Make:
    """The explicit entries of a list."""

    def made(draft: Draft) -> Any:
        items: list[Any] = []
        kept: list[int] = []
        here = concrete(path, draft.at)
        draft.at.append(0)
        for number, (make, condition) in enumerate(entries):
            draft.at[-1] = len(items)
            value = make(draft) if condition is None or condition.holds(draft) else None
            if value:
                items.append(value)
                kept.append(number)
        draft.at.pop()
        if items and len(kept) < len(entries):
            draft.items[here] = tuple(kept)
        return items or OMIT

    return made

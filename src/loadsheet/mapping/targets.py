"""The operation of a record: fixed by the mapping, or chosen by a column. With its payload and its contract check.

Handles `target` and `payload_of`. One payload tree serves several operations: each operation takes the fields that its record has.
`order.upsert` creates an order or, if the ledger knows it, updates it: both payloads are made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from loadsheet.contract import BY_NAME, SENDING_ORDER, WRITES, Checker, Operation, checker
from loadsheet.mapping.documents import Lineage
from loadsheet.mapping.leaves import PayloadContext
from loadsheet.mapping.payload import PayloadPlan, plan_payload
from loadsheet.mapping.plans import TablePlan, Type
from loadsheet.mapping.schema import MappingSpec, Target
from loadsheet.mapping.texts import Lookup
from loadsheet.mapping.words import closest_or_known, did_you_mean
from loadsheet.mapping.yamlfile import Loc, YamlFile, read_part

_UPSERT = ".upsert"
_NAMES = (*(operation.name for operation in WRITES), "order.upsert", "tender.upsert")


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """The `target` section: the operation's name, or the column that holds it. `operations` are the possible ones, as far as known."""

    name: str
    column: str | None
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """The record of one operation. `ordered` the lists whose order is content, `instead` the variant for a
    record that exists already.
    """

    operation: Operation
    payload: PayloadPlan
    check_record: Checker
    ordered: tuple[str, ...] = ()
    instead: "Variant | None" = None


@dataclass(frozen=True, slots=True)
class Targets:
    """The variants by operation name. `chooser` is the index of the choosing column in the main table, None for a fixed operation. `fixed`
    is also used for a row whose operation cannot be read.
    """

    fixed: Variant
    chooser: int | None
    by_name: Mapping[str, Variant]
    operations: tuple[Operation, ...]
    lineage: Lineage
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
    operations = _operations(value)
    if not operations:
        hint = closest_or_known(value, _NAMES)
        file.refuse(loc, f'"{value}" is not an operation', hint)
        return None
    return TargetPlan(value, None, operations)


def _most_like(payload: object) -> Operation:
    """The create operation whose record has most of the payload's fields. All operations that a column can choose have the same key."""
    fields = payload if isinstance(payload, dict) else {}
    creations = [_operations(name)[0] for name in _NAMES if name.endswith(_UPSERT)]
    return max(creations, key=lambda operation: sum(operation.record.field(str(name)) is not None for name in fields))


def _operations(name: str) -> tuple[Operation, ...]:
    """The operations behind a name: two for an upsert, none for an unknown name."""
    if name in _NAMES and name.endswith(_UPSERT):
        subject = name.removesuffix(_UPSERT)
        return BY_NAME[f"{subject}.create"], BY_NAME[f"{subject}.update"]
    return (BY_NAME[name],) if name in _NAMES else ()


def plan_targets(
    target: TargetPlan, spec: MappingSpec, context: PayloadContext, lookups: Mapping[str, Lookup]
) -> Targets | None:
    """The compiled variants, or None with the findings."""
    file = context.names.file
    main = context.names.tables[0]
    chosen = [target.name] if target.column is None else _chosen(target.column, main, lookups, file)
    if not chosen:
        return None
    names = sorted(dict.fromkeys(chosen), key=lambda name: SENDING_ORDER.index(_operations(name)[0].name))
    operations = sorted(
        {operation.name for name in names for operation in _operations(name)}, key=list(SENDING_ORDER).index
    )
    _check_trees(spec, operations, file)
    planner = _Planner(spec, context, operations)
    by_name = {name: planner.variant(name) for name in names}
    slot = main.shape.slots.get(target.column or "")
    return Targets(
        by_name[names[0]],
        slot.index if slot is not None else None,
        by_name,
        tuple(BY_NAME[name] for name in operations),
        planner.lineage,
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
    if slot.type is not Type.TEXT or slot.blank:
        file.refuse(loc, f"{column} must be a text that is never blank", "set required: true or a default")
        return []
    values: list[str | None] = []
    if isinstance(spec.one_of, dict):
        values = list(spec.one_of.values())
    elif spec.lookup is not None and spec.lookup in lookups:
        values = [row[0] for row in lookups[spec.lookup].meanings]
    if not values:
        file.refuse(
            loc, f"{column} needs one_of or a lookup that gives the operation", "such as one_of: {C: order.create}"
        )
        return []
    wrong = [value for value in values if not _operations(value or "")]
    for value in wrong:
        file.refuse(loc, f'{column} gives "{value}", which is not an operation', did_you_mean(str(value), _NAMES))
    found = [value for value in values if value is not None and value not in wrong]
    kinds = {_operations(value)[0].subject for value in found}
    if len(kinds) > 1 or any(_operations(value)[0].repeatable for value in found if len(set(found)) > 1):
        file.refuse(loc, "a mapping handles either orders or tenders; events and quotes need separate mappings")
    return [] if wrong else found


def _check_trees(spec: MappingSpec, operations: list[str], file: YamlFile) -> None:
    for name in spec.payload_of:
        if name not in operations:
            hint = closest_or_known(name, operations)
            file.refuse(("payload_of", name), f'"{name}" is not an operation of this mapping', hint, at_key=True)


class _Planner:
    """Compiles the variants of one mapping. The payload tree is checked against the first operation in full; the others skip fields that
    only the first has.
    """

    def __init__(self, spec: MappingSpec, context: PayloadContext, operations: list[str]) -> None:
        self.lineage: Lineage = {}
        self.notes: list[str] = []
        self._spec = spec
        self._around = context
        self._operations = [BY_NAME[name] for name in operations]
        self._variants: dict[str, Variant] = {}

    def variant(self, name: str) -> Variant:
        """The variant of an operation, or of both sides of an upsert."""
        operation, *others = _operations(name)
        found = self._variant(operation)
        return replace(found, instead=self._variant(others[0])) if others else found

    def _variant(self, operation: Operation) -> Variant:
        if operation.name not in self._variants:
            plan = plan_payload(*self._tree(operation), operation, self._around)
            for path, sources in plan.lineage.items():
                self.lineage[path] = tuple(dict.fromkeys((*self.lineage.get(path, ()), *sources)))
            self.notes += plan.notes
            self._variants[operation.name] = Variant(
                operation, plan, checker(operation, self._around.assumptions), (*plan.ordered, *plan.written_out)
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

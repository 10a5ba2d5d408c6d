"""The tables of a mapping, compiled: columns, derived values, keys, joins, sorting and the rule for rows to leave out.

The main table has no join. The key of a record consists of the first of these that exist: the columns of `group.by`, of the join, those
that fill the record's key, those marked `key: true`. Knows nothing else of the payload.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadsheet.contract import Operation
from loadsheet.mapping.conversion import Conventions, plan_column
from loadsheet.mapping.plans import (
    ColumnPlan,
    DerivedPlan,
    Expression,
    ExpressionError,
    FinishPlan,
    Scope,
    Shape,
    Slot,
    TablePlan,
    Type,
)
from loadsheet.mapping.schema import Column, Derived, Join, MappingSpec, TableSpec
from loadsheet.mapping.sourcing import Sourcing, whole_and_parts
from loadsheet.mapping.targets import TargetPlan
from loadsheet.mapping.words import closest_or_known, did_you_mean, some
from loadsheet.mapping.yamlfile import Loc, YamlFile, read_part

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset({"and", "or", "not", "in", "for", "if", "null", "true", "false", "inf", "nan"})
_DERIVED_TYPES = {
    "text": Type.TEXT,
    "decimal": Type.NUMBER,
    "datetime": Type.MOMENT,
    "time": Type.SPAN,
    "yesno": Type.FLAG,
}


def plan_tables(
    spec: MappingSpec, conventions: Conventions, target: TargetPlan | None, file: YamlFile
) -> tuple[TablePlan, ...] | None:
    """The compiled tables, the main one first, or None with the findings."""
    operation = target.operations[0] if target is not None else None
    planner = _Planner(spec, conventions, file, chooser=target.column if target is not None else None)
    order = planner.table_order()
    if order is None:
        return None
    tables = [planner.table(name, position, len(order)) for position, name in enumerate(order)]
    known = [table for table in tables if table is not None]
    if len(known) < len(order):
        return None
    by_name: dict[str, TablePlan] = {}
    for table in sorted(known, key=planner.depth):
        by_name[table.name] = planner.with_keys(table, by_name.get(known[0].name, table), by_name, operation)
    return tuple(by_name[table.name] for table in known)


class _Planner:
    """Compiles the tables of one mapping."""

    def __init__(self, spec: MappingSpec, conventions: Conventions, file: YamlFile, *, chooser: str | None) -> None:
        """`chooser` is the column that chooses the operation."""
        self._chooser = chooser
        self._sourcing = Sourcing(spec, file, self._expression)
        self._order: list[str] = []
        self._spec = spec
        self._conventions = conventions
        self._file = file

    def table_order(self) -> list[str] | None:
        """The tables' names, the main one first; None if the main table is not clear."""
        specs, loc = self._spec.source.tables, ("source", "tables")
        for name in specs:
            self._check_name(name, (*loc, name))
        mains = [name for name, spec in specs.items() if spec.join is None and spec.from_ is None]
        if len(mains) != 1:
            problem = "every table is joined to another" if not mains else f"{some(mains)} have no join"
            self._file.refuse(loc, f"exactly one table must be the main table, without a join; {problem}", at_key=True)
            return None
        if not self._sourcing.check_tables(mains[0]):
            return None
        if not all(self._check_join(name, mains[0]) for name in specs):
            return None
        self._order = [*mains, *(name for name in specs if name != mains[0])]
        return self._order

    def _check_join(self, name: str, main: str) -> bool:
        """Whether a table is joined to the main table, or to one that is."""
        specs = self._spec.source.tables
        join = specs[name].join
        if join is None or join.to == main:
            return True
        to = specs.get(join.to)
        if join.to != name and to is not None and to.join is not None and to.join.to == main:
            return True
        near = [
            other for other, spec in specs.items() if other != name and spec.join is not None and spec.join.to == main
        ]
        known = [main, *near]
        hint = did_you_mean(join.to, known) if join.to not in specs else ""
        self._file.refuse(
            ("source", "tables", name, "join", "to"),
            f'join to the main table or to a table joined to it, not to "{join.to}"',
            hint or f"known: {some(known)}",
        )
        return False

    def depth(self, table: TablePlan) -> int:
        """How far a table is from the main one, by its joins."""
        join = self._spec.source.tables[table.name].join
        return 0 if not table.position else 1 if join is None or join.to == self._order[0] else 2

    def table(self, name: str, position: int, tables: int) -> TablePlan | None:
        """One table without its keys."""
        columns_spec, loc = self._section(self._spec.columns, "columns", name, tables)
        columns = self._columns(columns_spec, loc)
        if columns is None:
            return None
        if any(column.spec.part_of is not None for column in columns):
            columns = whole_and_parts(columns, self._file, loc)
        slots = {column.name: column.slot for column in columns}
        derived = self._derived(name, slots, tables)
        shape = Shape(name, slots, self._conventions.fold)
        zone = slots.get((self._conventions.zone_column or "").removeprefix(f"{name}."))
        plan = TablePlan(
            name, position, tuple(columns), derived, self._finishes(columns, shape, loc), shape,
            zone=zone.index if zone is not None else None, default_zone=self._conventions.zone, fold=self._conventions.fold,
        )  # fmt: skip
        self._check_zone(position, plan)
        plan = self._sourcing.sourced(plan, self._order, loc)
        return self._with_ignore(plan, self._spec.source.tables[name])

    def _section(self, section: Mapping[str, Any], title: str, name: str, tables: int) -> tuple[Any, Loc]:
        """The entries of a table and their place: directly under the section for one table, under the table's name for several."""
        if tables > 1 or (list(section) == [name] and not _is_column(section[name])):
            return section.get(name), (title, name)
        return section, (title,)

    def _check_name(self, name: str, loc: Loc) -> None:
        if _NAME.fullmatch(name) is None or name in _RESERVED:
            problem = (
                "is a word of the expression language" if name in _RESERVED else "may hold letters, digits and _ only"
            )
            self._file.refuse(loc, f'the name "{name}" {problem}', at_key=True)

    def _columns(self, section: Any, loc: Loc) -> list[ColumnPlan] | None:
        if not isinstance(section, dict) or not section:
            tables = some(self._spec.source.tables)
            self._file.refuse(loc, f"columns must be given for each of the tables {tables}", at_key=True)
            return None
        found = []
        for index, (name, value) in enumerate(section.items()):
            here = (*loc, name)
            self._check_name(name, here)
            spec = read_part(Column, self._file, value, here)
            plan = None
            if spec is not None:
                self._check_bounds(spec, here)
                plan = plan_column(spec, index, self._conventions, self._file, here)
            found.append(plan)
        whole = [plan for plan in found if plan is not None]
        return whole if len(whole) == len(found) else None

    def _check_bounds(self, spec: Column, loc: Loc) -> None:
        """Checks that each minimum is not above its maximum."""
        for least, most in (("min", "max"), ("min_length", "max_length")):
            low, high = getattr(spec, least), getattr(spec, most)
            if low is not None and high is not None and low > high:
                self._file.refuse((*loc, most), f"{most}: {high} is less than {least}: {low}", "no value fits")

    def _derived(self, table: str, slots: dict[str, Slot], tables: int) -> tuple[DerivedPlan, ...]:
        """The derived values of a table in the order they are written; each may use those before it. Adds their slots."""
        section, loc = self._section(self._spec.derived, "derived", table, tables)
        found = []
        for name, value in (section or {}).items():
            here = (*loc, name)
            self._check_name(name, here)
            spec = read_part(Derived, self._file, value, here)
            expression = (
                self._expression(spec.expr, Shape(table, dict(slots), self._conventions.fold), (*here, "expr"))
                if spec
                else None
            )
            if name in slots:
                self._file.refuse(here, f'there is already a column "{name}"', at_key=True)
            if spec is None or expression is None:
                slots[name] = Slot(len(slots), Type.ANY, blank=True)
                continue
            wanted = _DERIVED_TYPES[spec.type]
            if expression.type not in (wanted, Type.ANY):
                self._file.refuse((*here, "type"), f"{name} is {expression.type.value}, not {wanted.value}")
            index = len(slots)
            needs = frozenset(slots[use.column].index for use in expression.uses if use.column in slots)
            slots[name] = Slot(index, wanted, expression.blank)
            found.append(DerivedPlan(name, index, expression, needs))
        return tuple(found)

    def _expression(self, text: str, shape: Shape, loc: Loc) -> Expression | None:
        from loadsheet.mapping.expressions import compile_expression

        try:
            return compile_expression(text, Scope(shape))
        except ExpressionError as error:
            self._file.refuse(loc, error.text, error.hint)
            return None

    def _finishes(self, columns: Sequence[ColumnPlan], shape: Shape, loc: Loc) -> tuple[FinishPlan, ...]:
        found = []
        for column in columns:
            if column.finish is None:
                continue
            when, needs = None, frozenset[int]()
            if column.finish.when:
                when = self._expression(column.finish.when, shape, (*loc, column.name, "pad_left", "when"))
                if when is None:
                    continue
                needs = frozenset(shape.slots[use.column].index for use in when.uses)
            others = self._keys_beside(column, columns, (*loc, column.name, "lookup_with"))
            found.append(FinishPlan(column, when, needs, others))
        return tuple(found)

    def _keys_beside(self, column: ColumnPlan, columns: Sequence[ColumnPlan], loc: Loc) -> tuple[int, ...]:
        """The indexes of the columns with the further keys of a code table. They must be texts and known before the column."""
        known = {other.name: other for other in columns if other is not column}
        found = []
        for number, name in enumerate(column.finish.others if column.finish is not None else ()):
            other = known.get(name)
            if other is None:
                hint = closest_or_known(name, known)
                self._file.refuse((*loc, number), f'there is no other column "{name}" here', hint)
            elif other.slot.type is not Type.TEXT:
                self._file.refuse((*loc, number), f"{name} is {other.slot.type.value}; a key of a code table is a text")
            elif other.finish is not None and other.slot.index > column.slot.index:
                self._file.refuse((*loc, number), f"{name} uses a code table itself: move it above {column.name}")
            else:
                found.append(other.slot.index)
        return tuple(found)

    def _check_zone(self, position: int, plan: TablePlan) -> None:
        column = self._conventions.zone_column
        if column is None:
            return
        loc = ("source", "timezone", "col")
        if plan.zone is not None and plan.columns[plan.zone].spec.type != "timezone":
            self._file.refuse(loc, f"the column {column} must be of type timezone")
        if plan.zone is None and position == 0 and column.split(".")[0] in (column, plan.name):
            self._file.refuse(loc, f'{plan.name} has no column "{column}"', did_you_mean(column, plan.shape.slots))

    def _with_ignore(self, plan: TablePlan, spec: TableSpec) -> TablePlan:
        if spec.ignore_rows is None:
            return plan
        columns = {name: slot for name, slot in plan.shape.slots.items() if slot.index < len(plan.columns)}
        loc = ("source", "tables", plan.name, "ignore_rows")
        rule = self._expression(spec.ignore_rows, Shape(plan.name, columns, self._conventions.fold), loc)
        if rule is None:
            return plan
        needs = tuple(sorted(columns[use.column].index for use in rule.uses))
        return replace(plan, ignore=rule, ignore_needs=needs)

    # ---- keys ----

    def with_keys(
        self, table: TablePlan, main: TablePlan, known: Mapping[str, TablePlan], operation: Operation | None
    ) -> TablePlan:
        """The table with the columns that link its rows to a record. `known` are the tables nearer to the main one."""
        if table.position == 0:
            key = self._main_key(main, operation)
            naming = self._naming(main, operation) if operation is not None else []
            naming = naming or (self._calculating(main, operation) if operation is not None else [])
            fills_by = tuple(main.shape.slots[name].index for name in naming)
            return replace(table, key=key, fills_by=fills_by, order=self._sorting(main))
        join = self._spec.source.tables[table.name].join
        theirs = self._join_columns()
        if join is None or not theirs:
            return table
        loc = ("source", "tables", table.name, "join", "on")
        if join.to != main.name:
            return self._with_inner_key(table, known[join.to], join, loc)
        if set(join.on.values()) != set(theirs):
            self._file.refuse(
                loc, f"the columns of {main.name} must be {some(theirs)}, as in the other joins and in group.by"
            )
            return table
        by_theirs = {there: here for here, there in join.on.items()}
        return replace(table, key=tuple(self._indexes(table, [by_theirs[name] for name in theirs], loc)))

    def _with_inner_key(self, table: TablePlan, to: TablePlan, join: Join, loc: Loc) -> TablePlan:
        """The key of a table that is joined to a joined one. It must include the record's key."""
        wanted = [to.columns[index].name for index in to.key]
        by_theirs = {there: here for here, there in join.on.items()}
        missing = [name for name in wanted if name not in by_theirs]
        self._indexes(to, list(join.on.values()), loc)
        if missing:
            self._file.refuse(loc, f"the join must include the record's key: {some(missing)} of {to.name}")
            return table
        self._indexes(table, list(join.on), loc)
        return replace(table, key=tuple(self._indexes(table, [by_theirs[name] for name in wanted], loc)))

    def _main_key(self, main: TablePlan, operation: Operation | None) -> tuple[int, ...]:
        group = self._spec.group
        if group is not None:
            self._indexes(main, group.one_value, ("group", "one_value"))
            return (*self._indexes(main, group.by, ("group", "by")), *self._choosing(main))
        joined = self._join_columns()
        if joined:
            tables = self._spec.source.tables
            first = next(name for name in tables if (join := tables[name].join) is not None and join.to == main.name)
            return tuple(self._indexes(main, joined, ("source", "tables", first, "join", "on")))
        if operation is None or operation.repeatable:
            return ()
        return (*self._indexes(main, self._naming(main, operation), ("columns",)), *self._choosing(main))

    def _naming(self, main: TablePlan, operation: Operation) -> list[str]:
        """The columns that identify the record: those that fill its key or have `key: true`."""
        marked = [column.name for column in main.columns if column.spec.key]
        filling = self._filling(operation, main)
        return filling if len(filling) == len(operation.record.key) else marked or filling

    def _choosing(self, main: TablePlan) -> list[int]:
        """The column that chooses the operation is part of the key: one file may create a record and then change it."""
        slot = main.shape.slots.get(self._chooser or "")
        return [] if slot is None or self._join_columns() else [slot.index]

    def _filling(self, operation: Operation, main: TablePlan) -> list[str]:
        """The columns that fill the key fields of the record directly."""
        leaves = [self._spec.payload.get(name) for name in operation.record.key]
        columns = [str(leaf["col"]).split(".")[-1] for leaf in leaves if isinstance(leaf, dict) and "col" in leaf]
        return [name for name in columns if name in main.shape.slots]

    def _calculating(self, main: TablePlan, operation: Operation) -> list[str]:
        """The values used in the expressions of the record's key fields."""
        leaves = [self._spec.payload.get(name) for name in operation.record.key]
        expressions = " ".join(str(leaf["expr"]) for leaf in leaves if isinstance(leaf, dict) and "expr" in leaf)
        return [name for name in main.shape.slots if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", expressions)]

    def _join_columns(self) -> list[str]:
        """The columns of the main table that identify records where other tables are joined."""
        joins: list[Join] = [
            spec.join
            for spec in self._spec.source.tables.values()
            if spec.join is not None and spec.join.to == self._order[0]
        ]
        if self._spec.group is not None and joins:
            return list(self._spec.group.by)
        return list(joins[0].on.values()) if joins else []

    def _indexes(self, table: TablePlan, names: Sequence[str], loc: Loc) -> list[int]:
        found = []
        for number, name in enumerate(names):
            slot = table.shape.slots.get(name.removeprefix(f"{table.name}."))
            if slot is None or slot.index >= len(table.columns):
                known = [column.name for column in table.columns]
                hint = closest_or_known(name, known)
                self._file.refuse((*loc, number), f'{table.name} has no column "{name}"', hint)
            else:
                found.append(slot.index)
        return found

    def _sorting(self, main: TablePlan) -> tuple[int, ...]:
        indexes = self._indexes(main, self._spec.order, ("order",))
        for number, index in enumerate(indexes):
            kind = main.columns[index].slot.type
            if kind not in (Type.TEXT, Type.MOMENT):
                self._file.refuse(
                    ("order", number), f"only texts and dates can be sorted, {main.label(index)} is {kind.value}"
                )
        return tuple(indexes)


def _is_column(value: object) -> bool:
    """Whether a section's only entry is itself a column, not a table of columns."""
    return isinstance(value, dict) and not all(isinstance(inner, dict) for inner in value.values())

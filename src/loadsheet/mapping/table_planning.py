"""The tables of a mapping, compiled: columns, derived values, and where the rows come from.

Rows come from kinds of rows, column sets, cells without a heading; totals are checked. The main table has no join. Contradictory
settings are refused. `rows.py` binds the result to a file. Knows nothing of the payload.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from loadsheet.mapping.conversion import Conventions, plan_column
from loadsheet.mapping.file_patterns import PARTS, SHEET, common_placeholders
from loadsheet.mapping.layouts import heading_clashes
from loadsheet.mapping.names import compile_or_refuse
from loadsheet.mapping.plans import (
    ColumnPlan,
    DerivedPlan,
    Expression,
    KindPlan,
    RowStepPlan,
    Scope,
    SetsPlan,
    Shape,
    Slot,
    TablePlan,
    TotalsPlan,
    Type,
    in_every_set,
)
from loadsheet.mapping.reference_tables import cells_of, check_looked_up, plan_lookups
from loadsheet.mapping.schema import (
    SET,
    WHERE_CELLS_ARE,
    Column,
    Derived,
    MappingSpec,
    TableSpec,
    Totals,
)
from loadsheet.mapping.texts import bind_parts, of_an_identifier
from loadsheet.mapping.yamlfile import Loc, YamlFile, read_part
from loadsheet.similar_text import closest_or_known, did_you_mean, short_list
from loadsheet.workbook_marks import ANY_TEXT

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = frozenset({"and", "or", "not", "in", "for", "if", "null", "true", "false", "inf", "nan"})
"""The words of the expression language, which no table, column or value can have as its name."""

_DERIVED_TYPES = {
    "text": Type.TEXT,
    "decimal": Type.NUMBER,
    "datetime": Type.MOMENT,
    "time": Type.SPAN,
    "yesno": Type.FLAG,
}


def plan_tables(spec: MappingSpec, conventions: Conventions, file: YamlFile) -> tuple[TablePlan, ...] | None:
    """The compiled tables without the keys of their rows, the main one first and those that others look up last, or None with the findings."""
    planner = _Planner(spec, conventions, file)
    order = planner.table_order()
    places = list(enumerate(order))
    looked_up = [planner.table(name, place, order) for place, name in places if name in planner.looked_up]
    references = planner.with_lookups([table for table in looked_up if table is not None])
    others = [planner.table(name, place, order) for place, name in places if name not in planner.looked_up]
    tables = (*(table for table in others if table is not None), *references)
    planner.check_headings(tables)
    planner.check_sheets(tables)
    return tables if order and len(tables) == len(order) else None


def with_key(main: TablePlan, key: tuple[int, ...], fills_by: tuple[int, ...], order: tuple[int, ...]) -> TablePlan:
    """The main table with the columns that its records are found and sorted by."""
    columns = tuple(
        replace(column, convert=of_an_identifier(column.convert))
        if column.spec.type == "text" and (column.spec.key or column.slot.index in {*key, *fills_by})
        else column
        for column in main.columns
    )
    return replace(main, columns=columns, key=key, fills_by=fills_by, order=order)


_AROUND = frozenset(
    {"header_rows", "units_row", "comment", "totals", "footer", "stop_at_blank", "hidden_rows", "hidden_columns"}
)
_OF_THE_SHEET = (_AROUND - {"totals"}) | {"sheet", "header_row"}


class _Planner:
    """Compiles the tables of one mapping."""

    def __init__(self, spec: MappingSpec, conventions: Conventions, file: YamlFile) -> None:
        self._spec, self._conventions, self._file = spec, conventions, file
        self._source, self._tables = spec.source, spec.source.tables
        named = {lookup.table for lookup in spec.lookups.values()}
        self.looked_up = frozenset(name for name in self._tables if name in named)
        self._references: set[int] = set()  # columns of the current table that find rows of another

    def table_order(self) -> list[str]:
        """The tables' names, the main one first; empty, with the findings, if the tables cannot be put together."""
        specs, loc = self._tables, ("source", "tables")
        for name in specs:
            self._check_name(name, (*loc, name))
        if not check_looked_up(self._spec.lookups, specs, self._file):
            return []
        others = [name for name in specs if name not in self.looked_up]
        mains = [name for name in others if specs[name].join is None and specs[name].from_ is None]
        if len(mains) != 1:
            problem = f"{short_list(mains)} have no join" if mains else "every table is joined to another"
            problem += " or looked up" if self.looked_up and not mains else ""
            self._file.refuse(loc, f"exactly one table must be the main table, without a join; {problem}", at_key=True)
            return []
        if not self._check_sets() or not all(self._check_join(name, mains[0]) for name in specs):
            return []
        return [*mains, *(name for name in others if name != mains[0]), *sorted(self.looked_up)]

    def with_lookups(self, tables: Sequence[TablePlan]) -> list[TablePlan]:
        """The tables that others look up, with their lookups. The columns of the tables planned from now on may use them."""
        planned, found = plan_lookups(self._spec.lookups, tables, self._file)
        self._conventions = replace(self._conventions, table_lookups=found)
        return planned

    def _check_join(self, name: str, main: str) -> bool:
        """Whether a table is joined to the main table, or to one that is."""
        specs = self._tables
        join = specs[name].join
        if join is None or join.to == main:
            return True
        to = specs.get(join.to)
        if join.to != name and to is not None and to.join is not None and to.join.to == main:
            return True
        joined = [other for other, spec in specs.items() if spec.join is not None and spec.join.to == main]
        known = [main, *(other for other in joined if other != name)]
        hint = did_you_mean(join.to, known) if join.to not in specs else ""
        text = f'join to the main table or to a table joined to it, not to "{join.to}"'
        self._file.refuse(("source", "tables", name, "join", "to"), text, hint or f"known: {short_list(known)}")
        return False

    def table(self, name: str, position: int, order: Sequence[str]) -> TablePlan | None:
        """One table without its keys. `order` are the names of all tables."""
        columns_spec, loc = self._section(self._spec.columns, "columns", name)
        columns = self._plan_columns(columns_spec, loc)
        if columns is None:
            return None
        columns = bind_parts(columns, self._file, loc)
        self._references = {column.slot.index for column in columns if column.reference is not None}
        slots = {column.name: column.slot for column in columns}
        derived = self._plan_derived(name, slots)
        shape = self._shape(name, slots)
        zone = slots.get((self._conventions.zone_column or "").removeprefix(f"{name}."))
        plan = TablePlan(
            name, position, tuple(columns), derived, self._plan_row_steps(columns, shape, loc), shape,
            zone=zone.index if zone is not None else None, default_zone=self._conventions.zone, fold=self._conventions.fold,
        )  # fmt: skip
        self._check_zone(position, plan)
        return self._with_ignore(self._with_source(plan, order, loc))

    def _section(self, section: Mapping[str, Any], title: str, name: str) -> tuple[Any, Loc]:
        """The entries of a table and their place: directly under the section for one table, under the table's name for several."""
        only = section[name] if list(section) == [name] else None  # a column, or a table of columns
        is_table = isinstance(only, dict) and all(isinstance(inner, dict) for inner in only.values())
        if len(self._tables) > 1 or (list(section) == [name] and (is_table or not isinstance(only, dict))):
            return section.get(name), (title, name)
        return section, (title,)

    def _check_name(self, name: str, loc: Loc) -> None:
        if _NAME.fullmatch(name) is None or name in RESERVED:
            reserved, letters = "is a word of the expression language", "may hold letters, digits and _ only"
            problem = reserved if name in RESERVED else letters
            self._file.refuse(loc, f'the name "{name}" {problem}', at_key=True)

    def _plan_columns(self, section: Any, loc: Loc) -> list[ColumnPlan] | None:
        if not isinstance(section, dict) or not section:
            tables = short_list(self._tables)
            self._file.refuse(loc, f"columns must be given for each of the tables {tables}", at_key=True)
            return None
        found = []
        for index, (name, value) in enumerate(section.items()):
            here = (*loc, name)
            self._check_name(name, here)
            spec = read_part(Column, self._file, value, here)
            for least, most in (("min", "max"), ("min_length", "max_length")):
                low, high = getattr(spec, least, None), getattr(spec, most, None)
                if low is not None and high is not None and low > high:
                    self._file.refuse((*here, most), f"{most}: {high} is less than {least}: {low}", "no value fits")
            found.append(plan_column(spec, index, self._conventions, self._file, here) if spec is not None else None)
        whole = [plan for plan in found if plan is not None]
        return whole if len(whole) == len(found) else None

    def _plan_derived(self, table: str, slots: dict[str, Slot]) -> tuple[DerivedPlan, ...]:
        """The derived values of a table in the order they are written; each may use those before it. Adds their slots."""
        section, loc = self._section(self._spec.derived, "derived", table)
        found = []
        for name, value in (section or {}).items():
            here = (*loc, name)
            self._check_name(name, here)
            spec, scope = read_part(Derived, self._file, value, here), Scope(self._shape(table, dict(slots)))
            expression = compile_or_refuse(spec.expr, scope, self._file, (*here, "expr")) if spec else None
            if name in slots:
                self._file.refuse(here, f'there is already a column "{name}"', at_key=True)
            if spec is None or expression is None:
                slots[name] = Slot(len(slots), Type.ANY, nullable=True)
                continue
            wanted = _DERIVED_TYPES[spec.type]
            if expression.type not in (wanted, Type.ANY):
                fitting = next((key for key, its in _DERIVED_TYPES.items() if its is expression.type), "")
                text = f"{name} is {expression.type.value}, not {wanted.value}"
                self._file.refuse((*here, "type"), text, f"set type: {fitting}, or change the expression")
            index = len(slots)
            needs = frozenset(slots[use.column].index for use in expression.uses if use.column in slots)
            slots[name] = Slot(index, wanted, expression.nullable, declared_at=self._file.place(here))
            found.append(DerivedPlan(name, index, expression, needs))
        return tuple(found)

    def _shape(self, table: str, slots: Mapping[str, Slot]) -> Shape:
        said = self._conventions
        return Shape(table, slots, said.fold, said.zone_of_days, said.calendars)

    def _condition(self, text: str, shape: Shape, loc: Loc) -> Expression | None:
        """A compiled condition on the cells of a row, or None with the finding. No row of another table is known yet."""
        scope = Scope(cells_of(shape, self._references), of_cells=True)
        return compile_or_refuse(text, scope, self._file, loc)

    def _plan_row_steps(self, columns: Sequence[ColumnPlan], shape: Shape, loc: Loc) -> tuple[RowStepPlan, ...]:
        found = []
        for column in columns:
            if column.row_step is None:
                continue
            when, needs = None, frozenset[int]()
            if column.row_step.when:
                later = self._references - {column.slot.index}  # their cells are not what they are any more
                slots = {name: slot for name, slot in shape.slots.items() if slot.index not in later}
                here = (*loc, column.name, "pad_left", "when")
                when = self._condition(column.row_step.when, replace(shape, slots=slots), here)
                if when is None:
                    continue
                needs = frozenset(shape.slots[use.column].index for use in when.uses)
            key = "lookup_with" if column.spec.unit_column is None else "unit_column"
            others = self._columns_beside(column, columns, (*loc, column.name, key))
            found.append(RowStepPlan(column, when, needs, others))
        return tuple(found)

    def _columns_beside(self, column: ColumnPlan, columns: Sequence[ColumnPlan], loc: Loc) -> tuple[int, ...]:
        """The indexes of the columns with the unit or the further keys of a code table: texts (or what a range searches) that are known before
        the column.
        """
        known, found = {other.name: other for other in columns if other is not column}, []
        names, searched = (
            (column.row_step.others, column.row_step.searched) if column.row_step is not None else ((), None)
        )
        of_text = "a unit" if column.spec.unit_column is not None else "a key of a code table"
        for number, name in enumerate(names):
            is_searched = searched is not None and number == len(names) - 1
            wanted = searched if searched is not None and is_searched else Type.TEXT
            other, at = known.get(name), loc if column.spec.unit_column is not None else (*loc, number)
            if other is None:
                hint = closest_or_known(name, known)
                self._file.refuse(at, f'there is no other column "{name}" here', hint)
            elif other.slot.type is not wanted:
                what = "what is searched in this range" if is_searched else of_text
                self._file.refuse(at, f"{name} is {other.slot.type.value}; {what} is {wanted.value}")
            elif other.row_step is not None and other.slot.index > column.slot.index:
                self._file.refuse(at, f"{name} uses a code table itself: move it above {column.name}")
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

    def _with_ignore(self, plan: TablePlan) -> TablePlan:
        spec = self._tables[plan.name]
        if spec.ignore_rows is None:
            return plan
        rule, needs = self._rule_on_cells(spec.ignore_rows, plan, ("source", "tables", plan.name, "ignore_rows"))
        return replace(plan, ignore=rule, ignore_needs=needs)

    def _rule_on_cells(self, text: str, plan: TablePlan, loc: Loc) -> tuple[Expression | None, tuple[int, ...]]:
        """A compiled rule on the columns of a table and the indexes of those it reads, or None with the finding."""
        columns = {column.name: column.slot for column in plan.columns}
        rule = self._condition(text, self._shape(plan.name, columns), loc)
        return rule, tuple(sorted(columns[use.column].index for use in rule.uses)) if rule is not None else ()

    # ---- where rows come from ----

    def _with_source(self, plan: TablePlan, order: Sequence[str], loc: Loc) -> TablePlan:
        """The table with the source of its rows; `loc` is the place of its columns."""
        spec = self._tables[plan.name]
        here: Loc = ("source", "tables", plan.name)
        patterns = self._patterns(spec)
        self._check_columns(plan, spec, patterns, loc)
        sets = self._plan_sets(plan, spec, here) if spec.sets is not None else None
        joined_to = order.index(spec.join.to) if spec.join is not None else None
        source = self._tables_of_sheet(spec.from_ or plan.name)[0]
        plan = replace(plan, source=source, patterns=patterns, sets=sets, joined_to=joined_to)
        if spec.kind is not None:
            plan = replace(plan, kind=self._plan_kind(plan, spec, here, loc), prefix=f"{plan.name}.")
        if spec.from_ is not None:
            plan = replace(plan, made_of=list(order).index(spec.from_), prefix=f"{plan.name}.")
        if spec.totals is not None:
            plan = replace(plan, totals=self._plan_totals(plan, spec, (*here, "totals")))
        if all(column.spec.whereabouts() for column in plan.columns) and spec.kind is None:
            self._file.refuse(loc, f"{plan.name} needs a column under a heading of the file", at_key=True)
        return plan

    def _check_sets(self) -> bool:
        """Whether every `from` names a table of the file."""
        fine = True
        for name, spec in self._tables.items():
            loc: Loc = ("source", "tables", name)
            of = self._tables.get(spec.from_ or "")
            if spec.from_ is not None and (of is None or of.from_ is not None or of.sets is not None):
                known = [other for other, its in self._tables.items() if its.from_ is None and its.sets is None]
                hint = closest_or_known(spec.from_, known)
                self._file.refuse((*loc, "from"), f'"{spec.from_}" is not a table whose rows hold sets', hint)
                fine = False
            if spec.from_ is not None and spec.sets is None:
                self._file.refuse(loc, f"{name} takes its rows from {spec.from_} but has no sets", at_key=True)
                fine = False
            if spec.from_ is not None:
                for key in sorted(spec.model_fields_set & {"file", "join", "kind", "totals", *_OF_THE_SHEET}):
                    self._file.refuse((*loc, key), f"set {key} on {spec.from_}, from which {name} is made", at_key=True)
            if spec.sets is not None and spec.totals is not None and not spec.totals.begins_with:
                self._file.refuse((*loc, "totals"), "totals need a table without sets", at_key=True)
            for key in ("filled_by", "repeated"):
                if getattr(spec, key) and spec.sets is None:
                    self._file.refuse((*loc, key), f"{key} needs sets", at_key=True)
        return fine

    def _patterns(self, spec: TableSpec) -> tuple[str, ...]:
        of = self._tables[spec.from_] if spec.from_ is not None else spec
        companion = self._source.companions.get(of.file or "")
        return tuple(self._source.files) if companion is None else (companion,)

    def _tables_of_sheet(self, name: str) -> list[str]:
        """The tables with kinds of rows in the same file and sheet as this one, in order."""
        spec = self._tables[name]
        if spec.kind is None:
            return [name]
        place = (spec.file, tuple(spec.sheet or ()))
        with_kinds = ((other, its) for other, its in self._tables.items() if its.kind is not None)
        return [other for other, its in with_kinds if (its.file, tuple(its.sheet or ())) == place]

    # ---- columns ----

    def _check_columns(self, plan: TablePlan, spec: TableSpec, patterns: tuple[str, ...], loc: Loc) -> None:
        known = [*PARTS, SHEET, *common_placeholders(patterns)]
        for column in plan.columns:
            here = (*loc, column.name)
            if column.spec.occurrence and in_every_set(column):
                text, hint = "a column of the sets has no occurrence", "write repeated: true beside the sets of"
                self._file.refuse((*here, "occurrence"), text, f"{hint} {plan.name}", at_key=True)
            if column.spec.file is not None and column.spec.file not in known:
                hint = closest_or_known(column.spec.file, known)
                self._file.refuse((*here, "file"), f'a file\'s name has no part "{column.spec.file}"', hint)
            for key in ("above", "place"):
                if getattr(column.spec, key) is not None and spec.kind is None:
                    self._file.refuse((*here, key), f"{key} is for tables with a kind", at_key=True)
            if spec.sets is None and (column.spec.from_set or SET in (column.spec.label or "")):
                key = "from_set" if column.spec.from_set else "label"
                self._file.refuse((*here, key), f"{plan.name} has no sets", "write sets: under source.tables")
            elsewhere = spec.from_ is not None or in_every_set(column) or set(column.spec.whereabouts()) - {"place"}
            if column.spec.fill_down and elsewhere:
                text = "only cells of the file's own rows are filled from above"
                self._file.refuse((*here, "fill_down"), text, at_key=True)

    def check_headings(self, tables: Sequence[TablePlan]) -> None:
        """Checks that all columns under a heading that repeats say which of its columns they read."""
        for table, column, text in heading_clashes(tables):
            self._file.refuse((*self._section(self._spec.columns, "columns", table)[1], column), text, at_key=True)

    def check_sheets(self, tables: Sequence[TablePlan]) -> None:
        """Checks that a table that is read from several sheets has no other table beside it."""
        if len({table.source for table in tables}) == 1:
            return
        for name, spec in self._tables.items():
            if title := next((title for title in spec.sheet or () if ANY_TEXT in title), ""):
                text = f'"{title}" stands for several sheets, but the mapping reads other tables too'
                self._file.refuse(("source", "tables", name, "sheet"), text, "name one sheet for each table")

    # ---- sets ----

    def _plan_sets(self, plan: TablePlan, spec: TableSpec, loc: Loc) -> SetsPlan:
        columns = tuple(column for column in plan.columns if in_every_set(column))
        names = [column.name for column in columns]
        if not columns:
            hint = f'such as label: "Item {SET}"'
            self._file.refuse((*loc, "sets"), f"no label of {plan.name} holds {SET}", hint, at_key=True)
        for number, name in enumerate(spec.filled_by):
            if name not in names:
                hint = closest_or_known(name, names)
                self._file.refuse((*loc, "filled_by", number), f'"{name}" is not a column of the sets', hint)
        by = tuple(place for place, name in enumerate(names) if not spec.filled_by or name in spec.filled_by)
        needed = (place for place, one in enumerate(columns) if one.spec.required and one.spec.default is None)
        required = tuple(place for place in needed if place not in by)
        return SetsPlan(tuple((spec.sets or {}).items()), columns, by, required, spec.repeated)

    # ---- kinds ----

    def _plan_kind(self, plan: TablePlan, spec: TableSpec, loc: Loc, columns: Loc) -> KindPlan | None:
        if spec.kind is None:
            return None
        same_place = self._tables_of_sheet(plan.name)
        first = self._tables[same_place[0]].kind
        if first is not None and spec.kind.label != first.label:
            self._file.refuse((*loc, "kind", "label"), f'the kind column of {same_place[0]} is "{first.label}"')
        for other in same_place[: same_place.index(plan.name)]:
            its = self._tables[other].kind
            for word in spec.kind.is_ if its is not None else []:
                if its is not None and word in its.is_:
                    self._file.refuse((*loc, "kind", "is"), f'"{word}" is already a kind of {other}')
        known = tuple(word for other in same_place if (its := self._tables[other].kind) is not None for word in its.is_)
        others: Literal["error", "ignore"] | None = spec.kind.others if same_place[0] == plan.name else None
        if others is None and "others" in spec.kind.model_fields_set:
            self._file.refuse((*loc, "kind", "others"), f"set others on {same_place[0]}", at_key=True)
        for key in sorted(spec.model_fields_set & _AROUND) if others is None else ():
            if key != "totals" or (spec.totals is not None and spec.totals.begins_with):
                self._file.refuse((*loc, key), f"set {key} on {same_place[0]}", at_key=True)
        above = [self._cell_above(column, same_place, (*columns, column.name, "above")) for column in plan.columns]
        found, is_strict = tuple(dict.fromkeys(filter(None, above))), (first or spec.kind).others == "error"
        # if rows of a table take a cell from above, a row of unknown kind belongs to the same record, whatever it is
        each = {name: its for name in same_place if isinstance(its := self._spec.columns.get(name), Mapping)}
        reading = (
            n for n, its in each.items() if any(isinstance(one, Mapping) and "above" in one for one in its.values())
        )
        unknown = plan.name == next(reading, same_place[0])
        return KindPlan(spec.kind.label, frozenset(spec.kind.is_), known, others, found, is_strict, unknown)

    def _cell_above(self, column: ColumnPlan, same_place: Sequence[str], loc: Loc) -> tuple[frozenset[str], str] | None:
        if (text := column.spec.above) is None:
            return None
        table, _, name = text.partition(".")
        section = self._spec.columns.get(table)
        kind = self._tables[table].kind if table in same_place else None
        if kind is None or not isinstance(section, Mapping) or name not in section:
            sections = ((other, self._spec.columns.get(other)) for other in same_place)
            known = [f"{other}.{its}" for other, own in sections if isinstance(own, Mapping) for its in own]
            hint = closest_or_known(text, known)
            self._file.refuse(loc, f'"{text}" is not a column of another kind of row', hint)
            return None
        spec = section[name]
        if isinstance(spec, Mapping) and any(key in spec for key in WHERE_CELLS_ARE):
            self._file.refuse(loc, f"{text} has no heading")
            return None
        return frozenset(kind.is_), text

    # ---- totals ----

    def _plan_totals(self, plan: TablePlan, spec: TableSpec, loc: Loc) -> TotalsPlan | None:
        if spec.totals is None or not self._are_checked(spec.totals, loc):
            return None
        where, needs = self._rule_on_cells(spec.totals.where or "", plan, (*loc, "where"))
        numbers = {column.name: column.slot.index for column in plan.columns if column.slot.type is Type.NUMBER}
        sums = []
        for number, name in enumerate(spec.totals.sum):
            if name in numbers:
                sums.append(numbers[name])
            else:
                hint = closest_or_known(name, numbers)
                self._file.refuse((*loc, "sum", number), f'"{name}" is not a column of numbers', hint)
        return None if where is None else TotalsPlan(where, needs, tuple(sums), spec.totals.over == "block")

    def _are_checked(self, totals: Totals, loc: Loc) -> bool:
        """Whether totals are found by an expression and checked. Otherwise they are found by their first words and ignored."""
        set_keys = totals.model_fields_set
        if "begins_with" in set_keys:
            for key in sorted(set_keys - {"begins_with"}):
                text = f"{key} cannot be combined with begins_with"
                self._file.refuse((*loc, key), text, "write where and sum instead", at_key=True)
            return False
        for key in ("where", "sum"):
            if key not in set_keys or getattr(totals, key) is None:
                hint = "write begins_with to ignore totals, or where and sum to check them"
                self._file.refuse(loc, f"{key} is missing", hint, at_key=True)
                return False
        return True

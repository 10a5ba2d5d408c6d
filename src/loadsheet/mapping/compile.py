"""A mapping file, compiled once: read, checked in one pass, and turned into functions.

Combines the sections (tables, keys, joins, checks, order) into a `CompiledMapping`. The key of a record consists of the first of these
that exist: the columns of `group.by`, of the join, those that fill the record's key, those marked `key: true`. Every error of a file is
found at load, with line and column: a mapping that loads does not stop a run later. Knows no row.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from loadsheet.contract import Assumptions, Operation, update_of, zone_names
from loadsheet.errors import MappingError
from loadsheet.mapping.calculation import read_calendars
from loadsheet.mapping.conversion import Conventions
from loadsheet.mapping.converters import converter
from loadsheet.mapping.documents import JOINT, ColumnGuide, Lineage, Source, column_path
from loadsheet.mapping.layouts import column_guides_of, language_of, layouts_of, marks_of
from loadsheet.mapping.leaves import PayloadContext
from loadsheet.mapping.lookups import read_lookup
from loadsheet.mapping.names import CheckPlan, Names, plan_checks
from loadsheet.mapping.notations import is_locale
from loadsheet.mapping.payload import TargetPlan, Targets, plan_targets, read_target
from loadsheet.mapping.plans import JoinPlan, TablePlan, Type
from loadsheet.mapping.schema import MappingSpec, ZoneSpec
from loadsheet.mapping.schema import Source as FileSource
from loadsheet.mapping.table_planning import plan_tables, with_key
from loadsheet.mapping.yamlfile import Loc, YamlFile, read_part, read_with_base, source_texts
from loadsheet.reading.tables import Layout
from loadsheet.similar_text import closest_or_known, did_you_mean, short_list
from loadsheet.workbook_marks import table_of

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Plan:
    """The input of `translate`. All rows of a record must agree in `one_value`. Values in `once` may be blank below the first
    row, as in sheets with merged cells. The mapping does not list them.
    """

    tables: tuple[TablePlan, ...]
    joins: Mapping[int, JoinPlan]
    is_grouped: bool
    one_value: tuple[int, ...]
    once: frozenset[int]
    checks: tuple[CheckPlan, ...]
    targets: Targets
    key_shown: int  # number of key parts that reports show

    @property
    def inner_joins(self) -> list[tuple[int, JoinPlan]]:
        """The tables joined to a table other than the main one."""
        return [(position, join) for position, join in sorted(self.joins.items()) if join.to]


@dataclass(frozen=True, slots=True)
class CompiledMapping:
    """A mapping file ready for use.

    - `hash`: SHA-256 (hex) of the file, its code tables, the files of its calendars and the versions of its converters
    - `layouts`: by role (`main`, or the names in the tables' `file:`) the tables to read from that file
    - `operations`: the operations that its records may have, in sending order; `operation` is the first
    - `shipper`: the inbox folder it is for; empty: for all shippers without mappings of their own
    - `error_share_max` (0 to 1): nothing of a drop is sent at this share of invalid records; None: the setting applies
    - `notes`: lines for the author that are not errors
    - `language`: the language of the sheet (`de`), empty if unknown; `guide`: descriptions of its columns (see `column_guides_of`)
    - `source`: the files it is made of (see `yamlfile.source_texts`)
    - `shared`: whether it may read a file with others; `parts`: the mappings that it combines (see `routing.combine_mappings`)
    """

    name: str
    version: int
    description: str
    hash: str
    path: Path
    operation: Operation
    operations: tuple[Operation, ...]
    files: tuple[str, ...]
    companions: Mapping[str, str]
    complete_when: str | None
    main_role: str
    layouts: Mapping[str, tuple[Layout, ...]]
    lineage: Lineage
    batch_size: int | None
    changed: Literal["hold", "update"]
    error_share_max: float | None
    notes: tuple[str, ...]
    language: str
    guide: Mapping[str, Mapping[str, ColumnGuide]] = field(repr=False)
    source: Mapping[str, str] = field(repr=False)
    plan: Plan = field(repr=False)
    shipper: str = ""
    shared: bool = False
    parts: "tuple[CompiledMapping, ...]" = field(default=(), repr=False)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], assumptions: Assumptions | None = None, home: Path | None = None
    ) -> "CompiledMapping":
        """The compiled mapping of a file. Without `assumptions`, our defaults for what the interface leaves open. See `examine` for `home`.
        Raises one MappingError at the first finding; its text lists the others.
        """
        return load(Path(path), assumptions or Assumptions(), home)


def operations_of(mapping: CompiledMapping) -> str:
    """The operation of a mapping, or those of its parts, as the ledger keeps it."""
    return JOINT.join(dict.fromkeys(part.operation.name for part in mapping.parts or (mapping,)))


def version_of(mapping: CompiledMapping) -> str:
    """The version of a mapping, or those of its parts, as the ledger keeps it."""
    return JOINT.join(str(part.version) for part in mapping.parts or (mapping,))


def zone_of(mapping: CompiledMapping) -> str:
    """The time zone of the local times in a mapping's files; empty if each row has its own, or its tables differ."""
    tables = [plan for part in mapping.parts or (mapping,) for plan in part.plan.tables]
    zones = {plan.default_zone.key if plan.default_zone and plan.zone is None else "" for plan in tables}
    return zones.pop() if len(zones) == 1 else ""


def part_reading(table: str, mapping: CompiledMapping) -> CompiledMapping:
    """The part of a mapping that reads this table; the mapping itself if it has no parts."""
    return next(
        (part for part in mapping.parts if any(plan.source == table_of(table) for plan in part.plan.tables)), mapping
    )


def lint(path: Path, assumptions: Assumptions, home: Path | None = None) -> list[MappingError]:
    """All errors of a mapping file, from top to bottom; empty if it can be used. See `examine` for `home`."""
    return examine(path, assumptions, home)[1]


def load(path: Path, assumptions: Assumptions, home: Path | None = None) -> CompiledMapping:
    """The compiled mapping. Raises one MappingError at the first finding; its text lists the others."""
    mapping, findings = examine(path, assumptions, home)
    if mapping is None or findings:
        raise combined_error(findings)
    return mapping


def combined_error(findings: list[MappingError]) -> MappingError:
    """Several findings as one exception, at the place of the first, with a line for each of the others."""
    first, *others = findings
    text = "\n".join([first.text + (f" ({first.hint})" if first.hint else ""), *map(str, others)])
    return MappingError(text, file=first.file, line=first.line, column=first.column) if others else first


def examine(
    path: Path, assumptions: Assumptions, home: Path | None = None
) -> tuple[CompiledMapping | None, list[MappingError]]:
    """The compiled mapping, or None and all errors of the file. `home` is the folder of mappings. It must contain the extended file and
    the code tables.
    """
    file = read_with_base(path, home)
    mapping = None
    if file.values is not None:
        spec = read_part(MappingSpec, file, file.values, ())
        if spec is not None:
            mapping = _Compiler(spec, file, assumptions).mapping()
    findings = sorted(file.findings.values(), key=lambda found: (found.file != str(path), found.line, found.column))
    return (None if findings else mapping), findings


class _Compiler:
    """Compiles one file, section by section, in the order of their dependencies."""

    def __init__(self, spec: MappingSpec, file: YamlFile, assumptions: Assumptions) -> None:
        self._spec = spec
        self._file = file
        self._assumptions = assumptions

    def mapping(self) -> CompiledMapping | None:
        """The compiled mapping, or None with the findings."""
        target = read_target(self._spec.target, self._file)
        conventions = self._conventions()
        main_role = self._main_role(self._spec.source)
        _check_marks(self._spec.source, self._file)
        _check_files(self._spec.source, self._file)
        tables = plan_tables(self._spec, conventions, self._file)
        tables = self._with_keys(tables, target) if tables is not None else None
        if tables is None or target is None:
            return None
        plan = self._plan(tables, target, conventions)
        if plan is None:
            return None
        batch_size = self._batch_size(plan.targets.operations)
        self._check_changed(plan.targets.operations)
        return None if self._file.findings else self._finished(plan, conventions, main_role, batch_size)

    def _plan(self, tables: tuple[TablePlan, ...], target: TargetPlan, conventions: Conventions) -> Plan | None:
        spec = self._spec
        names = Names(tables, self._file)
        around = PayloadContext(names, spec.constants, self._assumptions, conventions.zone is not None)
        targets = plan_targets(target, spec, around, conventions.lookups)
        if targets is None:
            return None
        slots, named = tables[0].shape.slots, spec.group.one_value if spec.group else []
        read_once = frozenset(names.first)  # taken before the checks add theirs: most checks run for each row
        checks = plan_checks(spec, names)
        first = read_once.union(*[check.needs.here for check in checks if check.position is None])
        return Plan(
            tables=tables,
            joins=self._joins(tables),
            is_grouped=spec.group is not None,
            one_value=self._one_value(tables[0], first),
            once=first - {slots[name].index for name in named if name in slots},
            checks=checks,
            targets=targets,
            key_shown=len(tables[0].key) - (1 if targets.chooser in tables[0].key else 0),
        )

    def _one_value(self, main: TablePlan, first: frozenset[int]) -> tuple[int, ...]:
        """The values that must be equal in all rows of a record: those that the mapping lists, and those that the record takes once. The
        sources of a derived value stand for it.
        """
        group = self._spec.group
        if group is None:
            return ()
        named = [main.shape.slots[name].index for name in group.one_value if name in main.shape.slots]
        found = dict.fromkeys([*named, *sorted(first - {*main.key})])
        same = {*main.key, *found}
        implied = {derived.index for derived in main.derived if derived.needs <= same}
        return tuple(index for index in found if index not in implied)

    def _joins(self, tables: tuple[TablePlan, ...]) -> dict[int, JoinPlan]:
        by_name = {table.name: table for table in tables}
        joins = {}
        for table in tables:
            join = self._spec.source.tables[table.name].join
            if join is None:
                continue
            here, there = table.shape.slots, by_name[join.to].shape.slots
            on = [(here[own].index, there[its].index) for own, its in join.on.items() if own in here and its in there]
            joins[table.position] = JoinPlan(by_name[join.to].position, tuple(on), join.missing, join.extra)
        return joins

    def _finished(
        self, plan: Plan, conventions: Conventions, main_role: str, batch_size: int | None
    ) -> CompiledMapping:
        spec, source = self._spec, self._spec.source
        used = self._files_used(conventions)
        return CompiledMapping(
            name=spec.mapping,
            version=spec.version,
            description=spec.description,
            hash=_hash(self._file, used, conventions, plan.tables),
            path=self._file.path,
            operation=plan.targets.operations[0],
            operations=plan.targets.operations,
            files=tuple(source.files),
            companions=source.companions,
            complete_when=source.complete_when,
            main_role=main_role,
            layouts=layouts_of(source, plan.tables, main_role),
            lineage={**plan.targets.lineage, **_lineage_of_sets(plan.tables)},
            batch_size=batch_size,
            changed=spec.changed,
            error_share_max=float(spec.errors.stop_at) if spec.errors else None,
            notes=plan.targets.notes,
            language=language_of(source.locale),
            guide=column_guides_of(plan.tables, source.locale, plan.targets.known),
            source=source_texts(used),
            plan=plan,
            shared=source.shared,
        )

    def _files_used(self, conventions: Conventions) -> dict[Path, bytes]:
        """The files of the mapping, itself first, with their bytes."""
        file, specs, lookups = self._file, self._spec.lookups, conventions.lookups
        paths = {name: file.owner(("lookups", name, "file")).parent / (specs[name].file or "") for name in lookups}
        own = [file.path, *([file.base] if file.base is not None else [])]
        days = {days.path: days.content for days in conventions.calendars.values() if days.path is not None}
        return {path: path.read_bytes() for path in own} | {paths[name]: lookups[name].content for name in paths} | days

    def _zone(self) -> tuple[str | None, str | None]:
        """The time zone, and the column with the zone of each row. Either may be None."""
        value, loc = self._spec.source.timezone, ("source", "timezone")
        if value is None:
            return None, None
        spec = None if isinstance(value, str) else read_part(ZoneSpec, self._file, value, loc)
        if spec is None and not isinstance(value, str):
            return None, None
        name, column, where = (value, None, loc) if spec is None else (spec.default, spec.col, (*loc, "default"))
        if name not in zone_names():
            self._file.refuse(where, f'"{name}" is not the name of a time zone', did_you_mean(name, zone_names()))
            return None, None
        return name, column

    def _conventions(self) -> Conventions:
        source, locale = self._spec.source, self._spec.source.locale
        zone, zone_column = self._zone()
        own_zone = ZoneInfo(zone) if zone is not None else None
        tables = {
            name: read_lookup(spec, self._file, ("lookups", name), own_zone)
            for name, spec in self._spec.lookups.items()
            if spec.table is None
        }
        if locale is not None and not is_locale(locale):
            self._file.refuse(("source", "locale"), f"locale {locale} is not known", "such as de_DE or en_GB")
            locale = "en"  # so that each column does not report it again
        return Conventions(
            locale,
            tuple(source.dates),
            own_zone,
            zone_column,
            source.fold,
            source.units,
            tuple(source.blank),
            {name: lookup for name, lookup in tables.items() if lookup is not None},
            read_calendars(self._spec.calendars, self._file),
        )

    def _main_role(self, source: FileSource) -> str:
        """The tables' name for the main file: the role that is not a companion."""
        used = [spec.file for spec in source.tables.values() if spec.file is not None]
        own = list(dict.fromkeys(role for role in used if role not in source.companions))
        for role in own[1:]:
            table = next(name for name, spec in source.tables.items() if spec.file == role)
            hint = did_you_mean(role, source.companions) or f"companions: {short_list(source.companions) or 'none'}"
            text = f'"{role}" is not a companion, and {own[0]} is the main file'
            self._file.refuse(("source", "tables", table, "file"), text, hint)
        return own[0] if own else MAIN

    # ---- keys ----

    def _with_keys(self, tables: Sequence[TablePlan], target: TargetPlan | None) -> tuple[TablePlan, ...]:
        """The tables with the columns that link their rows to a record: those of `group.by`, of the join, those that fill the record's key,
        or those marked `key: true`.
        """
        main = self._main_with_key(tables[0], target)
        found = {main.name: main}
        for table in sorted(tables[1:], key=lambda table: table.joined_to not in (None, 0)):
            found[table.name] = self._joined_with_key(table, main, found)
        return tuple(found[table.name] for table in tables)

    def _joined_with_key(self, table: TablePlan, main: TablePlan, known: Mapping[str, TablePlan]) -> TablePlan:
        join, theirs = self._spec.source.tables[table.name].join, self._join_columns(main)
        if join is None or not theirs:
            return table
        to, loc, problem = known[join.to], ("source", "tables", table.name, "join", "on"), ""
        by_theirs = {there: here for here, there in join.on.items()}
        if to is not main:  # it must include the record's key
            theirs = [to.columns[index].name for index in to.key]
            self._indexes(to, list(join.on.values()), loc)
            if missing := [name for name in theirs if name not in by_theirs]:
                problem = f"the join must include the record's key: {short_list(missing)} of {to.name}"
            else:
                self._indexes(table, list(join.on), loc)
        elif set(theirs) != set(by_theirs):
            problem = f"the columns of {main.name} must be {short_list(theirs)}, as in the other joins and in group.by"
        if problem:
            self._file.refuse(loc, problem)
            return table
        return replace(table, key=tuple(self._indexes(table, [by_theirs[name] for name in theirs], loc)))

    def _main_with_key(self, main: TablePlan, target: TargetPlan | None) -> TablePlan:
        operation, chooser = (target.operations[0], target.column or "") if target is not None else (None, "")
        group, joined, key = self._spec.group, self._join_columns(main), list[int]()
        naming = self._identifying_columns(main, operation) if operation is not None else []
        if group is not None:
            self._indexes(main, group.one_value, ("group", "one_value"))
            key = self._indexes(main, group.by, ("group", "by"))
        elif joined:
            tables = self._spec.source.tables
            first = next(name for name in tables if (join := tables[name].join) is not None and join.to == main.name)
            key = self._indexes(main, joined, ("source", "tables", first, "join", "on"))
        elif operation is not None and not operation.repeatable:
            key = self._indexes(main, naming, ("columns",))
        if chooser in main.shape.slots and not joined and operation is not None and (group or not operation.repeatable):
            key.append(main.shape.slots[chooser].index)  # one file may create a record and then change it
        if operation is not None and not naming:
            naming = self._values_of_key_expressions(main, operation)
        fills_by = tuple(main.shape.slots[name].index for name in naming)
        return with_key(main, tuple(key), fills_by, self._sort_columns(main))

    def _identifying_columns(self, main: TablePlan, operation: Operation) -> list[str]:
        """The columns that identify the record: those that fill its key directly, or have `key: true`."""
        leaves = [self._spec.payload.get(name) for name in operation.record.key]
        columns = [str(leaf["col"]).split(".")[-1] for leaf in leaves if isinstance(leaf, dict) and "col" in leaf]
        filling = [name for name in columns if name in main.shape.slots]
        marked = [column.name for column in main.columns if column.spec.key]
        return filling if len(filling) == len(operation.record.key) else marked or filling

    def _values_of_key_expressions(self, main: TablePlan, operation: Operation) -> list[str]:
        """The values used in the expressions of the record's key fields."""
        leaves = [self._spec.payload.get(name) for name in operation.record.key]
        expressions = " ".join(str(leaf["expr"]) for leaf in leaves if isinstance(leaf, dict) and "expr" in leaf)
        return [name for name in main.shape.slots if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", expressions)]

    def _join_columns(self, main: TablePlan) -> list[str]:
        """The columns of the main table that identify records where other tables are joined."""
        specs = self._spec.source.tables.values()
        joins = [spec.join for spec in specs if spec.join is not None and spec.join.to == main.name]
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

    def _sort_columns(self, main: TablePlan) -> tuple[int, ...]:
        indexes = self._indexes(main, self._spec.order, ("order",))
        for number, index in enumerate(indexes):
            kind = main.columns[index].slot.type
            if kind not in (Type.TEXT, Type.MOMENT, Type.SPAN):
                text = f"only texts, dates and times can be sorted, {main.label(index)} is {kind.value}"
                self._file.refuse(("order", number), text)
        return tuple(indexes)

    def _check_changed(self, operations: tuple[Operation, ...]) -> None:
        if self._spec.changed == "update" and all(update_of(operation) is None for operation in operations):
            names = " and ".join(operation.name for operation in operations)
            verb = "have" if operations[1:] else "has"
            text = f"{names} {verb} nothing to update; changed is for order.create and tender.create"
            self._file.refuse(("changed",), text, at_key=True)

    def _batch_size(self, operations: tuple[Operation, ...]) -> int | None:
        operation = operations[0]
        if self._spec.batch is None:
            return None
        if not operation.batched:
            text = f"{operation.name} sends one record per call; only order.status supports batch"
            self._file.refuse(("batch",), text, at_key=True)
            return None
        wanted, most = self._spec.batch.max_records, self._assumptions.status_records_max
        if wanted > most:
            text = f"{wanted} records per call are too many; assumptions.status_records_max is {most}"
            self._file.refuse(("batch", "max_records"), text)
        return wanted


def _hash(file: YamlFile, used: Mapping[Path, bytes], conventions: Conventions, tables: Sequence[TablePlan]) -> str:
    digest = hashlib.sha256(used[file.path])
    if file.base is not None:
        digest.update(b"\0extends\0" + used[file.base])
    for name, lookup in sorted(conventions.lookups.items()):
        digest.update(b"\0" + name.encode() + b"\0" + lookup.content)
    for name, days in sorted(conventions.calendars.items()):
        digest.update(b"\0calendar\0" + name.encode() + b"\0" + days.content)
    for name in sorted({column.spec.convert for table in tables for column in table.columns if column.spec.convert}):
        digest.update(b"\0converter\0" + name.encode() + b"\0" + converter(name).version.encode())
    return digest.hexdigest()


def _lineage_of_sets(tables: tuple[TablePlan, ...]) -> Lineage:
    """The columns of tables made from column sets, with one source for each set."""
    return {
        column_path(table.name, column.name): tuple(
            Source(table.name, column.name, table.sets.heading(column.label, number), "each")
            for number in range(len(table.sets.words))
        )
        for table in tables
        if table.sets is not None
        for column in table.columns
        if column.cells in {whole.name for whole in table.sets.columns}
    }


def _check_files(source: FileSource, file: YamlFile) -> None:
    """Checks that each pattern can match a file name in the inbox."""
    patterns: dict[Loc, str] = {("source", "files", number): text for number, text in enumerate(source.files)}
    patterns |= {("source", "companions", role): text for role, text in source.companions.items()}
    for loc, pattern in patterns.items():
        if not pattern.strip():
            file.refuse(loc, "a file name pattern is blank", "such as orders_*.csv")
        elif pattern.startswith("/") or not {".", ".."}.isdisjoint(pattern.split("/")):
            hint = "patterns are relative to the inbox, such as nordic/*.csv"
            file.refuse(loc, f'"{pattern}" cannot match a file in the inbox', hint)


def _check_marks(source: FileSource, file: YamlFile) -> None:
    """Checks that each mark of the text files has one meaning and is not a common character."""
    quote, escape = marks_of(source)
    for number, delimiter in enumerate(source.delimiter or ()):
        if delimiter in ("\r", "\n", quote, escape):
            what = "ends a line" if delimiter in "\r\n" else "is already the quote or the escape"
            file.refuse(("source", "delimiter", number), f"{delimiter!r} cannot be a delimiter: it {what}")
    for key, mark in (("quote", quote), ("escape", escape)):
        if mark in ("\r", "\n", " "):
            file.refuse(("source", key), f"{mark!r} cannot be the {key}: it is too common in texts")
    if escape and quote == escape:
        hint = "quotes within a value are doubled and need no escape"
        file.refuse(("source", "escape"), f"{escape} is already the quote", hint)

"""Where the rows of a table come from, compiled: names of files, kinds of rows, column sets, cells without a heading, totals.

Patterns of file names look like `acme_*.xlsx` or `nordic/{batch}/orders.csv`; columns may hold parts of a name. Contradictory settings
are refused. `rows.py` binds the result to a file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from loadsheet.mapping.plans import (
    ColumnPlan,
    Expression,
    KindPlan,
    SetsPlan,
    Shape,
    TablePlan,
    TotalsPlan,
    Type,
    in_every_set,
)
from loadsheet.mapping.schema import PARTS, SET, WHERE_CELLS_ARE, MappingSpec, TableSpec, Totals, placeholders
from loadsheet.mapping.schema import Source as FileSource
from loadsheet.mapping.texts import group_names, part_reader
from loadsheet.mapping.words import closest_or_known, did_you_mean, some
from loadsheet.mapping.yamlfile import Loc, YamlFile

_AROUND = frozenset(
    {"header_rows", "units_row", "comment", "totals", "footer", "stop_at_blank", "hidden_rows", "hidden_columns"}
)
_OF_THE_SHEET = (_AROUND - {"totals"}) | {"sheet", "header_row"}

Compile = Callable[[str, Shape, Loc], Expression | None]


def whole_and_parts(columns: Sequence[ColumnPlan], file: YamlFile, loc: Loc) -> list[ColumnPlan]:
    """The columns; a part of a split column is bound to that column."""
    by_name = {column.name: column for column in columns}
    found = []
    for column in columns:
        part_of = column.spec.part_of
        whole = by_name.get(part_of or "")
        if part_of is not None and whole is not None and column.name in _parts_of(whole):
            convert = part_reader(column.name, column.convert, whole.convert, whole.spec.split or "")
            found.append(replace(column, convert=convert, cells=whole.cells, heading=whole.label))
            continue
        found.append(column)
        if part_of is None:
            continue
        if whole is None or whole.spec.split is None:
            splits = [name for name, other in by_name.items() if other.spec.split is not None]
            hint = did_you_mean(part_of, splits) or f"columns with split: {some(splits) or 'none'}"
            file.refuse((*loc, column.name, "part_of"), f'"{part_of}" is not a column with a split', hint)
        else:
            names = _parts_of(whole)
            hint = f"name the column as one of {some(names)}" if names else "name the parts: (?P<name>...)"
            file.refuse(
                (*loc, column.name), f'the split of {whole.name} has no part "{column.name}"', hint, at_key=True
            )
    return found


def _parts_of(whole: ColumnPlan) -> tuple[str, ...]:
    return group_names(whole.spec.split) if whole.spec.split is not None else ()


# ---- checks of the source ----


def check_files(source: FileSource, file: YamlFile) -> None:
    """Checks that each pattern can match a file name in the inbox."""
    patterns: dict[Loc, str] = {("source", "files", number): text for number, text in enumerate(source.files)}
    patterns |= {("source", "companions", role): text for role, text in source.companions.items()}
    for loc, pattern in patterns.items():
        if not pattern.strip():
            file.refuse(loc, "a file name pattern is blank", "such as orders_*.csv")
        elif pattern.startswith("/") or not {".", ".."}.isdisjoint(pattern.split("/")):
            file.refuse(
                loc,
                f'"{pattern}" cannot match a file in the inbox',
                "patterns are relative to the inbox, such as nordic/*.csv",
            )


def marks_of(source: FileSource) -> tuple[str, str]:
    """The quote and the escape character of the text files; empty: none."""
    quote = '"' if source.quote is None else source.quote
    return "" if quote == "none" else quote, source.escape or ""


def check_marks(source: FileSource, file: YamlFile) -> None:
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


# ---- rows ----


class Sourcing:
    """Finds where the rows of a mapping's tables come from."""

    def __init__(self, spec: MappingSpec, file: YamlFile, compile_rule: Compile) -> None:
        self._tables = spec.source.tables
        self._source = spec.source
        self._columns = spec.columns
        self._file = file
        self._compile = compile_rule

    def sourced(self, plan: TablePlan, order: Sequence[str], loc: Loc) -> TablePlan:
        """The table with the source of its rows; `loc` is the place of its columns."""
        spec = self._tables[plan.name]
        here: Loc = ("source", "tables", plan.name)
        patterns = self._patterns(spec)
        self._check_columns(plan, spec, patterns, loc)
        sets = self._sets(plan, spec, here) if spec.sets is not None else None
        joined_to = order.index(spec.join.to) if spec.join is not None else None
        plan = replace(plan, source=self._source_of(plan.name), patterns=patterns, sets=sets, joined_to=joined_to)
        if spec.kind is not None:
            plan = replace(plan, kind=self._kind(plan, spec, here, loc), prefix=f"{plan.name}.")
        if spec.from_ is not None:
            plan = replace(plan, made_of=list(order).index(spec.from_), prefix=f"{plan.name}.")
        if spec.totals is not None:
            plan = replace(plan, totals=self._totals(plan, spec, (*here, "totals")))
        if all(column.spec.whereabouts() for column in plan.columns) and spec.kind is None:
            self._file.refuse(loc, f"{plan.name} needs a column under a heading of the file", at_key=True)
        return plan

    def check_tables(self, main: str) -> bool:
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
            if spec.filled_by and spec.sets is None:
                self._file.refuse((*loc, "filled_by"), "filled_by needs sets", at_key=True)
        if main not in self._tables:
            return False
        return fine

    def _patterns(self, spec: TableSpec) -> tuple[str, ...]:
        of = self._tables[spec.from_] if spec.from_ is not None else spec
        companion = self._source.companions.get(of.file or "")
        return tuple(self._source.files) if companion is None else (companion,)

    def _alike(self, name: str) -> list[str]:
        """The tables with kinds of rows in the same file and sheet as this one, in order."""
        spec = self._tables[name]
        if spec.kind is None:
            return [name]
        place = (spec.file, tuple(spec.sheet or ()))
        return [
            other
            for other, its in self._tables.items()
            if its.kind is not None and (its.file, tuple(its.sheet or ())) == place
        ]

    def _source_of(self, name: str) -> str:
        return self._alike(self._tables[name].from_ or name)[0]

    # ---- columns ----

    def _check_columns(self, plan: TablePlan, spec: TableSpec, patterns: tuple[str, ...], loc: Loc) -> None:
        known = [*PARTS, *placeholders(patterns)]
        for column in plan.columns:
            here = (*loc, column.name)
            if column.spec.file is not None and column.spec.file not in known:
                hint = closest_or_known(column.spec.file, known)
                self._file.refuse((*here, "file"), f'a file\'s name has no part "{column.spec.file}"', hint)
            for key in ("above", "place"):
                if getattr(column.spec, key) is not None and spec.kind is None:
                    self._file.refuse((*here, key), f"{key} is for tables with a kind", at_key=True)
            if spec.sets is None and (column.spec.from_set or SET in (column.spec.label or "")):
                key = "from_set" if column.spec.from_set else "label"
                self._file.refuse((*here, key), f"{plan.name} has no sets", "write sets: under source.tables")
            if column.spec.fill_down and (
                spec.from_ is not None or in_every_set(column) or set(column.spec.whereabouts()) - {"place"}
            ):
                self._file.refuse(
                    (*here, "fill_down"), "only cells of the file's own rows are filled from above", at_key=True
                )

    # ---- sets ----

    def _sets(self, plan: TablePlan, spec: TableSpec, loc: Loc) -> SetsPlan:
        columns = tuple(column for column in plan.columns if in_every_set(column))
        names = [column.name for column in columns]
        if not columns:
            self._file.refuse(
                (*loc, "sets"), f"no label of {plan.name} holds {SET}", f'such as label: "Item {SET}"', at_key=True
            )
        for number, name in enumerate(spec.filled_by):
            if name not in names:
                hint = closest_or_known(name, names)
                self._file.refuse((*loc, "filled_by", number), f'"{name}" is not a column of the sets', hint)
        by = tuple(place for place, name in enumerate(names) if not spec.filled_by or name in spec.filled_by)
        required = tuple(
            place
            for place, column in enumerate(columns)
            if place not in by and column.spec.required and column.spec.default is None
        )
        return SetsPlan(tuple((spec.sets or {}).items()), columns, by, required)

    # ---- kinds ----

    def _kind(self, plan: TablePlan, spec: TableSpec, loc: Loc, columns: Loc) -> KindPlan | None:
        if spec.kind is None:
            return None
        same_place = self._alike(plan.name)
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
        above = [self._above(column, same_place, (*columns, column.name, "above")) for column in plan.columns]
        found = dict.fromkeys(place for place in above if place is not None)
        return KindPlan(spec.kind.label, frozenset(spec.kind.is_), known, others, tuple(found))

    def _above(self, column: ColumnPlan, same_place: Sequence[str], loc: Loc) -> tuple[frozenset[str], str] | None:
        text = column.spec.above
        if text is None:
            return None
        table, _, name = text.partition(".")
        section = self._columns.get(table)
        kind = self._tables[table].kind if table in same_place else None
        if kind is None or not isinstance(section, Mapping) or name not in section:
            known = [
                f"{other}.{its}"
                for other in same_place
                if isinstance(own := self._columns.get(other), Mapping)
                for its in own
            ]
            hint = closest_or_known(text, known)
            self._file.refuse(loc, f'"{text}" is not a column of another kind of row', hint)
            return None
        spec = section[name]
        if isinstance(spec, Mapping) and any(key in spec for key in WHERE_CELLS_ARE):
            self._file.refuse(loc, f"{text} has no heading")
            return None
        return frozenset(kind.is_), text

    # ---- totals ----

    def _totals(self, plan: TablePlan, spec: TableSpec, loc: Loc) -> TotalsPlan | None:
        if spec.totals is None or not self._are_checked(spec.totals, loc):
            return None
        columns = {name: slot for name, slot in plan.shape.slots.items() if slot.index < len(plan.columns)}
        where = self._compile(spec.totals.where or "", Shape(plan.name, columns), (*loc, "where"))
        sums = []
        for number, name in enumerate(spec.totals.sum):
            numbers = [known for known, slot in columns.items() if slot.type is Type.NUMBER]
            if name in numbers:
                sums.append(columns[name].index)
            else:
                hint = closest_or_known(name, numbers)
                self._file.refuse((*loc, "sum", number), f'"{name}" is not a column of numbers', hint)
        if where is None:
            return None
        needs = tuple(sorted(columns[use.column].index for use in where.uses))
        return TotalsPlan(where, needs, tuple(sums), spec.totals.over == "block")

    def _are_checked(self, totals: Totals, loc: Loc) -> bool:
        """Whether totals are found by an expression and checked. Otherwise they are found by their first words and ignored."""
        set_keys = totals.model_fields_set
        if "begins_with" in set_keys:
            for key in sorted(set_keys - {"begins_with"}):
                self._file.refuse(
                    (*loc, key),
                    f"{key} cannot be combined with begins_with",
                    "write where and sum instead",
                    at_key=True,
                )
            return False
        for key in ("where", "sum"):
            if key not in set_keys or getattr(totals, key) is None:
                hint = "write begins_with to ignore totals, or where and sum to check them"
                self._file.refuse(loc, f"{key} is missing", hint, at_key=True)
                return False
        return True

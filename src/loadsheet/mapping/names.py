"""What a name in a mapping refers to: a column of the current row, of the main table's first row, or all rows of a table.

Outside of lists the current row is the first row of the main table. Inside `each: packages` it is the row of that package. `rows` are
always all rows of the main table in the document. Conditions and the mapping's checks are compiled here. A `DocumentFrame` holds the rows of a
document while its payload is built. Knows no payload field.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from loadsheet.mapping.documents import NO_LINKS, RowLinks, Source
from loadsheet.mapping.plans import (
    CALCULATION_ERRORS,
    Evaluate,
    Expression,
    ExpressionError,
    Frame,
    Scope,
    Slot,
    TablePlan,
    Type,
    Use,
    reason_text,
)
from loadsheet.mapping.schema import Check, MappingSpec
from loadsheet.mapping.yamlfile import Loc, YamlFile
from loadsheet.problems import Level
from loadsheet.similar_text import closest_or_known, did_you_mean, short_list

ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Needs:
    """The values something is made from: indexes in the current row (`here`), in the main table's first row, and in the row of the
    surrounding list (`around`); `all` has (table, index) for all rows of a table, where index -1 means the rows themselves.
    """

    here: frozenset[int] = frozenset()
    first: frozenset[int] = frozenset()
    all: frozenset[tuple[int, int]] = frozenset()
    around: frozenset[int] = frozenset()


class DocumentFrame(Frame):
    """The frame of one document: its rows, their refused values, and the faults found while its payload is built."""

    __slots__ = (
        "all_refused",
        "at",
        "faults",
        "inner_rows",
        "links",
        "main_refused",
        "nested",
        "outer_index",
        "outer_refused",
        "present",
        "row_refused",
        "rows_refused",
        "skipped",
        "unlisted",
    )

    nested: Mapping[int, Sequence[Sequence[int]]]
    outer_refused: frozenset[int]
    row_refused: frozenset[int]
    main_refused: frozenset[int]
    all_refused: frozenset[tuple[int, int]]
    rows_refused: Sequence[Sequence[frozenset[int]]]

    def clear(self) -> None:
        """Reset for the next document."""
        self.row_refused = self.main_refused = self.outer_refused = frozenset()
        self.nested = {}
        self.outer_index = 0  # index of the current row in the innermost list
        self.all_refused = frozenset()
        self.rows_refused = ()
        self.faults: list[tuple[str, str, dict[str, str]]] = []  # path, code, values of the message
        self.unlisted: list[tuple[str, str, tuple[str, ...]]] = []  # path, value, the values that the interface names
        self.skipped: list[str] = []  # paths whose cells were refused
        self.links = NO_LINKS  # of the rows
        self.present: dict[str, tuple[int, ...]] = {}  # see `RowLinks`
        self.inner_rows: dict[str, tuple[int, ...]] = {}
        self.at: list[int] = []
        self.row = self.main

    def all_links(self) -> RowLinks:
        """The links of the rows, and of the lists made so far."""
        if not self.present and not self.inner_rows:
            return self.links
        return replace(self.links, present=self.present, inner_rows=self.inner_rows)

    def narrow(self, children: Sequence[int], index: int) -> None:
        """Limit the child tables to the rows that belong to row `index`. The caller restores `lists`."""
        own = {child: [self.lists[child][place] for place in self.nested[child][index]] for child in children}
        self.lists = [own.get(position, rows) for position, rows in enumerate(self.lists)]

    def lacks(self, needs: Needs) -> bool:
        """Whether any of these values was refused."""
        if not self.all_refused:
            return False
        return not (
            needs.here.isdisjoint(self.row_refused)
            and needs.first.isdisjoint(self.main_refused)
            and needs.all.isdisjoint(self.all_refused)
            and needs.around.isdisjoint(self.outer_refused)
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition for sending a value or a list entry, and its path."""

    evaluate: Evaluate
    needs: Needs
    path: str

    def holds(self, frame: DocumentFrame) -> bool:
        """Whether the condition holds. If it cannot be evaluated, the result is False and the document gets a problem."""
        if frame.all_refused and frame.lacks(self.needs):
            frame.skipped.append(with_positions(self.path, frame.at))
            return False
        try:
            return bool(self.evaluate(frame))
        except CALCULATION_ERRORS as error:
            path = with_positions(self.path, frame.at)
            frame.faults.append((path, "G407", {"target": path, "reason": reason_text(error)}))
            return False


def with_positions(path: str, at: list[int]) -> str:
    """A path pattern with the positions of the lists it goes through: `packages[].weight` at 1 is `packages[1].weight`."""
    for index in at:
        path = path.replace("[]", f"[{index}]", 1)
    return path


class Reference(NamedTuple):
    """A column named by `col:`: its getter, its type and its sources."""

    get: Evaluate
    type: Type
    needs: Needs
    sources: tuple[Source, ...]


class Names:
    """The names of one mapping, and its file for findings. `item` is the position of the table that a list iterates over, None outside of
    lists. `first` are the values read from the main table's first row: all rows of a record must agree in them.
    """

    def __init__(
        self, tables: Sequence[TablePlan], file: YamlFile, outer: int | None = None, first: set[int] | None = None
    ) -> None:
        self.tables = tables
        self.file = file
        self.first: set[int] = set() if first is None else first
        self._outer = outer
        self._positions = {table.name: table.position for table in tables}
        self._looked_up = {table.name for table in tables if table.lookups}
        self._indexes = {(table.name, name): slot.index for table in tables for name, slot in table.shape.slots.items()}

    def inside(self, outer: int) -> "Names":
        """The names in a list inside the list over the table at `outer`."""
        return Names(self.tables, self.file, outer, self.first)

    def list_position(self, name: str) -> int | None:
        """The position of the table that `each: NAME` iterates over."""
        return 0 if name == ROWS else self._positions.get(name) if name not in self._looked_up else None

    def list_names(self) -> list[str]:
        """The names that `each:` accepts."""
        return list(dict.fromkeys([ROWS, *(name for name in self._positions if name not in self._looked_up)]))

    def children(self, position: int) -> tuple[int, ...]:
        """The tables whose rows belong to single rows of this one."""
        return tuple(table.position for table in self.tables if table.belongs_to == position)

    def scope(self, item: int | None) -> Scope:
        """The names that an expression may use at this place."""
        main = self.tables[0]
        lists = {table.name: (table.position, table.shape) for table in self.tables[1:] if not table.lookups}
        lists[ROWS] = (0, main.shape)
        return Scope(self.tables[item or 0].shape, None if main.name == ROWS else main.shape, lists)

    def expression(self, text: str, item: int | None, loc: Loc) -> Expression | None:
        """A compiled expression, or None with the finding."""
        found = compile_or_refuse(text, self.scope(item), self.file, loc)
        if found is not None:
            self._note_first_row(found.uses, item)
        return found

    def condition(self, text: str, item: int | None, loc: Loc) -> Expression | None:
        """A compiled expression that answers yes or no, or None with the finding."""
        found = self.expression(text, item, loc)
        if found is not None and found.type not in (Type.FLAG, Type.ANY):
            self.file.refuse(loc, f"the condition gives {found.type.value}, not yes or no", "compare it with a value")
        return found

    def condition_at(self, text: str, item: int | None, path: str, loc: Loc) -> Condition | None:
        """The condition for sending the value or the list entry at `path`, or None with the finding."""
        found = self.condition(text, item, loc)
        return None if found is None else Condition(found.evaluate, self.needs(found.uses), path)

    def reference(self, text: str, item: int | None, loc: Loc) -> Reference | None:
        """The value of `col: TEXT`, or None with the finding. The text is `column` or `table.column`, optionally with `.code`."""
        found = self.column(text, item, loc)
        if found is None:
            return None
        table, column, code = found
        slot = table.shape.slots[column]
        place, problem = _code_place(slot, code)
        if problem:
            self.file.refuse(
                loc, f'"{text}": {problem}', did_you_mean(code, [known.name for known in slot.code_columns])
            )
            return None
        rows: Literal["here", "first", "around"] = "around" if table.position == self._outer else "first"
        rows = "here" if table.position == (item or 0) else rows
        kind = slot.code_columns[place].type if place is not None else slot.type
        uses = frozenset({Use(table.name, column, rows, code)})
        self._note_first_row(uses, item)
        return Reference(_getter(slot.index, place, rows), kind, self.needs(uses), self.sources(uses, item))

    def _note_first_row(self, uses: Iterable[Use], item: int | None) -> None:
        main = self.tables[0]
        for use in uses:
            if use.column and use.table == main.name and (use.rows == "first" or (use.rows == "here" and item is None)):
                self.first.add(main.shape.slots[use.column].index)

    def column(self, text: str, item: int | None, loc: Loc) -> tuple[TablePlan, str, str] | None:
        """The table and column that a text names, and the rest of the text; or None with the finding."""
        first, _, rest = text.partition(".")
        table, name = self.tables[item or 0], text
        if first in self._positions and rest and first not in table.shape.slots:
            table, name = self.tables[self._positions[first]], rest
        column, _, code = name.partition(".")
        if column not in table.shape.slots:
            known = [*table.shape.slots, *(other.name for other in self.tables if len(self.tables) > 1)]
            hint = closest_or_known(column, known)
            self.file.refuse(loc, f'"{text}": {table.name} has no column "{column}"', hint)
            return None
        if table.lookups:
            hint = f"name it through a column with this lookup, such as COLUMN.{column}"
            self.file.refuse(loc, f"{table.name} is looked up: the row depends on the column", hint)
            return None
        if table.position not in (0, item, self._outer):
            hint = f"use each: {table.name}, or an expression over its rows"
            self.file.refuse(loc, f"{table.name} has several rows for one record", hint)
            return None
        return table, column, code

    def needs(self, uses: Iterable[Use]) -> Needs:
        """The values behind these uses."""
        found: dict[str, set[int]] = {"here": set(), "first": set(), "around": set()}
        every: set[tuple[int, int]] = set()
        for use in uses:
            position = self._positions[use.table]
            index = self.tables[position].shape.slots[use.column].index if use.column else -1
            if use.rows == "all":
                every.add((position, index))
            else:
                found[use.rows].add(index)
        here, first, around = map(frozenset, found.values())
        return Needs(here, first, frozenset(every), around)

    def sources(self, uses: Iterable[Use], item: int | None) -> tuple[Source, ...]:
        """The columns behind these uses, derived values resolved, in the order of tables and columns. Columns that only helped to search
        a code table or another table (`lookup_with`), or that hold a unit, come last.
        """
        plain = [read for use in uses for read in self._read(use)]
        found = {source for use in plain for source in self._sources(use, item)}
        helped = {source for use in plain for source in self._searched_with(use, item)} - found

        def order(source: Source) -> tuple[int, int, bool, int]:
            place = self._indexes.get((source.table, source.column), -1)
            table, column = source.via.split(".") if source.via else (source.table, source.column)
            return self._positions[table], self._indexes.get((table, column), -1), not source.via, place

        return (*sorted(found, key=order), *sorted(helped, key=order))

    def _read(self, use: Use) -> Iterator[Use]:
        """A use of a column itself, or the uses of columns from which a derived value is computed."""
        derived = self.tables[self._positions[use.table]].derived_as(use.column)
        if derived is None:
            yield use
            return
        for deeper in derived.expression.uses:
            yield from self._read(deeper._replace(rows=use.rows))

    def _sources(self, use: Use, item: int | None) -> Iterator[Source]:
        table = self.tables[self._positions[use.table]]
        yield (own := self._source(use, use.column, item))
        column = table.column(use.column)
        if use.part and column is not None and column.reference is not None:
            there = self.tables[column.reference.position]
            for read in self._read(Use(there.name, use.part, use.rows)):
                for source in self._sources(read, item):
                    yield source._replace(via=f"{own.table}.{own.column}")

    def _searched_with(self, use: Use, item: int | None) -> Iterator[Source]:
        table = self.tables[self._positions[use.table]]
        column = table.column(use.column)
        if column is not None:
            beside = {*column.spec.lookup_with, column.spec.unit_column or ""}
            for name in beside & table.shape.slots.keys():
                yield self._source(use, name, item)

    def _source(self, use: Use, column: str, item: int | None) -> Source:
        """A column of the table that is used, read as it is used."""
        table = self.tables[self._positions[use.table]]
        label = table.label(table.shape.slots[column].index) if column else ""
        return Source(table.name, column, label, _rows_of(use, item))


def _rows_of(use: Use, item: int | None) -> Literal["first", "each", "around", "all"]:
    return use.rows if use.rows != "here" else "first" if item is None else "each"


def compile_or_refuse(text: str, scope: Scope, file: YamlFile, loc: Loc) -> Expression | None:
    """A compiled expression, or None with the finding."""
    from loadsheet.mapping.expressions import compile_expression

    try:
        return compile_expression(text, scope)
    except ExpressionError as error:
        file.refuse_within(loc, error.at, error.text, error.hint)
        return None


def _code_place(slot: Slot, code: str) -> tuple[int | None, str]:
    """The index of the named column in a code table's row (None: the value itself), or the problem with the name."""
    names = [known.name for known in slot.code_columns]
    if not names:
        return None, f'the column has no part "{code}"' if code else ""
    if not code:
        return None, f"the code table gives several values; name one of {short_list(names)}"
    if code not in names:
        return None, f"the code table has no column {code}; it has {short_list(names)}"
    return names.index(code), ""


def _getter(index: int, place: int | None, rows: Literal["here", "first", "around"]) -> Evaluate:
    """The value at `index` of a row, or the value at `place` in the row of a code table there."""
    getters: dict[str, Evaluate] = {
        "here": lambda frame: frame.row[index],
        "first": lambda frame: frame.main[index],
        "around": lambda frame: frame.outer[index],
    }
    get = getters[rows]
    return get if place is None else (lambda frame: None if (codes := get(frame)) is None else codes[place])


# ---- checks ----


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """A compiled check: where it runs (once per document, or for each row of a table), and the cells it reports. `says` is its message,
    as values of its problem: `say` for all readers, `say_de` for those of this language.
    """

    id: str
    says: Mapping[str, str]
    level: Level
    rule: Expression
    needs: Needs
    position: int | None
    cells: tuple[tuple[int, int], ...]  # (table, index) of the columns to report
    children: tuple[int, ...]  # tables of which a row sees only its own rows


def plan_checks(spec: MappingSpec, names: Names) -> tuple[CheckPlan, ...]:
    """The compiled checks of the mapping, without those that have findings."""
    ids = [check.id for check in spec.checks]
    for number, id_ in enumerate(ids):
        if id_ in ids[:number]:
            names.file.refuse(("checks", number, "id"), f'"{id_}" is already the id of another check')
    same = frozenset([*spec.group.by, *spec.group.one_value] if spec.group else names.tables[0].shape.slots)
    found = [_check(check, names, same, ("checks", number)) for number, check in enumerate(spec.checks)]
    return tuple(check for check in found if check is not None)


def _check(check: Check, names: Names, same: frozenset[str], loc: Loc) -> CheckPlan | None:
    """One check. All rows of a record agree in the columns `same`."""
    item = names.list_position(check.each) if check.each is not None else None
    if check.each is not None and item is None:
        hint = did_you_mean(check.each, names.list_names())
        names.file.refuse((*loc, "each"), f'there is no table "{check.each}"', hint)
        return None
    rule = names.condition(check.rule, item, (*loc, "rule"))
    if rule is None:
        return None
    needs = names.needs(rule.uses)
    if item is None and _is_about_rows(rule, names, same):
        item = 0
    columns = [names.column(name, item, (*loc, "columns", number)) for number, name in enumerate(check.columns)]
    cells = [(found[0].position, found[0].shape.slots[found[1]].index) for found in columns if found is not None]
    cells = cells or [(item or 0, index) for index in sorted(needs.here)]
    children = names.children(item) if check.each is not None and item is not None else ()
    return CheckPlan(check.id, _says(check), check.level, rule, needs, item, tuple(cells), children)


def _says(check: Check) -> dict[str, str]:
    if isinstance(check.say, str):
        return {"say": check.say}
    usual = check.say.get("en") or next(iter(check.say.values()))
    return {"say": usual, **{f"say_{language}": text for language, text in check.say.items()}}


def _is_about_rows(rule: Expression, names: Names, same: frozenset[str]) -> bool:
    """Whether a check on columns of the main table must run for each row: they may differ between rows, and the rule does not read all
    rows itself.
    """
    if any(use.rows == "all" for use in rule.uses):
        return False
    own = [use.column for use in rule.uses if use.rows == "here"]
    derived = {plan.name for plan in names.tables[0].derived}
    return any(column not in same or column in derived for column in own)

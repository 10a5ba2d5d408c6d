"""The problems of one document, each with the cell it belongs to, and the checks within one record.

A problem is added for a cell (table, row, column) or for a payload path. It holds the value's place in the file and the shipper's
text. The checks: rows that must agree, the mapping's own checks, and the contract. A contract fault that only follows from another
problem of the document is not reported, unless the document would then have no error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadsheet.contract import RATE_FIELD, REQUIRED, Action, Operation, other_end
from loadsheet.mapping import compile as compiled
from loadsheet.mapping.documents import Lineage, SourceRow, Trace, trace
from loadsheet.mapping.grouping import Group
from loadsheet.mapping.names import CheckPlan, DocumentFrame
from loadsheet.mapping.near_keys import NearKeys, correct_there
from loadsheet.mapping.payload import Variant
from loadsheet.mapping.plans import CALCULATION_ERRORS, CellProblem, reason_text
from loadsheet.mapping.rows import ReadRow, RowReader, SetRow, with_set_number
from loadsheet.problems import Level, Problem, Where
from loadsheet.reading.tables import Row
from loadsheet.similar_text import short_list

_ALSO_MAX = 1_000
_ONE_SHEET = "put all rows of one record on one sheet"
_EACH_EVENT = (
    "let the mapping look up the other table (lookups.table) instead of joining it, so that each event is a record"
)
_NOTHING = "nothing that is sent changes the record"
_HALF = "only one end of the time window is given; the exchange keeps the other one as it was"
_OUT_OF_ORDER = "a row below has the value: if the rows were sorted, send them in the order of the export"

ValueRef = tuple[int, Row, int | None]
"""Where a value of a row is: the position of its table, the row, and the value's index among those of the row; None: the whole row."""

Rows = Sequence[Sequence[ReadRow]]
"""The rows of one document by the position of their table."""


class DocumentProblems:
    """The problems of the current document, in `found`. `begin` starts the next document; `source` are its rows."""

    def __init__(
        self, readers: Sequence[RowReader], lineage: Lineage, frame: DocumentFrame, plan: compiled.Plan
    ) -> None:
        self._readers = readers
        self._one_value = frozenset(plan.one_value if plan.is_grouped else ())
        self._to_repeat = self._one_value - plan.once  # in each row of a record
        self._lineage = lineage
        self._frame = frame
        self._group = Group(None, ())
        self._suppressed: dict[str, str] = {}  # faults of the contract that may follow from reported problems
        self.source: tuple[SourceRow, ...] = ()
        self.found: list[Problem] = []

    def begin(self, group: Group, source: tuple[SourceRow, ...]) -> None:
        """Start the next document."""
        self._group, self.source, self.found, self._suppressed = group, source, [], {}

    @property
    def has_errors(self) -> bool:
        """Whether any problem is worse than a warning."""
        return bool(self.found) and any(problem.level == "error" for problem in self.found)

    def add(self, cell: ValueRef, problem: CellProblem, also: Iterable[ValueRef] = ()) -> None:
        """Add a problem of a value, or of a whole row. `also` are the other values involved."""
        position, row, index = cell
        reader = self._readers[position]
        column = reader.view.position(index, row) if index is not None else None
        where = reader.table.where(row.number, column)
        values = dict(problem.values)
        if index is not None:
            if column is None:
                where = Where(where.file, where.sheet, where.row, reader.plan.label(index))
            if index < len(reader.plan.columns) and reader.plan.columns[index].spec.place is not None:
                values = {"column": reader.plan.label(index), **values}  # the heading above is another column's
        others = self._others(where, also) if problem.level == "error" else ()
        found = (self.cell(cell), values, problem.hint, problem.level, others, problem.because)
        self.found.append(Problem(problem.code, where, *found))

    def add_at(self, path: str, code: str, values: Mapping[str, Any], *, level: Level = "error") -> None:
        """Add a problem of a payload path, at the first cell that the value comes from."""
        found = trace(self._lineage, self.source, self._frame.all_links(), path)
        table = self._readers[0].table
        row, column, text, hint = self.source[0], None, "", ""
        if found:
            row = self.source[found[0].row]
            reader = self._reader(found[0].source.table)
            slot = reader.plan.shape.slots.get(found[0].source.column)
            table = reader.table
            if slot is not None:
                column, text = self._placed(reader, found[0].nth, slot.index, row)
                hint = _gap_in_code_table(reader, slot.index, values) if text.strip() else ""
        where = table.where(row.number, column, path)
        others = self._others(where, self._traced(found)) if level == "error" else ()
        self.found.append(Problem(code, where, text, {"found": text, **values}, hint, level, others))

    def cell(self, cell: ValueRef) -> str:
        """The cell as the shipper wrote it; empty for derived values and missing columns."""
        position, row, index = cell
        if index is None:
            return ""
        view = self._readers[position].view
        column = view.position(index, row)
        return view.constants.get(index, "") if column is None else row.shown[column]

    def to_fill(self, position: int) -> Iterable[ValueRef]:
        """The cells of the first column set, if a table made from column sets has no rows. Filling them adds a row."""
        reader = self._readers[position]
        sets, of = reader.plan.sets, reader.plan.made_of
        if sets is None or of is None or self._group.rows[position]:
            return
        for row in self._group.rows[of]:
            cells = (*row.cells, *("",) * len(sets.columns), sets.words[0][1])
            blank = with_set_number(SetRow(0, Row(row.number, cells)), 0)
            for place in sets.filled_by:
                yield position, blank, sets.columns[place].slot.index

    def _reader(self, table: str) -> RowReader:
        return next(reader for reader in self._readers if reader.plan.name == table)

    def _traced(self, found: Iterable[Trace]) -> Iterable[ValueRef]:
        for trace_ in found:
            reader = self._reader(trace_.source.table)
            slot = reader.plan.shape.slots.get(trace_.source.column)
            rows = self._group.rows[reader.plan.position]
            if slot is not None and trace_.nth < len(rows):
                yield reader.plan.position, rows[trace_.nth], slot.index

    def _others(self, where: Where, also: Iterable[ValueRef]) -> tuple[Where, ...]:
        """The places of values in the files, each once and without `where`. A derived value counts as the cells it is computed from."""
        here = replace(where, path="")
        found: dict[Where, None] = {}
        for position, row, index in also:
            reader = self._readers[position]
            for column in sorted(reader.plan.columns_behind(() if index is None else (index,))):
                for row_ in self._stating(position, row, column):
                    place = reader.view.position(column, row_)
                    if place is not None:
                        found[reader.table.where(row_.number, place)] = None
            if len(found) > _ALSO_MAX:
                break
        found.pop(here, None)
        return tuple(found)

    def _stating(self, position: int, row: Row, index: int) -> Sequence[Row]:
        """The rows that hold a value, or are to hold it: all rows of the record if they must agree in it, otherwise the row itself."""
        if position or index not in self._one_value:
            return (row,)
        to_fill = index in self._to_repeat and not self.cell((0, row, index)).strip()
        rows = self._group.rows[0]
        return [other for other in rows if other is row or to_fill or self.cell((0, other, index)).strip()]

    def _placed(self, reader: RowReader, nth: int, index: int, source: SourceRow) -> tuple[int | None, str]:
        """The column of a value in its row of the file, and its text."""
        rows = self._group.rows[reader.plan.position]
        column = reader.view.position(index, rows[nth]) if nth < len(rows) else None
        return column, source.cells[column] if column is not None else ""

    # ---- the contract ----

    def check_contract(self, variant: Variant, payload: dict[str, Any]) -> None:
        """Report the problems of one record of the document."""
        frame, faults = self._frame, tuple(variant.check_record(payload))
        if not (self.has_errors or faults or frame.faults or frame.skipped):
            self._warn_of_slips(variant.operation, payload)
        if not (faults or frame.faults or frame.skipped or frame.unlisted):
            return
        for path, code, values in frame.faults:
            self.add_at(path, code, values)
        reported = {path for path, _, _ in frame.faults}.union(frame.skipped)
        for fault in faults:
            # a fault may follow from one at a list around it
            follows = any(fault.path == path or fault.path.startswith((f"{path}.", f"{path}[")) for path in reported)
            if follows or self._was_refused(fault.path):
                self._suppressed.setdefault(fault.path, fault.text)
            else:
                self._add_fault(fault.path, fault.text)
        for path in frame.skipped:
            self._suppressed.setdefault(path, "has no value because a cell that it needs was refused")
        self._join_missing()
        refused = {fault.path for fault in faults}
        for path, found, known in frame.unlisted:
            if path not in refused:
                values = {"path": path, "found": found, "expected": ", ".join(known)}
                self.add_at(path, "K502", values, level="warning")

    def _warn_of_slips(self, operation: Operation, payload: Mapping[str, Any]) -> None:
        """Warn of what the interface permits, and a sender hardly means: a rate of 0, a change of nothing, and one of half a window."""
        rate = str(payload.get(RATE_FIELD, ""))
        if rate and not rate.strip("0.,"):
            self.add_at(RATE_FIELD, "C305", {"expected": "more than 0"}, level="warning")
        if operation.action is not Action.UPDATE:
            return
        if not operation.changes(payload):
            self.add_at(operation.record.key[0], "C323", {"reason": _NOTHING}, level="warning")
        for name in payload:
            other = other_end(name)
            if other and other in self._lineage and other not in payload:
                self.add_at(name, "C323", {"reason": _HALF}, level="warning")

    def check_complete(self) -> None:
        """Report the suppressed faults if this document has no other error."""
        if not (self._suppressed or self._frame.all_refused) or self.has_errors:
            return
        for path, text in self._suppressed.items():
            self._add_fault(path, text)
        if self._frame.all_refused and not self._suppressed:
            self._add_fault("", "cannot be built because a cell that it needs was refused")

    def _add_fault(self, path: str, text: str) -> None:
        self.add_at(path, "K501", {"path": path or "the record", "text": text})

    def _join_missing(self) -> None:
        """Make one problem of all required fields that lack the same cell: for its sender, a blank cell is one mistake."""
        first: dict[Where, tuple[int, list[str]]] = {}
        kept: list[Problem] = []
        for problem in self.found:
            here = replace(problem.where, path="")
            is_missing = problem.code == "K501" and problem.values["text"] == REQUIRED and here.column
            if is_missing and here in first:
                first[here][1].append(problem.values["path"])
                continue
            if is_missing:
                first[here] = (len(kept), [])
            kept.append(problem)
        for place, also in first.values():
            if also:
                path = f"{kept[place].values['path']} (also {short_list(also, 5)})"
                kept[place] = replace(kept[place], values={**kept[place].values, "path": path})
        self.found = kept

    def _was_refused(self, path: str) -> bool:
        """Whether the field has no value because a cell behind this path was refused."""
        if not self._frame.all_refused:
            return False
        for found in trace(self._lineage, self.source, self._frame.all_links(), path):
            plan = self._reader(found.source.table).plan
            slot = plan.shape.slots.get(found.source.column)
            if slot is not None and (plan.position, slot.index) in self._frame.all_refused:
                return True
        return False


def _gap_in_code_table(reader: RowReader, index: int, values: Mapping[str, Any]) -> str:
    """Why a filled cell gives no value that is required: its code table has none; empty for another reason."""
    lookup = reader.plan.columns[index].spec.lookup if index < len(reader.plan.columns) else None
    if lookup is None or values.get("text") != REQUIRED:
        return ""
    return f"the code table {lookup} has no value for it: add it there, or correct the cell"


class GroupChecks:
    """Partners of rows, agreement of rows, and the mapping's own checks, for one record at a time."""

    def __init__(
        self,
        plan: compiled.Plan,
        problems: DocumentProblems,
        frame: DocumentFrame,
        near_keys: NearKeys,
        on_several_sheets: Mapping[str, str],
    ) -> None:
        self._plan, self._problems, self._frame, self._near = plan, problems, frame, near_keys
        self._on_several_sheets = on_several_sheets
        self._key: str | None = None
        self._inner_joins = plan.inner_joins
        self._incomplete: set[int] = set()  # tables with missing or refused rows in this record

    def begin(self, group: Group, read: Rows) -> None:
        """Start the next record. Marks its refused values so that they are not used."""
        self._key = group.key
        self._incomplete = {place for place, rows in enumerate(read) if len(group.rows[place]) > len(rows)}
        if self._incomplete or any(row.refused for rows in read for row in rows):
            self._mark_refused(read)

    def _mark_refused(self, read: Rows) -> None:
        frame = self._frame
        for table in self._plan.tables:
            if table.belongs_to in self._incomplete:
                self._incomplete.add(table.position)
        frame.rows_refused = [[frozenset(row.refused) for row in rows] for rows in read]
        refused = {(position, index) for position, rows in enumerate(read) for row in rows for index in row.refused}
        for position in self._incomplete:
            slots = self._plan.tables[position].shape.slots
            refused.update((position, slot.index) for slot in slots.values())
            refused.add((position, -1))
        frame.all_refused = frozenset(refused)
        if read[0]:
            frame.row_refused = frame.main_refused = frozenset(read[0][0].refused)

    def _mark_incomplete(self, read: Rows, positions: Sequence[int]) -> None:
        if positions:
            self._incomplete.update(positions)
            self._mark_refused(read)

    # ---- partners and agreement ----

    def check_grouping(self, group: Group, read: Rows) -> None:
        """Reports rows without a partner, rows of one record that differ, and a key that occurs twice."""
        main, rows = self._plan.tables[0], group.rows[0]
        if group.key is not None and main.key:
            key = group.shown_key(self._plan.key_shown)
            self._check_partners(group, read, key)
            if self._plan.is_grouped:
                self._check_agreement(read, key)
            elif len(rows) > 1:
                values = {"key": key, "rows": ", ".join(str(row.number) for row in rows)}
                hint = _EACH_EVENT if self._plan.targets.operations[0].repeatable else ""
                problem = CellProblem("G402", values, hint)
                self._problems.add((0, rows[0], main.key[0]), problem, _cells(0, rows, main.key))
            if rows and (places := self._on_several_sheets.get(group.key)):
                problem = CellProblem("G402", {"key": key, "rows": places}, _ONE_SHEET)
                self._problems.add((0, rows[0], main.key[0]), problem, _cells(0, rows, main.key))
        elif main.key:
            self._mark_incomplete(read, list(self._plan.joins))  # their rows of this record are not known
        if self._inner_joins:
            self._check_inner_joins(read)

    def _check_partners(self, group: Group, read: Rows, key: str) -> None:
        main, main_rows, incomplete, wrong_key = self._plan.tables[0], group.rows[0], [], None
        for position, join in self._plan.joins.items():
            rows, table = group.rows[position], self._plan.tables[position]
            if main_rows and not rows and join.missing == "error" and not join.to:
                problem, part = self._explained("G403", group.key, {"key": key, "table": table.name}, position)
                if problem.hint and problem.because is None:  # of one wrong key, the same in all tables
                    problem = problem._replace(because=wrong_key)
                self._problems.add((0, main_rows[0], main.key[part]), problem, _cells(0, main_rows, main.key))
                wrong_key = wrong_key or (self._problems.found[-1] if problem.hint else None)
                incomplete.append(position)
            elif rows and not main_rows:
                values = {"key": key, "table": self._plan.tables[join.to].name, "count": len(rows)}
                problem, part = self._explained("G404", group.key, values, position)
                self._problems.add((position, rows[0], table.key[part]), problem, _cells(position, rows, table.key))
        self._mark_incomplete(read, incomplete)

    def _explained(self, code: str, key: str | None, values: dict[str, Any], position: int) -> tuple[CellProblem, int]:
        """The problem of a record without rows, or of rows without a record, and the part of the key that it is about."""
        row, key = self._frame.row, key or ""
        why = (self._near.explain_lacking if code == "G403" else self._near.explain_left_over)(position, key)
        self._frame.row = row  # keys were read with it
        if why is None:
            return CellProblem(code, values), 0
        values |= {"meant": why.meant} if why.meant else {}
        return CellProblem(code, values, why.hint, because=why.because), why.part

    def _check_agreement(self, read: Rows, key: str) -> None:
        rows = read[0]
        if len(rows) < 2:
            return
        first = rows[0]
        same = [first.values[index] for index in self._plan.one_value]
        if all([row.values[index] for index in self._plan.one_value] == same for row in rows):
            return
        cause: Problem | None = None
        below: set[int] = set()  # values that only rows below the first one have
        for index in self._plan.one_value:
            fine = (first.values[index], None) if index in self._plan.once else (first.values[index],)
            other = next((row for row in rows[1:] if row.values[index] not in fine), None)
            if other is None or any(index in row.refused for row in rows):
                continue
            reported = [(row, self._problems.cell((0, row.row, index)) or row.values[index]) for row in (first, other)]
            shown = [f'row {row.row.number} "{"" if text is None else text}"' for row, text in reported]
            values = {"key": key, "values": f"{self._plan.tables[0].label(index)} is {' and '.join(shown)}"}
            problem = CellProblem("G401", values, "all rows of one record must say the same here")
            is_once = index in self._plan.once  # then blanks below the first row agree
            is_blank_above = first.values[index] is None
            if is_once and is_blank_above and all(row.values[index] in (None, other.values[index]) for row in rows):
                problem = problem._replace(hint=_OUT_OF_ORDER, because=cause)
                below.add(index)
            also = [(0, row.row, index) for row in rows if row is first or row.values[index] is not None or not is_once]
            self._problems.add((0, other.row, index), problem, also)
            cause = cause or (self._problems.found[-1] if below else None)
        if below:
            self._mark_lacking(read, below)

    def _mark_lacking(self, read: Rows, below: Iterable[int]) -> None:
        """Marks values as refused that the first row lacks and rows below it have."""
        self._mark_refused(read)
        frame = self._frame
        frame.all_refused |= {(0, index) for index in below}
        frame.row_refused = frame.main_refused = frame.main_refused.union(below)

    def _check_inner_joins(self, read: Rows) -> None:
        """Joins the tables that are joined to another joined table, and reports missing partners."""
        nested, incomplete = dict(self._frame.nested), []
        for position, join in self._inner_joins:
            table, to = self._plan.tables[position], self._plan.tables[join.to]
            met = join.match([row.values for row in read[position]], [row.values for row in read[join.to]])
            nested[position] = met.of
            if (
                not read[0]
                or not self._incomplete.isdisjoint((position, join.to))
                or any(row.refused for row in (*read[position], *read[join.to]))
            ):
                continue
            here, there = ([pair[side] for pair in join.on] for side in (0, 1))
            for index in met.unmatched:
                self._add_lonely("G404", position, read[position][index], here, to.name)
            for index, mine in enumerate(met.of):
                if not mine and join.missing == "error":
                    self._add_lonely("G403", join.to, read[join.to][index], there, table.name)
                    incomplete.append(position)
        self._frame.nested = nested
        self._mark_incomplete(read, incomplete)

    def _add_lonely(self, code: str, position: int, row: ReadRow, on: Sequence[int], partner: str) -> None:
        """Report a row without a partner in the table `partner`; `on` are the columns that should agree."""
        problem = CellProblem(code, {"key": "/".join(str(row.values[index]) for index in on), "table": partner})
        self._problems.add((position, row.row, on[-1]), problem, _cells(position, [row.row], on))

    # ---- the mapping's checks ----

    def run_checks(self, read: Rows) -> None:
        """Runs all checks on the rows of a record, by table, and reports the failures."""
        frame = self._frame
        for check in self._plan.checks:
            if check.position is None:
                self._check(check, read, 0)
                continue
            everything, children = frame.lists, check.children
            for index, row in enumerate(read[check.position]):
                frame.row = row.values
                if children:
                    frame.lists = everything
                    frame.narrow(children, index)
                frame.row_refused = frame.rows_refused[check.position][index] if frame.all_refused else frozenset()
                self._check(check, read, index)
            frame.lists = everything
        frame.row, frame.row_refused = frame.main, frame.main_refused

    def _check(self, check: CheckPlan, read: Rows, row: int) -> None:
        """Runs a check on the row of this number in the check's own table."""
        if self._frame.lacks(check.needs):
            return
        try:
            if check.rule.evaluate(self._frame):
                return
            values, because = {**check.says, "check": check.id}, self._rows_elsewhere(check)
            problem = CellProblem("G406", values, correct_there(because) if because else "", check.level, because)
        except CALCULATION_ERRORS as error:
            problem = CellProblem("G407", {"target": f"check {check.id}", "reason": reason_text(error)})
        own = check.position or 0
        position, index = check.cells[0] if check.cells else (0, None)
        rows = read[position]
        at = read[own][row].row if position == own or not rows else rows[0].row
        self._problems.add((position, at, index), problem, self._taking_part(check, read, row))

    def _rows_elsewhere(self, check: CheckPlan) -> Problem | None:
        """Why rows are missing in the tables that a check reads, if their key only looks like the key of this record."""
        positions = {position for position, _ in check.needs.all}.intersection(self._plan.joins)
        if not positions or self._key is None:
            return None
        row = self._frame.row
        found = self._near.rows_elsewhere(self._key, positions)
        self._frame.row = row
        return found

    def _taking_part(self, check: CheckPlan, read: Rows, row: int) -> Iterator[ValueRef]:
        """The cells involved in a check: those the mapping names, and those its rule reads."""
        own, needs, nested = check.position or 0, check.needs, self._frame.nested
        everywhere = {(position, index) for position, index in needs.all if index >= 0}
        for position, index in [*check.cells, *((own, index) for index in sorted(needs.here))]:
            if position == own and (position, index) not in everywhere:
                yield position, read[own][row].row, index
            elif position == 0 and (position, index) not in everywhere:
                yield 0, read[0][0].row, index
        for position in sorted({position for position, _ in needs.all}):
            yield from self._problems.to_fill(position)
        for index in sorted(needs.first):
            yield 0, read[0][0].row, index
        for position, index in sorted(everywhere | {cell for cell in check.cells if cell[0] not in (0, own)}):
            rows = nested[position][row] if position in check.children else range(len(read[position]))
            for place in rows:
                yield position, read[position][place].row, index


def _cells(position: int, rows: Sequence[Row], indexes: Sequence[int]) -> list[ValueRef]:
    return [(position, row, index) for row in rows for index in indexes]

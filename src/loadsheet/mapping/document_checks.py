"""The problems of one document, each with the cell it belongs to, and the checks within one record.

A problem is added for a cell (table, row, column) or for a payload path. It knows where the value stands in its file and what the
shipper wrote there. The checks: rows that must agree, the mapping's own checks, and the contract. A contract fault that only follows
from another problem of the document is not reported. If no other problem was reported after all, it is: a record that lacks something
always has an error.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadsheet.contract import Fault
from loadsheet.mapping import compile as compiled
from loadsheet.mapping.calculation import CALCULATION_ERRORS, reason
from loadsheet.mapping.documents import Lineage, SourceRow
from loadsheet.mapping.grouping import Group
from loadsheet.mapping.lineage import Trace, trace
from loadsheet.mapping.names import Draft
from loadsheet.mapping.rows import ReadRow, RowReader
from loadsheet.mapping.targets import Variant
from loadsheet.mapping.views import SetRow, columns_behind, with_set_number
from loadsheet.problems import Level, Problem, Where
from loadsheet.reading.tables import Row

_ALSO_MAX = 1_000

Cell = tuple[int, Row, int]
"""A value of a row: the position of its table, the row, and the value's place among those of the row."""


class DocumentProblems:
    """The problems of the current document, in `found`. `begin` starts the next document; `source` are its rows."""

    def __init__(
        self, readers: Sequence[RowReader], lineage: Lineage, draft: Draft, one_value: Iterable[int] = ()
    ) -> None:
        """`one_value` are the values of the main table that must be equal in all rows of a record."""
        self._readers = readers
        self._one_value = frozenset(one_value)
        self._lineage = lineage
        self._draft = draft
        self._group = Group(None, ())
        self.source: tuple[SourceRow, ...] = ()
        self.found: list[Problem] = []

    def begin(self, group: Group) -> None:
        """Start the next document."""
        self._group, self.found = group, []

    @property
    def has_errors(self) -> bool:
        """Whether any problem is worse than a warning."""
        return any(problem.level == "error" for problem in self.found)

    def add(
        self,
        code: str,
        position: int,
        row: Row,
        index: int | None,
        *,
        values: Mapping[str, Any],
        hint: str = "",
        level: Level = "error",
        also: Iterable[Cell] = (),
    ) -> None:
        """Add a problem of the value `index` in a row of the table at `position`; without `index`, of the whole row. `also` are the other
        values involved.
        """
        reader = self._readers[position]
        column = reader.position(index, row) if index is not None else None
        where = reader.table.where(row.number, column)
        if column is None and index is not None:
            where = Where(where.file, where.sheet, where.row, reader.plan.label(index))
        found = self.cell(position, row, index)
        if index is not None and index < len(reader.plan.columns) and reader.plan.columns[index].spec.place is not None:
            values = {
                "column": reader.plan.label(index),
                **values,
            }  # the heading there names something else
        others = self._others(where, also) if level == "error" else ()
        self.found.append(Problem(code, where, found, dict(values), hint, level, others))

    def add_at(self, path: str, code: str, values: Mapping[str, Any], *, level: Level = "error") -> None:
        """Add a problem of a payload path, at the first cell that the value comes from."""
        found = trace(self._lineage, self.source, self._draft.items, path)
        table = self._readers[0].table
        row, column, text = self.source[0], None, ""
        if found:
            row = self.source[found[0].row]
            reader = self._reader(found[0].source.table)
            slot = reader.plan.shape.slots.get(found[0].source.column)
            table = reader.table
            if slot is not None:
                column, text = self._placed(reader, found[0].nth, slot.index, row)
        where = table.where(row.number, column, path)
        others = self._others(where, self._traced(found)) if level == "error" else ()
        self.found.append(Problem(code, where, text, {"found": text, **values}, "", level, others))

    def cell(self, position: int, row: Row, index: int | None) -> str:
        """The cell as the shipper wrote it; empty for derived values and missing columns."""
        reader = self._readers[position]
        column = reader.position(index, row) if index is not None else None
        if column is None:
            return reader.view.constants.get(index, "") if index is not None else ""
        return row.shown[column]

    def to_fill(self, position: int) -> Iterable[Cell]:
        """The cells of the first column set, for a table made from column sets that has no row: filling them makes one."""
        reader = self._readers[position]
        sets, of = reader.plan.sets, reader.plan.made_of
        if sets is None or of is None or self._group.rows[position]:
            return
        for row in self._group.rows[of]:
            blank = with_set_number(
                SetRow(0, Row(row.number, (*row.cells, *("",) * len(sets.columns), sets.words[0][1]))), 0
            )
            for place in sets.filled_by:
                yield position, blank, sets.columns[place].slot.index

    def _reader(self, table: str) -> RowReader:
        return next(reader for reader in self._readers if reader.plan.name == table)

    def _traced(self, found: Iterable[Trace]) -> Iterable[Cell]:
        for trace_ in found:
            reader = self._reader(trace_.source.table)
            slot = reader.plan.shape.slots.get(trace_.source.column)
            rows = self._group.rows[reader.plan.position]
            if slot is not None and trace_.nth < len(rows):
                yield reader.plan.position, rows[trace_.nth], slot.index

    def _others(self, where: Where, also: Iterable[Cell]) -> tuple[Where, ...]:
        """The places of values in the files, each once and without `where`. A derived value counts as the cells it is computed from."""
        here = replace(where, path="")
        found: dict[Where, None] = {}
        for position, row, index in also:
            reader = self._readers[position]
            for column in sorted(columns_behind(reader.plan, (index,))):
                for one in self._stating(position, row, column):
                    place = reader.position(column, one)
                    if place is not None:
                        found[reader.table.where(one.number, place)] = None
            if len(found) > _ALSO_MAX:
                break
        found.pop(here, None)
        return tuple(found)

    def _stating(self, position: int, row: Row, index: int) -> Sequence[Row]:
        """The rows that hold a value: all rows of the record if they must agree in it, else the row itself."""
        if position or index not in self._one_value:
            return (row,)
        return [one for one in self._group.rows[0] if one is row or self.cell(0, one, index).strip()]

    def _placed(self, reader: RowReader, nth: int, index: int, source: SourceRow) -> tuple[int | None, str]:
        """The column of a value in its row of the file, and its text."""
        rows = self._group.rows[reader.plan.position]
        column = reader.position(index, rows[nth]) if nth < len(rows) else None
        return column, source.cells[column] if column is not None else ""


class GroupChecks:
    """Agreement of rows, and the mapping's checks, for one record after the other."""

    def __init__(self, plan: compiled.Plan, problems: DocumentProblems, draft: Draft) -> None:
        self._plan, self._problems, self._draft = plan, problems, draft

    def check_agreement(self, rows: Sequence[ReadRow], key: str) -> None:
        """Reports the columns that differ among the rows of the record `key` but must agree."""
        if len(rows) < 2:  # noqa: PLR2004 (one row agrees with itself)
            return
        first = rows[0]
        same = [first.values[index] for index in self._plan.one_value]
        if all([row.values[index] for index in self._plan.one_value] == same for row in rows):
            return
        for index in self._plan.one_value:
            fine = (first.values[index], None) if index in self._plan.once else (first.values[index],)
            other = next((row for row in rows[1:] if row.values[index] not in fine), None)
            if other is None or any(index in row.refused for row in rows):
                continue
            reported = [(row, self._problems.cell(0, row.row, index) or row.values[index]) for row in (first, other)]
            shown = [f'row {row.row.number} "{"" if text is None else text}"' for row, text in reported]
            values = {"key": key, "values": f"{self._plan.tables[0].label(index)} is {' and '.join(shown)}"}
            hint = "all rows of one record must say the same here"
            also = [
                (0, row.row, index)
                for row in rows
                if row is first or row.values[index] is not None or index not in self._plan.once
            ]
            self._problems.add("G401", 0, other.row, index, values=values, hint=hint, also=also)

    def run_checks(self, read: Sequence[Sequence[ReadRow]]) -> None:
        """Runs all checks on the rows of a record, by table, and reports the failures."""
        draft = self._draft
        for check in self._plan.checks:
            if check.position is None:
                self._check(check, read, 0)
                continue
            everything, children = draft.lists, check.children
            for index, row in enumerate(read[check.position]):
                draft.row = row.values
                if children:
                    draft.lists = everything
                    draft.narrow(children, index)
                draft.row_refused = draft.rows_refused[check.position][index] if draft.all_refused else frozenset()
                self._check(check, read, index)
            draft.lists = everything
        draft.row, draft.row_refused = draft.main, draft.main_refused

    def _check(self, check: compiled.CheckPlan, read: Sequence[Sequence[ReadRow]], row: int) -> None:
        """Runs a check on the row of this number in the check's own table."""
        if self._draft.lacks(check.needs):
            return
        try:
            if check.rule.evaluate(self._draft):
                return
            code, level, values = "G406", check.level, {"say": check.say, "check": check.id}
        except CALCULATION_ERRORS as error:
            code, level, values = "G407", "error", {"target": f"check {check.id}", "reason": reason(error)}
        own = check.position or 0
        position, index = check.cells[0] if check.cells else (0, None)
        rows = read[position]
        at = read[own][row].row if position == own or not rows else rows[0].row
        also = self._taking_part(check, read, row)
        self._problems.add(code, position, at, index, values=values, level=level, also=also)

    def _taking_part(self, check: compiled.CheckPlan, read: Sequence[Sequence[ReadRow]], row: int) -> Iterator[Cell]:
        """The cells involved in a check: those the mapping names, and those its rule reads."""
        own, needs, nested = check.position or 0, check.needs, self._draft.nested
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


class ContractCheck:
    """Checks the records of one document after the other against the contract."""

    def __init__(
        self, readers: Sequence[RowReader], problems: DocumentProblems, lineage: Lineage, draft: Draft
    ) -> None:
        self._plans = {reader.plan.name: reader.plan for reader in readers}
        self._problems, self._lineage, self._draft = problems, lineage, draft
        self._suppressed: dict[str, str] = {}

    def begin(self) -> None:
        """Start the next document."""
        self._suppressed = {}

    def check(self, variant: Variant, payload: dict[str, Any]) -> None:
        """Report the problems of one record of the document."""
        draft = self._draft
        for path, code, values in draft.faults:
            self._problems.add_at(path, code, values)
        reported = {path for path, _, _ in draft.faults}.union(draft.skipped)
        faults = tuple(variant.check_record(payload))
        for fault in faults:
            if _is_reported(fault, reported) or self._was_refused(fault.path):
                self._suppressed.setdefault(fault.path, fault.text)
            else:
                self._add_fault(fault.path, fault.text)
        for path in draft.skipped:
            self._suppressed.setdefault(path, "has no value: a cell that it needs was refused")
        refused = {fault.path for fault in faults}
        for path, found, known in draft.unlisted:
            if path not in refused:
                values = {"path": path, "found": found, "expected": ", ".join(known)}
                self._problems.add_at(path, "K502", values, level="warning")

    def check_complete(self) -> None:
        """Report what is missing if no error was reported for this document."""
        if self._problems.has_errors:
            return
        for path, text in self._suppressed.items():
            self._add_fault(path, text)
        if self._draft.all_refused and not self._suppressed:
            self._add_fault("", "cannot be made: a cell that it needs was refused")

    def _add_fault(self, path: str, text: str) -> None:
        self._problems.add_at(path, "K501", {"path": path or "the record", "text": text})

    def _was_refused(self, path: str) -> bool:
        """Whether the field has no value because a cell behind this path was refused."""
        if not self._draft.all_refused:
            return False
        for found in trace(self._lineage, self._problems.source, self._draft.items, path):
            plan = self._plans[found.source.table]
            slot = plan.shape.slots.get(found.source.column)
            if slot is not None and (plan.position, slot.index) in self._draft.all_refused:
                return True
        return False


def _is_reported(fault: Fault, reported: set[str]) -> bool:
    """Whether a fault follows from a reported problem: at its own path, or at a list or object around it."""
    return any(fault.path == path or fault.path.startswith((f"{path}.", f"{path}[")) for path in reported)

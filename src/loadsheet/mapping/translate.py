"""Stage 3: mapping. Tables of cells and a compiled mapping in, documents out, streaming.

Owns: the order of the steps for one document (rows, grouping rules, checks, payload, the contract's verdict) and the placing of every
problem at its cell. All problems of a document are found in one pass; what only follows from another problem is not said.
Money and weights are Decimal up to the encoder. Refuses to know the network, the ledger and the clock: the time is passed in.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from loadsheet.contract import Fault
from loadsheet.mapping import compile as compiled
from loadsheet.mapping.calculation import CALCULATION_ERRORS, reason
from loadsheet.mapping.documents import Document, Ignored, SourceRow
from loadsheet.mapping.gather import MEMORY_ROWS, Group, gather
from loadsheet.mapping.lineage import locate
from loadsheet.mapping.names import Draft
from loadsheet.mapping.rows import ReadRow, RowReader, follows
from loadsheet.problems import Level, Problem, Where
from loadsheet.reading.tables import Row, Table

_ENCODE = msgspec.json.Encoder(decimal_format="number").encode
_ENCODE_SORTED = msgspec.json.Encoder(decimal_format="number", order="deterministic").encode


def translate(
    mapping: compiled.Mapping,
    tables: Mapping[str, Table],
    *,
    now: datetime,
    memory_rows: int = MEMORY_ROWS,
    spill_folder: Path | None = None,
) -> Iterator[Document | Ignored]:
    """The documents of one drop. `tables` are its tables by the mapping's names; `now` (aware) is what `$now` means in checks.

    Every row of every table is in exactly one document or is ignored. A document that may not be sent carries its rows, its
    problems and, where it can be told, its key. See `gather` for `memory_rows` and `spill_folder`. Raises KeyError for
    a table that is not given, and whatever the tables' `rows()` raise.
    """
    draft = Draft(now)
    draft.clear()
    readers = [RowReader(plan, tables[plan.name], draft) for plan in mapping.plan.tables]
    desk = _Desk(mapping, readers, draft)
    for found in gather(readers, draft, memory_rows=memory_rows, spill_folder=spill_folder):
        if isinstance(found, Ignored):
            yield found
        else:
            yield from desk.settle(found)


class _Desk:
    """Turns one group of rows after the other into a document."""

    def __init__(self, mapping: compiled.Mapping, readers: Sequence[RowReader], draft: Draft) -> None:
        self._mapping = mapping
        self._plan = mapping.plan
        self._readers = readers
        self._draft = draft
        self._problems: list[Problem] = []
        self._group = Group(None, ())
        self._source: tuple[SourceRow, ...] = ()

    def settle(self, group: Group) -> Iterator[Document | Ignored]:
        """The document of a group, or its rows as ignored if the mapping says so for rows without partner."""
        self._source = tuple(
            SourceRow(reader.plan.name, row.number, row.shown if reader.table.sheet else row.cells)
            for reader, rows in zip(self._readers, group.rows, strict=True)
            for row in rows
        )
        stranger = next((place for place, rows in enumerate(group.rows) if rows and place), None)
        left_over = group.key is not None and not group.rows[0]
        if left_over and stranger is not None and self._plan.joins[stranger].extra == "ignore":
            rule = f"extra: ignore ({self._readers[0].plan.name} has no partner)"
            yield from (Ignored(row, rule) for row in self._source)
            return
        yield self._document(group)

    def _document(self, group: Group) -> Document:
        self._group, self._problems = group, []
        draft = self._draft
        draft.clear()
        usable = [[row for row in rows if row.problem is None] for rows in group.rows]
        self._problems += [row.problem for rows in group.rows for row in rows if row.problem is not None]
        read = [[reader.read(row) for row in rows] for reader, rows in zip(self._readers, usable, strict=True)]
        self._fill(read)
        self._say_conversions(read)
        self._say_grouping(group, read)
        if not read[0]:
            return self._refused(self._key({}))
        self._say_checks(read)
        payload = self._plan.payload.make(draft)
        self._say_payload(payload)
        if any(problem.level == "error" for problem in self._problems):
            return self._refused(self._key(payload), payload)
        return self._made(payload)

    def _made(self, payload: dict[str, Any]) -> Document:
        operation = self._mapping.operation
        return Document(
            operation.name,
            operation.key_of(payload),
            operation.lane_of(payload),
            _ENCODE(payload),
            hashlib.sha256(_ENCODE_SORTED(payload)).hexdigest(),
            self._source,
            tuple(self._problems),
            self._draft.items,
        )

    def _refused(self, key: str, payload: Mapping[str, Any] | None = None) -> Document:
        operation = self._mapping.operation
        lane = operation.lane_of(payload or {operation.record.key[0]: key})
        return Document(operation.name, key, lane, b"", "", self._source, tuple(self._problems), self._draft.items)

    def _key(self, payload: Mapping[str, Any]) -> str:
        is_key = bool(self._plan.tables[0].key)
        return self._mapping.operation.key_of(payload) or (self._group.shown_key if is_key else "")

    # ---- rows ----

    def _fill(self, read: Sequence[Sequence[ReadRow]]) -> None:
        draft = self._draft
        draft.lists = [[row.values for row in rows] for rows in read]
        if read[0]:
            draft.row = draft.main = read[0][0].values
        if any(row.wrong for rows in read for row in rows):
            draft.rows_wrong = [[frozenset(row.wrong) for row in rows] for rows in read]
            draft.all_wrong = frozenset(
                (position, index) for position, rows in enumerate(read) for row in rows for index in row.wrong
            )
            if read[0]:
                draft.row_wrong = draft.main_wrong = frozenset(read[0][0].wrong)

    def _say_conversions(self, read: Sequence[Sequence[ReadRow]]) -> None:
        for position, rows in enumerate(read):
            keyless = self._group.key is None
            for row in rows:
                if not row.wrong and not row.noted and not keyless:
                    continue
                said = {index: wrong for index, wrong in row.wrong.items() if not follows(wrong)}
                for index, wrong in sorted({**said, **row.noted}.items()):
                    is_missing_key = keyless and index in self._readers[position].plan.key and wrong.code == "C301"
                    if not is_missing_key:
                        self._say(
                            wrong.code,
                            position,
                            row.row,
                            index,
                            values=wrong.values,
                            hint=wrong.hint,
                            level=wrong.level,
                        )
                if keyless:
                    self._say_keyless(position, row)

    def _say_keyless(self, position: int, row: ReadRow) -> None:
        plan = self._readers[position].plan
        blank = [
            index
            for index in plan.key
            if row.values[index] is None and (index not in row.wrong or row.wrong[index].code == "C301")
        ]
        for index in blank[:1]:
            self._say("G405", position, row.row, index, values={"column": plan.label(index)})

    # ---- grouping ----

    def _say_grouping(self, group: Group, read: Sequence[Sequence[ReadRow]]) -> None:
        main = self._readers[0].plan
        if group.key is None or not main.key:
            return
        for position, rows in enumerate(group.rows[1:], 1):
            if group.rows[0] and not rows and self._plan.joins[position].missing == "error":
                table = self._readers[position].plan.name
                self._say("G403", 0, group.rows[0][0], main.key[0], values={"key": group.shown_key, "table": table})
            elif rows and not group.rows[0]:
                own = self._readers[position].plan.key
                self._say("G404", position, rows[0], own[0], values={"key": group.shown_key, "table": main.name})
        if self._plan.is_grouped:
            self._say_disagreement(group, read[0])
        elif len(group.rows[0]) > 1:
            numbers = ", ".join(str(row.number) for row in group.rows[0])
            self._say("G402", 0, group.rows[0][0], main.key[0], values={"key": group.shown_key, "rows": numbers})

    def _say_disagreement(self, group: Group, rows: Sequence[ReadRow]) -> None:
        if len(rows) < 2:  # noqa: PLR2004 (one row agrees with itself)
            return
        first = rows[0]
        same = [first.values[index] for index in self._plan.one_value]
        if all([row.values[index] for index in self._plan.one_value] == same for row in rows):
            return
        for index in self._plan.one_value:
            other = next((row for row in rows[1:] if row.values[index] != first.values[index]), None)
            if other is None or any(index in row.wrong for row in rows):
                continue
            label = self._readers[0].plan.label(index)
            shown = [f'row {row.row.number} "{self._cell(0, row.row, index)}"' for row in (first, other)]
            values = {"key": group.shown_key, "values": f"{label} is {' and '.join(shown)}"}
            hint = "all rows of one record must say the same here"
            self._say("G401", 0, other.row, index, values=values, hint=hint)

    # ---- checks ----

    def _say_checks(self, read: Sequence[Sequence[ReadRow]]) -> None:
        draft = self._draft
        for check in self._plan.checks:
            if check.position is None:
                self._check(check, read[0][0].row)
                continue
            for index, row in enumerate(read[check.position]):
                draft.row = row.values
                draft.row_wrong = draft.rows_wrong[check.position][index] if draft.all_wrong else frozenset()
                self._check(check, row.row)
        draft.row, draft.row_wrong = draft.main, draft.main_wrong

    def _check(self, check: compiled.CheckPlan, row: Row) -> None:
        if self._draft.lacks(check.needs):
            return
        position, index = check.cells[0] if check.cells else (0, None)
        at = row if position == (check.position or 0) else self._group.rows[0][0]
        try:
            if not check.rule.evaluate(self._draft):
                self._say("G406", position, at, index, values={"say": check.say, "check": check.id}, level=check.level)
        except CALCULATION_ERRORS as error:
            self._say("G407", position, at, index, values={"target": f"check {check.id}", "reason": reason(error)})

    # ---- payload ----

    def _say_payload(self, payload: dict[str, Any]) -> None:
        draft = self._draft
        for path, code, values in draft.faults:
            self._say_at(path, code, values)
        told = {path for path, _, _ in draft.faults}.union(draft.skipped)
        for fault in self._plan.check_record(payload):
            if not _is_told(fault, told) and not self._was_refused(fault.path):
                self._say_at(fault.path, "K501", {"path": fault.path or "the record", "text": fault.text})
        for path, found, known in draft.unnamed:
            self._say_at(path, "K502", {"path": path, "found": found, "expected": ", ".join(known)}, level="warning")

    def _was_refused(self, path: str) -> bool:
        """Whether a cell behind this path was refused itself, so that the field lacks a value because of that."""
        if not self._draft.all_wrong:
            return False
        slots = {reader.plan.name: (reader.plan.position, reader.plan.shape.slots) for reader in self._readers}
        for place in locate(self._mapping.lineage, self._source, self._draft.items, path):
            position, shape = slots[place.table]
            if place.column in shape and (position, shape[place.column].index) in self._draft.all_wrong:
                return True
        return False

    def _say_at(self, path: str, code: str, values: Mapping[str, Any], *, level: Level = "error") -> None:
        """A problem known by its payload path, placed at the first cell that the value comes from."""
        places = locate(self._mapping.lineage, self._source, self._draft.items, path)
        reader, row, index = self._readers[0], self._source[0], None
        if places:
            row = self._source[places[0].row]
            reader = next(reader for reader in self._readers if reader.plan.name == places[0].table)
            slot = reader.plan.shape.slots.get(places[0].column)
            index = slot.index if slot else None
        column = reader.position(index) if index is not None else None
        found = row.cells[column] if column is not None else ""
        where = reader.table.where(row.number, column, path)
        self._problems.append(Problem(code, where, found, {"found": found, **values}, "", level))

    # ---- saying ----

    def _say(
        self,
        code: str,
        position: int,
        row: Row,
        index: int | None,
        *,
        values: Mapping[str, Any],
        hint: str = "",
        level: Level = "error",
    ) -> None:
        reader = self._readers[position]
        column = reader.position(index) if index is not None else None
        where = reader.table.where(row.number, column)
        if column is None and index is not None:
            where = Where(where.file, where.sheet, where.row, reader.plan.label(index))
        found = self._cell(position, row, index)
        self._problems.append(Problem(code, where, found, dict(values), hint, level))

    def _cell(self, position: int, row: Row, index: int | None) -> str:
        """The cell as its sender wrote it; empty for derived values and missing columns."""
        column = self._readers[position].position(index) if index is not None else None
        return row.shown[column] if column is not None else ""


def _is_told(fault: Fault, told: set[str]) -> bool:
    """Whether a fault only follows from a problem said before: at its own path, or at a list or object around it."""
    return any(fault.path == path or fault.path.startswith((f"{path}.", f"{path}[")) for path in told)

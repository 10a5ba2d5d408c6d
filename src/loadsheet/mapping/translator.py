"""Stage 3: mapping. Tables of cells and a compiled mapping in, documents out, streaming.

The steps for one document: read its rows, apply the grouping rules, run the checks, build the payload, check it against the contract.
All problems of a document are found in one pass. A problem that only follows from another one is not reported. Money and weights are
Decimal up to the encoder. Knows no network, no ledger and no clock: the time is passed in.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from loadsheet.mapping import compile as compiled
from loadsheet.mapping import nesting
from loadsheet.mapping.conversion_errors import is_consequence
from loadsheet.mapping.document_checks import ContractCheck, DocumentProblems, GroupChecks
from loadsheet.mapping.documents import Document, Ignored, Instead, SourceRow
from loadsheet.mapping.grouping import MEMORY_ROWS, Group, gather
from loadsheet.mapping.names import Draft
from loadsheet.mapping.nesting import SourceRows, inner_joins, join_rows, values_of
from loadsheet.mapping.rows import ReadRow, RowReader
from loadsheet.mapping.targets import Variant
from loadsheet.reading.tables import OF_ONE_CELL, Row, Table

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
    problems and, if known, its key. See `gather` for `memory_rows` and `spill_folder`. Raises KeyError for a missing table, and
    whatever the tables' `rows()` raise.
    """
    by_group = translate_by_group(mapping, tables, now=now, memory_rows=memory_rows, spill_folder=spill_folder)
    for results in by_group:
        yield from results


def translate_by_group(
    mapping: compiled.Mapping,
    tables: Mapping[str, Table],
    *,
    now: datetime,
    memory_rows: int = MEMORY_ROWS,
    spill_folder: Path | None = None,
) -> Iterator[Iterable[Document | Ignored]]:
    """Like `translate`, with one iterable of results for each group of rows. Iterate it before the next group: its documents are made only
    then, so a group that is skipped costs only its reading. The groups and their order are the same every time.
    """
    draft = Draft(now)
    draft.clear()
    readers = [RowReader(plan, tables[plan.source], draft) for plan in mapping.plan.tables]
    builder = _DocumentBuilder(mapping, readers, draft)
    gathered = [reader for reader in readers if reader.plan.made_of is None]
    for item in gather(gathered, draft, memory_rows=memory_rows, spill_folder=spill_folder):
        yield (item,) if isinstance(item, Ignored) else builder.build(item)


class _DocumentBuilder:
    """Makes the document of one group of rows after the other."""

    def __init__(self, mapping: compiled.Mapping, readers: Sequence[RowReader], draft: Draft) -> None:
        self._mapping = mapping
        self._plan = mapping.plan
        self._readers = readers
        self._draft = draft
        self._problems = DocumentProblems(
            readers, mapping.lineage, draft, self._plan.one_value if self._plan.is_grouped else ()
        )
        self._contract_check = ContractCheck(readers, self._problems, mapping.lineage, draft)
        self._checks = GroupChecks(self._plan, self._problems, draft)
        self._group = Group(None, ())
        self._incomplete: set[int] = set()  # tables with missing or refused rows in this document
        self._is_plain = not any(reader.plan.is_view for reader in readers)
        self._gathered = [reader.plan.position for reader in readers if reader.plan.made_of is None]
        self._inner_joins = inner_joins(self._plan.tables, self._plan.joins)

    def build(self, group: Group) -> Iterator[Document | Ignored]:
        """The document of a group; its rows as ignored where the mapping ignores rows without a partner."""
        nested: Mapping[int, Sequence[Sequence[int]]] = {}
        if self._is_plain:
            source_rows = self._plain_source_rows(group)
        else:
            rows, nested = self._expand_sets(group)
            group = Group(group.key, tuple(rows))
            source_rows = nesting.source_rows(self._readers, rows)
        self._problems.source = source_rows.rows
        if group.key is not None and not group.rows[0]:
            unmatched = next((place for place, rows in enumerate(group.rows) if rows), None)
            if unmatched is not None and self._plan.joins[unmatched].extra == "ignore":
                to = self._readers[self._plan.joins[unmatched].to].plan.name
                yield from (Ignored(row, f"extra: ignore ({to} has no partner)") for row in self._problems.source)
                return
        if self._inner_joins and any(join.extra == "ignore" for _, join in self._inner_joins):
            kept = self._with_partners(group)
            if kept is not group:
                source_rows = (
                    self._plain_source_rows(kept) if self._is_plain else nesting.source_rows(self._readers, kept.rows)
                )
                left = set(self._problems.source) - set(source_rows.rows)
                yield from (
                    Ignored(row, "extra: ignore (it has no partner)") for row in self._problems.source if row in left
                )
                group, self._problems.source = kept, source_rows.rows
        yield self._document(group, source_rows.items, nested)

    def _plain_source_rows(self, group: Group) -> SourceRows:
        return SourceRows(
            tuple(
                SourceRow(reader.plan.name, row.number, row.shown, row.natives)
                if reader.table.sheet
                else SourceRow(reader.plan.name, row.number, row.cells)
                for reader, rows in zip(self._readers, group.rows, strict=True)
                for row in rows
            ),
            {},
        )

    def _expand_sets(self, group: Group) -> tuple[list[Sequence[Row]], dict[int, list[list[int]]]]:
        """The rows by the position of all tables, those made from column sets included."""
        rows: list[Sequence[Row]] = [()] * len(self._readers)
        for position, own in zip(self._gathered, group.rows, strict=True):
            rows[position] = own
        return nesting.expand_sets(self._readers, rows)

    def _document(
        self, group: Group, items: Mapping[str, tuple[int, ...]], nested: Mapping[int, Sequence[Sequence[int]]]
    ) -> Document:
        self._group = group
        self._problems.begin(group)
        self._contract_check.begin()
        draft = self._draft
        draft.clear()
        if items:
            draft.items.update(items)
        usable = [[row for row in rows if row.problem is None] for rows in group.rows]
        self._report_refused_rows(group)
        read = [[reader.read(row) for row in rows] for reader, rows in zip(self._readers, usable, strict=True)]
        draft.nested = nested
        self._incomplete = {place for place, rows in enumerate(group.rows) if len(rows) > len(usable[place])}
        self._fill_draft(read)
        self._report_conversions(read)
        self._check_grouping(group, read)
        if self._inner_joins:
            self._check_inner_joins(read)
        variant = self._variant(read[0])
        if not read[0]:
            return self._invalid_document(variant, self._key(variant, {}))
        if (
            self._plan.targets.chooser in draft.main_refused
        ):  # the operation is unknown, so missing fields cannot be reported
            return self._invalid_document(variant, self._key(variant, variant.payload.make(draft)))
        self._checks.run_checks(read)
        payload, instead = self._record(variant)
        if self._problems.has_errors:
            return self._invalid_document(variant, self._key(variant, payload), payload)
        return self._valid_document(variant, payload, instead)

    def _report_refused_rows(self, group: Group) -> None:
        reported: set[tuple[str, int]] = set()
        for reader, rows in zip(self._readers, group.rows, strict=True):
            for row in rows:
                if row.problem is not None and (reader.table.name, row.number) not in reported:
                    reported.add((reader.table.name, row.number))
                    self._problems.found.append(row.problem)
                    if row.problem.code in OF_ONE_CELL and reader.plan.sets is None:
                        self._report_other_cells(reader, row)

    def _report_other_cells(self, reader: RowReader, row: Row) -> None:
        """Reports the problems of the other cells of a row in which reading refused one cell."""
        values = reader.read(row)
        bad = row.problem.where if row.problem is not None else None
        for index, problem in sorted(values.refused.items()):
            place = reader.position(index, row)
            if not is_consequence(problem) and place is not None and reader.table.where(row.number, place) != bad:
                self._problems.add(
                    problem.code,
                    reader.plan.position,
                    row,
                    index,
                    values=problem.values,
                    hint=problem.hint,
                    level=problem.level,
                )

    def _variant(self, main: Sequence[ReadRow]) -> Variant:
        """The variant of the record's operation. If the operation cannot be read, its problem is reported already."""
        targets = self._plan.targets
        if targets.chooser is None or not main:
            return targets.fixed
        return targets.by_name.get(main[0].values[targets.chooser], targets.fixed)

    def _record(self, variant: Variant) -> tuple[dict[str, Any], Instead | None]:
        """The record and its update form. The problems of both count, as either may be sent."""
        draft, instead = self._draft, None
        payload = variant.payload.make(draft)
        if variant.instead is not None:
            other = variant.instead.payload.make(draft)
            self._contract_check.check(variant.instead, other)
            draft.faults, draft.unlisted, draft.skipped = [], [], []
            instead = _instead(variant.instead, other)
        self._contract_check.check(variant, payload)
        self._contract_check.check_complete()
        return payload, instead

    def _valid_document(self, variant: Variant, payload: dict[str, Any], instead: Instead | None) -> Document:
        operation = variant.operation
        return Document(
            operation.name,
            operation.key_of(payload),
            operation.lane_of(payload),
            _ENCODE(payload),
            hashlib.sha256(_ENCODE_SORTED(payload)).hexdigest(),
            self._problems.source,
            tuple(self._problems.found),
            {**self._draft.items, **variant.payload.declared} if variant.payload.ordered else self._draft.items,
            instead,
            variant.ordered,
        )

    def _invalid_document(self, variant: Variant, key: str, payload: Mapping[str, Any] | None = None) -> Document:
        self._contract_check.check_complete()
        operation = variant.operation
        lane = operation.lane_of(payload or {operation.record.key[0]: key})
        return Document(
            operation.name, key, lane, b"", "", self._problems.source, tuple(self._problems.found), self._draft.items
        )

    def _key(self, variant: Variant, payload: Mapping[str, Any]) -> str:
        return variant.operation.key_of(payload) or self._shown_key

    @property
    def _shown_key(self) -> str:
        return self._group.shown_key(self._plan.key_shown)

    # ---- rows ----

    def _fill_draft(self, read: Sequence[Sequence[ReadRow]]) -> None:
        draft = self._draft
        draft.lists = [[row.values for row in rows] for rows in read]
        if read[0]:
            draft.row = draft.main = read[0][0].values
        if self._incomplete or any(row.refused for rows in read for row in rows):
            self._mark_refused(read, ())

    def _mark_refused(self, read: Sequence[Sequence[ReadRow]], incomplete: Iterable[int]) -> None:
        """Marks the refused values, so that nothing is made from them. `incomplete` are further tables with missing rows."""
        draft = self._draft
        self._incomplete.update(incomplete)
        for table in self._plan.tables:
            if table.belongs_to in self._incomplete:
                self._incomplete.add(table.position)
        draft.rows_refused = [[frozenset(row.refused) for row in rows] for rows in read]
        refused = {(position, index) for position, rows in enumerate(read) for row in rows for index in row.refused}
        for position in self._incomplete:
            slots = self._readers[position].plan.shape.slots
            refused.update((position, slot.index) for slot in slots.values())
            refused.add((position, -1))
        draft.all_refused = frozenset(refused)
        if read[0]:
            draft.row_refused = draft.main_refused = frozenset(read[0][0].refused)

    def _report_conversions(self, read: Sequence[Sequence[ReadRow]]) -> None:
        for position, rows in enumerate(read):
            keyless = self._group.key is None
            for row in rows:
                if not row.refused and not row.warnings and not keyless:
                    continue
                refused = {index: problem for index, problem in row.refused.items() if not is_consequence(problem)}
                for index, problem in sorted({**refused, **row.warnings}.items()):
                    if keyless and index in self._readers[position].plan.key and problem.code == "C301":
                        continue  # a missing key is reported below
                    also = [(position, row.row, other) for other in self._readers[position].decided_by(index, problem)]
                    self._problems.add(
                        problem.code,
                        position,
                        row.row,
                        index,
                        values=problem.values,
                        hint=problem.hint,
                        level=problem.level,
                        also=also,
                    )
                if keyless:
                    self._report_missing_key(position, row)

    def _report_missing_key(self, position: int, row: ReadRow) -> None:
        plan = self._readers[position].plan
        blank = [
            index
            for index in plan.key
            if row.values[index] is None and (index not in row.refused or row.refused[index].code == "C301")
        ]
        for index in blank[:1]:
            also = [(position, row.row, other) for other in blank[1:]]
            self._problems.add("G405", position, row.row, index, values={"column": plan.label(index)}, also=also)

    # ---- grouping ----

    def _check_grouping(self, group: Group, read: Sequence[Sequence[ReadRow]]) -> None:
        main = self._readers[0].plan
        if group.key is None or not main.key:
            return
        incomplete = []
        for position, join in self._plan.joins.items():
            rows = group.rows[position]
            if group.rows[0] and not rows and join.missing == "error" and not join.to:
                table = self._readers[position].plan.name
                values = {"key": self._shown_key, "table": table}
                keys = [(0, row, index) for row in group.rows[0] for index in main.key]
                self._problems.add("G403", 0, group.rows[0][0], main.key[0], values=values, also=keys)
                incomplete.append(position)
            elif rows and not group.rows[0]:
                own = self._readers[position].plan.key
                values = {"key": self._shown_key, "table": self._readers[join.to].plan.name}
                keys = [(position, row, index) for row in rows for index in own]
                self._problems.add("G404", position, rows[0], own[0], values=values, also=keys)
        if incomplete:
            self._mark_refused(read, incomplete)
        if self._plan.is_grouped:
            self._checks.check_agreement(read[0], self._shown_key)
        elif len(group.rows[0]) > 1:
            numbers = ", ".join(str(row.number) for row in group.rows[0])
            values = {"key": self._shown_key, "rows": numbers}
            keys = [(0, row, index) for row in group.rows[0] for index in main.key]
            self._problems.add("G402", 0, group.rows[0][0], main.key[0], values=values, also=keys)

    def _check_inner_joins(self, read: Sequence[Sequence[ReadRow]]) -> None:
        """Joins the tables that are joined to another joined table, and reports missing partners."""
        nested, incomplete = dict(self._draft.nested), []
        for position, join in self._inner_joins:
            reader, to = self._readers[position], self._readers[join.to]
            met = join_rows(join, values_of(read[position]), values_of(read[join.to]))
            nested[position] = met.of
            unread = (
                not read[0]
                or not self._incomplete.isdisjoint((position, join.to))
                or any(row.refused for row in (*read[position], *read[join.to]))
            )
            for index in () if unread else met.unmatched:
                own, key = (
                    read[position][index],
                    self._shown_key_of(read[position][index], [pair[0] for pair in join.on]),
                )
                cells, values = [(position, own.row, pair[0]) for pair in join.on], {"key": key, "table": to.plan.name}
                self._problems.add("G404", position, own.row, join.on[-1][0], values=values, also=cells)
            for index, mine in enumerate(met.of):
                if not mine and join.missing == "error" and not unread:
                    other, key = (
                        read[join.to][index],
                        self._shown_key_of(read[join.to][index], [pair[1] for pair in join.on]),
                    )
                    values = {"key": key, "table": reader.plan.name}
                    cells = [(join.to, other.row, pair[1]) for pair in join.on]
                    self._problems.add("G403", join.to, other.row, join.on[-1][1], values=values, also=cells)
                    incomplete.append(position)
        self._draft.nested = nested
        if incomplete:
            self._mark_refused(read, incomplete)

    def _shown_key_of(self, row: ReadRow, places: Sequence[int]) -> str:
        return "/".join(str(row.values[place]) for place in places)

    def _with_partners(self, group: Group) -> Group:
        """The group without rows that have no partner, for tables where the mapping ignores such rows."""
        rows = list(group.rows)
        for position, join in self._inner_joins:
            reader, to = self._readers[position], self._readers[join.to]
            if join.extra == "error" or not rows[position] or not group.rows[0]:
                continue
            here = [reader.read(row).values for row in rows[position]]
            there = [to.read(row).values for row in rows[join.to]]
            unmatched = set(join_rows(join, here, there).unmatched)
            if unmatched:
                rows[position] = [row for index, row in enumerate(rows[position]) if index not in unmatched]
        return Group(group.key, tuple(rows)) if rows != list(group.rows) else group


def _instead(variant: Variant, payload: dict[str, Any]) -> Instead:
    return Instead(variant.operation.name, _ENCODE(payload), hashlib.sha256(_ENCODE_SORTED(payload)).hexdigest())

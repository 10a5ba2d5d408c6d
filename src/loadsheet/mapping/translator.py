"""Stage 3: mapping. Tables of cells and a compiled mapping in, documents out, streaming.

Owns: the order of the steps for one document (rows, grouping rules, checks, payload, the contract's verdict) and what is said of it (where,
`placing` knows). All problems of a document are found in one pass; what only follows from another problem is not said.
Money and weights are Decimal up to the encoder. Refuses to know the network, the ledger and the clock: the time is passed in.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from loadsheet.mapping import compile as compiled
from loadsheet.mapping import nesting
from loadsheet.mapping.conversion_errors import follows
from loadsheet.mapping.document_checks import GroupChecks, RecordCheck
from loadsheet.mapping.documents import Document, Ignored, Instead, SourceRow
from loadsheet.mapping.grouping import MEMORY_ROWS, Group, gather
from loadsheet.mapping.names import Draft
from loadsheet.mapping.nesting import Standing, joined_within, partners, values_of
from loadsheet.mapping.problem_cells import Places
from loadsheet.mapping.rows import ReadRow, RowReader
from loadsheet.mapping.shortcut import DOUBTS
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
    problems and, where it can be told, its key. See `gather` for `memory_rows` and `spill_folder`. Raises KeyError for
    a table that is not given, and whatever the tables' `rows()` raise.
    """
    by_group = translate_by_group(mapping, tables, now=now, memory_rows=memory_rows, spill_folder=spill_folder)
    for made in by_group:
        yield from made


def translate_by_group(
    mapping: compiled.Mapping,
    tables: Mapping[str, Table],
    *,
    now: datetime,
    memory_rows: int = MEMORY_ROWS,
    spill_folder: Path | None = None,
) -> Iterator[Iterable[Document | Ignored]]:
    """The same, for each group of rows what it comes to. That is made when it is iterated, which has to be before the next group is asked
    for; a group that is not iterated costs its reading alone. The same rows come in the same groups in the same order, always.
    """
    draft = Draft(now)
    draft.clear()
    readers = [RowReader(plan, tables[plan.source], draft) for plan in mapping.plan.tables]
    desk = _Desk(mapping, readers, draft)
    gathered = [reader for reader in readers if reader.plan.made_of is None]
    for found in gather(gathered, draft, memory_rows=memory_rows, spill_folder=spill_folder):
        yield (found,) if isinstance(found, Ignored) else desk.settle(found)


class _Desk:
    """Turns one group of rows after the other into a document."""

    def __init__(self, mapping: compiled.Mapping, readers: Sequence[RowReader], draft: Draft) -> None:
        self._mapping = mapping
        self._plan = mapping.plan
        self._readers = readers
        self._draft = draft
        self._places = Places(readers, mapping.lineage, draft, self._plan.one_value if self._plan.is_grouped else ())
        self._record_check = RecordCheck(readers, self._places, mapping.lineage, draft)
        self._checks = GroupChecks(self._plan, self._places, draft)
        self._group = Group(None, ())
        self._lacking: set[int] = set()  # tables of which rows of the document are missing
        self._is_plain = not any(reader.plan.is_view for reader in readers)
        self._gathered = [reader.plan.position for reader in readers if reader.plan.made_of is None]
        self._inner = joined_within(self._plan.tables, self._plan.joins)

    def settle(self, group: Group) -> Iterator[Document | Ignored]:
        """The document of a group, or its rows as ignored if the mapping says so for rows without partner."""
        nested: Mapping[int, Sequence[Sequence[int]]] = {}
        if self._is_plain:
            standing = self._plainly(group)
        else:
            rows, nested = self._spread_out(group)
            group = Group(group.key, tuple(rows))
            standing = nesting.standing(self._readers, rows)
        self._places.source = standing.rows
        if group.key is not None and not group.rows[0]:
            stranger = next((place for place, rows in enumerate(group.rows) if rows), None)
            if stranger is not None and self._plan.joins[stranger].extra == "ignore":
                to = self._readers[self._plan.joins[stranger].to].plan.name
                yield from (Ignored(row, f"extra: ignore ({to} has no partner)") for row in self._places.source)
                return
        if self._inner and any(join.extra == "ignore" for _, join in self._inner):
            kept = self._with_partners(group)
            if kept is not group:
                standing = self._plainly(kept) if self._is_plain else nesting.standing(self._readers, kept.rows)
                left = set(self._places.source) - set(standing.rows)
                yield from (
                    Ignored(row, "extra: ignore (it has no partner)") for row in self._places.source if row in left
                )
                group, self._places.source = kept, standing.rows
        yield self._document(group, standing.items, nested)

    def _plainly(self, group: Group) -> Standing:
        return Standing(
            tuple(
                SourceRow(reader.plan.name, row.number, row.shown, row.natives)
                if reader.table.sheet
                else SourceRow(reader.plan.name, row.number, row.cells)
                for reader, rows in zip(self._readers, group.rows, strict=True)
                for row in rows
            ),
            {},
        )

    def _spread_out(self, group: Group) -> tuple[list[Sequence[Row]], dict[int, list[list[int]]]]:
        """The rows by the position of all tables, those made from column sets included."""
        rows: list[Sequence[Row]] = [()] * len(self._readers)
        for position, own in zip(self._gathered, group.rows, strict=True):
            rows[position] = own
        return nesting.spread_out(self._readers, rows)

    def _document(
        self, group: Group, items: Mapping[str, tuple[int, ...]], nested: Mapping[int, Sequence[Sequence[int]]]
    ) -> Document:
        self._group = group
        self._places.begin(group)
        self._record_check.begin()
        draft = self._draft
        draft.clear()
        if items:
            draft.items.update(items)
        usable = [[row for row in rows if row.problem is None] for rows in group.rows]
        self._say_rows(group)
        read = [[reader.read(row) for row in rows] for reader, rows in zip(self._readers, usable, strict=True)]
        draft.nested = nested
        self._lacking = {place for place, rows in enumerate(group.rows) if len(rows) > len(usable[place])}
        self._fill(read)
        self._say_conversions(read)
        self._say_grouping(group, read)
        if self._inner:
            self._say_inner(read)
        variant = self._variant(read[0])
        if not read[0]:
            return self._refused(variant, self._key(variant, {}))
        if (
            self._plan.targets.chooser in draft.main_wrong
        ):  # what would be missing for an operation not chosen says nothing
            return self._refused(variant, self._key(variant, variant.payload.make(draft)))
        self._checks.say_checks(read)
        payload, instead = self._shortly(variant) or self._exactly(variant)
        if self._places.has_errors:
            return self._refused(variant, self._key(variant, payload), payload)
        return self._made(variant, payload, instead)

    def _say_rows(self, group: Group) -> None:
        said: set[tuple[str, int]] = set()
        for reader, rows in zip(self._readers, group.rows, strict=True):
            for row in rows:
                if row.problem is not None and (reader.table.name, row.number) not in said:
                    said.add((reader.table.name, row.number))
                    self._places.problems.append(row.problem)
                    if row.problem.code in OF_ONE_CELL and reader.plan.sets is None:
                        self._say_beside(reader, row)

    def _say_beside(self, reader: RowReader, row: Row) -> None:
        """Says what is wrong with the other cells of a row of which reading refused one."""
        found = reader.read(row)
        bad = row.problem.where if row.problem is not None else None
        for index, wrong in sorted(found.wrong.items()):
            place = reader.position(index, row)
            if not follows(wrong) and place is not None and reader.table.where(row.number, place) != bad:
                self._places.say(
                    wrong.code,
                    reader.plan.position,
                    row,
                    index,
                    values=wrong.values,
                    hint=wrong.hint,
                    level=wrong.level,
                )

    def _variant(self, main: Sequence[ReadRow]) -> Variant:
        """What the record's operation makes of it; if that cannot be read, its problem is said already."""
        targets = self._plan.targets
        if targets.chooser is None or not main:
            return targets.fixed
        return targets.by_name.get(main[0].values[targets.chooser], targets.fixed)

    def _shortly(self, variant: Variant) -> tuple[dict[str, Any], Instead | None] | None:
        """The record by the short way, if it is plainly right; else nothing, and the exact way has to say what is wrong with it."""
        draft = self._draft
        if draft.all_wrong:
            return None
        items = draft.items.copy()
        try:
            payload = variant.payload.short(draft)
            other = variant.instead.payload.short(draft) if variant.instead is not None else {}
        except DOUBTS:
            draft.start_payload(items)
            return None
        if not payload.keys() >= variant.required or (
            variant.instead is not None and not other.keys() >= variant.instead.required
        ):  # the last guard: the exact way says what is missing
            draft.start_payload(items)
            return None
        return payload, _instead(variant.instead, other) if variant.instead is not None else None

    def _exactly(self, variant: Variant) -> tuple[dict[str, Any], Instead | None]:
        """The record, and the same as it updates one that exists. The problems of both count: either may be sent."""
        draft, instead = self._draft, None
        payload = variant.payload.make(draft)
        if variant.instead is not None:
            other = variant.instead.payload.make(draft)
            self._record_check.say(variant.instead, other)
            draft.faults, draft.unnamed, draft.skipped = [], [], []
            instead = _instead(variant.instead, other)
        self._record_check.say(variant, payload)
        self._record_check.guard()
        return payload, instead

    def _made(self, variant: Variant, payload: dict[str, Any], instead: Instead | None) -> Document:
        operation = variant.operation
        return Document(
            operation.name,
            operation.key_of(payload),
            operation.lane_of(payload),
            _ENCODE(payload),
            hashlib.sha256(_ENCODE_SORTED(payload)).hexdigest(),
            self._places.source,
            tuple(self._places.problems),
            {**self._draft.items, **variant.payload.declared} if variant.payload.ordered else self._draft.items,
            instead,
            variant.ordered,
        )

    def _refused(self, variant: Variant, key: str, payload: Mapping[str, Any] | None = None) -> Document:
        self._record_check.guard()
        operation = variant.operation
        lane = operation.lane_of(payload or {operation.record.key[0]: key})
        return Document(
            operation.name, key, lane, b"", "", self._places.source, tuple(self._places.problems), self._draft.items
        )

    def _key(self, variant: Variant, payload: Mapping[str, Any]) -> str:
        return variant.operation.key_of(payload) or self._shown_key

    @property
    def _shown_key(self) -> str:
        return self._group.shown_key(self._plan.key_shown)

    # ---- rows ----

    def _fill(self, read: Sequence[Sequence[ReadRow]]) -> None:
        draft = self._draft
        draft.lists = [[row.values for row in rows] for rows in read]
        if read[0]:
            draft.row = draft.main = read[0][0].values
        if self._lacking or any(row.wrong for rows in read for row in rows):
            self._note_wrong(read, ())

    def _note_wrong(self, read: Sequence[Sequence[ReadRow]], lacking: Iterable[int]) -> None:
        """Notes which values were refused, so that nothing is made from them. `lacking` are further tables of which rows are missing."""
        draft = self._draft
        self._lacking.update(lacking)
        for table in self._plan.tables:
            if table.belongs_to in self._lacking:
                self._lacking.add(table.position)
        draft.rows_wrong = [[frozenset(row.wrong) for row in rows] for rows in read]
        refused = {(position, index) for position, rows in enumerate(read) for row in rows for index in row.wrong}
        for position in self._lacking:
            slots = self._readers[position].plan.shape.slots
            refused.update((position, slot.index) for slot in slots.values())
            refused.add((position, -1))
        draft.all_wrong = frozenset(refused)
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
                    if keyless and index in self._readers[position].plan.key and wrong.code == "C301":
                        continue  # a missing key is said by itself
                    also = [(position, row.row, other) for other in self._readers[position].decided_by(index, wrong)]
                    self._places.say(
                        wrong.code,
                        position,
                        row.row,
                        index,
                        values=wrong.values,
                        hint=wrong.hint,
                        level=wrong.level,
                        also=also,
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
            also = [(position, row.row, other) for other in blank[1:]]
            self._places.say("G405", position, row.row, index, values={"column": plan.label(index)}, also=also)

    # ---- grouping ----

    def _say_grouping(self, group: Group, read: Sequence[Sequence[ReadRow]]) -> None:
        main = self._readers[0].plan
        if group.key is None or not main.key:
            return
        lacking = []
        for position, join in self._plan.joins.items():
            rows = group.rows[position]
            if group.rows[0] and not rows and join.missing == "error" and not join.to:
                table = self._readers[position].plan.name
                values = {"key": self._shown_key, "table": table}
                keys = [(0, row, index) for row in group.rows[0] for index in main.key]
                self._places.say("G403", 0, group.rows[0][0], main.key[0], values=values, also=keys)
                lacking.append(position)
            elif rows and not group.rows[0]:
                own = self._readers[position].plan.key
                values = {"key": self._shown_key, "table": self._readers[join.to].plan.name}
                keys = [(position, row, index) for row in rows for index in own]
                self._places.say("G404", position, rows[0], own[0], values=values, also=keys)
        if lacking:
            self._note_wrong(read, lacking)
        if self._plan.is_grouped:
            self._checks.say_disagreement(read[0], self._shown_key)
        elif len(group.rows[0]) > 1:
            numbers = ", ".join(str(row.number) for row in group.rows[0])
            values = {"key": self._shown_key, "rows": numbers}
            keys = [(0, row, index) for row in group.rows[0] for index in main.key]
            self._places.say("G402", 0, group.rows[0][0], main.key[0], values=values, also=keys)

    def _say_inner(self, read: Sequence[Sequence[ReadRow]]) -> None:
        """Joins the tables that belong to rows of other joined ones, and says whose partner is missing."""
        nested, lacking = dict(self._draft.nested), []
        for position, join in self._inner:
            reader, to = self._readers[position], self._readers[join.to]
            met = partners(join, values_of(read[position]), values_of(read[join.to]))
            nested[position] = met.of
            unread = (
                not read[0]
                or not self._lacking.isdisjoint((position, join.to))
                or any(row.wrong for row in (*read[position], *read[join.to]))
            )
            for index in () if unread else met.strangers:
                own, key = (
                    read[position][index],
                    self._shown_inner(read[position][index], [pair[0] for pair in join.on]),
                )
                cells, values = [(position, own.row, pair[0]) for pair in join.on], {"key": key, "table": to.plan.name}
                self._places.say("G404", position, own.row, join.on[-1][0], values=values, also=cells)
            for index, mine in enumerate(met.of):
                if not mine and join.missing == "error" and not unread:
                    other, key = (
                        read[join.to][index],
                        self._shown_inner(read[join.to][index], [pair[1] for pair in join.on]),
                    )
                    values = {"key": key, "table": reader.plan.name}
                    cells = [(join.to, other.row, pair[1]) for pair in join.on]
                    self._places.say("G403", join.to, other.row, join.on[-1][1], values=values, also=cells)
                    lacking.append(position)
        self._draft.nested = nested
        if lacking:
            self._note_wrong(read, lacking)

    def _shown_inner(self, row: ReadRow, places: Sequence[int]) -> str:
        return "/".join(str(row.values[place]) for place in places)

    def _with_partners(self, group: Group) -> Group:
        """The group without the rows that belong to no row of the table they are joined to, where the mapping leaves those out."""
        rows = list(group.rows)
        for position, join in self._inner:
            reader, to = self._readers[position], self._readers[join.to]
            if join.extra == "error" or not rows[position] or not group.rows[0]:
                continue
            here = [reader.read(row).values for row in rows[position]]
            there = [to.read(row).values for row in rows[join.to]]
            strangers = set(partners(join, here, there).strangers)
            if strangers:
                rows[position] = [row for index, row in enumerate(rows[position]) if index not in strangers]
        return Group(group.key, tuple(rows)) if rows != list(group.rows) else group


def _instead(variant: Variant, payload: dict[str, Any]) -> Instead:
    return Instead(variant.operation.name, _ENCODE(payload), hashlib.sha256(_ENCODE_SORTED(payload)).hexdigest())

"""Stage 3: mapping. Tables of cells and a compiled mapping in, documents out, streaming.

The steps for one document: read its rows, apply the grouping rules, run the checks, build the payload, check it against the contract.
All problems of a document are found in one pass. A problem that only follows from another one is not reported. Money and weights
stay Decimal up to the encoder. Knows no network, no ledger and no clock: the time is passed in.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from loadsheet.contract import encode_record, encode_sorted
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.document_checks import DocumentProblems, GroupChecks, Rows, ValueRef
from loadsheet.mapping.documents import NO_LINKS, AlternativeForm, Document, Ignored, RowLinks, SourceRow
from loadsheet.mapping.grouping import MEMORY_ROWS, Group, KeyedTable, gather
from loadsheet.mapping.names import DocumentFrame
from loadsheet.mapping.near_keys import NearKeys, correct_there
from loadsheet.mapping.payload import Variant
from loadsheet.mapping.plans import CONSEQUENCE, CellProblem, TableLookup
from loadsheet.mapping.reference_tables import UnusableRow, read_references
from loadsheet.mapping.rows import ReadRow, RowReader, is_first, is_invalid, set_number, with_set_number
from loadsheet.problems import Where
from loadsheet.reading.tables import OF_ONE_CELL, Row, Table

Nested = Mapping[int, Sequence[Sequence[int]]]
"""Position of a child table -> for each row of its parent table, the indexes of the child rows."""


def translate(
    mapping: CompiledMapping,
    tables: Mapping[str, Table],
    *,
    now: datetime,
    memory_rows: int = MEMORY_ROWS,
    on_several_sheets: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Document | Ignored]:
    """The documents of one drop. `tables` are its tables by the mapping's names; `now` (aware) is what `$now` means in checks. See
    `keys_on_several_sheets`: the documents of these keys are refused.

    Every row of every table is in exactly one document or is ignored; rows that others look up are also in the documents that use
    them. A document that may not be sent carries its rows, its problems and, if known, its key. See `gather` for `memory_rows`.
    Raises KeyError for a missing table, and any error of the tables' `rows()`.
    """
    frame = DocumentFrame(now)
    frame.clear()
    readers = [RowReader(plan, tables[plan.source], frame) for plan in mapping.plan.tables]
    builder = _DocumentBuilder(mapping, readers, frame, on_several_sheets)
    for left in read_references(readers):
        if isinstance(left, Ignored):
            yield left
        else:
            yield from builder.unusable(left)
    gathered = [reader for reader in readers if reader.plan.made_of is None and not reader.plan.lookups]
    for item in gather(gathered, memory_rows=memory_rows):
        if isinstance(item, Ignored):
            yield item
        else:
            yield from builder.build(item)


def keys_on_several_sheets(
    mapping: CompiledMapping, sheets: Iterable[Mapping[str, Table]], *, now: datetime
) -> dict[str, str]:
    """The keys that have rows on several of these sheets, each with the first row on each of them. A sheet has the tables that `translate`
    takes.
    """
    first: dict[str, str] = {}
    found: dict[str, str] = {}
    frame, plan = DocumentFrame(now), mapping.plan.tables[0]
    for tables in sheets if plan.key else ():
        frame.clear()
        here: set[str] = set()
        for item in KeyedTable(RowReader(plan, tables[plan.source], frame)):
            if isinstance(item, Ignored) or item.key is None or item.key in here:
                continue
            here.add(item.key)
            row = f"{item.row.number} ({tables[plan.source].sheet})"
            if (above := first.setdefault(item.key, row)) is not row:
                found[item.key] = f"{found.get(item.key, above)}, {row}"
    return found


class _DocumentBuilder:
    """Makes the documents of groups, one group at a time."""

    def __init__(
        self,
        mapping: CompiledMapping,
        readers: Sequence[RowReader],
        frame: DocumentFrame,
        on_several_sheets: Mapping[str, str],
    ) -> None:
        self._plan = mapping.plan
        self._readers = readers
        if self._plan.joins:
            readers[0].left_out = {}
        self._frame = frame
        self._problems = DocumentProblems(readers, mapping.lineage, frame, self._plan)
        self._near = NearKeys(readers, self._plan.joins)
        self._checks = GroupChecks(self._plan, self._problems, frame, self._near, on_several_sheets)
        self._is_plain = not any(reader.plan.is_view for reader in readers)
        self._looks_up = any(reader.plan.lookups for reader in readers)
        self._looking_up = [
            (reader.plan.position, column.slot.index, column.reference, f"{reader.plan.name}.{column.name}")
            for reader in readers
            for column in reader.plan.columns
            if column.reference is not None
        ]
        self._of_sets = [
            (position, reader.plan.made_of, reader, reader.reader_of_columns(reader.plan.ignore_needs))
            for position, reader in enumerate(readers)
            if reader.plan.made_of is not None
        ]
        self._ignores_extra = any(join.extra == "ignore" for _, join in self._plan.inner_joins)

    def build(self, group: Group) -> Iterator[Document | Ignored]:
        """The document of a group, and the rows that the mapping ignores because they have no partner."""
        nested: Nested = {}
        if not self._is_plain or self._looks_up:
            rows, nested = self._with_sets(group.rows)
            group = Group(group.key, tuple(rows))
        source, links = self._source_rows(group.rows)
        if group.key is not None and not group.rows[0]:
            unmatched = next((place for place, rows in enumerate(group.rows) if rows), None)
            if unmatched is not None and (rule := self._rule_of_unmatched(unmatched, group.key)):
                yield from (Ignored(row, rule) for row in source)
                return
        if self._ignores_extra and (kept := self._with_partners(group)) is not group:
            group, everything = kept, source
            source, links = self._source_rows(group.rows)
            left = set(everything) - set(source)
            yield from (Ignored(row, "extra: ignore (it has no partner)") for row in everything if row in left)
        read = self._read(group)
        if self._looks_up:
            own = len(source)
            group = self._with_looked_up(group, read)
            source, links = self._source_rows(group.rows)
            there = tuple(range(own, len(source)))
            rows_found, shared = {**links.rows, **self._looked_up(group, read)}, tuple(sorted({*links.shared, *there}))
            links = replace(links, rows=rows_found, looked_up=there, shared=shared)
        self._frame.clear()
        self._frame.nested = nested
        yield self._document(group, source, links, read)

    def _rule_of_unmatched(self, position: int, key: str) -> str:
        """The rule that leaves out the rows of a joined table without a row of the main table; empty if they are an error."""
        join, main = self._plan.joins[position], self._readers[0]
        if join.extra == "ignore":
            return f"extra: ignore ({self._plan.tables[join.to].name} has no partner)"
        rule = (main.left_out or {}).get(key, "")
        return f"{rule} (in {main.plan.name})" if rule else ""

    def unusable(self, left: UnusableRow) -> Iterator[Document]:
        """The document of a row that others would look up, with the problem for which they cannot."""
        group = Group(None, tuple((left.row,) if place == left.position else () for place in range(len(self._readers))))
        source, links = self._source_rows(group.rows)
        self._frame.clear()
        yield self._document(group, source, links, self._read(group))

    def _read(self, group: Group) -> list[list[ReadRow]]:
        return [
            [reader.read(row) for row in rows if row.problem is None]
            for reader, rows in zip(self._readers, group.rows, strict=True)
        ]

    def _document(self, group: Group, source: tuple[SourceRow, ...], links: RowLinks, read: Rows) -> Document:
        """The document of a group, whose rows were read. The caller has cleared the frame."""
        frame, problems, checks = self._frame, self._problems, self._checks
        problems.begin(group, source)
        frame.links = links
        self._report_refused_rows(group)
        frame.lists = [[row.values for row in rows] for rows in read]
        if read[0]:
            frame.row = frame.main = read[0][0].values
        checks.begin(group, read)
        self._report_conversions(group, read)
        checks.check_grouping(group, read)
        variant = self._variant(read[0])
        if not read[0]:
            return self._invalid_document(group, variant, {})
        if self._plan.targets.chooser in frame.main_refused:  # the operation decides which fields may be missing
            return self._invalid_document(group, variant, variant.make(frame), is_chosen=False)
        checks.run_checks(read)
        payload, alternative = self._record(variant)
        if problems.has_errors:
            return self._invalid_document(group, variant, payload)
        return self._valid_document(variant, payload, alternative)

    def _variant(self, main: Sequence[ReadRow]) -> Variant:
        """The variant of the record's operation. If the operation cannot be read, a problem was already reported."""
        targets = self._plan.targets
        if targets.chooser is None or not main:
            return targets.fixed
        return targets.by_name.get(main[0].values[targets.chooser], targets.fixed)

    def _record(self, variant: Variant) -> tuple[dict[str, Any], AlternativeForm | None]:
        """The record and its update form. The problems of both count, because either may be sent."""
        frame, alternative = self._frame, None
        payload = variant.make(frame)
        if variant.alternative is not None:
            other = variant.alternative.make(frame)
            self._problems.check_contract(variant.alternative, other)
            frame.faults, frame.unlisted, frame.skipped = [], [], []
            alternative = AlternativeForm(
                variant.alternative.operation.name, encode_record(other), _content_hash(variant.alternative, other)
            )
        self._problems.check_contract(variant, payload)
        self._problems.check_complete()
        return payload, alternative

    def _valid_document(
        self, variant: Variant, payload: dict[str, Any], alternative: AlternativeForm | None
    ) -> Document:
        operation, links = variant.operation, self._frame.all_links()
        return Document(
            operation.name,
            operation.key_of(payload),
            operation.lane_of(payload),
            encode_record(payload),
            _content_hash(variant, payload),
            self._problems.source,
            tuple(self._problems.found),
            replace(links, ordered=variant.declared_ordered, times_of_run=variant.times_of_run)
            if variant.declared_ordered or variant.times_of_run
            else links,
            alternative,
            variant.ordered,
        )

    def _invalid_document(
        self, group: Group, variant: Variant, payload: Mapping[str, Any], *, is_chosen: bool = True
    ) -> Document:
        self._problems.check_complete()
        operation = variant.operation
        key = operation.key_of(payload) or group.shown_key(self._plan.key_shown)
        lane = operation.lane_of(payload if payload and is_chosen else {operation.record.key[0]: key})
        problems = tuple(self._problems.found)
        return Document(operation.name, key, lane, b"", "", self._problems.source, problems, self._frame.all_links())

    # ---- problems of rows ----

    def _report_refused_rows(self, group: Group) -> None:
        reported: set[tuple[str, int]] = set()
        for reader, rows in zip(self._readers, group.rows, strict=True):
            for row in rows:
                if row.problem is not None and (reader.table.name, row.number) not in reported:
                    reported.add((reader.table.name, row.number))
                    self._problems.found.append(row.problem)
                    if row.problem.code in OF_ONE_CELL and reader.plan.sets is None:
                        self._report_other_cells(reader, row, row.problem.where)

    def _report_other_cells(self, reader: RowReader, row: Row, bad: Where) -> None:
        """Reports the problems of the other cells of a row in which reading refused one cell."""
        for index, problem in sorted(reader.read(row).refused.items()):
            place = reader.view.position(index, row)
            if problem is not CONSEQUENCE and place is not None and reader.table.where(row.number, place) != bad:
                self._problems.add((reader.plan.position, row, index), problem)

    def _report_conversions(self, group: Group, read: Rows) -> None:
        keyless = group.key is None
        for position, rows in enumerate(read):
            reader = self._readers[position]
            for row in rows:
                if not row.refused and not row.warnings and not keyless:
                    continue
                refused = {index: problem for index, problem in row.refused.items() if problem is not CONSEQUENCE}
                for index, problem in sorted({**refused, **row.warnings}.items()):
                    if keyless and index in reader.plan.key and problem.code == "C301":
                        continue  # a missing key is reported below
                    also: list[ValueRef] = [
                        (position, row.row, other) for other in reader.deciding_columns(index, problem)
                    ]
                    if len(found := row.found.get(index, ())) > 1:
                        also += self._keys_of(reader.plan.columns[index].reference, found)
                    self._problems.add((position, row.row, index), problem, also)
                if keyless:
                    self._report_missing_key(position, row)

    def _report_missing_key(self, position: int, row: ReadRow) -> None:
        plan = self._readers[position].plan
        blank = [
            (position, row.row, index)
            for index in plan.key
            if row.values[index] is None and not is_invalid(row.refused, index)
        ]
        if blank:
            head = self._near.head_above(row.row) if plan.kind is not None and plan.kind.above else None
            hint = correct_there(head) if head is not None else ""
            problem = CellProblem("G405", {"column": plan.label(blank[0][2])}, hint, because=head)
            self._problems.add(blank[0], problem, blank[1:])

    # ---- rows of the file behind the rows of the tables ----

    def _with_sets(self, gathered: Sequence[Sequence[Row]]) -> tuple[list[Sequence[Row]], dict[int, list[list[int]]]]:
        """All rows of a document by table position, including tables made from column sets (`from`). For those also the rows that came from
        each row of the other table.
        """
        left = iter(gathered)
        found = [
            () if reader.plan.made_of is not None or reader.plan.lookups else next(left) for reader in self._readers
        ]
        nested: dict[int, list[list[int]]] = {}
        for position, of, reader, read in self._of_sets:
            own: list[Row] = []
            nested[position] = []
            for row in found[of]:
                if row.problem is not None:  # its document is refused, so its sets are not read
                    continue
                parts = [with_set_number(part, 0) for part in reader.view.expand(row)]
                kept = [part for part in parts if not reader.ignoring_rule(part, *read(part))]
                nested[position].append(list(range(len(own), len(own) + len(kept))))
                own += kept
            found[position] = own
        return found, nested

    def _source_rows(self, rows: Sequence[Sequence[Row]]) -> tuple[tuple[SourceRow, ...], RowLinks]:
        """The file rows behind the rows of a document, each once. For kind and set tables also the file row of each row."""
        if self._is_plain:
            view_rows = zip(self._readers, rows, strict=True)
            return tuple([reader.view.source(row) for reader, own in view_rows for row in own]), NO_LINKS
        found: list[SourceRow] = []
        places: dict[tuple[str, int], int] = {}
        made_from: dict[str, tuple[int, ...]] = {}
        sets: dict[str, tuple[int, ...]] = {}
        shared: dict[int, bool] = {}
        for reader, own in zip(self._readers, rows, strict=True):
            plan, indexes = reader.plan, []
            for row in own:
                key = (reader.table.name, row.number)
                if key not in places:
                    places[key] = len(found)
                    found.append(reader.view.source(row))
                indexes.append(places[key])
                if plan.sets is not None and plan.made_of is None:
                    shared[indexes[-1]] = shared.get(indexes[-1], True) and not is_first(row)
            if plan.is_view:
                made_from[plan.name] = tuple(indexes)
            if plan.sets is not None:
                sets[plan.name] = tuple(max(set_number(row), 0) for row in own)
        elsewhere = tuple(sorted(index for index, is_shared in shared.items() if is_shared))
        return tuple(found), RowLinks(made_from, sets, shared=elsewhere)

    # ---- rows that are looked up ----

    def _with_looked_up(self, group: Group, read: list[list[ReadRow]]) -> Group:
        """The group with the rows of other tables that its rows look up, each once. Adds them to the rows that were read."""
        found: dict[int, dict[int, ReadRow]] = {
            reader.plan.position: {} for reader in self._readers if reader.plan.lookups
        }
        for place, index, reference, _ in self._looking_up:
            there = found[reference.position]
            for row in read[place]:
                there.update((id(other), other) for other in row.found.get(index, ()))
        rows = list(group.rows)
        for position, others in found.items():
            read[position] = list(others.values())
            rows[position] = [other.row for other in others.values()]
        return Group(group.key, tuple(rows))

    def _looked_up(self, group: Group, read: Rows) -> dict[str, tuple[int, ...]]:
        """By column, which row of the other table each row finds."""
        rows_found: dict[str, tuple[int, ...]] = {}
        for place, index, reference, name in self._looking_up:
            numbers = {id(other): number for number, other in enumerate(read[reference.position])}
            found = {id(row.row): numbers[id(row.found[index][0])] for row in read[place] if row.found.get(index)}
            rows_found[name] = tuple(found.get(id(row), -1) for row in group.rows[place])
        return rows_found

    @staticmethod
    def _keys_of(reference: TableLookup | None, found: Sequence[ReadRow]) -> list[ValueRef]:
        """The cells by which rows of another table were found."""
        if reference is None:
            return []
        indexes = (*reference.columns, *(reference.bounds or ()))
        return [(reference.position, row.row, index) for row in found for index in indexes]

    # ---- rows without a partner ----

    def _with_partners(self, group: Group) -> Group:
        """The group without rows that have no partner, for tables where the mapping ignores such rows."""
        rows = list(group.rows)
        for position, join in self._plan.inner_joins:
            reader, to = self._readers[position], self._readers[join.to]
            if join.extra == "error" or not rows[position] or not group.rows[0]:
                continue
            here = [reader.read(row).values for row in rows[position]]
            there = [to.read(row).values for row in rows[join.to]]
            unmatched = set(join.match(here, there).unmatched)
            if unmatched:
                rows[position] = [row for index, row in enumerate(rows[position]) if index not in unmatched]
        return Group(group.key, tuple(rows)) if rows != list(group.rows) else group


def _content_hash(variant: Variant, record: Mapping[str, Any]) -> str:
    """The `content_hash` of a record (see `Document`)."""
    content = {name: value for name, value in record.items() if name not in variant.times_of_run}
    return hashlib.sha256(encode_sorted(content)).hexdigest()

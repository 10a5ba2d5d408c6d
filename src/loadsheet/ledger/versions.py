"""Later versions of entries: what later drops made of the same record or of the same row. Read-only.

A later version of an entry is a document that the exchange does not have and that

1. was made from the rows of the entry, which came back in a fix file (the key may have been wrong); or
2. has the same key, is of the same kind, and comes from a later drop of the same mapping (documents of another mapping may be of another
   sender, or set only some fields); or
3. if the entry has no key of its own (a row without identifier, a row of totals, a status event), has its row: in the same table of a later
   file with the same name and mapping, with equal cells, or with other cells only where the entry has problems.

If a drop has several such documents by rule 2 or 3, its n-th continues as the n-th of the later drop.

An entry is resolved, and nothing of the drop that resolved it or of a later one is a version, if

1. a document made from its rows in a fix file was accepted or is unchanged;
2. or it has no key of its own, and its row was accepted in the newest later file with the same name and mapping;
3. or its row is a row of totals that agrees now, in a fix file or in that newest file;
4. or its row is unchanged in that newest file and was not in the file of the entry.

For agreeing totals and unchanged rows, the newest file must share at least half of its keys with the file of the entry. A later document with
the same key resolves an entry too, but that is decided in `reconcile.exception_rules`. Rows that came back unchanged in a fix file are
still the wrong ones: what resolves the entry that had them first resolves the document made from them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Engine, Select, select, text

from loadsheet.contract import BY_NAME, CREATES_AND_UPDATES, EVENTS
from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import Content, with_contents
from loadsheet.ledger.ledger_tables import (
    Statement,
    chunks,
    drops,
    entries,
    files,
    ignored,
    mappings,
    streamed,
    streamed_within,
)
from loadsheet.ledger.models import NOT_SENT, Drop, Run, State, Waits
from loadsheet.ledger.planning import ALREADY, OTHER_SENDER, waits_as
from loadsheet.ledger.returned_rows import Cells, cells_of, copies_of
from loadsheet.ledger.run_queries import RunQueries, shares_keys
from loadsheet.mapping.documents import SourceRow

TOTALS_RULE = "totals:"
"""The beginning of the rule by which rows of totals are ignored."""


_WRONG = (State.INVALID, State.REFUSED)
_UNSENT = (*_WRONG, State.HELD)


class Versions(NamedTuple):
    """An entry and its later versions, the one that shows the record as it is now last. `resolved`: a document that was made from its rows,
    or its row itself, is in order now. `current` are the last one, what it repeats, what repeats
    that, and what only waits for an earlier one.
    """

    entries: tuple[int, ...]
    resolved: bool = False
    current: tuple[int, ...] = ()


class FileAge(NamedTuple):
    """How old a drop is, compared with others: the run that read it, when its last file arrived there, and its number."""

    run: int
    arrived: str
    drop: int


class _VersionCandidate(NamedTuple):
    """What is compared of an entry."""

    id: int
    drop: int
    run: int
    mapping: str
    operation: str
    key: str
    state: str
    waits: str
    reason: str
    items: str
    sent_in: int | None  # the last run that sent it

    @property
    def record(self) -> tuple[str, str] | None:
        """What it has in common with other documents for its record; None if its key does not identify it."""
        if not self.key or self.operation in EVENTS:
            return None
        operation = BY_NAME[self.operation]
        return (operation.subject if operation.name in CREATES_AND_UPDATES else operation.name), self.key

    def age(self, of_file: FileAge) -> FileAge:
        """Its age, by that of its file. What was refused in a later run, because a person sent it again or it had waited, is as new as that run."""
        sent_in = self.sent_in or 0
        return of_file._replace(run=sent_in) if self.state == State.REFUSED and sent_in > self.run else of_file

    @property
    def is_done(self) -> bool:
        """Whether the exchange has it."""
        return self.state == State.ACCEPTED or (self.state == State.UNCHANGED and self.reason.startswith(ALREADY))

    @property
    def follows(self) -> bool:
        """Whether it only waits for the outcome of an earlier one."""
        return self.state == State.HELD and self.waits == Waits.EARLIER

    @property
    def repeated(self) -> int:
        """The entry that it repeats, if that waited (0: none)."""
        return waits_as(self.reason) if self.state == State.UNCHANGED else 0

    @property
    def returned(self) -> tuple[int, ...]:
        """The entries whose rows it was made from, if they came back in a fix file."""
        return codec.decode_links(self.items).fix_of


class EntryVersions:
    """Answers which later versions entries have. `engine` gives connections that see one moment; `runs` knows drops and files."""

    def __init__(self, engine: Engine, runs: RunQueries) -> None:
        self._engine, self._runs = engine, runs

    def corrected_among(self, wanted: Sequence[int]) -> set[int]:
        """The entries among these whose rows came back in a fix file and were accepted, or are in order in a later version of their file."""
        return {entry for entry, versions in self.of(dict.fromkeys(wanted, "")).items() if versions.resolved}

    def as_they_came(self, wanted: Iterable[int]) -> dict[int, int]:
        """The unsent entries among these whose rows came back in a fix file as they were, each with the wrong entry that had them first."""
        first = {entry: entry for entry in wanted}
        fresh = {*first}
        while fresh:
            lines = self._lines(fresh).values()
            returned = {line.id: line.returned for line in lines if line.state in _UNSENT and line.returned}
            asked = self._lines(chain.from_iterable(returned.values()))
            cells = self._cells({*returned, *asked})
            same = {
                entry: one
                for entry, some in returned.items()
                for one in some
                if one in asked and asked[one].state in _WRONG and cells.get(one, 0) == cells.get(entry)
            }
            first = {entry: same.get(one, one) for entry, one in first.items()}
            fresh = {*same.values()}
        return {entry: one for entry, one in first.items() if one != entry}

    def returned_as_they_were(self, wanted: Iterable[int]) -> set[int]:
        """The entries among these whose rows came back in a fix file as they were."""
        returned = {line.id: line.returned for line in self._lines(wanted).values() if line.returned}
        cells = self._cells({*returned, *chain.from_iterable(returned.values())})
        return {one for one, some in returned.items() if any(cells.get(entry, 0) == cells.get(one) for entry in some)}

    def _cells(self, wanted: Iterable[int]) -> dict[int, "Counter[Cells]"]:
        """The rows of these entries, each as its table and cells; without entries whose contents were removed."""
        found = ((row.id, codec.decode_rows(content.rows)) for row, content in self.rows_in([*wanted]))
        return {entry: cells_of(rows) for entry, rows in found if rows}

    def of(self, wanted: Mapping[int, str], run: Run | None = None) -> dict[int, Versions]:
        """The later versions of these entries, each with its last verdict (empty: unknown), up to a run.

        A verdict on what was sent, such as a difference, concerns that document: only repetitions of it continue it.
        """
        first = self.as_they_came(wanted)
        found = self._versions_of({**dict.fromkeys(first.values(), ""), **wanted}, run)
        done = {entry for entry, one in first.items() if found[one].resolved}
        return {entry: Versions((entry,), resolved=True) if entry in done else found[entry] for entry in wanted}

    def _versions_of(self, wanted: Mapping[int, str], run: Run | None) -> dict[int, Versions]:
        known = self._lines(wanted)
        sent = {
            entry
            for entry, verdict in wanted.items()
            if verdict not in NOT_SENT and (known[entry].is_done or known[entry].state == State.UNKNOWN)
        }
        found = {entry: {entry} for entry in wanted}
        resolved: dict[int, int] = {}
        fresh = {entry: {entry} for entry in wanted if entry not in sent}
        while fresh:
            known |= self._lines(later for some in fresh.values() for later in some if later not in known)
            asked = {later: known[later] for some in fresh.values() for later in some}
            after, done = self._after(asked, run)
            for entry, some in fresh.items():
                if ends := [done[one] for one in some if one in done]:
                    resolved[entry] = min([*ends, resolved.get(entry, ends[0])])
            fresh = {
                entry: new
                for entry, some in fresh.items()
                if (new := {later for one in some for later in after.get(one, ())} - found[entry])
            }
            for entry, new in fresh.items():
                found[entry] |= new
        for entry, repeats in self._repeats({entry: known[entry] for entry in sent}, run).items():
            found[entry] |= {line.id for line in repeats}
            known |= {line.id: line for line in repeats}
        first = self.as_they_came(line.id for line in known.values() if line.returned)
        ages = self._ages_of([known[one] for some in found.values() if len(some) > 1 for one in some], first)
        return {
            entry: _versions([known[one] for one in some], first, ages, resolved.get(entry))
            for entry, some in found.items()
        }

    def _ages_of(self, lines: Sequence[_VersionCandidate], first: Mapping[int, int]) -> dict[int, FileAge]:
        """The age of what each of these entries says: that of the first copy of its file, or of that of the entry that had its rows `first`."""
        had_them = self._lines(first.values())
        of = {line.id: had_them.get(first.get(line.id, 0), line) for line in lines}
        ages = self.ages({line.drop for line in of.values()}) if of else {}
        return {entry: line.age(ages[line.drop][1]) for entry, line in of.items()}

    def ages(self, wanted: Collection[int]) -> dict[int, tuple[FileAge, FileAge]]:
        """For each of these drops, its age and that of the first one whose files have the same bytes: maybe itself."""
        with self._engine.connect() as connection:
            copies = copies_of(connection, wanted)
            first = {drop: min([drop, *copies[drop]]) for drop in wanted}
            rows = _AGES.rows_of(connection, sorted({*wanted, *first.values()}))
        known = {row.id: FileAge(row.run_id, row.arrived, row.id) for row in rows}
        return {drop: (known[drop], known[one]) for drop, one in first.items()}

    def _lines(self, wanted: Iterable[int]) -> dict[int, _VersionCandidate]:
        return {row.id: _VersionCandidate(*row) for row in self._rows_of(_LINES, sorted(set(wanted)))}

    def _after(
        self, asked: Mapping[int, _VersionCandidate], run: Run | None
    ) -> tuple[dict[int, set[int]], dict[int, int]]:
        """The next versions of each of these entries, and the drops that resolved some of them."""
        after: dict[int, set[int]] = defaultdict(set)
        resolved: dict[int, int] = {}
        fixes = list(self._fixes(asked.values(), run))
        old = self.returned_as_they_were(
            [line.id for line in fixes if line.state == State.UNCHANGED and not line.repeated]
        )
        for later in fixes:
            if later.id in old:
                continue
            for entry in set(later.returned) & asked.keys():
                if later.is_done:
                    resolved[entry] = min(later.drop, resolved.get(entry, later.drop))
                else:
                    after[entry].add(later.id)
        for entry, lines in self._with_key(asked, run).items():
            after[entry] |= {line.id for line in lines}
        for entry, drop, version in self._with_row([line for line in asked.values() if line.record is None], run):
            if version:
                after[entry].add(version)
            else:
                resolved[entry] = min(drop, resolved.get(entry, drop))
        return after, resolved

    def _fixes(self, asked: Iterable[_VersionCandidate], run: Run | None) -> Iterator[_VersionCandidate]:
        """The entries of the fix files of their drops."""
        for drop in sorted({line.drop for line in asked}):
            yield from (
                _VersionCandidate(*row)
                for row in streamed(self._engine, _until(_OF_FIXES.where(drops.c.fixes == drop), run))
            )

    def _with_key(self, asked: Mapping[int, _VersionCandidate], run: Run | None) -> dict[int, list[_VersionCandidate]]:
        """The documents of later drops with the same key that were not accepted. Those of a fix file name the entries of its original
        themselves, so they follow only others that name the same. Those whose rows are as they were say nothing new about others. What is
        held because another sender has its number is followed by documents that are held for the same reason.
        """
        found: dict[int, list[_VersionCandidate]] = {}
        records = self._records(asked.values(), run)
        returned = {line.id: line.returned for lines in records.values() for line in lines if line.returned}
        roots, old = (self._runs.roots(), self.as_they_came(returned)) if returned else ({}, {})

        def is_other(line: _VersionCandidate, own: _VersionCandidate) -> bool:
            if line.mapping != own.mapping or line.id in old:
                return True
            if OTHER_SENDER in (line.reason, own.reason):
                return line.reason != own.reason
            is_same_original = roots.get(line.drop, line.drop) == roots.get(own.drop, own.drop)
            names_others = line.id in returned and returned[line.id] != returned.get(own.id)
            return line.is_done or (is_same_original and names_others)

        for entry, own in asked.items():
            by_drop: dict[int, list[_VersionCandidate]] = defaultdict(list)
            for line in records.get(own.record, ()):
                if line.id == entry or not is_other(line, own):
                    by_drop[line.drop].append(line)
            place = by_drop[own.drop].index(own) if own.record else 0
            later = [lines for drop, lines in by_drop.items() if drop > own.drop and place < len(lines)]
            found[entry] = [lines[place] for lines in later]
        return found

    def _repeats(self, asked: Mapping[int, _VersionCandidate], run: Run | None) -> dict[int, list[_VersionCandidate]]:
        """The documents of later drops that repeat one that was sent, or wait for its outcome."""
        records, found = self._records(asked.values(), run), dict[int, list[_VersionCandidate]]()
        unknown = {entry: own for entry, own in asked.items() if own.state == State.UNKNOWN}
        with_key = self._with_key(unknown, run) if unknown else {}
        for entry, own in asked.items():
            later = (line for line in records.get(own.record, ()) if line.drop > own.drop)
            found[entry] = [line for line in later if line.is_done and line.state == State.UNCHANGED]
            found[entry] += [line for line in with_key.get(entry, ()) if line.follows]
        return found

    def _records(
        self, asked: Iterable[_VersionCandidate], run: Run | None
    ) -> dict[tuple[str, str] | None, list[_VersionCandidate]]:
        """All documents for the records of these entries, oldest first."""
        found: dict[tuple[str, str] | None, list[_VersionCandidate]] = defaultdict(list)
        for row in sorted(self._rows_of(_WITH_KEY, sorted({line.key for line in asked if line.record}))):
            line = _VersionCandidate(*row)
            if line.record and (run is None or line.run <= run.id):
                found[line.record].append(line)
        return found

    def _with_row(self, asked: Sequence[_VersionCandidate], run: Run | None) -> Iterator[tuple[int, int, int]]:
        """For entries without a key of their own: each with a later drop and the entry that has its row there (0: the row is in order)."""
        by_drop: dict[int, list[int]] = defaultdict(list)
        for line in asked:
            by_drop[line.drop].append(line.id)
        for drop, some in by_drop.items():
            yield from _Rows(self, self._runs.drop(drop), some).versions(run)

    def rows_in(self, wanted: Sequence[int]) -> Iterator[tuple[Any, Content]]:
        """These entries, each with its id, problems and contents, in order."""
        for part in chunks(sorted(wanted)):
            yield from self._contents(_ROWS.where(entries.c.id.in_(part)))

    def _rows_of(self, statement: Statement, wanted: Sequence[Any]) -> list[Any]:
        with self._engine.connect() as connection:
            return statement.rows_of(connection, wanted)

    def _contents(self, query: Select[Any]) -> Iterator[tuple[Any, Content]]:
        with self._engine.connect() as connection:
            yield from with_contents(connection, streamed_within(connection, query.order_by(entries.c.id)))

    def later_files(self, drop: Drop, run: Run | None) -> list[int]:
        """The later drops with the first file and the mapping of this one that are no fix files, oldest first."""
        first = self._runs.original(drop)
        same = _SAME_FILE.where(files.c.name == first.name, mappings.c.name == first.mapping, drops.c.id > drop.id)
        return [row.id for row in streamed(self._engine, _until(same, run).order_by(drops.c.id))]

    def fix_drops(self, drop: Drop, run: Run | None) -> list[int]:
        """The fix files of this drop."""
        return [
            row.id for row in streamed(self._engine, _until(select(drops.c.id).where(drops.c.fixes == drop.id), run))
        ]

    def rows_of_drop(self, drop: int, which: ColumnElement[bool]) -> Iterator[tuple[int, SourceRow]]:
        """The rows of the entries of a drop for which this holds, each with its entry, in planning order."""
        for row, content in self._contents(_ROWS.where(entries.c.drop_id == drop, which)):
            yield from ((row.id, source) for source in codec.decode_rows(content.rows))

    def totals_of_drop(self, drop: int) -> "Counter[Cells]":
        """The rows of totals of a drop that agreed, each as its table and cells."""
        query = select(ignored.c.table_name, ignored.c.cells).where(
            ignored.c.drop_id == drop, ignored.c.rule.startswith(TOTALS_RULE)
        )
        return Counter((row.table_name, codec.decode_cells(row.cells)) for row in streamed(self._engine, query))

    def is_same_file(self, first: int, later: int) -> bool:
        """Whether a later drop shares at least half of its keys with an earlier one."""
        with self._engine.connect() as connection:
            return shares_keys(connection, first, later)


class _Rows:
    """The rows of some entries of a drop that have no key of their own, and where they are in later drops."""

    def __init__(self, later: EntryVersions, drop: Drop, some: Sequence[int]) -> None:
        self._later, self._drop = later, drop
        self._own: dict[int, tuple[Cells, frozenset[int]]] = {}
        tables = {table.name: table for table in drop.tables}
        for row, content in later.rows_in(some):
            for source in codec.decode_rows(content.rows)[:1]:
                places = {
                    tables[source.table].position(problem.where) for problem in codec.decode_problems(row.problems)
                }
                wrong = frozenset(place for place in places if place is not None)
                self._own[row.id] = (source.table, source.cells), wrong

    def versions(self, run: Run | None) -> Iterator[tuple[int, int, int]]:
        """Each entry with a later drop and the entry that has its row there; with 0 if the row is in order in the newest file or a fix file."""
        later, open_ones = self._later.later_files(self._drop, run), dict(self._own)
        for drop in later:
            waiting = list(self._later.rows_of_drop(drop, ~(_IS_ACCEPTED | _IS_UNCHANGED)))
            matches = dict(self._matching(waiting))
            yield from ((entry, drop, version) for entry, version in matches.items())
            if drop == later[-1]:
                open_ones = {entry: own for entry, own in open_ones.items() if entry not in matches}
                right = list(self._later.rows_of_drop(drop, _IS_ACCEPTED))
                if open_ones and self._later.is_same_file(self._drop.id, drop):
                    agreeing = self._later.totals_of_drop(drop) - self._later.totals_of_drop(self._drop.id)
                    right += [*self._right_before(drop), *_rows_of(agreeing)]
                yield from ((entry, drop, 0) for entry, _ in self._matching(right, open_ones))
        for drop in self._later.fix_drops(self._drop, run):
            yield from (
                (entry, drop, 0) for entry, _ in self._matching(_rows_of(self._later.totals_of_drop(drop)), open_ones)
            )

    def _right_before(self, drop: int) -> Iterator[tuple[int, SourceRow]]:
        """The unchanged rows of a later drop, without those that the own drop has as well: they are other rows than the wrong ones."""
        is_done = _IS_ACCEPTED | _IS_UNCHANGED
        here = cells_of(row for _, row in self._later.rows_of_drop(self._drop.id, is_done))
        for entry, row in self._later.rows_of_drop(drop, _IS_UNCHANGED):
            cells = row.table, row.cells
            if here[cells]:
                here[cells] -= 1
            else:
                yield entry, row

    def _matching(
        self, rows: Sequence[tuple[int, SourceRow]], own: Mapping[int, tuple[Cells, frozenset[int]]] | None = None
    ) -> Iterator[tuple[int, int]]:
        """Each entry with the entry of its row among these: first by equal cells, then by the cells that were not wrong."""
        left, rest = list(rows), dict(self._own if own is None else own)
        for masked in (False, True):
            masks = {wrong if masked else frozenset[int]() for _, wrong in rest.values()}
            by_cells: dict[tuple[Cells, frozenset[int]], list[int]] = defaultdict(list)
            for place, (_, row) in enumerate(left):
                for mask in masks:
                    by_cells[_without((row.table, row.cells), mask), mask].append(place)
            taken: set[int] = set()
            for entry, (cells, wrong) in sorted(rest.items()):
                mask = wrong if masked else frozenset[int]()
                places = (place for place in by_cells.get((_without(cells, mask), mask), ()) if place not in taken)
                for found in islice(places, 1):
                    taken.add(found)
                    del rest[entry]
                    yield entry, left[found][0]
            left = [row for number, row in enumerate(left) if number not in taken]


def _rows_of(totals: "Counter[Cells]") -> list[tuple[int, SourceRow]]:
    return [(0, SourceRow(table, 0, cells)) for table, cells in totals.elements()]


def _versions(
    lines: Sequence[_VersionCandidate], first: Mapping[int, int], ages: Mapping[int, FileAge], resolved_by: int | None
) -> Versions:
    """The versions, those of older files first, after those that only follow others; without those of the drop that resolved them, or later.
    Those whose rows came back as they were stand behind the one that had them `first`. `ages` are those of several.
    """
    ordered = [line for line in lines if resolved_by is None or line.drop < resolved_by]
    if len(lines) > 1:
        ordered.sort(key=lambda line: (not line.follows, ages[line.id], first.get(line.id, line.id), line.id))
    waiting = ordered[-1].repeated or ordered[-1].id
    current = tuple(line.id for line in ordered if line.follows or waiting in (line.id, line.repeated))
    return Versions(tuple(line.id for line in ordered), resolved_by is not None, current)


def _without(cells: Cells, wrong: frozenset[int]) -> Cells:
    """A row without the cells in these places."""
    return cells[0], tuple("" if place in wrong else cell for place, cell in enumerate(cells[1])) if wrong else cells[1]


def _until(query: Any, run: Run | None) -> Any:
    return query if run is None else query.where(drops.c.run_id <= run.id)


_NAMES = ("operation", "key", "state", "waits", "reason", "items")
_SENT_IN = "(select max(run_id) from attempts where attempts.entry_id = entries.id)"
_COLUMNS = f"entries.id, entries.drop_id, drops.run_id, mappings.name as mapping, {', '.join(f'entries.{name}' for name in _NAMES)}, {_SENT_IN}"
_FROM = "from entries join drops on drops.id = entries.drop_id join mappings on mappings.hash = drops.mapping_hash"
_LINES = Statement(f"select {_COLUMNS} {_FROM} where entries.id in (:wanted)")
_WITH_KEY = Statement(f"select {_COLUMNS} {_FROM} where entries.key in (:wanted)")
_AGES = Statement(
    """
    select drops.id, drops.run_id, max(files.arrived) as arrived from drops join files on files.drop_id = drops.id
    where drops.id in (:wanted) group by drops.id, drops.run_id
    """
)
_OF_FIXES = (
    select(
        entries.c.id,
        entries.c.drop_id,
        drops.c.run_id,
        mappings.c.name,
        *(entries.c[name] for name in _NAMES),
        text(_SENT_IN),
    )
    .join(drops, drops.c.id == entries.c.drop_id)
    .join(mappings, mappings.c.hash == drops.c.mapping_hash)
)
_ROWS = select(*(entries.c[name] for name in ("id", "payload", "rows", "problems")))
_IS_ACCEPTED = entries.c.state == State.ACCEPTED
_IS_UNCHANGED = (entries.c.state == State.UNCHANGED) & entries.c.reason.startswith(ALREADY)
_SAME_FILE = (
    select(drops.c.id)
    .join(files, files.c.drop_id == drops.c.id)
    .join(mappings, mappings.c.hash == drops.c.mapping_hash)
    .where(drops.c.fixes.is_(None))
    .distinct()
)

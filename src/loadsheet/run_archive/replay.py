"""Replays a capsule: reads, translates and judges the run's files again, and writes its reports again, from the capsule alone.

Owns the two ledgers of a replay. The first holds the state before the run: the run's files are planned into it by the
same functions as in every run, and the result is compared with the capsule byte for byte. The second holds the state
after the run, with the recorded answers of the exchange: the reports are made from it. Reads no file outside the
capsule and makes no network call.
"""

import platform
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import file_digest
from importlib.metadata import version
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from loadsheet import reconcile, reports
from loadsheet.contract import Assumptions
from loadsheet.display_text import count_of
from loadsheet.errors import DoesNotBalance, FileRefused, MappingError
from loadsheet.fix_files import FIX_ROLE, FixFile, is_text, without_totals
from loadsheet.inbox import InboxFile
from loadsheet.ingest import IngestContext, RoutedDrop, read_drop
from loadsheet.ledger import Ledger, Run, State, Waits, open_ledger
from loadsheet.ledger.exporting import TABLES, Row, slice_of
from loadsheet.ledger.models import TRIGGER_ROLE
from loadsheet.ledger_sink import LedgerSink
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.mapping_folder import of_shipper
from loadsheet.mapping.routing import Route, load_kept
from loadsheet.reports.report_files import safe_name
from loadsheet.run_archive.contents import (
    CAPSULE_SECTIONS,
    CannotOpen,
    CapsuleDrop,
    CapsuleMapping,
    CapsuleReader,
    Manifest,
    joined_by_entry,
    mapping_member,
    read_manifest,
    rows_of,
)
from loadsheet.run_archive.replay_diff import Calls, ReplayDifference, Side, compare_entries, compare_rows, unexplained
from loadsheet.run_archive.verify import check_archive
from loadsheet.settings import Settings
from loadsheet.settings.sections import OLD_NAMES, ReadingSettings

DIFFERENCES_MAX = 20


class ReplayResult(NamedTuple):
    """The result of a replay: how many drops and entries were made again, for how many attempts the request was, which
    reports are identical and which are not, the first differences in planned and sent entries and their number, and what
    was not replayed and why.
    """

    manifest: Manifest
    drops: int
    entries: int
    calls: int
    same: tuple[str, ...]
    other: tuple[str, ...]
    differences: tuple[ReplayDifference, ...]
    difference_count: int
    remarks: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether everything equals the capsule."""
        return not self.difference_count and not self.other


def replay(path: Path, folder: Path | None = None) -> ReplayResult:
    """Replay a capsule. The resulting reports stay in `folder`, if given, which must be empty.

    Raises CannotOpen if the file is not a capsule, was tampered with or cannot be read by this program.
    """
    checked = check_archive(path)
    if checked.wrong:
        raise CannotOpen(f"{path} was tampered with and is not replayed: {checked.wrong[0]}")
    if folder is not None and folder.is_dir() and any(folder.iterdir()):
        raise CannotOpen(f"{folder} is not empty; name an empty folder, or none")
    members = CapsuleReader(path)
    manifest = read_manifest(members)
    with tempfile.TemporaryDirectory(prefix="replay-") as work:
        place = Path(work)
        settings = _settings(manifest, place, folder or place / "outbox")
        return _Replay(members, manifest, settings, place).result()


class _Replay:
    def __init__(self, members: CapsuleReader, manifest: Manifest, settings: Settings, place: Path) -> None:
        self._members, self._manifest, self._settings, self._place = members, manifest, settings, place
        self._remarks: list[str] = []
        self._differences: list[ReplayDifference] = []
        self._count = self._calls = 0

    def result(self) -> ReplayResult:
        planned = [drop for drop in self._manifest.drops if drop.mapping]
        aside = [file.name for drop in self._manifest.drops if not drop.mapping for file in drop.files]
        if aside:
            self._remarks.append(f"set aside unread, and taken as recorded: {', '.join(aside)}")
        earlier = len(self._manifest.touched) - len(self._manifest.drops)
        if earlier:
            these = f"{count_of(earlier, 'drop')} of earlier runs, which this run continued"
            self._remarks.append(
                f"{these}, taken as recorded: their files are in the capsules of those runs, if they ended"
            )
        entries = self._files() if planned else 0
        same, other = self._reports()
        differences = tuple(self._differences)
        return ReplayResult(
            self._manifest,
            len(planned),
            entries,
            self._calls,
            same,
            other,
            differences,
            self._count,
            (*self._remarks, *self._notes(other)),
        )

    # planning the files again

    def _files(self) -> int:
        """Plan the run's files into the state before the run. Returns the number of entries."""
        before = _PriorState(self._members, self._manifest)
        with self._ledger("before", self._manifest.started_at) as ledger:
            for table in TABLES:
                ledger.insert_rows(table, before.rows(table))
            run = self._run(ledger)
            mappings = {kept.hash: self._mapping(kept) for kept in self._manifest.mappings}
            for drop in self._manifest.drops:
                self._drop(drop, mappings.get(drop.mapping), ledger, run)
            return self._compare(ledger, run)

    def _drop(self, drop: CapsuleDrop, mapping: CompiledMapping | None, ledger: Ledger, run: Run) -> None:
        if not drop.mapping:  # keep its number, so that later drops have theirs
            mine = (row for row in rows_of(self._members, "drops") if row["id"] == drop.id)
            ledger.insert_rows("drops", mine)
            return
        if mapping is None:
            return  # reported already
        claimed = [self._claimed(drop, number) for number in range(len(drop.files))]
        route, fix = _route(drop, mapping, ledger)
        context = IngestContext(self._settings, (), ledger.queries, datetime.fromisoformat(run.started_at))
        try:
            LedgerSink(self._settings, ledger, run).plan(read_drop(RoutedDrop(route, fix), claimed, context))
        except (FileRefused, DoesNotBalance) as refused:
            self._report([ReplayDifference(drop.files[0].name, "file", "read", f"refused: {refused}")])

    def _claimed(self, drop: CapsuleDrop, number: int) -> InboxFile:
        file = drop.files[number]
        path = self._place / "inputs" / str(drop.id) / str(number) / safe_name(Path(file.member).name)
        self._members.copy(file.member, path)
        return InboxFile(file.name, path, file.size, file.sha256, datetime.fromisoformat(file.arrived))

    def _mapping(self, kept: CapsuleMapping) -> CompiledMapping | None:
        """A mapping as it was. None, and reported, if this program refuses its files or gets another hash."""
        folder = self._place / "mappings" / kept.hash
        for name in kept.files:
            path = (folder / name).resolve()
            if not path.is_relative_to(folder.resolve()):
                raise CannotOpen(f"{name} of mapping {kept.name} points outside its folder")
            self._members.copy(mapping_member(kept.hash, name), path)
        try:
            mapping = load_kept(folder / kept.files[0], self._settings.assumptions)
        except MappingError as error:
            self._report([ReplayDifference(f"mapping {kept.name}", "file", "read", f"refused: {error.text}")])
            return None
        if mapping.hash != kept.hash:
            self._report([ReplayDifference(f"mapping {kept.name}", "hash", kept.hash[:12], mapping.hash[:12])])
        return of_shipper(mapping, kept.shipper) if kept.shipper else mapping

    def _compare(self, ledger: Ledger, run: Run) -> int:
        """Compare the planned entries with the capsule. Returns the number of entries."""
        own = {drop.id for drop in self._manifest.drops}

        def mine(table: str, rows: Iterator[Row]) -> Iterator[Row]:
            return rows if table == "events" else (row for row in rows if row["drop_id"] in own)

        def kept(table: str) -> Iterator[Row]:
            return mine(table, rows_of(self._members, table))

        with slice_of(ledger.queries, run) as again:

            def made(table: str) -> Iterator[Row]:
                return mine(table, again.rows(table))

            self._report(compare_entries(Side(kept("entries"), kept("events")), Side(made("entries"), made("events"))))
            self._report(compare_rows("table", _TABLE, kept("tables"), made("tables")))
            self._report(compare_rows("left out row", _IGNORED, kept("ignored"), made("ignored")))
            return sum(1 for _ in made("entries"))

    def _report(self, differences: Iterator[ReplayDifference] | list[ReplayDifference]) -> None:
        stream = iter(differences)
        some = list(islice(stream, DIFFERENCES_MAX - len(self._differences)))
        self._differences += some
        self._count += len(some) + sum(1 for _ in stream)

    # writing the reports again

    def _reports(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Write the reports from the state after the run. Returns the identical and the different ones."""
        with self._ledger("after", self._manifest.finished_at) as ledger:
            for table in TABLES:
                ledger.insert_rows(table, rows_of(self._members, table))
            run, queries = self._run(ledger), ledger.queries
            calls = Calls(queries, run.id)
            self._report(calls.check(*(rows_of(self._members, table) for table in ("entries", "attempts"))))
            self._calls = calls.count
            known = (rows_of(self._members, table) for table in ("entries", "events", "attempts"))
            self._report(unexplained(*known))
            recalled = reconcile.RecordedListings([(run, queries.listing_snapshot(run))])
            drops = queries.drops_by_id(self._manifest.touched)
            reconciliation = reconcile.reconcile_run(queries, recalled, run, self._settings, drops=drops)
            written = reports.write(queries, reconciliation, run, self._settings)
        return self._compared_with(written.folder)

    def _compared_with(self, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        same: list[str] = []
        other: list[str] = []
        for output in self._manifest.outputs:
            path = folder / output.name
            if not path.is_file():
                other.append(f"{output.name} was not written again")
                continue
            with path.open("rb") as report:
                equal = file_digest(report, "sha256").hexdigest() == output.sha256
            (same if equal else other).append(output.name)
        return tuple(same), tuple(other)

    def _notes(self, other: tuple[str, ...]) -> Iterator[str]:
        from_here = (version("loadsheet"), platform.python_version())
        if other and (self._manifest.loadsheet, self._manifest.python) != from_here:
            made = f"loadsheet {self._manifest.loadsheet} on Python {self._manifest.python}"
            yield f"the capsule was made by {made}, this is loadsheet {from_here[0]} on Python {from_here[1]}, so run.json differs"
        if other and self._manifest.changed_since:
            changed = count_of(self._manifest.changed_since, "entry", "entries")
            yield f"{changed} changed between the end of the run and the making of the capsule"

    @contextmanager
    def _ledger(self, name: str, at: str) -> Iterator[Ledger]:
        moment = datetime.fromisoformat(at).astimezone(UTC)
        with open_ledger(f"sqlite:///{self._place / name / 'ledger.db'}", clock=lambda: moment) as ledger:
            yield ledger

    def _run(self, ledger: Ledger) -> Run:
        return next(run for run in ledger.queries.runs_named(self._manifest.run) if run.name == self._manifest.run)


_TABLE = ("name", "file", "sheet", "header", "header_row", "rows", "found", "problems")
_IGNORED = ("table_name", "number", "cells", "rule")


def _route(drop: CapsuleDrop, mapping: CompiledMapping, ledger: Ledger) -> tuple[Route, FixFile | None]:
    """The route of a drop as in its run, and the fix workbook if it is one."""
    names = {file.role: file.name for file in drop.files}
    if drop.fixes is None:
        trigger = names.pop(TRIGGER_ROLE, None)
        return Route(mapping, names, trigger), None
    plain = without_totals(mapping)
    if FIX_ROLE not in names:
        return Route(plain, names), None
    name = names[FIX_ROLE]
    route = Route(plain, dict.fromkeys(mapping.layouts, name))
    return route, None if is_text(name) else FixFile(name, ledger.queries.drop(drop.fixes), route)


def _settings(manifest: Manifest, place: Path, outbox: Path) -> Settings:
    # Capsules of 0.5.0 have the old names. A capsule from elsewhere could name other sections, which concern this machine.
    sections = {name: OLD_NAMES.get(name, (name,))[0] for name in manifest.settings}
    given = {name: value for name, value in manifest.settings.items() if sections[name] in CAPSULE_SECTIONS}
    try:
        settings = Settings(
            **given,
            assumptions=Assumptions(**manifest.assumptions),
            exchange=manifest.exchange,
            state=place / "state",
            outbox=outbox,
            archive=outbox.absolute() / manifest.run / manifest.archive if manifest.archive else None,
            archive_path=manifest.archive_path,
        )
    except ValidationError as error:
        raise CannotOpen(f"this program cannot use the capsule's settings: {error.errors()[0]['msg']}") from error
    confined = settings.reading.model_copy(update={"process": ReadingSettings().process})
    return settings.model_copy(update={"reading": confined})


class _PriorState:
    """The ledger's rows just before the run planned its first file, reconstructed from events."""

    def __init__(self, members: CapsuleReader, manifest: Manifest) -> None:
        self._members, self._manifest = members, manifest
        own = {drop.id for drop in manifest.drops}
        mine = _own_entries(members, own)
        self._first_entry = min(mine, default=None)
        planned = (row for row in rows_of(members, "events") if row["entry_id"] in mine and not row["before"])
        first = min(planned, key=itemgetter("id"), default=None)
        self._cut = first["id"] if first else None
        self._at = first["at"] if first else manifest.started_at
        self._own = own

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a table that existed then. None of attempts, exceptions and similar tables: planning does not use them."""
        rows = rows_of(self._members, table)
        first_drop, run_id = min(self._own), self._manifest.run_id
        rules: dict[str, Callable[[Row], bool]] = {
            "runs": lambda row: row["id"] <= run_id,
            "mappings": lambda _: True,
            "drops": lambda row: row["id"] < first_drop,
            "files": lambda row: row["drop_id"] < first_drop,
            "tables": lambda row: row["drop_id"] < first_drop,
            "seen": lambda row: row["run_id"] <= run_id and row["at"] < self._at,
            "events": self._is_earlier_event,  # they name the run that accepted an earlier version
        }
        if table == "entries":
            yield from self._entries(rows)
        elif table in rules:
            yield from filter(rules[table], rows)

    def _is_earlier_event(self, row: Row) -> bool:
        if self._first_entry is None or self._cut is None:
            return False  # no planned entry depends on them
        return bool(row["entry_id"] < self._first_entry and row["id"] < self._cut)

    def _entries(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row, events in joined_by_entry(rows, rows_of(self._members, "events")):
            if self._first_entry is not None and row["id"] >= self._first_entry:
                return
            if row["drop_id"] < min(self._own):
                yield _as_it_was(row, [event for event in events if self._cut is None or event["id"] < self._cut])


def _own_entries(members: CapsuleReader, own: Collection[int]) -> range:
    """The entries of these drops, which one run plans in sequence."""
    first, last = 0, -1
    for row in rows_of(members, "entries"):
        if row["drop_id"] in own:
            first, last = first or row["id"], row["id"]
    return range(first, last + 1)


def _as_it_was(row: Row, events: list[Row]) -> Row:
    """An entry as of these events. Problems and order number are the current ones: the parts that planning uses only grow."""
    last = events[-1] if events else None
    if last is None or (last["after"], last["reason"]) == (row["state"], row["reason"]):
        return row
    was = {"state": last["after"], "reason": last["reason"], "changed_at": last["at"], "waits": _waits(last)}
    return row | was


def _waits(event: Row) -> str:
    """What an entry waited for, from its reason: events do not store it."""
    if event["after"] not in (State.HELD, State.READY):
        return Waits.DECISION.value
    if event["reason"].startswith("waits for "):
        return Waits.PARENT.value
    earlier = ("earlier outcome unknown", "the delete before it")
    return Waits.EARLIER.value if event["reason"].startswith(earlier) else Waits.DECISION.value

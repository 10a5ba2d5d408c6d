"""The sink of a run: drops become entries of the ledger, and their files move to the archive or are set aside. Stage 4.

Every row is counted while it is read, independently of the mapping, and compared with the rows in the ledger. A file is recorded
before it moves: if a run dies in between, the next run moves the file from the work area.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from loadsheet import inbox, run_log
from loadsheet.errors import DoesNotBalance, FileRefused, FolderError, LoadsheetError
from loadsheet.fix_files import FIX_ROLE
from loadsheet.inbox import Candidate, InboxFile
from loadsheet.ingest import IngestContext, IngestResult, ReadDrop, ingest, limited_to_one_run, route_files
from loadsheet.ledger import Drop, Ledger, PlanningRules, ReadTotals, Run, SourceFile, SourceTable
from loadsheet.ledger.models import SET_ASIDE_ROLE, TRIGGER_ROLE
from loadsheet.mapping.compile import CompiledMapping, operations_of, version_of, zone_of
from loadsheet.mapping.documents import MEANT_FOR, Document, Ignored, fields_of
from loadsheet.places import from_stored_path, to_stored_path
from loadsheet.problems import NOT_IN_LEDGER, Problem, Where
from loadsheet.reading import Table
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.ledger.exporting import EarlierRows


@run_log.stage("intake")
def ingest_files(
    settings: Settings,
    ledger: Ledger,
    this_run: Run,
    mappings: Sequence[CompiledMapping],
) -> IngestResult:
    """Claim every finished file and plan its documents. Set aside files that cannot be used. A folder or disk error ends the
    ingest; already planned documents can still be delivered. Raises LedgerError.
    """
    ledger.store_mappings_folder(str(settings.mappings.absolute()))
    ledger.maintenance.rewrite_places_once(
        lambda stored: to_stored_path(from_stored_path(stored, settings.state), settings.state)
    )
    context = IngestContext(settings, mappings, ledger.queries, datetime.fromisoformat(this_run.started_at))
    inbox_problems: tuple[Problem, ...] = ()
    with _claims(settings) as claims:
        sink = LedgerSink(settings, ledger, this_run, claims)
        try:
            sink.archive_leftovers()
            scan = inbox.fetch_objects(inbox.scan(settings), settings)
            routed = limited_to_one_run(route_files(scan, context), settings)
            inbox_problems = (*routed.inbox_problems(context), *scan.left)
            ingest(routed, sink, context)
        except FolderError as refused:
            return IngestResult((*inbox_problems, *sink.inbox_problems), refused)
    return IngestResult((*inbox_problems, *sink.inbox_problems), sink.fault)


@contextmanager
def _claims(settings: Settings) -> Iterator[inbox.Claims]:
    """The claims on objects in a store: in the shared tables on PostgreSQL, else none beyond the ledger's lock."""
    if not (settings.is_shared and settings.inbox_address):
        yield inbox.SINGLE_PROCESS
        return
    from loadsheet.ledger.shared.mutual_exclusion import held_claims

    shared = held_claims(settings.database_url, settings.cluster.takeover_s)
    with shared as claims:
        claims.drop_others(settings.inbox_address)
        yield claims


class LedgerSink:
    """Plans the drops of one run in its ledger. `left` are the problems of files that went back to the inbox, and warnings. `fault`
    is the last internal error. `known` are the rows of another ledger by which the documents are judged (see `PlanningRules`).
    """

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        run: Run,
        claims: inbox.Claims = inbox.SINGLE_PROCESS,
        *,
        known: "EarlierRows | None" = None,
    ) -> None:
        self._settings, self._ledger, self._run, self._claims, self._known = settings, ledger, run, claims, known
        self.inbox_problems: list[Problem] = []
        self.fault: LoadsheetError | None = None

    def claim(self, candidate: Candidate) -> InboxFile | None:
        """Move the file into the work area of the run, or claim the object."""
        return inbox.claim(candidate, self._settings, self._run.name, self._claims)

    def give_back(self, files: Sequence[InboxFile]) -> None:
        """Release claimed objects. The next run finds the other files in the work area."""
        for file in files:
            if file.claimed_object:
                inbox.give_back(file, self._settings)

    def set_aside(self, file: InboxFile, problem: Problem) -> None:
        """Record and move a file that cannot be used."""
        # Record first: a file that is set aside but in no report would be lost.
        drop = self._ledger.set_aside(self._run, source_file(file, SET_ASIDE_ROLE, self._settings, problem))
        run_log.warning("file set aside", file=file.name, code=problem.code, reason=str(problem))
        self._put_away(drop, file, [problem])

    def refuse(self, files: Sequence[InboxFile], problem: Problem) -> None:
        """Set the files aside. If one changed while it was read, it was incomplete: then all go back to the inbox."""
        changed = [file for file in files if not inbox.is_unchanged(file)]
        self.inbox_problems += [Problem("A106", Where(file.name), file.name, level="warning") for file in changed]
        for file in files:
            if changed:
                inbox.give_back(file, self._settings)
            else:
                self.set_aside(file, problem)

    def take(self, drop: ReadDrop) -> None:
        """Plan the documents and archive the files. Set the files aside if rows are missing in the ledger, or if a run sent them that the
        ledger does not know: it was restored from an older copy.
        """
        copies = [inbox.find_archived_copy(file, self._settings) for file in drop.files]
        if all(copies) and not any(self._ledger.queries.first_with(file.sha256) for file in drop.files):
            for file, earlier in zip(drop.files, copies, strict=True):
                values = {MEANT_FOR: drop.mapping.name, "earlier": earlier}
                self.set_aside(file, Problem(NOT_IN_LEDGER, Where(file.name), file.name, values))
            return
        try:
            planned = self.plan(drop)
        except DoesNotBalance as fault:
            for file in drop.files:
                values = {MEANT_FOR: drop.mapping.name, "reason": str(fault)}
                self.set_aside(file, Problem("L606", Where(file.name), values=values))
            self.fault = fault
            return
        for file, earlier in zip(drop.files, copies, strict=True):
            if earlier:
                self.inbox_problems.append(
                    Problem("A110", Where(file.name), file.name, {"earlier": earlier}, level="warning")
                )
            self._put_away(planned, file, ())

    def plan(self, drop: ReadDrop) -> Drop:
        """Plan the documents of a drop without moving files.

        Returns the recorded drop. Raises FileRefused if a file cannot be read or changed meanwhile, and DoesNotBalance. Nothing is
        recorded then.
        """
        mapping = drop.mapping
        rules = PlanningRules(
            mapping.changed, drop.error_share_max, self._known, zone_of(mapping), fields_of(mapping.lineage)
        )
        unplanned = _unplanned(self._run, drop)
        planned, fates = self._ledger.plan(self._run, unplanned, mapping.lineage, _items(drop), rules)
        rows = sum(drop.translated.rows().values())
        run_log.info("entries planned", file=planned.name, mapping=mapping.name, rows=rows, entries=fates)
        return planned

    def archive_leftovers(self) -> None:
        """Move the files that a killed run recorded but did not move, without planning or reporting them again."""
        for drop in self._ledger.queries.unfiled("work"):
            for source in (file for file in drop.files if file.kept_as.startswith("work/")):
                path, arrived = self._settings.state / source.kept_as, datetime.fromisoformat(source.arrived)
                file = InboxFile(source.name, path, source.size, source.sha256, arrived)
                self._put_away_leftover(drop, file, source.problems)
        self._archive_leftover_objects()

    def _archive_leftover_objects(self) -> None:
        """The same for objects in a store, which are still in the inbox or were replaced there."""
        settings = self._settings
        for drop in self._ledger.queries.unfiled(settings.inbox_address) if settings.inbox_address else ():
            for source in drop.files:
                arrived = datetime.fromisoformat(source.arrived)
                held = inbox.restore_claim(source.kept_as, arrived, settings, drop.run, self._claims)
                if held is None:
                    continue
                file = InboxFile(source.name, held.path, source.size, source.sha256, arrived, claimed_object=held)
                if not self._put_away_leftover(drop, file, source.problems) and held.fetch_if_missing():
                    self._put_away(drop, file, source.problems)

    def _put_away_leftover(self, drop: Drop, file: InboxFile, problems: Sequence[Problem]) -> bool:
        """Move a leftover file, or record where it was moved to. False if it is in neither place."""
        if file.path.exists():
            self._put_away(drop, file, problems)
        elif place := inbox.complete_interrupted_move(file, self._settings, drop.run):
            self._ledger.record_kept_as(drop.id, file.name, to_stored_path(place, self._settings.state))
        else:
            return False
        return True

    def _put_away(self, drop: Drop, file: InboxFile, problems: Sequence[Problem]) -> None:
        """Move a recorded file out of the work area: aside if it has problems, else into the archive under its run's day."""
        place = (
            inbox.set_aside(file, self._settings, drop.run, problems)
            if problems
            else inbox.archive(file, self._settings, drop.run)
        )
        self._ledger.record_kept_as(drop.id, file.name, to_stored_path(place, self._settings.state))


def _items(drop: ReadDrop) -> Iterator[Document | Ignored | ReadTotals]:
    """The documents and ignored rows of a drop, and finally the totals. Raises FileRefused if a file changed meanwhile: nothing is
    committed before the end.
    """
    yield from drop.documents()
    for file in drop.files:
        if not inbox.is_unchanged(file):
            raise FileRefused(Problem("A106", Where(file.name), file.name))
    yield ReadTotals(drop.translated.rows(), drop.notes(), drop.doubts())


def _unplanned(run: Run, drop: ReadDrop) -> Drop:
    """The drop as the ledger records it, before it has an id."""
    mapping, fixes, settings = drop.mapping, drop.opened.fixes, drop.context.settings
    roles = {name: role for role, name in drop.routed.route.files.items()}
    if fixes is not None and len(drop.files) == 1:  # it replaces all files of its original
        roles = dict.fromkeys(roles, FIX_ROLE)
    return Drop(
        id=0,
        run=run.name,
        files=tuple(source_file(file, roles.get(file.name, TRIGGER_ROLE), settings) for file in drop.files),
        tables=tuple(_table(table) for table in drop.tables.values()),
        mapping=mapping.name,
        mapping_version=version_of(mapping),
        mapping_hash=mapping.hash,
        operation=operations_of(mapping),
        batch_size=mapping.batch_size,
        language=mapping.language,
        guide=mapping.guide,
        source=mapping.source,
        fixes=fixes.id if fixes is not None else None,
    )


def _table(table: Table) -> SourceTable:
    return SourceTable(
        table.name, table.file, table.sheet, table.header, table.header_row, reading_notes=table.reading_notes
    )


def source_file(file: InboxFile, role: str, settings: Settings, *problems: Problem) -> SourceFile:
    """The file as the ledger records it."""
    arrived = file.arrived.isoformat(timespec="seconds").replace("+00:00", "Z")
    stored_at = to_stored_path(file.stored_at, settings.state)
    return SourceFile(role, file.name, file.sha256, file.size, arrived, stored_at, problems)

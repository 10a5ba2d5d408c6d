"""Ingest: finished files become entries or are set aside. Stages 1 to 4 for all files that one scan of the inbox finds.

Owns: the order of files (parents before children), and where a file goes once its rows are planned. Uses no network. Every row read is
counted here, independently of the mapping, and compared with what the ledger recorded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from loadsheet import inbox, run_log, translation
from loadsheet.contract import SENDING_ORDER
from loadsheet.fix_files import (
    FIX_ROLE,
    FixFile,
    OpenedDrop,
    as_original_drop,
    fix_texts,
    open_fix,
    recognise,
    with_original_mappings,
)
from loadsheet.ledger import Drop, Ledger, Run, SourceFile, SourceTable
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping import Document, Ignored, Route, Routes, route
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping.plausibility import DateRangeCheck, NotationCheck
from loadsheet.mapping.routing import broken_mappings
from loadsheet.problems import DoesNotBalance, FileRefused, FolderError, LoadsheetError, Problem, Where
from loadsheet.reading import Table, open_tables
from loadsheet.settings import Settings
from loadsheet.settings.places import shown


class IngestResult(NamedTuple):
    """The result of the ingest: problems of files that stay in the inbox and warnings about others; and the error that stopped it early,
    or an internal error.
    """

    left: tuple[Problem, ...]
    fault: LoadsheetError | None


@run_log.stage("intake")
def ingest_files(
    settings: Settings,
    ledger: Ledger,
    this_run: Run,
    mappings: Sequence[CompiledMapping],
) -> IngestResult:
    """Claim every finished file and plan its documents; set aside files that cannot be used. A folder or disk error ends the ingest;
    what is planned by then can still be delivered. Raises LedgerError.
    """
    left: list[Problem] = []
    try:
        with _claims(settings) as claims:
            fault = _ingest(settings, ledger, this_run, mappings, left, claims=claims)
    except FolderError as refused:
        return IngestResult(tuple(left), refused)
    return IngestResult(tuple(left), fault)


@contextmanager
def _claims(settings: Settings) -> Iterator[inbox.Claims]:
    """How objects in a store are claimed: in the shared tables on PostgreSQL, else by the one process that holds the ledger."""
    if not (settings.is_shared and settings.inbox_address):
        yield inbox.SINGLE_PROCESS
        return
    from loadsheet.ledger.shared.claims import held_claims  # noqa: PLC0415 (needed where a ledger is shared)

    shared = held_claims(settings.database_url, settings.takeover_s)
    with shared as claims:
        claims.drop_others(settings.inbox_address)
        yield claims


def open_route(chosen: Route, files: Mapping[str, inbox.InboxFile], settings: Settings) -> dict[str, Table]:
    """The tables of a route by the mapping's names, each from the file of its role. Raises FileRefused."""
    tables: dict[str, Table] = {}
    for role, layouts in chosen.mapping.layouts.items():
        tables |= open_tables(files[role].path, files[role].name, layouts, settings)
    return tables


def _ingest(
    settings: Settings,
    ledger: Ledger,
    this_run: Run,
    mappings: Sequence[CompiledMapping],
    left: list[Problem],
    *,
    claims: inbox.Claims,
) -> LoadsheetError | None:
    """Plan every complete route, parents before children. Files without a route are set aside, or wait and are listed in `left`."""
    _archive_leftovers(settings, ledger)
    _archive_leftover_objects(settings, ledger, claims)
    found = inbox.fetch_objects(inbox.scan(settings), settings)
    by_name = {candidate.name: candidate for candidate in found.candidates}
    fix_files = recognise(found.candidates, ledger.queries, mappings, settings)
    names = [name for name in by_name if not fix_files.holds(name)]
    routes = routes_of(names, by_name, mappings, ledger.queries, settings)
    complete = [*routes.complete, *(fix.route for fix in fix_files.files.values())]
    left += overdue(settings, by_name, routes)
    left += waiting_for_mappings(mappings, routes)
    left += found.left
    fault: LoadsheetError | None = None
    for name, problem in {**fix_files.refused, **routes.unmapped, **routes.ambiguous}.items():
        if file := inbox.claim(by_name[name], settings, this_run.name, claims):
            _set_aside(settings, ledger, this_run, file, problem)
    for chosen in sorted(complete, key=lambda chosen: SENDING_ORDER.index(chosen.mapping.operation.name)):
        names = [*dict.fromkeys(chosen.files.values()), *([chosen.trigger] if chosen.trigger else [])]
        taking = (inbox.claim(by_name[name], settings, this_run.name, claims) for name in names)
        claimed = [file for file in taking if file]
        if len(claimed) < len(names):  # one is gone or being written: the next run finds the others in the work area
            for file in (file for file in claimed if file.claimed_object):
                inbox.give_back(file, settings)
        else:
            fix = fix_files.files.get(names[0])
            with run_log.stage("one drop", file=names[0], mapping=chosen.mapping.name):
                plan = partial(plan_files, settings, ledger, this_run, chosen, claimed, fix=fix)
                fault = _plan(settings, ledger, this_run, claimed, plan, left=left) or fault
    return fault


def routes_of(
    names: Sequence[str],
    by_name: Mapping[str, inbox.Candidate],
    mappings: Sequence[CompiledMapping],
    queries: LedgerQueries,
    settings: Settings,
) -> Routes:
    """The routes of files by their names. Fix files that are text take the route and the mapping of their originals."""
    texts = fix_texts([by_name[name] for name in names if ".fix." in name.casefold()], queries)
    routes = route(names, mappings, texts)
    if renamed := fix_texts([by_name[name] for name in routes.unmapped], queries):
        texts |= renamed
        routes = route(names, mappings, texts)
    return with_original_mappings(routes, texts, queries, mappings, settings) if texts else routes


def _archive_leftovers(settings: Settings, ledger: Ledger) -> None:
    """Move the files that a killed run recorded but did not move. They are neither planned nor reported twice."""
    work = settings.state / "work"
    for drop in ledger.queries.unfiled(str(work)):
        for source in (file for file in drop.files if Path(file.kept_as).is_relative_to(work)):
            file = inbox.InboxFile(
                source.name,
                Path(source.kept_as),
                source.size,
                source.sha256,
                datetime.fromisoformat(source.arrived),
            )
            if file.path.exists():
                _archive_or_set_aside(settings, ledger, drop, file, source.problems)
            elif place := inbox.find_moved(file, settings, _day(drop.run), drop.run):
                ledger.archived(drop.id, file.name, shown(place))


def _archive_leftover_objects(settings: Settings, ledger: Ledger, claims: inbox.Claims) -> None:
    """The same for objects in a store: they still lie in the inbox, or were replaced there."""
    for drop in ledger.queries.unfiled(settings.inbox_address) if settings.inbox_address else ():
        for source in drop.files:
            arrived = datetime.fromisoformat(source.arrived)
            held = inbox.restore_claim(source.kept_as, arrived, settings, drop.run, claims)
            if held is None:
                continue
            file = inbox.InboxFile(source.name, held.path, source.size, source.sha256, arrived, claimed_object=held)
            if file.path.exists():
                _archive_or_set_aside(settings, ledger, drop, file, source.problems)
            elif place := inbox.find_moved(file, settings, _day(drop.run), drop.run):
                ledger.archived(drop.id, file.name, shown(place))
            elif held.fetch_if_missing():
                _archive_or_set_aside(settings, ledger, drop, file, source.problems)


def _archive_or_set_aside(
    settings: Settings, ledger: Ledger, drop: Drop, file: inbox.InboxFile, problems: Sequence[Problem]
) -> None:
    """Move a recorded file out of the work area: aside if it has problems, else into the archive under its run's day."""
    place = (
        inbox.set_aside(file, settings, drop.run, problems)
        if problems
        else inbox.archive(file, settings, _day(drop.run), drop.run)
    )
    ledger.archived(drop.id, file.name, shown(place))


def _day(run: str) -> date:
    return date.fromisoformat(run[:10])  # the name of a run is its day and a number


def _plan(
    settings: Settings,
    ledger: Ledger,
    this_run: Run,
    claimed: Sequence[inbox.InboxFile],
    plan: Callable[[], Drop],
    *,
    left: list[Problem],
) -> LoadsheetError | None:
    """Stages 2 to 4 for the files of one route, or for one fix workbook. Unreadable files are set aside, planned ones archived, and files
    written to meanwhile go back to the inbox. Returns the error if rows got lost between reading and ledger; the files are set aside then.
    """
    try:
        planned = plan()
    except FileRefused as refused:
        _refuse(settings, ledger, this_run, claimed, refused.problem, left=left)
        return None
    except DoesNotBalance as fault:
        for file in claimed:
            _set_aside(
                settings, ledger, this_run, file, Problem("L606", Where(file.name), values={"reason": str(fault)})
            )
        return fault
    for file in claimed:
        if earlier := inbox.find_archived_copy(file, settings):
            left.append(Problem("A110", Where(file.name), file.name, {"earlier": earlier}, level="warning"))
        _archive_or_set_aside(settings, ledger, planned, file, ())
    return None


def plan_files(
    settings: Settings,
    ledger: Ledger,
    this_run: Run,
    chosen: Route,
    claimed: Sequence[inbox.InboxFile],
    *,
    fix: FixFile | None = None,
) -> Drop:
    """Stages 2 to 4 for the files of one route, or for one fix workbook: read, translate as of the start of the run, plan. Large files are
    translated in parts by several processes of this machine, with the same result.

    Returns the recorded drop; moves no file. Raises FileRefused if a file cannot be read or changed meanwhile, and DoesNotBalance;
    nothing is recorded then.
    """
    found = open_drop(chosen, fix, claimed, ledger.queries, settings)
    drop = _drop(this_run, chosen, claimed, found)
    planning = _Planning(settings, ledger, this_run, chosen.mapping, claimed, found, drop)
    try:
        if jobs := _part_jobs(settings, this_run, chosen, claimed, found):
            with translation.PartProcesses(jobs, settings) as translated:
                return planning.record(translated)
    except translation.PartsLost as lost:  # this costs time and nothing else
        run_log.warning("parts of a translation lost", file=drop.name, reason=str(lost))
    return planning.record(translation.in_one_process(chosen.mapping, found.tables, this_run.started_at))


def _part_jobs(
    settings: Settings,
    this_run: Run,
    chosen: Route,
    claimed: Sequence[inbox.InboxFile],
    found: OpenedDrop,
) -> list[translation.PartJob]:
    """The jobs for translating a drop in parts; none where one process is as fast. A fix file is read like its original, which only this
    process can do.
    """
    count = translation.extra_processes(settings)
    size = sum(file.size for file in claimed)
    is_plain = found.fixes is None and found.entry_of is None
    worth_it = translation.should_split(chosen.mapping, found.tables.values(), size, settings)
    if not (count and is_plain and worth_it):
        return []
    by_name = {file.name: file for file in claimed}
    files = [
        translation.PartFile(role, name, str(file.path))
        for role, name in chosen.files.items()
        for file in (by_name[name],)
    ]
    return translation.part_jobs(chosen.mapping, files, this_run.started_at, count)


class _Planning(NamedTuple):
    """What it takes to plan a drop, apart from its translated documents."""

    settings: Settings
    ledger: Ledger
    run: Run
    mapping: CompiledMapping
    claimed: Sequence[inbox.InboxFile]
    found: OpenedDrop
    drop: Drop

    def _with_far_dates(self, documents: Iterable[Document | Ignored]) -> Iterator[Document | Ignored]:
        now = datetime.fromisoformat(self.run.started_at)
        return far_dates(self.settings, now).watch(documents, self.mapping.lineage, self.found.tables)

    def record(self, translated: translation.Translated) -> Drop:
        """Plan the translated documents and record the drop."""
        mapping, drop, notation_check = self.mapping, self.drop, NotationCheck()
        planned, fates = self.ledger.plan(
            self.run,
            drop,
            mapping.lineage,
            self.found.with_fixed_entries(notation_check.watch(self._with_far_dates(translated.documents()))),
            lambda: _unchanged(self.claimed, translated.rows()),
            changed=mapping.changed,
            # a fix workbook holds only what was wrong: it proves nothing about the rest
            doubts=partial(notation_check.problems, self.found.tables) if drop.fixes is None else tuple,
            error_share_max=error_share_max(mapping, self.settings) if drop.fixes is None else 1.0,
            notes=translated.notes,
        )
        rows = sum(translated.rows().values())
        run_log.info("entries planned", file=planned.name, mapping=mapping.name, rows=rows, entries=fates)
        return planned


def far_dates(settings: Settings, now: datetime) -> DateRangeCheck:
    """The check for dates far from the day of the run."""
    return DateRangeCheck.around(now, years_back=settings.dates_years_back, years_ahead=settings.dates_years_ahead)


def open_drop(
    chosen: Route, fix: FixFile | None, claimed: Sequence[inbox.InboxFile], queries: LedgerQueries, settings: Settings
) -> OpenedDrop:
    """The tables of a route; those of a fix file in the form of its original. Raises FileRefused."""
    by_name = {file.name: file for file in claimed}
    if fix is not None:
        return as_original_drop(open_fix(fix, by_name[fix.name].path, settings), queries, fix.drop)
    tables = open_route(chosen, {role: by_name[name] for role, name in chosen.files.items()}, settings)
    return as_original_drop(tables, queries, None)


def _drop(
    this_run: Run,
    chosen: Route,
    claimed: Sequence[inbox.InboxFile],
    opened: OpenedDrop,
) -> Drop:
    mapping, roles = chosen.mapping, {name: role for role, name in chosen.files.items()}
    if opened.fixes is not None and len(claimed) == 1:  # it replaces all files of its original
        roles = dict.fromkeys(roles, FIX_ROLE)
    return Drop(
        id=0,
        run=this_run.name,
        files=tuple(_source(file, roles.get(file.name, "trigger"), file.stored_at) for file in claimed),
        tables=tuple(_table(table) for table in opened.tables.values()),
        mapping=mapping.name,
        mapping_version=str(mapping.version),
        mapping_hash=mapping.hash,
        operation=mapping.operation.name,
        batch_size=mapping.batch_size,
        language=mapping.language,
        guide=mapping.guide,
        source=mapping.source,
        fixes=opened.fixes.id if opened.fixes is not None else None,
    )


def error_share_max(mapping: CompiledMapping, settings: Settings) -> float:
    """The share of invalid records (0 to 1) above which nothing of a drop is sent. The mapping overrides the setting."""
    return settings.error_share_max if mapping.error_share_max is None else mapping.error_share_max


def _table(table: Table) -> SourceTable:
    return SourceTable(table.name, table.file, table.sheet, table.header, table.header_row, found=table.found)


def _unchanged(claimed: Sequence[inbox.InboxFile], rows: Mapping[str, int]) -> Mapping[str, int]:
    """The row counts, checked before anything is committed. Raises FileRefused if a file changed meanwhile."""
    for file in claimed:
        if not inbox.is_unchanged(file):
            raise FileRefused(Problem("A106", Where(file.name), file.name))
    return rows


def _refuse(
    settings: Settings,
    ledger: Ledger,
    this_run: Run,
    claimed: Sequence[inbox.InboxFile],
    problem: Problem,
    *,
    left: list[Problem],
) -> None:
    """Set aside files that cannot be used. If one was written to while it was read, it was incomplete: return all to the inbox."""
    changed = [file for file in claimed if not inbox.is_unchanged(file)]
    left += [Problem("A106", Where(file.name), file.name, level="warning") for file in changed]
    for file in claimed:
        if changed:
            inbox.give_back(file, settings)
        else:
            _set_aside(settings, ledger, this_run, file, problem)


def _source(file: inbox.InboxFile, role: str, kept_as: str, *problems: Problem) -> SourceFile:
    arrived = file.arrived.isoformat(timespec="seconds").replace("+00:00", "Z")
    return SourceFile(role, file.name, file.sha256, file.size, arrived, kept_as, problems)


def _set_aside(settings: Settings, ledger: Ledger, this_run: Run, file: inbox.InboxFile, problem: Problem) -> None:
    # Record first: a file that is moved aside and in no report would be lost.
    drop = ledger.set_aside(this_run, _source(file, "set aside", file.stored_at, problem))
    run_log.warning("file set aside", file=file.name, code=problem.code, reason=str(problem))
    _archive_or_set_aside(settings, ledger, drop, file, [problem])


def waiting_for_mappings(mappings: Sequence[CompiledMapping], routes: Routes) -> list[Problem]:
    """The problems of mappings that do not load, and of the files that stay in the inbox because of that."""
    return [*(one.problem for one in broken_mappings(mappings)), *routes.blocked.values()]


def overdue(settings: Settings, by_name: Mapping[str, inbox.Candidate], routes: Routes) -> list[Problem]:
    """The problems of files that wait for their companions; an error once one has waited too long."""
    return [_overdue(settings, by_name[name], problem) for name, problem in routes.waiting.items()]


def _overdue(settings: Settings, candidate: inbox.Candidate, wait: Problem) -> Problem:
    if candidate.lain_s < settings.companion_wait_s:
        return wait
    hours = round(candidate.lain_s / 3600)
    return replace(wait, code="A111", values={**wait.values, "hours": hours}, level="error")

"""Intake: finished files become entries, or are set aside. Stages 1 to 4 for everything that one look into the inbox finds.

Owns: the order in which files are taken (parents before children), and where a file goes when its rows are planned. Touches no
network. Every row that reading gives is counted here, apart from the mapping, and held against what the ledger recorded.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from loadsheet import inbox, journal
from loadsheet.contract import SENDING_ORDER
from loadsheet.ledger import Drop, Ledger, Run, SourceFile, SourceTable
from loadsheet.ledger.history import History
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping import Route, Routes, route, translate
from loadsheet.problems import DoesNotBalance, FileRefused, FolderError, LoadsheetError, Problem, Where
from loadsheet.reading import Row, Sentinel, Table, open_tables
from loadsheet.returning import FIX_ROLE, FixFile, Opened, as_dropped, as_they_were, fix_texts, open_fix, recognise
from loadsheet.settings import Settings


class Taken(NamedTuple):
    """What intake has to say: problems of files that stay in the inbox for now and remarks on others, and why it stopped early or
    what fault of our own it met, if it did.
    """

    left: tuple[Problem, ...]
    fault: LoadsheetError | None


@journal.stage("intake")
def take_in(settings: Settings, ledger: Ledger, this_run: Run, mappings: Sequence[CompiledMapping]) -> Taken:
    """Claim every finished file and plan its documents; a file that cannot be used is set aside. A folder or disk that refuses ends
    the intake: what is planned by then can still be delivered. Raises LedgerError.
    """
    left: list[Problem] = []
    try:
        fault = _take(settings, ledger, this_run, mappings, left)
    except FolderError as refused:
        return Taken(tuple(left), refused)
    return Taken(tuple(left), fault)


def open_route(chosen: Route, files: Mapping[str, inbox.InboxFile], settings: Settings) -> dict[str, Table]:
    """The tables of a route by the mapping's names, each from the file of its role. Raises FileRefused."""
    tables: dict[str, Table] = {}
    for role, layouts in chosen.mapping.layouts.items():
        tables |= open_tables(files[role].path, files[role].name, layouts, settings)
    return tables


def _take(
    settings: Settings,
    ledger: Ledger,
    this_run: Run,
    mappings: Sequence[CompiledMapping],
    left: list[Problem],
) -> LoadsheetError | None:
    """Every complete route, parents before children; what has none is set aside, or waits and is told in `left`."""
    _put_away(settings, ledger)
    found = inbox.scan(settings)
    by_name = {candidate.name: candidate for candidate in found.candidates}
    returns = recognise(found.candidates, ledger.history, mappings, settings)
    names = [name for name in by_name if not returns.holds(name)]
    routes = routes_of(names, by_name, mappings, ledger.history, settings)
    complete = [*routes.complete, *(fix.route for fix in returns.files.values())]
    left += [_overdue(settings, by_name[name], problem) for name, problem in routes.waiting.items()]
    left += found.left
    fault: LoadsheetError | None = None
    for name, problem in {**returns.refused, **routes.unmapped, **routes.ambiguous}.items():
        if file := inbox.claim(by_name[name], settings, this_run.name):
            _set_aside(settings, ledger, this_run, file, problem)
    for chosen in sorted(complete, key=lambda chosen: SENDING_ORDER.index(chosen.mapping.operation.name)):
        names = [*dict.fromkeys(chosen.files.values()), *([chosen.trigger] if chosen.trigger else [])]
        claimed = [file for name in names if (file := inbox.claim(by_name[name], settings, this_run.name))]
        if len(claimed) == len(names):  # else one is gone or written to: the next run finds the others in the work area
            fix = returns.files.get(names[0])
            with journal.stage("one drop", file=names[0], mapping=chosen.mapping.name):
                fault = _plan(settings, ledger, this_run, chosen, claimed, fix=fix, left=left) or fault
    return fault


def routes_of(
    names: Sequence[str],
    by_name: Mapping[str, inbox.Candidate],
    mappings: Sequence[CompiledMapping],
    history: History,
    settings: Settings,
) -> Routes:
    """Where files go by their names; fix files that are texts go where their originals went, and are read as these were."""
    texts = fix_texts([by_name[name] for name in names if ".fix." in name.casefold()], history)
    routes = route(names, mappings, texts)
    if renamed := fix_texts([by_name[name] for name in routes.unmapped], history):
        texts |= renamed
        routes = route(names, mappings, texts)
    return as_they_were(routes, texts, history, mappings, settings) if texts else routes


def _put_away(settings: Settings, ledger: Ledger) -> None:
    """What a killed run recorded and could not move any more goes to where it belongs: it is neither planned nor told twice."""
    work = settings.state / "work"
    for drop in ledger.history.unfiled(str(work)):
        for source in (file for file in drop.files if Path(file.kept_as).is_relative_to(work)):
            file = inbox.InboxFile(
                source.name,
                Path(source.kept_as),
                source.size,
                source.sha256,
                datetime.fromisoformat(source.arrived),
            )
            if file.path.exists():
                _keep(settings, ledger, drop, file, source.problems)
            elif place := inbox.found_again(file, settings, _day(drop.run), drop.run):
                ledger.archived(drop.id, file.name, str(place))


def _keep(settings: Settings, ledger: Ledger, drop: Drop, file: inbox.InboxFile, problems: Sequence[Problem]) -> None:
    """Move a recorded file out of the work area: aside if there are problems with it, else into the archive of its run's day."""
    place = (
        inbox.set_aside(file, settings, drop.run, problems)
        if problems
        else inbox.archive(file, settings, _day(drop.run), drop.run)
    )
    ledger.archived(drop.id, file.name, str(place))


def _day(run: str) -> date:
    return date.fromisoformat(run[:10])  # a run is called by its day and number


def _plan(
    settings: Settings,
    ledger: Ledger,
    this_run: Run,
    chosen: Route,
    claimed: Sequence[inbox.InboxFile],
    *,
    fix: FixFile | None,
    left: list[Problem],
) -> LoadsheetError | None:
    """Stages 2 to 4 for the files of one route, or for one fix workbook; what cannot be read is set aside, what is planned is archived,
    what was written to meanwhile goes back to the inbox. Returns a fault of our own, if there was one: rows that got lost between
    reading and ledger set the files aside as well.
    """
    try:
        planned = plan_files(settings, ledger, this_run, chosen, claimed, fix=fix)
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
        if earlier := inbox.archived_before(file, settings):
            left.append(Problem("A110", Where(file.name), file.name, {"earlier": earlier}, level="warning"))
        _keep(settings, ledger, planned, file, ())
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
    """Stages 2 to 4 for the files of one route, or for one fix workbook: read, translated as of the run's beginning, and planned.

    Returns the drop as the ledger has it; moves no file. Raises FileRefused if one cannot be read or changed meanwhile, and
    DoesNotBalance; nothing is recorded then.
    """
    mapping = chosen.mapping
    found = opened(chosen, fix, claimed, ledger.history, settings)
    rows: Counter[str] = Counter()
    sentinels = {name: Sentinel(table) for name, table in found.tables.items()}
    counted = {name: table.watched(_counting(table, sentinels[name], rows)) for name, table in found.tables.items()}
    documents = translate(mapping, counted, now=datetime.fromisoformat(this_run.started_at))
    drop = _drop(this_run, chosen, claimed, found)
    planned, fates = ledger.plan(
        this_run,
        drop,
        mapping.lineage,
        found.naming(documents),
        lambda: _unchanged(claimed, rows),
        changed=mapping.changed,
        # what comes back in a fix workbook is what was wrong: no share of it says anything about the rest
        error_share_max=error_share_max(mapping, settings) if drop.fixes is None else 1.0,
        suspected=lambda: {name: sentinel.problems() for name, sentinel in sentinels.items()},
    )
    journal.info("entries planned", file=planned.name, mapping=mapping.name, rows=rows.total(), entries=fates)
    return planned


def opened(
    chosen: Route, fix: FixFile | None, claimed: Sequence[inbox.InboxFile], history: History, settings: Settings
) -> Opened:
    """The tables of a route, those of a fix file as its original had them. Raises FileRefused."""
    by_name = {file.name: file for file in claimed}
    if fix is not None:
        return as_dropped(open_fix(fix, by_name[fix.name].path, settings), history, fix.drop)
    tables = open_route(chosen, {role: by_name[name] for role, name in chosen.files.items()}, settings)
    return as_dropped(tables, history, None)


def _drop(
    this_run: Run,
    chosen: Route,
    claimed: Sequence[inbox.InboxFile],
    opened: Opened,
) -> Drop:
    mapping, roles = chosen.mapping, {name: role for role, name in chosen.files.items()}
    if opened.fixes is not None and len(claimed) == 1:  # it stands for all files of its original
        roles = dict.fromkeys(roles, FIX_ROLE)
    return Drop(
        id=0,
        run=this_run.name,
        files=tuple(_source(file, roles.get(file.name, "trigger"), str(file.path)) for file in claimed),
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
    """The share of invalid records (0 to 1) above which nothing of a drop is sent: the mapping's word before the setting's."""
    return settings.error_share_max if mapping.error_share_max is None else mapping.error_share_max


def _table(table: Table) -> SourceTable:
    return SourceTable(table.name, table.file, table.sheet, table.header, table.header_row, found=table.found)


def _counting(table: Table, sentinel: Sentinel, rows: Counter[str]) -> Callable[[], Iterator[Row]]:
    """The table's rows, counted as reading gives them: what the ledger holds against the rows it was handed. The sentinel sees
    them pass.
    """

    def counted() -> Iterator[Row]:
        count = 0
        for count, row in enumerate(sentinel.watch(table.rows()), start=1):  # noqa: B007 (the count is what we are here for)
            yield row
        rows[table.name] = count

    return counted


def _unchanged(claimed: Sequence[inbox.InboxFile], rows: Counter[str]) -> Counter[str]:
    """The rows that were read, asked for before anything is committed. Raises FileRefused if a file changed meanwhile."""
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
    """Set files aside that cannot be used; if one was written to while it was read, give all back: it was not whole."""
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
    # Recorded first: a file that was moved aside and is in no report would be as good as lost.
    drop = ledger.set_aside(this_run, _source(file, "set aside", str(file.path), problem))
    journal.warning("file set aside", file=file.name, code=problem.code, reason=str(problem))
    _keep(settings, ledger, drop, file, [problem])


def _overdue(settings: Settings, candidate: inbox.Candidate, wait: Problem) -> Problem:
    """What to say of a file that waits for its companion: more, once it has waited for too long."""
    if candidate.lain_s < settings.companion_wait_s:
        return wait
    return replace(wait, code="A111", values={**wait.values, "hours": f"{candidate.lain_s / 3600:.0f}"})

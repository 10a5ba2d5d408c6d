"""What a run would do, without doing it: for the inbox (dry run), and for the files in the check folder.

Files are translated, planned and reconciled by the same functions as in a run, but into a ledger of its own that is thrown away. The real
one is only read: what it knows about the records of the files is copied. Nothing is claimed, moved or sent. A dry run goes on as if the
exchange accepted everything. It does not ask the exchange, so unknown outcomes stay unknown.

The answer to a file in the check folder has the names and forms of real reports. It appears as `NAME.answer/` in the same folder, where the
shipper sees it, and the file moves into it. The answer is complete before the file moves: after a kill, the file is checked again. Every run
answers after its own work, a worker's run too, and a watch while it waits: on one machine one of them at a time. Files that a mapping reads
together are answered together, under the name of the first.
"""

import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from loadsheet import inbox, pipeline, reports
from loadsheet.errors import DoesNotBalance, FolderError, LedgerBusy, LoadsheetError
from loadsheet.inbox import Candidate, InboxFile
from loadsheet.ingest import IngestContext, RoutedFiles, ingest, limited_to_one_run, route_files
from loadsheet.ledger import Drop, Entry, Ledger, Run, Settlement, State, Waits, open_ledger, utc_now
from loadsheet.ledger.exporting import EarlierRows
from loadsheet.ledger.ledger_opening import locked
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger_sink import LedgerSink
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.problem_groups import Causes
from loadsheet.problems import Problem
from loadsheet.reconcile import ONLY_CHECKED, Exceptions, Reconciliation, RunNotes, reconcile_run
from loadsheet.reports.run_summary import RunTally
from loadsheet.settings import Settings

WAITING = "waiting"  # for an order or tender that neither the exchange nor this run has
STATE_WORDS = {
    "ready": "would be sent",
    WAITING: "would wait for their order or tender",
    "held": "would be held",
    "invalid": "invalid",
    "unchanged": "unchanged",
    "refused": "refused before",
}
"""What would become of the records in each state."""

_ANSWER = ".answer"
_SENT_AT_ONCE = 500


@dataclass(slots=True)
class Forecast:
    """What a run would do if the exchange accepted everything: its exit code, its drops as JSON values, the files it would set aside, the
    problems of files that stay in the inbox, and the number of records by state (or `WAITING`). `already` counts the ready and unknown
    records of earlier runs.
    """

    exit_code: int
    already: Mapping[str, int]
    inbox_problems: Sequence[Problem] = ()
    drops: list[dict[str, Any]] = field(default_factory=list)
    aside: dict[str, Problem] = field(default_factory=dict)
    causes: Causes = field(default_factory=Causes)
    states: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON values."""
        return {
            "dry_run": True,
            "exit_code": self.exit_code,
            "files": self.drops,
            "set_aside": [{"file": name, "problem": problem.to_json()} for name, problem in self.aside.items()],
            "left": [problem.to_json() for problem in self.inbox_problems],
            "records": dict(self.states),
            "already": self.already,
            "causes": self.causes.ranked(),
        }


def forecast_run(settings: Settings, ledger: Ledger, mappings: Sequence[CompiledMapping]) -> Forecast:
    """Forecast what a run would do now. Raises FolderError and LedgerError."""
    context = IngestContext(settings, mappings, ledger.queries, datetime.now(UTC))
    inbox.check_inbox(settings)
    already = {state.value: ledger.queries.count_in(state) for state in (State.READY, State.UNKNOWN)}
    with tempfile.TemporaryDirectory(prefix="loadsheet-") as place:
        scan = inbox.scan_read_only(settings) if settings.inbox_address or settings.inbox.exists() else inbox.Scan(())
        trial = _in_folder(settings, place)
        scan = inbox.fetch_objects(scan, trial)
        found = limited_to_one_run(route_files(scan, context), settings)
        inbox_problems = [*found.inbox_problems(context), *scan.left]
        with _trial_ledger(trial, ledger.queries) as (copy, earlier):
            copy.in_transaction(earlier.copy_open)
            run = copy.begin_run(name="dry run")
            stopped = _run_in_trial(copy, run, found, context._replace(settings=trial), earlier)
            reconciliation = reconcile_run(copy.queries, None, run, settings)
            if not reconciliation.balances:
                stopped = DoesNotBalance("the rows read and the rows accounted for differ")
            stopped = stopped or pipeline.damage_check_error(reconciliation.drops, run)
            unknown = already["unknown"]
            code = pipeline.exit_code_of(reconciliation, settings, inbox_problems, stopped=stopped, unknown=unknown)
            forecast = Forecast(code, already, inbox_problems)
            _count(forecast, reconciliation, run, copy.queries)
    return forecast


def _run_in_trial(
    ledger: Ledger, run: Run, found: RoutedFiles, context: IngestContext, earlier: EarlierRows
) -> LoadsheetError | None:
    """Do the stages of a run up to the last outcome, with an exchange that accepts everything. Returns an internal error, if there is one."""
    updating = tuple(mapping.name for mapping in context.mappings if mapping.changed == "update")
    ledger.release(run, updating=updating)
    sink = _TrialSink(context.settings, ledger, run, known=earlier)
    ingest(found, sink, context)
    ledger.release(run, orphans=context.settings.verification.parents == "send", updating=updating)
    _accept_ready(ledger, run)
    ledger.release(run, updating=updating)
    _accept_ready(ledger, run)
    ledger.hold_waiting(run, only_changed=True)
    touched = {drop.id for drop in ledger.queries.drops_of(run) if drop.run != run.name}
    ledger.in_transaction(lambda connection: earlier.copy_whole(connection, touched))
    return sink.fault


def _accept_ready(ledger: Ledger, run: Run) -> None:
    while ready := ledger.ready(_SENT_AT_ONCE):
        # one on each lane, as in a run: what is accepted may make the next one wait
        some = {one.lane: one for one in reversed(ready)}.values()
        with ledger.one_transaction():
            ledger.mark_sending(run, [([one], b"") for one in some])
            ledger.settle(
                run, [Settlement(one.id, State.ACCEPTED, "forecast", attempt=one.attempts + 1) for one in some]
            )


def _count(forecast: Forecast, reconciliation: Reconciliation, run: Run, queries: LedgerQueries) -> None:
    """Count what would become of the records in the files of a run."""
    tally = RunTally(folding=forecast.causes, resolved=reconciliation.exceptions.resolved)
    waiting = set(queries.waiting_lanes())
    for drop in (drop for drop in reconciliation.drops if drop.run == run.name):
        if drop.set_aside:
            forecast.aside |= {file.name: problem for file in drop.files for problem in file.problems}
            continue
        tally.open(drop)
        states = Counter[str]()
        for entry in queries.entries_of(drop.id):
            match = reconciliation.matches[entry.id]
            tally.add(entry, match)
            states[_word(entry, match.state, waiting)] += 1
        forecast.states += states
        files = [file.name for file in drop.data_files]
        forecast.drops.append(
            {"files": files, "mapping": drop.mapping, "operation": drop.operation, "records": dict(states)}
        )


def _word(entry: Entry, state: State, waiting: Collection[str]) -> str:
    """The word for what would become of an entry, one of `STATE_WORDS`. `waiting` are the lanes of those that wait for an order or tender."""
    if state is State.ACCEPTED:
        return State.READY.value
    waits = entry.waits is Waits.PARENT or (entry.state is State.UNCHANGED and entry.lane in waiting)
    return WAITING if state is State.HELD and waits else state.value


@contextmanager
def _trial_ledger(settings: Settings, known: LedgerQueries) -> Iterator[tuple[Ledger, EarlierRows]]:
    """An empty ledger in the state folder of these settings, and the rows of the `known` one to copy into it."""
    with known.at_one_moment() as connection, open_ledger(f"sqlite:///{settings.state}/ledger.db") as ledger:
        earlier = EarlierRows(connection)
        ledger.in_transaction(earlier.begin)
        yield ledger, earlier


def _in_folder(settings: Settings, place: str) -> Settings:
    """The settings of a trial, which keeps its files in this folder."""
    places = {"state": Path(place), "outbox": Path(place, "outbox"), "archive": None, "database": ""}
    return settings.model_copy(update={**places, "outbox_group": ""})


class CheckReport(NamedTuple):
    """The folder with the reports on checked files, and in a few words what would become of the documents: `2 of 3 documents would be sent`."""

    folder: Path
    summary: str


def report_on_check_folder(
    settings: Settings, ledger: Ledger, scan: Callable[[Settings], inbox.Scan]
) -> list[CheckReport]:
    """Answer the finished files of the check folder, if there is one. Returns the answers. `ledger` is only read. Raises LoadsheetError."""
    folder = settings.check_folder
    if folder is None:
        return []
    arrival = {"ignore": (*settings.arrival.ignore, f"*{_ANSWER}"), "arrived_since": None}
    checked = settings.model_copy(update={"inbox": folder, "state": settings.state / "check", "arrival": arrival})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        checked.state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"the check folder {folder} cannot be created ({error.strerror})") from error
    found = scan(checked)
    if not found.candidates:
        return []
    mappings = load_folder(settings.mappings, settings.assumptions)
    context = IngestContext(checked, mappings, ledger.queries, datetime.now(UTC))
    try:
        with locked(checked.state / "answers", utc_now):
            parts = _parts(route_files(found, context), checked)
            return [answer for part in parts if (answer := _answer(part, context, ledger.queries))]
    except LedgerBusy:  # another process answers them
        return []


def _parts(routed: RoutedFiles, settings: Settings) -> Iterator[RoutedFiles]:
    """The files by answer. A file whose companion does not come is answered alone."""
    for drop in routed.drops:
        yield replace(routed, drops=(drop,), aside={})
    lonely = {
        name: problem
        for name, problem in routed.routes.waiting.items()
        if routed.candidates[name].unchanged_s >= settings.arrival.unfinished_wait_s
    }
    for name, problem in {**routed.aside, **lonely}.items():
        yield replace(routed, drops=(), aside={name: problem})


def _answer(part: RoutedFiles, context: IngestContext, known: LedgerQueries) -> CheckReport | None:
    """Check files and put the answer beside them. None if a file changed meanwhile: it is checked later."""
    settings = context.settings
    names = [*part.aside, *(name for drop in part.drops for name in drop.names)]
    with tempfile.TemporaryDirectory(prefix="answer-", dir=settings.state) as place:
        trial = _in_folder(settings, place).model_copy(update={"reports": {"feedback": "workbook"}})
        written = _report(part, context._replace(settings=trial), known)
        files = [part.candidates[name].path for name in names]
        if written is None or not all(file.exists() for file in files):  # another machine may have answered
            return None
        summary = " · ".join(written.summary.headline.details)
        try:
            return CheckReport(_hand_over(written.folder, files, settings.inbox / names[0]), summary)
        except OSError as error:
            raise FolderError(f"the answer to {names[0]} cannot be written ({error.strerror})") from error


def _report(part: RoutedFiles, context: IngestContext, known: LedgerQueries) -> reports.Written | None:
    """Plan files and write the reports of a run that sends nothing. None if a file changed meanwhile."""
    settings = context.settings
    with _trial_ledger(settings, known) as (ledger, earlier):
        run = ledger.begin_run(name=f"check of {datetime.now(UTC):%Y-%m-%d %H.%M} UTC")
        ingest(part, _TrialSink(settings, ledger, run, known=earlier), context)
        drops = [drop for drop in ledger.queries.drops_of(run) if drop.run == run.name]
        if not drops:
            return None
        found = reconcile_run(ledger.queries, None, run, settings, drops=drops)
        found = replace(found, exceptions=Exceptions(), coverage=(), totals=(), notes=RunNotes(stopped=ONLY_CHECKED))
        return reports.write(ledger.queries, found, replace(run, finished_at=ledger.now()), settings)


class _TrialSink(LedgerSink):
    """Plans files where they are."""

    def claim(self, candidate: Candidate) -> InboxFile | None:
        """The file with its hash; None if it is gone or no regular file."""
        return inbox.in_place(candidate)

    def refuse(self, files: Sequence[InboxFile], problem: Problem) -> None:
        """Set the files aside, unless one changed while it was read: then they are checked later."""
        for file in files if all(map(inbox.is_unchanged, files)) else ():
            self.set_aside(file, problem)

    def _put_away(self, drop: Drop, file: InboxFile, problems: Sequence[Problem]) -> None:
        """Leave the file where it is."""


def _hand_over(made: Path, files: Sequence[Path], first: Path) -> Path:
    """Move reports into the answer folder of `first`, readable like the folder around it, and then the files. Raises OSError."""
    around = first.parent
    answer, number = around / f"{first.name}{_ANSWER}", 1
    while answer.exists():
        number += 1
        answer = around / f"{first.name}-{number}{_ANSWER}"
    partial = around / f".{answer.name}.part"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(made, partial, ignore=shutil.ignore_patterns("run.json"), copy_function=shutil.copyfile)
    mode = stat.S_IMODE(around.stat().st_mode)
    for path in (partial, *partial.rglob("*")):
        with suppress(OSError):  # some file systems have no modes
            path.chmod(mode if path.is_dir() else mode & 0o666)
    partial.rename(answer)
    for file in files:
        with suppress(FileNotFoundError):
            file.rename(answer / file.name)
    return answer

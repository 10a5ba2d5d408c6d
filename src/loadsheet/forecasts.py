"""What a run would do, without doing it: for the inbox (dry run), and for the files in the check folder.

The sink of a dry run forecasts the state of each document from the ledger and the documents before it. Nothing is claimed, planned, sent or
written. The exchange is not queried, so unknown outcomes stay unknown.

A file in the check folder is translated, planned and reported by the same functions as in a run, but into a ledger of its own that is thrown
away. The real one is only read: what it knows about the records of the file is copied. So an answer has the names and forms of real reports.
It appears as `NAME.answer/` in the same folder, where the shipper sees it, and the file moves into it. The answer is complete before the
file moves: after a kill, the file is checked again. Every run answers after its own work, a worker's run too, and a watch while it waits: on
one machine one of them at a time. Files that a mapping reads together are answered together, under the name of the first.
"""

import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from loadsheet import exit_codes, inbox, reports
from loadsheet.contract import BY_NAME, Action
from loadsheet.errors import FolderError, LedgerBusy
from loadsheet.inbox import Candidate, InboxFile
from loadsheet.ingest import FilesInPlace, IngestContext, ReadDrop, RoutedFiles, ingest, route_files, within_budget
from loadsheet.ledger import Drop, Ledger, State, open_ledger, utc_now
from loadsheet.ledger.exporting import EarlierRows
from loadsheet.ledger.ledger_opening import locked
from loadsheet.ledger.planning import sender_in
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.recording import Forecaster, Foreseen, stop_reasons
from loadsheet.ledger.states import Waits
from loadsheet.ledger_sink import LedgerSink, source_file
from loadsheet.mapping.compile import Mapping as CompiledMapping
from loadsheet.mapping.compile import operations_of
from loadsheet.mapping.documents import FIX_OF, Document
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.problem_groups import Causes
from loadsheet.problems import NOT_EXAMINED, WAITS_FOR_MAPPING, Problem
from loadsheet.reconcile import ONLY_CHECKED, Exceptions, RunNotes, settle
from loadsheet.reconcile.open_exceptions import LATER
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
_RIGHT = (State.READY, State.UNCHANGED)


@dataclass(slots=True)
class Forecast:
    """What a run would do: its drops as JSON values, the files it would set aside, the problems of files that stay in the inbox, and the
    number of records by state (or `WAITING`). `already` counts the ready and unknown records of earlier runs. `open` are the documents that
    would need someone at the end, each by its record.
    """

    drops: list[dict[str, Any]] = field(default_factory=list)
    aside: dict[str, Problem] = field(default_factory=dict)
    left: list[Problem] = field(default_factory=list)
    causes: Causes = field(default_factory=Causes)
    states: Counter[str] = field(default_factory=Counter)
    already: Mapping[str, int] = field(default_factory=dict)
    open: set[Hashable] = field(default_factory=set)
    not_examined: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code of the run if the exchange accepts everything."""
        states = {name for name, count in self.states.items() if count}
        stuck = any(problem.level == "error" for problem in self.left)
        needs_someone = bool(self.open or self.aside or stuck or self.already["unknown"])
        return exit_codes.exit_code(
            stopped=exit_codes.INTERNAL_ERROR if self.not_examined else None,
            lacks_mapping=any(problem.code in WAITS_FOR_MAPPING for problem in self.left),
            nothing_usable=needs_someone and bool(self.aside or states) and states <= {"invalid"},
            needs_someone=needs_someone,
        )

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON values."""
        return {
            "dry_run": True,
            "exit_code": self.exit_code,
            "files": self.drops,
            "set_aside": [{"file": name, "problem": problem.to_json()} for name, problem in self.aside.items()],
            "left": [problem.to_json() for problem in self.left],
            "records": dict(self.states),
            "already": self.already,
            "causes": self.causes.ranked(),
        }


def forecast_run(settings: Settings, ledger: Ledger, mappings: Sequence[CompiledMapping]) -> Forecast:
    """Forecast what a run would do now. Raises FolderError and LedgerError."""
    context = IngestContext(settings, mappings, ledger.queries, datetime.now(UTC))
    inbox.check_inbox(settings)
    with tempfile.TemporaryDirectory(prefix="loadsheet-") as folder:
        scan = inbox.peek(settings) if settings.inbox_address or settings.inbox.exists() else inbox.Scan(())
        scan = inbox.fetch_objects(scan, settings.model_copy(update={"state": Path(folder)}))
        found = within_budget(route_files(scan, context), settings)
        deletes_follow = any(drop.route.mapping.operation.action is Action.DELETE for drop in found.drops)
        sink = ForecastSink(ledger.forecaster(deletes_follow=deletes_follow), ledger.queries)
        sink.forecast.left += [*found.left(context), *scan.left]
        ingest(found, sink, context)
    sink.forecast.already = {state.value: ledger.queries.count_in(state) for state in (State.READY, State.UNKNOWN)}
    return sink.forecast


class _Uncorrected(NamedTuple):
    """A document of a fix file whose rows came as they were in a wrong entry: its record, number and problems."""

    entry: int
    record: Hashable
    number: int
    problems: Sequence[Problem]


@dataclass(slots=True)
class _DropForecast:
    """The forecast of a drop: its documents by state, the records that would be in order or not, and the entries that its rows correct."""

    mapping: str
    states: Counter[str] = field(default_factory=Counter)
    right: set[Hashable] = field(default_factory=set)
    wrong: set[Hashable] = field(default_factory=set)
    mended: set[int] = field(default_factory=set)
    uncorrected: list[_Uncorrected] = field(default_factory=list)

    def stop(self, name: str) -> None:
        """Hold what would be sent. `name` is the file."""
        self.states["held"] += self.states.pop("ready", 0) + self.states.pop(WAITING, 0)
        self.right, self.wrong, self.mended = set(), {*self.wrong, ("held", name)}, set()


class ForecastSink(FilesInPlace):
    """Forecasts the state of each document and counts them in `forecast`. `queries` tell what was corrected since."""

    def __init__(self, forecaster: Forecaster, queries: LedgerQueries) -> None:
        self._forecaster, self._queries = forecaster, queries
        self._mended = set[int]()
        self._sender_of: dict[str, str] = {}  # by mapping; empty: not known yet
        self.forecast = Forecast()

    def claim(self, candidate: Candidate) -> InboxFile | None:
        """The file with its hash; None if it is gone or no regular file."""
        return inbox.in_place(candidate)

    def set_aside(self, file: InboxFile, problem: Problem) -> None:
        """Count the file among those that would be set aside."""
        self.forecast.aside[file.name] = problem

    def refuse(self, files: Sequence[InboxFile], problem: Problem) -> None:
        """Count the files among those that would be set aside."""
        self.forecast.aside |= dict.fromkeys([file.name for file in files], problem)

    def take(self, drop: ReadDrop) -> None:
        """Count the states of the documents of a drop. Raises FileRefused."""
        mapping, causes = drop.mapping, self.forecast.causes
        found = _DropForecast(mapping.name)
        documents = (document for document in drop.documents() if isinstance(document, Document))
        files = [source_file(file, "", drop.context.settings) for file in drop.files]
        forecast = self._forecaster.forecast(documents, files, changed=mapping.changed)
        for number, foreseen in enumerate(forecast, self.forecast.states.total() + 1):
            self._count(foreseen, number, found)
        self._count_uncorrected(found)
        for notes in drop.notes().values():
            for problem in notes.problems:
                causes.add(problem)
                self.forecast.not_examined |= problem.code == NOT_EXAMINED
        fates: Counter[State] = Counter()
        for name, number in found.states.items():
            fates[State.READY if name == WAITING else State(name)] += number
        if why := stop_reasons(drop.files[0].name, fates, drop.error_share_max, drop.doubts()):
            for problem in why:
                causes.add(problem)
            found.stop(drop.files[0].name)
        self._mended |= found.mended
        # another row of the same file corrects nothing
        self.forecast.open = (self.forecast.open - found.right) | found.wrong
        self.forecast.states += found.states
        names, operation = drop.routed.data_files, operations_of(mapping)
        self.forecast.drops.append(
            {"files": names, "mapping": mapping.name, "operation": operation, "records": dict(found.states)}
        )

    def _count(self, foreseen: Foreseen, number: int, found: _DropForecast) -> None:
        """Count a document of a drop."""
        document, planned, uncorrected, whole = foreseen
        state = WAITING if planned.waits is Waits.PARENT else planned.state.value
        found.states[state] += 1
        fixed = document.items.get(FIX_OF, ())
        record = BY_NAME[document.operation].record_id(document.key) or fixed or number
        problems = (*document.problems, *([planned.problem] if planned.problem else []))
        if state not in _RIGHT and uncorrected:
            found.uncorrected.append(_Uncorrected(uncorrected, record, number, problems))
            return
        sender = sender_in(document.payload)
        self._sender_of[found.mapping] = self._sender_of.get(found.mapping) or sender
        if state in _RIGHT:
            found.mended.update(fixed)
            # an update of some fields corrects no document of another mapping, nor does what has another sender
            corrects = {(found.mapping, record), (found.mapping, fixed)}
            corrects |= {(one, record) for one, own in self._sender_of.items() if whole and sender in ("", own)}
            found.right |= corrects & self.forecast.open
        else:
            found.wrong.add((found.mapping, record))
        for problem in problems:
            self.forecast.causes.add(problem, number)

    def _count_uncorrected(self, found: _DropForecast) -> None:
        """Count the documents of a drop that came as they were and still need someone."""
        settled = self._settled(sorted({one.entry for one in found.uncorrected}))
        for one in found.uncorrected:
            if one.entry not in settled:
                found.wrong.add((found.mapping, one.record))
                for problem in one.problems:
                    self.forecast.causes.add(problem, one.number)

    def _settled(self, wrong: Sequence[int]) -> set[int]:
        """The wrong entries among these that need nobody any more: corrected in a fix file, before or in this forecast, or replaced by a
        later document.
        """
        statuses = self._queries.exceptions_of(wrong)
        replaced = {entry for entry, status in statuses.items() if status.closed == LATER}
        return self._mended.intersection(wrong) | self._queries.versions.corrected_among(wrong) | replaced


class Answer(NamedTuple):
    """The folder of an answer, and in a few words what would become of the documents: `2 of 3 documents would be sent`."""

    folder: Path
    says: str


def answer_checks(settings: Settings, ledger: Ledger, scan: Callable[[Settings], inbox.Scan]) -> list[Answer]:
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
        if routed.candidates[name].lain_s >= settings.arrival.unfinished_wait_s
    }
    for name, problem in {**routed.aside, **lonely}.items():
        yield replace(routed, drops=(), aside={name: problem})


def _answer(part: RoutedFiles, context: IngestContext, known: LedgerQueries) -> Answer | None:
    """Check files and put the answer beside them. None if a file changed meanwhile: it is checked later."""
    settings = context.settings
    names = [*part.aside, *(name for drop in part.drops for name in drop.names)]
    with tempfile.TemporaryDirectory(prefix="answer-", dir=settings.state) as place:
        places = {"state": Path(place), "outbox": Path(place, "outbox"), "archive": None, "database": ""}
        trial = settings.model_copy(update={**places, "outbox_group": "", "reports": {"feedback": "workbook"}})
        with open_ledger(f"sqlite:///{place}/ledger.db") as ledger:
            written = _report(part, context._replace(settings=trial), ledger, known)
        files = [part.candidates[name].path for name in names]
        if written is None or not all(file.exists() for file in files):  # another machine may have answered
            return None
        says = " · ".join(written.summary.headline.details)
        try:
            return Answer(_hand_over(written.folder, files, settings.inbox / names[0]), says)
        except OSError as error:
            raise FolderError(f"the answer to {names[0]} cannot be written ({error.strerror})") from error


def _report(part: RoutedFiles, context: IngestContext, ledger: Ledger, known: LedgerQueries) -> reports.Written | None:
    """Plan files and write the reports of a run that sends nothing. None if a file changed meanwhile."""
    settings = context.settings
    with known.at_one_moment() as connection:
        earlier = EarlierRows(connection)
        ledger.change_all(earlier.begin)
        run = ledger.begin_run(name=f"check of {datetime.now(UTC):%Y-%m-%d %H.%M} UTC")
        ingest(part, _TrialSink(settings, ledger, run, known=earlier), context)
    drops = [drop for drop in ledger.queries.drops_of(run) if drop.run == run.name]
    if not drops:
        return None
    found = settle(ledger.queries, None, run, settings, drops=drops)
    found = replace(found, exceptions=Exceptions(), legs=(), totals=(), notes=RunNotes(stopped=ONLY_CHECKED))
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

"""Dry run: forecasts what a run would do now. Nothing is claimed, planned, sent or written.

Owns: the sink of a dry run. The verdict on a document depends on the ledger and on the forecast for the documents before it. The exchange
is not queried, so unknown outcomes stay unknown.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadsheet import exit_codes, inbox
from loadsheet.inbox import Candidate, InboxFile
from loadsheet.ingest import FilesInPlace, IngestContext, ReadDrop, ingest, route_files, within_budget
from loadsheet.ledger import Ledger, State
from loadsheet.ledger.recording import Forecaster, stop_reasons
from loadsheet.ledger.states import Waits
from loadsheet.mapping import Document
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping.shared_files import operations_of
from loadsheet.problem_groups import Causes
from loadsheet.problems import NOT_EXAMINED, WAITS_FOR_MAPPING, Problem
from loadsheet.settings import Settings

WAITING = "waiting"  # for an order or tender that neither the exchange nor this run has


@dataclass(slots=True)
class Forecast:
    """What a run would do: its drops as JSON values, the files it would set aside, the problems of files that stay in the inbox, and the
    number of records by state (or `WAITING`). `already` counts the ready and unknown records of earlier runs.
    """

    drops: list[dict[str, Any]] = field(default_factory=list)
    aside: dict[str, Problem] = field(default_factory=dict)
    left: list[Problem] = field(default_factory=list)
    causes: Causes = field(default_factory=Causes)
    states: Counter[str] = field(default_factory=Counter)
    already: Mapping[str, int] = field(default_factory=dict)
    not_examined: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code of the run if the exchange accepts everything."""
        states = {name for name, count in self.states.items() if count}
        wrong = states & {"invalid", "held", "refused", WAITING}
        stuck = any(problem.level == "error" for problem in self.left)
        return exit_codes.exit_code(
            stopped=exit_codes.INTERNAL_ERROR if self.not_examined else None,
            lacks_mapping=any(problem.code in WAITS_FOR_MAPPING for problem in self.left),
            nothing_usable=bool(self.aside or states) and states <= {"invalid"},
            needs_someone=bool(wrong or self.aside or stuck or self.already["unknown"]),
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
        sink = ForecastSink(ledger.forecaster())
        sink.forecast.left += [*found.left(context), *scan.left]
        ingest(found, sink, context)
    sink.forecast.already = {state.value: ledger.queries.count_in(state) for state in (State.READY, State.UNKNOWN)}
    return sink.forecast


class ForecastSink(FilesInPlace):
    """Forecasts the verdict on each document and counts them in `forecast`."""

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster = forecaster
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
        """Count the verdicts on the documents of a drop. Raises FileRefused."""
        states: Counter[str] = Counter()
        mapping, causes = drop.mapping, self.forecast.causes
        documents = (document for document in drop.documents() if isinstance(document, Document))
        digests = {file.sha256 for file in drop.files}
        verdicts = self._forecaster.verdicts(documents, changed=mapping.changed, digests=digests)
        for number, (document, verdict) in enumerate(verdicts, self.forecast.states.total() + 1):
            states[WAITING if verdict.waits is Waits.PARENT else verdict.state.value] += 1
            for problem in (*document.problems, *([verdict.problem] if verdict.problem else [])):
                causes.add(problem, number)
        for notes in drop.notes().values():
            for problem in notes.problems:
                causes.add(problem)
                self.forecast.not_examined |= problem.code == NOT_EXAMINED
        fates: Counter[State] = Counter()
        for name, number in states.items():
            fates[State.READY if name == WAITING else State(name)] += number
        if why := stop_reasons(drop.files[0].name, fates, drop.error_share_max, drop.doubts()):
            for problem in why:
                causes.add(problem)
            states["held"] += states.pop("ready", 0) + states.pop(WAITING, 0)
        self.forecast.states += states
        names, operation = drop.routed.data_files, operations_of(mapping)
        self.forecast.drops.append(
            {"files": names, "mapping": mapping.name, "operation": operation, "records": dict(states)}
        )

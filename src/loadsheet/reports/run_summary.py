"""The contents of `run.json`. The workbook's front page and the terminal show the same numbers.

Collects numbers that the reconciliation or the ledger counted, and computes nothing else. `run_document` holds the
format; `sentences` puts the numbers into words.
"""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.metadata import version
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from loadsheet.contract import Assumptions, plain
from loadsheet.ledger import NEEDS_SOMEONE as STATES_THAT_NEED_SOMEONE
from loadsheet.ledger import Drop, Entry, MissingRecords, Run, SourceFile, SourceTable, State
from loadsheet.ledger.states import UNUSED
from loadsheet.problem_groups import Causes
from loadsheet.problems import CATALOGUE, NOWHERE, Problem
from loadsheet.reconcile import NEEDS_SOMEONE, Leg, Match, Reconciliation, TableBalance, Total, Verdict
from loadsheet.reports.run_document import (
    BalanceSummary,
    CauseSummary,
    Deviation,
    DropSummary,
    FailedStep,
    FileSummary,
    InboxFile,
    InboxSummary,
    LegSummary,
    MissingRecordsSummary,
    NeedsSomeone,
    ProblemSummary,
    RunSummary,
    TableSummary,
    TotalSummary,
)
from loadsheet.settings import Settings

_PLACES_SHOWN = 3
_CAUSES_MAX = 200
_INBOX_FILES_MAX = 200
_TAKEN = "A110"  # a remark on a file that was read anyway


@dataclass
class RunTally:
    """Counts while entries stream by: problems by code, verdicts by operation, and the first key per verdict that needs attention."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    places: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    states: dict[int, Counter[str]] = field(default_factory=dict)
    groups: dict[str, Counter[str]] = field(default_factory=dict)
    firsts: dict[str, str] = field(default_factory=dict)
    folding: Causes = field(default_factory=Causes)

    def open(self, drop: Drop) -> None:
        """Begin with a drop: why its files were set aside, and suspected damage in its tables."""
        self.states[drop.id] = Counter()
        for file in drop.files:
            self._fold(file.problems)
        for table in drop.tables:
            self._fold(table.problems)

    def add(self, entry: Entry, match: Match) -> None:
        """Add an entry."""
        self.states[entry.drop][entry.state] += 1
        self.groups.setdefault(entry.operation, Counter())[match.verdict] += 1
        if match.verdict in NEEDS_SOMEONE:
            self.firsts.setdefault(match.verdict, entry.key)
        self._fold(entry.problems, entry.key)

    def problems(self) -> tuple[ProblemSummary, ...]:
        """All problems by code and level, most frequent first."""
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(
            ProblemSummary(code, CATALOGUE[code].title, level, count, tuple(self.places[code, level]))
            for (code, level), count in ranked
        )

    def causes(self) -> tuple[CauseSummary, ...]:
        """The causes of problems: errors first, then by frequency."""
        summaries = (
            CauseSummary(**{name: getattr(one, name) for name in CauseSummary.__slots__})
            for one in self.folding.ranked()
        )
        return tuple(islice(summaries, _CAUSES_MAX))

    def _fold(self, problems: Sequence[Problem], key: str = "") -> None:
        for problem in problems:
            self.folding.add(problem, key)
            kind = (problem.code, problem.level)
            self.counts[kind] += 1
            places = self.places.setdefault(kind, [])
            if len(places) < _PLACES_SHOWN and problem.where != NOWHERE and str(problem.where) not in places:
                places.append(str(problem.where))


def left_in_inbox(left: Sequence[Problem]) -> dict[str, Any]:
    """The files that a run left in the inbox, as JSON values of `InboxSummary`. `left` are the problems of those files."""
    waiting = sorted((one for one in left if one.code != _TAKEN), key=lambda one: one.level != "error")
    counts = [(one.level, one.number("count", 1)) for one in waiting]
    stuck = sum(count for level, count in counts if level == "error")
    first = tuple(_left(one) for one in waiting[:_INBOX_FILES_MAX])
    summary: dict[str, Any] = msgspec.to_builtins(InboxSummary(stuck, sum(count for _, count in counts), first))
    return summary


def _left(problem: Problem) -> InboxFile:
    hint = f" ({problem.hint})" if problem.hint else ""
    return InboxFile(problem.where.file, problem.code, problem.level, problem.text + hint)


class ReportNames(NamedTuple):
    """The names of report files: the results files of each drop, its fix files, and all files."""

    results: Mapping[int, Mapping[tuple[str, str], str]]
    fixes: dict[int, tuple[str, ...]]
    reports: list[str]


def summarise(
    run: Run, reconciliation: Reconciliation, tally: RunTally, settings: Settings, names: ReportNames
) -> RunSummary:
    """The document of a run."""
    rows, notes = reconciliation.balance.rows, reconciliation.notes
    states = reconciliation.states
    verdicts = reconciliation.verdicts
    tables: dict[int, list[TableBalance]] = {}
    for table in reconciliation.balance.tables:
        tables.setdefault(table.drop, []).append(table)
    return RunSummary(
        run=run.name,
        started_at=run.started_at,
        finished_at=run.finished_at,
        exit_code=run.exit_code,
        balance=BalanceSummary(
            reconciliation.balances, reconciliation.balance.read, _counted(rows), tuple(reconciliation.faults())
        ),
        entries={state.value: states[state] for state in State if states[state]},
        verdicts={verdict.value: verdicts[verdict] for verdict in Verdict if verdicts[verdict]},
        groups=tally.groups,
        only_at_exchange=len(reconciliation.only_listed),
        needs_someone=NeedsSomeone(
            reconciliation.needs_someone,
            sum(rows[state] for state in STATES_THAT_NEED_SOMEONE),
            next(iter(tally.firsts.values()), ""),
        ),
        legs=tuple(_leg(leg) for leg in reconciliation.legs),
        totals=tuple(_total(total) for total in reconciliation.totals),
        problems=tally.problems(),
        causes=tally.causes(),
        drops=tuple(
            replace(
                _drop(drop, tables.get(drop.id, []), tally.states[drop.id], names.results[drop.id]),
                fix=names.fixes[drop.id],
                missing_records=_missing(notes.missing_records.get(drop.id)),
            )
            for drop in reconciliation.drops
        ),
        reports=tuple(names.reports),
        settings=_settings(settings),
        deviations=tuple(_deviations(settings)),
        remarks=tuple(notes.remarks),
        forecast=notes.forecast,
        inbox=msgspec.convert(notes.inbox, InboxSummary),
        firsts=tally.firsts,
        versions={"loadsheet": version("loadsheet"), "python": platform.python_version()},
        undone=failed_steps(msgspec.json.decode(run.summary).get("undone", {}) if run.summary else {}),
    )


def failed_steps(undone: Mapping[str, str]) -> tuple[FailedStep, ...]:
    """The steps that failed after the end of a run was recorded. `undone` maps each step to its reason."""
    return tuple(FailedStep(what, why) for what, why in undone.items())


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _total(total: Total) -> TotalSummary:
    source, not_sent, sent, acknowledged, listed = map(_plain, total.legs)
    head = (total.subject, total.figure, total.unit, total.scale, total.tolerance)
    return TotalSummary(*head, source, not_sent, sent, acknowledged, listed, total.says)


def _plain(amount: Decimal) -> Decimal:
    """The number without trailing zeros and exponent, so that equal sums are written alike."""
    return Decimal(plain(amount.normalize()))


def _leg(leg: Leg) -> LegSummary:
    return LegSummary(leg.subject, leg.read, leg.listed, leg.total, leg.complete, str(leg), leg.reason, leg.todo)


def _drop(
    drop: Drop, tables: Sequence[TableBalance], states: Mapping[str, int], results: Mapping[tuple[str, str], str]
) -> DropSummary:
    entries = {state.value: states[state] for state in State if states[state]}
    files = tuple(_file(file, drop, tables, results) for file in drop.files)
    return DropSummary(drop.run, drop.mapping, drop.mapping_version, drop.operation, entries, files)


def _missing(found: MissingRecords | None) -> MissingRecordsSummary:
    return MissingRecordsSummary() if found is None else MissingRecordsSummary(found.run, found.count, found.keys)


def _file(
    file: SourceFile, drop: Drop, tables: Sequence[TableBalance], results: Mapping[tuple[str, str], str]
) -> FileSummary:
    mine = [table for table in tables if table.file == file.name]
    return FileSummary(
        file.name,
        file.role,
        file.sha256,
        file.size,
        file.arrived,
        file.kept_as,
        tuple(str(problem) for problem in file.problems),
        tuple(_table(table, drop.table(table.table)) for table in mine),
        tuple(name for (place, _), name in results.items() if place == file.name),
    )


def _table(table: TableBalance, source: SourceTable) -> TableSummary:
    found = {what: how for what, how in source.found.items() if what != UNUSED}
    return TableSummary(
        table.table, table.sheet, table.read, _counted(table.rows), table.balances, found, source.unused
    )


def _settings(settings: Settings) -> dict[str, str]:
    """The settings that affect the result, without paths and without credentials in addresses."""
    values = {"exchange": without_credentials(settings.exchange)}
    for name in ("weight_tolerance", "money_tolerance"):
        values[name] = str(getattr(settings.reconcile, name))
    for name in ("connections", "call_timeout_s"):
        values[name] = str(getattr(settings.dispatch, name))
    return values


def without_credentials(address: str) -> str:
    """An address without the user name and password it may carry."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _deviations(settings: Settings) -> list[Deviation]:
    chosen, default = settings.assumptions.model_dump(mode="json"), Assumptions().model_dump(mode="json")
    return [
        Deviation(f"assumptions.{name}", str(value), str(default[name]))
        for name, value in chosen.items()
        if value != default[name]
    ]

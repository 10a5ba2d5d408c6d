"""The contents of `run.json`: numbers that the reconciliation or the ledger counted, and nothing else.

`run_document` holds the format, `headline` the verdict in words. Also the rows of a document in words.
"""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.metadata import version
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from loadsheet.contract import BY_NAME, Action, Assumptions, plain_digits
from loadsheet.ledger import STATES_THAT_NEED_SOMEONE, Drop, Entry, MissingRecords, Run, SourceFile, SourceTable, State
from loadsheet.ledger.models import UNUSED
from loadsheet.mapping.documents import SourceRow
from loadsheet.problem_groups import Cause, Causes
from loadsheet.problems import CATALOGUE, NOWHERE, Problem, Where
from loadsheet.reconcile import (
    AGREES,
    ONLY_CHECKED,
    VERDICTS_THAT_NEED_SOMEONE,
    Match,
    Reconciliation,
    TableBalance,
    Total,
    Verdict,
)
from loadsheet.reports.fix_workbook import is_to_fix
from loadsheet.reports.run_document import (
    BalanceSummary,
    CauseSummary,
    ConsequencesSummary,
    Deviation,
    DropSummary,
    FailedStep,
    FileSummary,
    InboxSummary,
    LegSummary,
    MissingRecordsSummary,
    NeedsSomeone,
    ProblemSummary,
    RemainingFile,
    RunSummary,
    TableSummary,
    TotalSummary,
)
from loadsheet.settings import Settings

_PLACES_SHOWN = 3
CAUSES_MAX = 200
_INBOX_FILES_MAX = 200
_TAKEN = "A110"  # a remark on a file that was read anyway


@dataclass
class RunTally:
    """Counts while entries stream by: problems by code, verdicts by operation, and the first key per verdict that needs attention.

    `resolved` are the entries that needed attention and no longer do: their problems, rows and keys are left out. On a day, each record
    counts once, with its last document. `accepted_before` counts the entries that earlier runs sent.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    places: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    states: dict[int, Counter[str]] = field(default_factory=dict)
    to_fix: Counter[int] = field(default_factory=Counter)
    groups: dict[str, Counter[str]] = field(default_factory=dict)
    firsts: dict[str, str] = field(default_factory=dict)
    folding: Causes = field(default_factory=Causes)
    resolved: frozenset[int] = frozenset()
    is_day: bool = False
    accepted_before: int = 0
    _resolved: Counter[tuple[str, str]] = field(default_factory=Counter)
    _rows: dict[bool, set[tuple[int, str, int]]] = field(default_factory=lambda: {True: set(), False: set()})
    _counted_in: dict[int, dict[str, str]] = field(default_factory=dict)
    _records: dict[str, tuple[str, str]] = field(default_factory=dict)

    def open(self, drop: Drop) -> None:
        """Begin with a drop: why its files were set aside, and suspected damage in its tables."""
        self.states[drop.id], self._counted_in[drop.id] = Counter(), drop.counted_in
        for file in drop.files:
            self._fold(file.problems)
        for table in drop.tables:
            self._fold(table.problems)

    def add(self, entry: Entry, match: Match) -> None:
        """Add an entry."""
        self.states[entry.drop][entry.state] += 1
        self.groups.setdefault(entry.operation, Counter())[match.verdict] += 1
        if self._is_resolved(entry, match):
            return
        self.to_fix[entry.drop] += is_to_fix(entry)
        if match.verdict in VERDICTS_THAT_NEED_SOMEONE:
            self.firsts.setdefault(match.verdict, entry.key)
        self._fold(entry.problems, entry.id)

    def _is_resolved(self, entry: Entry, match: Match) -> bool:
        """Count an entry, on a day by its record. Whether it needed attention and no longer does."""
        done = match.verdict in VERDICTS_THAT_NEED_SOMEONE and entry.id in self.resolved
        if done:
            self._resolved[entry.operation, match.verdict] += 1
        if self.resolved and entry.state in STATES_THAT_NEED_SOMEONE:
            tables = self._counted_in[entry.drop]
            self._rows[done].update((entry.drop, tables[row.table], row.number) for row in entry.rows)
        if self.is_day and not (done and entry.state in STATES_THAT_NEED_SOMEONE):
            record = BY_NAME[entry.operation].record_id(entry.key) or str(entry.id)
            self._records[record] = entry.operation, match.verdict
        return done

    def resolved_documents(self) -> dict[str, int]:
        """The documents that needed attention and no longer do, by verdict."""
        counts = Counter[str]()
        for (_, verdict), count in self._resolved.items():
            counts[verdict] += count
        return dict(counts)

    def resolved_rows(self) -> Counter[tuple[int, str]]:
        """The rows that needed attention and no longer do, by drop and table."""
        return Counter((drop, table) for drop, table, _ in self._rows[True] - self._rows[False])

    def records(self) -> dict[str, Counter[str]]:
        """The documents that count by operation and verdict; on a day the records, with their last document."""
        if not self.is_day:
            done = self._resolved
            left = {
                name: Counter({verdict: count - done[name, verdict] for verdict, count in verdicts.items()})
                for name, verdicts in self.groups.items()
            }
            return {name: +verdicts for name, verdicts in left.items() if +verdicts}
        counts: dict[str, Counter[str]] = {}
        for operation, verdict in self._records.values():
            counts.setdefault(operation, Counter())[verdict] += 1
        return counts

    def problems(self) -> tuple[ProblemSummary, ...]:
        """All problems by code and level, most frequent first."""
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(
            ProblemSummary(code, CATALOGUE[code].title, level, count, tuple(self.places[code, level]))
            for (code, level), count in ranked
        )

    def causes(self) -> tuple[CauseSummary, ...]:
        """The causes of problems: errors first, then by the number of documents that they hold back."""
        return tuple(_cause(one) for one in islice(self.folding.ranked(), CAUSES_MAX))

    def _fold(self, problems: Sequence[Problem], document: int = 0) -> None:
        for problem in problems:
            self.folding.add(problem, document)
            kind = (problem.code, problem.level)
            self.counts[kind] += 1
            places = self.places.setdefault(kind, [])
            if len(places) < _PLACES_SHOWN and problem.where != NOWHERE and str(problem.where) not in places:
                places.append(str(problem.where))


def _cause(cause: Cause) -> CauseSummary:
    values = {name: getattr(cause, name) for name in CauseSummary.__slots__}
    found = cause.consequences
    return CauseSummary(
        **values | {"consequences": ConsequencesSummary(found.count, found.keys, found.kinds, found.say)}
    )


def left_in_inbox(left: Sequence[Problem]) -> dict[str, Any]:
    """The files that a run left in the inbox, as JSON values of `InboxSummary`. `left` are the problems of those files."""
    waiting = sorted((one for one in left if one.code != _TAKEN), key=lambda one: one.level != "error")
    counts = [(one.level, one.number("count", 1)) for one in waiting]
    stuck = sum(count for level, count in counts if level == "error")
    first = tuple(
        RemainingFile(one.where.file, one.code, one.level, one.text + (f" ({one.hint})" if one.hint else ""))
        for one in waiting[:_INBOX_FILES_MAX]
    )
    summary: dict[str, Any] = msgspec.to_builtins(InboxSummary(stuck, sum(count for _, count in counts), first))
    return summary


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
    resolved, resolved_rows = tally.resolved_documents(), tally.resolved_rows()
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
            sum(rows[state] for state in STATES_THAT_NEED_SOMEONE) - resolved_rows.total(),
            next(iter(tally.firsts.values()), ""),
        ),
        legs=tuple(
            LegSummary(one.subject, one.read, one.listed, one.total, one.complete, str(one), one.reason, one.todo)
            for one in reconciliation.coverage
        ),
        totals=tuple(_total(total) for total in reconciliation.totals),
        problems=tally.problems(),
        causes=tally.causes(),
        drops=tuple(
            _with_counts(
                _drop(drop, tables.get(drop.id, []), tally.states[drop.id], names, notes.missing_records.get(drop.id)),
                {table: count for (number, table), count in resolved_rows.items() if number == drop.id},
                tally.to_fix[drop.id],
            )
            for drop in reconciliation.drops
        ),
        reports=tuple(names.reports),
        settings=_settings(settings),
        deviations=tuple(_deviations(settings)),
        remarks=tuple(notes.remarks),
        forecast=notes.remaining_text,
        inbox=msgspec.convert(notes.inbox, InboxSummary),
        firsts=tally.firsts,
        versions={"loadsheet": version("loadsheet"), "python": platform.python_version()},
        undone=failed_steps(msgspec.json.decode(run.summary).get("undone", {}) if run.summary else {}),
        stopped=notes.stopped,
        ready=notes.ready,
        open_earlier=len(open_since_earlier(reconciliation)),
        settled=resolved,
        records=tally.records(),
        # a process of an earlier run may have sent some since the others were counted
        accepted_before=min(tally.accepted_before, states[State.ACCEPTED]),
    )


def open_since_earlier(reconciliation: Reconciliation) -> list[int]:
    """The latest entries of the open exceptions that are no documents of this run that need attention, oldest first."""
    exceptions = reconciliation.exceptions
    return [one.latest for one in exceptions.open if exceptions.is_of_earlier_runs(one)]


def failed_steps(undone: Mapping[str, str]) -> tuple[FailedStep, ...]:
    """The steps that failed after the end of a run was recorded. `undone` maps each step to its reason."""
    return tuple(FailedStep(what, why) for what, why in undone.items())


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _total(total: Total) -> TotalSummary:
    """The total with amounts without trailing zeros and exponents, so that equal sums are written alike."""
    source, not_sent, sent, acknowledged, listed, replaced = (
        Decimal(plain_digits(amount.normalize())) for amount in (*total.legs, total.replaced)
    )
    head = (total.subject, total.figure, total.unit, total.scale, total.tolerance)
    return TotalSummary(*head, source, not_sent, sent, acknowledged, listed, total.result, replaced, total.not_built)


def _drop(
    drop: Drop,
    tables: Sequence[TableBalance],
    states: Mapping[str, int],
    names: ReportNames,
    missing: MissingRecords | None,
) -> DropSummary:
    entries = {state.value: states[state] for state in State if states[state]}
    files = tuple(_file(file, drop, tables, names.results[drop.id]) for file in drop.files)
    lost = MissingRecordsSummary(missing.run, missing.count, missing.keys) if missing else MissingRecordsSummary()
    head = (drop.run, drop.meant_for, drop.mapping_version, drop.operation)
    return DropSummary(*head, entries, files, names.fixes[drop.id], lost)


def _with_counts(drop: DropSummary, settled: Mapping[str, int], to_fix: int) -> DropSummary:
    """The drop with its documents to fix, whose tables say how many of their rows no longer need attention. `settled` has those rows by table."""
    files = (
        replace(file, tables=tuple(replace(table, settled=settled.get(table.table, 0)) for table in file.tables))
        for file in drop.files
    )
    return replace(drop, files=tuple(files) if settled else drop.files, to_fix=to_fix)


def _file(
    file: SourceFile, drop: Drop, tables: Sequence[TableBalance], results: Mapping[tuple[str, str], str]
) -> FileSummary:
    summaries = []
    for one in tables:
        if one.file == file.name:
            source = drop.table(one.table)
            notes = {what: how for what, how in source.reading_notes.items() if what != UNUSED}
            counts = (one.read, _counted(one.rows), one.balances)
            summaries.append(TableSummary(one.table, one.sheet, *counts, notes, source.unused))
    return FileSummary(
        file.name,
        file.role,
        file.sha256,
        file.size,
        file.arrived,
        file.kept_as,
        tuple(str(problem) for problem in file.problems),
        tuple(summaries),
        tuple(dict.fromkeys(name for (place, _), name in results.items() if place == file.name)),
    )


def _settings(settings: Settings) -> dict[str, str]:
    """The settings that affect the result, without paths and without credentials in addresses."""
    return {
        "exchange": without_credentials(settings.exchange),
        "weight_tolerance": str(settings.reconcile.weight_tolerance),
        "money_tolerance": str(settings.reconcile.money_tolerance),
        "connections": str(settings.dispatch.connections),
        "call_timeout_s": str(settings.dispatch.call_timeout_s),
    }


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


_UNLISTED = {Action.STATUS: "status events", Action.QUOTE: "quotes", Action.CONFIRM: "quote confirmations"}


def agreement_sentence(summary: RunSummary) -> str:
    """How many documents of each kind agree with the exchange: `111 of 141 orders agree, all 4 quotes are acknowledged`. Those of a
    day count once for each record, and those that no longer need attention not at all. Empty for a check: nothing was compared.
    """
    if summary.stopped == ONLY_CHECKED:
        return ""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for name in sorted(summary.records, key=lambda name: (not BY_NAME[name].proved_by, name)):
        operation = BY_NAME[name]
        group = (
            (f"{operation.subject}s", "agree")
            if operation.proved_by
            else (_UNLISTED[operation.action], "are acknowledged")
        )
        groups.setdefault(group, Counter()).update(summary.records[name])
    sentence = ", ".join(_agreeing(*group, verdicts) for group, verdicts in groups.items())
    return sentence[:1].upper() + sentence[1:]


def place_for_people(problem: Problem) -> Where:
    """The place of a problem for people. A column that is read by its position has its name in the mapping: the heading above it is
    that of other rows.
    """
    name = str(problem.values.get("column", ""))
    return replace(problem.where, column=name) if name and problem.where.column else problem.where


def files_of(summary: RunSummary) -> Iterator[FileSummary]:
    """Every file of the run."""
    for drop in summary.drops:
        yield from drop.files


def name_of(drop: DropSummary) -> str:
    """The names of the files of a drop."""
    return " + ".join(dict.fromkeys(file.name for file in drop.files))


def with_missing_records(summary: RunSummary) -> list[DropSummary]:
    """The drops that lack records of the previous version."""
    return [drop for drop in summary.drops if drop.missing_records.count]


def missing_sentence(drop: DropSummary, *, keys_max: int) -> str:
    """The records missing from a drop, with the first keys."""
    run, count, keys = drop.missing_records.run, drop.missing_records.count, drop.missing_records.keys[:keys_max]
    records, are = ("record", "is") if count == 1 else ("records", "are")
    more = f" and {count - len(keys):,} more" if count > len(keys) else ""
    return f"{count:,} {records} of the previous {name_of(drop)} (run {run}) {are} missing from the new file: {', '.join(keys)}{more}"


def fates_of(file: FileSummary) -> Counter[str]:
    """The rows of a file by outcome, all its tables together."""
    fates: Counter[str] = Counter()
    for table in file.tables:
        fates.update(table.fates)
    return fates


def _agreeing(noun: str, verb: str, verdicts: Mapping[str, int]) -> str:
    total = sum(verdicts.values())
    agreeing = sum(count for verdict, count in verdicts.items() if verdict in AGREES)
    if total == 1:
        one, agrees = noun.removesuffix("s"), verb.replace("are ", "is ").replace("agree", "agrees")
        return f"the only {one} {agrees}" if agreeing else f"0 of 1 {noun} {verb}"
    return f"all {total:,} {noun} {verb}" if agreeing == total else f"{agreeing:,} of {total:,} {noun} {verb}"


def rows_by_place(rows: Iterable[SourceRow], tables: Mapping[str, SourceTable]) -> dict[str, str]:
    """The row numbers of a document by file and sheet, with ranges shortened."""
    by_table: dict[str, set[int]] = {}
    for row in rows:
        by_table.setdefault(row.table, set()).add(row.number)
    numbers: dict[str, set[int]] = {}
    for name, mine in by_table.items():
        numbers.setdefault(f"{tables[name].file} {tables[name].sheet}".strip(), set()).update(mine)
    return {place: _ranges(sorted(found)) for place, found in numbers.items()}


def _ranges(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    if last - first == len(numbers) - 1:  # as nearly always
        return f"{first}-{last}" if last > first else str(first)
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number <= runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

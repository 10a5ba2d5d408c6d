"""Entries that need a person and what people do about them: findings of listings, decisions in a hash chain, retries of refused or held
entries, exceptions that are carried from run to run, and the analyst's remarks on them.

Owns: the statements on `findings`, `decisions`, `exceptions` and `remarks`, the hash of a decision, the rules of a retry, and which
workbooks were read back. An entry may not be retried if a newer version replaced it, if the same content was sent since, or if its outcome
was never proved. A changed create is retried as an update of the created record. `reconcile` decides what opens and closes an exception.
Opens no transaction: the methods of `Ledger` do.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, insert, or_, select, update

from loadsheet.contract import BY_NAME, Action, Difference, update_of
from loadsheet.display_text import as_argument
from loadsheet.ledger import codec
from loadsheet.ledger.ledger_tables import (
    FETCH,
    Statement,
    chunks,
    decisions,
    exceptions,
    remarks,
    runs,
    stored_value,
    streamed_within,
)
from loadsheet.ledger.states import (
    WITHOUT_OUTCOME,
    Attempt,
    Decision,
    Entry,
    EntryHead,
    Finding,
    Run,
    Settlement,
    State,
    Waits,
)
from loadsheet.ledger.transitions import PreviousState, Transaction, change
from loadsheet.problems import LedgerError
from loadsheet.workbook_marks import OPEN, WORDS

IN_DOUBT = "X702"

FORGET = "forget"
"""The choice of a decision that removed the contents of entries. Its evidence names the decisions whose words it removed."""

_HASH = re.compile(r"\b[0-9a-f]{64}\b")


class Choice(NamedTuple):
    """A person's choice for one entry: the entry as the person saw it, its new state, the evidence, and the operation to send it
    as, if that changes.
    """

    entry: Entry
    settlement: Settlement
    evidence: str = ""
    operation: str = ""


def record_findings(connection: Connection, run: Run, findings: Sequence[Finding]) -> None:
    """Record findings. The text of each becomes the hint of its entry, if that is still unknown."""
    for finding in findings:
        row = {"entry": finding.entry, "run": run.id, "at": finding.at}
        row |= {"shown": finding.shown, "counts": int(finding.counts), "text": finding.text}
        _INSERT_FINDING.run(connection, [row])
        for unknown in _UNKNOWN.rows(connection, entry=finding.entry):
            problems = [
                replace(problem, hint=finding.text) if problem.code == IN_DOUBT else problem
                for problem in codec.decode_problems(unknown.problems)
            ]
            _SET_PROBLEMS.run(connection, [{"entry": finding.entry, "problems": codec.encode_problems(problems)}])


def apply_choices(transaction: Transaction, chosen: Sequence[Choice]) -> dict[int, PreviousState]:
    """Change entries to the states that a person chose. Returns their previous states by id. The caller chains the decisions in
    the same transaction. Raises LedgerError if an entry changed after the person looked at it.
    """
    connection = transaction.connection
    for choice in chosen:
        entry = choice.entry
        if not _UNCHANGED_ENTRY.rows(connection, entry=entry.id, state=entry.state.value, changed_at=entry.changed_at):
            raise LedgerError(f"{entry.key} has changed since you looked at it; nothing was decided, look at it again")
        if entry.removed and choice.settlement.state is State.READY:
            raise LedgerError(f"the contents of {entry.key} were removed on {entry.removed[:10]}; drop its file again")
        if choice.operation:
            _SEND_AS.run(connection, [{"entry": entry.id, "operation": choice.operation}])
    return change(transaction, [choice.settlement for choice in chosen])


def chain(connection: Connection, decided: Sequence[Decision]) -> None:
    """Append decisions to the chain, each with its hash."""
    before = next((row.hash for row in _LAST_DECISION.rows(connection)), "")
    for made in decided:
        before = chained(before, made)
        row = {"entry": made.entry, "at": made.at, "who": made.who, "choice": made.choice}
        row |= {"comment": made.comment, "evidence": made.evidence, "hash": before}
        _INSERT_DECISION.run(connection, [row])


def all_decisions(connection: Connection) -> Iterator[Decision]:
    """All decisions of people, oldest first."""
    columns = [decisions.c[name] for name in ("entry_id", "at", "who", "choice", "comment", "evidence", "hash")]
    return (Decision(*row) for row in streamed_within(connection, select(*columns).order_by(decisions.c.id)))


def chained(before: str, decision: Decision) -> str:
    """The hash (hex SHA-256) of a decision that follows one with the hash `before` (empty: it is the first)."""
    fields = (decision.entry, decision.at, decision.who, decision.choice, decision.comment, decision.evidence)
    return hashlib.sha256(codec.encode([before, *fields]).encode()).hexdigest()


def first_broken_decision(recorded: Iterable[Decision]) -> Decision | None:
    """The first decision that was altered after it was recorded, or that follows a missing one. `recorded` is oldest first. A
    decision whose words were erased is valid if the later erasure decision names its hash.
    """
    before = ""
    erased: dict[str, Decision] = {}
    for decision in recorded:
        expected = chained(before, decision)
        if decision.hash != expected:
            if decision.comment or decision.evidence:
                return decision
            erased[decision.hash] = decision
        elif decision.choice == FORGET:
            for named in _HASH.findall(decision.evidence):
                erased.pop(named, None)
        before = decision.hash
    return next(iter(erased.values()), None)


_ALIVE = (State.READY, State.SENDING, State.ACCEPTED, State.UNKNOWN)


class Retry(NamedTuple):
    """Why an entry may not be retried (empty: it may), and the operation to send it as, if that changes."""

    refusal: str = ""
    operation: str = ""


def unproved(attempts: Sequence[Attempt]) -> bool:
    """Whether an attempt of an entry has an unknown outcome."""
    return any(attempt.outcome in ("", "unknown") for attempt in attempts)


def judge_retry(entry: Entry, attempts: Sequence[Attempt], lane: Sequence[EntryHead]) -> Retry:
    """Whether a refused or held entry may be retried. `lane` holds all entries of its lane."""
    if refusal := _barred(entry, attempts, lane):
        return Retry(refusal)
    family = [other for other in lane if other.id != entry.id and _same_thing(other, entry)]
    if any(
        other.state in _ALIVE and other.content_hash == entry.content_hash and other.id > entry.id for other in family
    ):
        return Retry("the same content was sent later, or will be sent")
    newer = [other for other in family if other.id > entry.id and other.state in (*_ALIVE, State.HELD, State.REFUSED)]
    if newer:
        return Retry(f"a newer version replaced it (entry {newer[-1].id})")
    if not BY_NAME[entry.operation].creates:
        return Retry()
    return _retry_create(entry, lane)


def _barred(entry: Entry, attempts: Sequence[Attempt], lane: Sequence[EntryHead]) -> str:
    """The reason that rules out a retry whatever happened to the record since. Empty if there is none."""
    if entry.removed:
        return f"its contents were removed on {entry.removed[:10]}; to send it again, drop its file again"
    if entry.state is State.HELD and unproved(attempts):
        return f"its outcome was never proved; decide it first: loadsheet resolve {as_argument(entry.key)}"
    if entry.waits is Waits.EARLIER or any(other.state in WITHOUT_OUTCOME for other in lane):
        return f"an earlier outcome is unknown; decide it first: loadsheet resolve {as_argument(entry.key)}"
    return ""


def _same_thing(other: EntryHead, entry: Entry) -> bool:
    """Whether another entry is a version of the same record. For repeatable operations only the same content counts."""
    if BY_NAME[entry.operation].repeatable:
        return other.operation == entry.operation and other.content_hash == entry.content_hash
    return other.operation in {entry.operation, _updating(entry)} and other.key == entry.key


def _retry_create(entry: Entry, lane: Sequence[EntryHead]) -> Retry:
    exists = False
    for other in sorted(lane):
        action = BY_NAME[other.operation].action
        if other.state is State.READY and action is Action.CREATE:
            return Retry(f"another version waits to be sent (entry {other.id})")
        if other.state is State.ACCEPTED and action in (Action.CREATE, Action.DELETE):
            exists = action is Action.CREATE
    return Retry(operation=_updating(entry)) if exists else Retry()


def _updating(entry: Entry) -> str:
    operation = update_of(BY_NAME[entry.operation])
    return operation.name if operation else ""


_INSERT_FINDING = Statement(
    """
    insert into findings (entry_id, run_id, at, shown, counts, text)
    values (:entry, :run, :at, :shown, :counts, :text)
    """
)
_UNKNOWN = Statement("select problems from entries where id = :entry and state = 'unknown'")
_SET_PROBLEMS = Statement("update entries set problems = :problems where id = :entry")
_UNCHANGED_ENTRY = Statement("select 1 from entries where id = :entry and state = :state and changed_at = :changed_at")
_SEND_AS = Statement("update entries set operation = :operation where id = :entry")
_LAST_DECISION = Statement("select hash from decisions order by id desc limit 1")
_INSERT_DECISION = Statement(
    """
    insert into decisions (entry_id, at, who, choice, comment, evidence, hash)
    values (:entry, :at, :who, :choice, :comment, :evidence, :hash)
    """
)


_OURSELVES = "loadsheet"
WORKBOOKS_READ = "workbooks_read"
"""The name of the stored value of `workbooks_read`."""

_NOT_CLOSED = {"closed_run_id": None, "closed_at": "", "closed_because": ""}
_found = msgspec.json.Decoder(tuple[Difference, ...]).decode


Shown = tuple[str, tuple[Difference, ...]]
"""What an exception shows: its verdict with the fields that differ."""


class ExceptionStatus(NamedTuple):
    """The status of an exception: its entry, the run that opened it and when (ISO 8601 UTC), its last verdict, and the fields that
    differ. `closed` is the closing reason (empty: open), `closed_run` the run that closed it. `versions` are its entry and the later ones
    for the same record that came while it was open, the one that shows the record as it is now last (see `versions`; empty: not asked
    for). None of them is an exception of its own. `settled`: its rows are in order in a fix file or a later version of the file.
    """

    entry: int
    run: str
    opened_at: str
    verdict: str
    found: tuple[Difference, ...] = ()
    closed: str = ""
    closed_run: str = ""
    versions: tuple[int, ...] = ()
    settled: bool = False

    @property
    def latest(self) -> int:
        """The entry that shows the record as it is now."""
        return self.versions[-1] if self.versions else self.entry

    @property
    def finding(self) -> Shown:
        """Its verdict with the fields that differ."""
        return self.verdict, self.found


class Remark(NamedTuple):
    """One remark of the analyst on an entry: its kind (owner, reason, comment or status), its text, by whom and when (ISO 8601 UTC)."""

    entry: int
    name: str
    value: str
    who: str
    at: str


class WorkbookRead(NamedTuple):
    """A workbook as it was read back: when it was saved (ns), and a digest of the remarks per entry, for entries whose remarks
    differed from what was written into it.
    """

    saved_ns: int
    edited: dict[int, str]


def statuses_at(connection: Connection, run: Run) -> list[ExceptionStatus]:
    """The exceptions that were open at the start of a run or opened by it, oldest first. Those that it closed are listed as closed."""
    known = (exceptions.c.run_id <= run.id) & or_(
        exceptions.c.closed_run_id.is_(None), exceptions.c.closed_run_id >= run.id
    )
    ordered = _STATUSES.where(known).order_by(exceptions.c.opened_at, exceptions.c.entry_id)
    return [_status(row) for row in connection.execute(ordered)]


def statuses_of(connection: Connection, wanted: Sequence[int]) -> dict[int, ExceptionStatus]:
    """The status of the exceptions of these entries, for those that ever were one."""
    return {
        row.entry_id: _status(row)
        for some in chunks(wanted)
        for row in connection.execute(_STATUSES.where(exceptions.c.entry_id.in_(some)))
    }


def latest_remarks(connection: Connection, wanted: Sequence[int]) -> dict[int, dict[str, Remark]]:
    """The latest remark of each kind on each of these entries."""
    latest: dict[int, dict[str, Remark]] = {}
    for row in sorted(_REMARKS.rows_of(connection, wanted)):
        latest.setdefault(row.entry_id, {})[row.name] = Remark(row.entry_id, row.name, row.value, row.who, row.at)
    return latest


def record_exceptions(connection: Connection, run: Run, statuses: Iterable[ExceptionStatus], now: str) -> None:
    """Record the status of exceptions after a run. If an exception differs from what the analyst closed, it is open again."""
    stream = iter(statuses)
    while some := list(islice(stream, FETCH)):
        kept = statuses_of(connection, [status.entry for status in some])
        new = [status for status in some if status.entry not in kept]
        changed = [
            status
            for status in some
            if (before := kept.get(status.entry)) and (status.finding, status.closed) != (before.finding, before.closed)
        ]
        if new:
            opened = ({"entry_id": status.entry, "run_id": run.id, "opened_at": status.opened_at} for status in new)
            rows = [row | _changing_values(run, status, now) for row, status in zip(opened, new, strict=True)]
            connection.execute(insert(exceptions), rows)
        for status in changed:
            same = exceptions.c.entry_id == status.entry
            connection.execute(update(exceptions).where(same).values(_changing_values(run, status, now)))
        again = [
            status.entry for status in changed if not status.closed and status.finding != kept[status.entry].finding
        ]
        latest = latest_remarks(connection, again)
        meant_otherwise = [
            entry for entry in again if "status" in latest.get(entry, {}) and latest[entry]["status"].value in WORDS
        ]
        add_remarks(connection, [Remark(entry, "status", OPEN, _OURSELVES, now) for entry in meant_otherwise])


def record_remarks(connection: Connection, new_remarks: Sequence[Remark]) -> int:
    """Record new remarks on exceptions, unless a later remark exists. Returns their number. A closed exception whose status is
    set back is open again.
    """
    statuses = statuses_of(connection, sorted({remark.entry for remark in new_remarks}))
    before = latest_remarks(connection, list(statuses))
    news = [
        remark
        for remark in new_remarks
        if remark.entry in statuses and _is_news(remark, before.get(remark.entry, {}).get(remark.name))
    ]
    add_remarks(connection, news)
    back = [remark.entry for remark in news if remark.name == "status" and remark.value not in WORDS]
    for entry in back:
        if statuses[entry].closed in WORDS:
            connection.execute(update(exceptions).where(exceptions.c.entry_id == entry).values(_NOT_CLOSED))
    return len(news)


def add_remarks(connection: Connection, new_remarks: Sequence[Remark]) -> None:
    """Record remarks unchecked."""
    if new_remarks:
        rows = [
            {"entry_id": remark.entry, "at": remark.at, "who": remark.who, "name": remark.name, "value": remark.value}
            for remark in new_remarks
        ]
        connection.execute(insert(remarks), rows)


def workbooks_read(connection: Connection) -> dict[str, WorkbookRead]:
    """The workbooks that were read back, by name, as they were then."""
    return _workbooks(stored_value(connection, WORKBOOKS_READ) or codec.NOTHING)


_workbooks = msgspec.json.Decoder(dict[str, WorkbookRead]).decode
_first, _last = runs.alias(), runs.alias()
_STATUSES = (
    select(exceptions, _first.c.name.label("run"), _last.c.name.label("closed_run"))
    .join(_first, _first.c.id == exceptions.c.run_id)
    .outerjoin(_last, _last.c.id == exceptions.c.closed_run_id)
)
_REMARKS = Statement("select id, entry_id, name, value, who, at from remarks where entry_id in (:wanted)")


def _status(row: Any) -> ExceptionStatus:
    found = _found(row.found) if row.found != "[]" else ()
    return ExceptionStatus(
        row.entry_id, row.run, row.opened_at, row.verdict, found, row.closed_because, row.closed_run or ""
    )


def _changing_values(run: Run, status: ExceptionStatus, now: str) -> dict[str, Any]:
    """The values of an exception that change from run to run."""
    closed = {"closed_run_id": run.id, "closed_at": now, "closed_because": status.closed}
    found = {"verdict": str(status.verdict), "found": codec.encode(status.found)}
    return found | (closed if status.closed else _NOT_CLOSED)


def _is_news(remark: Remark, before: Remark | None) -> bool:
    if before is None:
        return remark.value != (OPEN if remark.name == "status" else "")
    return remark.value != before.value and remark.at >= before.at

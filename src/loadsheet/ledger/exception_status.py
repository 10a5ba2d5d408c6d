"""The exceptions of the reconciliation, carried from run to run, the analyst's remarks on them, and what listings showed about those of
unknown outcome.

Owns: the statements on `exceptions`, `remarks` and `findings`, and which workbooks were read back. `reconcile` decides what opens and closes
an exception. Opens no transaction: the methods of `Ledger` do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, insert, or_, select, update

from loadsheet.contract import Difference
from loadsheet.ledger import codec
from loadsheet.ledger.ledger_tables import FETCH, Statement, chunks, exceptions, remarks, runs, stored_value
from loadsheet.ledger.models import ListingFinding, Run
from loadsheet.workbook_marks import CLOSING_STATUSES, OPEN

_OURSELVES = "loadsheet"
WORKBOOKS_READ = "workbooks_read"
"""The name of the stored value of `workbooks_read`."""

_NOT_CLOSED = {"closed_run_id": None, "closed_at": "", "closed_because": ""}
_found = msgspec.json.Decoder(tuple[Difference, ...]).decode


ExceptionFinding = tuple[str, tuple[Difference, ...]]
"""What an exception shows: its verdict with the fields that differ."""


class ExceptionStatus(NamedTuple):
    """The status of an exception: its entry, the run that opened it and when (ISO 8601 UTC), its last verdict, and the fields that
    differ. `closed` is the closing reason (empty: open), `closed_run` the run that closed it. `versions` are its entry and the later ones
    for the same record that came while it was open, the one that shows the record as it is now last (see `versions`; empty: not asked
    for). None of them is an exception of its own. `resolved`: its rows are in order in a fix file or a later version of the file. `current`
    are the versions that need someone as long as it is open.
    """

    entry: int
    run: str
    opened_at: str
    verdict: str
    differences: tuple[Difference, ...] = ()
    closed: str = ""
    closed_run: str = ""
    versions: tuple[int, ...] = ()
    resolved: bool = False
    current: tuple[int, ...] = ()

    @property
    def latest(self) -> int:
        """The entry that shows the record as it is now."""
        return self.versions[-1] if self.versions else self.entry

    @property
    def finding(self) -> ExceptionFinding:
        """Its verdict with the fields that differ."""
        return self.verdict, self.differences


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
            entry
            for entry in again
            if "status" in latest.get(entry, {}) and latest[entry]["status"].value in CLOSING_STATUSES
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
    back = [remark.entry for remark in news if remark.name == "status" and remark.value not in CLOSING_STATUSES]
    for entry in back:
        if statuses[entry].closed in CLOSING_STATUSES:
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
    shown = {"verdict": str(status.verdict), "found": codec.encode(status.differences)}
    return shown | (closed if status.closed else _NOT_CLOSED)


def _is_news(remark: Remark, before: Remark | None) -> bool:
    if before is None:
        return remark.value != (OPEN if remark.name == "status" else "")
    return remark.value != before.value and remark.at >= before.at


_OUTCOME_UNKNOWN = "X702"


def record_findings(connection: Connection, run: Run, findings: Sequence[ListingFinding]) -> None:
    """Record findings. The text of each becomes the hint of its entry, if that is still unknown."""
    for finding in findings:
        row = {"entry": finding.entry, "run": run.id, "at": finding.at}
        row |= {"shown": finding.shown, "counts": int(finding.proves_absence), "text": finding.text}
        _INSERT_FINDING.run(connection, [row])
        for unknown in _IF_UNKNOWN.rows(connection, entry=finding.entry):
            problems = [
                replace(problem, hint=finding.text) if problem.code == _OUTCOME_UNKNOWN else problem
                for problem in codec.decode_problems(unknown.problems)
            ]
            _SET_PROBLEMS.run(connection, [{"entry": finding.entry, "problems": codec.encode_problems(problems)}])


def findings_of(connection: Connection, entry: int) -> list[ListingFinding]:
    """The findings of listings about an entry, oldest first."""
    rows = _FINDINGS.rows(connection, entry=entry)
    return [ListingFinding(entry, row.run, row.at, row.shown, bool(row.counts), row.text) for row in rows]


_INSERT_FINDING = Statement(
    """
    insert into findings (entry_id, run_id, at, shown, counts, text)
    values (:entry, :run, :at, :shown, :counts, :text)
    """
)
_IF_UNKNOWN = Statement("select problems from entries where id = :entry and state = 'unknown'")
_SET_PROBLEMS = Statement("update entries set problems = :problems where id = :entry")
_FINDINGS = Statement(
    """
    select runs.name as run, findings.at, findings.shown, findings.counts, findings.text
    from findings join runs on runs.id = findings.run_id where findings.entry_id = :entry order by findings.id
    """
)

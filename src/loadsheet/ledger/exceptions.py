"""Exceptions: entries that need or needed someone, rolled forward from run to run, and what the analyst wrote beside them.

Owns: the statements on `exceptions` and `remarks`, and which workbooks were read back. What makes an entry an exception, and what
closes it, is decided elsewhere. Opens no transaction: the verbs of `Ledger` do.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, desc, func, insert, or_, select, update

from loadsheet.annotation_sheet import OPEN, WORDS
from loadsheet.contract import Difference
from loadsheet.ledger import codec
from loadsheet.ledger.schema import drops, exceptions, remarks, runs
from loadsheet.ledger.statements import FETCH, Statement, store_value, stored_value
from loadsheet.ledger.states import Run

_OURSELVES = "loadsheet"
_READ = "workbooks_read"
_found = msgspec.json.Decoder(tuple[Difference, ...]).decode


class ExceptionStatus(NamedTuple):
    """How an exception stands: its entry, the run that first named it and when that was (ISO 8601 UTC), its last verdict
    and which fields differ; why it is closed (empty: it is open), and the run that closed it.
    """

    entry: int
    run: str
    opened_at: str
    verdict: str
    found: tuple[Difference, ...] = ()
    closed: str = ""
    closed_run: str = ""

    @property
    def finding(self) -> tuple[str, tuple[Difference, ...]]:
        """The verdict on it, with the fields that differ."""
        return self.verdict, self.found


class Remark(NamedTuple):
    """One word of the analyst: to which entry, what it is (owner, reason, comment or status) and what it says, by whom and when (ISO 8601 UTC)."""

    entry: int
    name: str
    value: str
    who: str
    at: str


class WorkbookRead(NamedTuple):
    """A workbook as it was read back: when it was saved (ns), and for the entries beside which it did not say any more what was written
    into it, a digest of what it said.
    """

    saved_ns: int
    edited: dict[int, str]


def statuses_at(connection: Connection, run: Run) -> list[ExceptionStatus]:
    """The exceptions that were open when a run began, or opened by it, oldest first; the ones it closed are listed as closed."""
    known = (exceptions.c.run_id <= run.id) & or_(
        exceptions.c.closed_run_id.is_(None), exceptions.c.closed_run_id >= run.id
    )
    ordered = _STATUSES.where(known).order_by(exceptions.c.opened_at, exceptions.c.entry_id)
    return [_status(row) for row in connection.execute(ordered)]


def statuses_of(connection: Connection, wanted: Sequence[int]) -> dict[int, ExceptionStatus]:
    """How the exceptions of these entries stand, as far as they ever were one."""
    return {row.entry_id: _status(row) for row in _STATUSES_OF.rows_of(connection, wanted)}


def latest_remarks(connection: Connection, wanted: Sequence[int]) -> dict[int, dict[str, Remark]]:
    """The latest remark of each name on each of these entries."""
    found: dict[int, dict[str, Remark]] = {}
    for row in sorted(_REMARKS.rows_of(connection, wanted)):
        found.setdefault(row.entry_id, {})[row.name] = Remark(row.entry_id, row.name, row.value, row.who, row.at)
    return found


def origins_of(connection: Connection, wanted: Sequence[int]) -> dict[int, tuple[int, int]]:
    """For each of these entries its drop, and the first one that this is a fix of, or a fix of a fix of (itself, if it is none)."""
    fixed = {row.id: row.fixes for row in connection.execute(_FIXES)}

    def root(drop: int) -> int:
        while drop in fixed:
            drop = fixed[drop]
        return drop

    return {row.id: (row.drop_id, root(row.drop_id)) for row in _DROPS.rows_of(connection, wanted)}


def owners(connection: Connection) -> list[str]:
    """Everybody who was ever named as an owner, the latest first."""
    named = select(remarks.c.value).where(remarks.c.name == "owner", remarks.c.value != "")
    return list(connection.scalars(named.group_by(remarks.c.value).order_by(desc(func.max(remarks.c.id)))))


def record_exceptions(connection: Connection, run: Run, statuses: Iterable[ExceptionStatus], now: str) -> None:
    """Record how exceptions stand after a run; where it is not what the analyst closed, its status
    is open again.
    """
    stream = iter(statuses)
    while some := list(islice(stream, FETCH)):
        kept = statuses_of(connection, [one.entry for one in some])
        new = [one for one in some if one.entry not in kept]
        changed = [one for one in some if one.entry in kept and _differs(one, kept[one.entry])]
        if new:
            connection.execute(insert(exceptions), [_row(run, one, now) for one in new])
        for one in changed:
            values = {**_finding_values(one), **_closing(run, one, now)}
            connection.execute(update(exceptions).where(exceptions.c.entry_id == one.entry).values(values))
        again = [one.entry for one in changed if not one.closed and one.finding != kept[one.entry].finding]
        latest = latest_remarks(connection, again)
        meant_otherwise = [
            entry for entry in again if "status" in latest.get(entry, {}) and latest[entry]["status"].value in WORDS
        ]
        add_remarks(connection, [Remark(entry, "status", OPEN, _OURSELVES, now) for entry in meant_otherwise])


def keep_remarks(connection: Connection, new_remarks: Sequence[Remark]) -> int:
    """Record remarks on entries that are exceptions, as far as they are news and no later remark exists; returns how many
    that are. A closed exception whose status is set back is open again.
    """
    statuses = statuses_of(connection, sorted({one.entry for one in new_remarks}))
    before = latest_remarks(connection, list(statuses))
    news = [
        one for one in new_remarks if one.entry in statuses and _is_news(one, before.get(one.entry, {}).get(one.name))
    ]
    add_remarks(connection, news)
    back = [one.entry for one in news if one.name == "status" and one.value not in WORDS]
    for entry in back:
        if statuses[entry].closed in WORDS:
            reopened = {"closed_run_id": None, "closed_at": "", "closed_because": ""}
            connection.execute(update(exceptions).where(exceptions.c.entry_id == entry).values(reopened))
    return len(news)


def add_remarks(connection: Connection, new_remarks: Sequence[Remark]) -> None:
    """Record remarks as they are."""
    if new_remarks:
        rows = [
            {"entry_id": one.entry, "at": one.at, "who": one.who, "name": one.name, "value": one.value}
            for one in new_remarks
        ]
        connection.execute(insert(remarks), rows)


def workbooks_read(connection: Connection) -> dict[str, WorkbookRead]:
    """The workbooks that were read back, by name, as they were then."""
    return _workbooks(stored_value(connection, _READ) or codec.NOTHING)


def note_workbooks(connection: Connection, read: Mapping[str, WorkbookRead]) -> None:
    """Record which workbooks were read back."""
    store_value(connection, _READ, codec.encode(read))


_workbooks = msgspec.json.Decoder(dict[str, WorkbookRead]).decode
_first, _last = runs.alias(), runs.alias()
_STATUSES = (
    select(exceptions, _first.c.name.label("run"), _last.c.name.label("closed_run"))
    .join(_first, _first.c.id == exceptions.c.run_id)
    .outerjoin(_last, _last.c.id == exceptions.c.closed_run_id)
)
_STATUSES_OF = Statement(
    """
    select exceptions.*, first.name as run, last.name as closed_run from exceptions
    join runs first on first.id = exceptions.run_id
    left join runs last on last.id = exceptions.closed_run_id
    where exceptions.entry_id in (:wanted)
    """
)
_DROPS = Statement("select id, drop_id from entries where id in (:wanted)")
_FIXES = select(drops.c.id, drops.c.fixes).where(drops.c.fixes < drops.c.id)
_REMARKS = Statement("select id, entry_id, name, value, who, at from remarks where entry_id in (:wanted)")


def _status(row: Any) -> ExceptionStatus:
    found = _found(row.found) if row.found != "[]" else ()
    return ExceptionStatus(
        row.entry_id, row.run, row.opened_at, row.verdict, found, row.closed_because, row.closed_run or ""
    )


def _differs(one: ExceptionStatus, kept: ExceptionStatus) -> bool:
    return (one.finding, one.closed) != (kept.finding, kept.closed)


def _row(run: Run, one: ExceptionStatus, now: str) -> dict[str, Any]:
    return {
        "entry_id": one.entry,
        "run_id": run.id,
        "opened_at": one.opened_at,
        **_finding_values(one),
        **_closing(run, one, now),
    }


def _finding_values(one: ExceptionStatus) -> dict[str, Any]:
    return {"verdict": str(one.verdict), "found": codec.encode(one.found)}


def _closing(run: Run, one: ExceptionStatus, now: str) -> dict[str, Any]:
    if not one.closed:
        return {"closed_run_id": None, "closed_at": "", "closed_because": ""}
    return {"closed_run_id": run.id, "closed_at": now, "closed_because": one.closed}


def _is_news(one: Remark, before: Remark | None) -> bool:
    if before is None:
        return one.value != (OPEN if one.name == "status" else "")
    return one.value != before.value and one.at >= before.at

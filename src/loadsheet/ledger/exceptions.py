"""Exceptions: entries that need or needed someone, rolled forward from run to run, and what the analyst wrote beside them.

Owns: the statements on `exceptions` and `remarks`, and which workbooks were read back. What makes an entry an exception, and what
closes it, is decided elsewhere. Opens no transaction: the verbs of `Ledger` do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, desc, func, insert, or_, select, update

from loadsheet.annotation_sheet import OPEN, WORDS
from loadsheet.contract import Difference
from loadsheet.ledger import codec
from loadsheet.ledger.schema import drops, entries, exceptions, meta, remarks, runs
from loadsheet.ledger.statements import Chosen
from loadsheet.ledger.states import Run

_OURSELVES = "loadsheet"
_CHUNK = 500
_T = TypeVar("_T")
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
    into it, a mark of what it said.
    """

    saved_ns: int
    edited: dict[int, str]


def statuses_at(connection: Connection, run: Run) -> list[ExceptionStatus]:
    """The exceptions that were open when a run began, or opened by it, oldest first; the ones it closed are listed as closed."""
    known = (exceptions.c.run_id <= run.id) & or_(
        exceptions.c.closed_run_id.is_(None), exceptions.c.closed_run_id >= run.id
    )
    ordered = _STANDINGS.where(known).order_by(exceptions.c.opened_at, exceptions.c.entry_id)
    return [_standing(row) for row in connection.execute(ordered)]


def statuses_of(connection: Connection, wanted: Sequence[int]) -> dict[int, ExceptionStatus]:
    """How the exceptions of these entries stand, as far as they ever were one."""
    return {row.entry_id: _standing(row) for row in _OF_ENTRIES.rows(connection, wanted)}


def latest_remarks(connection: Connection, wanted: Sequence[int]) -> dict[int, dict[str, Remark]]:
    """The latest remark of each name on each of these entries."""
    found: dict[int, dict[str, Remark]] = {}
    for row in sorted(_REMARKS.rows(connection, wanted)):
        found.setdefault(row.entry_id, {})[row.name] = Remark(row.entry_id, row.name, row.value, row.who, row.at)
    return found


def origins_of(connection: Connection, wanted: Sequence[int]) -> dict[int, tuple[int, int]]:
    """For each of these entries its drop, and the first one that this is a fix of, or a fix of a fix of (itself, if it is none)."""
    fixed = {row.id: row.fixes for row in connection.execute(_FIXES)}

    def root(drop: int) -> int:
        while drop in fixed:
            drop = fixed[drop]
        return drop

    return {row.id: (row.drop_id, root(row.drop_id)) for row in _DROPS.rows(connection, wanted)}


def owners(connection: Connection) -> list[str]:
    """Everybody who was ever named as an owner, the latest first."""
    named = select(remarks.c.value).where(remarks.c.name == "owner", remarks.c.value != "")
    return list(connection.scalars(named.group_by(remarks.c.value).order_by(desc(func.max(remarks.c.id)))))


def record_exceptions(connection: Connection, run: Run, standings: Iterable[ExceptionStatus], now: str) -> None:
    """Record how exceptions stand after a run; where it is not what the analyst closed, its status
    is open again.
    """
    stream = iter(standings)
    while some := list(islice(stream, _CHUNK)):
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
    """Record remarks on entries that are exceptions, as far as they are news and nobody said anything later; returns how many
    that are. A closed exception whose status is set back is open again.
    """
    standings = statuses_of(connection, sorted({one.entry for one in new_remarks}))
    before = latest_remarks(connection, list(standings))
    news = [
        one for one in new_remarks if one.entry in standings and _is_news(one, before.get(one.entry, {}).get(one.name))
    ]
    add_remarks(connection, news)
    back = [one.entry for one in news if one.name == "status" and one.value not in WORDS]
    for entry in back:
        if standings[entry].closed in WORDS:
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
    return _workbooks(connection.scalar(select(meta.c.value).where(meta.c.name == _READ)) or codec.NOTHING)


def note_workbooks(connection: Connection, read: Mapping[str, WorkbookRead]) -> None:
    """Record which workbooks were read back."""
    value = codec.encode(read)
    changed = connection.execute(update(meta).where(meta.c.name == _READ).values(value=value))
    if not changed.rowcount:
        connection.execute(insert(meta).values(name=_READ, value=value))


def chunks(wanted: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Entries, or names, in parts that one query can take."""
    for start in range(0, len(wanted), _CHUNK):
        yield wanted[start : start + _CHUNK]


_workbooks = msgspec.json.Decoder(dict[str, WorkbookRead]).decode
_first, _last = runs.alias(), runs.alias()
_STANDINGS = (
    select(exceptions, _first.c.name.label("run"), _last.c.name.label("closed_run"))
    .join(_first, _first.c.id == exceptions.c.run_id)
    .outerjoin(_last, _last.c.id == exceptions.c.closed_run_id)
)
_OF_ENTRIES = Chosen(_STANDINGS, exceptions.c.entry_id)
_DROPS = Chosen(select(entries.c.id, entries.c.drop_id), entries.c.id)
_FIXES = select(drops.c.id, drops.c.fixes).where(drops.c.fixes < drops.c.id)
_REMARKS = Chosen(select(remarks), remarks.c.entry_id)


def _standing(row: Any) -> ExceptionStatus:
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

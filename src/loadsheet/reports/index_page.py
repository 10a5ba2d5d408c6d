"""`index.html`: the runs of an outbox, newest first, and the workers of a shared ledger.

Reads the `run.json` of the newest runs only, so the cost does not grow over the years. Deleted folders are left out.
A folder whose `run.json` cannot be read is listed and says so. If the workers cannot be read, the page is written
without them. A page belongs to one shipper and shows other shippers' work only as "other work".
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from markupsafe import Markup

from loadsheet.ledger import ExceptionStatus, Run
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import LedgerError
from loadsheet.reconcile import AGREES, Exceptions, Verdict
from loadsheet.reports.document_details import anchor, tone_of
from loadsheet.reports.html_rendering import Layer, columns, page
from loadsheet.reports.report_files import placed
from loadsheet.reports.run_document import SUMMARY
from loadsheet.reports.run_page import CODES, PAGE, run_verdict
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.ledger.shared.cluster_status import ClusterStatus, Worker

INDEX = "index.html"
WORKERS_SHOWN = 25
_TONES = {"lives": "good", "silent": "bad", "ended": "plain"}
_MINUTE_S = 60
_OTHERS = "other work"


class WorkerLine(NamedTuple):
    """A worker as a line; `tone` is the colour of its state."""

    name: str
    state: str
    tone: str
    seen: str
    doing: str
    done: int


class FleetStatus(NamedTuple):
    """The fleet as shown: when it was read (ISO 8601 UTC), the number of live workers, some of them, this shipper's
    backlog and its age in minutes, and the number of takeovers of its ledger within a day.
    """

    at: str
    alive: int
    workers: Sequence[WorkerLine]
    more: int
    waiting: int
    under_way: int
    oldest_min: int
    takeovers: int


def fleet_status(settings: Settings) -> FleetStatus | None:
    """The fleet as this shipper's page shows it; None if the ledger is not shared or the fleet cannot be read."""
    if not settings.is_shared:
        return None
    from loadsheet.ledger.shared.cluster_status import cluster_status

    try:
        fleet = cluster_status(settings)
    except LedgerError:
        return None
    return None if fleet is None else fleet_shown(fleet, settings.shipper)


def fleet_shown(fleet: "ClusterStatus", shipper: str) -> FleetStatus:
    """The part of a fleet that this shipper's page shows (empty: the only shipper)."""
    queue = [one for one in fleet.queue if one.shipper == shipper]
    taken = [one for one in fleet.takeovers if one.shipper == shipper]
    return FleetStatus(
        stamp(fleet.at),
        fleet.alive,
        [_worker_line(one, shipper) for one in fleet.workers[:WORKERS_SHOWN]],
        max(0, len(fleet.workers) - WORKERS_SHOWN),
        sum(one.waiting for one in queue),
        sum(one.under_way for one in queue),
        round(max((one.oldest_s for one in queue), default=0.0) / _MINUTE_S),
        len(taken),
    )


def _worker_line(one: "Worker", shipper: str) -> WorkerLine:
    activities = {what if not shipper else _activity(what, shipper): None for what in one.doing}
    doing = ", ".join(activities) if one.alive else ""
    return WorkerLine(one.name, one.state, _TONES[one.state], stamp(one.seen), doing or "nothing", one.done)


def _activity(what: str, shipper: str) -> str:
    """What a worker does, without details of other shippers."""
    owner, _, more = what.partition(" ")
    return more if owner == shipper else _OTHERS


_RUNS_CHARTED = 30
_RUNS_LINKED = 20  # runs whose reports are all linked; older runs link only the page and the workbook
_LINKS_MAX = 60
_OPEN_SHOWN = 25
_FIRST = re.compile(r"run\.html|reconciliation[^/]*\.xlsx")
_RUN = re.compile(r"(\d{4}-\d\d-\d\d)(?:-(\d+))?", re.ASCII)


class _Needing(msgspec.Struct):
    entries: int = 0


class _Balance(msgspec.Struct):
    balances: bool = True
    read: int = 0


class _Summary(msgspec.Struct):
    """The part of a `run.json` that the index shows."""

    run: str
    started_at: str = ""
    exit_code: int | None = None
    balance: _Balance = msgspec.field(default_factory=_Balance)
    verdicts: dict[str, int] = {}
    needs_someone: _Needing = msgspec.field(default_factory=_Needing)
    reports: tuple[str, ...] = ()


class RunLine(NamedTuple):
    """A run as a line. `verdict` is a word or two, `tone` its colour, and `says` a sentence."""

    name: str
    started_at: str
    verdict: str
    tone: str
    says: str
    rows: int
    documents: int
    agreeing: int
    needing: int
    exit_code: str
    workbook: str
    reports: Sequence[str]
    more: int


class OpenLine(NamedTuple):
    """An open exception: key, verdict, first date and run, and its place on that run's page, if any."""

    key: str
    operation: str
    verdict: str
    tone: str
    since: str
    run: str
    place: str


def write_index(
    settings: Settings, queries: LedgerQueries, run: Run, exceptions: Exceptions, *, fleet: FleetStatus | None = None
) -> None:
    """Write the index of the newest runs. `exceptions` are those of this run, which may not be in the ledger yet. If
    the reports are only rewritten, the ledger's open exceptions are used. `fleet` is the last known state, if any.
    """
    outbox, runs_max = settings.outbox_here, settings.reports.index_runs_max
    names, days = _folders(outbox)
    lines = [_line(outbox, name, linked=place < _RUNS_LINKED) for place, name in enumerate(names[:runs_max])]
    newest = queries.runs(1)
    known = exceptions.standings if newest and newest[0].id == run.id else queries.exceptions_at(newest[0])
    still_open = [one for one in known if not one.closed]
    values = {
        "runs": lines,
        "days": [
            day
            for day in dict.fromkeys(line.name[:10] for line in lines)
            if day in days and (outbox / day / PAGE).is_file()
        ],
        "more": len(names) - len(lines),
        "chart": _chart(lines),
        "fleet": fleet,
        "open": list(_open_lines(outbox, queries, still_open[:_OPEN_SHOWN])),
        "open_in_all": len(still_open),
        "open_by_verdict": [
            (verdict, count, tone_of(Verdict(verdict)))
            for verdict, count in Counter(one.verdict for one in still_open).most_common()
        ],
    }
    with placed(outbox / INDEX) as target:
        target.write_bytes(page("index.html", values))


def _folders(outbox: Path) -> tuple[list[str], set[str]]:
    """The folders of runs, newest first, and those of whole days."""
    with os.scandir(outbox) as found:
        named = [match for entry in found if (match := _RUN.fullmatch(entry.name)) and entry.is_dir()]
    runs = [match for match in named if match[2]]
    newest_first = sorted(runs, key=lambda match: (match[1], int(match[2])), reverse=True)
    return [match[0] for match in newest_first], {match[0] for match in named if not match[2]}


def _line(outbox: Path, name: str, *, linked: bool) -> RunLine:
    try:
        summary = _decode((outbox / name / SUMMARY).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return RunLine(
            name, "", "unknown", "plain", "its run.json is missing or cannot be read", 0, 0, 0, 0, "", "", (), 0
        )
    documents = sum(summary.verdicts.values())
    agreeing = sum(summary.verdicts.get(verdict, 0) for verdict in AGREES)
    needing = summary.needs_someone.entries
    verdict = run_verdict(
        balances=summary.balance.balances, exit_code=summary.exit_code, needing=needing, documents=documents
    )
    reports = [name for name in summary.reports if _FIRST.fullmatch(name) or (linked and "/" not in name)]
    code = "" if summary.exit_code is None else f"{summary.exit_code} {CODES.get(summary.exit_code, '')}".strip()
    says = (
        f"{agreeing:,} of {documents:,} documents agree"
        if documents
        else f"{summary.balance.read:,} rows read, no document"
    )
    return RunLine(
        name,
        summary.started_at,
        verdict.text,
        verdict.tone,
        says,
        summary.balance.read,
        documents,
        agreeing,
        needing,
        code,
        next((name for name in reports if name.endswith(".xlsx") and _FIRST.fullmatch(name)), ""),
        reports[:_LINKS_MAX],
        max(0, len(reports) - _LINKS_MAX),
    )


_decode = msgspec.json.Decoder(_Summary).decode


def _has_page(folder: Path) -> bool:
    """Whether a run has a page, here or published by another machine."""
    if (folder / PAGE).is_file():
        return True
    try:
        return not folder.is_dir() or PAGE in _decode((folder / SUMMARY).read_bytes()).reports
    except (OSError, msgspec.MsgspecError):
        return False


def _chart(lines: Sequence[RunLine]) -> Markup:
    """A chart of the latest runs that had documents, oldest first."""
    shown = [line for line in lines if line.documents][:_RUNS_CHARTED][::-1]
    rest = [line.documents - line.agreeing - line.needing for line in shown]
    layers = [
        Layer("agree", "good", [line.agreeing for line in shown]),
        Layer("wait or cannot be verified", "note", rest),
        Layer("need attention", "bad", [line.needing for line in shown]),
    ]
    layers = [layer for layer in layers if any(layer.counts)]
    title = f"Documents of the latest {len(shown)} runs by outcome; the table of runs has the same numbers"
    return columns(title, [line.name[5:] for line in shown], layers) if layers else Markup("")


def _open_lines(outbox: Path, queries: LedgerQueries, standings: Sequence[ExceptionStatus]) -> Iterator[OpenLine]:
    for standing, entry in zip(standings, queries.entries_by_id([one.entry for one in standings]), strict=True):
        has_page = _has_page(outbox / standing.run)
        yield OpenLine(
            entry.key,
            entry.operation,
            standing.verdict,
            tone_of(Verdict(standing.verdict)),
            standing.opened_at,
            standing.run,
            f"{standing.run}/{PAGE}#{anchor(entry.key)}" if has_page else "",
        )

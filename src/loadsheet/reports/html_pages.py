"""HTML pages: rendering of templates, and `index.html` with the runs of an outbox.

Owns the templates folder, and renders standalone files: escaping, charts, and a policy that allows only the file's own
style and script. Charts are SVG without style and script, so the policy holds. Their colours follow the page, light or
dark.

The index shows runs newest first, and the workers of a shared ledger. It reads the `run.json` of the newest runs only,
so the cost does not grow over the years. Deleted folders are left out. A folder whose `run.json` cannot be read is
listed and says so. If the workers cannot be read, the page is written without them. A page belongs to one shipper and
shows other shippers' work only as "other work".
"""

import base64
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec
from jinja2 import Environment
from markupsafe import Markup

from loadsheet import exit_codes
from loadsheet.display_text import capitalized, count_of, templates_of
from loadsheet.errors import LedgerError
from loadsheet.ledger import ExceptionStatus, Run
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile import AGREES, VERDICTS_THAT_NEED_SOMEONE, Exceptions, Verdict
from loadsheet.reports.report_files import written_atomically
from loadsheet.reports.run_document import SUMMARY, Headline
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.ledger.shared.cluster_status import ClusterStatus, Worker


_TEXT_MAX = 240  # shown characters of a cell or value


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render part of a page from its template; every value is escaped. Raises UndefinedError for a missing value."""
    return _environment().get_template(template).render(values)


def render_page(template: str, values: Mapping[str, Any]) -> bytes:
    """Render a whole page to the bytes of its file (UTF-8)."""
    style, script = _file("style.css"), _file("script.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    trusted = {"style": Markup(style), "script": Markup(script), "policy": policy}  # noqa: S704 (our own files, not a value)
    return render(template, {**values, **trusted}).encode("utf-8", "replace")


def render_part(template: str, values: Mapping[str, Any]) -> Markup:
    """Render a part that another template includes unchanged."""
    return Markup(render(template, values))  # noqa: S704 (the template escaped every value)


def compile_templates() -> None:
    """Compile all templates now instead of on first use."""
    for name in _environment().list_templates(extensions=["html"]):
        _environment().get_template(name)


def clean(text: str) -> str:
    """A foreign text for a page, cut if it is very long."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]} … ({len(text):,} characters)"


@cache
def _environment() -> Environment:
    filters: dict[str, Callable[..., object]] = {
        "count": "{:,}".format,
        "count_of": count_of,
        "clean": clean,
        "href": quote,
        "place": _place,
        "moment": lambda text: text[:19].replace("T", " "),  # ISO 8601 UTC
        "figure": _figure,
        "sentence": capitalized,
    }
    return templates_of("loadsheet.reports", filters)


@cache
def _file(name: str) -> str:
    return (resources.files("loadsheet.reports") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _figure(number: Decimal) -> str:
    """A number with thousands separators and no trailing zeros."""
    text = f"{number:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _place(text: str) -> str:
    """A link to an anchor in another file."""
    file, _, anchor = text.partition("#")
    return f"{quote(file)}#{quote(anchor)}"


_LABELS_MAX = 5
_ROUND = (1, 2, 5, 10)


class Layer(NamedTuple):
    """One layer of stacked columns: its name, its tone, and its height in each column."""

    name: str
    tone: str
    counts: Sequence[int]


def stacked_columns(title: str, labels: Sequence[str], layers: Sequence[Layer]) -> Markup:
    """Stacked columns, bottom up, with a legend. Empty if all columns are empty."""
    most = max((sum(counts) for counts in zip(*(layer.counts for layer in layers), strict=True)), default=0)
    if not most:
        return Markup("")
    every = -(-len(labels) // _LABELS_MAX)
    return render_part(
        "columns.html", {"title": title, "labels": labels, "every": every, "layers": layers, "ticks": _ticks(most)}
    )


def _ticks(most: int) -> list[int]:
    """Three to six round numbers from zero to at least the greatest value."""
    step = 1
    while step * 5 < most:
        step = next(
            size
            for size in (digit * 10**power for power in range(len(str(most)) + 1) for digit in _ROUND)
            if size > step
        )
    return list(range(0, most + step, step))


PAGE = "run.html"
_UNSAFE = re.compile(r"[^\w.~-]")

CODES = {
    exit_codes.DONE: "clean",
    exit_codes.NEEDS_SOMEONE: "needs attention",
    exit_codes.NOTHING_USABLE: "nothing usable",
    exit_codes.INTERNAL_ERROR: "a fault of loadsheet",
    exit_codes.TRY_AGAIN: "stopped early; try again",
    exit_codes.TOKEN_REFUSED: "stopped early; token refused",
    exit_codes.CONFIG_WRONG: "settings wrong",
}
"""Exit codes in words."""


def anchor(key: str) -> str:
    """The anchor of the first document with a key: the key, with `_` for characters that a URL would escape."""
    return _UNSAFE.sub("_", key) or "_"


def tone_of(verdict: Verdict) -> str:
    """The colour of a verdict; its name is always shown too."""
    return "good" if verdict in AGREES else "bad" if verdict in VERDICTS_THAT_NEED_SOMEONE else "note"


INDEX = "index.html"
WORKERS_SHOWN = 25
_TONES = {"lives": "good", "silent": "bad", "ended": "plain"}
_MINUTE_S = 60
_OTHERS = "other work"


def cluster_summary(settings: Settings) -> dict[str, Any] | None:
    """The cluster as this shipper's page shows it; None if the ledger is not shared or the cluster cannot be read."""
    if not settings.is_shared:
        return None
    from loadsheet.ledger.shared.cluster_status import cluster_status

    try:
        cluster = cluster_status(settings)
    except LedgerError:
        return None
    return None if cluster is None else cluster_as_shown(cluster, settings.shipper)


def cluster_as_shown(cluster: "ClusterStatus", shipper: str) -> dict[str, Any]:
    """The part of a cluster that this shipper's page shows (empty: the only shipper): when it was read (ISO 8601 UTC), the
    number of live workers, some of them, this shipper's backlog and its age in minutes, and the number of takeovers of
    its ledger within a day.
    """
    queue = [one for one in cluster.queue if one.shipper == shipper]
    return {
        "at": stamp(cluster.at),
        "alive": cluster.alive,
        "workers": [_worker_line(one, shipper) for one in cluster.workers[:WORKERS_SHOWN]],
        "more": max(0, len(cluster.workers) - WORKERS_SHOWN),
        "waiting": sum(one.waiting for one in queue),
        "under_way": sum(one.under_way for one in queue),
        "oldest_min": round(max((one.oldest_s for one in queue), default=0.0) / _MINUTE_S),
        "takeovers": sum(one.shipper == shipper for one in cluster.takeovers),
    }


def _worker_line(one: "Worker", shipper: str) -> dict[str, Any]:
    """A worker as a line, without details of other shippers."""
    activities = []
    for what in one.doing if one.alive else ():
        owner, _, more = what.partition(" ")
        activities.append(what if not shipper else more if owner == shipper else _OTHERS)
    doing = ", ".join(dict.fromkeys(activities)) or "nothing"
    seen = stamp(one.seen)
    return {
        "name": one.name,
        "state": one.state,
        "tone": _TONES[one.state],
        "seen": seen,
        "doing": doing,
        "done": one.done,
    }


_RUNS_CHARTED_MIN, _RUNS_CHARTED = 3, 30
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
    headline: Headline = Headline()
    reports: tuple[str, ...] = ()


class RunLine(NamedTuple):
    """A run as a line. `verdict` is its headline, `tone` the colour."""

    name: str
    started_at: str
    verdict: str
    tone: str
    rows: int
    documents: int
    agreeing: int
    needing: int
    exit_code: str
    workbook: str
    reports: Sequence[str]
    more: int


def write_index(
    settings: Settings, queries: LedgerQueries, run: Run, exceptions: Exceptions, *, fleet: dict[str, Any] | None = None
) -> None:
    """Write the index of the newest runs. `exceptions` are those of this run, which may not be in the ledger yet. If
    the reports are only rewritten, the ledger's open exceptions are used. `fleet` is the last known state, if any.
    """
    outbox, runs_max = settings.outbox_here, settings.reports.index_runs_max
    with os.scandir(outbox) as found:
        folders = [match for entry in found if (match := _RUN.fullmatch(entry.name)) and entry.is_dir()]
    runs = sorted((one for one in folders if one[2]), key=lambda one: (one[1], int(one[2])), reverse=True)
    names, days = [one[0] for one in runs], {one[0] for one in folders if not one[2]}
    lines = [_line(outbox, name, linked=place < _RUNS_LINKED) for place, name in enumerate(names[:runs_max])]
    newest = queries.runs(1)
    known = exceptions.statuses if newest and newest[0].id == run.id else queries.exceptions_at(newest[0])
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
        "open": list(_open_lines(settings, queries, still_open[:_OPEN_SHOWN])),
        "open_in_all": len(still_open),
        "open_by_verdict": [
            (verdict, count, tone_of(Verdict(verdict)))
            for verdict, count in Counter(one.verdict for one in still_open).most_common()
        ],
    }
    with written_atomically(outbox / INDEX) as target:
        target.write_bytes(render_page("index.html", values))


def _line(outbox: Path, name: str, *, linked: bool) -> RunLine:
    try:
        summary = _decode((outbox / name / SUMMARY).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return RunLine(name, "", "its run.json is missing or cannot be read", "plain", 0, 0, 0, 0, "", "", (), 0)
    documents = sum(summary.verdicts.values())
    agreeing = sum(summary.verdicts.get(verdict, 0) for verdict in AGREES)
    needing = summary.needs_someone.entries
    reports = [name for name in summary.reports if _FIRST.fullmatch(name) or (linked and "/" not in name)]
    code = "" if summary.exit_code is None else f"{summary.exit_code} {CODES.get(summary.exit_code, '')}".strip()
    return RunLine(
        name,
        summary.started_at,
        summary.headline.text or CODES.get(summary.exit_code or 0, f"exit code {summary.exit_code}"),
        summary.headline.tone or ("note" if summary.exit_code else "plain"),
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


def _has_page(settings: Settings, run: str) -> bool:
    """Whether a run has a page: here or, if reports are uploaded, published by another machine."""
    folder = settings.outbox_here / run
    if (folder / PAGE).is_file():
        return True
    if not folder.is_dir():
        return bool(settings.outbox_address)
    try:
        return PAGE in _decode((folder / SUMMARY).read_bytes()).reports
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
    enough = layers and len(shown) >= _RUNS_CHARTED_MIN
    return stacked_columns(title, [line.name[5:] for line in shown], layers) if enough else Markup("")


def _open_lines(
    settings: Settings, queries: LedgerQueries, statuses: Sequence[ExceptionStatus]
) -> Iterator[dict[str, str]]:
    """Open exceptions, each with its place on the page of the run in which it came last, if there is a page."""
    latest = list(queries.entries_by_id([one.latest for one in statuses]))
    for status, entry, drop in zip(statuses, latest, queries.drops_by_id(entry.drop for entry in latest), strict=True):
        run = drop.run
        yield {
            "key": entry.key,
            "operation": entry.operation,
            "verdict": status.verdict,
            "tone": tone_of(Verdict(status.verdict)),
            "since": status.opened_at,
            "place": f"{run}/{PAGE}#{anchor(entry.key)}" if _has_page(settings, run) else "",
        }

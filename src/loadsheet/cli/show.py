"""`loadsheet show` and `runs`: show the content of the ledger, down to the origin of a single value."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from loadsheet import exit_codes
from loadsheet.cli.access import ledger_to_read
from loadsheet.cli.completion import keys_and_runs
from loadsheet.cli.options import (
    CONFIG,
    JSON,
    MAPPINGS,
    OUTBOX,
    STATE,
    load_each,
    settings_or_raise,
    together,
    with_settings,
)
from loadsheet.cli.output import local_time, print_json, print_lines, print_table, say
from loadsheet.ledger import Drop, Entry, ExceptionStatus, Ledger, Run, reported_by
from loadsheet.ledger import Origin as LedgerOrigin
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.documents import JOINT
from loadsheet.problems import LedgerError, LoadsheetError, SettingsError, Where
from loadsheet.settings import Settings
from loadsheet.settings.places import from_stored_path
from loadsheet.settings.places import shown as place_shown

if TYPE_CHECKING:
    from loadsheet.mapping import Mapping

NOTHING_KNOWN = 1
_RUNS_SEARCHED = 100_000
_PLACE = ("what", "name", "place")
_RUN = re.compile(r"\d{4}-\d\d-\d\d-\d+")
_OUTCOMES: dict[str, frozenset[int | None]] = {
    "clean": frozenset({exit_codes.DONE}),
    "needs-attention": frozenset({exit_codes.NEEDS_SOMEONE}),
    "nothing-usable": frozenset({exit_codes.NOTHING_USABLE}),
    "try-again": frozenset({exit_codes.TRY_AGAIN}),
    "token-refused": frozenset({exit_codes.TOKEN_REFUSED}),
    "settings-wrong": frozenset({exit_codes.CONFIG_WRONG}),
    "internal-error": frozenset({exit_codes.INTERNAL_ERROR}),
    "not-finished": frozenset({None, exit_codes.INTERRUPTED, exit_codes.TERMINATED}),
}


@click.command()
@click.argument("key", metavar="KEY|RUN", shell_complete=keys_and_runs)
@click.option("--payload", is_flag=True, help="Also show the payload.")
@click.option(
    "--field", metavar="PATH", help="Trace one value, such as packages[0].weight, from its cell to the payload."
)
@with_settings(MAPPINGS, OUTBOX, STATE)
@JSON
def show(*, settings: Settings, key: str, payload: bool, field: str | None, as_json: bool) -> int:
    """Show everything known about one order or tender, newest first: its cells, what was sent, and what the exchange answered.
    For a RUN, such as 2026-03-04-01: its verdict, files and problems, and where everything is.
    """
    with ledger_to_read(settings) as ledger:
        entries = ledger.queries.entries_by_key(key)
        if not entries and (run := next((one for one in ledger.queries.runs_named(key) if one.name == key), None)):
            return _show_run(settings, ledger, run, as_json=as_json)
        if field is not None:
            described = _field_details(ledger, entries, field, settings)
        else:
            standings = ledger.queries.exceptions_of([entry.id for entry in entries])
            described = [_entry_json(ledger, entry, standings.get(entry.id)) for entry in entries]
    if as_json:
        print_json(described)
    elif described and field is not None:
        print_lines(["\n\n".join(map(_field_text, described))])
    elif described:
        newest_first = reversed(described)  # the first line is how it stands now
        print_lines(["\n\n".join(_entry_text(entry, payload=payload) for entry in newest_first)])
    else:
        is_run = _RUN.fullmatch(key) is not None
        say(f"there is no run {key}; `loadsheet runs` lists them" if is_run else f"nothing is known about {key}")
    return 0 if described else NOTHING_KNOWN


def _show_run(settings: Settings, ledger: Ledger, run: Run, *, as_json: bool) -> int:
    """Print what is known about a run. Without its reports, its verdict is the one in the ledger."""
    from loadsheet.reports import read_written

    written, places = read_written(settings, run.name), list(_places(settings, ledger, run))
    if as_json:
        reports = [str(path) for path in written.paths] if written else []
        print_json(
            {**_run_json(run), "reports": reports, "places": [dict(zip(_PLACE, one, strict=True)) for one in places]}
        )
        return 0
    if written is not None:
        print_lines(written.lines(verbose=True))
    else:
        print_lines([f"{run.name}: {_result(run.summary) or 'it did not finish'}"])
        say(
            f"its reports are not in {place_shown(settings.outbox)}: loadsheet report --run {run.name} writes them again"
        )
    print_lines(["", *(f"  {what:<8} {name}: {place}" for what, name, place in places)])
    return 0


def _places(settings: Settings, ledger: Ledger, run: Run) -> Iterator[tuple[str, str, str]]:
    """Where the originals, mappings and log of a run are: kind, name, place."""
    for drop in ledger.queries.drops_of(run):
        for file in drop.files:
            place = from_stored_path(file.kept_as, settings.state) or "removed after retention.archive_days"
            yield "original", file.name, place
        if drop.mapping:
            yield "mapping", drop.mapping, _mapping_place(ledger, drop)
    for what, path in (
        ("log", settings.state / "logs" / f"{run.name}.jsonl"),
        ("capsule", settings.state / "capsules" / f"{run.name}.capsule.zip"),
    ):
        if path.exists():
            yield what, run.name, str(path)


def _mapping_place(ledger: Ledger, drop: Drop) -> str:
    """Where the mapping of a drop is, and the version that was read; several mappings are in one folder."""
    from loadsheet.mapping.shared_files import main_path

    read = f"version {drop.mapping_version}, hash {drop.mapping_hash[:12]}"
    folder, source = ledger.queries.mappings_folder(), ledger.queries.mapping_source(drop.mapping_hash)
    if not folder or not source:
        return f"{read}, kept in the ledger"
    path = Path(folder) if JOINT in drop.mapping else Path(folder, main_path(list(source)))
    return f"{_from_here(path)}, read as {read}" if path.exists() else f"{read}, kept in the ledger"


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "run": run.name,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "exit_code": run.exit_code,
        "summary": msgspec.Raw(run.summary.encode() or b"null"),
    }


def _entry_json(ledger: Ledger, entry: Entry, standing: ExceptionStatus | None) -> dict[str, Any]:
    drop = ledger.queries.drop(entry.drop)
    rows = [
        {"file": drop.table(row.table).file, "sheet": drop.table(row.table).sheet, "row": row.number}
        for row in entry.rows
    ]
    return {
        "entry": entry.id,
        "run": drop.run,
        "operation": entry.operation,
        "key": entry.key,
        "state": entry.state,
        "reason": entry.reason,
        "service_order": entry.receipt,
        "mapping": f"{drop.mapping} {drop.mapping_version}",
        "mapping_hash": drop.mapping_hash,
        "rows": rows,
        "problems": [str(problem) for problem in entry.problems],
        "removed": entry.removed,
        "payload": msgspec.Raw(entry.payload or b"null"),
        "events": ledger.queries.events_of(entry.id),
        "attempts": ledger.queries.attempts_of(entry.id),
        "exception": standing._asdict() if standing else None,
    }


def _entry_text(described: dict[str, Any], *, payload: bool) -> str:
    places = sorted({(row["file"], row["sheet"]) for row in described["rows"]})
    numbers = {
        place: [str(row["row"]) for row in described["rows"] if (row["file"], row["sheet"]) == place]
        for place in places
    }
    from_rows = "; ".join(
        f"{file}{f' {sheet}' if sheet else ''} row{'s' if len(numbers[file, sheet]) > 1 else ''} {', '.join(numbers[file, sheet])}"
        for file, sheet in places
    )
    lines = [
        f"{described['operation']} {described['key']}: {described['state']}"
        + (f", {described['reason']}" if described["reason"] else "")
    ]
    lines.append(
        f"  from     {from_rows} (mapping {described['mapping']} {described['mapping_hash'][:12]}, run {described['run']})"
    )
    if described["service_order"]:
        lines.append(f"  number   {described['service_order']} at the exchange")
    if described["removed"]:
        lines.append(f"  removed  payload and cells on {described['removed'][:10]}; hashes, states and totals stay")
    lines += [f"  problem  {problem}" for problem in described["problems"]]
    lines += _listing_lines(ExceptionStatus(**described["exception"])) if described["exception"] else []
    lines += [
        f"  {local_time(event.at)}  {event.before or 'planned'} -> {event.after}  {event.reason}".rstrip()
        for event in described["events"]
    ]
    lines += [
        f"  attempt {attempt.number}: {attempt.outcome or 'no answer known'} {attempt.status or ''}".rstrip()
        for attempt in described["attempts"]
    ]
    if payload:
        lines.append(msgspec.json.format(bytes(described["payload"]), indent=2).decode())
    return "\n".join(lines)


def _listing_lines(standing: ExceptionStatus) -> list[str]:
    """The difference found in the listing of the exchange, and what to do; empty if the state of the entry explains it."""
    from loadsheet.reconcile import REMEDIES, Verdict

    verdict = Verdict(standing.verdict)
    if verdict not in REMEDIES:
        return []
    if standing.closed:
        return [
            f"  listed   {verdict} since run {standing.run}; closed in run {standing.closed_run}: {standing.closed}"
        ]
    fields = [
        f"  differs  {difference.path}: sent {difference.sent}, there {difference.held}"
        for difference in standing.found
    ]
    return [f"  listed   {verdict} since run {standing.run}: {REMEDIES[verdict]}", *fields]


@click.command()
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1), help="Show at most N runs, newest first."
)
@click.option(
    "--day",
    metavar="D",
    default="",
    help="Only runs that started on this day, such as 2026-03-04, in local time as shown.",
)
@click.option("--file", "pattern", metavar="PATTERN", default="", help="Only runs that read a file with such a name.")
@click.option("--needs-attention", "needy", is_flag=True, help="Only runs that did not end with 0.")
@click.option("--outcome", type=click.Choice([*_OUTCOMES]), help="Only runs with this outcome.")
@together(STATE, CONFIG, JSON)
def runs(
    *,
    limit: int,
    day: str,
    pattern: str,
    needy: bool,
    outcome: str | None,
    state: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """List the latest runs with their exit codes and results; of all shippers if none is named."""
    every = load_each(config, state=state)
    several = len(every) > 1
    wanted = Wanted(limit, day, pattern.casefold(), needy, _OUTCOMES[outcome] if outcome else frozenset())
    latest = [(name, run) for name, settings in every.items() for run in _latest(settings, wanted, several=several)]
    found = sorted(latest, key=lambda found: found[1].started_at, reverse=True)[:limit]
    if not found:
        say("no run matches" if any(wanted[1:]) else "no run found")
    if as_json:
        print_json([{**({"shipper": name} if several else {}), **_run_json(run)} for name, run in found])
        return
    unfinished = {
        shipper: {run.name for name, run in latest if name == shipper and not run.finished_at} for shipper in every
    }
    shipper_head = ["Shipper"] if several else []
    rows = [
        [
            *([name] if several else []),
            run.name,
            local_time(run.started_at)[:16],
            _took(run, unfinished[name]),
            "" if run.exit_code is None else run.exit_code,
            _result(run.summary),
        ]
        for name, run in found
    ]
    print_table([*shipper_head, "Run", "Started", "Took", "Exit code", "Result"], rows)


class Wanted(NamedTuple):
    """Which runs to list: at most so many, of a day (local time), that read a file whose name matches a pattern (in lower case), that did
    not end with 0, or that ended with one of these exit codes (None: not at all). Empty values do not count.
    """

    limit: int
    day: str
    pattern: str
    needy: bool
    codes: frozenset[int | None]

    def of(self, queries: LedgerQueries) -> list[Run]:
        """The runs, newest first."""
        if not any(self[1:]):
            return queries.runs(self.limit)
        with_file = None
        if self.pattern:
            arrivals = queries.arrivals("", counted=False)
            with_file = {one.run for one in arrivals if fnmatchcase(one.name.casefold(), self.pattern)}
        return [
            run
            for run in queries.runs(_RUNS_SEARCHED)
            if local_time(run.started_at).startswith(self.day)
            and (with_file is None or run.name in with_file)
            and not (self.needy and run.exit_code == 0)
            and (not self.codes or run.exit_code in self.codes)
        ][: self.limit]


def _latest(settings: Settings | SettingsError, wanted: Wanted, *, several: bool) -> list[Run]:
    """The latest runs of one shipper. With several, a ledger or settings that cannot be read are reported and skipped."""
    try:
        with ledger_to_read(settings_or_raise(settings)) as ledger:
            return wanted.of(ledger.queries)
    except (LedgerError, SettingsError) as error:
        if not several:
            raise
        say(str(error))
        return []


def _took(run: Run, unfinished: set[str]) -> str:
    """How long a run took; if it did not end, the run that reported it, unless that one is also in `unfinished`."""
    if run.finished_at:
        took = datetime.fromisoformat(run.finished_at) - datetime.fromisoformat(run.started_at)
        return f"{took.total_seconds():,.1f} s"
    reporter = reported_by(run)
    return f"not finished, reported by {reporter}" if reporter and reporter not in unfinished else "not finished"


def _result(summary: str) -> str:
    """The headline of a run; for a run of an older version, its documents by state."""
    values = msgspec.json.decode(summary) if summary else {}
    return values.get("headline") or ", ".join(f"{count} {state}" for state, count in values.get("entries", {}).items())


def _field_details(ledger: Ledger, entries: Sequence[Entry], field: str, settings: Settings) -> list[dict[str, Any]]:
    """The origin of a field for each entry that has it. Raises click.BadParameter if none has it."""
    details, lacking = [], []
    for entry in entries:
        if entry.removed:
            lacking.append(f"{entry.operation} {entry.key}: its values were removed on {entry.removed[:10]}")
            continue
        if not entry.payload:
            reason = "; ".join(str(problem) for problem in entry.problems) or entry.reason
            lacking.append(f"{entry.operation} {entry.key} has no record: {reason}")
            continue
        try:
            details.append(_field_of_entry(ledger, entry, field, settings))
        except KeyError as unknown:
            lacking.append(f"{entry.operation} {entry.key}: {unknown.args[0]}")
    if lacking and not details:
        raise click.BadParameter("\n".join(lacking))
    return details


def _field_text(details: dict[str, Any]) -> str:
    """The same as lines for people."""
    lines = [f"{details['operation']} {details['key']} ({details['state']}, run {details['run']})"]
    for value in details["values"]:
        lines.append(f"  {value['field']} = {value['value']}")
        if not value["cells"]:
            lines.append("    from     the mapping, not from a cell")
        for cell in value["cells"]:
            lines.append(f'    cell     {cell["place"]} {cell["label"]}: "{cell["text"]}"')
            lines += [f"    {name:<8} {cell[name]}" for name in ("read", "code") if cell[name]]
        if value["cells_in_all"] > len(value["cells"]):
            lines.append(f"    and {value['cells_in_all'] - len(value['cells'])} more cells")
        if value["leaf"]:
            lines.append(f"    by       {value['leaf_at']} {value['leaf']}")
    lines.append(f"  mapping {details['mapping']} version {details['mapping_version']}, hash {details['mapping_hash']}")
    return "\n".join([*lines, *([f"  {details['note']}"] if details["note"] else [])])


def _field_of_entry(ledger: Ledger, entry: Entry, field: str, settings: Settings) -> dict[str, Any]:
    drop, origin = ledger.queries.drop(entry.drop), ledger.queries.origin(entry.drop)
    with _mapping(ledger, drop, _with_mappings_of_run(ledger, settings)) as (mapping, note, restored):
        return _field_by_mapping(entry, field, drop, origin, _UsedMapping(mapping, note, restored))


class _UsedMapping(NamedTuple):
    """A mapping (None: not available), a note about it, and the folder its paths begin with if it was restored."""

    mapping: "Mapping | None"
    note: str
    restored: str


def _field_by_mapping(entry: Entry, field: str, drop: Drop, origin: LedgerOrigin, used: _UsedMapping) -> dict[str, Any]:
    from loadsheet.mapping.shared_files import part_reading
    from loadsheet.mapping_tools.value_origins import Origin, explain, fields_named
    from loadsheet.reading import fold

    mapping = used.mapping
    labels = {(source.table, source.column): [source.label] for found in origin.lineage.values() for source in found}
    if mapping is not None:
        mapping = part_reading(entry.rows[0].table, mapping)
        for table in mapping.plan.tables:
            labels |= {(table.name, column.name): [*column.labels] for column in table.columns}
    columns: dict[str, dict[str, int]] = {name: {} for name in origin.tables}
    for (name, column), own in labels.items():
        known = {fold(label) for label in own}
        header = origin.tables[name].header if name in origin.tables else ()
        places = [position for position, label in enumerate(header) if fold(label) in known]
        if places:
            columns[name][column] = places[0]

    headers = {name: table.header for name, table in origin.tables.items()}

    def place(name: str, row: int, column: int | None) -> Where:
        return origin.tables[name].where(row, headers[name][column] if column is not None else "")

    origin_of_values = Origin(entry.payload, entry.rows, entry.items, origin.lineage, columns, headers, place)
    values = explain(origin_of_values, fields_named(entry.payload, field), mapping)
    return {
        "operation": entry.operation,
        "key": entry.key,
        "state": entry.state,
        "run": drop.run,
        "mapping": drop.mapping,
        "mapping_version": drop.mapping_version,
        "mapping_hash": drop.mapping_hash,
        "note": used.note,
        "values": [
            {
                "field": found.path,
                "value": found.value,
                "cells": [
                    {
                        "place": str(cell.where),
                        "label": cell.label,
                        "text": cell.text,
                        "read": cell.read,
                        "code": cell.code,
                    }
                    for cell in found.cells
                ],
                "cells_in_all": found.cells_in_all,
                "leaf": found.leaf,
                "leaf_at": found.leaf_at.removeprefix(used.restored),
            }
            for found in values
        ],
    }


def _with_mappings_of_run(ledger: Ledger, settings: Settings) -> Settings:
    """The settings; if they name no folder of mappings and there is none here, with the folder that the latest run used."""
    recorded = ledger.queries.mappings_folder()
    is_default = settings.mappings == Settings.model_fields["mappings"].default
    if not is_default or settings.mappings.is_dir() or not recorded:
        return settings
    if Path(recorded) == settings.mappings.absolute():
        return settings
    return settings.model_copy(update={"mappings": _from_here(Path(recorded))})


def _from_here(path: Path) -> Path:
    """A path, relative to the working directory if it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


@contextmanager
def _mapping(ledger: Ledger, drop: Drop, settings: Settings) -> Iterator[tuple["Mapping | None", str, str]]:
    """The mapping with which a drop was read, as the folder of mappings has it or as the ledger kept it; a note if it is not today's; and
    the folder that its paths begin with if it was restored. None if it cannot be loaded, with the reason.
    """
    from loadsheet.mapping import load_folder
    from loadsheet.mapping.shared_files import current, load_kept, version_of
    from loadsheet.mapping.yamlfile import write_source

    try:
        loaded = list(load_folder(settings.mappings, settings.assumptions))
        note = ""
    except LoadsheetError as error:
        loaded, note = [], str(error).splitlines()[0]
    same = current(drop.mapping, loaded)
    for mapping in (*loaded, *([same] if same is not None else [])):
        if mapping.hash == drop.mapping_hash:
            yield mapping, "", ""
            return
    if same is not None:
        changed = " or ".join(str(part.path) for part in same.parts or (same,))
        note = f"{changed} has changed since (now version {version_of(same)}, hash {same.hash[:12]})"
    note = note or f"{settings.mappings} has no mapping {drop.mapping} today"
    with tempfile.TemporaryDirectory(prefix="loadsheet-") as folder:
        try:
            kept = write_source(ledger.queries.mapping_source(drop.mapping_hash), Path(folder))
            mapping = load_kept(kept, settings.assumptions)
        except (LoadsheetError, OSError, ValueError):
            yield None, f"the conversion of cells is not shown: {note}", ""
        else:
            yield mapping, f"this is the mapping of the run: {note}", f"{Path(folder).resolve()}/"

"""`loadsheet show` and `runs`: show the content of the ledger, down to the origin of a single value."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from loadsheet.cli.access import ledger_to_read
from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, STATE, load_each, settings_or_raise, together, with_settings
from loadsheet.cli.output import print_json, print_lines, print_table, say
from loadsheet.ledger import Drop, Entry, ExceptionStatus, Ledger, Run, reported_by
from loadsheet.problems import LedgerError, LoadsheetError, SettingsError, Where
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.mapping import Mapping

NOTHING_KNOWN = 1


@click.command()
@click.argument("key")
@click.option("--payload", is_flag=True, help="Also show the payload.")
@click.option(
    "--field", metavar="PATH", help="Trace one value, such as packages[0].weight, from its cell to the payload."
)
@with_settings(MAPPINGS, STATE)
@JSON
def show(*, settings: Settings, key: str, payload: bool, field: str | None, as_json: bool) -> int:
    """Show everything known about one order or tender: its cells, what was sent, and what the exchange answered."""
    with ledger_to_read(settings) as ledger:
        entries = ledger.queries.entries_by_key(key)
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
        print_lines(["\n\n".join(_entry_text(entry, payload=payload) for entry in described)])
    else:
        say(f"nothing is known about {key}")
    return 0 if described else NOTHING_KNOWN


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
        f"{file}{f' {sheet}' if sheet else ''} rows {', '.join(numbers[file, sheet])}" for file, sheet in places
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
        f"  {event.at}  {event.before or 'planned'} -> {event.after}  {event.reason}".rstrip()
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
@together(STATE, CONFIG, JSON)
def runs(*, limit: int, state: Path | None, config: Path | None, as_json: bool) -> None:
    """List the latest runs with their exit codes and results; of all shippers if none is named."""
    every = load_each(config, state=state)
    several = len(every) > 1
    latest = [(name, run) for name, settings in every.items() for run in _latest(settings, limit, several=several)]
    found = sorted(latest, key=lambda found: found[1].started_at, reverse=True)[:limit]
    if as_json:
        print_json(
            [
                {
                    **({"shipper": name} if several else {}),
                    "run": run.name,
                    "started_at": run.started_at,
                    "finished_at": run.finished_at,
                    "exit_code": run.exit_code,
                    "summary": msgspec.Raw(run.summary.encode() or b"null"),
                }
                for name, run in found
            ]
        )
        return
    unfinished = {
        shipper: {run.name for name, run in latest if name == shipper and not run.finished_at} for shipper in every
    }
    shipper_head = ["Shipper"] if several else []
    rows = [
        [
            *([name] if several else []),
            run.name,
            run.started_at,
            _ended(run, unfinished[name]),
            "" if run.exit_code is None else run.exit_code,
            _counts(run.summary),
        ]
        for name, run in found
    ]
    print_table([*shipper_head, "Run", "Started", "Finished", "Exit code", "Entries"], rows)


def _latest(settings: Settings | SettingsError, limit: int, *, several: bool) -> list[Run]:
    """The latest runs of one shipper. With several, a ledger or settings that cannot be read are reported and skipped."""
    try:
        with ledger_to_read(settings_or_raise(settings)) as ledger:
            return ledger.queries.runs(limit)
    except (LedgerError, SettingsError) as error:
        if not several:
            raise
        say(str(error))
        return []


def _ended(run: Run, unfinished: set[str]) -> str:
    """When a run ended; if it did not, the run that reported it, unless that one is also in `unfinished`."""
    if run.finished_at:
        return run.finished_at
    reporter = reported_by(run)
    return f"not finished, reported by {reporter}" if reporter and reporter not in unfinished else "not finished"


def _counts(summary: str) -> str:
    states = msgspec.json.decode(summary).get("entries", {}) if summary else {}
    return ", ".join(f"{count} {state}" for state, count in states.items())


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
    from loadsheet.mapping.shared_files import part_reading
    from loadsheet.mapping_tools.explain import Origin, explain, fields_named
    from loadsheet.reading import fold

    drop, origin = ledger.queries.drop(entry.drop), ledger.queries.origin(entry.drop)
    mapping, note = _mapping(drop, settings)
    labels = {(source.table, source.column): [source.label] for found in origin.lineage.values() for source in found}
    if mapping is not None:
        mapping = part_reading(entry.rows[0].table, mapping)
        for table in mapping.plan.tables:
            labels |= {(table.name, column.name): [column.label, *column.spec.aliases] for column in table.columns}
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
        "note": note,
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
                "leaf_at": found.leaf_at,
            }
            for found in values
        ],
    }


def _mapping(drop: Drop, settings: Settings) -> tuple["Mapping | None", str]:
    """The mapping of a drop, if it is unchanged; else None and the reason as text."""
    from loadsheet.mapping import load_folder
    from loadsheet.mapping.shared_files import current, version_of

    try:
        loaded = load_folder(settings.mappings, settings.assumptions)
    except LoadsheetError as error:
        return None, f"the conversion of cells is not shown: {str(error).splitlines()[0]}"
    same = current(drop.mapping, loaded)
    for mapping in (*loaded, *([same] if same is not None else [])):
        if mapping.hash == drop.mapping_hash:
            return mapping, ""
    why = f"{settings.mappings} no longer has the mapping {drop.mapping}"
    if same is not None:
        changed = " or ".join(str(part.path) for part in same.parts or (same,))
        why = f"{changed} has changed since (now version {version_of(same)}, hash {same.hash[:12]})"
    return None, f"the conversion of cells is not shown: {why}"

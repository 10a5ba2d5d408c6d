"""`loadsheet run`: processes every finished file in the inbox once; for several shippers, one after the other."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from loadsheet.cli.options import (
    CONFIG,
    EXCHANGE,
    INBOX,
    JSON,
    MAPPINGS,
    OUTBOX,
    STATE,
    any_allows_root,
    is_quiet,
    load_each,
    together,
)
from loadsheet.cli.output import say
from loadsheet.file_modes import write_privately
from loadsheet.problems import SettingsError


def _parse_time(_ctx: click.Context, _option: click.Parameter, text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text is not None else None
    except ValueError:
        raise click.BadParameter(f"{text} is not a valid date or time; write 2026-03-04 or 2026-03-04T21:30") from None
    return found.astimezone() if found else None


@click.command()
@together(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option("--settle", "settle_s", type=click.FloatRange(0), help="Seconds a file must be unchanged (default: 5).")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Send at most N entries; the rest stay ready.")
@click.option(
    "--since", callback=_parse_time, metavar="WHEN", help="Process only files changed since this date or time."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be sent. Nothing is moved, stored or sent.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 instead of 1 or 65 if rows need someone.")
@click.option("--quiet", is_flag=True, help="Print nothing unless something needs someone, as in a pipe.")
@click.option(
    "--verbose", is_flag=True, help="Print events as they happen, even in a pipe or if the settings say quiet."
)
@JSON
def run(
    *,
    limit: int | None,
    since: datetime | None,
    dry_run: bool,
    exit_zero: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    config: Path | None,
    **given: Any,
) -> int:
    """Process every finished file in the inbox, submit what is ready, and report the outcome of every row.

    If shippers are declared and none is named, each of them is processed, one after the other. The exit code is then the worst one
    (70, 78, 77, 75, 65, 1, 0).
    """
    from loadsheet.cli.shipper_runs import OutputOptions, run_shippers

    given |= {"run_entries_max": limit, "arrived_since": since, "log_level": "info" if verbose else None}
    found = load_each(config, **given)
    silent = any(not isinstance(settings, SettingsError) and is_quiet(settings) for settings in found.values())
    write_privately(say, allow_root=quiet or silent or any_allows_root(found.values()))
    output = OutputOptions(as_json=as_json, exit_zero=exit_zero, quiet=quiet, verbose=verbose)
    return run_shippers(config, found, output, dry_run=dry_run)

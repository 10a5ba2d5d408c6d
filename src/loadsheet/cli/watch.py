"""`loadsheet watch`: starts a run whenever files are finished, until it is stopped; for several shippers, in one process."""

from pathlib import Path
from typing import Any

import click

from loadsheet.cli.options import CONFIG, EXCHANGE, INBOX, MAPPINGS, OUTBOX, STATE, any_allows_root, load_each, together
from loadsheet.cli.output import say
from loadsheet.file_modes import write_privately


@click.command()
@together(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option("--settle", "settle_s", type=click.FloatRange(0), help="Seconds a file must be unchanged (default: 5).")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON on stdout for each run.")
def watch(*, config: Path | None, as_json: bool, **given: Any) -> int:
    """Keep running, and start a run whenever files are finished or entries are ready to be sent or verified.

    A watch holds an SQLite ledger, so a `loadsheet run` beside it exits with 75. With a ledger on PostgreSQL and a live worker, the
    worker does the runs; otherwise the watch does them. SIGTERM ends it with 0 once the calls in flight are finished; the next
    start continues. Temporary failures are retried after growing pauses. A wrong mapping or setting (78), a refused token (77) or
    an internal error (70) ends the watch.

    If shippers are declared and none is named, all are watched, one run after the other. If the watch of one shipper ends, the
    others continue. When none is left, the watch exits with the worst exit code.
    """
    from loadsheet.cli.shipper_watches import watch_shippers

    found = load_each(config, **given)
    write_privately(say, allow_root=any_allows_root(found.values()))
    return watch_shippers(config, found, as_json=as_json)

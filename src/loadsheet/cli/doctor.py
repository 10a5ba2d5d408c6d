"""`loadsheet doctor`: whether everything is in place, and what to do where it is not."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from loadsheet.cli.options import CONFIG, EXCHANGE, INBOX, JSON, MAPPINGS, OUTBOX, STATE, load, together
from loadsheet.cli.output import print_json, print_table
from loadsheet.cli.reaching import held_ledger, reached
from loadsheet.contract import BY_NAME
from loadsheet.ledger import Ledger, open_ledger
from loadsheet.mapping import load_folder
from loadsheet.problems import LedgerBusy, LedgerError, LoadsheetError
from loadsheet.settings import EMBEDDED, Settings


@click.command()
@together(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG, JSON)
def doctor(
    *,
    inbox: Path | None,
    mappings: Path | None,
    outbox: Path | None,
    state: Path | None,
    exchange: str | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Check folders, mappings, ledger, token and exchange, and say what to do about what is wrong."""
    settings = load(config, inbox=inbox, mappings=mappings, outbox=outbox, state=state, exchange=exchange)
    findings = list(_examine(settings))
    if as_json:
        print_json([{"check": name, "ok": not wrong, "finding": wrong or said} for name, said, wrong in findings])
    else:
        print_table(
            ["Check", "", "Finding"],
            [[name, "wrong" if wrong else "ok", wrong or said] for name, said, wrong in findings],
        )
    return 1 if any(wrong for _, _, wrong in findings) else 0


def _examine(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Each check as its name, what was found, and what is wrong (empty: nothing)."""
    for name, folder in (("inbox", settings.inbox), ("outbox", settings.outbox), ("state", settings.state)):
        yield name, str(folder), _folder_fault(folder)
    yield (
        "mappings",
        *_attempt(lambda: f"{len(load_folder(settings.mappings, settings.assumptions))} mappings are sound"),
    )
    yield "ledger", *_attempt(lambda: _ledger_state(settings))
    yield "exchange", *_attempt(lambda: _exchange_state(settings))


def _folder_fault(folder: Path) -> str:
    if not folder.exists():
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        return "" if os.access(parent, os.W_OK) else f"{folder} does not exist and {parent} cannot be written to"
    return "" if os.access(folder, os.R_OK | os.W_OK | os.X_OK) else f"{folder} cannot be read and written"


def _attempt(check: Callable[[], str]) -> tuple[str, str]:
    try:
        return check(), ""
    except LoadsheetError as error:
        return "", str(error)


def _ledger_state(settings: Settings) -> str:
    try:
        with held_ledger(settings) as ledger:
            return _examined(ledger)
    except LedgerBusy:
        with open_ledger(settings.database_url, exclusive=False) as ledger:
            return f"{_examined(ledger)}; a run or a watch holds it"


def _examined(ledger: Ledger) -> str:
    latest = ledger.history.runs(1)
    wrong = ledger.check()
    if wrong:
        raise LedgerError(f"{'; '.join(wrong)}: restore it from a backup, or find out who changed it")
    return f"sound; latest run {latest[0].name}" if latest else "sound; no run yet"


def _exchange_state(settings: Settings) -> str:
    if settings.exchange == EMBEDDED:
        return "embedded: needs nothing"
    with reached(settings) as client:
        listing = client.listing(BY_NAME["order.list"], 1)
    return f"{settings.exchange} answers and takes the token; it holds {listing.total_count} orders"

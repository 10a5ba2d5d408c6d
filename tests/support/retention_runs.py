"""A shipper's house with a real ledger: runs that are reconciled, reported and closed as the pipeline does it, and days that pass."""

import gzip
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import databases
import ledgers
from ledgers import Ticking, document, drop_of, ledger_at, listing, order, send

from loadsheet import reconcile, reports
from loadsheet.operations.retention import apply_retention
from loadsheet.settings import Settings

PERSON = "Frau Weber-Kowalski"
CELLS = ("A", PERSON, "01067", "412,5", "1000,99")


class House:
    """Settings, clock and ledger of one shipper; what keeping says is in `said`. Without `reports` a run writes none."""

    def __init__(self, place, ledger, clock, *, reports=True, **chosen):
        self.reports = reports
        self.place, self.ledger, self.clock, self.said = place, ledger, clock, []
        given = {"state": place, "outbox": place / "outbox", "inbox": place / "inbox", "backups": 0, **chosen}
        self.settings = Settings(**given)

    def night(self, file, items, *, answers=lambda _: None, listed=(), mapping="acme", operation="order.create"):
        """A run that plans these documents, sends what is ready, and ends with reports; returns the run and its drop."""
        ledger = self.ledger
        run = ledger.begin_run()
        drop = ledgers.plan(ledger, run, drop_of(("orders", file), mapping=mapping, operation=operation), items)
        send(ledger, run, answers)
        self.end(run, listed)
        return run, drop

    def end(self, run, listed=()):
        ledger, queries = self.ledger, self.ledger.queries
        found = reconcile.reconcile_run(queries, {"order": listing(listed)}, run, self.settings)
        assert found.balances
        ledger.record_exceptions(run, found.exceptions.statuses)
        exit_code = int(found.needs_someone > 0 or found.red_totals > 0)
        ended = replace(run, exit_code=exit_code, finished_at=ledger.now())
        if self.reports:
            reports.write(queries, found, ended, self.settings)
        counted = {"entries": dict(found.matches.states()), "verdicts": dict(found.verdicts)}
        ledger.end_run(ended, exit_code=exit_code, summary=counted, snapshot=found.pack_snapshot())

    def days(self, count):
        """Let days go by."""
        self.clock.now += timedelta(days=count)

    def keep(self, **chosen):
        """What keeping does at the end of a night."""
        self.settings = self.settings.model_copy(update=chosen)
        apply_retention(self.settings, self.ledger, self.clock.now, self.said.append)

    def expire(self):
        """Remove payloads after 31 days, as a run does it that keeps them for 30."""
        self.days(31)
        self.keep(payload_days=30)

    def told_again(self, run):
        """The reconciliation of an old run, from what it saw then."""
        (run,) = self.ledger.queries.runs_named(run.name)
        queries = self.ledger.queries
        recalled = reconcile.RecordedListings([(run, queries.listing_snapshot(run))])
        return reconcile.reconcile_run(queries, recalled, run, self.settings, drops=queries.drops_of(run))

    def reported_again(self, run):
        """The reports of an old run, written again as `loadsheet report --run` does."""
        (run,) = self.ledger.queries.runs_named(run.name)
        return reports.write(self.ledger.queries, self.told_again(run), run, self.settings)

    def archive(self, drop, name, text="x"):
        """Put the original of a drop where a run archives it."""
        path = self.place / "archive" / drop.run[:10].replace("-", "/") / drop.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o440)
        self.ledger.record_kept_as(drop.id, name, str(path))
        return path

    def entries(self, drop):
        return list(self.ledger.queries.entries_of(drop.id))

    def entry(self, key):
        return self.ledger.queries.entries_by_key(key)[-1]


def orders(*numbers, **changes):
    """Orders of two rows each, for a person whose name stands in cells and payloads."""
    return [
        document(
            "order.create",
            order(number, **{"delivery_company": PERSON, **changes}),
            [("orders", 2 * number, (f"A-{number:05}", *CELLS[1:])), ("orders", 2 * number + 1, ("", *CELLS[1:]))],
        )
        for number in numbers
    ]


def records(*numbers, **changes):
    """The same orders as the exchange lists them."""
    return [order(number, **{"delivery_company": PERSON, **changes}) for number in numbers]


@contextmanager
def house_in(place, clock=None, *, kind="sqlite", reports=True, **chosen):
    """A house in a folder, its ledger there or on the server; `clock` says what time it is when it is opened again."""
    clock = clock or Ticking()
    (place / "outbox").mkdir(parents=True, exist_ok=True)
    if kind != "sqlite":
        chosen |= {"database": databases.database(), "database_schema": databases.new_name()}
    with ledger_at(Settings(state=place, **chosen).database_url, clock) as ledger:
        yield House(place, ledger, clock, reports=reports, **chosen)


def unpacked(backup):
    """A compressed backup, uncompressed beside it."""
    plain = backup.with_suffix("")
    plain.write_bytes(gzip.decompress(backup.read_bytes()))
    return plain

"""A house whose runs end in capsules: a folder with an inbox, an exchange that misbehaves on demand, and a settable clock."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from exchange_process import TOKEN
from faulty_exchange import misbehaving
from workspace import copy_mappings

from loadsheet import pipeline
from loadsheet.dispatch import Client, Dispatcher
from loadsheet.ledger import open_ledger, read_ledger
from loadsheet.run_archive import capsule_path, seal_after_run
from loadsheet.settings import Settings

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "inbox_samples"


class House:
    """A folder with inbox, mappings, an exchange that misbehaves on demand, and a clock that is put where a run needs it."""

    def __init__(self, folder, *mappings, **chosen):
        self.folder, self.said = folder, []
        self.now = datetime(2026, 3, 4, 2, 0, tzinfo=UTC)
        copy_mappings(folder / "mappings", *mappings)
        (folder / "inbox").mkdir(parents=True)
        self.settings = Settings(
            inbox=folder / "inbox",
            mappings=folder / "mappings",
            outbox=folder / "outbox",
            state=folder / "state",
            settle_s=0,
            capsules="each",
            reading_process="none",
            **chosen,
        )

    def clock(self):
        """The present moment; it passes by a millisecond with each look at it."""
        self.now += timedelta(milliseconds=1)
        return self.now

    def drop(self, *names):
        """Put samples into the inbox."""
        for name in names:
            source, target = SAMPLES / name, self.settings.inbox / name
            shutil.copytree(source, target, dirs_exist_ok=True) if source.is_dir() else shutil.copyfile(source, target)

    def ledger(self, *, exclusive=True):
        return (open_ledger if exclusive else read_ledger)(self.settings.database_url, clock=self.clock)

    def run(self, *rules, days=1):
        """A whole run on the next day, and its capsule; returns the run's name."""
        self.now = (self.now + timedelta(days=days)).replace(hour=2, minute=0, second=0, microsecond=0)
        with misbehaving(self.folder, *rules) as served, self.ledger() as ledger:
            with Client(served.url, TOKEN, self.settings) as client:
                result = pipeline.run(self.settings, ledger, Dispatcher(client))
            name = result.reports.summary.run
            seal_after_run(self.settings, ledger.queries, name, self.now, self.said.append)
        self.last = result.reports.summary
        return name

    def capsule(self, run):
        return capsule_path(self.settings, run)

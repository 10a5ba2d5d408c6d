"""A month of nights in minutes: the real command with a settable clock, a real exchange, real files, and whoever is told of it."""

import io
import json
import os
import shutil
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from exchange_process import exchange
from notification_servers import web
from orders import MAPPINGS, write_orders

from loadsheet.cli import invoke

ZONE = ZoneInfo("Europe/Berlin")
RUN_AT = {"hour": 2, "minute": 15}  # local: in the night of the switch to summer time there is no such time
DROPPED_AT = {"hour": 20, "minute": 40}
ORDERS = 4  # a file
SETTINGS = """\
exchange = "{url}"
token_file = "token"
arrival.settle_s = 0
state = "disk/state"
notifications.urls = ["{listener}"]
notifications.after = 1
notifications.again_days = 0
notifications.fixes_to = "back"
monitoring.metrics_file = "loadsheet.prom"
retention.archive_days = 5
retention.payload_days = 6
retention.reports_days = 6
retention.backups = 3
expected_files.runs_due_s = 100_000

[[expected_files.expect]]
name = "orders"
files = "orders.csv"
by = "21:30"
days = "Mon-Fri"
timezone = "Europe/Berlin"
"""


class Night(NamedTuple):
    """What a night came to: its exit code, what was said on stdout and stderr, and the titles and texts of the notices it sent."""

    exit_code: int
    out: str
    err: str
    notices: list


class Month:
    """The house of an operator, who looks after it as little as possible. Days are those of March 2026."""

    def __init__(self, folder, disk):
        self.folder, self.disk = folder, disk
        self.first, self.token, self.books = 0, "first-token", {}
        self._stack = ExitStack()
        self.listener = self._stack.enter_context(web())
        self.serve()
        shutil.copytree(MAPPINGS, folder / "mappings")
        (folder / "token").write_text(self.token, encoding="utf-8")
        for name in ("inbox", "back"):
            (folder / name).mkdir()

    def close(self):
        self.stop_serving()
        self._stack.close()

    # the exchange

    def serve(self, token=None, port=0):
        """Start the exchange, perhaps with another token, where it was."""
        self.token = token or self.token
        self._served = exchange(self.folder / "exchange.db", token=self.token, port=port)
        self.served = self._served.__enter__()
        settings = SETTINGS.format(url=self.served.url, listener=f"json://127.0.0.1:{self.listener.port}")
        (self.folder / "loadsheet.toml").write_text(settings, encoding="utf-8")

    def stop_serving(self):
        self._served.__exit__(None, None, None)

    # files

    def moment(self, day, *, hour, minute):
        return datetime(2026, 3, day, hour, minute, tzinfo=ZONE)

    def drop(self, day, *, wrong_every=0, at=None):
        """The orders of a day, dropped on its evening or at another moment."""
        folder = self.folder / "inbox" / f"{day:02}"
        write_orders(folder, ORDERS, first=self.first, wrong_every=wrong_every)
        self.first += ORDERS
        stamp = (at or self.moment(day, **DROPPED_AT)).timestamp()
        for path in folder.iterdir():
            os.utime(path, (stamp, stamp))

    # nights

    def night(self, day):
        """The run of the night that ends with a day."""
        now = self.moment(day, **RUN_AT)
        return self.command("run", "--quiet", at=now)

    def command(self, *words, at):
        """A command as it would be at some moment; its clock goes on by a second with every look at it."""
        looks = iter(range(10_000_000))
        before, out, err = len(self.listener.notices), io.StringIO(), io.StringIO()
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = invoke(list(words), clock=lambda: at + timedelta(milliseconds=next(looks)))
        finally:
            os.chdir(here)
        notices = [(notice["title"], notice["message"]) for notice in self.listener.notices[before:]]
        return Night(code, out.getvalue(), err.getvalue(), notices)

    def summaries(self):
        """The run.json of every run that is still there, by its name."""
        return {
            path.parent.name: json.loads(path.read_text(encoding="utf-8"))
            for path in sorted((self.folder / "outbox").glob("*/run.json"))
        }

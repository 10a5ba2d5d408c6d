"""A house whose runs are reported to somebody: a real ledger, real reports, and receivers on real sockets."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from databases import ask
from ledgers import Ticking, ledger_in, unreadable
from notification_servers import mailbox, web
from reported_runs import ReportedRuns

from loadsheet.errors import TokenRefused
from loadsheet.operations.expected_files import overdue
from loadsheet.operations.notifications import send_notifications
from loadsheet.problems import Problem, Where
from loadsheet.reports.run_document import RunOutcome
from loadsheet.settings import Settings


class Notified:
    """Runs in a house, each reported as `run_hooks` does it; `said` is what was said on the terminal."""

    def __init__(self, folder, house, **chosen):
        self.folder, self.house, self.said = folder, house, []
        self.settings = Settings(state=folder / "state", outbox=folder / "outbox", **chosen)
        house.settings = self.settings

    def set(self, **chosen):
        given = {**{name: getattr(self.settings, name) for name in self.settings.model_fields_set}, **chosen}
        self.settings = self.house.settings = Settings(**given)

    @property
    def kept(self):
        """What is remembered, as it is stored."""
        if self.settings.is_shared:
            ((store,),) = ask(f"select memory from {self.settings.cluster.database_schema}_fleet.notices")
            return store
        return (self.folder / "state" / "notices.json").read_text()

    def run(self, items=(), *, exit_code=0, days=1, report=None, **more):
        """A run with these documents."""
        report = report or self.house.report(items, days=days, **more)
        return self.report(exit_code, summary=report.summary, folder=report.folder)

    def unreadable(self):
        """A run with a file that cannot be read."""
        self.house.run = self.house.ledger.begin_run()
        why = Problem("R201", Where("broken.xlsx"), values={"reason": "it is not a workbook"})
        self.house.ledger.set_aside(self.house.run, unreadable("broken.xlsx", why))
        self.house.clock.pass_time(86_400)
        return self.run(report=self.house.report_again(), exit_code=65)

    def failed(self, error=None, *, days=1):
        """A run that could not take place."""
        self.house.clock.pass_time(86_400 * days)
        error = error or TokenRefused("the exchange refused the token (401)")
        return self.report(error.exit_code, stopped=error)

    def report(self, exit_code, **more):
        now, queries = self.house.clock(), self.house.ledger.queries
        ended = RunOutcome(self.settings.shipper, now - timedelta(minutes=5), now, exit_code, **more)
        send_notifications(
            self.settings, ended, queries, overdue(self.settings, queries, ended.began), self.said.append
        )
        return ended


@pytest.fixture
def receiver():
    with web() as found:
        yield found


@pytest.fixture
def post():
    with mailbox() as found:
        yield found


@pytest.fixture
def where():
    """Settings that say where the memory is kept: in a file."""
    return {}


@pytest.fixture
def notified(tmp_path, receiver, where):
    clock = Ticking()
    clock.now = datetime(2026, 3, 4, 2, 15, tzinfo=UTC)
    with ledger_in(tmp_path, clock) as ledger:
        yield Notified(
            tmp_path, ReportedRuns(tmp_path, ledger, clock), notify=[f"json://127.0.0.1:{receiver.port}/all"], **where
        )


@pytest.fixture
def titles(receiver):
    """The titles of everything that was received, and the bodies."""
    return SimpleNamespace(
        all=lambda: [notice["title"] for notice in receiver.notices],
        bodies=lambda: [notice["message"] for notice in receiver.notices],
    )

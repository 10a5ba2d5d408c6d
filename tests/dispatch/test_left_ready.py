"""A run at whose end records become ready to be sent again says so, and the next one sends them."""

import ready_entries
from exchange_process import TOKEN
from faulty_exchange import misbehaving
from ledgers import Ticking, ledger_in

from loadsheet.dispatch import UnknownTimer
from loadsheet.exchange import FaultClass
from loadsheet.ingest import IngestResult
from loadsheet.problems import NotAllSent
from loadsheet.stages import Dispatcher, RunContext, deliver_ready, reconcile_and_report, resolve_earlier

UNANSWERED = {"fault": FaultClass("closed_before_effect"), "operation": "order.status", "from_": 1, "until": 1}


def deliver_and_account(ledger, run, clock, url, settings, *, pause_s=0):
    """Deliver and account as `run` does, with a pause in between."""
    timer = UnknownTimer(ledger.now, lambda: clock().timestamp())
    with ready_entries.client_of(url, settings, TOKEN) as client:
        work = RunContext(settings, ledger, run, Dispatcher(client), timer)
        assert resolve_earlier(work) is None
        sent = deliver_ready(work)
        clock.pass_time(pause_s)
        return reconcile_and_report(work, sent, IngestResult((), None))


def test_a_lost_answer_that_is_judged_too_late_to_be_sent_again_ends_the_run_with_75(tmp_path):
    clock = Ticking()
    settings = ready_entries.settings(parents="send", outbox=tmp_path / "outbox", state=tmp_path)
    with misbehaving(tmp_path, UNANSWERED, status_unknown="accept") as served, ledger_in(tmp_path, clock) as ledger:
        url, run = served.exchange.url, ledger.begin_run()
        drop = ready_entries.events(ledger, run, 2)
        told = deliver_and_account(
            ledger, run, clock, url, settings, pause_s=settings.verification.status_quiesce_s + 1
        )
        assert ready_entries.states(ledger, drop) == ["ready", "ready"]
        assert (told.exit_code, type(told.stopped)) == (75, NotAllSent)
        assert [one.exit_code for one in ledger.queries.runs_named(run.name)] == [75]
        assert deliver_and_account(ledger, ledger.begin_run(), clock, url, settings).exit_code == 0
        assert ready_entries.states(ledger, drop) == ["accepted", "accepted"]


def test_what_a_limit_leaves_ready_is_left_on_purpose(tmp_path):
    settings = ready_entries.settings(run_entries_max=2, outbox=tmp_path / "outbox", state=tmp_path)
    clock = Ticking()
    with misbehaving(tmp_path) as served, ledger_in(tmp_path, clock) as ledger:
        drop = ready_entries.orders(ledger, run := ledger.begin_run(), 3)
        told = deliver_and_account(ledger, run, clock, served.exchange.url, settings)
        assert ready_entries.states(ledger, drop) == ["accepted", "accepted", "ready"]
        assert (told.exit_code, told.stopped) == (0, None)

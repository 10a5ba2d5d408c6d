"""Metrics: what Prometheus reads after a run, compared with what the ledger and the run itself say."""

from datetime import UTC, datetime, timedelta

import pytest
from databases import server
from ledgers import Ticking, ledger_in
from monitored_runs import TOKEN, Exchange, house, order_id, samples, write_orders
from ready_entries import events, orders
from reported_runs import ReportedRuns, create
from sqlalchemy import create_engine

from loadsheet.errors import LedgerBusy
from loadsheet.ledger import Settlement, State, open_ledger
from loadsheet.ledger.ledger_tables import metadata
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.health import WatchStatus
from loadsheet.operations.metrics import collect_metrics, exposition, metrics_path
from loadsheet.reports.run_document import RunOutcome
from loadsheet.settings import Settings


def of(found, name):
    """The samples of one metric by their other labels."""
    return {
        tuple(value for label, value in key[1:] if label != "shipper"): value
        for key, value in found.items()
        if key[0] == f"loadsheet_{name}"
    }


def test_a_run_is_measured_as_the_ledger_and_the_run_have_it(tmp_path):
    exchange = Exchange(refused=[order_id(1)], lost=[order_id(2)])
    with house(tmp_path, exchange, metrics_file=tmp_path / "loadsheet.prom", token=TOKEN) as here:
        before = here.clock.now
        assert here.night(6, wrong_every=5).exit_code == 1
        found = here.figures()
    calls = {("order.create", "accepted"): 2, ("order.create", "refused"): 1, ("order.create", "unknown"): 1}
    for name, expected in {
        "last_run_exit_code": {(): 1},
        "entries": calls | {("order.create", "invalid"): 2},
        "calls": calls,
        "unknown_entries": {(): 1},
        "open_exceptions": {("0-1",): 4, ("2-7",): 0, ("8-30",): 0, ("30+",): 0},
        "oldest_unsent_seconds": {(): 0},
        "inbox_waiting": {(): 0},
        "late_arrivals": {(): 0},
    }.items():
        assert of(found, name) == expected, name
    assert 1 <= of(found, "pace_connections")[()] <= 2
    ended = of(found, "last_run_timestamp_seconds")[()]
    assert before.timestamp() < of(found, "last_success_timestamp_seconds")[()] <= ended <= here.clock.now.timestamp()
    assert of(found, "run_duration_seconds")[()] == pytest.approx(ended - before.timestamp(), abs=5)
    assert len(of(found, "build_info")) == 1
    assert TOKEN not in (tmp_path / "loadsheet.prom").read_text(encoding="utf-8")


def test_the_buckets_of_call_durations_add_up_and_only_calls_of_the_run_count(tmp_path):
    with house(tmp_path, metrics_file=tmp_path / "loadsheet.prom") as here:
        here.night(5)
        found = here.figures()
        here.night(1, first=50)
        assert of(here.figures(), "calls") == {("order.create", "accepted"): 1}
    buckets = {float(le): count for (le, _), count in of(found, "call_duration_seconds_bucket").items()}
    counts = [count for _, count in sorted(buckets.items())]
    assert counts == sorted(counts)
    assert counts[-1] == 5 == of(found, "call_duration_seconds_count")[("order.create",)]
    assert 0 <= of(found, "call_duration_seconds_sum")[("order.create",)] < 5


def test_the_last_success_outlives_runs_that_fail(tmp_path):
    """A run without a usable file is a success: it processed the whole inbox."""
    with house(tmp_path, metrics_file=tmp_path / "loadsheet.prom", unreachable_max=1) as here:
        began = here.clock.now
        (here.settings.inbox / "holiday.jpg").write_bytes(b"not a sheet")
        assert here.night().exit_code == 65
        success = of(here.figures(), "last_success_timestamp_seconds")
        assert success[()] > began.timestamp()
        here.clock.go_on(days=1)
        here.exchange.busy = 1_000
        assert here.night(2, first=10).exit_code == 75
        found = here.figures()
    assert of(found, "last_success_timestamp_seconds") == success
    assert of(found, "last_run_exit_code") == {(): 75}
    assert of(found, "last_run_timestamp_seconds")[()] - success[()] > 86_000
    assert of(found, "oldest_unsent_seconds")[()] > 0


def test_a_run_that_could_not_begin_is_measured_and_files_that_wait_for_it_are_counted(tmp_path):
    with house(tmp_path, metrics_file=tmp_path / "loadsheet.prom") as here:
        here.night(2)
        write_orders(here.settings.inbox, 2, first=10)
        with open_ledger(here.settings.database_url, clock=here.clock), pytest.raises(LedgerBusy):
            here.night()
        found = here.figures()
    assert of(found, "last_run_exit_code") == {(): 75}
    assert of(found, "inbox_waiting") == {(): 2}
    assert of(found, "last_success_timestamp_seconds")
    assert not of(found, "entries")


def test_exceptions_are_counted_by_their_age(tmp_path):
    clock = Ticking()
    with ledger_in(tmp_path, clock) as ledger:
        book = ReportedRuns(tmp_path, ledger, clock)
        for number, days in enumerate((1, 20, 9, 5, 3)):  # opened 37, 17, 8, 3 and 0 days before the end
            book.report([create(number)], days=days)
        ended = clock.now + timedelta(seconds=1)
        night = RunOutcome("", ended - timedelta(minutes=1), ended, 0)
        found = samples(exposition([collect_metrics(book.settings, night, ledger.queries, ())]).decode())
    assert of(found, "open_exceptions") == {("0-1",): 1, ("2-7",): 1, ("8-30",): 2, ("30+",): 1}


def test_a_batch_is_one_call_however_many_records_it_carries(tmp_path):
    def settled(submission, outcome, duration_ms):
        state = State(outcome)
        return Settlement(submission.id, state, outcome, outcome=outcome, status=200, duration_ms=duration_ms)

    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        orders(ledger, run, 2)
        events(ledger, run, 9)
        ready = ledger.ready(100)
        single = [([one], one.payload) for one in ready if one.operation == "order.create"]
        batch = [one for one in ready if one.operation == "order.status"]
        ledger.mark_sending(run, [*single, (batch, b"all of them")])
        ledger.settle(run, [settled(one, "accepted", 2_000) for one in batch])
        ledger.settle(run, [settled(one, "refused", 30) for ((one,), _) in single])
        outcomes, times = ledger.queries.calls_in(run.name, [0.05, 5.0])
    assert outcomes == {("order.create", "refused"): 2, ("order.status", "accepted"): 1}
    assert [(calls.operation, calls.made, calls.seconds, calls.within) for calls in times] == [
        ("order.create", 2, 0.06, (2, 2)),
        ("order.status", 1, 2.0, (0, 1)),
    ]


def test_postgresql_answers_the_same_questions():
    engine = create_engine(server().new_database().replace("postgresql://", "postgresql+psycopg://"))
    metadata.create_all(engine)
    queries = LedgerQueries(engine)
    assert queries.figures(["2026-03-04T02:15:00.000Z"]).opened_by == (0,)
    assert queries.calls_in("2026-03-04-01", [0.1, 1.0]) == ({}, [])
    engine.dispose()


# files


def test_each_shipper_has_a_file_of_its_own_and_every_sample_its_name(tmp_path):
    file, shippers = tmp_path / "loadsheet.prom", ("acme", "Müller & Söhne")
    for shipper in shippers:
        with house(tmp_path / "houses" / shipper, metrics_file=file, shipper=shipper) as here:
            here.night(1)
    found = [metrics_path(file, shipper) for shipper in shippers]
    assert sorted(tmp_path.glob("*.prom*")) == sorted(found), "no other file, and none that is half written"
    assert found[0].name == "loadsheet-acme.prom"
    for path, shipper in zip(found, shippers, strict=True):
        keys = samples(path.read_text(encoding="utf-8"))
        assert {dict(key[1:])["shipper"] for key in keys} == {shipper}
    alike = [metrics_path(file, shipper).name for shipper in ("a b", "a/b", "a_b", "../b")]
    assert len({*alike}) == 4, "names that look alike on disk stay apart"
    assert all("/" not in name and name.endswith(".prom") for name in alike)


def test_a_metrics_file_that_cannot_be_written_is_reported_and_changes_nothing_else(tmp_path):
    file = tmp_path / "nowhere" / "loadsheet.prom"
    with house(tmp_path, metrics_file=file) as here:
        assert here.night(1).exit_code == 0
    (said,) = here.said
    assert said.startswith(f"loadsheet: the metrics file {file} cannot be written (No such file")


def test_a_watch_shows_all_shippers_in_one_answer_that_names_each_metric_once():
    board, ended = WatchStatus(Settings()), datetime(2026, 3, 4, 2, 20, tzinfo=UTC)
    codes = {"acme": 0, "bolt": 75}
    for shipper, code in codes.items():
        outcome = RunOutcome(shipper, ended - timedelta(minutes=2), ended, code)
        board.set_metrics(shipper, collect_metrics(Settings(), outcome, None, ()))
    text = exposition(board.metrics()).decode()
    assert text.count("# TYPE loadsheet_last_run_exit_code gauge") == 1
    assert {name: samples(text)["loadsheet_last_run_exit_code", ("shipper", name)] for name in codes} == codes

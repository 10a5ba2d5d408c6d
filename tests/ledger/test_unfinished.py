"""What a run did that died before its reports is reported by the next run that gets to its own reports, once."""

import databases
import pytest
from ledgers import document, drop_of, order, plan, send

from loadsheet.ledger import reported_by
from loadsheet.ledger.exporting import slice_of


@pytest.fixture
def dead(ledger):
    """A run that planned dead.csv and died."""
    run = ledger.begin_run()
    planned(ledger, run, "dead.csv")
    return run


def planned(ledger, run, file, number=1):
    documents = [document("order.create", order(number), [("orders", 2, ("x",))])]
    return plan(ledger, run, drop_of(("orders", file)), documents)


def adopted(ledger, run):
    return [one.name for one in ledger.adopt_unfinished_runs(run)]


def named(ledger, run):
    return [file.name for drop in ledger.queries.drops_of(run) for file in drop.files]


def reporter(ledger, run):
    (found,) = [one for one in ledger.queries.runs_named(run.name) if one.name == run.name]
    return reported_by(found)


def end(ledger, run, **summary):
    ledger.end_run(run, exit_code=0, summary={"entries": {}, **summary})


@databases.ON_BOTH
def test_the_next_run_reports_on_a_dead_one_and_the_one_after_it_does_not(ledger, dead):
    send(ledger, dead)
    assert ledger.queries.runs_changing(1) == [dead.name]
    later = ledger.begin_run()
    planned(ledger, later, "later.csv", 2)
    assert named(ledger, later) == ["later.csv"]
    for _ in range(2):  # as whoever takes the accounting over asks again
        assert adopted(ledger, later) == [dead.name]
        assert named(ledger, later) == ["dead.csv", "later.csv"]
    assert ledger.queries.runs_changing(1) == [later.name], "who acknowledges a drop is the run that reports on it"
    end(ledger, later)
    assert named(ledger, later) == ["dead.csv", "later.csv"]
    assert named(ledger, dead) == ["dead.csv"]
    assert (reporter(ledger, dead), reporter(ledger, later)) == (later.name, "")
    last = ledger.begin_run()
    assert (adopted(ledger, last), named(ledger, last)) == ([], [])


def test_an_older_drop_that_a_dead_run_only_changed_is_reported_as_well(ledger, dead):
    end(ledger, dead)
    send(ledger, ledger.begin_run())
    later = ledger.begin_run()
    ledger.adopt_unfinished_runs(later)
    assert named(ledger, later) == ["dead.csv"]


def test_a_run_that_reports_on_another_and_dies_itself_is_reported_with_all_of_it(ledger, dead):
    runs = [dead, ledger.begin_run()]
    planned(ledger, runs[1], "also dead.csv", 2)
    ledger.adopt_unfinished_runs(runs[1])
    last = ledger.begin_run()
    assert adopted(ledger, last) == [run.name for run in runs]
    end(ledger, last)
    assert named(ledger, last) == ["dead.csv", "also dead.csv"]
    assert {reporter(ledger, run) for run in runs} == {last.name}


def test_a_run_without_reports_of_its_own_reports_on_no_other(ledger, dead):
    end(ledger, ledger.begin_run())  # as `retry` and `resolve` do
    assert adopted(ledger, ledger.begin_run()) == [dead.name]


def test_what_died_long_before_a_run_that_wrote_reports_is_no_news(ledger, dead):
    """As in the ledger of an older version, whose runs reported on nothing but themselves."""
    end(ledger, ledger.begin_run(), verdicts={})
    second = ledger.begin_run()
    planned(ledger, second, "second.csv", 2)
    later = ledger.begin_run()
    assert adopted(ledger, later) == [second.name]
    assert named(ledger, later) == ["second.csv"]


@databases.ON_BOTH
def test_a_slice_has_the_drops_of_the_dead_that_its_run_reports_on(ledger, dead):
    later = ledger.begin_run()
    ledger.adopt_unfinished_runs(later)
    end(ledger, later)
    with slice_of(ledger.queries, later) as rows:
        assert (list(rows.own), list(rows.touched)) == ([], [1])

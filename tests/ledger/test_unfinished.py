"""What a run did that died before its reports is told by the next run that gets to its own, once."""

import databases
from ledgers import document, drop_of, order, plan, send

from loadsheet.ledger import reported_by
from loadsheet.ledger.exporting import slice_of


def planned(ledger, run, file, number=1):
    return plan(
        ledger, run, drop_of(("orders", file)), [document("order.create", order(number), [("orders", 2, ("x",))])]
    )


def named(ledger, run):
    return [file.name for drop in ledger.queries.drops_of(run) for file in drop.files]


def known(ledger, run):
    (found,) = [one for one in ledger.queries.runs_named(run.name) if one.name == run.name]
    return found


def end(ledger, run):
    ledger.end_run(run, exit_code=0, summary={"entries": {}})


@databases.ON_BOTH
def test_the_next_run_tells_of_a_dead_one_and_the_one_after_it_does_not(ledger):
    dead = ledger.begin_run()
    planned(ledger, dead, "dead.csv")
    send(ledger, dead)
    later = ledger.begin_run()
    planned(ledger, later, "later.csv", 2)
    assert named(ledger, later) == ["later.csv"]
    assert ledger.adopt_unfinished_runs(later) == [known(ledger, dead)]
    assert named(ledger, later) == ["dead.csv", "later.csv"]
    assert ledger.adopt_unfinished_runs(later) == [
        known(ledger, dead)
    ]  # as whoever takes the accounting over asks again
    end(ledger, later)
    assert named(ledger, later) == ["dead.csv", "later.csv"]
    assert named(ledger, dead) == ["dead.csv"]
    assert reported_by(known(ledger, dead)) == later.name
    assert reported_by(known(ledger, later)) == ""
    last = ledger.begin_run()
    assert ledger.adopt_unfinished_runs(last) == []
    assert named(ledger, last) == []


def test_an_older_drop_that_a_dead_run_only_changed_is_told_as_well(ledger):
    first = ledger.begin_run()
    planned(ledger, first, "old.csv")
    end(ledger, first)
    send(ledger, ledger.begin_run())
    later = ledger.begin_run()
    ledger.adopt_unfinished_runs(later)
    assert named(ledger, later) == ["old.csv"]


def test_a_teller_that_dies_itself_is_told_of_with_all_that_it_told(ledger):
    dead = [ledger.begin_run() for _ in range(2)]
    for number, run in enumerate(dead):
        planned(ledger, run, f"{number}.csv", number)
        ledger.adopt_unfinished_runs(run)
    last = ledger.begin_run()
    assert [run.name for run in ledger.adopt_unfinished_runs(last)] == [run.name for run in dead]
    end(ledger, last)
    assert named(ledger, last) == ["0.csv", "1.csv"]
    assert {reported_by(known(ledger, run)) for run in dead} == {last.name}


def test_a_run_without_reports_of_its_own_tells_of_nothing(ledger):
    dead = ledger.begin_run()
    planned(ledger, dead, "dead.csv")
    end(ledger, ledger.begin_run())  # as `retry` and `resolve` do
    later = ledger.begin_run()
    assert [run.name for run in ledger.adopt_unfinished_runs(later)] == [dead.name]


def test_what_died_long_before_a_run_that_wrote_reports_is_no_news(ledger):
    """As in the ledger of an older version, whose runs told of nothing but themselves."""
    planned(ledger, ledger.begin_run(), "old.csv")
    ledger.end_run(ledger.begin_run(), exit_code=0, summary={"entries": {}, "verdicts": {}})
    dead = ledger.begin_run()
    planned(ledger, dead, "dead.csv", 2)
    later = ledger.begin_run()
    assert [run.name for run in ledger.adopt_unfinished_runs(later)] == [dead.name]
    assert named(ledger, later) == ["dead.csv"]


def test_who_acknowledges_a_drop_is_the_run_that_tells_of_it(ledger):
    dead = ledger.begin_run()
    drop = planned(ledger, dead, "dead.csv")
    assert ledger.queries.runs_changing(drop.id) == [dead.name]
    later = ledger.begin_run()
    ledger.adopt_unfinished_runs(later)
    assert ledger.queries.runs_changing(drop.id) == [later.name]


@databases.ON_BOTH
def test_a_slice_holds_the_drops_of_the_dead_that_its_run_tells_of(ledger):
    dead = ledger.begin_run()
    drop = planned(ledger, dead, "dead.csv")
    later = ledger.begin_run()
    ledger.adopt_unfinished_runs(later)
    end(ledger, later)
    with slice_of(ledger.queries, later) as rows:
        assert (list(rows.own), list(rows.touched)) == ([], [drop.id])

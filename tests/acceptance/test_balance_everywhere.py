"""Rows in are the sum of their fates, and every report tells the same numbers: ledger, run.json, workbook, page, results, terminal.

Random nights with mistakes, refusals, lost answers and listings of every kind, each told at once, again later, and as a day.
"""

import json
import re
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from ledgers import contents_of, ledger_in
from outcome_check import check_outcome
from random_runs import deliver_file, listings, run_files, views

from loadsheet.reconcile import RecordedListings, reconcile_run
from loadsheet.reports import write
from loadsheet.settings import Settings

FATES = ("accepted", "refused", "invalid", "held", "unchanged", "unknown", "waiting", "ignored")
COUNT = re.compile(r"([\d,]+) ([a-z]+)")
OF_FILE = re.compile(r" rows?: (.*)")


@contextmanager
def two_runs(first, second, view):
    """A ledger with two random runs of a day behind it, and for each the run, what it saw, and what writes its report."""
    with tempfile.TemporaryDirectory() as folder, ledger_in(Path(folder)) as ledger:
        chosen, runs = Settings(outbox=Path(folder) / "outbox"), []
        for number, night in enumerate((first, second)):
            run = ledger.begin_run()
            for position, items in enumerate(night):
                deliver_file(ledger, run, f"file {number}-{position}.csv", items)
            found = reconcile_run(ledger.queries, listings(ledger, run, view), run, chosen)
            ended = replace(run, exit_code=1, finished_at=ledger.now())
            ledger.end_run(ended, exit_code=1, summary={"entries": {}}, snapshot=found.pack_snapshot())
            runs.append((ended, found))
        yield ledger, chosen, runs


def joined(fates):
    """Rows by fate as people are told them: what is ready or being sent waits."""
    found = Counter({fate: fates.get(fate, 0) for fate in FATES})
    found["waiting"] += fates.get("ready", 0) + fates.get("sending", 0)
    return +found


def counting(connection, entry, own):
    """The state that an entry counts under: one that repeats what is not accepted yet has the state of that."""
    state = own
    while state == "unchanged":
        (reason,) = connection.execute("select reason from entries where id = ?", [entry]).fetchone()
        if not (repeated := re.fullmatch(r"already waiting as entry (\d+)", reason)):
            break
        (entry, state) = connection.execute("select id, state from entries where id = ?", [int(repeated[1])]).fetchone()
    return own if state == "accepted" else state


def in_ledger(ledger, runs):
    """Rows by fate and documents by state in the drops of these runs, counted by SQL and the packed rows."""
    fates, states = Counter(), Counter()
    with closing(sqlite3.connect(ledger.queries._engine.url.database)) as connection:
        contents = contents_of(connection)
        for drop in ledger.queries.drops_of(*runs):
            entries = connection.execute("select id, state from entries where drop_id = ?", [drop.id]).fetchall()
            for entry, own in entries:
                state = counting(connection, entry, own)
                states[state] += 1
                fates[state] += len(json.loads(contents[entry][1]))
            fates["ignored"] += connection.execute(
                "select count(*) from ignored where drop_id = ?", [drop.id]
            ).fetchone()[0]
    return joined(fates), states


def in_terminal(report):
    """Rows by fate as the lines of the terminal say them, which also say that all are accounted for."""
    lines, found = report.lines(verbose=True), Counter()
    for of_file in filter(None, map(OF_FILE.search, lines)):
        for number, fate in COUNT.findall(of_file[1]):
            found[fate] += int(number.replace(",", ""))
    assert any(f"{found.total():,} of {found.total():,} row" in line and "accounted for" in line for line in lines)
    return joined(found)


def agrees(report, ledger, runs):
    """Check that a report tells the numbers of the ledger wherever it tells them: they agree with those of run.json."""
    said, (fates, states) = check_outcome(report.folder), in_ledger(ledger, runs)
    assert said["balance"]["balances"] is True
    assert joined(said["balance"]["rows"]) == fates
    assert said["entries"] == states
    assert in_terminal(report) == fates


def told_again(ledger, chosen, run, runs):
    """The report as `loadsheet report` makes it."""
    recalled = RecordedListings([(one, ledger.queries.listing_snapshot(one)) for one in runs])
    drops = ledger.queries.drops_of(*runs)
    return write(ledger.queries, reconcile_run(ledger.queries, recalled, run, chosen, drops=drops), run, chosen)


def every_report_agrees(first, second, view, *, told_before=False):
    """Two runs of a day: the last is told when it was, and the day as one; or also each is told again."""
    with two_runs(first, second, view) as (ledger, chosen, runs):
        last, found = runs[-1]
        names = [run for run, _ in runs]
        report = write(ledger.queries, found, last, chosen)
        agrees(report, ledger, [last])
        if told_before:
            before = {path.name: path.read_bytes() for path in report.paths}
            for run in names:
                agrees(told_again(ledger, chosen, run, [run]), ledger, [run])
            assert {path.name: path.read_bytes() for path in report.paths} == before
        day = replace(last, name=last.name[:10], started_at=names[0].started_at)
        whole = told_again(ledger, chosen, day, names)
        agrees(whole, ledger, names)
        assert [drop.run for drop in whole.summary.drops] == [drop.run for drop in ledger.queries.drops_of(*names)]


@pytest.mark.journey
@settings(max_examples=8, deadline=None)
@given(run_files, run_files, views)
def test_whatever_happens_every_report_has_the_numbers_of_the_ledger(first, second, view):
    every_report_agrees(first, second, view)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@settings(max_examples=30, deadline=None)
@given(run_files, run_files, views)
def test_many_random_runs_are_reported_with_the_numbers_of_the_ledger(first, second, view):
    every_report_agrees(first, second, view, told_before=True)

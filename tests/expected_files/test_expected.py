"""What is late, as a real ledger knows it, `loadsheet expected` telling it, and a watch that runs when a file is due."""

import json
import os
import signal
import time
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from inbox_files import settings_in
from ledgers import Ticking, document, drop_of, ledger_in, order, plan, unreadable

from loadsheet.cli import loadsheet
from loadsheet.cli.watch import due_s
from loadsheet.inbox_watch import WakeEvents, Watch, WatchedRun, watch
from loadsheet.ledger.codec import stamp
from loadsheet.operations.expected_files import next_due, overdue, statuses
from loadsheet.problems import Problem, Where
from loadsheet.settings import Settings

ACME = {"name": "acme", "files": "acme_*.csv", "by": "21:30", "days": "Mon-Sun", "timezone": "Europe/Berlin"}


def at(text):
    return datetime.fromisoformat(f"2026-{text}:00+00:00")


class Ledger:
    """A ledger with runs that took files of given times."""

    def __init__(self, ledger, clock):
        self.ledger, self.clock, self.queries = ledger, clock, ledger.queries

    def run(self, when, *files, exit_code=0, aside=False, fixes=None):
        """A run that took these files, which said they were changed then; it did not end if `exit_code` is None."""
        self.clock.now = when
        run = self.ledger.begin_run()
        for name, arrived in files:
            self._take(run, name, arrived, aside=aside, fixes=fixes)
        self.clock.pass_time(600)
        if exit_code is not None:
            self.ledger.end_run(run, exit_code=exit_code, summary={})

    def _take(self, run, name, arrived, *, aside, fixes):
        if aside:
            file = unreadable(name, Problem("R201", Where(name), values={"reason": "it is not a workbook"}))
            self.ledger.set_aside(run, replace(file, arrived=stamp(arrived)))
            return
        drop = drop_of(("orders", name), mapping="acme")
        drop = replace(drop, files=tuple(replace(file, arrived=stamp(arrived)) for file in drop.files), fixes=fixes)
        number = sum(map(ord, name))
        plan(self.ledger, run, drop, [document("order.create", order(number), [("orders", 2, ("A", "", "", "", ""))])])

    def late(self, began=None, **given):
        return overdue(Settings(**given), self.queries, began or self.clock.now)


@pytest.fixture
def house(tmp_path):
    clock = Ticking()
    with ledger_in(tmp_path, clock) as ledger:
        yield Ledger(ledger, clock)


IN_TIME, EMPTY = ("03-04T01:15", [("acme_1.csv", "03-03T20:00")]), ("03-05T01:15", [])
NONE_CAME = "acme: due Wed 2026-03-04 21:30, no file arrived"
EARLY = {"by": "02:20", "timezone": "UTC"}


DIED = (*EMPTY, {"exit_code": None})
RUNS = {  # what is expected besides, the runs, and what is late after them
    "in time": ({}, [IN_TIME], []),
    "none came": ({}, [IN_TIME, EMPTY], [NONE_CAME]),
    "an old time: it was not there the day before, so it came since": ({}, [("03-04T01:15", [("acme_1.csv", "01-01T20:00")])], []),
    "a time to come": ({}, [("03-04T01:15", [("acme_1.csv", "12-24T20:00")])], []),
    "set aside": ({}, [(*IN_TIME, {"aside": True, "exit_code": 65})], []),
    "a fix file is not it": ({}, [IN_TIME, ("03-05T01:15", [("acme_1.fix.csv", "03-04T20:00")], {"fixes": 1})], [NONE_CAME]),
    "a run that died could not look": ({}, [IN_TIME, DIED], []),
    "but the next one could": ({}, [IN_TIME, DIED, ("03-05T02:15", [])], [NONE_CAME]),
    "due while a run was under way": (EARLY, [("03-04T02:15", [])], []),
    "and seen by the next one": (EARLY, [("03-04T02:15", []), ("03-04T03:00", [])], ["acme: due Wed 2026-03-04 02:20, no file arrived"]),
    "too few records": (
        {"at_least_records": 2}, [IN_TIME], ["acme: due Tue 2026-03-03 21:30, 1 file with 1 record came, expected 1 file with 2 records"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "runs", "late"), RUNS.values(), ids=RUNS)
def test_what_is_late_follows_from_what_each_run_found(house, expected, runs, late):
    house.run(at("03-03T01:15"), ("acme_0.csv", at("03-02T20:00")))
    for when, files, *more in runs:
        house.run(at(when), *((name, at(arrived)) for name, arrived in files), **dict(*more))
    assert [one.text for one in house.late(expect=[ACME | expected])] == late


def test_a_file_of_the_future_is_shown_as_come_when_it_was_found(house):
    house.run(at("03-04T01:15"), ("acme_1.csv", at("12-24T20:00")))
    (awaited,) = statuses(Settings(expect=[ACME]), house.queries)
    assert awaited.came[0].came <= at("03-04T01:16")


def test_several_expectations_and_days_without_runs_are_a_line_each(house):
    assert house.late(at("03-01T01:15"), runs_due_s=90_000) == (), "no run before the first is missing"
    for when in ("03-03T01:15", "03-04T01:15"):
        house.run(at(when))
        assert house.late(at(when), runs_due_s=90_000) == ()
    house.run(at("03-30T01:15"))
    began, other = at("03-30T01:15"), {**ACME, "name": "other", "files": "other*"}
    *files, gap = house.late(began, expect=[ACME, other], runs_due_s=90_000)
    assert [one.text.partition(":")[0] for one in files] == ["acme", "other"]
    assert gap.text.endswith("(624.0 hours)")
    assert (gap.is_one_off, gap.name) == (True, "runs since 2026-03-04T01:15:00.007Z")
    assert gap.due == at("03-05T02:15") + timedelta(milliseconds=7)
    assert overdue(Settings(expect=[ACME]), None, began) == (), "without a ledger nothing is known"


def test_the_next_due_moment_is_that_of_the_first_expectation():
    both = Settings(expect=[ACME, {**ACME, "name": "early", "by": "06:00"}])
    assert next_due(both, at("03-03T12:00")) == at("03-03T20:30")
    assert next_due(both, at("03-03T20:30")) == at("03-04T05:00")
    assert next_due(Settings(), at("03-03T12:00")) is None


class Told:
    """A ledger of the last days up to now, and what the command says of it."""

    def __init__(self, folder):
        self.folder, self.settings = folder, folder / "loadsheet.toml"
        self.settings.write_text("")
        self.now = datetime.now(UTC).replace(second=0, microsecond=0)
        self.due = self.now - timedelta(hours=2)

    def expect(self, name):
        text = f'name = "{name}"\nfiles = "acme_*.csv"\nby = "{self.due:%H:%M}"\ndays = "Mon-Sun"\ntimezone = "UTC"\n'
        self.settings.write_text(f"[[expected_files.expect]]\n{text}")

    def runs(self, *days, weekdays=range(7)):
        """A run an hour ago and on each of the days before, as far back as needed; a file came before those of `days` ago."""
        clock = Ticking()
        with ledger_in(self.folder, clock) as ledger:
            book = Ledger(ledger, clock)
            for ago in range(max(days, default=2) + 1, -1, -1):
                due = self.due - timedelta(days=ago)
                came = [(f"acme_{ago}.csv", due - timedelta(minutes=30))] if ago in days else []
                book.run(due + timedelta(hours=1), *(came if due.weekday() in weekdays else []))

    def say(self, *words):
        words = ["expected", "--state", str(self.folder), "--config", str(self.settings), *words]
        done = CliRunner().invoke(loadsheet, words, standalone_mode=False)
        if done.exception:
            raise done.exception
        return done.return_value, done.stdout, done.stderr


@pytest.fixture
def told(tmp_path):
    return Told(tmp_path)


@pytest.mark.parametrize(("came", "code", "level"), [(range(4), 0, "in order"), (range(1, 4), 1, "late")])
def test_the_command_shows_what_came_and_exits_1_if_something_is_late(told, came, code, level):
    told.expect("acme")
    told.runs(*came)
    done, out, err = told.say()
    assert done == code
    assert out.splitlines()[1].split("\t")[0::2][:2] == ["acme", level]
    assert err.startswith("late: acme: due ") if code else err == ""
    told.expect("other")
    done, out, _ = told.say("--json")
    assert done == code
    names = [one["name"] for one in json.loads(out)["expected"][0]["came"]]
    assert ("acme_0.csv" in names) == (level == "in order")


def test_the_command_suggests_what_can_be_pasted(told):
    told.runs(*range(40), weekdays=range(5))
    assert told.say()[:2] == (0, "")
    code, out, _ = told.say("--suggest", "--timezone", "UTC")
    assert code == 0
    (table,) = tomllib.loads(out)["expected_files"]["expect"]
    assert (table["name"], table["files"], table["timezone"]) == ("acme", ["acme_*.csv"], "UTC")
    assert len(table["days"]) == 5
    told.settings.write_text(out)
    assert told.say()[0] == 0


def test_the_command_says_that_history_is_too_short_that_a_zone_is_wrong_and_when_schedules_run_next(told):
    told.runs()
    assert "not enough history" in told.say("--suggest")[2]
    with pytest.raises(Exception, match="there is no time zone 'Nowhere'"):
        told.say("--suggest", "--timezone", "Nowhere")
    cron = 'schedules.cron = ["30 21 * * Mon-Fri", "0 0 29 2 *"]\nschedules.timezone = "Europe/Berlin"\n'
    told.settings.write_text(cron)
    code, out, _ = told.say()
    assert code == 0
    heads, daily, rarely = (line.split("\t") for line in out.splitlines())
    assert heads == ["Schedule", "Zone", "Next runs"]
    assert daily[:2] == ["30 21 * * Mon-Fri", "Europe/Berlin"]
    assert [moment[-5:] for moment in daily[2].split("; ")] == ["21:30"] * 3
    assert [moment[9:] for moment in rarely[2].split("; ")] == ["02-29 00:00"] * 3
    schedules = json.loads(told.say("--json")[1])["schedules"]
    assert [len(one["next"]) for one in schedules] == [3, 3]
    assert schedules[0]["next"][0].endswith("30:00.000Z")


FAST = {"settle_s": 0.1, "poll_s": 0.05, "rescan_s": 30}


def test_a_run_takes_place_when_a_file_is_due_and_then_when_the_next_is(tmp_path):
    place = settings_in(tmp_path, **FAST)
    began, ran, due = time.monotonic(), [], [0.3, 0.2, None]

    def run():
        ran.append(time.monotonic() - began)
        if len(ran) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return WatchedRun(0, None)

    with WakeEvents([place], print) as wake_events:
        watch([Watch(place, run, lambda: 0, print, due_s=lambda: due.pop(0))], wake_events)
    assert due == []
    assert ran[0] >= 0.3
    assert ran[1] - ran[0] >= 0.2


@pytest.mark.parametrize(("ago", "is_ahead"), [(timedelta(minutes=1), True), (timedelta(hours=24), False)])
def test_the_run_is_due_after_the_first_due_moment_since_the_last_look(tmp_path, ago, is_ahead):
    """At once, if a due moment passed while nobody watched."""
    due = datetime.now(UTC) + timedelta(hours=1)
    settings = Settings(expect=[{"files": "a*", "by": f"{due:%H:%M}", "days": "Mon-Sun", "timezone": "UTC"}])
    with ledger_in(tmp_path, lambda: datetime.now(UTC) - ago) as ledger:
        ledger.end_run(ledger.begin_run(), exit_code=0, summary={})
        seconds = due_s(settings, ledger)
        assert (seconds > 0) == is_ahead
        assert abs(seconds - (3_600 if is_ahead else 3_600 - 86_400)) <= 61
        assert due_s(Settings(), ledger) is None

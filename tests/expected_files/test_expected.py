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
from loadsheet.cli.shipper_watches import due_s
from loadsheet.inbox_watch import WakeEvents, Watch, WatchedRun, watch
from loadsheet.ledger.codec import stamp
from loadsheet.operations.expected_files import next_due, overdue, statuses
from loadsheet.problems import Problem, Where
from loadsheet.settings import Settings

ACME = {"name": "acme", "files": "acme_*.csv", "by": "21:30", "days": "Mon-Sun", "timezone": "Europe/Berlin"}


def at(text):
    return datetime.fromisoformat(f"2026-{text}:00+00:00")


class Ledger:
    """A ledger whose nights are a list of files with their times."""

    def __init__(self, ledger, clock):
        self.ledger, self.clock, self.queries = ledger, clock, ledger.queries
        self.settings = Settings(expect=[ACME], runs_due_s=90_000)

    def night(self, when, *files, exit_code=0, aside=False, fixes=None):
        """A run that took these files, which said they were changed then; it did not end if `exit_code` is None."""
        self.clock.now = when
        run = self.ledger.begin_run()
        for name, arrived in files:
            self._take(run, name, arrived, aside=aside, fixes=fixes)
        self.clock.pass_time(600)
        if exit_code is not None:
            self.ledger.end_run(run, exit_code=exit_code, summary={})
        return run

    def _take(self, run, name, arrived, *, aside, fixes):
        if aside:
            file = unreadable(name, Problem("R201", Where(name), values={"reason": "it is not a workbook"}))
            self.ledger.set_aside(run, replace(file, arrived=stamp(arrived)))
            return
        drop = drop_of(("orders", name), mapping="acme")
        drop = replace(drop, files=tuple(replace(file, arrived=stamp(arrived)) for file in drop.files), fixes=fixes)
        number = sum(map(ord, name))
        plan(self.ledger, run, drop, [document("order.create", order(number), [("orders", 2, ("A", "", "", "", ""))])])

    def late(self, began=None):
        return [one.text for one in overdue(self.settings, self.queries, began or self.clock.now)]


@pytest.fixture
def house(tmp_path):
    clock = Ticking()
    with ledger_in(tmp_path, clock) as ledger:
        yield Ledger(ledger, clock)


def test_a_file_in_time_is_not_late_and_one_that_did_not_come_is(house):
    house.night(at("03-03T01:15"))
    house.night(at("03-04T01:15"), ("acme_1.csv", at("03-03T20:00")))
    assert house.late() == []
    house.night(at("03-05T01:15"))
    assert house.late() == ["acme: due Wed 2026-03-04 21:30, no file arrived"]


def test_a_file_of_which_the_sender_kept_an_old_time_came_when_it_was_found(house):
    house.night(at("03-03T01:15"))
    house.night(at("03-04T01:15"), ("acme_1.csv", at("01-01T20:00")))
    assert house.late() == [], "it was not there at 01:15 the night before, so it came since"


def test_a_file_of_the_future_came_when_it_was_found(house):
    house.night(at("03-03T01:15"))
    house.night(at("03-04T01:15"), ("acme_1.csv", at("12-24T20:00")))
    assert house.late() == []
    (awaited,) = statuses(house.settings, house.queries)
    assert awaited.came[0].came <= at("03-04T01:16")


def test_files_that_were_set_aside_have_come_and_fix_files_have_not(house):
    house.night(at("03-03T01:15"), ("acme_0.csv", at("03-02T20:00")))
    house.night(at("03-04T01:15"), ("acme_1.csv", at("03-03T20:00")), aside=True, exit_code=65)
    assert house.late() == []
    house.night(at("03-05T01:15"), ("acme_1.fix.csv", at("03-04T20:00")), fixes=1)
    assert house.late() == ["acme: due Wed 2026-03-04 21:30, no file arrived"]


def test_a_run_that_could_not_look_says_nothing_new_about_files(house):
    house.settings = Settings(expect=[ACME])
    house.night(at("03-03T01:15"))
    house.night(at("03-04T01:15"), ("acme_1.csv", at("03-03T20:00")))
    house.night(at("03-05T01:15"), exit_code=None)
    assert house.late() == [], "the file may lie in the inbox"
    house.night(at("03-05T02:15"))
    assert len(house.late()) == 1


def test_a_file_that_comes_while_a_run_is_under_way_is_not_missed_by_it(house):
    house.settings = Settings(expect=[{**ACME, "by": "02:20", "timezone": "UTC"}])
    house.night(at("03-03T02:15"), ("acme_0.csv", at("03-02T20:00")))
    house.night(at("03-04T02:15"))
    assert house.late() == [], "it was not due yet when the run looked, but is when it has ended"
    house.night(at("03-04T03:00"))
    assert house.late() == ["acme: due Wed 2026-03-04 02:20, no file arrived"]


def test_records_are_counted_if_they_are_expected(house):
    house.settings = Settings(expect=[{**ACME, "at_least_records": 2}])
    house.night(at("03-03T01:15"))
    house.night(at("03-04T01:15"), ("acme_1.csv", at("03-03T20:00")))
    assert house.late() == [
        "acme: due Tue 2026-03-03 21:30, 1 file with 1 records came, expected 1 file with 2 records"
    ]


def test_several_expectations_and_days_without_runs_are_a_line_each(house):
    other = {**ACME, "name": "other", "files": "other*"}
    house.settings = Settings(expect=[ACME, other], runs_due_s=90_000)
    house.night(at("03-03T01:15"))
    house.night(at("03-30T01:15"))
    late = house.late(at("03-30T01:15"))
    assert [line.partition(":")[0] for line in late[:2]] == ["acme", "other"]
    assert late[2].endswith("(648.0 hours)")
    assert len(late) == 3


def test_a_gap_between_runs_is_told_for_what_it_is(house):
    house.settings = Settings(runs_due_s=90_000)
    assert house.late(at("03-01T01:15")) == [], "no run before the first is missing"
    house.night(at("03-03T01:15"))
    house.night(at("03-04T01:15"))
    assert house.late(at("03-04T01:15")) == []
    house.night(at("03-06T01:15"))
    (late,) = overdue(house.settings, house.queries, at("03-06T01:15"))
    assert late.is_one_off
    assert late.name == "runs since 2026-03-04T01:15:00.007Z"
    assert late.due == at("03-05T02:15") + timedelta(milliseconds=7)


def test_without_a_ledger_nothing_is_known_to_be_late(house):
    assert overdue(house.settings, None, at("03-06T01:15")) == ()


def test_the_next_due_moment_is_that_of_the_first_expectation():
    both = Settings(expect=[ACME, {**ACME, "name": "early", "by": "06:00"}])
    assert next_due(both, at("03-03T12:00")) == at("03-03T20:30")
    assert next_due(both, at("03-03T20:30")) == at("03-04T05:00")
    assert next_due(Settings(), at("03-03T12:00")) is None


class Told:
    """A ledger of the last nights up to now, and what the command says of it."""

    def __init__(self, folder):
        self.folder = folder
        self.now = datetime.now(UTC).replace(second=0, microsecond=0)
        self.due = self.now - timedelta(hours=2)

    def declare(self, name="acme"):
        text = f'[[expected_files.expect]]\nname = "{name}"\nfiles = "acme_*.csv"\nby = "{self.due:%H:%M}"\ndays = "Mon-Sun"\ntimezone = "UTC"\n'
        (self.folder / "loadsheet.toml").write_text(text)

    def nights(self, *days, weekdays=range(7)):
        """A run an hour ago and on each of the days before, as far back as needed; a file came before those of `days` ago."""
        clock = Ticking()
        with ledger_in(self.folder, clock) as ledger:
            book = Ledger(ledger, clock)
            for ago in range(max(days, default=2) + 1, -1, -1):
                due = self.due - timedelta(days=ago)
                came = [(f"acme_{ago}.csv", due - timedelta(minutes=30))] if ago in days else []
                book.night(due + timedelta(hours=1), *(came if due.weekday() in weekdays else []))

    def say(self, *words):
        done = CliRunner().invoke(
            loadsheet,
            ["expected", "--state", str(self.folder), "--config", str(self.folder / "loadsheet.toml"), *words],
            standalone_mode=False,
        )
        if done.exception:
            raise done.exception
        return done.return_value, done.stdout, done.stderr


@pytest.fixture
def told(tmp_path):
    return Told(tmp_path)


def test_the_command_shows_what_came_and_exits_1_if_something_is_late(told):
    told.declare()
    told.nights(*range(4))
    code, out, err = told.say()
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split("\t")[0::2][:2] == ["acme", "in order"]
    assert "acme_0.csv" in out

    told.declare("other")
    code, out, _ = told.say("--json")
    assert code == 0
    assert json.loads(out)["expected"][0]["came"][-1]["name"] == "acme_0.csv"


def test_the_command_says_what_is_late(told):
    told.declare()
    told.nights(*range(1, 4))
    code, out, err = told.say()
    assert code == 1
    assert "\tlate\t" in out
    assert err.startswith("late: acme: due ")


def test_the_command_suggests_what_can_be_pasted(told):
    (told.folder / "loadsheet.toml").write_text("")
    told.nights(*range(40), weekdays=range(5))
    code, out, _ = told.say()
    assert (code, out) == (0, "")
    code, out, _ = told.say("--suggest", "--timezone", "UTC")
    assert code == 0
    (table,) = tomllib.loads(out)["expected_files"]["expect"]
    assert (table["name"], table["files"], table["timezone"]) == ("acme", ["acme_*.csv"], "UTC")
    assert len(table["days"]) == 5
    (told.folder / "loadsheet.toml").write_text(out)
    assert told.say()[0] == 0


def test_too_little_history_and_wrong_zones_are_said(told):
    (told.folder / "loadsheet.toml").write_text("")
    told.nights()
    assert "not enough history" in told.say("--suggest")[2]
    with pytest.raises(Exception, match="there is no time zone 'Nowhere'"):
        told.say("--suggest", "--timezone", "Nowhere")


def test_the_command_shows_the_runs_that_a_schedule_starts_next(told):
    (told.folder / "loadsheet.toml").write_text(
        'schedules.cron = ["30 21 * * Mon-Fri", "0 0 29 2 *"]\nschedules.timezone = "Europe/Berlin"\n'
    )
    told.nights(*range(3))
    code, out, _ = told.say()
    assert code == 0
    heads, nightly, rarely = (line.split("\t") for line in out.splitlines())
    assert heads == ["Schedule", "Zone", "Next runs"]
    assert nightly[:2] == ["30 21 * * Mon-Fri", "Europe/Berlin"]
    assert [moment[-5:] for moment in nightly[2].split("; ")] == ["21:30"] * 3
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

"""`loadsheet workers` as an operator meets it, and the fleet that it shows, on a real PostgreSQL."""

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner
from shared_ledger import Fleet, joined, shared_settings

from loadsheet.cli import loadsheet
from loadsheet.cluster.timetable import tick
from loadsheet.errors import LedgerGone
from loadsheet.ledger.codec import utc_from_seconds
from loadsheet.ledger.ledger_tables import database_time
from loadsheet.ledger.shared.cluster_status import cluster_status, read_status
from loadsheet.ledger.shared.mutual_exclusion import ScheduleKey, begin_schedule
from loadsheet.settings import Settings


@pytest.fixture
def settings():
    return shared_settings()


@pytest.fixture
def file(settings, tmp_path):
    """The settings file of a fleet with two shippers, one of which has a schedule."""
    path = tmp_path / "loadsheet.toml"
    path.write_text(
        f'database = "{settings.database}"\ncluster.database_schema = "{settings.cluster.database_schema}"\n'
        '[shippers.acme]\nschedules.cron = "30 21 * * Mon-Fri"\nschedules.timezone = "Europe/Berlin"\n[shippers.bolt]\n'
    )
    return path


@pytest.fixture
def fleet(settings):
    with joined(settings) as connection:
        yield Fleet(connection)


def ask(file, *words):
    done = CliRunner().invoke(loadsheet, ["workers", "--config", str(file), *words], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.stdout


def test_people_and_machines_see_who_works_what_waits_and_when_runs_are_due(fleet, settings, file):
    fleet.worker("alfa-1-aa", seen=25, serves=["acme"], doing=["acme run (files)", {"shipper": "acme", "reason": "resend"}],
                 done=1_204, version="1.2")  # fmt: skip
    fleet.worker("beta-2-bb", seen=-2)  # its clock, or the server's, is ahead
    fleet.worker("beta-3-cc", seen=31)
    fleet.worker("beta-4-dd", seen=1, ended=1)
    for age in (60, 3_600, 90_000):
        fleet.takeover("process 1 on alfa", age=age)
    fleet.takeover("process 2 on alfa", age=50)
    for age in (10, 400):
        fleet.job("acme", "files", age=age)
    fleet.job("acme", "files", status="doing", age=9_000)
    fleet.job("acme", "files", status="succeeded", age=90_000)
    fleet.job("bolt", "schedule", age=20)
    fleet.job("bolt", "resend", status="doing")
    fleet.pace(wants=[("alfa-1-aa", 20, 3)])
    fleet.pace(token="other", setback=(30.0, "429"))
    lines = [line.split("\t") for line in ask(file).splitlines()]
    assert lines[0] == ["2 live workers; 3 wait in the queue, the oldest for 7 min; 3 takeovers within a day"]
    rows = {line[0]: line for line in lines if len(line) > 1}
    _name, state, host, process, version, _since, when, serves, doing, done = rows["alfa-1-aa"]
    assert (state, host, process, version, serves) == ("lives", "alfa", "7", "1.2", "acme")
    assert (doing, done) == ("acme run (files); acme resend", "1204")
    assert (when.endswith(" s ago"), rows["beta-2-bb"][6]) == (True, "0 s ago")
    assert [rows[name][1] for name in ("beta-2-bb", "beta-3-cc", "beta-4-dd")] == ["lives", "silent", "ended"]
    assert ["acme", "files", "2", "1", "7 min"] in lines
    assert ["https://exchange.example", "100%", "no"] in [[line[0], *line[-2:]] for line in lines]
    scheduled = next(line for line in lines if "Europe" in "".join(line))
    assert scheduled[:4] == ["acme", "30 21 * * Mon-Fri Europe/Berlin", "", ""]

    told = json.loads(ask(file, "--json"))
    assert (told["shared"], told["alive"], told["waiting"], told["takeovers_of_day"]) == (True, 2, 3, 3)
    named = {"host", "process", "version", "since", "seen", "serves", "doing", "done", "state"}
    assert named <= told["workers"][0].keys()
    queue = [(one["shipper"], one["reason"], one["waiting"], one["under_way"]) for one in told["queue"]]
    assert queue == [("acme", "files", 2, 1), ("bolt", "resend", 0, 1), ("bolt", "schedule", 1, 0)]
    assert 400 <= told["queue"][0]["oldest_s"] < 460
    assert told["queue"][1]["oldest_s"] == 0
    one, two = sorted(told["paces"], key=lambda pace: -pace["share"])
    assert (one["exchange"], one["per_second"], one["connections"], one["share"]) == (
        "https://exchange.example",
        50,
        8,
        1,
    )
    assert (two["share"] < 1, two["reason"]) == (True, "429")
    newest = told["takeovers"][0]
    assert (newest["shipper"], newest["before"], newest["after"]) == ("acme", "process 9 on beta", "process 2 on alfa")
    (schedule,) = told["schedules"]
    assert (schedule["shipper"], schedule["zone"], schedule["last"]) == ("acme", "Europe/Berlin", None)
    assert schedule["next"].endswith("30:00.000Z")
    seen = read_status(fleet.connection, 30)
    assert 595 < (seen.at - seen.workers[0].since).total_seconds() < 660
    assert seen.takeovers_ever == 4
    assert (0 < seen.paces[0].leased_per_second <= 50) is (seen.paces[0].share == 1)
    assert 20 < max(pace.paused_s for pace in seen.paces) <= 30

    fleet.worker("evil-\x1b[31m-1", doing=["<b>\ttab"])
    told = ask(file)
    assert "\x1b" not in told, "what others wrote reaches no terminal as more than text"
    assert all(len(line.split("\t")) in (1, 4, 5, 10) for line in told.splitlines())


def test_a_schedule_that_fired_shows_when_and_by_whom(fleet, file):
    acme = Settings.load(file, shipper="acme")
    known = ScheduleKey("acme", acme.schedules.timetable[0].name)
    begin_schedule(fleet.connection, known, utc_from_seconds(database_time(fleet.connection)) - timedelta(days=8))
    late = acme.model_copy(update={"catch_up_s": 30 * 86_400})
    (fired,) = tick(fleet.connection, {"acme": late}, "alfa-1-aa")
    (schedule,) = json.loads(ask(file, "--json"))["schedules"]
    assert schedule["last"]["by"] == "alfa-1-aa"
    assert schedule["last"]["caught_up"] == fired.due.caught_up >= 4
    assert f"{fired.due.caught_up} missed before it\talfa-1-aa\t" in ask(file)


def test_where_nobody_worked_yet_there_are_none(settings, file):
    assert ask(file) == "0 live workers; 0 wait in the queue; 0 takeovers within a day\n"
    with joined(settings):
        assert cluster_status(settings).alive == 0


def test_a_ledger_in_a_file_has_one_process_and_says_so(tmp_path):
    file = tmp_path / "loadsheet.toml"
    file.write_text("[shippers.acme]\n[shippers.bolt]\n")
    assert (
        ask(file) == "the ledger is a file, which one process uses at a time: there are no workers (setting database)\n"
    )
    assert json.loads(ask(file, "--json")) == {"shared": False}
    assert cluster_status(Settings()) is None


def test_a_database_that_cannot_be_reached_is_exit_75_without_the_password(tmp_path):
    file = tmp_path / "loadsheet.toml"
    file.write_text(f'database = "postgresql://me:hunter2@/there?host={tmp_path}"\n')
    with pytest.raises(LedgerGone, match="try again when the server can be reached") as gone:
        ask(file)
    assert gone.value.exit_code == 75
    assert "hunter2" not in str(gone.value)

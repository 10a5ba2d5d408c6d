"""What history suggests to expect: on synthetic histories of which it is known how they came about."""

import tomllib
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadsheet.ledger.run_queries import Arrival
from loadsheet.operations.expected_files import as_toml, patterns, status_of, suggest, zone_of
from loadsheet.settings import Settings
from loadsheet.settings.operations_sections import WEEKDAYS, Expectation

BERLIN = zone_of("Europe/Berlin")
FIRST = date(2026, 2, 2)  # a Monday
WORKDAYS = range(5)


def history(
    *, days=56, on=WORKDAYS, at="21:00", spread=28, files=1, but=(), mapping="acme", seed=1, name="acme_{day}.xlsx"
):
    """Files of `on`'s weekdays from `at` on local time, `spread` minutes later at most; none on the days `but`."""
    random, found = Random(seed), []
    for day in (FIRST + timedelta(days=passed) for passed in range(days)):
        if day.weekday() not in on or day in but:
            continue
        for number in range(files):
            wall = datetime.fromisoformat(f"{day} {at}") + timedelta(minutes=random.uniform(0, spread))
            came = wall.replace(tzinfo=BERLIN).astimezone(UTC)
            records = random.randint(180, 240)
            drop = len(found)
            named = name.format(day=day, number=number)
            found.append(Arrival(named, came, f"{day}-01", mapping, "orders", records, drop))
    return sorted(found, key=lambda one: one.came)


def end(days=56):
    return datetime.combine(FIRST + timedelta(days=days), datetime.min.time(), BERLIN).astimezone(UTC)


def only(arrivals, **more):
    (found,) = suggest(arrivals, more.pop("now", end()), BERLIN, **more)
    return found


def test_weekdays_time_and_records_are_suggested_with_their_evidence():
    found = only(history(but={date(2026, 2, 17)}))
    assert found.days == WEEKDAYS[:5]
    assert "21:40" <= found.by <= "22:00"
    assert found.files == ("acme_*.xlsx",)
    assert found.at_least == 1
    assert found.evidence.startswith("39 of 40 weekdays since 2026-02-02, 18")
    assert found.evidence[-len("records, by 21:28") :] in {f"records, by 21:{minute}" for minute in range(24, 30)}


def test_a_suggestion_pasted_into_the_settings_is_an_expectation(tmp_path):
    file = tmp_path / "loadsheet.toml"
    file.write_text(as_toml(only(history(name='a"c[1]_{day}.xlsx', files=2)), "Europe/Berlin"))
    assert tomllib.loads(file.read_text())["expected_files"]["expect"][0]["at_least"] == 2
    (expectation,) = Settings.load(file).expected_files.expect
    assert (expectation.name, expectation.timezone) == ("acme", "Europe/Berlin")
    assert status_of(expectation, history(name='a"c[1]_{day}.xlsx', files=2), looked=end(), since=end(0)).came


def at_random():
    random = Random(3)
    return {FIRST + timedelta(days=passed) for passed in range(56) if random.random() < 0.5}


NO_RULE = {
    "none": ([], end()),
    "too short": (history(days=20), end(20)),
    "at random": (history(on=range(7), but=at_random()), end()),
    "has stopped": (history(days=56), end(90)),
    "set aside": ([one._replace(mapping="", role="") for one in history()], end()),
    "ready files": ([one._replace(role="trigger") for one in history()], end()),
}


@pytest.mark.parametrize(("arrivals", "now"), NO_RULE.values(), ids=NO_RULE)
def test_a_history_without_a_rule_suggests_nothing(arrivals, now):
    assert suggest(arrivals, now, BERLIN) == []


def test_a_weekly_file_is_expected_on_its_day():
    found = only(history(on=[2], at="06:00"))
    assert found.days == ("Wed",)
    assert found.evidence.startswith("8 of 8 Wed since 2026-02-04")


def test_a_file_around_midnight_is_due_on_the_day_after_but_slack_alone_carries_none_there():
    found = only(history(at="23:40", spread=50))
    assert found.days == ("Tue", "Wed", "Thu", "Fri", "Sat")
    assert "00:40" <= found.by <= "01:30"
    found = only(history(at="23:30", spread=25))
    assert (found.by, found.days) == ("23:59", WEEKDAYS[:5])


def test_a_change_of_clocks_in_between_spreads_nothing():
    assert only(history(days=70, spread=1), now=end(70)).by == "21:20"


def test_a_day_that_is_not_over_demands_nothing():
    weeks = history(days=28, files=2, but={date(2026, 2, 17)})
    now = end(28) + timedelta(hours=21, minutes=10)
    first_of_today = weeks[-1]._replace(name="acme_today.xlsx", came=now - timedelta(minutes=5), number=len(weeks))
    assert only([*weeks, first_of_today], now=now).at_least == 2


def test_a_single_very_late_day_does_not_make_the_limit():
    arrivals = history()
    odd = arrivals[20]._replace(came=arrivals[20].came + timedelta(hours=4))
    assert only(sorted([*arrivals[:20], odd, *arrivals[21:]], key=lambda one: one.came)).by < "22:10"


def test_public_holidays_do_not_count_as_days_without_a_file():
    holy = {date(2026, 4, 3), date(2026, 4, 6)}
    arrivals = history(days=77, but=holy)
    assert only(arrivals, now=end(77)).evidence.startswith("53 of 55 weekdays")
    assert only(arrivals, now=end(77), working_days="DE").evidence.startswith("53 of 53 weekdays")


def test_each_role_of_a_mapping_is_expected_by_itself():
    orders, lines = history(), [one._replace(role="lines", name=f"lines-{one.name}") for one in history(at="20:00")]
    found = suggest(sorted([*orders, *lines], key=lambda one: one.came), end(), BERLIN)
    assert [one.name for one in found] == ["acme lines", "acme orders"]


@settings(deadline=None, max_examples=40)
@given(
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(1, 180),
    st.integers(1, 3),
    st.integers(0, 2**16),
)
def test_of_a_regular_history_nearly_nothing_would_have_been_late(on, start, spread, files, seed):
    """The suggestion, taken at its word, over the very history that it comes from: late on five in a hundred days at most."""
    at = f"{start // 60:02}:{start % 60:02}"
    arrivals = history(days=84, on=on, at=at, spread=spread, files=files, seed=seed)
    found = only(arrivals, now=end(85))
    assert len(found.days) == len(on)
    assert found.at_least == files
    expectation = Expectation(
        files=found.files, by=found.by, days=found.days, at_least=found.at_least, timezone="Europe/Berlin"
    )
    looks = [end(day) + timedelta(minutes=minutes) for day in range(7, 84) for minutes in (0, 720)]
    dues = {}
    for looked in looks:
        stands = status_of(expectation, arrivals, looked=looked, since=end(0))
        if stands.due is not None:
            dues.setdefault(stands.due, stands.late)
    assert sum(dues.values()) <= 0.1 * len(dues) + 1


@given(st.lists(st.text("ab*?[]!_-. /0123456789", min_size=1, max_size=12), min_size=1, max_size=12))
def test_every_name_fits_the_patterns_that_are_made_of_them(names):
    found = patterns(names)
    assert len(found) <= 3
    for name in names:
        assert any(fnmatchcase(name.rpartition("/")[2], one) for one in found)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["acme_2026-03-04.csv", "acme_2026-03-05.csv"], ("acme_*.csv",)),
        (["in/a1.csv", "in/b22.csv"], ("a*.csv", "b*.csv")),
        (["x anna.csv", "x bert.csv", "x carl.csv", "x dora.csv"], ("x *.csv",)),
    ],
)
def test_patterns_leave_open_what_differs(names, found):
    assert patterns(names) == found

"""Whether what is expected has come: which file counts for which due moment."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.ledger.run_queries import Arrival
from loadsheet.operations.expected_files import matches, status_of
from loadsheet.settings.operations_sections import Expectation

LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
DAILY = Expectation(name="acme", files="acme_*.csv", by="21:30", days="Mon-Sun", timezone="UTC")


def at(day, clock="00:00"):
    return datetime.fromisoformat(f"2026-11-{day:02}T{clock}:00+00:00")


def came(*when, records=10, mapping="acme"):
    return [
        Arrival(f"acme_{number}.csv", moment, f"run-{number}", mapping, "orders" if mapping else "", records, number)
        for number, moment in enumerate(sorted(when))
    ]


def stands(arrivals, looked, expectation=DAILY, since=LONG_AGO):
    return status_of(expectation, arrivals, looked=looked, since=since)


def test_what_came_and_when_the_next_is_due_is_shown():
    awaited = stands(came(at(17, "21:00"), at(18, "21:29")), at(19, "02:15"))
    assert (awaited.late, awaited.due, awaited.next_due) == (False, at(18, "21:30"), at(19, "21:30"))
    assert awaited.text == "acme: due Wed 2026-11-18 21:30, came Wed 2026-11-18 21:29 (acme_1.csv)"
    awaited = stands(came(at(17, "21:00")), at(19, "02:15"))
    assert (awaited.late, awaited.text) == (True, "acme: due Wed 2026-11-18 21:30, no file arrived")
    fresh = stands([], at(18, "22:00"), since=at(18, "22:00"))
    assert (fresh.late, fresh.due) == (False, None), "what was due before the first look is not judged"
    assert stands([], at(19, "22:00"), since=at(18, "22:00")).late


MANY = {"at_least": 2, "at_least_records": 100}
WORKDAYS = {"days": ("Mon", "Tue", "Wed", "Thu", "Fri")}


@pytest.mark.parametrize(
    ("arrivals", "looked", "late"),
    [
        # nothing is late before it is due
        ([(17, "21:00")], (18, "21:29"), False),
        ([(17, "21:00")], (18, "21:30"), True),
        # a file after half of the time counts for the next due time
        ([(17, "21:00"), (19, "20:00")], (19, "20:05"), False),
        ([(17, "21:00"), (19, "20:00")], (20, "02:15"), False),
        # a day that never came does not shift the days after it
        ([(14, "21:00"), (15, "21:00"), (17, "21:00"), (18, "21:00")], (17, "02:15"), True),
        ([(14, "21:00"), (15, "21:00"), (17, "21:00"), (18, "21:00")], (18, "02:15"), False),
        ([(14, "21:00"), (15, "21:00"), (17, "21:00"), (18, "21:00")], (19, "02:15"), False),
        # a file that follows one that was in time counts for the next
        ([(17, "21:00"), (18, "06:00")], (19, "02:15"), False),
        # a file that came late closes its day and does not count for the next one
        ([(17, "21:00"), (19, "01:00")], (19, "02:15"), False),
        ([(17, "21:00"), (19, "01:00")], (20, "02:15"), True),
        ([(17, "21:00"), (19, "01:00"), (19, "20:00")], (20, "02:15"), False),
    ],
)
def test_a_file_counts_for_one_due_time(arrivals, looked, late):
    awaited = stands(came(*(at(*one) for one in arrivals)), at(*looked))
    assert awaited.late == late
    if arrivals[-1] == (19, "01:00") and not late:
        assert awaited.text.endswith("came Thu 2026-11-19 01:00, late (acme_1.csv)")


@pytest.mark.parametrize(
    ("expected", "arrivals", "looked", "late", "said"),
    [
        (WORKDAYS, came(at(20, "21:00")), at(22, "12:00"), False, "came Fri 2026-11-20 21:00 (acme_0.csv)"),
        (WORKDAYS, came(at(20, "21:00")), at(24, "02:15"), True, "due Mon 2026-11-23 21:30, no file arrived"),
        ({}, came(at(18, "21:00"), mapping="", records=0), at(19), False, "(acme_0.csv, set aside)"),
        (
            {"at_least": 2},
            came(at(18, "21:00"), mapping="", records=0),
            at(19),
            True,
            "1 file came, 1 of them set aside, expected 2 files",
        ),
        (MANY, came(at(18, "20:00"), records=500), at(19), True, "expected 2 files with 100 records"),
        (
            MANY,
            came(at(18, "20:00"), at(18, "21:00"), records=20),
            at(19),
            True,
            "2 files with 40 records came, expected 2 files with 100 records",
        ),
        (
            MANY,
            came(at(18, "20:00"), at(18, "21:00"), records=50),
            at(19),
            False,
            "came Wed 2026-11-18 21:00 (acme_1.csv)",
        ),
    ],
    ids=["a weekend", "after it", "set aside", "one of two", "too few files", "too few records", "as many"],
)
def test_days_files_and_records_are_those_that_are_expected(expected, arrivals, looked, late, said):
    awaited = stands(arrivals, looked, DAILY.model_copy(update=expected))
    assert (awaited.late, awaited.text[-len(said) :]) == (late, said)


def test_the_files_of_one_drop_count_its_records_once():
    wanted = DAILY.model_copy(update={"at_least_records": 15})
    one, other = came(at(18, "20:00"), at(18, "20:01"))
    assert stands([one, other._replace(number=one.number)], at(19), wanted).late


def test_patterns_fit_names_in_any_folder_whatever_their_case():
    assert matches("acme/ACME_1.CSV", ("acme_*.csv",))
    assert matches("acme/x.csv", ("acme/*.csv",))
    assert not matches("other/x.csv", ("acme/*.csv",))
    assert not matches("acme_1.csv.fix", ("acme_*.csv",))


moments = st.datetimes(datetime(2026, 11, 2), datetime(2026, 11, 30)).map(lambda when: when.replace(tzinfo=UTC))


@given(st.sets(st.integers(2, 26)), st.integers(28, 29))
def test_of_days_on_time_or_missing_just_the_last_decides(days, looked):
    arrivals = came(*(at(day, "21:00") for day in days))
    assert stands(arrivals, at(looked, "02:15")).late == (looked - 1 not in days)


@given(st.lists(moments, max_size=12, unique=True), moments, moments)
def test_a_further_file_after_the_last_due_moment_always_closes_it(when, looked, more):
    before = stands(came(*when), looked)
    after = stands(came(*when, more), looked)
    if before.due is not None and before.due < more <= looked:
        assert not after.late


@given(st.lists(moments, max_size=12, unique=True), moments, st.floats(0, 20))
def test_what_comes_in_the_future_changes_nothing(when, looked, days):
    later = looked + timedelta(days=days, seconds=1)
    assert stands(came(*when), looked).late == stands(came(*when, later), looked).late

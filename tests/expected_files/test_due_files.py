"""When something is due, also where clocks are changed, and whether it has come: which file counts for which due moment."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.errors import SettingsError
from loadsheet.ledger.run_queries import Arrival
from loadsheet.operations.expected_files import DueTimes, free_days, local_text, matches, status_of, to_utc, zone_of
from loadsheet.settings import Settings
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


ASIDE = came(at(18, "21:00"), mapping="", records=0)
EXPECTED = {  # what is expected, the files, the look, and whether it is late and what is said
    "a weekend": (WORKDAYS, came(at(20, "21:00")), at(22, "12:00"), False, "came Fri 2026-11-20 21:00 (acme_0.csv)"),
    "after it": (WORKDAYS, came(at(20, "21:00")), at(24, "02:15"), True, "due Mon 2026-11-23 21:30, no file arrived"),
    "set aside": ({}, ASIDE, at(19), False, "(acme_0.csv, set aside)"),
    "one of two": ({"at_least": 2}, ASIDE, at(19), True, "1 file came, 1 of them set aside, expected 2 files"),
    "too few files": (MANY, came(at(18, "20:00"), records=500), at(19), True, "expected 2 files with 100 records"),
    "too few records": (
        MANY, came(at(18, "20:00"), at(18, "21:00"), records=20), at(19), True, "2 files with 40 records came, expected 2 files with 100 records",
    ),
    "as many": (MANY, came(at(18, "20:00"), at(18, "21:00"), records=50), at(19), False, "came Wed 2026-11-18 21:00 (acme_1.csv)"),
}  # fmt: skip


@pytest.mark.parametrize(("expected", "arrivals", "looked", "late", "said"), EXPECTED.values(), ids=EXPECTED)
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


BERLIN = zone_of("Europe/Berlin")


def dues(days="Mon-Fri", by="21:30", **more):
    return DueTimes(Expectation(files="a*", by=by, days=days, timezone="Europe/Berlin", **more))


@pytest.mark.parametrize(
    ("day", "at", "meant"),
    [
        # the same on the wall before and after clocks are changed
        (date(2026, 3, 27), time(21, 30), datetime(2026, 3, 27, 20, 30, tzinfo=UTC)),
        (date(2026, 3, 30), time(21, 30), datetime(2026, 3, 30, 19, 30, tzinfo=UTC)),
        # in the gap: 02:30 does not exist on this day; 01:30 UTC is 03:30 on the wall
        (date(2026, 3, 29), time(2, 30), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        # in the fold: 02:30 exists twice, at 00:30 and at 01:30 UTC
        (date(2026, 10, 25), time(2, 30), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
)
def test_a_time_is_that_of_the_wall_and_the_later_reading_where_clocks_are_changed(day, at, meant):
    assert to_utc(day, at, BERLIN) == meant


def test_nothing_is_due_on_other_days_of_the_week():
    saturday = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert [local_text(due, BERLIN) for due in islice(dues("Mon-Fri").before(saturday), 2)] == [
        "Fri 2026-11-20 21:30",
        "Thu 2026-11-19 21:30",
    ]
    assert local_text(dues("Mon-Fri").after(saturday), BERLIN) == "Mon 2026-11-23 21:30"


def test_nothing_is_due_on_public_holidays_of_the_expectation_or_of_the_settings():
    monday = datetime(2025, 12, 29, 8, tzinfo=UTC)
    expectation = Expectation(files="a*", by="06:00", timezone="Europe/Berlin")
    assert local_text(next(DueTimes(expectation).before(datetime(2025, 12, 26, 8, tzinfo=UTC))), BERLIN)[:3] == "Fri"
    before = [local_text(due, BERLIN)[4:14] for due in islice(DueTimes(expectation, "DE").before(monday), 3)]
    assert before == ["2025-12-29", "2025-12-24", "2025-12-23"]
    mine = expectation.model_copy(update={"holidays": "none"})
    assert local_text(list(islice(DueTimes(mine, "DE").before(monday), 2))[1], BERLIN)[4:14] == "2025-12-26"


def test_an_unknown_country_has_no_holidays():
    assert not free_days("XX")(date(2025, 12, 25))


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(lambda when: when.replace(tzinfo=UTC)),
    st.times().map(lambda at: f"{at:%H:%M}"),
    st.sets(st.integers(1, 7), min_size=1),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]),
)
def test_due_moments_go_down_without_a_hole_and_the_next_follows(now, by, days, zone):
    found = DueTimes(Expectation(files="a*", by=by, days=tuple(map(str, sorted(days))), timezone=zone))
    last, before = islice(found.before(now), 2)
    assert before < last <= now < found.after(now)
    assert found.after(before) == last
    assert found.after(now) - before < timedelta(days=15)


@pytest.mark.parametrize(
    ("days", "meant"),
    [
        ("Mon-Fri", ("Mon", "Tue", "Wed", "Thu", "Fri")),
        (["tuesday", 7], ("Tue", "Sun")),
        ("Fri-Mon", ("Mon", "Fri", "Sat", "Sun")),
        (3, ("Wed",)),
    ],
)
def test_days_are_names_numbers_and_ranges(days, meant):
    assert Expectation(files="a*", by="06:00", days=days).days == meant


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"by": "24:00"}, "'24:00' is not a time of day"),
        ({"days": "Mo"}, "'Mo' is not a day of the week"),
        ({"days": []}, "no day is given"),
        ({"timezone": "Europe/Atlantis"}, "there is no time zone 'Europe/Atlantis'"),
        ({"timezone": "../../etc/passwd"}, "there is no time zone"),
        ({"at_least": 0}, "greater than 0"),
        ({"until": "21:30"}, "unknown setting"),
    ],
)
def test_what_is_wrong_with_an_expectation_is_said_in_a_sentence(wrong, said):
    with pytest.raises(SettingsError, match=r"expect\.0") as refused:
        Settings.load(expect=[{"files": "a*", "by": "21:30", **wrong}])
    assert said in str(refused.value)


def test_expectations_stand_in_the_settings_file_as_tables(tmp_path):
    file = tmp_path / "loadsheet.toml"
    table = "[[expected_files.expect]]\nfiles = {}\nby = '21:30'\n"
    file.write_text(table.format("'acme_*.xlsx'") + table.format("['b*']\nname = 'b'"))
    found = [(one.called, one.files) for one in Settings.load(file).expected_files.expect]
    assert found == [("acme_*.xlsx", ("acme_*.xlsx",)), ("b", ("b*",))]
    file.write_text(table.format("'a*'") * 2)
    with pytest.raises(SettingsError, match="two have the name"):
        Settings.load(file)

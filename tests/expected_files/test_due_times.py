"""When something is due: wall times as moments, also where clocks are changed."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.operations.expected_files import DueTimes, free_days, local_text, to_utc, zone_of
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings
from loadsheet.settings.operations_sections import Expectation

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


def test_the_holidays_of_a_country_that_nobody_knows_are_no_holidays():
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
    file.write_text(
        '[[expected_files.expect]]\nfiles = "acme_*.xlsx"\nby = "21:30"\n\n[[expected_files.expect]]\nname = "b"\nfiles = ["b*"]\nby = "06:00"\n'
    )
    assert [(one.called, one.files) for one in Settings.load(file).expected_files.expect] == [
        ("acme_*.xlsx", ("acme_*.xlsx",)),
        ("b", ("b*",)),
    ]
    file.write_text(
        '[[expected_files.expect]]\nfiles = "a*"\nby = "21:30"\n[[expected_files.expect]]\nfiles = "a*"\nby = "06:00"\n'
    )
    with pytest.raises(SettingsError, match="two have the name"):
        Settings.load(file)

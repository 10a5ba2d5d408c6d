"""When a schedule is due: in every time zone there is, held against clocks that are read minute by minute."""

import zoneinfo
from bisect import bisect_left
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.errors import SettingsError
from loadsheet.schedules import EXAMPLE, Due, Schedule, read
from loadsheet.settings import Settings

MINUTE = timedelta(minutes=1)
ZONES = sorted(zoneinfo.available_timezones())
DAY = timedelta(days=1)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def moments(schedule, after, until):
    return [f"{moment:%m-%d %H:%M}" for moment in schedule.between(at(after), at(until))]


def test_a_schedule_goes_by_the_clocks_of_its_zone():
    berlin = Schedule(EXAMPLE, "Europe/Berlin")
    assert moments(berlin, "2026-03-26", "2026-03-31T12:00") == ["03-26 20:30", "03-27 20:30", "03-30 19:30"]
    assert moments(Schedule(EXAMPLE), "2026-03-27", "2026-03-28") == ["03-27 21:30"]


def test_a_time_that_clocks_skip_happens_at_the_first_moment_after_the_gap():
    assert moments(Schedule("30 2 * * *", "Europe/Berlin"), "2026-03-28T12:00", "2026-03-30T12:00") == [
        "03-29 01:00",
        "03-30 00:30",
    ]
    apia = Schedule("0 6 * * *", "Pacific/Apia")  # which went without a whole day
    assert moments(apia, "2011-12-29", "2011-12-31") == ["12-29 16:00", "12-30 10:00", "12-30 16:00"]


def test_a_time_that_clocks_show_twice_happens_the_first_time():
    assert moments(Schedule("30 2 * * *", "Europe/Berlin"), "2026-10-24T12:00", "2026-10-25T12:00") == ["10-25 00:30"]
    lord_howe = Schedule("45 1 * * *", "Australia/Lord_Howe")  # clocks that change by half an hour
    assert moments(lord_howe, "2026-04-04T12:00", "2026-04-05T12:00") == ["04-04 14:45"]


# in all zones: a slow reader of clocks says what is right


def changes(zone):
    """The moments, to the minute, around which clocks of a zone were changed since 2007."""
    moment, end = datetime(2007, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
    found = []
    while moment < end:
        later = moment + timedelta(days=20)
        if moment.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(_narrowed(moment, later, zone))
        moment = later
    return found


def _narrowed(before, after, zone):
    while after - before > MINUTE:
        middle = before + ((after - before) // MINUTE // 2) * MINUTE
        same = middle.astimezone(zone).utcoffset() == before.astimezone(zone).utcoffset()
        before, after = (middle, after) if same else (before, middle)
    return after


def by_the_clock(zone, start, end, hours, minutes):
    """What is right, read off the clock minute by minute: a list of moments."""
    ticks = [start + MINUTE * number for number in range(round((end - start) / MINUTE) + 1)]
    shown = [tick.astimezone(zone).replace(tzinfo=None) for tick in ticks]
    if hours is None:
        return [tick for tick, time in zip(ticks, shown, strict=True) if time.minute in minutes]
    latest, day, found = list(accumulate(shown, max)), shown[0].replace(hour=0, minute=0), set()
    while day <= latest[-1]:
        named = [day.replace(hour=hour, minute=minute) for hour in hours for minute in minutes]
        found |= {ticks[bisect_left(latest, time)] for time in named if shown[0] < time <= latest[-1]}
        day += DAY
    return sorted(found)


times = st.sets(st.integers(0, 59), min_size=1, max_size=3)


def kinds_of_changes():
    """Every way in which the clocks of a zone changed lately: a zone and a moment, by the local times before and after."""
    found = {}
    for zone in ZONES:
        info = ZoneInfo(zone)
        for change in changes(info)[-2:] or [at("2026-03-29T01:00")]:
            before, after = (moment.astimezone(info).replace(tzinfo=None) for moment in (change - MINUTE, change))
            found[before.time(), after - before, before.utcoffset()] = zone, change
    return found.values()


@pytest.mark.sweep
def test_in_no_zone_a_time_is_lost_or_doubled_where_clocks_are_changed():
    """At the latest changes of clocks in every zone: all hours and half hours by name, and every half hour."""
    kinds = kinds_of_changes()
    assert len(kinds) > 15
    for zone, change in kinds:
        start, end = change - timedelta(hours=4), change + timedelta(hours=4)
        for expression, hours in (("0,30 0-22 * * *", range(23)), ("0,30 * * * *", None)):
            right = by_the_clock(ZoneInfo(zone), start - DAY, end, hours, (0, 30))
            wanted = [moment for moment in right if moment > start]
            assert list(Schedule(expression, zone).between(start, end)) == wanted, (zone, change, expression)


@given(
    st.sampled_from(ZONES), st.datetimes(datetime(1995, 1, 2), datetime(2035, 1, 1)), times, st.sets(st.integers(0, 23))
)
def test_whenever_and_wherever_one_looks_the_moments_are_those_of_the_clock(zone, around, minutes, hours):
    around = around.replace(tzinfo=UTC, second=0, microsecond=0)
    hours = sorted(hours) if len(hours) < 24 else None
    listed = ",".join(map(str, hours)) if hours else "*"
    schedule = Schedule(f"{','.join(map(str, sorted(minutes)))} {listed} * * *", zone)
    end = around + timedelta(hours=8)
    wanted = by_the_clock(ZoneInfo(zone), around - DAY, end, hours or None, sorted(minutes))
    assert list(schedule.between(around, end)) == [moment for moment in wanted if moment > around]


@given(st.sampled_from(ZONES), st.datetimes(datetime(1995, 1, 2), datetime(2035, 1, 1)), st.integers(1, 400))
def test_looking_often_finds_what_looking_once_finds(zone, start, step):
    """However a time is cut into looks: no moment twice, none left out, each in order."""
    schedule, start = Schedule("*/7 1-3 * * *", zone), start.replace(tzinfo=UTC)
    end = start + DAY
    cuts = [*(start + MINUTE * step * number for number in range(int(DAY / MINUTE / step) + 1)), end]
    found = [moment for one, other in pairwise(cuts) for moment in schedule.between(one, other)]
    assert found == list(schedule.between(start, end)) == sorted(set(found))


# catching up


NIGHTLY = Schedule("30 21 * * *")
WEEK, HALF_A_DAY, NEVER = timedelta(days=7), timedelta(hours=12), timedelta(0)


@pytest.mark.parametrize(
    ("done", "now", "catch_up", "awake", "due"),
    [
        (
            "03-01T21:30",
            "03-04T08:00",
            WEEK,
            None,
            ("03-03T21:30", 1),
        ),  # missed moments are due once, with their number
        ("03-03T21:30", "03-04T08:00", WEEK, None, None),
        ("03-01T00:00", "03-04T08:00", HALF_A_DAY, None, ("03-03T21:30", 0)),
        ("03-01T00:00", "03-04T08:00", timedelta(hours=10), None, None),  # it was missed too long ago
        ("03-01T00:00", "03-04T21:32", NEVER, None, ("03-04T21:30", 0)),  # the minutes in which it is looked for
        ("03-01T00:00", "03-04T21:40", NEVER, None, None),
        ("03-01T00:00", "03-02T23:00", NEVER, "03-02T20:00", ("03-02T21:30", 0)),  # whoever was busy has missed nothing
        ("03-01T00:00", "03-02T23:00", NEVER, "03-02T22:00", None),
    ],
)
def test_missed_moments_are_due_once_with_their_number(done, now, catch_up, awake, due):
    done, now, awake = (text and at(f"2026-{text}") for text in (done, now, awake))
    expected = due and Due(at(f"2026-{due[0]}"), due[1])
    assert NIGHTLY.due(done, now, catch_up=catch_up, **({"awake": awake} if awake else {})) == expected


# what the settings take


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("30 21 * *", "it has 4 fields, not 5"),
        ("* * * * * *", "it has 6 fields, not 5"),
        ("@daily", "it has 1 field, not 5"),
        ("61 * * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("0 0 * * Fri-Mon", "bad day-of-week"),
        ("0 0 * * 5L/2", "bad day-of-week"),
        ("0 0 * * Freitag", "bad day-of-week"),
    ],
)
def test_a_wrong_expression_is_refused_with_the_reason_and_an_example(tmp_path, expression, why):
    file = tmp_path / "loadsheet.toml"
    file.write_text(f'schedules.cron = ["0 6 * * *", "{expression}"]\n')
    with pytest.raises(SettingsError) as refused:
        Settings.load(file)
    assert refused.value.exit_code == 78
    assert str(refused.value).startswith("schedules.cron: ")
    for part in (repr(expression), why, repr(EXAMPLE)):
        assert part in str(refused.value)


def test_a_zone_that_does_not_exist_is_refused(tmp_path):
    file = tmp_path / "loadsheet.toml"
    file.write_text('schedules.timezone = "Europe/Berlyn"\n')
    why = r"^schedules\.timezone: there is no time zone 'Europe/Berlyn'; write one such as Europe/Berlin"
    with pytest.raises(SettingsError, match=why):
        Settings.load(file)


def test_one_expression_or_several_each_once(tmp_path):
    file = tmp_path / "loadsheet.toml"
    file.write_text(
        'schedules.cron = "0  6 * *   Mon-Fri"\n[shippers.a]\n[shippers.b]\nschedules.cron = ""\nschedules.timezone = "Asia/Tokyo"\n'
        '[shippers.c]\nschedules.cron = ["0 6 * * *", "0  6 * * *", "0 22 * * 7"]\n'
    )
    of = {name: Settings.load(file, shipper=name).schedules.timetable for name in "abc"}
    assert of["a"] == (Schedule("0 6 * * Mon-Fri", "UTC"),)
    assert of["b"] == ()
    assert [one.expression for one in of["c"]] == ["0 6 * * *", "0 22 * * 7"]
    assert Settings().schedules.timetable == ()


@given(st.text(st.sampled_from("0123456789*/,-#LW MonSu"), max_size=24))
def test_whatever_is_written_is_read_or_refused(text):
    with suppress(ValueError):
        expression = read(text)
        assert read(expression) == expression
        assert next(Schedule(expression).after(at("2026-01-01")))

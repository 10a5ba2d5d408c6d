"""Calendars of a mapping: read from the mapping and from a file beside it, used in expressions, and refused where they are wrong."""

import pytest
from sheets import ASSUMED, EXAMPLES, example_text, findings, load_text, made

from loadsheet.mapping.compile import lint

MAPPING = example_text("calendar").partition("\n")[2].replace("lookups/", "")
CALENDAR = '{holidays: [2026-04-03, "2026-04-06"], file: holidays.csv}'
HOLIDAYS = (EXAMPLES / "lookups" / "holidays.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(("weekend", "expected"), [("[friday, saturday]", "A/05.04."), ("[]", "A/03.04.")])
def test_a_calendar_has_its_own_weekend(tmp_path, weekend, expected):
    text = MAPPING.replace(CALENDAR, f"{{weekend: {weekend}}}")
    assert [document.key for document in made(tmp_path, text, [["A", "02.04.2026", "1"]])] == [expected]


def test_calendars_are_for_conditions_and_checks_as_well(tmp_path):
    text = f"{MAPPING}checks: [{{id: open, rule: '$is_working_day(day, \"DE\")', say: closed}}]\n"
    left_out = "tables: {rows: {ignore_rows: '$working_days(day, d\"2026-12-31\") > 200'}}"
    text = text.replace(", timezone", f", {left_out}, timezone")
    rows = [["A", "03.04.2026", "1"], ["B", "02.04.2026", "1"], ["C", "02.01.2026", "1"]]
    found = made(tmp_path, text, rows, lookups={"holidays": HOLIDAYS})
    said = [(document.key[0], [problem.values.get("say") for problem in document.problems]) for document in found]
    assert said == [("A", ["closed"]), ("B", [])]


def test_the_file_of_a_calendar_is_part_of_the_mapping_and_found_beside_the_one_that_names_it(tmp_path):
    first = load_text(tmp_path, MAPPING, holidays=HOLIDAYS)
    assert set(first.source) == {"mapping.yaml", "holidays.csv"}
    assert first.source["holidays.csv"] == HOLIDAYS
    assert load_text(tmp_path, MAPPING, holidays=HOLIDAYS).hash == first.hash
    assert load_text(tmp_path, MAPPING, holidays=f"{HOLIDAYS}2026-12-26\n").hash != first.hash
    (tmp_path / "base").mkdir()
    load_text(tmp_path / "base", MAPPING, holidays=HOLIDAYS)
    (tmp_path / "holidays.csv").unlink()
    assert findings(tmp_path, "extends: base/mapping.yaml\nversion: 2\n") == []


SECRET = "secret:x:0:0:root"


@pytest.mark.parametrize(
    ("content", "line"), [(f"2026-05-01\n{SECRET}\n", 2), (f"{SECRET}\n{SECRET}\n", 1), ("01.05.2026\n", 1)]
)
def test_a_file_without_dates_is_refused_and_not_quoted(tmp_path, content, line):
    said = f"holidays.csv, line {line}: there is no date at the start of the line (such as 2026-12-25)"
    assert findings(tmp_path, MAPPING, holidays=content) == [f"m.yaml:6:52: {said}"]


def test_a_calendar_reads_no_file_through_a_link_and_no_binary_file(tmp_path):
    home = tmp_path / "mappings"
    home.mkdir()
    (tmp_path / "secret.csv").write_text(f"{SECRET}\n", encoding="utf-8")
    (home / "m.yaml").write_text(MAPPING, encoding="utf-8")
    (home / "holidays.csv").symlink_to(tmp_path / "secret.csv")
    (found,) = lint(home / "m.yaml", ASSUMED, home)
    assert "holidays.csv is not in the folder of mappings" in str(found)
    (home / "holidays.csv").unlink()
    (home / "holidays.csv").write_bytes(b"2026\xff")
    (found,) = lint(home / "m.yaml", ASSUMED, home)
    assert "holidays.csv is not UTF-8: first bad byte at offset 4" in str(found)

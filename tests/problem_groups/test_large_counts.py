"""A thousand rows with one problem are counted as 999 are: numbers stay numbers until people read them."""

import re
from string import Formatter

import msgspec
import pytest

from loadsheet.problem_groups import Causes
from loadsheet.problems import CATALOGUE, Problem, Where
from loadsheet.reading import Row, Table
from loadsheet.reading.damage_checks import DamageChecks
from loadsheet.reading.tables import PlainNumber
from loadsheet.reports.fix_workbook.texts_de import GERMAN
from loadsheet.reports.fix_workbook.wording import word_problem

AT_THE_SEPARATOR = (999, 1_000, 1_001)
A_MILLION = 1_000_000

DAMAGED = {
    "R221": (lambda _: "4.01235E+12", ()),
    "R222": (lambda _: "123456789012345000", ()),
    "R223": (lambda _: "8056", ("01067", "04109")),
    "R224": (lambda _: "03-May", ("A-17", "B") * A_MILLION),
    "R225": (lambda _: "31.12.2026", ("2026-12-31",)),
    "R226": (lambda _: "MÃ¼ller", ()),
    "R227": (lambda _: "3.7", (PlainNumber("3.5"), PlainNumber("4.5"))),
    "R228": (lambda _: "A1\u200b", ()),
}
"""By code: the cell that shows it, and those among which it does."""


def warned(code, count):
    """The warning of this code about a column with so many damaged cells."""
    damaged, others = DAMAGED[code]
    cells = [*others[: 2 * count], *(damaged(number) for number in range(count))]
    table = Table("rows", "orders.xlsx", "Sheet1", ("Item",), 1, {"Item": 0}, lambda: iter(()), {})
    damage_checks = DamageChecks(table)
    for _ in damage_checks.watch(Row(number, (cell,)) for number, cell in enumerate(cells, 2)):
        pass
    (warning,) = (problem for problem in damage_checks.problems() if problem.code == code)
    return warning


@pytest.mark.parametrize("count", AT_THE_SEPARATOR)
@pytest.mark.parametrize("code", DAMAGED)
def test_a_column_warning_counts_its_rows_wherever_it_is_told(code, count):
    warning = warned(code, count)
    told = msgspec.json.decode(msgspec.json.encode(warning.to_json()))
    rows = count + (code == "R225")  # mixed styles concern all dates of the column
    assert told["values"]["count"] == rows
    for one in (warning, Problem.from_json(told)):
        causes = Causes()
        causes.add(one)
        causes.add(one)  # the same file in two drops
        (cause,) = causes.ranked()
        assert cause.say.endswith(f" in {2 * rows:,} rows")
    assert f"{count - 5:,} more" in warning.text


@pytest.mark.sweep
@pytest.mark.parametrize("code", ["R223", "R224", "R225", "R227"])
def test_a_column_warning_counts_a_million_rows(code):
    test_a_column_warning_counts_its_rows_wherever_it_is_told(code, A_MILLION)


def test_a_count_that_an_older_ledger_holds_as_a_text_is_read():
    old = Problem("R221", Where("orders.csv", row=2, column="Item"), "4E+12", {"count": "1,000", "rows": "rows 2"})
    causes = Causes()
    causes.add(old)
    causes.add(old)
    (cause,) = causes.ranked()
    assert cause.say.endswith(" in 2,000 rows")
    assert Problem("R221", values={"count": "several"}).number("count", 1) == 1


def check_folding(code, *counts):
    names = [name for _, name, _, _ in Formatter().parse(CATALOGUE[code].template) if name and name != "found"]
    values = dict.fromkeys(names, "x") | {"length": counts[-1], "count": 1}
    problem = Problem(code, Where("orders.csv", row=2, column="Item"), "12 stone", values, level="error")
    causes = Causes()
    for number in range(counts[-1]):
        causes.add(problem, str(number) if number % 2 else "")
        if number + 1 in counts:
            (cause,) = causes.ranked()
            assert (cause.count, cause.keys) == (number + 1, (number + 1) // 2)
            assert f"{number + 1:,} rows" in cause.say


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_problems_of_every_kind_fold_to_a_cause_that_counts_them(code):
    check_folding(code, *AT_THE_SEPARATOR)


@pytest.mark.sweep
@pytest.mark.parametrize("code", ["C304", "C312"])
def test_a_million_problems_fold_to_a_cause_that_counts_them(code):
    check_folding(code, A_MILLION)


COUNTING = [
    code for code in CATALOGUE if re.search(r"{(count|invalid|length|numbers|sends|size)}", CATALOGUE[code].template)
]


def test_numbers_in_a_problem_stay_numbers_until_they_are_read_by_people():
    for code in COUNTING:
        names = [name for _, name, _, _ in Formatter().parse(CATALOGUE[code].template) if name and name != "found"]
        problem = Problem(code, values=dict.fromkeys(names, 1_000_000))
        again = Problem.from_json(msgspec.json.decode(msgspec.json.encode(problem.to_json())))
        assert again == problem
        assert "1,000,000" in again.text
        assert "1.000.000" in word_problem(problem, GERMAN, {}).text

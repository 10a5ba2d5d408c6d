"""Problems fold by their cause, each proposal is one that the readers of the mapping would take, and numbers stay numbers until people read them."""

import re
from datetime import datetime
from string import Formatter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.languages import words_in
from loadsheet.mapping.notations import format_parser, number_parser
from loadsheet.mapping.plans import CellProblem
from loadsheet.problem_groups import Causes
from loadsheet.problems import CATALOGUE, Problem, Where
from loadsheet.reading import Row, Table
from loadsheet.reading.damage_checks import DamageChecks
from loadsheet.reading.tables import Native
from loadsheet.reports.fix_workbook.wording import word_problem


def cell(code, found="", row=2, column="Pickup", hint="", **values):
    return Problem(code, Where("orders.csv", row=row, column=column), found, values, hint)


def cells(code, *texts, **more):
    return [cell(code, text, row, **more) for row, text in enumerate(texts, 2)]


def folded(problems):
    causes = Causes()
    for number, problem in enumerate(problems, 1):
        causes.add(problem, number)
    return causes.ranked()


def only(*problems):
    (cause,) = folded(problems)
    return cause


def stored(problem):
    """A problem as it comes back from the ledger."""
    return Problem.from_json(msgspec.json.decode(msgspec.json.encode(problem.to_json())))


# ---- what is proposed ----


def test_four_thousand_dates_in_another_style_are_one_cause_with_the_format_to_set():
    texts = [f"03/{13 + row % 18}/2026 08:00" for row in range(4000)]
    cause = only(*cells("C304", *texts, expected="31/03/2026 14:05"))
    assert cause.say == "column Pickup reads as month/day in 4,000 rows"
    assert (
        cause.proposal
        == 'set dates: ["%m/%d/%Y %H:%M"] (or formats of the column); dates with a day up to 12 were read with day and month swapped'
    )
    assert (cause.count, cause.keys, len(cause.places), len(cause.found)) == (4000, 4000, 3, 3)
    assert "reads as" not in only(*cells("C304", texts[0], expected="31/03/2026 14:05")).say, "one cell is no column"


TYPED = cells("C306", "NSTR", "NSTR", expected="NSTAR", hint="did you mean NSTAR?")
LONG = cell("R205", "x", column="", cells=12, columns=11, hint="a value stands beyond the last column")
SHORT = cell("R205", "", column="", cells=5, columns=11, hint="a cell is missing")
PROPOSED = [
    # one value of no style takes the format away, but not what the column takes
    (cells("C304", "03/25/2026", "soon", expected="31/03/2026"), "expected: 31/03/2026"),
    (cells("C304", "03/04/2026", expected="31.03.2026"), 'the values can be read in two ways: set dates: ["%d/%m/%Y"] or ["%m/%d/%Y"]'),
    # the mapping reads most dates of the column: its format stays beside this one
    (cells("C304", "10.03.26", "31.03.26", expected="31.03.2026"), 'add "%d.%m.%y" to dates (or to formats of the column)'),
    (cells("C304", "2026-03-10", expected="14:05:00 or 14:05"), ""),
    (cells("C304", "2026-03-10 08:00", expected="a date without a time"), "the cells also hold times of day: use type: datetime"),
    (cells("C304", "46357.5", "46358", expected="a date", hint="the cell is a number; format it as a date"),
     "the cell is a number; format it as a date"),
    (cells("R207", "#N/A", "#REF!"), "correct the formula, or type the value in its place"),
    ([LONG, SHORT], "compare these rows with the header: each value belongs below its own heading"),
    ([LONG, LONG], "a value stands beyond the last column"),
    (cells("C302", "12 kg", "1,200 lb", locale="en_GB"), "all have a unit (kg, lb): use type: quantity with unit, or type: decimal with currency"),
    (cells("C302", "12 €", "€ 7", locale="en_GB"), "all have a unit (€): use type: quantity with unit, or type: decimal with currency"),
    (cells("C302", "1O", locale="en_GB", hint="did you mean 10?"), "correct 1O -> 10"),
    (cells("C307", "12 st", "7 st", expected="one of kg, g"), "add st to source.units"),
    (cells("C307", "12 USD", "$ 7", expected="an amount in EUR"), ""),
    (TYPED, "correct NSTR -> NSTAR; or, if they are right, add them to the list of the column"),
    ([*TYPED, cell("C306", "KISTE", expected="NSTAR")], "the list of the column lacks KISTE"),
    (cells("C306", "a\nb", expected="A"), "the list of the column lacks a b"),
    (cells("C308", "Indai", hint="did you mean india?"), "correct Indai -> india"),
    (cells("C308", "Erewhon"), ""),
    (cells("C307", "14 stone", expected="one of kg"), "add stone to source.units"),
    (cells("C310", "perhaps"), "add perhaps to yes: or no: of the column"),
    (cells("C303", "1.5"), "write a whole number, or use type: decimal if decimals are meant"),
    (cells("C312", "x" * 90, length=90, expected=80), "the longest has 90 characters: shorten them, or set max_length or on_too_long: cut_and_warn"),
    (cells("C301", ""), "fill the column in; or set default: or fill_down: true in the mapping, if a blank has a meaning"),
    (cells("C316", "12,50", first="1,250", second="12.5", hint="write 1,250 or 12.5"), "write 1,250 or 12.5"),
    (cells("C316", "1.234", first="1234", second="1,234"), ""),
    (cells("R223", "1100", width=5, pads_to=5, count=11, rows="rows 2"), 'pad_left: {to: 5, with: "0"} of the column restores the zeros'),
    (cells("R223", "1100", width=5, count=11, rows="rows 2"), ""),
    (cells("G406", "x", say="no", check="window"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("problems", "proposal"), PROPOSED)
def test_a_proposal_follows_from_what_was_seen(problems, proposal):
    assert only(*problems).proposal == proposal


@given(st.lists(st.datetimes(datetime(2020, 1, 13), datetime(2030, 12, 31)), min_size=1, max_size=20))
def test_a_proposed_format_reads_every_value(moments):
    texts = [moment.strftime("%m/%d/%Y %H:%M") for moment in moments]
    cause = only(*cells("C304", *texts, expected="31.03.2026 14:05"))
    if cause.proposal.startswith(("set dates", "add ")):
        read = format_parser(cause.proposal.split('"')[1], None)
        assert [read(text) for text in texts] == [moment.replace(second=0, microsecond=0) for moment in moments]
    else:
        assert all(moment.day <= 12 for moment in moments)


@pytest.mark.parametrize(
    ("texts", "locale"),
    [(["1.234,56", "12,5"], "de_DE"), (["1,234.56"], "en_GB"), (["1 234,5", "12,5"], "fr_FR"), (["1'234.50"], "de_CH")],
)
def test_numbers_of_another_locale_name_it(texts, locale):
    assert f"set locale: {locale} " in only(*cells("C302", *texts, *texts, locale="xx")).proposal
    assert not any(isinstance(number_parser(locale)(text), CellProblem) for text in texts)


# ---- what is one cause, and in which order ----


def test_columns_files_and_checks_are_causes_of_their_own_and_list_items_are_not():
    paths = ("packages[2].weight", "packages[3].weight")
    at = [Where("a.csv", row=row, path=path) for row, path in enumerate(paths, 2)]
    required = [Problem("K501", where, "", {"path": where.path, "text": "is required"}) for where in at]
    checks = [cell("G406", "1", say=say, check=say) for say in ("first", "second")]
    causes = folded([*required, *checks, cell("C301", column="A"), cell("C301", column="B")])
    assert [cause.count for cause in causes] == [2, 1, 1, 1, 1]
    assert causes[0].say == "packages.weight is required, in 2 rows"


def test_refusals_of_the_exchange_show_its_words():
    cause = only(*(Problem("X701", values={"text": f"rule {number}"}) for number in (1, 1, 2)))
    assert (cause.found, cause.say) == (("rule 1", "rule 2"), "refused by the exchange in 3 documents")


def test_a_document_with_many_problems_of_a_cause_counts_once():
    causes = Causes()
    for document, row in ((1, 2), (1, 3), (2, 4)):
        causes.add(cell("C301", row=row), document)
    assert [(cause.count, cause.keys) for cause in causes.ranked()] == [(3, 2)]


def test_errors_come_before_warnings_and_the_most_frequent_first():
    warning = Problem("R223", Where("a.csv", row=2, column="Zip"), "1", {"width": 5, "rows": "rows 2"}, level="warning")
    causes = folded([*[warning] * 9, cell("C301", column="A"), *[cell("C301", column="B")] * 2])
    assert [(cause.code, cause.column) for cause in causes] == [("C301", "B"), ("C301", "A"), ("R223", "Zip")]


def test_memory_is_bounded_by_causes_and_not_by_problems():
    columns = [f"column {number % 3_000}" for number in range(30_000)]
    ranked = folded(cell("C306", f"v{row}", row, column, expected="A") for row, column in enumerate(columns))
    assert len(ranked) == 1_001
    assert sum(cause.count for cause in ranked) == 30_000
    assert (ranked[0].column, ranked[0].file) == ("", "")


@pytest.mark.parametrize(
    ("values", "said"), [(50, "lacks v0, v1"), (51, "over 50 different words: perhaps the wrong column is mapped")]
)
def test_fifty_different_values_of_a_cause_are_kept(values, said):
    assert said in only(*cells("C306", *(f"v{number}" for number in range(values)), expected="A")).proposal


def test_long_values_are_kept_in_part():
    cause = only(*cells("C306", *(f"{number:03}{'x' * 30_000}" for number in range(10)), expected="A"))
    assert all(len(value) < 300 for value in (*cause.found, cause.say))
    assert len(cause.proposal) < 3_000


# ---- a thousand rows with one problem are counted as 999 are ----

AT_THE_SEPARATOR = (999, 1_000, 1_001)
A_MILLION = 1_000_000
DAMAGED = {
    "R221": (lambda _: "4.01235E+12", ()),
    "R222": (lambda _: "123456789012345000", ()),
    "R223": (lambda _: "8056", ("01067", "04109")),
    "R224": (lambda _: "03-May", ("A-17", "B") * A_MILLION),
    "R225": (lambda _: "31.12.2026", ("2026-12-31",)),
    "R226": (lambda _: "MÃ¼ller", ()),
    "R227": (lambda _: "3.7", (Native("3.5", "number"), Native("4.5", "number"))),
    "R228": (lambda _: "A1\u200b", ()),
}
"""By code: the cell that shows it, and those among which it does."""


def warned(code, count):
    """The warning of this code about a column with so many damaged cells."""
    damaged, others = DAMAGED[code]
    column = [*others[: 2 * count], *(damaged(number) for number in range(count))]
    table = Table("rows", "orders.xlsx", "Sheet1", ("Item",), 1, {"Item": 0}, lambda: iter(()), {})
    damage_checks = DamageChecks(table)
    for _ in damage_checks.watch(Row(number, (text,)) for number, text in enumerate(column, 2)):
        pass
    (warning,) = (problem for problem in damage_checks.problems() if problem.code == code)
    return warning


@pytest.mark.parametrize("count", [*AT_THE_SEPARATOR, pytest.param(A_MILLION, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("code", DAMAGED)
def test_a_column_warning_counts_its_rows_wherever_it_is_shown(code, count):
    warning = warned(code, count)
    rows = count + (code == "R225")  # mixed styles concern all dates of the column
    assert warning.to_json()["values"]["count"] == rows
    for one in (warning, stored(warning)):
        assert only(one, one).say.endswith(f" in {2 * rows:,} rows"), "the same file in two drops"
    assert f"{count - 5:,} more" in warning.text


def test_a_count_that_an_older_ledger_holds_as_a_text_is_read():
    old = Problem("R221", Where("orders.csv", row=2, column="Item"), "4E+12", {"count": "1,000", "rows": "rows 2"})
    assert only(old, old).say.endswith(" in 2,000 rows")
    assert Problem("R221", values={"count": "several"}).number("count", 1) == 1


def placeholders(code):
    return [name for _, name, _, _ in Formatter().parse(CATALOGUE[code].template) if name and name != "found"]


def check_folding(code, *counts):
    values = dict.fromkeys(placeholders(code), "x") | {"length": counts[-1], "count": 1}
    problem = Problem(code, Where("orders.csv", row=2, column="Item"), "12\nstone", values, level="error")
    causes = Causes()
    for number in range(counts[-1]):
        causes.add(problem, number if number % 2 else 0)
        assert number or causes.ranked()[0].say, "of one row too"
        if number + 1 in counts:
            (cause,) = causes.ranked()
            assert (cause.count, cause.keys) == (number + 1, (number + 1) // 2)
            assert f"{number + 1:,} rows" in cause.say
            assert "\n" not in cause.proposal


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_problems_of_every_kind_fold_to_a_cause_that_counts_them(code):
    check_folding(code, *AT_THE_SEPARATOR)


@pytest.mark.sweep
@pytest.mark.parametrize("code", ["C304", "C312"])
def test_a_million_problems_fold_to_a_cause_that_counts_them(code):
    check_folding(code, A_MILLION)


def test_numbers_in_a_problem_stay_numbers_until_they_are_read_by_people():
    for code in CATALOGUE:
        if re.search(r"{(count|invalid|length|numbers|sends|size)}", CATALOGUE[code].template):
            problem = Problem(code, values=dict.fromkeys(placeholders(code), 1_000_000))
            assert stored(problem) == problem
            assert "1,000,000" in problem.text
            assert "1.000.000" in word_problem(problem, words_in("de"), {}).text


# ---- what follows from a cause ----

TYPO = cell("G404", "O-O1", 5, "Order", key="O-O1", table="heads", hint="did you mean O-01? It is at heads.csv:2 ID")


def follows(code, row, because):
    values = {"key": "O-01", "table": "lines", "say": "no"}
    return Problem(code, Where("heads.csv", row=row, column="ID"), f"O-{row}", values, because=because)


def test_what_follows_from_a_cause_is_counted_there_and_each_document_once():
    waits = Problem("L607", values={"parent": "order O-01", "why": "it is invalid"}, because=TYPO)
    causes = Causes()
    for document, problem in (
        (1, TYPO),
        (2, follows("G403", 2, TYPO)),
        (2, follows("G406", 2, TYPO)),
        (3, waits),
    ):
        causes.add(problem, document)
    (cause,) = causes.ranked()
    assert (cause.count, cause.keys, cause.documents) == (1, 1, 3)
    found = cause.consequences
    assert (found.count, found.keys, found.kinds) == (3, 2, {"G403": 1, "G406": 1, "L607": 1})
    said = "explains 2 more problems: 1x partner row missing (G403), 1x check failed (G406); 1 document waits for it"
    assert (found.say, cause.proposal) == (said, "correct O-O1 -> O-01?")


def test_a_consequence_whose_cause_is_not_there_is_one_itself():
    cause = only(follows("G403", 2, TYPO))
    assert (cause.code, cause.count, cause.consequences.say) == ("G403", 1, "")


def test_causes_come_in_the_order_of_the_documents_they_hold_back():
    causes = Causes()
    for row in range(3):
        causes.add(cell("C302", "x", row, "Weight"), 1)  # three problems of one document
    for number, problem in enumerate([TYPO, *(follows("G403", row, TYPO) for row in range(10, 13))], 2):
        causes.add(problem, number)
    causes.add(Problem("R221", Where("a.csv"), "1E5", {"rows": "row 2"}, level="warning"))
    assert [cause.code for cause in causes.ranked()][:2] == ["G404", "C302"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5)), max_size=40))
def test_every_problem_is_counted_once(drawn):
    causes, columns = Causes(), "ABCD"
    for own, root, key in drawn:
        because = None if own == root else cell("C302", "x", 1, columns[root])
        causes.add(Problem("C302", Where("orders.csv", row=2, column=columns[own]), "y", because=because), key)
    ranked = causes.ranked()
    assert sum(cause.count + cause.consequences.count for cause in ranked) == len(drawn)
    assert all(cause.documents <= cause.count + cause.consequences.count for cause in ranked)


def test_a_problem_keeps_what_it_follows_from_in_the_ledger():
    problem = follows("G403", 2, TYPO)
    assert stored(problem) == problem
    assert "because" not in TYPO.to_json()

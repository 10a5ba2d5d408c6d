"""Results files: every row of a file in its own order, with what became of it, why, and what to do."""

import csv
import json
from dataclasses import replace

import openpyxl
import pytest
from ledgers import (
    HEADER,
    accepted,
    document,
    drop_of,
    left_out,
    order,
    plan,
    refused,
    send,
    unknown,
    weight_problem,
)
from outcome_check import result_lines
from reported_runs import run_begun, written

from loadsheet.languages import LANGUAGES, words_in
from loadsheet.problems import Problem, Where
from loadsheet.reports import results, write_fallback

NOT_A_NUMBER = 'Gewicht: "zwölf" is not a number [C302]'
BOOK = ("orders", "book.xlsx", "Aufträge")


def cells(number, text="x"):
    return (f"A-{number:05}", text, "01067", "412,5", "10")


def create(number, *rows, problems=()):
    """An order from rows of these numbers, or from rows as they are given."""
    rows = [("orders", row, cells(number)) if isinstance(row, int) else row for row in rows]
    return document("order.create", order(number), rows, *problems)


def lines(report, name):
    (found,) = result_lines(report.folder / name).values()
    return found


def results_of(tmp_path, *items, drop=None, decide=lambda _: None, **more):
    """The lines of the results of a run of one file."""
    with run_begun(tmp_path, **more) as (ledger, run, settings):
        plan(ledger, run, drop or drop_of(("orders", "in.csv")), items)
        send(ledger, run, decide)
        report = written(ledger, run, settings)
    (name,) = report.summary.drops[0].files[0].results
    return lines(report, name)


def test_the_rows_of_a_file_come_back_in_their_own_order_with_what_became_of_them(tmp_path):
    wrong = create(1, 3, problems=[weight_problem("in.csv", 3, hint="write 12")])
    assert results_of(tmp_path, create(2, 5, 2), wrong, left_out(4)) == [
        ["row", "outcome", "problem", "what to do", *HEADER, "operation", "key", "service order", "verdict"],
        ["2", "accepted", "", "", *cells(2), "order.create", "A-00002", "8800001", "not verifiable"],
        ["3", "invalid", NOT_A_NUMBER, "Write 12", *cells(1), "order.create", "A-00001", "", "not sent: invalid"],
        ["4", "ignored", "not meant to be sent", "", "", "Summe", "", "", "99", "", "", "", ""],
        ["5", "accepted", "", "", *cells(2), "order.create", "A-00002", "8800001", "not verifiable"],
    ]


def test_each_row_says_its_own_problems_and_the_others_why_they_are_held_with_it(tmp_path):
    nowhere = Problem("G406", values={"say": "the weights do not add up"})
    warning = weight_problem("packages.csv", 2, level="warning")
    items = [
        create(1, 2, *_packages(1, 2, 3), problems=[weight_problem("packages.csv", 3), warning, nowhere]),
        create(2, 3, *_packages(2, 4)),
        create(3, 4, *_packages(3, 5)),
    ]
    there = Where("packages.csv", "", 4, "PLZ", "", "pickup_pincode")
    answers = {"A-00002": lambda one: refused(one, where=there), "A-00003": unknown}
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "orders.csv"), ("packages", "packages.csv")), items)
        send(ledger, run, lambda one: answers[one.key](one))
        report = written(ledger, run, settings)
    assert [line[2:4] for line in lines(report, "orders.csv.results.csv")[1:]] == [
        ["The weights do not add up [G406]", "Correct the cells concerned"],
        ["refused with packages.csv, row 4", "See packages.csv, row 4"],
        [
            "It was sent, but the outcome is unknown: no answer within 60 s [X702]",
            "Nothing to do: the next run asks the exchange",
        ],
    ]
    assert [line[2:4] for line in lines(report, "packages.csv.results.csv")[1:]] == [
        [f"Warning: {NOT_A_NUMBER}; held with orders.csv, row 2", "Enter a number; See orders.csv, row 2"],
        [NOT_A_NUMBER, "Enter a number"],
        [
            "PLZ: The exchange refused it: pickup_pincode is invalid [X701]",
            "Correct the value; if it is right, ask the exchange",
        ],
        ["unknown with orders.csv, row 4", "See orders.csv, row 4"],
    ]


def _packages(number, *rows):
    return [("packages", row, cells(number)) for row in rows]


def test_each_sheet_of_a_workbook_gets_its_own_sheet(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        tables = (BOOK, ("packages", "book.xlsx", "Pakete/2"))
        plan(ledger, run, drop_of(*tables), [create(1, 2, *_packages(1, 2))])
        report = written(ledger, run, settings)
        assert report.summary.reports.count("book.xlsx.results.xlsx") == 1
        assert report.summary.drops[0].files[0].results == ("book.xlsx.results.xlsx",)
        assert list(result_lines(report.folder / "book.xlsx.results.xlsx")) == ["Aufträge", "Pakete_2"]
        as_text = settings.model_copy(update={"reports": settings.reports.model_copy(update={"results": "csv"})})
        names = set(written(ledger, run, as_text).summary.reports)
        assert {"book.xlsx.Aufträge.results.csv", "book.xlsx.Pakete__2.results.csv"} < names


@pytest.mark.parametrize(("count", "scale", "columns"), [(40, 70, "$A:$B"), (1, 100, None)])
def test_a_wide_workbook_prints_over_several_pages_with_row_and_outcome_on_each(tmp_path, count, scale, columns):
    header = tuple(f"Spalte {number} mit Text" for number in range(count))
    with run_begun(tmp_path, reports={"results": "xlsx"}) as (ledger, run, settings):
        plan(ledger, run, drop_of(BOOK, header=header), [create(1, ("orders", 2, ("x",) * count))])
        folder = written(ledger, run, settings).folder
    sheet = openpyxl.load_workbook(folder / "book.xlsx.results.xlsx")["Aufträge"]
    setup = sheet.page_setup
    assert (setup.orientation, setup.scale or 100, sheet.print_title_cols) == ("landscape", scale, columns)
    assert bool(sheet.sheet_properties.pageSetUpPr.fitToPage) is (columns is None)


def test_a_sheet_that_holds_two_tables_comes_back_as_one_with_each_row_whole(tmp_path):
    rows = [("heads", 2, ("A-1", "x")), ("lines", 3, cells(1)), ("lines", 4, cells(1))]
    tables = drop_of(("heads", "book.xlsx", "S"), ("lines", "book.xlsx", "S"))
    narrow = replace(tables, tables=(replace(tables.tables[0], header=HEADER[:2]), tables.tables[1]))
    found = results_of(tmp_path, create(1, *rows), drop=narrow)
    assert [line[0] for line in found[1:]] == [2, 3, 4]
    assert found[2][4:9] == list(cells(1))


def test_the_senders_own_headings_are_never_mistaken_for_ours(tmp_path):
    header = ("Row", "key", "=HEAD", "Gewicht", "Wert")
    head = results_of(tmp_path, create(1, 2), drop=drop_of(("orders", "in.csv"), header=header))[0]
    assert head[0] == "row (loadsheet)"
    assert head[4:9] == ["Row", "key", "'=HEAD", "Gewicht", "Wert"]
    assert head[9:] == ["operation", "key (loadsheet)", "service order", "verdict"]


def test_many_lines_in_any_order_are_put_into_that_of_the_file(tmp_path):
    numbers = [(number * 7919) % 601 + 2 for number in range(601)]
    items = [
        document("order.status", {"order_id": str(number)}, [("orders", number, cells(number, "two\nlines"))])
        for number in numbers
    ]
    found = results_of(tmp_path, *items)[1:]
    assert [int(line[0]) for line in found] == sorted(numbers)
    assert all(line[4:6] == [f"A-{int(line[0]):05}", "two\nlines"] for line in found)


def test_an_accepted_entry_without_rows_harms_nothing(tmp_path):
    assert results_of(tmp_path, create(1))[1:] == []


def test_a_workbook_comes_back_as_a_workbook_with_typed_cells_and_nothing_that_runs(tmp_path):
    row = ("00042", "=1+1", "@SUM(1)", "412,5", "<r>x</r>")
    with run_begun(tmp_path) as (ledger, run, settings):
        wrong = weight_problem("book.xlsx", 3, sheet="Aufträge", cell="D3")
        items = [create(1, ("orders", 2, row, ((3, "number", "412.5"),))), create(2, 3, problems=[wrong]), left_out(4)]
        plan(ledger, run, replace(drop_of(BOOK), language="de"), items)
        send(ledger, run)
        (name,) = written(ledger, run, settings).summary.drops[0].files[0].results
        sheet = openpyxl.load_workbook(settings.outbox / run.name / name)["Aufträge"]
    rows = list(sheet.iter_rows())
    head, first, second, third = [[one.value for one in row] for row in rows]
    assert head[:4] == ["Zeile", "Ergebnis", "Problem", "Was zu tun ist"]
    assert head[4:] == [*HEADER, "Vorgang", "Schlüssel", "Serviceauftrag", "Abgleich"]
    assert first[:8] == [2, "angenommen", None, None, "00042", "=1+1", "@SUM(1)", 412.5]
    assert [one.data_type for one in rows[1][4:8]] == ["s", "s", "s", "n"]
    assert rows[1][4].number_format == "@"
    assert second[:4] == [3, "fehlerhaft", "D3 Gewicht: „zwölf“ ist keine Zahl [C302]", "Geben Sie eine Zahl ein"]
    assert third[1:3] == ["übergangen", "nicht zum Senden vorgesehen"]
    assert len({row[1].fill.fgColor.rgb for row in rows[1:]}) == 3
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("C2", "A1:M4")


@pytest.mark.parametrize(
    ("found", "language", "delimiter", "encoding"),
    [
        ({"delimiter": "semicolon", "encoding": "cp1252"}, "fr", ";", "cp1252"),
        ({"delimiter": "tab", "encoding": "UTF-8"}, "es", "\t", "utf-8-sig"),
        ({"delimiter": "pipe", "encoding": "latin-1"}, "de", "|", "utf-8-sig"),  # latin-1 has no German quotation marks
        ({"delimiter": "comma", "encoding": "utf-16"}, "de", ",", "utf-16"),
        ({"delimiter": "tab", "encoding": "UTF-16-LE (by its byte order mark)"}, "de", "\t", "utf-16"),
        ({"delimiter": "tab", "encoding": "UTF-16-BE (by its byte order mark)"}, "de", "\t", "utf-16"),
        ({}, "en", ",", "utf-8-sig"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value.values()) or "unknown",
)
def test_a_text_file_comes_back_in_its_own_delimiter_and_encoding_unless_a_text_does_not_fit_it(
    tmp_path, found, language, delimiter, encoding
):
    drop = drop_of(("orders", "in.csv"))
    drop = replace(drop, language=language, tables=(replace(drop.tables[0], reading_notes=found),))
    with run_begun(tmp_path) as (ledger, run, settings):
        item = create(1, ("orders", 2, cells(1, "Médoc")), problems=[weight_problem("in.csv", 2)])
        plan(ledger, run, drop, [item])
        report = written(ledger, run, settings)
    content = (report.folder / "in.csv.results.csv").read_bytes()
    head, line = csv.reader(content.decode(encoding).splitlines(), delimiter=delimiter)
    assert head[4:9] == list(HEADER)
    assert line[4:9] == list(cells(1, "Médoc"))
    assert "zwölf" in line[2]
    assert (content[:3] == b"\xef\xbb\xbf") == (encoding == "utf-8-sig")
    assert (content[:2] == b"\xff\xfe") == (encoding == "utf-16"), "without a mark, Excel shows it garbled"


def test_a_row_of_several_records_is_there_once_with_the_worst_of_their_outcomes_and_what_is_said_of_each(tmp_path):
    shared = ("orders", 2, cells(1))
    wrong = create(2, shared, 3, problems=[weight_problem("in.csv", 2)])
    first, second = results_of(tmp_path, create(1, shared), wrong)[1:]
    assert first[:4] == ["2", "invalid", NOT_A_NUMBER, "Enter a number"]
    assert first[9:11] == ["order.create", "A-00001; A-00002"]
    assert second[:4] == ["3", "invalid", "held with row 2", "See row 2"]


def test_a_record_that_came_twice_is_not_said_to_wait_once_it_is_accepted(tmp_path):
    events = [
        document("order.status", {"order_id": "A-00001", "status_code": "PU"}, [("orders", row, cells(1))])
        for row in (3, 4)
    ]
    _, order_line, event, repeated = results_of(tmp_path, create(1, 2), *events, decide=accepted)
    assert [line[1] for line in (order_line, event, repeated)] == ["accepted", "accepted", "unchanged"]
    assert repeated[2] == "Warning: A-00001 came before with the same values, which are sent once [L603]"
    assert repeated[3] == "Nothing to do: these values are sent once"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_row_with_a_problem_says_what_to_do_in_every_language(tmp_path, language):
    items = [
        create(1, 2, problems=[weight_problem("in.csv", 2, level="warning")]),
        create(2, 3, 4, problems=[weight_problem("in.csv", 3)]),
        create(3, 5),
        create(4, 6),
    ]
    answers = {"A-00001": accepted, "A-00003": unknown, "A-00004": lambda one: refused(one, "no such place")}
    drop = replace(drop_of(("orders", "in.csv")), language=language)
    found = results_of(tmp_path, *items, drop=drop, decide=lambda one: answers[one.key](one))[1:]
    states = ("accepted", "invalid", "invalid", "unknown", "refused")
    assert [line[1] for line in found] == [words_in(language).raw(state) for state in states]
    assert all(line[2] and line[3] for line in found)
    assert language == "en" or not any("row" in text or "number" in text for line in found for text in line[:4])


def test_results_that_fit_no_sheet_are_text(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "ROWS_MAX", 3)
    with run_begun(tmp_path, reports={"results": "xlsx"}) as (ledger, run, settings):
        for name, size in (("long.csv", 3), ("short.csv", 2)):
            items = [document("order.status", {"order_id": name}, [("orders", n + 2, cells(1))]) for n in range(size)]
            plan(ledger, run, drop_of(("orders", name), mapping=name), items)
        names = [drop.files[0].results for drop in written(ledger, run, settings).summary.drops]
    assert names == [("long.csv.results.csv",), ("short.csv.results.xlsx",)]


def test_the_results_replace_those_of_the_fallback_reports(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(BOOK), [create(1, 2)])
        fallback = write_fallback(ledger.queries, run, settings, missing={"results": "an internal error"})
        assert [path.name for path in fallback.folder.glob("*.results.*")] == ["book.xlsx.results.csv"]
        summary = json.loads((fallback.folder / "run.json").read_bytes())
        assert (summary["only_at_exchange"], summary["entries"], summary["verdicts"]) == (0, {"ready": 1}, {})
        report = written(ledger, run, settings)
        assert [path.name for path in report.folder.glob("*.results.*")] == ["book.xlsx.results.xlsx"]

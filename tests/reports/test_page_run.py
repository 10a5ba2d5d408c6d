"""What stands in `run.html`: the numbers of the run, every document that needs someone, each value down to its cell."""

import json
import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import document, drop_of, order, plan, refused, send, weight_problem
from reported_runs import run_begun, written
from run_with_every_outcome import every_outcome

from loadsheet.reports.run_page import Anchors, anchor


def page_of(report):
    return (report.folder / "run.html").read_text(encoding="utf-8")


def articles(html):
    """The documents that are shown in full: anchor and text."""
    found = re.findall(r'<article id="([^"]*)" class="document[^>]*>(.*?)</article>', html, re.DOTALL)
    return {identity: " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split()) for identity, body in found}


def wrong(number, row, name="in.csv", cells=("A",), **changes):
    return document("order.create", order(number, **changes), [("orders", row, cells)], weight_problem(name, row))


def run_page(folder, *items, drop=None, decide=lambda _: None, **settings):
    """The page of a run of one file."""
    with run_begun(folder, **settings) as (ledger, run, chosen):
        plan(ledger, run, drop or drop_of(("orders", "in.csv")), items)
        send(ledger, run, decide)
        return page_of(written(ledger, run, chosen))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The reports of a run with every outcome."""
    folder = tmp_path_factory.mktemp("run")
    with every_outcome(folder) as ended:
        return ended.write(folder / "out")


def test_documents_that_need_someone_come_first_each_value_with_its_cell(report):
    found = articles(page_of(report))
    assert list(found) == ["A-00003", "A-00005", "A-00004", "A-00002", "A-00020"]
    assert "outcome unknown" in found["A-00003"]
    assert "pickup_pincode is invalid" in found["A-00002"]
    assert '"zwölf" is not a number' in found["A-00020"]
    assert "delivery_city Dresden C8 · Ort Dresden Köln differs" in found["A-00004"]
    assert "order_id A-00004 A8 · Auftrag A-00004 the same" in found["A-00004"]
    assert "sender_id from the mapping ACME the same" in found["A-00004"]
    assert "packages[0].weight zwölf D20 · Gewicht not built not sent" in found["A-00020"]
    assert "Rows as read: acme_2026-03-04.xlsx Aufträge (2)" in found["A-00020"]


def test_the_page_shows_the_numbers_of_run_json(report):
    html, summary = page_of(report), json.loads((report.folder / "run.json").read_bytes())
    outcomes = dict(re.findall(r'data-choose="([^"]+)".*?class="number">([\d,]+)', html))
    assert {name: int(count.replace(",", "")) for name, count in outcomes.items()} == summary["verdicts"]
    assert "Every row is accounted for: 16 read = " in html
    assert "not read</span>" in html
    assert "1 of 3 orders" not in html


def test_a_big_run_gives_a_small_page_that_says_what_it_does_not_show(tmp_path):
    items = [wrong(number, number + 2, cells=("x" * 60,) * 5) for number in range(500)]
    html = run_page(tmp_path / "wrong", *items, page_documents_max=400)
    assert len(html.encode()) < 1_000_000
    shown = html.count("<article")
    assert 300 < shown <= 800
    assert f"{500 - shown:,} more need attention and are not shown here" in html
    assert 70 < html.count("All other values") < shown
    assert html.count("too full for its values") == shown - html.count("All other values")
    items = [document("order.create", order(row), [("orders", row, ("A",))]) for row in range(2, 7)]
    assert 'data-beyond="3"' in run_page(tmp_path / "right", *items, page_documents_max=2)
    items = [wrong(2, 2), wrong(3, 3), document("order.create", order(4), [("orders", 4, ("A",))])]
    html = run_page(tmp_path / "mixed", *items, decide=refused, page_documents_max=1)
    assert list(articles(html)) == ["A-00004"], "the most pressing one"


def test_a_record_of_thousands_of_values_is_cut_and_says_so(tmp_path):
    packages = [
        {"package_type": "Box", "item_name": f"item {number}", "weight": 1, "weight_uom": "KG"}
        for number in range(2000)
    ]
    html = run_page(tmp_path, wrong(1, 2, packages=packages))
    assert len(html.encode()) < 150_000
    assert re.search(r"and 7,\d\d\d more:", html)


@given(st.lists(st.text(max_size=6) | st.sampled_from(["main", "find", "A", "A-2", "a b", "a_b", ""]), max_size=20))
def test_anchors_are_never_given_twice_and_need_no_escaping(keys):
    anchors = Anchors(("main", "find"))
    given_ = [anchors.take(key) for key in keys]
    assert len({"main", "find", *given_}) == len(given_) + 2
    assert all(re.fullmatch(r"[\w.~-]+", one) for one in given_)
    assert anchor("A-1002") == "A-1002"
    assert anchor("Größe 7/a") == "Größe_7_a"


def test_a_document_made_from_two_files_names_them_in_each_place(tmp_path):
    rows = [("orders", 2, ("A",)), ("packages", 7, ("A",))]
    joined = document("order.create", order(1), rows, weight_problem("packages.csv", 7))
    html = run_page(tmp_path, joined, drop=drop_of(("orders", "orders.csv"), ("packages", "packages.csv")))
    assert "orders.csv row 2; packages.csv row 7" in articles(html)["A-00001"]
    assert "packages.csv row 7 · Gewicht" in articles(html)["A-00001"]
    assert 'data-file="orders.csv\npackages.csv"' in html


def test_a_document_that_needs_no_action_shows_its_references(tmp_path):
    made = order(1, order_references=[{"name": "Customer PO", "value": "PO-77123"}, {"name": "Dock", "value": "7"}])
    html = run_page(tmp_path, document("order.create", made, [("orders", 2, ("A",))]))
    (line,) = re.findall(r'<tr id="A-00001" class="document.*?</tr>', html)
    assert "<small>PO-77123, 7</small>" in line


def test_every_fix_file_is_a_link_that_downloads_the_worst_first(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        for count, letter in enumerate("abcdefg", start=1):
            name = f"{letter}.csv"
            items = [wrong(100 * count + row, row, name) for row in range(2, 2 + count)]
            plan(ledger, run, drop_of(("orders", name), mapping=name), items)
        html = page_of(written(ledger, run, settings))
    todo = html[html.index('id="todo"') : html.index('id="files"')]
    assert re.findall(r'<a href="([^"]+)" download>', todo) == [f"{letter}.fix.xlsx" for letter in "gfedcba"]
    assert "<summary>1 more fix file</summary>" in todo

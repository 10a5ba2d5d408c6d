"""What stands in `run.html`: the numbers of the run, every document that needs someone, each value down to its cell."""

import json
import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import document, drop_of, order, plan, send, weight_problem
from reported_runs import run_begun, written
from run_with_every_outcome import every_outcome

from loadsheet.reports.run_page import Anchors, anchor


def page_of(report):
    return (report.folder / "run.html").read_text(encoding="utf-8")


def articles(html):
    """The documents that are told in full: anchor and text."""
    found = re.findall(r'<article id="([^"]*)" class="document[^>]*>(.*?)</article>', html, re.DOTALL)
    return {identity: " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split()) for identity, body in found}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The reports of a night with every outcome."""
    folder = tmp_path_factory.mktemp("night")
    with every_outcome(folder) as held:
        return held.write(folder / "out")


def test_those_that_need_someone_are_told_the_most_pressing_first(report):
    told = articles(page_of(report))
    assert list(told) == ["A-00003", "A-00005", "A-00004", "A-00002", "A-00020"]
    assert "outcome unknown" in told["A-00003"]
    assert "pickup_pincode is invalid" in told["A-00002"]
    assert '"zwölf" is not a number' in told["A-00020"]


def test_a_value_in_question_stands_on_three_legs_with_its_cell(report):
    told = articles(page_of(report))
    assert "delivery_city Dresden C8 · Ort Dresden Köln differs" in told["A-00004"]
    assert "order_id A-00004 A8 · Auftrag A-00004 the same" in told["A-00004"]
    assert "sender_id from the mapping ACME the same" in told["A-00004"]
    assert "Gewicht zwölf D20 · Gewicht not built not sent" in told["A-00020"].replace("packages[0].weight", "Gewicht")
    assert "Rows as read: acme_2026-03-04.xlsx Aufträge (2)" in told["A-00020"]


def test_the_page_tells_the_numbers_of_run_json(report):
    html, told = page_of(report), json.loads((report.folder / "run.json").read_bytes())
    outcomes = dict(re.findall(r'data-choose="([^"]+)".*?class="number">([\d,]+)', html))
    assert {name: int(count.replace(",", "")) for name, count in outcomes.items()} == told["verdicts"]
    assert "Every row is accounted for: 16 read = " in html
    assert "not read</span>" in html
    assert "1 of 3 orders" not in html
    assert "run.html" in told["reports"]


def test_a_big_run_gives_a_small_page_that_says_what_it_leaves_out(tmp_path):
    with run_begun(tmp_path, page_documents_max=400) as (ledger, run, chosen):
        items = [
            document(
                "order.create",
                order(number),
                [("orders", number + 2, ("x" * 60,) * 5)],
                weight_problem("in.csv", number + 2),
            )
            for number in range(500)
        ]
        plan(ledger, run, drop_of(("orders", "in.csv")), items)
        report = written(ledger, run, chosen)
    html = page_of(report)
    assert len(html.encode()) < 1_000_000
    shown = html.count("<article")
    assert 300 < shown <= 800
    assert f"{500 - shown:,} more need attention and are not shown here" in html
    assert 70 < html.count("All other values") < shown
    assert html.count("too full for its values") == shown - html.count("All other values")


def test_a_record_of_thousands_of_values_is_cut_and_says_so(tmp_path):
    packages = [
        {"package_type": "Box", "item_name": f"item {number}", "weight": 1, "weight_uom": "KG"}
        for number in range(2000)
    ]
    with run_begun(tmp_path) as (ledger, run, chosen):
        big = document(
            "order.create", order(1, packages=packages), [("orders", 2, ("A",))], weight_problem("in.csv", 2)
        )
        plan(ledger, run, drop_of(("orders", "in.csv")), [big])
        report = written(ledger, run, chosen)
    html = page_of(report)
    assert len(html.encode()) < 150_000
    assert re.search(r"and 7,\d\d\d more:", html)


def test_the_policy_names_the_very_style_and_script(report):
    html = page_of(report)
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1])
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert " style=" not in html
    assert not re.search(r"\son\w+=", html.split("<main", 1)[1])


@given(st.lists(st.text(max_size=6) | st.sampled_from(["main", "find", "A", "A-2", "a b", "a_b", ""]), max_size=20))
def test_anchors_are_never_given_twice_and_need_no_escaping(keys):
    anchors = Anchors(("main", "find"))
    given_ = [anchors.take(key) for key in keys]
    assert len({"main", "find", *given_}) == len(given_) + 2
    assert all(re.fullmatch(r"[\w.~-]+", one) for one in given_)


def test_the_anchor_of_an_ordinary_key_is_the_key():
    assert anchor("A-1002") == "A-1002"
    assert anchor("Größe 7/a") == "Größe_7_a"


def test_a_document_made_from_two_files_names_them_in_each_place(tmp_path):
    with run_begun(tmp_path) as (ledger, run, chosen):
        drop = drop_of(("orders", "orders.csv"), ("packages", "packages.csv"))
        joined = document(
            "order.create",
            order(1),
            [("orders", 2, ("A",)), ("packages", 7, ("A",))],
            weight_problem("packages.csv", 7),
        )
        plan(ledger, run, drop, [joined])
        html = page_of(written(ledger, run, chosen))
    assert "orders.csv row 2; packages.csv row 7" in articles(html)["A-00001"]
    assert "packages.csv row 7 · Gewicht" in articles(html)["A-00001"]
    assert 'data-file="orders.csv\npackages.csv"' in html


def test_a_document_that_needs_no_action_shows_its_references(tmp_path):
    made = order(1, order_references=[{"name": "Customer PO", "value": "PO-77123"}, {"name": "Dock", "value": "7"}])
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "in.csv")), [document("order.create", made, [("orders", 2, ("A",))])])
        send(ledger, run)
        html = page_of(written(ledger, run, settings))
    (line,) = re.findall(r'<tr id="A-00001" class="document.*?</tr>', html)
    assert "<small>PO-77123, 7</small>" in line


def test_every_fix_file_is_a_link_that_downloads_the_worst_first(tmp_path):
    names = [f"{letter}.csv" for letter in "abcdefg"]
    with run_begun(tmp_path) as (ledger, run, settings):
        for count, name in enumerate(names, start=1):
            wrong = [
                document("order.create", order(100 * count + row), [("orders", row, ("A",))], weight_problem(name, row))
                for row in range(2, 2 + count)
            ]
            plan(ledger, run, drop_of(("orders", name), mapping=name), wrong)
        html = page_of(written(ledger, run, settings))
    todo = html[html.index('id="todo"') : html.index('id="files"')]
    assert re.findall(r'<a href="([^"]+)" download>', todo) == [f"{name[0]}.fix.xlsx" for name in reversed(names)]
    assert "<summary>1 more fix file</summary>" in todo


def test_the_page_says_how_many_documents_it_does_not_hold(tmp_path):
    with run_begun(tmp_path, page_documents_max=2) as (ledger, run, settings):
        rows = range(2, 7)
        made = [document("order.create", order(row), [("orders", row, ("A",))]) for row in rows]
        plan(ledger, run, drop_of(("orders", "in.csv")), made)
        send(ledger, run)
        html = page_of(written(ledger, run, settings))
    assert 'data-beyond="3"' in html

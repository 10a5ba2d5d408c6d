"""`loadsheet pull`: the exchange's listing for analysts, by the real command from a real exchange."""

import csv
import io
import json
import os
import pty
from contextlib import contextmanager
from decimal import Decimal

import msgspec
import openpyxl
import pytest
import requests
from command_in_process import loadsheet, nobody_reads, stdout_to
from exchange_process import TOKEN, exchange
from ledgers import order, tender

from loadsheet.cli import invoke
from loadsheet.contract import BY_NAME

ODD = '=HYPERLINK("http://e.example";"pay")'
EXACT = Decimal("1234567890123.123456789")
PARTIAL = "2 of 3 orders listed: partial (the exchange lists at most 2 records)"
WRITES = {"order": BY_NAME["order.create"], "tender": BY_NAME["tender.create"]}


def orders():
    yield order(1, goods_value=EXACT, pickup_pincode="01067", delivery_company=ODD)
    inner = [{"cargo_type": "Bag", "item_name": "Schraube", "quantity": 12}, {"cargo_type": "Roll"}]
    packages = [
        {"package_type": "Box", "item_name": "-5", "weight": Decimal("0.1")},
        {"package_type": "Drum", "item_name": "@SUM(A1)", "inner_cargos": inner},
    ]
    references = [{"name": "PO", "value": "00815"}, {"name": "SO", "value": "+49"}]
    yield order(2, packages=packages, order_references=references)
    yield order(3, order_id="0003", packages=[], total_weight=Decimal("412.50"))


def send(url, subject, record):
    body = msgspec.json.Encoder(decimal_format="number").encode(record)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    answer = requests.post(url + WRITES[subject].path, data=body, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text


@contextmanager
def with_orders(folder, **assumptions):
    """An exchange with three orders and a tender."""
    with exchange(folder / "exchange.db", **assumptions) as serving:
        for record in orders():
            send(serving.url, "order", record)
        send(serving.url, "tender", tender(1))
        yield serving.url


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with with_orders(tmp_path_factory.mktemp("exchange")) as url:
        yield url


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """An exchange that lists two records at most."""
    with with_orders(tmp_path_factory.mktemp("exchange"), page_size_max="2") as url:
        yield url


def pull(folder, what, url, *words):
    return loadsheet(folder, "pull", what, "--exchange", url, *words)


def csv_rows(path):
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def test_a_workbook_has_a_sheet_for_the_orders_and_one_for_each_list_in_them(served, tmp_path):
    done = pull(tmp_path, "orders", served, "--to", "o.xlsx")
    assert (done.returncode, done.stdout) == (0, "")
    assert "3 of 3 orders listed: complete" in done.stderr
    book = openpyxl.load_workbook(tmp_path / "o.xlsx")
    assert book.sheetnames == ["Listing", "Orders", "Packages", "Inner cargos", "Order references", "Involved parties"]
    assert book["Listing"]["A1"].value == "3 of 3 orders listed: complete"
    sheets = {
        sheet.title: [
            dict(zip([cell.value for cell in sheet[1]], line, strict=True))
            for line in sheet.iter_rows(min_row=2, values_only=True)
        ]
        for sheet in book.worksheets[1:]
    }
    first, second, third = sheets["Orders"]
    assert (first["order_id"], first["pickup_pincode"], third["order_id"]) == ("A-00001", "01067", "0003")
    assert first["goods_value"] == str(EXACT)
    assert second["goods_value"] == 1002.99
    assert first["pickup_startdatetime"].isoformat() == "2026-03-05T08:00:00"
    assert first["delivery_company"] == ODD
    assert [(row["order_id"], row["packages no."], row["item_name"]) for row in sheets["Packages"]] == [
        ("A-00001", 1, "Kabel"),
        ("A-00001", 2, "Stecker"),
        ("A-00002", 1, "-5"),
        ("A-00002", 2, "@SUM(A1)"),
    ]
    assert [(row["packages no."], row["inner_cargos no."], row["cargo_type"]) for row in sheets["Inner cargos"]] == [
        (2, 1, "Bag"),
        (2, 2, "Roll"),
    ]
    assert [row["value"] for row in sheets["Order references"]] == ["00815", "+49"]
    assert all(cell.data_type != "f" for sheet in book for row in sheet.iter_rows() for cell in row)


def test_csv_is_a_file_for_each_table_with_the_key_of_the_order(served, tmp_path):
    done = pull(tmp_path, "orders", served, "--to", "new/o.csv", "--json")
    assert done.returncode == 0
    said = json.loads(done.stdout)
    assert (said["complete"], said["records"], said["total_count"]) == (True, 3, 3)
    tables = ("", ".packages", ".packages.inner_cargos", ".order_references", ".involved_parties")
    assert said["files"] == [f"new/o{name}.csv" for name in tables]
    rows = csv_rows(tmp_path / "new" / "o.csv")
    assert [row["order_id"] for row in rows] == ["A-00001", "A-00002", "0003"]
    assert (rows[0]["goods_value"], rows[2]["total_weight"]) == (str(EXACT), "412.50")
    assert rows[0]["delivery_company"] == f"'{ODD}"
    packages = csv_rows(tmp_path / "new" / "o.packages.csv")
    assert [row["item_name"] for row in packages] == ["Kabel", "Stecker", "-5", "'@SUM(A1)"]
    assert csv_rows(tmp_path / "new" / "o.involved_parties.csv") == []


def test_json_is_the_listing_as_it_came(served, tmp_path):
    assert pull(tmp_path, "orders", served, "--to", "o.json").returncode == 0
    text = (tmp_path / "o.json").read_text(encoding="utf-8")
    assert text.startswith('{"listed":"3 of 3 orders listed: complete","complete":true,')
    found = json.loads(text, parse_float=Decimal)
    lines = found["results"]
    assert [one["goods_value"] for one in lines] == [one["goods_value"] for one in orders()]
    answer = requests.get(
        served + BY_NAME["order.list"].path,
        params={"page_size": 9},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=30,
    )
    assert json.loads(answer.text, parse_float=Decimal)["results"] == lines


def test_in_a_pipe_stdout_is_csv_and_nothing_else(served, tmp_path):
    done = pull(tmp_path, "orders", served)
    assert done.returncode == 0
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert (rows[2]["order_id"], rows[2]["total_weight"], rows[2]["currency"]) == ("0003", "412.50", "CHF")
    whole = pull(tmp_path, "tenders", served, "--json")
    assert [one["tender_id"] for one in json.loads(whole.stdout)["results"]] == ["T-0001"]


@pytest.mark.parametrize("form", ["xlsx", "csv", "json"])
def test_what_is_partial_says_so_first_and_exits_1(partial, tmp_path, form):
    done = pull(tmp_path, "orders", partial, "--to", f"o.{form}")
    assert done.returncode == 1
    assert PARTIAL in done.stderr
    assert "ask the operator of the exchange to raise its maximum page_size" in done.stderr
    path = tmp_path / f"o.{form}"
    if form == "xlsx":
        front = openpyxl.load_workbook(path)["Listing"]
        assert front["A1"].value == PARTIAL
        assert "may still be at the exchange" in front["A2"].value
        return
    first = path.read_text(encoding="utf-8-sig").splitlines()[0]
    assert first.startswith(f"# {PARTIAL}" if form == "csv" else f'{{"listed":"{PARTIAL}","complete":false')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["parcels"], "'parcels' is not one of 'orders', 'tenders'"),
        ([], "Missing argument"),
        (["orders", "--to", "o.pdf"], "must end in .xlsx, .csv, .json"),
    ],
)
def test_wrong_usage_says_what_is_wrong(capsys, words, said):
    assert invoke(["pull", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True)


def test_an_exchange_that_is_away_embedded_or_refuses_the_token_ends_as_everywhere(served, tmp_path):
    gone = pull(tmp_path, "orders", "http://127.0.0.1:9", "--to", "o.csv")
    assert (gone.returncode, gone.stdout) == (75, "")
    refused = loadsheet(tmp_path, "pull", "orders", "--exchange", served, "--to", "o.csv", LOADSHEET_TOKEN="wrong")
    assert (refused.returncode, refused.stdout) == (77, "")
    assert not (tmp_path / "o.csv").exists()
    embedded = loadsheet(tmp_path, "pull", "orders")
    assert (embedded.returncode, embedded.stdout.startswith("order_id,")) == (0, True)
    assert "0 of 0 orders listed: complete" in embedded.stderr


def test_on_a_terminal_foreign_text_is_neither_markup_nor_control_and_a_reader_may_go_away(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOADSHEET_TOKEN", TOKEN)
    monkeypatch.setenv("TERM", "dumb")
    with exchange(tmp_path / "exchange.db") as serving:
        send(serving.url, "order", order(1, pickup_city="[/red]", delivery_city="[b]\x1b\x07K"))
        ours, theirs = pty.openpty()
        with stdout_to(os.fdopen(theirs, "w")):
            assert invoke(["pull", "orders", "--exchange", serving.url]) == 0
            shown = os.read(ours, 65_536).decode()
        os.close(ours)
        with stdout_to(nobody_reads()):
            assert invoke(["pull", "orders", "--exchange", serving.url, "--json"]) == 0
    assert "[/red], DE" in shown
    assert "[b]??K, DE" in shown
    assert "internal error" not in capsys.readouterr().err

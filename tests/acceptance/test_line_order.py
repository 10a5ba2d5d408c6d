"""The order of the lines of a record is not a content: the same export, sorted otherwise, changes nothing (metamorphic)."""

import pytest
from faulty_exchange import misbehaving
from workspace import SAMPLES


@pytest.fixture
def house(workspace):
    workspace.use_shipped("alder-parcels", "nordic-join")
    return workspace


def turned(content):
    """A file with its rows in the opposite order."""
    head, *rows = content.splitlines(keepends=True)
    return b"".join([head, *reversed(rows)])


def drop(house, *, turn, name, joined=True):
    """The samples of which records have several lines: one grouped file, and orders with their packages in another."""
    change = turned if turn else bytes
    house.drop(f"alder_{name}.csv", change((SAMPLES / "alder_2026-03-10.csv").read_bytes()))
    for path in (SAMPLES / "nordic").glob("*/*") if joined else ():
        house.drop(f"nordic/{name}/{path.name}", change(path.read_bytes()))


def run(house, exchange):
    """What became of the orders."""
    house.run("--exchange", exchange.exchange.url)
    return house.run_json()["groups"]["order.create"]


def test_the_same_rows_sorted_otherwise_are_unchanged(house, tmp_path):
    with misbehaving(tmp_path) as exchange:
        drop(house, turn=False, name="2026-03-10")
        first = run(house, exchange)
        assert first["matched"] > 30
        calls = len(exchange.happened())
        drop(house, turn=True, name="2026-03-11")
        again = run(house, exchange)
        assert set(again) == {"not sent: invalid", "unchanged"}
        assert again["unchanged"] == first["matched"]
        assert len(exchange.happened()) == calls


def test_where_the_mapping_says_that_order_counts_it_does(house, tmp_path):
    base = house / "mappings" / "base"
    (path,) = [path for path in base.iterdir() if "each: rows" in path.read_text(encoding="utf-8")]
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("each: rows", "each: rows\n    ordered: true", 1), encoding="utf-8")
    with misbehaving(tmp_path) as exchange:
        drop(house, turn=False, name="2026-03-10", joined=False)
        run(house, exchange)
        drop(house, turn=True, name="2026-03-11", joined=False)
        again = run(house, exchange)
        assert again["not sent: held"] == 1

"""Rows that create or update, whichever it is: what became of the one before decides, in the same night."""

import json
import shutil

import pytest
from misbehaving import misbehaving
from orders import MAPPINGS
from serving import TOKEN
from warm import loadsheet

HEAD = "Åtgärd;Order;Mottagare;Gata;Postnr;Ort;Land;Hämtning;Leverans;Kolli;Vikt;Volym;Värde;Orsak"
ROW = "N;LQ-501;{name};Storgatan 5;903 26;Umeå;SE;2026-03-11 08:00;2026-03-12 10:00;3;41,5;0,9;2 150,00;"
LONG = "Norra Möbler, avdelningen för kök och badrum"


@pytest.fixture
def house(tmp_path):
    shutil.copytree(MAPPINGS.parents[2] / "mappings", tmp_path / "mappings")
    (tmp_path / "inbox").mkdir()
    return tmp_path


def drop(house, number, name):
    text = f"{HEAD}\n{ROW.format(name=name)}\n"
    (house / "inbox" / f"lindqvist_changes_{number}.csv").write_text(text, encoding="utf-8")


def run(house, exchange):
    """The exit code, and the verdicts on the entries by operation."""
    words = ("run", "--settle", "0", "--exchange", exchange.exchange.url, "--json")
    done = loadsheet(house, *words, LOADSHEET_TOKEN=TOKEN)
    return done.returncode, json.loads(done.stdout)["groups"]


def test_the_corrected_row_creates_what_the_exchange_refused_before_it(house, tmp_path):
    drop(house, 1, LONG)
    drop(house, 2, "Norra Möbler")
    drop(house, 3, "Norra Möbler AB")
    with misbehaving(tmp_path, text_length_max=40) as exchange:
        code, groups = run(house, exchange)
        assert [one["operation"] for one in exchange.happened()] == ["order.create", "order.update"]
        assert (code, groups) == (
            1,
            {"order.create": {"refused": 1, "replaced later": 1}, "order.update": {"matched": 1}},
        )
        drop(house, 4, "Norra Möbler AB")
        code, groups = run(house, exchange)
        assert (code, groups) == (0, {"order.update": {"unchanged": 1}})

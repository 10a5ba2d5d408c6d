"""What files say is shown and does nothing: no sign of theirs reaches a terminal that moves its cursor or turns its text around."""

import shutil
import unicodedata

import pytest
from orders import MAPPINGS
from warm import loadsheet

NASTY = "Or\x1b[31mder,Rea\u202eson,\x9b2J\u00ad\nA,b,c\n"


@pytest.fixture
def house(tmp_path):
    shutil.copytree(MAPPINGS.parents[2] / "mappings", tmp_path / "mappings")
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "order_deletes_1.csv").write_text(NASTY, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("check", "inbox/order_deletes_1.csv"),
        ("run", "--settle", "0"),
        ("show", "A\x1b[31m"),
        ("mapping", "preview", "inbox/order_deletes_1.csv"),
    ],
)
def test_no_command_repeats_what_a_terminal_obeys(house, words):
    done = loadsheet(house, *words)
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert said.strip()
    assert {sign for sign in said if unicodedata.category(sign) in ("Cc", "Cf")} <= {"\n", "\t"}


def test_letters_and_spaces_of_any_language_stay(house):
    loadsheet(house, "run", "--settle", "0")
    name = "Größe\u00a0中文 Ørsted\u202f№"
    assert name in loadsheet(house, "show", name).stderr

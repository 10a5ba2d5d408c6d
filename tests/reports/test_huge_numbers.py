"""Numbers of any size add up in control totals and reports: exactly, and without a crash."""

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from ledgers import Ticking, ledger_in, order
from reported_runs import House, create

HUGE = ["1E+30", "9" * 60, "1E+300", "0." + "0" * 60 + "1", "1E-300", "123456789012345678901234567890.5"]


@pytest.mark.parametrize("written", HUGE)
def test_totals_of_huge_numbers_are_exact(tmp_path, written):
    huge, clock = Decimal(written), Ticking()
    with ledger_in(tmp_path, clock) as ledger:
        house = House(tmp_path, ledger, clock)
        items = [create(0, total_weight=huge), create(1, total_weight=Decimal(1)), create(2, total_weight=huge)]
        listed = [order(0, total_weight=huge), order(1, total_weight=Decimal(1)), order(2, total_weight=Decimal(7))]
        report = house.night(items, held=listed)
    told = json.loads((report.folder / "run.json").read_text(encoding="utf-8"), parse_float=Decimal, parse_int=Decimal)
    assert told["missing"] == []
    (weight,) = [total for total in told["totals"] if total["figure"] == "weight"]
    assert Fraction(weight["source"]) == 2 * Fraction(huge) + 1

"""Numbers of any size add up in control totals and reports: exactly, and without a crash."""

import json
from decimal import Decimal
from fractions import Fraction

from ledgers import Ticking, ledger_in, order
from reported_runs import House, create

HUGE = {  # by the unit in which it is weighed
    "KG": "1E+30",
    "Ton": "9" * 60,
    "LB": "1E+300",
    "G": "0." + "0" * 60 + "1",
    "OZ": "1E-300",
    "CWT": "123456789012345678901234567890.5",
}


def test_totals_of_huge_numbers_are_exact(tmp_path):
    items, listed, clock = [], [], Ticking()
    for first, (unit, written) in enumerate(HUGE.items()):
        for number, weight in enumerate((Decimal(written), Decimal(1), Decimal(written)), 3 * first):
            items.append(create(number, total_weight=weight, gross_weight_uom=unit))
            seen = Decimal(7) if number % 3 == 2 else weight
            listed.append(order(number, total_weight=seen, gross_weight_uom=unit))
    with ledger_in(tmp_path, clock) as ledger:
        report = House(tmp_path, ledger, clock).night(items, held=listed)
    told = json.loads((report.folder / "run.json").read_text(encoding="utf-8"), parse_float=Decimal, parse_int=Decimal)
    assert told["missing"] == []
    weights = {total["unit"]: total["source"] for total in told["totals"] if total["figure"] == "weight"}
    assert {unit: Fraction(source) for unit, source in weights.items()} == {
        unit: 2 * Fraction(Decimal(written)) + 1 for unit, written in HUGE.items()
    }

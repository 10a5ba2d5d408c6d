"""The small files that change what the others created: quotes and confirmations for the tenders, updates and deletions.

Honest mistakes: in each file one row that loadsheet refuses, and where it is natural one that only the exchange can refuse
(a tender or an order nobody knows).
"""

import csv
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from making.dice import Dice, at
from making.shipments import Shipment


def make(folder: Path, tenders: Sequence[str], shipments: Sequence[Shipment]) -> None:
    """Writes the six files. `tenders` are those offered to CARRIER7; `shipments` good orders that no carrier reported on."""
    dice = Dice(77)
    quoted = tenders[:9]
    rates = _quotes(dice, folder, quoted, on_request=tenders[9])
    _confirmations(folder, rates)
    _tender_updates(folder, tenders)
    _write(
        folder / "tender_withdrawals.csv", "Tender,Order", [[tenders[-1], ""], [tenders[-2], ""], ["LSC-SP26-047", ""]]
    )
    _order_updates(dice, folder, shipments[:7])
    cancelled = [[item.order_id, reason] for item, reason in zip(shipments[7:11], _REASONS, strict=True)]
    _write(
        folder / "order_deletes.csv",
        "Order,Reason",
        [*cancelled[:3], ["HLT-26-0099", "Duplicate of 0143"], cancelled[3], ["", "see mail"]],
    )


_REASONS = ("Customer cancelled", "Merged into next week's load", "Stock short", "Customer cancelled")


def _quotes(dice: Dice, folder: Path, tenders: Sequence[str], on_request: str) -> dict[str, str]:
    rows = []
    rates = {}
    for index, tender in enumerate(tenders):
        sent = at("03-06", 9) + timedelta(minutes=17 * index)
        rate = f"{dice.whole(1_150, 4_200)}.{dice.pick(('00', '50', '25'))}"
        rates[tender] = rate
        fuel = f"{dice.whole(110, 480)}.00"
        rows.append(
            [tender, rate, "USD", f"{sent:%m/%d/%Y %H:%M}", fuel, dice.pick(("", "", "85.00")), "America/Chicago"]
        )
    rows.insert(4, ["LSC-SP26-112", "1890.00", "USD", "03/06/2026 10:12", "205.00", "", "America/Chicago"])
    rows.append([on_request, "call me", "USD", "03/06/2026 12:40", "", "", "America/Chicago"])
    _write(folder / "quotes_carrier7.csv", "Tender,Rate,Currency,Quoted at,Fuel surcharge,Liftgate,Time zone", rows)
    return rates


def _confirmations(folder: Path, rates: Mapping[str, str]) -> None:
    decisions = ("Award", "Award", "Regret", "Award", "Regret", "Pending", "Award")
    rows = [
        [tender, "CARRIER7", decision, rate, f"03/09/2026 14:{index:02}"]
        for index, ((tender, rate), decision) in enumerate(zip(rates.items(), decisions, strict=False))
    ]
    rows.append([next(iter(rates)), "NSTAR", "Regret", "3725.00", "03/09/2026 14:30"])
    _write(folder / "confirmations.csv", "Tender,Carrier,Decision,Rate,Decided at", rows)


def _tender_updates(folder: Path, tenders: Sequence[str]) -> None:
    rows = [
        [tenders[0], "Open", "48' flatbed", "03/18/2026 08:00", "03/18/2026 12:00"],
        [tenders[3], "Closed", "", "", ""],
        [tenders[4], "Open", "", "03/26/2026 07:00", "03/26/2026 25:00"],
        [tenders[5], "Open", "26' box truck", "", ""],
    ]
    _write(folder / "tender_updates.csv", "Tender,Status,Equipment,Pickup from,Pickup to", rows)


def _order_updates(dice: Dice, folder: Path, shipments: Sequence[Shipment]) -> None:
    rows = []
    for item in shipments:
        late = item.deliver + timedelta(days=dice.pick((1, 2)))
        rows.append(
            [item.order_id, f"{late:%d/%m/%Y %H:%M}", f"{late + timedelta(hours=2):%d/%m/%Y %H:%M}", "", "Delayed"]
        )
    rows[2][3:] = ["LPT 1613", "Open"]
    rows[4][1] = rows[4][1].replace("/03/", "/O3/")
    rows.append(["HLT-26-0999", "16/03/2026 18:00", "16/03/2026 20:00", "", "Delayed"])
    _write(folder / "order_updates.csv", "Order,Deliver from,Deliver until,Vehicle,Status", rows)


def _write(path: Path, labels: str, rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(labels.split(","))
        writer.writerows(rows)

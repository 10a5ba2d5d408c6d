"""New, changed and cancelled orders of an Indian trader in one list: lakhs, zones by row, blanks that say nothing, quotes behind a backslash."""

import csv
import io
import re
from decimal import Decimal

from cells import FaultError, moment, number, one_of, quantity, text
from dirt import Dice
from plain import Expected, Record, at, filled, is_blank, order, rounded

MAPPING = "order-changes.yaml"
FILE = "changes_0304.txt"
HEAD = [
    "Action", "Order No", "Zone", "Pick up", "Drop", "Consignee", "City", "State", "PIN", "Country", "Boxes", "Wt", "Value",
    "Cur", "Remark",
]  # fmt: skip
ACTIONS = {"new": "order.create", "change": "order.update", "cancel": "order.delete"}
STYLES = ("%d-%m-%Y %H:%M", "%d/%m/%Y %I:%M%p", "%Y%m%d%H%M")
COUNTRIES = {"India": "IN", "IN": "IN", "Nepal": "NP", "Sri Lanka": "LK"}


def make(seed, size):
    """The file, with so many rows."""
    dice, out = Dice(seed), io.StringIO(newline="")
    out.write("Sagar Exports\r\n\r\n")
    writer = csv.writer(out, escapechar="\\", doublequote=False)
    writer.writerow(HEAD)
    for count in range(1, size):
        writer.writerow(_row(dice, count))
        if dice.random() < 0.02:
            writer.writerow(dice.choice(([""] * 15, [*[""] * 14, "copied"])))
    return {FILE: out.getvalue().encode()}


def _row(dice, count):
    action = dice.now_and_then(80, ("Nwe", ""), ("New", "NEW", "new", "Change", "Cancel"))
    key = dice.now_and_then(60, ("", f"S/{max(1, count - 3)} "), f"S/{count}")
    year, day, hour = 2026, dice.choice((1, 8, 25)), dice.randint(0, 23)
    month = dice.choice((3, 10))
    pickup = dice.choice(
        (
            f"{day:02}-{month:02}-{year} {hour}:15",
            f"{day}/{month}/{year} {(hour - 1) % 12 + 1}:15{'AM' if hour < 12 else 'pm'}",
            f"{year}{month:02}{day:02}{hour:02}15",
        )
    )
    pickup = dice.now_and_then(60, ("25/13/2026 1:15AM", "2026-03-01 08:00", "8.3.2026 8:15"), pickup)
    new = action.casefold() == "new"

    def blank(cell, share=2):
        return dice.now_and_then(40 if new else share, "", cell)

    return [
        action, key, dice.now_and_then(60, "IST", ("", "", "Asia/Kathmandu", "Europe/London")), blank(pickup, 1 if dice.random() < 0.5 else 2),
        blank(dice.now_and_then(60, "01-02-2026 10:00", f"{dice.randint(1, 28):02}-11-2026 {dice.randint(0, 23):02}:00")),
        blank(dice.now_and_then(60, "A very long name of a consignee in a very long city", ('Rao "Bros", Ltd', "O\\Brien", "श्री टेक्सटाइल्स", "Cafe\u0301"))),
        blank(lambda: dice.choice(("Pune", "Kathmandu", "mumbai"))), blank("Maharashtra"), blank(dice.now_and_then(60, ("41101", "041101", "4110I1"), "411001")),
        dice.now_and_then(60, "Indai", ("", *COUNTRIES)),
        blank(dice.now_and_then(60, ("0", "1,00,000", "2.5", "one"), ("1", "1,200", "12,345", "7"))),
        blank(dice.now_and_then(40, ("see line 12", "-3", "1.234,5", "1,23,4", "5 cm"), ("1,24,500.25", "12.5kg", "0.5 t", "99 lbs", "1,500 g"))),
        dice.now_and_then(60, ("Rs 12", "-1", "12,50"), ("", "1,24,500.00", "999.99", "12345678.9")),
        dice.now_and_then(60, "RUPEE?", ("", "INR", "usd")), dice.choice(("", "copied", "two\nlines")),
    ]  # fmt: skip


def expected(files):
    """What has to come of it. An order that is told twice to become the same is wrong."""
    found, seen, read, before = (
        Expected(),
        {},
        csv.reader(io.StringIO(files[FILE].decode(), newline=""), escapechar="\\", doublequote=False),
        0,
    )
    for cells in read:
        row, before = before + 1, read.line_num
        if row <= 3 or is_blank(cells):
            continue
        place = (FILE, "", row)
        key = text(cells[1])
        if key is None and cells[14] == "copied":
            found.ignored.add(place)
            continue
        operation = ACTIONS.get(cells[0].casefold())
        record, read_before = seen.setdefault((operation, key or row), (Record(), []))
        read_before.append((place, _read(record, place, cells)))
        record.demand(key and operation, {place})
        record.demand(len(read_before) == 1, record.places)
    for (operation, key), (record, rows) in seen.items():
        place, line = rows[0]
        _missing(record, place, operation, line)
        record.end(
            found, operation, key, lambda operation=operation, key=key, line=line: _payload(operation, key, line)
        )
    return found


def _read(record, place, cells):
    _, _, zone, pickup, deliver, to, city, state, pin, country, boxes, weight, value, currency, _ = cells
    line = {
        "zone": record.read(place, one_of, zone, {"Asia/Kathmandu": "Asia/Kathmandu", "Europe/London": "Europe/London"}, required=False),
        "pickup": record.read(place, _at, pickup, zone),
        "deliver": record.read(place, _at, deliver, zone),
        "to": record.read(place, _name, to),
        "city": city.upper() or None, "state": text(state),
        "pin": record.read(place, _pin, pin),
        "country": record.read(place, one_of, country, COUNTRIES, required=False),
        "boxes": record.read(place, number, boxes, "in", low=1, high=99_999, whole=True),
        "weight": record.read(place, quantity, weight, "in", "kg", low="0.001"),
        "value": record.read(place, number, value, "in", low=0),
        "currency": record.read(place, one_of, currency.upper(), {"INR": "INR", "USD": "USD"}, required=False),
    }  # fmt: skip
    if line["pickup"] and line["deliver"]:
        record.demand(line["deliver"] > line["pickup"], {place})
    return line


def _missing(record, place, operation, line):
    if operation == "order.create":
        record.demand(
            all(line[name] is not None for name in ("pickup", "deliver", "to", "city", "pin", "boxes", "weight")),
            {place},
        )


def _name(cell):
    found = text(cell)
    if found and len(found) > 40:
        raise FaultError
    return found


def _pin(cell):
    if cell and not re.fullmatch("[1-9][0-9]{5}", cell):
        raise FaultError
    return text(cell)


def _at(cell, zone):
    return moment(cell, STYLES, zone if "/" in zone else "Asia/Kolkata", required=False, twice=True)


def _payload(operation, key, line):
    if operation == "order.delete":
        return {"order_id": key}
    if operation == "order.create":
        value, weight = line["value"], line["weight"]
        return order(
            key, "SAGAR", line["zone"] or "Asia/Kolkata", pickup=(line["pickup"],) * 2, deliver=(line["deliver"],) * 2,
            depot=("Sagar", "IN", "Surat", "Gujarat", "395003", "Ring Road"),
            to=(line["to"], line["country"] or "IN", line["city"], line["state"] or "", line["pin"], ""),
            totals=(line["boxes"], weight, rounded(weight, 0), 0), goods_value=Decimal(0) if value is None else value,
            currency=line["currency"] or "INR",
        )  # fmt: skip
    return filled({
        "order_id": key, "sender_id": "SAGAR", "receiver_id": "C1", "delivery_startdatetime": line["deliver"] and at(line["deliver"]),
        "delivery_company": line["to"], "delivery_city": line["city"], "delivery_pincode": line["pin"],
        "total_packages": line["boxes"], "total_weight": line["weight"], "goods_value": line["value"], "currency": line["currency"],
    })  # fmt: skip

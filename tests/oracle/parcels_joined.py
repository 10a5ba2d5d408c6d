"""Parcels of an American shipper: two files joined, tabs in UTF-16 with line breaks in cells, and a CSV file whose lines end as on an old Mac."""

import re
from datetime import timedelta
from decimal import Decimal

from cells import FaultError, flag, moment, number, one_of, quantity, text
from dirt import Dice, delimited
from plain import Expected, Record, filled, is_blank, later, lines, order, rounded

MAPPING = "parcels-joined.yaml"
ORDERS, PARCELS = "parcel_orders_0308.txt", "parcels_0308.csv"
STYLES = ("%m/%d/%Y %I:%M %p", "%b %d, %Y %H:%M", "%Y-%m-%d %H:%M")
PACKAGES = {"BX": "Box", "TB": "Tube", "CRT": "Crate"}


def make(seed, size):
    """The two files, with about so many rows."""
    dice, orders, parcels = (
        Dice(seed),
        [["Order #", "Ship To", "Address", "City", "ST", "ZIP", "Ready", "Due", "Declared", "Parcels", "E-mail"]],
        [],
    )
    while len(orders) + len(parcels) < size:
        key = f"HP{dice.choice('0O')}{len(orders):05}"
        count = dice.now_and_then(40, 0, dice.randint(1, 4))
        orders.append(_order(dice, key, count))
        parcels += [_parcel(dice, dice.now_and_then(80, lambda key=key: dice.alike(key), key)) for _ in range(count)]
        if dice.random() < 0.02:
            orders.append(dice.choice(([""] * 11, orders[-1][:1] + [""] * 10)))
    dice.shuffle(parcels)
    parcels.insert(0, ["SKU", "Haz", "L x W x H (in)", "Lbs", "Contents", "Pkg", "Order #"])
    return {
        ORDERS: delimited(orders, "\t", encoding="utf-16"),
        PARCELS: b"\xef\xbb\xbf" + delimited(parcels, ",", end="\r"),
    }


def _order(dice, key, count):
    month, day, hour, minute = (
        dice.choice((3, 3, 11)),
        dice.choice((1, 7, 8, 8, 9)),
        dice.randint(0, 23),
        dice.choice((0, 5, 30)),
    )
    half = f"{(hour - 1) % 12 + 1}:{minute:02} {'AM' if hour < 12 else 'PM'}"
    name = "Mar" if month == 3 else "Nov"
    ready = dice.choice(
        (
            f"{month}/{day}/2026 {half}",
            f"{name} {day}, 2026 {hour}:{minute:02}",
            f"2026-{month:02}-{day:02} {hour:02}:{minute:02}",
        )
    )
    ready = dice.now_and_then(40, ("tomorrow", "13/30/2026 8:00 AM", "3/8/2026 14:00 PM", "3/8/2026", ""), ready)
    due = f"{month:02}/{day + dice.now_and_then(40, 0, 2):02}/2026 {dice.choice(('05:00 PM', '5:00 pm', '11:30 p.m.'))}"
    return [
        dice.around(dice.choice((key, key.lower()))), dice.around("Smith, Jones & Co\n2nd floor" if dice.random() < 0.1 else f'"Bob\'s" Diner {key}'),
        "12 Main St", dice.choice(("Newark", "Boston", "N/A" if dice.random() < 0.1 else "Trenton")),
        dice.now_and_then(50, ("New Jersey", "N", ""), ("NJ", "ma", "Ny")),
        dice.now_and_then(50, ("", "07114-12345-9"), ("7114", "07114", "02134-1001", "501")),
        ready, due,
        dice.now_and_then(50, ("$12.00", "1.234,50", "-1", "see line 12", "12,50"), lambda: dice.digits(dice.uniform(0, 50_000), ",", ".", 2)),
        dice.now_and_then(50, lambda: count + 1, ("", "-", count, f"{count}.0")),
        dice.choice(("", "N/A", "Bob@Example.COM", "-")),
    ]  # fmt: skip


def _parcel(dice, key):
    return [
        dice.choice(("4711", "00004711", "", "AB-1", "123456789")),
        dice.now_and_then(60, "maybe", ("Y", "N", "y", "", "-")),
        dice.now_and_then(40, ("12x8", "12 by 8 by 6", "12 x 8 x 6 in"), ("12x8x6", "12.5 x 8 x 6", "30 X 20 X 10.25", "")),
        dice.now_and_then(40, ("see line 12", "0", "-3", "1 ton", "12,5", "abc lb", ""), lambda: f"{dice.uniform(0.1, 1500):,.2f}{dice.choice(('', '', ' lb', ' lbs', ' kg', ' oz'))}"),
        dice.choice(("Books", "Parts, assorted", "A very long description of the contents indeed", "Wine\r\n(fragile)", "Été ﬁne")),
        dice.now_and_then(60, ("bx", "B0X", ""), tuple(PACKAGES)),
        dice.around(dice.choice((key, key.lower()))),
    ]  # fmt: skip


def expected(files):
    """What has to come of it."""
    found, orders = Expected(), {}
    for row, cells in lines(files[ORDERS], "utf-16", "\t")[1:]:
        if not is_blank(cells):
            key = text(cells[0]).upper()
            orders.setdefault(key, []).append(((ORDERS, "", row), cells))
    parcels = {}
    for row, cells in lines(files[PARCELS], "utf-8-sig", ",")[1:]:
        parcels.setdefault(text(cells[6]).upper(), []).append(((PARCELS, "", row), cells))
    for key, own in orders.items():
        record = Record()
        read = [_order_read(record, place, cells) for place, cells in own]
        items = [_parcel_read(record, place, cells) for place, cells in parcels.pop(key, [])]
        first, heads = read[0], {place for place, _ in own}
        record.demand(len(own) == 1, heads)
        record.demand(bool(items), heads)
        if len(own) == 1 and items:
            record.demand(first["count"] in (None, len(items)), heads)
        if first["ready"] and first["due"]:
            record.demand(first["due"] > first["ready"], heads)
        record.end(found, "order.create", key, lambda key=key, first=first, items=items: _payload(key, first, items))
    for own in parcels.values():
        found.wrong.append(({place for place, _ in own}, [{place for place, _ in own}]))
    return found


def _word(cell, **options):
    return text("" if cell.strip() in ("N/A", "-") else cell, **options)


def _order_read(record, place, cells):
    _, to, address, city, state, zip_, ready, due, declared, count, email = cells
    return {
        "to": record.read(place, _word, to, required=True),
        "address": record.read(place, _word, address, required=True),
        "city": record.read(place, _word, city, required=True),
        "state": record.read(place, _state, state),
        "zip": record.read(place, _zip, zip_),
        "ready": record.read(place, moment, ready, STYLES, "America/New_York"),
        "due": record.read(place, moment, due.replace("p.m.", "PM"), STYLES, "America/New_York"),
        "declared": record.read(place, number, declared, "en", low=0, required=True),
        "count": record.read(place, number, _word(count) or "", "en", low=1, whole=True),
        "email": (_word(email) or "").lower(),
    }


def _state(cell):
    found = text(cell, required=True).upper()
    if not re.fullmatch("[A-Z]{2}", found):
        raise FaultError
    return found


def _zip(cell):
    found = text(cell, required=True).rjust(5, "0")
    if len(found) > 10:
        raise FaultError
    return found


def _parcel_read(record, place, cells):
    sku, haz, size, lbs, goods, kind, _ = cells
    return {
        "kind": record.read(place, one_of, kind, PACKAGES),
        "goods": record.read(place, lambda cell: text(cell, required=True).replace("\r\n", "\n")[:30].rstrip(), goods),
        "sku": sku and sku.rjust(8, "0"),
        "weight": record.read(place, quantity, lbs, "en", "kg", assumed="lb", low="0.001", required=True),
        "size": record.read(place, _size, size),
        "haz": record.read(place, flag, "N" if haz == "-" else haz, {"y"}, {"n"}, default="N"),
    }


def _size(cell):
    if not cell:
        return ()
    match = re.fullmatch(r"([0-9.]+) ?[xX] ?([0-9.]+) ?[xX] ?([0-9.]+)", cell)
    if not match:
        raise FaultError
    return tuple(Decimal(part) * Decimal("2.54") for part in match.groups())


def _payload(key, first, items):
    weight, sizes = sum(item["weight"] for item in items), [item["size"] for item in items if item["size"]]
    volume = sum((long * wide * high / 1_000_000 for long, wide, high in sizes), Decimal(0))
    chargeable = rounded(max(weight, volume * 200), 2)
    parties = [{"party_type": "Consignee", "party_company": first["to"], "email": first["email"]}]
    return order(
        key, "HUDSON", "America/New_York", pickup=(first["ready"], later(first["ready"], timedelta(minutes=90))),
        deliver=(later(first["due"], -timedelta(hours=12)), first["due"]),
        depot=("Hudson Parcels", "US", "Albany", "NY", "12207", "1 Broadway"),
        to=(first["to"], "US", first["city"], first["state"], first["zip"], first["address"]),
        totals=(len(items), rounded(weight, 2), chargeable, rounded(volume, 4)),
        goods_value=rounded(first["declared"], 2), currency="USD",
        vehicle_type="HAZMAT VAN" if any(item["haz"] == "yes" for item in items) else "VAN",
        packages=[_package(item) for item in items], involved_parties=parties if first["email"] else None,
    )  # fmt: skip


def _package(item):
    sides = dict(zip(("length", "width", "height"), (rounded(side, 1) for side in item["size"]), strict=False))
    package = {
        "package_type": item["kind"],
        "item_name": item["goods"],
        "description": item["sku"] or None,
        "weight": rounded(item["weight"], 3),
    }
    return filled({**package, "weight_uom": "KG", **sides, "hazardous": item["haz"]})

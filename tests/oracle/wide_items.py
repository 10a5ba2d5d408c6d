"""Orders of a French mail-order house: one row each, articles in numbered columns, marks, an address in one cell, hours beside days."""

import re
from datetime import timedelta
from decimal import Decimal

from cells import FaultError, flag, moment, number, one_of, quantity, text
from dirt import Dice, delimited
from plain import Expected, Record, hours, is_blank, later, lines, order, rounded

MAPPING = "wide-items.yaml"
FILE = "commandes_lil_03.csv"
MONTHS = ["janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre"]  # fmt: skip
COUNTRIES = {
    "France": "FR",
    "Belgique": "BE",
    "Suisse": "CH",
    "Pays-Bas": "NL",
    "be": "BE",
    "Allemagne": "DE",
    "Germany": "DE",
}
SPACES = ("\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}", " ")
SETS = range(1, 6)
HEAD = ["Commande", "Destinataire", "Adresse", "Pays", "Jour d\N{RIGHT SINGLE QUOTATION MARK}enlèvement", "Heure", "Livraison", "Valeur", "Devise"]  # fmt: skip


def make(seed, size):
    """The file, with so many rows."""
    dice = Dice(seed)
    rows = [
        [
            *HEAD,
            *(label for place in SETS for label in (f"Article {place}", f"Quantité {place}", f"Poids {place}")),
            "Fragile",
            "Hayon",
            "Note",
        ]
    ]
    for count in range(1, size):
        rows.append(_row(dice, count))
        if dice.random() < 0.01:
            rows.append([""] * len(rows[0]))
    return {FILE: delimited(rows, ";", end="\n", encoding="utf-8-sig")}


def _row(dice, count):
    key = dice.now_and_then(
        60, lambda: f"{count:07}".replace("0", "\N{FULLWIDTH DIGIT ZERO}", 1), dice.choice((str(count), f"{count:07}"))
    )
    day, month = dice.randint(1, 30), dice.randint(3, 4)
    pickup = dice.choice((f"{day:02}/{month:02}/2026", f"{day}-{month}-26", f"{day} {MONTHS[month - 1]} 2026"))
    pickup = dice.now_and_then(40, ("31/04/2026", "lundi", "2026-03-04", "", "12/25/2026"), pickup)
    clock = dice.now_and_then(50, ("25h00", "midi", "8h60"), ("", "8h30", "14:15", "23h59", "2h30", "9h"))
    address = dice.choice(
        (
            "12 rue de l\N{RIGHT SINGLE QUOTATION MARK}Église, 1000 Bourg-en-Bresse",
            "Zone 3, bât. B, 59000 Lille",
            "Rue Haute 4, B-1000 bruxelles",
            "Quai 7, 3012 Berne",
        )
    )
    sets = [cell for place in SETS for cell in _set(dice, place, dice.randint(1, 5))]
    return [
        key, dice.around(f"Café n° {count}"), dice.now_and_then(40, "sans adresse", address),
        dice.now_and_then(40, ("Brlgique", "UE"), ("", *COUNTRIES)), pickup, clock, f"{dice.randint(1, 28)}/5/2026",
        dice.now_and_then(40, ("12.50", "1.234,50", "12 34,5", "12,50 €"), lambda: dice.digits(dice.uniform(0, 90_000), dice.choice(SPACES), ",", 2)),
        dice.now_and_then(40, ("Euro", "E", "EURO"), ("", "EUR", "CHF", "eur")),
        *sets, dice.now_and_then(60, "peut-être", ("", "x", "oui", "non")), dice.choice(("", "X", "non")), dice.choice(("", "=1+1", "+33")),
    ]  # fmt: skip


def _set(dice, place, filled_up_to):
    if place > filled_up_to and dice.random() < 0.97:
        return ["", "", ""]
    weight = f"{dice.uniform(0.1, 40):.2f}".replace(".", ",") + dice.choice(
        ("", " kg", " g" if dice.random() < 0.1 else "")
    )
    return [
        dice.now_and_then(80, "", ("Livre", "Vin « rouge »", "Thé; vert")),
        dice.now_and_then(80, ("0", "1,5", "deux"), ("", "1", "3", "10")),
        dice.now_and_then(80, ("voir ligne 12", "-1,5", "1.5", ""), weight),
    ]  # fmt: skip


def expected(files):
    """What has to come of it."""
    found, orders = Expected(), {}
    for row, cells in lines(files[FILE], "utf-8-sig", ";")[1:]:
        if not is_blank(cells):
            orders.setdefault((text(cells[0]) or "").rjust(7, "0"), []).append(((FILE, "", row), cells))
    for key, own in orders.items():
        record = Record()
        read = [_read(record, place, cells) for place, cells in own]
        record.demand(len(own) == 1, {place for place, _ in own})
        record.end(found, "order.create", key, lambda key=key, read=read: _payload(key, read[0]))
    return found


def _read(record, place, cells):
    _, to, address, country, day, hour, deliver, value, currency, *rest = cells
    parts = record.read(place, _address, address)
    line = {
        "to": record.read(place, text, to, required=True),
        "country": record.read(place, one_of, country, COUNTRIES, default="France"),
        "day": record.read(place, moment, _in_digits(day), ("%d/%m/%Y", "%d-%m-%y"), "Europe/Paris"),
        "hour": record.read(place, _hour, hour),
        "deliver": record.read(place, moment, deliver, ("%d/%m/%Y",), "Europe/Paris"),
        "value": record.read(place, number, value, "fr"),
        "currency": record.read(place, _currency, currency),
        "items": [],
        "marks": [
            word
            for cell, word in zip(rest[15:17], ("fragile", "tail lift"), strict=True)
            if _marked(record, place, cell)
        ],
    }
    for start in range(0, 15, 3):
        item, qty, weight = rest[start : start + 3]
        if not item and not weight:
            continue
        line["items"].append((
            record.read(place, text, item, required=True),
            record.read(place, number, qty, "fr", low=1, whole=True, default="1"),
            record.read(place, quantity, weight, "fr", "kg", low="0.001", required=True),
        ))  # fmt: skip
    record.demand(line["items"], {place})
    if line["day"] and line["hour"] is not None:
        wall = line["day"].replace(tzinfo=None) + line["hour"]
        line["pickup"] = record.read(place, moment, wall, (), "Europe/Paris")
    line["street"], line["zip"], line["city"] = parts or (None, None, None)
    return line


def _in_digits(day):
    match = re.fullmatch(r"([0-9]+) (\w+) ([0-9]{4})", day)
    return f"{match[1]}/{MONTHS.index(match[2]) + 1}/{match[3]}" if match else day


def _address(cell):
    match = re.fullmatch(r"(.+), *([0-9A-Z-]{4,8}) +([^0-9,]+)", text(cell, required=True).upper())
    if not match:
        raise FaultError
    return match[1], match[2], match[3]


def _hour(cell):
    match = re.fullmatch(r"([0-9]{1,2})(?:h|:)([0-9]{1,2})?", cell or "8h00")
    if not match or int(match[1]) > 23 or int(match[2] or 0) > 59:
        raise FaultError
    return timedelta(hours=int(match[1]), minutes=int(match[2] or 0))


def _currency(cell):
    found = {"EURO": "EUR"}.get(cell.upper(), cell.upper()) or "EUR"
    if found not in ("EUR", "CHF"):
        raise FaultError
    return found


def _marked(record, place, cell):
    return record.read(place, flag, cell, {"oui", "x"}, {"non"}, default="non") == "yes"


def _payload(key, line):
    weight = sum(weight * qty for _, qty, weight in line["items"])
    zip_ = line["zip"].rjust(5, "0") if line["country"] == "FR" else line["zip"]
    totals = rounded(weight, 2), rounded(max(weight, Decimal(1)), 2), rounded(weight * Decimal("0.004"), 4)
    return order(
        key, "COLIBRI", "Europe/Paris", pickup=(line["pickup"], later(line["pickup"], timedelta(hours=3))),
        deliver=(line["deliver"], later(line["deliver"], timedelta(hours=18))),
        depot=("Colibri", "FR", "Lille", "", "69001", "Quai 1"), to=(line["to"], line["country"], line["city"], "", zip_, line["street"]),
        totals=(sum(qty for _, qty, _ in line["items"]), *totals), goods_value=rounded(line["value"], 2), currency=line["currency"],
        packages=[
            {"package_type": "Box", "item_name": item, "quantity": qty, "weight": rounded(kilos, 3), "weight_uom": "KG"} for item, qty, kilos in line["items"]
        ],
        order_references=[{"name": "Handling", "value": mark} for mark in line["marks"]] or None,
    ) | {"timeoffset": hours(line["day"])}  # fmt: skip

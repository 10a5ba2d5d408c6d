"""Order lines of a wholesaler: a row a line, German, Windows-1252; comments above, headings repeated, subtotals, blank rows."""

from datetime import timedelta
from decimal import Decimal

from cells import flag, moment, number, one_of, quantity, text
from dirt import Dice, delimited
from plain import Expected, Record, filled, is_blank, later, lines, order, rounded

MAPPING = "flat-lines.yaml"
FILE = "lines_2026-03.csv"
HEAD = [
    "Auftrag", "Empfänger", "Straße", "PLZ", "Ort", "Land", "Abholung", "Lieferung", "Verp.", "Artikel", "Menge", "Gewicht", "Volumen",
    "Warenwert", "Gefahrgut", "Bemerkung",
]  # fmt: skip
COUNTRIES = {
    "Deutschland": "DE",
    "Österreich": "AT",
    "Schweiz": "CH",
    "CH": "CH",
    "Niederlande": "NL",
    "Germany": "DE",
    "Frankreich": "FR",
}
PLACES = [
    ("1067", "Dresden", "Deutschland"), ("01067", "Dresden", ""), ("50668", "Köln", "Germany"), ("3012", "Bern", "Schweiz"),
    ("1010", "Wien", "Österreich"), ("1012 AB", "Amsterdam", "Niederlande"), ("6000", "Luzern", "CH"), ("4109", "Leipzig", "Deutschland"),
]  # fmt: skip
KINDS = {"EPAL": "Pallet/Skid", "KT10": "Carton/Piece", "ROL": "Roll"}


def make(seed, size):
    """The file, with about so many rows."""
    dice, rows, number_ = Dice(seed), [HEAD], 0
    while len(rows) < size:
        number_ += 1
        head = _head(dice, number_)
        rows += [_line(dice, head) for _ in range(dice.randint(1, 4))]
        if dice.random() < 0.02:
            rows.append(
                dice.choice(
                    ([""] * 16, HEAD, ["Zwischensumme", *[""] * 10, "1.204,5", "", "", "", ""], ["", "  ", *[""] * 14])
                )
            )
    rows.append(["Summe", *[""] * 10, "99.999,9", "", "", "", ""])
    top = "# Export Lagerverwaltung;Stand 04.03.2026\r\n# Lager Nord\r\n".encode("cp1252")
    return {FILE: top + delimited(rows, ";", encoding="cp1252")}


def _head(dice, count):
    zip_, city, country = dice.choice(PLACES)
    key = dice.now_and_then(25, lambda: dice.alike(f"LN-{10_000 + count - 1}"), f"LN-{10_000 + count}")
    day, hour = f"{dice.randint(1, 31):02}", f"{dice.randint(0, 23)}:{dice.choice(('00', '15', '30', '59'))}"
    pickup = dice.choice((f"{day}.03.2026 {hour:>05}", f"2026-03-{day}T{hour:0>5}:00", f"{int(day)}. März 2026 {hour}"))
    pickup = dice.now_and_then(
        40, ("31.02.2026 08:00", "bald", "29.03.2026 02:30", "03/04/2026 08:00", "2026-03-04 8h"), pickup
    )
    deliver = dice.choice((f"{dice.randint(1, 30):02}.04.26", f"2026-04-{dice.randint(1, 30)}"))
    to = f"{dice.choice(('Müller & Söhne', 'Bäckerei „Zum Roß“', 'Kühn; Partner GmbH'))} {count}"
    return [key, to, f"Weg {dice.randint(1, 99)}", zip_, city, country, pickup, dice.now_and_then(60, "KW 14", deliver)]


def _line(dice, head):
    head = list(head)
    if dice.random() < 0.01:
        head[dice.choice((1, 2, 4))] += dice.choice((" ", " ", "\xa0", " x"))
    kind = dice.now_and_then(40, ("KTI0", "EPAl", "R0L", "", "EPAL/ROL"), ("EPAL", "KT10", "ROL", "epal", "Kt10"))
    weight = dice.digits(dice.uniform(0.1, 3000), ".", ",", dice.randint(0, 3)) + dice.choice(
        ("", "", "", " kg", "kg", " KG")
    )
    weight = dice.now_and_then(
        9, lambda: f"{dice.randint(1, 99)}{dice.choice((' lb', ' lbs', ' g', ' t', 'oz'))}", weight
    )
    weight = dice.now_and_then(
        30,
        (
                "siehe Zeile 12", "-4,5", "12.5", "1.23", "0", "1,2,3", "12,5 m", "12,5 kg netto", "k. A.", "", "1E3", "~12",
            ),
        weight,
    )  # fmt: skip
    return [
        dice.around(head[0]), *[dice.around(cell) for cell in head[1:]], kind, f"Artikel {dice.choice(('½ Zoll', 'A', '„B“ groß'))}",
        dice.now_and_then(40, ("0", "-2", "2,5", "drei", "2,0"), ("", "1", "2", "12", "1.200", "+3")),
        weight,
        dice.now_and_then(40, ("-1", "1.5", "viel"), ("", "0,5", "1.200 l", "2 cbm", "0,25 m³", "12,5")),
        dice.now_and_then(50, ("12.50", "EUR 12", "12,50 €"), lambda: dice.choice(("", "-12,50", "\N{MINUS SIGN}3".replace("\N{MINUS SIGN}", "\N{EN DASH}"), dice.digits(dice.uniform(1, 90_000), ".", ",", 2)))),
        dice.now_and_then(80, "vielleicht", ("", "ja", "nein", "JA", "x")),
        dice.choice(("", "", "bitte\nanrufen", 'sagt "dringend"', " Rampe 3 ")),
    ]  # fmt: skip


def expected(files):
    """What has to come of it."""
    found, orders = Expected(), {}
    for row, cells in lines(files[FILE], "cp1252", ";")[3:]:
        place = (FILE, "", row)
        if is_blank(cells):
            continue
        key = text(cells[0])
        if key == "Auftrag" or (key or "").split()[:1] in (["Summe"], ["Zwischensumme"]):
            found.ignored.add(place)
            continue
        record, read = orders.setdefault(key, (Record(), []))
        read.append((place, _read(record, place, cells)))
    for key, (record, read) in orders.items():
        for name in ("to", "street", "zip", "city", "country", "pickup", "deliver"):
            said = {line[name] for _, line in read}
            record.demand(len(said - {None}) <= 1 and (name != "country" or len(said) == 1), record.places)
        record.end(found, "order.create", key, lambda key=key, read=read: _payload(key, [line for _, line in read]))
    return found


def _read(record, place, cells):
    (_, to, street, zip_, city, country, pickup, deliver, kind, item, qty, weight, volume, value, danger, note) = cells
    line = {
        "to": record.read(place, text, to, required=True),
        "street": record.read(place, text, street, required=True),
        "zip": record.read(place, text, zip_, required=True),
        "city": record.read(place, text, city, required=True),
        "country": record.read(place, one_of, country, COUNTRIES, default="Deutschland"),
        "pickup": record.read(
            place,
            moment,
            pickup,
            ("%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S", "%d. %B %Y %H:%M"),
            "Europe/Berlin",
            language="de",
        ),
        "deliver": record.read(place, moment, deliver, ("%d.%m.%y", "%Y-%m-%d"), "Europe/Berlin"),
        "kind": record.read(place, one_of, kind, KINDS, fold=True),
        "item": record.read(place, text, item, required=True),
        "qty": record.read(place, number, qty, "de", low=1, whole=True, default="1"),
        "weight": record.read(place, quantity, weight, "de", "kg", low="0.001", required=True),
        "volume": record.read(place, quantity, volume, "de", "m3", low=0, default="0"),
        "value": record.read(place, number, value, "de", default="0"),
        "danger": record.read(place, flag, danger, {"ja", "x"}, {"nein"}, default="nein"),
        "note": record.read(place, text, note),
    }
    if line["country"] == "DE" and line["zip"]:
        line["zip"] = line["zip"].rjust(5, "0")
    return line


def _payload(key, read):
    first, weight = read[0], sum(line["weight"] * line["qty"] for line in read)
    volume = sum(line["volume"] * line["qty"] for line in read)
    chargeable = rounded(max(weight, volume * 333), 2)
    return order(
        key, "NORDLAGER", "Europe/Berlin", pickup=(first["pickup"], later(first["pickup"], timedelta(hours=2))),
        deliver=(later(first["deliver"], timedelta(hours=8)), first["deliver"] + timedelta(days=1)),
        depot=("Nordlager", "DE", "Bremen", "", "28195", "Am Wall 1"),
        to=(first["to"], first["country"], first["city"], "", first["zip"], first["street"]),
        totals=(sum(line["qty"] for line in read), rounded(weight, 3), chargeable, rounded(Decimal(volume), 4)),
        goods_value=rounded(sum(line["value"] for line in read), 2),
        packages=[
            filled({
                "package_type": line["kind"], "item_name": line["item"], "description": line["note"], "quantity": line["qty"],
                "weight": line["weight"], "weight_uom": "KG", "volume": rounded(line["volume"], 4) if line["volume"] else None,
                "volume_uom": "CBM" if line["volume"] else None, "hazardous": line["danger"],
            })
            for line in read
        ],
    )  # fmt: skip

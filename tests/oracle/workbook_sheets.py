"""A manufacturer's workbook: two sheets under titles, merged keys, hidden rows, dates and numbers typed or real, error cells, flags."""

import io
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import openpyxl
from cells import FaultError, flag, moment, number, one_of, quantity, text
from dirt import Dice
from plain import Expected, Record, filled, is_blank, later, order, rounded, sheet

MAPPING = "workbook-sheets.yaml"
FILE = "versand_kw10.xlsx"
ORDERS, POSITIONS = "Aufträge", "Positionen"
COUNTRIES = {"Deutschland": "DE", "Österreich": "AT", "Slowenien": "SI", "Tschechien": "CZ", "AT": "AT", "Ungarn": "HU"}
LABELS = ["Auftrags-Nr.", "Kunde", "Adresse", "PLZ", "Ort", "Staat", "Bereit", "Zustellung", "Ab", "Telefon"]
ITEMS = ["Pos.", "Auftrags-Nr.", "Bezeichnung", "Stück", "Gewicht", "Länge", "Preis", "ADR"]


def make(seed, size):
    """The workbook, with about so many rows."""
    dice, book = Dice(seed), openpyxl.Workbook()
    orders, positions = book.active, book.create_sheet(POSITIONS)
    orders.title = ORDERS
    orders.append(["Versandliste"])
    orders.append([])
    orders.append(["Stand:", datetime(2026, 3, 4)])
    orders.append(LABELS)
    positions.append(ITEMS)
    positions.append(["", "", "", "Stk", "kg", "cm", "", ""])
    order_row, position_row = 4, 2  # counted here: openpyxl's max_row looks at every cell
    for count in range(1, size):
        order_row += 1
        _add_order(dice, orders, order_row, count)
        for place in range(dice.now_and_then(50, 0, dice.randint(1, 4))):
            position_row += 1
            _add_position(dice, positions, position_row, place, count)
        if dice.random() < 0.02:
            order_row += 1
            orders.append([])
        if order_row + position_row > size:
            break
    positions.append(["Gesamt", "", "", 999, 12.5, "", "", ""])
    out = io.BytesIO()
    book.save(out)
    return {FILE: out.getvalue()}


def _add_order(dice, page, row, count):
    key = 260_000_000_000 + count if count % 2 else f"V-{count}"
    ready = datetime(2026, 3, 1 + dice.randrange(31), dice.randrange(24), dice.randrange(60))
    typed = ready.strftime("%d.%m.%Y %H:%M")
    ready = dice.now_and_then(
        30, ("#N/A", 46085, "morgen", datetime(2026, 3, 29, 2, 30), ""), dice.choice((ready, typed, ready))
    )
    deliver = dice.now_and_then(
        40,
        datetime(2026, 4, 7, 15, 30),
        dice.choice((date(2026, 4, dice.randint(1, 30)), f"{dice.randint(1, 9)}.4.2026")),
    )
    start = dice.now_and_then(40, "früh", dice.choice((time(7, 15), "", "9:30", "06:45:10", time(23, 59))))
    zip_ = dice.now_and_then(40, "", dice.choice((1067, 4020, "1010", "80331", 8010, "D-01067")))
    country = dice.now_and_then(30, ("Osterreich-Ungarn", "Ö", ""), tuple(COUNTRIES))
    to = dice.now_and_then(40, (12.5, "#REF!", ""), f"Kunde {count} \N{ZERO WIDTH SPACE}")
    page.append(
        [
            key,
            to,
            dice.choice(("Weg 1\nTop 2", " Gasse 3")),
            zip_,
            "Graz",
            country,
            ready,
            deliver,
            start,
            dice.choice((436641234567, "+43 1 23", "")),
        ]
    )
    if zip_ == 1067:
        page.cell(row, 4).number_format = dice.choice(("00000", "General", "0"))
    if dice.random() < 0.03:
        page.row_dimensions[row].hidden = True


def _add_position(dice, page, row, place, count):
    key = 260_000_000_000 + count if count % 2 else f"V-{count}"
    shown = key if place == 0 else dice.choice(("", key))
    if isinstance(key, int):
        shown = dice.choice((shown, str(shown)))
    weight = dice.now_and_then(
        30, (-1, 0, "siehe 12", "1.5", "#DIV/0!", True, datetime(2026, 1, 2)),
        lambda: dice.choice((round(dice.uniform(0.1, 900), dice.randint(0, 4)), f"{dice.randint(1, 99)},5", "1.200,25 kg", "27 lb", 0.1 + 0.2, 1e-2, 12)),
    )  # fmt: skip
    page.append([
        dice.now_and_then(60, "a", place + 1), shown, dice.choice(("Welle", "Nabe ½", 4711, "Rad\nBohrung")),
        dice.now_and_then(40, (0, 2.5, "zwei", -3), (1, 2, 40, "3", 5.0, "1.000", 4.35 * 100)),
        weight, dice.choice(("", 120, "1,2 m", "30 in", 80.5)),
        dice.now_and_then(40, (1.23456, -4, "12.5"), ("", 12.5, "1.204,99", 0.0001)),
        dice.now_and_then(60, "evtl.", ("ja", "nein", "", True, False, "J")),
    ])  # fmt: skip
    if isinstance(weight, float) and dice.random() < 0.2:
        page.cell(row, 5).number_format = '0.00" lb"'


def expected(files):
    """What has to come of it."""
    found, orders, positions = Expected(), {}, {}
    book = openpyxl.load_workbook(io.BytesIO(files[FILE]))
    for row, cells in sheet(files[FILE], ORDERS)[4:]:
        place = (FILE, ORDERS, row)
        if is_blank(cells):
            continue
        if book[ORDERS].row_dimensions[row].hidden:
            found.ignored.add(place)
            continue
        orders.setdefault(str(cells[0]), []).append((place, cells, book[ORDERS].cell(row, 4).number_format))
    last = None
    for row, cells in sheet(files[FILE], POSITIONS)[1:]:
        place = (FILE, POSITIONS, row)
        if row == 2 or cells[0] == "Gesamt":
            found.ignored.add(place)
            continue
        last = str(cells[1]) if cells[1] != "" else last
        positions.setdefault(last, []).append((place, cells, book[POSITIONS].cell(row, 5).number_format))
    for key, own in orders.items():
        record = Record()
        (place, cells, shown), *_ = own
        first = _order_read(record, place, cells, shown)
        items = [_position_read(record, *each) for each in positions.pop(key, [])]
        record.demand(items, {place})
        record.end(found, "order.create", key, lambda key=key, first=first, items=items: _payload(key, first, items))
    found.ignored |= {place for own in positions.values() for place, *_ in own}
    return found


def _shown(cell, **options):
    """A cell where a text is wanted."""
    if isinstance(cell, str) and cell.startswith("#") and cell.endswith(("!", "A", "?")):
        raise FaultError
    return text(format(cell.normalize(), "f") if isinstance(cell, Decimal) else cell, **options)


def _number(cell, **options):
    if isinstance(cell, bool | datetime | date):
        raise FaultError
    return number(format(cell, "f").replace(".", ",") if isinstance(cell, Decimal) else cell, "de", **options)


def _weight(cell, shown):
    if isinstance(cell, bool | datetime):
        raise FaultError
    words = (
        format(cell, "f").replace(".", ",") + (" lb" if "lb" in shown else "") if isinstance(cell, Decimal) else cell
    )
    return quantity(words, "de", "kg", low="0.001", required=True)


def _moment(cell, styles, *, day=False):
    if isinstance(cell, Decimal):
        raise FaultError
    found = moment(cell, styles, "Europe/Vienna")
    if day and (found.hour, found.minute) != (0, 0):
        raise FaultError
    return found


def _time(cell):
    if isinstance(cell, time) or cell == "":
        return cell or None
    for style in ("%H:%M:%S", "%H:%M"):
        try:
            return datetime.strptime(cell, style).time()
        except ValueError:
            continue
    raise FaultError


def _order_read(record, place, cells, shown):
    _, to, street, zip_, city, country, pickup, deliver, start, phone = cells
    line = {
        "to": record.read(place, _shown, to, required=True),
        "street": record.read(place, _shown, street, required=True),
        "zip": record.read(place, _shown, f"{int(zip_):05}" if shown == "00000" else zip_, required=True),
        "city": record.read(place, _shown, city, required=True),
        "country": record.read(place, one_of, country, COUNTRIES),
        "pickup": record.read(place, _moment, pickup, ("%d.%m.%Y %H:%M", "%d.%m.%Y")),
        "deliver": record.read(place, _moment, deliver, ("%d.%m.%Y",), day=True),
        "start": record.read(place, _time, start),
        "phone": record.read(place, _shown, phone),
    }
    if line["zip"] and line["country"] == "DE":
        line["zip"] = line["zip"].rjust(5, "0")
    return line


def _position_read(record, place, cells, shown):
    pos, _, item, pieces, weight, length, price, danger = cells
    return {
        "pos": record.read(place, _number, pos, whole=True, required=True),
        "item": record.read(place, _shown, item, required=True),
        "pieces": record.read(place, _number, pieces, low=1, whole=True, required=True),
        "weight": record.read(place, _weight, weight, shown),
        "length": record.read(place, quantity, str(length).replace(".", ","), "de", "cm"),
        "price": record.read(place, _number, price, low=0, places=4),
        "danger": record.read(place, flag, danger, {"ja", "j"}, {"nein", "n"}, default="nein"),
    }


def _payload(key, first, items):
    weight, start = sum(item["weight"] * item["pieces"] for item in items), first["start"] or time(8)
    value = sum((item["price"] or 0) * item["pieces"] for item in items) + Decimal(0)
    begin = first["deliver"].replace(hour=start.hour, minute=start.minute, second=start.second)
    return order(
        key, "ALPENWERK", "Europe/Vienna", pickup=(first["pickup"], later(first["pickup"], timedelta(minutes=45))),
        deliver=(begin, first["deliver"] + timedelta(days=1)), depot=("Alpenwerk", "AT", "Linz", "", "4020", "Hafenstr. 1"),
        to=(first["to"], first["country"], first["city"], "", first["zip"], first["street"]),
        totals=(sum(item["pieces"] for item in items), rounded(weight, 3), rounded(weight, 0), 0), goods_value=rounded(value, 2),
        packages=[
            filled({
                "package_type": "Crate", "item_name": item["item"], "description": format(item["pos"], "f").removesuffix(".0"), "quantity": item["pieces"],
                "weight": item["weight"], "weight_uom": "KG", "length": item["length"],
                "length_uom": "CM" if item["length"] is not None else None, "hazardous": item["danger"],
            })
            for item in items
        ],
        order_references=[{"name": "Phone", "value": first["phone"]}] if first["phone"] else None,
    )  # fmt: skip

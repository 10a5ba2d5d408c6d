"""acme_orders_2026-03.xlsx: a German shipper's flat sheet, one row per package line, order columns repeated on every row.

Honest mistakes: an unknown packaging code (A-4506), a quantity in words (A-4512), a delivery typed before its pickup
(A-4517), and an order whose rows name two streets (A-4521). The rest is meant to be good, however unevenly it is typed.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from making.dice import Dice, at
from making.shipments import Shipment
from making.workbook import Workbook, header, landscape, new_workbook, put

TITLE_ROWS = 4
COLUMNS = {
    "Auftrags-Nr": 11, "Ihre Referenz": 15, "Abholung": 15, "Abholung bis": 15, "Lieferung": 15, "Empfänger": 33,
    "Straße": 25, "PLZ": 9, "Ort": 15, "Land": 18, "Verpackung": 11, "Artikel": 31, "Anzahl": 7.5, "Gewicht": 9.5,
    "Länge": 7, "Breite": 7, "Höhe": 7, "Gefahrgut": 9.5, "Warenwert": 11.5,
}  # fmt: skip
QUANTITY, WEIGHT, VALUE = 12, 13, 18


class Consignee(NamedTuple):
    name: str
    street: str
    zip: Any  # a number in Germany, as people type it; the sheet's format shows the leading zero
    city: str
    country: str
    days: int


class Goods(NamedTuple):
    kind: str
    item: str
    kg: float
    size: tuple[int, int, int] | None
    euro: float
    most: int


CONSIGNEES = (
    Consignee("Elektro Hagedorn GmbH", "Bremer Str. 57", 1067, "Dresden", "Deutschland", 1),
    Consignee("Leuchtwerk Pleiße GmbH", "Torgauer Str. 233", 4347, "Leipzig", "Deutschland", 1),
    Consignee("Saale Anlagenbau GmbH", "Delitzscher Str. 70", 6112, "Halle (Saale)", "Deutschland", 1),
    Consignee("Alster Schalttechnik KG", "Wendenstr. 414", 20537, "Hamburg", "DE", 1),
    Consignee("Krone & Söhne Elektrogroßhandel", "Rather Str. 25", 40476, "Düsseldorf", "Deutschland", 1),
    Consignee("Mainbogen Automation GmbH", "Nürnberger Str. 118", 97076, "Würzburg", "Deutschland", 1),
    Consignee("Photovoltaik Jura eG", "Regensburger Str. 60", 92318, "Neumarkt", "Deutschland", 1),
    Consignee("Spreebogen Netzservice GmbH", "Storkower Str. 140", 10407, "Berlin", "DE", 1),
    Consignee("Donaupark Elektrotechnik Ges.m.b.H.", "Laxenburger Str. 151", 1100, "Wien", "Österreich", 2),
    Consignee("Nordkette Lichtbau GmbH", "Valiergasse 14", "6020", "Innsbruck", "Österreich", 2),
    Consignee("Rüegg-Birsig Elektro AG", "Hardstrasse 81", "4052", "Basel", "Schweiz", 2),
    Consignee("Ateliers Électriques de l'Ill SARL", "12 rue du Port du Rhin", "67000", "Strasbourg", "Frankreich", 2),
    Consignee("Van Merwede Installatie B.V.", "Zeehavenweg 8", "3316 AB", "Dordrecht", "Niederlande", 1),
    Consignee("Elektrohurt Brynica Sp. z o.o.", "ul. Gliwicka 204", "40-860", "Katowice", "Polen", 2),
    Consignee("Rozvaděče Svratka s.r.o.", "Hviezdoslavova 55", "627 00", "Brno", "Tschechien", 2),
    Consignee("Irwell Switchgear Ltd", "Unit 4, Wharf End", "M17 1HH", "Manchester", "Vereinigtes Königreich", 4),
)
GOODS = (
    Goods("EUP", "Schaltschrank AE 1200", 186.5, (120, 80, 145), 1490, 2),
    Goods("EUP", "Frequenzumrichter FU-22", 214.0, (120, 80, 110), 3250, 3),
    Goods("EWP", "Transformator 25 kVA", 312.5, (100, 80, 95), 4180.5, 2),
    Goods("EWP", "Notstromaggregat NA 8", 268.0, (110, 75, 98), 3975, 1),
    Goods("TR", "Kabel NYY-J 5x16, 500 m", 412.5, (100, 100, 71), 3120, 2),
    Goods("RO", "Erdungsband V4A, 50 m", 42.0, (60, 60, 12), 386.4, 4),
    Goods("KRT", "Klemmenleisten 35 mm", 12.5, (40, 30, 25), 214.9, 12),
    Goods("KRT", "LED-Panel 60x60, 4 Stück", 9.8, (64, 64, 18), 179.6, 20),
    Goods("KI", "Drehstrommotor 7,5 kW", 74.0, (70, 45, 48), 689, 4),
    Goods("BOX", "Sicherungslasttrenner", 23.4, (50, 40, 32), 742.25, 6),
    Goods("KI", "Akkupack Li-Ion 48 V", 38.6, (55, 42, 30), 1860, 4),
    Goods("SA", "Quarzsand für Sicherungen", 25.0, None, 18.5, 10),
)
PICKUP_DAYS = ("03-02", "03-02", "03-02", "03-03", "03-03", "03-03", "03-04", "03-04", "03-05", "03-09", "03-10")


class Order(NamedTuple):
    number: str
    reference: str | None
    pickup: datetime
    pickup_to: datetime | None
    deliver: datetime
    to: Consignee
    lines: list[list[Any]]


def make(folder: Path) -> list[Shipment]:
    """Writes the workbook; gives the orders in it that are free of mistakes."""
    dice = Dice(4501)
    orders = [_order(dice, index) for index in range(25)]
    rows = [_row(dice, order, line) for order in orders for line in order.lines]
    wrong = _spoil(rows)
    book = new_workbook(
        folder / "acme_orders_2026-03.xlsx", title="Versandaufträge März 2026", author="Acme Elektrotechnik GmbH"
    )
    _write(book, rows)
    book.close()
    return [
        Shipment(
            order.number,
            "Köln",
            order.to.city,
            order.pickup,
            order.deliver,
            "Europe/Berlin",
            sum(line[2] for line in order.lines),
        )
        for order in orders
        if order.number not in wrong
    ]


def _order(dice: Dice, index: int) -> Order:
    # two orders after the clocks change on 29 March: their offset from UTC is 2, not 1
    day = "03-30" if index >= 23 else PICKUP_DAYS[min(index // 2, len(PICKUP_DAYS) - 1)]
    to = CONSIGNEES[index % len(CONSIGNEES)]
    pickup = at(day, dice.pick((7, 8, 10, 13)), dice.pick((0, 0, 30)))
    arrive = pickup.replace(hour=0, minute=0) + timedelta(days=to.days, hours=dice.pick((8, 9, 10, 11, 14)))
    if arrive.weekday() >= 5:
        arrive += timedelta(days=7 - arrive.weekday())
    reference = dice.pick((None, f"BE-{dice.whole(26_000, 26_999)}", f"450007{dice.whole(1000, 9999)}"))
    upto = pickup + timedelta(hours=3) if dice.chance(0.6) else None
    lines = [_line(dice, goods) for goods in dice.some(GOODS, dice.pick((1, 2, 2, 3, 3, 4)))]
    return Order(f"A-{4501 + index}", reference, pickup, upto, arrive, to, lines)


def _line(dice: Dice, goods: Goods) -> list[Any]:
    quantity = dice.whole(1, goods.most)
    size = goods.size or (None, None, None)
    danger = "ja" if "Li-Ion" in goods.item else dice.pick(("nein", "nein", None))
    return [goods.kind, goods.item, quantity, dice.near(goods.kg), *size, danger, round(goods.euro * quantity, 2)]


def _row(dice: Dice, order: Order, line: list[Any]) -> list[Any]:
    """One row as typed: mostly real dates and numbers, now and then a text in their place."""
    kind, item, quantity, kg, length, width, height, danger, euro = line
    to = order.to
    weight = dice.pick((kg, kg, kg, f"{kg:.1f}".replace(".", ","), f"{kg:.1f} kg".replace(".", ",")))
    value = f"{euro:_.2f}".replace(".", ",").replace("_", ".") if dice.chance(0.2) else euro
    typed_quantity = None if quantity == 1 and dice.chance(0.5) else quantity
    return [
        order.number, order.reference, _typed(order.pickup, order), _typed(order.pickup_to, order),
        _typed(order.deliver, order), to.name, to.street, to.zip, to.city, to.country,
        kind, item, typed_quantity, weight, length, width, height, danger, value,
    ]  # fmt: skip


def _typed(moment: datetime | None, order: Order) -> datetime | str | None:
    return moment.strftime("%d.%m.%Y %H:%M") if moment and order.number in {"A-4505", "A-4514", "A-4520"} else moment


def _spoil(rows: list[list[Any]]) -> set[str]:
    by_order: dict[str, list[list[Any]]] = {}
    for row in rows:
        by_order.setdefault(row[0], []).append(row)
    by_order["A-4506"][-1][10] = "EUX"
    by_order["A-4512"][0][QUANTITY] = "zwölf"
    for row in by_order["A-4517"]:
        row[4] = row[2].replace(hour=9, minute=0) - timedelta(days=1)
    by_order["A-4521"][-1][6] = by_order["A-4521"][-1][6].replace("25", "52")
    # not mistakes, only uneven: weights in pounds, references as numbers
    by_order["A-4519"][0][WEIGHT] = "27 lb"
    by_order["A-4503"][-1][WEIGHT] = "88,5 lb"
    by_order["A-4515"][0][WEIGHT] = 97  # 9,7 without its comma: sent, with a warning
    for row in by_order["A-4511"]:
        row[1] = int(row[1])
    return {"A-4506", "A-4512", "A-4517", "A-4521"}


def _write(book: Workbook, rows: list[list[Any]]) -> None:
    sheet = book.add_worksheet("Aufträge")
    sheet.write_string(0, 0, "Acme Elektrotechnik GmbH", book.add_format({"bold": True, "font_size": 15}))
    sheet.write_string(1, 0, "Versandaufträge März 2026, Lager Köln", book.add_format({"bold": True, "font_size": 11}))
    sheet.write_string(2, 0, "Stand 27.02.2026, Maße in cm, Gewicht je Packstück in kg, Warenwert in EUR")
    top = TITLE_ROWS + 1
    label = {"bold": True, "bg_color": "#1F4E78", "font_color": "#FFFFFF", "border": 1, "border_color": "#B7C5D3"}
    header(sheet, top, COLUMNS, book.add_format({**label, "valign": "vcenter"}))
    sheet.set_row(top - 1, 20)
    landscape(sheet, top)
    formats = {
        1: "0",
        2: "dd.mm.yyyy hh:mm",
        3: "dd.mm.yyyy hh:mm",
        4: "dd.mm.yyyy hh:mm",
        7: "00000",
        13: "#,##0.0",
        18: "#,##0.00",
    }
    thin = {"border": 1, "border_color": "#D5DCE4"}
    sides = {1: "left", **dict.fromkeys((2, 3, 4, 7, 10, 17), "center"), WEIGHT: "right", VALUE: "right"}
    styles = [
        book.add_format({**thin, "num_format": formats.get(n, "General"), "align": sides.get(n, "general")})
        for n in range(len(COLUMNS))
    ]
    # typed over without the 00000 format: foreign postcodes, and one German one that has lost its zero that way
    plain_zip = book.add_format({**thin, "align": "center"})
    for offset, row in enumerate(rows):
        for column, value in enumerate(row):
            typed_over = column == 7 and (row[9] not in {"Deutschland", "DE"} or row[0] == "A-4519")
            put(sheet, top + 1 + offset, column, value, plain_zip if typed_over else styles[column])
    _total(book, sheet, top + len(rows), rows)
    sheet.autofilter(top - 1, 0, top - 1 + len(rows), len(COLUMNS) - 1)


def _total(book: Workbook, sheet: Any, last: int, rows: list[list[Any]]) -> None:
    """The line under the rows, two below the last: a label and sums over what Excel takes for numbers."""
    bold = {"bold": True, "top": 6}
    row = last + 2
    for column in range(len(COLUMNS)):
        put(sheet, row, column, None, book.add_format(bold))
    put(sheet, row, 11, "Summe", book.add_format(bold))
    for column, letter, shape in ((QUANTITY, "M", "0"), (VALUE, "S", "#,##0.00")):
        total = sum(line[column] for line in rows if isinstance(line[column], int | float))
        formula = f"=SUM({letter}{TITLE_ROWS + 2}:{letter}{last})"
        sheet.write_formula(row - 1, column, formula, book.add_format({**bold, "num_format": shape}), round(total, 2))

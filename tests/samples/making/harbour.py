"""harbour_two_sheets.xlsx: an Indian textile mill's despatch workbook: a sheet of orders, a sheet of packages, and the price
list from which Excel looks up the value of each package.

Honest mistakes: one package names its order with a letter O (HLT-26-O152), which leaves order HLT-26-0152 one package short;
HLT-26-0147 ships an article the price list lacks, so its value is #N/A; the PIN code of HLT-26-0158 has five digits; the
country of HLT-26-0163 reads Indai.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from making.dice import Dice, at
from making.shipments import Shipment
from making.workbook import Workbook, header, landscape, new_workbook, put

HEADER_ROW = 4
ORDER_COLUMNS = {
    "Order no.": 13, "PO number": 15, "E-way bill": 15, "Mode": 7, "Ready from": 17, "Ready until": 17, "Deliver by": 17,
    "Consignee": 31, "Address 1": 30, "Address 2": 22, "City": 15, "State": 17, "PIN code": 9, "Country": 10,
    "Contact": 17, "Phone": 17, "Freight paid by": 25, "Vehicle": 14, "No. of pkgs": 10,
}  # fmt: skip
PACKAGE_COLUMNS = {
    "Order no.": 13, "Pkg": 6, "Type": 8, "Article": 10, "Description": 34, "Gross wt (kg)": 12, "L (cm)": 8, "W (cm)": 8,
    "H (cm)": 8, "Stackable": 10, "Pcs inside": 10, "Inner pack": 13, "Inner wt (kg)": 12, "Value (INR)": 14,
}  # fmt: skip
PRICE_COLUMNS = {"Article": 11, "Description": 34, "Rate per pc (INR)": 17}
WRONG = {"HLT-26-0147", "HLT-26-0152", "HLT-26-0158", "HLT-26-0163"}
MISSING_ARTICLE = "TX-6310"


class Consignee(NamedTuple):
    name: str
    address1: str
    address2: str | None
    city: str
    state: str
    pin: int
    mode: str
    days: int


class Goods(NamedTuple):
    article: str
    name: str
    kind: str
    kg: float
    size: tuple[int, int, int]
    pieces: int
    inner: str | None
    inner_kg: float
    rupees: float


CONSIGNEES = (
    Consignee(
        "Sahyadri Home Furnishing LLP", "Plot 14, Bhosari MIDC", "Block J", "Pune", "Maharashtra", 411026, "ROAD", 1
    ),
    Consignee("Charminar Linen House", "5-9-22, Basheer Bagh Road", None, "Hyderabad", "Telangana", 500063, "ROAD", 2),
    Consignee("Kaveri Textiles Depot", "118 Avinashi Road", "Peelamedu", "Coimbatore", "Tamil Nadu", 641004, "ROAD", 3),
    Consignee("Hooghly Drapers Pvt Ltd", "27 Strand Road", "3rd Floor", "Kolkata", "West Bengal", 700001, "RAIL", 4),
    Consignee(
        "Aravalli Retail Supply", "E-41, Sitapura Industrial Area", None, "Jaipur", "Rajasthan", 302022, "ROAD", 3
    ),
    Consignee("Periyar Hotel Stores", "XL/1023, Banerji Road", "Kaloor", "Kochi", "Kerala", 682017, "ROAD", 3),
    Consignee("Gomti Bastralaya", "44 Hazratganj", None, "Lucknow", "Uttar Pradesh", 226001, "RAIL", 3),
    Consignee("Deccan Bedding Co.", "No. 7, Peenya 2nd Stage", "Peenya", "Bengaluru", "Karnataka", 560058, "ROAD", 2),
    Consignee("Sabarmati Towels and Mats", "Shed 9, Naroda GIDC", None, "Ahmedabad", "Gujarat", 382330, "ROAD", 1),
    Consignee("Brahmaputra Trading House", "GS Road", "Christian Basti", "Guwahati", "Assam", 781005, "AIR", 2),
    Consignee("Yamuna Hospitality Supply", "B-12, Okhla Phase I", None, "New Delhi", "Delhi", 110020, "RAIL", 3),
)
GOODS = (
    Goods("TX-1101", "Bath towel 70x140, white, 500 gsm", "BALE", 62.0, (110, 60, 55), 120, "Poly bag", 0.49, 318.0),
    Goods("TX-1104", "Hand towel 40x60, ivory", "CTN", 21.5, (60, 40, 45), 144, "Poly bag", 0.14, 96.5),
    Goods("TX-2203", "Bed sheet double, percale 200 TC", "CTN", 26.8, (62, 42, 40), 40, "Sleeve", 0.62, 742.0),
    Goods("TX-2210", "Duvet cover king, sateen", "CTN", 24.2, (62, 42, 48), 24, "Sleeve", 0.96, 1_485.0),
    Goods("TX-3301", "Curtain fabric, jacquard, 50 m", "ROLL", 38.4, (150, 28, 28), 1, None, 0, 12_250.0),
    Goods("TX-3305", "Upholstery fabric, chenille, 40 m", "ROLL", 44.0, (145, 32, 32), 1, None, 0, 16_900.0),
    Goods("TX-4402", "Pillow, hollow fibre 45x70", "BALE", 48.5, (120, 80, 70), 50, None, 0.92, 265.0),
    Goods("TX-5101", "Bath mat, tufted, 50x80", "PLT", 286.0, (120, 100, 135), 360, "Poly bag", 0.74, 389.0),
)
PAYERS = (None, None, "Consignee", "Godavari Freight Finance Ltd")
CONTACTS = ("Stores Manager", "Inward Desk", "Goods Receipt", "Warehouse Office")


class Order(NamedTuple):
    number: str
    to: Consignee
    ready: datetime
    deliver: datetime
    packages: list[Goods]


def make(folder: Path) -> list[Shipment]:
    """Writes the workbook; gives the orders in it that are free of mistakes."""
    dice = Dice(141)
    orders = [_order(dice, 141 + index) for index in range(30)]
    order_rows = [_order_row(dice, order) for order in orders]
    package_rows = [row for order in orders for row in _package_rows(dice, order)]
    _spoil(order_rows, package_rows)
    book = new_workbook(
        folder / "harbour_two_sheets.xlsx",
        title="Despatch sheet",
        author="Harbour Line Textiles Pvt Ltd",
        font="Arial",
        size=9,
    )
    _write_orders(book, order_rows)
    _write_packages(book, package_rows)
    _write_prices(book)
    book.close()
    return [
        Shipment(
            order.number, "Navi Mumbai", order.to.city, order.ready, order.deliver, "Asia/Kolkata", len(order.packages)
        )
        for order in orders
        if order.number not in WRONG
    ]


def _order(dice: Dice, number: int) -> Order:
    to = CONSIGNEES[number % len(CONSIGNEES)]
    ready = at(
        dice.pick(("03-05", "03-06", "03-09", "03-10", "03-11", "03-12")),
        dice.pick((9, 10, 11, 14)),
        dice.pick((0, 30)),
    )
    deliver = ready.replace(hour=18, minute=0) + timedelta(days=to.days + (1 if ready.weekday() > 3 else 0))
    if deliver.weekday() == 6:
        deliver += timedelta(days=1)
    return Order(f"HLT-26-{number:04}", to, ready, deliver, dice.some(GOODS, dice.pick((1, 2, 2, 3, 3, 4, 4))))


def _order_row(dice: Dice, order: Order) -> list[Any]:
    to = order.to
    weight = sum(goods.kg for goods in order.packages)
    until = None if to.mode == "AIR" else order.ready + timedelta(hours=4)
    vehicle = {"ROAD": "Tata 407" if weight < 300 else "LPT 1109", "RAIL": None, "AIR": None}[to.mode]
    # an e-way bill number is a number to Excel: twelve digits, shown in full by its format
    bill = 271_000_000_000 + dice.whole(100_000_000, 899_999_999) if dice.chance(0.7) else None
    ready: Any = f"{order.ready:%d/%m/%Y %H:%M}" if dice.chance(0.15) else order.ready
    return [
        order.number, f"PO/{dice.whole(2000, 9999)}/25-26", bill, to.mode, ready, until, order.deliver,
        to.name, to.address1, to.address2, to.city, to.state, to.pin, "India",
        CONTACTS[to.pin % len(CONTACTS)], f"+91 {20 + to.pin % 70} 5550 {1000 + to.pin % 8999}", dice.pick(PAYERS), vehicle,
        len(order.packages),
    ]  # fmt: skip


def _package_rows(dice: Dice, order: Order) -> list[list[Any]]:
    rows = []
    for line, goods in enumerate(order.packages, start=1):
        kg = dice.near(goods.kg, 0.03)
        stackable = "Y" if goods.kind in {"CTN", "BALE"} else dice.pick(("N", None))
        inner = (goods.pieces, goods.inner, goods.inner_kg or None) if goods.pieces > 1 else (None, None, None)
        rows.append(
            [order.number, line, goods.kind, goods.article, goods.name, kg, *goods.size, stackable, *inner, None]
        )
    return rows


def _spoil(orders: list[list[Any]], packages: list[list[Any]]) -> None:
    order = {row[0]: row for row in orders}
    last = {row[0]: row for row in packages}
    last["HLT-26-0147"][3:5] = [MISSING_ARTICLE, "Kitchen towel, waffle, set of 6"]
    order["HLT-26-0158"][12] = "30202"
    order["HLT-26-0163"][13] = "Indai"
    last["HLT-26-0152"][0] = "HLT-26-O152"


def _title(book: Workbook, sheet: Any, text: str) -> None:
    sheet.write_string(
        0, 0, "HARBOUR LINE TEXTILES PVT LTD", book.add_format({"bold": True, "font_size": 13, "font_color": "#7F3F00"})
    )
    sheet.write_string(1, 0, text, book.add_format({"italic": True}))


def _label_style(book: Workbook) -> Any:
    return book.add_format({"bold": True, "bg_color": "#FCE4D6", "bottom": 2, "text_wrap": True, "valign": "vcenter"})


def _cell(shape: str | None, *, middle: bool) -> dict[str, Any]:
    line = {"bottom": 1, "bottom_color": "#D9C3B4"}
    return {"num_format": shape or "General", "align": "center" if middle else "general", **line}


def _write_orders(book: Workbook, rows: list[list[Any]]) -> None:
    sheet = book.add_worksheet("Orders")
    _title(book, sheet, "Despatch from Turbhe warehouse, Navi Mumbai: week 10/11, March 2026")
    header(sheet, HEADER_ROW, ORDER_COLUMNS, _label_style(book))
    sheet.set_row(HEADER_ROW - 1, 28)
    landscape(sheet, HEADER_ROW)
    moment = "dd-mmm-yyyy hh:mm"
    formats = {2: "0", 4: moment, 5: moment, 6: moment, 12: "000000"}
    styles = [
        book.add_format({**_cell(formats.get(n), middle=n in {2, 3, 4, 5, 6, 12, 18})})
        for n in range(len(ORDER_COLUMNS))
    ]
    for offset, row in enumerate(rows, start=1):
        for column, value in enumerate(row):
            put(sheet, HEADER_ROW + offset, column, value, styles[column])


def _write_packages(book: Workbook, rows: list[list[Any]]) -> None:
    sheet = book.add_worksheet("Packages")
    _title(book, sheet, "One line per package; value = pieces x price list")
    header(sheet, HEADER_ROW, PACKAGE_COLUMNS, _label_style(book))
    landscape(sheet, HEADER_ROW)
    formats = {5: "0.0", 12: "0.00", 13: "#,##0.00"}
    styles = [book.add_format({**_cell(formats.get(n), middle=n in {1, 2, 3, 9})}) for n in range(len(PACKAGE_COLUMNS))]
    rates = {goods.article: goods.rupees for goods in GOODS}
    for line, row in enumerate(rows, start=HEADER_ROW + 1):
        for column, value in enumerate(row[:-1]):
            put(sheet, line, column, value, styles[column])
        formula = f"=VLOOKUP(D{line},'Price list'!$A$2:$C${len(GOODS) + 1},3,FALSE)*MAX(1,K{line})"
        value = "#N/A" if row[3] == MISSING_ARTICLE else rates[row[3]] * (row[10] or 1)
        sheet.write_formula(line - 1, 13, formula, styles[13], value)


def _write_prices(book: Workbook) -> None:
    sheet = book.add_worksheet("Price list")
    header(sheet, 1, PRICE_COLUMNS, _label_style(book))
    money = book.add_format({"num_format": "#,##0.00"})
    for line, goods in enumerate(GOODS, start=2):
        for column, value in enumerate((goods.article, goods.name, goods.rupees)):
            put(sheet, line, column, value, money)

"""tender_spring_lanes.xlsx: a US cabinet maker's spring lanes, offered to carriers. One row per load unit of a lane, the
lane's columns repeated; pounds, inches and cubic feet; ZIP codes as formatted numbers.

Honest mistakes: a weight that says about 1,200 lb (LSC-SP26-007), a carrier code that is not in the list
(LSC-SP26-012), and a status that reads Opne (LSC-SP26-016).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from making.dice import Dice, at
from making.workbook import Workbook, header, landscape, new_workbook, put

HEADER_ROW = 5
COLUMNS = {
    "Tender #": 14, "Lane": 17, "Status": 8, "Type": 10, "Pickup from": 18, "Pickup to": 18, "Origin site": 11,
    "Deliver from": 18, "Deliver to": 18, "Ship to": 30, "Address": 27, "City": 16, "ST": 5, "ZIP": 8, "Mode": 7,
    "Equipment": 14, "Dedicated": 10, "Unit": 9, "Commodity": 30, "Units": 7, "Wt/unit (lb)": 11, "Cube/unit (cu ft)": 10,
    "L (in)": 7, "W (in)": 7, "H (in)": 7, "Stack": 7, "Hazmat": 8, "RFQ": 13, "Carrier 1": 9, "Carrier 2": 9, "Carrier 3": 9,
}  # fmt: skip
WRONG = {"LSC-SP26-007", "LSC-SP26-012", "LSC-SP26-016"}


class ShipTo(NamedTuple):
    name: str
    address: str
    city: str
    state: str
    zip: int  # a number in the sheet; its format shows the leading zero
    days: int


class Goods(NamedTuple):
    unit: str
    name: str
    lb: float
    cuft: float
    size: tuple[int, int, int]
    most: int
    hazmat: str


SHIP_TO = (
    ShipTo("Merrimack Kitchen & Bath Supply", "310 Canal St", "Lawrence", "MA", 1840, 3),
    ShipTo("Passaic Millwork Distributors", "88 Frelinghuysen Ave", "Newark", "NJ", 7114, 2),
    ShipTo("Nutmeg Builders Exchange", "145 Locust St", "Hartford", "CT", 6114, 3),
    ShipTo("Piedmont Home Center", "4300 Westinghouse Blvd", "Charlotte", "NC", 28273, 2),
    ShipTo("Cumberland Cabinet Outlet", "1221 Antioch Pike", "Nashville", "TN", 37211, 2),
    ShipTo("North Loop Interiors", "700 Kasota Ave SE", "Minneapolis", "MN", 55414, 2),
    ShipTo("Kaw Valley Building Products", "3100 Kansas Ave", "Kansas City", "KS", 66106, 2),
    ShipTo("Front Range Remodel Depot", "5050 E 56th Ave", "Denver", "CO", 80022, 3),
    ShipTo("Brazos Trim & Door", "9400 Kirby Dr", "Houston", "TX", 77054, 3),
    ShipTo("Cascadia Kitchen Works", "6601 S Bell St", "Tacoma", "WA", 98408, 5),
)
GOODS = (
    Goods("Skid", "Base cabinets, flat pack", 684.0, 62.5, (48, 40, 54), 14, "No"),
    Goods("Skid", "Wall cabinets, assembled", 412.5, 78.0, (48, 42, 72), 10, "No"),
    Goods("Crate", "Quartz countertop slabs", 1150.0, 38.25, (126, 28, 62), 4, "No"),
    Goods("Carton", "Drawer fronts, maple", 46.2, 2.75, (32, 24, 6), 60, "No"),
    Goods("Carton", "Hinges and slides", 38.75, 1.2, (18, 12, 10), 80, "No"),
    Goods("Drum", "Conversion varnish, 55 gal", 468.0, 12.4, (24, 24, 36), 6, "Yes"),
)
SITES = ("GRR", "GRR", "MKG")
CARRIERS = ("CARRIER7", "NSTAR", "BLUEW", "HIAWA")


def make(folder: Path) -> list[str]:
    """Writes the workbook; gives the tenders in it that are free of mistakes, each offered to CARRIER7 or not."""
    dice = Dice(26)
    tenders = {f"LSC-SP26-{number:03}": _tender_rows(dice, number) for number in range(1, 21)}
    rows = [row for lines in tenders.values() for row in lines]
    tenders["LSC-SP26-007"][0][20] = "about 1,200 lb"
    for row in tenders["LSC-SP26-012"]:
        row[29] = "NSTR"
    for row in tenders["LSC-SP26-016"]:
        row[2] = "Opne"
    book = new_workbook(
        folder / "tender_spring_lanes.xlsx", title="Spring lanes 2026", author="Lakeshore Cabinetry Co.", size=9
    )
    _write(book, rows)
    book.close()
    return [number for number, lines in tenders.items() if number not in WRONG and "CARRIER7" in lines[0][28:]]


def _tender_rows(dice: Dice, number: int) -> list[list[Any]]:
    to = SHIP_TO[number % len(SHIP_TO)]
    pickup = at(dice.pick(("03-16", "03-17", "03-18", "03-23", "03-24", "03-25")), dice.pick((7, 8, 9)))
    deliver = pickup.replace(hour=8) + timedelta(days=to.days)
    if deliver.weekday() >= 5:
        deliver += timedelta(days=7 - deliver.weekday())
    rail = to.days >= 5
    carriers = (
        ["CARRIER7", *dice.some(CARRIERS[1:], dice.pick((0, 1, 2)))] if dice.chance(0.9) else dice.some(CARRIERS[1:], 2)
    )
    site = dice.pick(SITES)
    goods = dice.some(GOODS, dice.pick((1, 2, 2, 3, 3)))
    equipment = "53' container" if rail else dice.pick(("53' dry van", "53' dry van", "48' flatbed"))
    head: tuple[Any, ...] = (
        f"LSC-SP26-{number:03}", f"{site}-{to.state} {to.zip:05}"[:12], dice.pick(("Open", "Open", "Open", "Draft")),
        dice.pick(("Spot", "Contract")), pickup, pickup + timedelta(hours=4), site, deliver, deliver + timedelta(hours=6),
        to.name, to.address, to.city, to.state, to.zip, "RAIL" if rail else "ROAD", equipment, dice.pick(("Y", "N", "N")),
    )  # fmt: skip
    tail = (f"RFQ-26-{310 + number // 4}", *carriers, None, None, None)[:4]
    return [[*head, *_unit(dice, item), *tail] for item in goods]


def _unit(dice: Dice, item: Goods) -> list[Any]:
    weight: Any = dice.near(item.lb, 0.03, 2)
    if dice.chance(0.15):
        weight = f"{weight:,.2f} lb"
    stack = dice.pick(("Y", "N")) if item.unit in {"Carton", "Skid"} else "N"
    return [item.unit, item.name, dice.whole(1, item.most), weight, item.cuft, *item.size, stack, item.hazmat]


def _write(book: Workbook, rows: list[list[Any]]) -> None:
    sheet = book.add_worksheet("Spring lanes")
    sheet.write_string(
        0, 0, "Lakeshore Cabinetry Co.", book.add_format({"bold": True, "font_size": 14, "font_color": "#2F4F2F"})
    )
    sheet.write_string(1, 0, "Spring 2026 lanes out of Grand Rapids (GRR) and Muskegon (MKG), Michigan")
    sheet.write_string(2, 0, "Quotes in USD, all-in linehaul, by March 9, 2026", book.add_format({"italic": True}))
    label = {
        "bold": True,
        "bg_color": "#DDE8D9",
        "bottom": 2,
        "text_wrap": True,
        "valign": "vcenter",
        "align": "center",
    }
    header(sheet, HEADER_ROW, COLUMNS, book.add_format(label))
    sheet.set_row(HEADER_ROW - 1, 30)
    landscape(sheet, HEADER_ROW, paper=1)
    moment = "m/d/yyyy h:mm AM/PM"
    formats = {4: moment, 5: moment, 7: moment, 8: moment, 13: "00000", 20: "#,##0.00", 21: "0.00"}
    centred = {2, 4, 5, 6, 7, 8, 12, 13, 14, 16, 25, 26}
    looks = [
        {"num_format": formats.get(n, "General"), "align": "center" if n in centred else "general"}
        for n in range(len(COLUMNS))
    ]
    styles = [book.add_format(look) for look in looks]
    first = [book.add_format({**look, "top": 1}) for look in looks]
    for offset, row in enumerate(rows, start=1):
        new = offset == 1 or row[0] != rows[offset - 2][0]
        for column, value in enumerate(row):
            put(sheet, HEADER_ROW + offset, column, value, (first if new else styles)[column])

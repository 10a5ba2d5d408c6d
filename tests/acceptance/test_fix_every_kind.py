"""Every red cell of a fix workbook mended, and dropped: what was not sent is accepted after two rounds at most, whatever was wrong."""

import shutil

import pytest
from fix_workbooks import House, mended_until_nothing_is_red, red_cells
from openpyxl import Workbook

from loadsheet.ledger import State
from loadsheet.problems import CATALOGUE

MAPPING = """
mapping: kinds
version: 1
target: tender.create
source:
  files: ["kinds.xlsx"]
  locale: en_GB
  dates: ["%Y-%m-%d %H:%M"]
  timezone: Europe/Berlin
  tables: {rows: {}}
lookups:
  floors: {file: floors.csv, key: word, range: {from: from, to: to}, value: name}
columns:
  id:      {label: Row, type: text}
  order:   {label: Order, type: text, required: true, key: true}
  town:    {label: Town, type: text, required: true, max_length: 20}
  zip:     {label: Zip, type: text, pattern: "[0-9]{5}"}
  country: {label: Country, type: country}
  mode:    {label: Mode, type: text, one_of: {Road: ROAD, Sea: SEA}}
  money:   {label: Currency, type: currency}
  from:    {label: From, type: datetime, required: true}
  to:      {label: To, type: datetime, required: true}
  value:   {label: Value, type: decimal, min: 0}
  total:   {label: Total, type: decimal, required: true}
  count:   {label: Count, type: integer}
  kind:    {label: Kind, type: text, required: true}
  weight:  {label: Weight, type: quantity, unit: kg, min: 0.001, required: true}
  fragile: {label: Fragile, type: yesno}
  zone:    {label: Zone, type: timezone}
  pack:    {label: Pack, type: text}
  level:   {label: Level, type: integer}
  floor:   {label: Floor, type: text, lookup: floors, lookup_with: [level]}
group: {by: [order]}
checks:
  - {id: window, rule: 'to > from', say: "To must be after From", columns: [to]}
  - {id: sum, rule: '$sum([r.weight for r in rows]) == total', say: "Total must be the sum of Weight", columns: [total]}
  - {id: each, rule: 'total / (count ?? 1) > 0', say: "Total must be above 0", columns: [count]}
payload:
  tender_id: {col: order}
  tender_status: {value: OPEN}
  sender_id: {value: "S"}
  receiver_id: {value: "R"}
  delivery_city: {col: town}
  delivery_address2: {col: floor}
  delivery_pincode: {col: zip}
  delivery_country: {col: country}
  transport_mode: {col: mode}
  timezone: {col: zone}
  currency: {col: money}
  pickup_startdatetime: {col: from}
  delivery_startdatetime: {col: to}
  packages:
    each: rows
    item:
      package_type: {col: pack}
      item_name: {col: kind}
      weight: {col: weight}
      weight_uom: {value: KG}
      volume: {col: value}
      volume_uom: {value: CBM}
      quantity: {col: count}
      stackable: {col: fragile}
"""
FINE = {
    "Town": "Essen",
    "Zip": "45127",
    "Country": "Germany",
    "Mode": "Road",
    "Currency": "EUR",
    "From": "2026-03-24 08:00",
    "To": "2026-03-25 08:00",
    "Value": "10",
    "Total": "4",
    "Count": "2",
    "Kind": "Box",
    "Weight": "2",
    "Fragile": "yes",
    "Zone": "Europe/Berlin",
    "Pack": "Box",
    "Level": "1",
    "Floor": "ground",
}
FLOORS = "word,from,to,name\nground,0,5,Ground floor\n"
HEADS = ["Row", "Order", *FINE]
WRONG = {  # what is wrong in an order of two rows: by row and heading
    "C301 required": {(0, "Kind"): ""},
    "C302 not a number": {(0, "Value"): "much", (1, "Value"): "much"},
    "C303 a fraction": {(0, "Count"): "2.5", (1, "Count"): "2.5"},
    "C304 a date": {(1, "From"): "tomorrow"},
    "C305 out of range": {(0, "Value"): "-1", (1, "Value"): "-1"},
    "C306 not in the list": {(0, "Mode"): "Rail", (1, "Mode"): "Rail"},
    "C307 a unit": {(1, "Weight"): "2 stone"},
    "C308 a country": {(1, "Country"): "Nordland"},
    "C309 a currency": {(0, "Currency"): "Taler"},
    "C310 yes or no": {(1, "Fragile"): "perhaps"},
    "C311 a time zone": {(1, "Zone"): "Berlin time"},
    "C312 too long": {(0, "Town"): "E" * 30, (1, "Town"): "E" * 30},
    "C313 a pattern": {(0, "Zip"): "D-45127", (1, "Zip"): "D-45127"},
    "C314 no such time": {(0, "From"): "2026-03-29 02:30", (1, "From"): "2026-03-29 02:30"},
    "C315 a time twice": {(0, "From"): "2026-10-25 02:30", (1, "From"): "2026-10-25 02:30"},
    "C316 two readings": {(1, "Weight"): "1,5"},
    "C320 in no range": {(0, "Level"): "7", (1, "Level"): "7"},
    "G401 the first row": {(0, "Town"): "Esen"},
    "G401 another row": {(1, "Town"): "Esen", (1, "Zip"): "45128"},
    "G406 end before start": {(0, "From"): "2026-03-26 08:00", (1, "From"): "2026-03-26 08:00"},
    "G406 the other end": {(0, "To"): "2026-03-23 08:00", (1, "To"): "2026-03-23 08:00"},
    "G406 a sum, the total": {(0, "Total"): "5", (1, "Total"): "5"},
    "G406 a sum, a line": {(1, "Weight"): "3"},
    "G407 a division by nothing": {(0, "Count"): "0"},
    "K501 what the interface demands": {(1, "Pack"): ""},
    "R205 beyond the headings": {(0, "beyond"): "a note"},
    "R207 an Excel error": {(0, "Value"): "#N/A"},
    "R208 a formula without a value": {(1, "Value"): "=5+5"},
    "several at once": {(0, "Mode"): "Rail", (1, "Weight"): "x", (0, "To"): "never", (1, "Town"): "Esen"},
}
REFUSED = "X701 known to the exchange"


@pytest.mark.journey
def test_every_red_cell_of_every_kind_of_problem_mended_ends_in_two_rounds(tmp_path):
    house = house_of(tmp_path, kinds=MAPPING)
    known = house_of(tmp_path / "somebody", kinds=MAPPING)
    kinds_book(known.inbox / "kinds.xlsx", {REFUSED: {}})
    assert known.night().counts == {"accepted": 1}
    house.state.mkdir()
    shutil.copy(known.state / "exchange.db", house.state)
    kinds_book(house.inbox / "kinds.xlsx", {REFUSED: {}, **WRONG})
    first = house.night()
    assert first.counts == {"refused": 1, "invalid": len(WRONG)}
    coded = {(key_of(name), name[:4]) for name in (REFUSED, *WRONG) if name[4] == " "}
    assert_met(house, first, coded)

    def mend(book, _):
        reds = [red for red in red_cells(book) if red.column != "What to fix"]
        for red in reds:
            red.mend("K-new" if red.column == "Order" else FINE[red.column])

    _, *nights = mended_until_nothing_is_red(house, first, mend)
    accepted = sorted(key for night in nights for key in night.of(State.ACCEPTED))
    assert accepted == sorted([*first.of(State.INVALID), "K-new"])
    assert nights[0].counts["accepted"] >= len(WRONG), "only what the mended values show needs a second round"


def test_orders_whose_numbers_a_program_shortened_to_the_same_stay_apart_and_come_back(tmp_path):
    house = house_of(tmp_path, kinds=MAPPING)
    shortened = {(row, "Order"): "1.23E+12" for row in (0, 1)}
    kinds_book(house.inbox / "kinds.xlsx", {"C-1": {}, "C-2": shortened, "C-3": shortened})
    first = house.night()
    assert first.counts == {"accepted": 1, "invalid": 4}
    assert_met(house, first, {("", "C322")})
    numbers = iter(["1230000000017", "1230000000017", "1230000000025", "1230000000025"])

    def mend(book, _):
        for red in red_cells(book):
            if red.column == "Order":
                red.mend(next(numbers))

    _, second = mended_until_nothing_is_red(house, first, mend, rounds=1)
    assert sorted(second.of(State.ACCEPTED)) == ["1230000000017", "1230000000025"]


def key_of(name):
    return "K-" + name.replace(" ", "-")


def kinds_book(path, wrongs):
    book = Workbook()
    book.active.append(HEADS)
    for name, wrong in wrongs.items():
        for row in (0, 1):
            values = {"Row": row, "Order": key_of(name), **FINE}
            values |= {head: value for (at, head), value in wrong.items() if at == row}
            book.active.append(list(values.values()))
    book.save(path)


def house_of(folder, **mappings):
    (folder / "written").mkdir(parents=True)
    for name, text in mappings.items():
        (folder / "written" / f"{name}.yaml").write_text(text, encoding="utf-8")
    (folder / "written" / "floors.csv").write_text(FLOORS, encoding="utf-8")
    return House(folder / "house", folder / "written")


def assert_met(house, night, codes):
    """There are errors of these keys and codes."""
    with house.queries() as queries:
        met = {
            (entry.key, problem.code)
            for drop in night.drops
            for entry in queries.entries_of(drop.id)
            for problem in entry.problems
            if problem.level == "error"
        }
    assert set(codes) <= met


JOINED = """
mapping: joined
version: 1
target: tender.create
source:
  files: ["orders.csv"]
  companions: {lines: "lines.csv", seals: "seals.csv"}
  locale: en_GB
  tables:
    orders: {file: main}
    lines: {file: lines, join: {to: orders, on: {order: order}}}
    seals: {file: seals, join: {to: lines, on: {order: order, line: line}}}
columns:
  orders:
    order: {label: Order, type: text, required: true, key: true}
    town: {label: Town, type: text, required: true}
  lines:
    order: {label: Order, type: text, required: true}
    line: {label: Line, type: text, required: true}
    item: {label: Item, type: text, required: true}
    weight: {label: Weight, type: decimal}
  seals:
    order: {label: Order, type: text, required: true}
    line: {label: Line, type: text, required: true}
    seal: {label: Seal, type: text, required: true}
payload:
  tender_id: {col: orders.order}
  tender_status: {value: OPEN}
  sender_id: {value: "S"}
  receiver_id: {value: "R"}
  delivery_city: {col: orders.town}
  packages:
    each: lines
    item:
      package_type: {value: "Box"}
      item_name: {col: item}
      description: {expr: '$join([s.seal for s in seals])'}
      weight: {col: weight}
      weight_uom: {value: KG}
"""
ROWS = """
mapping: rows
version: 1
target: tender.create
source:
  files: ["rows*.xlsx"]
  locale: en_GB
  tables: {rows: {sets: 2}}
columns:
  order: {label: Order, type: text, required: true, key: true}
  town: {label: Town, type: text}
  item: {label: "Item {set}", type: text}
  weight: {label: "Kg {set}", type: decimal, required: true}
group: {by: [order], one_value: [town]}
payload:
  tender_id: {col: order}
  tender_status: {value: OPEN}
  sender_id: {value: "S"}
  receiver_id: {value: "R"}
  delivery_city: {col: town}
  packages:
    each: rows
    item: {package_type: {value: Box}, item_name: {expr: 'item ?? "Box"'}, weight: {col: weight}, weight_uom: {value: KG}}
"""
TOTALS = (
    ROWS.replace("sets: 2", """totals: {where: 'order == "Total"', sum: [weight]}""")
    .replace(" {set}", "")
    .replace("rows*.xlsx", "totals.csv")
    .replace("mapping: rows", "mapping: totals")
)
JOINED_ROWS = {
    "orders": """Order,Town
        J-G403 deleted,Essen
        J-G403 added,Essen
        J-G403 a line,Essen
        J-G404 a seal,Essen
        J-R205 short,Essen
        J-R205 long,Essen
        J-R209,Essen
        J-R212,Essen
        J-R213,Essen
        J-G402,Essen
        J-G402,Essen
        J-G405,Essen""",
    "lines": f"""Order,Line,Item,Weight
        J-G404 added,1,Box,2
        J-G403 a line,1,Box,2
        J-G403 a line,2,Box,2
        J-G404 a seal,1,Box,2
        J-R205 short,1,2
        J-R205 long,1,Box, red,2
        J-R209,1,B\x01x,2
        J-R212,1,{"B" * 1_001},2
        J-R213,1,"Box" 2,2
        J-G402,1,Box,2
        ,1,Box,2""",
    "seals": """Order,Line,Seal
        J-G403 a line,1,A
        J-G404 a seal,1,A
        J-G404 a seal,2,A
        J-R205 short,1,A
        J-R205 long,1,A
        J-R209,1,A
        J-R212,1,A
        J-R213,1,A
        J-G402,1,A
        J-G405,1,A""",
}
FOLLOWED = {  # by key; a row that says no order and one of totals have none
    ("J-G403 deleted", "G403"),
    ("J-G403 added", "G403"),
    ("J-G403 a line", "G403"),
    ("J-G404 a seal", "G404"),
    ("J-G404 added", "G404"),
    ("J-R205 short", "R205"),
    ("J-R205 long", "R205"),
    ("J-R209", "R209"),
    ("J-R212", "R212"),
    ("J-R213", "R213"),
    ("J-G402", "G402"),
    ("J-G405", "G403"),
    ("", "G405"),
    ("", "G408"),
    ("R-C317", "C317"),
    ("R-G401", "G401"),
    ("R-R214", "R214"),
}


def test_what_a_fix_workbook_says_to_do_about_a_row_works_when_it_is_followed(tmp_path):
    house = house_of(tmp_path, joined=JOINED, rows=ROWS, totals=TOTALS)
    house.settings = house.settings.model_copy(update={"cell_length_max": 1_000, "blank_rows_max": 20})
    for name, text in JOINED_ROWS.items():
        lines = [line.strip() for line in text.split("\n")]
        (house.inbox / f"{name}.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    rows_book(house.inbox / "rows.xlsx", ["R-C317", "Essen", *BOXES, "Box", 3], ["R-G401", "Essen"], ["R-G401", "Ulm"])
    deep = house.inbox / "rows_deep.xlsx"
    rows_book(deep, ["R-fine", "Essen"], *[[]] * 30, ["R-R214", "Essen"], ["R-after", "Essen"])
    (house.inbox / "totals.csv").write_text("Order,Town,Item,Kg\nT-1,Essen,Box,2\nTotal,,,3\n", encoding="utf-8")
    first = house.night()
    assert_met(house, first, FOLLOWED)

    def follow(book, name):
        if name == deep.name:  # the blank rows in it are to be deleted
            rows_book(deep, ["R-fine", "Essen"], ["R-R214", "Essen"], ["R-after", "Essen"])
        else:
            follow = {"orders.csv": follow_joined, "rows.xlsx": follow_rows, "totals.csv": follow_totals}
            follow[name](*book.sheets())

    _, second = mended_until_nothing_is_red(house, first, follow, rounds=1)
    assert second.keys.keys() == {State.ACCEPTED, State.UNCHANGED}
    joined = {key for key, _ in FOLLOWED if key.startswith("J-")} - {"J-G403 deleted"}
    assert set(second.of(State.ACCEPTED)) == joined | {"R-C317", "R-G401", "R-R214", "R-after"}


BOXES = ("Box", 1, "Box", 1)


def rows_book(path, *rows):
    book = Workbook()
    book.active.append(["Order", "Town", "Item 1", "Kg 1", "Item 2", "Kg 2", "Item 3", "Kg 3"])
    for number, row in enumerate(rows, start=2):
        for column, value in enumerate(row if len(row) != 2 else [*row, *BOXES], start=1):
            book.active.cell(number, column, value)
    book.save(path)


def follow_joined(orders, lines, seals):
    delete(orders, "J-G403 deleted")
    add(lines, "J-G403 added", "1", "Box", "2")
    add(seals, "J-G403 added", "1", "A")
    delete(lines, "J-G403 a line", "2")
    put(seals, "J-G404 a seal", "2", Line="1")
    add(orders, "J-G404 added", "Essen")
    add(seals, "J-G404 added", "1", "A")
    put(lines, "J-R205 short", Item="Box", Weight="2")
    put(lines, "J-R205 long", Item="Box, red", Weight="2")
    for key in ("J-R209", "J-R212", "J-R213"):
        put(lines, key, Item="Box", Weight="2")
    delete(orders, "J-G402", nth=1)
    put(lines, None, Order="J-G405")


def follow_rows(sheet):
    put(sheet, "R-C317", **{"Item 3": None, "Kg 3": None})
    add(sheet, "R-C317", "Essen", "Box", "3")
    delete(sheet, "R-G401", "Ulm")


def follow_totals(sheet):
    put(sheet, "Total", Kg="2")


def found(sheet, *begins):
    """The rows whose first own cells are these."""
    return [
        row[0].row for row in sheet.iter_rows(min_row=2) if tuple(c.value for c in row[1:][: len(begins)]) == begins
    ]


def delete(sheet, *begins, nth=0):
    sheet.delete_rows(found(sheet, *begins)[nth])


def add(sheet, *cells):
    sheet.append([None, *cells])


def put(sheet, *begins, **values):
    (row,) = found(sheet, *begins)
    heads = [cell.value for cell in sheet[1]]
    for head, value in values.items():
        sheet.cell(row, heads.index(head) + 1).value = value


NOT_TO_MEND = {  # in the rows of a fix workbook, and why
    "the file, which is set aside or stays in the inbox": """A101 A102 A103 A104 A105 A106 A107 A108 A109 A110 A111 A112 A113 A114 A115
        A116 A117 A118 A119 A120 R201 R202 R203 R204 R206 R210 R211 R215 R231 R232 R233 R234 R235 R238 R239 R240 R243 R244
        G409""",
    "only a warning": "R221 R222 R223 R224 R225 R226 R227 R228 R241 R242 R245 R247 R249 R250 R251 R252 R253 R254 R255 R256 R257 R290 C318 C319 C323 C324 K502 L603 L608 L616 L617 L626 L627",
    "of a fix file that came back, in test_fix_round_trip": "R236 R237 L601 L604",
    "waits for the exchange, another record or an operator, so it does not come back": "L602 L607 L609 L610 L611 L612 L618 L619 L620 L621 L622 L623 L624 L625 L628 X702 X703",
    "two versions, of which somebody has to choose one": "L605",
    "of rows that are looked up, in test_rows_looked_up": "C321",
    "of the number of a record, above": "C322",
    "of the run": "L606 L613 L614 L615",
}


def test_every_problem_of_a_row_is_mended_here():
    mended = {name[:4] for name in (REFUSED, *WRONG)} & CATALOGUE.keys() | {code for _, code in FOLLOWED}
    others = " ".join(NOT_TO_MEND.values()).split()
    assert sorted(others) == sorted(CATALOGUE.keys() - mended)

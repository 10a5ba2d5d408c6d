"""Drafts of sheets that confused a newcomer: totals, keys, notations, actions, states and code tables. What a sheet does not prove is marked."""

import json
import re
from datetime import datetime

import openpyxl
import pytest
from command_in_process import loadsheet
from test_suggest import drafted_columns, line_of, mapping_of, mistakes, suggested, translated
from test_suggest_evidence import files

from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import draft
from loadsheet.mapping_tools.yaml_writer import write_draft
from loadsheet.settings import Settings

HEAD = "Order no;Consignee;Street;Postcode;City;Country;Pickup date;Delivery date"
ROWS = [
    "A-1;Acme GmbH;Kade 1;01067;Dresden;DE;02.03.2026;03.03.2026",
    "A-2;Beta AG;Kade 2;50667;Köln;DE;03.03.2026;16.03.2026",
    "A-3;Gamma KG;Kade 3;80331;München;DE;04.03.2026;05.03.2026",
]


def orders(*more):
    """Three orders with further columns: a heading and three cells each, as `heading;one;two;three`."""
    columns = [text.split(";") for text in more]
    return "".join(";".join([line, *(own[at] for own in columns)]) + "\n" for at, line in enumerate([HEAD, *ROWS]))


def suggested_for(paths, target=None):
    return write_draft(draft(observe(paths, Settings()), target))


# ---- totals ----

BOXES = ["Boxes", "Kartons", "Caisses", "Cajas", "Dozen", "Kartonger", "Scatole", "Kartony", "Caixas"]


@pytest.mark.parametrize("heading", BOXES)
def test_boxes_are_counted_in_every_language(tmp_path, heading):
    text = suggested(tmp_path, orders(f"{heading};4;12;7"))
    assert line_of(text, "total_packages") == f"total_packages: {{col: {heading.lower()}}}"


def test_a_number_of_lines_instead_of_packages_is_marked_with_the_column_that_may_have_it(tmp_path):
    plain = suggested(tmp_path, orders())
    assert line_of(plain, "total_packages").endswith("# CHECK: each line counts as one package")
    other = suggested(tmp_path, orders("Zyx;4;12;7", "Weight class;1;2;5"))
    assert line_of(other, "total_packages").endswith("counts as one package, unless Zyx has the number")


def test_packages_of_a_row_have_its_number_of_packages_unless_rows_are_lines(tmp_path):
    text = suggested(tmp_path, orders("Cajas;4;12;7", "Goods;Oil;Nuts;Rice", "Weight kg;10;21;15"))
    assert line_of(text, "quantity") == "quantity: {col: cajas}   # CHECK: all packages of the row are alike"
    assert mistakes(tmp_path, text) == []
    first, *_ = translated(mapping_of(tmp_path, text, "order.create"), [tmp_path / "sheet.csv"])
    assert [one["quantity"] for one in json.loads(first.payload)["packages"]] == [4]
    twice = orders("Cajas;4;4;7", "Goods;Oil;Nuts;Rice", "Weight kg;10;21;15").replace("A-2;Beta AG", "A-1;Acme GmbH")
    assert "all packages of the row" not in suggested(tmp_path, twice)


SETS = """\
Order no;Consignee;City;Pickup;Item 1;Crates 1;Kg 1;Zyx 1;Item 2;Crates 2;Kg 2;Zyx 2;Carrier 1;Carrier 2
S-1;Acme Ltd;Leeds;2026-03-02;Oil;4;10;a;Nuts;2;3.5;b;Kirk;Muir
S-2;Beta plc;York;2026-03-02;Nuts;12;21;c;;;;;Kirk;
S-3;Gamma Inc;Hull;2026-03-03;Oil;6;15;d;Rice;3;9;e;Muir;
"""


def test_all_columns_of_a_set_are_in_it_and_its_amounts_add_up(tmp_path):
    text = suggested(tmp_path, SETS, "order.create")
    columns = drafted_columns(text)
    assert columns["Kg {set}"].startswith(
        'kg:     {label: "Kg {set}", type: quantity, required: true, unit: kg, min: 0}'
    )
    assert "CHECK" not in columns["Kg {set}"]
    assert columns["Zyx {set}"].startswith("# ")
    assert "Carrier {set}" not in columns  # its columns stand apart
    assert line_of(text, "total_packages") == "total_packages: {expr: '$sum([r.crates for r in items])'}"
    assert line_of(text, "total_weight") == "total_weight: {expr: '$sum([r.kg for r in items])', round: 3}"
    assert mistakes(tmp_path, text) == []
    first, *_ = translated(mapping_of(tmp_path, text, "order.create"), [tmp_path / "sheet.csv"])
    assert b'"total_packages":6' in first.payload
    assert b'"total_weight":13.5' in first.payload


def test_a_weight_that_does_not_grow_with_the_quantity_is_one_of_a_piece(tmp_path):
    each = SETS.replace(";6;15;", ";6;10;")
    assert "r.kg * r.crates" in line_of(suggested(tmp_path, each, "order.create"), "total_weight")


def test_a_set_that_is_not_always_filled_is_not_required(tmp_path):
    text = suggested(tmp_path, SETS.replace("Nuts;2;3.5;b", "Nuts;2;;b"), "order.create")
    assert "required" not in drafted_columns(text)["Kg {set}"]


# ---- the key ----


def test_a_column_that_could_fill_another_number_identifies_the_records_instead_of_a_constant(tmp_path):
    sheet = "Sendung;Ladetag;Empfänger;Ort\n" + "".join(
        f"AK-{at};1{at}.03.2026;{name} GmbH;{town}\n"
        for at, (name, town) in enumerate([("Alt", "Ulm"), ("Berg", "Bonn")])
    )
    text = suggested(tmp_path, sheet, "tender.create")
    assert "tender_id: {col: sendung}   # CHECK: no heading names the tender, but the values identify rows" in text
    assert re.search(r"target: tender.create   # as asked for; points: .*tender.create -?\d", text)


def test_without_any_identifying_column_the_one_with_the_most_values_is_taken_and_rows_are_not_grouped(tmp_path):
    text = suggested(
        tmp_path, "Ladetag;Ort;Kg\n12.03.2026;Ulm;1\n12.03.2026;Ulm;2\n13.03.2026;Bonn;3\n", "order.update"
    )
    assert (
        "order_id: {col: ort}   # CHECK: no column identifies the order; this one has the most different values" in text
    )
    assert "\ngroup:" not in text
    assert "order_id: null" not in text


def test_a_date_that_has_to_be_the_key_is_read_as_text(tmp_path):
    text = suggested(tmp_path, "Pickup date;Gross weight (kg)\n2026-03-02;1,5\n2026-03-03;2,5\n", "order.update")
    assert "type: text, required: true, key: true}" in drafted_columns(text)["Pickup date"]
    assert mistakes(tmp_path, text) == []


# ---- the notation of numbers and dates ----

FREIGHT = "Sendung;Abholung;Zone;Empfänger;PLZ;Ort;Kolli;Kg\n" + "".join(
    f"F-{at};{at + 12}.03.2026;{zone};Haus {town};1010;{town};{at + 2};{kg}\n"
    for at, (zone, town, kg) in enumerate([("N", "Wien", "99,9"), ("S", "Graz", "140,5"), ("N", "Linz", "12,25")])
)
RATES = "zone,from_kg,to_kg,price\nN,0,100,38.50\nN,100,,92.25\nS,0,100,54.10\nS,100,,131.75\n"
FUEL = "valid_from,valid_to,percent\n2026-01-01,2026-03-13,8.5\n2026-03-14,2026-12-31,9.25\n"


def test_a_code_table_says_nothing_of_the_notation_of_the_orders(tmp_path):
    text = suggested_for(files(tmp_path, sendungen=FREIGHT, rates=RATES, fuel=FUEL))
    assert "  locale: de_DE   # 3 of 3 numbers with a decimal mark are in de_DE notation\n" in text
    assert "locale" not in drafted_columns(text)["Kg"]


def test_joined_files_in_two_notations_are_read_each_in_its_own(tmp_path):
    lines = "Order no;Article;Weight (kg)\nA-1;Pump;1,240.5\nA-2;Pump;7.25\nA-3;Valve;2.5\nA-3;Pump;2.5\n"
    text = suggested_for(files(tmp_path, heads=orders("Goods value;1.200,50;17,25;9,5"), lines=lines))
    assert "  locale: en_GB   # 4 of 4 numbers" in text
    assert "locale: de_DE" in drafted_columns(text)["Goods value"]
    assert "locale" not in drafted_columns(text)["Weight (kg)"]
    assert mistakes(tmp_path, text) == []


def test_numbers_in_two_notations_are_marked(tmp_path):
    text = suggested(tmp_path, orders("Total weight (kg);12,5;7,25;1.240,5", "Goods value;1,240.50;17.25;8"))
    assert re.search(r"  locale: de_DE   # 3 of 5 numbers .*; CHECK the others, such as 1,240.50", text)


DAYS = "Order no;City;Pickup date\nA-1;Ulm;02/06/2026\nA-2;Bonn;03/06/2026\n"
NAMED = {
    "loads_2026-06-01.csv": ("%d/%m/%Y", "day first, by the date in the file's name"),
    "loads_20260220.csv": ("%m/%d/%Y", "month first, by the date in the file's name"),
    "loads_2026-09-01.csv": ("%m/%d/%Y", "CHECK day and month"),
    "loads_12.csv": ("%m/%d/%Y", "CHECK day and month"),
}


@pytest.mark.parametrize("name", NAMED)
def test_the_date_in_the_name_of_the_file_decides_between_day_and_month_first(tmp_path, name):
    format_, said = NAMED[name]
    text = suggested(tmp_path, DAYS, "order.update", name)
    assert said in drafted_columns(text)["Pickup date"]
    assert ("CHECK day" in text) == ("CHECK" in said)
    assert "CHECK" in said or f'"{format_}"' in text


# ---- tenders and actions ----

ACTIONS = """\
Action,Lane,Loading,From,To,Postcode,Truck,Tonnes
NEW,KR-41,16/03/2026 05:30,Leith,Carlisle,CA1 2RB,Tipper,27
NEW,KR-42,16/03/2026 05:30,Leith,Penrith,CA11 7XA,Tipper,26.5
NEW,KR-43,17/03/2026 06:00,Leith,Hawick,TD9 0AA,Box,24
CHANGE,KR-42,16/03/2026 11:00,,,,Box,
CANCEL,KR-43,,,,,,
"""


def test_a_list_of_lanes_with_actions_is_one_of_tenders(tmp_path):
    text = suggested(tmp_path, ACTIONS)
    assert "one_of: {NEW: tender.create, CHANGE: tender.update, CANCEL: tender.delete}" in text
    assert re.search(r"target: \{col: action\} .* points: tender.create \d+, .*order.create", text)
    assert "\ngroup:" not in text
    assert line_of(text, "pickup_city") == "pickup_city: {col: from}   # CHECK: the heading does not mention city"
    assert line_of(text, "vehicle_type") == "vehicle_type: {col: truck}"
    assert "type: quantity, unit: kg, from_unit: t" in drafted_columns(text)["Tonnes"]
    assert line_of(text, "weight").startswith("weight: {col: tonnes")
    assert mistakes(tmp_path, text) == []


def test_the_subject_can_be_asked_for_and_the_column_still_chooses(tmp_path):
    plain = ACTIONS.replace("Lane", "Number")
    of_orders, of_tenders = suggested(tmp_path, plain), suggested(tmp_path, plain, "tender")
    assert "CHANGE: order.update" in of_orders
    assert re.search(r"target: \{col: action\} .*points: order.* tender.create", of_orders)
    assert "CHANGE: tender.update" in of_tenders
    assert "tender_id: {col: number}" in of_tenders
    fixed = suggested(tmp_path, plain, "tender.create")
    assert "with --target tender it chooses the operation" in fixed
    (tmp_path / "lanes.csv").write_text(plain, encoding="utf-8")
    assert (
        loadsheet(tmp_path, "mapping", "suggest", "lanes.csv", "--target", "tender").stdout.count("tender.update") >= 1
    )


def test_lines_of_one_key_and_one_action_are_grouped_by_both(tmp_path):
    head, *lines = ACTIONS.splitlines()
    text = suggested(tmp_path, "\n".join([head, *(line for line in lines for _ in range(2))]) + "\n")
    assert "  by: [lane, action]" in text
    assert mistakes(tmp_path, text) == []


def test_codes_of_places_are_no_towns(tmp_path):
    text = suggested(tmp_path, "Order no;From\nA-1;W1\nA-2;W2\nA-3;W3\n", "order.update")
    assert "pickup_city" not in text


# ---- states, blanks, postal codes, countries and names ----


def test_states_are_marked_and_leaving_out_rows_is_offered(tmp_path):
    text = suggested(tmp_path, orders("Order status;complete;on hold;cancelled"))
    said = "# CHECK: sent as written: complete, on hold, cancelled; does the exchange know these values?"
    assert f"  order_status: {{col: order_status}}   {said}\n" in text
    rule = re.search("to be left out: (ignore_rows: '.*')", drafted_columns(text)["Order status"])[1]
    ruled = text.replace("    rows: {}", f"    rows: {{{rule}}}")
    found = translated(mapping_of(tmp_path, ruled, "order.create"), [tmp_path / "sheet.csv"])
    assert [document.key for document in found] == ["A-1", "A-2"]


@pytest.mark.parametrize("states", ["open;open;open", "storniert;storniert;storniert"], ids=["none", "all"])
def test_states_that_are_all_alike_give_no_rule(tmp_path, states):
    assert "ignore_rows" not in suggested(tmp_path, orders(f"Status;{states}"))


CELLS = {
    "crosses for blank": ("Customer email;XXXXXXXX;XXXXXXXX;XXXXXXXX", "whether XXXXXXXX means blank: blank: [XXXXXXXX]"),
    "n/a for blank": ("Remarks;n/a;fragile;n/a", "whether n/a means blank: blank: [n/a]"),
    "lost zeros": ("Bill to zip;1067;50667;80331", "whether 1067 lost zeros, others have 5 digits: pad_left: {to: 5}"),
}  # fmt: skip


@pytest.mark.parametrize(("column", "said"), CELLS.values(), ids=CELLS)
def test_odd_cells_are_shown_with_the_key_that_reads_them(tmp_path, column, said):
    line = drafted_columns(suggested(tmp_path, orders(column)))[column.split(";")[0]]
    assert f"CHECK {said}" in line


def test_short_postal_codes_of_several_countries_are_right(tmp_path):
    text = suggested(tmp_path, orders().replace("01067;Dresden;DE", "1110;Wien;AT"))
    assert "lost zeros" not in text


def test_unknown_countries_are_listed_with_the_known_ones(tmp_path):
    sheet = (
        orders()
        .replace(";DE;", ";Alemania;")
        .replace("Köln;Alemania", "Köln;D-Land")
        .replace("München;Alemania", "München;D-Land")
    )
    text = suggested(tmp_path, sheet)
    assert "one_of: {Alemania: DE, D-Land: null}" in drafted_columns(text)["Country"]
    assert "FILL IN" in drafted_columns(text)["Country"]
    assert mistakes(tmp_path, text) == []


def test_the_offset_of_the_day_of_the_order_is_marked(tmp_path):
    sheet = orders("Order date;01.03.2026;01.03.2026;02.03.2026")
    assert "CHECK" not in line_of(suggested(tmp_path, sheet), "timeoffset").replace("FILL IN", "")
    late = sheet.replace("Pickup date", "Remark a").replace("Delivery date", "Remark b")
    assert "CHECK: no column has the day of the pickup" in line_of(
        suggested(tmp_path, late, "order.create"), "timeoffset"
    )


def test_first_and_last_names_are_joined(tmp_path):
    text = suggested(tmp_path, orders("First name;Ann;Bob;Cy", "Last name;Ames;Burr;Cole"))
    assert "party_name: {expr: '$join([first_name, last_name], \" \")'}" in text
    first, *_ = translated(mapping_of(tmp_path, text, "order.create"), [tmp_path / "sheet.csv"])
    assert b'"party_name":"Ann Ames"' in first.payload


# ---- moments ----


def test_days_without_a_time_are_not_sent_as_midnight(tmp_path):
    days = [datetime(2026, 3, day) for day in (2, 3, 4)]
    lines = [line.split(";")[:6] for line in (HEAD, *ROWS)]
    rows = [[*line, cell] for line, cell in zip(lines, ["Pickup date", *days], strict=True)]
    for sheet in (orders(), rows):
        text = suggested(tmp_path, sheet)
        assert "type: date, " in drafted_columns(text)["Pickup date"]
        start = line_of(text, "pickup_startdatetime")
        assert (
            start == "pickup_startdatetime: {expr: '$at(pickup_date, t\"PT8H\")'}   # CHECK the time; no column has it"
        )
        assert "CHECK" in line_of(text, "pickup_enddatetime")
        assert mistakes(tmp_path, text) == []
    first, *_ = translated(mapping_of(tmp_path, text, "order.create"), [tmp_path / "sheet.xlsx"])
    sent = json.loads(first.payload)
    assert [sent[f"pickup_{end}datetime"] for end in ("start", "end")] == ["2026-03-02 08:00:00", "2026-03-02 12:00:00"]


def test_days_without_a_time_of_a_window_begin_and_end_by_its_ends(tmp_path):
    text = suggested(tmp_path, orders("Pickup until;03.03.2026;;04.03.2026"))
    assert line_of(text, "pickup_enddatetime").startswith(
        "pickup_enddatetime: {expr: '$at(pickup_until ?? pickup_date, t\"PT16H\")'}   # CHECK the time"
    )
    assert mistakes(tmp_path, text) == []


def test_a_day_of_an_event_is_marked(tmp_path):
    text = suggested(tmp_path, "Order no;Status;Status date\nA-1;PICKED UP;02.03.2026\nA-2;DELIVERED;13.03.2026\n")
    assert "CHECK the time: no column has it; sent as 00:00" in line_of(text, "status_datetime")


def test_times_in_one_cell_are_enough(tmp_path):
    text = suggested(tmp_path, orders().replace("03.03.2026;16", "03.03.2026 09:30;16"))
    assert line_of(text, "pickup_startdatetime") == "pickup_startdatetime: {col: pickup_date}"


# ---- code tables, bands, and sheets of one layout ----


def offered(text, name):
    """The lookups that a draft offers for a file, as YAML."""
    return re.search(rf"add lookups: (\{{{name}: .*?\}}\}}), and", text)[1]


def test_offered_lookups_can_be_pasted(tmp_path):
    paths = files(tmp_path, sendungen=FREIGHT, rates=RATES, fuel=FUEL)
    text = suggested_for(paths)
    assert "and lookup: rates, lookup_with: [kg] at Zone" in text
    assert "and a column {label: Abholung, type: date, required: true, lookup: fuel}" in text
    (tmp_path / "lookups").mkdir()
    for name in ("rates", "fuel"):
        (tmp_path / f"{name}.csv").rename(tmp_path / "lookups" / f"{name}.csv")
    text = text.replace("# zone:", "zone:").replace(
        "{label: Zone, type: text}", "{label: Zone, required: true, lookup: rates, lookup_with: [kg]}"
    )
    text = text.replace(
        "\ncolumns:\n", "\ncolumns:\n  fuel: {label: Abholung, type: date, required: true, lookup: fuel}\n"
    )
    text = text.replace(
        "\nconstants:", f"\nlookups: {offered(text, 'rates')[:-1]}, {offered(text, 'fuel')[1:]}\nconstants:"
    )
    text = re.sub("goods_value: .*", "goods_value: {expr: 'zone + fuel'}", text)
    found = translated(mapping_of(tmp_path, text, "order.create"), [tmp_path / "sendungen.csv"])
    values = [float(re.search(rb'"goods_value":([0-9.]+)', one.payload)[1]) for one in found]
    assert values == [47.0, 140.25, 47.75]


def test_bands_from_0_to_99_include_their_ends(tmp_path):
    bands = "min kg,max kg,vehicle\n0,99,Van\n100,499,Truck\n"
    text = suggested_for(files(tmp_path, sendungen=FREIGHT, vehicles=bands))
    assert "range: {from: min kg, to: max kg, upper: included, gaps: allow}, value: vehicle}" in text


def test_a_code_table_in_a_file_is_offered_with_its_values_and_their_types(tmp_path):
    products = "id,kg,m3,name\nP1,4.2,0.02,Pump\nP2,1.1,0.01,Valve\n"
    text = suggested_for(files(tmp_path, shop=orders("SKU;P1;P2;P1"), products=products))
    spec = "{products: {file: lookups/products.csv, key: id, value: [kg, m3, name], types: {kg: decimal, m3: decimal}}}"
    assert f"add lookups: {spec}, and lookup: products at SKU" in text


@pytest.mark.parametrize("backwards", [False, True])
def test_two_sheets_of_one_layout_are_two_mappings(tmp_path, backwards):
    head = ["Number", "Collect", "Customer", "Street", "Postcode", "Town", "Boxes", "Kg"]
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, own in [("Orders", head), ("Returns", [*head, "Reason"])][:: -1 if backwards else 1]:
        page = book.create_sheet(title)
        page.append(own)
        for at in range(3):
            page.append(
                [
                    f"{title[0]}-{at}",
                    datetime(2026, 3, 9 + at),
                    "Oy Ab",
                    "Tie 1",
                    "00100",
                    "Helsinki",
                    at + 1,
                    2.5,
                    "Broken",
                ][: len(own)]
            )
    book.save(tmp_path / "store.xlsx")
    text = suggested_for([tmp_path / "store.xlsx"])
    assert "rows: {sheet: [Orders]}" in text
    assert "# not read: Returns: it has the headings of Orders but other records: write a second mapping for it" in text
    assert "with source: {shared: true} in both" in text
    assert "(extends: base/NAME.yaml)" in text


# ---- the command ----


def test_an_existing_draft_is_kept_and_the_message_says_what_to_do(tmp_path):
    files(tmp_path, sheet=orders())
    (tmp_path / "own.yaml").write_text("mine", encoding="utf-8")
    done = loadsheet(tmp_path, "mapping", "suggest", "sheet.csv", "--out", "own.yaml")
    assert done.returncode == 2
    assert "choose another --out" in done.stderr
    assert (tmp_path / "own.yaml").read_text(encoding="utf-8") == "mine"


def test_a_draft_has_no_keys_without_effect(tmp_path):
    assert "unless_blank" not in suggested(tmp_path, orders("Vehicle;Van;;Truck", "Phone;+49 351 1;;+49 351 22"))

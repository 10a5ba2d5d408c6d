"""What a draft concludes from the cells: each conclusion on a small sheet that shows it, and one that does not."""

import json
import re
import time

import pytest
from command_in_process import loadsheet
from test_suggest import drafted_columns, line_of, mapping_of, mistakes, suggested, translated

from loadsheet.mapping_tools.drafts import values_of
from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import draft
from loadsheet.mapping_tools.yaml_writer import write_draft
from loadsheet.settings import Settings

ORDER = "Order no;Consignee;Street;Postcode;City;Country;Pickup date;Delivery date"
PLACES = [
    "Möbel Höffner;Prager Str. 1;01067;Dresden;DE;02.03.2026;03.03.2026",
    "Rhein Pumpen;Domkloster 4;50667;Köln;DE;03.03.2026;16.03.2026",
    "Kade BV;Kade 8;9711 LM;Groningen;NL;04.03.2026;05.03.2026",
]


def orders(heading="", cells=("",), *, keys=None, rows=12):
    """Orders with one more column, whose cells take turns."""
    keys = keys or [f"A-{number:03}" for number in range(rows)]
    lines = [f"{key};{PLACES[at % 3]};{cells[at % len(cells)]}" for at, key in enumerate(keys)]
    return "\n".join([f"{ORDER};{heading or 'Remarks'}", *lines]) + "\n"


def of_column(tmp_path, heading, cells, **more):
    """The line of a draft for one more column of an order sheet; `# ` before it if it fills no field."""
    text = suggested(tmp_path, orders(heading, cells, **more))
    assert mistakes(tmp_path, text) == []
    return drafted_columns(text)[heading]


COLUMNS = {  # a heading and cells, and what the line of the draft has or (after a !) has not
    "a weight class is no weight": ("Weight class", ["A", "B"], ["# ", "fills no field", "!required"]),
    "a weight class in numbers": ("Weight class", ["1", "2", "5"], ["# ", "fills no field"]),
    "a consent is no address": ("Email consent", ["yes", "no"], ["# ", "fills no field"]),
    "a language that nobody knows": ("Xyzzy", ["a", "b"], ["# ", "fills no field", "!required"]),
    "negative weights are shown": (
        "Gross weight (kg)", ["12,5", *["140,2"] * 10, "-3"],
        ["type: quantity", "unit: kg", "min: 0", "CHECK min: 1 value (-3) below 0"],
    ),
    "a number for unknown is shown": (
        "Total weight (kg)", ["12", "9999", *["140"] * 20],
        ["max: 200", "CHECK max: 1 value (9999), above all others (at most 140): unknown?"],
    ),
    "limits in the unit of the mapping": ("Total weight (lb)", ["9999", *["140"] * 20], ["from_unit: lb", "max: 70"]),
    "only nines are usual": ("Total weight (kg)", ["999", "9999", "99"], ["min: 0", "!max"]),
    "a unit in the cells": ("Weight", ["12,5 kg", "7 kg"], ["type: quantity", "with a unit (kg)", "!CHECK the unit"]),
    "pounds in the cells": ("Weight", ["12,5 lb", "7 lb", "9"], ["from_unit: lb"]),
    "a unit that nobody says": ("Weight", ["12,5", "7"], ["CHECK the unit kg: neither heading nor cells have one"]),
    "a minus behind the number": ("Total weight (kg)", [*["1.250,5"] * 10, "3,2-"], ["12 of 12 values are numbers", "CHECK min: 1 value (-3.2) below 0"]),
    "euros in the cells": ("Goods value", ["1.234,50 €", "€ 99,00", "5"], ["type: decimal", "currency: EUR", "!CHECK"]),
    "dollars in the cells": ("Goods value", ["$1,234.50", "$99.00"], ["currency: USD", "CHECK the currency: $ may also mean CAD"]),
    "prices without cents": ("Goods value", ["990,-", *["12,50"] * 11], ["CHECK the others: 990,-"]),
    "two currencies in the cells": ("Goods value", ["5,00 €", "7,00 £"], ["type: text", "!currency"]),
    "codes of currencies in identifiers": ("Reference", ["CAD 1001", "CAD 1002"], ["type: text", "!currency"]),
    "weekdays before dates": ("Order date", ["Mo, 02.03.2026", "Di, 03.03.2026 "], ["12 of 12 values read as %a, %d.%m.%Y"]),
    "long dates": ("Order date", ["Monday, March 2, 2026", "Wednesday, April 1, 2026"], ["read as %a, %b %d, %Y"]),
    "weekdays that prove the month first": ("Order date", ["Mon 3/2/2026", "Wed 4/1/2026"], ["read as %a %m/%d/%Y", "!CHECK"]),
    "hours as the French write them": ("Order time", ["14h30", "8h00", "16h"], ["type: time", '["%Hh%M", "%Hh"]']),
    "hours with Uhr": ("Order time", ["14:30 Uhr", "8 Uhr"], ['["%H:%M Uhr", "%H Uhr"]']),
    "hours of a half day": ("Order time", ["8am", "2:30 PM"], ["type: time", "%I%p"]),
    "hours in four digits": ("Order time", ["1405", "0830"], ["type: time", '["%H%M"]']),
    "four digits that are no time": ("Order time", ["1405", "2605"], ["!type: time"]),
    "letters on vehicles": ("Supplier country", ["D", "A", "I", "SLO"], ["type: country"]),
    "an offset after a space": ("Order date", ["2026-03-01 10:00:00 +0100"], ["type: datetime", "%Y-%m-%d %H:%M:%S %z"]),
    "a time of UTC": ("Order date", ["2026-03-01 10:00 UTC"], ["12 of 12 values read as %Y-%m-%d %H:%M %z"]),
    "streets that begin like a month": ("Ship address 1", ["Main 1", "Marienweg 5"], ["type: text", "!CHECK"]),
    "house numbers before such streets": ("Ship address 1", ["12 Market St", "7 Junction Rd"], ["type: text", "!CHECK"]),
    "a sum of prices": ("Subtotal", ["12,50", "1.240,00"], ["type: decimal", "!fills no field"]),
    "a bare total": ("Total", ["12,50", "1.240,00"], ["# ", "fills no field"]),
    "a number of pieces bought": ("quantity-purchased", ["1", "3"], ["type: integer", "!CHECK"]),
    "a status of payment": ("Financial Status", ["paid", "pending"], ["# ", "fills no field"]),
    "a month by its name": ("Order date", ["03-Mar-26", "28-Feb-26"], ["12 of 12 values read as %d-%b-%y"]),
    "several styles of dates": (
        "Order date", ["03.03.2026", "2026-03-04", "5.3.26 8:00"], ["%d.%m.%Y or %Y-%m-%d or %d.%m.%y %H:%M", "!CHECK"],
    ),
    "yes and no of another language": ("ADR", ["oui", "non"], ["type: yesno", '"yes": [oui]', '"no": [non]']),
    "yes and no of the file's language": ("ADR", ["yes", "no"], ["type: yesno", '!"yes":']),
    "crosses": ("ADR", ["x", ""], ["type: yesno", '"yes": [x]', 'default: "no"', "CHECK their meaning"]),
    "a total of the order": ("Order total", ["12,50", "1.240,00"], ["type: decimal"]),
    "a number of the row": ("Piece", [str(number) for number in range(1, 13)], ["# ", "fills no field"]),
    "a supplier may be the shipper": ("Supplier", ["Acme GmbH", "Beta AG"], ["type: text", "!fills no field"]),
}  # fmt: skip


@pytest.mark.parametrize(("heading", "cells", "said"), COLUMNS.values(), ids=COLUMNS)
def test_a_column_is_read_as_its_cells_show(tmp_path, heading, cells, said):
    line = of_column(tmp_path, heading, cells, rows=max(12, len(cells)))
    missing = [text for text in said if (text[1:] in line if text.startswith("!") else text not in line)]
    assert missing == [], line


def test_what_one_column_proves_of_day_and_month_holds_for_the_others(tmp_path):
    text = suggested(
        tmp_path,
        "Order no;City;Pickup date;Delivery date\nA-1;Ulm;03/04/2026;04/16/2026\nA-2;Bonn;04/04/2026;04/17/2026\n",
    )
    assert '"%m/%d/%Y"' in text
    assert "CHECK day and month" not in text


def test_a_column_in_another_notation_than_the_file_says_so(tmp_path):
    lines = [f"A-{number};{PLACES[number % 3]};1.240,5;7,25;1,234.50" for number in range(6)]
    text = suggested(tmp_path, "\n".join([f"{ORDER};Total weight (kg);Total volume (m3);Goods value", *lines]) + "\n")
    assert "  locale: de_DE   # 12 of 18 numbers" in text
    assert "type: decimal, required: true, locale: en_GB" in drafted_columns(text)["Goods value"]
    assert mistakes(tmp_path, text) == []


def test_a_heading_of_one_side_is_over_a_company_or_a_town_by_its_cells(tmp_path):
    lines = "".join(
        f"A-{at};{town};{firm}\n" for at, (town, firm) in enumerate([("Ulm", "Acme GmbH"), ("Bonn", "Beta AG")] * 3)
    )
    text = suggested(tmp_path, f"Order no;Origin;Destination\n{lines}", "order.update")
    assert "pickup_city: {col: origin}   # CHECK: the heading does not mention city" in text
    assert "delivery_company: {col: destination}" in text
    assert "CHECK" not in line_of(text, "delivery_company")


def test_a_window_in_one_cell_gives_both_its_ends(tmp_path):
    windows = ["08:00 - 12:00", "7:30-15:00 Uhr", "8 bis 12 Uhr", "von 06:00 bis 14:00"]
    text = suggested(tmp_path, orders("Pickup time", windows))
    assert mistakes(tmp_path, text) == []
    assert line_of(text, "pickup_startdatetime").startswith(
        "pickup_startdatetime: {expr: 'pickup_date + pickup_time_early'}"
    )
    assert line_of(text, "pickup_enddatetime").startswith(
        "pickup_enddatetime: {expr: 'pickup_date + pickup_time_late'}"
    )
    pattern = re.search(r'split: "(.*?)"}', text)[1].replace("\\\\", "\\")
    ends = [re.fullmatch(pattern, window).groups() for window in windows]
    assert ends == [("08:00", "12:00"), ("7:30", "15:00"), ("8", "12"), ("06:00", "14:00")]
    assert re.fullmatch(pattern, "8:30") is None


def test_a_place_with_its_postal_code_is_taken_apart(tmp_path):
    sheet = "Order no;Origin;Destination\n" + "".join(
        f"A-{at};D-2009{at} Hamburg;{place}\n"
        for at, place in enumerate(["I-20121 Milano", "F-69001 Lyon", "A-8010 Graz"])
    )
    text = suggested(tmp_path, sheet, "order.update")
    assert mistakes(tmp_path, text) == []
    assert line_of(text, "delivery_pincode") == "delivery_pincode: {col: destination_postal}"
    assert line_of(text, "pickup_city") == "pickup_city: {col: origin_city}"


def test_status_events_have_the_reference_of_the_sender_as_their_key(tmp_path):
    text = suggested(
        tmp_path,
        "SCAC,PRO Number,Shipper Ref,Status Code,Status Description,Event Date,Event Time,TZ\n"
        "ABCD,123456789,SO-1001,AF,Departed Pickup,3/2/2026,1405,ET\nABCD,123456789,SO-1001,D1,Delivered,3/14/2026,1645,CT\n"
        "ABCD,123456790,SO-1002,AF,Departed Pickup,3/2/2026,0930,ET\n",
    )
    assert "target: order.status" in text
    assert "order_id: {col: shipper_ref}   # CHECK: no column identifies the order; this one is a reference" in text
    assert "status_datetime: {expr: 'event_date + event_time'}" in text
    assert "type: text" in drafted_columns(text)["TZ"]


UNITS = {  # the columns beside an amount, and what the line of the amount has or (after a !) has not
    "to its right": ("Gross weight;GEWEI", ["1.250,5;KG", "2;TO"], ["unit_column: gewei", "!CHECK the unit"]),
    "to its left": ("Weight unit;Gross weight", ["KG;1.250,5", "LB;2"], ["unit_column: weight_unit"]),
    "nearest": ("Eh;Gross weight;UOM", ["KG;2;KG", "KG;3;LB"], ["unit_column: uom"]),
    "of volumes": ("Gross weight;UOM", ["1.250,5;m3", "2;l"], ["!unit_column", "CHECK the unit kg"]),
    "unknown": ("Gross weight;UOM", ["1.250,5;KG", "2;pallet"], ["!unit_column"]),
    "said in the heading": ("Gross weight (kg);UOM", ["1.250,5;KG", "2;LB"], ["!unit_column"]),
    "called something else": ("Gross weight;City of unloading", ["1.250,5;KG", "2;LB"], ["!unit_column"]),
}  # fmt: skip


@pytest.mark.parametrize(("headings", "cells", "said"), UNITS.values(), ids=UNITS)
def test_an_amount_takes_its_unit_from_the_column_beside_it(tmp_path, headings, cells, said):
    text = suggested(tmp_path, orders(headings, cells))
    assert mistakes(tmp_path, text) == []
    line = next(line for label, line in drafted_columns(text).items() if label.startswith("Gross weight"))
    assert [one for one in said if (one[1:] in line if one.startswith("!") else one not in line)] == [], line
    if "unit_column" in line:
        assert line_of(text, "gross_weight_uom") == "gross_weight_uom: {value: KG}"


def test_parts_of_two_addresses_are_marked(tmp_path):
    sheet = "Order no;Order city;Customer street\n" + "".join(
        f"A-{at};{city};Kade {at}\n" for at, city in enumerate(["Ulm", "Bonn", "Wien"])
    )
    text = suggested(tmp_path, sheet, "order.update")
    assert "CHECK: it is the customer's, and other parts of the address are not" in line_of(text, "delivery_address1")


def test_a_weak_guess_is_marked(tmp_path):
    text = suggested(tmp_path, orders("Wt zzyx", ["12,5", "7"]))
    assert re.search(r'total_weight: .*# CHECK: what is "zzyx" in the heading\?', text)


def test_values_that_share_a_cell_are_split(tmp_path):
    lines = "".join(
        f"A-{at};{cell}\n" for at, cell in enumerate(["01067 Dresden", "80331 München", "9711 LM Groningen"])
    )
    text = suggested(tmp_path, f"Order no;PLZ/Ort\n{lines}", "order.update")
    assert 'split: "(?P<plz_ort_postal>' in drafted_columns(text)["PLZ/Ort"]
    assert (line_of(text, "delivery_pincode"), line_of(text, "delivery_city")) == (
        "delivery_pincode: {col: plz_ort_postal}", "delivery_city: {col: plz_ort_city}",
    )  # fmt: skip
    assert mistakes(tmp_path, text) == []
    (first, *_) = translated(mapping_of(tmp_path, text, "order.update"), [tmp_path / "sheet.csv"])
    assert b'"delivery_city":"Dresden"' in first.payload


# ---- the target, the key and the groups ----


def test_the_target_is_chosen_by_what_the_sheet_has_and_the_draft_says_why(tmp_path):
    text = suggested(tmp_path, orders())
    assert re.search(
        r"^target: order.create   # 8 fields have a column, 5 of them for addresses; Order no identifies the records",
        text,
        re.MULTILINE,
    )
    changes = suggested(tmp_path, "Order no;Status\nA-1;late\nA-2;late\n")
    assert re.search(r"^target: order.update   # .*only 2 fields have a column, as in changes", changes, re.MULTILINE)
    events = suggested(tmp_path, "Order no;Event;Event time\nA-1;BKD;02.03.2026 08:00\nA-1;DLV;03.03.2026 08:00\n")
    assert re.search(r"^target: order.status   # .*each row has an event and its time", events, re.MULTILINE)


def test_near_unique_values_identify_the_records_where_no_heading_does(tmp_path):
    text = suggested(tmp_path, orders().replace("Order no", "Qwx", 1))
    assert "order_id: {col: qwx}   # CHECK: no heading names the order, but the values identify rows" in text


@pytest.mark.parametrize("merged", [False, True], ids=["on every row", "on the first row"])
def test_rows_with_one_key_are_one_record(tmp_path, merged):
    keys = [f"A-{number // 3:03}" if not merged or number % 3 == 0 else "" for number in range(12)]
    lines = [f"{key};{PLACES[at // 3 % 3] if key else ';;;;;;'};Item {at};{at % 5 + 2}" for at, key in enumerate(keys)]
    text = suggested(tmp_path, "\n".join([f"{ORDER};Article;Qty", *lines]) + "\n")
    assert "4 of 4 values of Order no occur in several rows, so rows are grouped" in text
    assert "by: [order_no]" in text
    assert ("fill_down: true" in text) is merged
    assert "quantity: {col: qty}" in text
    assert mistakes(tmp_path, text) == []


def test_a_text_that_differs_within_a_record_fills_no_field_of_it(tmp_path):
    keys = [f"A-{number // 3:03}" for number in range(12)]
    lines = [f"{key};{PLACES[at // 3 % 3]};Item {at};{'road' if at % 2 else 'sea'}" for at, key in enumerate(keys)]
    text = suggested(tmp_path, "\n".join([f"{ORDER};Article;Mode", *lines]) + "\n")
    assert "# mode:" in text
    assert "CHECK: its values differ within a record" in text
    assert mistakes(tmp_path, text) == []


# ---- several files ----

LINES = "Shipment;Article;Qty\n471;Pump;2\n471;Valve;1\n472;Pump;4\n473;Pump;1\n"
PRODUCTS = "Code;Class\nPump;P1\nValve;V1\nHose;H1\n"


def files(tmp_path, **texts):
    paths = []
    for name, text in texts.items():
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def test_the_order_of_the_files_changes_nothing(tmp_path):
    paths = files(tmp_path, orders=orders(keys=["471", "472", "473"]), lines=LINES, products=PRODUCTS)
    texts = {
        write_draft(draft(observe(some, Settings()), None)) for some in (paths, paths[::-1], paths[1:] + paths[:1])
    }
    assert len(texts) == 1


def test_files_are_joined_by_their_values_and_a_code_table_is_offered(tmp_path):
    paths = files(tmp_path, orders=orders(keys=["471", "472", "473"]), lines=LINES, products=PRODUCTS)
    text = write_draft(draft(observe(paths, Settings()), None))
    assert "join: {to: orders, on: {shipment: order_no}}" in text
    assert "# lines is joined on Shipment: 3 of 3 values also occur in orders" in text
    assert "# not read: products.csv: its column Code holds 2 of 2 values of Article: to look up its values" in text
    spec = "{products: {file: lookups/products.csv, key: Code, value: Class}}"
    assert f"add lookups: {spec}, and lookup: products at Article" in text
    assert mistakes(tmp_path, text) == []


def test_one_table_of_several_files_lints_as_well(tmp_path):
    paths = files(tmp_path, orders=orders("Article", ["Pump"]), sites="Code;Class\nU;A\nB;B\n")
    text = write_draft(draft(observe(paths, Settings()), "order.create"))
    assert "# not read: sites.csv: it shares no key with orders" in text
    assert "total_packages: {expr: '$count(rows)'}" in text
    assert mistakes(tmp_path, text) == []


def test_what_the_mappings_of_the_folder_have_in_common_is_taken_over(tmp_path):
    folder = tmp_path / "mappings"
    folder.mkdir()
    for name, place in (("one", "Ulm"), ("two", "Bonn")):
        (folder / f"{name}.yaml").write_text(
            f"mapping: {name}\nsource: {{timezone: Europe/Berlin}}\nconstants: {{sender_id: ACME, city: {place}}}\n"
            "payload:\n  sender_id: {const: sender_id}\n  receiver_id: {value: CARRIER1}\n  pickup_city: {const: city}\n",
            encoding="utf-8",
        )
    (folder / "broken.yaml").write_text("mapping: [", encoding="utf-8")
    (path,) = files(tmp_path, orders=orders())
    text = write_draft(draft(observe([path], Settings()), None, values_of(folder)))
    assert "sender_id: {value: ACME}   # CHECK: no column has it; as in the other 2 mappings" in text
    assert "receiver_id: {value: CARRIER1}" in text
    assert "timezone: Europe/Berlin   # CHECK: as in the other mappings" in text
    assert "pickup_city: {const: pickup_city}" in text


# ---- sheets without a table ----

NO_TABLES = {
    "a form": "Order no:;A-1\nConsignee:;Acme GmbH\nStreet:;Prager Str. 1\nCity:;Dresden\nCountry:;Deutschland\nWeight:;12\n",
    "a form with two fields in a line": "Abholauftrag;;;\nName:;;Datum:;\n;;;\nGrund der Abholung;;;\nAbholadresse:;Ufer 3;;\nUnterschrift:;;;\n",
    "no headings": "\n".join(f"A-{number};{PLACES[number % 3]}" for number in range(6)) + "\n",
    "words without headings": "Acme;Dresden;Pump\nBeta;Ulm;Valve\nAcme;Ulm;Pump\n",
    "a letter": "Dear Sirs\nplease pick up three pallets tomorrow\nKind regards\n",
}


@pytest.mark.parametrize("text", NO_TABLES.values(), ids=NO_TABLES)
def test_a_sheet_without_a_table_is_refused(tmp_path, text):
    files(tmp_path, sheet=text)
    done = loadsheet(tmp_path, "mapping", "suggest", "sheet.csv")
    assert (done.returncode, done.stdout) == (65, "")
    assert "no row looks like headings above a table" in done.stderr


def test_headings_with_colons_are_headings(tmp_path):
    sheet = "Order no:;Delivery city:\nA-1;Ulm\nA-2;Bonn\nA-3;Kiel\nA-4;Ulm\nA-5;Bonn\n"
    assert "delivery_city: {col: delivery_city}" in suggested(tmp_path, sheet, "order.update")


def test_a_row_of_values_is_no_part_of_the_headings(tmp_path):
    sheet = "Nr;Kunde;Ort;Kunde;Ort\n" + "".join(
        f"A-{at};Acme;Ulm;Acme;{place}\n" for at, place in enumerate(["Ulm", "Ulm", "Bonn"])
    )
    assert "Acme" not in suggested(tmp_path, sheet, "order.update")


def test_a_file_of_central_europe_is_read_in_its_encoding(tmp_path):
    path = tmp_path / "zlecenia.csv"
    path.write_bytes("Nr zamówienia;Miasto załadunku;Ilość\nA-1;Łódź;2\nA-2;Gdańsk;3\n".encode("cp1250"))
    text = write_draft(draft(observe([path], Settings()), "order.update"))
    assert "encoding: [utf-8-sig, cp1250]" in text
    assert "pickup_city: {col: miasto_zaladunku}" in text


# ---- the command ----


def test_the_command_prints_a_draft_as_json(tmp_path):
    files(tmp_path, orders=orders("Weight class", ["A"]))
    done = loadsheet(tmp_path, "mapping", "suggest", "orders.csv", "--json")
    told = json.loads(done.stdout)
    columns = {column["label"]: column for column in told["columns"]}
    assert (done.returncode, told["target"]) == (0, "order.create")
    assert (columns["Order no"]["fields"], columns["Order no"]["is_key"]) == (["order_id"], True)
    assert (columns["Weight class"]["fields"], columns["Weight class"]["used"]) == ([], False)
    assert told["draft"].startswith("# A draft from orders.csv")


def test_progress_is_reported_by_columns(tmp_path):
    paths = files(tmp_path, orders=orders(), lines=LINES)
    told = []
    observe(paths, Settings(), lambda done, total: told.append((done, total)))
    assert told == [(3, 11), (11, 11)]


def test_a_column_costs_by_its_different_values(tmp_path):
    """CPU seconds of this process for 90,000 cells, most of them repeated; a reader for each cell took ten times as long."""
    (path,) = files(tmp_path, orders=orders("Weight (kg)", ["1.234,5", "12,25"], rows=10_000))
    started = time.process_time()
    write_draft(draft(observe([path], Settings()), None))
    assert time.process_time() - started < 1.2

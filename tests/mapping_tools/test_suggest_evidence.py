"""What a draft concludes from the cells: each conclusion on a small sheet that shows it, and one that does not."""

import json
from datetime import datetime
from io import BytesIO

import openpyxl
import pytest
from drafting import (
    HEAD,
    PLACES,
    drafted_columns,
    mapping_of,
    mistakes,
    orders,
    suggested,
    table,
    translated,
    unsaid,
    written,
)
from workspace import book_of

from loadsheet.errors import FileRefused
from loadsheet.mapping_tools.drafts import values_of
from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.settings import Settings

COLUMNS = {  # a column of an order sheet, and what the line of the draft has or (after a !) has not
    "a weight class is no weight": ("Weight class;A;B", "# ", "fills no field", "!required"),
    "a cancellation has a date of its own": ("Cancelled at;02.03.2026", "# ", "fills no field"),
    "a payment has a date of its own": ("Fecha de pago;02.03.2026", "# ", "fills no field"),
    "a weight class in numbers": ("Weight class;1;2;5", "# ", "fills no field"),
    "a consent is no address": ("Email consent;yes;no", "# ", "fills no field"),
    "a language that nobody knows": ("Xyzzy;a;b", "# ", "fills no field", "!required"),
    "negative weights are shown": (f"Gross weight (kg);12,5;{'140,2;' * 10}-3", "type: quantity", "unit: kg", "min: 0",
        "CHECK min: 1 value (-3) below 0"),
    "a number for unknown is shown": (f"Total weight (kg);12;9999{';140' * 20}", "max: 200",
        "CHECK max: 1 value (9999), above all others (at most 140): unknown?"),
    "limits in the unit of the mapping": (f"Total weight (lb);9999{';140' * 20}", "from_unit: lb", "max: 70"),
    "only nines are usual": ("Total weight (kg);999;9999;99", "min: 0", "!max"),
    "a unit in the cells": ("Weight;12,5 kg;7 kg", "type: quantity", "with a unit (kg)", "!CHECK the unit"),
    "pounds in the cells": ("Weight;12,5 lb;7 lb;9", "from_unit: lb"),
    "metres as mills write them": ("Length (mts);130;96", "type: quantity", "unit: cm", "from_unit: m", "!CHECK"),
    **{f"a unit in words: {label}": (f"{label};130;96", "type: quantity", f"from_unit: {unit}", "!CHECK")
       for label, unit in {"Weight_in_gms": "g", "Peso (gramos)": "g", "Peso (libras)": "lb", "Length (yds)": "yd", "Largo (metros)": "m"}.items()},
    **{f"no weight of the goods: {label}": (f"{label};2;3,5", "# ", "fills no field")
       for label in ("Tara (kg)", "Dara (KG)", "Leergewicht kg", "皮重 (kg)", "Weight (Nett kgs)")},
    "codes of kinds of packages": ("Tipo bulto;4554;5662;4554", "# ", "fills no field"),
    "a code of customs": ("Import Use;21;22;21", "# ", "fills no field"),
    "the day on which an invoice is due": ("Fecha_Venc;02.03.2026", "# ", "fills no field"),
    "a status of payment in Spanish": ("Ultimo estado financiero;pagado;pendiente", "# ", "fills no field"),
    "what the carriage costs in Chinese": ("运费金额;1300;2600", "# ", "fills no field"),
    "a unit that nobody says": ("Weight;12,5;7", "CHECK the unit kg: neither heading nor cells have one"),
    "a minus behind the number": (f"Total weight (kg){';1.250,5' * 10};3,2-", "12 of 12 values are numbers", "CHECK min: 1 value (-3.2) below 0"),
    "negative amounts of accountants": (f"Goods value{';$1,250.50' * 10};($3.20)", "type: decimal", "currency: USD", "12 of 12 values are numbers"),
    "a goods value is not below 0": ("Goods value;1250.50;99.00", "type: decimal", "min: 0"),
    "euros in the cells": ("Goods value;1.234,50 €;€ 99,00;5", "type: decimal", "currency: EUR", "!CHECK"),
    "dollars in the cells": ("Goods value;$1,234.50;$99.00", "currency: USD", "CHECK the currency: $ may also mean CAD"),
    "prices without cents": (f"Goods value;990,-{';12,50' * 11}", "CHECK the others: 990,-"),
    "two currencies in the cells": ("Goods value;5,00 €;7,00 £", "type: text", "!currency: ", "CHECK: amounts with €, £ are not of one currency"),
    "currencies by the short forms of their countries": ("Currency;TL;TL;EUR", "type: currency", "!one_of", "!CHECK"),
    "currencies in words and signs": ("Currency;TL (₺);EURO (€);Sterlin", "one_of: {TL (₺): TRY, EURO (€): EUR, Sterlin: null}",
        "FILL IN the meaning of the codes: EUR, USD"),
    "codes of currencies in identifiers": ("Reference;CAD 1001;CAD 1002", "type: text", "!currency"),
    "weekdays before dates": ("Order date;Mo, 02.03.2026;Di, 03.03.2026", "12 of 12 values read as %a, %d.%m.%Y"),
    "long dates": ("Order date;Monday, March 2, 2026;Wednesday, April 1, 2026", "read as %a, %b %d, %Y"),
    "weekdays that prove the month first": ("Order date;Mon 3/2/2026;Wed 4/1/2026", "read as %a %m/%d/%Y", "!CHECK"),
    "hours as the French write them": ("Order time;14h30;8h00;16h", "type: time", '["%Hh%M", "%Hh"]'),
    "hours with Uhr": ("Order time;14:30 Uhr;8 Uhr", '["%H:%M Uhr", "%H Uhr"]'),
    "hours of a half day": ("Order time;8am;2:30 PM", "type: time", "%I%p"),
    "hours of a half day in Spanish": ("Hora del pedido;08:00:00 a. m.;12:30:00 p.\u00a0m.", "type: time", "%I:%M:%S %p", "!CHECK"),
    "moments in Spanish": ("Fecha de pedido;23/11/2026 08:00 a. m.;23/11/2026 1:30 p.\u00a0m.", "type: datetime", "read as %d/%m/%Y %I:%M %p", "!CHECK"),
    "hours in four digits": ("Order time;1405;0830", "type: time", '["%H%M"]'),
    "four digits that are no time": ("Order time;1405;2605", "!type: time"),
    "letters on vehicles": ("Supplier country;D;A;I;SLO", "type: country"),
    "an offset after a space": ("Order date;2026-03-01 10:00:00 +0100", "type: datetime", "%Y-%m-%d %H:%M:%S %z"),
    "a time of UTC": ("Order date;2026-03-01 10:00 UTC", "12 of 12 values read as %Y-%m-%d %H:%M %z"),
    "streets that begin like a month": ("Ship address 1;Main 1;Marienweg 5", "type: text", "!CHECK"),
    "house numbers before such streets": ("Ship address 1;12 Market St;7 Junction Rd", "type: text", "!CHECK"),
    "a sum of prices": ("Subtotal;12,50;1.240,00", "type: decimal", "!fills no field"),
    "a bare total": ("Total;12,50;1.240,00", "# ", "fills no field"),
    "a number of pieces bought": ("quantity-purchased;1;3", "type: integer", "!CHECK"),
    "a status of payment": ("Financial Status;paid;pending", "# ", "fills no field"),
    "a month by its name": ("Order date;03-Mar-26;28-Feb-26", "12 of 12 values read as %d-%b-%y"),
    "several styles of dates": ("Order date;03.03.2026;2026-03-04;5.3.26 8:00", "%d.%m.%Y or %Y-%m-%d or %d.%m.%y %H:%M", "!CHECK"),
    "dates among moments": ("Delivery date;03.03.2026 8:00;04.03.2026 9:30;05.03.2026", "CHECK dates without a time, which are sent as 00:00"),
    "spaces behind the dots of dates": ("Order date;23. 11. 2026;4. 12. 2026", "12 of 12 values read as %d. %m. %Y"),
    "days that could be years": ("Order date;23-11-26;30-11-26;29-02-27", "read as %d-%m-%y", "as 29-02-27"),
    "years that could be days": ("Order date;26-11-23;26-11-30;26-12-01", "12 of 12 values read as %y-%m-%d", "!CHECK"),
    "one day that could be a year": ("Order date;23-11-26", "read as %d-%m-%y", "CHECK day and month"),
    "the share of cells that are dates": (f"Order date{';03.11.2026' * 18};04.11.2026;31.11.2026", "19 of 20 values read as %d.%m.%Y",
        "as 31.11.2026"),
    "a letter in one of many numbers": (f"Qty{';12;7' * 10};1O", "type: integer", "20 of 21 values", "CHECK the others: 1O"),
    "net values in Polish": ("Wartość netto;12,50;7,00", "type: decimal", "!fills no field"),
    "parcels in Italian": ("N. colli;12;7", "type: integer", "!fills no field"),
    "yes and no of another language": ("ADR;oui;non", "type: yesno", '"yes": [oui]', '"no": [non]'),
    "yes and no of the file's language": ("ADR;yes;no", "type: yesno", '!"yes":'),
    "eight spellings of yes and no": ("ADR;yes;no;y;n;true;false;1;0", "type: yesno", "!CHECK"),
    "nine spellings are too many": ("ADR;ja;nein;j;n;yes;no;y;x;1", "type: text"),
    "zeros and ones of a number": ("Pcs;0;1", "type: integer", "!yesno"),
    "crosses": ("ADR;x;", "type: yesno", '"yes": [x]', 'default: "no"', "CHECK their meaning"),
    "a total of the order": ("Order total;12,50;1.240,00", "type: decimal"),
    "a few pieces that begin with another number than a row": ("Qty;2;3;1;2;1;2;1;2;3;1;2;3", "type: integer", "!fills no field"),
    "a number of the row from another one on": ("Piece;7;8;9;10;11;12;13;14;15;16;17;18", "# ", "fills no field"),
    "a number of the row": ("Piece;1;2;3;4;5;6;7;8;9;10;11;12", "# ", "fills no field"),
    "a supplier may be the shipper": ("Supplier;Acme GmbH;Beta AG", "type: text", "!fills no field"),
    "crosses for blank": ("Customer email;XXXXXXXX", "CHECK whether XXXXXXXX means blank: blank: [XXXXXXXX]"),
    "a sign of a currency in the heading": ("Value £;12.50;7.00", "type: decimal", "!CHECK"),
    "a dash for blank": ("Remarks;-;fragile;-", 'CHECK whether - means blank: blank: ["-"]'),
    "half of the weights are words": ("Weight (Kg);12;see ASN-93", "type: quantity", "CHECK the others: see ASN-93"),
    "most of the weights are words": ("Weight (Kg);12;see ASN-93;see ASN-94", "type: text"),
    "lost zeros": ("Bill to zip;1067;50667;80331", "CHECK whether 1067 lost zeros, others have 5 digits: pad_left: {to: 5}"),
    "a sign for a number": ("# Pallets;1;3", "type: integer", "!fills no field"),
    "the month first and a short year": ("Order date;Nov-20-26;Dec-02-26", "12 of 12 values read as %b-%d-%y"),
    "zones by their names": ("Order date;Mar 1, 2026 12:04:11 AM PST", "12 of 12 values read as %b %d, %Y %I:%M:%S %p %z"),
    "seconds since 1970": ("Order date;1795680300;1795734900", "type: datetime", "values are seconds since 1970"),
    "numbers as long as seconds since 1970": ("Customer code;1795680300", "!seconds", "!datetime"),
    "what may be one thousand": ("Pcs;12;250;1.000", "type: integer", "whether 1.000 means thousands: refused as ambiguous", "!fills no field"),
    "what may be thousands of kilograms": ("Weight kg;12;250;1.000", "whether 1.000 means thousands: read as a small number"),
    "three decimals everywhere, as SAP writes them": ("Pcs;12.000;250.000;1.000", "type: decimal", "!thousands"),
    "three decimals among amounts of two": ("Net value;12;250;99;1.000;7.5", "type: decimal", "!thousands"),
    "countries in an address": ("Delivery address/Country;Germany;Austria", "type: country", "!one_of", "!CHECK"),
    "a hyphen before the time": ("Date de création;02/03/2026 - 09:30:00", "12 of 12 values read as %d/%m/%Y - %H:%M:%S"),
    **{f"a price, not a weight: {label}": (f"{label};12,50;7,00;1.240,00", "type: decimal", "!unit: kg")
       for label in ("Preis brutto", "Verkaufspreis (brutto)", "Gross price", "Cena brutto", "Price per kg", "Gross amount", "Wartość brutto")},
    "a gross weight": ("Gewicht brutto;12,50;7,00;1.240,00", "type: quantity", "unit: kg"),
    "states that could be countries": ("Ship to state;OR;MA;FL", "type: text", "!countries"),
}  # fmt: skip


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_is_read_as_its_cells_show(tmp_path, case):
    column, *said = COLUMNS[case]
    text = suggested(tmp_path, orders(column, keys=max(12, column.count(";"))))
    assert unsaid(drafted_columns(text)[column.partition(";")[0]], said) == []
    assert mistakes(tmp_path, text) == []


def test_the_format_of_amounts_gives_their_currency(tmp_path):
    book = openpyxl.Workbook()
    for row in [["Job", "Delivery town", "Goods value"], ["J1", "Hull", 12.5], ["J2", "York", 7], ["J3", "Hull", 9.25]]:
        book.active.append(row)
    for cell in book.active["C"][1:]:
        cell.number_format = "[$PLN] #,##0.00"
    book.save(tmp_path / "jobs.xlsx")
    text = suggested(tmp_path, tmp_path / "jobs.xlsx", "order.create")
    assert "type: decimal, required: true, currency: PLN, min: 0}" in drafted_columns(text)["Goods value"]
    assert "  currency: {value: PLN}" in text


def test_a_report_with_a_table_for_each_group_is_one_table(tmp_path):
    """Its title is no heading, and nothing in it deletes orders."""
    groups = [
        f"Customer: {name};;;\nOrder;Town;Zip;Kg\n" + "".join(f"{name}-{at};Ulm;89073;{at}.5\n" for at in range(4))
        for name in ("Acme", "Beta", "Carla")
    ]
    sheet = "Deliveries by customer;;;\n\n" + "".join(f"{group};;Subtotal;8.0\n\n" for group in groups)
    text = suggested(tmp_path, sheet)
    assert "\ntarget: order.update" in text
    assert "# not read: the rows that begin with Customer:, titles of groups\n" in text
    assert mistakes(tmp_path, text) == []
    documents = translated(mapping_of(tmp_path, text, "order.update"), written(tmp_path, sheet))
    assert sorted(document.key for document in documents) == sorted(
        f"{name}-{at}" for name in ("Acme", "Beta", "Carla") for at in range(4)
    )
    assert [document for document in documents if document.problems] == []


@pytest.mark.parametrize(
    ("heading", "says"), [("Order no", "target: null   # FILL IN such as order.delete; "), ("Things", "")]
)
def test_a_list_of_numbers_deletes_nothing_unless_a_person_says_so(tmp_path, heading, says):
    try:
        text = suggested(tmp_path, f"{heading}\nA1\nA2\nB7\n")
    except FileRefused:
        text = ""
    assert says in text
    assert "target: order.delete" not in text


def test_a_window_in_one_cell_gives_both_its_ends(tmp_path):
    sheet = orders("Pickup time;08:00 - 12:00;7:30-15:00 Uhr;8 bis 12 Uhr;von 06:00 bis 14:00", keys=4)
    text = suggested(tmp_path, sheet)
    assert mistakes(tmp_path, text) == []
    assert "example: 08:00 - 12:00}" in drafted_columns(text)["Pickup time"].replace('"', "")
    documents = translated(mapping_of(tmp_path, text), written(tmp_path, sheet))
    records = [json.loads(document.payload) for document in documents]
    windows = [f"{one['pickup_startdatetime'][11:16]}-{one['pickup_enddatetime'][11:16]}" for one in records]
    assert windows == ["08:00-12:00", "07:30-15:00", "08:00-12:00", "06:00-14:00"]


UNITS = {  # an amount and the columns beside it, and what the line of the amount has or (after a !) has not
    "to its right": (["Gross weight;1.250,5;2", "GEWEI;KG;TO"], "unit_column: gewei", "!CHECK the unit"),
    "to its left": (["Weight unit;KG;LB", "Gross weight;1.250,5;2"], "unit_column: weight_unit"),
    "nearest": (["Eh;KG", "Gross weight;2;3", "UOM;KG;LB"], "unit_column: uom"),
    "with the heading of its field": (["Gross weight;2;3", "Gross weight UOM;KG;lb"], "unit_column: gross_weight_uom"),
    "of volumes": (["Gross weight;1.250,5;2", "UOM;m3;l"], "!unit_column", "CHECK the unit kg"),
    "unknown": (["Gross weight;1.250,5;2", "UOM;KG;pallet"], "!unit_column"),
    "said in the heading": (["Gross weight (kg);1.250,5;2", "UOM;KG;LB"], "!unit_column"),
    "called something else": (["Gross weight;1.250,5;2", "City of unloading;KG;LB"], "!unit_column"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNITS)
def test_an_amount_takes_its_unit_from_the_column_beside_it(tmp_path, case):
    columns, *said = UNITS[case]
    text = suggested(tmp_path, orders(*columns))
    line = next(line for label, line in drafted_columns(text).items() if label.startswith("Gross weight"))
    assert unsaid(line, said) == []
    assert ("gross_weight_uom: {value: KG}\n" in text) or "unit_column" not in line
    assert mistakes(tmp_path, text) == []


TRACKED = [
    ["Shipment", "Mode", "TZ", "Picked up", "Departed", "ETA", "Arrived", "Delivered"],
    ["S-1", "ROAD", "Europe/Berlin", datetime(2026, 3, 28, 8), datetime(2026, 3, 29, 2, 30), "TBC", None, None],
    ["S-2", "SEA", "America/New_York", "2026-03-27 08:00", datetime(2026, 3, 27, 12), datetime(2026, 4, 9), None, "n/a"],
    ["S-3", "SEA", None, "2026-03-27 08:00Z", "x", None, datetime(2026, 4, 10), datetime(2026, 4, 11, 10)],
]  # fmt: skip
SHIPMENTS = """\
Auftrag;Ladedatum;Ladezeit;Liefertermin;Empfänger;PLZ/Ort;Straße;Land
00471;24.10.2026;07:30;25.10.2026 02:30;Möbel Höffner;01067 Dresden;Prager Str. 1;Deutschland
00472;26.10.2026;8:15;27.10.2026 14:00;IKEA Wien;1110 Wien;Sverigestr. 1a;Österreich
00473;27.10.2026;06:00;28.10.2026 24:30;Interio AG;8952 Schlieren;Zürcherstr. 5;Schweiz
00474;27.10.2026;06:00;28.10.2026 24:30;Interio AG;8952 Schlieren;Zürcherstr. 5;Schweiz
"""
CONTACTS = """\
Auftrag;Abholung;Lieferung;Empfänger;Ort;Land;Ansprechpartner;Telefon;Frachtzahler;Verpackung;Artikel;Gewicht (kg);Innenverpackung Art;\
Anzahl innen;Gewicht innen (kg)
A-1;02.03.2026 08:00;03.03.2026 10:00;Muster AG;Dresden;DE;Frau Kern;+49 351 1;Muster AG;EUP;Kabel;120,5;Beutel;4;2,5
A-2;02.03.2026 09:00;03.03.2026 12:00;Probe KG;Leipzig;DE;;;;KRT;Rohr;12;;;
"""
SIDES = table("Order no;Origin;Destination", *["Ulm;Acme GmbH", "Bonn;Beta AG"] * 3)
SIDES_CM = ["Length (cm);120;80", "Width (cm);80;60", "Height (cm);100;90"]
LINES = "Shipment;Article;Qty\n471;Pump;2\n471;Valve;1\n472;Pump;4\n473;Pump;1\n"
LINES_BOOK = BytesIO()
book_of({"Lines": [line.split(";") for line in LINES.splitlines()]}).save(LINES_BOOK)
FILES = {
    "orders.csv": orders(keys=["471", "472", "473"]),
    "lines.csv": LINES,
    "products.csv": "Code;Class\nPump;P1\nValve;V1\nHose;H1\n",
}
ONE_NUMBER = "Order no;City;Pickup date;Delivery date\nA-1;Ulm;03/04/2026;04/16/2026\nA-2;Bonn;04/04/2026;04/17/2026\n"
LOST_ZEROS = {
    "orders.csv": "OrderID;Consignee;Pickup\n00471;Anna;2026-10-25 00:30\n00472;Bob;2026-10-24 10:00\n00473;Cy;2026-10-24 11:00\n",
    "packages.csv": "OrderID;Type;Item\n471;EUP;a\n472;EUP;b\n472;KRT;c\n473;EUP;d\n",
}
NOTATIONS = orders("Total weight (kg);1.240,5", "Total volume (m3);7,25", "Goods value;1,234.50")
TWICE = "Order;Delivery date;Pcs;Weight (kg);Consignee;Delivery date\n" + "1;01.03.2026;2;3,5;Acme;02.03.2026\n" * 2

PACKING = "Description;Packages;Type;Gross weight (kg)\nPumps;4;Pallet;812.5\nBolts;2;Crate;240\nSignature: ___;;;\n"
BIDS = "RFQ Lane;SCAC;Linehaul Rate;All-In Rate (USD);Transit Days;Bid received\n" + "".join(
    f"L{at};ABCD;${900 + at}.00;${1200 + at}.50;{at % 4};2026-03-0{at + 1} 08:00\n" for at in range(8)
)
EVENTS = "EventID;ShipmentRef;EventType;EventTime\n" + "".join(
    f"{9000 + at};O-{at};{'DELAYED' if at % 2 else 'DELIVERED'};2026-03-0{at + 1}T10:00:00Z\n" for at in range(6)
)
EVENTS_OF_ZONES = "Shipment ID;Status Code;Event Date;TZ;City\n" + "".join(
    f"S-{at};{'AF' if at % 2 else 'X3'};2026-03-0{at + 1} 10:05;{'CT' if at % 2 else 'ET'};Reno\n" for at in range(6)
)
TIMED = "Order no;Abgeholt am;Abgeholt um;Zugestellt am;Zugestellt um\n" + "".join(
    f"A-{day};0{day}.11.2026;07:15;0{day + 1}.11.2026;14:30\n" for day in range(1, 6)
)
ROUTES = """\
Route;Order 1;Postcode 1;Weight 1 (kg);Order 2;Postcode 2;Weight 2 (kg)
R1;SO-1;LS1 4DY;12,5;SO-2;YO1 9TL;3
R2;SO-3;LS1 4DY;7;;;
R3;SO-4;YO1 9TL;9;SO-5;LS1 4DY;2
"""
STATUS = """\
SCAC,PRO Number,Shipper Ref,Status Code,Status Description,Event Date,Event Time,TZ
ABCD,123456789,SO-1001,AF,Departed Pickup,3/2/2026,1405,ET
ABCD,123456789,SO-1001,D1,Delivered,3/14/2026,1645,CT
ABCD,123456790,SO-1002,AF,Departed Pickup,3/2/2026,0930,ET
"""
PATHS = "Order no;Order Lines/Product;Order Lines/Quantity;Order Lines/Weight\nA-1;Desk;2;12.5\n;Lamp;1;3\nA-2;Desk;3;9\n;Lamp;1;2\n"
TURKISH = "Order no;Consignee;City;Sipariş\nA-1;Güneş Ltd. Şti.;İstanbul;ğ\nA-2;Çağ;Beşiktaş;\n"


def noted(*rows):
    """A table whose last row may be a note."""
    return "\n".join(["Order;Delivery town;Packages", *rows, ""])


ONE_IN_FIVE = table("Order no;Origin", "Beta AG", "Gamma", "Delta", "Omega", "Sigma")
WIDE = (
    "Order Name,Email,Quantity,Item name,Currency,Subtotal,Taxes,Shipping Method,Discount Code,Payment Reference,Notes"
    + "".join(
        f",{side} {word}"
        for side in ("Billing", "Shipping")
        for word in ("Name", "Street", "City", "Zip", "Country", "Phone")
    )
)
WIDE += f"\n#1001,a@example.com,3,Mug{',' * 19}" * 3
STARRED = "".join(f"{'*' if number % 3 == 0 else ''};A-{number};Ulm;12,5\n" for number in range(12))
DRAFTS = {  # a sheet, the operation that is asked for, and what the draft has or (after a !) has not
    "times are no companies": (SHIPMENTS, "order.create", " pickup_company: {const: pickup_company}   # FILL IN under constants\n",
        " delivery_company: {col: empfanger}\n", " delivery_startdatetime: {col: liefertermin}\n",
        "CHECK the cells that are not dates, such as 28.10.2026 24:30", " delivery_city: {col: plz_ort_city}\n",
        " pickup_startdatetime: {expr: 'ladedatum + ladezeit'}   # CHECK", """ pickup_enddatetime: {expr: 'ladedatum + ladezeit + t"PT4H"'}"""),
    "milestones with dates are sets of events": (TRACKED, None, "target: order.status", " status_code: {col: event}   # CHECK",
        " status_datetime: {col: at}\n", "!  origin:", "!  destination:",
        " sets: {Picked up: PICKED_UP, Departed: DEPARTED, Arrived: ARRIVED, Delivered: DELIVERED}   # CHECK"),
    "contacts, payers and inner packs are entries of lists": (CONTACTS, "order.create", "party_type: {value: Freight Payer}\n",
        "party_company: {col: frachtzahler}\n", "party_type: {value: Consignee}\n", "party_name: {col: ansprechpartner}\n",
        "contact_number: {col: telefon}\n", " quantity: {col: anzahl_innen}\n", " weight: {col: gewicht_innen_kg}\n", "inner_cargos:",
        "involved_parties:"),
    "a heading that stands twice": (TWICE, "order.update", "# CHECK: several columns have the heading Delivery date; their order tells them apart",
        "CHECK: columns B and F have this heading", " delivery_company: {col: consignee}\n"),
    "a place that stands twice": (table("Order no;City;City", "Ulm;Bonn", "Kiel;Rom"), "order.update", " pickup_city: {col: city}\n",
        " delivery_city: {col: city_2}\n", "CHECK: columns B and C have this heading; taken for the delivery"),
    "a number that stands twice": (table("Order no;Pcs;Pcs", "2;3", "3;4"), "order.update", "CHECK: columns B and C have this heading\n"),
    "what one column proves of day and month holds for others": (ONE_NUMBER, None, '"%m/%d/%Y"', "!CHECK day and month"),
    "a column in another notation than the file": (NOTATIONS, None, "  locale: de_DE   # 24 of 36 numbers", "goods_value:",
        "type: decimal, required: true, locale: en_GB"),
    "a heading of one side by its cells": (SIDES, "order.update", " pickup_city: {col: origin}   # CHECK: the heading does not mention city",
        " delivery_company: {col: destination}\n"),
    "parts of two addresses": (table("Order no;Order city;Customer street", "Ulm;Kade 1", "Bonn;Kade 2", "Wien;Kade 3"), "order.update",
        "CHECK: it is the customer's, and other parts of the address are not"),
    "dates of eight digits": (table("Order no;Pickup date;Delivery date", "01122026;05122026", "30112026;04122026"), "order.update",
        '  dates: ["%d%m%Y"]', "2 of 2 values read as %d%m%Y", "pickup_startdatetime: {expr: '$at(pickup_date, ", "delivery_startdatetime: {expr: '$at(delivery_date, "),
    "dates of eight digits with the month first": (table("Order no;Pickup date", "11302026", "12012026"), "order.update", '  dates: ["%m%d%Y"]', "!CHECK day"),
    "dates of eight digits that prove nothing": (table("Order no;Pickup date", "01122026", "02122026"), "order.update", '  dates: ["%d%m%Y"]', "CHECK day and month"),
    "numbers of a workbook that are dates": ([["Order no", "City", "Pickup date"], ["A-1", "Ulm", 20261201], ["A-2", "Bonn", 20261130]], "order.update",
        '  dates: ["%Y%m%d"]', "{label: Pickup date, type: date, required: true}"),
    "prices without cents": (table("Order no;City;Goods value", "Ulm;€ 1.250,-", "Bonn;900,50 €", "Kiel;€ 80,--"), "order.update",
        "type: decimal, required: true, currency: EUR", "3 of 3 values are numbers", "goods_value: {col: goods_value}"),
    "companies in two lines": ([["Order no", "Consignee", "City"], ["A-1", "Acme Ltd\nStores", "Ulm"], ["A-2", "Beta AG\n2nd floor", "Bonn"]], "order.update",
        "delivery_company: {col: consignee}"),
    "eight digits of an identifier": (table("Order no;City;Customer reference", "Ulm;30112026", "Bonn;01122026"), "order.update", "!dates:"),
    "a whole address of the customer beside another one": (table("Order no;Pickup city;Customer city;Customer street", "Ulm;Bonn;Kade 1", "Kiel;Rom;Kade 2"),
        "order.update", "delivery_address1: {col: customer_street}\n", "!it is the customer's"),
    "places of a sheet that only collects": (
        table("Auftrag;Anfallstelle;Straße;PLZ;Ort;Anzahl;Abholung ab;Menge (t)", "Klinik;Weg 1;18059;Rostock;1;02.03.2026 07:00;2,5", "Werft;Allee 9;18119;Rostock;2;03.03.2026 07:00;8,0"),
        "order.create", "delivery_city: {col: ort}   # CHECK: the headings only mention the pickup\n", " total_weight: {col: menge_t, round: 3}\n", " total_packages: {col: anzahl}"),
    "a quantity with a unit is what it measures": (
        table("Order no;City;Product;Qty (m3);Menge t", "Ulm;Oil;2.5;2", "Bonn;Rape;3;2.5"), "order.create", " volume: {col: qty_m3, round: 3}\n", " weight: {col: menge_t, round: 3}\n", "! quantity:"),
    "a number that is no key although its heading says so": (
        table("Ticket;Load no;Site;Time on site;Pour date", "1;A;07:30;02/03/2026", "2;A;08:00;13/03/2026", "1;B;09:00;14/03/2026").replace("A-", "T-"), "order.update",
        "order_id: {col: load_no}   # CHECK: rows with the same value differ in all others of the record\n"),
    "goods of a consignor": (
        table("Order,Consignor,Consignor address,Consignor town,Consignee,Consignee town,Load date".replace(",", ";"), "Akzo;Lane 1;Felling;Jotun;Hull;02.03.2026", "Brenntag;Mill 2;York;Mondi;Leeds;03.03.2026"),
        "order.update", " pickup_company: {col: consignor}\n", " pickup_address1: {col: consignor_address}\n", " pickup_city: {col: consignor_town}\n", " delivery_city: {col: consignee_town}\n"),
    "carriers of a load and what they hold": (
        table("Auftrag;Ort;Bezeichnung;LT-Typ;Anz. LT;Menge/LT;Gesamtmenge;Bruttogewicht/LT", "Ulm;Pumpe;GLT;12;20;240;14,2", "Bonn;Ventil;KLT;2;400;800;310,0"), "order.create",
        " package_type: {col: lt_typ}\n", " total_packages: {col: anz_lt}\n", "# menge_lt:", "{label: Bruttogewicht/LT, type: quantity, required: true, unit: kg, min: 0}"),
    "averages and names of loads": (
        table("Load;Shipment name;From;To;Ø Gewicht kg", "FBA 03/02;Essen;Milano;18000", "FBA 03/13;Berlin;Paris;9000"), "order.update", "!total_weight: {col", "!company: {col", "# average_gewicht_kg:"),
    "new values beside the old ones": (
        table("Order no;Old delivery date;New delivery date;Old qty;New qty", "03.03.2026;05.03.2026;10;8", "04.03.2026;16.03.2026;5;4"), "order.update",
        " delivery_startdatetime: {expr: '$at(new_delivery_date, ", " total_packages: {col: new_qty}", "# old_delivery_date:", "# old_qty:"),
    "a unit of weight in its own column of SAP": (
        table("Order;Ship-to City;Net Wt;Gross Wt;Wt Unit;Req Del Dt;GI Date", "Reno;100;110;LB;2026-03-05;2026-03-02", "Tampa;20;22;LB;2026-03-17;2026-03-13"), "order.update",
        "unit_column: wt_unit", " delivery_startdatetime: {expr: '$at(req_del_dt, ", " pickup_startdatetime: {expr: '$at(gi_date, ", "!CHECK the unit"),
    "names with whole addresses": (
        table("Auftrag;Ladestelle;Paletten", "Müller GmbH, Weg 1, 70173 Stuttgart;2", "Kern GmbH, Hof 5, 50667 Köln;5"), "order.update",
        "pickup_company: {col: ladestelle}   # CHECK: it may be the name with the whole address"),
    "a table over two rows with loads and what they hold": (
        [["Order", "Load", None, None, "Unload", None, None], [None, "Date", "Company", "Town", "Date", "Company", "Town"],
         ["T1", datetime(2026, 3, 2, 8), "Acme", "Ulm", datetime(2026, 3, 3, 10), "Beta", "Lyon"], ["T2", datetime(2026, 3, 3, 8), "Acme", "Bonn", datetime(2026, 3, 4, 10), "Gama", "Wien"]],
        "order.update", " pickup_company: {col: load_company}", " pickup_city: {col: load_town}", " delivery_city: {col: unload_town}"),
    "tonnes of a contract, and the price of the transport": (
        table("Auftrag;Ware;Menge to;Cena dopravy;Ort", "Weizen;27,5;9500;Brake", "Raps;26,1;7200;Ulm"), "order.create",
        " weight: {col: menge_to, round: 3}\n", "from_unit: t,", "!cena_dopravy *", "! quantity:"),
    "days of orders and deliveries in short French": (
        table("N° Cde;Date cde;Date livr.;Ville", "28/02/2026;03/03/2026;Évry", "13/02/2026;16/03/2026;Lille"), "order.create",
        " order_id: {col: n_cde}\n", " createdon: {col: date_cde}", " delivery_startdatetime: {expr: '$at(date_livr, t\"PT8H\")'}   # CHECK the time"),
    "the sides of each package of a row": (
        table("Ordernr;Kolli;Mått (cm);Vikt kg;Ort", "2;120x80x100;340;Lund", "4;80x60x110;500;Malmö", "1;60x40x35;12;Ystad"), "order.create",
        " total_volume: {expr: '$sum([r.volume * r.kolli for r in rows])', round: 4}   # CHECK: the volume counts as of one piece and is multiplied by Kolli",
        " total_weight: {expr: '$sum([r.vikt_kg for r in rows])', round: 3}\n"),
    "quantities in units of weight and volume": (
        table("Bestellung;Artikel;Menge;ME;Paletten;Ort", "Mehl;400;KG;6;Ulm", "Öl;120;L;1;Bonn", "Salz;50;ST;1;Kiel"), "order.create",
        " quantity: {col: menge}   # CHECK: ME has units of weight or volume: it may be no number of pieces\n", " total_packages: {col: paletten}\n"),
    "places of those to whom goods are sent": (
        table("Sendung;Name;Ort;Versanddatum", "Max;Dresden;02.03.2026", "Eva;Graz;03.03.2026"), "order.update", " delivery_city: {col: ort}\n"),
    "a province behind the place of the pickup": (
        table("Pedido;Población carga;Provincia;Cliente;Dirección;CP;Población", "El Ejido;Almería;Rewe;Eifeltor 1;50997;Köln", "Níjar;Almería;Tesco;Imperial Way 2;28001;Reading"),
        "order.update", "delivery_province: {col: provincia}   # CHECK: it stands behind Población carga, which is not of the delivery\n",
        " delivery_address1: {col: direccion}\n"),
    "addresses from which goods return": (
        table("RMA;Original order;Return from;Address;Zip;City;Collect on", "A-9;Ann Berg;Storgatan 1;11122;Stockholm;2026-03-09", "A-8;Bo Ek;Ringvägen 7;41101;Göteborg;2026-03-09"),
        "order.create", " order_id: {col: rma}\n", "delivery_city: {col: city}   # CHECK: it stands behind Return from",
        "delivery_address1: {col: address}   # CHECK: it stands behind Return from", "value: {col: original_order}"),
    "when bids are due is no date of the delivery": (
        "Lane ID,Origin city,Dest city,Bid due date\nL1,Dallas,Atlanta,2026-03-20\nL2,Laredo,Detroit,2026-03-21\n", "tender.create", "!delivery_enddatetime", "# bid_due_date:"),
    "a window of time right beside the only day of the delivery": (
        table("Auftrag;Kunde;Ort;Liefertermin;Zeitfenster;Nachnahme EUR", "Abt;Ulm;18.03.2026;08-12 Uhr;5,00", "Ott;Bonn;19.03.2026;12-16 Uhr;7,50"), "order.create",
        " delivery_startdatetime: {expr: 'liefertermin + zeitfenster_early'}", " delivery_enddatetime: {expr: 'liefertermin + zeitfenster_late'}", "!has the last one"),
    "hours of the delivery in German": (
        table("Lieferschein;Ort;Anliefertermin;Anlieferzeit von;Anlieferzeit bis", "Ulm;16.03.2026;06:00;08:00", "Bonn;16.03.2026;08:00;10:00"), "order.update",
        " delivery_startdatetime: {expr: 'anliefertermin + anlieferzeit_von'}", " delivery_enddatetime: {expr: 'anliefertermin + anlieferzeit_bis'}"),
    "bundles and pieces": (
        table("Auftrag;Bunde;Stück;Länge mm;Gewicht kg;Ort", "2;18;12000;480;Essen", "1;9;12000;460;Hamm", "4;40;6000;190;Hagen"), "order.create",
        " total_packages: {col: bunde}\n"),
    "the only date of a new order": (table("Order no;Date;City", "02.03.2026;Ulm", "03.03.2026;Bonn"), "order.create",
        "pickup_startdatetime: {expr: '$at(date, t\"PT8H\")'}   # CHECK: the heading does not say which date; CHECK the time"),
    "a weak guess": (orders("Wt zzyx;12,5;7"), None, '# CHECK: what is "zzyx" in the heading?', " total_weight: "),
    "a new order": (orders(), None, "\ntarget: order.create   # 8 fields have a column, 5 of them for addresses; Order no identifies the records",
        " total_packages: {expr: '$count(rows)'}   # CHECK: each line counts as one package\n"),
    "three fields of an address are a new order": (table("Order no;Consignee;Street;City", "Acme GmbH;Kade 1;Ulm", "Beta AG;Kade 2;Bonn"), None,
        "\ntarget: order.create   # 4 fields have a column, 3 of them for addresses"),
    "two fields of an address are a change": (table("Order no;City;Postcode", "Dresden;01067", "Köln;50667"), None, "\ntarget: order.update "),
    "eight fields are a new order": (
        table("Order no;City;Goods value;Currency;Mode;Total packages;Volume (m3);Weight (kg)", "Ulm;12.50;EUR;ROAD;2;1.5;12", "Bonn;9.90;EUR;SEA;3;2.5;13"), None,
        "\ntarget: order.create   # 8 fields have a column, 1 of them for addresses"),
    "seven fields are a change": (
        table("Order no;City;Goods value;Currency;Mode;Total packages;Volume (m3)", "Ulm;12.50;EUR;ROAD;2;1.5", "Bonn;9.90;EUR;SEA;3;2.5"), None,
        "\ntarget: order.update   # Order no identifies the records; only 7 fields have a column, as in changes"),
    "a matrix of lanes": ("From;Köln;Lyon;Wien\nPlant 1;3;;2\nPlant 2;;4;-\nPlant 3;2;4;5\n", None,
        "\ntarget: null   # FILL IN such as order.update; ", "only 1 field has a column, as in changes"),
    "a change": (table("Order no;Status", "late", "late"), None, "\ntarget: order.update   # ", "only 2 fields have a column, as in changes"),
    "an event": ("Order no;Event;Event time\nA-1;BKD;02.03.2026 08:00\nA-1;DLV;03.03.2026 08:00\n", None, "\ntarget: order.status   # ",
        "each row has an event and its time"),
    "near-unique values where no heading names the key": (orders().replace("Order no", "Qwx", 1), None,
        "order_id: {col: qwx}   # CHECK: no heading names the order, but the values identify rows"),
    "joined files and a code table": (FILES, None, "join: {to: orders, on: {shipment: order_no}}",
        "# lines is joined on Shipment: 3 of 3 values also occur in orders",
        "# not read: products.csv: its column Code holds 2 of 2 values of Article: to look up its values",
        "add lookups: {products: {file: lookups/products.csv, key: Code, value: Class}}, and lookup: products at Article"),
    "invoices of many lines where no heading names the order": (
        "InvoiceNo;StockCode;Quantity;InvoiceDate;UnitPrice;CustomerID;Country\n" + "".join(
            f"{number};{line};{line % 7};2026-03-0{number % 9 + 1};1.25;{number + 5000};{('France', 'Spain')[number % 2]}\n" for number in range(536365, 536385) for line in range(84000, 84020)), "order.create",
        "# 20 of 20 values of InvoiceNo occur in several rows, so rows are grouped", "group:\n  by: [invoice_no]",
        "order_id: {col: invoice_no}   # CHECK: no heading names the order, but the values identify rows"),
    "a number of rows is no key beside a reference": (
        "ID;PO / SO #;Country;Scheduled Delivery Date;Line Item Value\n" + "".join(
            f"{at + 1};SCMS-{at // 2 + 100};{('France', 'Spain', 'Italy')[at // 2 % 3]};{at // 2 % 20 + 10}-Mar-26;{at}.50\n" for at in range(60)), "order.create",
        "group:\n  by: [po_so]", "order_id: {col: po_so}   # CHECK: no heading names the order", "  # id:  "),
    "postal codes with decimals": (
        orders("Postal code;11057.0;11058.0"), None,
        "CHECK 11057.0: a program added decimals; to send it without: $replace(postal_code, r'[.]0+$', '')"),
    "the freight is no value of the goods": (
        orders("price;5.50;7.25", "freight_value;1.10;2.40"), "order.create", "goods_value: {value: 0}   # CHECK: no column has it"),
    "a file with a row for each order comes with each drop": (
        {"orders.csv": "Order no;Address id;Weight (kg)\nA-1;K7;2\nA-2;K8;3\nA-3;K9;5\n", "addresses.csv": "Address id;City\nK8;Ulm\nK9;Kiel\nK7;Bonn\n"}, "order.update",
        "# not read: addresses.csv: its column Address id holds 3 of 3 values of Address id: to look up its values, add the file under source.companions, add the table addresses",
        " with its columns, lookups: {addresses: {table: addresses, key: address_id}}, and lookup: addresses at Address id"),
    "a list of some of the orders is not the table of the orders": (
        {"orders.csv": orders("Product Name;Pump;Valve", keys=[f"A-{at % 6}" for at in range(12)]), "returns.csv": "Returned,Order no\nYes,A-1\nYes,A-4\n"}, None,
        "    rows: {}", "group:\n  by: [order_no]", " delivery_city: {col: city}\n", " item_name: {col: product_name}\n",
        "# not read: returns.csv: it shares Order no with orders, but none of its columns fills a field"),
    "an order number in digits, but for some": (
        "Número de pedido;Ciudad\n" + "".join(f"{at};Lima\n" for at in range(100, 140)) + "TR1000;Lima\n", "order.update",
        "{label: Número de pedido, type: text, required: true, key: true}   # 41 values, 41 different\n"),
    "a reference that is blank is no key": (
        "Carta porte;Referencia;Destino\n1A;;Lima\n2A;;Cuzco\n3A;;Lima\n", "order.update", " order_id: {col: carta_porte}"),
    "days of shipping in Spanish": (table("Pedido;Fecha de envío;Destino", "02.03.2026;Lima", "03.03.2026;Cuzco"), "order.update",
        " pickup_startdatetime: {expr: '$at(fecha_de_envio, t\"PT8H\")'}"),
    "when a load is available, not when it was modified": (
        table("Load id;Origin;Earliest availability;Latest availability;Modified date", *["Ulm;02.03.2026 08:00;02.03.2026 12:00;01.03.2026 07:00"] * 2),
        "order.update", " pickup_startdatetime: {col: earliest_availability}", " pickup_enddatetime: {col: latest_availability}"),
    "two letters that are swapped": (table("Pedido;Cuidad", "Lima", "Cuzco"), "order.update", " delivery_city: {col: cuidad}"),
    "remarks that are mostly numbers": (
        "Order no;Item;Remarks\n" + "".join(f"A{at};Pump;{at}\n" for at in range(30)) + "A99;Pump;JYP-1\n", "order.update", "{label: Remarks, type: text"),
    "dashes for no value": (
        "Order no;Waybill;City\n1;A7;Ulm\n2;----;Bonn\n----;A9;Kiel\n----;B1;Ulm\n", "order.update", '  blank: ["----"]   # CHECK: these cells count as blank',
        "2 of 4 cells blank"),
    "a state that is no province": (table("Numero de orden;Provincia o estado;Estado del envio", "Tucuman;Listo", "Salta;Listo"), "order.update",
        " delivery_province: {col: provincia_o_estado}\n"),
    "how a column is to be filled in brackets": (
        table("numero_orden(opcional);localidad_destino(obligatorio solo si no hay sucursal)", "Rosario", "Salta"), "order.update",
        " delivery_city: {col: localidad_destino_obligatorio_solo_si_no_hay_sucursal}\n"),
    "the town that is filled more": (table("Order no;Localidad;Ciudad", ";Rosario", "Belgrano;Salta"), "order.update",
        " delivery_city: {col: ciudad}", "CHECK: Localidad could fill it as well"),
    "the first line of an address before the whole of it": (
        table("Order no;Ship to Street;Ship to Address1", "Way 1, Floor 2;Way 1", "Way 2, Floor 3;Way 2"), "order.update",
        " delivery_address1: {col: ship_to_address_1}"),
    "a name beside a last name": (table("Order no;Nombre;Apellido;Ciudad", "Ana;Paz;Salta", "Eva;Sosa;Jujuy"), "order.update",
        " delivery_company: {col: nombre}   # CHECK: it may be the first name only: Apellido has the last one"),
    "weights that are about those of the line": (
        table("Order no;Item;Quantity;Weight (kg);City", "Pump;2;11;Ulm", "Pump;8;39;Ulm", "Valve;3;3;Bonn", "Valve;30;28.5;Bonn", "Seal;10;1;Kiel"),
        "order.create", " total_weight: {expr: '$sum([r.weight_kg for r in rows])', round: 3}\n"),
    "weights that are about those of a piece": (
        table("Order no;Item;Quantity;Weight (kg);City", "Pump;2;5.5;Ulm", "Pump;8;5.4;Ulm", "Valve;3;1;Bonn", "Valve;30;0.9;Bonn", "Seal;10;1;Kiel"),
        "order.create", (" total_weight: {expr: '$sum([r.weight_kg * r.quantity for r in rows])', round: 3}"
        "   # CHECK: Weight (kg) counts as of one piece and is multiplied by Quantity; is it of the whole line?\n")),
    "weights of lines whose article number is always the same": (
        table("Order no;Article;Description;Quantity;Weight (kg);City", "REF;Pump;2;11;Ulm", "REF;Valve;40;4;Ulm", "REF;Pump;8;44;Bonn",
              "REF;Valve;10;1;Bonn", "REF;Pump;1;5.5;Kiel", "REF;Valve;30;3;Kiel"),
        "order.create", " total_weight: {expr: '$sum([r.weight_kg for r in rows])', round: 3}\n"),
    "weights of a piece beside quantities that no package takes": (
        table("Order no;Name;Qty;Weight (kg);City", "Valve;3.0;1;Ulm", "Pump;8.0;5.5;Ulm", "Valve;30.0;1;Bonn", "Pump;10.0;5.5;Kiel")
        .replace("2;Pump", "1;Pump"),
        "order.create", "CHECK: Weight (kg) counts as of the whole line; if it is of one piece, multiply it by Qty\n"),
    "weights of rows beside those of one piece": (
        table("Order no;Name;Weight;Row weight;City", "Pump;2;4;Ulm", "Pump;2;6;Ulm", "Valve;1;3;Bonn").replace("2;Pump", "1;Pump"),
        "order.create", " total_weight: {expr: '$sum([r.row_weight for r in rows])', round: 3}", " chargeable_weight: {expr: '$sum([r.row_weight for r in rows])'"),
    "numbers of pallets with blank cells": (
        table("Auftrag;Ware;Paletten;kg;Ort", "Pumpe;2;10;Ulm", "Rohr;4;20;Ulm", "Pumpe;;5;Bonn").replace("2;Rohr", "1;Rohr"),
        "order.create", " total_packages: {expr: '$sum([r.paletten for r in rows])'}\n", "default: 1"),
    "quantities that are all zero": (
        table("Order no;Item;Quantity shipped;Quantity ordered;Weight kg;City", "Pump;0;2;5.5;Ulm", "Pump;0;8;5.5;Ulm", "Valve;0;3;1;Bonn"),
        "order.create", " total_packages: {expr: '$sum([r.quantity_ordered for r in rows])'}", "!r.quantity_shipped"),
    "a delivery of SAP": (
        table("Auslieferung;WADatum;Bezeichnung;LfMng;Bruttogewicht;GEH;Währg;Ort", "02.03.2026;Pumpe;2;11;KG;EUR;Ulm",
              "02.03.2026;Pumpe;8;44;KG;EUR;Ulm", "03.03.2026;Rohr;3;5;KG;EUR;Bonn"),
        "order.create", " order_id: {col: auslieferung}\n", "$at(wa_datum, ", " currency: {col: wahrg}\n", " total_packages: {expr: '$sum([r.lf_mng for r in rows])'}"),
    "an amount without tax in French": (
        table("N° commande;Article;Montant HT;Ville", "Pompe;1 200,50 €;Lyon", "Pompe;17,20 €;Paris"), "order.create",
        " goods_value: {col: montant_ht}\n", "!unit: cm"),
    "keys that lost their zeros": (LOST_ZEROS, "order.update", "packages: {file: packages, join: {to: orders, on: {order_id: order_id}}}",
        "pad_left: {to: 5}, required: true}   # 4 values, 3 different; CHECK the leading zeros"),
    "one table of two files": ({"orders.csv": orders("Article;Pump"), "sites.csv": "Code;Class\nU;A\nB;B\n"}, "order.create",
        "# not read: sites.csv: it shares no key with orders", " total_packages: {expr: '$count(rows)'}"),
    "headings with colons": (table("Order no:;Delivery city:", "Ulm", "Bonn", "Kiel", "Ulm", "Bonn"), "order.update",
        " delivery_city: {col: delivery_city}\n"),
    "a row of values is no part of the headings": (table("Nr;Kunde;Ort;Kunde;Ort", "Acme;Ulm;Acme;Ulm", "Acme;Ulm;Acme;Ulm", "Acme;Ulm;Acme;Bonn"),
        "order.update", "!Acme"),
    "a date that reads both ways": ("Order no;Pickup date\n1;03/04/2026\n2;04/04/2026\n", "order.update", "CHECK day and month: "),
    "numbers as the values have them": ("Order no;Weight\n1;1.234,5\n2;12,25\n", "order.create", "locale: en_DE   # 2 of 2 numbers"),
    "marks of another language than that of the headings": ("Pedido;Cliente;Ciudad;Peso kg\n1;Ana;Lima;1,234.50\n2;Luz;Quito;12.25\n", "order.create", "locale: es_MX   # 2 of 2 numbers"),
    "numbers are not companies and no cities": ("Order;Consignee;City;Zip\n1;4711;12;89073\n2;4712;13;53111\n", "order.update",
        " delivery_pincode: {col: zip}\n", "! delivery_company:", "! delivery_city:"),
    "an event whose code the file lacks": ("Shipment;Delivered\n1;01.03.2026 08:00\n2;02.03.2026 08:00\n", "order.status",
        "status_code: {const: status_code}   # FILL IN under constants"),
    "a word for totals that begins a record too": ("Consignee;Order;City\nTotal Energies;1;Paris\nBeta;2;Reno\nTotal;;x\n", "order.update",
        "target: order.update", "!totals:"),
    "notes are not actions": ("Order,Note,City\n1,X,Ulm\n2,N,Bonn\n", None, "target: ", "!target: {col:"),
    "an action that nobody knows": ("Order,Action,City\n1,C,Ulm\n2,Q,Bonn\n", None, "target: ", "!target: {col:"),
    "an action in the wrong column": ("Order,City\n1,New\n2,New\n", None, "target: ", "!target: {col:"),
    "dates that contradict each other": ("Order;Pickup date;Delivery date\n1;25/03/2026;03/26/2026\n2;26/03/2026;03/27/2026\n", "order.update",
        'delivery_date: {label: Delivery date, type: date, required: true, formats: ["%m/%d/%Y"]}', "!  dates:"),
    "names that are taken or mean something in expressions": ("Order;Rows;In;PLZ/Ort;PLZ Ort\n1;a;b;c;d\n", "order.update", "\ncolumns:\n  order:",
        "  # rows_:", "  # in_:", "plz_ort:", "plz_ort_2:"),
    "words of databases are blank cells": (
        table("Order;Weight (kg);Ship region;Ship city", "12.5;NULL;Rio", "NULL;RJ;Rio", "9;(null);Cork", "n/a;;Cork"), "order.create",
        '\n  blank: ["(null)", "NULL", n/a]   # CHECK: these cells count as blank\n', "label: Weight (kg), type: quantity", "3 of 4 cells blank",
        "  delivery_province: {col: ship_region, "),
    "a sign in the heading is the currency": (table("Job;Delivery town;Value £", "Bristol;12.50", "Hull;7.00"), "order.create",
        "  currency: {value: GBP}", "  pickup_country: {value: GB}"),
    "cells above the headings are not read": (f"PACKING LIST;;;\nOrder No:;PL-2026-0815;;\nConsignee;Kastell GmbH;;\n\n{PACKING}", None,
        "# not read: the cells above the headings of sheet.csv, such as Order No: PL-2026-0815\n", 'footer: {begins_with: ["Signature:"]}'),
    "a title alone is not mentioned": (f"Packing list of Monday\n\n{PACKING}", None, "!above the headings"),
    "a bid with a rate is a quote": (BIDS, None, "\ntarget: tender.quote   # All-In Rate (USD) has the rate of a carrier;",
        "  tenderRate: {col: all_in_rate_usd}\n", "  response_datetime: {col: bid_received}   # FILL IN source.timezone\n", "  carrier_id: {col: scac}"),
    "a quantity is no place": (EVENTS_OF_ZONES.replace("TZ;", "Quantity requested;").replace(";CT;", ";7;").replace(";ET;", ";12;"), None,
        "!destination: {col: quantity_requested}"),
    "zones in codes": (EVENTS_OF_ZONES, None, "  timezone: null   # FILL IN such as Europe/Berlin; CHECK: TZ has a zone for each row (ET, CT)"),
    "zones by their names are read": (EVENTS_OF_ZONES.replace(";ET;", ";America/New_York;").replace(";CT;", ";America/Chicago;"), None,
        "  timezone: {col: tz, default: America/", "!a zone for each row"),
    "the type of an event is its code": (EVENTS, None, "\ntarget: order.status", "  status_code: {col: event_type}", "# event_id"),
    "codes of actions that are not all known": (orders("Aktion;U;X;Q"), None,
        "# CHECK: Aktion (U, X, Q) may say which rows are new, changed or cancelled; all are sent by one operation\n"),
    "one known code of an action": (orders("Aktion;U;Q"), None, "!may say which rows"),
    "codes of actions that are all known": (orders("Aktion;U;X"), None, "!may say which rows"),
    "a number of loads is no order": (table("Lane #;Origin City;Dest City;Annual Loads", "Memphis;Reno;120", "Erie;Reno;80"), None,
        "!{col: annual_loads}", "label: Annual Loads"),
    "a requested shipment is the pickup": (table("Order;Requested ship date;Requested delivery", "2026-03-05 08:00;2026-03-06 08:00"), "order.create",
        " pickup_startdatetime: {col: requested_ship_date}", " delivery_startdatetime: {col: requested_delivery}"),
    "a required date is that of the delivery": (table("Order;RequiredDate", "2026-03-05 08:00", "2026-03-06 09:30"), "order.create",
        "  delivery_startdatetime: {col: required_date}"),
    "a country that half of the cells name": (orders("Ship country;France;France;Brazil;USA"), None,
        "  pickup_country: {value: FR}   # CHECK: no column has it"),
    "countries in another language than the headings": (table("Order no;Country", "Österreich", "Deutschland"), "order.update",
        "  locale: de_DE   # no number has a decimal mark; the language of the headings decides; 2 countries are in its language\n"),
    "a country that fewer cells name": (orders("Ship country;France;Germany;Brazil;USA"), None,
        "  pickup_country: {const: pickup_country}   # FILL IN"),
    "events with a time each do not share the first": (TIMED, "order.status", "status_datetime: {col: at}   # CHECK the time", "!abgeholt_um'"),
    "several orders in one row": (ROUTES, "order.update", "CHECK: Order 2 may be records of their own: see loadsheet mapping help"),
    "the length of a window that is assumed": (table("Order no;Delivery date", "02.03.2026 08:00", "03.03.2026 09:30"), "order.create",
        "pickup_startdatetime: {expr: 'delivery_date - t\"P1D\"'}", 'pickup_enddatetime: {expr: \'delivery_date - t"P1D" + t"PT4H"\'}'),
    "the volume of three sides": (orders("Item;Box", *SIDES_CM), None, "  volume: {type: decimal, expr: 'length_cm * width_cm * height_cm / 1000000'}"),
    "a volume beside the sides": (orders("Item;Box", *SIDES_CM, "Volume (m3);1,5;2"), None, "      volume: {col: volume_m3, round: 3}\n", "!1000000"),
    "a time alone is no window": (orders("Pickup time;8:30;9:15"), None, "!part_of"),
    "places with postal codes": (
        table("Order no;Origin;Destination", "D-20091 Hamburg;I-20121 Milano", "D-20095 Hamburg;F-69001 Lyon", "D-20099 Hamburg;A-8010 Graz"),
        "order.update", "  delivery_pincode: {col: destination_postal}\n", "  pickup_city: {col: origin_city}\n"),
    "towns with postal codes": (table("Order no;Losplaats", "9711 LM Groningen", "B-2000 Antwerpen"), "order.update",
        " delivery_pincode: {col: losplaats_postal}\n", " delivery_city: {col: losplaats_city}\n"),
    "the reference of the sender is the key of events": (STATUS, None, "target: order.status",
        "order_id: {col: shipper_ref}   # CHECK: no column identifies the order; this one is a reference",
        "status_datetime: {expr: 'event_date + event_time'}", "label: TZ, type: text"),
    "a full row that begins with total is a record": (
        "Consignee;Order no;City;Gross kg\nTotal Oil Ltd;A-1;York;12\nTotal Gas Ltd;A-2;Hull;13\nAcme Ltd;A-3;Leeds;14\n", "order.update", "!totals"),
    "lines of an export by paths are packages": (PATHS, "order.update", "item_name: {col: order_lines_product}",
        "quantity: {col: order_lines_quantity}", "weight: {col: order_lines_weight"),
    "a country as SAP abbreviates it": (table("Delivery;Ship-to;City;Cty", "Rhein Pumpen;Köln;DE", "Alder;Lyon;FR"), "order.update", "delivery_country: {col: cty}"),
    "Polish": ("Nr zamówienia;Miasto załadunku;Ilość\nA-1;Łódź;2\nA-2;Gdańsk;3\n".encode("cp1250"), "order.update", "encoding: [utf-8-sig, cp1250]   # CHECK: guessed",
        "pickup_city: {col: miasto_zaladunku}"),
    "the number of a quote is no rate": ("Tendernummer;Vervoerder;Offertenummer;Vrachtprijs\nT-1;C7;OFF1;1.200,50\nT-2;C7;OFF2;900,00\n", None,
        "target: tender.quote", "tenderRate: {col: vrachtprijs}\n"),
    "the number of a quote in digits is no rate": ("Tender no;Carrier ID;Quote no\nT-1;C7;90017\nT-2;C7;90018\n", "tender.quote",
        "  tenderRate: null   # FILL IN", "!col: quote_no}"),
    "codes of quotes are no rates": ("Tender no;Carrier ID;Quote\nT-1;C7;Q-17\nT-2;C7;Q-18\n", "tender.quote", "!tenderRate: {col:"),
    "Czech": ("Číslo objednávky;Order no;City\nA-1;A-1;Železná Ruda\nA-2;A-2;Plzeň\n".encode("cp1250"), "order.update", "encoding: [utf-8-sig, cp1250]   # CHECK"),
    "Croatian, which the vocabulary lacks": ("Otpremnički broj;Order no;City\nA-1;A-1;Đakovo\nA-2;A-2;Čakovec\n".encode("cp1250"), "order.update",
        "encoding: [utf-8-sig, cp1252]   # CHECK: guessed by the letters, such as Otpremnièki broj; in cp1250 it is Otpremnički broj\n"),
    "Turkish": (TURKISH.encode("cp1254"), "order.update", "encoding: [utf-8-sig, cp1254]   # CHECK: guessed"),
    "Icelandic": ("Order no;City\nA-1;Akureyri, Jónsson\nA-2;Höfn í Hornafirði, Guðný\n".encode("cp1252"), "order.update",
        "encoding: [utf-8-sig, cp1252]"),
    "German": ("Order no;Consignee;City\nA-1;Günes;Köln\n".encode("cp1252"), "order.update", "encoding: [utf-8-sig, cp1252]"),
    "a sentence at the end is a note": (noted("A1;Hull;3", "A2;York;4", "Prices without any tax;;"), "order.update",
        "footer: {begins_with: [Prices without]}"),
    "a line to sign is a note": (noted("A1;Hull;3", "A2;York;4", "Signature: ___;;"), "order.update", 'footer: {begins_with: ["Signature:"]}'),
    "a note below one row": (noted("A1;Hull;3", "Prices without any tax;;"), "order.update", "footer: {begins_with: [Prices without]}"),
    "two words are no note": (noted("A1;Hull;3", "A2;York;4", "Prices net;;"), "order.update", "!footer"),
    "a sentence beside a second cell is no note": (noted("A1;Hull;3", "A2;York;4", "Prices without any tax;Hull;"), "order.update", "!footer"),
    "rows of sentences alone are no notes": (noted("Order of Monday morning;;", "Order of Monday evening;;"), "order.update", "!footer"),
    "a heading that would be one of sets": (orders("Item {set};x;y"), None, "# not read: column I of sheet.csv has values but no heading\n"),
    "one key that stands twice is no group": (orders(keys=[*(f"A-{number}" for number in range(11)), "A-3"]), "order.create",
        "CHECK: 1 of 11 values of Order no occur twice or more", "!\ngroup:"),
    "one word among the codes of currencies": (
        table("Order no;Currency Code", *["GBP"] * 30, "Pounds"), "order.update", "type: currency, required: true}   # 30 of 31 values are currency codes; CHECK the others, such as Pounds"),
    "lines in a workbook beside a text file": (
        {"orders.csv": orders(keys=["471", "472", "473"]), "lines.xlsx": LINES_BOOK.getvalue()}, "order.create", '  delimiter: [";"]\n'),
    "one number of a hundred filled down too far is no group": (
        table("Order no;Package type;Item name;Delivery town", *(f"Box;Pump;Town {number % 7}" for number in range(101))) + "A-101;Box;Pump;Hull\n",
        "order.create", "CHECK: 1 of 101 values of Order no occur twice or more", "delivery_city: {col: delivery_town}", "!\ngroup:"),
    "lines that an export repeats, but for spaces, are no second lines": (
        table("Order no;Item name;Kg;Consignee", *(f"Pump;{number % 7 + 2};Haus {number}" for number in range(40)))
        + "A-3;Pump;4;Haus 2 \nA-17;Pump;4;Haus 16\n",
        "order.create", "CHECK: 2 of 40 values of Order no occur twice or more", "!\ngroup:"),
    "scans of a carrier": (
        table("Order no;Scan type;Scan time;lat;lng;Scan location", "PICKED UP;1795680300;28.36;75.58;Pilani", "IN TRANSIT;1795734900;28.61;77.20;Delhi"), None,
        "target: order.status   #", 'dates: ["%s"]', "status_code: {col: scan_type}", "status_datetime: {col: scan_time}\n",
        "status_location: {col: scan_location}", "latitude: {col: lat}", "longitude: {col: lng}"),
    "events of a program that writes nine decimals": (
        table("Order no;Event type;Event time;Location", "LOADED;2026-03-16 21:00:00.000000000;Hull", "DEPARTED;2026-03-17 02:30:00.000000000;Hull"), None,
        "target: order.status   #", 'dates: ["%Y-%m-%d %H:%M:%S.%f"]', "status_code: {col: event_type}", "status_datetime: {col: event_time}\n"),
    "a price of orders is not their number": (
        "Date;Waybill;Kg;Order price;Status\n" + "".join(
            f"{at + 10}.03.2026;70155{at * 7}SOL{at};{at % 3 + 1};{119 + at % 9};{('In transit', 'Delivered')[at % 2]}\n" for at in range(15)),
        "order.status", "order_id: {col: waybill}", "# order_price: "),
    "what a consignment costs is not the value of the goods": (
        table("codigo_entrega;cidade_origem;cidade_destino;valor_frete", "Santos;Recife;458.33", "Natal;Belém;161.98"), "order.create",
        "goods_value: {value: 0}   # CHECK: no column has it"),
    "import and export are no addresses": (
        table("ShipmentID;OriginCity;DestCity;Direction", "Izmir;Lyon;Import", "Turin;Oran;Export"), "order.create", "delivery_address1: {const: delivery_address1}"),
    "a status in use beside one that is blank": (
        table("Booking #;Customer name;Booking status;Event date;status", "Ames Ltd;ARCHIVED;2026-03-02;", "Brigg plc;SUBMITTED;2026-03-03;"), "order.status",
        "status_code: {col: booking_status}", "!status_location: ", "!{col: customer_name}"),
    "what is promised counts before what was done, and a time before a day": (
        table("Order no;Ship date;Promised date;Promised datetime;Delivered date", "2026-03-02;2026-03-04;2026-03-04T17:00:00;2026-03-04", "2026-03-02;2026-03-05;2026-03-05T17:00:00;"),
        "order.create", "delivery_startdatetime: {col: promised_datetime}   # CHECK: Promised date could fill it as well", "# delivered_date: "),
    "quantities and delays are no orders": (
        "Origin city;Destination city;Delay hours;Qty\n" + "".join(
            f"{('Hull', 'York')[at % 2]};{('Leeds', 'Ely', 'Diss')[at % 3]};{at % 14};{at * 3}\n" for at in range(40)), "order.create",
        "order_id: {col: destination_city}   # CHECK: no column identifies the order; this one has the most different values"),
    "towns with their states": (
        table("Order no;Origin;Destination", "Menasha WI;Ada MI", "Boise ID;Memphis TN", "Denver CO;Salt Lake City UT"), "order.update",
        "pickup_city: {col: origin}", "delivery_city: {col: destination}", "!company"),
    "one company in five names": (ONE_IN_FIVE, "order.update", "pickup_company: {col: origin}"),
    "one company in six names": (f"{ONE_IN_FIVE}A-6;Theta\n", "order.update", "!pickup_company"),
    "a company beside a recipient": (
        table("Order no;Recipient;Company;City;Carrier name", "Jo Lee;Firm;Leeds;DHL", "Al Mo;Mill;York;UPS"), "order.update",
        "delivery_company: {col: company}   # CHECK: Recipient could fill it as well"),
    "a carrier is no company of an address": (table("Order no;City;Carrier name", "Leeds;DHL", "York;UPS"), "order.update", "!delivery_company"),
    "a name of packagings is no company of an address": (table("Order no;City;Packaging name", "Leeds;Polymailer", "York;Tall box"), "order.update", "!delivery_company"),
    "a recipient without a company": (table("Order no;Recipient", "Jo Lee", "Al Mo"), "order.update", "delivery_company: {col: recipient}"),
    "a window of the shortest and the longest day": (
        table("Order number;Sale date;Minimum estimated delivery date;Maximum estimated delivery date", "Nov-20-26;Nov-30-26;Dec-02-26"), "order.create",
        "delivery_startdatetime: {expr: '$at(minimum_estimated_delivery_date, ", "delivery_enddatetime: {expr: '$at(maximum_estimated_delivery_date, ",
        "createdon: {col: sale_date}"),
    "rows of another width": ("Order no;City;Qty\nA-1;Leeds;2\nA-2;York;1;x\nA-3;Hull\n", "order.update",
        "\n# not read: 2 rows of sheet.csv with more or fewer cells than there are headings\n"),
    "a line of dashes is no blank row": (
        "Order no;Ship to city;Qty\nA-1;Leeds;2\nA-2;York;1\n-----;-----;-----\nTotal;;3\n\nOrders: 2\nEnd of list\n", "order.update",
        "      stop_at_blank: true   # CHECK", "!not read"),
    "stars that mark records are no totals": (f"Urgent;Order no;City;Gross weight (kg)\n{STARRED}", None, "!totals:"),
    "a wide export with mostly blank columns has headings": (WIDE, "order.create", "{label: Quantity,", "{label: Item name,"),
    "a time of fulfilment is no pickup": (table("Order no;Fulfilled at;Delivery town", *["2026-11-20 10:00;Hull"] * 5, ";York"), "order.create",
        "  pickup_startdatetime: null   # FILL IN", "!col: fulfilled_at"),
    "a date that 2 of 220 rows have is not the required one": (
        table("Order no;Date;Pickup date;Delivery town", *(f"20.11.2026;{'21.11.2026' if at < 2 else ''};Hull" for at in range(220))),
        "order.create", "$at(date, ", "!col: pickup_date"),
    "two ways to ship identify no orders": (
        "Forma de envío;Factura;Ciudad\n" + "".join(f"{('Aire', 'Tierra')[at % 2]};F-{at};Lugo\n" for at in range(420)), "order.create",
        "  order_id: {col: factura}", "!\ngroup:"),
    "offers of a French portal": (
        {"offres.csv": "N° appel d'offres;Code transporteur;Prix HT;Devise;Date offre\n" + "".join(
            f"AO-{at};C1;1 240,50;EUR;28/11/2026 11:5{at}\n" for at in range(4))},
        None, "\ntarget: tender.quote   # ", "tenderRate: {col: prix_ht}", "response_datetime: {col: date_offre}", "!height"),
    "events of a French portal": (
        {"suivi.csv": "N° commande;Code événement;Date;Heure;Lieu\n" + "".join(f"C-{at};LIV;2{at}/11/2026;08:0{at};Lyon\n" for at in range(6))},
        None, "\ntarget: order.status   # ", "\norder: [n_commande, date, heure]   # ", "status_datetime: {expr: 'date + heure'}"),
    "tenders that a Polish shipper withdraws": (
        {"wycofane.csv": "Nr przetargu;Powód;Data wycofania\nP-1;brak;30.11.2026\nP-2;brak;30.11.2026\n"}, None, "\ntarget: tender.delete   # "),
    "packages without the places and dates of their orders": (
        "Auftrag;Verpackung;Artikel;Gewicht kg;Anzahl;Länge cm;Breite cm;Höhe cm\n" + "".join(
            f"A-{at // 2};EUP;Pumpe;12,5;1;120;80;10{at}\n" for at in range(8)), None, "\ntarget: order.update   # ", "packages:\n", "!order.create   #"),
    "a table of two columns has no notes": ("Order;Delivery town\nA1;Hull\nA2;York\nOrder of Monday;\n", "order.update", "!footer"),
}  # fmt: skip


@pytest.mark.parametrize("case", DRAFTS)
def test_a_draft_says_what_the_sheet_shows_and_no_more(tmp_path, case):
    sheet, target, *said = DRAFTS[case]
    text = suggested(tmp_path, sheet, target)
    assert unsaid(text, said) == [], text
    assert mistakes(tmp_path, text) == []


MERGED = [
    "header_rows: 2",
    " order_id: {col: order_no}\n",
    " delivery_city: {col: consignee_city}\n",
    " total_weight: {col: gross_kg}\n",
]
WORKS = {  # the lines of a sheet, what its draft has or (after a !) has not, the rows of each record, and what the first one sends
    "headings over two rows": ([
        "Ladeliste KW 13 / 2026;;;;;;;;",
        "Auftrag;;Abholung;;Ware;;;Zustellung;",
        "Nr;Kunde;Datum;Zeit;Art;Anzahl;Gewicht (kg);Datum;PLZ",
        "471;Meier;03.04.2026;07:30;Palette;2;412,5;07.04.2026 14:00;01067",
        "472;Huber;03.04.2026;08:30;Karton;3;27;07.04.2026 15:00;80331",
    ], [
        "header_rows: 2", "label: Auftrag / Nr, type: text, required: true, key: true", " order_id: {col: auftrag_nr}\n",
        "'abholung_datum + abholung_zeit'", " delivery_startdatetime: {col: zustellung_datum}\n", " delivery_pincode: {col: zustellung_plz}\n",
    ], {"471": 1, "472": 1}, '"delivery_pincode":"01067"'),
    "merged headings, most of them above": ([
        "Order no;Pickup date;Pickup city;Consignee;;Qty;Gross kg;Remarks",
        ";;;Name;City;;;",
        "A-1;03.11.2026;Leeds;Muir Ltd;York;2;412.5;none",
        "A-2;04.11.2026;Leeds;Brigg Ltd;Hull;3;27;",
    ], [*MERGED, "!no heading"], {"A-1": 1, "A-2": 1}, '"total_weight":412.5'),
    "merged headings, most of them below": ([
        "Order no;Shipper;;;Consignee;;;Gross kg",
        ";Name;City;Zip;Name;City;Zip;",
        "A-1;Acme Ltd;Leeds;LS1 4DY;Muir Ltd;York;YO1 9TL;412.5",
        "A-2;Acme Ltd;Leeds;LS1 4DY;Brigg Ltd;Hull;HU1 1AA;27",
    ], [*MERGED, "!no heading"], {"A-1": 1, "A-2": 1}, '"total_weight":412.5'),
    "merged headings, one of them above": ([
        "Consignment;;Consignee;;Parcel;;Service",
        "Number;Reference;Name;Town;Contents;Weight (kg)",
        "A-1;R 17;Muir Ltd;York;Shoes;2,5;EXP",
        "A-1;R 17;Muir Ltd;York;Books;7,25;EXP",
        "A-2;R 18;Brigg Ltd;Hull;Shoes;3,5;STD",
    ], ["header_rows: 2", " delivery_city: {col: consignee_town}\n", "label: Service", "!not read"], {"A-1": 2, "A-2": 1},
        '"weight":7.25'),
    "names of groups above headings that all differ": ([
        "Order;;Pickup;;Delivery;;Goods;",
        "No;Date;City;Zip;Town;Postcode;Article;Kg",
        "A-1;02.03.2026;Leeds;LS1 4DY;York;YO1 9TL;Oil;2,5",
        "A-1;02.03.2026;Leeds;LS1 4DY;York;YO1 9TL;Nuts;7,25",
        "A-2;13.03.2026;Leeds;LS1 4DY;Hull;HU1 1AA;Oil;3",
    ], ["header_rows: 2", " pickup_city: {col: pickup_city}\n", " delivery_city: {col: delivery_town}\n", " createdon: {col: order_date}", "unit: kg"],
        {"A-1": 2, "A-2": 1}, '"weight":7.25'),
    "a title above headings that all differ": ([
        "Orders;;;from Leeds;;", "No;Consignee;Town;Postcode;Article;Kg", "A-1;Ames;York;YO1 9TL;Oil;2,5", "A-2;Brigg;Hull;HU1 1AA;Nuts;7,25",
    ], ["!header_rows"], {"A-1": 1, "A-2": 1}, ""),
    "numbers kept as text by an apostrophe": (
        ["Order no;Consignee city;Qty;Gross kg", "A-1;York;   '2;  '0,5", "A-2;Hull;  '13;'1.001,5"],
        ["label: Qty, type: integer", "label: Gross kg, type: quantity"], {"A-1": 1, "A-2": 1}, '"total_weight":0.5',
    ),
    "a row of units below the headings": (
        ["Order no;Consignee city;Qty;Gross;Volume", ";;pcs;[to];m³", "A-1;York;2;0,5;1,5", "A-2;Hull;3;1,25;2"],
        ["header_rows: 2", "from_unit: t", "!neither heading nor cells"], {"A-1": 1, "A-2": 1}, '"total_weight":500',
    ),
    "a row of texts below the headings": (
        ["Order no;Remarks;Consignee city;Shipper city", "A-X;;York;Leeds", "A-Y;urgent;Hull;Leeds"],
        ["!header_rows"], {"A-X": 1, "A-Y": 1}, "",
    ),
    "totals that name their record": ([
        "N. DDT;Città;CAP;Indirizzo;N. colli;Peso lordo Kg", "1/A;Bari;70121;Via Roma 1;3;12,5", ";;;;2;7", "Totale DDT 1/A;;;;5;19,5",
        "2/A;Roma;187;Via Po 2;4;30", ";;;;1;2", "Totale DDT 2/A;;;;5;32", "TOTALE GENERALE;;;;10;51,5",
    ], ["totals: {begins_with: [Totale, TOTALE GENERALE]}", "group:\n  by: [n_ddt]", "$sum([r.n_colli for r in rows])"], {"1/A": 2, "2/A": 2}, ""),
    "subtotals of a pivot table": ([
        "Customer;City;Order no;Weight (kg)", "Acme;York;A-1;12,5", ";;A-2;7", "Acme Total;;;19,5", "Gas;Hull;A-3;2", "Gas Total;;;2", "Grand Total;;;21,5",
    ], ['ignore_rows: \'(customer ?? "").ends_with(" Total")\'', "!fill_down: true}"], {"A-1": 1, "A-2": 1, "A-3": 1}, '"total_weight":12.5'),
    "subtotals of a nested pivot table": ([
        "Week;Customer;Order no;Article;City;Weight (kg)", "12;Acme;4711;Oil;York;12,5", ";;;Nuts;;7", ";;4711 Total;;;19,5", ";;4712;Oil;Hull;3", ";;4712 Total;;;3",
        ";Acme Total;;;;22,5", "12 Total;;;;;22,5", "13;Gas;4713;Oil;Ulm;2", ";;4713 Total;;;2", ";Gas Total;;;;2", "13 Total;;;;;2", "Grand Total;;;;;24,5",
    ], ["not read: the rows that end with Total, subtotals"], {"4711": 2, "4712": 1, "4713": 1}, '"packages":[{"package_type":"X","item_name":"Oil","weight":12.5'),
    "subtotals with their word first behind a repeated text": ([
        "Client;Commande;Article;Ville;Poids (kg)", "Acme;4711;Huile;Lyon;12,5", "Acme;4711;Noix;Lyon;7", "Acme;Total 4711;;;19,5", "Acme;4712;Huile;Lyon;2",
        "Acme;Total 4712;;;2", "Total général;;;;21,5",
    ], ['ignore_rows: \'(commande ?? "").starts_with("Total ")\''], {"4711": 2, "4712": 1}, '"weight":12.5'),
    "an article that is named like a subtotal": ([
        "Order no;City;Article;Kg", "A-1;York;Oil;2", "A-1;York;Oil Total;3", "A-2;Hull;Gas Total;1",
    ], ["!ignore_rows"], {"A-1": 2, "A-2": 1}, None),
    "lines of totals and notes": ([
        "Auftrag;Empfänger;Ort;Gewicht (kg)", "00471;Möbel Höffner;Dresden;12,5", "00472;IKEA Wien;Wien;7", "Summe;;;19,5",
        "erstellt von SAP am 24.10.2026;;",
    ], [
        "      totals: {begins_with: [Summe]}   # CHECK: total rows, not records",
        "      footer: {begins_with: [erstellt von]}   # CHECK: a note below the rows, not records",
        "label: Auftrag, type: text, required: true, key: true}   # 2 values, 2 different",
    ], {"00471": 1, "00472": 1}, ""),
    "the weight of an order on each of its rows": ([
        "Order no;City;Article;Qty;Order weight (kg)", "A-1;York;Oil;2;12", "A-1;York;Nuts;1;12", "A-1;York;Rice;5;12", "A-2;Hull;Oil;1;7",
    ], [" total_weight: {col: order_weight_kg}\n", "!multiplied"], {"A-1": 3, "A-2": 1}, '"total_weight":12'),
    "the weight of an order on its first row": ([
        "Sendung;Ort;Artikel;Anzahl;Sendungsgewicht kg", "A-1;Ulm;Oil;2;12", "A-1;Ulm;Nuts;1;", "A-2;Bonn;Oil;1;7",
    ], [" total_weight: {col: sendungsgewicht_kg}\n", "!multiplied"], {"A-1": 2, "A-2": 1}, '"total_weight":12'),
    "weights of lines under the heading of an order": ([
        "Order no;City;Article;Order weight (kg)", "A-1;York;Oil;2", "A-1;York;Nuts;12.5", "A-2;Hull;Oil;1", "A-2;Hull;Nuts;5",
    ], ["!total_weight", " weight: {col: order_weight_kg, round: 3}\n"], {"A-1": 2, "A-2": 2}, '"weight":12.5'),
    "weights that may be those of an order": ([
        "Order no;City;Article;Kg", *(f"A-{at};York;{item};{at * 3}" for at in range(1, 4) for item in ("Oil", "Nuts")),
    ], [" weight: {col: kg, round: 3}   # CHECK: all rows of each order have the same; is it that of the whole order?\n"],
        {"A-1": 2, "A-2": 2, "A-3": 2}, '"weight":3'),
    "weights that are the same in all orders": ([
        "Order no;City;Article;Kg", *(f"A-{at};York;{item};3" for at in range(1, 4) for item in ("Oil", "Nuts")),
    ], [" weight: {col: kg, round: 3}\n", "!of the whole order"], {"A-1": 2, "A-2": 2, "A-3": 2}, '"weight":3'),
    "a row that explains the headings": ([
        "Order ID,Recipient,City,Product name,Quantity,Created time",
        "Platform unique order ID.,,,,Sold quantity.,Order created time.",
        "5765,Muir,York,Lamp,2,03/02/2026 09:30:00 AM", "5765,Muir,York,Mug,1,03/02/2026 09:30:00 AM", "5766,Brigg,Hull,Mug,4,03/13/2026 10:30:00 AM",
    ], ["      ignore_rows: 'order_id == \"Platform unique order ID.\"'   # CHECK: the row that explains the headings, not records",
        "!the others", "!cells that are not dates"], {"5765": 2, "5766": 1}, '"quantity":2'),
    "a first row with a number and with dates to come": ([
        "Order no;City;Article;Qty;Kg;Delivery date", "A-1;York;Oil;2;on demand;by telephone", "A-2;Hull;Oil;1;7;03.03.2026", "A-3;Hull;Oil;1;8,5;04.03.2026",
    ], ["!ignore_rows", "CHECK the others: on demand"], {"A-1": 1, "A-2": 1, "A-3": 1}, None),
    "heads of orders with the sums of their lines": ([
        "Order number;Post to name;Post to city;Item title;Quantity;Total price",
        "A-1;Brigg;Hull;;7;20,25", "A-1;;;Oil;5;", "A-1;;;Nuts;2;", "A-2;Muir;York;Lamp;2;7,50", "A-3;Ames;Leeds;Oil;1;5",
    ], ["      ignore_rows: 'item_title == null'   # CHECK: heads of records with several rows, with sums of these, not records"],
        {"A-1": 2, "A-2": 1, "A-3": 1}, '"delivery_city":"Hull","goods_value":20.25,"packages":[{"package_type":"X","item_name":"Oil","quantity":5},'),
    "a line without its article": ([
        "Order no;City;Article;Kg", "A-1;York;;2", "A-1;York;Nuts;3", "A-2;Hull;Oil;1",
    ], ["!ignore_rows"], {"A-1": 2, "A-2": 1}, None),
    "a second table below a note": ([
        "Order no;City;Pickup date;Kg;Remark", *(f"A-{at};York;0{at}.03.2026;{at * 2},5;" for at in range(1, 8)), "",
        "Returns, for your information;;;;", "", "Return no;Customer;Returned on;Pieces;Reason",
        *(f"R-{at};Muir;0{at}.02.2026;{at};broken" for at in range(1, 9)),
    ], ["      stop_at_blank: true   # CHECK: what stands below the blank row is no record", "# 7 values, 7 different", "!the others"],
        {f"A-{at}": 1 for at in range(1, 8)}, '"total_weight":2.5'),
    "blank rows between the orders": ([
        "Order no;City;Pickup date;Kg", "A-1;York;02.03.2026;2,5", "", "A-2;Hull;03.03.2026;7", "", "A-3;Leeds;;", "A-4;Ulm;04.03.2026;3",
    ], ["!stop_at_blank"], {"A-1": 1, "A-2": 1, "A-3": 1, "A-4": 1}, None),
    "a remark among house numbers": (
        ["Pedido;Cliente;Dirección;Número;Ciudad", *(f"A-{at};Sol SA;Mitre;{at};Salta" for at in range(1, 12)), "A-12;Sol SA;Mitre;508 esq. Colón;Salta"], [],
        {f"A-{at}": 1 for at in range(1, 13)}, '"delivery_address1":"Mitre 1"',
    ),
    "a place, its state and its postal code between slashes": (
        ["Order no;City / State / ZIP", "A-1;Dallas / TX / 75201", "A-2;Salt Lake City / UT/84101", "A-3;29 Palms / CA / 92277"], [],
        {"A-1": 1, "A-2": 1, "A-3": 1}, '"delivery_city":"Dallas","delivery_province":"TX","delivery_pincode":"75201"',
    ),
    "a slash before a postal code": (
        ["Order no;City and ZIP", "A-1;Halle/Saale / 06108", "A-2;Ulm, 89073", "A-3;Bad Urach 72574"], [],
        {"A-1": 1, "A-2": 1, "A-3": 1}, '"delivery_city":"Halle/Saale","delivery_pincode":"06108"',
    ),
    "a place and its postal code in one cell": (
        ["Order no;PLZ/Ort", "A-1;01067 Dresden", "A-2;80331 München", "A-3;9711 LM Groningen"],
        ["label: PLZ/Ort", 'split: "(?P<plz_ort_postal>', " delivery_pincode: {col: plz_ort_postal}\n", " delivery_city: {col: plz_ort_city}\n"],
        {"A-1": 1, "A-2": 1, "A-3": 1}, '"delivery_city":"Dresden"',
    ),
    "the stars of an SAP list are totals": ([
        "-" * 40, "|Lieferung|Auftrag |Ort    |Bruttogew.|GE |", "-" * 40, "|80001001 |4500001 |Köln   | 1.240,500|KG |",
        "|80001002 |4500002 |Kiel   |    12,500-|KG|", "|*        |        |       | 1.228,000|KG |", "-" * 40,
        "|**       |        |       | 1.228,000|KG |", "-" * 40,
    ], ['      totals: {begins_with: ["*", "**"]}   # CHECK: total rows, not records'], {"4500001": 1, "4500002": 1}, None),
    "a count of records below a blank row": ([
        "Order no,Ship to city,Qty", "", "A-1,Leeds,2", "A-2,York,1", "", "2,record(s) downloaded", "Seller ID : shop",
    ], ["      stop_at_blank: true   # CHECK: what stands below the blank row is no record", "!footer"], {"A-1": 1, "A-2": 1}, None),
    "orders whose lines have dates of their own": ([
        "Auftrag;Bestelldatum;Empfänger;Ort;PLZ;Lieferdatum;Artikel;Stück", "A-1;20.03.2026;Berg GmbH;Ulm;89073;30.03.2026;Pumpe;2",
        "A-1;21.03.2026;Berg GmbH;Ulm;89073;27.03.2026;Ventil;4", "A-2;20.03.2026;Tal AG;Bonn;53111;01.04.2026;Pumpe;1",
    ], ["timeoffset: {utc_offset_of: '$earliest([r.lieferdatum for r in rows])'}", "createdon: {expr: '$earliest([r.bestelldatum for r in rows])'}"],
        {"A-1": 2, "A-2": 1}, '"timeoffset":"1","delivery_startdatetime":"2026-03-27 08:00:00","delivery_enddatetime":"2026-03-27 12:00:00"'),
    "quotes in a tab-separated report": ([
        "Order no\tShip to city\tItem name\tQty", 'A-1\tLeeds\t"Nice case\t1', 'A-2\tYork\tScreen 24"\t2', "A-3\tHull\tBox\t3",
    ], ["  quote: none   # CHECK: a quote is never closed"], {"A-1": 1, "A-2": 1, "A-3": 1}, '"item_name":"\\"Nice case"'),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "said", "found", "sent"), WORKS.values(), ids=WORKS)
def test_a_draft_gives_the_records_of_its_sheet(tmp_path, lines, said, found, sent):
    sheet = "".join(f"{line}\n" for line in lines)
    text = suggested(tmp_path, sheet, "order.update")
    assert unsaid(text, said) == [], text
    assert mistakes(tmp_path, text) == []
    documents = translated(mapping_of(tmp_path, text, "order.update"), [tmp_path / "sheet.csv"])
    assert {document.key: len(document.rows) for document in documents} == found
    if sent is not None:
        assert [str(problem) for document in documents for problem in document.problems] == []
        assert sent in documents[0].payload.decode()


def test_a_list_between_bars_has_columns_although_its_cells_are_filled_up_with_spaces(tmp_path):
    line = f"{'-' * 60}\n"
    head = f"24.11.2026           Auslieferungen anzeigen      Seite  1\n\n{line}"
    rows = "".join(
        f"|8000100{at}  |2{at}.11.2026 |Kiel      |      12,{at}00|KG |   {at % 2 + 3}|\n" for at in range(1, 6)
    )
    sheet = f"{head}|Lieferung |WADat      |Ort       |Gesamtgew.  |GEH|Packst|\n{line}{rows}{line}"
    text = suggested(tmp_path, sheet, "order.update")
    assert (
        unsaid(text, ['  delimiter: ["|"]', " total_weight: {col: gesamtgew}", " total_packages: {col: packst}"]) == []
    ), text
    documents = translated(mapping_of(tmp_path, text, "order.update"), [tmp_path / "sheet.csv"])
    assert [document.key for document in documents] == [f"8000100{at}" for at in range(1, 6)]


def test_the_known_headings_of_a_wide_dump_are_found_although_most_are_codes_over_blank_columns(tmp_path):
    codes = ";".join(f"ZZQ{at:03}" for at in range(80))
    rows = "".join(
        f"{line};{';'.join('0' if at % 4 == 0 else '' for at in range(80))}\n"
        for line in orders(keys=4).splitlines()[1:]
    )
    text = suggested(tmp_path, f"{HEAD};{codes}\n{rows}", "order.update")
    assert unsaid(text, [" order_id: {col: order_no}", " delivery_city: {col: city}"]) == []


@pytest.mark.parametrize(
    ("heading", "end"),
    [
        ("Sum", "0.00"), ("Sum", "=A9*2"), ("Sum", "#N/A"), ("Row", "{}"), ("Label", "L-00{}"), ("Gross weight kg", "0"),
        ("Gross weight kg", "- kg"),
    ],
    ids=["zeros", "formulas without a result", "errors", "numbers of the rows", "labels that count", "zeros that are read", "a unit alone"],
)  # fmt: skip
def test_rows_that_a_template_filled_in_beforehand_are_no_records(tmp_path, heading, end):
    head, *lines = orders(keys=["A-1", "A-2", "A-3"]).splitlines()
    rows = [f"{line};{number}" for number, line in enumerate(lines, 1)]
    rows += [f"{';' * head.count(';')};{end.format(number)}" for number in range(4, 9)]
    text = suggested(tmp_path, "\n".join([f"{head};{heading}", *rows]), "order.update")
    assert unsaid(text, ["# CHECK: rows filled in beforehand, not records", "!fill_down"]) == [], text
    documents = translated(mapping_of(tmp_path, text, "order.update"), [tmp_path / "sheet.csv"])
    assert [document.key for document in documents] == ["A-1", "A-2", "A-3"]


def test_a_quote_that_is_never_closed_is_refused_in_other_texts(tmp_path):
    with pytest.raises(FileRefused, match="a quote opened in row 2 is never closed"):
        suggested(tmp_path, 'Order no,Ship to city,Qty\nA-1,"Leeds,1\nA-2,York,2\n', "order.update")


def test_notes_of_many_lines_do_not_hide_the_columns_of_a_text_file(tmp_path):
    """A web shop exports the answers of a form in one cell of 20 lines."""
    head, *lines = orders(keys=9).splitlines()
    notes = "\n".join(f"Question {at}: answer" for at in range(1, 21))
    text = suggested(
        tmp_path, "\n".join([f"{head};Note Attributes", *(f'{line};"{notes}"' for line in lines)]), "order.update"
    )
    assert unsaid(text, ['  delimiter: [";"]', " order_id: {col: order_no}", " delivery_city: {col: city}"]) == [], text


def test_lines_that_repeat_each_other_are_not_taken_for_what_a_template_filled_in(tmp_path):
    head, *lines = orders(keys=["A-1", "A-2"]).splitlines()
    below = [f"{';' * head.count(';')};Pallet;{count};0" for count in (2, 2, 2)]
    rows = [row for line in lines for row in (f"{line};Box;1;0", *below)]
    text = suggested(tmp_path, "\n".join([f"{head};Article;Qty;Surcharge", *rows]), "order.update")
    assert unsaid(text, ["fill_down: true", "!filled in beforehand"]) == [], text


@pytest.mark.parametrize("merged", [False, True], ids=["on every row", "on the first row"])
def test_rows_with_one_key_are_one_record(tmp_path, merged):
    head, *lines = orders(keys=[f"A-{number // 3:03}" for number in range(12)]).splitlines()
    places = [f"{key};{PLACES[at // 3 % 3]}" for at, key in enumerate(line.partition(";")[0] for line in lines)]
    rows = [
        f"{place if not merged or at % 3 == 0 else ';' * 7};Item {at};{at % 5 + 2}" for at, place in enumerate(places)
    ]
    modes = ["Mode", *["sea", "road"] * 6]  # differs within a record
    text = suggested(
        tmp_path, "".join(f"{line};{mode}\n" for line, mode in zip([f"{head};Article;Qty", *rows], modes, strict=True))
    )
    said = [
        "4 of 4 values of Order no occur in several rows, so rows are grouped",
        "by: [order_no]",
        " quantity: {col: qty}\n",
        "# mode:",
    ]
    assert unsaid(text, [*said, "CHECK: its values differ within a record"]) == []
    assert ("fill_down: true" in text) is merged
    assert mistakes(tmp_path, text) == []


def test_the_order_of_the_files_changes_nothing(tmp_path):
    files = list(FILES.items())
    turned = (files, files[::-1], files[1:] + files[:1])
    assert len({suggested(tmp_path, dict(some)) for some in turned}) == 1


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
    text = suggested(tmp_path, orders(), None, values_of(folder))
    said = [
        "sender_id: {value: ACME}   # CHECK: no column has it; as in the other 2 mappings", "receiver_id: {value: CARRIER1}",
        "timezone: Europe/Berlin   # CHECK: as in the other mappings", "pickup_city: {const: pickup_city}",
    ]  # fmt: skip
    assert unsaid(text, said) == []


@pytest.mark.parametrize(("heading", "currency"), [("Value GBP", "GBP"), ("Value", "EUR")])
def test_the_currency_of_a_heading_counts_before_that_of_other_mappings(tmp_path, heading, currency):
    folder = tmp_path / "mappings"
    folder.mkdir()
    (folder / "one.yaml").write_text("mapping: one\npayload: {currency: {value: EUR}}\n", encoding="utf-8")
    text = suggested(tmp_path, f"Order no,{heading}\nA-1,12.50\nA-2,9.00\n", "order.create", values_of(folder))
    assert unsaid(text, [f"currency: {{value: {currency}}}"]) == []


@pytest.mark.parametrize(
    ("encoding", "heading", "cell"),
    [
        ("cp1250", "Nr zamówienia", "Źródło"),
        ("cp1251", "Номер заказа", "Москва"),
        ("cp1253", "Παραγγελία", "Αθήνα"),
        ("cp1256", "رقم الطلب", "الرياض"),
        ("cp932", "お客様管理番号", "東京都渋谷区神宮前"),
        ("gb18030", "订单编号", "上海市中山路"),
        ("big5", "訂單編號", "台北市忠孝東路"),
        ("cp949", "주문번호", "서울특별시 강남구"),
    ],
)
def test_a_file_in_the_encoding_of_its_country_is_drafted_in_it_marked(tmp_path, encoding, heading, cell):
    sheet = {"訂單.csv": f"{heading};Kg\nA-1 {cell};2\nA-2 {cell};3\n".encode(encoding)}
    text = suggested(tmp_path, sheet, "order.update")
    assert f"  encoding: [utf-8-sig, {encoding}]   # CHECK: guessed by the letters, such as {heading}\n" in text
    assert f"{{label: {heading}, type: text, required: true, key: true}}" in text
    assert "\nmapping: draft\n" in text


@pytest.mark.parametrize(
    ("cell", "otherwise"),
    [("João", "Joăo"), ("Año", "Ańo"), ("Þórður", "Ţórđur"), ("één", ""), ("Höhe €5", ""), ("“quoted”", "")],
)
def test_a_few_letters_with_accents_are_those_of_western_europe(tmp_path, cell, otherwise):
    text = suggested(tmp_path, f"Order no;Name\nA-1;{cell}\nA-2;Lee\n".encode("cp1252"), "order.update")
    remark = f"   # CHECK: guessed by the letters, such as {cell}; in cp1250 it is {otherwise}" if otherwise else ""
    assert f"  encoding: [utf-8-sig, cp1252]{remark}\n" in text


def test_progress_is_reported_by_columns(tmp_path):
    reported = []
    observe(
        written(tmp_path, {"orders.csv": orders(), "lines.csv": LINES}), Settings(), lambda *told: reported.append(told)
    )
    assert reported == [(3, 11), (11, 11)]


def test_remarks_of_thousands_of_words_are_looked_at_once(tmp_path):
    """Within the CPU time of a test; it took minutes. Neither as words for a sum nor as a number with a unit."""
    words, letters = "a1 " * 10_000, "a" * 30_000 + "!"
    lines = "".join(f"{words}{number};{letters}{number}!\n" for number in range(3))
    assert "label: Remark" in suggested(tmp_path, f"Remark;Comment\n{lines}", "order.update")

"""Drafts of sheets that confused a newcomer: totals, keys, notations, actions, states and code tables. What a sheet does not prove is marked."""

import json
import re
from datetime import datetime, time

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

from loadsheet.errors import FileRefused


def three(*columns):
    """Three orders with further columns."""
    return orders(*columns, keys=3)


BOXES = ["Boxes", "Kartons", "Caisses", "Cajas", "Dozen", "Kartonger", "Scatole", "Kartony", "Caixas"]
SETS = """\
Order no;Consignee;City;Pickup;Item 1;Crates 1;Kg 1;Zyx 1;Item 2;Crates 2;Kg 2;Zyx 2;Carrier 1;Carrier 2
S-1;Acme Ltd;Leeds;2026-03-02;Oil;4;10;a;Nuts;2;3.5;b;Kirk;Muir
S-2;Beta plc;York;2026-03-02;Nuts;12;21;c;;;;;Kirk;
S-3;Gamma Inc;Hull;2026-03-03;Oil;6;15;d;Rice;3;9;e;Muir;
"""
FREIGHT = "Sendung;Abholung;Zone;Empfänger;PLZ;Ort;Kolli;Kg\n" + "".join(
    f"F-{at};{at + 12}.03.2026;{zone};Haus {town};1010;{town};{at + 2};{kg}\n"
    for at, (zone, town, kg) in enumerate([("N", "Wien", "99,9"), ("S", "Graz", "140,5"), ("N", "Linz", "12,25")])
)
RATES = "zone,from_kg,to_kg,price\nN,0,100,38.50\nN,100,,92.25\nS,0,100,54.10\nS,100,,131.75\n"
FUEL = "valid_from,valid_to,percent\n2026-01-01,2026-03-13,8.5\n2026-03-14,2026-12-31,9.25\n"
DAYS = "Order no;City;Pickup date\nA-1;Ulm;02/06/2026\nA-2;Bonn;03/06/2026\n"
ACTIONS = """\
Action,Lane,Loading,From,To,Postcode,Truck,Tonnes
NEW,KR-41,16/03/2026 05:30,Leith,Carlisle,CA1 2RB,Tipper,27
NEW,KR-42,16/03/2026 05:30,Leith,Penrith,CA11 7XA,Tipper,26.5
NEW,KR-43,17/03/2026 06:00,Leith,Hawick,TD9 0AA,Box,24
CHANGE,KR-42,16/03/2026 11:00,,,,Box,
CANCEL,KR-43,,,,,,
"""
NUMBERS = ACTIONS.replace("Lane", "Number")
CHANGES = "Action,Order No,Consignee,City,Weight kg\nC,1001,Acme,Boston,12.5\nU,1002,Beta,Reno,\nX,1003,,,\n"
LADING = "Sendung;Ladetag;Empfänger;Ort\nAK-0;10.03.2026;Alt GmbH;Ulm\nAK-1;11.03.2026;Berg GmbH;Bonn\n"
LATE = three("Order date;01.03.2026;01.03.2026;02.03.2026")
COUNTRIES = three().replace("DE;02", "Alemania;02").replace("DE;03", "D-Land;03").replace("DE;04", "D-Land;04")
PALLETS = [  # a German workbook with numbers, the weight of one piece
    ["Auftragsnummer", "Empfänger", "Artikel", "Anzahl", "Gewicht je Stück (kg)", "Lieferdatum", "Lieferung von", "Lieferung bis"],
    *([key, "Alt GmbH", "Pumpe", count, 12.25, "03.03.2026", "08:00", "16:00"] for key in ("A-1", "A-2") for count in (2, 9, 4)),
]  # fmt: skip
SERIALS = [  # dates as numbers of days, which nobody formatted
    ["Order no", "Ship to city", "Requested delivery", "Pickup date", "Delivery charge", "Delivery km"],
    *([f"A-{at}", "Leeds", 46357 + at + 17 / 24, 46356 + at, 45000 + at, 46357.5] for at in range(3)),
]
FORMULAS = [  # as programs write them that do not calculate
    ["Order no", "Ship to city", "Pieces", "Total weight kg"],
    *([f"A-{at}", "Leeds", at, f"=C{at}*2"] for at in range(2, 6)),
]
IN_TWO = {
    "heads.csv": three("Goods value;1.200,50;17,25;9,5"),
    "lines.csv": "Order no;Article;Weight (kg)\nA-1;Pump;1,240.5\nA-2;Pump;7.25\nA-3;Valve;2.5\nA-3;Pump;2.5\n",
}
SHOP = {"shop.csv": three("SKU;P1;P2;P1"), "products.csv": "id,kg,m3,name\nP1,4.2,0.02,Pump\nP2,1.1,0.01,Valve\n"}

INVOICES = (  # lines of invoices: no heading is about a status
    "Data;Nota;Tipo movimento;Descrição;Quant;Cidade;Empresa;Registro\n"
    + "".join(f"0{at}/06/2025;30{at};Venda;Tinta {at};{at};Ulm;Alt Lda;{at}77\n" for at in range(1, 6))
)
TRANSIT = "Shipment no;Origin;Destination;Shipment date;Expected arrival;Actual arrival\n" + "".join(
    f"S-{at};Ulm;Leeds;2026-03-0{at};2026-03-1{at};2026-03-2{at}\n" for at in range(1, 6)
)
LINES = "Order no;Line;Article;Kg\n" + "".join(
    f"A-{at};{line};Pump {line};{at * 10}\n" for at in (1, 2, 3) for line in (1, 2)
)
LANES = "Lane ID;Origin city;Destination city;Pickup date;Pickup window;Delivery date;Delivery window\n" + "".join(
    f"L-{at};Ulm;York;02.03.2026;{window};04.03.2026;06:00-10:00\n"
    for at, window in enumerate(("08:00-12:00", "22:00-02:00"))
)
EVENTS = "Shipment id;Event time;Event type;Event delay minutes\n" + "".join(
    f"{at % 9};2026-03-02 10:{at % 60:02}:00{'.25' * (at > 0)};{('At hub', 'Loaded')[at % 2]};{at % 7}\n"
    for at in range(400)
)

DRAFTS = {  # a sheet, the operation that is asked for, and what the draft has or (after a !) has not
    "a number of lines instead of packages": (three(), None, "total_packages: ", "# CHECK: each line counts as one package\n"),
    "the sides of boxes are no weights (Maße is no Masse)": (three("Gewicht (kg);12,5;7,25;9,5", "Maße (cm);120x80x100;60 x 40 x 30;80*60*9"), None,
        " weight: {col: gewicht_kg, round: 3}\n", " length: {col: masse_cm_length, round: 3}\n", "! unit: kg, from_unit: cm"),
    "the sides of packages by their letters": (orders("Goods;Oil;Nuts", "L;120;60", "B.;80;40", "H;100;30,5"), "order.create",
        "{label: L, type: quantity, required: true, unit: cm, min: 0}", "CHECK the unit cm", " length: {col: l", " width: {col: b", " height: {col: h"),
    "letters that are not the sides of packages": (orders("Goods;Oil;Nuts", "L;120;60", "H;100;30"), "order.create", "! length:", "! height:"),
    "a sum of weights that may be those of the orders": (orders("Goods;Oil;Nuts", "Kg;2;2;3;3;7;7", keys=["A-1", "A-1", "A-2", "A-2", "A-3", "A-3"]),
        "order.create", " total_weight: {expr: '$sum([r.kg for r in rows])', round: 3}   # CHECK: all rows of each order have the same"),
    "the whole address, as NetSuite exports it": ("Document number,Item,Quantity,Shipping address,Shipping city,Shipping zip\n"
        + "".join(f'SO{at},Pump,{at * 3},"Acme\n{at} Pine Rd\nReno NV 8950{at}\nUnited States",Reno,8950{at}\n' for at in range(1, 5)), "order.create",
        " delivery_address1: {col: shipping_address}   # CHECK: its cells hold Shipping zip too: it may be the whole address"),
    "a street without the postal code": (three("Goods;Oil"), "order.create", " delivery_address1: {col: street}\n"),
    "numbers that are others in another notation": (three("Weight kg;1.250;12.000;340.500"), None,
        "  locale: en_GB   # 3 of 3 numbers with a decimal mark are in en_GB notation; CHECK whether 1.250 means thousands"),
    "numbers that are none in another notation": (three("Weight kg;1.250;12.000;340.50"), None, "!means thousands"),
    "a number of lines beside a column that may have it": (three("Zyx;4;12;7", "Weight class;1;2;5"), None,
        "counts as one package, unless Zyx has the number\n"),
    "packages of lines of one order": (three("Cajas;4;4;7", "Goods;Oil;Nuts;Rice", "Weight kg;10;21;15").replace("A-2;", "A-1;"), None,
        "!all packages of the row"),
    "dates of invoices are no events": (INVOICES, None, "target: order.create   # CHECK: ", "!an event and its time"),
    "the date of the shipment and the expected arrival": (TRANSIT, "order.create", "$at(shipment_date, ", "$at(expected_arrival, ", "!one day is assumed",
        "# actual_arrival: "),
    "a delay is no delivery, and one moment in many has no fraction of a second": (EVENTS, "order.status", "!destination:",
        '  dates: ["%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S"]', "400 of 400 values read as ", "!not dates"),
    "a weight that does not grow with the quantity": (SETS.replace(";6;15;", ";6;10;"), "order.create",
        " total_weight: {expr: '$sum([r.kg * r.crates for r in items])'"),
    "numbers of a German workbook that do not grow with the quantity": (PALLETS, "order.create",
        " total_weight: {expr: '$sum([r.gewicht_je_stuck_kg * r.anzahl for r in rows])'"),
    "dates that are not formatted as dates": (SERIALS, "order.update", "{label: Pickup date, type: date", '  dates: ["%E"]',
        "3 values are numbers of days; CHECK that 46356 is 2026-11-30",
        " delivery_startdatetime: {col: requested_delivery}", "!{label: Delivery charge, type: date", "!{label: Delivery km, type: date"),
    "formulas without a result": (FORMULAS, "order.update", "{label: Total weight kg, type: text",
        "4 of 4 values are formulas without a result; CHECK with the sender: opened in Excel or LibreOffice and saved, the workbook holds"),
    "times of both ends of a window": (PALLETS, "order.create", " delivery_startdatetime: {expr: 'lieferdatum + lieferung_von'}",
        " delivery_enddatetime: {expr: 'lieferdatum + lieferung_bis'}   # CHECK: Lieferung bis as its time"),
    "a number that could be another one identifies the records": (LADING, "tender.create",
        "tender_id: {col: sendung}   # CHECK: no heading names the tender, but the values identify rows",
        "target: tender.create   # as asked for; points: ", "tender.create "),
    "no identifying column": ("Ladetag;Ort;Kg\n12.03.2026;Ulm;1\n12.03.2026;Ulm;2\n13.03.2026;Bonn;3\n", "order.update",
        "order_id: {col: ort}   # CHECK: no column identifies the order; this one has the most different values", "!\ngroup:", "!order_id: null"),
    "a date that has to be the key": ("Pickup date;Gross weight (kg)\n2026-03-02;1,5\n2026-03-03;2,5\n", "order.update",
        "{label: Pickup date, type: text, required: true, key: true}"),
    "a code table says nothing of the notation": ({"sendungen.csv": FREIGHT, "rates.csv": RATES, "fuel.csv": FUEL}, None,
        "  locale: de_DE   # 3 of 3 numbers with a decimal mark are in de_DE notation\n", "!, locale: "),
    "joined files each in its notation": (IN_TWO, None, "  locale: en_GB   # 4 of 4 numbers",
        "{label: Goods value, type: decimal, required: true, min: 0, locale: de_DE",
        "{label: Weight (kg), type: quantity, required: true, unit: kg, min: 0}"),
    "numbers in two notations": (three("Total weight (kg);12,5;7,25;1.240,5", "Goods value;1,240.50;17.25;8"), None,
        "  locale: de_DE   # 3 of 5 numbers ", "; CHECK the others, such as 1,240.50"),
    "day first by the name of the file": ({"loads_2026-06-01.csv": DAYS}, "order.update", '"%d/%m/%Y"', "day first, by the date in the file's name",
        "!CHECK day"),
    "month first by the name of the file": ({"loads_20260220.csv": DAYS}, "order.update", '"%m/%d/%Y"', "month first, by the date in the file's name",
        "!CHECK day"),
    "a name with a date far away": ({"loads_2026-09-01.csv": DAYS}, "order.update", "CHECK day and month"),
    "a name without a date": ({"loads_12.csv": DAYS}, "order.update", "CHECK day and month"),
    "lanes with actions are tenders": (ACTIONS, None, "one_of: {NEW: tender.create, CHANGE: tender.update, CANCEL: tender.delete}",
        "target: {col: action}   #", " points: tender.create ", "!\ngroup:", " pickup_city: {col: from}   # CHECK: the heading does not mention city",
        " vehicle_type: {col: truck}\n", "{label: Tonnes, type: quantity, unit: kg, from_unit: t", " weight: {col: tonnes"),
    "numbers with actions are orders": (NUMBERS, None, "target: {col: action}", "CHANGE: order.update"),
    "unless tenders are asked for": (NUMBERS, "tender", "CHANGE: tender.update", "tender_id: {col: number}"),
    "an operation that is asked for beside actions": (NUMBERS, "tender.create", "with --target tender it chooses the operation"),
    "letters for actions": (CHANGES, None, "target: {col: action}   # CHECK",
        "required: true, one_of: {C: order.create, U: order.update, X: order.delete}}", "!order_references"),
    "an operation beside letters": (CHANGES, "order.update",
        "target: order.update   # CHECK: Action (C, U, X) marks new, changed and cancelled rows"),
    "lines of one key and one action": (ACTIONS.partition("\n")[0] + "\n" + "".join(f"{line}\n" * 2 for line in ACTIONS.splitlines()[1:]), None,
        "  by: [lane, action]"),
    "codes of places are no towns": (table("Order no;From", "W1", "W2", "W3"), "order.update", "!pickup_city"),
    "a column for cancelled orders that is still blank": (three("Cancelled at;;"), None, "CHECK whether a cell here says that an order is cancelled"),
    "blank columns that fill no field": (three("Colour;;", "Shape;;"), None,
        "  # fill no field, all cells are blank: Colour, Shape\n", "!{label: Colour"),
    "the last day for a cancellation": (three("Cancellation deadline;01.03.2026;02.03.2026"), None, "!is cancelled"),
    "a country and days as SAP names them": (three().replace("Country", "Ld").replace("Pickup date", "WADat").replace("Delivery date", "LfDat"), None,
        " delivery_country: {col: ld}\n", " pickup_startdatetime: {expr: '$at(wa_dat,", " delivery_startdatetime: {expr: '$at(lf_dat,"),
    "an American load date": (three().replace("Pickup date", "Ld Date"), None, " delivery_country: {col: country}\n", " pickup_startdatetime: {expr: '$at(ld_date,"),
    "the name of a French customer": (table("N° pièce;Intitulé;Ville livraison", "Noël SA;Nice", "Câbles SARL;Paris"), "order.update",
        " delivery_company: {col: intitule}"),
    "Portuguese packages": (three("Nº Volumes;4;2;1"), None, " total_packages: {col: no_volumes}"),
    "sums that no word names, by group and of the whole sheet": (
        "Sendung;Empfänger;Ort;Kg\nS-1;Alt;Ulm;1.200,5\nS-2;Berg;Bonn;99,5\n;;;------\n;;;1.300,0\n\nS-3;Alt;Ulm;7\nS-4;Cox;Köln;8\n;;;------\n;;;15\n;;;1.315\n", None,
        "ignore_rows: 'sendung == null and empfanger == null and ort == null'   # CHECK: sums, not records", "!fill_down", "# rows such as 5 hold only"),
    "further packages of a record that are no sums": ("Sendung;Empfänger;Ort;Kg\nS-1;Alt;Ulm;12\n;;;3\nS-2;Berg;Bonn;5\n;;;5\n", None, "fill_down: true", "!ignore_rows"),
    "returns among the deliveries": (three("Order type;Delivery;Return"), None, "CHECK whether rows with Return go the other way"),
    "returns in German": (three("Art;Lieferung;Abholung;Retoure"), None, "CHECK whether rows with Abholung, Retoure go the other way"),
    "returns throughout": (three("Order type;Return"), None, "!go the other way"),
    "states without a cancelled one": (three("Status;open"), None, "!ignore_rows"),
    "cancelled throughout": (three("Status;storniert"), None, "!ignore_rows"),
    "short postal codes of several countries": (three().replace("01067;Dresden;DE", "1110;Wien;AT"), None, "!lost zeros"),
    "unknown countries beside known ones": (COUNTRIES, None, "one_of: {Alemania: DE, D-Land: null}}", "FILL IN the meaning of the codes"),
    "the offset of the day of the pickup": (LATE, None, "timeoffset: ", "!CHECK: no column has the day of the pickup"),
    "the offset of the day of the order": (LATE.replace("Pickup date", "Remark a").replace("Delivery date", "Remark b"), "order.create",
        "CHECK: no column has the day of the pickup"),
    "days of a window": (three("Pickup until;03.03.2026;;04.03.2026"), None,
        "pickup_enddatetime: {expr: '$at(pickup_until ?? pickup_date, t\"PT16H\")'}   # CHECK the time"),
    "a day of an event": ("Order no;Status;Status date\nA-1;PICKED UP;02.03.2026\nA-2;DELIVERED;13.03.2026\n", None,
        "CHECK the time: no column has it; sent as 00:00"),
    "a planned day of an event has no time": ("Order no;Status;Status time;Scheduled delivery date\nA-1;PICKED UP;02.03.2026 10:15;03.03.2026\n", None,
        "    startDate: {col: scheduled_delivery_date}\n", "!startTime"),
    "the reference of a shipper is no origin, and a name may be no destination": (
        "Booking no;Shipper ref;Event;Event time;Consignee\nB-1;R 7;Loaded;02.03.2026 10:15;Alt GmbH\nB-2;R 9;Gate in;02.03.2026 11:15;Ulm AG\n", None,
        "!origin:", " destination: {col: consignee}   # CHECK: the values may be names, not places\n"),
    "the currency of a quote in its heading": ("Tender;Carrier ID;Rate (EUR)\nT-1;C7;1.250,00\nT-2;C8;980,50\n", "tender.quote",
        " currency: {value: EUR}   # CHECK: no column has it; the amounts name it\n"),
    "texts in place of currencies": (three("Currency;Quatloo A;Quatloo B;Quatloo C"), None, " currency: {col: currency}   # CHECK: most of the values are no currencies in this language\n"),
    "a departure and an arrival": ("Shipment;Booked date;ETD;ETA\nA-1;2026-03-01;2026-03-02;2026-03-09\nA-2;2026-03-01;2026-03-03;2026-03-10\n", "order.create",
        " pickup_startdatetime: {expr: '$at(etd, ", " delivery_startdatetime: {expr: '$at(eta, ", " createdon: {col: booked_date}"),
    "the place of an event": ("Shipment;Event;Event time;Location\nA-1;DEP;2026-03-01 09:00;Leeds\nA-1;ARR;2026-03-02 10:00;York\n", "order.status",
        " status_location: {col: location}\n", "!current_location"),
    "the town of an event, and a date of something else": (
        "Shipment;Event;Event city;Event time;Weld date\nA-1;DEP;Leeds;2026-03-01 09:00;2026-02-01\nA-1;ARR;York;2026-03-02 10:00;2026-02-02\n", "order.status",
        " status_location: {col: event_city}", " status_datetime: {col: event_time}\n", "!current_location"),
    "the place where a shipment is": ("Shipment;Event;Event time;Current location\nA-1;DEP;2026-03-01 09:00;Leeds\nA-1;ARR;2026-03-02 10:00;York\n", "order.status",
        " current_location: {col: current_location}", "!status_location"),
    "a few amounts in another currency": (table("Tender;Carrier ID;Rate", *[f"C7;€ 1.250,{at}" for at in range(10, 30)], "C7;$ 980,50", "C7;1.100,00"), "tender.quote",
        "{label: Rate, type: decimal, required: true, currency: EUR}   # 22 of 22 values are numbers; CHECK the cells with $: refused as another currency"),
    "amounts in several currencies": (table("Tender;Carrier ID;Rate", *[f"C7;{sign} 1.250,{at}" for at in range(10, 20) for sign in "€$"]), "tender.quote",
        "{label: Rate, type: text, required: true}   # 20 values, 20 different; CHECK: amounts with €, $ are not of one currency"),
    "a list of cancelled orders, which all are to be deleted": ({"storno.csv": "Auftrag;Storniert am\nA-1;02.03.2026\nA-2;\n"}, None, "target: order.delete",
        "!ignore_rows"),
    "decisions as yes and no": (table("Tender;Carrier ID;Awarded?;Agreed rate", "C7;Yes;100", "C8;No;90", "C9;No;95"), "tender.confirm",
        '{label: Awarded?, type: text, required: true, one_of: {"Yes": accept, "No": reject}}', " status: {col: awarded}\n"),
    "the moment of one event": (table("Auftragsnr.;Zugestellt am;Uhrzeit", "02.03.2026;10:15", "13.03.2026;11:00"), "order.status",
        " status_datetime: {expr: 'zugestellt_am + uhrzeit'}   # CHECK: it is the moment of one event only; CHECK: Uhrzeit as its time"),
    "a change of the beginning alone, whose old end would stay": (table("Order no;New delivery date", "04.03.2026 08:00", "14.03.2026 10:00"), "order.update",
        " delivery_enddatetime: {expr: 'new_delivery_date + t\"PT4H\"'}   # CHECK the length; no column has it; without this line the old end stays at the"),
    "a time without a side right beside a day": (table("Order no;New delivery date;New time", "04.03.2026;14:30", "14.03.2026;10:00"), "order.update",
        " delivery_startdatetime: {expr: 'new_delivery_date + new_time'}   # CHECK", "New time as its time", " delivery_enddatetime: {expr: 'new_delivery_date + new_time + t\"PT4H\"'}"),
    "a time without a side that stands apart": (table("Order no;Delivery date;Vehicle;Time", "04.03.2026;Van;14:30", "14.03.2026;Van;10:00"), "order.update",
        "  # time: "),
    "lines that the number of the order names": ("Belegnr-Pos;Ort;Kg\n" + "".join(f"{at}-{line}0;Ulm;{at}\n" for at in range(4711, 4715) for line in (1, 2)), "order.create",
        "CHECK whether 4711-10, 4711-20 are lines of one order; each is sent as one. To join them: split: '(?P<order>.+)[-/.](?P<line>[0-9]+)'"),
    "numbers of orders with a year": ("Order no;City\n" + "".join(f"2026-{at:03};Ulm\n" for at in range(1, 9)), "order.create", "!lines of one order"),
    "dates and versions are no lines": ("Order no;City;Ready\n" + "".join(f"A-{at}.{at % 3};Ulm;1.3.2026\n" for at in range(1, 9)), "order.create", "!lines of one order"),
    "dates with the word for a year behind them": (table("Nr zamówienia;Data załadunku", "1.11.2026 r.", "13.11.2026 r."), "order.update",
        'dates: ["%d.%m.%Y r."]', "2 of 2 values read as %d.%m.%Y r.", "pickup_startdatetime: {expr: '$at(data_zaladunku"),
    "a change of the end alone": (table("Order no;Deliver until;Vehicle", "04.03.2026 08:00;", "14.03.2026 10:00;Van"), "order.update",
        " delivery_startdatetime: {expr: 'deliver_until - t\"PT4H\"'}   # CHECK the length; no column has it; without this line the old beginning stays at"),
    "a change of days, of tenders too": (table("Tender;Pickup date", "04.03.2026", "14.03.2026"), "tender.update",
        " pickup_enddatetime: {expr: '$at(pickup_date, t\"PT8H\") + t\"PT4H\"'}   # CHECK the length"),
    "times with a dot": (table("Ordine;Data evento;Ora evento;Codice evento", "13-03-2026;06.00;10", "14-03-2026;18.30;20"), "order.status",
        " status_datetime: {expr: 'data_evento + ora_evento'}   # CHECK", '{label: Ora evento, type: time, formats: ["%H.%M"]'),
    "day and month alike in the whole sheet": (table("Order #;Scan date;Scan code;Est. delivery", *(f"03/0{at}/26;PU;03/04/26" for at in range(1, 8))), "order.status",
        "{label: Scan date, type: datetime, required: true}   # 7 of 7 values read as %m/%d/%y; CHECK day", 'dates: ["%m/%d/%y"]',
        "{label: Est. delivery, type: datetime, required: true}   # 7 of 7 values read as %m/%d/%y; CHECK day and month, as in Scan date",
        "    startDate: {col: est_delivery}\n", "!deliveryDate"),
    "no currency without an amount": (three("Note (EUR);a;b"), "order.update", "!currency:"),
    "windows in one cell, of tenders too": (LANES, "tender.create", "pickup_window_late < pickup_window_early ? t\"P1D\" : t\"PT0S\") + pickup_window_late'}   # CHECK: Pickup window late as",
        " delivery_startdatetime: {expr: 'delivery_date + delivery_window_early'}", " delivery_enddatetime: {expr: 'delivery_date + delivery_window_late'}"),
    "times that are none": ("Order no;Status;Date;Time\n" + "".join(f"A-{at};OUT;0{at}.03.2026;{15 + 2 * at}:00\n" for at in range(1, 6)), None,
        "4 of 5 values read as %H:%M; CHECK the others, such as 25:00"),
    "the price of one piece": (orders("Goods;Oil;Nuts;Oil", "Qty;2;3;5", "Unit price;12,50;3,20;12,50"), "order.create", "{label: Unit price, type: decimal, required: true}",
        " goods_value: {expr: '$sum([r.unit_price * r.qty for r in rows])', round: 2}   # CHECK: Unit price counts as of one piece and is multiplied by Qty; is it so?\n"),
    "prices of whole lines": (orders("Goods;Oil;Nuts;Oil", "Qty;2;3;5", "Price (EUR);25;9;62,5", keys=["A-1"] * 3 + ["A-2"] * 9), "order.create",
        " goods_value: {expr: '$sum([r.price_eur for r in rows])', round: 2}   # CHECK: Price (EUR) counts as of the whole line; is it so?\n"),
    "a price of the freight": (orders("Goods;Oil;Nuts;Oil", "Qty;2;3;5", "Freight price;25;9;62,5"), "order.create", " goods_value: {value: 0}   # CHECK"),
    "goods that only a description names": (orders("Description;Oil pump;Nuts", "Kg;2;3;7", "Remarks;;call"), "order.create",
        " item_name: {col: description}   # CHECK: no heading names the goods\n", " description: {col: remarks}"),
    "remarks are no goods": (orders("Kg;2;3;7", "Remarks;;call"), "order.create", "! packages:"),
    "an amount that is the same in the whole sheet": (orders("Goods;Oil;Nuts", "Value;50", keys=["A-1", "A-1", "A-2", "A-2", "A-3", "A-3"]), "order.create",
        " goods_value: {col: value}   # CHECK: all rows have the same; is it that of each row, or of the whole order?\n"),
    "weights of orders on their lines in a table of their own": ({"heads.csv": three(), "lines.csv": LINES}, "order.create",
        " weight: {col: kg, round: 3}   # CHECK: all rows of each order have the same; is it that of the whole order?\n"),
    "times as texts beside real ones": ([["Order no", "Status", "Date", "Time"], *(
            [f"A-{at}", "OUT", datetime(2026, 3, 2), f"0{at}:15 PM" if at % 2 else time(at, 30)] for at in range(1, 8))], "order.status",
        " status_datetime: {expr: 'date + time'}   # CHECK"),
    "times that are blank in places": (table("Order no;Status;Date;Time", "OUT;02.03.2026;10:15", "OUT;03.03.2026;", "OUT;;"), None,
        "CHECK: Time as its time; 00:00 where that is blank; not sent without Date"),
    "a percentage is no price of a service": (table("Tender;Carrier ID;Rate;Fuel %;Toll surcharge", "C7;100;12.5;8.5"), "tender.quote", "!{value: Fuel", "{value: Toll surcharge}"),
    "a time in one cell is enough": (three().replace("DE;03.03.2026", "DE;03.03.2026 09:30"), None, " pickup_startdatetime: {col: pickup_date}\n"),
    "bands from 0 to 99": ({"sendungen.csv": FREIGHT, "vehicles.csv": "min kg,max kg,vehicle\n0,99,Van\n100,499,Truck\n"}, None,
        "range: {from: min kg, to: max kg, upper: included, gaps: allow}, value: vehicle}"),
    "a code table with its values and their types": (SHOP, None,
        "add lookups: {products: {file: lookups/products.csv, key: id, value: [kg, m3, name], types: {kg: decimal, m3: decimal}}}, and",
        "and lookup: products at SKU"),
    "no keys without effect": (three("Vehicle;Van;;Truck", "Phone;+49 351 1;;+49 351 22"), None, "!unless_blank"),
    **{f"{heading} are counted": (three(f"{heading};4;12;7"), None, f" total_packages: {{col: {heading.lower()}}}\n") for heading in BOXES},
}  # fmt: skip


@pytest.mark.parametrize("case", DRAFTS)
def test_a_draft_marks_what_the_sheet_does_not_prove(tmp_path, case):
    sheet, target, *said = DRAFTS[case]
    text = suggested(tmp_path, sheet, target)
    assert unsaid(text, said) == [], text
    assert mistakes(tmp_path, text) == []


# ---- drafts at work ----


def first_of(tmp_path, text):
    """The first record that a draft for new orders gives once it is filled in."""
    (path,) = tmp_path.glob("sheet.*")
    return json.loads(translated(mapping_of(tmp_path, text), [path])[0].payload)


DAYS_IN_TEXT = (  # as Microsoft Dynamics exports its dates
    "Order no;Customer no;Ship-to city;Ship-to postcode;Order date;Shipment date;Promised delivery date;Ready;Quantity\n"
    "A-1;46801;Leeds;46357;46356;46357;46358,5;46357;3\nA-2;46802;York;46357;46356;46358;46359,25;46357;4\n"
)


def test_dates_that_are_numbers_of_days_are_drafted_and_read_as_such(tmp_path):
    text = suggested(tmp_path, DAYS_IN_TEXT, "order.update")
    columns = drafted_columns(text)
    dated = [label for label in columns if "numbers of days; CHECK that 46" in columns[label]]
    assert dated == ["Order date", "Shipment date", "Promised delivery date"]
    assert mistakes(tmp_path, text) == []
    (sent, _) = (json.loads(one.payload) for one in translated(mapping_of(tmp_path, text), [tmp_path / "sheet.csv"]))
    assert (sent["createdon"], sent["pickup_startdatetime"], sent["delivery_startdatetime"]) == (
        "2026-11-30 00:00:00", "2026-12-01 08:00:00", "2026-12-02 12:00:00",
    )  # fmt: skip


def test_a_window_over_midnight_ends_on_the_next_day(tmp_path):
    text = suggested(tmp_path, LANES, "tender.create")
    mapping = mapping_of(tmp_path, text, "tender.create")
    sent = [json.loads(one.payload) for one in translated(mapping, [tmp_path / "sheet.csv"])]
    assert [(one["pickup_startdatetime"], one["pickup_enddatetime"]) for one in sent] == [
        ("2026-03-02 08:00:00", "2026-03-02 12:00:00"), ("2026-03-02 22:00:00", "2026-03-03 02:00:00"),
    ]  # fmt: skip


def test_packages_of_a_row_have_its_number_of_packages(tmp_path):
    text = suggested(tmp_path, three("Cajas;4;12;7", "Goods;Oil;Nuts;Rice", "Weight kg;10;21;15"))
    assert " quantity: {col: cajas}   # CHECK: all packages of the row are alike\n" in text
    assert mistakes(tmp_path, text) == []
    assert [one["quantity"] for one in first_of(tmp_path, text)["packages"]] == [4]


def test_all_columns_of_a_set_are_in_it_and_its_amounts_add_up(tmp_path):
    text = suggested(tmp_path, SETS, "order.create")
    columns = drafted_columns(text)
    kilos = 'kg:     {label: "Kg {set}", type: quantity, required: true, unit: kg, min: 0}'
    assert (columns["Kg {set}"].startswith(kilos), "CHECK" in columns["Kg {set}"]) == (True, False)
    assert columns["Zyx {set}"].startswith("# ")
    assert "Carrier {set}" not in columns  # its columns stand apart
    sums = [
        " total_packages: {expr: '$sum([r.crates for r in items])'}\n",
        " total_weight: {expr: '$sum([r.kg for r in items])', round: 3}\n",
    ]
    assert unsaid(text, sums) == []
    assert mistakes(tmp_path, text) == []
    sent = first_of(tmp_path, text)
    assert (sent["total_packages"], sent["total_weight"]) == (6, 13.5)
    partly = suggested(tmp_path, SETS.replace("Nuts;2;3.5;b", "Nuts;2;;b"), "order.create")
    assert "required" not in drafted_columns(partly)["Kg {set}"]


def test_states_are_marked_and_leaving_out_rows_is_offered(tmp_path):
    assert " ignore_rows: 'statut == \"Annulée\"'" in suggested(tmp_path, three("Statut;Expédiée;Annulée;Reçue"))
    text = suggested(tmp_path, three("Order status;complete;on hold;cancelled"))
    said = "# CHECK: sent as written: complete, on hold, cancelled; does the exchange know these values?"
    assert f"  order_status: {{col: order_status}}   {said}\n" in text
    rule = re.search(
        "to be left out, by the table under source.tables: (ignore_rows: '.*')", drafted_columns(text)["Order status"]
    )[1]
    ruled = text.replace("    rows: {}", f"    rows: {{{rule}}}")
    found = translated(mapping_of(tmp_path, ruled), [tmp_path / "sheet.csv"])
    assert [document.key for document in found] == ["A-1", "A-2"]


@pytest.mark.parametrize(
    ("column", "sent"),
    [
        ("Cancelled at;;2026-03-01 10:00;", ["A-1", "A-3"]),
        ("Storno;x;;", ["A-2", "A-3"]),
        ("Annulé;oui;non;non", ["A-2", "A-3"]),
        ("Annuleringsverzoek;Nee;Nee;Ja", ["A-1", "A-2"]),
        ("Fecha cancelación;;;01.03.2026", ["A-1", "A-2"]),
    ],
)
def test_a_column_of_cancelled_orders_is_marked_and_leaving_them_out_is_offered(tmp_path, column, sent):
    text = suggested(tmp_path, three(column))
    said = drafted_columns(text)[column.partition(";")[0]]
    rule = re.search(
        "CHECK whether a cell here says that an order is cancelled; all are sent.*: (ignore_rows: '.*')", said
    )[1]
    ruled = text.replace("    rows: {}", f"    rows: {{{rule}}}")
    ruled = re.sub("^  # (?=[a-z_]+: +{label: (Canc|Storno|Annu|Fecha canc))", "  ", ruled, flags=re.MULTILINE)
    found = translated(mapping_of(tmp_path, ruled), [tmp_path / "sheet.csv"])
    assert [document.key for document in found] == sent


@pytest.mark.parametrize("cells", ["TRUE;FALSE;TRUE", "x;;x", "ja;nein;ja"])
def test_a_checkbox_that_may_say_which_rows_are_meant_is_marked(tmp_path, cells):
    text = suggested(tmp_path, three(f"Ship?;{cells}"))
    said = drafted_columns(text)["Ship?"]
    assert "CHECK whether only rows with a yes are to be sent; all are" in said
    rule = re.search("ignore_rows: '.*'", said)[0]
    ruled = text.replace("    rows: {}", f"    rows: {{{rule}}}").replace("  # ship:", "  ship:")
    found = translated(mapping_of(tmp_path, ruled), [tmp_path / "sheet.csv"])
    assert [document.key for document in found] == ["A-1", "A-3"]


@pytest.mark.parametrize("column", ["Ship?;TRUE;TRUE;TRUE", "Tail lift?;TRUE;FALSE;TRUE"])
def test_other_checkboxes_are_not_marked(tmp_path, column):
    assert "rows with a yes" not in suggested(tmp_path, three(column))


IN_LINES = (  # the shop says of an order what it is in its first row alone
    "Order no;Consignee;Street;Postcode;City;Country;Pickup date;Delivery date;Article name;{column}\n"
    "A-1;Alt Lda;Kai 1;01067;Ulm;DE;02.03.2026;03.03.2026;Pump;{open}\nA-1;;;;;;;;Seal;\n"
    "A-2;Bo Lda;Kai 2;01067;Ulm;DE;02.03.2026;03.03.2026;Pump;{out}\nA-2;;;;;;;;Seal;{below}\nA-2;;;;;;;;Valve;{below}\n"
    "A-3;Co Lda;Kai 3;01067;Ulm;DE;02.03.2026;03.03.2026;Pump;{open}\n"
)


@pytest.mark.parametrize(
    ("column", "sent", "cells"),
    [
        ("Cancelled at", {"A-1": 2, "A-3": 1}, {"open": "", "out": "02.03.2026 10:00", "below": ""}),
        ("Order status", {"A-1": 2, "A-3": 1}, {"open": "paid", "out": "cancelled", "below": ""}),
        (
            "Line cancelled",
            {"A-1": 2, "A-2": 1, "A-3": 1},
            {"open": "", "out": "", "below": "x"},
        ),  # each row for itself
    ],
)
@pytest.mark.parametrize("key_below", [True, False])
def test_the_offered_rule_leaves_out_a_cancelled_order_with_all_its_rows(tmp_path, column, sent, cells, key_below):
    sheet = IN_LINES.format(column=column, **cells)
    text = suggested(tmp_path, sheet if key_below else re.sub("(?<=\n)A-[0-9](?=;;)", "", sheet), "order.update")
    said = drafted_columns(text)[column]
    assert ("fill_down: true" in said, "all are sent" in said or "orders whose first row" in said) == (
        column != "Line cancelled", True,
    )  # fmt: skip
    rule = re.search("ignore_rows: '.*'", said)[0]
    ruled = text.replace("    rows: {}", f"    rows: {{{rule}}}")
    ruled = re.sub("^  # (?=[a-z_]+: +{label: (Canc|Line canc))", "  ", ruled, flags=re.MULTILINE)
    found = translated(mapping_of(tmp_path, ruled), [tmp_path / "sheet.csv"])
    assert {one.key: len(one.rows) for one in found} == sent


def test_first_and_last_names_are_joined(tmp_path):
    text = suggested(tmp_path, three("First name;Ann;Bob;Cy", "Last name;Ames;Burr;Cole"))
    assert "party_name: {expr: '$join([first_name, last_name], \" \")'}" in text
    assert first_of(tmp_path, text)["involved_parties"][0]["party_name"] == "Ann Ames"


@pytest.mark.parametrize(
    ("heading", "first", "sent"),
    [
        ("Auftrag;Empfänger;Straße;Hausnummer;PLZ;Ort", "Meyer;Hauptstr.;12a;01067;Dresden", "Meyer|Hauptstr. 12a|"),
        ("Order;Klant;Straat;Nr;Postcode;Plaats", "Jansen;Dam;3;1012 JS;Amsterdam", "Jansen|Dam 3|"),
        ("Commande;Client;N° de rue;Rue;Code postal;Ville", "Petit;7;rue Haute;75001;Paris", "Petit|7 rue Haute|"),
        ("Pedido;Cliente;Endereço;Número;CEP;Cidade", "Silva;Rua Sul;s/n;01310-100;São Paulo", "Silva|Rua Sul s/n|"),
        ("Ordine;Cliente;Indirizzo;Civico;CAP;Città", "Rossi;Via Roma;5;20121;Milano", "Rossi|Via Roma 5|"),
        ("Auftrag;Name 1;Name 2;Name 3;Straße;PLZ;Ort", "Meyer;c/o Abt;2. OG;Weg 1;01067;Ulm", "Meyer c/o Abt 2. OG|Weg 1|"),
        ("Order;Company;Address 1;Address 2;Address 3;Postcode;City", "Ames;Pier 4;Gate B;Bay 9;LS1 4DY;Leeds", "Ames|Pier 4|Gate B Bay 9"),
    ],
)  # fmt: skip
def test_a_name_or_a_street_in_several_columns_is_sent_whole(tmp_path, heading, first, sent):
    text = suggested(tmp_path, table(heading, first, first, first), "order.create")
    assert re.search("delivery_.*CHECK: with ", text)
    record = first_of(tmp_path, text)
    assert "|".join(record[f"delivery_{name}"] for name in ("company", "address1", "address2")) == sent


def test_an_order_of_a_private_customer_goes_to_the_person_where_others_have_a_company(tmp_path):
    heads = "Bestellnummer;Versand Vorname;Versand Nachname;Versand Firma;Versand Straße;Versand PLZ;Versand Ort;Versanddatum"
    lines = ["Max;Meier;;Markt 4;04109;Leipzig;26.11.2026", "Eva;Klein;Klein GmbH;Ring 2;80331;München;26.11.2026"]
    text = suggested(tmp_path, table(heads, *lines), "order.create")
    (path,) = tmp_path.glob("sheet.*")
    found = translated(mapping_of(tmp_path, text), [path])
    assert [json.loads(document.payload)["delivery_company"] for document in found] == ["Max Meier", "Klein GmbH"]
    record = json.loads(found[0].payload)
    assert (record["delivery_city"], record["pickup_startdatetime"]) == ("Leipzig", "2026-11-26 08:00:00")


@pytest.mark.parametrize(
    ("heading", "person"),
    [
        ("Commande;Livraison : prénom;Livraison : nom;Livraison : rue;Livraison : code postal;Livraison : ville", "Max;Meier"),
        ("Bestellnummer;Vorname;Name;Straße;PLZ;Ort", "Max;Meier"),
        ("Order no;Full name;Street;Postcode;City", "Max Meier"),
        ("Numer zamówienia;Imię i nazwisko;Ulica;Kod pocztowy;Miasto", "Max Meier"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("company", ["", ";Firma", ";Société"])
def test_a_private_customer_is_sent_with_the_whole_name_once(tmp_path, heading, person, company):
    parts = company.replace(";", ";Livraison : ") if "Livraison" in heading else company
    line = f"{person};Markt 4;04109;Leipzig{';' * bool(company)}"
    text = suggested(tmp_path, table(heading + parts, line, line, line), "order.create")
    assert re.search("  delivery_company: .*CHECK: the name of the person", text)
    record = first_of(tmp_path, text)
    assert (record["delivery_company"], record["involved_parties"][0]["party_name"]) == ("Max Meier", "Max Meier")


def test_a_name_beside_a_first_name_is_that_of_a_company_if_it_ends_like_one(tmp_path):
    lines = ["Eva;Klein GmbH;Ring 2;80331;München", "Max;Abt AG;Markt 4;04109;Leipzig"]
    text = suggested(tmp_path, table("Bestellnummer;Vorname;Name;Straße;PLZ;Ort", *lines), "order.create")
    assert first_of(tmp_path, text)["delivery_company"] == "Klein GmbH"


def test_an_order_without_its_street_is_refused_although_it_has_a_house_number(tmp_path):
    lines = ["Meyer;Hauptstr.;12a;01067;Dresden", "Meyer;;7;01067;Dresden", "Meyer;Markt;;01067;Dresden"]
    sheet = table("Auftrag;Empfänger;Straße;Hausnummer;PLZ;Ort", *lines)
    found = translated(mapping_of(tmp_path, suggested(tmp_path, sheet, "order.create")), written(tmp_path, sheet))
    assert [document.usable for document in found] == [True, False, True]


@pytest.mark.parametrize("native", [False, True], ids=["texts", "dates of a workbook"])
def test_days_without_a_time_are_not_sent_as_midnight(tmp_path, native):
    days = ["Pickup date", *(datetime(2026, 3, day) for day in (2, 3, 4))]
    heads = [HEAD, *(f"A-{at};{place}" for at, place in enumerate(PLACES, 1))]
    rows = [[*line.split(";")[:6], day] for line, day in zip(heads, days, strict=True)]
    text = suggested(tmp_path, rows if native else three())
    assert "type: date, " in drafted_columns(text)["Pickup date"]
    start = " pickup_startdatetime: {expr: '$at(pickup_date, t\"PT8H\")'}   # CHECK the time; no column has it\n"
    assert start in text
    assert re.search(" pickup_enddatetime: .*CHECK", text)
    assert mistakes(tmp_path, text) == []
    sent = first_of(tmp_path, text)
    day = "2026-03-02 "
    assert [sent[f"pickup_{end}datetime"] for end in ("start", "end")] == [f"{day}08:00:00", f"{day}12:00:00"]


def test_offered_lookups_can_be_pasted(tmp_path):
    text = suggested(tmp_path, {"sendungen.csv": FREIGHT, "rates.csv": RATES, "fuel.csv": FUEL})
    fuel = "{label: Abholung, type: date, required: true, lookup: fuel}"
    assert unsaid(text, ["and lookup: rates, lookup_with: [kg] at Zone", f"and a column {fuel}"]) == []
    (tmp_path / "lookups").mkdir()
    for name in ("rates.csv", "fuel.csv"):
        (tmp_path / name).rename(tmp_path / "lookups" / name)
    rates, surcharges = (re.search(rf"add lookups: {{({name}: .*?}})}}, and", text)[1] for name in ("rates", "fuel"))
    zone = "zone: {label: Zone, required: true, lookup: rates, lookup_with: [kg]}"
    text = re.sub(r"# zone: +{label: Zone, type: text}", zone, text).replace(
        "\ncolumns:\n", f"\ncolumns:\n  fuel: {fuel}\n"
    )
    text = text.replace("\nconstants:", f"\nlookups: {{{rates}, {surcharges}}}\nconstants:")
    text = re.sub("goods_value: .*", "goods_value: {expr: 'zone + fuel'}", text)
    found = translated(mapping_of(tmp_path, text), [tmp_path / "sendungen.csv"])
    assert [json.loads(one.payload)["goods_value"] for one in found] == [47.0, 140.25, 47.75]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("numbers", ["other orders", "some of the same orders"])
def test_two_sheets_of_one_layout_are_two_mappings(tmp_path, numbers, backwards):
    head = ["Number", "Collect", "Customer", "Street", "Postcode", "Town", "Boxes", "Kg", "Reason"]
    place, sheets = ["Oy Ab", "Tie 1", "00100", "Helsinki"], {}
    for title, width in [("Orders", 8), ("Returns", 9)][:: -1 if backwards else 1]:
        prefix = title[0] if numbers == "other orders" else "A"
        rows = [[f"{prefix}-{at}", datetime(2026, 3, 9 + at), *place, at + 1, 2.5, "Broken"] for at in range(3)]
        sheets[title] = [row[:width] for row in (head, *rows)]
    text = suggested(tmp_path, sheets)
    said = [
        "rows: {sheet: [Orders]}   # CHECK: Returns has the same headings, and is not read\n", "# not read: Returns: it has the headings of Orders and records of its own: write a second mapping for it",
        "with source: {shared: true} in both", "(extends: base/NAME.yaml)",
    ]  # fmt: skip
    assert unsaid(text, said) == []


def daily_export(*titles):
    """The sheets of a workbook: one of notes, and one of orders for each of these titles."""
    head, place = (
        ["Number", "Collect", "Customer", "Street", "Postcode", "Town", "Kg"],
        ["Oy Ab", "Tie 1", "00100", "Helsinki"],
    )
    sheets = {"Notes": [["exported by the web shop"]]}
    for number, title in enumerate(titles):
        rows = [[f"A-{number}{at}", datetime(2026, 3, 9), *place, 2.5 + at] for at in range(3)]
        sheets[title] = [head, *rows]
    return sheets


def test_the_only_table_of_a_workbook_may_have_another_name_in_the_next_file(tmp_path):
    mapping = mapping_of(tmp_path, suggested(tmp_path, daily_export("Orders 2026-03-09")))
    documents = translated(mapping, written(tmp_path, daily_export("Orders 2026-03-10")))
    assert [document.key for document in documents] == ["A-00", "A-01", "A-02"]
    with pytest.raises(FileRefused, match=r"R238.*Week 10, Week 11"):
        translated(mapping, written(tmp_path, daily_export("Week 10", "Week 11")))


def test_a_sheet_without_one_of_the_columns_is_not_said_to_be_read(tmp_path):
    sheets = daily_export("Home", "Branch")
    sheets["Branch"] = [row[:3] + row[4:] for row in sheets["Branch"]]
    text = suggested(tmp_path, sheets)
    assert (
        unsaid(
            text,
            [
                "rows: {sheet: [Home]}   # CHECK: Branch has the same headings, and is not read\n",
                "# not read: Branch: ",
            ],
        )
        == []
    )


@pytest.mark.parametrize(
    "titles",
    [
        ("Jan", "Feb", "Mar"),
        ("Hamburg", "Berlin"),
        ("Orders Q1", "Orders Q2"),
        ("2026-01", "2026-02"),
        ("Lager 1", "Lager 2"),
    ],
)
def test_sheets_of_one_layout_for_months_or_places_are_read_by_one_mapping(tmp_path, titles):
    text = suggested(tmp_path, daily_export(*titles))
    remark = f"every sheet with these headings is read, here {', '.join(titles)}"
    assert f'    rows: {{sheet: "*"}}   # CHECK: {remark}\n' in text
    assert not any(f"not read: {title}" in text for title in titles)
    mapping = mapping_of(tmp_path, text)
    found = [one.key for one in translated(mapping, written(tmp_path, daily_export(*titles, "Next")))]
    assert found == [f"A-{number}{at}" for number in range(len(titles) + 1) for at in range(3)]


@pytest.mark.parametrize(
    "titles", [("Orders", "Cancelled"), ("2026", "Archive"), ("Orders", "Shipments"), ("Data", "Example")]
)
def test_sheets_of_one_layout_that_may_list_something_else_are_not_read_together(tmp_path, titles):
    text = suggested(tmp_path, daily_export(*titles))
    assert 'sheet: "*"' not in text
    assert "write a second mapping for it" in text

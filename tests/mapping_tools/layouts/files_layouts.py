"""Layouts of several files or sheets, of several records in a row, of tenders, quotes and events, and a sheet without a table."""

from .orders_layouts import NEW
from .sheet_layouts import layout, sheet

SHOP_ORDERS = """
OrderID | order_id | seq {:05} | key ;; Site | order_references.value/- | of MMX;GBG;LLA ;; Consignee | delivery_company | place company
Street | delivery_address1 | place street ;; Zip | delivery_pincode | place zip ;; City | delivery_city | place city
Country | delivery_country | country ;; Ready | pickup_startdatetime | day %Y-%m-%d %H:%M
Deliver | delivery_startdatetime/delivery_enddatetime | day %Y-%m-%d %H:%M ;; Value | goods_value | num 200 9000 2 plain
Ccy | currency | of SEK;EUR ;; Delivery notes code | - | of 0;7;12
"""
SHOP_PACKAGES = """
OrderID | join | seq {:05} | join ;; Line | - | rows 1;2 | line ;; Type | packages.package_type | of PLL;CTN;RLL
Goods | packages.item_name/packages.description | of Paper A4;Reels;Boards ;; GrossLb | packages.weight | num 5 900 1 plain
Cuft | packages.volume | num 1 90 2 plain
"""
BOOK_ORDERS = """
Order no. | order_id | seq B{:04} | key ;; PO number | order_references.value | seq 45{:08} ;; Ready from | pickup_startdatetime | day native
Ready until | pickup_enddatetime | day native ;; Deliver by | delivery_enddatetime | day native ;; Consignee | delivery_company | place company
Address | delivery_address1 | place street ;; Town | delivery_city | place city ;; Postcode | delivery_pincode | place zip
Country | delivery_country | country ;; Freight paid by | involved_parties.party_company/involved_parties.party_name | of Shipper;Consignee
"""
BOOK_LINES = """
Order no. | join | seq B{:04} | join ;; Package | packages.package_type | of Pallet;Carton;Drum
Contents | packages.item_name/packages.description | of Paint;Varnish;Brushes ;; Gross kg | packages.weight | num 5 800 1 native
L cm | packages.length | int 20 120 native ;; W cm | packages.width | int 20 100 native ;; H cm | packages.height | int 20 200 native
Dangerous goods | packages.hazardous | yes yes/no
"""
PRICES = """
Zone | - | rows 1;2;3;4 ;; Up to 100 kg | - | num 20 60 2 native ;; Up to 500 kg | - | num 60 160 2 native
"""
SALES = """
Bestellung | order_id | seq {:06} | key ;; Kunde | delivery_company | place company ;; Straße | delivery_address1 | place street
PLZ | delivery_pincode | place zip ;; Ort | delivery_city | place city ;; Liefertermin | delivery_startdatetime/delivery_enddatetime | day %d.%m.%Y
Artikelnr. | join/packages.description/order_references.value | rows 4711;4712;4713;4714 | line join
Menge | packages.quantity/total_packages | int 1 9
"""
PRODUCTS = """
Artikelnr. | join | rows 4711;4712;4713;4714;4715 | join
Bezeichnung | packages.item_name/packages.description | rows Pumpe;Ventil;Filter;Rohr;Flansch | line
Gewicht je Stück (kg) | packages.weight | num 1 60 2 de | line ;; Länge (mm) | packages.length | int 100 2000 | line
Preisgruppe | - | of A;B
"""
SHIPMENTS = """
Shipment | order_id | seq SH{:05} | key ;; From site | join/pickup_company/order_references.value | rows W1;W2;W3 | line join
To | delivery_company | place company ;; To street | delivery_address1 | place street ;; To city | delivery_city | place city
To postcode | delivery_pincode | place zip ;; Load date | pickup_startdatetime | day %d/%m/%Y %H:%M
Unload date | delivery_startdatetime/delivery_enddatetime | day %d/%m/%Y %H:%M ;; Pallets | packages.quantity/total_packages | int 1 26
Weight (kg) | packages.weight/total_weight | num 100 9000 0 plain
"""
SITES = """
Code | join | rows W1;W2;W3;W4 | join ;; Site name | pickup_company | rows Quay depot;North hub;Cross dock;Spare hall
Street | pickup_address1 | rows Quay 3;Hub Road 1;Dock Lane 8;Spare St 2 ;; Town | pickup_city | rows Bristol;Leeds;Derby;Hull
Postcode | pickup_pincode | rows BS1 6QH;LS1 4DY;DE1 1AA;HU1 1AA ;; Manager | involved_parties.party_name/- | person
"""
PAIRS = """
Order | order_id | seq P-{:04} | key ;; Consignee | delivery_company | place company ;; City | delivery_city | place city
Postcode | delivery_pincode | place zip ;; Pickup | pickup_startdatetime | day %d/%m/%Y ;; Item 1 | packages.item_name | of Tiles;Grout
Qty 1 | packages.quantity/total_packages | int 1 9 ;; Weight 1 (kg) | packages.weight | num 1 90 1 plain
Item 2 | packages.item_name | of Trim;Glue | blank=40 with=2 ;; Qty 2 | packages.quantity/total_packages | int 1 9 | blank=40 with=2
Weight 2 (kg) | packages.weight | num 1 90 1 plain | blank=40 with=2
"""
REPEATED = """
Order | order_id | seq R-{:04} | key ;; Consignee | delivery_company | place company ;; City | delivery_city | place city
Pickup | pickup_startdatetime | day %d/%m/%Y ;; Item | packages.item_name | of Tiles;Grout ;; Qty | packages.quantity/total_packages | int 1 9
Item | packages.item_name | of Trim;Glue ;; Qty | packages.quantity/total_packages | int 1 9
"""
SIDES = """
Load | order_id | seq L{:05} | key ;; Name | pickup_company | place company ;; Street | pickup_address1 | place street
City | pickup_city | place city ;; Loading date | pickup_startdatetime | day %d/%m/%Y ;; Name | delivery_company | place company
Street | delivery_address1 | place street ;; City | delivery_city | place city
Unloading date | delivery_startdatetime/delivery_enddatetime | day %d/%m/%Y ;; Weight kg | packages.weight/total_weight | num 100 9000 0 plain
"""
RECORDS = """\
Satz;Auftrag;Empfänger;Ort;PLZ;Abholung;Lieferung;Artikel;Menge;Gewicht (kg)
H;K-3301;Baumarkt Süd KG;München;80939;10.03.2026 07:00;11.03.2026 08:00;;;
D;K-3301;;;;;;Schraubzwingen;4;48,5
D;K-3301;;;;;;Werkbank;1;212
H;K-3302;Eisen Müller;Leipzig;04103;10.03.2026 09:00;11.03.2026 10:00;;;
D;K-3302;;;;;;Nägel;20;160
H;K-3303;Holz Huber;Wien;1110;11.03.2026 09:00;12.03.2026 10:00;;;
D;K-3303;;;;;;Dübel;7;9,5
D;K-3303;;;;;;Leim;2;24
"""
RECORD_COLUMNS = """
Satz | kind ;; Auftrag | order_id/join | seq x | key ;; Empfänger | delivery_company ;; Ort | delivery_city ;; PLZ | delivery_pincode
Abholung | pickup_startdatetime ;; Lieferung | delivery_startdatetime/delivery_enddatetime |
Artikel | packages.item_name/packages.description ;; Menge | packages.quantity/total_packages | int 1 2 ;; Gewicht (kg) | packages.weight
"""
LANES = """
Lane ID | tender_id | seq LN-{:04} | key ;; Origin city | pickup_city | place city ;; Origin ZIP | pickup_pincode | place zip
Origin country | pickup_country | country ;; Destination city | delivery_city | place city ;; Destination ZIP | delivery_pincode | place zip
Destination country | delivery_country | country ;; Mode | transport_mode | of Road;Rail ;; Equipment | vehicle_type | of Mega trailer;Box truck
Loading window start | pickup_startdatetime | day %d/%m/%Y %H:%M ;; Loading window end | pickup_enddatetime | day %d/%m/%Y %H:%M
Currency | currency | of EUR;GBP ;; Commodity | packages.item_name/packages.description | of Paper;Steel coils
Pallets per trip | packages.quantity | int 10 33 ;; Trips per year | - | int 12 200 ;; Your rate | - | blank
Comments | tender_references.value/packages.description/- | blank
"""
QUOTES = """
Tender ref | tender_id | seq LN-{:04} | key ;; Carrier ID | carrier_id | same C-0815
Offer (EUR) | tenderRate | num 400 2400 2 plain ;; Quoted at | response_datetime | day %Y-%m-%d %H:%M
Fuel surcharge | additional_services.service_price/- | num 10 90 2 plain ;; Valid until | - | day %Y-%m-%d
"""
DECISIONS = """
Tender | tender_id | seq LN-{:04} | key ;; Carrier | carrier_id | of C-0815;C-0042 ;; Rate | tenderRate | num 400 2400 2 plain
Decision | status | of accept;reject ;; Decided at | response_datetime | day %d/%m/%Y %H:%M
"""
EVENTS = """
Sendungsnr. | order_id | seq {:07} | key ;; Statuscode | status_code | of PUP;ARR;DEL
Statustext | status_name/status_description | of abgeholt;angekommen;zugestellt ;; Zeitpunkt | status_datetime | day %d.%m.%Y %H:%M
Ort | status_location/current_location | place city ;; Breitengrad | latitude | num 47 54 5 plain
Längengrad | longitude | num 6 15 5 plain ;; Kolli | totalPackages/totalQuantity | int 1 9 ;; Fahrer | - | person
"""
MILESTONES = """
Shipment | order_id | seq S-{:04} | key ;; Customer | - | place company | side=x ;; Origin | origin | place city
Destination | destination | place city | side=y ;; Booked | status_datetime/- | day %d-%b-%y | set ;; Picked up | status_datetime | day %d-%b-%y | set
Departed | status_datetime | day %d-%b-%y %H:%M;%d-%b-%y | blank=20 set ;; Arrived | status_datetime | day %d-%b-%y | blank=30 set
Delivered | status_datetime | day %d-%b-%y | blank=50 set ;; Remarks | status_description/- | of ok;late;customs | blank=60
"""
CANCELS = """
Order no | order_id | seq C{:05} | key ;; Cancelled on | - | day %d/%m/%Y ;; Reason | - | of Customer;Stock
"""
DISPO = """\
Dispoliste Montag;;;;;;;;
;;;;;;;;
Tour;Auftr.-Nr.;Kunde;PLZ/Ort;;Abholung;Anlief.;Pal.;kg
1;00471;Möbel Höffner GmbH;01067 Dresden;;24.03.26;25.03.26;4;1.240,5
1;00472;Rhein Pumpen AG;50667 Köln;;24.03.26;25.03.26;2;612
2;00473;Donau Papier GmbH;1110 Wien;;24.03.26;26.03.26;12;7.800
2;00474;Rhein Pumpen AG;50667 Köln;;25.03.26;27.03.26;1;95,5
3;00475;Möbel Höffner GmbH;01067 Dresden;;25.03.26;n. V.;3;801
;;;;;;;;
;Summe;;;;;;22;10.549
Stand 23.03.26, Änderungen vorbehalten
"""
DISPO_COLUMNS = """
Tour | - ;; Auftr.-Nr. | order_id | | key ;; Kunde | delivery_company ;; PLZ/Ort | delivery_pincode/delivery_city ;; | - ;; Abholung | pickup_startdatetime | day
Anlief. | delivery_startdatetime/delivery_enddatetime | day ;; Pal. | packages.quantity/total_packages | int ;; kg | packages.weight/total_weight | num
"""

FILES = [
    layout("shop_join", NEW, sheet("orders.csv", SHOP_ORDERS, lang="sv", rows=20), sheet("packages.csv", SHOP_PACKAGES, rows=40, per=2, lang="sv")),
    layout("book_of_sheets", NEW, sheet("booking.xlsx", BOOK_ORDERS, rows=14, title="Orders"), sheet("booking.xlsx", BOOK_LINES, rows=28, per=2, title="Packages"), sheet("booking.xlsx", PRICES, rows=4, title="Price list", unrelated=True)),
    layout("orders_and_products", NEW, sheet("bestellungen.csv", SALES, lang="de"), sheet("artikel.csv", PRODUCTS, lang="de", rows=5)),
    layout("shipments_and_sites", NEW, sheet("shipments.csv", SHIPMENTS, delimiter=","), sheet("sites.csv", SITES, rows=4, delimiter=",")),
    layout("pairs", NEW, sheet("pairs.csv", PAIRS, delimiter=",")),
    layout("repeated_headings", NEW, sheet("items.xlsx", REPEATED, title="Items")),
    layout("two_sides", NEW, sheet("loads.csv", SIDES, delimiter=",")),
    layout("record_types", NEW, sheet("kastell.txt", RECORD_COLUMNS, raw=RECORDS, rows=8, lang="de", encoding="cp1252")),
    layout("tender_lanes", "tender.create", sheet("RFQ 2026 lanes.xlsx", LANES, title="Lanes", above=(("Tender spring 2026",), ("Please fill in the yellow cells",)))),
    layout("carrier_quotes", "tender.quote", sheet("offers.csv", QUOTES, delimiter=",")),
    layout("quote_decisions", "tender.confirm", sheet("awards.csv", DECISIONS, delimiter=",")),
    layout("events", "order.status", sheet("Sendungsstatus.csv", EVENTS, lang="de")),
    layout("tracking_sheet", "order.status", sheet("tracking week 12.xlsx", MILESTONES, rows=18, title="Open shipments")),
    layout("cancellations", "order.delete", sheet("cancelled orders.csv", CANCELS, delimiter=",")),
    layout("dispatch_list", NEW + " order.update", sheet("Dispo Montag.csv", DISPO_COLUMNS, raw=DISPO, first=4, rows=5, lang="de", encoding="cp1252")),
    layout("empty_sheet", "", sheet("empty.xlsx", "| -", rows=0, title="Sheet1")),
]  # fmt: skip

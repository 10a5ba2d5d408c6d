"""Order sheets as shops, warehouses and other systems export them. See `sheet_layouts` for the format."""

from .sheet_layouts import layout, sheet

NEW = "order.create order.upsert"

RETAIL = """
Type | - | of DEBIT;TRANSFER;CASH;PAYMENT ;; Days for shipping (real) | - | int 2 6 ;; Days for shipment (scheduled) | - | int 2 4
Benefit per order | - | num -60 90 2 plain ;; Sales per customer | goods_value/- | num 20 400 2 plain
Delivery Status | - | of Advance shipping;Late delivery;Shipping on time ;; Late_delivery_risk | - | of 0;1 ;; Category Id | - | int 9 76
Category Name | - | of Sporting Goods;Cleats;Men's Footwear ;; Customer City | - | of Caguas;San Jose;Los Angeles
Customer Email | - | same XXXXXXXXX ;; Customer Fname | - | of Cally;Irene;Gillian ;; Customer Id | - | int 18000 21000
Customer Segment | - | of Consumer;Home Office;Corporate ;; Department Name | - | of Fitness;Apparel ;; Latitude | - | num 18 40 5 plain
Longitude | - | num -120 -66 5 plain ;; Market | - | of Pacific Asia;Europe;LATAM ;; Order City | delivery_city | place city
Order Country | delivery_country | country ;; order date (DateOrders) | createdon | day %m/%d/%Y %H:%M ;; Order Id | order_id | seq {:05} | key
Order Item Discount | - | num 0 50 2 plain | line ;; Order Item Quantity | packages.quantity/total_packages | int 1 5
Order Item Total | goods_value/- | num 20 400 2 plain | line ;; Order Region | - | of Southeast Asia;South Asia;Oceania
Order State | delivery_province | place province ;; Order Zipcode | delivery_pincode | place zip | blank=10
Product Name | packages.item_name/packages.description | of Smart watch;Perfect Fitness Rip Deck;Nike Cleat
shipping date (DateOrders) | pickup_startdatetime | day %m/%d/%Y %H:%M ;; Shipping Mode | - | of Standard Class;First Class;Second Class
"""
SHOPIFY = """
Name | order_id | seq #{:04} | key always ;; Email | involved_parties.email/- | mail | always ;; Financial Status | - | of paid;pending;refunded
Fulfillment Status | - | of fulfilled;unfulfilled ;; Accepts Marketing | - | yes yes/no ;; Currency | currency | of USD;CAD
Subtotal | goods_value/- | num 20 400 2 plain ;; Shipping | - | num 0 12 2 plain ;; Discount Code | - | of WELCOME10;SPRING | blank=70
Shipping Method | - | of Standard;Express ;; Created at | createdon | day %Y-%m-%d %H:%M:%S
Lineitem quantity | packages.quantity/total_packages | int 1 4
Lineitem name | packages.item_name/packages.description | of Desk lamp;Oak shelf;Wall clock ;; Lineitem price | - | num 5 90 2 plain | line
Lineitem sku | packages.description/order_references.value/- | of DL-01;OS-22;WC-9 ;; Billing Name | involved_parties.party_name/- | person
Billing City | involved_parties.city/- | place city | side=bill ;; Shipping Name | delivery_company/involved_parties.party_name | person
Shipping Address1 | delivery_address1 | place street ;; Shipping Address2 | delivery_address2 | of Apt 4;Unit B | blank=70
Shipping City | delivery_city | place city ;; Shipping Zip | delivery_pincode | place zip ;; Shipping Province | delivery_province | place province
Shipping Country | delivery_country | country iso ;; Shipping Phone | involved_parties.contact_number | phone | blank=40
Notes | order_references.value/packages.description/- | of gift;call first | blank=80 ;; Vendor | - | same Homeware Inc
Risk Level | - | of Low;Medium
"""
AMAZON = """
order-id | order_id | seq 303-{:07}-4 | key ;; order-item-id | - | seq 5{:09} | line ;; purchase-date | createdon | day %Y-%m-%dT%H:%M:%S+00:00
buyer-email | involved_parties.email/- | mail ;; buyer-name | involved_parties.party_name/- | person
sku | packages.description/order_references.value/- | of 7K-A1;7K-B2 | line
product-name | packages.item_name/packages.description | of Kettle 1.7 l;Toaster;Mug set
quantity-purchased | packages.quantity/total_packages | int 1 3 ;; item-price | goods_value/- | num 9 90 2 plain | line
ship-service-level | - | of Standard;Expedited ;; recipient-name | delivery_company/involved_parties.party_name | person
ship-address-1 | delivery_address1 | place street ;; ship-address-2 | delivery_address2 | of Flat 2;c/o Kern | blank=75
ship-city | delivery_city | place city ;; ship-state | delivery_province | place province ;; ship-postal-code | delivery_pincode | place zip
ship-country | delivery_country | country iso ;; is-business-order | - | yes true/false
"""
SAP = """
VBELN | order_id | seq 00800{:05} | key ;; KUNNR | - | seq 00001{:05} ;; NAME1 | delivery_company | place company
STRAS | delivery_address1 | place street ;; PSTLZ | delivery_pincode | place zip ;; ORT01 | delivery_city | place city
LAND1 | delivery_country | country iso ;; WADAT | pickup_startdatetime | day %Y%m%d
LFDAT | delivery_startdatetime/delivery_enddatetime | day %Y%m%d ;; POSNR | - | rows 000010;000020 | line
MATNR | packages.description/order_references.value/- | of 000000000010004711;000000000010004712 | line
ARKTX | packages.item_name/packages.description | of Pumpe 12V;Ventil DN50 ;; LFIMG | packages.quantity/total_packages | num 1 20 3 comma
BRGEW | packages.weight/total_weight | num 2 900 3 comma ;; GEWEI | packages.weight_uom/gross_weight_uom/- | same KG | line
ERNAM | - | of MUELLERK;BATCH
"""
WMS = """
Wave | - | of W11;W12 ;; Pick ticket | order_references.value/- | seq PT{:07} ;; Order | order_id | seq SO-{:06} | key
| - ;; Ship-to name | delivery_company | place company ;; Ship-to addr 1 | delivery_address1 | place street ;; Ship-to city | delivery_city | place city
Ship-to ST | delivery_province | place province ;; Ship-to ZIP | delivery_pincode | place zip ;; Carrier code | - | of UPSN;FDXG;RDWY
Req ship dt | pickup_startdatetime | day %m/%d/%y ;; Req dlvy dt | delivery_startdatetime/delivery_enddatetime | day %m/%d/%y
LPN | order_references.value/packages.description/- | seq 0037{:012} | line ;; Pkg type | packages.package_type | of PLT;plt;CTN;ctn
Item desc | packages.item_name/packages.description | of Drill bits;Paint 1 gal;Hinges ;; Qty shipped | packages.quantity/total_packages | int 1 40
Gross wt (lb) | packages.weight/total_weight | num 10 2100 1 plain ;; L (in) | packages.length | int 10 48
W (in) | packages.width | int 10 40 ;; H (in) | packages.height | int 6 60 ;; Stack? | packages.stackable | yes Y/N
Zone | - | of A;B;FRZ
"""
MANIFEST = """
Consignment | order_id | seq 4100{:06} | key ;; Date | pickup_startdatetime | day %d-%b-%y ;; Sender | pickup_company | place company
Sender postcode | pickup_pincode | place zip ;; Receiver | delivery_company | place company ;; Receiver address | delivery_address1 | place street
Receiver town | delivery_city | place city ;; Receiver postcode | delivery_pincode | place zip ;; | - ;; Items | total_packages/packages.quantity | int 1 9
Kilos | packages.weight/total_weight | num 1 900 1 plain ;; Service | - | of NDD;48H ;; Insured value GBP | goods_value | num 50 9000 2 plain
Special instructions | packages.description/order_references.value/- | of tail lift;book in | blank=60
"""
CHANGES = """
Chg | target | rows C;U;X;U;C ;; Order No | order_id | seq {:06} | key ;; Consignee | delivery_company | place company
Town | delivery_city | place city ;; Postcode | delivery_pincode | place zip
New delivery date | delivery_startdatetime/delivery_enddatetime | day %d/%m/%Y ;; Weight kg | packages.weight/total_weight | num 5 800 1 plain
Changed by | - | of JT;MK
"""
UPDATES = """
Order | order_id | seq ORD{:05} | key ;; New pickup from | pickup_startdatetime | day %d.%m.%Y %H:%M
New pickup until | pickup_enddatetime | day %d.%m.%Y %H:%M ;; Status | order_status | of CONFIRMED;OPEN
Reason for change | - | of Dock closed;Stock late
"""
CLOCKS = """
Auftrag | order_id | seq {:05} | key ;; Ladedatum | pickup_startdatetime | day %d.%m.%Y
Ladezeit | pickup_startdatetime | clock %H:%M ;; Lieferdatum | delivery_startdatetime/delivery_enddatetime | day %d.%m.%Y
Lieferzeit bis | delivery_enddatetime/delivery_startdatetime | clock %H:%M ;; Empfänger | delivery_company | place company
Straße | delivery_address1 | place street ;; LKZ | delivery_country | country iso ;; PLZ | delivery_pincode | place zip
Ort | delivery_city | place city ;; | - ;; Lademittel | packages.package_type | of EUP;KRT;DRM ;; Stück | packages.quantity/total_packages | int 1 33
Gewicht (t) | packages.weight/total_weight | num 0.1 24 3 de ;; Lademeter | - | num 0.4 13 1 de
Frachtzahler | involved_parties.party_company/involved_parties.party_name | of Muster AG;Probe KG ;; Kommission | order_references.value | seq K{:04}
Tourhinweis intern | - | of Rampe 3;Tor 9 | blank=50
"""
UNITS = """
Order | order_id | seq {:05} | key ;; Customer | delivery_company | place company ;; City | delivery_city | place city
Ready | pickup_startdatetime | day %Y-%m-%d ;; Weight | packages.weight/total_weight | num 5 800 1 plain ;; Length | packages.length | int 20 240
Width | packages.width | int 20 120 ;; Height | packages.height | int 20 220 ;; Volume | packages.volume/total_volume | num 0.1 6 3 plain
"""
TRAPS = """
Order number | order_id | seq E-{:04} | key ;; Order status text | - | of Waiting for stock;Picked by night shift
Consignee | delivery_company | place company ;; Delivery city | delivery_city | place city ;; Delivery country | delivery_country | country iso
Delivery notes code | - | of 0;7;12 ;; Delivery performance % | - | int 60 100 ;; City population | - | int 9000 900000
Address check | - | of passed;failed ;; Pickup point type | - | of locker;shop ;; Weight class | - | of A;B;C ;; Weight tolerance % | - | of 5;10
Price list | - | of P1;P2 ;; Gross weight kg | packages.weight/total_weight | num 1 900 1 plain ;; Country manager | - | person
Email consent | - | yes yes/no ;; Carrier rating | - | of 3;4;5 ;; Volume discount | - | of 0;2;5 ;; Package design | - | of brown;printed
Currency risk | - | of low;high ;; Vehicle tax group | - | of T1;T2 ;; Pickup date | pickup_startdatetime | day %Y-%m-%d %H:%M
"""
DIRTY = """
Lfd. Nr. | - | seq {} | line ;; Sendung | order_id | seq {:08} | key ;; Abholdatum | pickup_startdatetime | day %d.%m.%Y;%d.%m.%y;%Y-%m-%d
Zustelldatum | delivery_startdatetime/delivery_enddatetime | day %d.%m.%Y;%d-%b-%y | blank=10 ;; Empfänger | delivery_company | place company
Ort | delivery_city | place city ;; PLZ | delivery_pincode | place zip ;; Kolli | packages.quantity/total_packages | int 1 12 | dirt=999@7 line
Gewicht | packages.weight/total_weight | num 5 2400 1 de kg;kg;KG | dirt=-12,0_kg@5
Länge cm | packages.length | int 20 240 | dirt=9999@11 ;; Warenwert | goods_value | num 100 9000 2 de | line
Stapelbar | packages.stackable | yes J/N
"""
NEAR_UNIQUE = """
Scan | - | seq SC{:07} | line ;; Order ref | order_id | seq {:06} | key ;; Deliver to | delivery_company | place company
Street | delivery_address1 | place street ;; Town | delivery_city | place city ;; Postcode | delivery_pincode | place zip
Collect on | pickup_startdatetime | day %d/%m/%Y ;; Deliver on | delivery_startdatetime/delivery_enddatetime | day %d/%m/%Y
Article | packages.item_name/packages.description | of Tiles;Grout;Trim ;; Pack type | packages.package_type | of pallet;carton
Pieces | packages.quantity/total_packages | int 1 30 ;; Kg | packages.weight/total_weight | num 2 900 1 plain
"""

ORDERS = [
    layout("retail_export", NEW, sheet("DataSupplyChain.csv", RETAIL, lang="us", delimiter=",", encoding="latin-1", per=2)),
    layout("shopify_export", NEW, sheet("orders_export_1.csv", SHOPIFY, lang="us", delimiter=",", per=2, fill_down=True)),
    layout("amazon_report", NEW, sheet("orders-report.txt", AMAZON, delimiter="\t", per=2, lang="de")),
    layout("sap_deliveries", NEW, sheet("LIKP_20260309.csv", SAP, lang="de", per=2)),
    layout("wms_export", NEW, sheet("shipconf.csv", WMS, lang="us", delimiter="|", per=2)),
    layout("carrier_manifest", NEW, sheet("manifest 0903.csv", MANIFEST, delimiter=",", total="TOTAL", above=(("Kirk Parcels Ltd", ""), ("Manifest for 9 March 2026",), ()), footer=("Printed by depot 12 on request",))),
    layout("order_changes", "col order.upsert", sheet("changes.csv", CHANGES, delimiter=",")),
    layout("order_updates", "order.update", sheet("updates.csv", UPDATES, lang="de")),
    layout("date_and_clock", NEW, sheet("Disposition.csv", CLOCKS, lang="de", encoding="cp1252")),
    layout("units_row", NEW, sheet("export.xlsx", UNITS.replace("num 5 800 1 plain", "num 5 800 1 native").replace("num 0.1 6 3 plain", "num 0.1 6 3 native"), title="Export", units_row=("", "", "", "", "kg", "cm", "cm", "cm", "m3"))),
    layout("traps", NEW, sheet("extract.csv", TRAPS, delimiter=",")),
    layout("dirty_numbers", NEW, sheet("sendungen 2026-03.csv", DIRTY, lang="de")),
    layout("near_unique_first", NEW, sheet("scans.csv", NEAR_UNIQUE, delimiter=",", per=3, rows=30)),
    layout("utf16_export", NEW, sheet("unicode.txt", NEAR_UNIQUE.replace("Scan |", "Row id |"), delimiter="\t", per=3, rows=30, encoding="utf-16")),
]  # fmt: skip

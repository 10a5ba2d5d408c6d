"""Order sheets as shops, warehouses and systems export them. See `sheet_layouts` for the format."""

from .sheet_layouts import layout, sheet

RETAIL = """
Type | - | of DEBIT;TRANSFER;CASH;PAYMENT
Days for shipping (real) | - | int 2 6
Days for shipment (scheduled) | - | int 2 4
Benefit per order | - | num -60 90 2 plain
Sales per customer | - | num 20 400 2 plain
Delivery Status | - | of Advance shipping;Late delivery;Shipping on time
Late_delivery_risk | - | of 0;1
Category Id | - | int 9 76
Category Name | - | of Sporting Goods;Cleats;Men's Footwear
Customer City | - | of Caguas;San Jose;Los Angeles
Customer Email | - | same XXXXXXXXX
Customer Fname | - | of Cally;Irene;Gillian
Customer Id | - | int 18000 21000
Customer Segment | - | of Consumer;Home Office;Corporate
Department Name | - | of Fitness;Apparel
Latitude | - | num 18 40 5 plain
Longitude | - | num -120 -66 5 plain
Market | - | of Pacific Asia;Europe;LATAM
Order City | delivery_city | place city
Order Country | delivery_country | country
order date (DateOrders) | createdon | day %m/%d/%Y %H:%M
Order Id | order_id | seq {:05} | key
Order Item Discount | - | num 0 50 2 plain | line
Order Item Quantity | packages.quantity/total_packages | int 1 5
Order Item Total | goods_value | num 20 400 2 plain | line
Order Region | - | of Southeast Asia;South Asia;Oceania
Order State | delivery_province | place province
Order Zipcode | delivery_pincode | place zip | blank=10
Product Name | packages.item_name/packages.description | of Smart watch;Perfect Fitness Rip Deck;Nike Cleat
shipping date (DateOrders) | pickup_startdatetime | day %m/%d/%Y %H:%M
Shipping Mode | - | of Standard Class;First Class;Second Class
"""

SHOP_ORDERS = """
OrderID | order_id | seq {:05} | key
Site | order_references.value/- | of MMX;GBG;LLA
Consignee | delivery_company | place company
Street | delivery_address1 | place street
Zip | delivery_pincode | place zip
City | delivery_city | place city
Country | delivery_country | country
Ready | pickup_startdatetime | day %Y-%m-%d %H:%M
Deliver | delivery_startdatetime/delivery_enddatetime | day %Y-%m-%d %H:%M
Value | goods_value | num 200 9000 2 plain
Ccy | currency | of SEK;EUR
Delivery notes code | - | of 0;7;12
"""
SHOP_PACKAGES = """
OrderID | join | seq {:05} |
Line | - | rows 1;2 | line
Type | packages.package_type | of PLL;CTN;RLL
Goods | packages.item_name/packages.description | of Paper A4;Reels;Boards
GrossLb | packages.weight | num 5 900 1 plain | unit=lb
Cuft | packages.volume | num 1 90 2 plain | unit=ft3
"""

MILESTONES = """
Shipment | order_id | seq S-{:04} | key
Customer | - | place company | side=x
Origin | origin | place city
Destination | destination | place city | side=y
Booked | status_datetime/- | day %d-%b-%y | set
Picked up | status_datetime | day %d-%b-%y | set
Departed | status_datetime | day %d-%b-%y %H:%M;%d-%b-%y | blank=20 set
Arrived | status_datetime | day %d-%b-%y | blank=30 set
Delivered | status_datetime | day %d-%b-%y | blank=50 set
Remarks | status_description/- | of ok;late;customs | blank=60
"""

FORM = """\
TRANSPORT REQUEST FORM;;
;;
Requested by:;P. Nowak;
Department:;Purchasing;
;;
Pickup address;Quay 3, Bristol;
Delivery address;12 Kirkgate, Leeds;
Date;12/03/2026;
;;
Please describe the goods in your own words;;
Signature:;;
"""

ORDERS = [
    layout("retail_export", "order.create order.upsert", sheet("DataSupplyChain.csv", RETAIL, lang="us", delimiter=",", encoding="latin-1", per=2), group=("Order Id",)),
    layout("shop_join", "order.create order.upsert", sheet("orders.csv", SHOP_ORDERS, lang="sv", rows=20), sheet("packages.csv", SHOP_PACKAGES, rows=40, per=2, lang="sv"), codes={"RLL": "Roll"}),
    layout("tracking_sheet", "order.status", sheet("tracking week 12.xlsx", MILESTONES, rows=18, title="Open shipments")),
    layout("request_form", "", sheet("form.csv", "Requested by | -", raw=FORM)),
]  # fmt: skip

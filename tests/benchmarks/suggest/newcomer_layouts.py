"""Layouts over which a newcomer stumbled: an action column for tenders, sets with boxes, tables of bands, two sheets of one layout, and an
export of a shop with statuses.
"""

from .orders_layouts import NEW
from .sheet_layouts import layout, sheet

ACTIONS = """\
Function,Lane,Loading,From,To,Postcode,Equipment,Tonnes
NEW,KR-0841,16/03/2026 05:30,Grangemouth,Carlisle,CA1 2RB,Tipper,27
NEW,KR-0842,16/03/2026 05:30,Grangemouth,Penrith,CA11 7XA,Tipper,26.5
NEW,KR-0843,17/03/2026 06:00,Grangemouth,Dumfries,DG1 1DF,Walking floor,24
NEW,KR-0844,18/03/2026 06:00,Leith,Hawick,TD9 0AA,Tipper,27
UPDATE,KR-0842,16/03/2026 11:00,,,,Walking floor,
UPDATE,KR-0844,,,,,,22.5
DELETE,KR-0843,,,,,,
"""
ACTION_COLUMNS = """
Function | target ;; Lane | tender_id | | key ;; Loading | pickup_startdatetime | day ;; From | pickup_city ;; To | delivery_city
Postcode | delivery_pincode ;; Equipment | vehicle_type ;; Tonnes | packages.weight | num | unit=t
"""
BOXES = """
Commande | order_id | seq CB-{:04} | key ;; Enlèvement | pickup_startdatetime | day %d/%m/%Y %H:%M
Livraison | delivery_startdatetime/delivery_enddatetime | day %d/%m/%Y %H:%M ;; Client | delivery_company | place company
Rue | delivery_address1 | place street ;; CP | delivery_pincode | place zip ;; Ville | delivery_city | place city
Produit 1 | packages.item_name | of Huile;Olives;Savon ;; Caisses 1 | packages.quantity/total_packages | int 1 20
Kg 1 | packages.weight | num 2 90 1 comma
Produit 2 | packages.item_name | of Huile;Olives;Savon | blank=40 with=2
Caisses 2 | packages.quantity/total_packages | int 1 20 | blank=40 with=2
Kg 2 | packages.weight | num 2 90 1 comma | blank=40 with=2
Produit 3 | packages.item_name | of Huile;Olives;Savon | blank=60 with=3
Caisses 3 | packages.quantity/total_packages | int 1 20 | blank=60 with=3
Kg 3 | packages.weight | num 2 90 1 comma | blank=60 with=3
"""
FREIGHT = """
Zending | order_id | seq AZ-{:04} | key ;; Laaddag | pickup_startdatetime | day %d-%m-%Y ;; Zone | - | of N;M;Z
Ontvanger | delivery_company | place company ;; Postcode | delivery_pincode | place zip ;; Plaats | delivery_city | place city
Colli | packages.quantity/total_packages | int 1 12 ;; Kg | packages.weight/total_weight | num 5 900 1 de
"""
RATES = """
zone | - | rows N;N;N;M;M;M;Z;Z;Z ;; from_kg | - | rows 0;100;500 ;; to_kg | - | rows 100;500;
price | - | num 20 300 2 plain ;; minimum | - | num 20 300 2 plain
"""
FUEL = """
valid_from | - | rows 2026-01-01;2026-03-16 ;; valid_to | - | rows 2026-03-15;2026-12-31 ;; percent | - | rows 8.25;9.75
"""
VISITS = """
Nummer | order_id | seq {} | key ;; Hämtas | pickup_startdatetime | day native ;; Kund | delivery_company | place company
Gata | delivery_address1 | place street ;; Postnr | delivery_pincode | place zip ;; Ort | delivery_city | place city
Kartonger | packages.quantity/total_packages | int 1 20 native ;; Vikt kg | packages.weight/total_weight | num 5 90 1 native
"""
SHOP = """
Order ID | order_id | seq {:06} | key ;; Status | - | of completed;completed;processing;cancelled;on-hold
Order placed | createdon | day %m/%d/%Y %H:%M ;; First name | involved_parties.party_name/delivery_company | of Ann;Bob;Cy;Dee
Last name | involved_parties.party_name/delivery_company | of Ames;Burr;Cole;Dunn ;; Email | - | same XXXXXXXX
Address | delivery_address1 | place street ;; City | delivery_city | place city ;; State | delivery_province | place province
Zip | delivery_pincode | of 02110;2110;89501;77002 ;; Product | packages.item_name/packages.description | of Mug;Lamp;Rug | line
Qty | packages.quantity/total_packages | int 1 9 | line ;; Line total | goods_value | num 5 300 2 plain | line
"""

NEWCOMER = [
    layout("tender_actions", "col", sheet("lanes_w12.csv", ACTION_COLUMNS, raw=ACTIONS, rows=7, delimiter=",")),
    layout("sets_of_boxes", NEW, sheet("commandes_0903.csv", BOXES, lang="fr")),
    layout("bands_beside", NEW, sheet("zendingen_wk11.csv", FREIGHT, lang="nl"), sheet("rates.csv", RATES, rows=9, delimiter=",", unrelated=True), sheet("fuel.csv", FUEL, rows=2, delimiter=",", unrelated=True)),
    layout("two_of_one_layout", NEW, sheet("salong.xlsx", VISITS.replace("{}", "L-{:04}"), title="Ordrar", lang="sv"), sheet("salong.xlsx", VISITS.replace("{}", "R-{:04}") + "Orsak | - | of Trasig;Fel färg", title="Returer", rows=9, lang="sv", unrelated=True)),
    layout("shop_statuses", NEW, sheet("wc-orders.csv", SHOP, lang="us", delimiter=",", per=2), group=("Order ID",)),
]  # fmt: skip

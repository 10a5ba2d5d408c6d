"""Layouts that nobody tunes `suggest` to: the benchmark shows their totals, not their columns. See `sheet_layouts` for the format."""

from .orders_layouts import NEW
from .sheet_layouts import hidden, layout, sheet

JOBS = """
Opdracht | order_id | seq TR-{:05} | key ;; Opdrachtgever | -/involved_parties.party_company | of Bakker BV;De Wit NV ;; Laadadres naam | pickup_company | place company
Laadadres straat | pickup_address1 | place street ;; Laadadres pc | pickup_pincode | place zip ;; Laadadres plaats | pickup_city | place city
Laden vanaf | pickup_startdatetime | day native ;; Laden tot | pickup_enddatetime | day native ;; Losadres naam | delivery_company | place company
Losadres straat | delivery_address1 | place street ;; Losadres pc | delivery_pincode | place zip ;; Losadres plaats | delivery_city | place city
Lossen vanaf | delivery_startdatetime | day native ;; Lossen tot | delivery_enddatetime | day native ;; Temperatuurklasse | - | of A;B
"""
JOB_LINES = """
Bij opdracht | join | seq TR-{:05} | join ;; Regel | - | rows 10;20;30 | line ;; Soort | packages.package_type | of pallet;doos
Inhoud | packages.item_name/packages.description | of Bloembollen;Kaas;Potgrond ;; Aantal | packages.quantity | int 1 20 native
Gewicht kg | packages.weight | num 5 900 1 native
"""
NOTES = """
Datum | - | day %d-%m-%Y ;; Notitie | - | of Bel klant;Tol betaald
"""
SCANS = """
Numer przesyłki | order_id | seq {:010} | key ;; Zdarzenie | status_name/status_code | of Odebrano;W drodze;Doręczono
Data i godzina | status_datetime | day %Y-%m-%d %H:%M:%S ;; Miejsce | status_location/current_location | place city ;; Kurier | - | person
Planowana dostawa | deliveryDate/estimatedDelivery.startDate/estimatedDelivery.endDate | day %Y-%m-%d
Uwagi | status_description | of brak odbiorcy;ok | blank=50
"""
LADING = """
BOL # | order_id | seq {:07} | key ;; PRO # | order_references.value | seq 88{:06} ;; Shipper | pickup_company | place company
Shipper City | pickup_city | place city ;; Shipper St | pickup_province | place province ;; Shipper Zip | pickup_pincode | place zip
PU Date | pickup_startdatetime | day %m/%d/%Y ;; Consignee | delivery_company | place company ;; Cons City | delivery_city | place city
Cons St | delivery_province | place province ;; Cons Zip | delivery_pincode | place zip
Del Appt | delivery_startdatetime/delivery_enddatetime | day %m/%d/%Y %H:%M ;; HU Qty | packages.quantity/total_packages | int 1 26
HU Type | packages.package_type | of PLT;SKD;CRT ;; NMFC | order_references.value/- | of 116030;149265 ;; Class | - | of 70;85;92.5
Wt (lbs) | packages.weight/total_weight | num 100 9800 0 en ;; Hazmat | packages.hazardous | yes Y/N ;; Terms | - | of PPD;COL
Rep | - | person
"""
API = """
shipment_uid | order_id | seq 7f3a{:06}c | key ;; tenant | - | same northwind ;; ext_ref | order_references.value | seq EXT{:06}
window_open | pickup_startdatetime | day %Y-%m-%dT%H:%M:%S ;; window_close | pickup_enddatetime | day %Y-%m-%dT%H:%M:%S
origin_name | pickup_company | place company ;; origin_line1 | pickup_address1 | place street ;; origin_postcode | pickup_pincode | place zip
origin_city | pickup_city | place city ;; origin_country | pickup_country | country iso ;; dest_name | delivery_company | place company
dest_line1 | delivery_address1 | place street ;; dest_postcode | delivery_pincode | place zip ;; dest_city | delivery_city | place city
dest_country | delivery_country | country iso ;; due_by | delivery_enddatetime/delivery_startdatetime | day %Y-%m-%dT%H:%M:%S
parcel_count | total_packages/packages.quantity | int 1 30 ;; total_kg | total_weight/packages.weight | num 1 900 2 plain
total_cbm | total_volume/packages.volume | num 0.1 9 3 plain ;; is_dangerous | packages.hazardous | yes true/false
declared_value | goods_value | num 10 9000 2 plain ;; ccy | currency | of EUR;GBP ;; created_by | - | of api;portal
marketing_source | - | of web;fair
"""
BIDS = """
Réf. lot | tender_id | seq LOT{:03} | key ;; Ville départ | pickup_city | place city ;; CP départ | pickup_pincode | place zip
Ville arrivée | delivery_city | place city ;; CP arrivée | delivery_pincode | place zip ;; Date de chargement | pickup_startdatetime | day %d/%m/%Y
Date de livraison | delivery_startdatetime/delivery_enddatetime | day %d/%m/%Y ;; Véhicule | vehicle_type | of Savoyarde;Frigo
Marchandise | packages.item_name/packages.description | of Papier;Bobines ;; Nb palettes | packages.quantity | int 1 33
Poids (t) | packages.weight | num 1 24 1 comma ;; Matières dangereuses | packages.hazardous | yes oui/non
Fréquence annuelle | - | int 5 250 ;; Prix actuel | - | num 200 1900 2 comma
"""
STORE = """
ID de pedido | order_id | seq ES-{:06} | key ;; Fecha de compra | createdon | day %d/%m/%Y %H:%M
Comprador | delivery_company/involved_parties.party_name | person ;; Correo electrónico | involved_parties.email | mail
Acepta publicidad | - | yes sí/no ;; Calle y número | delivery_address1 | place street ;; Código postal | delivery_pincode | place zip
Localidad | delivery_city | place city ;; Provincia | delivery_province | place province
Referencia artículo | packages.description/order_references.value/- | of ART-1;ART-2;ART-3 | line
Descripción artículo | packages.item_name/packages.description | of Lámpara;Silla;Mesa ;; Unidades | packages.quantity/total_packages | int 1 5
Peso unitario (g) | packages.weight | int 200 9000 ;; Importe | goods_value | num 9 900 2 comma ;; Canal | - | of web;tienda
Etapa de campaña | - | of A;B
"""
PIECES = """
Uppdrag | order_id | seq U{:05} | key ;; Avsändare | pickup_company | place company ;; Hämtas | pickup_startdatetime | day %Y-%m-%d %H:%M
Mottagare | delivery_company | place company ;; Postnr | delivery_pincode | place zip ;; Postort | delivery_city | place city
Lossas senast | delivery_enddatetime | day %Y-%m-%d %H:%M ;; Kollityp 1 | packages.package_type | of pall;kartong
Antal 1 | packages.quantity/total_packages | int 1 9 ;; Vikt 1 (kg) | packages.weight | int 5 500
Kollityp 2 | packages.package_type | of pall;kartong | blank=40 with=2 ;; Antal 2 | packages.quantity/total_packages | int 1 9 | blank=40 with=2
Vikt 2 (kg) | packages.weight | int 5 500 | blank=40 with=2 ;; Säljare | - | person
"""
REPLENISH = """
Bestell-Nr | order_id | seq N{:06} | key ;; Filiale | join/order_references.value | rows F01;F07;F12 | join
Kommissionierdatum | pickup_startdatetime | day %d.%m.%Y ;; Anliefertag | delivery_startdatetime/delivery_enddatetime | day %d.%m.%Y
Anz. Rollcontainer | packages.quantity/total_packages | int 1 12 ;; Bruttogew. | packages.weight/total_weight | num 40 900 1 de kg
Warengruppe | packages.item_name/packages.description/- | of Molkerei;Trocken ;; Werbewoche | - | of KW10;KW11
"""
BRANCHES = """
Filialnummer | join | rows F01;F07;F12;F20 | join ;; Marktname | delivery_company | rows Markt Süd;Markt Nord;Markt Hafen;Markt Ost
Straße/Nr. | delivery_address1 | rows Hafenstr. 2;Kirchweg 9;Am Kai 1;Ring 5 ;; PLZ | delivery_pincode | rows 04103;01067;20457;10117
Stadt | delivery_city | rows Leipzig;Dresden;Hamburg;Berlin ;; Verkaufsfläche m2 | - | rows 800;1200;650;900
"""
DESKS = """
Ordine / Numero | order_id | seq 26/{:04} | key ;; Ordine / Cliente | - | of Rossi Spa;Bianchi Srl
Ritiro / Data | pickup_startdatetime | day %d/%m/%Y ;; Ritiro / Ora | pickup_startdatetime/pickup_enddatetime | clock %H:%M
Ritiro / Luogo | pickup_city | place city ;; Consegna / Data | delivery_startdatetime/delivery_enddatetime | day %d/%m/%Y
Consegna / Luogo | delivery_city | place city ;; Consegna / CAP | delivery_pincode | place zip
Merce / Descrizione | packages.item_name/packages.description | of Olio;Carta ;; Merce / Colli | packages.quantity/total_packages | int 1 20 native
Merce / Peso (q) | - | num 1 90 1 native ;; Merce / Peso lordo (kg) | packages.weight/total_weight | num 10 900 1 native
"""
BOXES = """
Container | - | seq MSKU{:07} ;; Booking | order_id | seq BK{:06} | key ;; POL | origin | place city ;; POD | destination | place city | side=pod
Gate in | status_datetime | day %d %b %Y %H:%M | set ;; Loaded | status_datetime | day %d %b %Y %H:%M | blank=10 set
Departed | status_datetime | day %d %b %Y %H:%M | blank=30 set ;; Discharged | status_datetime | day %d %b %Y %H:%M | blank=60 set
Vessel | - | of Ever North;Maas Star ;; Demurrage days | - | int 0 6
"""
REQUEST = """\
PEDIDO DE TRANSPORTE,,,
Nome:,,Data:,
,,,
Motivo da devolução,,,
Morada de recolha:,Rua Augusta 11,,
,,,
Assinatura:,,,
"""

HELD_OUT = hidden(
    [
        layout("jobs_book", NEW, sheet("opdrachten.xlsx", JOBS, rows=12, lang="nl", title="Opdrachten"), sheet("opdrachten.xlsx", JOB_LINES, rows=36, per=3, lang="nl", title="Regels"), sheet("opdrachten.xlsx", NOTES, rows=6, lang="nl", title="Notities", unrelated=True)),
        layout("courier_scans", "order.status", sheet("skany.csv", SCANS, lang="pl", encoding="cp1250")),
        layout("bills_of_lading", NEW, sheet("bol register.csv", LADING, lang="us", delimiter=",", above=(("Bill of lading register",), ()), total="Grand total")),
        layout("api_dump", NEW, sheet("dump.csv", API, delimiter=",")),
        layout("bids_fr", "tender.create", sheet("appel d'offres.csv", BIDS, lang="fr")),
        layout("store_es", NEW, sheet("ventas.csv", STORE, lang="es", per=2)),
        layout("pieces_sv", NEW, sheet("uppdrag.csv", PIECES, lang="sv")),
        layout("branches_de", NEW, sheet("nachschub.csv", REPLENISH, lang="de"), sheet("filialen.csv", BRANCHES, lang="de", rows=4)),
        layout("desk_book_it", NEW, sheet("ordini.xlsx", DESKS, lang="it", title="Marzo", above=(("Piano di carico marzo 2026",), ()))),
        layout("boxes", "order.status", sheet("containers.xlsx", BOXES, title="Boxes")),
        layout("request_pt", "", sheet("pedido.csv", "Nome | -", raw=REQUEST)),
    ]
)  # fmt: skip

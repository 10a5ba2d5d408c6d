"""Layouts made from a vocabulary: order sheets in nine languages, each with its own dirt, and the wide file that measures the cost."""

from .sheet_layouts import BETWEEN, Col, Layout, Sheet

LANGUAGES = ("en", "de", "fr", "es", "nl", "sv", "it", "pl", "pt")
HEADINGS = {  # concept: headings in the order of LANGUAGES; a second table follows for some
    "order": "Order no.;Auftragsnr.;N° de commande;Nº pedido;Ordernr;Ordernr;N. ordine;Nr zamówienia;N.º encomenda",
    "ref": "Your reference;Ihre Referenz;Votre référence;Su referencia;Uw referentie;Er referens;Vs. riferimento;Państwa referencja;Vossa referência",
    "p_company": "Shipper;Absender;Expéditeur;Remitente;Afzender;Avsändare;Mittente;Nadawca;Remetente",
    "p_street": "Loading street;Ladestelle Straße;Rue d'enlèvement;Calle de carga;Laadstraat;Lastningsgata;Via di carico;Ulica załadunku;Rua de carga",
    "p_zip": "Loading postcode;Ladestelle PLZ;CP enlèvement;CP carga;Laadpostcode;Lastning postnr;CAP carico;Kod pocztowy załadunku;Código postal de carga",
    "p_city": "Loading town;Ladestelle Ort;Ville d'enlèvement;Ciudad de carga;Laadplaats;Lastningsort;Città di carico;Miasto załadunku;Cidade de carga",
    "p_country": "Loading country;Ladestelle Land;Pays d'enlèvement;País de carga;Laadland;Lastningsland;Paese di carico;Kraj załadunku;País de carga",
    "p_from": "Pickup date;Abholdatum;Date d'enlèvement;Fecha de recogida;Ophaaldatum;Hämtningsdatum;Data ritiro;Data odbioru;Data de recolha",
    "d_company": "Consignee;Empfänger;Destinataire;Destinatario;Ontvanger;Mottagare;Destinatario;Odbiorca;Destinatário",
    "d_street": "Delivery address;Lieferadresse;Adresse de livraison;Dirección de entrega;Afleveradres;Leveransadress;Indirizzo di consegna;Adres dostawy;Morada de entrega",
    "d_zip": "Delivery postcode;PLZ Empfänger;Code postal destinataire;Código postal destino;Postcode ontvanger;Postnr mottagare;CAP destinatario;Kod pocztowy odbiorcy;Código postal destinatário",
    "d_city": "Delivery town;Ort Empfänger;Ville destinataire;Población destino;Plaats ontvanger;Ort mottagare;Città destinatario;Miasto odbiorcy;Localidade destinatário",
    "d_country": "Delivery country;Land Empfänger;Pays destinataire;País destino;Land ontvanger;Land mottagare;Paese destinatario;Kraj odbiorcy;País destinatário",
    "d_to": "Deliver by;Liefertermin spätestens;Livraison au plus tard;Entrega hasta;Uiterste leverdatum;Senast leverans;Consegna entro;Dostawa do;Entrega até",
    "contact": "Contact person;Ansprechpartner;Interlocuteur;Persona de contacto;Contactpersoon;Kontaktperson;Referente;Osoba kontaktowa;Pessoa de contacto",
    "phone": "Phone;Telefon;Téléphone;Teléfono;Telefoon;Telefon;Telefono;Telefon;Telefone",
    "pack": "Packaging;Verpackungsart;Emballage;Tipo de embalaje;Verpakkingssoort;Förpackning;Imballaggio;Rodzaj opakowania;Tipo de embalagem",
    "item": "Goods;Warenbezeichnung;Désignation;Mercancía;Goederenomschrijving;Godsslag;Merce;Nazwa towaru;Mercadoria",
    "qty": "Qty;Anzahl;Nb de colis;Cantidad;Aantal;Antal;Quantità;Ilość;Quantidade",
    "weight": "Gross weight (kg);Bruttogewicht (kg);Poids brut (kg);Peso bruto (kg);Brutogewicht (kg);Bruttovikt (kg);Peso lordo (kg);Waga brutto (kg);Peso bruto (kg)",
    "volume": "Volume (m3);Volumen (m3);Volume (m3);Volumen (m3);Volume (m3);Volym (m3);Volume (m3);Objętość (m3);Volume (m3)",
    "value": "Goods value;Warenwert;Valeur marchandise;Valor mercancía;Goederenwaarde;Varuvärde;Valore merce;Wartość towaru;Valor da mercadoria",
    "currency": "Currency;Währung;Devise;Moneda;Valuta;Valuta;Valuta;Waluta;Moeda",
    "stack": "Stackable;Stapelbar;Gerbable;Apilable;Stapelbaar;Stapelbar;Sovrapponibile;Piętrowalne;Empilhável",
    "adr": "ADR;Gefahrgut;Matières dangereuses;Mercancía peligrosa;Gevaarlijke stoffen;Farligt gods;Merce pericolosa;Towar niebezpieczny;Mercadoria perigosa",
    # headings that only have a field's word, and columns for people inside the company
    "x_class": "Weight class;Gewichtsklasse;Classe de poids;Clase de peso;Gewichtsklasse;Viktklass;Classe di peso;Klasa wagowa;Classe de peso",
    "x_mail": "Email consent;E-Mail-Einwilligung;Consentement email;Consentimiento email;E-mailtoestemming;E-postsamtycke;Consenso email;Zgoda na email;Consentimento email",
    "x_clerk": "Entered by;Sachbearbeiter;Saisi par;Introducido por;Ingevoerd door;Registrerad av;Inserito da;Wprowadził;Introduzido por",
    "x_campaign": "Campaign;Kampagne;Campagne;Campaña;Campagne;Kampanj;Campagna;Kampania;Campanha",
}  # fmt: skip
HEADINGS = {concept: dict(zip(LANGUAGES, text.split(";"), strict=True)) for concept, text in HEADINGS.items()}
YES = {
    "en": "Yes/No", "de": "ja/nein", "fr": "oui/non", "es": "sí/no", "nl": "ja/nee", "sv": "ja/nej", "it": "sì/no", "pl": "tak/nie", "pt": "sim/não",
}  # fmt: skip
PACKS = {
    "en": "PLT;CTN;ROL", "de": "EUP;KRT;FASS", "fr": "palette;carton;fût", "es": "palé;caja;bidón", "nl": "pallet;doos;rol", "sv": "pall;kartong;rulle",
    "it": "pallet;scatola;rotolo", "pl": "paleta;karton;rolka", "pt": "palete;caixa;rolo",
}  # fmt: skip
NUMBERS = {"en": "en", "fr": "fr", "de": "de", "es": "de", "nl": "de", "sv": "fr", "it": "de", "pl": "fr", "pt": "de"}
GOODS = "Cable 3x2,5;Pumps;Paper A4;Tiles;Olive oil;Bearings"
LABELS = {  # concept: field, cells, more; {yes}, {packs} and {marks} are those of the language
    "order": ("order_id", "seq A-{:05}", "key"),
    "ref": ("order_references.value", "seq PO{:06}", ""),
    "p_company": ("pickup_company", "place company", ""),
    "p_street": ("pickup_address1", "place street", ""),
    "p_zip": ("pickup_pincode", "place zip", ""),
    "p_city": ("pickup_city", "place city", ""),
    "p_country": ("pickup_country", "country", ""),
    "p_from": ("pickup_startdatetime", "day %d.%m.%Y", ""),
    "d_company": ("delivery_company", "place company", ""),
    "d_street": ("delivery_address1", "place street", ""),
    "d_zip": ("delivery_pincode", "place zip", ""),
    "d_city": ("delivery_city", "place city", ""),
    "d_country": ("delivery_country", "country", ""),
    "d_to": ("delivery_enddatetime", "day %d.%m.%Y", ""),
    "contact": ("involved_parties.party_name", "person", "blank=30"),
    "phone": ("involved_parties.contact_number", "phone", "blank=30"),
    "pack": ("packages.package_type", "of {packs}", ""),
    "item": ("packages.item_name/packages.description", f"of {GOODS}", ""),
    "qty": ("packages.quantity/total_packages", "int 1 20", ""),
    "weight": ("packages.weight/total_weight", "num 5 2400 1 {marks}", ""),
    "volume": ("packages.volume/total_volume", "num 0.1 9 3 {marks}", ""),
    "value": ("goods_value", "num 200 24000 2 {marks}", ""),
    "currency": ("currency", "of EUR;EUR;USD", ""),
    "stack": ("packages.stackable", "yes {yes}", ""),
    "adr": ("packages.hazardous", "yes {yes}", ""),
    "x_class": ("-", "of A;B;C", ""),
    "x_mail": ("-", "yes {yes}", ""),
    "x_clerk": ("-", "of MK;JT;SR", ""),
    "x_campaign": ("-", "of SPRING26;LOYAL;NONE", ""),
}
FLAT = "order ref p_company p_street p_zip p_city p_country p_from d_company d_street d_zip d_city d_country d_to pack item qty weight value currency"


def made(lang, concepts, changes=None, headings=None):
    """Columns in a language. `changes` gives cells and more words by concept, `headings` other headings."""
    found = []
    for concept in concepts.split():
        fields, cells, more = LABELS[concept]
        cells, extra = (changes or {}).get(concept, (cells, ""))
        for word, own in (("{yes}", YES), ("{packs}", PACKS), ("{marks}", NUMBERS)):
            cells = cells.replace(word, own[lang])
        heading = (headings or {}).get(concept, HEADINGS[concept][lang])
        found.append(Col(heading, tuple(fields.split("/")), cells, (*more.split(), *extra.split())))
    return tuple(found)


def _one(lang, concepts, name, *, changes=None, headings=None, suffix="csv", **more):
    columns = made(lang, concepts, changes, headings)
    return Layout(name, ("order.create", "order.upsert"), (Sheet(f"{name}.{suffix}", columns, lang=lang, **more),))


DE_TWO = {
    "order": "Auftrag / Nr.", "p_company": "Abholung / Firma", "p_street": "Abholung / Straße", "p_zip": "Abholung / PLZ",
    "p_city": "Abholung / Ort", "p_from": "Abholung / Datum", "d_company": "Zustellung / Firma", "d_street": "Zustellung / Straße",
    "d_zip": "Zustellung / PLZ", "d_city": "Zustellung / Ort", "d_to": "Zustellung / Datum bis", "pack": "Ware / Verpackung",
    "item": "Ware / Bezeichnung", "qty": "Ware / Anzahl", "weight": "Ware / Gewicht (kg)",
}  # fmt: skip
TWO = "order p_company p_street p_zip p_city p_from d_company d_street d_zip d_city d_to pack item qty weight"

MADE = [
    _one("en", f"{FLAT} stack adr x_class x_mail", "loads_uk", changes={"p_from": ("day %d/%m/%Y %H:%M", ""), "d_to": ("day %d/%m/%Y %H:%M", "")}, delimiter=","),
    _one("de", TWO, "ladeliste_kw10", headings=DE_TWO, suffix="xlsx", title="Ladeliste", above=(("Ladeliste KW 10 / 2026",), ()), changes={"qty": ("int 1 20 native", ""), "weight": ("num 5 2400 1 native", ""), "p_from": ("day nativeday", ""), "d_to": ("day native;native;%d.%m.%Y %H:%M", "")}),
    _one("fr", f"{FLAT} contact phone stack x_clerk", "expeditions", encoding="cp1252", per=2, changes={"value": ("num 200 24000 2 comma", ""), "weight": ("num 5 2400 1 comma", "")}, total="Total"),
    _one("es", f"{FLAT} volume x_campaign", "pedidos_marzo", changes={"p_from": ("day %d/%m/%Y;%d-%m-%Y", ""), "weight": ("num 5 2400 1 de kg", "")}, headings={"weight": "Peso bruto"}),
    _one("nl", f"{FLAT} stack x_mail", "zendingen", changes={"order": ("seq {:08}", ""), "d_to": ("day %d-%m-%Y %H:%M", ""), "p_from": ("day %d-%m-%Y %H:%M", "")}),
    _one("sv", f"{FLAT} adr x_class", "orderlista", suffix="xlsx", title="Orderlista", changes={"qty": ("int 1 20 native", ""), "weight": ("num 5 2400 1 native", "dirt=-3@4"), "value": ("num 200 24000 2 native", ""), "p_from": ("day %Y-%m-%d %H:%M", ""), "d_to": ("day %Y-%m-%d %H:%M", "")}, footer=("Utskriven av planering den 2 mars",)),
    _one("it", f"{FLAT} contact x_class x_clerk", "ordini_trasporto", per=3, fill_down=True, suffix="xlsx", changes={"qty": ("int 1 20 native", ""), "weight": ("num 5 2400 1 native", ""), "value": ("num 200 24000 2 native", "")}),
    _one("pl", f"{FLAT} volume stack", "zlecenia", encoding="cp1250", changes={"p_from": ("day %Y-%m-%d", ""), "d_to": ("day %d.%m.%Y", ""), "value": ("num 200 24000 2 comma", ""), "weight": ("num 5 2400 1 comma", ""), "volume": ("num 0.1 9 3 comma", "")}),
    _one("pt", f"{FLAT} phone x_mail x_campaign", "encomendas", above=(("Encomendas a transportar", ""), ("Semana 10", "2026")), total="Total", changes={"value": ("num 200 24000 2 comma", ""), "weight": ("num 5 2400 1 comma", "")}),
]  # fmt: skip


def wide(rows):
    """The file that measures the cost: 30 columns in English, and this many rows."""
    concepts = f"{FLAT} contact phone volume stack adr x_class x_mail x_clerk x_campaign"
    columns = (*made("en", concepts), Col("Batch", ("-",), "seq B{:04}"))
    assert len(columns) == 30, BETWEEN
    return Layout("wide", ("order.create",), (Sheet("wide.csv", columns, rows=rows),))

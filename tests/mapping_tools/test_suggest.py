"""A draft from each shipped sample, held against the mapping that people wrote for it."""

import re
from datetime import datetime
from functools import cache
from pathlib import Path

import openpyxl
import pytest
from command_in_process import loadsheet
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from shipped_samples import INBOX, NOW, sample

from loadsheet.contract import BY_NAME, WRITES, Assumptions, example_record
from loadsheet.mapping import lint, load
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.mapping_tools.comparison import translate_files
from loadsheet.mapping_tools.drafts import FILL_IN
from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import draft
from loadsheet.mapping_tools.value_origins import pattern
from loadsheet.mapping_tools.yaml_writer import marks_in, write_draft
from loadsheet.problems import FileRefused
from loadsheet.settings import Settings

KEPT = Path(__file__).with_name("kept")
ASSUMED = Assumptions()
SAMPLES = [
    "acme-flat", "harbour-two-sheets", "nordic-join", "carrier-status", "spring-tenders", "carrier7-quotes",
    "quote-confirmations", "order-updates", "order-deletes", "tender-updates", "tender-withdrawals",
]  # fmt: skip
FLOOR = 0.95  # of the columns that the shipped mappings send


def drafted(name):
    """The draft of a sample: test_kept_texts.py proves that it is the one that is kept."""
    return (KEPT / f"{name}.draft.yaml").read_text(encoding="utf-8")


def filled_in(text, operation):
    """The draft with something in every marked place, as an author would write it."""
    values = {path.rpartition(".")[2]: value for path, value in leaves(example_record(operation))}
    lines = []
    for line in text.splitlines():
        name = line.strip().partition(":")[0]
        if FILL_IN in line and name == "timezone":
            lines.append(re.sub("timezone: null", "timezone: Europe/Berlin", line))
        elif FILL_IN in line:
            known = re.search(r"the meaning of the codes: (.*)", line)
            value = known[1].split(", ")[0] if known else f'"{values.get(name, "X")}"'
            lines.append(re.sub(r": null\b", f": {value}", line))
        else:
            lines.append(line)
    return "\n".join(lines)


def leaves(value, path=""):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, path)
    else:
        yield path, value


@pytest.fixture(scope="module")
def drafts(tmp_path_factory):
    """The mapping that each draft with its marks filled in is, by the name of the shipped one."""
    folder = tmp_path_factory.mktemp("drafts")

    @cache
    def of(name):
        path = folder / f"{name}.yaml"
        path.write_text(filled_in(drafted(name), sample(name).mapping.operation), encoding="utf-8")
        return load(path, ASSUMED)

    return of


def mapping_of(folder, text, operation):
    """A draft's mapping once its marks are filled in."""
    path = folder / "filled.yaml"
    path.write_text(filled_in(text, BY_NAME[operation]), encoding="utf-8")
    return load(path, ASSUMED)


def sent(mapping):
    """Which payload paths each column (by its heading) feeds; a list's own numbers left away."""
    labels = {(table.name, column.name): column.label for table in mapping.plan.tables for column in table.columns}
    found = {}
    for path, sources in mapping.lineage.items():
        for source in sources:
            if (source.table, source.column) in labels:
                found.setdefault(labels[source.table, source.column], set()).add(pattern(path).replace("[]", ""))
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_a_draft_is_for_the_operation_of_its_file_and_lint_finds_marked_places_alone(tmp_path, name):
    text = drafted(name)
    assert re.search(r"^target: (\S+)", text, re.MULTILINE)[1] == sample(name).mapping.operation.name
    path = tmp_path / "draft.yaml"
    path.write_text(text, encoding="utf-8")
    assert [str(found) for found in read_yaml(path).findings] == []
    lines, findings = text.splitlines(), lint(path, ASSUMED)
    assert [str(finding) for finding in findings if FILL_IN not in lines[finding.line - 1]] == []
    first = lines.index("constants:") if "constants:" in lines else len(lines)
    said = {number for number, line in enumerate(lines, 1) if number > first and f": null   # {FILL_IN}" in line}
    heads = re.findall(r"^# (FILL IN|CHECK) marks \((\d+)\)", text, re.MULTILINE)
    assert {mark: int(count) for mark, count in heads} == marks_in(text), "the head counts what the command says"
    # as long as a column is wrong, nothing is said of the payload
    assert "the meaning of the codes" in text or said <= {finding.line for finding in findings}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_draft_with_its_marks_filled_in_translates_most_of_the_file(drafts, name):
    documents = translated(drafts(name), sample(name).files)
    usable = sum(document.usable for document in documents)
    assert usable >= 0.5 * len(documents), [str(one) for found in documents for one in found.problems][:10]


def translated(mapping, paths):
    """The documents that a mapping makes of files, the main one first."""
    return translate_files(mapping, paths, Settings(), now=NOW).documents


def test_the_share_of_columns_suggested_as_the_shipped_mappings_have_them(drafts):
    found = {}
    for name in SAMPLES:
        own = sent(drafts(name))
        for label, paths in sent(sample(name).mapping).items():
            found[f"{name}: {label}"] = own.get(label, set()) & paths, paths, own.get(label)
    assert sum(bool(hit) for hit, _, _ in found.values()) >= FLOOR * len(found), found


HEADINGS = {
    "en": "Order number;Consignee;Street;Zip code;City;Country;Pickup date;Delivery date;Packaging;Goods;Quantity;Gross weight (kg)",
    "de": "Auftragsnummer;Empfänger;Straße;PLZ;Ort;Land;Abholdatum;Lieferdatum;Verpackungsart;Artikel;Anzahl;Bruttogewicht (kg)",
    "fr": "Numéro de commande;Destinataire;Adresse;Code postal;Ville;Pays;Date d'enlèvement;Date de livraison;Emballage;Marchandise;Quantité;Poids brut (kg)",
    "es": "Número de pedido;Destinatario;Dirección;Código postal;Ciudad;País;Fecha de recogida;Fecha de entrega;Embalaje;Mercancía;Cantidad;Peso bruto (kg)",
    "nl": "Ordernummer;Geadresseerde;Adres;Postcode;Plaats;Land;Ophaaldatum;Leverdatum;Verpakking;Goederen;Aantal;Brutogewicht (kg)",
    "it": "Numero ordine;Destinatario;Indirizzo;CAP;Città;Paese;Data ritiro;Data consegna;Imballaggio;Merce;Quantità;Peso lordo (kg)",
    "pl": "Numer zamówienia;Odbiorca;Ulica;Kod pocztowy;Miasto;Kraj;Data odbioru;Data dostawy;Opakowanie;Towar;Ilość;Waga brutto (kg)",
    "pt": "Número da encomenda;Destinatário;Morada;Código postal;Cidade;País;Data de recolha;Data de entrega;Embalagem;Mercadoria;Quantidade;Peso bruto (kg)",
    "sv": "Ordernummer;Mottagare;Gatuadress;Postnummer;Postort;Land;Hämtningsdatum;Leveransdatum;Förpackning;Gods;Antal;Bruttovikt (kg)",
}
ROWS = [
    "00012;Meyer GmbH;Hauptstr. 1;01067;Dresden;DE;24.03.2026 08:00;25.03.2026 12:00;EUP;Kabel;2;12,5",
    "00013;Nord AB;Storgatan 4;11122;Stockholm;SE;24.03.2026 09:00;26.03.2026 12:00;CTN;Papper;1;100",
]
FIELDS = [
    "order_id", "delivery_company", "delivery_address1", "delivery_pincode", "delivery_city", "delivery_country",
    "pickup_startdatetime", "delivery_startdatetime", "packages.package_type", "packages.item_name", "packages.quantity",
    "packages.weight",
]  # fmt: skip


@pytest.mark.parametrize("language", HEADINGS)
def test_headings_are_understood_in(tmp_path, language):
    text = suggested(tmp_path, "\n".join([HEADINGS[language], *ROWS]), "order.create")
    found = sent(mapping_of(tmp_path, text, "order.create"))
    wrong = {
        label: found.get(label)
        for label, field in zip(HEADINGS[language].split(";"), FIELDS, strict=True)
        if field not in found.get(label, ())
    }
    assert wrong == {}


def test_a_file_without_headings_is_refused(tmp_path):
    file = tmp_path / "orders.csv"
    file.write_text("qqq\nwww\n", encoding="utf-8")
    with pytest.raises(FileRefused, match="no row looks like headings"):
        observe([file], Settings())


def test_the_command_writes_a_draft_once(tmp_path):
    first = loadsheet(tmp_path, "mapping", "suggest", INBOX / "quotes_carrier7.csv", "--out", "quotes.yaml")
    assert first.returncode == 0
    assert " marked FILL IN, " in first.stderr
    assert "target: tender.quote" in (tmp_path / "quotes.yaml").read_text(encoding="utf-8")
    again = loadsheet(tmp_path, "mapping", "suggest", INBOX / "quotes_carrier7.csv", "--out", "quotes.yaml")
    assert again.returncode == 2
    assert "already exists" in again.stderr
    shown = loadsheet(tmp_path, "mapping", "suggest", INBOX / "order_deletes.csv", "--target", "order.delete")
    assert "order_id: {col: order}" in shown.stdout
    wrong = loadsheet(tmp_path, "mapping", "suggest", INBOX / "order_deletes.csv", "--target", "order.remove")
    assert wrong.returncode == 2
    assert "order.remove is none of tender, order, " in wrong.stderr
    assert "order.delete" in wrong.stderr


def test_contacts_payers_and_inner_packs_become_entries_of_their_lists(tmp_path):
    text = suggested(
        tmp_path,
        "Auftrag;Abholung;Lieferung;Empfänger;Ort;Land;Ansprechpartner;Telefon;Frachtzahler;Verpackung;Artikel;Gewicht (kg);"
        "Innenverpackung Art;Anzahl innen;Gewicht innen (kg)\n"
        "A-1;02.03.2026 08:00;03.03.2026 10:00;Muster AG;Dresden;DE;Frau Kern;+49 351 1;Muster AG;EUP;Kabel;120,5;Beutel;4;2,5\n"
        "A-2;02.03.2026 09:00;03.03.2026 12:00;Probe KG;Leipzig;DE;;;;KRT;Rohr;12;;;\n",
        "order.create",
    )
    entries = [line.strip().removeprefix("- ") for line in text.splitlines()]
    for wanted in (
        "party_type: {value: Freight Payer}",
        "party_company: {col: frachtzahler}",
        "party_type: {value: Consignee}",
        "party_name: {col: ansprechpartner}",
        "contact_number: {col: telefon}",
        "quantity: {col: anzahl_innen}",
        "weight: {col: gewicht_innen_kg}",
    ):
        assert wanted in entries
    assert text.index("inner_cargos:") < text.index("involved_parties:")


SHIPMENTS = """\
Auftrag;Ladedatum;Ladezeit;Liefertermin;Empfänger;PLZ/Ort;Straße;Land
00471;24.10.2026;07:30;25.10.2026 02:30;Möbel Höffner;01067 Dresden;Prager Str. 1;Deutschland
00472;26.10.2026;8:15;27.10.2026 14:00;IKEA Wien;1110 Wien;Sverigestr. 1a;Österreich
00473;27.10.2026;06:00;28.10.2026 24:00;Interio AG;8952 Schlieren;Zürcherstr. 5;Schweiz
00474;27.10.2026;06:00;28.10.2026 24:00;Interio AG;8952 Schlieren;Zürcherstr. 5;Schweiz
"""
TRACKED = [
    ["Shipment", "Mode", "TZ", "Picked up", "Departed", "ETA", "Arrived", "Delivered"],
    ["S-1", "ROAD", "Europe/Berlin", datetime(2026, 3, 28, 8), datetime(2026, 3, 29, 2, 30), "TBC", None, None],
    [
        "S-2",
        "SEA",
        "America/New_York",
        "2026-03-27 08:00",
        datetime(2026, 3, 27, 12),
        datetime(2026, 4, 9),
        None,
        "n/a",
    ],
    ["S-3", "SEA", None, "2026-03-27 08:00Z", "x", None, datetime(2026, 4, 10), datetime(2026, 4, 11, 10)],
]


def suggested(tmp_path, rows, target=None, name="sheet.csv"):
    """The draft for one file: rows of cells become a workbook, a text a text file."""
    file = tmp_path / (name if isinstance(rows, str) else "sheet.xlsx")
    if isinstance(rows, str):
        file.write_text(rows, encoding="utf-8")
    else:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(file)
    return write_draft(draft(observe([file], Settings()), target))


def mistakes(tmp_path, text):
    """What lint finds in a draft besides the places to fill in."""
    path = tmp_path / "draft.yaml"
    path.write_text(text, encoding="utf-8")
    lines = text.splitlines()
    return [str(finding) for finding in lint(path, ASSUMED) if FILL_IN not in lines[finding.line - 1]]


def drafted_columns(text):
    """The lines of a draft's columns by heading, also those that are commented out."""
    lines = text.partition("\ncolumns:")[2].partition("\npayload:")[0].splitlines()
    found = {}
    for line in lines:
        if label := re.search(r'label: (?:"([^"]*)"|([^,}]*))', line):
            found[label[1] or label[2]] = line.strip()
    return found


def line_of(text, name):
    return next(
        (line.strip() for line in text.splitlines() if line.strip().startswith((f"{name}: {{", f"{name}:  "))), ""
    )


def test_dates_and_times_become_no_companies_and_an_uncertain_column_is_marked(tmp_path):
    text = suggested(tmp_path, SHIPMENTS, "order.create")
    assert line_of(text, "pickup_company") == "pickup_company: {const: pickup_company}   # FILL IN under constants"
    assert line_of(text, "delivery_company") == "delivery_company: {col: empfanger}"
    assert line_of(text, "delivery_startdatetime") == "delivery_startdatetime: {col: liefertermin}"
    assert "CHECK the cells that are not dates, such as 28.10.2026 24:00" in line_of(text, "liefertermin")
    assert line_of(text, "delivery_city") == "delivery_city: {col: plz_ort_city}"
    assert "{expr: 'ladedatum + ladezeit'}   # CHECK" in line_of(text, "pickup_startdatetime")
    assert """{expr: 'ladedatum + ladezeit + t"PT4H"'}""" in line_of(text, "pickup_enddatetime")
    assert mistakes(tmp_path, text) == []


def test_milestones_with_dates_become_sets_of_events(tmp_path):
    text = suggested(tmp_path, TRACKED)
    assert "target: order.status" in text
    sets = "sets: {Picked up: PICKED_UP, Departed: DEPARTED, Arrived: ARRIVED, Delivered: DELIVERED}   # CHECK"
    assert line_of(text, "sets").startswith(sets)
    assert line_of(text, "status_code").startswith("status_code: {col: event}   # CHECK")
    assert line_of(text, "status_datetime") == "status_datetime: {col: at}"
    assert (line_of(text, "origin"), line_of(text, "destination")) == ("", "")
    assert mistakes(tmp_path, text) == []


def test_headings_over_two_rows_are_read_as_one(tmp_path):
    rows = [
        ["Ladeliste KW 13 / 2026"],
        ["Auftrag", None, "Abholung", None, "Ware", None, None, "Zustellung", None],
        ["Nr", "Kunde", "Datum", "Zeit", "Art", "Anzahl", "Gewicht (kg)", "Datum", "PLZ"],
        ["471", "Meier", "03.04.2026", "07:30", "Palette", 2, 412.5, "07.04.2026 14:00", "01067"],
        ["472", "Huber", "03.04.2026", "08:30", "Karton", 3, 27, "07.04.2026 15:00", "80331"],
    ]
    text = suggested(tmp_path, rows, "order.update")
    assert "header_rows: 2" in text
    assert "label: Auftrag / Nr, type: text, required: true, key: true" in text
    assert line_of(text, "order_id") == "order_id: {col: auftrag_nr}"
    assert "'abholung_datum + abholung_zeit'" in line_of(text, "pickup_startdatetime")
    assert line_of(text, "delivery_startdatetime") == "delivery_startdatetime: {col: zustellung_datum}"
    assert line_of(text, "delivery_pincode") == "delivery_pincode: {col: zustellung_plz}"
    assert mistakes(tmp_path, text) == []
    documents = translated(mapping_of(tmp_path, text, "order.update"), [tmp_path / "sheet.xlsx"])
    assert [[str(problem) for problem in document.problems] for document in documents] == [[], []]


def test_a_heading_that_stands_twice_is_said(tmp_path):
    sheet = "Order;Delivery date;Pcs;Weight (kg);Consignee;Delivery date\n" + "1;01.03.2026;2;3,5;Acme;02.03.2026\n" * 2
    text = suggested(tmp_path, sheet, "order.update")
    assert "# CHECK: several columns have the heading Delivery date; their order tells them apart" in text
    assert "CHECK: columns B and F have this heading" in line_of(text, "delivery_date")
    assert line_of(text, "delivery_company") == "delivery_company: {col: consignee}"
    assert mistakes(tmp_path, text) == []


CHANGES = "Action,Order No,Consignee,City,Weight kg\nC,1001,Acme,Boston,12.5\nU,1002,Beta,Reno,\nX,1003,,,\n"


def test_a_column_of_actions_chooses_the_operation(tmp_path):
    text = suggested(tmp_path, CHANGES)
    assert "target: {col: action}   # CHECK" in text
    assert "required: true, one_of: {C: order.create, U: order.update, X: order.delete}}" in line_of(text, "action")
    assert "order_references" not in text
    assert mistakes(tmp_path, text) == []
    named = suggested(tmp_path, CHANGES, "order.update")
    assert "target: order.update   # CHECK: Action (C, U, X) marks new, changed and cancelled rows" in named


SHORT = {  # a sheet, the operation that is asked for, what the draft says and what it does not say
    "a date that reads both ways": ("Order no;Pickup date\n1;03/04/2026\n2;04/04/2026\n", "order.update", "CHECK day and month: ", ()),
    "numbers as the values have them, not the language": ("Order no;Weight\n1;1.234,5\n2;12,25\n", "order.create", "locale: de_DE   # 2 of 2 numbers", ()),
    "numbers are not companies and no cities": (
        "Order;Consignee;City;Zip\n1;4711;12;89073\n2;4712;13;53111\n", "order.update", " delivery_pincode: {col: zip}\n",
        (" delivery_company:", " delivery_city:"),
    ),
    "an unknown word in a heading": ("Order;Consignee;Weight zzyx kg\n1;Acme;2\n2;Beta;3\n", "order.update", '# CHECK: what is "zzyx" in the heading?', ()),
    "an event whose code the file lacks": (
        "Shipment;Delivered\n1;01.03.2026 08:00\n2;02.03.2026 08:00\n", "order.status",
        "status_code: {const: status_code}   # FILL IN under constants", (),
    ),
    "a word for totals that begins a record too": (
        "Consignee;Order;City\nTotal Energies;1;Paris\nBeta;2;Reno\nTotal;;x\n", "order.update", "target: order.update", ("totals:",),
    ),
    "notes are not actions": ("Order,Note,City\n1,X,Ulm\n2,N,Bonn\n", None, "target: ", ("target: {col:",)),
    "an action that nobody knows": ("Order,Action,City\n1,C,Ulm\n2,Q,Bonn\n", None, "target: ", ("target: {col:",)),
    "dates that contradict each other": (
        "Order;Pickup date;Delivery date\n1;25/03/2026;03/26/2026\n2;26/03/2026;03/27/2026\n", "order.update",
        'delivery_date: {label: Delivery date, type: date, required: true, formats: ["%m/%d/%Y"]}', ("  dates:",),
    ),
    "an action in the wrong column": ("Order,City\n1,New\n2,New\n", None, "target: ", ("target: {col:",)),
}  # fmt: skip


@pytest.mark.parametrize(("sheet", "target", "said", "absent"), SHORT.values(), ids=SHORT)
def test_a_draft_says_what_the_sheet_shows_and_no_more(tmp_path, sheet, target, said, absent):
    text = suggested(tmp_path, sheet, target)
    assert said in text
    assert [one for one in absent if one in text] == []


def test_names_that_are_taken_or_mean_something_in_expressions_are_changed(tmp_path):
    text = suggested(tmp_path, "Order;Rows;In;PLZ/Ort;PLZ Ort\n1;a;b;c;d\n", "order.update")
    assert [line.split(":")[0].strip(" #") for line in text.partition("\ncolumns:\n")[2].splitlines()[:5]] == [
        "order", "rows_", "in_", "plz_ort", "plz_ort_2",
    ]  # fmt: skip


ORDERS = (
    "OrderID;Consignee;Pickup\n00471;Anna;2026-10-25 00:30\n00472;Bob;2026-10-24 10:00\n00473;Cy;2026-10-24 11:00\n"
)


def test_keys_that_lost_their_zeros_are_joined_with_padding(tmp_path):
    (tmp_path / "orders.csv").write_text(ORDERS, encoding="utf-8")
    (tmp_path / "packages.csv").write_text(
        "OrderID;Type;Item\n471;EUP;a\n472;EUP;b\n472;KRT;c\n473;EUP;d\n", encoding="utf-8"
    )
    text = write_draft(draft(observe([tmp_path / "orders.csv", tmp_path / "packages.csv"], Settings()), "order.update"))
    assert "packages: {file: packages, join: {to: orders, on: {order_id: order_id}}}" in text
    assert "pad_left: {to: 5}, required: true}   # 4 values, 3 different; CHECK the leading zeros" in text
    assert mistakes(tmp_path, text) == []


def test_a_file_that_is_left_out_is_said_on_stderr(tmp_path):
    (tmp_path / "orders.csv").write_text(ORDERS, encoding="utf-8")
    (tmp_path / "packages.csv").write_text("OrderID;Type\nA;EUP\nB;EUP\nC;EUP\n", encoding="utf-8")
    done = loadsheet(tmp_path, "mapping", "suggest", "orders.csv", "packages.csv")
    said = "not read: packages.csv: both have OrderID, but too few of its values match"
    assert said in done.stderr
    assert said in done.stdout


def test_lines_of_totals_and_notes_are_no_records(tmp_path):
    sheet = (
        "Auftrag;Empfänger;Ort;Gewicht (kg)\n00471;Möbel Höffner;Dresden;12,5\n00472;IKEA Wien;Wien;7\n"
        "Summe;;;19,5\nerstellt von SAP am 24.10.2026;;\n"
    )
    text = suggested(tmp_path, sheet, "order.update")
    assert "      totals: {begins_with: [Summe]}   # CHECK: total rows, not records" in text
    assert "      footer: {begins_with: [erstellt von]}   # CHECK: a note below the rows, not records" in text
    assert "type: text, required: true, key: true}   # 2 values, 2 different" in line_of(text, "auftrag")
    assert mistakes(tmp_path, text) == []
    documents = translated(mapping_of(tmp_path, text, "order.update"), [tmp_path / "sheet.csv"])
    assert [document.key for document in documents] == ["00471", "00472"]


COLUMNS = {  # cells as workbooks and people write them
    "moments": [datetime(2026, 3, 28, 8), datetime(2026, 3, 29), "2026-03-27 08:00", "28.10.2026 24:00", "TBC", None],
    "days": ["24.03.2026", "25.03.2026", None],
    "times": ["07:30", "8:15"],
    "numbers": [1, 2.5, "1.234,5", "12", None],
    "names": ["Acme", "01067 Dresden", "Muster AG", None],
    "codes": ["EUP", "KRT", "X1", "ROAD"],
    "flags": ["ja", "nein", None],
    "zones": ["Europe/Berlin", None],
}
HEADS = [
    "Order", "Mode", "TZ", "Picked up", "Departed", "ETA", "Arrived", "Delivered", "Ladedatum", "Ladezeit", "Liefertermin",
    "Empfänger", "PLZ/Ort", "Land", "VPE", "Artikel", "Gewicht (kg)", "Anzahl", "Warenwert EUR", "Status", "Action", "Date",
    "Weight", "Volume", "Reference", "Carrier 1", "Gefahrgut", "Quote", "Tender no", "Remarks",
]  # fmt: skip
SHEETS = st.lists(
    st.tuples(st.sampled_from(HEADS), st.sampled_from(sorted(COLUMNS))),
    min_size=2,
    max_size=9,
    unique_by=lambda column: column[0],
)


@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # a sheet says enough without being shrunk
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(columns=SHEETS, target=st.sampled_from([None, *(one.name for one in WRITES)]), data=st.data())
@example(
    columns=[("Order", "codes"), ("Picked up", "moments"), ("Reference", "moments")], target="order.update", data=None
)
def test_every_draft_lints_but_for_its_marks(tmp_path, columns, target, data):
    """In: headings over cells of any kind. Out: nothing that lint finds, besides what is to fill in."""
    rows = [[label for label, _ in columns]]
    for number in range(6):
        cells = [COLUMNS[kind] if data is None else [data.draw(st.sampled_from(COLUMNS[kind]))] for _, kind in columns]
        rows.append([f"A-{number}", *(choice[number % len(choice)] for choice in cells[1:])])
    try:
        text = suggested(tmp_path, rows, target)
    except FileRefused:
        return  # nothing that looks like headings
    assert mistakes(tmp_path, text) == [], text

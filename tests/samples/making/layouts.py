"""Seven small files of shippers whose layouts are unlike the others': column pairs and marks, milestone columns, record types, mixed
changes, two parcel shippers of one base mapping, and three sheets within each other.

Honest mistakes: in each file one row or two that loadsheet refuses, and in the changes one that only the exchange can refuse.
"""

import csv
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from making.workbook import header, landscape, new_workbook, put


def make(folder: Path) -> None:
    """Writes the seven files."""
    _pairs(folder / "brightwater_ams_2026-03-09.csv")
    _records(folder / "kastell_0309.txt")
    _changes(folder / "lindqvist_changes_2026-03-10.csv")
    _pounds(folder / "alder_2026-03-10.csv")
    _french(folder / "bouleau_2026-03-10.csv")
    _nested(folder / "terracotta_2026-03-11.xlsx")
    _milestones(folder / "quayline_milestones_2026-03-12.xlsx")


def _pairs(path: Path) -> None:
    items = [f"{label} {number}" for number in (1, 2, 3, 4) for label in ("Item", "Qty", "Kg")]
    labels = ["Order", "Ready", "Wanted", "Customer", "Address", "Country", "Value"]
    tail = ["Fragile", "Keep cool", "Call before"]
    days = ["09-03-2026 14:00", "10-03-2026 09:00"]
    rows = [
        [
            "BW-7001",
            *days,
            "J. de Vries",
            "Lange Nieuwstraat 12, 3512 PH Utrecht",
            "",
            "84.50",
            "Tea chest",
            "2",
            "4.5",
            "Tray",
            "",
            "1.2",
            *([""] * 6),
            "X",
            "",
            "",
        ],
        [
            "BW-7002",
            *days,
            "Café Bloem",
            "Markt 3, hoek Kerkstraat, 4811 XL Breda",
            "Netherlands",
            "312",
            "Roaster",
            "1",
            "28.75",
            "",
            "",
            "",
            "Filters",
            "10",
            "0.4",
            "Cups",
            "24",
            "0.35",
            "",
            "x",
            "X",
        ],
        [
            "BW-7003",
            *days,
            "A. Peeters",
            "Meir 40, 2000 Antwerpen",
            "BE",
            "40.00",
            "Kettle",
            "1",
            "1.9",
            *[""] * 9,
            "",
            "",
            "",
        ],
        ["BW-7004", *days, "R. Smit", "Postbus 9 Zwolle", "NL", "22.10", "Lamp", "1", "2.1", *[""] * 9, "", "", ""],
        [
            "BW-7005",
            *days,
            "M. Jansen",
            "Kade 8, 9711 LM Groningen",
            "",
            "61",
            "Vase",
            "2",
            "1.5",
            "Bowl",
            "1",
            "heavy",
            *([""] * 6),
            "X",
            "",
            "",
        ],
        ["BW-7006", *days, "F. Visser", "Hoofdweg 77, 7901 KA Hoogeveen", "", "15.75", *[""] * 12, "", "", ""],
    ]
    _csv(path, [*labels, *items, *tail], rows)


def _records(path: Path) -> None:
    lines = [
        "Satzart;Auftrag;Empfänger;Straße;PLZ;Ort;Land;Abholung;Lieferung;Wert",
        "H;K-3301;Baumarkt Süd KG;Industriestr. 7;80939;München;;10.03.2026 07:00;11.03.2026 08:00;1.240,00",
        "D;Schraubzwingen;KRT;4;48,5",
        "D;Werkbank;PAL;1;212",
        "H;K-3302;Eisen Möller;Hafenstr. 2;4103;Leipzig;DE;10.03.2026 09:00;11.03.2026 10:00;388,90",
        "D;Drahtrollen;ROL;6;330,25",
        "H;K-3303;Heimwerker Wien;Gasgasse 5;1150;Wien;AT;10.03.2026 07:00;12.03.2026 09:00;95,5",
        "D;Sägeblätter;KISTE;2;11,8",
        "H;K-3304;Technik Nord;Am Kai 11;24103;Kiel;;11.03.2026 07:00;12.03.2026 07:30;0",
        "D;Kompressor;PAL;1;141,75",
        "X;Ende der Aufträge",
        "T;;;14;745,3",
    ]
    path.write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))


def _changes(path: Path) -> None:
    labels = [
        "Åtgärd",
        "Order",
        "Mottagare",
        "Gata",
        "Postnr",
        "Ort",
        "Land",
        "Hämtning",
        "Leverans",
        "Kolli",
        "Vikt",
        "Volym",
        "Värde",
        "Orsak",
    ]
    whole = ["Norra Möbler", "Storgatan 5", "903 26", "Umeå", "SE", "2026-03-11 08:00", "2026-03-12 10:00"]
    rows = [
        ["N", "LQ-501", *whole, "3", "41,5", "0,9", "2 150,00", ""],
        [
            "C",
            "LQ-502",
            "Kök & Bad",
            "Hamngatan 2",
            "371 34",
            "Karlskrona",
            "Sverige",
            *whole[5:],
            "1",
            "18",
            "0,2",
            "640",
            "",
        ],
        ["U", "LQ-502", *[""] * 6, "2026-03-13 10:00", "2", "36", "", "1 280", "en låda till"],
        ["C", "LQ-503", *whole, "2", "12,25", "0,1", "99", ""],
        ["X", "LQ-503", *[""] * 11, "avbeställd"],
        ["N", "LQ-504", *whole[:6], "", "2", "12", "0,1", "99", ""],
        ["B", "LQ-505", *[""] * 11, "?"],
        ["U", "LQ-599", *[""] * 6, "2026-03-14 10:00", *[""] * 5],
    ]
    _csv(path, labels, rows, ";")


def _pounds(path: Path) -> None:
    labels = ["Order", "Name", "Street", "Postcode", "City", "Country", "Collect", "Deliver", "Item", "Weight", "Value"]
    when = ["2026-03-27 10:00", "2026-03-30 09:00"]  # the clocks go forward between the two
    rows = [
        ["AF-11", "S. Okafor", "Park Row 3", "LS1 5HD", "Leeds", "", *when, "Rug", "22", "180"],
        [
            "AF-12",
            "Tide House",
            "Marine Parade 9",
            "BN2 1TL",
            "Brighton",
            "United Kingdom",
            *when,
            "Lamp",
            "6.5 lb",
            "45.50",
        ],
        ["AF-11", "S. Okafor", "Park Row 3", "LS1 5HD", "Leeds", "", *when, "Cushion", "1.5 kg", "20"],
        ["AF-13", "L. Byrne", "Quay 4", "D02 F6N2", "Dublin", "IE", *when, "Mirror", "14 stone", "88"],
    ]
    _csv(path, labels, rows)


def _french(path: Path) -> None:
    labels = [
        "Commande",
        "Destinataire",
        "Rue",
        "Code postal",
        "Ville",
        "Pays",
        "Enlèvement",
        "Livraison",
        "Article",
        "Poids",
        "Valeur",
    ]
    when = ["10/03/2026 08:00", "11/03/2026 14:00"]
    blank = [""] * 8
    rows = [
        [
            "B-90",
            "Épicerie Rose",
            "Rue Nationale 4",
            "1000",
            "Bourg-en-Bresse",
            "",
            *when,
            "Savons",
            "12,5 kg",
            "140,00",
        ],
        [*blank, "Bougies", "3,25", "60"],
        [*[*blank, "", "", ""][:8], "", "sous-total", ""],
        ["B-91", "Chez Léon", "Place Bellecour 1", "69002", "Lyon", "France", *when, "Vases", "8", "210"],
        [*blank, "Assiettes", "beaucoup", "95"],
        ["B-92", "Au Panier", "Rue Haute 17", "1204", "Genève", "Suisse", *when, "Paniers", "4,75", "1 080,00"],
        ["Total", *[""] * 7, "", "28,5", "1 600"],
    ]
    _csv(path, labels, rows, ";")


def _nested(path: Path) -> None:
    book = new_workbook(path, title="Pedidos", author="Terracotta Iberica SL")
    plain, strong = book.add_format(), book.add_format({"bold": True, "bottom": 1})
    stamp = book.add_format({"num_format": "dd/mm/yyyy hh:mm"})
    when = [datetime(2026, 3, 11, 8), datetime(2026, 3, 13, 9)]
    sheets = {
        "Pedidos": (
            "Pedido Cliente Dirección CP Ciudad País Recogida Entrega Valor",
            [
                ["TI-61", "Azulejos Norte", "Gran Vía 8", 1001, "Vitoria", None, *when, 5400.5],
                ["TI-62", "Casa Nova", "Rua Augusta 20", "1100-053", "Lisboa", "Portugal", *when, 880],
                ["TI-63", "Patios SA", "Calle Feria 3", "41003", "Sevilla", "España", *when, 1250],
                ["TI-64", "Balcones", "Calle Mayor 1", "28013", "Madrid", None, *when, 300],
            ],
        ),
        "Palets": (
            "Pedido Palet Peso Volumen",
            [
                ["TI-61", "P1", 612.5, 0.96],
                [None, "P2", 480, 0.96],
                ["TI-62", "P1", 275.25, 0.8],
                ["TI-63", "P1", 330, 0.9],
                ["TI-64", "P1", 150, 0.5],
            ],
        ),
        "Cajas": (
            "Pedido Palet Artículo Unidades Peso",
            [
                ["TI-61", "P1", "Azulejo azul", 40, 12.5],
                [None, None, "Azulejo blanco", 8, 12.5],
                [None, "P2", "Rodapié", 96, 5],
                ["TI-63", "P7", "Maceta", 30, 11],
                ["TI-64", "P1", "Jarrón", 12, None],
            ],
        ),
    }
    for name, (labels, rows) in sheets.items():
        sheet, first = book.add_worksheet(name), 2 if name == "Pedidos" else 1
        if first == 2:
            put(sheet, 1, 0, "Pedidos de la semana 11", strong)
        header(sheet, first, dict.fromkeys(labels.split(), 14), strong)
        landscape(sheet, first)
        for number, row in enumerate(rows, first + 1):
            for column, value in enumerate(row):
                put(sheet, number, column, value, stamp if isinstance(value, datetime) else plain)
        if name == "Cajas":
            sheet.merge_range(1, 0, 3, 0, "TI-61", plain)
    book.close()


def _milestones(path: Path) -> None:
    book = new_workbook(path, title="Milestones", author="Quayline Forwarding")
    plain, strong = book.add_format(), book.add_format({"bold": True, "bottom": 1})
    sheet = book.add_worksheet("Tracking")
    put(sheet, 1, 0, "Milestones, week 11", strong)
    header(
        sheet,
        3,
        dict.fromkeys(["Order ref", "Approved", "Picked up", "In transit", "Delivered", "Last seen"], 17),
        strong,
    )
    landscape(sheet, 3)
    rows = [
        ["BW-7001", "09/03/2026 12:10", "09/03/2026 15:05", "09/03/2026 22:40", "10/03/2026 09:20", "Utrecht"],
        ["K-3301", "09/03/2026 17:00", "10/03/2026 07:45", "10/03/2026 13:30", None, "Kassel"],
        ["AF-11", None, None, None, None, None],
        ["TI-61", "10/03/2026 16:00", "11/03/2026 8h30", None, None, None],
        ["LQ-501", "10/03/2026 11:00", None, None, None, None],
    ]
    for number, row in enumerate(rows, 4):
        for column, value in enumerate(row):
            put(sheet, number, column, value, plain)
    book.close()


def _csv(path: Path, labels: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str = ",") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\r\n")
        writer.writerow(labels)
        writer.writerows(rows)

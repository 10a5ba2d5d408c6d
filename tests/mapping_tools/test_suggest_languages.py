# ruff: noqa: RUF001 (letters of other scripts)
"""Drafts of sheets in Turkish, Czech, Russian, Chinese, Greek and Japanese, in the encodings and notations of their countries: what is sent for the first order."""

import msgspec
import pytest
from drafting import mapping_of, mistakes, suggested, translated, unsaid, written

from loadsheet.mapping_tools.headings import reading_of

TURKISH = [
    (
        "Sipariş No;Yükleme Tarihi;Yükleme Saati;Gönderici;Yükleme Adresi;Yükleme İl;Yükleme Posta Kodu;Yükleme Ülkesi;Alıcı;Teslimat Adresi;"
        "Teslimat Şehri;Teslimat Posta Kodu;Teslimat Ülkesi;Teslim Tarihi;Ambalaj Türü;Koli Adedi;Ürün Adı;Brüt Ağırlık (kg);Hacim (m³);Mal Bedeli;Para Birimi;Açıklama"
    ),
    "SP-1;03.03.2026;08:30;ÇELİK IŞIK LTD. ŞTİ.;Cadde 1;Eskişehir;26110;Türkiye;Yıldız Gıda;Bulvar 12;İzmir;35100;Türkiye;15.03.2026;Palet;3;Sıvı sabun;1.050,5;2,25;12.500,00;TRY;kırılır",
    "SP-2;13.03.2026;09:15;ÇELİK IŞIK LTD. ŞTİ.;Cadde 2;Eskişehir;26110;Türkiye;Çağ Tekstil;Bulvar 9;Diyarbakır;21100;Türkiye;16.03.2026;Koli;7;Kumaş;950,0;1,5;2.500,00;TRY;-",
]
CZECH = [
    (
        "Číslo objednávky;Datum nakládky;Čas nakládky;Odesílatel;Adresa nakládky;Město nakládky;PSČ nakládky;Země nakládky;Příjemce;Adresa dodání;"
        "Město dodání;PSČ dodání;Země dodání;Datum dodání;Druh obalu;Počet kusů;Název zboží;Hmotnost brutto (kg);Objem (m3);Hodnota zboží;Měna;Poznámka"
    ),
    "CZ-1;03.03.2026;08:30;Řeznictví Dvořák s.r.o.;Nádražní 1;Plzeň;301 00;Česko;Truhlářství Žák;Dlouhá 12;Ústí nad Labem;400 01;Česko;15.03.2026;Paleta;3;Mýdlo;1 050,5;2,25;12 500,00;CZK;křehké",
    "CZ-2;13.03.2026;09:15;Řeznictví Dvořák s.r.o.;Nádražní 2;Plzeň;301 00;Česko;Škoda a syn;Krátká 9;Jičín;506 01;Česko;16.03.2026;Karton;7;Látka;950,0;1,5;2 500,00;CZK;-",
]
RUSSIAN = [
    (
        "Номер заказа;Дата погрузки;Время погрузки;Грузоотправитель;Адрес погрузки;Город погрузки;Индекс погрузки;Страна погрузки;Грузополучатель;Адрес доставки;"
        "Город доставки;Индекс доставки;Страна доставки;Дата доставки;Вид упаковки;Количество мест;Наименование груза;Вес брутто, кг;Объем, м3;Стоимость груза;Валюта;Примечание"
    ),
    "ЗК-1;03.03.2026;08:30;ООО «Вектор»;ул. Ленина, 1;Москва;101000;Россия;АО «Север»;пр. Мира, 5;Казань;420000;Россия;15.03.2026;Паллета;3;Запчасти;1 050,5;2,25;12 500,00;RUB;хрупкое",
    "ЗК-2;13.03.2026;09:15;ООО «Вектор»;ул. Ленина, 2;Москва;101000;Россия;ИП Иванов;пр. Мира, 6;Санкт-Петербург;190000;Россия;16.03.2026;Коробка;7;Краска;950,0;1,5;2 500,00;RUB;-",
]
CHINESE = [
    "订单号,提货日期,提货时间,发货人,发货地址,发货城市,发货邮编,发货国家,收货人,收货地址,收货城市,收货邮编,收货国家,送货日期,包装类型,件数,货物名称,毛重(kg),体积(m³),货值,币种,备注",
    '订-1,2026年3月3日,08:30,上海华联有限公司,世纪大道1号,上海,200120,中国,北京天地公司,建国路5号,北京,100022,中国,2026/3/15,托盘,3,汽车零件,"1,050.5",2.25,"12,500.00",CNY,易碎',
    '订-2,2026年3月13日,09:15,上海华联有限公司,世纪大道2号,上海,200120,中国,广州宏远公司,建国路6号,广州,510000,中国,2026/3/6,纸箱,7,轮胎,950.0,1.5,"2,500.00",CNY,-',
]
GREEK = [
    "Αρ. Παραγγελίας;Ημ/νία Φόρτωσης;Ώρα Φόρτωσης;Αποστολέας;Διεύθυνση Φόρτωσης;Πόλη Φόρτωσης;Τ.Κ. Φόρτωσης;Χώρα Φόρτωσης;Παραλήπτης;Διεύθυνση Παράδοσης;Πόλη Παράδοσης;Τ.Κ. Παράδοσης;Χώρα Παράδοσης;Ημ/νία Παράδοσης;Είδος Συσκευασίας;Ποσότητα;Περιγραφή Είδους;Μικτό Βάρος (kg);Όγκος (m3);Αξία;Νόμισμα;Παρατηρήσεις",
    "ΠΑ-1;03/03/2026;08:30;Αφοί Παπαδόπουλοι ΑΕ;Λ. Αθηνών 1;Πειραιάς;185 31;Ελλάδα;Σούπερ Μάρκετ Ήλιος;Οδός Ερμού 12;Θεσσαλονίκη;546 24;Ελλάδα;15/03/2026;Παλέτα;3;Ελαιόλαδο;1.050,5;2,25;12.500,00;EUR;εύθραυστο",
    "ΠΑ-2;13/03/2026;09:15;Αφοί Παπαδόπουλοι ΑΕ;Λ. Αθηνών 2;Πειραιάς;185 31;Ελλάδα;Ταβέρνα Γαλάζιο;Πλατεία 9;Πάτρα;262 21;Ελλάδα;16/03/2026;Κιβώτιο;7;Φέτα;950,0;1,5;2.500,00;EUR;-",
]
JAPANESE = [
    "注文番号,集荷日,集荷時間,荷送人,集荷先住所,集荷先市区町村,集荷先郵便番号,集荷先国,荷受人,お届け先住所,お届け先市区町村,お届け先郵便番号,お届け先国,お届け日,荷姿,数量,品名,総重量(kg),容積(m3),金額,通貨,備考",
    '注-1,2026/03/03,08:30,株式会社東京精機,神宮前1-2-3,渋谷区,150-0001,日本,大阪商店,中之島5-6,大阪市,530-0005,日本,2026/03/15,パレット,3,自動車部品,"1,050.5",2.25,"12,500",JPY,割れ物',
    '注-2,2026/03/13,09:15,株式会社東京精機,神宮前1-2-4,渋谷区,150-0001,日本,名古屋物産,栄7-8,名古屋市,460-0008,日本,2026/03/16,段ボール,7,タイヤ,950.0,1.5,"2,500",JPY,-',
]


@pytest.mark.parametrize(
    ("lines", "encoding", "locale", "names"),
    [
        (TURKISH, "cp1254", "tr_TR", ("SP-1", "ÇELİK IŞIK LTD. ŞTİ.", "Eskişehir", "Yıldız Gıda", "İzmir", "Sıvı sabun", "TR", "TRY", "kırılır")),
        (CZECH, "cp1250", "cs_CZ", ("CZ-1", "Řeznictví Dvořák s.r.o.", "Plzeň", "Truhlářství Žák", "Ústí nad Labem", "Mýdlo", "CZ", "CZK", "křehké")),
        (RUSSIAN, "cp1251", "ru_RU", ("ЗК-1", "ООО «Вектор»", "Москва", "АО «Север»", "Казань", "Запчасти", "RU", "RUB", "хрупкое")),
        (CHINESE, "gb18030", "zh_CN", ("订-1", "上海华联有限公司", "上海", "北京天地公司", "北京", "汽车零件", "CN", "CNY", "易碎")),
        (GREEK, "cp1253", "el_GR", ("ΠΑ-1", "Αφοί Παπαδόπουλοι ΑΕ", "Πειραιάς", "Σούπερ Μάρκετ Ήλιος", "Θεσσαλονίκη", "Ελαιόλαδο", "GR", "EUR", "εύθραυστο")),
        (JAPANESE, "cp932", "ja_JP", ("注-1", "株式会社東京精機", "渋谷区", "大阪商店", "大阪市", "自動車部品", "JP", "JPY", "割れ物")),
    ],
    ids=["Turkish", "Czech", "Russian", "Chinese", "Greek", "Japanese"],
)  # fmt: skip
def test_a_sheet_in_this_language_is_drafted_and_read(tmp_path, lines, encoding, locale, names):
    sheet = "\n".join([*lines, ""]).encode(encoding)
    text = suggested(tmp_path, sheet)
    assert (
        unsaid(
            text,
            [
                f"encoding: [utf-8-sig, {encoding}]   # CHECK",
                f"locale: {locale}   # ",
                "!fills no field",
                "!CHECK the unit",
            ],
        )
        == []
    )
    assert text.count("\n  timezone: null") + text.count(": null   # FILL IN") == 2  # the sender and the receiver
    first, second = translated(mapping_of(tmp_path, text), written(tmp_path, sheet))
    assert (first.problems, second.problems) == ((), ())
    record = msgspec.json.decode(first.payload)
    order, shipper, from_, consignee, to, item, country, currency, remark = names
    expected = {
        "order_id": order, "pickup_startdatetime": "2026-03-03 08:30:00", "pickup_company": shipper, "pickup_city": from_,
        "pickup_country": country, "delivery_company": consignee, "delivery_city": to, "delivery_startdatetime": "2026-03-15 08:00:00",
        "total_packages": 3, "goods_value": 12500, "currency": currency,
    }  # fmt: skip
    assert {name: record[name] for name in expected} == expected
    (package,) = record["packages"]
    assert [package[name] for name in ("package_type", "item_name", "description", "quantity", "weight", "weight_uom", "volume")] == [
        "Pallet/Skid", item, remark, 3, 1050.5, "KG", 2.25]  # fmt: skip


PORTUGUESE = "Encomenda;Data de recolha;Cliente;Morada;Código Postal;Localidade;País;Peso bruto;Volumes;Valor"
MEXICAN = "Pedido;Fecha de recogida;Cliente;Dirección;Código postal;Ciudad;Peso (kg);Bultos;Importe"
BRAZILIAN = "Nº Pedido;Data de Coleta;Destinatário;Endereço;Número;Bairro;Cidade;UF;CEP;Peso (kg);Volumes;Valor da Mercadoria (R$)"


@pytest.mark.parametrize(
    ("heading", "row", "said", "sent"),
    [
        (
            PORTUGUESE,
            "E10{0};2{0}/11/2026;Padaria Sol Lda;Rua do Ouro 1{0};1100-060;Lisboa;Portugal;12,5;2;1.250,00",
            ["locale: pt_BR", "timezone: Europe/Lisbon   # CHECK", "currency: {value: EUR}   # CHECK", "pickup_country: {value: PT}   # CHECK"],
            {"delivery_address1": "Rua do Ouro 11", "delivery_country": "PT", "goods_value": 1250, "total_packages": 2},
        ),
        (
            BRAZILIAN,
            "1023{0};2{0}/11/2026;João da Silva;Rua das Flores;12{0};Centro;São Paulo;SP;01310-100;12,5;2;1.250,00",
            ["locale: pt_BR", "timezone: null   # FILL IN", "currency: {value: BRL}   # CHECK", "pickup_country: {value: BR}   # CHECK"],
            {"delivery_address1": "Rua das Flores 121", "delivery_address2": "Centro", "delivery_province": "SP", "goods_value": 1250},
        ),
        (
            MEXICAN,
            "P10{0};2{0}/11/2026;Tortillas SA;Reforma 1{0};06600;México;12.5;2;1,250.50",
            ["locale: es_MX", *(f"  {name}: null   # FILL IN" for name in ("timezone", "pickup_country", "delivery_country", "currency"))],
            {},
        ),
        (
            f"{MEXICAN};País",
            "P10{0};2{0}/11/2026;Tortillas SA;Reforma 1{0};06600;México;12.5;2;1,250.50;Argentina",
            ["locale: es_MX", "  timezone: null   # FILL IN", "pickup_country: {value: AR}   # CHECK"],
            {},
        ),
    ],
    ids=["Portugal", "Brazil", "Spanish with points", "Argentina"],
)  # fmt: skip
def test_a_sheet_is_that_of_the_country_which_its_cells_show(tmp_path, heading, row, said, sent):
    sheet = "\n".join([heading, *(row.format(number) for number in range(1, 5)), ""])
    text = suggested(tmp_path, sheet, "order.create")
    assert unsaid(text, said) == []
    record = (
        msgspec.json.decode(translated(mapping_of(tmp_path, text), written(tmp_path, sheet))[0].payload) if sent else {}
    )
    assert {name: record[name] for name in sent} == sent


def test_a_heading_in_capitals_is_that_of_the_mapping_also_with_the_two_letters_i_of_turkish(tmp_path):
    sheet = "\n".join(TURKISH).encode("cp1254")
    mapping = mapping_of(tmp_path, suggested(tmp_path, sheet))
    capitals = TURKISH[0].replace("i", "İ").replace("ı", "I").upper()
    found = translated(mapping, written(tmp_path, "\n".join([capitals, *TURKISH[1:]]).encode("cp1254")))
    assert [document.problems for document in found] == [(), ()]
    assert msgspec.json.decode(found[0].payload)["packages"][0]["weight"] == 1050.5


@pytest.mark.parametrize(
    ("label", "concepts"),
    [
        ("收货人地址", {"delivery", "name", "address"}),
        ("发货人（公司）", {"pickup", "name", "company"}),
        ("Ağırlığı", {"weight"}),
        ("AĞIRLIK", {"weight"}),
        ("Кол-во мест", {"package", "count"}),
        ("Order - Total Weight (oz)", {"order", "total", "weight"}),
        ("Post to name", {"delivery", "name", "company"}),
        ("Post by date", {"shipping", "late", "moment"}),
        ("Shipping Provider Name", {"carrier"}),
        ("Ship-to Country/Region Code", {"delivery", "country"}),
        ("Document No.", {"order"}),
        ("Sell-to Customer Name", {"customer", "company"}),
        ("Uiterste leverdatum", {"delivery", "late", "moment"}),
        ("Date limite d'expédition", {"pickup", "late", "moment"}),
        ("Wunschlieferdatum", {"delivery", "moment"}),
        ("Belegdatum", {"created"}),
        ("Nazwa oferty", {"item"}),
        ("ΑΡ. ΠΑΡΑΓΓΕΛΙΑΣ", {"order"}),
        ("Παράδοση έως", {"delivery", "late"}),
        ("お届け先名", {"delivery", "company"}),
        ("納期", {"delivery", "late", "moment"}),
        ("Auszug Ort", {"pickup", "city"}),
        ("Nach PLZ", {"delivery", "postal"}),
    ],
)
def test_headings_without_blanks_and_with_endings_are_understood(label, concepts):
    assert reading_of(label).concepts >= concepts


@pytest.mark.parametrize(("label", "unknown"), [("备用重量", ("备用",)), ("仮重量", ("仮",)), ("お届け先の住所", ())])
def test_what_is_unknown_in_a_heading_without_blanks_is_asked(label, unknown):
    assert reading_of(label).unknown == unknown


def test_a_sheet_in_an_unknown_language_does_not_say_that_its_language_decides(tmp_path):
    rows = "".join(f"A-{number};თბილისი;{number};{number}0;1{number}.03.2026\n" for number in range(1, 5))
    text = suggested(tmp_path, f"შეკვეთა;ქალაქი;რაოდენობა;წონა;თარიღი\n{rows}", "order.update")
    assert "  locale: en_GB   # no number has a decimal mark; CHECK, no heading is in a known language" in text


def test_a_sheet_in_an_unknown_language_gives_no_country_by_its_numbers_and_a_weight_by_its_unit(tmp_path):
    rows = "".join(f"HU-{number};2026.12.0{number};Fő utca {number};1 25{number},5\n" for number in range(1, 5))
    text = suggested(tmp_path, f"Rendelésszám;Felvétel dátuma;Cím;Súly (kg)\n{rows}", "order.create")
    said = [
        'total_weight: {col: suly_kg}   # CHECK: what is "suly" in the heading?',
        "pickup_country: null   # FILL IN",
    ]
    assert unsaid(text, [*said, "currency: null   # FILL IN", "  timezone: null   # FILL IN"]) == []


@pytest.mark.parametrize(
    ("heading", "cells", "marks", "sent"),
    [
        ("L/W/H", ("120/80/100", "60/40/35"), ["CHECK the unit cm", "!the order of its parts"], (120, 80, 100)),
        ("LxWxH (cm)", ("120x80x100", "60x40x35"), ["!CHECK the unit", "!the order of its parts"], (120, 80, 100)),
        ("Dimensions", ("120 x 80 x 100 cm", "60 x 40 x 35 cm"), ["!CHECK the unit", "CHECK the order of its parts"], (120, 80, 100)),
        ("Dims LxWxH", ("120x80x100 cm", "600x400x350"), ["CHECK the unit of cells without one"], (120, 80, 100)),
        ("Abmessungen", ("1,20 x 0,80 x 1,00 m", "0,60 x 0,40 x 0,35 m"), ["from_unit: m,"], (120, 80, 100)),
        ("Maße LxBxH", ("120*80*100", "60*40*35"), ["!the order of its parts"], (120, 80, 100)),
        ("Maße", ("120x80x100", "60x40x35"), ["CHECK the order of its parts"], (120, 80, 100)),
        ("B x H x T (mm)", ("800x1000x1200", "400x350x600"), ["from_unit: mm,"], (120, 80, 100)),
        ("Dims (L x l x h) cm", ("120x80x100", "60x40x35"), [], (120, 80, 100)),
        ("Longueur/largeur/hauteur cm", ("120/80/100", "60/40/35"), [], (120, 80, 100)),
        ("Size", ('48" x 40" x 50"', '24x20x30"'), ['(?: *(?:\\"))?'], (121.92, 101.6, 127)),
        ("Dimensions", ("10/12/11", "09/10/11"), ["CHECK the order of its parts", "!CHECK day"], (10, 12, 11)),
    ],
)  # fmt: skip
def test_three_sides_in_one_cell_are_sent_as_length_width_and_height(tmp_path, heading, cells, marks, sent):
    rows = "".join(
        f"A-{at};{item};1;12,5;{cell}\n" for at, (item, cell) in enumerate(zip(("Pumpe", "Rohr"), cells, strict=True))
    )
    sheet = f"Auftrag;Artikel;Anzahl;Gewicht kg;{heading}\n{rows}"
    text = suggested(tmp_path, sheet, "order.create")
    assert unsaid(text, marks) == [], text
    assert mistakes(tmp_path, text) == []
    record = msgspec.json.decode(translated(mapping_of(tmp_path, text), written(tmp_path, sheet))[0].payload)
    package = record["packages"][0]
    assert tuple(package[side] for side in ("length", "width", "height")) == sent
    assert (package["length_uom"], record["total_volume"]) == ("CM", round(sent[0] * sent[1] * sent[2] / 1e6, 4))


@pytest.mark.parametrize(
    ("heading", "cells"),
    [("HBL", ("120/80/100", "60/40/35")), ("Article size", ("M8", "M10")), ("Dimensions", ("120x80", "60x40")), ("Box", ("Max/Box/Fix", "1/2/x"))],
)  # fmt: skip
def test_other_cells_are_no_sides(tmp_path, heading, cells):
    text = suggested(tmp_path, f"Auftrag;Gewicht kg;{heading}\nA-1;2;{cells[0]}\nA-2;3;{cells[1]}\n", "order.create")
    assert unsaid(text, ["!split", "!length"]) == []


def test_sides_in_another_unit_are_refused(tmp_path):
    sheet = "Auftrag;Artikel;Anzahl;Maße\nA-1;Pumpe;1;120x80x100 cm\nA-2;Rohr;1;1,2x0,8x1 m\nA-3;Rohr;1;60x40x35 cm\n"
    found = translated(mapping_of(tmp_path, suggested(tmp_path, sheet, "order.create")), written(tmp_path, sheet))
    assert [[one.code for one in document.problems if one.code == "C313"] for document in found] == [[], ["C313"], []]


ENDS = {
    "delivery_enddatetime": "delivery deadline; deliver by; latest delivery; Required by; Need by date; Due date; Must arrive by; MABD; Delivery cut-off; Deliver no later than;"
    " Liefertermin spätestens; Lieferung bis; spätester Liefertermin; Lieferfrist; livraison au plus tard; Date limite de livraison; Livrer avant le; Entrega hasta;"
    " Fecha límite de entrega; Plazo de entrega; Uiterste leverdatum; Leveren uiterlijk; Leverans senast; Consegna entro; Consegna al più tardi; Termine di consegna;"
    " Dostawa najpóźniej; Dostawa do; Entrega até; Prazo de entrega; Son teslim tarihi; En geç teslim; Доставка до; Крайний срок доставки; 最晚送货时间; 交货期限;"
    " Nejpozdější dodání; Dodání do",
    "pickup_enddatetime": "Pickup deadline; Latest collection; Abholung bis; Enlèvement au plus tard; Recogida hasta; Ophalen uiterlijk; Hämtning senast; Ritiro entro;"
    " Odbiór najpóźniej; Coleta até; Yükleme en geç; Погрузка до; 最晚提货时间; Nakládka nejpozději",
    "pickup_startdatetime": "pickup from; earliest pickup; Ready by; Available from; Pickup not before; Abholung ab; Verladung ab; frühester Abholtermin; Bereit ab;"
    " Enlèvement à partir de; Recogida desde; Recogida a partir de; Ophalen vanaf; Hämtning tidigast; Ritiro dal; Ritiro non prima delle; Odbiór od; Odbiór najwcześniej;"
    " Coleta a partir de; En erken yükleme; Погрузка с; Погрузка не ранее; 最早提货时间; Nakládka od; Nejdříve nakládka",
    "delivery_startdatetime": "Deliver after; Deliver not before; Lieferung ab; Livraison à partir de; Entrega desde; Leveren vanaf; Leverans tidigast; Consegna dal;"
    " Dostawa od; Entrega a partir de; En erken teslim; Доставка с; Dodání od; 最早送货时间",
}  # fmt: skip


@pytest.mark.parametrize("field", ENDS)
def test_words_for_an_end_of_a_window_are_those_of_that_end(field):
    headings = ENDS[field].split("; ")
    concepts = {"pickup" if "pickup" in field else "delivery", "late" if "end" in field else "early"}
    assert [heading for heading in headings if not concepts <= reading_of(heading).concepts] == []
    assert [heading for heading in headings if reading_of(heading).unknown] == []


@pytest.mark.parametrize(
    "heading", ["Delivery deadline", "Due date", "Lieferfrist", "Plazo de entrega", "Termine di consegna"]
)
def test_a_deadline_is_sent_as_the_end_of_the_window(tmp_path, heading):
    sheet = f"Order no;City;{heading}\nA-1;Ulm;02.03.2026 10:00\nA-2;Bonn;13.03.2026 14:00\n"
    text = suggested(tmp_path, sheet, "order.update")
    record = msgspec.json.decode(
        translated(mapping_of(tmp_path, text, "order.update"), written(tmp_path, sheet))[0].payload
    )
    assert (record["delivery_startdatetime"], record["delivery_enddatetime"]) == (
        "2026-03-02 06:00:00",
        "2026-03-02 10:00:00",
    )

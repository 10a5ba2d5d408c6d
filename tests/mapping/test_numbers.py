"""Numbers, quantities, units and amounts of money: what is read as each locale writes them, what is refused, and what is proposed."""

from decimal import Decimal

import pytest
from babel.numbers import NumberFormatError, format_decimal, parse_decimal
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook
from sheets import decode, example_text, findings, load_text, of_file, of_text
from test_conversion import converter, hints, planned, shown

from loadsheet.mapping.notations import canonical, number_parser
from loadsheet.mapping.units import ALIASES, conversion_factor, factor_by_pint
from loadsheet.reading.tables import Native

# ---- numbers ----

NUMBERS = {  # by locale, what is written: a value, or the code of the problem  (M14)
    "de_DE": {
        "1.234,56": "1234.56", "1234,5": "1234.5", "-5,50": "-5.5", "1,": "1", "007,10": "7.1", "2.525,798-": "-2525.798",
        "1.5": "C316", "12.345.67": "C302", "zwölf": "C302", "NaN": "C302", "Infinity": "C302", "1E5": "C302", "1 2": "C302",
        "--5": "C302", "12,-": "C302", "-12-": "C302", "12,5 €": "C302", "9" * 60: "C302",
        "\N{ARABIC-INDIC DIGIT ONE}": "C302", "\N{FULLWIDTH DIGIT ONE}": "C302",
    },
    "en_US": {"1,234.56": "1234.56", "12.5 -": "-12.5", "12,5": "C316"},
    "en_GB": {".5": "0.5"},
    "en_IN": {"12,34,567.5": "1234567.5"},
    "sv_SE": {"1 234,50": "1234.5", "1\N{NO-BREAK SPACE}234,50": "1234.5", "\N{MINUS SIGN}5": "-5", "1.234": "C316"},
    "fr_FR": {"1 234,5": "1234.5", "12.5": "C316"},
    "pl_PL": {"1 234,5": "1234.5"},
    "de_CH": {"1'234.50": "1234.5", "1\N{RIGHT SINGLE QUOTATION MARK}234.5": "1234.5"},
}  # fmt: skip


@pytest.mark.parametrize("locale", NUMBERS)
def test_m14_numbers_are_read_as_the_declared_locale_writes_them(locale):
    convert = converter("decimal", locale=locale)
    assert {text: shown(convert(text)) for text in NUMBERS[locale]} == NUMBERS[locale]


@pytest.mark.parametrize(
    ("type_", "settings", "cells"),
    [
        ("integer", {}, {"1.234": "1234", "3,0": "3", "3,5": "C303"}),
        ("integer", {"min": 1, "max": 3}, {"0": "C305", "1": "1", "3": "3", "4": "C305"}),
        ("decimal", {"min": 1}, {"0,999": "C305", "1": "1"}),
        ("decimal", {"places": 2}, {"1,25": "1.25", "1,255": "C305", "1,250": "1.25"}),
    ],
)
def test_whole_numbers_ranges_and_places(type_, settings, cells):
    convert = converter(type_, **settings)
    assert {text: shown(convert(text)) for text in cells} == cells
    assert "max" not in settings or convert("9").values == {"expected": "from 1 to 3"}


HINTS = {  # by locale: the code, and what is said of what is written
    "en_US": {"1.234,56": ("C316", "write 1.23456 or 1,234.56"), "-12.5$": ("C302", "write it like -12.5")},
    "de_CH": {"1.234,56": ("C316", "write 1.23456 or 1234.56"), "1.234.567,8": ("C302", "did you mean 1234567.8?")},
    "fr_FR": {
        "1.234,56": ("C302", "did you mean 1234,56?"), "1.2.3": ("C302", "write it like 1\N{NARROW NO-BREAK SPACE}234,5"),
        "1\N{NARROW NO-BREAK SPACE}234,5\N{NO-BREAK SPACE}€": ("C302", "write it like 1\N{NARROW NO-BREAK SPACE}234,5"),
    },
    "en_GB": {"£ 12.50": ("C302", "write it like 12.50")},
    "es_ES": {
        "2.150,75 €": ("C302", "write it like 2.150,75"), "€ -5": ("C302", "write it like -5"),
        **dict.fromkeys(["2.150.75 €", "12,5 € €", "€", "€" * 9_000], ("C302", "write it like 1.234,5")),
    },
    "de_DE": {"-1.5": ("C316", "write -15 or -1,5")} | {
        text: ("C302", f"did you mean {meant}?" if meant else "write it like 1.234,5")
        for text, meant in {
            "1O5": "105", "l05": "105", "1OO,5o": "100,50", "-1I0": "-110", "1S0": "150", "4B8,5": "488,5", "O,O5": "0,05",
            "\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}\N{FULLWIDTH COMMA}\N{FULLWIDTH DIGIT FIVE}": "12,5",
            "1\N{CYRILLIC CAPITAL LETTER O}5": "105", "1\N{ZERO WIDTH SPACE}05": "105", "\N{ARABIC-INDIC DIGIT ONE}0": "10",
            "10l": None,  # ten litres
            "B12": None,  # a code
            "SOS": None, "5\N{SUPERSCRIPT TWO}": None, "1O.5.3": None, "1E5": None,
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("locale", HINTS)
def test_only_numbers_that_the_locale_reads_are_proposed_and_look_alikes_never_read(locale):
    assert hints("decimal", HINTS[locale], locale=locale) == HINTS[locale]


def test_m14_an_ambiguous_number_is_refused_with_both_readings():
    wrong = converter("decimal", locale="en_US")("12,5")
    assert (wrong.code, wrong.values) == ("C316", {"first": "125", "second": "12.5"})


LOCALES = ["de_DE", "en_GB", "sv_SE", "fr_FR", "de_CH", "en_IN", "pl_PL"]
DECIMALS = st.decimals(-(10**12), 10**12, places=3)


@pytest.mark.parametrize("options", [{"type_": "integer"}, {"type_": "decimal", "places": 0}])
@pytest.mark.parametrize("locale", [*LOCALES, "es_ES"])
def test_the_example_of_a_whole_number_is_a_whole_number(locale, options):
    read = converter(locale=locale, **options)
    example = read("dos").hint.removeprefix("write it like ")
    assert (read(example), read(example).as_tuple().exponent) == (12, 0)


@given(DECIMALS, st.sampled_from(LOCALES))
def test_m14_what_a_locale_writes_is_read_back_in_one_spelling(number, locale):
    convert = converter("decimal", locale=locale)
    found = convert(format_decimal(number, locale=locale, decimal_quantization=False))
    assert found == number
    assert str(found) == str(convert(Native(format(number, "f"), "number")))
    assert "E" not in str(found)


@given(st.text("0123456789.,' \N{NO-BREAK SPACE}-", min_size=1, max_size=12), st.sampled_from(LOCALES))
def test_m14_no_text_is_read_otherwise_than_the_strict_parser_reads_it(text, locale):
    value = converter("decimal", locale=locale)(text)
    if isinstance(value, Decimal) and not set(text) & set("' \N{NO-BREAK SPACE}-"):
        try:
            assert value == parse_decimal(text, locale=locale, strict=True)
        except NumberFormatError as error:
            raise AssertionError(text) from error


@given(st.text("0123456789.,'-", min_size=1, max_size=12), st.sampled_from(LOCALES))
def test_m14_whatever_two_readings_are_proposed_are_read_and_differ(text, locale):
    convert = converter("decimal", locale=locale)
    wrong = convert(text)
    if shown(wrong) == "C316":
        first, second = convert(wrong.values["first"]), convert(wrong.values["second"])
        assert isinstance(first, Decimal)
        assert isinstance(second, Decimal)
        assert first != second


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("-" + "1" * 28 + ",123456789012", "-" + "1" * 28 + ".123456789012"),
        ("7" * 28 + ",5", "7" * 28 + ".5"),
        ("-0,0", "0"),
        ("-12,50", "-12.5"),
        (Decimal("1E+40"), "1" + "0" * 40),
        (Decimal("1.7E+308"), "17" + "0" * 307),
        (Decimal("1" * 35 + ".50"), "1" * 35 + ".5"),
    ],
)
def test_no_digit_of_a_long_number_is_rounded_away_and_it_has_one_spelling(written, text):
    """Decimal's own arithmetic would keep 28 digits."""
    assert str(canonical(written) if isinstance(written, Decimal) else number_parser("de_DE")(written)) == text


# ---- quantities ----


def number_cell(number, as_shown=""):
    """A number of a workbook, and how its number format shows it."""
    return Native(number, "number", as_shown) if as_shown else Native(number, "number")


AMOUNTS = [  # the settings of a quantity, and what cells become  (M15)
    ({"unit": "kg"}, {
        "12,5": "12.5", "12,5 kg": "12.5", "12,5KGS": "12.5", "27 lb": "12.24699399", "27 LBS": "12.24699399", "500 g": "0.5",
        "500 G": "0.5", "2 t": "2000", "2 Ton": "2000", "1.000,5 kg": "1000.5", "5 cm": "C307", "5 stone": "C307",
        "12.5 kg": "C316", "zwölf": "C302", "kg": "C302", "5 kg brutto": "C307",
    }),
    ({"unit": "kg", "from_unit": "lb"}, {"27": "12.24699399", "27 kg": "27"}),
    ({"unit": "m**3", "from_unit": "ft**3"}, {"100": "2.8316846592"}),
    ({"unit": "m**3"}, {"2,5 cbm": "2.5"}),
    ({"unit": "kg", "units": {"Ton": "short_ton"}}, {"1 Ton": "907.18474"}),
    ({"unit": "kg", "min": 1}, {"500 g": "C305", "1000 g": "1"}),
    ({"unit": "kg", "locale": "sv_SE"}, {"4O8,5": "C302", "12 stone": "C307", "12 kg": "12"}),  # a letter within is no unit
    ({"unit": "kg", "locale": "de_CH"}, {"1'234.5 kg": "1234.5", "1'234": "1234"}),
    ({"unit": "ft", "locale": "en_GB"}, {"7' ": "7"}),
    # tons, which are metric everywhere but in the United States, where they have to be explained
    ({"unit": "kg", "locale": "en_US"}, dict.fromkeys(["2 ton", "2 Tons", "2 TON", "2 tn"], "C307")),
    *(({"unit": "kg", "locale": locale, "units": {word: ton}}, dict.fromkeys(["2 ton", "2 Tons", "2 TON", "2 tn"], size))
      for locale, word, ton, size in [
          ("en_US", "ton", "short_ton", "1814.36948"), ("en_US", "Ton", "tonne", "2000"), ("de_DE", "ton", "short_ton", "1814.36948"),
      ]),
    ({"unit": "kg", "locale": "en_GB"}, dict.fromkeys(["2 ton", "2 Tons", "2 TON", "2 tn"], "2000")),
    ({"unit": "Ton", "locale": "en_US"}, dict.fromkeys(["2 t", "2 tonnes", "2 MT", "2 TNE", "2"], "2")),
    ({"unit": "kg", "from_unit": "Ton", "locale": "en_US", "units": {"Ton": "short_ton"}}, {"2": "1814.36948"}),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "cells"), AMOUNTS)
def test_m15_quantities_are_converted_by_the_table_or_refused(settings, cells):
    convert = converter("quantity", **settings)
    assert {text: shown(convert(text)) for text in cells} == cells


SHOWN = [  # the settings of a quantity, and what numbers become that their format shows so
    ({}, {
        ("12.5", ""): "12.5", ("27", "27"): "27", ("27", "00027"): "27", ("27", "27 lb"): "12.24699399", ("27.5", "27.5 KG"): "27.5",
        ("1500", "1.5 t"): "1500", ("-27", "(27 kg)"): "-27", ("12", "kg 12"): "12",
        **dict.fromkeys([("27", text) for text in ("27 stone", "27 m3", "ca. 27", "kg 1 27", "27 lb x 2")], "C307"),
    }),
    ({"from_unit": "lb"}, {("27", ""): "12.24699399", ("27", "27 kg"): "27"}),  # it counts more than the declared one
    ({"unit": "m3"}, {("7", "7 m3"): "7"}),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "numbers"), SHOWN)
def test_a_unit_that_only_the_number_format_says_counts_as_if_it_were_typed(settings, numbers):
    convert = converter("quantity", **{"unit": "kg"} | settings)
    cells = {number: number_cell(*number) for number in numbers}
    assert {number: shown(convert(cell)) for number, cell in cells.items()} == numbers
    wrong = [convert(cells[number]).values for number, said in numbers.items() if said == "C307"]
    assert wrong == [{"expected": convert("5 m").values["expected"]}] * len(wrong)
    assert [converter("decimal")(cell) for cell in cells.values()] == [Decimal(number) for number, _ in cells]


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("kg", "KG kgs Kgs. KGM kilo Kilogramm"),
        ("g", "G gr GRM"),
        ("t", "Ton TON to t TNE MT"),
        ("lb", "LB lbs. LBR pounds"),
        ("m3", "CBM cbm m3 m³ M3 MTQ cu.m. cum"),
        ("ft3", "CFT cu.ft ft3 FTQ"),
        ("in", 'in inch INH " ″'),
        ("ft", "ft FOT '"),
    ],
)
def test_m15_units_are_known_by_what_shippers_write(unit, words):
    convert = converter("quantity", locale="en_GB", unit=unit)
    assert {convert(f"1,234.5 {word}") for word in words.split()} == {Decimal("1234.5")}
    assert {convert(f"7{word}") for word in words.split()} == {Decimal(7)}


@pytest.mark.parametrize(
    ("unit", "hints_of"),
    [
        ("kg", {
            "1OO kg": "did you mean 100 kg?", "l2 t": "did you mean 12 t?", "1O5": "did you mean 105?", "1,1O": "did you mean 1,10?",
            "12,5 M": "M means meter, which measures a length, not a weight", "3 kgg": "did you mean kg?",
        }),
        ("m", {"2 cbm": "cbm means cubic meter, which measures a volume, not a length"}),
        ("m3", {"3 cbmm": "did you mean cbm?"}),
    ],
)  # fmt: skip
def test_m15_what_is_meant_by_an_amount_is_proposed_with_its_unit(unit, hints_of):
    assert {text: hint for text, (_, hint) in hints("quantity", hints_of, unit=unit).items()} == hints_of


@pytest.mark.parametrize("text", ["10l", "OO kg", "3 cwt", "3 Ztr", "3 cbmm", "3 ltrs"])
def test_m15_what_is_proposed_for_a_weight_is_a_weight(text):
    hint = converter("quantity", unit="kg")(text).hint
    proposed = hint.removeprefix("did you mean ").rstrip("?")
    assert proposed == hint or conversion_factor(ALIASES[proposed], "kilogram") is not None


def test_m15_a_ton_in_the_united_states_has_to_be_explained():
    hint = converter("quantity", locale="en_US", unit="kg")("2 ton").hint
    assert "say which under source.units: {ton: short_ton} or {ton: tonne}" in hint
    said = planned("quantity", unit="kg", from_unit="Ton", locale="en_US")[1]
    assert "from_unit: Ton is ambiguous" in said
    assert planned("quantity", unit="Ton", locale="en_US")[1] == "", "the unit of the interface"


SIZES = {"kg": "1", "g": "0.001", "t": "1000", "lb": "0.45359237", "oz": "0.028349523125"}
ALL_UNITS = sorted(set(ALIASES.values()))


@given(st.decimals(0, 10**6, places=3), st.sampled_from(sorted(SIZES)))
def test_m15_quantities_are_exact(number, unit):
    text = f"{format_decimal(number, locale='de_DE', decimal_quantization=False)} {unit}"
    assert converter("quantity", unit="kg")(text) == number * Decimal(SIZES[unit])


@pytest.mark.parametrize("of", ALL_UNITS)
def test_m15_our_own_factors_are_those_of_pint_to_the_last_digit(of):
    own = {to: conversion_factor(of, to) for to in ALL_UNITS if to != of}
    assert own == {to: factor_by_pint(of, to) for to in own}
    assert sum(found is not None for found in own.values()) in (4, 5)  # five weights and volumes, six lengths


# ---- amounts whose unit stands in another column ----

UNITS = example_text("units")


def test_m15_numbers_of_a_workbook_take_their_unit_as_well(tmp_path):
    book = Workbook()
    for row in (["Order", "Gewicht", "GEWEI"], ["A", 1250.5, "g"], ["B", 2, "t"], ["C", 3, "kg"]):
        book.active.append(row)
    book.active["B4"].number_format = '0" kg"'
    book.save(tmp_path / "a.xlsx")
    _, found = of_file(load_text(tmp_path, UNITS), tmp_path / "a.xlsx")
    assert [decode(one.payload)["total_weight"] for one in found] == [Decimal("1.2505"), 2000, 3]


# ---- amounts of money: the currency of a column, and its signs beside the numbers ----

MONEY = """\
mapping: amounts
version: 1
target: order.update
source: {files: "*", locale: en_GB, encoding: utf-8, delimiter: [";"]}
columns:
  order: {label: Order, required: true, key: true}
  value: {label: Value, type: decimal, currency: EUR, min: -20}
payload:
  {order_id: {col: order}, sender_id: {value: A}, receiver_id: {value: B}, goods_value: {col: value}, currency: {value: EUR}}
"""
LIKE = ("C302", "write it like 1,234.5")
PRICES = {  # by currency and locale, what is written: the amount, or the code and hint of its problem
    "EUR en_GB": {
        **dict.fromkeys(["1,234.50", "€ 1,234.50", "€1,234.50", "1,234.50 €", "1,234.50€"], "1234.5"),
        **dict.fromkeys(["EUR 1,234.50", "1,234.50 eur", "1234.5 Euro"], "1234.5"),
        **dict.fromkeys(["-€ 12.50", "€ -12.50", "€-12.50", "12.50- €", "12.50 €-"], "-12.5"),  # a minus on either side of the sign
        **dict.fromkeys(["(12.50)", "(€ 12.50)", "(€12.50)", "(12.50 €)", "€ (12.50)", "( 12.50 )"], "-12.5"),  # as accountants write it
        "(12.50": LIKE, "((12.50))": LIKE, "(-12.50)": LIKE, "()": LIKE,
        **dict.fromkeys(["$ 5.00", "US$5", "5.00 USD"], ("C307", "")),
        "12 pcs": LIKE, "1O €": LIKE, "EUR 5 €": LIKE, "€ 1.234,50": ("C316", "write 1.2345 or 1,234.5"), "€ -21": ("C305", ""),
    },
    # signs that several currencies have are read as that of the column
    "USD en_US": {"$1,234.50": "1234.5"},
    "CAD en_US": {"C$ 5.00": "5", "$ 5.00": "5"},
    "CHF de_CH": {"Fr. 1'234.50": "1234.5", "990.\N{EN DASH}": "990"},
    "SEK sv_SE": {"1 234,50 kr": "1234.5"},
    "INR en_IN": {"Rs. 1,00,000.00": "100000"},
    "JPY ja_JP": {"¥1,200": "1200"},
    "PLN pl_PL": {"12,50 zł": "12.5"},
    "EUR de_DE": {"€ 1.990,-": "1990", "990,-- EUR": "990"},
}  # fmt: skip


@pytest.mark.parametrize("case", PRICES)
def test_an_amount_has_the_currency_of_its_column_and_no_other(tmp_path, case):
    currency, locale = case.split()
    mapping = load_text(tmp_path, MONEY.replace("en_GB", locale).replace("EUR", currency))
    rows = [f"A{number};{cell}\n" for number, cell in enumerate(PRICES[case])]
    found = of_text(mapping, tmp_path, "".join(["Order;Value\n", *rows]))
    problems = [[(problem.code, problem.hint) for problem in one.problems] for one in found]
    amounts = [
        said[0] if said else str(decode(one.payload)["goods_value"]) for one, said in zip(found, problems, strict=True)
    ]
    assert dict(zip(PRICES[case], amounts, strict=True)) == PRICES[case]


OTHER = '"{}" has a unit that does not fit here; expected an amount in EUR'
FORMATS = {  # by currency, the number formats of a workbook: the number of the cell, and the amount or what is said of it
    "EUR": {
        "#,##0.00": (1234.5, "1234.5"), "[$-407]#,##0.00": (1234.5, "1234.5"), "[$€-x-euro2] #,##0.00": (1234.5, "1234.5"),
        '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-': (1234.5, "1234.5"), '0.00" Euro"': (1234.5, "1234.5"), '0" pcs"': (1234.5, "1234.5"),
        "General": ("€ 99", "99"), "@": ("$1234.5", OTHER.format("$1234.5")),
        "[$USD] #,##0.00": (1234.5, OTHER.format("USD 1234.5")), "[$£-809]#,##0.00": (1234.5, OTHER.format("£1234.5")),
        '"$"#,##0.00': (1234.5, OTHER.format("$1234.5")), '#,##0.00" CHF"': (1234.5, OTHER.format("1234.5 CHF")),
        "#,##0.00 [$₽-419]": (1234.5, OTHER.format("1234.5 ₽")), '"$"#,##0;\\("$"#,##0\\)': (-5, OTHER.format("($5)")),
    },
    "CAD": {'"$"#,##0.00': (1234.5, "1234.5")},
    "USD": {"[$USD] #,##0.00": (1234.5, "1234.5")},
}  # fmt: skip


@pytest.mark.parametrize("currency", FORMATS)
def test_a_number_of_a_workbook_is_an_amount_if_its_format_shows_no_other_currency(tmp_path, currency):
    book = Workbook()
    book.active.append(["Order", "Value"])
    for row, (code, (value, _)) in enumerate(FORMATS[currency].items(), start=2):
        book.active.append([f"A{row}", value])
        book.active.cell(row, 2).number_format = code
    book.save(tmp_path / "a.xlsx")
    _, found = of_file(load_text(tmp_path, MONEY.replace("EUR", currency)), tmp_path / "a.xlsx")
    amounts = [one.problems[0].text if one.problems else str(decode(one.payload)["goods_value"]) for one in found]
    assert amounts == [expected for _, expected in FORMATS[currency].values()]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("currency: EUR, min", "currency: EURO, min", "currency: EURO is not a currency code (did you mean EUR?)"),
        ("type: decimal, currency", "type: integer, currency", "currency does not apply to type integer"),
        ("currency: {value: EUR}", "currency: {value: GBP}", "goods_value is in EUR, but currency is GBP"),
    ],
)
def test_a_wrong_currency_of_a_mapping_is_refused_at_its_line(tmp_path, old, new, said):
    (found,) = findings(tmp_path, MONEY.replace(old, new))
    assert said in found

"""Numbers, quantities and units: what is read as each locale writes them, what is refused, and what is proposed."""

from decimal import Decimal

import pytest
from babel.numbers import NumberFormatError, format_decimal, parse_decimal
from hypothesis import given
from hypothesis import strategies as st
from test_conversion import code, converter, refusal

from loadsheet.mapping.notations import canonical, number_reader
from loadsheet.mapping.units import ALIASES, factor, factor_by_pint
from loadsheet.reading.tables import Native


@pytest.mark.parametrize(
    ("locale", "text", "expected"),
    [  # M14
        ("de_DE", "1.234,56", "1234.56"),
        ("de_DE", "1234,5", "1234.5"),
        ("de_DE", "-5,50", "-5.5"),
        ("de_DE", "1.5", "C316"),
        ("de_DE", "12.345.67", "C302"),
        ("en_US", "1,234.56", "1234.56"),
        ("en_US", "12,5", "C316"),
        ("en_GB", ".5", "0.5"),
        ("sv_SE", "1 234,50", "1234.5"),
        ("sv_SE", "1\N{NO-BREAK SPACE}234,50", "1234.5"),
        ("sv_SE", "\N{MINUS SIGN}5", "-5"),
        ("sv_SE", "1.234", "C316"),
        ("fr_FR", "12.5", "C316"),
        ("fr_FR", "1 234,5", "1234.5"),
        ("de_CH", "1'234.50", "1234.5"),
        ("de_CH", "1\N{RIGHT SINGLE QUOTATION MARK}234.5", "1234.5"),
        ("en_IN", "12,34,567.5", "1234567.5"),
        ("pl_PL", "1 234,5", "1234.5"),
        ("de_DE", "zwölf", "C302"),
        ("de_DE", "NaN", "C302"),
        ("de_DE", "Infinity", "C302"),
        ("de_DE", "1E5", "C302"),
        ("de_DE", "\N{ARABIC-INDIC DIGIT ONE}", "C302"),
        ("de_DE", "\N{FULLWIDTH DIGIT ONE}", "C302"),
        ("de_DE", "1 2", "C302"),
        ("de_DE", "--5", "C302"),
        ("de_DE", "12,5 €", "C302"),
        ("de_DE", "9" * 60, "C302"),
        ("de_DE", "1,", "1"),
        ("de_DE", "007,10", "7.1"),
    ],
)
def test_m14_numbers_are_read_as_the_declared_locale_writes_them(locale, text, expected):
    value = converter("decimal", locale=locale)(text)
    assert str(code(value)) == expected


def test_m14_an_ambiguous_number_is_refused_with_both_readings():
    wrong = converter("decimal", locale="en_US")("12,5")
    assert (wrong.code, wrong.values) == ("C316", {"first": "125", "second": "12.5"})


@pytest.mark.parametrize(
    ("locale", "text", "hint"),
    [
        ("en_US", "1.234,56", "write 1.23456 or 1,234.56"),
        ("de_CH", "1.234,56", "write 1.23456 or 1234.56"),
        ("de_CH", "1.234.567,8", "did you mean 1234567.8?"),
        ("fr_FR", "1.234,56", "did you mean 1234,56?"),
        ("fr_FR", "1.2.3", "write it like 1\N{NARROW NO-BREAK SPACE}234,5"),
        ("de_DE", "-1.5", "write -15 or -1,5"),
    ],
)
def test_m14_only_numbers_that_the_locale_reads_are_proposed(locale, text, hint):
    assert converter("decimal", locale=locale)(text).hint == hint


@pytest.mark.parametrize(
    ("locale", "text", "hint"),
    [
        ("es_ES", "2.150,75 €", "write it like 2.150,75"),
        ("en_GB", "£ 12.50", "write it like 12.50"),
        ("en_US", "-12.5$", "write it like -12.5"),
        (
            "fr_FR",
            "1\N{NARROW NO-BREAK SPACE}234,5\N{NO-BREAK SPACE}€",
            "write it like 1\N{NARROW NO-BREAK SPACE}234,5",
        ),
        ("es_ES", "2.150.75 €", "write it like 1.234,5"),
        ("es_ES", "12,5 € €", "write it like 1.234,5"),
        ("es_ES", "€", "write it like 1.234,5"),
        ("es_ES", "€ -5", "write it like -5"),
        ("es_ES", "€" * 9_000, "write it like 1.234,5"),
    ],
)
def test_the_hint_for_a_number_with_a_currency_sign_is_the_number_without_it(locale, text, hint):
    refused = converter("decimal", locale=locale)(text)
    assert (refused.code, refused.hint) == ("C302", hint)


@pytest.mark.parametrize("options", [{"type_": "integer"}, {"type_": "decimal", "places": 0}])
@pytest.mark.parametrize("locale", ["en_GB", "de_DE", "es_ES", "fr_FR", "pl_PL", "de_CH", "en_IN", "sv_SE"])
def test_the_example_of_a_whole_number_is_a_whole_number(locale, options):
    read = converter(locale=locale, **options)
    example = read("dos").hint.removeprefix("write it like ")
    assert (read(example), read(example).as_tuple().exponent) == (1234, 0)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1O5", "105"),
        ("l05", "105"),
        ("1OO,5o", "100,50"),
        ("-1I0", "-110"),
        ("1S0", "150"),
        ("4B8,5", "488,5"),
        ("O,O5", "0,05"),
        ("\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}\N{FULLWIDTH COMMA}\N{FULLWIDTH DIGIT FIVE}", "12,5"),
        ("1\N{CYRILLIC CAPITAL LETTER O}5", "105"),
        ("1\N{ZERO WIDTH SPACE}05", "105"),
        ("\N{ARABIC-INDIC DIGIT ONE}0", "10"),
        ("10l", None),  # ten litres
        ("B12", None),  # a code
        ("SOS", None),
        ("5\N{SUPERSCRIPT TWO}", None),
        ("1O.5.3", None),
        ("1E5", None),
    ],
)
def test_letters_that_look_like_digits_are_proposed_as_digits_and_never_read_as_such(text, meant):
    wrong = converter("decimal", locale="de_DE")(text)
    assert (wrong.code, wrong.hint) == ("C302", f"did you mean {meant}?" if meant else "write it like 1.234,5")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1OO kg", "did you mean 100 kg?"),
        ("l2 t", "did you mean 12 t?"),
        ("1O5", "did you mean 105?"),
        ("10l", None),
        ("OO kg", None),
    ],
)
def test_look_alikes_in_an_amount_are_proposed_with_its_unit(text, hint):
    wrong = converter("quantity", locale="de_DE", unit="kg")(text)
    assert (wrong.hint if hint else "did you mean" in wrong.hint) == (hint or False)


LOCALES = ["de_DE", "en_GB", "sv_SE", "fr_FR", "de_CH", "en_IN", "pl_PL"]
DECIMALS = st.decimals(-(10**12), 10**12, places=3)


@given(DECIMALS, st.sampled_from(LOCALES))
def test_m14_what_a_locale_writes_is_read_back(number, locale):
    text = format_decimal(number, locale=locale, decimal_quantization=False)
    assert converter("decimal", locale=locale)(text) == number


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
    if code(wrong) == "C316":
        first, second = convert(wrong.values["first"]), convert(wrong.values["second"])
        assert isinstance(first, Decimal)
        assert isinstance(second, Decimal)
        assert first != second


@given(DECIMALS)
def test_a_number_has_one_spelling_from_text_and_from_workbook(number):
    text = format_decimal(number, locale="de_DE", decimal_quantization=False)
    convert = converter("decimal")
    assert str(convert(text)) == str(convert(Native(format(number, "f"), "number")))
    assert "E" not in str(convert(text))


def test_whole_numbers_ranges_and_places():
    assert converter("integer")("1.234") == 1234
    assert converter("integer")("3,0") == 3
    assert code(converter("integer")("3,5")) == "C303"
    assert code(converter("integer", min=1)("0")) == "C305"
    assert converter("integer", min=1, max=3)("9").values == {"expected": "from 1 to 3"}
    assert converter("decimal", places=2)("1,25") == Decimal("1.25")
    assert code(converter("decimal", places=2)("1,255")) == "C305"
    assert converter("decimal", places=2)("1,250") == Decimal("1.25")


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # M15
        ("12,5", "12.5"),
        ("12,5 kg", "12.5"),
        ("12,5KGS", "12.5"),
        ("27 lb", "12.24699399"),
        ("27 LBS", "12.24699399"),
        ("500 g", "0.5"),
        ("500 G", "0.5"),
        ("2 t", "2000"),
        ("2 Ton", "2000"),
        ("1.000,5 kg", "1000.5"),
        ("5 cm", "C307"),
        ("5 stone", "C307"),
        ("12.5 kg", "C316"),
        ("zwölf", "C302"),
        ("kg", "C302"),
        ("5 kg brutto", "C307"),
    ],
)
def test_m15_quantities_are_converted_by_the_table_or_refused(text, expected):
    assert str(code(converter("quantity", unit="kg")(text))) == expected


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


def test_m15_a_letter_within_a_number_is_no_unit():
    convert = converter("quantity", locale="sv_SE", unit="kg")
    assert (code(convert("4O8,5")), code(convert("12 stone")), convert("12 kg")) == ("C302", "C307", Decimal(12))


def test_m15_the_apostrophe_of_swiss_numbers_is_no_unit():
    convert = converter("quantity", locale="de_CH", unit="kg")
    assert convert("1'234.5 kg") == Decimal("1234.5")
    assert convert("1'234") == Decimal(1234)
    assert converter("quantity", locale="en_GB", unit="ft")("7' ") == Decimal(7)


def test_m15_the_unit_of_cells_without_one_is_declared():
    assert converter("quantity", unit="kg", from_unit="lb")("27") == Decimal("12.24699399")
    assert converter("quantity", unit="kg", from_unit="lb")("27 kg") == 27
    assert converter("quantity", unit="m**3", from_unit="ft**3")("100") == Decimal("2.8316846592")
    assert converter("quantity", unit="m**3")("2,5 cbm") == Decimal("2.5")
    assert converter("quantity", unit="kg", units={"Ton": "short_ton"})("1 Ton") == Decimal("907.18474")
    assert converter("quantity", unit="kg")(Native("12.5", "number")) == Decimal("12.5")
    assert converter("quantity", unit="kg", from_unit="lb")(Native("27", "number")) == Decimal("12.24699399")
    assert code(converter("quantity", unit="kg", min=1)("500 g")) == "C305"


UNITS = {"kg": "1", "g": "0.001", "t": "1000", "lb": "0.45359237", "oz": "0.028349523125"}


@given(st.decimals(0, 10**6, places=3), st.sampled_from(sorted(UNITS)))
def test_m15_quantities_are_exact(number, unit):
    text = f"{format_decimal(number, locale='de_DE', decimal_quantization=False)} {unit}"
    assert converter("quantity", unit="kg")(text) == number * Decimal(UNITS[unit])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("-" + "1" * 28 + ",123456789012", "-" + "1" * 28 + ".123456789012"),
        ("7" * 28 + ",5", "7" * 28 + ".5"),
        ("-0,0", "0"),
        ("-12,50", "-12.5"),
    ],
)
def test_no_digit_of_a_long_number_is_rounded_away(number, text):
    """Decimal's own arithmetic would keep 28."""
    assert str(number_reader("de_DE")(number)) == text


@pytest.mark.parametrize(
    ("number", "text"), [("1E+40", "1" + "0" * 40), ("1.7E+308", "17" + "0" * 307), ("1" * 35 + ".50", "1" * 35 + ".5")]
)
def test_a_number_of_many_digits_has_its_one_spelling_too(number, text):
    assert str(canonical(Decimal(number))) == text


@pytest.mark.parametrize(
    ("number", "shown", "expected"),
    [
        ("27", "27", "27"),
        ("27", "00027", "27"),
        ("27", "27 lb", "12.24699399"),
        ("27.5", "27.5 KG", "27.5"),
        ("1500", "1.5 t", "1500"),
        ("-27", "(27 kg)", "-27"),
        ("12", "kg 12", "12"),
        ("27", "27 stone", "C307"),
        ("27", "27 m3", "C307"),
        ("27", "ca. 27", "C307"),
        ("27", "kg 1 27", "C307"),
    ],
)
def test_a_unit_that_only_the_number_format_says_counts_as_if_it_were_typed(number, shown, expected):
    cell = Native(number, "number", shown)
    assert str(code(converter("quantity", unit="kg")(cell))) == expected
    assert converter("decimal")(cell) == Decimal(number)


def test_a_unit_of_the_number_format_counts_more_than_the_declared_one():
    convert = converter("quantity", unit="kg", from_unit="lb")
    assert convert(Native("27", "number", "27 kg")) == 27
    assert convert(Native("27", "number")) == Decimal("12.24699399")
    assert converter("quantity", unit="m3")(Native("7", "number", "7 m3")) == 7
    assert converter("quantity", unit="kg")(Native("27", "number", "27 lb x 2")).values == {
        "expected": convert("5 m").values["expected"]
    }


# ---- units: our own exact sizes are pint's, to the last digit ----

ALL_UNITS = sorted(set(ALIASES.values()))


@pytest.mark.parametrize("of", ALL_UNITS)
def test_m15_our_own_factors_are_those_of_pint(of):
    others = [to for to in ALL_UNITS if to != of]
    own = {to: factor(of, to) for to in others}
    assert own == {to: factor_by_pint(of, to) for to in others}
    assert sum(found is not None for found in own.values()) == 4  # five units of each measure


@pytest.mark.parametrize("word", ["ton", "Tons", "TON", "tn"])
def test_m15_a_ton_in_a_sheet_of_the_united_states_has_to_be_explained(word):
    wrong = converter("quantity", locale="en_US", unit="kg")(f"2 {word}")
    assert code(wrong) == "C307"
    assert "say which under source.units: {ton: short_ton} or {ton: tonne}" in wrong.hint
    american = converter("quantity", locale="en_US", unit="kg", units={"ton": "short_ton"})
    assert american(f"2 {word}") == Decimal("1814.36948")
    assert converter("quantity", locale="en_US", unit="kg", units={"Ton": "tonne"})(f"2 {word}") == 2000
    assert converter("quantity", locale="en_GB", unit="kg")(f"2 {word}") == 2000
    assert converter("quantity", locale="de_DE", unit="kg", units={"ton": "short_ton"})(f"2 {word}") == american(
        "2 ton"
    )


def test_m15_a_column_of_american_tons_has_to_be_explained():
    keys = {"unit": "kg", "from_unit": "Ton", "locale": "en_US"}
    assert "from_unit: Ton is ambiguous" in refusal("quantity", **keys)
    assert converter("quantity", **keys, units={"Ton": "short_ton"})("2") == Decimal("1814.36948")
    assert refusal("quantity", unit="Ton", locale="en_US") == ""  # the unit of the interface


def test_m15_metric_tons_that_are_called_so_are_known_everywhere():
    convert = converter("quantity", locale="en_US", unit="Ton")
    assert [convert(f"2 {word}") for word in ("t", "tonnes", "MT", "TNE")] == [2, 2, 2, 2]
    assert convert("2") == 2


@pytest.mark.parametrize(
    ("unit", "text", "hint"),
    [
        ("kg", "12,5 M", "M means meter, which measures a length, not a weight"),
        ("m", "2 cbm", "cbm means cubic meter, which measures a volume, not a length"),
        ("kg", "3 kgg", "did you mean kg?"),
        ("m3", "3 cbmm", "did you mean cbm?"),
    ],
)
def test_m15_a_unit_of_another_measure_is_said_to_be_one(unit, text, hint):
    wrong = converter("quantity", unit=unit)(text)
    assert (wrong.code, wrong.hint) == ("C307", hint)


@pytest.mark.parametrize("word", ["cwt", "Ztr", "cbmm", "ltrs"])
def test_m15_what_is_proposed_for_a_weight_is_a_weight(word):
    hint = converter("quantity", unit="kg")(f"3 {word}").hint
    assert not hint or factor(ALIASES[hint.removeprefix("did you mean ").rstrip("?")], "kilogram") is not None

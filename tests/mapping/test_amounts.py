"""Amounts of money: the currency of a column, and its signs beside the numbers."""

from decimal import Decimal

import pytest
from openpyxl import Workbook
from sheets import decode, findings, load_text, of_file, of_text

MAPPING = """\
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


def read(tmp_path, cell, locale="en_GB", currency="EUR"):
    """The goods value of a cell, or the code and hint of its problem."""
    text = MAPPING
    for old, new in {"en_GB": locale, "EUR": currency}.items():
        text = text.replace(old, new)
    (document,) = of_text(load_text(tmp_path, text), tmp_path, f"Order;Value\nA;{cell}\n")
    if document.problems:
        return document.problems[0].code, document.problems[0].hint
    return decode(document.payload)["goods_value"]


@pytest.mark.parametrize(
    "cell",
    ["1,234.50", "€ 1,234.50", "€1,234.50", "1,234.50 €", "1,234.50€", "EUR 1,234.50", "1,234.50 eur", "1234.5 Euro"],
)
def test_the_currency_may_stand_before_or_behind_the_number(tmp_path, cell):
    assert read(tmp_path, cell) == Decimal("1234.5")


@pytest.mark.parametrize("cell", ["-€ 12.50", "€ -12.50", "€-12.50", "12.50- €", "12.50 €-"])
def test_a_minus_may_stand_on_either_side_of_the_sign(tmp_path, cell):
    assert read(tmp_path, cell) == Decimal("-12.5")


@pytest.mark.parametrize(
    ("currency", "locale", "cell", "value"),
    [
        ("USD", "en_US", "$1,234.50", "1234.5"),
        ("CAD", "en_US", "C$ 5.00", "5"),
        ("CAD", "en_US", "$ 5.00", "5"),
        ("CHF", "de_CH", "Fr. 1'234.50", "1234.5"),
        ("SEK", "sv_SE", "1 234,50 kr", "1234.5"),
        ("INR", "en_IN", "Rs. 1,00,000.00", "100000"),
        ("JPY", "ja_JP", "¥1,200", "1200"),
        ("PLN", "pl_PL", "12,50 zł", "12.5"),
        ("EUR", "de_DE", "€ 1.990,-", "1990"),
        ("EUR", "de_DE", "990,-- EUR", "990"),
        ("CHF", "de_CH", "990.\N{EN DASH}", "990"),
    ],
)
def test_signs_that_several_currencies_have_are_read_as_that_of_the_column(tmp_path, currency, locale, cell, value):
    assert read(tmp_path, cell, locale, currency) == Decimal(value)


@pytest.mark.parametrize(
    ("cell", "code", "hint"),
    [
        ("$ 5.00", "C307", ""),
        ("US$5", "C307", ""),
        ("5.00 USD", "C307", ""),
        ("12 pcs", "C302", "write it like 1,234.5"),
        ("1O €", "C302", "write it like 1,234.5"),
        ("€ 1.234,50", "C316", "write 1.2345 or 1,234.5"),
        ("EUR 5 €", "C302", "write it like 1,234.5"),
        ("€ -21", "C305", ""),
    ],
)
def test_another_currency_and_what_is_no_amount_are_refused(tmp_path, cell, code, hint):
    assert read(tmp_path, cell) == (code, hint)


@pytest.mark.parametrize(
    ("code", "currency"),
    [
        ("#,##0.00", "EUR"),
        ("[$-407]#,##0.00", "EUR"),
        ('_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-', "EUR"),
        ("[$€-x-euro2] #,##0.00", "EUR"),
        ('0.00" Euro"', "EUR"),
        ('0" pcs"', "EUR"),
        ('"$"#,##0.00', "CAD"),
        ("[$USD] #,##0.00", "USD"),
    ],
)
def test_a_number_of_a_workbook_is_an_amount_if_its_format_shows_no_other_currency(tmp_path, code, currency):
    assert of_cells(tmp_path, (1234.5, code), ("€ 99", "General"), currency=currency)[0] == Decimal("1234.5")


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("[$USD] #,##0.00", "USD 1234.5"),
        ("[$£-809]#,##0.00", "£1234.5"),
        ('"$"#,##0.00', "$1234.5"),
        ('#,##0.00" CHF"', "1234.5 CHF"),
        ("#,##0.00 [$₽-419]", "1234.5 ₽"),
    ],
)
def test_a_number_whose_format_shows_another_currency_is_refused_as_its_text_is(tmp_path, code, shown):
    assert of_cells(tmp_path, (1234.5, code), (1234.5, "0.00"), (shown, "@")) == [
        f'"{shown}" has a unit that does not fit here; expected an amount in EUR',
        Decimal("1234.5"),
        f'"{shown}" has a unit that does not fit here; expected an amount in EUR',
    ]


def test_a_negative_amount_in_brackets_is_refused_by_its_currency_too(tmp_path):
    (problem,) = of_cells(tmp_path, (-5, '"$"#,##0;\\("$"#,##0\\)'))
    assert problem == '"($5)" has a unit that does not fit here; expected an amount in EUR'


def of_cells(tmp_path, *cells, currency="EUR"):
    """The goods values of workbook cells (value and number format), or the texts of their problems."""
    book = Workbook()
    book.active.append(["Order", "Value"])
    for row, (value, code) in enumerate(cells, start=2):
        book.active.append([f"A{row}", value])
        book.active.cell(row, 2).number_format = code
    book.save(tmp_path / "a.xlsx")
    _, found = of_file(load_text(tmp_path, MAPPING.replace("EUR", currency)), tmp_path / "a.xlsx")
    return [one.problems[0].text if one.problems else decode(one.payload)["goods_value"] for one in found]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("currency: EUR, min", "currency: EURO, min", "currency: EURO is not a currency code (did you mean EUR?)"),
        ("type: decimal, currency", "type: integer, currency", "currency does not apply to type integer"),
        ("currency: {value: EUR}", "currency: {value: GBP}", "goods_value is in EUR, but currency is GBP"),
    ],
)
def test_a_wrong_currency_of_a_mapping_is_refused_at_its_line(tmp_path, old, new, said):
    (found,) = findings(tmp_path, MAPPING.replace(old, new))
    assert said in found

"""Units: our own exact sizes are pint's, to the last digit; and what is said of units that cannot be meant."""

from decimal import Decimal

import pytest
from test_conversion import code, converter, refusal

from loadsheet.mapping.words import ALIASES, factor, factor_by_pint

UNITS = sorted(set(ALIASES.values()))


@pytest.mark.parametrize("of", UNITS)
def test_m15_our_own_factors_are_those_of_pint(of):
    others = [to for to in UNITS if to != of]
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

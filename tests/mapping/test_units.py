"""Units: our own exact sizes are pint's, to the last digit."""

import pytest

from loadsheet.mapping.units import ALIASES, factor, factor_by_pint

UNITS = sorted(set(ALIASES.values()))


@pytest.mark.parametrize("of", UNITS)
def test_m15_our_own_factors_are_those_of_pint(of):
    others = [to for to in UNITS if to != of]
    own = {to: factor(of, to) for to in others}
    assert own == {to: factor_by_pint(of, to) for to in others}
    assert sum(found is not None for found in own.values()) == 4  # five units of each measure

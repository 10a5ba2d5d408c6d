"""The JSON schemas that are made of the contract."""

import pytest

from loadsheet.contract import OPERATIONS, Assumptions
from loadsheet.contract.schema import components


def lengths(found):
    """The least lengths of all texts in a schema."""
    if isinstance(found, dict):
        if "minLength" in found:
            yield found["minLength"]
        found = list(found.values())
    for inner in found if isinstance(found, list) else ():
        yield from lengths(inner)


@pytest.mark.parametrize(("assumed", "least"), [("reject", {1}), ("accept", set())])
def test_a_required_text_has_a_character_where_an_empty_one_is_refused(assumed, least):
    assert set(lengths(components(OPERATIONS, Assumptions(empty_required=assumed)))) == least

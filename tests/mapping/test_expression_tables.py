"""The kept tables of the expression parser are those that ply makes of the grammar at hand (`house/test_start_up` sees them used)."""

import json

from expression_tables import KEPT, kept_form, made_anew


def test_the_kept_tables_are_what_ply_makes_of_the_grammar_at_hand():
    """If this fails, rule-engine has another grammar: `python tests/mapping/expression_tables.py` makes them anew."""
    assert json.loads(KEPT.read_bytes()) == json.loads(json.dumps(kept_form(made_anew())))

"""Makes the tables of the expression parser anew: `python -m tests.mapping.expression_tables`, after an update of rule-engine."""

import importlib.util
import json
import tempfile
from pathlib import Path

from rule_engine import Rule
from rule_engine._vendor.ply import yacc

from loadsheet.mapping import expression_parser

KEPT = Path(expression_parser.__file__).with_name(expression_parser.TABLES)


def made_anew():
    """The tables that ply makes of the grammar at hand, as a module of its own."""
    with tempfile.TemporaryDirectory() as folder:
        log = yacc.NullLogger()
        parser = Rule.parser
        yacc.yacc(module=parser, debug=False, write_tables=True, tabmodule="made_anew", outputdir=folder, errorlog=log)
        spec = importlib.util.spec_from_file_location("made_anew", Path(folder) / "made_anew.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def by_symbol(table):
    """A table of states by symbol, which is much shorter to keep."""
    found = {}
    for state, steps in table.items():
        for symbol, step in steps.items():
            states, its_steps = found.setdefault(symbol, ([], []))
            states.append(state)
            its_steps.append(step)
    return found


def kept_form(module):
    """What is kept of the tables: the places of the grammar in rule-engine's source and the spaces in it are left out."""
    productions = [
        (text, name, length, function, function and "", function and 0)
        for text, name, length, function, _, _ in module._lr_productions
    ]
    return {
        "method": module._lr_method,
        "signature": "".join(module._lr_signature.split()),
        "action": by_symbol(module._lr_action),
        "goto": by_symbol(module._lr_goto),
        "productions": productions,
    }


if __name__ == "__main__":
    KEPT.write_text(json.dumps(kept_form(made_anew()), separators=(",", ":")) + "\n", encoding="utf-8")

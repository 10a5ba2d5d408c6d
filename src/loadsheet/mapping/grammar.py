"""The tables of the expression parser, made once and kept: making them anew takes a third of a second at every start.

Owns: `expression_tables.json`, what ply (which rule-engine brings along) makes of rule-engine's grammar. ply looks for such tables in
a module beside the parser and takes them only if they carry the signature of the grammar at hand; otherwise, as after an
update of rule-engine, it makes them itself and nothing but time is lost. A test says when the file is to be made anew.
"""

import sys
from importlib import resources
from types import ModuleType
from typing import Any

import msgspec

TABLES = "expression_tables.json"
PLACE = "rule_engine.parser.parsetab"
"""Where ply looks for the tables of rule-engine's parser."""

_VERSION = "3.10"  # of ply's form of tables


def give_tables() -> None:
    """Puts the kept tables where ply looks for them, unless some are there."""
    if PLACE not in sys.modules:
        kept = (resources.files(__package__) / TABLES).read_bytes()
        sys.modules[PLACE] = tables(msgspec.json.decode(kept))


def tables(kept: dict[str, Any]) -> ModuleType:
    """The tables as ply wants them: a module with the actions and steps of each state."""
    made = ModuleType(PLACE)
    vars(made).update(  # the names are ply's
        _tabversion=_VERSION,
        _lr_method=kept["method"],
        _lr_signature=kept["signature"],
        _lr_action=_by_state(kept["action"]),
        _lr_goto=_by_state(kept["goto"]),
        _lr_productions=kept["productions"],
    )
    return made


def _by_state(kept: dict[str, tuple[list[int], list[int]]]) -> dict[int, dict[str, int]]:
    """What a symbol leads to in each state; kept by symbol, as ply writes it: much shorter."""
    found: dict[int, dict[str, int]] = {}
    for symbol, (states, steps) in kept.items():
        for state, step in zip(states, steps, strict=True):
            found.setdefault(state, {})[symbol] = step
    return found

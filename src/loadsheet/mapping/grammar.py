"""The stored tables of the expression parser. Making them at every start would take a third of a second.

`expression_tables.json` holds what ply (part of rule-engine) makes of rule-engine's grammar. ply looks for such tables in a module beside
the parser and uses them only if their signature matches the grammar. If it does not, as after an update of rule-engine, ply makes new
ones: only time is lost. A test fails when the file is out of date.
"""

import sys
from importlib import resources
from types import ModuleType
from typing import Any

import msgspec

TABLES = "expression_tables.json"
PLY_MODULE = "rule_engine.parser.parsetab"
"""Where ply looks for the tables of rule-engine's parser."""

_VERSION = "3.10"  # of ply's table format


def install_tables() -> None:
    """Put the stored tables where ply looks for them, unless some are there."""
    if PLY_MODULE not in sys.modules:
        stored = (resources.files(__package__) / TABLES).read_bytes()
        sys.modules[PLY_MODULE] = tables(msgspec.json.decode(stored))


def tables(stored: dict[str, Any]) -> ModuleType:
    """The tables in ply's form: a module with the actions and steps of each state."""
    module = ModuleType(PLY_MODULE)
    vars(module).update(  # ply's names
        _tabversion=_VERSION,
        _lr_method=stored["method"],
        _lr_signature=stored["signature"],
        _lr_action=_by_state(stored["action"]),
        _lr_goto=_by_state(stored["goto"]),
        _lr_productions=stored["productions"],
    )
    return module


def _by_state(stored: dict[str, tuple[list[int], list[int]]]) -> dict[int, dict[str, int]]:
    """The step of each symbol in each state. The file is ordered by symbol, which is much shorter."""
    found: dict[int, dict[str, int]] = {}
    for symbol, (states, steps) in stored.items():
        for state, step in zip(states, steps, strict=True):
            found.setdefault(state, {})[symbol] = step
    return found

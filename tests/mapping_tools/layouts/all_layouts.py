"""All labelled layouts: those that are made from a vocabulary, and those of layouts.yaml."""

from pathlib import Path

from loadsheet.yaml_nodes import values_of

from .made_layouts import MADE
from .sheet_layouts import Layout, Sheet, cols


def _read(name, targets, sheets, *, held_out=False):
    """A layout from its entry; `targets` are the accepted operations, separated by blanks."""
    return Layout(name, tuple(targets.split()), tuple(_sheet(**one) for one in sheets), held_out)


def _sheet(columns, above=(), **more):
    return Sheet(columns=cols(columns), above=tuple(map(tuple, above)), **more)


_ENTRIES = values_of(Path(__file__).with_name("layouts.yaml").read_text(encoding="utf-8"))
LAYOUTS = [*MADE, *(_read(name, **entry) for name, entry in _ENTRIES.items())]

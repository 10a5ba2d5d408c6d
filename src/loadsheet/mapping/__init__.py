"""Stage 3: mapping. Mapping files; cells -> converted values -> nested, validated documents, with lineage.

Read `compile.py` (a mapping file, once), then `translating.py` (its rows, streaming), and `parts.py` for how several processes share
these. Of a record there are two makers that agree: `payload.py` the exact one, `shortcut.py` the fast one for what is plainly right.
`routing.py` says which file belongs to which mapping, `lineage.py` which cell a payload value came from, `misread.py` which column is
read otherwise than it is written, `guiding.py` what senders are told of a column; `revival.py` keeps a mapping's files, so that it can be
used again as it was.

A name is imported when it is asked for: the ledger needs the values that documents are made of, and no parser.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadsheet.mapping.compile import Mapping, lint, load
    from loadsheet.mapping.documents import Document, Ignored, Lineage, Source, SourceRow
    from loadsheet.mapping.lineage import Place, locate
    from loadsheet.mapping.routing import FixOf, Route, Routes, is_for, load_folder, mapping_files, of_shipper, route
    from loadsheet.mapping.translator import translate

_HOMES = {
    "compile": ("Mapping", "lint", "load"),
    "documents": ("Document", "Ignored", "Lineage", "Source", "SourceRow"),
    "lineage": ("Place", "locate"),
    "routing": ("FixOf", "Route", "Routes", "is_for", "load_folder", "mapping_files", "of_shipper", "route"),
    "translator": ("translate",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Document",
    "FixOf",
    "Ignored",
    "Lineage",
    "Mapping",
    "Place",
    "Route",
    "Routes",
    "Source",
    "SourceRow",
    "is_for",
    "lint",
    "load",
    "load_folder",
    "locate",
    "mapping_files",
    "of_shipper",
    "route",
    "translate",
]


def __getattr__(name: str) -> Any:
    """One of the names above, from the module that holds it. Raises AttributeError for any other."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return found

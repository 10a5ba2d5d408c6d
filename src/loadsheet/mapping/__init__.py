"""Stage 3: mapping. Mapping files; cells -> converted values -> nested, validated documents, with lineage.

Read `compile.py` (a mapping file, compiled once) and `translator.py` (its rows, streaming). `payload.py` and `leaves.py` make the records.

- `routing.py`: which file belongs to which mapping
- `documents.py`: the results, and which cell a payload value came from
- `plausibility.py`: columns read in the wrong notation, dates far from today
- `conversion.py`: how the cells of a column are read, with `notations`, `texts`, `codes`, `units` and `lookups`; `layouts` says it to shippers
- `yamlfile.py`: a mapping's files, and the copy that lets it be used again later

Names are imported on first use: the ledger needs the values of documents, and no parser.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadsheet.mapping.compile import Mapping, lint, load
    from loadsheet.mapping.documents import Document, Ignored, Lineage, Place, Source, SourceRow, locate
    from loadsheet.mapping.routing import FixOf, Route, Routes, is_for, load_folder, mapping_files, of_shipper, route
    from loadsheet.mapping.translator import translate

_HOMES = {
    "compile": ("Mapping", "lint", "load"),
    "documents": ("Document", "Ignored", "Lineage", "Place", "Source", "SourceRow", "locate"),
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
    """Import one of the names above from its module. Raises AttributeError for any other name."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value

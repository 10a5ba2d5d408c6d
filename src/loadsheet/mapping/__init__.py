"""Stage 3: mapping. Mapping files; cells -> converted values -> nested, validated documents, with lineage.

Read `compile.py` (a mapping file, once), then `translate.py` (its rows, streaming). `routing.py` says which file belongs to
which mapping, `lineage.py` which cell a payload value came from, `guiding.py` what senders are told of a column; `revival.py` keeps
a mapping's files, so that it can be used again as it was.
"""

from loadsheet.mapping.compile import Mapping, lint, load
from loadsheet.mapping.documents import Document, Ignored, Lineage, Source, SourceRow
from loadsheet.mapping.lineage import Place, locate
from loadsheet.mapping.routing import FixOf, Route, Routes, is_for, load_folder, mapping_files, of_shipper, route
from loadsheet.mapping.translate import translate

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

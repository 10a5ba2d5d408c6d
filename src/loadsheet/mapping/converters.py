"""Converters of other packages (`convert: NAME`), found by their entry points.

A converter gets the text of a cell and returns a text, which the column reads by its type, or a number, date, time or flag, which it takes
like a typed cell of a workbook. None is a blank. What it raises for a bad value becomes a problem of the cell.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from loadsheet.mapping.plans import CALCULATION_ERRORS, CellProblem, SettingError
from loadsheet.reading.tables import Native, cell_of
from loadsheet.similar_text import closest_or_known

CONVERTERS = "loadsheet.converters"
"""The group of entry points that are converters."""


class Converter(NamedTuple):
    """A converter: its name, its function, and the package and version it comes from."""

    name: str
    function: Callable[[str], object]
    version: str

    def before(self, parse: Callable[[str], Any], blank: object) -> Callable[[str], Any]:
        """A parser that converts the text of a cell first; `blank` is the value if the converter gives none."""

        def converted(cell: str) -> Any:
            text = (cell.without_currency if isinstance(cell, Native) else cell).strip()
            try:
                value = cell_of(self.function(text))
            except CALCULATION_ERRORS as error:
                fault = f"the converter {self.name} fails on it ({type(error).__name__})"
                return CellProblem("C313", hint=str(error) if type(error) is ValueError else fault)
            return parse(value) if value else blank

        return converted


def converter(name: str) -> Converter:
    """The converter of this name. Raises SettingError if none is installed, or if its package cannot be loaded."""
    known = {entry.name: entry for entry in entry_points(group=CONVERTERS)}
    if name not in known:
        raise SettingError("convert", f'no converter "{name}" is installed', closest_or_known(name, known))
    try:
        function = known[name].load()
    except (ImportError, AttributeError) as error:
        raise SettingError("convert", f"the converter {name} cannot be loaded: {error}") from error
    return Converter(name, function, _version(known[name]))


def _version(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""

"""The templates of HTML pages, of reports and exchange alike. Every value is escaped and without control characters."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from loadsheet.control_characters import visible

if TYPE_CHECKING:
    from jinja2 import Environment


def templates_of(package: str, filters: Mapping[str, Callable[..., Any]]) -> "Environment":
    """The templates of a package. A value that a template names and nobody gives is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # slow to import, and most commands write no page

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # markup is our own
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment

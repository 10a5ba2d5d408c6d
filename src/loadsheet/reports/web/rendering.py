"""Templates into HTML files that stand alone: escaping, and the policy that holds each file to its own style and script.

Owns: the templates folder. Knows no run and no record.
"""

import base64
import hashlib
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from loadsheet.control_characters import visible

_TEXT_MAX = 240  # characters of a cell or value that are shown


def render(template: str, values: Mapping[str, Any]) -> str:
    """A part of a page from its template; every value is escaped. Raises UndefinedError for a value that the template misses."""
    return _environment().get_template(template).render(values)


def page(template: str, values: Mapping[str, Any]) -> bytes:
    """A whole page as the bytes of its file (UTF-8)."""
    style, script = _file("style.css"), _file("script.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    trusted = {"style": Markup(style), "script": Markup(script), "policy": policy}  # noqa: S704 (our own files, not a value)
    return render(template, {**values, **trusted}).encode("utf-8", "replace")


def part(template: str, values: Mapping[str, Any]) -> Markup:
    """A part that another template takes in as it is."""
    return Markup(render(template, values))  # noqa: S704 (the template escaped every value)


def compile_templates() -> None:
    """Compile all templates now. Without this the first page that needs one compiles it."""
    for name in _environment().list_templates(extensions=["html"]):
        _environment().get_template(name)


def clean(text: str) -> str:
    """A foreign text as a page shows it: cut if it is very long."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]} … ({len(text):,} characters)"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("loadsheet.reports.web"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": "{:,}".format,
        "clean": clean,
        "href": quote,
        "place": _place,
        "moment": _moment,
        "figure": _figure,
    }
    return environment


def _visible(value: object) -> object:
    """What a template shows, without control characters."""
    return visible(value) if type(value) is str else value  # what is markup already is our own


@cache
def _file(name: str) -> str:
    return (resources.files("loadsheet.reports.web") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _moment(text: str) -> str:
    """An ISO 8601 UTC text as people read it."""
    return text[:19].replace("T", " ")


def _figure(number: Decimal) -> str:
    """A number with its thousands apart, without zeros that say nothing."""
    text = f"{number:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _place(text: str) -> str:
    """A link to an anchor in another file."""
    file, _, anchor = text.partition("#")
    return f"{quote(file)}#{quote(anchor)}"

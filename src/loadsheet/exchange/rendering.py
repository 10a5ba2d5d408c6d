"""Templates into HTML: escaping, the headers that keep a page harmless, and the few files that pages ask for.

Owns: the templates folder and the policy that no page runs a script or loads anything from elsewhere. Knows no record.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from loadsheet.control_characters import visible
from loadsheet.exchange.wire import encode

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # stricter ones take the origin from our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

_TONES = {
    "good": ("deliver", "dlv", "complete", "accept", "award", "pod", "closed", "done"),
    "bad": ("cancel", "reject", "exception", "refus", "damag", "fail", "withdraw"),
    "note": ("delay", "hold", "late", "wait"),
    "live": (
        "open",
        "active",
        "transit",
        "in transit",
        "pick",
        "pu",
        "depart",
        "dep",
        "arriv",
        "arr",
        "load",
        "new",
        "loaded",
    ),
}
_STATIC = {"/web/style.css": "text/css", "/web/icon.svg": "image/svg+xml"}


def render(template: str, values: Mapping[str, Any]) -> str:
    """A page from its template; every value is escaped. Raises UndefinedError for a value that the template misses."""
    return _environment().get_template(template).render(values)


@cache
def static(path: str) -> tuple[bytes, str] | None:
    """The content and the media type of a file that pages ask for; None for any other path."""
    kind = _STATIC.get(path)
    if kind is None:
        return None
    return (resources.files("loadsheet.exchange") / "templates" / path.rpartition("/")[2]).read_bytes(), kind


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("loadsheet.exchange"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"json": _json, "moment": _moment, "tone": _tone, "count": "{:,}".format, "query": _query}
    return environment


def _visible(value: object) -> object:
    """What a template shows, without control characters."""
    return visible(value) if type(value) is str else value  # what is markup already is our own


def _json(value: object) -> str:
    """JSON as people read it, numbers with all their digits."""
    return msgspec.json.format(encode(value), indent=2).decode()


def _moment(value: datetime) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S")


def _query(value: str) -> str:
    return urlencode({"id": value})


def _tone(status: str) -> str:
    """The colour of a status: the interface closes no list of them, so this only guesses from usual words."""
    word = status.strip().lower()
    for tone, stems in _TONES.items():
        if any(word.startswith(stem) for stem in stems):
            return tone
    return "plain"

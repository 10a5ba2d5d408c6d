"""Texts as people see them: counts with their nouns in English, no control characters, and HTML pages whose values are escaped.

Control characters control a terminal (ESC, C1) or reverse the writing direction (bidi). Owns: which characters these are, and what replaces
them. Files that are read again (fix files) keep theirs. What shippers read in other languages has its plurals in the message catalogues.
"""

import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # all but tab and line ends
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi
    "\ud800-\udfff\ufffe\uffff]"  # not characters
)
_SHOWN = "\ufffd"


def count_of(count: int, noun: str, many: str = "") -> str:
    """A count with its noun: `1 document`, `2 documents`. `many` is the plural if it does not just add an s."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def capitalized(text: str) -> str:
    """The text with a capital letter, unless it begins with a name, such as that of a file: that stays as it is."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text


def as_argument(text: str) -> str:
    """The text as the last argument of a command to copy: one word of a shell, and no option if it begins with `-`."""
    return f"{'-- ' if text.startswith('-') else ''}{shlex.quote(text)}"


def has_control(text: str) -> bool:
    """Whether a text contains a control character. Tabs and line ends do not count."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def show_controls(text: str) -> str:
    """The text with each control character replaced by a visible one."""
    return text if text.isprintable() else _CONTROL.sub(_SHOWN, text)


def escaped_json(json: bytes) -> bytes:
    """JSON with its control characters as escapes; the value stays the same."""
    if json.isascii() and b"\x7f" not in json:
        return json
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", json.decode()).encode()


def printable(text: str) -> str:
    """The text with a question mark for each character that is neither visible nor a space, tab or line break."""
    return text if text.isprintable() else "".join(char if _is_visible(char) else "?" for char in text)


def one_line(text: str) -> str:
    """The text as one line: characters that are not printable, and runs of spaces, become one space."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _is_visible(char: str) -> bool:
    return char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"


def templates_of(package: str, filters: Mapping[str, Callable[..., Any]]) -> "Environment":
    """The templates of a package; no page of them has control characters. A value that a template names and nobody gives is an error."""
    # slow to import, and most commands write no page
    from jinja2 import Environment, PackageLoader, StrictUndefined, Template

    class Page(Template):
        def render(self, *values: Any, **more: Any) -> str:
            return show_controls(super().render(*values, **more))

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.template_class = Page
    environment.filters.update(filters)
    return environment

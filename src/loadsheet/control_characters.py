"""Control characters, which no text that people read may hold: they move a terminal (ESC, C1) or turn the direction of writing (bidi).

Owns: which characters these are, and what is shown in their place. Files that are read again (fix files) keep what was in them.
"""

import re
import unicodedata

_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # all but tab and line ends
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi
    "\ud800-\udfff\ufffe\uffff]"  # no characters at all
)
_SHOWN = "\ufffd"


def has_control(text: str) -> bool:
    """Whether a control character is in a text. Tabs and line ends are none."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def visible(text: str) -> str:
    """The text with a visible sign in the place of each control character."""
    return text if text.isprintable() else _CONTROL.sub(_SHOWN, text)


def escaped(json: bytes) -> bytes:
    """JSON with its control characters as escapes: it says the same, and holds none of them."""
    if json.isascii() and b"\x7f" not in json:
        return json
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.decode()).encode()


def printable(text: str) -> str:
    """A text whose signs all show, or are spaces and line breaks; a question mark stands for every other one."""
    return text if text.isprintable() else "".join(sign if _shows(sign) else "?" for sign in text)


def _shows(sign: str) -> bool:
    return sign.isprintable() or sign in "\n\t" or unicodedata.category(sign) == "Zs"

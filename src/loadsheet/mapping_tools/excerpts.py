"""A finding about a mapping file as its author wants to read it: the line itself, and a caret under the place.

Owns: the layout of that frame. Pure text; it never opens the file. The place comes with the finding, so nothing is searched for.
"""

import unicodedata

from loadsheet.problems import MappingError

_WIDE = frozenset("WF")  # East Asian letters that take two places on a terminal
_SHOWN = 160  # characters of a line; what stands further right is cut off on both sides of the place


def framed(finding: MappingError, text: str) -> str:
    """The finding with its line of `text` (the whole file), for example:

        mappings/acme.yaml:31:12: there is no lookup "pakages"
           |
        31 |   kind: {lookup: pakages}
           |                  ^
           = did you mean packages?

    A place that the text does not have gives the bare finding.
    """
    lines = text.splitlines()
    if not 1 <= finding.line <= len(lines):
        return str(finding)
    line, before = _cut(lines[finding.line - 1], finding.column - 1)
    margin = " " * len(str(finding.line))
    head, *others = finding.text.splitlines()
    frame = [
        f"{finding.file}:{finding.line}:{finding.column}: {head}",
        f"{margin} |",
        f"{finding.line} | {line}",
        f"{margin} | {' ' * _columns(line[:before])}^",
    ]
    return "\n".join(
        [*frame, *([f"{margin} = {finding.hint}"] if finding.hint else []), *(f"{margin} | {more}" for more in others)]
    )


def _cut(line: str, at: int) -> tuple[str, int]:
    """The part of a line that fits, with the position of the place in it. Tabs become one blank, as the caret counts them."""
    plain = line.replace("\t", " ").rstrip()
    if len(plain) <= _SHOWN:
        return plain, at
    start = max(0, min(at - _SHOWN // 2, len(plain) - _SHOWN))
    return plain[start : start + _SHOWN], at - start


def _columns(text: str) -> int:
    """How many places a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in _WIDE else 1
        for letter in text
    )

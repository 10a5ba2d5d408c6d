"""Plain markup read in large pieces: rows and shared texts as the usual programs write them, found by patterns instead of a parser. Here
are the pieces and the shared texts; the rows are in `plainrows`.

Owns: when that is exact. A piece is read by its patterns only if they account for every cell or text in it; any other piece goes to
the parser, and so does all that follows a comment, a processing instruction or CDATA. Both ways give the same, which the tests
hold against each other; the patterns take a sixth of the time. A sheet is proved to be well-formed before (`sheet.read_traits`), shared
texts are proved here.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

_UNIT_BYTES_MAX = 1 << 22  # a row may be so long before the parser has to bear it
_HEAD_BYTES_MAX = 1 << 20
_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:<\?xml version=[\"']1\.0[\"'](?: encoding=[\"'](?:utf-8|UTF-8)[\"'])?(?: standalone=[\"'](?:yes|no)[\"'])? ?\?>)?"
    rb"\s*<(?:worksheet|sst)[\s>]"
)
_TEXT = re.compile(r'<si><t(?: xml:space="preserve")?>([^<]*)</t></si>')
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos);)?")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|]]>")


class Parser(Protocol):
    """What a part is fed to; expat's parsers are such."""

    def Parse(self, data: bytes, isfinal: bool = False, /) -> object:  # noqa: N802, FBT001, FBT002 (expat's names)
        """Take the next piece."""


class NotPlain(Exception):  # noqa: N818 (never leaves reading)
    """A piece that the patterns do not account for."""


class Scanner:
    """Takes a part piece by piece as a parser does. What ends with `end` goes to `read` as text, which does it or raises
    NotPlain, ValueError or LookupError without having done anything; then, and for all else, the parser gets it.
    """

    def __init__(self, parser: Parser, begin: bytes, end: bytes, close: bytes, read: Callable[[str], None]) -> None:
        self._parser: Final = parser
        self._begin, self._end, self._close, self._read = begin, end, close, read
        self._held = b""
        self._begun = self._is_over = False

    def Parse(self, data: bytes, isfinal: bool = False, /) -> None:  # noqa: N802, FBT001, FBT002 (expat's names)
        """See `Parser`."""
        if not self._is_over:
            held = self._held + data
            data = self._rest(held if self._begun else self._behind_head(held))
        if self._is_over or isfinal:
            self._parser.Parse(self._held + data, isfinal)
            self._held, self._is_over = b"", True
        else:
            self._held = data

    def _behind_head(self, held: bytes) -> bytes:
        """What follows the head of the part, which is the parser's."""
        self._held = b""
        begin = held.find(self._begin)
        if begin < 0:
            self._is_over = len(held) > _HEAD_BYTES_MAX
            return held
        self._begun = _HEAD.match(held) is not None and b"<!" not in held[:begin] and 0 not in held[:begin]
        self._is_over = not self._begun
        self._parser.Parse(held[:begin])
        return held[begin:]

    def _rest(self, held: bytes) -> bytes:
        """What is left when all whole units have been read."""
        self._held = b""
        if not self._begun:
            return held
        if (b"!" in held and b"<!" in held) or (
            b"?" in held and b"<?" in held
        ):  # the one character is found much faster
            self._is_over = True
            return held
        end = held.rfind(self._end) + len(self._end)
        if end >= len(self._end):
            self._take(held[:end])
            held = held[end:]
        self._is_over = self._close in held or len(held) > _UNIT_BYTES_MAX
        return held

    def _take(self, piece: bytes) -> None:
        if b"\r" not in piece:  # a parser makes line feeds of these
            with suppress(NotPlain, ValueError, LookupError):
                self._read(piece.decode())
                return
        self._parser.Parse(piece)


def texts_of(piece: str) -> list[str]:
    """The shared texts of a piece. Raises NotPlain if there is rich text or anything else among them."""
    found = _TEXT.findall(piece)
    if piece.count("<") != 4 * len(found) or _NO_XML.search(piece):
        raise NotPlain
    return [resolve(text) for text in found] if "&" in piece else found


def resolve(text: str) -> str:
    """A text with the five entities of XML resolved. Raises NotPlain for any other reference."""
    return _ENTITY.sub(_resolved, text) if "&" in text else text


def _resolved(entity: re.Match[str]) -> str:
    if entity[1] is None:
        raise NotPlain
    return _ENTITIES[entity[1]]

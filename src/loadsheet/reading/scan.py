"""Plain markup read in large pieces: rows and shared texts as the usual programs write them, found by patterns instead of a parser.

Owns: when that is exact. A piece is read by its patterns only if they account for every cell or text in it; any other piece goes to
the parser, and so does all that follows a comment, a processing instruction or CDATA. Both ways give the same, which the tests
hold against each other; the patterns take a third of the time. A sheet is proved to be well-formed by the parser apart
from this (`sheet.read_traits`), shared texts are proved here.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from loadsheet.reading.books import Cells

K = TypeVar("K")
T = TypeVar("T")

_UNIT_BYTES_MAX = 1 << 22  # a row may be so long before the parser has to bear it
_HEAD_BYTES_MAX = 1 << 20
_MEMORY_MAX = 20_000
_ATTRIBUTES = r'(?: [A-Za-z_][\w:.-]*="[^"<>]*")*'
_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:<\?xml version=[\"']1\.0[\"'](?: encoding=[\"'](?:utf-8|UTF-8)[\"'])?(?: standalone=[\"'](?:yes|no)[\"'])? ?\?>)?"
    rb"\s*<(?:worksheet|sst)[\s>]"
)
_ROW = re.compile(rf'(?:\s*<row[^<>]*/>)*\s*<row r="([0-9]{{1,9}})"{_ATTRIBUTES} ?>')
_CELL = (
    r'<c r="([A-Z]{1,3})[0-9]{1,9}"(?: s="([0-9]{1,9})")?(?: t="(s|n|str|b|inlineStr)")?'
    rf"(?:/>|>(?:(?:<f{_ATTRIBUTES}>[^<]*</f>|<f{_ATTRIBUTES}/>)?VALUE)?</c>)"
)
_STORED = re.compile(_CELL.replace("VALUE", "<v>([^<]*)</v>"))
_INLINE = re.compile(_CELL.replace("VALUE", r'(?:<v>|<is><t(?: xml:space="preserve")?>)([^<]*)(?:</v>|</t></is>)'))
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


_Shape = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""The columns, styles and kinds of the cells of a row."""


class _Plan(NamedTuple):
    """How the cells of a row of one shape are made: their positions, and what makes each (None: a shared text, by its number)."""

    positions: tuple[int, ...]
    makers: tuple[Callable[[str], str] | None, ...]


class RowPatterns:
    """Reads pieces of a sheet. `make` makes a cell of its kind, style and stored text, `number` one of its style and text; rows go to `found`, the number of the
    last one to `at_row`.
    """

    def __init__(
        self,
        texts: tuple[str, ...],
        make: Callable[[str, str, str], str],
        number: Callable[[str, str], str],
        *,
        found: list[tuple[int, Cells]],
        at_row: Callable[[int], None],
        place: Callable[[str], int],
    ) -> None:
        self._texts, self._make, self._found, self._at_row = texts, make, found, at_row
        self._place = place
        self._numbers: _Known[str, _Known[str, str]] = _Known(
            lambda style: _Known(lambda text: number(style or "0", _bare(text)) if text else "")
        )
        self._plans = _Known(self._planned)
        self._shape: _Shape = ((), (), ())
        self._plan = _Plan((), ())

    def __call__(self, piece: str) -> None:
        """Read whole rows. Raises NotPlain, ValueError or LookupError if the patterns do not account for all of them."""
        if "<f" in piece and ("<v></v>" in piece or "<v/>" in piece):
            raise NotPlain  # which of them are formulas without a value
        cells_in = (_INLINE if "inlineStr" in piece else _STORED).findall
        rows: list[tuple[int, Cells]] = []
        number = 0
        units = piece.split("</row>")
        units.pop()
        for unit in units:
            head = _ROW.match(unit)
            if head is None:
                raise NotPlain
            found = cells_in(unit, head.end())
            if unit.count("<c", head.end()) != len(found) or unit.find("<row", head.end()) > 0:
                raise NotPlain
            number = int(head[1])
            if found and (cells := self._cells(found)):
                rows.append((number, cells))
        self._found += rows
        self._at_row(number)

    def _cells(self, found: list[tuple[str, str, str, str]]) -> Cells:
        letters, styles, kinds, stored = zip(*found, strict=True)
        shape = letters, styles, kinds
        if shape != self._shape:  # the rows of a table have few shapes, and long runs of one
            self._shape, self._plan = shape, self._plans[shape]
        texts, makers = self._texts, self._plan.makers
        if "-" in "".join(stored) and any(
            make is None and "-" in text for make, text in zip(makers, stored, strict=True)
        ):
            raise NotPlain  # no shared text has such a number
        values = [texts[int(text)] if make is None else make(text) for make, text in zip(makers, stored, strict=True)]
        cells = list(zip(self._plan.positions, values, strict=True))
        return [cell for cell in cells if cell[1]] if "" in values else cells

    def _planned(self, shape: _Shape) -> _Plan:
        makers = [self._maker(style, kind) for _, style, kind in zip(*shape, strict=True)]
        return _Plan(tuple(map(self._place, (f"{letters}1" for letters in shape[0]))), tuple(makers))

    def _maker(self, style: str, kind: str) -> Callable[[str], str] | None:
        if kind == "s":
            return None
        if kind in ("", "n"):
            return self._numbers[style].__getitem__
        return lambda text: self._make(kind, style, resolve(text) if kind in ("str", "inlineStr") else _bare(text))


class _Known(dict[K, T], Generic[K, T]):
    """What is made of a text or a shape, remembered. Bounded: forgets all at the limit."""

    def __init__(self, make: Callable[[K], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> T:
        if len(self) >= _MEMORY_MAX:
            self.clear()
        made = self[key] = self._make(key)
        return made


def texts_of(piece: str) -> list[str]:
    """The shared texts of a piece. Raises NotPlain if there is rich text or anything else among them."""
    found = _TEXT.findall(piece)
    if piece.count("<") != 4 * len(found) or _NO_XML.search(piece):
        raise NotPlain
    return [resolve(text) for text in found] if "&" in piece else found


def resolve(text: str) -> str:
    """A text with the five entities of XML resolved. Raises NotPlain for any other reference."""
    return _ENTITY.sub(_resolved, text) if "&" in text else text


def _bare(text: str) -> str:
    if "&" in text:
        raise NotPlain
    return text


def _resolved(entity: re.Match[str]) -> str:
    if entity[1] is None:
        raise NotPlain
    return _ENTITIES[entity[1]]

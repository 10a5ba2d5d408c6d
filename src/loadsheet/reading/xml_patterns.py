"""Rows and shared texts of .xlsx read with regular expressions instead of an XML parser, in a sixth of the time.

`Scanner` feeds a part in large pieces. A piece is read by patterns only if they account for every cell or text in it. Any other
piece goes to the parser, and so does all that follows a comment, a processing instruction or CDATA. Both ways give the same; the
tests compare them. Rows that look alike are matched whole by one pattern, learned from earlier rows; other rows cell by cell. The check
that a sheet is well-formed runs before (`xlsx.read_traits`); shared texts are checked here.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Final, Generic, NamedTuple, TypeVar

from loadsheet.reading.package import Parser
from loadsheet.reading.workbook import Cells, Dense

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


_LEARNED_MIN = 24  # rows that are learned before it is judged whether that pays
_MATCHES_PER_LEARNED = 8  # so many rows have to be matched for each that was learned
_COLUMNS_MAX = 200  # a pattern for more takes longer to make than it saves
_ALTERNATIVES_MAX = 4  # styles and kinds of one column
_BETWEEN = r"[ \t\n]*+"
_ROW_MAY_HAVE = (  # each once, in the order in which they are written
    *("spans", "s", "customFormat", "ht", "customHeight", "outlineLevel", "collapsed", "thickTop", "thickBot", "ph"),
    "x14ac:dyDescent",
)
_FORMULA_MAY_HAVE = ("t", "aca", "ref", "ca", "si")


def _once(names: Iterable[str]) -> str:
    return "".join(f'(?: {name}="[^"<>]*+")?+' for name in names)


_ROW_ATTRIBUTES = _once(_ROW_MAY_HAVE)
_NUMBERED = rf'<row r="([0-9]{{1,9}}+)"{_ROW_ATTRIBUTES} ?+>'
_EMPTY = rf'(?:{_BETWEEN}<row(?: r="[0-9]*+")?+{_ROW_ATTRIBUTES} ?+/>)*+'
_ROW_HEAD = f"{_EMPTY}{_BETWEEN}{_NUMBERED}"
_VALUE = rf"(?:<f{_once(_FORMULA_MAY_HAVE)}(?:/>|>[^<]*+</f>))?+<v>([^<]*+)</v></c>"
_NUMBER_OF_TEXT = "<v>([^<]++)</v></c>"
_INLINE_TEXT = r'<is><t(?: xml:space="preserve")?+>([^<]*+)</t></is></c>'
_NOT_IN_VALUES = r"&\]\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff"  # nor what it may stand for
_BLANK = r'(?: s="[0-9]{1,9}+")?+(?:/>|></c>)'


class Kind(NamedTuple):
    """What a cell is before its value is known: its style (empty: none is named) and its kind (empty: a number)."""

    style: str
    kind: str


class LearnedRowPattern:
    """What rows of a sheet have in common so far. `place` says which position a column's letters mean (`AB1`: 27). What `well_formed_only` matches all
    rows that follow each other, and only those that are well-formed.
    """

    def __init__(self, place: Callable[[str], int], *, well_formed_only: bool = False) -> None:
        self._place, self._well_formed_only = place, well_formed_only
        self._columns: dict[str, tuple[Kind, ...]] = {}
        self._learned = self._matched = 0
        self._gave_up = self._has_changed = False
        self.match: Callable[[str, int], re.Match[str] | None] = _no_match
        """The match of the row that begins there; its groups are the row's number, then the values of `cells`, None for those it has not. Or of
        all rows from there on, then it has none.
        """
        self.cells: list[tuple[int, Kind]] = []
        """The position and the kind of the cell of each group."""

    def learn(self, cells: Iterable[tuple[str, str, str]]) -> None:
        """Know rows like this one from now on: its cells as letters, style and kind."""
        if self._gave_up:
            return
        self._learned += 1
        for letters, style, kind in cells:
            known = self._columns.get(letters, ())
            if (cell_kind := Kind(style, kind)) not in known:
                self._columns[letters] = (*known, cell_kind)[-_ALTERNATIVES_MAX:]
                self._has_changed = True
        too_little = self._learned > _LEARNED_MIN and self._matched < _MATCHES_PER_LEARNED * self._learned
        if too_little or len(self._columns) > _COLUMNS_MAX:
            self.match, self._gave_up = _no_match, True
        elif self._has_changed and not self._learned & (
            self._learned - 1
        ):  # 1, 2, 4, 8: making a pattern takes its time
            self._has_changed = False
            self._compile()

    def _compile(self) -> None:
        inorder = sorted((self._place(f"{letters}1"), letters) for letters in self._columns)
        self.cells = [(position, kind) for position, letters in inorder for kind in self._columns[letters]]
        columns = "".join(_column(letters, self._columns[letters]) for _, letters in inorder)
        row = f"{_ROW_HEAD}{columns}</row>"
        if self._well_formed_only:
            row = f"(?:{row.replace('([', '(?:[').replace('[^', f'[^{_NOT_IN_VALUES}')})++"
        self.match = re.compile(row).match

    def count_matched(self, rows: int) -> None:
        """So many rows were matched."""
        self._matched += rows


def _column(letters: str, kinds: Iterable[Kind]) -> str:
    """The pattern of a column's cell, which may be missing."""
    values = {"inlineStr": _INLINE_TEXT, "s": _NUMBER_OF_TEXT}
    alternatives = [
        (f' s="{kind.style}"' if kind.style else "")
        + (f' t="{kind.kind}"' if kind.kind else "")
        + f">{values.get(kind.kind, _VALUE)}"
        for kind in kinds
    ]
    return rf'(?:<c r="{letters}[0-9]{{1,9}}+"(?:{"|".join([*alternatives, _BLANK])}))?+'


def _no_match(_piece: str, _start: int, /) -> None:
    """No row is known."""


K = TypeVar("K")
T = TypeVar("T")

_CACHE_MAX = 20_000
_GAPS_MAX = 64  # blank columns between those of a row that is written down without gaps
_ATTRIBUTES = r'(?: [A-Za-z_][\w:.-]*="[^"<>]*")*'
_ROW = re.compile(rf'(?:\s*<row[^<>]*/>)*\s*<row r="([0-9]{{1,9}})"{_ATTRIBUTES} ?>')
_CELL = (
    r'<c r="([A-Z]{1,3})[0-9]{1,9}"(?: s="([0-9]{1,9})")?(?: t="(s|n|str|b|inlineStr)")?'
    rf"(?:/>|>(?:(?:<f{_ATTRIBUTES}>[^<]*</f>|<f{_ATTRIBUTES}/>)?VALUE)?</c>)"
)
_STORED = re.compile(_CELL.replace("VALUE", "<v>([^<]*)</v>"))
_INLINE = re.compile(_CELL.replace("VALUE", r'(?:<v>|<is><t(?: xml:space="preserve")?>)([^<]*)(?:</v>|</t></is>)'))
_UNIT_END = "</row>"


class RowPatterns:
    """Reads pieces of a sheet. `make` makes a cell of its kind, style and stored text, `number` one of its style and text. `place`
    gives the position of a cell by its reference.
    """

    def __init__(
        self,
        texts: tuple[str, ...],
        make: Callable[[str, str, str], str],
        number: Callable[[str, str], str],
        place: Callable[[str], int],
    ) -> None:
        self._texts, self._make = texts, make
        self._positions: _Cache[str, int] = _Cache(lambda letters: place(f"{letters}1"))
        self._converters: _Cache[Kind, Callable[[str], str]] = _Cache(self._converter)
        self._numbers: _Cache[str, _Cache[str, str]] = _Cache(
            lambda style: _Cache(lambda text: number(style or "0", _refuse_entities(text)) if text else "")
        )
        self._pattern = LearnedRowPattern(place)
        self._is_first = True  # a piece alone is read before anything is learned that could pay

    def read(self, piece: str) -> tuple[list[tuple[int, Cells | Dense]], int]:
        """The rows of a piece that holds whole rows, and the number of the last one. Raises NotPlain, ValueError or LookupError if
        the patterns do not account for all of them.
        """
        if "<f" in piece and ("<v></v>" in piece or "<v/>" in piece):
            raise NotPlain  # which of them are formulas without a value
        rows: list[tuple[int, Cells | Dense]] = []
        last = "0"
        for unit, pattern in _split_rows(piece, self._pattern):
            if pattern:
                rows += self._read_matched(pattern)
                last = pattern[-1][0]
            elif unit is not None:
                last, cells = self._read_cell_by_cell(unit)
                if cells:
                    rows.append((int(last), cells))
        self._is_first = False
        return rows, int(last)

    def _read_cell_by_cell(self, unit: str) -> tuple[str, Cells]:
        """The number and the cells of a row, each cell by itself."""
        head, found = _cells_of(unit)
        if not self._is_first:
            self._pattern.learn([cell[:3] for cell in found])
        makers, positions = self._converters, self._positions
        cells = [(positions[letters], makers[Kind(style, kind)](stored)) for letters, style, kind, stored in found]
        return head, [cell for cell in cells if cell[1]]

    def _read_matched(self, pattern: list[tuple[str, ...]]) -> Iterator[tuple[int, Cells | Dense]]:
        """The rows that were matched whole: the number and the values of each."""
        numbers, *values = zip(*pattern, strict=True)
        columns: dict[int, list[str]] = {}
        for (position, kind), stored in zip(self._pattern.cells, values, strict=True):
            made = self._shared_texts(stored) if kind.kind == "s" else list(map(self._converters[kind], stored))
            other = columns.get(position)
            columns[position] = [one or two for one, two in zip(other, made, strict=True)] if other else made
        return _rows_from_columns(map(int, numbers), columns)

    def _converter(self, kind: Kind) -> Callable[[str], str]:
        """What makes a cell of one kind of its stored text."""
        if kind.kind == "s":
            return lambda text: self._shared_texts((text,))[0]
        if kind.kind in ("", "n"):
            return self._numbers[kind.style].__getitem__
        takes = resolve if kind.kind in ("str", "inlineStr") else _refuse_entities
        return lambda text: self._make(kind.kind, kind.style, takes(text))

    def _shared_texts(self, stored: Sequence[str]) -> list[str]:
        """Shared texts, by their numbers; empty where there is none."""
        if "-" in "".join(stored):
            raise NotPlain  # no shared text has such a number
        texts = self._texts
        if "" in stored:
            return [texts[int(text)] if text else "" for text in stored]
        return [texts[place] for place in map(int, stored)]


class WellFormedCheck:
    """Takes pieces of a sheet that are well-formed as far as the patterns tell, and hold no row with one of these attributes. Raises NotPlain
    or ValueError for any other.
    """

    def __init__(self, place: Callable[[str], int], *attributes: str) -> None:
        self._pattern, self._attributes = LearnedRowPattern(place, well_formed_only=True), attributes
        self._is_first = True

    def __call__(self, piece: str) -> None:
        """Look at whole rows."""
        if self._is_first:
            self._is_first = False
            raise NotPlain
        if any(attribute in piece for attribute in self._attributes):
            raise NotPlain
        at, pattern = 0, self._pattern
        while at < len(piece):
            found = pattern.match(piece, at)
            if found is None:
                pattern.learn([cell[:3] for cell in _cells_of(piece[at : piece.index(_UNIT_END, at)])[1]])
                found = pattern.match(piece, at)
            if found is None:
                raise NotPlain
            pattern.count_matched(piece.count(_UNIT_END, at, found.end()))
            at = found.end()


def _cells_of(unit: str) -> tuple[str, list[tuple[str, str, str, str]]]:
    """The number of a row, whose end is cut off, and its cells as letters, style, kind and stored text. Raises NotPlain if the patterns do
    not account for all of them.
    """
    head = _ROW.match(unit)
    if head is None:
        raise NotPlain
    found = (_INLINE if "inlineStr" in unit else _STORED).findall(unit, head.end())
    if unit.count("<c", head.end()) != len(found) or unit.find("<row", head.end()) > 0:
        raise NotPlain
    return head[1], found


def _split_rows(piece: str, pattern: LearnedRowPattern) -> Iterator[tuple[str | None, list[tuple[str, ...]]]]:
    """The rows of a piece: many that look alike, as the groups of their matches, or one that is like none so far, without its end."""
    run: list[tuple[str, ...]] = []
    at, match = 0, pattern.match
    while at < len(piece):
        if found := match(piece, at):
            run.append(found.groups(""))
            at = found.end()
            continue
        if run:
            pattern.count_matched(len(run))
            yield None, run
            run = []
        end = piece.index(_UNIT_END, at)
        yield piece[at:end], []
        at, match = end + len(_UNIT_END), pattern.match
    if run:
        pattern.count_matched(len(run))
        yield None, run


def _rows_from_columns(numbers: Iterator[int], columns: dict[int, list[str]]) -> Iterator[tuple[int, Cells | Dense]]:
    """Rows of columns; those that hold nothing are left out."""
    width = max(columns, default=-1) + 1
    if width - len(columns) <= _GAPS_MAX:
        values = zip(*(columns.get(position) or repeat("") for position in range(width)), strict=False)
        return ((number, Dense(row)) for number, row in zip(numbers, values, strict=False) if any(row))
    pairs = zip(*columns.values(), strict=True)
    rows = (
        (number, [one for one in zip(columns, row, strict=True) if one[1]])
        for number, row in zip(numbers, pairs, strict=True)
    )
    return (row for row in rows if row[1])


class _Cache(dict[K, T], Generic[K, T]):
    """What is made of a text or a shape, remembered. Bounded: forgets all at the limit."""

    def __init__(self, make: Callable[[K], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> T:
        if len(self) >= _CACHE_MAX:
            self.clear()
        made = self[key] = self._make(key)
        return made


def _refuse_entities(text: str) -> str:
    if "&" in text:
        raise NotPlain
    return text

"""Rows that look alike, as the rows of a table do: each is matched whole by one pattern, learned from the rows before it.

Owns: that pattern. It knows for each column the styles and kinds that its cells had, and lets any cell be missing or blank. A row that
it matches holds nothing else; whoever reads looks for formulas without a value.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

_TRIES = 24  # rows that are learned before it is judged whether that pays
_PAYS = 8  # so many rows have to be matched for each that was learned
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


_ATTRIBUTES = _once(_ROW_MAY_HAVE)
_NUMBERED = rf'<row r="([0-9]{{1,9}}+)"{_ATTRIBUTES} ?+>'
_EMPTY = rf'(?:{_BETWEEN}<row(?: r="[0-9]*+")?+{_ATTRIBUTES} ?+/>)*+'
_HEAD = f"{_EMPTY}{_BETWEEN}{_NUMBERED}"
_VALUE = rf"(?:<f{_once(_FORMULA_MAY_HAVE)}(?:/>|>[^<]*+</f>))?+<v>([^<]*+)</v></c>"
_NUMBER_OF_TEXT = "<v>([^<]++)</v></c>"
_INLINE = r'<is><t(?: xml:space="preserve")?+>([^<]*+)</t></is></c>'
_NO_XML = r"&\]\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff"  # nor what it may stand for
_BLANK = r'(?: s="[0-9]{1,9}+")?+(?:/>|></c>)'


class Kind(NamedTuple):
    """What a cell is before its value is known: its style (empty: none is named) and its kind (empty: a number)."""

    style: str
    kind: str


class Alike:
    """What rows of a sheet have in common so far. `place` says which position a column's letters mean (`AB1`: 27). What `proves` matches all
    rows that follow each other, and only those that are well-formed.
    """

    def __init__(self, place: Callable[[str], int], *, proves: bool = False) -> None:
        self._place, self._proves = place, proves
        self._columns: dict[str, tuple[Kind, ...]] = {}
        self._learned = self._matched = 0
        self._gave_up = self._has_news = False
        self.match: Callable[[str, int], re.Match[str] | None] = _nothing
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
            if (one := Kind(style, kind)) not in known:
                self._columns[letters] = (*known, one)[-_ALTERNATIVES_MAX:]
                self._has_news = True
        too_little = self._learned > _TRIES and self._matched < _PAYS * self._learned
        if too_little or len(self._columns) > _COLUMNS_MAX:
            self.match, self._gave_up = _nothing, True
        elif self._has_news and not self._learned & (self._learned - 1):  # 1, 2, 4, 8: making a pattern takes its time
            self._has_news = False
            self._make()

    def _make(self) -> None:
        inorder = sorted((self._place(f"{letters}1"), letters) for letters in self._columns)
        self.cells = [(position, one) for position, letters in inorder for one in self._columns[letters]]
        columns = "".join(_column(letters, self._columns[letters]) for _, letters in inorder)
        row = f"{_HEAD}{columns}</row>"
        if self._proves:
            row = f"(?:{row.replace('([', '(?:[').replace('[^', f'[^{_NO_XML}')})++"
        self.match = re.compile(row).match

    def paid(self, rows: int) -> None:
        """So many rows were matched."""
        self._matched += rows


def _column(letters: str, kinds: Iterable[Kind]) -> str:
    """The pattern of a column's cell, which may be missing."""
    values = {"inlineStr": _INLINE, "s": _NUMBER_OF_TEXT}
    alternatives = [
        (f' s="{one.style}"' if one.style else "")
        + (f' t="{one.kind}"' if one.kind else "")
        + f">{values.get(one.kind, _VALUE)}"
        for one in kinds
    ]
    return rf'(?:<c r="{letters}[0-9]{{1,9}}+"(?:{"|".join([*alternatives, _BLANK])}))?+'


def _nothing(_piece: str, _start: int, /) -> None:
    """No row is known."""

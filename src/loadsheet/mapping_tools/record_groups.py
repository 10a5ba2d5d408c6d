"""The rows of each record, by the values of its key: which rows belong together, and which columns have one value for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadsheet.mapping_tools.columns import Column
from loadsheet.mapping_tools.sheet_profiles import Sheet

_AGREES = 0.9  # share of groups with one value, for a column of the whole record
_ONCE = 0.8  # share of the rows without a key in which a column of the record is blank too
_FEW = 0.05  # share of rows without a key that are only gaps
_FILLED = 0.98  # share of the cells of a key
_DIFFERENT = 0.95
_ROWS_MOST = 12  # rows of a record on average, if rows agree in other columns
_OTHERS = frozenset(
    {"other", "unused", "postal", "phone", "quantity", "weight", "item"}
)  # concepts of headings that are no keys
_BLANK = -1


@dataclass(frozen=True, slots=True)
class RecordRows:
    """The rows of a table by record. `rows` are those of records with several rows, `groups` is the number of records, and `without_key` are
    the rows whose key is blank. `is_written_once`: these rows continue the record above them.
    """

    key: Column
    rows: Sequence[Sequence[int]]
    groups: int
    without_key: Sequence[int]
    is_written_once: bool

    @property
    def several(self) -> int:
        """The number of records with several rows."""
        return len(self.rows)

    def is_once(self, column: Column) -> bool:
        """Whether a column is filled in the first row of each record, and mostly blank below."""
        codes, below = column.cells.codes, set(self.without_key)
        blank = sum(codes[row] == _BLANK for row in below)
        first = (code for row, code in enumerate(codes) if row not in below)
        return blank >= _ONCE * len(below) and all(code != _BLANK for code in first)


def record_rows(sheet: Sheet, key: Column, *more: Column) -> RecordRows:
    """The rows of a sheet by record, where `more` columns belong to the key as well."""
    blank = [row for row, code in enumerate(key.cells.codes) if code == _BLANK]
    is_once = _is_written_once(sheet, key, blank)
    groups: dict[tuple[int, ...], list[int]] = {}
    last = (_BLANK,)
    for row, codes in enumerate(zip(key.cells.codes, *(column.cells.codes for column in more), strict=True)):
        last = codes if codes[0] != _BLANK else last if is_once else (_BLANK,)
        if last[0] != _BLANK:
            groups.setdefault(last, []).append(row)
    several = [rows for rows in groups.values() if len(rows) > 1]
    return RecordRows(key, several, len(groups), blank, is_once)


def _is_written_once(sheet: Sheet, key: Column, blank: Sequence[int]) -> bool:
    """Whether rows without a key continue a record: there are many, they have values, and other columns are blank in the same rows."""
    rows = len(key.cells.codes)
    if not blank or key.cells.codes[0] == _BLANK or len(blank) <= _FEW * rows:
        return False
    others = [column for column in sheet.columns if column is not key and column.filled]
    with_values = sum(any(column.cells.codes[row] != _BLANK for column in others) for row in blank)
    share = [sum(column.cells.codes[row] == _BLANK for row in blank) / len(blank) for column in others]
    return with_values >= _ONCE * len(blank) and sum(one >= _ONCE for one in share) >= 1


def agreeing(keyed: RecordRows, column: Column) -> tuple[bool, bool]:
    """Whether a column has one value in nearly every record with several rows, blanks aside; and whether no row of these is blank."""
    codes, one, same = column.cells.codes, 0, 0
    for rows in keyed.rows:
        values = {codes[row] for row in rows}
        same += len(values) == 1
        one += len(values - {_BLANK}) <= 1
    return one >= _AGREES * len(keyed.rows), same >= _AGREES * len(keyed.rows)


def identifies(sheet: Sheet, column: Column) -> bool:
    """Whether the values of a column identify records: nearly all are different, or rows with the same value agree in other columns."""
    if not column.filled or column.filled < _FILLED * column.rows or column.guess.type not in {"text", "integer"}:
        return False
    if not column.cells.looks & {"code", "digits"} or column.concepts & _OTHERS:
        return False
    if len(column.cells.values) >= _DIFFERENT * column.rows:
        return True
    keyed = record_rows(sheet, column)
    others = [
        other for other in sheet.columns if other is not column and len(other.cells.values) > 1 and other.concepts
    ]
    agree = sum(agreeing(keyed, other)[0] for other in others)
    return len(column.cells.values) * _ROWS_MOST >= column.rows and agree * 2 >= max(len(others), 4)

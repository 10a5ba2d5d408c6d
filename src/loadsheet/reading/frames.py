"""Frames of pandas as tables: no file is written, and every value keeps its kind, as in a workbook.

Texts stay as they are. Numbers are exact: a float is the shortest decimal that reads back the same, so `4501.0` is 4501. None, NaN and NaT
are blank. Times without a zone are local times of the mapping; those with one are text (ISO 8601), which a column reads by its `formats`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from loadsheet.errors import FileRefused
from loadsheet.reading.tables import Bounds, Layout, Table, cell_of
from loadsheet.reading.workbook import Book, Rows, Sheet, Traits, open_workbook

if TYPE_CHECKING:
    from pandas import DataFrame

FILE = "DataFrame"
"""The name of frames in places, as the file's name."""


def frame_tables(frames: "Mapping[str, DataFrame]", layouts: Sequence[Layout], bounds: Bounds) -> dict[str, Table]:
    """The tables for `layouts` from the frame of each table, by layout name. The labels of the columns are row 1; the index is not read.
    Raises FileRefused like a file, its hint beginning with the index if that has a name; and KeyError for a table without a frame.
    """
    tables: dict[str, Table] = {}
    for layout in layouts:
        frame = frames[layout.name]
        try:
            tables |= open_workbook(
                _book(layout.name, frame), [replace(layout, sheets=(), header_row=1, header_rows=1)], bounds
            )
        except FileRefused as error:
            index = ", ".join(str(name) for name in frame.index.names if name is not None)
            if not index:
                raise
            hint = f"the index ({index}) is not read: call reset_index(); {error.problem.hint}"
            raise FileRefused(replace(error.problem, hint=hint)) from error
    return tables


def _book(name: str, frame: "DataFrame") -> Book:
    def rows(_key: str) -> Rows:
        for number, values in enumerate(_with_header(frame), start=1):
            cells = [(position, cell) for position, value in enumerate(values) if (cell := cell_of(value))]
            if cells:
                yield number, cells

    return Book(FILE, "a DataFrame", (Sheet(name, name, hidden=False),), {}, rows, lambda _key: Traits())


def _with_header(frame: "DataFrame") -> Iterator[Sequence[object]]:
    yield [str(label) for label in frame.columns]
    columns = [frame.iloc[:, position].array for position in range(len(frame.columns))]
    blank = frame.isna().itertuples(index=False, name=None)
    for values, blanks in zip(zip(*columns, strict=True), blank, strict=True):
        yield [None if is_blank else value for value, is_blank in zip(values, blanks, strict=True)]

"""Workbooks as people make them, the same bytes on every run: fixed properties, no clock."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from xlsxwriter.format import Format
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

CREATED = datetime(2026, 2, 27, 16, 40)


def new_workbook(path: Path, *, title: str, author: str, font: str = "Calibri", size: int = 10) -> Workbook:
    """An empty workbook with fixed properties and one base font."""
    book = Workbook(str(path), {"default_format_properties": {"font_name": font, "font_size": size}})
    book.set_properties({"title": title, "author": author, "company": author, "created": CREATED})
    book.set_calc_mode("auto")
    return book


def landscape(sheet: Worksheet, header_row: int, *, paper: int = 9) -> None:
    """Printed across the page, one page wide, the header repeated. `header_row` counts from 1; paper 9 is A4, 1 is Letter."""
    sheet.set_landscape()
    sheet.set_paper(paper)
    sheet.fit_to_pages(1, 0)
    sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.5)
    sheet.repeat_rows(header_row - 1)
    sheet.freeze_panes(header_row, 1)
    sheet.set_footer("&L&8&F&R&8&P / &N")


def header(sheet: Worksheet, row: int, labels: Mapping[str, float], style: Format) -> None:
    """Column labels with their widths, in row `row` counted from 1."""
    for column, (label, width) in enumerate(labels.items()):
        sheet.set_column(column, column, width)
        sheet.write_string(row - 1, column, label, style)


def put(sheet: Worksheet, row: int, column: int, value: Any, style: Format) -> None:
    """One cell: text stays text (never a formula, link or number), `None` is an empty but formatted cell."""
    if value is None:
        sheet.write_blank(row - 1, column, None, style)
    elif isinstance(value, str):
        sheet.write_string(row - 1, column, value, style)
    elif isinstance(value, datetime):
        sheet.write_datetime(row - 1, column, value, style)
    else:
        sheet.write_number(row - 1, column, value, style)

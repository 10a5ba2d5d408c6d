"""Stage 2: reading. Files in, tables of cells out; every cell knows file, sheet, row and column. Nothing is converted here.

Open a file with `open_tables`: `isolation` hands it to a process of its own, which may do nothing but read it. There `opening`
judges what it is (`foreign` names what is not read, `unpacking` looks into archives, `archive` says whether a zip is what it says);
`delimited` (on `encoding`) reads text, and `workbook` whatever `xlsx`, `xlsb`, `xls` or `ods` made a `Book` of; `formats` knows what
number formats make of a number; `header` finds where a table starts; `soundness` says which rows can be used; `sentinel` points out
what a spreadsheet program did to values; `diskfaults` tells a disk that fails from a file that is damaged. `marked` recognises a fix file that is dropped back, and `returned` gives its tables as
those that they were made from. `opening.glimpse` shows the first rows to somebody who has no mapping yet, in our own process. No
network, no clock.
"""

from loadsheet.reading.damage_checks import Sentinel
from loadsheet.reading.header import fold
from loadsheet.reading.layouts import Layout, WantedColumn
from loadsheet.reading.sandbox import make_ready, open_tables
from loadsheet.reading.stray_rows import SUM_WORDS
from loadsheet.reading.tables import Native, NativeKind, Row, Table, Top

__all__ = [
    "SUM_WORDS",
    "Layout",
    "Native",
    "NativeKind",
    "Row",
    "Sentinel",
    "Table",
    "Top",
    "WantedColumn",
    "fold",
    "make_ready",
    "open_tables",
]

"""Stage 2: reading. Files in, tables of cells out; every cell knows file, sheet, row and column. Nothing is converted here.

`tables` holds the values. `open_tables` passes a file to a separate process (`sandbox`, with `messages` between the two). There
`opening` detects the file type and names the formats that are not read; `package` checks zip files. `delimited` reads text,
decoded by `encoding`. `xlsx`, `xlsb`, `xls` and `ods` make a `Book` of a workbook, and `workbook` finds its tables.
`number_formats` shows numbers as their sender sees them. `header` finds where a table starts, `row_filters` the rows under it that
are not part of it. `damage_checks` warns of values that a spreadsheet program changed. `fix_file_tables` recognises a returned fix
file. `read_tops` shows the first rows of a sample to the author of a mapping. No network, no clock.
"""

from loadsheet.reading.damage_checks import CellTally, DamageChecks
from loadsheet.reading.header import fold_label
from loadsheet.reading.row_filters import (
    SUM_WORDS,
    begins_like_totals,
    begins_with,
    end_of_subtotal,
    places_of_totals,
    says_nothing,
)
from loadsheet.reading.sandbox import open_tables, read_tops, start_fork_server
from loadsheet.reading.tables import Layout, Native, NativeKind, Row, Table, Top, WantedColumn

__all__ = [
    "SUM_WORDS",
    "CellTally",
    "DamageChecks",
    "Layout",
    "Native",
    "NativeKind",
    "Row",
    "Table",
    "Top",
    "WantedColumn",
    "begins_like_totals",
    "begins_with",
    "end_of_subtotal",
    "fold_label",
    "open_tables",
    "places_of_totals",
    "read_tops",
    "says_nothing",
    "start_fork_server",
]

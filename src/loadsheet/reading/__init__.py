"""Stage 2: reading. Files in, tables of cells out; every cell knows file, sheet, row and column. Nothing is converted here.

Open a file with `open_tables`; `glimpse` shows its first rows to somebody who has no mapping yet. `opening` judges what it is; `delimited` (on `encoding`) and `workbook` (on `package`, `sheet` and
`formats`) read it; `header` finds where a table starts; `soundness` says which rows can be used. No network, no clock.
"""

from loadsheet.reading.header import fold
from loadsheet.reading.layouts import Layout, WantedColumn
from loadsheet.reading.opening import glimpse, open_tables
from loadsheet.reading.tables import Native, NativeKind, Row, Table, Top

__all__ = ["Layout", "Native", "NativeKind", "Row", "Table", "Top", "WantedColumn", "fold", "glimpse", "open_tables"]

"""The fix workbook: every row of every record that was not sent, as its sender wrote it, and what to fix in it.

`Fixes` is the one thing that reports see. What may be dropped back again carries a mark (`loadsheet.fix_marks`); how it is read stands in
`loadsheet.fix_files`.
"""

from loadsheet.reports.fix_workbook.write import Fixes

__all__ = ["Fixes"]

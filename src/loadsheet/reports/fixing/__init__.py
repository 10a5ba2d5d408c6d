"""The fix workbook: every row of every record that was not sent, as its sender wrote it, and what to fix in it.

`Fixes` is the one thing that reports see. What may be dropped back again carries a mark (`loadsheet.fixes`); how it is read stands in
`loadsheet.returning`.
"""

from loadsheet.reports.fixing.fixes import Fixes

__all__ = ["Fixes"]

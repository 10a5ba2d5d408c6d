"""The reconciliation workbook: the analyst's sheets, from the verdict in a sentence to the sign-off.

`ReconciliationWorkbook` is fed entry by entry; `front` and its neighbours write the sheets that need the whole run.
"""

from loadsheet.reports.reconciliation.workbook import NAME, ReconciliationWorkbook, free_name, other_name

__all__ = ["NAME", "ReconciliationWorkbook", "free_name", "other_name"]

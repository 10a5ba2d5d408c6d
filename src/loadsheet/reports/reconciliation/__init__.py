"""The reconciliation workbook: the analyst's sheets, from the verdict in a sentence to the sign-off.

`ReconciliationWorkbook` takes one entry after the other. `front_page` and its neighbours write the sheets that need the whole run.
"""

from loadsheet.reports.reconciliation.workbook import NAME, ReconciliationWorkbook, free_name, other_name

__all__ = ["NAME", "ReconciliationWorkbook", "free_name", "other_name"]

"""Stage 7: reports. Results files, the reconciliation workbook and run.json, all from the ledger and the matches."""

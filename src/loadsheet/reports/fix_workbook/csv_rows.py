"""The rows to fix as delimited text: written as the source was, so that what read that reads this.

Owns: the name (`orders.csv` gives `orders.fix.csv`, which routing takes for a fix file of it), delimiter and encoding. The sender's
cells are written as they were, a `-5` too, with plain CSV quoting (RFC 4180); only our own words are made safe for spreadsheets.
"""

import csv
from collections.abc import Iterable
from pathlib import Path

from loadsheet.fix_marks import ROW_COLUMN
from loadsheet.ledger import SourceTable
from loadsheet.reports.atomic_files import placed
from loadsheet.reports.fix_workbook.rows import FixRow
from loadsheet.reports.fix_workbook.texts import Words, lines_of
from loadsheet.reports.safety import csv_text

_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}


def write_rows(path: Path, table: SourceTable, rows: Iterable[FixRow], words: Words) -> None:
    """Write rows, with what to fix before them and their marks behind. Raises LoadsheetError if that fails."""
    encoding, delimiter = _encoding(table.found.get("encoding", "")), table.found.get("delimiter", "")
    with placed(path) as part, part.open("w", encoding=encoding, errors="replace", newline="") as file:
        writer = csv.writer(file, delimiter=_DELIMITERS.get(delimiter, delimiter if len(delimiter) == 1 else ","))
        writer.writerow([words.what_to_fix, *table.header, ROW_COLUMN])
        for row in rows:
            text = "; ".join(lines_of(row, words))
            writer.writerow([csv_text(" ".join(text.split())), *row.cells, row.mark])


def _encoding(found: str) -> str:
    """The codec of what reading found, such as `UTF-8 (by its byte order mark)`."""
    name, _, how = found.partition(" (")
    try:
        "".encode(name or "utf-8-sig")
    except LookupError:
        return "utf-8-sig"
    return "utf-8-sig" if how and name.lower() == "utf-8" else name or "utf-8-sig"

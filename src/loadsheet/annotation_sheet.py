"""The analyst's words beside an exception: what they may be, and how the sheet that holds them is written and known again.

The one thing that the writer of the sheet (reports), its reader (readback) and the ledger share; knows no workbook library.
"""

import hashlib
import re
from collections.abc import Mapping

SHEET = "Exceptions"
ID = "Exception"
HEADS = {"owner": "Owner", "reason": "Reason", "comment": "Comment", "status": "Status"}
"""The columns of the analyst, by what they hold."""

WRITTEN = "_written"
"""The heading of the hidden last column: what was written into the analyst's columns of a row."""

OPEN, EXPLAINED, FIXED, ACCEPTED = "open", "explained", "fixed", "accepted difference"
STATUSES = (OPEN, EXPLAINED, FIXED, ACCEPTED)
WORDS = frozenset({EXPLAINED, ACCEPTED})
"""The statuses by which the analyst closes an exception; `fixed` waits until it is seen to be."""

REASONS = (
    "timing",
    "shipper data",
    "mapping",
    "exchange refused",
    "exchange changed it",
    "duplicate drop",
    "manual entry at exchange",
    "tool fault",
)

_ID = re.compile(r"E-([0-9]{1,15})")


def exception_id(entry: int) -> str:
    """What the exception of an entry is called in every workbook: `E-8812`."""
    return f"E-{entry}"


def entry_of(text: str) -> int | None:
    """The entry of an exception by its name; None if this is none."""
    found = _ID.fullmatch(text.strip())
    return int(found[1]) if found else None


def as_written(values: Mapping[str, str]) -> str:
    """What stands in the hidden column beside these values: eight hex digits for each, in the order of `HEADS`."""
    return " ".join(_digest(values.get(name, "")) for name in HEADS)


def changed(values: Mapping[str, str], written: str) -> dict[str, str]:
    """Those of the values that are not as they were written; all that say something, if nobody knows how they were written."""
    before = written.split()
    if len(before) != len(HEADS):
        return {name: value for name, value in values.items() if value}
    return {
        name: values[name]
        for name, digest in zip(HEADS, before, strict=True)
        if name in values and _digest(values[name]) != digest
    }


def _digest(value: str) -> str:
    return hashlib.sha256(value.strip().encode("utf-8", "surrogatepass")).hexdigest()[:8]

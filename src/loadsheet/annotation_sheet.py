"""The format of the analyst's annotations of an exception: their values, and the columns that hold them.

Shared by the writer of the sheet (reports), its reader (annotations) and the ledger. Uses no workbook library.
"""

import hashlib
import re
from collections.abc import Mapping

SHEET = "Exceptions"
ID = "Exception"
HEADS = {"owner": "Owner", "reason": "Reason", "comment": "Comment", "status": "Status"}
"""The headings of the analyst's columns, by field."""

WRITTEN = "_written"
"""The heading of the hidden last column: digests of what we wrote into the analyst's columns."""

OPEN, EXPLAINED, FIXED, ACCEPTED = "open", "explained", "fixed", "accepted difference"
STATUSES = (OPEN, EXPLAINED, FIXED, ACCEPTED)
WORDS = frozenset({EXPLAINED, ACCEPTED})
"""The statuses that close an exception. `fixed` stays open until a run confirms it."""

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
    """The id of an entry's exception in every workbook: `E-8812`."""
    return f"E-{entry}"


def entry_of(text: str) -> int | None:
    """The entry id in an exception id; None if the text is not one."""
    found = _ID.fullmatch(text.strip())
    return int(found[1]) if found else None


def as_written(values: Mapping[str, str]) -> str:
    """The hidden cell for these values: eight hex digits each, in the order of `HEADS`."""
    return " ".join(_digest(values.get(name, "")) for name in HEADS)


def changed(values: Mapping[str, str], written: str) -> dict[str, str]:
    """The values that differ from what we wrote; all non-empty values if that is unknown."""
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

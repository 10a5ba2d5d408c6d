"""Finds the cell of the shipper's file that a fault of the exchange is about, from the payload path. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from loadsheet.contract import Fault
from loadsheet.ledger import Entry, Origin
from loadsheet.mapping.documents import SourceRow
from loadsheet.mapping.lineage import Trace, locate, trace
from loadsheet.problems import NOWHERE, Problem, Where

_FIELD = re.compile(r"([A-Za-z]\w*(?:\[\d+\])?(?:\.[A-Za-z]\w*(?:\[\d+\])?)*): (.+)")


def refusals(entry: Entry, origin: Origin, faults: Sequence[Fault]) -> tuple[Problem, ...]:
    """One X701 for each fault, at the cell its path comes from, with that cell's text. A fault without a path, or on a value
    that the mapping itself supplies, stands at the entry's first row.
    """
    return tuple(_refusal(entry, origin, one) for fault in faults for one in _named(entry, origin, fault))


def unknown(entry: Entry, origin: Origin, text: str) -> Problem:
    """The X702 of an entry of which nobody knows what became, at its first row."""
    return Problem("X702", first_row(entry, origin, ""), values={"text": text})


def first_row(entry: Entry, origin: Origin, path: str = "") -> Where:
    """The place of an entry's first row."""
    if not entry.rows:
        return NOWHERE
    row = entry.rows[0]
    return origin.tables[row.table].where(row.number, path=path)


def _named(entry: Entry, origin: Origin, fault: Fault) -> Iterator[Fault]:
    """A fault whose text alone names fields, as one shape of refusals does (`reason: is too long; ...`), as one for each of them. What
    only looks like that, because no field that it names comes from a cell, stays as it is.
    """
    parts = [] if fault.path else [_FIELD.fullmatch(part) for part in fault.text.split("; ")]
    named = [(part[1], part[2]) for part in parts if part is not None]
    known = (locate(origin.lineage, entry.rows, entry.items, path) for path, _ in named)
    if len(named) == len(parts) and any(known):
        yield from (Fault(path, text, fault.index) for path, text in named)
    else:
        yield fault


def _refusal(entry: Entry, origin: Origin, fault: Fault) -> Problem:
    text = f"{fault.path}: {fault.text}" if fault.path else fault.text
    traces = trace(origin.lineage, entry.rows, entry.items, fault.path) if fault.path else ()
    if not traces:
        return Problem("X701", first_row(entry, origin, fault.path), values={"text": text})
    first = traces[0]
    row = entry.rows[first.row]
    where = origin.tables[row.table].where(row.number, first.label, fault.path)
    found = _cell(origin, row, first.label) if where.column else ""
    here = replace(where, path="")
    stated = (where for traced in traces for where in _stating(entry, origin, traced))
    also = dict.fromkeys(other for other in stated if other.column and other != here)
    return Problem("X701", where, found, {"text": text}, also=tuple(also))


def _stating(entry: Entry, origin: Origin, traced: Trace) -> Iterator[Where]:
    """The cells that state a value: if it is one of the whole record, those of all rows that say the same."""
    row = entry.rows[traced.row]
    said = _cell(origin, row, traced.label)
    for other in entry.rows if traced.source.rows == "first" and said else [row]:
        if other is row or (other.table == row.table and _cell(origin, other, traced.label) == said):
            yield origin.tables[other.table].where(other.number, traced.label)


def _cell(origin: Origin, row: SourceRow, label: str) -> str:
    header = origin.tables[row.table].header
    return row.cells[header.index(label)] if row.cells and label in header else ""

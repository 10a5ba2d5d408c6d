"""What the contract says of a record that the exact way made, and the last guard: a record that lacks something always has an error.

A fault that only follows from another problem of the document is not said. Where no other problem was said after all, it is.
"""

from collections.abc import Sequence
from typing import Any

from loadsheet.contract import Fault
from loadsheet.mapping.documents import Lineage
from loadsheet.mapping.lineage import trace
from loadsheet.mapping.names import Draft
from loadsheet.mapping.problem_cells import Places
from loadsheet.mapping.rows import RowReader
from loadsheet.mapping.targets import Variant


class RecordCheck:
    """Says the faults of one document's records after the other."""

    def __init__(self, readers: Sequence[RowReader], places: Places, lineage: Lineage, draft: Draft) -> None:
        self._plans = {reader.plan.name: reader.plan for reader in readers}
        self._places, self._lineage, self._draft = places, lineage, draft
        self._unsaid: dict[str, str] = {}

    def begin(self) -> None:
        """Forget the document before."""
        self._unsaid = {}

    def say(self, variant: Variant, payload: dict[str, Any]) -> None:
        """The problems of one record of the document."""
        draft = self._draft
        for path, code, values in draft.faults:
            self._places.say_at(path, code, values)
        told = {path for path, _, _ in draft.faults}.union(draft.skipped)
        faults = tuple(variant.check_record(payload))
        for fault in faults:
            if _is_told(fault, told) or self._was_refused(fault.path):
                self._unsaid.setdefault(fault.path, fault.text)
            else:
                self._say_fault(fault.path, fault.text)
        for path in draft.skipped:
            self._unsaid.setdefault(path, "has no value: a cell that it needs was refused")
        refused = {fault.path for fault in faults}
        for path, found, known in draft.unnamed:
            if path not in refused:
                values = {"path": path, "found": found, "expected": ", ".join(known)}
                self._places.say_at(path, "K502", values, level="warning")

    def guard(self) -> None:
        """If nothing was said of a document from which something is missing, say what is missing."""
        if self._places.has_errors:
            return
        for path, text in self._unsaid.items():
            self._say_fault(path, text)
        if self._draft.all_wrong and not self._unsaid:
            self._say_fault("", "cannot be made: a cell that it needs was refused")

    def _say_fault(self, path: str, text: str) -> None:
        self._places.say_at(path, "K501", {"path": path or "the record", "text": text})

    def _was_refused(self, path: str) -> bool:
        """Whether a cell behind this path was refused itself, so that the field lacks a value because of that."""
        if not self._draft.all_wrong:
            return False
        for found in trace(self._lineage, self._places.source, self._draft.items, path):
            plan = self._plans[found.source.table]
            slot = plan.shape.slots.get(found.source.column)
            if slot is not None and (plan.position, slot.index) in self._draft.all_wrong:
                return True
        return False


def _is_told(fault: Fault, told: set[str]) -> bool:
    """Whether a fault only follows from a problem said before: at its own path, or at a list or object around it."""
    return any(fault.path == path or fault.path.startswith((f"{path}.", f"{path}[")) for path in told)

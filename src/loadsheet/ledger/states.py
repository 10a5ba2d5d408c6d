"""The states of an entry, the one table of allowed transitions, and the values of the ledger.

`sending` is committed before the first byte of a call leaves; a `sending` found at start is `unknown`; `unknown` is left only
by evidence (a listing that proves it) or by a person.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from loadsheet.fix_marks import ORIGINAL_COLUMNS
from loadsheet.mapping.documents import ColumnGuide, Lineage, SourceRow, ordered_in
from loadsheet.problems import Problem, Where, column_letters


class State(StrEnum):
    """What is known about an entry."""

    INVALID = "invalid"  # it cannot be sent as it is; the shipper has to fix it
    HELD = "held"  # it could be sent, but a person has to decide first, or it waits for another
    READY = "ready"  # it will be sent
    SENDING = "sending"  # it is being sent, or was when the process died
    ACCEPTED = "accepted"  # the exchange has it
    REFUSED = "refused"  # the exchange refused it
    UNKNOWN = "unknown"  # it was sent, and nobody knows what became of it
    UNCHANGED = "unchanged"  # the ledger already has it with the same content


class Waits(StrEnum):
    """What a held entry waits for, if it is more than a person's decision: then the ledger itself looks at it again. A ready one
    that waits for its parent is sent as soon as that is accepted.
    """

    DECISION = ""
    PARENT = "parent"  # its order or tender is not known to be at the exchange
    EARLIER = "earlier outcome"  # an earlier entry of its lane has an unknown outcome


INITIAL = frozenset({State.INVALID, State.HELD, State.READY, State.REFUSED, State.UNCHANGED})
"""States in which a document may be planned; `refused` if the same content was refused before."""

TRANSITIONS: Mapping[str, frozenset[State]] = {
    State.READY: frozenset({State.SENDING, State.HELD}),
    State.SENDING: frozenset({State.READY, State.ACCEPTED, State.REFUSED, State.UNKNOWN}),
    State.UNKNOWN: frozenset({State.ACCEPTED, State.REFUSED, State.READY, State.HELD}),
    State.HELD: frozenset({State.READY, State.HELD, State.INVALID, State.UNCHANGED, State.REFUSED, State.ACCEPTED}),
    State.REFUSED: frozenset({State.READY}),
    State.ACCEPTED: frozenset(),
    State.INVALID: frozenset(),
    State.UNCHANGED: frozenset(),
}
"""What may become of what. Held becomes accepted only where it was sent once: it was given up, and found at the exchange later."""

SETTLED = frozenset({State.INVALID, State.HELD, State.ACCEPTED, State.REFUSED, State.UNCHANGED})
"""States that need no further call."""

NEEDS_SOMEONE = frozenset({State.INVALID, State.HELD, State.REFUSED, State.UNKNOWN})
"""States in which a row waits for a person: a run that ends with one of them exits 1."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the translator: `name` is its day and number, such as 2026-03-04-01. Times are ISO 8601 UTC texts."""

    id: int
    name: str
    started_at: str
    finished_at: str = ""
    exit_code: int | None = None
    summary: str = ""

    def holds(self, name: str) -> bool:
        """Whether the run of this name is this one, or one of the day that this one stands for (its name is the day then)."""
        return name == self.name or name.startswith(f"{self.name}-")


UNUSED, BLANK_ROWS = "columns not used", "blank rows skipped"
"""In `SourceTable.found`: the columns that nothing reads, a line each, and how many blank rows were skipped."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as it was read: the mapping's name for it, its file and sheet, its header, and how many rows were read; what
    reading found on the way (encoding, hidden rows ...), and what looks damaged in it, which makes no row invalid.
    """

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    rows: int = 0
    found: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def unused(self) -> tuple[str, ...]:
        """The columns of its file that nothing reads, by heading, else by letter."""
        return tuple(filter(None, self.found.get(UNUSED, "").split("\n")))

    def where(self, row: int, label: str = "", path: str = "") -> Where:
        """The place of a row or, with the label of a column, of a cell."""
        if label not in self.header:
            return Where(self.file, self.sheet, row, path=path)
        letters = self._letters(self.header.index(label))
        address = f"{letters}{row}" if self.sheet and letters else ""
        return Where(self.file, self.sheet, row, label, address, path)

    def position(self, where: Where) -> int | None:
        """The position in `header` of the cell that a problem of this table names: by its address where there is one, because
        labels may be twice.
        """
        letters = where.cell.rstrip("0123456789")
        if letters:
            return next((place for place in range(len(self.header)) if self._letters(place) == letters), None)
        return self.header.index(where.column) if where.column in self.header else None

    def _letters(self, position: int) -> str:
        """The letters of a column in the file; empty if it is not there."""
        if ORIGINAL_COLUMNS not in self.found:
            return column_letters(position)
        return self.found[ORIGINAL_COLUMNS].split(", ")[position].strip("-")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was claimed. `sha256` is the hex digest of its bytes, `size` their number, `arrived` ISO 8601 UTC;
    `kept_as` is where its bytes are now; `problems` say why it was set aside, if it was.
    """

    role: str
    name: str
    sha256: str
    size: int
    arrived: str
    kept_as: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Drop:
    """The files that one mapping read together, their tables, and the mapping they were read with; `batch_size` is how many of
    its records the mapping wants in one call, if it says so.

    `language` is that of the sheet (`de`), empty if the mapping does not say; `guide` describes the columns, by table and label;
    `source` are the mapping's own files, by their paths from its folder, with the mapping first, so that it can be used again as it
    was; `fixes` is the drop whose fix workbook this is, if it is one.

    A file that was set aside is a drop of its own, without mapping and tables.
    """

    id: int
    run: str
    files: tuple[SourceFile, ...]
    tables: tuple[SourceTable, ...] = ()
    mapping: str = ""
    mapping_version: str = ""
    mapping_hash: str = ""
    operation: str = ""
    batch_size: int | None = None
    language: str = ""
    guide: Mapping[str, Mapping[str, ColumnGuide]] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    fixes: int | None = None

    @property
    def name(self) -> str:
        """The name of its first file."""
        return self.files[0].name

    @property
    def set_aside(self) -> bool:
        """Whether it was put aside unread."""
        return any(file.problems for file in self.files)

    def table(self, name: str) -> SourceTable:
        """The table of this name in the mapping."""
        return next(table for table in self.tables if table.name == name)


class Entry(NamedTuple):
    """What is known about one document. `receipt` is the exchange's own order number, if it gave one; `reason` says in words
    why the entry is in its state; `attempts` counts committed intents to send. Times are ISO 8601 UTC texts. Of one whose contents
    were `removed` (when; empty: they are there) the payload is empty and the rows have no cells; `figures` are what totals need of it.
    """

    id: int
    drop: int
    operation: str
    key: str
    lane: str
    state: State
    reason: str
    payload: bytes
    content_hash: str
    rows: tuple[SourceRow, ...]
    items: dict[str, tuple[int, ...]]
    problems: tuple[Problem, ...]
    receipt: str
    attempts: int
    created_at: str
    changed_at: str
    waits: Waits = Waits.DECISION
    removed: str = ""
    figures: bytes = b""

    @property
    def ordered(self) -> frozenset[str]:
        """The lists of its record of which the mapping declares the order."""
        return ordered_in(self.items)


class Trace(NamedTuple):
    """The little of an entry that matching by key needs."""

    id: int
    operation: str
    key: str
    lane: str
    state: State
    content_hash: str


@dataclass(frozen=True, slots=True)
class IgnoredRow:
    """A row that a rule left out: its table, number and cells, and the rule in words."""

    table: str
    number: int
    cells: tuple[str, ...]
    rule: str


class Settlement(NamedTuple):
    """What an attempt, a listing or a person settles about one entry: the state it goes to and why, and for what it waits there;
    `attempt` is the number of the attempt that says it, if one does.
    """

    entry: int
    state: State
    reason: str
    receipt: str = ""
    problems: tuple[Problem, ...] = ()
    outcome: str = ""
    status: int | None = None
    duration_ms: int | None = None
    waits: Waits = Waits.DECISION
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look at a listing showed of an entry of unknown outcome: `shown` says what was there, `counts` whether the listing
    was fit to prove absence (complete, of the right kind, with a witness), `text` all of it in words. `at` is ISO 8601 UTC.
    """

    entry: int
    run: str
    at: str
    shown: str
    counts: bool
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided about an entry, and on what grounds. `hash` is chained to the decision before it (hex SHA-256)."""

    entry: int
    at: str
    who: str
    choice: str
    comment: str
    evidence: str
    hash: str


@dataclass(frozen=True, slots=True)
class Event:
    """One change of an entry's state, as it was committed."""

    at: str
    run: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One committed intent to send an entry, and what came of it (`outcome` is empty while nobody knows)."""

    number: int
    run: str
    started_at: str
    request_hash: str
    outcome: str
    status: int | None
    detail: str
    duration_ms: int | None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the entries of a drop come from: its tables by name, and the lineage of its mapping."""

    tables: dict[str, SourceTable]
    lineage: Lineage

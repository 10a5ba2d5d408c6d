"""The value types of the ledger: the states of an entry with the allowed transitions, entries, drops, files, tables, runs.

`sending` is committed before the first byte of a call leaves. An entry that is still `sending` when a run starts becomes
`unknown`. Only evidence (a listing that proves the outcome) or a person ends `unknown`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from loadsheet.mapping.documents import (
    COUNTED_IN,
    JOINT,
    MEANT_FOR,
    MEANT_IN,
    ColumnGuide,
    Lineage,
    RowLinks,
    SourceRow,
    Trace,
    trace,
)
from loadsheet.problems import Problem, Where, column_letters
from loadsheet.workbook_marks import ORIGINAL_COLUMNS


class State(StrEnum):
    """The state of an entry."""

    INVALID = "invalid"  # cannot be sent; the shipper must fix it
    HELD = "held"  # can be sent, but waits for a person's decision or for another entry
    READY = "ready"  # will be sent
    SENDING = "sending"  # is being sent, or was when the process died
    ACCEPTED = "accepted"  # the exchange has it
    REFUSED = "refused"  # the exchange refused it
    UNKNOWN = "unknown"  # was sent; the outcome is unknown
    UNCHANGED = "unchanged"  # the ledger already has an entry with the same content


class Waits(StrEnum):
    """What a held or ready entry waits for. If that is not a person's decision, the ledger checks the entry again by itself. A
    ready entry that waits for its parent is sent as soon as the parent is accepted.
    """

    DECISION = ""
    PARENT = "parent"  # the ledger does not know that its order or tender is at the exchange
    EARLIER = "earlier outcome"  # an earlier entry on its lane has an unknown outcome


INITIAL = frozenset({State.INVALID, State.HELD, State.READY, State.REFUSED, State.UNCHANGED})
"""States that planning may give a document. `refused`: the exchange refused the same content before."""

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
"""The allowed transitions. A held entry becomes accepted only if it was sent, abandoned and later found at the exchange."""

FINAL = frozenset({State.INVALID, State.ACCEPTED, State.REFUSED, State.UNCHANGED})
"""States that no run changes by itself."""

AT_EXCHANGE = frozenset({State.ACCEPTED, State.UNCHANGED})
"""States of documents that the exchange has, or that repeat an earlier one."""

WITHOUT_OUTCOME = frozenset({State.SENDING, State.UNKNOWN})
"""States after a call of which nobody knows the outcome yet."""

VERDICTS = {
    State.INVALID: "not sent: invalid",
    State.HELD: "not sent: held",
    State.READY: "waiting to be sent",
    State.REFUSED: "refused",
    State.SENDING: "outcome unknown",
    State.UNKNOWN: "outcome unknown",
}
"""The verdicts that follow from the state alone (see `reconcile.verdicts`)."""

NOT_SENT = frozenset(VERDICTS[state] for state in (State.INVALID, State.HELD, State.READY, State.REFUSED))
"""The verdicts on documents that the exchange does not have."""

STATES_THAT_NEED_SOMEONE = frozenset({State.INVALID, State.HELD, State.REFUSED, State.UNKNOWN})
"""States that wait for a person. A run that ends with such an entry exits 1."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of loadsheet. `name` is its day (in UTC) and number, such as 2026-03-04-01. Times are ISO 8601 UTC texts. If it represents a
    whole day, `parts` are the names of its runs. `in_progress`: a process works on it now.
    """

    id: int
    name: str
    started_at: str
    finished_at: str = ""
    exit_code: int | None = None
    summary: str = ""
    parts: tuple[str, ...] = ()
    in_progress: bool = False

    def holds(self, name: str) -> bool:
        """Whether `name` is this run or, if this object represents a whole day, a run of that day."""
        return name == self.name or name in self.parts


UNUSED, BLANK_ROWS = "columns not used", "blank rows skipped"
"""Keys of `SourceTable.reading_notes`: the columns that nothing reads (one a line), and the number of blank rows skipped."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as it was read: its name in the mapping, its file, sheet and header, and the number of rows read. `reading_notes`
    are notes about the reading (encoding, hidden rows ...). `problems` are signs of damage that make no row invalid.
    """

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    rows: int = 0
    reading_notes: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def unused(self) -> tuple[str, ...]:
        """The columns of its file that nothing reads, by heading or else by letter."""
        return tuple(filter(None, self.reading_notes.get(UNUSED, "").split("\n")))

    def where(self, row: int, label: str = "", path: str = "") -> Where:
        """The position of a row, or of a cell if `label` names a column."""
        if not label or label not in self.header:
            return Where(self.file, self.sheet, row, path=path)
        letters = self._letters(self.header.index(label))
        address = f"{letters}{row}" if self.sheet and letters else ""
        return Where(self.file, self.sheet, row, label, address, path)

    def position(self, where: Where) -> int | None:
        """The index in `header` of the cell that a problem of this table names. The cell address comes first, because labels
        may occur twice.
        """
        letters = where.cell.rstrip("0123456789")
        if letters:
            return next((index for index in range(len(self.header)) if self._letters(index) == letters), None)
        return self.header.index(where.column) if where.column in self.header else None

    def _letters(self, position: int) -> str:
        """The letters of a column in the file. Empty if the file does not have it."""
        if ORIGINAL_COLUMNS not in self.reading_notes:
            return column_letters(position)
        return self.reading_notes[ORIGINAL_COLUMNS].split(", ")[position].strip("-")


TRIGGER_ROLE, SET_ASIDE_ROLE = "trigger", "set aside"
"""Roles of files without rows of a mapping: one that only says that the others are complete, and one that cannot be used."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was claimed. `sha256` is the hex digest of its bytes, `size` their number, `arrived` ISO 8601 UTC.
    `kept_as` is where the bytes are now. `problems` are the reasons if the file was set aside.
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
    """The files that one mapping read together, their tables, and that mapping. `batch_size` is the number of records per call
    that the mapping sets, if any.

    `language` is the language of the sheet (`de`), empty if the mapping does not set it. `guide` describes the columns by table
    and label. `source` holds the mapping's files by path relative to its folder, the mapping first, so that the same version
    can be used again. `fixes` is the drop that this fix workbook corrects, if this is one.

    Several mappings that read a file together count as one (see `mapping.routing`): `mapping`, `mapping_version` and `operation`
    then name all of them.

    A file that was set aside is a drop of its own, without mapping and tables. If a mapping takes it, `meant_for` names that one.
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
        """The name of the first file."""
        return self.files[0].name

    @property
    def data_files(self) -> tuple[SourceFile, ...]:
        """Its files without a trigger file."""
        return tuple(file for file in self.files if file.role != TRIGGER_ROLE)

    @property
    def set_aside(self) -> bool:
        """Whether the file was set aside unread."""
        return any(file.problems for file in self.files)

    @property
    def meant_for(self) -> str:
        """The mapping that read the files, or could not read them; empty if no mapping takes them."""
        tried = (str(problem.values.get(MEANT_FOR, "")) for file in self.files for problem in file.problems)
        return self.mapping or next(filter(None, tried), "")

    @property
    def senders_language(self) -> str:
        """The language of the sheet, also if its mapping could not read it; empty if unknown."""
        meant = (str(problem.values.get(MEANT_IN, "")) for file in self.files for problem in file.problems)
        return self.language or next(filter(None, meant), "")

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations of its mappings; empty if the file was set aside."""
        return tuple(self.operation.split(JOINT)) if self.operation else ()

    @property
    def counted_in(self) -> dict[str, str]:
        """For each table the one that counts its rows: itself, unless several mappings read its sheet."""
        return {table.name: table.reading_notes.get(COUNTED_IN, table.name) for table in self.tables}

    def table(self, name: str) -> SourceTable:
        """The table with this name in the mapping."""
        return next(table for table in self.tables if table.name == name)


class Entry(NamedTuple):
    """The record of one document. `service_order` is the exchange's order number, if it gave one. `reason` explains the state in
    words. `attempts` counts committed intents to send. Times are ISO 8601 UTC texts. `removed` is when the contents were removed
    (empty: they were not). Then the payload is empty, the rows have no cells, and `figures` keeps the values for control totals.
    `alternative_operation` is the operation of the other form of an upsert, if that is kept.
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
    links: RowLinks
    problems: tuple[Problem, ...]
    service_order: str
    attempts: int
    created_at: str
    changed_at: str
    waits: Waits = Waits.DECISION
    removed: str = ""
    figures: bytes = b""
    alternative_operation: str = ""

    @property
    def ordered(self) -> frozenset[str]:
        """The lists of its record whose order the mapping declares."""
        return self.links.ordered


class EntryHead(NamedTuple):
    """The part of an entry that matching by key needs. `changed_at` is when it reached its state (ISO 8601 UTC)."""

    id: int
    operation: str
    key: str
    lane: str
    state: State
    content_hash: str
    changed_at: str


class EarlierEntry(NamedTuple):
    """An earlier entry on the same lane that is, was or will be at the exchange. A held one waits for an outcome or a parent, or
    was abandoned: a person decided not to wait for its unknown outcome.
    """

    id: int
    operation: str
    key: str
    state: State
    content_hash: str
    payload: bytes
    service_order: str
    problems: tuple[Problem, ...]
    abandoned: bool = False
    drop: int = 0
    figures: bytes = b""  # what is kept of a payload that was removed
    is_whole: bool = False  # an update that was made of a create or an upsert

    @property
    def has_unknown_outcome(self) -> bool:
        """Whether its outcome is unknown."""
        return self.state in WITHOUT_OUTCOME or self.abandoned


class Parent(NamedTuple):
    """A create or delete of the order or tender of a lane. Ids are in the order of planning."""

    id: int
    operation: str
    state: State


class IgnoredRow(NamedTuple):
    """A row that a rule excluded: its table, number and cells, and the rule in words."""

    table: str
    number: int
    cells: tuple[str, ...]
    rule: str


class Settlement(NamedTuple):
    """A new state for one entry, from an attempt, a listing or a person: the state, the reason, and what the entry then waits
    for. `attempt` is the number of the attempt that reports it (0: none).
    """

    entry: int
    state: State
    reason: str
    service_order: str = ""
    problems: tuple[Problem, ...] = ()
    outcome: str = ""
    status: int | None = None
    duration_ms: int | None = None
    waits: Waits = Waits.DECISION
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class ListingFinding:
    """What a listing showed about an entry of unknown outcome. `shown` is what the listing contained. `proves_absence`: the
    listing proves absence (complete, right kind, with a witness). `text` is the finding in words. `at` is ISO 8601 UTC.
    """

    entry: int
    run: str
    at: str
    shown: str
    proves_absence: bool
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision about an entry, with its evidence. `hash` (hex SHA-256) covers the previous decision's hash."""

    entry: int
    at: str
    who: str
    choice: str
    comment: str
    evidence: str
    hash: str


@dataclass(frozen=True, slots=True)
class Event:
    """One committed change of an entry's state."""

    at: str
    run: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One committed intent to send an entry, and its outcome (empty while it is unknown)."""

    number: int
    run: str
    started_at: str
    request_hash: str
    outcome: str
    status: int | None
    detail: str
    duration_ms: int | None


class Origin(NamedTuple):
    """Where the entries of a drop come from: its tables by name, and the lineage of its mapping."""

    tables: dict[str, SourceTable]
    lineage: Lineage

    def stating(self, entry: Entry, path: str) -> tuple[Where, ...]:
        """The cells that state a payload value, the most relevant first; for a value of the whole record, the equal cells of all its rows."""
        traces = trace(self.lineage, entry.rows, entry.links, path)
        return tuple(dict.fromkeys(where for traced in traces for where in self._stating(entry, traced)))

    def cell(self, row: SourceRow, label: str) -> str:
        """The text of a cell; empty if the row has none with this label."""
        header = self.tables[row.table].header
        return row.cells[header.index(label)] if row.cells and label in header else ""

    def _stating(self, entry: Entry, traced: Trace) -> Iterator[Where]:
        row = entry.rows[traced.row]
        text = self.cell(row, traced.label)
        for other in entry.rows if traced.source.rows == "first" and text else [row]:
            if other is row or (other.table == row.table and self.cell(other, traced.label) == text):
                yield self.tables[other.table].where(other.number, traced.label)

"""Documents whose rows, or whole file, came back as they were: nobody corrected them, so they say nothing new.

Owns: when rows are the same, which files are, and which rows a fix file corrected. Only reads.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from loadsheet.display_text import as_argument
from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import with_contents
from loadsheet.ledger.ledger_tables import Statement
from loadsheet.mapping.documents import Document, SourceRow
from loadsheet.problems import Problem

Cells = tuple[str, tuple[str, ...]]


class Returned(NamedTuple):
    """What is known of a document whose rows came back as they were. `uncorrected` is the newest entry that had them before, if they came
    in a fix file (0: none). `repeated` is the first entry of a file with the same bytes that had the same content, but was held, or repeated
    another (0: none). `overruled`: a fix file had other cells in the place of these, which may have been those of another record, or
    a newer file held what they delete.
    """

    uncorrected: int = 0
    repeated: int = 0
    overruled: bool = False


NOT_RETURNED = Returned()

OLDER = "an older file came again"
CONTRADICTED = "a newer file still holds it"
"""Reasons of held entries: old values would undo a later change, and a delete of what a newer file of its run has."""


def older_values(key: str) -> Problem:
    """The problem of an entry that another file has changed, corrected or deleted since."""
    hint = f"to go back to these values: loadsheet retry {as_argument(key)}"
    return Problem("L619", values={"key": key}, hint=hint)


def cells_of(rows: Iterable[SourceRow]) -> "Counter[Cells]":
    """What is compared of rows: each one's table and cells."""
    return Counter((row.table, row.cells) for row in rows)


class FixFileRows:
    """Which entries of fix files have the rows of which earlier entries. Each drop's fix files are read once, however many documents
    are asked for.
    """

    def __init__(self) -> None:
        self._read: set[int] = set()
        self._with_rows_of: defaultdict[int, list[Any]] = defaultdict(list)

    def corrected(self, connection: Connection, wanted: Collection[int]) -> set[int]:
        """The entries among these, and those of fix files in between, in whose place a fix file had other rows that were not wrong."""
        self._read_fixes_of(
            {row.drop_id for row in _DROPS.rows_of(connection, sorted(wanted))} - self._read, connection
        )
        following: dict[int, Any] = {}
        before: defaultdict[int, set[int]] = defaultdict(set)
        fresh = {*wanted}
        while fresh:
            found = [(entry, row) for entry in fresh for row in self._with_rows_of.get(entry, ())]
            fresh = {row.id for _, row in found} - following.keys()
            for entry, row in found:
                following[row.id] = row
                before[row.id].add(entry)
        cells = _cells(connection, {*wanted, *following}) if following else {}
        corrected: set[int] = set()
        for entry in sorted(following, reverse=True):
            if entry in corrected:
                corrected |= before[entry]
            elif following[entry].state not in _WRONG:
                corrected |= {one for one in before[entry] if cells[one] != cells[entry]}
        return corrected

    def _read_fixes_of(self, drops: Collection[int], connection: Connection) -> None:
        """Read the fix files of these drops, and the fix files of those."""
        while drops:
            self._read.update(drops)
            new = _OF_FIXES.rows_of(connection, sorted(drops))
            for row in new:
                for entry in codec.decode_links(row.items).fix_of:
                    self._with_rows_of[entry].append(row)
            drops = {row.drop_id for row in new} - self._read


def find_returned(
    connection: Connection, documents: Sequence[Document], copies: Sequence[Mapping[int, bool]], fixes: FixFileRows
) -> list[Returned]:
    """What is known of each of these documents. `copies` are, for each, the earlier drops with the same bytes as its own (see `copies_of`)."""
    named = [document.links.fix_of for document in documents]
    earlier = _earlier_in(connection, documents, copies)
    unsent = [[row.id for row in some if row.state != "unchanged"] for some in earlier]
    repeated = [
        [
            row
            for row in some
            if row.state != "refused" and (drops[row.drop_id] or row.content_hash in _forms_of(document))
        ]
        for document, some, drops in zip(documents, earlier, copies, strict=True)
    ]
    cells = _cells(connection, {entry for some in (*named, *unsent) for entry in some})
    same, sendable = [], set[int]()
    for document, some, others in zip(documents, named, unsent, strict=True):
        own = (cells_of(document.rows), *_forms_of(document))
        same.append([[entry for entry in entries if cells.get(entry) in own] for entries in (some, others)])
        sendable.update(*same[-1] if document.usable else ())
    corrected = fixes.corrected(connection, sendable)
    return [
        Returned(
            max(some, default=0),
            min((row.id for row in rows if row.reason != OLDER), default=0),
            not corrected.isdisjoint([*some, *others]) or any(row.reason == CONTRADICTED for row in rows),
        )
        for (some, others), rows in zip(same, repeated, strict=True)
    ]


def copies_of(connection: Connection, wanted: Collection[int]) -> dict[int, dict[int, bool]]:
    """For each of these drops, those before it whose files have the same bytes, each with whether another version of its mapping read it:
    then its documents may differ although its rows do not.
    """
    digests = defaultdict[int, set[str]](set)
    for row in _DIGESTS.rows_of(connection, sorted(wanted)):
        digests[row.drop_id].add(row.sha256)
    same = _by_digest(connection, {digest for some in digests.values() for digest in some})
    copies = {
        drop: {one for one in set.intersection(*(same[digest] for digest in digests[drop])) if one < drop}
        for drop in wanted
    }
    asked = {drop for drop, some in copies.items() if some}.union(*copies.values())
    read_by = {row.id: row for row in _READ_BY.rows_of(connection, sorted(asked))}
    return {drop: {one: _is_remapped(read_by[drop], read_by[one]) for one in some} for drop, some in copies.items()}


def _is_remapped(own: Any, copy: Any) -> bool:
    return bool(own.name == copy.name and own.hash != copy.hash)


def _by_digest(connection: Connection, digests: Collection[str]) -> defaultdict[str, set[int]]:
    found = defaultdict[str, set[int]](set)
    for row in _WITH_BYTES.rows_of(connection, sorted(digests)):
        found[row.sha256].add(row.drop_id)
    return found


def _earlier_in(
    connection: Connection, documents: Sequence[Document], copies: Sequence[Collection[int]]
) -> list[list[Any]]:
    """For each of these documents, the entries on its lane in its `copies` that a fix file may have corrected, or that were unchanged."""
    lanes = {document.lane for document, drops in zip(documents, copies, strict=True) if drops and document.usable}
    earlier: dict[str, list[Any]] = defaultdict(list)
    for row in _EARLIER_ON_LANES.rows_of(connection, sorted(lanes)):
        earlier[row.lane].append(row)
    return [
        [row for row in earlier.get(document.lane, ()) if row.drop_id in drops]
        for document, drops in zip(documents, copies, strict=True)
    ]


def _forms_of(document: Document) -> set[str]:
    """The hashes of the contents that a document may be sent with."""
    return {form.content_hash for form in (document, document.alternative) if form is not None}


def _cells(connection: Connection, wanted: Collection[int]) -> "dict[int, Counter[Cells] | str]":
    """The cells of these entries, or the hash of what they sent if their cells were removed."""
    rows = with_contents(connection, _ENTRIES.rows_of(connection, sorted(wanted)))
    return {
        row.id: row.content_hash if row.removed and row.content_hash else cells_of(codec.decode_rows(content.rows))
        for row, content in rows
    }


_WRONG = ("invalid", "refused")
_ENTRIES = Statement("select id, payload, rows, removed, content_hash from entries where id in (:wanted)")
_EARLIER_ON_LANES = Statement(
    """
    select id, lane, state, reason, content_hash, drop_id from entries
    where state in ('refused', 'held', 'unchanged') and lane in (:wanted)
    """
)
_READ_BY = Statement(
    """
    select drops.id, mappings.name, mappings.hash from drops
    left join mappings on mappings.hash = drops.mapping_hash where drops.id in (:wanted)
    """
)
_DIGESTS = Statement("select drop_id, sha256 from files where drop_id in (:wanted)")
_WITH_BYTES = Statement("select drop_id, sha256 from files where sha256 in (:wanted) and role <> 'set aside'")
_DROPS = Statement("select distinct drop_id from entries where id in (:wanted)")
_OF_FIXES = Statement(
    """
    select entries.id, entries.drop_id, entries.state, entries.items
    from entries join drops on drops.id = entries.drop_id where drops.fixes in (:wanted)
    """
)

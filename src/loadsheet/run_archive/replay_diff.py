"""Compares a replay with its capsule: planned entries, requests and states, with every difference by entry and field.

Owns which columns must be equal byte for byte, and how a difference reads. The ledger stores the SHA-256 of every
request body before its first byte leaves, so requests are made again and compared. It stores no bodies of answers: only
outcome, status and text of an answer are checked, and every state must follow from them step by step.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import BY_NAME, Operation
from loadsheet.ledger import TRANSITIONS, State
from loadsheet.ledger.codec import decode_links
from loadsheet.ledger.content_changes import field_differences
from loadsheet.ledger.exporting import Row
from loadsheet.ledger.models import INITIAL
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.run_archive.contents import joined_by_entry

MADE = ("operation", "key", "lane", "payload", "content_hash", "rows", "items")
"""Columns that translation fills, whatever happens to the entry later."""

JUDGED = ("state", "reason", "receipt", "problems", "waits")
"""Columns that planning fills, until something else happens to the entry."""

_TEXT_MAX = 60


class ReplayDifference(NamedTuple):
    """A difference: its subject (operation and key, or a table or file), its field, and both values, shortened."""

    of: str
    field: str
    kept: str
    replayed: str

    def __str__(self) -> str:
        return f"{self.of}: {self.field} was {self.kept}, is {self.replayed}"


class Side(NamedTuple):
    """The entries of the run's own drops with their events, and the ignored rows, from one ledger."""

    entries: Iterable[Row]
    events: Iterable[Row]


def compare_entries(kept: Side, replayed: Side) -> Iterator[ReplayDifference]:
    """The differences between two versions of the same drops, by entry. Both inputs are ordered by entry."""
    sides = (joined_by_entry(*kept), joined_by_entry(*replayed))
    for one, other in zip_longest(*sides):
        if other is None:
            yield ReplayDifference(entry_text(one[0]), "entry", "there", "missing")
        elif one is None:
            yield ReplayDifference(entry_text(other[0]), "entry", "missing", "there")
        else:
            yield from _compare(*one, *other)


def compare_rows(
    what: str, names: tuple[str, ...], kept: Iterable[Row], replayed: Iterable[Row]
) -> Iterator[ReplayDifference]:
    """The differences between the rows of two tables in these columns, position by position."""
    for place, (one, other) in enumerate(zip_longest(kept, replayed), start=1):
        if one is None or other is None:
            yield ReplayDifference(
                f"{what} {place}", "row", *("present" if side else "missing" for side in (one, other))
            )
            continue
        for name in names:
            if one[name] != other[name]:
                yield ReplayDifference(f"{what} {place}", name, _short(one[name]), _short(other[name]))


def entry_text(row: Mapping[str, Any]) -> str:
    """An entry in words: its operation and key."""
    return f"{row['operation']} {row['key'] or '(no key)'}"


def _compare(kept: Row, events: list[Row], replayed: Row, planned: list[Row]) -> Iterator[ReplayDifference]:
    of = entry_text(kept)
    first = [(event["before"], event["after"], event["reason"]) for event in events[: len(planned)]]
    again = [(event["before"], event["after"], event["reason"]) for event in planned]
    if first != again:
        yield ReplayDifference(of, "state", *(_path_text(path) for path in (first, again)))
    judged = JUDGED if len(events) == len(planned) else ()
    for name in (*MADE, *judged):
        if name == "operation" and not judged and replayed["state"] == State.HELD:
            continue  # a held entry may have gone out later as the update it turned into
        if name == "waits" and replayed["state"] == State.READY:
            continue  # waiting ends when the parent exists, without a change of state
        if kept[name] != replayed[name] and not (name == "items" and _are_equal_links(kept[name], replayed[name])):
            yield from _differences(of, name, kept[name], replayed[name])


def _are_equal_links(kept: str, replayed: str) -> bool:
    """Whether these say the same, whatever comes first in them."""
    return decode_links(kept) == decode_links(replayed)


def _differences(of: str, name: str, kept: Any, replayed: Any) -> Iterator[ReplayDifference]:
    changes = field_differences(kept, replayed) if name == "payload" and kept and replayed else []
    if changes:
        for text in changes:
            field, _, values = text.partition(" ")
            before, _, after = values.partition(" -> ")
            yield ReplayDifference(of, f"payload {field}", before or "another value", after or "another value")
    else:
        yield ReplayDifference(of, name, _short(kept), _short(replayed))


def _path_text(path: list[tuple[str, str, str]]) -> str:
    return " -> ".join(f"{after} ({reason})" if reason else after for _, after, reason in path) or "nothing"


def _short(value: Any) -> str:
    text = value.decode() if isinstance(value, bytes) else value
    text = text if isinstance(text, str) else msgspec.json.encode(text).decode()
    return (text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 3]}...") or "nothing"


class Calls:
    """Checks the attempts of a run. `count` is the number of attempts whose request was made again."""

    def __init__(self, queries: LedgerQueries, run: int) -> None:
        self._queries, self._run, self.count = queries, run, 0
        self._batches: dict[str, _Batch] = {}

    def check(self, entries: Iterable[Row], attempts: Iterable[Row]) -> Iterator[ReplayDifference]:
        """The requests that do not follow from the payloads. Entries and attempts are ordered by entry."""
        mine = (one for one in attempts if one["run_id"] == self._run)
        for entry, tried in joined_by_entry(entries, mine):
            if not tried or entry["removed"]:
                continue
            self.count += len(tried)
            operation = BY_NAME[entry["operation"]]
            for digest in dict.fromkeys(one["request_hash"] for one in tried):
                if operation.batched:
                    self._batches.setdefault(digest, _Batch(operation, array("q"))).entries.append(entry["id"])
                elif digest != hashlib.sha256(operation.body([entry["payload"]])).hexdigest():
                    yield _different(f"{entry['operation']} {entry['key']}", digest)
        for digest, batch in self._batches.items():
            payloads = [one.payload for one in self._queries.entries_by_id(batch.entries.tolist())]
            if digest != hashlib.sha256(batch.operation.body(payloads)).hexdigest():
                yield _different(f"{batch.operation.name} of {len(payloads)} records", digest)


class _Batch(NamedTuple):
    operation: Operation
    entries: "array[int]"


def _different(of: str, digest: str) -> ReplayDifference:
    return ReplayDifference(of, "request", f"SHA-256 {digest[:12]}", "different: it was not made from these payloads")


_ACCEPTED = "accepted"


def unexplained(entries: Iterable[Row], events: Iterable[Row], attempts: Iterable[Row]) -> Iterator[ReplayDifference]:
    """The entries whose state does not follow from their events and attempts. All inputs are ordered by entry."""
    for entry, changes, tried in joined_by_entry(entries, events, attempts):
        wrong = _wrong_step(entry, changes) or _wrong_answer(entry, changes, tried)
        if wrong:
            yield ReplayDifference(entry_text(entry), "state", entry["state"], wrong)


def _wrong_step(entry: Row, changes: Sequence[Row]) -> str:
    before = ""
    for change in changes:
        allowed = TRANSITIONS[State(before)] if before else INITIAL
        if change["before"] != before or change["after"] not in allowed:
            return f"events do not lead to its state: {change['before'] or 'new'} -> {change['after']} after {before or 'nothing'}"
        before = change["after"]
    return "" if before == entry["state"] else f"{before or 'nothing'} according to its last event"


def _wrong_answer(entry: Row, changes: Sequence[Row], tried: Sequence[Row]) -> str:
    sent = [place for place, change in enumerate(changes) if change["after"] == State.SENDING]
    if not len(sent) == len(tried) == entry["attempts"]:
        return f"sent {len(sent)} times with {len(tried)} attempts, but it counts {entry['attempts']}"
    for start, end, attempt in zip(sent, [*sent[1:], len(changes)], tried, strict=False):
        followed = changes[start + 1 : end]
        if not attempt["outcome"]:
            continue
        if not any(change["reason"] == attempt["detail"] for change in followed):
            return f"attempt {attempt['number']} was answered {attempt['detail']!r}, but no event followed"
        if attempt["outcome"] == _ACCEPTED and not any(change["after"] == State.ACCEPTED for change in followed):
            return f"attempt {attempt['number']} was accepted, but the entry was not"
    return ""

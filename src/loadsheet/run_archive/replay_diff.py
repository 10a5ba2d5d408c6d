"""What was planned in a replay, held against what the capsule keeps: every difference, by entry and field.

Owns: which columns have to be the same byte for byte, and how a difference is told.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from loadsheet.ledger import State
from loadsheet.ledger.planning import differences
from loadsheet.run_archive.prior_state import Row, with_events

MADE = ("operation", "key", "lane", "payload", "content_hash", "rows", "items")
"""What translating makes of the rows of a file, whatever becomes of it later."""

JUDGED = ("state", "reason", "receipt", "problems", "waits")
"""What planning says of it, until something else becomes of it."""

_TOLD_MAX = 60


class Different(NamedTuple):
    """A difference: of what (operation and key, or a table or file), in which field, and what both sides say, shortened."""

    of: str
    field: str
    kept: str
    replayed: str

    def __str__(self) -> str:
        return f"{self.of}: {self.field} was {self.kept}, is {self.replayed}"


class Side(NamedTuple):
    """The entries of the run's own drops with their events, and what rules left out, as one ledger keeps them."""

    entries: Iterable[Row]
    events: Iterable[Row]


def compare_entries(kept: Side, replayed: Side) -> Iterator[Different]:
    """The differences between two accounts of the same drops, entry by entry; both come ordered by entry."""
    sides = (with_events(*kept), with_events(*replayed))
    for one, other in zip_longest(*sides):
        if other is None:
            yield Different(named(one[0]), "entry", "there", "missing")
        elif one is None:
            yield Different(named(other[0]), "entry", "missing", "there")
        else:
            yield from _compare(*one, *other)


def compare_rows(
    what: str, names: tuple[str, ...], kept: Iterable[Row], replayed: Iterable[Row]
) -> Iterator[Different]:
    """The differences between the rows of two tables, place by place, in these columns."""
    for place, (one, other) in enumerate(zip_longest(kept, replayed), start=1):
        if one is None or other is None:
            yield Different(f"{what} {place}", "row", *("there" if side else "missing" for side in (one, other)))
            continue
        for name in names:
            if one[name] != other[name]:
                yield Different(f"{what} {place}", name, _short(one[name]), _short(other[name]))


def named(row: Mapping[str, Any]) -> str:
    """An entry in words: its operation and key."""
    return f"{row['operation']} {row['key'] or '(no key)'}"


def _compare(kept: Row, events: list[Row], replayed: Row, planned: list[Row]) -> Iterator[Different]:
    of = named(kept)
    first = [(event["before"], event["after"], event["reason"]) for event in events[: len(planned)]]
    again = [(event["before"], event["after"], event["reason"]) for event in planned]
    if first != again:
        yield Different(of, "state", *(_told(path) for path in (first, again)))
    judged = JUDGED if len(events) == len(planned) else ()
    for name in (*MADE, *judged):
        if name == "operation" and not judged and replayed["state"] == State.HELD:
            continue  # what was held can have gone out later as the update that it came to
        if name == "waits" and replayed["state"] == State.READY:
            continue  # it waits no longer as soon as what it waits for is there, which is no change of state
        if kept[name] != replayed[name]:
            yield from _differences(of, name, kept[name], replayed[name])


def _differences(of: str, name: str, kept: Any, replayed: Any) -> Iterator[Different]:
    found = differences(kept, replayed) if name == "payload" and kept and replayed else []
    if found:
        for text in found:
            field, _, told = text.partition(" ")
            before, _, after = told.partition(" -> ")
            yield Different(of, f"payload {field}", before or "another value", after or "another value")
    else:
        yield Different(of, name, _short(kept), _short(replayed))


def _told(path: list[tuple[str, str, str]]) -> str:
    return " -> ".join(f"{after} ({reason})" if reason else after for _, after, reason in path) or "nothing"


def _short(value: Any) -> str:
    text = value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else _json(value)
    return (text if len(text) <= _TOLD_MAX else f"{text[: _TOLD_MAX - 3]}...") or "nothing"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

"""Whether every state of a run follows from what was recorded: step by step, each step one that the ledger allows, each answer told.

Owns: the way from an attempt and what became of it to the state of its entry. The bodies of answers are not kept; what the ledger
made of them is, and all of it has to fit together.
"""

from collections.abc import Iterable, Iterator, Sequence

from loadsheet.ledger import TRANSITIONS, State
from loadsheet.ledger.states import INITIAL
from loadsheet.run_archive.prior_state import Row, beside
from loadsheet.run_archive.replay_diff import Different, named

_ACCEPTED = "accepted"


def unexplained(entries: Iterable[Row], events: Iterable[Row], attempts: Iterable[Row]) -> Iterator[Different]:
    """The entries whose state does not follow from their events and attempts; all come ordered by entry."""
    for entry, changes, tried in beside(entries, events, attempts):
        wrong = _wrong_step(entry, changes) or _wrong_answer(entry, changes, tried)
        if wrong:
            yield Different(named(entry), "state", entry["state"], wrong)


def _wrong_step(entry: Row, changes: Sequence[Row]) -> str:
    before = ""
    for change in changes:
        allowed = TRANSITIONS[State(before)] if before else INITIAL
        if change["before"] != before or change["after"] not in allowed:
            return f"not what its events lead to: {change['before'] or 'new'} -> {change['after']} after {before or 'nothing'}"
        before = change["after"]
    return "" if before == entry["state"] else f"{before or 'nothing'}, as its last event says"


def _wrong_answer(entry: Row, changes: Sequence[Row], tried: Sequence[Row]) -> str:
    sent = [place for place, change in enumerate(changes) if change["after"] == State.SENDING]
    if not len(sent) == len(tried) == entry["attempts"]:
        return f"sent {len(sent)} times with {len(tried)} attempts, of {entry['attempts']} that it counts"
    for start, end, attempt in zip(sent, [*sent[1:], len(changes)], tried, strict=False):
        followed = changes[start + 1 : end]
        if not attempt["outcome"]:
            continue
        if not any(change["reason"] == attempt["detail"] for change in followed):
            return f"attempt {attempt['number']} was answered {attempt['detail']!r}, and nothing followed from that"
        if attempt["outcome"] == _ACCEPTED and not any(change["after"] == State.ACCEPTED for change in followed):
            return f"attempt {attempt['number']} was accepted, and the entry was not"
    return ""

"""How the runs before came out, from what the ledger keeps of each: for the change since the last one, and for a chart."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from loadsheet.ledger import NEEDS_SOMEONE as STATES_THAT_NEED_SOMEONE
from loadsheet.ledger import Run, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile import AGREES, NEEDS_SOMEONE, Verdict

RUNS_SHOWN = 30
_LOOKED_THROUGH = 120  # runs that read nothing are many where an inbox is watched


class Night(NamedTuple):
    """How a run came out: how many documents agree, how many wait or cannot be verified, how many need someone; and its verdicts, as
    far as they are known.
    """

    run: str
    agree: int
    open: int
    need: int
    verdicts: Mapping[str, int]


class _Kept(msgspec.Struct):
    entries: dict[str, int] = {}
    verdicts: dict[str, int] = {}


_read = msgspec.json.Decoder(_Kept).decode


def trend(queries: LedgerQueries, run: Run, verdicts: Mapping[str, int]) -> tuple[Night, ...]:
    """The last runs that told of documents, oldest first, up to and with this one, whose verdicts are given."""
    before = [one for one in queries.runs(_LOOKED_THROUGH) if one.id < run.id and one.summary]
    nights = [night for night in map(_night, before) if night is not None]
    return (*reversed(nights[: RUNS_SHOWN - 1]), _told(run.name, verdicts))


def _night(run: Run) -> Night | None:
    try:
        kept = _read(run.summary)
    except msgspec.MsgspecError:
        return None
    if kept.verdicts:
        return _told(run.name, kept.verdicts)
    if not kept.entries:
        return None
    return Night(run.name, *_sums(kept.entries, (State.ACCEPTED, State.UNCHANGED), STATES_THAT_NEED_SOMEONE), {})


def _told(run: str, verdicts: Mapping[str, int]) -> Night:
    return Night(run, *_sums(verdicts, AGREES, NEEDS_SOMEONE), verdicts)


def _sums(
    counts: Mapping[str, int],
    agreeing: frozenset[Verdict] | tuple[State, ...],
    needing: frozenset[Verdict] | frozenset[State],
) -> tuple[int, int, int]:
    agree = sum(count for name, count in counts.items() if name in agreeing)
    need = sum(count for name, count in counts.items() if name in needing)
    return agree, sum(counts.values()) - agree - need, need

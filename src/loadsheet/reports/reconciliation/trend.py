"""The counts of earlier runs, from the ledger: for the change since the last run, and for a chart."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from loadsheet.ledger import NEEDS_SOMEONE as STATES_THAT_NEED_SOMEONE
from loadsheet.ledger import Run, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.reconcile import AGREES, NEEDS_SOMEONE, Verdict

RUNS_SHOWN = 30
_RUNS_READ_MAX = 120  # runs that read nothing are many where an inbox is watched


class RunCounts(NamedTuple):
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


def trend(queries: LedgerQueries, run: Run, verdicts: Mapping[str, int]) -> tuple[RunCounts, ...]:
    """The last runs that told of documents, oldest first, up to and with this one, whose verdicts are given."""
    before = [one for one in queries.runs(_RUNS_READ_MAX) if one.id < run.id and one.summary]
    runs = [counts for counts in map(_run_counts, before) if counts is not None]
    return (*reversed(runs[: RUNS_SHOWN - 1]), _counts_of(run.name, verdicts))


def _run_counts(run: Run) -> RunCounts | None:
    try:
        kept = _read(run.summary)
    except msgspec.MsgspecError:
        return None
    if kept.verdicts:
        return _counts_of(run.name, kept.verdicts)
    if not kept.entries:
        return None
    return RunCounts(run.name, *_sums(kept.entries, (State.ACCEPTED, State.UNCHANGED), STATES_THAT_NEED_SOMEONE), {})


def _counts_of(run: str, verdicts: Mapping[str, int]) -> RunCounts:
    return RunCounts(run, *_sums(verdicts, AGREES, NEEDS_SOMEONE), verdicts)


def _sums(
    counts: Mapping[str, int],
    agreeing: frozenset[Verdict] | tuple[State, ...],
    needing: frozenset[Verdict] | frozenset[State],
) -> tuple[int, int, int]:
    agree = sum(count for name, count in counts.items() if name in agreeing)
    need = sum(count for name, count in counts.items() if name in needing)
    return agree, sum(counts.values()) - agree - need, need

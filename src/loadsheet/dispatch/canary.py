"""The canary start: of a mapping whose records were never accepted, or of a shipper's folder of whose records none ever was, a few go
first and alone; the rest follows if one is accepted.

Owns: which drops are on trial, how many of their entries may leave, and what their outcomes decide. If all of the first are
refused, a wrong mapping or a new shipper's wrong code would be refused a thousand times over: the rest is held, for a person to
decide. Reads the ledger, changes nothing.
"""

from collections.abc import Iterable, Iterator, Sequence

from loadsheet.dispatch import error_location
from loadsheet.dispatch.batching import Call
from loadsheet.ledger import Settlement, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.queue import CANARY_FAILED, Part
from loadsheet.problems import Problem

HINT = "fix the mapping and drop the file again, or let these go: loadsheet retry"


class _Trial:
    """How the first entries of one drop and operation fare."""

    def __init__(self, size: int) -> None:
        self.places = size  # how many more may leave
        self.in_flight: set[int] = set()
        self.refused: list[str] = []
        self.unknown = 0

    def take(self, settlement: Settlement) -> None:
        """What became of one of them."""
        self.in_flight.discard(settlement.entry)
        if settlement.state is State.READY:
            self.places += 1
        elif settlement.state is State.REFUSED:
            self.refused.append(settlement.reason)
        else:
            self.unknown += 1  # nobody knows: neither good nor bad, and the rest waits for a later run


class Canary:
    """The drops on trial in one sending; `size` entries of each go first (0: nothing is tried)."""

    def __init__(self, queries: LedgerQueries, size: int) -> None:
        self._queries = queries
        self._size = size
        self._trials: dict[Part, _Trial] = {part: _Trial(size) for part in queries.canary_candidates()} if size else {}

    @property
    def on_trial(self) -> list[Part]:
        """What must not be sent as if it were known to be good."""
        return list(self._trials)

    def places(self) -> Iterator[tuple[Part, int]]:
        """What may be tried now, and how many entries of it."""
        return ((part, trial.places) for part, trial in self._trials.items() if trial.places)

    def started(self, calls: Iterable[Call]) -> None:
        """These calls leave."""
        for call in calls:
            for entry in call.submissions:
                trial = self._trials.get((entry.drop, entry.operation))
                if trial is not None:
                    trial.places -= 1
                    trial.in_flight.add(entry.id)

    def judge(self, settlements: Sequence[Settlement]) -> Iterator[Settlement]:
        """Take in what became of entries; returns the settlements of those that are held because of it."""
        for part, trial in list(self._trials.items()):
            mine = [settlement for settlement in settlements if settlement.entry in trial.in_flight]
            for settlement in mine:
                trial.take(settlement)
            if any(settlement.state is State.ACCEPTED for settlement in mine):
                del self._trials[part]
            elif len(trial.refused) >= self._size:
                del self._trials[part]
                yield from self._held(part, trial)

    def _held(self, part: Part, trial: _Trial) -> Iterator[Settlement]:
        drop, operation = part
        origin = self._queries.origin(drop)
        told = {"count": len(trial.refused), "text": _told(trial.refused)}
        for entry in self._queries.entries_of(drop):
            if entry.state is State.READY and entry.operation == operation:
                problem = Problem("L609", error_location.first_row(entry, origin), values=told, hint=HINT)
                yield Settlement(entry.id, State.HELD, CANARY_FAILED, problems=(problem,))


def _told(refused: Sequence[str]) -> str:
    """One reason if it is the same for all, else the first and the last."""
    return refused[0] if len(set(refused)) == 1 else f"{refused[0]}; {refused[-1]}"

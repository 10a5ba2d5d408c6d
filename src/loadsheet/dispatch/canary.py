"""The canary: a few entries of an untested mapping or a new shipper go first; the rest follows when one is accepted.

An untested drop is one of a mapping, or of a shipper's folder, none of whose records was ever accepted. If all its first entries are
refused, the rest is held for a person to decide: a wrong mapping, or a wrong code of a new shipper, would be refused a thousand times.
Reads the ledger, changes nothing.
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
    """The outcomes of the first entries of one drop and operation."""

    def __init__(self, size: int) -> None:
        self.places = size  # how many more may leave
        self.in_flight: set[int] = set()
        self.refused: list[str] = []
        self.unknown = 0

    def count(self, settlement: Settlement) -> None:
        """Count the settlement of one of them."""
        self.in_flight.discard(settlement.entry)
        if settlement.state is State.READY:
            self.places += 1
        elif settlement.state is State.REFUSED:
            self.refused.append(settlement.reason)
        else:
            self.unknown += 1  # neither accepted nor refused: the rest waits for a later run


class Canary:
    """The drops on trial; `size` entries of each go first (0: no trial)."""

    def __init__(self, queries: LedgerQueries, size: int) -> None:
        self._queries = queries
        self._size = size
        self._trials: dict[Part, _Trial] = {part: _Trial(size) for part in queries.canary_candidates()} if size else {}

    @property
    def on_trial(self) -> list[Part]:
        """The drops and operations on trial."""
        return list(self._trials)

    def places(self) -> Iterator[tuple[Part, int]]:
        """The drops and operations that may be tried now, and how many entries of each."""
        return ((part, trial.places) for part, trial in self._trials.items() if trial.places)

    def started(self, calls: Iterable[Call]) -> None:
        """Note that these calls leave."""
        for call in calls:
            for entry in call.submissions:
                trial = self._trials.get((entry.drop, entry.operation))
                if trial is not None:
                    trial.places -= 1
                    trial.in_flight.add(entry.id)

    def judge(self, settlements: Sequence[Settlement]) -> Iterator[Settlement]:
        """Take in settlements; yields the settlements of entries that are held because of them."""
        for part, trial in list(self._trials.items()):
            mine = [settlement for settlement in settlements if settlement.entry in trial.in_flight]
            for settlement in mine:
                trial.count(settlement)
            if any(settlement.state is State.ACCEPTED for settlement in mine):
                del self._trials[part]
            elif len(trial.refused) >= self._size:
                del self._trials[part]
                yield from self._held(part, trial)

    def _held(self, part: Part, trial: _Trial) -> Iterator[Settlement]:
        drop, operation = part
        origin = self._queries.origin(drop)
        values = {"count": len(trial.refused), "text": _reasons(trial.refused)}
        for entry in self._queries.entries_of(drop):
            if entry.state is State.READY and entry.operation == operation:
                problem = Problem("L609", error_location.first_row(entry, origin), values=values, hint=HINT)
                yield Settlement(entry.id, State.HELD, CANARY_FAILED, problems=(problem,))


def _reasons(refused: Sequence[str]) -> str:
    """The one reason of all, or the first and the last."""
    return refused[0] if len(set(refused)) == 1 else f"{refused[0]}; {refused[-1]}"

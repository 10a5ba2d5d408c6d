"""What a seed of the simulated fleet is: what arrives in which night, how the exchange and the settings are, and what goes wrong."""

from random import Random
from typing import Any

import ledgers
from simulated_exchange import CALL_TIMEOUT_S, LATE_S
from simulated_fleet import TAKEOVER_S, Database, Fleet, Night
from simulated_time import Counts, Faults

from loadsheet.settings import Settings

MOST_STEPS = 400_000
DECISIONS_MAX = 5
_FAULTS = {  # what each kind of trouble is at most, and which seeds have it
    "kill": 0.01,
    "pause": 0.03,
    "gone": 0.04,
    "outage": 0.7,
    "misjudged": 0.25,
    "twice": 0.2,
    "busy": 0.15,
    "failed": 0.1,
    "lost": 0.2,
    "late": 0.2,
    "unreachable": 0.05,
    "blind": 0.2,
    "rivals": 0.5,
}
_HAVE = 0.6


def faults_of(rng: Random) -> Faults:
    """Some of all that can go wrong, each as often as it happens to be."""
    return Faults(**{name: most * rng.random() if rng.random() < _HAVE else 0.0 for name, most in _FAULTS.items()})


def settings_of(rng: Random) -> Settings:
    """Settings with pauses that outlast late calls, as they have to be."""
    return Settings(
        takeover_s=TAKEOVER_S,
        call_timeout_s=CALL_TIMEOUT_S,
        quiesce_s=LATE_S + 3 * CALL_TIMEOUT_S,
        status_quiesce_s=LATE_S + 3 * CALL_TIMEOUT_S,
        confirm_gap_s=20,
        create_after_absent=rng.choice(("resend", "resend", "review")),
        trust_quiesce=True,
        create_sends_max=10,
        sends_max=10,
        canary=rng.choice((0, 0, 1, 3)),
        connections=rng.choice((3, 20, 60)),
        connections_start=rng.choice((1, 4)),
        batch_entries=rng.choice((1, 2, 5, 200)),
        window=rng.choice((2, 16, 256)),
        outstanding_unknown_max=rng.choice((3, 20, 1000)),
        worker_wait_s=10**6,
        exchange="http://localhost:1",
        assumptions={
            "calls_per_second": rng.choice((2, 20, 200)),
            "status_on_400": rng.choice(("prove", "atomic")),
            "status_records_max": rng.choice((1, 3, 100)),
        },
    )


class _Writer:
    """Writes what arrives: each order's operations, some of which the exchange will refuse."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.bad: set[str] = set()
        self._there: dict[int, str] = {}  # how far each order got: "", "made", "gone"
        self._written = 0

    def _document(self, operation: str, payload: dict[str, Any], row: int) -> Any:
        return ledgers.document(operation, payload, [("orders", row, (str(payload["order_id"]),))])

    def _token(self) -> str:
        self._written += 1
        token = f"t{self._written:04}"
        if self.rng.random() < 0.06:
            self.bad.add(token)
        return token

    def night(self, number: int, orders: int) -> Night:
        """A few drops: creates, then what follows for orders of tonight and of nights before."""
        rng, drops = self.rng, []
        follow = rng.sample(("create", "update", "status", "delete", "update", "status"), rng.choice((2, 3, 4)))
        for operation in ("create", *follow) if number == 0 else follow:
            documents = []
            for order in rng.sample(range(orders), rng.randrange(1, orders)):
                payload = self._payload(operation, order)
                if payload is not None:
                    documents.append(self._document(f"order.{operation}", payload, len(documents) + 2))
            name = f"{number}-{len(drops)}-{operation}.csv"
            table = [("orders", name)]
            if documents:
                drops.append((ledgers.drop_of(*table, mapping=operation, operation=f"order.{operation}"), documents))
        return Night(drops)

    def _payload(self, operation: str, order: int) -> dict[str, Any] | None:
        key = f"A-{order:05}"
        if operation == "status":
            return {"order_id": key, "status_code": "PU", "status_location": self._token()}
        if operation == "delete":
            if self._there.get(order) != "made":
                return None
            self._there[order] = "gone"
            return {"order_id": key}
        if operation == "create":
            if order in self._there:
                return None
            self._there[order] = "made"
        return ledgers.order(order, pickup_address2=self._token())


def fleet_of(database: Database, seed: str, **more: float) -> Fleet:
    """The fleet of a seed, before anything has happened; `more` are faults that it has for certain."""
    rng = Random(seed)
    database.empty()
    faults, settings, writer = faults_of(rng), settings_of(rng), _Writer(rng)
    for name, value in more.items():
        setattr(faults, name, value)
    orders = rng.choice((3, 6, 12))
    nights = [writer.night(number, orders) for number in range(rng.choice((1, 2, 2)))]
    fleet = Fleet(database, seed, faults, settings, nights)
    fleet.exchange.bad = writer.bad
    return fleet


def simulate(database: Database, seed: str, **more: float) -> Counts:
    """Run a seed to its end, and judge it. Raises AssertionError for whatever is not as it should be."""
    fleet = fleet_of(database, seed, **more)
    try:
        fleet.finish(MOST_STEPS)
        fleet.judge.settles(everything=False)
        for _ in range(DECISIONS_MAX):
            if not fleet.decide():
                break
            fleet.nights_more(2, MOST_STEPS)
        fleet.judge.settles(everything=True)
        before = fleet.judge.fingerprint()
        fleet.nights_more(1, MOST_STEPS)
        assert fleet.judge.fingerprint() == before, "a further run changes something"
        assert fleet.ledger().check() == []
    finally:
        fleet.time.end()
    fleet.time.counts.unknown = fleet.judge.unknown_ever()
    return fleet.time.counts

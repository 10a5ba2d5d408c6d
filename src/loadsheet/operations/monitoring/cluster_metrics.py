"""The figures of a fleet: who works, what waits, who took over, and at what pace, as metrics.

Owns: their names, labels and meanings, and how fresh they are. They are the same whichever process writes them: whoever looks takes the
highest, not the sum. They have a file of their own, as each is there once and not for each shipper.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from loadsheet.ledger.shared.overview import Fleet, fleet_of
from loadsheet.operations.monitoring import prometheus
from loadsheet.problems import LedgerError
from loadsheet.settings import Settings

FILE = "fleet"
"""What stands in the name of the file where others have that of a shipper; no shipper is called so."""
FRESH_S = 5.0
"""Whoever asks more often gets the same answer: figures must not cost the database more than the work does."""
PAUSE_S = 60.0
_SHORT = 12  # digits of a pace's name, as a label

_Samples = Mapping[tuple[str, ...], float]


def figures(fleet: Fleet) -> list[Metric]:
    """All figures of a fleet at a moment."""
    return [*_of_workers(fleet), *_of_queue(fleet), *_of_paces(fleet)]


def _of_workers(fleet: Fleet) -> Iterator[Metric]:
    yield _gauge("seen_timestamp_seconds", "When these figures of the fleet were taken.", {(): fleet.at.timestamp()})
    yield _gauge("workers", "Worker processes that live.", {(): fleet.alive})
    told = "Ledgers that were taken over from a process that had fallen silent."
    taken = CounterMetricFamily("loadsheet_fleet_takeovers", told)
    taken.add_metric((), fleet.takeovers_ever)
    yield taken


def _of_queue(fleet: Fleet) -> Iterator[Metric]:
    depth: dict[tuple[str, ...], float] = {}
    for one in fleet.queue:
        depth[one.shipper, one.reason, "waiting"] = one.waiting
        depth[one.shipper, one.reason, "under way"] = one.under_way
    told = "Runs in the queue, by why they are wanted; waiting, or under way."
    yield _gauge("queue", told, depth, "shipper", "reason", "state")
    told = "For how long the oldest in the queue waits (0: nothing does)."
    yield _gauge("oldest_waiting_seconds", told, {(): fleet.oldest_s})


def _of_paces(fleet: Fleet) -> Iterator[Metric]:
    named = {(one.exchange, one.name[:_SHORT]): one for one in fleet.paces}
    leased: dict[tuple[str, ...], float] = {key: one.leased_per_second for key, one in named.items()}
    yield _gauge("leased_rate", "Calls a second that the workers may make together now.", leased, "exchange", "pace")
    allowed: dict[tuple[str, ...], float] = {key: one.per_second for key, one in named.items()}
    yield _gauge("allowed_rate", "Calls a second that the settings allow (0: no limit).", allowed, "exchange", "pace")
    shares: dict[tuple[str, ...], float] = {key: one.share for key, one in named.items()}
    told = "Share of rate and connections that is used since the exchange said that it is too much (1: all)."
    yield _gauge("share", told, shares, "exchange", "pace")


def _gauge(name: str, told: str, values: _Samples, *labels: str) -> Metric:
    metric = GaugeMetricFamily(f"loadsheet_fleet_{name}", told, labels=labels)
    for label_values, value in values.items():
        metric.add_metric(label_values, value)
    return metric


class Live:
    """The figures of the fleet of a shared ledger as they are when somebody asks; none while the database cannot be reached."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._lock = threading.Lock()
        self._taken: tuple[float, Sequence[Metric]] | None = None

    def __call__(self) -> Sequence[Metric]:
        """The figures, a few seconds old at most."""
        with self._lock:
            if self._taken is None or self._clock() - self._taken[0] >= FRESH_S:
                self._taken = (self._clock(), self._now())
            return self._taken[1]

    def _now(self) -> Sequence[Metric]:
        try:
            fleet = fleet_of(self._settings)
        except LedgerError:
            return ()
        return () if fleet is None else figures(fleet)


def write(settings: Settings, say: Callable[[str], None]) -> None:
    """Write the figures of the fleet beside `metrics_file`, if that is set and there is a fleet; what cannot be done is said."""
    if settings.metrics_file is None or not settings.is_shared:
        return
    path = prometheus.file_of(settings.metrics_file, FILE)
    try:
        if fleet := fleet_of(settings):
            prometheus.write(path, figures(fleet))
    except LedgerError as error:
        say(f"loadsheet: the figures of the fleet cannot be taken ({error})")
    except OSError as error:
        say(f"loadsheet: the metrics file {path} cannot be written ({error.strerror})")


@contextmanager
def written(settings: Settings, say: Callable[[str], None], pause_s: float = PAUSE_S) -> Iterator[None]:
    """Write the figures of the fleet again and again while the `with` block lasts. What goes wrong is said when it is another thing than
    before.
    """
    if settings.metrics_file is None or not settings.is_shared:
        yield
        return
    over, said = threading.Event(), [""]

    def say_news(text: str) -> None:
        if text != said[0]:
            said[0] = text
            say(text)

    def keep_writing() -> None:
        write(settings, say_news)
        while not over.wait(pause_s):
            write(settings, say_news)

    writing = threading.Thread(target=keep_writing, name="fleet figures", daemon=True)
    writing.start()
    try:
        yield
    finally:
        over.set()
        writing.join(timeout=1.0)  # one that waits for the database writes a whole file or none

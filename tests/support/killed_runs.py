"""Nights that are killed: six of them, each from a copy of one state, and the laws that must hold when the next runs are over."""

import os
import queue
import re
import shutil
import threading
import time
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from effects import NETWORK, Done, Trap, Workshop
from invariants import Known, check_laws, read_ledger, read_truth

MAPPINGS = Path(__file__).parents[1] / "proofs" / "mappings"
TOKEN = "canary-0b7d2e"
UNDISTURBED = Trap()
RUNS_MAX = 8
PATIENCE_S = 0.5
RESENDS = {
    "LOADSHEET_DISPATCH__CALL_TIMEOUT_S": f"{PATIENCE_S}",
    "LOADSHEET_VERIFICATION__QUIESCE_S": f"{PATIENCE_S}",
    "LOADSHEET_VERIFICATION__STATUS_QUIESCE_S": f"{PATIENCE_S}",
    "LOADSHEET_VERIFICATION__CONFIRM_GAP_S": "0",
    "LOADSHEET_VERIFICATION__CREATE_AFTER_ABSENT": "resend",
    "LOADSHEET_ASSUMPTIONS__CREATE_EXISTING": "reject",
}
ENVIRONMENT = {
    "LOADSHEET_TOKEN": TOKEN,
    "LOADSHEET_DISPATCH__CONNECTIONS": "2",
    "LOADSHEET_ARRIVAL__SETTLE_S": "0",
    "LOADSHEET_READING__PROCESS": "none",  # the reader has proofs of its own, and costs more than the rest of a night
}


def orders(numbers, city="Köln"):
    return "Order,City,Weight\n" + "".join(f"A-{n},{city},{n + 1}\n" for n in numbers)


def keyed(head, lines):
    return "\n".join([head, *lines, ""])


@dataclass(frozen=True)
class Scenario:
    """Files of nights that go well, then those of the night that is killed; `before_it` kills the last good night at a network effect."""

    tonight: dict[str, str]
    nights: list[dict[str, str]] = field(default_factory=list)
    before_it: int = 0
    resends: bool = False  # whatever the protocol may send again is sent again, after a short pause


SCENARIOS = {
    "new orders": Scenario({"orders.csv": orders(range(5))}),
    "dropped again": Scenario(
        {"orders_again.csv": orders(range(6)), "orders_changed.csv": orders(range(2), "Essen")},
        [{"orders.csv": orders(range(4))}],
    ),
    "updates and deletes": Scenario(
        {
            "updates.csv": keyed("Order,City", [f"A-{n},Essen" for n in range(3)]),
            "deletes.csv": keyed("Order", ["A-2", "A-3"]),
        },
        [{"orders.csv": orders(range(4))}],
    ),
    "status batches": Scenario(
        {"events.csv": keyed("Order,Code,At", [f"A-{n % 3},S{n},2026-03-01 {n:02}:00" for n in range(9)])},
        [{"orders.csv": orders(range(3))}],
    ),
    "one file for two mappings": Scenario(
        {"both.csv": keyed("Order,City,Weight,Code,At", [f"B-{n},Köln,1,S{n},2026-03-01 {n:02}:00" for n in range(3)])}
    ),
    "tender with quotes": Scenario(
        {
            "tenders.csv": keyed("Tender,City", ["T-1,Köln", "T-2,Essen"]),
            "quotes.csv": keyed("Tender,Carrier,Rate", ["T-1,C1,100", "T-1,C2,90", "T-2,C1,70"]),
            "confirmations.csv": keyed("Tender,Carrier,Rate,Decision", ["T-1,C2,90,accept", "T-1,C1,100,reject"]),
        }
    ),
    "unknown outcomes": Scenario(
        {"updates.csv": keyed("Order,City", [f"A-{n},Essen" for n in range(4)])},
        [{"orders.csv": orders(range(6))}],
        before_it=9,
    ),
    "sent again": Scenario(
        {
            "orders_more.csv": orders(range(3, 6)),
            "events.csv": keyed("Order,Code,At", [f"A-{n % 3},S{n},2026-03-01 {n:02}:00" for n in range(6)]),
        },
        [{"orders.csv": orders(range(3))}],
        resends=True,
    ),
}


class Night:
    """One copy of a scenario: the shipper's folder and the exchange beside it."""

    def __init__(self, place: Path, *, resends: bool = False) -> None:
        self.place, self.exchange, self.resends = place / "shipper", place / "exchange", resends
        self.environment = {**ENVIRONMENT, **(RESENDS if resends else {})}

    def begin(self, names: Iterable[str]) -> None:
        """An empty inbox, and the mappings that files of these names need."""
        for folder in (self.place / "inbox", self.place / "mappings", self.exchange):
            folder.mkdir(parents=True)
        for path in MAPPINGS.glob("*.yaml"):
            pattern = re.search(r'files: \["(.*)"\]', path.read_text(encoding="utf-8"))[1]
            if any(fnmatch(name, pattern) for name in names):
                shutil.copy(path, self.place / "mappings")

    @property
    def dropped(self) -> dict[str, bytes]:
        """The bytes of every file that was ever dropped, wherever it lies now."""
        kept = [path for path in self.place.rglob("*.csv") if "outbox" not in path.parts]
        return {str(path): path.read_bytes() for path in kept}

    def copy(self, place: Path) -> "Night":
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.place.parent, place)
        return Night(place, resends=self.resends)

    def drop(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.place / "inbox" / name).write_text(text, encoding="utf-8")

    def waiting(self) -> list[str]:
        """What shippers have dropped and nobody has taken yet."""
        return sorted(path.name for path in (self.place / "inbox").glob("[!.]*"))

    @contextmanager
    def served(self, shop: Workshop):
        words = ["exchange", "serve", "--port", "0", "--database", "sqlite:///x.db", "--truth", "truth.jsonl"]
        with shop.serving({"words": words, "environment": ENVIRONMENT}, self.exchange) as line:
            yield line.rsplit(" ", 1)[1]

    def run(self, shop: Workshop, url: str, trap: Trap = UNDISTURBED) -> Done:
        task = {"words": ["run", "--exchange", url], "environment": self.environment}
        return shop.do(task, self.place, trap)

    def truth(self):
        return read_truth(self.exchange / "truth.jsonl")

    @property
    def ledger(self) -> Path:
        return self.place / ".loadsheet" / "ledger.db"


def prepare(shop: Workshop, scenario: Scenario, place: Path) -> Night:
    """The state in which the killed night begins, its files dropped."""
    night = Night(place, resends=scenario.resends)
    night.begin([name for files in (*scenario.nights, scenario.tonight) for name in files])
    with night.served(shop) as url:
        for number, files in enumerate(scenario.nights, start=1):
            night.drop(files)
            last = number == len(scenario.nights)
            trap = Trap(scenario.before_it, NETWORK) if scenario.before_it and last else UNDISTURBED
            done = night.run(shop, url, trap)
            assert done.code == (-9 if trap.at else 0), done
    night.drop(scenario.tonight)
    return night


def effects_of(shop: Workshop, prepared: Night, place: Path, kinds: int) -> int:
    """How many effects of these kinds an undisturbed night has."""
    return kill_once(shop, prepared, place, Trap(0, kinds))[0].seen


def try_all(library: Path, prepared: Night, place: Path, all_traps: Iterable[tuple[Trap, ...]]) -> list[Done]:
    """`kill_once` for each group of traps, two at a time; how the trapped runs ended. The first law that is broken names its traps."""
    waiting: queue.SimpleQueue[tuple[Trap, ...]] = queue.SimpleQueue()
    ended: list[Done] = []
    broken: list[tuple[tuple[Trap, ...], BaseException]] = []
    for traps in all_traps:
        waiting.put(traps)

    def work(number: int) -> None:
        with Workshop(library, "forked_command") as shop:
            while not broken:
                try:
                    traps = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    ended.extend(kill_once(shop, prepared, place / f"killed {number}", *traps))
                except BaseException as error:  # noqa: BLE001 (raised again by the thread that waits)
                    broken.append((traps, error))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for traps, error in broken:
        raise AssertionError(f"broken at {traps}") from error
    return ended


def kill_once(
    shop: Workshop, prepared: Night, place: Path, *traps: Trap, looks_again: bool | None = None
) -> list[Done]:
    """Kill tonight's run at each trap in turn, then let a run go well and look at everything; with `looks_again` (None: now and then)
    a further one changes nothing. Returns how the traps went.
    """
    night = prepared.copy(place)
    names = night.waiting()
    before = {file["name"] for file in read_ledger(night.ledger).files} if night.ledger.exists() else set()
    with night.served(shop) as url:
        sprung = [night.run(shop, url, trap) for trap in traps]
        known, truth = _settled(shop, night, url)
        assert not night.waiting()
        assert sorted(file["name"] for file in known.files if file["name"] not in before) == names  # each once
        if (looks_again is None and traps[0].at % 4 == 0) or looks_again:
            again = night.run(shop, url)
            assert again.code in (0, 1), again
            assert read_ledger(night.ledger).states == known.states
            assert night.truth() == truth
    _check_no_token(night)
    return sprung


def _settled(shop: Workshop, night: Night, url: str) -> tuple[Known, list[dict]]:
    """What ledger and truth say when runs change nothing any more: after one, or after a few where things are sent again."""
    states = None
    for _ in range(RUNS_MAX):
        done = night.run(shop, url)
        left_ready = night.resends and done.code == 75 and "became ready after sending had ended" in done.said
        assert done.code in (0, 1) or left_ready, done
        known, truth = read_ledger(night.ledger), night.truth()
        check_laws(known, truth, stopped=night.resends)  # what its last look found to be absent goes with the next run
        if not night.resends or known.states == states:
            check_laws(known, truth)
            return known, truth
        states = known.states
        time.sleep(PATIENCE_S)
    raise AssertionError(f"not settled after {RUNS_MAX} runs: {states}")


def _check_no_token(night: Night) -> None:
    for folder, _, names in os.walk(night.place):
        for name in names:
            assert TOKEN.encode() not in (Path(folder) / name).read_bytes(), name

"""Nights that are killed: six of them, each from a copy of one state, and the laws that must hold when the next runs are over."""

import json
import os
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from effects import NETWORK, Done, Trap, Workshop

MAPPINGS = Path(__file__).parents[1] / "proofs" / "mappings"
TOKEN = "canary-0b7d2e"
UNDISTURBED = Trap()
ENVIRONMENT = {
    "LOADSHEET_TOKEN": TOKEN,
    "LOADSHEET_CONNECTIONS": "2",
    "LOADSHEET_SETTLE_S": "0",
}
CREATES = ("order.create", "tender.create")


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
}


class Night:
    """One copy of a scenario: the shipper's folder and the exchange beside it."""

    def __init__(self, place: Path) -> None:
        self.place, self.exchange = place / "shipper", place / "exchange"

    def begin(self, names: Iterable[str]) -> None:
        """An empty inbox, and the mappings that files of these names need."""
        for folder in (self.place / "inbox", self.place / "mappings", self.exchange):
            folder.mkdir(parents=True)
        for path in MAPPINGS.glob("*.yaml"):
            pattern = re.search(r'files: \["(.*)"\]', path.read_text(encoding="utf-8"))[1]
            if any(fnmatch(name, pattern) for name in names):
                shutil.copy(path, self.place / "mappings")

    environment = ENVIRONMENT

    @property
    def dropped(self) -> dict[str, bytes]:
        """The bytes of every file that was ever dropped, wherever it lies now."""
        kept = [path for path in self.place.rglob("*.csv") if "outbox" not in path.parts]
        return {str(path): path.read_bytes() for path in kept}

    def copy(self, place: Path) -> "Night":
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.place.parent, place)
        return Night(place)

    def drop(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.place / "inbox" / name).write_text(text, encoding="utf-8")

    @contextmanager
    def served(self, shop: Workshop):
        words = ["exchange", "serve", "--port", "0", "--database", "sqlite:///x.db", "--truth", "truth.jsonl"]
        with shop.serving({"words": words, "environment": ENVIRONMENT}, self.exchange) as line:
            yield line.rsplit(" ", 1)[1]

    def run(self, shop: Workshop, url: str, trap: Trap = UNDISTURBED) -> Done:
        task = {"words": ["run", "--exchange", url], "environment": ENVIRONMENT}
        return shop.do(task, self.place, trap)

    def truth(self):
        path = self.exchange / "truth.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def ledger(self):
        with closing(sqlite3.connect(self.place / ".loadsheet" / "ledger.db")) as ledger:
            ledger.row_factory = sqlite3.Row
            assert [tuple(row) for row in ledger.execute("pragma integrity_check")] == [("ok",)]
            assert not ledger.execute("pragma foreign_key_check").fetchall()
            entries = [dict(row) for row in ledger.execute("select * from entries order by id")]
            attempts = [dict(row) for row in ledger.execute("select * from attempts")]
            files = [tuple(row) for row in ledger.execute("select name, sha256, problems from files order by id")]
        return entries, attempts, files


def prepare(shop: Workshop, scenario: Scenario, place: Path) -> Night:
    """The state in which the killed night begins, its files dropped."""
    night = Night(place)
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


def kill_once(shop: Workshop, prepared: Night, place: Path, *traps: Trap) -> list[Done]:
    """Kill tonight's run at each trap in turn, then let two runs go well and look at everything. Returns how the traps went."""
    night = prepared.copy(place)
    names = sorted(path.name for path in (night.place / "inbox").iterdir())
    before = {name for name, *_ in night.ledger()[2]} if (night.place / ".loadsheet/ledger.db").exists() else set()
    with night.served(shop) as url:
        sprung = [night.run(shop, url, trap) for trap in traps]
        done = night.run(shop, url)
        assert done.code in (0, 1), done
        check_laws(night, names, before)
        settled = night.ledger(), night.truth()
        again = night.run(shop, url)
        assert again.code in (0, 1), again
        assert _states(night.ledger()[0]) == _states(settled[0][0])
        assert night.truth() == settled[1]
    return sprung


def _states(entries):
    return [(entry["id"], entry["state"], entry["attempts"]) for entry in entries]


def check_laws(night: Night, names: list[str], before: set[str]) -> None:
    """Nothing lost, nothing doubled but what the ledger names as unknown, and nothing done that was not written down before."""
    entries, attempts, files = night.ledger()
    assert not list((night.place / "inbox").iterdir())
    assert sorted(name for name, *_ in files if name not in before) == names  # each file once, none lost
    by_id = {entry["id"]: entry for entry in entries}
    sent: dict[tuple[str, str], set[int]] = {}
    for attempt in attempts:
        entry = by_id[attempt["entry_id"]]
        sent.setdefault((attempt["request_hash"], entry["key"]), set()).add(entry["id"])
    truth = night.truth()
    effects = Counter((line["operation"], line["key"], line["sha256"]) for line in truth)
    for (operation, key, digest), times in effects.items():
        meant = [by_id[number] for number in sent.get((digest, key), ())]
        assert meant, f"{operation} of {key} happened and was never written down"
        assert {entry["operation"] for entry in meant} == {operation}
        assert {entry["state"] for entry in meant} <= {"accepted", "unknown"}, (operation, key, meant)
        most = len(meant) if all(entry["state"] == "accepted" for entry in meant) else times
        assert times <= most, f"{operation} of {key} happened {times} times"
    created = Counter((line["operation"], line["key"]) for line in truth if line["operation"] in CREATES)
    assert set(created.values()) <= {1}, created
    done = {(key, digest) for _, key, digest in effects}
    for attempt in attempts:
        entry = by_id[attempt["entry_id"]]
        if entry["state"] == "accepted" and not entry["reason"].startswith("already"):
            hashes = {a["request_hash"] for a in attempts if a["entry_id"] == entry["id"]}
            assert any((entry["key"], digest) in done for digest in hashes), entry
    doubtful = {entry["lane"] for entry in entries if entry["state"] == "unknown"}
    waiting = [entry for entry in entries if entry["state"] in ("ready", "sending") and entry["lane"] not in doubtful]
    assert not waiting, _states(entries)
    _check_no_token(night)


def _check_no_token(night: Night) -> None:
    for folder, _, names in os.walk(night.place):
        for name in names:
            assert TOKEN.encode() not in (Path(folder) / name).read_bytes(), name

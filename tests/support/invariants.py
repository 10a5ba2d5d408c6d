"""What must hold whatever happened: the ledger on one side, the exchange's truth log on the other (reliability: invariants)."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from loadsheet.ledger import State

CREATES = ("order.create", "tender.create")
DOUBLED = "L608"  # the problem that names an entry as possibly applied twice


LEDGER_ROWS = ("entries order by id", "attempts order by entry_id, number", "files order by id")


class Known(NamedTuple):
    """What a ledger knows: its entries, attempts and files, oldest first."""

    entries: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    files: list[dict[str, Any]]

    @property
    def states(self) -> list[tuple[int, str, int]]:
        return [(entry["id"], entry["state"], entry["attempts"]) for entry in self.entries]


def read_ledger(path: Path) -> Known:
    """The ledger of a closed or killed process, sound to its last page."""
    with closing(sqlite3.connect(path)) as ledger:
        ledger.row_factory = sqlite3.Row
        assert [tuple(row) for row in ledger.execute("pragma integrity_check")] == [("ok",)]
        assert not ledger.execute("pragma foreign_key_check").fetchall()
        return Known(*([dict(row) for row in ledger.execute(f"select * from {rows}")] for rows in LEDGER_ROWS))


def read_truth(path: Path) -> list[dict[str, Any]]:
    """The lines of a truth log; none if nothing ever happened."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def check_laws(known: Known, truth: list[dict[str, Any]], *, stopped: bool = False) -> None:
    """Nothing lost, nothing doubled but what is named, and nothing done that was not written down before it."""
    by_id = {entry["id"]: entry for entry in known.entries}
    sent: dict[tuple[str, str], set[int]] = {}
    hashes: dict[int, set[str]] = {}
    for attempt in known.attempts:
        sent.setdefault((attempt["request_hash"], by_id[attempt["entry_id"]]["key"]), set()).add(attempt["entry_id"])
        hashes.setdefault(attempt["entry_id"], set()).add(attempt["request_hash"])
    applied: Counter[int] = Counter()
    for line in truth:
        meant = [by_id[number] for number in sorted(sent.get((line["sha256"], line["key"]), ()))]
        assert meant, f"it happened and was never written down: {line}"
        assert {entry["operation"] for entry in meant} == {line["operation"]}, line
        assert all(_may_have_happened(entry) for entry in meant), (line, meant)
        applied[min(meant, key=lambda entry: applied[entry["id"]])["id"]] += 1
    for number, times in applied.items():
        named = by_id[number]["state"] == State.UNKNOWN or DOUBLED in by_id[number]["problems"]
        same_twice = by_id[number]["operation"].endswith((".delete", ".update"))  # makes the same of its record
        assert times == 1 or same_twice or (named and times <= 2), f"it happened {times} times: {by_id[number]}"
    created = Counter(line["key"] for line in truth if line["operation"] in CREATES and line["effect"] == "created")
    deleted = Counter(line["key"] for line in truth if line["operation"].endswith(".delete"))
    assert all(times <= 1 + deleted[key] for key, times in created.items()), created
    for entry in known.entries:
        if entry["state"] == State.ACCEPTED:
            assert applied[entry["id"]] or entry["operation"].endswith((".delete", ".update")), (
                f"accepted without effect: {entry}"
            )
    if not stopped:
        _check_states(known)


def _may_have_happened(entry: dict[str, Any]) -> bool:
    """Whether the ledger allows for an effect: known, in doubt, or to be sent once more and named as maybe doubled."""
    if entry["state"] == State.READY:
        return DOUBLED in entry["problems"]
    return entry["state"] in (State.ACCEPTED, State.UNKNOWN)


def _check_states(known: Known) -> None:
    """Whatever could still be sent waits for an unknown outcome on its lane, or the sending was stopped."""
    doubtful = {entry["lane"] for entry in known.entries if entry["state"] == State.UNKNOWN}
    left = [entry for entry in known.entries if entry["state"] in (State.READY, State.SENDING)]
    assert all(entry["lane"] in doubtful and entry["state"] == State.READY for entry in left), known.states

"""The calls of a run, held against its payloads: the ledger wrote down the SHA-256 of every request body before the first byte left.

Owns: the proof that what was sent is what the payloads say. The bodies of answers are not kept, so that of an answer only what the
ledger made of it (outcome, status, words) can be looked at.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from loadsheet.contract import BY_NAME, Operation
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.run_archive.prior_state import Row, with_events
from loadsheet.run_archive.replay_diff import Different


class Calls:
    """Goes through the attempts of a run. `count` are the attempts whose request was made again."""

    def __init__(self, queries: LedgerQueries, run: int) -> None:
        self._queries, self._run, self.count = queries, run, 0
        self._batches: dict[str, _Batch] = {}

    def check(self, entries: Iterable[Row], attempts: Iterable[Row]) -> Iterator[Different]:
        """The requests that do not follow from the payloads; entries and attempts come ordered by entry."""
        mine = (one for one in attempts if one["run_id"] == self._run)
        for entry, tried in with_events(entries, mine):
            if not tried or entry["removed"]:
                continue
            self.count += len(tried)
            operation = BY_NAME[entry["operation"]]
            for digest in dict.fromkeys(one["request_hash"] for one in tried):
                if operation.batched:
                    self._batches.setdefault(digest, _Batch(operation, array("q"))).entries.append(entry["id"])
                elif digest != hashlib.sha256(operation.body([entry["payload"]])).hexdigest():
                    yield _different(f"{entry['operation']} {entry['key']}", digest)
        for digest, batch in self._batches.items():
            payloads = [one.payload for one in self._queries.entries_by_id(batch.entries.tolist())]
            if digest != hashlib.sha256(batch.operation.body(payloads)).hexdigest():
                yield _different(f"{batch.operation.name} of {len(payloads)} records", digest)


class _Batch(NamedTuple):
    operation: Operation
    entries: "array[int]"


def _different(of: str, digest: str) -> Different:
    return Different(of, "request", f"SHA-256 {digest[:12]}", "another one: it was not made of these payloads")

"""Builds calls from ready entries and keeps the order per key. Pure.

Entries of one lane (the key of an order or tender) are in one call at a time, and none overtakes another. The ledger
leaves out lanes with a sending or unknown entry. This module leaves out entries that would follow within one query.
"""

import sys
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from loadsheet.contract import BY_NAME, Operation
from loadsheet.ledger import Submission

_ENVELOPE_BYTES = 64  # at most, around the records of a batch
_ANY_SIZE: Mapping[int, int] = MappingProxyType({})


class Call(NamedTuple):
    """One call: its operation, the entries it carries in the order of the body, and the body."""

    operation: Operation
    submissions: tuple[Submission, ...]
    body: bytes

    @property
    def keys(self) -> list[str]:
        """The business keys of its records."""
        return [submission.key for submission in self.submissions]


def build_calls(
    ready: Sequence[Submission],
    batch_max: int,
    sizes: Mapping[int, int] = _ANY_SIZE,
    apart: Container[int] = (),
    bytes_max: int = sys.maxsize,
) -> list[Call]:
    """Build calls for ready entries, oldest first. No two calls share a lane, so they may leave at the same time.

    Entries of batched operations share calls, up to `batch_max` or the smaller number in their mapping and up to a body of
    `bytes_max` bytes, several of one lane in order. No entry waits for a batch to fill. `sizes` limits the batch size by
    entry id (1: alone). Drops in `apart` share no call with others. An entry that would overtake another of its lane is left
    for the next query.
    """
    groups: list[list[Submission]] = []
    growing: dict[tuple[str, int, int], list[Submission]] = {}  # open batches by what their entries share
    filled: dict[tuple[str, int, int], int] = {}  # the bytes of their records
    lanes: dict[str, list[Submission] | None] = {}  # the call of each lane; None: the lane waits
    for submission in ready:
        if BY_NAME[submission.operation].batched:
            size = min(batch_max, submission.batch_size or batch_max, sizes.get(submission.id, batch_max))
            sort = submission.operation, size, submission.drop if submission.drop in apart else 0
            batch = growing.get(sort)
            length = filled.get(sort, 0) + len(submission.payload) + 1
            if batch is None or len(batch) >= size or length + _ENVELOPE_BYTES > bytes_max:
                batch, length = [], len(submission.payload) + 1
            if lanes.get(submission.lane, batch) is not batch:
                lanes[submission.lane] = None
                continue
            filled[sort] = length
            if not batch:
                growing[sort] = batch
                groups.append(batch)
        elif submission.lane in lanes:
            lanes[submission.lane] = None
            continue
        else:
            batch = []
            groups.append(batch)
        batch.append(submission)
        lanes[submission.lane] = batch
    return [_call(group) for group in groups]


def _call(group: Sequence[Submission]) -> Call:
    operation = BY_NAME[group[0].operation]
    return Call(operation, tuple(group), operation.body([submission.payload for submission in group]))

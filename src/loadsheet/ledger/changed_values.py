"""The values in which two versions of a record differ: kept field by field in the problem that holds one of them.

Owns: the names under which a problem keeps them. Old ledgers have only a text with all of them.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from loadsheet.contract import BY_NAME, Difference, decode_record, different_fields
from loadsheet.problems import Problem

OTHER_VERSION = frozenset({"L601", "L605"})
"""The problems of a record of which another version came before."""

FIELDS = "fields"
"""The value of such a problem with all differences in one text, for operators."""

_MORE = "more"
_SHOWN = 5
_LENGTH_MAX = 60


class ChangedValue(NamedTuple):
    """A field that changed: its payload path, and both values as texts (empty: no value). None if they are too long to show."""

    path: str
    old: str | None
    new: str | None


def changes_to_keep(operation: str, before: bytes, after: bytes, ordered: Collection[str]) -> dict[str, Any]:
    """The values of a problem that keep the differences of two JSON records of an operation; none if the earlier contents were removed."""
    if not before:
        return {}
    old, new, record = decode_record(before), decode_record(after), BY_NAME[operation].record
    left_out = (one for one in different_fields(record, old, new, ordered=ordered) if not one.held)
    changed = {one.path: one for one in different_fields(record, new, old, ordered=ordered)}
    found = [*changed.values(), *(Difference(one.path, "", one.sent) for one in left_out if one.path not in changed)]
    kept: dict[str, Any] = {_MORE: len(found) - _SHOWN} if len(found) > _SHOWN else {}
    for number, one in enumerate(found[:_SHOWN], start=1):
        kept[f"path {number}"] = one.path
        if max(len(one.sent), len(one.held)) <= _LENGTH_MAX:
            kept |= {f"old {number}": one.held, f"new {number}": one.sent}
    return kept


def kept_changes(problem: Problem) -> list[ChangedValue]:
    """The differences that a problem keeps field by field; none in old ledgers."""
    values = problem.values
    paths = [values.get(f"path {number}") for number in range(1, _SHOWN + 1)]
    return [
        ChangedValue(path, values.get(f"old {number}"), values.get(f"new {number}"))
        for number, path in enumerate(paths, start=1)
        if path is not None
    ]


def further_changes(problem: Problem) -> int:
    """How many more fields changed than the problem keeps."""
    return problem.number(_MORE)

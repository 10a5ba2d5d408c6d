"""What differs between two sets of documents, field by field: two versions of a mapping over the same files, or a golden case.

Owns: the pairing of documents, the verdicts, and payloads laid flat as paths. Numbers are compared as they are written on the
wire (`12.50` is not `12.5`), because that is what the exchange gets. Knows no file and no mapping.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from loadsheet.mapping.documents import Document

_DECODE = msgspec.json.Decoder(float_hook=Decimal).decode
_WRITE = msgspec.json.Encoder(decimal_format="number").encode


class Verdict(StrEnum):
    """What became of a document from the old to the new."""

    IDENTICAL = "identical"
    CHANGED = "changed"
    NOW_FAILING = "now failing"
    NOW_PASSING = "now passing"
    STILL_FAILING = "still failing"
    ONLY_OLD = "only in the old"
    ONLY_NEW = "only in the new"


HARMLESS = frozenset({Verdict.IDENTICAL, Verdict.STILL_FAILING})


class Change(NamedTuple):
    """A payload path with its old and its new value as JSON; an empty text where the path is missing."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A document before and after: its verdict, the fields that differ, and the problems of the side that fails."""

    operation: str
    key: str
    verdict: Verdict
    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class Comparison:
    """Every pair that is not identical, the count of each verdict, and how many documents differ in each field."""

    pairs: list[Pair] = field(default_factory=list)
    counts: Counter[Verdict] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)

    @property
    def same(self) -> bool:
        """Whether every document is what it was: sent with the same payload, or refused before and after."""
        return set(self.counts) <= HARMLESS

    def add(self, pair: Pair) -> None:
        """Count a pair; identical ones are not kept."""
        self.counts[pair.verdict] += 1
        self.fields.update({pattern(change.path) for change in pair.changes})
        if pair.verdict is not Verdict.IDENTICAL:
            self.pairs.append(pair)


def compare(old: Iterable[Document], new: Iterable[Document]) -> Comparison:
    """Old against new. Documents are paired by operation and key; of several with one key the first with the first, and so on."""
    waiting: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for document in old:
        waiting[document.operation, document.key].append(document)
    found = Comparison()
    for document in new:
        partners = waiting[document.operation, document.key]
        found.add(_pair(partners.pop(0) if partners else None, document))
    for left in waiting.values():
        for document in left:
            found.add(_pair(document, None))
    return found


def sent(document: Document) -> bytes:
    """What a document sends; one that would be an update where the record exists already shows that payload as well."""
    if document.instead is None:
        return document.payload
    instead = {"operation": document.instead.operation, "payload": msgspec.Raw(document.instead.payload)}
    return _WRITE({"payload": msgspec.Raw(document.payload), "instead": instead})


def flat(payload: bytes) -> dict[str, str]:
    """A payload as paths (`packages[0].weight`) with their values as JSON; empty lists and objects stand as such."""
    return dict(_leaves(_DECODE(payload), "")) if payload else {}


def changes(old: bytes, new: bytes) -> tuple[Change, ...]:
    """The paths in which two payloads differ, in the order of the old one, then what only the new one has."""
    before, after = flat(old), flat(new)
    paths = [*before, *(path for path in after if path not in before)]
    return tuple(
        Change(path, before.get(path, ""), after.get(path, "")) for path in paths if before.get(path) != after.get(path)
    )


def pattern(path: str) -> str:
    """A path without the positions in its lists: `packages[1].weight` is `packages[].weight`."""
    head, *rest = path.split("[")
    return head + "".join(f"[{part[part.index(']') :]}" for part in rest)


def _pair(old: Document | None, new: Document | None) -> Pair:
    one = new or old
    if one is None:
        raise ValueError("a pair needs a document")
    if old is None or new is None:
        return Pair(one.operation, one.key, Verdict.ONLY_NEW if old is None else Verdict.ONLY_OLD)
    if old.usable and new.usable:
        found = changes(sent(old), sent(new))
        return Pair(new.operation, new.key, Verdict.CHANGED if found else Verdict.IDENTICAL, found)
    if old.usable or new.usable:
        failing = new if old.usable else old
        verdict = Verdict.NOW_FAILING if old.usable else Verdict.NOW_PASSING
        return Pair(new.operation, new.key, verdict, problems=_said(failing))
    return Pair(new.operation, new.key, Verdict.STILL_FAILING, problems=_said(new))


def _said(document: Document) -> tuple[str, ...]:
    return tuple(str(problem) for problem in document.problems if problem.level == "error")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for position, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{position}]")
    else:
        yield path, _WRITE(value).decode()

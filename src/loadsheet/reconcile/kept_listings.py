"""What a look at the listings showed of a run's entries, kept in a few bytes each, so that the run can be told again as it was.

Owns: the form in which it is kept. A listing itself is not: what it showed as it was sent is told with the ledger's own payload, and
of all else only what differed stays. Knows no rule: what follows from what was seen is for `legs` and `settling` to say.
"""

import zlib
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

import msgspec

from loadsheet.contract import BY_NAME, figures_only, measures_of
from loadsheet.ledger import Entry, MissingRecords, Run
from loadsheet.reconcile.verdicts import Leg, OnlyListed

VERSION = 1
CONTENTS_BYTES_MAX = 33_554_432
"""So much of differing contents is kept; of what would go beyond it nothing is known later."""

_ABSENT, _AS_SENT, _OTHERWISE, _TWICE = range(4)

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


class _Kept(msgspec.Struct, array_like=True):
    version: int
    steps: list[int]
    codes: bytes
    contents: dict[int, bytes]
    legs: tuple[Leg, ...]
    only_listed: tuple[OnlyListed, ...]
    remarks: tuple[str, ...]
    forecast: str
    inbox: dict[str, Any] = {}
    missing_records: dict[int, MissingRecords] = {}


class Keeping:
    """Gathers what is seen of entries while they are judged: nine bytes an entry, and the contents that differ."""

    def __init__(self) -> None:
        self._entries, self._codes = array("q"), bytearray()
        self._contents: dict[int, bytes] = {}
        self._room = CONTENTS_BYTES_MAX

    def add(self, entry: Entry, times: int, otherwise: Collection[str], listed: Mapping[str, Any] | None) -> None:
        """Keep that an entry's record was listed so many times; `listed` is the record if it was compared with what was sent, and
        `otherwise` are the fields in which it was not the same.
        """
        code = (_ABSENT, _AS_SENT)[times] if times < 2 else _TWICE  # noqa: PLR2004 (none, one, more)
        if listed is not None and otherwise:
            content = _encode({name: listed.get(name) for name in otherwise})
            self._room -= len(content)
            if self._room < 0:
                return
            code, self._contents[entry.id] = _OTHERWISE, content
        self._entries.append(entry.id)
        self._codes.append(code)

    def pack(
        self,
        legs: Sequence[Leg],
        only_listed: Sequence[OnlyListed],
        remarks: Sequence[str],
        forecast: str,
        *,
        inbox: Mapping[str, Any] = MappingProxyType({}),
        missing_records: Mapping[int, MissingRecords] = MappingProxyType({}),
    ) -> bytes:
        """All of it, with what else the run said of the exchange, of the inbox (JSON values) and of missing records, for the ledger to keep."""
        steps = [after - before for before, after in pairwise([0, *self._entries])]
        told = (tuple(legs), tuple(only_listed), tuple(remarks), forecast, dict(inbox), dict(missing_records))
        return zlib.compress(msgspec.msgpack.encode(_Kept(VERSION, steps, bytes(self._codes), self._contents, *told)))


def abridged(shown: bytes, operations: Mapping[int, str]) -> tuple[bytes, bool]:
    """What a look showed without the contents of these entries (given with their operations), but for what totals need of them; and
    whether contents of others are left in it. What nobody can read comes back as it is.
    """
    kept = _read(shown)
    if kept is None:
        return shown, False
    for entry in kept.contents.keys() & operations.keys():
        figures = figures_only(measures_of(BY_NAME[operations[entry]]), _decode(kept.contents[entry]))
        kept.contents[entry] = _encode(figures)
    left = bool(kept.contents.keys() - operations.keys())
    return zlib.compress(msgspec.msgpack.encode(kept)), left


def entries_with_contents(shown: bytes) -> list[int]:
    """The entries of which a look keeps contents that differed."""
    kept = _read(shown)
    return sorted(kept.contents) if kept is not None else []


class _Look:
    """What one run saw; of an entry that changed since then it says nothing."""

    def __init__(self, kept: _Kept, until: str) -> None:
        self.kept, self._until = kept, until
        self.legs = {leg.subject: leg for leg in kept.legs}
        self._codes = dict(zip(accumulate(kept.steps), kept.codes, strict=True))

    def code(self, entry: Entry) -> int | None:
        return self._codes.get(entry.id) if entry.changed_at <= self._until else None


class Recalled:
    """What the looks of earlier runs showed, in the place of listings. Of each entry the latest look counts that saw it as it is
    now; what was not seen is not verifiable.
    """

    def __init__(self, looks: Sequence[tuple[Run, bytes]]) -> None:
        """`looks` are runs with what the ledger kept of them (empty: nothing), oldest first. What a newer program kept in another
        form, or nobody can read, is as if it had not been kept.
        """
        read = ((run, _read(shown)) for run, shown in reversed(looks))
        self._looks = [_Look(kept, run.finished_at) for run, kept in read if kept is not None]
        self.legs = {operation.subject: self._leg(operation.subject) for operation in BY_NAME.values()}
        self.only_listed = tuple(sorted(self._strangers(), key=lambda one: f"{one.subject}:{one.key}"))
        self.remarks = self._looks[0].kept.remarks if self._looks else ()
        self.forecast = self._looks[0].kept.forecast if self._looks else ""
        self.inbox = self._looks[0].kept.inbox if self._looks else {}
        self.missing_records = {
            drop: missing for look in self._looks for drop, missing in look.kept.missing_records.items()
        }

    def leg_of(self, entry: Entry) -> Leg:
        """How much was seen of the records among which that of an entry should be."""
        subject = BY_NAME[entry.operation].subject
        look = self._look(entry)
        return look.legs.get(subject, Leg(subject, read=False)) if look else Leg(subject, read=False)

    def find(self, entries: Sequence[Entry]) -> list[range]:
        """For each entry as many places as its record was listed times."""
        looks = ((entry, self._look(entry)) for entry in entries)
        codes = (look.code(entry) if look else None for entry, look in looks)
        return [
            range({_AS_SENT: 1, _OTHERWISE: 1, _TWICE: 2}.get(_ABSENT if code is None else code, 0)) for code in codes
        ]

    def record(self, entry: Entry, found: range) -> dict[str, Any]:  # noqa: ARG002 (what is listed needs the place)
        """The record of an entry as it was listed, as far as it was compared."""
        look = self._look(entry)
        shown = look.kept.contents.get(entry.id, b"{}") if look else b"{}"
        return {**_decode(entry.payload or entry.figures or b"{}"), **_decode(shown)}

    def is_otherwise(self, entry: Entry) -> bool:
        """Whether the record of an entry was listed with other contents than were sent, which may not be kept any more."""
        look = self._look(entry)
        return look is not None and look.code(entry) == _OTHERWISE

    def claim(self, found: range) -> None:
        """Nothing is to be claimed: the records that nothing accounts for are known."""

    def _look(self, entry: Entry) -> _Look | None:
        return next((look for look in self._looks if look.code(entry) is not None), None)

    def _leg(self, subject: str) -> Leg:
        told = (look.legs[subject] for look in self._looks if subject in look.legs)
        return next((leg for leg in told if leg.read), Leg(subject, read=False))

    def _strangers(self) -> Iterator[OnlyListed]:
        """Of each subject what the latest look at it showed."""
        for subject in self.legs:
            look = next((one for one in self._looks if subject in one.legs and one.legs[subject].read), None)
            yield from (one for one in look.kept.only_listed if one.subject == subject) if look else ()


def _read(shown: bytes) -> _Kept | None:
    try:
        version, *_ = told = msgspec.msgpack.decode(zlib.decompress(shown), type=list[Any])
        return msgspec.convert(told, _Kept) if version == VERSION else None
    except (zlib.error, msgspec.MsgspecError, ValueError):
        return None

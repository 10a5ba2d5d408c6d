"""The verdicts on all entries of a run, 20 bytes each. Field differences, which few entries have, go to a file once they are many."""

import tempfile
import weakref
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Mapping

import msgspec

from loadsheet.contract import BY_NAME, Difference
from loadsheet.ledger import State
from loadsheet.reconcile.verdicts import Match, Verdict

_IN_MEMORY_BYTES_MAX = 4_194_304
_NOTHING_FOUND = -1
_LENGTH_BYTES = 4

_VERDICTS, _STATES, _OPERATIONS = tuple(Verdict), tuple(State), tuple(BY_NAME)
_VERDICT_CODES = {verdict.value: code for code, verdict in enumerate(_VERDICTS)}
_STATE_CODES = {state.value: code for code, state in enumerate(_STATES)}
_OPERATION_CODES = {name: code for code, name in enumerate(_OPERATIONS)}

_Found = tuple[tuple[Difference, ...], tuple[Difference, ...]]
_read_found = msgspec.msgpack.Decoder(_Found).decode


class Matches(Mapping[int, Match]):
    """One match for each entry, by entry, in the order in which they were added. Looked up fastest in that order."""

    def __init__(self) -> None:
        self._entries, self._found = array("q"), array("q")
        self._codes = (bytearray(), bytearray(), bytearray())
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES_MAX)  # noqa: SIM115 (closed when this goes)
        self._end = 0
        self._ascending = True
        self._next = 0
        weakref.finalize(self, self._file.close)

    def add(self, match: Match) -> None:
        """Keep a match."""
        self._ascending = self._ascending and (not self._entries or self._entries[-1] < match.entry)
        self._entries.append(match.entry)
        verdicts, states, operations = self._codes
        verdicts.append(_VERDICT_CODES[match.verdict])
        states.append(_STATE_CODES[match.state])
        operations.append(_OPERATION_CODES[match.operation])
        found = _NOTHING_FOUND
        if match.differences or match.tolerated:
            found = self._end
            self._file.seek(found)
            self._end += self._file.write(_packed(match))
        self._found.append(found)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def __getitem__(self, entry: int) -> Match:
        position = self._position(entry)
        self._next = position + 1
        verdict, state, operation = (codes[position] for codes in self._codes)
        found = self._found[position]
        differences, tolerated = self._read(found) if found != _NOTHING_FOUND else ((), ())
        return Match(entry, _OPERATIONS[operation], _STATES[state], _VERDICTS[verdict], differences, tolerated)

    def having(self, verdicts: Container[Verdict]) -> Iterator[int]:
        """The entries with one of these verdicts."""
        wanted = bytes(code for code, verdict in enumerate(_VERDICTS) if verdict in verdicts)
        codes = self._codes[0]
        return (entry for entry, code in zip(self._entries, codes, strict=True) if code in wanted)

    def verdicts(self) -> Counter[Verdict]:
        """How many entries have each verdict."""
        return Counter({_VERDICTS[code]: count for code, count in Counter(self._codes[0]).items()})

    def of_operations(self) -> Counter[tuple[str, Verdict]]:
        """How many entries of each operation have each verdict."""
        verdicts, _, operations = self._codes
        counted = Counter(zip(operations, verdicts, strict=True))
        return Counter({(_OPERATIONS[one], _VERDICTS[code]): count for (one, code), count in counted.items()})

    def states(self) -> Counter[State]:
        """How many entries are in each state."""
        return Counter({_STATES[code]: count for code, count in Counter(self._codes[1]).items()})

    def _position(self, entry: int) -> int:
        entries, position = self._entries, self._next
        if position < len(entries) and entries[position] == entry:
            return position
        if self._ascending:
            position = bisect_left(entries, entry)
            if position < len(entries) and entries[position] == entry:
                return position
            raise KeyError(entry)
        try:
            return entries.index(entry)
        except ValueError:
            raise KeyError(entry) from None

    def _read(self, begins: int) -> _Found:
        self._file.seek(begins)
        found: _Found = _read_found(self._file.read(int.from_bytes(self._file.read(_LENGTH_BYTES), "big")))
        return found


def _packed(match: Match) -> bytes:
    found = msgspec.msgpack.encode((match.differences, match.tolerated))
    return len(found).to_bytes(_LENGTH_BYTES, "big") + found

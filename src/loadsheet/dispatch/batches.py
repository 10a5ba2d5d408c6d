"""Whom a refusal of a batch means: `data[<index>]` counted from 0 or from 1, as far as the answer itself proves it. Pure.

Owns: the proof. The interface says neither from where the index counts nor whether the records that are not named were applied
(interface: Errors, Order status update); a guess would blame a record that is innocent and lose another one's event.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from loadsheet.contract import Fault

Breaks = Callable[[int, str], bool]  # whether the field at a path of the record at a position breaks our own rules

BASES = (0, 1)


class Blamed(NamedTuple):
    """The faults of each record that may be meant, by its position from 0. `proved`: each of them is meant; else, of a record and
    its neighbour, one.
    """

    faults: dict[int, list[Fault]]
    proved: bool


def blamed(faults: Sequence[Fault], count: int, base: int | None, breaks: Breaks) -> Blamed | None:
    """Whom these faults of a batch of `count` records mean; None if at least one of them names no record of it.

    `base` is where the index counts from, if that is known; else index 0 proves 0 and index `count` proves 1, and if neither is
    there it is proved by a field that breaks our own rules in the one record and not in the other.
    """
    if not faults or any(fault.index is None for fault in faults):
        return None
    bases = [one for one in (BASES if base is None else (base,)) if _inside(faults, count, one)]
    if len(bases) > 1:
        shown = [one for one in bases if _shown(faults, one, breaks)]
        bases = shown if len(shown) == 1 else bases
    if not bases:
        return None
    found: dict[int, list[Fault]] = {}
    for one in bases:
        for fault in faults:
            found.setdefault(_position(fault, one), []).append(fault)
    return Blamed(found, proved=len(bases) == 1)


def _inside(faults: Sequence[Fault], count: int, base: int) -> bool:
    return all(0 <= _position(fault, base) < count for fault in faults)


def _shown(faults: Sequence[Fault], base: int, breaks: Breaks) -> bool:
    return any(breaks(_position(fault, base), fault.path) for fault in faults)


def _position(fault: Fault, base: int) -> int:
    return (fault.index or 0) - base

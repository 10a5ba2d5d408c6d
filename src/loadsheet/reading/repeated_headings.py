"""Headings that repeat, such as Item, Qty, Item, Qty: whether a header repeats them as the mapping says. Pure.

A column that was inserted or removed would shift values into the field of another column. So such a header refuses the file.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from loadsheet.problems import FileRefused, Problem, Where, column_letters
from loadsheet.reading.tables import WantedColumn, numbered

_NUMBER = re.compile(r"\(([0-9]+)\)\W*$")
_HINT = "remove the column that was inserted, or restore the missing one"


class Repeats(NamedTuple):
    """One way to read the labels of a header: the labels by position, and all positions of the columns whose label repeats."""

    labels: Sequence[str]
    places: Mapping[str, tuple[int, ...]]


def best_readings(
    columns: Iterable[WantedColumn], readings: Iterable[Repeats], taken: Container[int]
) -> Iterator[tuple[WantedColumn, Repeats]]:
    """Each column whose label repeats, with the reading that finds it as often as the mapping expects, else the strictest that finds it.
    `readings` begin with the strictest one; other columns have the positions in `taken`.
    """
    free = [Repeats(labels, _without(taken, places)) for labels, places in readings]
    for column in columns:
        found = [reading for reading in free if column.name in reading.places]
        fitting = [reading for reading in found if _is_expected(column, reading.places)]
        if found:
            yield column, max(fitting or found[:1], key=lambda one: len(one.places[column.name]))


def _without(taken: Container[int], places: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    free = {name: tuple(place for place in own if place not in taken) for name, own in places.items()}
    return {name: own for name, own in free.items() if own}


def _is_expected(column: WantedColumn, places: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the label of a column repeats as often as the mapping says; that of a set as often as the others of its sets."""
    if not column.in_set:
        return len(places[column.name]) == column.count
    return len({len(own) for name, own in places.items() if "#" in name and _table(name) == _table(column.name)}) == 1


def check_repeats(
    columns: Sequence[WantedColumn],
    places: Mapping[str, tuple[int, ...]],
    texts: Sequence[str],
    at: Callable[[int], Where],
) -> None:
    """Raises FileRefused unless the labels of these columns repeat as often and in the order that the mapping says. `places` are all
    positions of each column's label, `texts` the cells of the header, and `at` gives the cell at a position.
    """
    sets: dict[str, dict[str, tuple[int, ...]]] = {}
    for column in (column for column in columns if column.occurrence):
        found, label = places.get(column.name, ()), column.labels[0]
        if len(found) > column.count or (len(found) < column.count and not column.in_set):
            raise _refused(label, found, f"{'at most ' if column.in_set else ''}{column.count} times", at)
        numbers = [_number(texts[position]) if position < len(texts) else 0 for position in found]
        if not any(map(_number, column.labels)) and any(
            number not in (0, place) for place, number in enumerate(numbers, 1)
        ):
            order = ", ".join(numbered(label, place) for place in range(1, len(found) + 1))
            raise _refused(label, found, f"in the order {order}", at)
        if column.in_set and found:
            sets.setdefault(_table(column.name), {})[label] = found
    for labels in sets.values():
        _check_order(labels, texts, at)


def _table(name: str) -> str:
    """The table of a column of sets; empty if the layout has no other table."""
    return name.rpartition(".")[0]


def _check_order(labels: Mapping[str, tuple[int, ...]], texts: Sequence[str], at: Callable[[int], Where]) -> None:
    """Raises FileRefused unless the labels of the sets of one table repeat in the order of the first set, each once in every set."""
    found = sorted((position, label) for label, positions in labels.items() for position in positions)
    order = list(dict.fromkeys(label for _, label in found))
    beyond = (found[-1][0] + 1, "")
    for index, (position, label) in enumerate([*found, beyond] if len(found) % len(order) else found):
        wanted = order[index % len(order)]
        if label != wanted:
            values = {"number": index // len(order) + 1, "order": ", ".join(order), "label": wanted}
            values["at"] = column_letters(position)
            text = texts[position] if position < len(texts) else ""
            raise FileRefused(Problem("R244", at(position), text, values, _HINT))


def _number(label: str) -> int:
    """The number at the end of a label such as `Item (2)`; 0 without one."""
    found = _NUMBER.search(label)
    return int(found[1]) if found else 0


def _refused(label: str, found: Sequence[int], expected: str, at: Callable[[int], Where]) -> FileRefused:
    values = {"label": label, "expected": expected, "columns": ", ".join(map(column_letters, found)) or "none"}
    return FileRefused(Problem("R243", at(found[-1] if found else -1), "", values, _HINT))

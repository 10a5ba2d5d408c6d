"""The rows of a document as people write them: `orders.xlsx Sheet1` and `3, 5-7`."""

from collections.abc import Iterable, Mapping, Sequence

from loadsheet.ledger import SourceTable
from loadsheet.mapping.documents import SourceRow


def rows_by_place(rows: Iterable[SourceRow], tables: Mapping[str, SourceTable]) -> dict[str, str]:
    """For each file and sheet that a document has rows in the numbers of those rows, runs of them shortened."""
    by_table: dict[str, list[int]] = {}
    for row in rows:
        mine = by_table.get(row.table)
        if mine is None:
            by_table[row.table] = [row.number]
        else:
            mine.append(row.number)
    numbers: dict[str, list[int]] = {}
    for name, mine in by_table.items():
        place = f"{tables[name].file} {tables[name].sheet}".strip()
        numbers[place] = numbers[place] + mine if place in numbers else mine
    return {place: _ranges(sorted(found)) for place, found in numbers.items()}


def _ranges(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return str(first)
    if numbers == list(range(first, last + 1)):
        return f"{first}-{last}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number <= runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

"""Totals of a record over its rows, and the amounts of a line: numbers of packages, weights, volumes, and the value of the goods.

Owns: whether an amount is that of a piece or of a whole line, and what a blank one means; each guess is marked CHECK. Fields are identified by
their meaning in the contract.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice, pairwise

from loadsheet.contract import FieldKind
from loadsheet.mapping.plans import CellProblem
from loadsheet.mapping_tools.columns import CHECK, MOMENTS, NUMBERS, Column
from loadsheet.mapping_tools.drafts import Draft, DraftColumn, DraftTable
from loadsheet.mapping_tools.headings import MEASURES, SIDES_OF_BOX, concepts_of
from loadsheet.mapping_tools.notation_guesses import number_of, reader_of_numbers
from loadsheet.reading import Native, fold_label

_Pair = tuple[tuple[float, float], tuple[float, float]]

_ROAD_FACTOR = 333  # kg per cubic metre in road freight
_COMPARED = 500  # rows
_PAIRS_LEAST = 3  # pairs of rows that decide
_CLEAR = 0.8  # share of pairs
_NEAR = 0.02  # of amounts that are rounded
_FREIGHT = re.compile(
    "fracht|freight|frete|flete|fret|vracht|transport|shipping|versand|envio|delivery|doprav|przewoz|navlun|nakliye"
)


class Totals:
    """The totals of a draft's records. `lines` is the table whose rows are the packages (`is_one_row`: each is a record), `by_concept` has its columns of amounts, and `volume` is
    the expression for the cubic metres of one piece by its sides; empty if there is none.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.lines = draft.tables[-1]
        self.is_one_row = not draft.group and not draft.is_joined
        kinds = dict(draft.operation.record.walk())
        self.by_concept: dict[str, DraftColumn] = {
            concept: drafted
            for path, drafted in draft.by_path.items()
            if path.count("[]") == 1 and drafted.table is self.lines
            for concept in (*MEASURES, "quantity")
            if concept in concepts_of(kinds[path]) and kinds[path].kind is FieldKind.NUMERIC
        }
        self.volume = self._volume_of_piece()

    def _volume_of_piece(self) -> str:
        sides = [self.by_concept.get(side) for side in SIDES_OF_BOX]
        if "volume" in {drafted.name for drafted in self.lines.columns} | self.by_concept.keys() or None in sides:
            return ""
        factors = [f"({side.name} ?? 0)" if side.nullable else side.name for side in sides if side is not None]
        return f"{' * '.join(factors)} / 1000000"

    def leaf(self, concepts: frozenset[str]) -> tuple[str, str] | None:
        """A total over the rows of the record, times the quantity of each row if there is one."""
        lines, quantity = self.lines.name, self.by_concept.get("quantity")
        if "package" in concepts:
            return self._packages(lines, quantity)
        weight, volume = self._sum("weight"), self._sum("volume")
        remark = self._times(weight, "weight") if concepts & {"weight", "chargeable"} else self._times(volume, "volume")
        if "chargeable" in concepts:
            return self._chargeable(weight, volume, remark)
        if "weight" in concepts and weight:
            return f"{{expr: '{weight}', round: 3}}", remark
        return (f"{{expr: '{volume}', round: 4}}", remark) if "volume" in concepts and volume else None

    def _chargeable(self, weight: str, volume: str, remark: str) -> tuple[str, str] | None:
        """The chargeable weight: the larger one of the weight and that of the volume, else the weight."""
        remarks = [f"{CHECK}: no column has it; sent as the weight"]
        whole, leaf = self.top_column("weight"), ""
        if weight and volume:
            remarks = [f"{CHECK}: 1 cubic metre counts as {_ROAD_FACTOR} kg", remark]
            leaf = f"{{expr: '$max([{weight}, {volume} * {_ROAD_FACTOR}])', round: 3}}"
        elif whole is not None and self._draft.varies(whole):
            leaf = f"{{expr: '$sum([r.{name_with_default(whole)} for r in {whole.table.name}])', round: 3}}"
        elif whole is not None and not whole.nullable:
            leaf = f"{{col: {self._draft.ref(whole)}{round_converted(whole)}}}"
        elif weight:
            remarks.append(remark)
            leaf = f"{{expr: '{weight}', round: 3}}"
        return (leaf, "; ".join(filter(None, remarks))) if leaf else None

    def _times(self, total: str, concept: str) -> str:
        """A comment on a total: the doubt about its amount, and whether each amount counts once for each piece."""
        drafted, quantity = self.by_concept.get(concept), self._pieces(concept)
        path = next((path for path, found in self._draft.by_path.items() if found is drafted), "")
        if quantity is None or " * r." not in total:
            return self._draft.doubted(path, "")
        label = drafted.column.label if drafted is not None else f"the {concept}"
        remark = f"{CHECK}: {label} counts as of one piece and is multiplied by {quantity.column.label}; is it of the whole line?"
        return self._draft.doubted(path, remark)

    def _pieces(self, concept: str) -> DraftColumn | None:
        """The column with the number of pieces that an amount counts for. A volume by sides is that of each package of a row."""
        is_by_sides = concept == "volume" and concept not in self.by_concept
        packages = self.top_column("package") if is_by_sides and self.is_one_row else None
        return self.by_concept.get("quantity", packages)

    def _packages(self, lines: str, quantity: DraftColumn | None) -> tuple[str, str]:
        """The number of packages: the sum of the quantities, else the number of lines."""
        if quantity is not None:
            path = next(path for path, found in self._draft.by_path.items() if found is quantity)
            return f"{{expr: '$sum([r.{name_with_default(quantity, '1')} for r in {lines}])'}}", self._draft.doubted(
                path, ""
            )
        if counted := self.top_column("package"):
            if not self._draft.varies(counted):
                blank = f"{CHECK}: for blank cells each line counts as one package"
                return f"{{expr: '{self._draft.ref(counted)} ?? $count({lines})'}}", blank
            return f"{{expr: '$sum([r.{name_with_default(counted, '1')} for r in {counted.table.name}])'}}", ""
        numbers = [drafted.column.label for drafted in self._draft.unused if drafted.column.is_count]
        instead = f", unless {' or '.join(numbers[:2])} has the number" if numbers else ""
        return f"{{expr: '$count({lines})'}}", f"{CHECK}: each line counts as one package{instead}"

    def top_column(self, concept: str) -> DraftColumn | None:
        """The column that fills a total of the record."""
        fields = (one for one in self._draft.operation.record.fields if one.kind is FieldKind.NUMERIC)
        named = (one.name for one in fields if concept in concepts_of(one) and "chargeable" not in concepts_of(one))
        return next((self._draft.by_path[name] for name in named if name in self._draft.by_path), None)

    def _sum(self, concept: str) -> str:
        drafted, quantity = self.by_concept.get(concept), self._pieces(concept)
        derived = concept == "volume" and bool(self.volume)
        if drafted is None and not derived:
            return ""
        value = f"r.{name_with_default(drafted)}" if drafted is not None else f"r.{concept}"
        is_total = drafted is not None and "total" in drafted.column.concepts
        is_whole = is_total or (drafted is not None and quantity is not None and is_of_line(drafted, quantity))
        times = f" * r.{name_with_default(quantity, '1')}" if quantity is not None and not is_whole else ""
        return f"$sum([{value}{times} for r in {self.lines.name}])"


def is_of_line(amounts: DraftColumn, counts: DraftColumn) -> bool:
    """Whether amounts are those of all pieces of a line. The column of the items is the one whose equal cells have one amount, or amounts in
    the ratio of their counts; an article number and its description are not always both filled. If none decides, the amounts of the first
    column of items are looked at, which may only be near to that ratio.
    """
    if amounts.table is not counts.table:
        return False
    locale = amounts.table.sheet.notation.locale
    columns = [
        drafted.column for drafted in amounts.table.columns if drafted.column.guess.type not in {*NUMBERS, *MOMENTS}
    ]
    columns = [
        column for column in columns if len(column.cells.value_indexes) == len(amounts.column.cells.value_indexes)
    ]
    pairs = {column.label: _pairs(amounts.column, counts.column, column, locale) for column in columns}
    shares = [_shares(found) for found in pairs.values() if len(found) >= _PAIRS_LEAST]
    best = max(shares, key=max, default=(0.0, 0.0))
    if max(best) >= _CLEAR:
        return best[1] > best[0]
    items = next((pairs[column.label] for column in columns if "item" in column.concepts), [])
    return sum((b / a) ** 2 > m / n for (n, a), (m, b) in items) * 2 > len(items)


def value_of_pieces(draft: Draft, table: DraftTable) -> tuple[str, str] | None:
    """The leaf, with its comment, for the value of the goods by the price of each line, times its quantity unless the prices are those of the
    whole lines; None without both columns.
    """
    numbers = [one for one in table.columns if one.column.guess.type in NUMBERS]
    count = next((one for one in numbers if "quantity" in one.column.concepts and one in draft.by_path.values()), None)
    price = next((one for one in numbers if one in draft.unused and _is_price(one.column)), None)
    if count is None or price is None:
        return None
    draft.mark_used(price)
    if price.column.filled_count == price.column.rows and table.sets is None:
        price.keys["required"], price.nullable = True, False
    whole = is_of_line(price, count)
    times = "" if whole else f" * r.{name_with_default(count, '1')}"
    said = f"as of {'the whole line' if whole else f'one piece and is multiplied by {count.column.label}'}; is it so?"
    leaf = f"{{expr: '$sum([r.{name_with_default(price)}{times} for r in {table.name}])', round: 2}}"
    return leaf, f"{CHECK}: {price.column.label} counts {said}"


def _is_price(column: Column) -> bool:
    """Whether a heading is that of the price of a piece, such as `Unit price`, and not of the freight or of a kilogram."""
    concepts = column.concepts - {"item", "package"}
    is_price = concepts == {"rate"} or {"each"} <= concepts <= {"each", "rate", "value", "other"}
    return is_price and not _FREIGHT.search(fold_label(column.label))


def doubt_of_whole(drafted: DraftColumn) -> str:
    """A comment on a sum of weights or volumes beside quantities; empty if heading or rows say that they are those of a line."""
    others = (one for one in drafted.table.columns if one.column.guess.type in NUMBERS and one is not drafted)
    counts = next((one for one in others if "quantity" in one.column.concepts), None)
    concepts = drafted.column.concepts
    if counts is None or not concepts & {"weight", "volume"} or "total" in concepts or is_of_line(drafted, counts):
        return ""
    return f"{CHECK}: {drafted.column.label} counts as of the whole line; if it is of one piece, multiply it by {counts.column.label}"


def _shares(pairs: Sequence[_Pair]) -> tuple[float, float]:
    """The shares of pairs with one amount, and with amounts in the ratio of their counts."""
    one = sum(abs(b / a - 1) < _NEAR for (_, a), (_, b) in pairs)
    ratio = sum(abs(b * n / (a * m) - 1) < _NEAR for (n, a), (m, b) in pairs)
    return one / len(pairs), ratio / len(pairs)


def _pairs(amounts: Column, counts: Column, items: Column, locale: str) -> list[_Pair]:
    """Pairs of rows of the same item with different counts, each row as its count and its amount."""
    rows: dict[int, set[tuple[float, float]]] = defaultdict(set)
    value_indexes = zip(items.cells.value_indexes, counts.cells.value_indexes, amounts.cells.value_indexes, strict=True)
    for item, count, amount in islice((found for found in value_indexes if min(found) >= 0), _COMPARED):
        rows[item].add((_number(counts, count, locale), _number(amounts, amount, locale)))
    known = ([row for row in sorted(found) if min(row) > 0] for found in rows.values())
    return [pair for found in known for pair in pairwise(found) if pair[0][0] < pair[1][0]]


def _number(column: Column, code: int, locale: str) -> float:
    """The number in a distinct cell; 0 if it is none."""
    cell = column.cells.values[code]
    if isinstance(cell, Native) and cell.kind == "number":
        return float(cell)
    found = number_of(cell)
    value = reader_of_numbers(column.guess.keys.get("locale", locale))(found[0]) if found else 0
    return 0.0 if isinstance(value, CellProblem) else float(str(value))


def round_converted(amount: DraftColumn) -> str:
    """The key that rounds an amount whose unit is converted: 25.8 lb are 11.702683146 kg."""
    return ", round: 3" if "from_unit" in amount.keys else ""


def name_with_default(drafted: DraftColumn | None, default: str = "0") -> str:
    """Give a column of numbers that may be blank a default, with a remark to check it. Returns its name; without a column, the default itself."""
    if drafted is None:
        return default
    if drafted.nullable and "default" not in drafted.keys:
        drafted.keys["default"] = int(default)
        drafted.remark += f"; {CHECK} that a blank cell means {default}"
        drafted.nullable = False
    return drafted.name

"""Columns that hold the unit of an amount beside them, as ERP systems and marketplaces export it."""

from loadsheet.mapping.units import common_unit, factor, unit_named
from loadsheet.mapping_tools.columns import CHECK
from loadsheet.mapping_tools.drafts import Draft, DraftColumn


def take_units(made: Draft) -> None:
    """Let each amount without a unit of its own read it from the nearest column that holds units of its measure, the one to its right first."""
    for table in made.tables:
        units = [drafted for drafted in table.columns if _holds_units(drafted)]
        for amount in table.columns:
            near = [unit for unit in units if unit is not amount and _fit(amount, unit)]
            if near:
                _take(made, amount, min(near, key=lambda unit: _distance(amount, unit)))


def _holds_units(drafted: DraftColumn) -> bool:
    words = drafted.column.cells.shown
    is_called_so = "unit" in drafted.column.concepts or not drafted.column.concepts
    return is_called_so and bool(words) and all(map(common_unit, words))


def _fit(amount: DraftColumn, unit: DraftColumn) -> bool:
    own = amount.keys.get("unit")
    if amount.keys.get("type") != "quantity" or amount.column.unit or not own:
        return False
    words = unit.column.cells.shown
    return all(factor(common_unit(word), unit_named(own, {})) is not None for word in words)


def _distance(amount: DraftColumn, unit: DraftColumn) -> tuple[bool, int]:
    steps = unit.column.position - amount.column.position
    return steps < 0, abs(steps)


def _take(made: Draft, amount: DraftColumn, unit: DraftColumn) -> None:
    """The unit column fills no field itself: the amount is converted, so its field of the unit is a constant."""
    amount.keys.pop("from_unit", None)
    amount.keys["unit_column"] = unit.name
    amount.remark = "; ".join(part for part in amount.remark.split("; ") if not part.startswith(f"{CHECK} the unit"))
    amount.remark += f"; its unit is in {unit.column.label}"
    unit.keys["type"], unit.remark = "text", f"the units of {amount.column.label}"
    made.filled = {path: drafted for path, drafted in made.filled.items() if drafted is not unit}
    made.use(unit)

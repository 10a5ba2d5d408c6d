"""The figures that add up over many records, and the kinds of figures that have tolerances.

Owns: the field names behind control totals and tolerances. The settings define the size of a tolerance.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation, localcontext
from enum import StrEnum
from typing import Any, NamedTuple

from loadsheet.contract.operations import Action, Operation

_DIGITS = 1_000  # more than the sum of any two numbers of a workbook has


class Scale(StrEnum):
    """The kind of a figure, which decides its tolerance."""

    COUNT = "count"
    WEIGHT = "weight"  # weights and volumes
    MONEY = "money"


class Measure(NamedTuple):
    """A figure that adds up: its name in reports, its scale, its field, the field of its unit or currency (empty: none), and the
    array whose items hold both (empty: the record itself).
    """

    name: str
    scale: Scale
    field: str
    unit: str = ""
    items: str = ""


MEASURES: dict[str, tuple[Measure, ...]] = {
    # by subject; a tender create has no totals, so its packages are added up
    "order": (
        Measure("packages", Scale.COUNT, "total_packages"),
        Measure("weight", Scale.WEIGHT, "total_weight", "gross_weight_uom"),
        Measure("volume", Scale.WEIGHT, "total_volume", "volume_uom"),
        Measure("goods value", Scale.MONEY, "goods_value", "currency"),
    ),
    "tender": (
        Measure("packages", Scale.COUNT, "quantity", items="packages"),
        Measure("weight", Scale.WEIGHT, "weight", "weight_uom", "packages"),
        Measure("volume", Scale.WEIGHT, "volume", "volume_uom", "packages"),
    ),
}

_SCALES = {
    **dict.fromkeys(("weight", "volume", "total_weight", "chargeable_weight", "total_volume"), Scale.WEIGHT),
    **dict.fromkeys(("goods_value", "freight_cost", "service_price", "tenderRate"), Scale.MONEY),
}
_UNITS = {
    **{measure.field: measure.unit for measure in MEASURES["order"]},
    **{name: "currency" for name, scale in _SCALES.items() if scale is Scale.MONEY},
}


def measures_of(operation: Operation) -> tuple[Measure, ...]:
    """The figures in records of this operation: those of its subject for creates and updates, none for others."""
    return MEASURES[operation.subject] if operation.action in (Action.CREATE, Action.UPDATE) else ()


@contextmanager
def exactly() -> Iterator[None]:
    """Within this context, sums and differences of figures keep all digits. Python's default of 28 would round them and fail for
    longer figures. Also works as a decorator.
    """
    with localcontext(prec=_DIGITS):
        yield


def fields_of(measures: tuple[Measure, ...]) -> tuple[str, ...]:
    """The fields of a record that hold these figures and their units."""
    names = ([item.items] if item.items else [item.field, item.unit] for item in measures)
    return tuple(dict.fromkeys(name for pair in names for name in pair if name))


def figures_only(measures: tuple[Measure, ...], record: dict[str, Any]) -> dict[str, Any]:
    """The part of a decoded record that its `amounts` need."""
    kept: dict[str, Any] = {}
    for _, _, field, unit, items in measures:
        names = (field, unit)
        if not items:
            kept |= {name: record[name] for name in names if name in record}
            continue
        holders = record.get(items)
        if isinstance(holders, list | tuple):
            before = kept.get(items) or [{} for _ in holders]
            kept[items] = [
                {**known, **{name: holder[name] for name in names if name in holder}}
                if isinstance(holder, dict)
                else known
                for known, holder in zip(before, holders, strict=True)
            ]
    return kept


def units_in(measures: tuple[Measure, ...], record: dict[str, Any]) -> dict[str, str]:
    """The units and currencies that a decoded record names for its own figures, by field."""
    own = (measure.unit for measure in measures if not measure.items)
    return {unit: str(record[unit]) for unit in own if record.get(unit)}


def units_lacking(measures: tuple[Measure, ...], record: dict[str, Any]) -> tuple[str, ...]:
    """The fields of units and currencies that are missing beside a decoded record's own figures."""
    own = (measure for measure in measures if measure.unit and not measure.items)
    figures = (measure for measure in own if _number(record.get(measure.field)) is not None)
    return tuple(measure.unit for measure in figures if not record.get(measure.unit))


def amounts(measures: tuple[Measure, ...], record: dict[str, Any]) -> Iterator[tuple[Measure, str, Decimal]]:
    """Each figure of a decoded record with its unit (empty: none given). Figures that are missing or not numbers are left out."""
    for measure in measures:
        _, _, field, unit, items = measure
        if not items:
            figure = _number(record.get(field))
            if figure is not None:
                yield measure, str(record.get(unit) or "") if unit else "", figure
            continue
        holders = record.get(items)
        for holder in holders if isinstance(holders, list | tuple) else ():
            figure = _number(holder.get(field)) if isinstance(holder, dict) else None
            if figure is not None:
                yield measure, str(holder.get(unit) or "") if unit else "", figure


def unit_field(name: str) -> str:
    """The field for the unit or currency of this field, which not every record has."""
    return _UNITS.get(name, f"{name}_uom")


def scale_of(path: str) -> Scale | None:
    """The scale of the number at a payload path, such as weight for `packages[0].weight`; None: no tolerance."""
    return _SCALES.get(path.rpartition(".")[2])


def _number(value: object) -> Decimal | None:
    if isinstance(value, Decimal):
        return value
    if type(value) is int:
        return Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None

"""Which figures of a record add up over many records, and by how much two of them may differ and still agree.

Owns: the field names behind control totals and tolerances. Knows no settings: the size of a tolerance is set elsewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation, localcontext
from enum import StrEnum
from typing import Any, NamedTuple

from loadsheet.contract.operations import Action, Operation

_DIGITS = 1_000  # more than the sum of any two numbers of a workbook has


class Scale(StrEnum):
    """What a figure measures, which decides its tolerance."""

    COUNT = "count"
    WEIGHT = "weight"  # weights and volumes
    MONEY = "money"


class Measure(NamedTuple):
    """A figure that adds up: its name in reports, its field, the field that names its unit or currency (empty: none), and
    the array whose items hold both (empty: the record itself).
    """

    name: str
    scale: Scale
    field: str
    unit: str = ""
    items: str = ""


MEASURES: dict[str, tuple[Measure, ...]] = {
    # by subject; a tender has no totals of its own that a create may carry, so its packages are added up
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

_UNITS = {measure.field: measure.unit for measure in MEASURES["order"] if measure.scale is Scale.WEIGHT}
_SCALES = {
    **dict.fromkeys(("weight", "volume", "total_weight", "chargeable_weight", "total_volume"), Scale.WEIGHT),
    **dict.fromkeys(("goods_value", "freight_cost", "service_price", "tenderRate"), Scale.MONEY),
}


def measures_of(operation: Operation) -> tuple[Measure, ...]:
    """The figures that records of this operation carry: those of its subject for creates and updates, none for others."""
    return MEASURES[operation.subject] if operation.action in (Action.CREATE, Action.UPDATE) else ()


@contextmanager
def exactly() -> Iterator[None]:
    """Sums and differences of figures keep all their digits in here; Python's own 28 would round them, and fail on longer ones. Serves as a
    decorator as well.
    """
    with localcontext(prec=_DIGITS):
        yield


def fields_of(measures: tuple[Measure, ...]) -> tuple[str, ...]:
    """The fields of a record in which these figures and their units stand."""
    return tuple(
        dict.fromkeys(
            name for one in measures for name in ([one.items] if one.items else [one.field, one.unit]) if name
        )
    )


def figures_only(measures: tuple[Measure, ...], record: dict[str, Any]) -> dict[str, Any]:
    """So much of a decoded record that its `amounts` stay the same, and nothing else of it."""
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
    """The units and currencies that a decoded record names for its own figures, by the fields in which they stand."""
    return {one.unit: str(record[one.unit]) for one in measures if not one.items and record.get(one.unit)}


def units_lacking(measures: tuple[Measure, ...], record: dict[str, Any]) -> tuple[str, ...]:
    """The fields of units and currencies that a decoded record leaves out beside a figure of its own."""
    figures = (one for one in measures if one.unit and not one.items and _number(record.get(one.field)) is not None)
    return tuple(one.unit for one in figures if not record.get(one.unit))


def amounts(measures: tuple[Measure, ...], record: dict[str, Any]) -> Iterator[tuple[Measure, str, Decimal]]:
    """Each figure of a decoded record with its unit (empty: none given). Figures that are absent or no numbers are left out."""
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
    """The field that names the unit of this one, if its record has such a field."""
    return _UNITS.get(name, f"{name}_uom")


def scale_of(path: str) -> Scale | None:
    """What the number at a payload path measures, such as weight for `packages[0].weight`; None: it must be equal."""
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

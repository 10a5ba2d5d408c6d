"""The unit that a record names beside a quantity, held against the unit that its column is brought to, when a mapping is loaded.

What is calculated, and units that a column states, are not known before rows are read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from loadsheet.contract import unit_field
from loadsheet.mapping.names import Names
from loadsheet.mapping.units import factor, unit_named
from loadsheet.mapping.yamlfile import Loc


def check_units(
    leaves: Mapping[str, Any], item: int | None, names: Names, constants: Mapping[str, Any], loc: Loc
) -> None:
    """Makes a finding of every column among these leaves of one object (each compiled before) whose constant unit is another's."""
    extra = (names.file.values or {}).get("source", {}).get("units") or {}
    for field, column, unit, meant, said in _pairs(leaves, item, names, constants, loc):
        try:
            times = factor(unit_named(unit, extra), unit_named(said, extra))
        except ValueError:  # a unit of the exchange's own that nobody can compare
            continue
        if times != 1:
            brought = f"write unit: {said.lower()} at the column {column}, so that it is brought to that unit"
            hint = brought if times is not None else "they do not measure the same"
            names.file.refuse((*loc, field), f"{field} is in {unit}, but {meant} says {said}", hint)


def _pairs(
    leaves: Mapping[str, Any], item: int | None, names: Names, constants: Mapping[str, Any], loc: Loc
) -> Iterator[tuple[str, str, str, str, str]]:
    """Of each quantity with a constant unit beside it: field, column, its unit, the field of the unit, and the constant."""
    for field, leaf in leaves.items():
        meant = unit_field(field)
        said = _constant(leaves.get(meant), constants)
        if not isinstance(leaf, Mapping) or not isinstance(leaf.get("col"), str) or not isinstance(said, str):
            continue
        found = names.column(leaf["col"], item, (*loc, field, "col"))
        plan = next((plan for plan in found[0].columns if plan.name == found[1]), None) if found is not None else None
        if plan is not None and plan.spec.type == "quantity" and plan.spec.unit is not None:
            yield field, plan.name, plan.spec.unit, meant, said


def _constant(leaf: Any, constants: Mapping[str, Any]) -> Any:
    if not isinstance(leaf, Mapping):
        return None
    if "const" not in leaf:
        return leaf.get("value")
    found: Any = constants
    for step in str(leaf["const"]).split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found

"""The fields of the interface that a column may fill, as concepts: what a field is, its side, and what its headings may add.

Owns: the meaning of a field, from the help text of the contract. Contains no field names.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from loadsheet.contract import DATE_SHAPES, Field, Kind, Operation, Record, When
from loadsheet.mapping_tools.vocabulary import SIDES, reading_of

TIMES = frozenset({"early", "late", "moment"})
PIECES = frozenset({"package"})  # of a number: of packages, which headings call quantity as well
PLANNED = frozenset({"estimated"})  # the only moments, where a record has no others
FREE = frozenset(
    ("code", "current", "customer", "sender", "receiver", "name", "place", "id", "reference", "first", "moment", "early", "count",
     "milestone", "package", "given", "family")
)  # fmt: skip
"""Concepts that a heading may add without meaning something else."""

_PARTIES = frozenset({"sender", "receiver"})
_EXACT = frozenset(
    {"inner", "unit", "second", "late", "chargeable", "estimated", "offset", "payer", "contact", "email", "phone"}
)  # a heading and a field have both or neither


@dataclass(frozen=True, slots=True)
class Target:
    """A field that a column may fill. `what` are the concepts of its own, `side` the pickup or delivery, `whole` all its concepts. `context` are
    concepts that the headings of its list may add, `exact` those that a heading has only if the field has them.
    """

    path: str
    field: Field
    what: frozenset[str]
    side: str
    whole: frozenset[str]
    context: frozenset[str]
    needed: bool
    in_list: bool
    is_key: bool
    subject: str
    exact: frozenset[str]


@cache
def meaning(field: Field) -> frozenset[str]:
    """The concepts of a field, from the help text of the contract. The identification of a party belongs to no side."""
    concepts = reading_of(field.meaning.split("(")[0].split(";")[0].split(", zone")[0]).concepts
    concepts -= SIDES if concepts & _PARTIES else frozenset()
    return concepts - {"late"} if "early" in concepts else concepts  # the early end of a window


def is_needed(field: Field, operation: Operation) -> bool:
    """Whether the field is required in every record of this operation."""
    return field.when is When.ALWAYS or (operation.creates and field.when is When.ON_CREATE)


def event_code_field(fields: Sequence[Field]) -> Field | None:
    """The field with the event code, if the operation has one."""
    return next((field for field in fields if {"status", "code"} <= meaning(field) and field.record is None), None)


def gives_event(operation: Operation, filled: Container[str]) -> bool:
    """Whether one of the filled fields gives the event of each record. Its place is not enough."""
    fields = [field for field in operation.record.fields if field.kind not in DATE_SHAPES]
    return any(
        field.name in filled for field in fields if "status" in meaning(field) and "location" not in meaning(field)
    )


def targets_of(
    record: Record,
    operation: Operation,
    path: str = "",
    context: frozenset[str] = frozenset(),
    *,
    in_list: bool = False,
) -> Iterator[Target]:
    """The fields of a record that a column may fill, those of its lists and objects included. `path` and `context` (concepts) are those of the
    list or object around them.
    """
    planned = frozenset[str]().union(*(meaning(field) for field in operation.record.fields))
    for field in record.fields:
        here = f"{path}.{field.name}" if path else field.name
        concepts = meaning(field)
        if field.record is not None:
            is_list = field.kind is Kind.ARRAY
            if not is_list or any(inner.when is When.ALWAYS for inner in field.record.fields):
                yield from targets_of(
                    field.record,
                    operation,
                    f"{here}[]" if is_list else here,
                    concepts | context,
                    in_list=in_list or is_list,
                )
        elif field.when is not When.LISTED and field.kind not in (Kind.OFFSET_HOURS, Kind.OFFSET_MINUTES) and concepts:
            is_key = not path and record.key[:1] == (field.name,)
            whole = concepts if in_list else concepts | context
            side = next(iter(whole & SIDES), "")
            what = frozenset({operation.subject}) & concepts if is_key else frozenset[str]()
            what = what or whole - SIDES - TIMES - (FREE - PIECES) - {operation.subject, "total"}
            what -= {"address"} if "second" in what else set()
            if not what and not side:
                what = whole - TIMES - {"total"} or whole
            needed = is_needed(field, operation)
            exact = _EXACT if PLANNED & planned else _EXACT - PLANNED
            yield Target(here, field, what, side, whole, context, needed, in_list, is_key, operation.subject, exact)

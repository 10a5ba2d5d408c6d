"""The manual: the contract as chapters to read, each operation with its fields, a worked example, and its refusal.

Owns: what the manual shows and in which order. Everything in it is asked of the contract, nothing is written twice.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from loadsheet.contract import (
    OPERATIONS,
    Assumption,
    Assumptions,
    Field,
    Operation,
    When,
    example_answer,
    example_body,
    example_fault,
    example_refusal,
    example_unauthorised,
    example_unknown_method,
    register,
)
from loadsheet.contract.kinds import EXPECTED, Kind, NumberForm
from loadsheet.contract.records import Record


class Row(NamedTuple):
    """A field as the manual lists it; `depth` counts the records around it."""

    name: str
    depth: int
    needed: bool
    form: str
    meaning: str
    known: Sequence[str]


class Chapter(NamedTuple):
    """One operation: examples are JSON values; the request ones are None for a listing."""

    operation: Operation
    rows: Sequence[Row]
    request: Any
    answer: Any
    fault: Any
    refusal: Any


class Point(NamedTuple):
    """A point that the interface leaves open, what this exchange does, and where that is set (empty: nowhere)."""

    section: str
    question: str
    answer: str
    setting: str


class FixedError(NamedTuple):
    """An answer that is the same for every operation."""

    status: int
    meaning: str
    body: Any


def chapters(assumptions: Assumptions) -> list[Chapter]:
    """A chapter for every operation, in the order of the interface."""
    return [_chapter(operation, assumptions) for operation in OPERATIONS]


def fixed_errors() -> list[FixedError]:
    """The answers that are the same everywhere."""
    return [
        FixedError(401, "The token is missing or not authorised.", example_unauthorised()),
        FixedError(405, "The path is not asked with this method.", example_unknown_method()),
    ]


def open_points(assumptions: Assumptions) -> list[Point]:
    """The lines of the register that are about an exchange, with the values that are set here."""
    return [
        Point(entry.section, entry.question, _set_to(entry, assumptions), entry.setting)
        for entry in register()
        if entry.affects != "translator"
    ]


def _set_to(entry: Assumption, assumptions: Assumptions) -> str:
    name = entry.setting.removeprefix("assumptions.")
    if name not in Assumptions.model_fields or not entry.choices:  # a line that is settled, whatever setting it names
        return entry.default
    return str(getattr(assumptions, name)) or "(empty)"


def _chapter(operation: Operation, assumptions: Assumptions) -> Chapter:
    answer = example_answer(operation, assumptions)
    if not operation.is_write:
        rows = list(_rows(operation.record, creates=False, listed=True))
        return Chapter(operation, rows, None, answer, None, None)
    rows = list(_rows(operation.record, creates=operation.creates, listed=False))
    refusal = example_refusal(operation, assumptions)
    return Chapter(operation, rows, example_body(operation), answer, example_fault(operation), refusal)


def _rows(record: Record, *, creates: bool, listed: bool, depth: int = 0) -> list[Row]:
    rows: list[Row] = []
    for field in record.fields:
        if field.when is When.LISTED and not listed:
            continue
        needed = not listed and (field.when is When.ALWAYS or (creates and field.when is When.ON_CREATE))
        name = " or ".join((field.name, *field.spellings))
        meaning = ". ".join(text.rstrip(".") for text in (field.meaning, field.note) if text)
        rows.append(Row(name, depth, needed, _form(field, record), meaning, field.known))
        if field.record is not None:
            rows += _rows(field.record, creates=creates, listed=listed, depth=depth + 1)
    return rows


def _form(field: Field, record: Record) -> str:
    if field.kind is Kind.NUMERIC and record.numbers is NumberForm.JSON_STRING:
        return "a number in a text"
    return "an array of objects" if field.kind is Kind.ARRAY else EXPECTED[field.kind]

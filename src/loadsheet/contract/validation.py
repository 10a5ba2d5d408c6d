"""Validates payloads: compiles the records into pydantic models and words their errors.

Owns: the compilation. Mapping (before sending) and exchange (on receipt) use the same models, so a payload that passes one
passes the other. Every wrong field of a record is reported at once.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Strict,
    StrictInt,
    StrictStr,
    StringConstraints,
    ValidationError,
    create_model,
)
from pydantic import Field as ModelField
from pydantic_core import ErrorDetails, PydanticCustomError

from loadsheet.contract.answers import Fault
from loadsheet.contract.assumptions import Assumptions
from loadsheet.contract.kinds import DATE_SHAPES, EXPECTED, NUMBER_TEXT, Kind, NumberForm, flag_meaning, in_date_shape
from loadsheet.contract.operations import Operation
from loadsheet.contract.records import Field, Record, When

_Number = StrictInt | Annotated[Decimal, Strict(), ModelField(allow_inf_nan=False)]
_BODY_FAULT = "must be a JSON object"


Checker = Callable[[object], tuple[Fault, ...]]


def checker(operation: Operation, assumptions: Assumptions, *, faults_max: int | None = None) -> Checker:
    """The compiled check of one request record. It takes any JSON value and returns every wrong field, or one fault if there are
    more than `faults_max`.

    Numbers are int or Decimal, as an exact JSON reader returns them. No fault means that the record meets the contract under
    these assumptions.
    """
    validate = model(operation, assumptions).__pydantic_validator__.validate_python

    def check_record(payload: object) -> tuple[Fault, ...]:
        try:
            validate(payload)
        except ValidationError as error:
            if faults_max is not None and error.error_count() > faults_max:
                return _too_many(faults_max)
            return _faults(error.errors(include_url=False))
        return ()

    return check_record


def _too_many(faults_max: int) -> tuple[Fault, ...]:
    return (Fault("", f"has more than {faults_max} wrong fields"),)


def body_checker(operation: Operation, assumptions: Assumptions, *, faults_max: int | None = None) -> Checker:
    """The compiled check of a request body; for batched operations it checks each record of `data` and adds its index."""
    check_record = checker(operation, assumptions, faults_max=faults_max)
    if not operation.batched:
        return check_record

    def check_batch(body: object) -> tuple[Fault, ...]:
        records = body.get("data") if isinstance(body, Mapping) else None
        if not isinstance(body, Mapping) or not isinstance(records, list):
            return (Fault("data", "must be an array of records"),)
        if not 0 < len(records) <= assumptions.status_records_max:
            return (Fault("data", f"must hold 1 to {assumptions.status_records_max} records, found {len(records)}"),)
        if len(body) > 1 and assumptions.unknown_fields == "reject":
            return tuple(Fault(name, _WORDS["extra_forbidden"]) for name in body if name != "data")
        found = (
            Fault(fault.path, fault.text, index)
            for index, record in enumerate(records)
            for fault in check_record(record)
        )
        faults = tuple(islice(found, None if faults_max is None else faults_max + 1))
        return faults if faults_max is None or len(faults) <= faults_max else _too_many(faults_max)

    return check_batch


@cache
def model(operation: Operation, assumptions: Assumptions) -> type[BaseModel]:
    """The pydantic model of an operation's request record under these assumptions."""
    return _compile(operation.record, operation.creates, _OfValues.among(assumptions))


class _OfValues(NamedTuple):
    """The assumptions that the models depend on. Exchanges that differ in others share their models."""

    number_forms: str
    text_length_max: int
    known_values: str
    decision_words: str
    timezones: str
    empty_required: str
    null_fields: str
    unknown_fields: str
    listing_only_fields: str
    array_length_max: int

    @classmethod
    def among(cls, assumptions: Assumptions) -> "_OfValues":
        return cls(*(getattr(assumptions, name) for name in cls._fields))


@cache
def _compile(record: Record, creates: bool, assumptions: _OfValues) -> type[BaseModel]:  # noqa: FBT001 (cache key)
    extra: Literal["forbid", "ignore"] = "forbid" if assumptions.unknown_fields == "reject" else "ignore"
    fields = [
        field for field in record.fields if field.when is not When.LISTED or assumptions.listing_only_fields == "accept"
    ]
    definitions: dict[str, Any] = {field.name: _definition(field, record, creates, assumptions) for field in fields}
    config = ConfigDict(extra=extra, frozen=True, title=record.name)
    return create_model(record.name.replace(" ", ""), __config__=config, **definitions)


def _definition(field: Field, record: Record, creates: bool, assumptions: _OfValues) -> tuple[Any, Any]:  # noqa: FBT001 (one flag, named)
    required = field.is_required(creates=creates)
    annotation = _annotation(field, record.numbers, creates, assumptions)
    if required and assumptions.empty_required == "reject":
        annotation = Annotated[annotation, _must("a value, not an empty text", lambda value: value != "")]
    if field.known and getattr(assumptions, field.closed_by) == "closed":
        annotation = Annotated[annotation, _must("one of " + ", ".join(field.known), field.known.__contains__)]
    if not required and assumptions.null_fields == "absent":
        annotation = annotation | None
    described: dict[str, Any] = {"description": field.meaning}
    if field.spellings:
        described["validation_alias"] = AliasChoices(field.name, *field.spellings)
    return (annotation, ModelField(..., **described) if required else ModelField(None, **described))


def _annotation(field: Field, numbers: NumberForm, creates: bool, assumptions: _OfValues) -> Any:  # noqa: FBT001 (one flag, named)
    if field.record is None:
        return _scalars(numbers, assumptions)[field.kind]
    inner: Any = _compile(field.record, creates, assumptions)
    if field.kind is Kind.OBJECT:
        return inner
    return Annotated[list[inner], ModelField(max_length=assumptions.array_length_max)]


@cache
def _scalars(numbers: NumberForm, assumptions: _OfValues) -> Mapping[Kind, Any]:
    """The annotation of each kind that is neither an object nor an array."""
    text = Annotated[StrictStr, StringConstraints(max_length=assumptions.text_length_max)]
    number_text = Annotated[StrictStr, _must("a number in a text, such as 12.5", NUMBER_TEXT.fullmatch)]
    timezone = Annotated[StrictStr, _must(EXPECTED[Kind.TIMEZONE], lambda name: name in _zones())]
    if assumptions.number_forms == "both":
        numeric: Any = _Number | number_text
    elif numbers is NumberForm.JSON_NUMBER:
        expected = "a number without quotes, such as 12.5"
        numeric = Annotated[_Number, _must(expected, lambda value: not isinstance(value, str), BeforeValidator)]
    else:
        expected = 'a number in quotes, such as "12.5"'
        numeric = Annotated[number_text, _must(expected, lambda value: not _is_number(value), BeforeValidator)]
    return {
        Kind.STRING: text,
        Kind.STRING_OR_NUMERIC: text | _Number,
        Kind.NUMERIC: numeric,
        Kind.FLAG: Annotated[StrictStr, _must(EXPECTED[Kind.FLAG], lambda word: flag_meaning(word) is not None)],
        Kind.TIMEZONE: timezone if assumptions.timezones == "iana" else text,
        Kind.OFFSET_HOURS: text,
        Kind.OFFSET_MINUTES: text | _Number,
        **{kind: Annotated[StrictStr, _must(EXPECTED[kind], partial(in_date_shape, kind))] for kind in DATE_SHAPES},
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _must(
    expected: str,
    holds: Callable[[Any], object],
    validator: type[AfterValidator] | type[BeforeValidator] = AfterValidator,
) -> AfterValidator | BeforeValidator:
    """Refuses a value unless `holds` is true for it. It is asked after the type is known, unless by a BeforeValidator."""

    def validated(value: Any) -> Any:
        if not holds(value):
            raise PydanticCustomError("expected", "must be {expected}", {"expected": expected})
        return value

    return validator(validated)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


_WORDS = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this record",
    "string_type": "must be a text",
    "list_type": "must be an array",
    "model_type": _BODY_FAULT,
    "model_attributes_type": _BODY_FAULT,
    "int_type": "must be a number",
    "is_instance_of": "must be a number",
    "decimal_type": "must be a number",
    "finite_number": "must be a finite number",
    "int_parsing_size": "must be a number of fewer digits",
    "string_too_long": "must be a text of at most {max_length} characters",
    "too_long": "must be an array of length {max_length} or less",
}


def _faults(found: Sequence[ErrorDetails]) -> tuple[Fault, ...]:
    texts: dict[str, list[str]] = {}
    for details in found:
        messages = texts.setdefault(_path(details), [])
        text = _WORDS.get(details["type"], "{msg}").format(msg=details["msg"], **details.get("ctx", {}))
        if text not in messages:  # each branch of a union has a message: "must be a text", "must be a number"
            messages.append(text)
    return tuple(Fault(path, " or ".join(messages).replace(" or must be", " or")) for path, messages in texts.items())


def _path(details: ErrorDetails) -> str:
    path = ""
    steps = details["loc"]
    for place, step in enumerate(steps, start=1):
        if isinstance(step, int):
            path += f"[{step}]"
        elif not _is_union_branch(step) or (place == len(steps) and details["type"] == "extra_forbidden"):
            path += f".{step}" if path else step  # the name of an unknown field may look like a union branch
    return path


def _is_union_branch(step: str) -> bool:
    # pydantic adds the branch of a union to the location, such as constrained-str or decimal
    return step in {"constrained-str", "str", "int", "decimal"} or "[" in step

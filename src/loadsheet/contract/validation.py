"""Validates payloads: compiles the records into pydantic models and words their errors. Says what is valid as JSON Schema.

Owns: the compilation. Mapping (before sending) and exchange (on receipt) use the same models, so a payload that passes one
passes the other. Every wrong field of a record is reported at once.

The schemas (2020-12) of every request record, every listed record and every answer, under given assumptions, come from the same declaration,
and a test verifies that they agree with the models. Schemas cannot express the number of digits that a number may have.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

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

from loadsheet.contract.answers import PAGE_SIZE, Fault
from loadsheet.contract.assumptions import Assumptions
from loadsheet.contract.kinds import (
    DATE_SHAPES,
    KIND_DESCRIPTIONS,
    NUMBER_TEXT,
    FieldKind,
    NumberForm,
    flag_meaning,
    is_valid_date_text,
    zone_names,
)
from loadsheet.contract.operations import Action, AnswerShape, ErrorShape, Operation
from loadsheet.contract.records import Field, Record, When

_Number = StrictInt | Annotated[Decimal, Strict(), ModelField(allow_inf_nan=False)]
_BODY_FAULT = "must be a JSON object"


Checker = Callable[[object], tuple[Fault, ...]]

REQUIRED = "is required"
"""The text of a fault: a field is missing."""

_WORDS = {
    "missing": REQUIRED,
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

Json = dict[str, Any]

REFERENCE_PREFIX = "#/components/schemas/"
ZONE_NAME = "TimezoneName"
UNAUTHORISED_NAME = "Unauthorised"
UNKNOWN_METHOD_NAME = "UnknownMethod"

_YEAR = "(?!0000)[0-9]{4}"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_MINUTES = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = f"{_MINUTES}:[0-5][0-9]"
_PATTERNS: dict[FieldKind, str] = {
    FieldKind.DATETIME: f"{_DATE} {_TIME}",
    FieldKind.DATETIME_T: f"{_DATE}T{_TIME}",
    FieldKind.DATETIME_ISO: rf"{_DATE}T{_MINUTES}(?::[0-5][0-9](?:\.[0-9]+)?)?(?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?",
    FieldKind.DATE: _DATE,
    FieldKind.TIME: _TIME,
}
_FLAG = "(?:[yY][eE][sS]|[nN][oO]|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE])"
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_END = r"(?!\n)"  # in some engines $ also matches before a final line feed

_TEXT: Json = {"type": "string"}
_NO_RECORDS: Json = {"type": "array", "maxItems": 0}


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
    return _compile(operation.record, operation.creates, _ModelAssumptions.of(assumptions))


class _ModelAssumptions(NamedTuple):
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
    def of(cls, assumptions: Assumptions) -> "_ModelAssumptions":
        return cls(*(getattr(assumptions, name) for name in cls._fields))


@cache
def _compile(record: Record, creates: bool, assumptions: _ModelAssumptions) -> type[BaseModel]:  # noqa: FBT001 (cache key)
    extra: Literal["forbid", "ignore"] = "forbid" if assumptions.unknown_fields == "reject" else "ignore"
    fields = [
        field for field in record.fields if field.when is not When.LISTED or assumptions.listing_only_fields == "accept"
    ]
    definitions: dict[str, Any] = {field.name: _definition(field, record, creates, assumptions) for field in fields}
    config = ConfigDict(extra=extra, frozen=True, title=record.name)
    return create_model(record.name.replace(" ", ""), __config__=config, **definitions)


def _definition(field: Field, record: Record, creates: bool, assumptions: _ModelAssumptions) -> tuple[Any, Any]:  # noqa: FBT001 (one flag, named)
    required = field.is_required(creates=creates)
    if field.record is None:
        annotation = _scalars(record.numbers, assumptions)[field.kind]
    else:
        annotation = _compile(field.record, creates, assumptions)
        if field.kind is FieldKind.ARRAY:
            annotation = Annotated[list[annotation], ModelField(max_length=assumptions.array_length_max)]  # type: ignore[valid-type]
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


@cache
def _scalars(numbers: NumberForm, assumptions: _ModelAssumptions) -> Mapping[FieldKind, Any]:
    """The annotation of each kind that is neither an object nor an array."""
    text = Annotated[StrictStr, StringConstraints(max_length=assumptions.text_length_max)]
    number_text = Annotated[StrictStr, _must("a number in a text, such as 12.5", NUMBER_TEXT.fullmatch)]
    timezone = Annotated[StrictStr, _must(KIND_DESCRIPTIONS[FieldKind.TIMEZONE], lambda name: name in zone_names())]
    if assumptions.number_forms == "both":
        numeric: Any = _Number | number_text
    elif numbers is NumberForm.JSON_NUMBER:
        expected = "a number without quotes, such as 12.5"
        numeric = Annotated[_Number, _must(expected, lambda value: not isinstance(value, str), BeforeValidator)]
    else:
        expected = 'a number in quotes, such as "12.5"'
        numeric = Annotated[number_text, _must(expected, lambda value: not _is_number(value), BeforeValidator)]
    return {
        FieldKind.STRING: text,
        FieldKind.STRING_OR_NUMERIC: text | _Number,
        FieldKind.NUMERIC: numeric,
        FieldKind.FLAG: Annotated[
            StrictStr, _must(KIND_DESCRIPTIONS[FieldKind.FLAG], lambda word: flag_meaning(word) is not None)
        ],
        FieldKind.TIMEZONE: timezone if assumptions.timezones == "iana" else text,
        FieldKind.OFFSET_HOURS: text,
        FieldKind.OFFSET_MINUTES: text | _Number,
        **{
            kind: Annotated[StrictStr, _must(KIND_DESCRIPTIONS[kind], partial(is_valid_date_text, kind))]
            for kind in DATE_SHAPES
        },
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


def record_name(record: Record, *, creates: bool) -> str:
    """The name of a request record's schema; a record with fields required on create has a separate one for create."""
    bare = record.name.title().replace(" ", "")
    has_create_fields = any(field.when is When.ON_CREATE for field in record.fields)
    return f"{bare}OnCreate" if creates and has_create_fields else bare


def listed_name(record: Record) -> str:
    """The name of the schema of a record as its listing shows it."""
    return f"{record_name(record, creates=False)}Listed"


def components(operations: Sequence[Operation], assumptions: Assumptions) -> dict[str, Json]:
    """Every named schema that the operations refer to: records with their inner ones, fixed answers, time zones."""
    schemas: dict[str, Json] = {
        UNAUTHORISED_NAME: _closed({"results": _NO_RECORDS, "error": _closed({"message": _TEXT, "details": _TEXT})}),
        UNKNOWN_METHOD_NAME: _closed(
            {"results": _NO_RECORDS, "error": _closed({"status": {"const": False}, "error": _TEXT})}
        ),
    }
    if assumptions.timezones == "iana":
        schemas[ZONE_NAME] = {"type": "string", "enum": sorted(zone_names())}
    for operation in operations:
        record, creates = operation.record, operation.creates
        for inner in (record, *(field.record for _, field in record.walk() if field.record is not None)):
            schemas.setdefault(record_name(inner, creates=creates), _record(inner, assumptions, creates=creates))
        if not operation.is_write:
            schemas[listed_name(record)] = _record(record, assumptions, listed=True)
    return schemas


def request_schema(operation: Operation, assumptions: Assumptions) -> Json:
    """The schema of the request body of a write operation."""
    record = schema_reference(record_name(operation.record, creates=operation.creates))
    if not operation.batched:
        return record
    data = {"type": "array", "items": record, "minItems": 1, "maxItems": assumptions.status_records_max}
    return {**_closed({"data": data}), "additionalProperties": assumptions.unknown_fields == "ignore"}


def success_schema(operation: Operation, assumptions: Assumptions) -> Json:
    """The schema of the 200 body of an operation."""
    done: Json = {"status": {"const": True}, "message": _TEXT}
    if operation.answer is AnswerShape.LISTING:
        return _listing(operation.record)
    if operation.answer is AnswerShape.TENDER:
        return _closed({"results": _closed({**done, "tender_id": _TEXT})})
    if operation.answer is AnswerShape.QUOTE:
        return _closed({"results": _closed({**done, "tender_id": _TEXT, "carrier_id": _TEXT})})
    if operation.answer is AnswerShape.PLAIN:
        return _closed(done)
    number = {"type": "integer"} if operation.action is Action.CREATE else {"type": "string", "pattern": "^[0-9]+$"}
    entry = _closed({assumptions.customer_order_key: _TEXT, assumptions.service_order_key: number})
    orders = {"type": "array", "items": entry, "minItems": 1, "maxItems": 1}
    ids = _closed({"customer_id": _TEXT, "carrier_id": _TEXT, "orders_data": orders})
    return _closed({**done, "data": _closed({"order_id": ids})})


def refusal_schema(operation: Operation) -> Json:
    """The schema of the 400 body in the operation's own shape."""
    if operation.error is ErrorShape.DETAILS:
        return schema_reference(UNAUTHORISED_NAME)
    texts: Json = {"type": "object", "additionalProperties": _TEXT, "minProperties": 1}
    is_indexed = operation.error is ErrorShape.INDEXED
    errors = {**texts, "patternProperties": {r"^data\[[0-9]+\]$": texts}} if is_indexed else texts
    body = {"status": {"const": False}, "message": _TEXT, "errors": errors}
    return _closed(body if operation.error is ErrorShape.FIELDS_ONLY else {"results": _NO_RECORDS, **body})


def schema_reference(name: str) -> Json:
    """A reference to the named schema."""
    return {"$ref": REFERENCE_PREFIX + name}


def _listing(record: Record) -> Json:
    count = {"type": "integer", "minimum": 0}
    results = {"type": "array", "items": schema_reference(listed_name(record))}
    size = {"type": "integer", "minimum": 1}
    return _closed({PAGE_SIZE: size, "results": results, "total_count": count, "total_pages": count})


def _closed(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _record(record: Record, assumptions: Assumptions, *, creates: bool = False, listed: bool = False) -> Json:
    properties: Json = {}
    required = []
    either = []
    for field in record.fields:
        if field.when is When.LISTED and not listed and assumptions.listing_only_fields == "reject":
            continue
        needed = field.is_required(creates=creates)
        schema = _field(field, record.numbers, assumptions, needed=needed, creates=creates)
        properties |= dict.fromkeys((field.name, *field.spellings), schema)
        if needed or (listed and field.when is When.LISTED):
            required.append(field.name)
        if field.spellings:
            either.append({"not": {"required": [field.name, *field.spellings]}})
    schema = {
        "type": "object",
        "title": record.name,
        "properties": properties,
        "required": required,
        "additionalProperties": not listed and assumptions.unknown_fields == "ignore",
    }
    return {**schema, "allOf": either} if either and assumptions.unknown_fields == "reject" else schema


def _field(field: Field, numbers: NumberForm, assumptions: Assumptions, *, needed: bool, creates: bool) -> Json:
    schema = _kind(field, numbers, assumptions, creates=creates)
    if needed and assumptions.empty_required == "reject" and schema.get("type") in ("string", ["string", "number"]):
        schema["minLength"] = max(1, schema.get("minLength", 0))
    if field.known:
        schema["enum" if getattr(assumptions, field.closed_by) == "closed" else "examples"] = list(field.known)
    if not needed and assumptions.null_fields == "absent":
        schema = {"anyOf": [schema, {"type": "null"}]}
    return {"description": field.description, **schema}


def _kind(field: Field, numbers: NumberForm, assumptions: Assumptions, *, creates: bool) -> Json:
    if field.record is not None:
        inner = schema_reference(record_name(field.record, creates=creates))
        array = {"type": "array", "items": inner, "maxItems": assumptions.array_length_max}
        return inner if field.kind is FieldKind.OBJECT else array
    if field.kind in DATE_SHAPES:
        return _in_pattern(_PATTERNS[field.kind], DATE_SHAPES[field.kind][1])
    text = {"type": "string", "maxLength": assumptions.text_length_max}
    by_kind: dict[FieldKind, Json] = {
        FieldKind.FLAG: _in_pattern(_FLAG, "yes", "no", "true", "false"),
        FieldKind.NUMERIC: _numeric(numbers, assumptions),
        FieldKind.TIMEZONE: schema_reference(ZONE_NAME) if assumptions.timezones == "iana" else text,
        FieldKind.STRING_OR_NUMERIC: {**text, "type": ["string", "number"]},
        FieldKind.OFFSET_MINUTES: {**text, "type": ["string", "number"]},
    }
    return by_kind.get(field.kind, text)


def _numeric(numbers: NumberForm, assumptions: Assumptions) -> Json:
    text = _in_pattern(_NUMBER, "12.5")
    if assumptions.number_forms == "both":
        return {"anyOf": [{"type": "number"}, text]}
    return {"type": "number"} if numbers is NumberForm.JSON_NUMBER else text


def _in_pattern(pattern: str, *examples: str) -> Json:
    return {"type": "string", "pattern": f"^{pattern}{_END}$", "examples": list(examples)}

"""The contract as JSON Schema 2020-12: every request record, every listed record, every answer, under given assumptions.

Owns: how kinds are expressed in JSON Schema. The schemas and `checking` come from the same declaration, and a test verifies that
they agree. Schemas cannot express the number of digits that a number may have.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from zoneinfo import available_timezones

from loadsheet.contract.answers import PAGE_SIZE
from loadsheet.contract.assumptions import Assumptions
from loadsheet.contract.kinds import DATE_SHAPES, Kind, NumberForm
from loadsheet.contract.operations import Action, Answer, ErrorShape, Operation
from loadsheet.contract.records import Field, Record, When

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
_PATTERNS: dict[Kind, str] = {
    Kind.DATETIME: f"{_DATE} {_TIME}",
    Kind.DATETIME_T: f"{_DATE}T{_TIME}",
    Kind.DATETIME_ISO: rf"{_DATE}T{_MINUTES}(?::[0-5][0-9](?:\.[0-9]+)?)?(?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?",
    Kind.DATE: _DATE,
    Kind.TIME: _TIME,
}
_FLAG = "(?:[yY][eE][sS]|[nN][oO]|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE])"
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_END = r"(?!\n)"  # in some engines $ also matches before a final line feed

_TEXT: Json = {"type": "string"}
_NO_RECORDS: Json = {"type": "array", "maxItems": 0}


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
        schemas[ZONE_NAME] = {"type": "string", "enum": sorted(available_timezones())}
    for operation in operations:
        record, creates = operation.record, operation.creates
        for inner in (record, *_inner(record)):
            schemas.setdefault(record_name(inner, creates=creates), _record(inner, assumptions, creates=creates))
        if not operation.is_write:
            schemas[listed_name(record)] = _record(record, assumptions, listed=True)
    return schemas


def request_schema(operation: Operation, assumptions: Assumptions) -> Json:
    """The schema of the request body of a write operation."""
    record = reference(record_name(operation.record, creates=operation.creates))
    if not operation.batched:
        return record
    data = {"type": "array", "items": record, "minItems": 1, "maxItems": assumptions.status_records_max}
    return {**_closed({"data": data}), "additionalProperties": assumptions.unknown_fields == "ignore"}


def success_schema(operation: Operation, assumptions: Assumptions) -> Json:
    """The schema of the 200 body of an operation."""
    done: Json = {"status": {"const": True}, "message": _TEXT}
    if operation.answer is Answer.LISTING:
        return _listing(operation.record)
    if operation.answer is Answer.TENDER:
        return _closed({"results": _closed({**done, "tender_id": _TEXT})})
    if operation.answer is Answer.QUOTE:
        return _closed({"results": _closed({**done, "tender_id": _TEXT, "carrier_id": _TEXT})})
    if operation.answer is Answer.PLAIN:
        return _closed(done)
    number = {"type": "integer"} if operation.action is Action.CREATE else {"type": "string", "pattern": "^[0-9]+$"}
    entry = _closed({assumptions.customer_order_key: _TEXT, assumptions.service_order_key: number})
    orders = {"type": "array", "items": entry, "minItems": 1, "maxItems": 1}
    return _closed(
        {
            **done,
            "data": _closed({"order_id": _closed({"customer_id": _TEXT, "carrier_id": _TEXT, "orders_data": orders})}),
        }
    )


def refusal_schema(operation: Operation) -> Json:
    """The schema of the 400 body in the operation's own shape."""
    if operation.error is ErrorShape.DETAILS:
        return reference(UNAUTHORISED_NAME)
    texts: Json = {"type": "object", "additionalProperties": _TEXT, "minProperties": 1}
    errors = texts
    if operation.error is ErrorShape.INDEXED:
        errors = {
            "type": "object",
            "patternProperties": {r"^data\[[0-9]+\]$": texts},
            "additionalProperties": _TEXT,
            "minProperties": 1,
        }
    body = {"status": {"const": False}, "message": _TEXT, "errors": errors}
    return _closed(body if operation.error is ErrorShape.FIELDS_ONLY else {"results": _NO_RECORDS, **body})


def reference(name: str) -> Json:
    """A reference to the named schema."""
    return {"$ref": REFERENCE_PREFIX + name}


def _listing(record: Record) -> Json:
    count = {"type": "integer", "minimum": 0}
    results = {"type": "array", "items": reference(listed_name(record))}
    return _closed(
        {PAGE_SIZE: {"type": "integer", "minimum": 1}, "results": results, "total_count": count, "total_pages": count}
    )


def _closed(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _inner(record: Record) -> Iterator[Record]:
    for _, field in record.walk():
        if field.record is not None:
            yield field.record


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
        inner = reference(record_name(field.record, creates=creates))
        array = {"type": "array", "items": inner, "maxItems": assumptions.array_length_max}
        return inner if field.kind is Kind.OBJECT else array
    if field.kind in DATE_SHAPES:
        return _in_pattern(_PATTERNS[field.kind], DATE_SHAPES[field.kind][1])
    text = {"type": "string", "maxLength": assumptions.text_length_max}
    by_kind: dict[Kind, Json] = {
        Kind.FLAG: _in_pattern(_FLAG, "yes", "no", "true", "false"),
        Kind.NUMERIC: _numeric(numbers, assumptions),
        Kind.TIMEZONE: reference(ZONE_NAME) if assumptions.timezones == "iana" else text,
        Kind.STRING_OR_NUMERIC: {**text, "type": ["string", "number"]},
        Kind.OFFSET_MINUTES: {**text, "type": ["string", "number"]},
    }
    return by_kind.get(field.kind, text)


def _numeric(numbers: NumberForm, assumptions: Assumptions) -> Json:
    text = _in_pattern(_NUMBER, "12.5")
    if assumptions.number_forms == "both":
        return {"anyOf": [{"type": "number"}, text]}
    return {"type": "number"} if numbers is NumberForm.JSON_NUMBER else text


def _in_pattern(pattern: str, *examples: str) -> Json:
    return {"type": "string", "pattern": f"^{pattern}{_END}$", "examples": list(examples)}

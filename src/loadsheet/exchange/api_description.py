"""The description of the exchange: the OpenAPI 3.1 document and the chapters of the manual, from the contract and the assumptions.

Owns: the composition of operations, schemas and examples, for programs and for people. Knows no field, no record and no socket.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from loadsheet.contract import (
    OPERATIONS,
    PAGE_SIZE,
    PARTY_FIELDS,
    UNAUTHORISED,
    UNAUTHORISED_NAME,
    UNKNOWN_METHOD,
    UNKNOWN_METHOD_NAME,
    Action,
    Assumption,
    Assumptions,
    Fault,
    Field,
    Operation,
    Record,
    When,
    components,
    example_answer,
    example_body,
    example_fault,
    example_refusal,
    refusal_body,
    refusal_schema,
    register,
    request_schema,
    schema_reference,
    success_schema,
)
from loadsheet.contract.kinds import KIND_DESCRIPTIONS, FieldKind, NumberForm
from loadsheet.exchange.app import NOT_A_PAGE_SIZE
from loadsheet.exchange.wire import encode, parse_body

Json = dict[str, Any]

_BEARER = "bearer"
_INTRODUCTION = (
    "Tenders and transport orders between a sender and a receiver. Every call carries a bearer token. "
    "An answer of 200 means that the effect is on disk; a refusal names every wrong field at once. "
    "This document is generated from the contract with the assumptions of this exchange."
)
_STORE_FAILED = (
    "The store is not available, and the call had no effect. Exception: if the database server failed or stopped responding during "
    "the write, only a listing shows whether there was an effect."
)
_WRONG_METHOD = "The path does not support this method."
_LISTING_NOTE = (
    "Both listings share this path. The page size may also be in the body, which OpenAPI cannot express for a GET. "
    "Only the first page is available."
)
_ASKS_FOR_TENDERS = "Asks for tenders. Without it, the exchange returns its default listing."


def document(assumptions: Assumptions, version: str) -> Json:
    """The whole document as a JSON value; `version` is that of this program, because the interface has none."""
    paths: dict[str, Json] = {}
    for path in dict.fromkeys(operation.path for operation in OPERATIONS):
        here = [operation for operation in OPERATIONS if operation.path == path]
        method = here[0].method.lower()
        paths[path] = {method: _write(here[0], assumptions) if here[0].is_write else _listing(here, assumptions)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tender and Order Exchange", "version": version, "description": _INTRODUCTION},
        "servers": [{"url": "/", "description": "this exchange"}],
        "security": [{_BEARER: []}],
        "tags": [{"name": subject} for subject in dict.fromkeys(operation.subject for operation in OPERATIONS)],
        "paths": paths,
        "components": {
            "schemas": components(OPERATIONS, assumptions),
            "responses": {
                UNAUTHORISED_NAME: _answer(
                    "The token is missing or not authorised.", schema_reference(UNAUTHORISED_NAME), UNAUTHORISED
                ),
                UNKNOWN_METHOD_NAME: _answer(_WRONG_METHOD, schema_reference(UNKNOWN_METHOD_NAME), UNKNOWN_METHOD),
            },
            "securitySchemes": {_BEARER: {"type": "http", "scheme": "bearer"}},
        },
    }


def _write(operation: Operation, assumptions: Assumptions) -> Json:
    request = _content(request_schema(operation, assumptions), example_body(operation))
    done = _answer(f"{operation.done}.", success_schema(operation, assumptions), example_answer(operation, assumptions))
    # a body with faults is not an example of the schema, so it is an extension of its refusal
    refused = _answer(
        "A field is invalid or missing. All wrong fields are named.",
        refusal_schema(operation),
        example_refusal(operation, assumptions),
    )
    return {
        "operationId": _operation_id(operation),
        "tags": [operation.subject],
        "summary": f"{operation.record.name}: {operation.action}",
        "requestBody": {"required": True, "content": request},
        "responses": {
            "200": {**done, "links": _links(operation, assumptions)},
            "400": {**refused, "x-refused-body": example_fault(operation)},
            **_everywhere(operation),
        },
    }


def _links(source: Operation, assumptions: Assumptions) -> Json:
    """The possible next calls for the same record: each target with the part of its body that names the record, and the listing
    that shows it.
    """
    named = {field.name for field in source.record.fields if field.when is When.ALWAYS}
    links: Json = {}
    for target in OPERATIONS:
        if target.subject != source.subject or target.creates or source.batched or source.action is Action.DELETE:
            continue
        if not target.is_write:
            query = dict(parse_qsl(assumptions.tender_listing_query)) if target.subject == "tender" else {}
            links[target.name] = {"operationId": _operation_id(target), "parameters": query}
        elif named.issuperset(target.record.key[:1] if target.action is Action.QUOTE else target.record.key):
            names = [field.name for field in target.record.fields if field.name in (*target.record.key, *PARTY_FIELDS)]
            record = {name: f"$request.body#/{name}" for name in names if name in named}
            body = parse_body(target.body([encode(record)]))
            links[target.name] = {"operationId": _operation_id(target), "requestBody": body}
    return links


def _listing(operations: Sequence[Operation], assumptions: Assumptions) -> Json:
    schema = {"anyOf": [success_schema(operation, assumptions) for operation in operations]}
    examples = {operation.name: {"value": example_answer(operation, assumptions)} for operation in operations}
    refused = refusal_body(operations[0], (Fault(PAGE_SIZE, NOT_A_PAGE_SIZE),))
    size = {"type": "integer", "minimum": 1, "default": assumptions.page_size_default}
    limit = assumptions.page_size_max
    meaning = f"Records in the answer, at most {limit}." if limit else "Records in the answer."
    return {
        "operationId": _operation_id(operations[0]),
        "tags": list(dict.fromkeys(operation.subject for operation in operations)),
        "summary": "Listing: " + " or ".join(f"{operation.subject}s" for operation in operations),
        "description": _LISTING_NOTE,
        "parameters": [
            *(
                {"name": name, "in": "query", "description": _ASKS_FOR_TENDERS}
                | {"schema": {"type": "string", "examples": [value]}}
                for name, value in parse_qsl(assumptions.tender_listing_query)
            ),
            {"name": PAGE_SIZE, "in": "query", "description": meaning, "schema": size},
        ],
        "responses": {
            "200": {
                "description": "The records in the order of their creation, and the total number of records.",
                "content": {"application/json": {"schema": schema, "examples": examples}},
            },
            "400": _answer("The page size is not a whole number of 1 or more.", refusal_schema(operations[0]), refused),
            **_everywhere(operations[0]),
        },
    }


def _operation_id(operation: Operation) -> str:
    return operation.path.rpartition("/")[2]


def _everywhere(operation: Operation) -> Json:
    prefix = "#/components/responses/"
    wait = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}}
    later = {"application/json": {"schema": refusal_schema(operation)}}
    return {
        "401": {"$ref": prefix + UNAUTHORISED_NAME},
        "405": {"$ref": prefix + UNKNOWN_METHOD_NAME},
        "429": {
            "description": "Too many calls, connections, large pages or wrong tokens. The call had no effect.",
            "headers": wait,
            "content": later,
        },
        "503": {"description": _STORE_FAILED, "headers": wait, "content": later},
    }


def _answer(description: str, schema: Json, example: Json) -> Json:
    return {"description": description, "content": _content(schema, example)}


def _content(schema: Json, example: Json) -> Json:
    return {"application/json": {"schema": schema, "example": example}}


class Row(NamedTuple):
    """A field in the manual; `depth` counts the records around it."""

    name: str
    depth: int
    needed: bool
    form: str
    meaning: str
    known: Sequence[str]


class Chapter(NamedTuple):
    """One operation in the manual. The examples are JSON values; those of requests are None for a listing."""

    operation: Operation
    rows: Sequence[Row]
    request: Any
    answer: Any
    fault: Any
    refusal: Any


class Point(NamedTuple):
    """A point that the interface leaves open, the behaviour of this exchange, and its setting (empty: none)."""

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
    """The answers that are the same for every operation."""
    return [
        FixedError(401, "The token is missing or not authorised.", UNAUTHORISED),
        FixedError(405, _WRONG_METHOD, UNKNOWN_METHOD),
    ]


def open_points(assumptions: Assumptions) -> list[Point]:
    """The lines of the register that affect an exchange, with its present values."""
    return [
        Point(entry.section, entry.question, _set_to(entry, assumptions), entry.setting)
        for entry in register()
        if entry.affects != "translator"
    ]


def _set_to(entry: Assumption, assumptions: Assumptions) -> str:
    name = entry.setting.removeprefix("assumptions.")
    if name not in Assumptions.model_fields or not entry.choices:  # a fixed line may name a setting
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
        needed = not listed and field.is_required(creates=creates)
        name = " or ".join((field.name, *field.spellings))
        rows.append(Row(name, depth, needed, _form(field, record), field.description, field.known))
        if field.record is not None:
            rows += _rows(field.record, creates=creates, listed=listed, depth=depth + 1)
    return rows


def _form(field: Field, record: Record) -> str:
    if field.kind is FieldKind.NUMERIC and record.numbers is NumberForm.JSON_STRING:
        return "a number in a text"
    return "an array of objects" if field.kind is FieldKind.ARRAY else KIND_DESCRIPTIONS[field.kind]

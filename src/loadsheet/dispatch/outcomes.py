"""Turns the reply or failure of a call into an outcome, by one table.

Knows the exceptions of the HTTP libraries by name only. Makes no call and changes no state. Anything not in the table is
an unknown outcome. That is the safe choice, because such a call is never repeated.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, BinaryIO, NamedTuple

from loadsheet.contract import (
    Assumptions,
    Fault,
    Operation,
    StatusFalse,
    UndocumentedAnswer,
    read_refusal,
    read_success,
)
from loadsheet.display_text import one_line

EXCERPT_LENGTH = 200
STATUS_FALSE = "an answer 200 that reports a failure: "
"""The beginning of the reason for a 200 whose status is false: once proved absent, its record is refused."""
FAULTS_SHOWN = 3


class OutcomeKind(StrEnum):
    """The five possible results of a call."""

    NOT_SENT = "not sent"  # nothing left, or it was answered before any effect: safe to send again
    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"  # it may have been applied, or may be applied later
    NOT_AUTHORISED = "not authorised"  # the token was refused, before any effect


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call has no answer. `name` is the full name of the exception class, `text` is for people, `has_sent` says
    whether any byte of the request was sent, and `log` is the text for the log.
    """

    name: str
    text: str
    has_sent: bool
    log: str = ""


class Reply(NamedTuple):
    """The answer to one call: a status with its body, complete and unpacked, or the failure. Times of the call in ms.

    If requested, `body_file` is the body and `body` only its beginning; the receiver closes the file.
    """

    status: int = 0
    body: bytes = b""
    retry_after: str = ""
    date: str = ""
    failure: Failure | None = None
    duration_ms: int = 0
    body_file: BinaryIO | None = None


class Outcome(NamedTuple):
    """The result of a call, with the reason in words.

    `service_order` is the exchange's own order number. `faults` are the fields that a refusal names. `wait_s` is the pause
    that the exchange asks for. `stops_sending`: any further call would fail the same way. `log` is extra text for the log about
    a call without an answer.
    """

    kind: OutcomeKind
    reason: str
    status: int | None = None
    service_order: str = ""
    faults: tuple[Fault, ...] = ()
    wait_s: float = 0.0
    stops_sending: bool = False
    duration_ms: int = 0
    log: str = ""


class Phase(StrEnum):
    """When an exception is raised, relative to the bytes of the request."""

    BEFORE = "before any byte left"
    EITHER = "before or after"  # the connection itself knows
    AFTER = "after bytes left"


DEADLINE = "loadsheet.deadline"
TOO_LARGE = "loadsheet.answer too large"
PACKED = "loadsheet.answer packed"
PROXY_LOGIN = "loadsheet.proxy login refused"
CERTIFICATE = "loadsheet.client certificate refused"

_LIBRARIES: dict[str, dict[Phase, str]] = {
    "requests.exceptions": {
        Phase.EITHER: "RequestException ConnectionError ProxyError SSLError Timeout RetryError",
        Phase.BEFORE: "ConnectTimeout URLRequired MissingSchema InvalidSchema InvalidURL InvalidHeader InvalidProxyURL",
        Phase.AFTER: (
            "HTTPError ReadTimeout TooManyRedirects ChunkedEncodingError ContentDecodingError "
            "StreamConsumedError InvalidJSONError JSONDecodeError UnrewindableBodyError"
        ),
    },
    "urllib3.exceptions": {
        Phase.EITHER: "HTTPError PoolError RequestError MaxRetryError TimeoutError ProtocolError ProxyError SSLError",
        Phase.BEFORE: (
            "ConnectTimeoutError NewConnectionError NameResolutionError EmptyPoolError ClosedPoolError "
            "HostChangedError TimeoutStateError LocationValueError LocationParseError URLSchemeUnknown "
            "ProxySchemeUnknown ProxySchemeUnsupported"
        ),
        Phase.AFTER: (
            "FullPoolError ReadTimeoutError ResponseError DecodeError IncompleteRead InvalidChunkLength "
            "InvalidHeader HeaderParsingError ResponseNotChunked BodyNotHttplibCompatible "
            "UnrewindableBodyError"
        ),
    },
}
"""The exceptions of each library by phase, separated by spaces."""

FAILURES: dict[str, Phase] = {
    # our own verdicts on a call
    DEADLINE: Phase.EITHER,
    TOO_LARGE: Phase.AFTER,
    PACKED: Phase.AFTER,
    PROXY_LOGIN: Phase.BEFORE,
    CERTIFICATE: Phase.BEFORE,
    **{
        f"{module}.{name}": phase
        for module, phases in _LIBRARIES.items()
        for phase, names in phases.items()
        for name in names.split()
    },
}


class Meaning(NamedTuple):
    """The meaning of a status for its call, whatever the body says."""

    kind: OutcomeKind
    reason: str
    stops_sending: bool = False


_BUSY = Meaning(OutcomeKind.NOT_SENT, "the exchange is busy")
_NOT_SERVED = Meaning(OutcomeKind.NOT_SENT, "the exchange does not serve this call", stops_sending=True)

PROXY_LOGIN_REFUSED = 407

STATUSES: dict[int, Meaning] = {
    # 200 and 400 are judged by their bodies; a status not listed here is an unknown outcome
    401: Meaning(OutcomeKind.NOT_AUTHORISED, "the exchange refused the token"),
    **dict.fromkeys((425, 429), _BUSY),
    PROXY_LOGIN_REFUSED: Meaning(
        OutcomeKind.NOT_SENT, "the proxy asks for a valid user name and password", stops_sending=True
    ),
    **dict.fromkeys((403, 404, 405, 406, 411, 413, 414, 415, 422, 431), _NOT_SERVED),
    **{
        status: Meaning(OutcomeKind.UNKNOWN, "redirects are not followed", stops_sending=True)
        for status in range(300, 400)
    },
}

_UNAVAILABLE = 503
_UNNAMED = Meaning(OutcomeKind.UNKNOWN, "an answer that the interface does not name")


def classify(
    operation: Operation, keys: Sequence[str], reply: Reply, assumptions: Assumptions, *, wait_max_s: float
) -> Outcome:
    """The outcome of a call that carried records with these business keys.

    A refusal is judged on its own here. Only the ledger knows whether an earlier attempt was unknown, which turns it
    into an unknown outcome. `wait_max_s` caps a Retry-After.
    """
    if reply.failure is not None:
        return _of_failure(reply.failure, reply.duration_ms)
    if reply.status == 200:
        return _of_success(operation, keys, reply, assumptions)
    if reply.status == 400:
        return _of_refusal(operation, reply)
    meaning = STATUSES.get(reply.status, _UNNAMED)
    reason = f"{meaning.reason}: status {reply.status}"
    if meaning is not _BUSY and reply.status != PROXY_LOGIN_REFUSED and reply.body:  # a proxy may repeat the password
        reason += f', "{excerpt(_message_of(reply.body))}"'
    asks = meaning is _BUSY or reply.status == _UNAVAILABLE
    wait_s = min(_retry_after(reply), wait_max_s) if asks else 0.0
    return Outcome(
        meaning.kind,
        reason,
        reply.status,
        wait_s=wait_s,
        stops_sending=meaning.stops_sending,
        duration_ms=reply.duration_ms,
    )


def _message_of(body: bytes) -> bytes:
    """The message of an error in the shape of the interface; the whole body if it has another shape."""
    try:
        found = decode_body(body)
    except UndocumentedAnswer:
        return body
    error = found.get("error") if isinstance(found, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message.encode("utf-8", "replace") if isinstance(message, str) and message else body


def _of_failure(failure: Failure, duration_ms: int) -> Outcome:
    phase = FAILURES.get(failure.name, Phase.AFTER)
    if failure.has_sent or phase is Phase.AFTER:
        return Outcome(OutcomeKind.UNKNOWN, failure.text, duration_ms=duration_ms, log=failure.log)
    refused = failure.name == PROXY_LOGIN  # halts, because repeated logins could lock the account
    status, reason = PROXY_LOGIN_REFUSED if refused else None, f"no connection: {failure.text}"
    return Outcome(
        OutcomeKind.NOT_SENT, reason, status, stops_sending=refused, duration_ms=duration_ms, log=failure.log
    )


def _of_success(operation: Operation, keys: Sequence[str], reply: Reply, assumptions: Assumptions) -> Outcome:
    try:
        success = read_success(operation, decode_body(reply.body), assumptions)
    except UndocumentedAnswer as error:
        prefix = STATUS_FALSE if isinstance(error, StatusFalse) else "a success that is not documented: "
        page = reply.body.lstrip()[:1] == b"<"  # a portal or proxy answers for the exchange, and will again
        reason = f'{prefix}{error}; it began "{excerpt(reply.body)}"'
        return Outcome(OutcomeKind.UNKNOWN, reason, 200, stops_sending=page, duration_ms=reply.duration_ms)
    if success.echoed and [success.echoed] != list(keys):
        reason = f'the answer names "{_short(success.echoed)}", not "{", ".join(keys)}"'
        return Outcome(OutcomeKind.UNKNOWN, reason, 200, duration_ms=reply.duration_ms)
    return Outcome(
        OutcomeKind.ACCEPTED,
        _short(success.message),
        200,
        service_order=success.service_order,
        duration_ms=reply.duration_ms,
    )


def _of_refusal(operation: Operation, reply: Reply) -> Outcome:
    try:
        read = read_refusal(operation, decode_body(reply.body))
        faults = tuple(Fault(one_line(fault.path), one_line(fault.text), fault.index) for fault in read)
    except UndocumentedAnswer as error:
        text = f'a refusal in an undocumented shape ({error}); it began "{excerpt(reply.body)}"'
        faults = (Fault("", text),)
    return Outcome(OutcomeKind.REFUSED, faults_text(faults), 400, faults=faults, duration_ms=reply.duration_ms)


def faults_text(faults: Sequence[Fault]) -> str:
    """Faults as one line of a reason: the first few, and the number of the others."""
    shown = "; ".join(f"{fault.path}: {fault.text}" if fault.path else fault.text for fault in faults[:FAULTS_SHOWN])
    return f"{shown} (and {len(faults) - FAULTS_SHOWN} more)" if len(faults) > FAULTS_SHOWN else shown


def decode_body(body: bytes) -> object:
    """Decode a body as JSON with exact numbers, strictly. Raises UndocumentedAnswer for invalid JSON, duplicate keys, NaN
    and excessive nesting.
    """
    try:
        return _strict.decode(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, UndocumentedAnswer) else "it is not JSON"
        raise UndocumentedAnswer(f"{reason}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UndocumentedAnswer("a key appears twice in one object")
    return found


def _refuse_constant(name: str) -> object:
    raise UndocumentedAnswer(f"{name} is not a number")


def excerpt(body: bytes) -> str:
    """The beginning of a body as one printable line."""
    return _short(body[: EXCERPT_LENGTH * 4].decode("utf-8", "replace"))


def _short(text: str) -> str:
    return one_line(text[: EXCERPT_LENGTH * 4])[:EXCERPT_LENGTH]


_strict = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_unique)


def _retry_after(reply: Reply) -> float:
    """The seconds of a Retry-After (RFC 9110, 10.2.3): a number or a date. A date is compared with the answer's own date,
    because the clocks may differ. 0 if it is neither.
    """
    text = reply.retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    due = _http_date(text)
    if due is None:
        return 0.0
    return max(0.0, (due - (_http_date(reply.date) or datetime.now(UTC))).total_seconds())


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

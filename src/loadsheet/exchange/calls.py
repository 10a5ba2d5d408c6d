"""The latest calls with their records and answers, in memory only.

Owns: the bounded list and the middleware that fills it. It stores neither bodies nor tokens, only the operation, the identifier,
the status and the first problem of the answer.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loadsheet.contract import OPERATIONS, PATH_PREFIX, WRITES, Operation, UndocumentedAnswer, read_refusal

CALLS_KEPT = 1000
NOTE = "loadsheet.note"
"""The key of a request's `Note` in its scope. The application records the caller there."""

_KEY_SHOWN = 120
_PROBLEM_SHOWN = 240
_ANSWER_READ = 65_536  # bytes of a refusal that are searched for its first problem
_BAD_REQUEST = 400


@dataclass(slots=True)
class Note:
    """The application's note about a call: the key of the caller's party, the body as received, and its records once they are
    valid. Body and records are dropped after the call.
    """

    party: str | None = None
    body: bytes = b""
    records: Sequence[Mapping[str, Any]] = ()


class RecordedCall(NamedTuple):
    """One call: the time of the answer (UTC), operation, key and party, and the status of the answer (0: client disconnected)."""

    when: datetime
    operation: str
    key: str
    party: str | None
    status: int
    problem: str

    @property
    def refused(self) -> bool:
        """Whether the answer was not a success."""
        return not 0 < self.status < _BAD_REQUEST


class Calls:
    """The newest calls, up to `kept` of them."""

    def __init__(self, kept: int = CALLS_KEPT) -> None:
        self._recorded: deque[RecordedCall] = deque(maxlen=kept)

    def add(self, call: RecordedCall) -> None:
        """Add a call; the oldest is dropped if there are too many."""
        self._recorded.appendleft(call)

    def latest(self, party: str, *, problems: bool = False) -> Iterator[RecordedCall]:
        """The calls of a party (empty: of all), newest first; with `problems` only refused ones."""
        for call in tuple(self._recorded):
            if (not party or call.party == party) and (call.refused or not problems):
                yield call


class CallRecorder:
    """Middleware: records every call to an operation of the application."""

    def __init__(self, app: ASGIApp, calls: Calls) -> None:
        self._app, self._calls = app, calls
        self._by_path = {operation.path: operation for operation in OPERATIONS}
        self._readers = {operation.name: _reader(operation) for operation in WRITES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application and record it."""
        if scope["type"] != "http" or not scope["path"].startswith(PATH_PREFIX):
            await self._app(scope, receive, send)
            return
        note, answer = Note(), _Answer(send)
        try:
            await self._app({**scope, NOTE: note}, receive, answer)
        finally:
            operation = self._by_path.get(scope["path"])
            key = self._key(operation, note)
            name = _name(operation, scope)
            self._calls.add(
                RecordedCall(datetime.now(UTC), name, key, note.party, answer.status, _problem(operation, answer))
            )

    def _key(self, operation: Operation | None, note: Note) -> str:
        """The identifier of a call; empty without one."""
        if operation is None or not operation.is_write:
            return ""
        records = note.records or self._read(operation, note.body)
        if not records:
            return ""
        more = f" and {len(records) - 1} more" if len(records) > 1 else ""
        return operation.key_of(records[0])[:_KEY_SHOWN] + more

    def _read(self, operation: Operation, body: bytes) -> Sequence[Mapping[str, Any]]:
        """The key fields of the records in an invalid body; empty if it cannot be read."""
        try:
            read = self._readers[operation.name].decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ()
        return [msgspec.structs.asdict(record) for record in (read.data if operation.batched else [read])]


class _Answer:
    """Passes an answer on and keeps its status, and the start of a refusal."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.body = b""

    async def __call__(self, message: Message) -> None:
        """Pass on one message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self.status >= _BAD_REQUEST and len(self.body) < _ANSWER_READ:
            self.body += message.get("body", b"")
        await self._send(message)


def _name(operation: Operation | None, scope: Scope) -> str:
    if operation is None:
        return str(scope["path"])[:_KEY_SHOWN]
    return operation.name if operation.is_write else str(operation.action)


def _reader(operation: Operation) -> msgspec.json.Decoder[Any]:
    """Reads the key fields of a body and skips the others."""
    names = operation.record.key
    key = msgspec.defstruct("Key", [(name, str | int | float, "") for name in names])
    batch = msgspec.defstruct("Batch", [("data", list[key], msgspec.field(default_factory=list))])  # type: ignore[valid-type] # made here
    return msgspec.json.Decoder(batch if operation.batched else key)


def _problem(operation: Operation | None, answer: _Answer) -> str:
    if 0 < answer.status < _BAD_REQUEST:
        return ""
    if answer.status == _BAD_REQUEST and operation is not None:
        try:
            fault, *more = read_refusal(operation, json.loads(answer.body))
        except (UndocumentedAnswer, ValueError):
            return "refused"
        where = ": ".join(part for part in (fault.path, fault.text) if part)
        return where[:_PROBLEM_SHOWN] + (f" (and {len(more)} more)" if more else "")
    texts = {0: "the client disconnected", 401: "token missing or not authorised", 405: "unknown method"}
    return texts.get(answer.status, "failed")

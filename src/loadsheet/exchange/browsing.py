"""What the pages for people show: records by query, and the latest calls with their answers.

Owns: the queries (counts, lists with the newest first, one record with its related records, search by id), and the middleware that
records calls, in memory only. Nothing here writes to the database. Of a call it stores neither body nor token, only the operation,
the identifier, the status and the first problem of the answer.

Every query takes a `party`: the key of a party, which sees the records that it sends or receives and their related records. An empty
`party` sees all.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Select, Table, func, or_, select
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loadsheet.contract import (
    BY_NAME,
    OPERATIONS,
    PATH_PREFIX,
    WRITES,
    Operation,
    Overview,
    StatusReport,
    UndocumentedAnswer,
    overview_of,
    read_refusal,
    status_report,
)
from loadsheet.exchange.app import CALL_CONTEXT, CallContext
from loadsheet.exchange.database import (
    BY_SUBJECT,
    CONFIRMATIONS,
    EVENTS,
    ORDERS,
    PARTIES,
    QUOTES,
    TENDERS,
    owner_of,
)
from loadsheet.exchange.effects import key_text
from loadsheet.exchange.record_store import Store
from loadsheet.exchange.wire import decode_stored

PAGE_ROWS = 50
SEARCH_ROWS = 25
BELONGING_ROWS = 500  # quotes, decisions or status records of one record
_NUMBER_DIGITS = 15

CALLS_KEPT = 1000
_KEY_SHOWN = 120
_PROBLEM_SHOWN = 240
_ANSWER_READ = 65_536  # bytes of a refusal that are searched for its first problem
_BAD_REQUEST = 400

_RECORDS = {subject: BY_NAME[f"{subject}.list"].record for subject in BY_SUBJECT}
_COUNTED = {"tenders": TENDERS, "quotes": QUOTES, "decisions": CONFIRMATIONS, "orders": ORDERS, "events": EVENTS}
_OWNERS = {QUOTES: TENDERS, CONFIRMATIONS: TENDERS, EVENTS: ORDERS}
_BELONGING = {"tender": {"quotes": QUOTES, "decisions": CONFIRMATIONS}, "order": {"events": EVENTS}}

_JOURNEYS = "order"  # records of this subject have status records

Rows = Sequence[Any]


class ListItem(NamedTuple):
    """A record in a list: the exchange's own number, the overview, and for an order its latest status report."""

    number: int
    overview: Overview
    last: StatusReport | None = None


class ListPage(NamedTuple):
    """One page of a list, newest first. The next pages start at the numbers `older` and `newer`; None at an end."""

    rows: Sequence[ListItem]
    older: int | None
    newer: int | None


class RecordWithRelated(NamedTuple):
    """A record with its quotes and decisions, or its status records, in order of arrival."""

    number: int
    content: Mapping[str, Any]
    quotes: Sequence[Mapping[str, Any]]
    decisions: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]


class Browser:
    """The queries of the pages on an open store. All raise StoreFailed if it cannot be read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def counts(self, party: str) -> dict[str, int]:
        """The number of records of each kind."""
        queries = {
            name: _visible(select(func.count()).select_from(table), table, party) for name, table in _COUNTED.items()
        }
        return {name: int(rows[0][0]) for name, rows in (await self._read(queries)).items()}

    async def lines(
        self, subject: str, party: str, *, before: int | None = None, after: int | None = None, rows: int = PAGE_ROWS
    ) -> ListPage:
        """A page of the tenders or the orders: the newest, those before a number, or those just after one."""
        table = BY_SUBJECT[subject]
        number = table.c.number
        page = _visible(select(number, table.c.content), table, party).limit(rows + 1)
        if after is not None:
            found = await self._rows(page.where(number > after).order_by(number))
            kept = found[:rows][::-1]
            newer = kept[0][0] if len(found) > rows else None
            return ListPage(await self._lines(subject, kept), kept[-1][0] if kept else after + 1, newer)
        if before is not None:
            page = page.where(number < before)
        found = await self._rows(page.order_by(number.desc()))
        kept = found[:rows]
        newer = before - 1 if before is not None else None
        return ListPage(await self._lines(subject, kept), kept[-1][0] if len(found) > rows else None, newer)

    async def whole(self, subject: str, identifier: str, party: str) -> RecordWithRelated | None:
        """One tender or order with its related records; None if it does not exist or the party may not see it."""
        table, key = BY_SUBJECT[subject], key_text(identifier)
        record = select(table.c.number, table.c.content).where(owner_of(table) == key)
        queries = {"record": _visible(record, table, party)}
        for name, belonging in _BELONGING[subject].items():
            related = select(belonging.c.content).where(owner_of(belonging) == key)
            queries[name] = related.order_by(belonging.c.number.desc()).limit(BELONGING_ROWS)
        found = await self._read(queries)
        if not found["record"]:
            return None
        number, content = found["record"][0]
        quotes, decisions, events = (
            [decode_stored(row[0]) for row in reversed(found.get(name, ()))]
            for name in ("quotes", "decisions", "events")
        )
        return RecordWithRelated(number, decode_stored(content), quotes, decisions, events)

    async def search(self, text: str, party: str) -> dict[str, Sequence[ListItem]]:
        """Tenders and orders whose identifier begins with the text, or whose number at the exchange equals it."""
        queries = {}
        for subject, table in BY_SUBJECT.items():
            owner = owner_of(table)
            matches = or_(owner.startswith(text, autoescape=True), owner == key_text(text))
            if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS:
                matches = or_(matches, table.c.number == int(text))
            query = _visible(select(table.c.number, table.c.content).where(matches), table, party)
            queries[subject] = query.order_by(table.c.number.desc()).limit(SEARCH_ROWS)
        found = await self._read(queries)
        return {subject: await self._lines(subject, rows) for subject, rows in found.items()}

    async def _lines(self, subject: str, rows: Rows) -> list[ListItem]:
        lines = [ListItem(number, overview_of(_RECORDS[subject], decode_stored(content))) for number, content in rows]
        if subject != _JOURNEYS or not lines:
            return lines
        owner = owner_of(EVENTS)
        keys = [key_text(line.overview.key) for line in lines]
        newest = select(func.max(EVENTS.c.number)).where(owner.in_(keys)).group_by(owner)
        reported = await self._rows(select(owner, EVENTS.c.content).where(EVENTS.c.number.in_(newest)))
        last = {key: status_report(decode_stored(content)) for key, content in reported}
        return [line._replace(last=last.get(key)) for key, line in zip(keys, lines, strict=True)]

    async def _rows(self, query: Select[Any]) -> Rows:
        return (await self._read({"": query}))[""]

    async def _read(self, queries: Mapping[str, Select[Any]]) -> dict[str, Rows]:
        """The rows of several queries on one snapshot of the database."""

        def execute(connection: Connection) -> dict[str, Rows]:
            return {name: connection.execute(query).all() for name, query in queries.items()}

        return await self._store.read(execute)


def _visible(query: Select[Any], table: Table, party: str) -> Select[Any]:
    """The query, restricted to the records that the party may see."""
    if not party:
        return query
    owners = _OWNERS.get(table)
    if owners is None:
        return query.where(or_(*(table.c[side] == party for side in PARTIES)))
    return query.where(owner_of(table).in_(_visible(select(owner_of(owners)), owners, party)))


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
        context, answer = CallContext(), _Answer(send)
        try:
            await self._app({**scope, CALL_CONTEXT: context}, receive, answer)
        finally:
            operation = self._by_path.get(scope["path"])
            key = self._key(operation, context)
            name = str(scope["path"])[:_KEY_SHOWN]
            if operation:
                name = operation.name if operation.is_write else str(operation.action)
            self._calls.add(
                RecordedCall(datetime.now(UTC), name, key, context.party, answer.status, _problem(operation, answer))
            )

    def _key(self, operation: Operation | None, context: CallContext) -> str:
        """The identifier of a call; empty without one."""
        if operation is None or not operation.is_write:
            return ""
        records = context.records or self._read(operation, context.body)
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

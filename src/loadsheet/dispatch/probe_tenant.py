"""The probed tenant: makes every call in sequence and at a limited rate, tracks what may be left there, and removes it.

Counts calls, issues identifiers and reads the listing. Knows no question and draws no conclusion.

`ProbeRecords` and the functions below it make the records: the required fields of an operation, and variants with one
change. They find the field for each question by its kind, never by its name.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlencode

from loadsheet.contract import (
    BY_NAME,
    PAGE_SIZE,
    Action,
    Assumptions,
    Fault,
    Field,
    FieldKind,
    Listing,
    Operation,
    Record,
    UndocumentedAnswer,
    When,
    encode_record,
    example_record,
    listed_subject,
    order_change,
    read_listing,
    read_refusal,
    read_success,
)
from loadsheet.contract.records import ORDER, REFERENCE, TENDER
from loadsheet.dispatch.client import Client
from loadsheet.dispatch.outcomes import Reply, decode_body, excerpt
from loadsheet.errors import ExchangeUnreachable, TokenRefused

PREFIX = "LSPROBE"
CHANGED = "LSPROBE changed"
CALLS_MAX = 200  # cleaning up may make the same number again
TRIES = 3
_LONGEST_WAIT_S = 30.0
_OK, _REFUSED, _UNAUTHORISED, _BUSY = 200, 400, 401, 429

Payload = dict[str, Any]
_RecordId = tuple[str, str]  # subject and key


@dataclass(frozen=True, slots=True)
class ProbeRecords:
    """Creates records. `given` values replace ours in every record that has a field of that name, such as the parties
    that a tenant knows.
    """

    given: Mapping[str, str]

    def minimal(self, operation: Operation, key: str) -> Payload:
        """The required fields of an operation, for the order or tender with this key."""
        record = operation.record
        example = {**example_record(operation), **self._created(operation)}  # our updates change nothing
        needed = [field.name for field in record.fields if field.is_required(creates=operation.creates)]
        given = {name: value for name, value in self.given.items() if record.field(name)}
        return {**{name: example[name] for name in needed}, **given, record.key[0]: key}

    def changed(self, operation: Operation, key: str) -> Payload:
        """The minimal record with one changed text."""
        return {**self.minimal(operation, key), shared_text(): CHANGED}

    def carrier(self, operation: Operation, key: str, carrier: str) -> Payload:
        """A quote of this carrier, or a decision on one."""
        return {**self.minimal(operation, key), operation.record.key[1]: carrier}

    def _created(self, operation: Operation) -> Payload:
        return example_record(BY_NAME[f"{operation.subject}.create"]) if operation.action is Action.UPDATE else {}


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """The answer to one call. `accepted` requires the documented success; `other` is anything but that and a 400."""

    kind: Literal["accepted", "refused", "other"]
    status: int
    body: bytes

    def __str__(self) -> str:
        """Status and first words."""
        return f'{self.status or "no answer"} "{excerpt(self.body)}"'

    def faults(self, operation: Operation) -> tuple[Fault, ...]:
        """The faults that a refusal names; none if its shape is not documented."""
        try:
            return read_refusal(operation, decode_body(self.body))
        except UndocumentedAnswer:
            return ()


class ProbeTenant:
    """One tenant of one exchange. `run` makes the identifiers of this probe unique.

    Every call may raise TokenRefused (a 401) and ExchangeUnreachable (no answer, or more calls than a probe may make).
    """

    def __init__(
        self,
        client: Client,
        assumptions: Assumptions,
        records: ProbeRecords,
        *,
        run: str,
        pause_s: float,
        report: Callable[[str], None],
    ) -> None:
        self.assumptions = assumptions
        self.records = records
        self.run = run
        self.calls = self.busy = self.redirects = 0
        self.page_size_in, self.page_size_max = assumptions.page_size_in, 1_000
        self.listing_delay_s = 0.0
        self.last: ProbeReply | None = None  # the last reply to a read
        # operations with an accepted call: only for these is a refusal conclusive
        self.accepted_operations: set[str] = set()
        self.visible: set[str] = set()  # subjects whose listing has shown created records
        self._client, self._pause_s, self._report = client, pause_s, report
        self._limit = CALLS_MAX
        self._ids = self._unanswered = 0
        self._used: dict[_RecordId, None] = {}
        self._created: dict[_RecordId, None] = {}
        self._orphans: dict[_RecordId, None] = {}

    def new_id(self) -> str:
        """An unused identifier."""
        self._ids += 1
        return f"{PREFIX}-{self.run}-{self._ids:02}"

    def write(self, name: str, payload: Payload, *more: Payload) -> ProbeReply:
        """Make one call of a write operation and track what it may leave."""
        operation = BY_NAME[name]
        records: list[_RecordId] = [
            (operation.subject, str(one.get(operation.record.key[0], ""))) for one in (payload, *more)
        ]
        self._used |= dict.fromkeys(record for record in records if record[1])
        fresh = self._remember(operation, records)  # before the call, which may take effect without an answer
        try:
            reply = self._send(operation, operation.body([encode_record(one) for one in (payload, *more)]))
        except TokenRefused:
            self._forget(fresh)
            raise
        answer = self.classified(operation, ProbeReply("other", reply.status, reply.body))
        if answer.kind == "refused":
            self._forget(fresh)
        elif answer.kind == "accepted" and operation.action is Action.DELETE:
            self._forget(records)
        return answer

    def classified(self, operation: Operation, answer: ProbeReply) -> ProbeReply:
        """The reply, judged by what is now known about successes."""
        if answer.status == _REFUSED:
            return replace(answer, kind="refused")
        if answer.status != _OK:
            return answer
        try:
            read_success(operation, decode_body(answer.body), self.assumptions)
        except UndocumentedAnswer:
            return answer
        self.accepted_operations.add(operation.name)
        return replace(answer, kind="accepted")

    def ask(self, operation: Operation, body: bytes = b"", query: str = "") -> ProbeReply:
        """Make any call, judged by its status alone."""
        reply = self._send(operation, body, query)
        self.last = ProbeReply("accepted" if reply.status == _OK else "other", reply.status, reply.body)
        return self.last

    def look(self, page_size: int | None, *, place: str = "", query: str = "") -> tuple[ProbeReply, Listing | None]:
        """Read the listing that both subjects share; `place` is where the page size goes."""
        asked = {} if page_size is None else {PAGE_SIZE: page_size}
        place = place or self.page_size_in
        words = [urlencode(asked)] if asked and place != "body" else []
        body = encode_record(asked) if asked and place != "query" else b""
        answer = self.ask(BY_NAME["order.list"], body, "&".join([*words, query] if query else words))
        if answer.status != _OK:
            return answer, None
        try:
            return answer, read_listing(decode_body(answer.body))
        except UndocumentedAnswer:
            return answer, None

    def find(self, subject: str, key: str) -> list[dict[str, Any]] | None:
        """The records of this key in the listing; None if the listing cannot tell."""
        if subject not in self.visible:
            return None
        time.sleep(self.listing_delay_s)
        return self.search(subject, key)

    def search(self, subject: str, key: str) -> list[dict[str, Any]] | None:
        """The same, even if no such record was ever seen there."""
        found = self._everything(subject)
        records = [one for one in found.results if _belongs(one, subject, key)] if found else []
        return records or ([] if found and found.complete else None)

    def clear(self) -> tuple[str, ...]:
        """Delete everything the calls may have left. Returns what could not be removed, one per line. Raises nothing."""
        self._limit = self.calls + CALLS_MAX
        try:
            self._clear_orphans()
            for record in tuple(self._created):
                self._delete(record)
            self._delete_survivors()
        except (TokenRefused, ExchangeUnreachable) as error:
            return tuple(f"{subject} {key}: {error}" for subject, key in {**self._created, **self._orphans})
        return tuple(f"{subject} {key} may still be there" for subject, key in {**self._created, **self._orphans})

    def _remember(self, operation: Operation, records: Sequence[_RecordId]) -> list[_RecordId]:
        """Track what a call may leave. Returns the records that were not tracked before."""
        fresh = [one for one in records if one[1] and one not in self._created and one not in self._orphans]
        if operation.action in (Action.CREATE, Action.UPDATE):
            self._created |= dict.fromkeys(records)
        elif operation.action is not Action.DELETE:
            self._orphans |= dict.fromkeys(fresh)
        return fresh

    def _forget(self, records: Sequence[_RecordId]) -> None:
        for record in records:
            self._created.pop(record, None)
            self._orphans.pop(record, None)

    def _clear_orphans(self) -> None:
        # What belongs to an order or tender that never existed goes with it, so that parent is created and deleted.
        for subject, key in tuple(self._orphans):
            create = BY_NAME[f"{subject}.create"]
            self.write(create.name, self.records.minimal(create, key))
            self._delete((subject, key))

    def _delete(self, record: _RecordId) -> ProbeReply:
        delete = BY_NAME[f"{record[0]}.delete"]
        return self.write(delete.name, self.records.minimal(delete, record[1]))

    def _delete_survivors(self) -> None:
        for subject in sorted(self.visible):
            time.sleep(self.listing_delay_s)
            for record in self._survivors(subject):
                self._delete(record)
                self._created[record] = None
            time.sleep(self.listing_delay_s)
            there = self._survivors(subject)
            for record in [one for one in self._created if one[0] == subject and one not in there]:
                del self._created[record]
            self._created |= dict.fromkeys(there)

    def _survivors(self, subject: str) -> list[_RecordId]:
        found = self._everything(subject)
        keys = {BY_NAME[f"{subject}.create"].key_of(one) for one in found.results} if found else set()
        there = [record for record in self._used if record[0] == subject and record[1] in keys]
        is_complete = found is not None and found.complete
        return (
            there
            if is_complete
            else [*there, *(one for one in self._created if one[0] == subject and one not in there)]
        )

    def _everything(self, subject: str) -> Listing | None:
        query = self.assumptions.tender_listing_query if subject == "tender" else ""
        _, found = self.look(self.page_size_max, query=query)
        return found

    def _send(self, operation: Operation, body: bytes, query: str = "") -> Reply:
        for tries in range(1, TRIES + 1):
            reply = self._once(operation, body, query)
            if reply.status == _BUSY:
                self.busy += 1
                wait_s = float(reply.retry_after) if reply.retry_after.isdecimal() else float(tries)
            elif reply.failure is not None and not reply.failure.has_sent:
                wait_s = tries / 2
            else:
                break
            if tries < TRIES:
                time.sleep(min(wait_s, _LONGEST_WAIT_S))
        if reply.failure is not None:
            self._unanswered += 1
            if not reply.failure.has_sent or self._unanswered >= TRIES:
                raise ExchangeUnreachable(f"{self._client.base_url} gave no answer: {reply.failure.text}")
            return reply._replace(status=0, body=reply.failure.text.encode())
        self._unanswered = 0
        self.redirects += 300 <= reply.status < 400
        if reply.status == _UNAUTHORISED:
            raise TokenRefused(f"the exchange at {self._client.base_url} refused the token ({operation.name})")
        return reply

    def _once(self, operation: Operation, body: bytes, query: str) -> Reply:
        if self.calls >= self._limit:
            raise ExchangeUnreachable(f"the probe stopped after its maximum of {CALLS_MAX} calls")
        self.calls += 1
        time.sleep(self._pause_s)
        reply = self._client.ask(operation, body, query=query)
        shown = f"{operation.path}?{query}" if query else operation.path
        answer = str(ProbeReply("other", reply.status, reply.body))
        self._report(f"{self.calls:3} {operation.method} {shown} -> {answer}")
        return reply


def _belongs(record: dict[str, Any], subject: str, key: str) -> bool:
    return listed_subject(record) == subject and BY_NAME[f"{subject}.create"].key_of(record) == key


def shared_text() -> str:
    """A free-text field that orders require and tenders may have."""
    return next(
        field.name for field in _free_texts() if field.when is When.ON_CREATE and TENDER.field(field.name) is not None
    )


def optional_text() -> str:
    """A free-text field that an order may have."""
    return next(field.name for field in _free_texts() if field.when is When.OPTIONAL)


def listing_only(record: Record) -> str:
    """A field that only listings show."""
    return next(field.name for field in record.fields if field.when is When.LISTED)


def unnamed_values(payload: Payload, record: Record) -> Payload:
    """The record with an unlisted value in every field that has listed values."""
    return {**payload, **{field.name: "LSPROBE" for field in record.fields if field.known and field.name in payload}}


def with_decision(payload: Payload, word: str) -> Payload:
    """A decision on a quote with this word."""
    name = next(field.name for field in BY_NAME["tender.confirm"].record.fields if field.known)
    return {**payload, name: word}


def other_zone(payload: Payload, record: Record) -> Payload:
    """The record in a time zone that does not exist."""
    name = next(field.name for field in record.fields if field.kind is FieldKind.TIMEZONE)
    return {**payload, name: "Mars/Phobos"}


def with_flag(payload: Payload, record: Record, word: str) -> Payload:
    """The record with this word in a flag."""
    return {**payload, next(field.name for field in record.fields if field.kind is FieldKind.FLAG): word}


def number_as_text(payload: Payload, record: Record) -> Payload:
    """An order with a number as text."""
    return {**payload, next(field.name for field in record.fields if field.kind is FieldKind.NUMERIC): "2"}


def number_as_number(payload: Payload, operation: Operation) -> Payload:
    """A tender with a number as number, in a list, because a tender itself has none."""
    holders = (
        (field, inner)
        for field in operation.record.fields
        if field.record is not None
        for inner in field.record.fields
        if inner.kind is FieldKind.NUMERIC
    )
    field, inner = next(holders)
    element = example_record(operation)[field.name][0]
    needed = [part.name for part in field.record.fields if part.when is When.ALWAYS] if field.record else []
    return {**payload, field.name: [{**{name: element[name] for name in needed}, inner.name: 2}]}


def reference(record: Record, mark: str) -> tuple[Payload, str]:
    """This mark as a reference in a record, and the name of the field that carries it."""
    name = next(field.name for field in record.fields if field.record is REFERENCE)
    parts = (part.name for part in REFERENCE.fields)
    return {name: [dict(zip(parts, ("LSPROBE", mark), strict=True))]}, name


def status_marks() -> dict[str, tuple[str, str]]:
    """For each way in which a status record may set a field of its order: the order's field and the status's field."""
    names = {field.name: field.name for field in BY_NAME["order.status"].record.fields}
    ways = {way: order_change(names, Assumptions(status_sets_order_status=way)) for way in ("code", "name")}
    return {way: next(iter(change.items())) for way, change in ways.items()}


def _free_texts() -> Iterator[Field]:
    """The free-text fields of an order."""
    return (field for field in ORDER.fields if field.kind is FieldKind.STRING and not field.known)

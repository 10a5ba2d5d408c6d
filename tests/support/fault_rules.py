"""The fault classes, the rules that assign them to requests, and the bytes of invalid answers.

The fault of each request is the same for the same order of requests. `fault_proxy` handles sockets and time.
"""

import gzip
import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from loadsheet.contract import BY_NAME, UNAUTHORISED
from loadsheet.exchange.wire import encode

ANY, CONNECT = "any", "connect"

Headers = tuple[tuple[bytes, bytes], ...]

NOISE_BYTES = 256
BOMB_BYTES = 200_000_000
ELSEWHERE = "http://127.0.0.1:9/elsewhere"  # the discard port, which is closed
_JSON = ((b"content-type", b"application/json"),)
_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>"
_SIZED_ELSEWHERE = (b"content-length", b"transfer-encoding", b"connection")


class Happens(StrEnum):
    """Whether and when the effect of a request with a fault happens."""

    NEVER = "no"
    BEFORE = "before the answer"
    LATER = "after the answer"


class FaultClass(StrEnum):
    """Every fault class, by what the client experiences."""

    # the effect does not happen
    CLOSED_AT_ACCEPT = auto()  # the connection is closed as soon as it is open (operation: connect)
    RESET_AT_ACCEPT = auto()  # the connection is reset as soon as it is open (operation: connect)
    REFUSED = auto()  # the request is reset unread, and new connections are refused for `seconds`
    RESET_BEFORE_BODY = auto()  # reset after the headers, before the body is read
    RESET_IN_BODY = auto()  # reset after `bytes` of the body are read (0: half of it)
    RESET_BEFORE_EFFECT = auto()  # reset after the whole request is read
    CLOSED_BEFORE_EFFECT = auto()  # closed without an answer after the whole request is read
    STATUS_BEFORE_EFFECT = auto()  # an answer of `status`, with `retry_after` if given
    UNAUTHORISED = auto()  # the documented 401, even for a valid token
    NO_ANSWER = auto()  # the request is read, and the connection is closed `seconds` later
    HTML = auto()  # 200 with a web page, such as a proxy's sign-in page
    REDIRECT = auto()  # `status` (0: 307) to `location` on another origin
    # it happens after the answer
    LATE_EFFECT = auto()  # an answer of `status` (0: closed without an answer), the effect `seconds` later
    # it happens before the answer
    RESET_AFTER_EFFECT = auto()  # the effect is committed, the answer lost by a reset
    CLOSED_AFTER_EFFECT = auto()  # the effect is committed, the answer lost by a close
    RESET_IN_ANSWER = auto()  # reset in the middle of the answer's body
    STATUS_AFTER_EFFECT = auto()  # an answer of `status`, although the effect is committed
    SLOW_ANSWER = auto()  # the answer comes `seconds` after the effect
    SLOW_EFFECT = auto()  # effect and answer come after `seconds`, even if the client disconnects
    DRIPPING_HEADERS = auto()  # the whole answer byte by byte, with pauses of `seconds`
    DRIPPING_ANSWER = auto()  # the answer's body byte by byte, with pauses of `seconds`
    CUT_ANSWER = auto()  # half of the body with the Content-Length of all of it, then closed
    CUT_CHUNK = auto()  # closed in the middle of a chunk
    CUT_OLD_PROTOCOL = auto()  # HTTP/1.0 without a length, closed after half of the body
    TRUNCATED_JSON = auto()  # half of the JSON with a matching Content-Length
    LENGTH_TOO_SHORT = auto()  # the whole body with the Content-Length of half of it
    TWO_LENGTHS = auto()  # two Content-Length headers that differ
    GARBAGE = auto()  # 200 with `bytes` of noise instead of JSON
    NOT_HTTP = auto()  # noise instead of an answer, then closed
    WRONG_SHAPE = auto()  # 200 with valid JSON of another shape
    STATUS_FALSE = auto()  # 200 with the correct body, but status false
    WRONG_ID = auto()  # 200 that names another record
    GZIP_BOMB = auto()  # a compressed body that unpacks to `bytes`
    ENDLESS_ANSWER = auto()  # a body of `bytes`
    CLOSED_UNDER_PIPELINED = auto()  # a correct answer; the connection's next request is reset, without effect
    TWO_ANSWERS = auto()  # the answer, followed by a second one

    @property
    def happens(self) -> Happens:
        """Whether and when the effect of a request with this fault happens."""
        if self is FaultClass.LATE_EFFECT:
            return Happens.LATER
        return Happens.NEVER if self in _NEVER else Happens.BEFORE


_NEVER = set(itertools.takewhile(lambda fault: fault is not FaultClass.LATE_EFFECT, FaultClass))  # those above it
_BY_CONNECTION = {FaultClass.CLOSED_AT_ACCEPT, FaultClass.RESET_AT_ACCEPT}
_BODY_UNREAD = {FaultClass.REFUSED, FaultClass.RESET_BEFORE_BODY, FaultClass.RESET_IN_BODY}


@dataclass(frozen=True, slots=True)
class FaultRule:
    """The requests that get one fault class.

    Requests of `operation` (and of the business `key`, if given) are counted from 1. The rule matches those at the positions `at`;
    without any, all. Sizes are bytes; 0 means the class's default.
    """

    fault: FaultClass
    operation: str = ANY
    key: str = ""
    at: Collection[int] = ()
    seconds: float = 1.0
    status: int = 0
    retry_after: str = ""
    bytes: int = 0
    location: str = ""

    def __post_init__(self) -> None:
        assert self.operation in (ANY, CONNECT, *BY_NAME), f"{self.operation} is not an operation"
        assert (self.fault in _BY_CONNECTION) == (self.operation == CONNECT), f"{self.fault} at {self.operation}"
        assert not (self.key and self.fault in _BODY_UNREAD), f"{self.fault} occurs before the key is read"


class Fired(NamedTuple):
    """One injected fault: the number of the request among those of its operation (from 1), and its key (empty: not read)."""

    fault: FaultClass
    operation: str
    number: int
    key: str


class Match(NamedTuple):
    """A request's operation, its number among the requests of that operation (from 1), and the index of its rule (None: none)."""

    operation: str
    number: int
    rule: int | None


@dataclass(slots=True)
class Faults:
    """Counts requests and returns the fault of each: the first rule that matches wins. Not thread-safe."""

    rules: Sequence[FaultRule] = ()
    fired: list[Fired] = field(default_factory=list)
    _places: Counter[int] = field(default_factory=Counter)
    _numbers: Counter[str] = field(default_factory=Counter)

    def at_headers(self, operation: str) -> Match:
        """Count a request after its headers: its number, and its rule among those without a key."""
        self._numbers[operation] += 1
        return Match(operation, self._numbers[operation], self._first(operation, None))

    def at_body(self, match: Match, keys: Sequence[str]) -> Match:
        """The same request with the rules for the keys in its body."""
        rules = [index for index in (match.rule, self._first(match.operation, keys)) if index is not None]
        return match._replace(rule=min(rules, default=None))

    def fire(self, match: Match, keys: Sequence[str] = ()) -> FaultRule | None:
        """The rule of a request, recorded as fired; None without one."""
        if match.rule is None:
            return None
        rule = self.rules[match.rule]
        self.fired.append(Fired(rule.fault, match.operation, match.number, " ".join(keys)))
        return rule

    def unread(self, match: Match) -> bool:
        """Whether the fault of the request occurs before its body is read."""
        return match.rule is not None and self.rules[match.rule].fault in _BODY_UNREAD

    def _first(self, operation: str, keys: Sequence[str] | None) -> int | None:
        """The first matching rule without a key (`keys` None) or with one of these keys. Every rule counts the request."""
        first = None
        for index, rule in enumerate(self.rules):
            if rule.operation != operation and (rule.operation != ANY or operation == CONNECT):
                continue
            if rule.key not in (("",) if keys is None else set(keys) - {""}):
                continue
            self._places[index] += 1
            if first is None and (not rule.at or self._places[index] in rule.at):
                first = index
        return first


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer of the application."""

    status: int
    headers: Headers = _JSON
    body: bytes = b""

    def head(self, length: int | None, more: Headers = (), protocol: bytes = b"1.1") -> bytes:
        """Status line and headers with this Content-Length (None: without one)."""
        phrase = HTTPStatus(self.status).phrase if self.status in HTTPStatus._value2member_map_ else ""
        kept = tuple((name, value) for name, value in self.headers if name.lower() not in _SIZED_ELSEWHERE)
        sized = () if length is None else ((b"content-length", str(length).encode()),)
        lines = [name + b": " + value + b"\r\n" for name, value in (*kept, *sized, *more)]
        return b"HTTP/" + protocol + f" {self.status} {phrase}\r\n".encode() + b"".join(lines) + b"\r\n"

    def whole(self, *more: tuple[bytes, bytes]) -> bytes:
        """The complete answer in bytes."""
        return self.head(len(self.body), more) + self.body

    @property
    def half(self) -> bytes:
        """The first half of the body."""
        return self.body[: len(self.body) // 2]


class Spoiled(NamedTuple):
    """Bytes to send, and whether the connection stays open after them."""

    data: bytes
    stays: bool = True


class Wrong(NamedTuple):
    """The parts of a spoiled answer: the correct answer (empty without effect), the rule, the request's number, and the record's key."""

    answer: Answer
    rule: FaultRule
    number: int
    key: str

    @property
    def noise(self) -> bytes:
        """Random bytes, the same for the same request."""
        return random.Random(self.number).randbytes(self.rule.bytes or NOISE_BYTES)

    @property
    def size(self) -> int:
        return len(self.answer.body)


def spoil(wrong: Wrong) -> Spoiled:
    """The bytes of a class of spoiled answer. Raises KeyError for a class that is not an answer."""
    made = _SPOILED[wrong.rule.fault](wrong)
    return Spoiled(made.whole()) if isinstance(made, Answer) else Spoiled(made, stays=wrong.rule.fault in _STAYING)


def status_answer(rule: FaultRule, default: int) -> Answer:
    """An answer with this status, an undocumented body, and the rule's `retry_after`."""
    headers: Headers = ((b"content-type", b"text/plain"),)
    if rule.retry_after:
        headers += ((b"retry-after", rule.retry_after.encode()),)
    return Answer(rule.status or default, headers, b"a fault on demand\n")


def _cut_chunk(wrong: Wrong) -> bytes:
    head = wrong.answer.head(None, ((b"transfer-encoding", b"chunked"),))
    return head + b"%x\r\n" % wrong.size + wrong.answer.half


def _denied(value: object) -> object:
    if isinstance(value, dict):
        return {name: False if inner is True else _denied(inner) for name, inner in value.items()}
    return value


def _wrong_id(wrong: Wrong) -> Answer:
    body = wrong.answer.body
    for part in wrong.key.split("/"):
        body = body.replace(encode(part), encode(f"{part}-OTHER"))
    return Answer(wrong.answer.status, _JSON, body)


def _bomb(wrong: Wrong) -> Answer:
    # Gzip members can be concatenated, so a bomb needs no memory for its unpacked size.
    member, rest = divmod(wrong.rule.bytes or BOMB_BYTES, 10_000_000)
    packed = gzip.compress(bytes(10_000_000)) * member + gzip.compress(bytes(rest))
    return Answer(200, (*_JSON, (b"content-encoding", b"gzip")), packed)


_SPOILED: dict[FaultClass, Callable[[Wrong], Answer | bytes]] = {
    FaultClass.STATUS_BEFORE_EFFECT: lambda wrong: status_answer(wrong.rule, 503),
    FaultClass.STATUS_AFTER_EFFECT: lambda wrong: status_answer(wrong.rule, 503),
    FaultClass.UNAUTHORISED: lambda _wrong: Answer(
        401, (*_JSON, (b"www-authenticate", b"Bearer")), encode(UNAUTHORISED)
    ),
    FaultClass.CUT_ANSWER: lambda wrong: wrong.answer.head(wrong.size) + wrong.answer.half,
    FaultClass.CUT_CHUNK: _cut_chunk,
    FaultClass.CUT_OLD_PROTOCOL: lambda wrong: wrong.answer.head(None, protocol=b"1.0") + wrong.answer.half,
    FaultClass.TRUNCATED_JSON: lambda wrong: wrong.answer.head(len(wrong.answer.half)) + wrong.answer.half,
    FaultClass.LENGTH_TOO_SHORT: lambda wrong: wrong.answer.head(len(wrong.answer.half)) + wrong.answer.body,
    FaultClass.TWO_LENGTHS: lambda wrong: (
        wrong.answer.head(wrong.size, ((b"content-length", b"%d" % (wrong.size + 7)),)) + wrong.answer.body
    ),
    FaultClass.GARBAGE: lambda wrong: Answer(200, _JSON, wrong.noise),
    FaultClass.NOT_HTTP: lambda wrong: wrong.noise,
    FaultClass.HTML: lambda _wrong: Answer(200, ((b"content-type", b"text/html; charset=utf-8"),), _PAGE),
    FaultClass.WRONG_SHAPE: lambda _wrong: Answer(200, _JSON, b'[{"ok": true, "data": null}]'),
    FaultClass.STATUS_FALSE: lambda wrong: Answer(200, _JSON, encode(_denied(msgspec.json.decode(wrong.answer.body)))),
    FaultClass.WRONG_ID: _wrong_id,
    FaultClass.REDIRECT: lambda wrong: Answer(
        wrong.rule.status or 307, ((b"location", (wrong.rule.location or ELSEWHERE).encode()),)
    ),
    FaultClass.GZIP_BOMB: _bomb,
    FaultClass.TWO_ANSWERS: lambda wrong: (
        wrong.answer.whole() + Answer(200, _JSON, b'{"status":true,"message":"a second answer"}').whole()
    ),
}
_STAYING = {FaultClass.TRUNCATED_JSON, FaultClass.TWO_ANSWERS}  # the connection stays open after these bytes

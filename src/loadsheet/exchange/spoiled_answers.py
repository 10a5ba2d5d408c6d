"""Answers as no honest exchange gives them: pure functions from a good answer to the bytes that go out instead.

Owns: what each class of spoiled answer looks like on the wire. Knows no socket and no time.
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from loadsheet.contract import UNAUTHORISED
from loadsheet.exchange.faults import FaultClass, FaultRule
from loadsheet.exchange.wire import encode

Headers = tuple[tuple[bytes, bytes], ...]

NOISE_BYTES = 256
BOMB_BYTES = 200_000_000
ELSEWHERE = "http://127.0.0.1:9/elsewhere"  # the discard port, where nobody listens
_JSON = ((b"content-type", b"application/json"),)
_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>"
_SIZED_ELSEWHERE = (b"content-length", b"transfer-encoding", b"connection")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer as the application gave it."""

    status: int
    headers: Headers = _JSON
    body: bytes = b""

    def head(self, length: int | None, more: Headers = (), protocol: bytes = b"1.1") -> bytes:
        """Status line and headers under a Content-Length of our choice (None: without one)."""
        phrase = HTTPStatus(self.status).phrase if self.status in HTTPStatus._value2member_map_ else ""
        kept = tuple((name, value) for name, value in self.headers if name.lower() not in _SIZED_ELSEWHERE)
        sized = () if length is None else ((b"content-length", str(length).encode()),)
        lines = [name + b": " + value + b"\r\n" for name, value in (*kept, *sized, *more)]
        return b"HTTP/" + protocol + f" {self.status} {phrase}\r\n".encode() + b"".join(lines) + b"\r\n"

    def whole(self, *more: tuple[bytes, bytes]) -> bytes:
        """The answer as it should go out."""
        return self.head(len(self.body), more) + self.body

    @property
    def half(self) -> bytes:
        """The first half of the body."""
        return self.body[: len(self.body) // 2]


class Spoiled(NamedTuple):
    """Bytes to send, and whether the connection stays open behind them."""

    said: bytes
    stays: bool = True


class Wrong(NamedTuple):
    """What a spoiled answer is made of: the good one (empty if there was no effect), the rule, noise, the record's key."""

    answer: Answer
    rule: FaultRule
    noise: Callable[[int], bytes]
    key: str


def spoil(wrong: Wrong) -> Spoiled:
    """The bytes of a class of spoiled answer. Raises KeyError for a class that is no answer."""
    return _SPOILED[wrong.rule.fault](wrong)


def said_status(rule: FaultRule, default: int) -> Answer:
    """An answer of a status without a documented body, with `retry_after` as the rule has it."""
    headers: Headers = ((b"content-type", b"text/plain"),)
    if rule.retry_after:
        headers += ((b"retry-after", rule.retry_after.encode()),)
    return Answer(rule.status or default, headers, b"a fault on demand\n")


def _status(wrong: Wrong) -> Spoiled:
    return Spoiled(said_status(wrong.rule, 503).whole())


def _unauthorised(_wrong: Wrong) -> Spoiled:
    return Spoiled(Answer(401, (*_JSON, (b"www-authenticate", b"Bearer")), encode(UNAUTHORISED)).whole())


def _cut(wrong: Wrong) -> Spoiled:
    return Spoiled(wrong.answer.head(len(wrong.answer.body)) + wrong.answer.half, stays=False)


def _cut_chunk(wrong: Wrong) -> Spoiled:
    head = wrong.answer.head(None, ((b"transfer-encoding", b"chunked"),))
    return Spoiled(head + b"%x\r\n" % len(wrong.answer.body) + wrong.answer.half, stays=False)


def _cut_old(wrong: Wrong) -> Spoiled:
    return Spoiled(wrong.answer.head(None, protocol=b"1.0") + wrong.answer.half, stays=False)


def _truncated(wrong: Wrong) -> Spoiled:
    return Spoiled(wrong.answer.head(len(wrong.answer.half)) + wrong.answer.half)


def _too_short(wrong: Wrong) -> Spoiled:
    return Spoiled(wrong.answer.head(len(wrong.answer.half)) + wrong.answer.body, stays=False)


def _two_lengths(wrong: Wrong) -> Spoiled:
    size = len(wrong.answer.body)
    return Spoiled(wrong.answer.head(size, ((b"content-length", b"%d" % (size + 7)),)) + wrong.answer.body, stays=False)


def _garbage(wrong: Wrong) -> Spoiled:
    return Spoiled(Answer(200, _JSON, wrong.noise(wrong.rule.bytes or NOISE_BYTES)).whole())


def _not_http(wrong: Wrong) -> Spoiled:
    return Spoiled(wrong.noise(wrong.rule.bytes or NOISE_BYTES), stays=False)


def _html(_wrong: Wrong) -> Spoiled:
    return Spoiled(Answer(200, ((b"content-type", b"text/html; charset=utf-8"),), _PAGE).whole())


def _wrong_shape(_wrong: Wrong) -> Spoiled:
    return Spoiled(Answer(200, _JSON, b'[{"ok": true, "data": null}]').whole())


def _status_false(wrong: Wrong) -> Spoiled:
    return Spoiled(Answer(200, _JSON, encode(_denied(msgspec.json.decode(wrong.answer.body)))).whole())


def _denied(value: object) -> object:
    if isinstance(value, dict):
        return {name: False if inner is True else _denied(inner) for name, inner in value.items()}
    return value


def _wrong_id(wrong: Wrong) -> Spoiled:
    body = wrong.answer.body
    for part in wrong.key.split("/"):
        body = body.replace(encode(part), encode(f"{part}-OTHER"))
    return Spoiled(Answer(wrong.answer.status, _JSON, body).whole())


def _redirect(wrong: Wrong) -> Spoiled:
    location = (wrong.rule.location or ELSEWHERE).encode()
    return Spoiled(Answer(wrong.rule.status or 307, ((b"location", location),)).whole())


def _bomb(wrong: Wrong) -> Spoiled:
    size = wrong.rule.bytes or BOMB_BYTES
    # Packed members can stand one behind the other, so that a bomb is made without unpacked memory.
    member, rest = divmod(size, 10_000_000)
    packed = gzip.compress(bytes(10_000_000)) * member + gzip.compress(bytes(rest))
    return Spoiled(Answer(200, (*_JSON, (b"content-encoding", b"gzip")), packed).whole())


def _twice(wrong: Wrong) -> Spoiled:
    return Spoiled(wrong.answer.whole() + Answer(200, _JSON, b'{"status":true,"message":"a second answer"}').whole())


_SPOILED: dict[FaultClass, Callable[[Wrong], Spoiled]] = {
    FaultClass.STATUS_BEFORE_EFFECT: _status,
    FaultClass.STATUS_AFTER_EFFECT: _status,
    FaultClass.UNAUTHORISED: _unauthorised,
    FaultClass.CUT_ANSWER: _cut,
    FaultClass.CUT_CHUNK: _cut_chunk,
    FaultClass.CUT_OLD_PROTOCOL: _cut_old,
    FaultClass.TRUNCATED_JSON: _truncated,
    FaultClass.LENGTH_TOO_SHORT: _too_short,
    FaultClass.TWO_LENGTHS: _two_lengths,
    FaultClass.GARBAGE: _garbage,
    FaultClass.NOT_HTTP: _not_http,
    FaultClass.HTML: _html,
    FaultClass.WRONG_SHAPE: _wrong_shape,
    FaultClass.STATUS_FALSE: _status_false,
    FaultClass.WRONG_ID: _wrong_id,
    FaultClass.REDIRECT: _redirect,
    FaultClass.GZIP_BOMB: _bomb,
    FaultClass.TWO_ANSWERS: _twice,
}

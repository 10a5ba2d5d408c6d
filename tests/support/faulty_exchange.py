"""The real exchange behind a front that misbehaves by rules: what the client meets is the fault, what happened is in the truth log.

The fault of each request is the same for the same order of requests. Only the real exchange decides what an effect is.
"""

import os
import socket
import threading
from collections.abc import Callable, Collection
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import scripted_exchange as scripted
from exchange_process import TOKEN
from invariants import read_truth
from scripted_exchange import Move, Request, Scripted, answer, body_of, good_answer, says, sends

from loadsheet.contract import BY_NAME, UNAUTHORISED, Assumptions
from loadsheet.exchange import serve_embedded

ANY, CONNECT = "any", "connect"
NEVER, BEFORE, LATER = "no", "before the answer", "after the answer"
"""Whether and when the effect of a request with a fault happens."""


@dataclass(slots=True)
class FaultRule:
    """The requests that get one fault of `FAULTS`.

    Requests of `operation` (and of the business `key`, if given) are counted from 1. The rule matches those at the positions `at`;
    without any, all.
    """

    fault: str
    operation: str = ANY
    key: str = ""
    at: Collection[int] = ()
    seconds: float = 1.0
    status: int = 0
    retry_after: str = ""
    move: Any = None
    count: int = 0

    def __post_init__(self) -> None:
        assert self.operation in (ANY, CONNECT, *BY_NAME), f"{self.operation} is not an operation"
        assert (self.fault in AT_ACCEPT) == (self.operation == CONNECT), f"{self.fault} at {self.operation}"
        self.move = FAULTS[self.fault](self)


def happens(fault: str) -> str:
    """Whether and when the effect of a request with this fault happens."""
    if fault in ("late_effect", "slow_effect"):
        return LATER if fault == "late_effect" else BEFORE
    return BEFORE if FAULTS[fault](FaultRule("html")).applies else NEVER


def _half(request: Request) -> bytes:
    return body_of(request)[: len(body_of(request)) // 2]


def _cut_in_body(request: Request) -> bytes:
    return good_answer(request)[: -len(_half(request))]


def _status(rule: FaultRule, *, applies: bool) -> Move:
    headers = f"Content-Type: text/plain\r\nRetry-After: {rule.retry_after}\r\n" if rule.retry_after else ""
    return says(rule.status or 503, b"a fault on demand\n", headers, applies=applies)


def _denied(value: object) -> object:
    if isinstance(value, dict):
        return {name: False if inner is True else _denied(inner) for name, inner in value.items()}
    return value


def _status_false(request: Request) -> bytes:
    return answer(200, _denied(msgspec.json.decode(body_of(request))))


def _another_id(request: Request) -> bytes:
    body = body_of(request)
    for record in request.payloads:
        for part in request.operation.key_of(record).split("/"):
            body = body.replace(msgspec.json.encode(part), msgspec.json.encode(f"{part}-OTHER"))
    return answer(200, body)


def _reset_in_answer(connection: socket.socket, request: Request) -> bool:
    connection.sendall(_cut_in_body(request))
    return scripted.reset(connection)


def _resets_the_next(connection: socket.socket, request: Request) -> bool:
    connection.sendall(good_answer(request))
    return bool(connection.recv(1)) and scripted.reset(connection)


def _refused(rule: FaultRule) -> Move:
    def act(connection: socket.socket, request: Request) -> bool:
        request.front.hide(rule.seconds)
        return scripted.reset(connection)

    return Move(act, reads=False)


def _late(rule: FaultRule) -> Move:
    def act(connection: socket.socket, request: Request) -> bool:
        request.front.apply_later(request, rule.seconds)
        if rule.status:
            connection.sendall(answer(rule.status, b"a fault on demand\n"))
        return bool(rule.status)

    return Move(act)


def _slow(rule: FaultRule) -> Move:
    def act(connection: socket.socket, request: Request) -> bool:
        if not request.front.waits(rule.seconds):
            return False
        request.front.apply(request)
        return scripted.accepts.act(connection, request)

    return Move(act)


_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>"
_closed, _reset = partial(Move, scripted.closes_without_answer.act), partial(Move, scripted.reset)
AT_ACCEPT = {"closed_at_accept", "reset_at_accept"}
FAULTS: dict[str, Callable[[FaultRule], Move]] = {
    # the effect does not happen
    "closed_at_accept": lambda _: _closed(reads=False),  # as soon as the connection is open (operation: connect)
    "reset_at_accept": lambda _: _reset(reads=False),
    "refused": _refused,  # reset unread, and new connections are refused for `seconds`
    "reset_before_body": lambda _: _reset(reads=False),
    "reset_before_effect": lambda _: _reset(),
    "closed_before_effect": lambda _: _closed(),
    "status_before_effect": partial(_status, applies=False),  # an answer of `status`, with `retry_after` if given
    "unauthorised": lambda _: says(401, UNAUTHORISED, "WWW-Authenticate: Bearer\r\n"),  # even for a valid token
    "no_answer": lambda rule: scripted.hangs(rule.seconds),
    "html": lambda _: says(200, _PAGE, "Content-Type: text/html\r\n"),  # such as a proxy's sign-in page
    "redirect": lambda rule: says(rule.status or 307, b"", "Location: http://127.0.0.1:9/elsewhere\r\n"),
    # it happens after the answer
    "late_effect": _late,  # an answer of `status` (0: closed without an answer), the effect `seconds` later
    # it happens before the answer
    "reset_after_effect": lambda _: _reset(applies=True),
    "closed_after_effect": lambda _: _closed(applies=True),
    "reset_in_answer": lambda _: Move(_reset_in_answer, applies=True),
    "status_after_effect": partial(_status, applies=True),
    "slow_answer": lambda rule: scripted.accepts_after(rule.seconds),
    "slow_effect": _slow,  # effect and answer come after `seconds`, even if the client disconnects
    "dripping_headers": lambda rule: scripted.drips(rule.seconds, headers_too=True),
    "dripping_answer": lambda rule: scripted.drips(rule.seconds),
    "cut_answer": lambda _: sends(_cut_in_body, stays=False),
    "cut_chunk": lambda _: scripted.cuts_chunk,
    "cut_old_protocol": lambda _: scripted.cuts_old,
    "truncated_json": lambda _: sends(lambda request: answer(200, _half(request))),
    "length_too_short": lambda _: sends(
        lambda request: answer(200, body_of(request), length=len(_half(request))), stays=False
    ),
    "two_lengths": lambda _: sends(lambda request: answer(200, body_of(request), "Content-Length: 7\r\n"), stays=False),
    "garbage": lambda _: says(200, os.urandom(256), applies=True),
    "not_http": lambda _: sends(lambda _request: os.urandom(256), stays=False),
    "wrong_shape": lambda _: says(200, [{"ok": True, "data": None}], applies=True),
    "status_false": lambda _: sends(_status_false),
    "wrong_id": lambda _: sends(_another_id),
    "gzip_bomb": lambda _: scripted.bombs,
    "endless_answer": lambda _: scripted.answers_without_end,
    "closed_under_pipelined": lambda _: Move(
        _resets_the_next, applies=True
    ),  # the next request is reset, without effect
    "two_answers": lambda _: scripted.answers_twice,
}


class Front(Scripted):
    """A server that hands requests on to an exchange, but for those that meet a fault; in `fired` is what met which."""

    def __init__(self, backend: str, rules: Collection[FaultRule]) -> None:
        super().__init__(lambda _number, request: self._move(request))
        host, port = backend.removeprefix("http://").split(":")
        self._backend, self._rules, self._choosing = (host, int(port)), rules, threading.Lock()
        self.fired: list[tuple[str, str, str]] = []

    def _first(self, operation: str, keys: Collection[str] | None = None) -> FaultRule | None:
        """The first rule that matches: of those without a key, or, with the keys of a body, of those with one. Each counts the request."""
        found = None
        with self._choosing:
            for rule in self._rules:
                concerns = rule.operation == operation or (rule.operation == ANY and operation != CONNECT)
                if concerns and (rule.key in keys if keys is not None and rule.key else keys is None and not rule.key):
                    rule.count += 1
                    if found is None and (not rule.at or rule.count in rule.at):
                        found = rule
        return found

    def _fire(self, rule: FaultRule, operation: str, keys: Collection[str] = ()) -> Move:
        self.fired.append((rule.fault, operation, " ".join(keys)))
        return rule.move

    def accepted(self, connection: socket.socket) -> bool:
        """Whether a new connection is served: it may meet a fault of its own."""
        rule = self._first(CONNECT)
        return rule is None or self._fire(rule, CONNECT).act(connection, None)

    def _move(self, request: Request) -> Move:
        request.front = self
        operation = request.operation.name if request.operation else ""
        rule = self._first(operation)
        if rule and not rule.move.reads:
            return self._fire(rule, operation)
        return Move(lambda connection, request: self._after_the_body(connection, request, rule))

    def _after_the_body(self, connection: socket.socket, request: Request, rule: FaultRule | None) -> bool:
        operation, keys = request.operation, []
        with suppress(msgspec.DecodeError, KeyError, TypeError, AttributeError):  # a body without keys
            keys = [operation.key_of(record) for record in request.payloads]
        found = [one for one in (rule, self._first(operation.name, keys) if operation else None) if one]
        move = self._fire(min(found, key=self._rules.index), operation.name, keys) if found else scripted.accepts
        if move.applies:
            self.apply(request)
        return move.act(connection, request)

    def apply(self, request: Request) -> None:
        """Hand a request on, on a connection of its own; what the exchange answers is the good answer to it."""
        lines = [f"{request.method} {request.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in request.headers.items() if name != "connection"]
        with closing(socket.create_connection(self._backend)) as exchange:
            exchange.sendall("\r\n".join([*lines, "connection: close\r\n\r\n"]).encode("latin-1") + request.body)
            said = b"".join(iter(lambda: exchange.recv(65_536), b""))
        head, _, body = said.partition(b"\r\n\r\n")
        kept = [line for line in head.split(b"\r\n") if line.lower() != b"connection: close"]
        request.good = b"\r\n".join([*kept, b"", body])

    def apply_later(self, request: Request, seconds: float) -> None:
        """Hand it on after some seconds, unless the front has ended by then."""
        self._start(lambda: self.waits(seconds) and self.apply(request))

    def hide(self, seconds: float) -> None:
        """Stop listening for a time; open connections stay."""

        def listen_again() -> None:
            if self.waits(seconds):
                self.listen(port)
                self._accept()

        port = int(self.url.rpartition(":")[2])
        self.stop_listening()
        self._start(listen_again)


@dataclass
class Misbehaving:
    """A running front and the truth log of the exchange behind it."""

    front: Front
    truth: Any

    @property
    def url(self) -> str:
        """Its base URL."""
        return self.front.url

    def happened(self) -> list[dict[str, Any]]:
        """The lines of the truth log."""
        return read_truth(self.truth)


@contextmanager
def misbehaving(folder, *rules, **assumptions):
    """An exchange with a truth log in a folder, and a front with these rules."""
    truth, answers = folder / "truth.jsonl", Assumptions(**assumptions)
    with (
        serve_embedded(f"sqlite:///{folder / 'exchange.db'}", TOKEN, answers, truth=truth) as url,
        Front(url, [FaultRule(**rule) for rule in rules]) as front,
    ):
        yield Misbehaving(front, truth)

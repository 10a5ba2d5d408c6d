"""WireTime time, and that the client's own delay is no part of it."""

import math
import select
import socket
import sys
import time

import pytest
import ready_entries
from scripted_exchange import Scripted, accepts_after

from loadsheet.dispatch import SendOptions, send
from loadsheet.dispatch.concurrency import Concurrency
from loadsheet.dispatch.connections import Poll, WireTime, next_poll, timestamp_arrivals, waited_s

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not say when bytes came")


class BusyClient:
    """Makes calls as sending does, in virtual time, to an exchange that is made of arithmetic. Where an answer was, the next call leaves at
    once; then what was answered is recorded, which takes `own_s` for each answer, and meanwhile nobody looks. `judged` says what time counts: by the notes of the kernel, by looks alone, or, as a control, all that passed
    until the client saw the answer.
    """

    def __init__(self, limit, judged):
        self.limit, self.judged = limit, judged
        self.own_s, self.wire_of = 0.0, lambda _under_way: 0.05
        self.now, self._poll = 0.0, Poll(0.0, 0.0)
        self._under_way = []  # when it left, when its answer is there, its connection

    def go_on(self, seconds):
        """Yields the limit after each call for so long."""
        until = self.now + seconds
        while self.now < until:
            self._begin()
            began, first = self.now, min(there for _, there, _ in self._under_way)
            self.now = max(self.now, first)
            self._poll = next_poll(self._poll, began, self.now)
            answered = [one for one in self._under_way if one[1] <= self.now]
            for call in answered:
                self._over(call)
                yield self.limit.limit
            self.now += self.own_s * len(answered)

    def _begin(self):
        while len(self._under_way) < self.limit.limit:
            wire = WireTime()
            wire.sent(self.now)
            self._under_way.append((self.now, self.now + self.wire_of(len(self._under_way) + 1), wire))

    def _over(self, call):
        left, there, wire = call
        at_limit = len(self._under_way) >= self.limit.limit
        self._under_way.remove(call)
        wire.received(self.now, self.now - there if self.judged == "kernel" else None)
        took = self._poll.ended - left if self.judged == "client" else wire.seconds(self._poll)
        self.limit.finished(took, left, self.now, at_limit=at_limit)
        self._begin()


def limits_beside_own_delay(judged, most):
    """The limits of a client that was quick, and then needs 50 ms of its own for each answer."""
    client = BusyClient(Concurrency(2, most), judged)
    assert list(client.go_on(5))[-1] == most
    client.own_s = 0.05
    return list(client.go_on(120))


@pytest.mark.parametrize("most", [6, 64])
@pytest.mark.parametrize("judged", ["kernel", "looks"])
def test_own_delay_does_not_shrink_the_limit(judged, most):
    assert set(limits_beside_own_delay(judged, most)) == {most}


@pytest.mark.parametrize("most", [6, 64])
def test_judged_by_what_the_client_sees_the_same_own_delay_would_shrink_it(most):
    assert min(limits_beside_own_delay("client", most)) <= 2


@pytest.mark.parametrize("judged", ["kernel", "looks"])
def test_it_grows_beside_own_delay(judged):
    client = BusyClient(Concurrency(2, 32), judged)
    client.own_s = 0.01
    assert list(client.go_on(60))[-1] == 32


@pytest.mark.parametrize(("judged", "own_s"), [("kernel", 0.0), ("kernel", 0.01), ("looks", 0.0), ("looks", 0.001)])
def test_growth_of_wire_time_shrinks_it(judged, own_s):
    """An exchange that served 64 calls at the same time serves four from now on."""
    client = BusyClient(Concurrency(2, 64), judged)
    assert list(client.go_on(5))[-1] == 64
    client.own_s, client.wire_of = own_s, lambda under_way: 0.05 * max(1.0, under_way / 4)
    later = list(client.go_on(60))[-1000:]
    assert max(later) <= 16


def test_it_lasts_from_the_last_byte_that_left_to_the_first_that_came():
    wire = WireTime()
    wire.sent(10.0)
    wire.sent(10.5)
    wire.received(12.0, 1.25)
    assert wire.seconds(Poll(99.0, 80.0)) == 0.25
    wire.sent(20.0)
    assert wire.seconds(Poll(20.5, 0.0)) == 0.5, "of the call before nothing is left"


def test_without_notes_of_the_kernel_an_answer_that_lay_there_came_nobody_knows_when():
    wire = WireTime()
    wire.sent(10.0)
    wire.received(11.0, None)
    waited = next_poll(Poll(10.1, 0.0), 10.2, 11.0)
    assert wire.seconds(waited) == 1.0
    soon = next_poll(Poll(10.8, 0.0), 10.9999, 11.0)
    assert wire.seconds(soon) == 1.0
    late = next_poll(Poll(10.7, 0.0), 10.9999, 11.0)
    assert wire.seconds(late) is None


def test_notes_by_a_clock_that_was_set_do_not_count():
    wire = WireTime()
    wire.sent(10.0)
    wire.received(11.0, 3600.0)
    assert wire.seconds(Poll(11.0, 0.0)) == 1.0
    assert wire.seconds(Poll(11.0, 0.9)) is None


@linux
def test_the_kernel_says_for_how_long_bytes_have_been_there():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
        with ours, theirs:
            assert waited_s(ours) is None, "there is nothing"
            timestamp_arrivals(ours)
            while theirs.send(b".") and (not select.select([ours], [], [], 9)[0] or waited_s(ours) is None):
                ours.recv(9)  # the kernel begins to note a while after the first socket asked for it
            ours.recv(9)
            before = time.monotonic()
            theirs.sendall(b"xy")
            time.sleep(0.3)
            waited, passed = waited_s(ours), time.monotonic() - before
            assert 0.25 < waited <= passed
            assert ours.recv(9) == b"xy", "it read nothing"


@linux
@pytest.mark.parametrize("secured", [False, True])
def test_what_a_run_does_between_its_looks_does_not_shrink_its_limit(ledger, certificate, monkeypatch, secured):
    """It is kept busy for 0.3 s whenever it has recorded something, but for the beginning; answers take 100 ms."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    run, options = ledger.begin_run(), ready_entries.settings(connections=6)
    drop = ready_entries.orders(ledger, run, 66)

    def busy(done, _total):
        if done > 36:
            time.sleep(0.3)

    script = Scripted(accepts_after(0.1), tls=certificate[1] if secured else None)
    with script as server, ready_entries.client_of(server.url.replace("127.0.0.1", "localhost"), options) as client:
        report = send(ledger, client, run, options, SendOptions(progress=busy))
    assert ready_entries.states(ledger, drop) == ["accepted"] * 66
    assert report.connections == 6


def test_a_round_of_which_no_wire_time_is_known_lets_the_limit_grow_to_what_is_allowed():
    limit = Concurrency(2, 9)
    for now in range(1, 30):
        limit.finished(None, now, now, at_limit=True)
    assert limit.limit == 9
    assert limit.settled.wire_s is None
    assert math.isclose(limit.settled.limit, 9)

"""Wire time, and that the client's own delay is no part of it."""

import select
import socket
import sys
import time

import pytest
import ready_entries
from scripted_exchange import Scripted, accepts_after

from loadsheet.dispatch import SendOptions, send
from loadsheet.dispatch.connections import Poll, WireTime, next_poll, timestamp_arrivals, waited_s

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not say when bytes came")


def answered(sent, received, waited=None):
    """The wire time of an answer that the client saw at `received`, and for how long it lay there then, as far as the kernel says so."""
    wire = WireTime()
    for moment in sent:
        wire.sent(moment)
    wire.received(received, waited)
    return wire


def test_it_lasts_from_the_last_byte_that_left_to_the_first_that_came():
    wire = answered([10.0, 10.5], 12.0, 1.25)
    assert wire.seconds(Poll(99.0, 80.0)) == 0.25
    wire.sent(20.0)
    assert wire.seconds(Poll(20.5, 0.0)) == 0.5, "of the call before nothing is left"


@pytest.mark.parametrize(
    ("before", "began", "seconds"),
    [(Poll(10.1, 0.0), 10.2, 1.0), (Poll(10.8, 0.0), 10.9999, 1.0), (Poll(10.7, 0.0), 10.9999, None)],
    ids=["it was waited for", "it came soon after the last look", "it lay there"],
)
def test_without_notes_of_the_kernel_an_answer_that_lay_there_came_nobody_knows_when(before, began, seconds):
    assert answered([10.0], 11.0).seconds(next_poll(before, began, 11.0)) == seconds


def test_notes_by_a_clock_that_was_set_do_not_count():
    wire = answered([10.0], 11.0, 3600.0)
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
    options = ready_entries.settings(connections=6)
    run, drop = ready_entries.new_orders(ledger, 66)

    def busy(done, _total):
        if done > 36:
            time.sleep(0.3)

    script = Scripted(accepts_after(0.1), tls=certificate[1] if secured else None)
    with script as server, ready_entries.client_of(server.named_url, options) as client:
        report = send(ledger, client, run, options, SendOptions(progress=busy))
    assert ready_entries.states(ledger, drop) == ["accepted"] * 66
    assert report.connections == 6

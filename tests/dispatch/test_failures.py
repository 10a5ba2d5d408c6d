"""A call that fails on its way is told in plain words; what the libraries call it is for the log."""

import re
import socket
import threading
from contextlib import closing

import pytest
import scripted_exchange
from payload_examples import GOOD
from ready_entries import client_of, settings
from scripted_exchange import Scripted
from test_outcomes import library_exceptions

from loadsheet.contract import BY_NAME
from loadsheet.dispatch.transport import failure_text

CREATE = BY_NAME["order.create"]
BODY = scripted_exchange._encode(GOOD["order.create"])
QUICK = settings(call_timeout_s=0.5, connect_timeout_s=0.3)
TECHNICAL = re.compile(r"Errno|[A-Z][a-z]+Error|Exception|object at 0x|_ssl\.c|urllib3|requests|[A-Z]+_[A-Z]+")


def failure_at(url):
    with client_of(url, QUICK) as client:
        return client.call(CREATE, BODY).failure


def failure_after(move):
    with Scripted(move) as server:
        return failure_at(server.url)


def nobody():
    with closing(socket.create_server(("127.0.0.1", 0))) as port:
        return f"http://127.0.0.1:{port.getsockname()[1]}"


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (scripted_exchange.closes_without_answer, "the exchange closed the connection without an answer"),
        (scripted_exchange.cuts(0.5), "the exchange closed the connection in the middle of an answer"),
        (scripted_exchange.resets_after_reading, "the connection was interrupted"),
        (scripted_exchange.hangs(5), "the call did not finish within 0.5 s (dispatch.call_timeout_s)"),
    ],
)
def test_a_call_without_an_answer_is_told_in_plain_words(move, words):
    assert failure_after(move).text == words


def test_where_nobody_listens_the_connection_is_refused():
    failure = failure_at(nobody())
    assert failure.text == "connection refused"
    assert failure.log == "NewConnectionError: [Errno 111] Connection refused"


def test_a_name_that_nobody_has_is_not_known():
    assert failure_at("https://no-such-host.invalid").text == "the host name of the exchange cannot be resolved"


def test_a_port_that_speaks_no_tls_is_told_without_the_words_of_openssl():
    with closing(socket.create_server(("127.0.0.1", 0))) as port:

        def answer():
            connection, _ = port.accept()
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        answering = threading.Thread(target=answer)
        answering.start()
        with client_of(f"https://127.0.0.1:{port.getsockname()[1]}", settings()) as client:
            failure = client.call(CREATE, BODY).failure
        answering.join()
    assert failure.text == "no secure connection is possible (wrong version number) (is it http://?)"


def test_no_exception_of_the_libraries_shows_its_name():
    for name in library_exceptions():
        module, _, kind = name.rpartition(".")
        found = getattr(__import__(module, fromlist=[kind]), kind)
        error = found.__new__(found)
        error.args = ()
        assert not TECHNICAL.search(failure_text(error)), name


@pytest.mark.parametrize("number", [32, 101, 103, 104, 110, 111, 113])
def test_no_failure_of_the_network_shows_its_number(number):
    words = failure_text(OSError(number, "What C Says"))
    assert not TECHNICAL.search(words), words
    assert "C Says" not in words

"""The exchange on its socket, embedded and as an operator starts it: its addresses, its tokens, its end."""

import contextlib
import http.client
import logging
import signal
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from certificates import Authority, openssl
from click import Context
from command_in_process import loadsheet
from exchange_calls import AUTHORISED, OverSocket, embedded, inside, url_of
from exchange_process import TOKEN, served, serving
from payload_examples import ORDER

from loadsheet import exchange
from loadsheet.cli.exchange import serve as serve_command
from loadsheet.contract import Assumptions
from loadsheet.errors import SettingsError
from loadsheet.exchange import Address, ExchangeSetup, Store, TokenAdmin, check_address, serve, serve_embedded


def test_an_embedded_exchange_answers_at_its_url_and_stops_with_its_block_whatever_happens(tmp_path):
    threads, started = set(threading.enumerate()), time.monotonic()
    with contextlib.suppress(ZeroDivisionError), embedded(tmp_path / "exchange.db") as caller:
        host, port = caller.address.split(":")
        assert (host, caller.orders()) == ("127.0.0.1", [])
        idle = socket.create_connection((host, int(port)))  # a client that stays connected
        raise ZeroDivisionError
    idle.close()
    assert time.monotonic() - started < 20
    assert set(threading.enumerate()) == threads
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_an_exchange_that_has_just_ended_may_be_asked_to_stop(tmp_path):
    def stop():
        server.stop()

    with exchange._listener("127.0.0.1", 0) as listener, contextlib.closing(Store(url_of(tmp_path / "x.db"))) as store:
        app = exchange.create_app(store, TOKEN, Assumptions())
        server = exchange._Server(app, stop, exchange.ServerSettings())
        server.run(sockets=[listener])
        stop()
    assert server.started


def test_a_token_that_no_header_can_carry_is_refused(tmp_path):
    threads = set(threading.enumerate())
    for token in ("", " ", "two words", "ümlaut", "line\nbreak"):
        exchange = serve_embedded(url_of(tmp_path / "x.db"), token, Assumptions())
        with pytest.raises(SettingsError, match=r"^token: "), exchange:
            pass
    assert set(threading.enumerate()) == threads


def test_an_address_that_is_taken_is_reported_at_once(tmp_path):
    setup = ExchangeSetup(url_of(tmp_path / "x.db"), TOKEN, Assumptions())
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError) as wrong:
        serve(setup, Address(port=taken.getsockname()[1]), print)
    assert "cannot listen on 127.0.0.1 port" in str(wrong.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_exchange_cleanly_after_the_running_calls(tmp_path, number):
    with served(tmp_path / "exchange.db") as (url, process):
        callers = [OverSocket(url) for _ in range(4)]
        start = threading.Barrier(5)

        def create(lane):
            caller, done = callers[lane], 0
            start.wait()
            try:
                while caller.call("order.create", {**ORDER, "order_id": f"{lane}-{done}"}).status == 200:
                    done += 1
            except (OSError, http.client.HTTPException):  # stopped between two calls
                return done

        with ThreadPoolExecutor(4) as threads:
            counts = [threads.submit(create, lane) for lane in range(4)]
            start.wait()
            time.sleep(0.2)
            process.send(number)
            done = sum(count.result() for count in counts)
        assert process.wait() == 0
    assert process.said == f"exchange listening on {url}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exchange.db"]  # the journal is folded in
    with inside(tmp_path / "exchange.db") as app:
        assert len(app.orders("?page_size=100000")) == done > 0  # no call was carried out without an answer


def test_the_exchange_listens_on_the_other_loopback_too(tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with served(tmp_path / "exchange.db", host="::1") as (url, _):
        assert url.startswith("http://[::1]:")
        assert OverSocket(url).orders() == []


def test_no_token_is_kept_or_logged_whatever_happens(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    operators, database = "canary-of-the-token", url_of(tmp_path / "exchange.db")
    with TokenAdmin(database) as admin:
        _, partys = admin.add(ORDER["sender_id"])
    with serve_embedded(database, operators, Assumptions()) as url:
        caller = OverSocket(url)
        for secret, status in ((operators, 200), (partys, 200), (operators + "x", 401), (partys + "x", 401)):
            headers = {"Authorization": f"Bearer {secret}"}
            assert caller.send("GET", "/tmsapi/getOrders", b"", headers).status == status
            caller.send("POST", "/tmsapi/createOrder", b"{", headers)
            caller.send("GET", f"/tmsapi/getOrders?token={secret}", b"", headers)
            caller.send("BREW", "/", b"", headers)
    written = "".join(capfd.readouterr()) + caplog.text
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (operators, partys):
        assert secret not in written
        assert secret.encode() not in kept


SERVE = ("exchange", "serve", "--port", "0")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A folder with an authority, a certificate for 127.0.0.1, its key, and keys that do not fit it."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    _, key = authority.issue("cert", hosts="IP:127.0.0.1")
    authority.issue("another's")
    openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", folder / "with a passphrase.key")
    (folder / "not a key.key").write_text("not a key")
    return folder


def tls_of(certificate, key="cert"):
    return ("--tls-cert", certificate / "cert.pem", "--tls-key", certificate / f"{key}.key")


def asked(url, headers=AUTHORISED, trusted=None):
    scheme, _, address = url.partition("://")
    if scheme == "https":
        context = ssl.create_default_context(cafile=trusted)
        connection = http.client.HTTPSConnection(address, timeout=30, context=context)
    else:
        connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/tmsapi/getOrders", headers=headers)
    answer = connection.getresponse()
    read = answer.status, answer.read(), dict(answer.headers)
    connection.close()
    return read


def test_an_address_that_others_reach_is_refused_without_tls_and_by_default_only_this_machine_is_listened_to(tmp_path):
    host = next(option for option in serve_command.params if option.name == "host")
    for ours in (host.get_default(Context(serve_command)), "127.0.0.1", "127.8.8.8", "::1", "localhost"):
        check_address(Address(ours))
    for other in ("0.0.0.0", "::", "192.0.2.1", "exchange.example"):
        with pytest.raises(SettingsError, match=f"{other} can be reached by other machines"):
            check_address(Address(other))
    done = loadsheet(tmp_path, *SERVE, "--host", "0.0.0.0")
    assert (done.returncode, done.stdout) == (78, "")
    assert "0.0.0.0 can be reached by other machines" in done.stderr
    assert "--tls-cert" in done.stderr
    assert list(tmp_path.iterdir()) == []  # not even a database was made


def test_with_tls_in_front_another_address_is_served_and_does_not_say_that_tls_stays(tmp_path):
    with serving(tmp_path, "--host", "0.0.0.0", "--tls-in-front") as (url, _):
        status, _, headers = asked(url.replace("0.0.0.0", "127.0.0.1"))
    assert status == 200
    assert "strict-transport-security" not in headers  # the proxy says so


def test_with_a_certificate_every_address_is_served_with_tls_alone(tmp_path, certificate):
    with serving(tmp_path, "--host", "0.0.0.0", *tls_of(certificate)) as (url, process):
        assert url.startswith("https://0.0.0.0:")
        here = url.replace("0.0.0.0", "127.0.0.1")
        for headers, status in ((AUTHORISED, 200), ({"Authorization": "Bearer x"}, 401), ({}, 401)):
            found, _, said = asked(here, headers, certificate / "authority.pem")
            assert (found, said["strict-transport-security"]) == (status, "max-age=31536000")
            assert (said["cache-control"], said["x-content-type-options"]) == ("no-store", "nosniff")
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(here)
        with pytest.raises((ConnectionError, http.client.HTTPException)):  # no answer in the clear
            asked(here.replace("https", "http"))
        assert process.stop() == 0
        assert process.said == f"exchange listening on {url}\n"


@pytest.mark.parametrize("key", ["missing", "not a key", "another's", "with a passphrase"])
def test_a_certificate_that_cannot_be_used_is_reported_at_once(tmp_path, certificate, key):
    done = loadsheet(tmp_path, *SERVE, *tls_of(certificate, key))
    assert (done.returncode, done.stdout) == (78, "")
    assert "Give a certificate and its key as PEM files" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_token_or_with_half_of_a_certificate_the_command_refuses_to_serve(tmp_path):
    done = loadsheet(tmp_path, *SERVE, LOADSHEET_TOKEN="")
    assert (done.returncode, done.stdout) == (78, "")
    assert "the exchange needs a token" in done.stderr
    assert "exchange token add" in done.stderr
    done = loadsheet(tmp_path, *SERVE, "--tls-cert", "cert.pem")
    assert (done.returncode, "go together" in done.stderr) == (2, True)


def test_a_made_token_is_printed_once_and_opens_the_exchange(tmp_path):
    made = loadsheet(tmp_path, "exchange", "token", "add", "--party", "")
    secret = made.stdout.strip()
    assert len(secret) > 40
    assert secret not in loadsheet(tmp_path, "exchange", "token", "list").stdout
    with serving(tmp_path, LOADSHEET_TOKEN="") as (url, process):
        assert asked(url, {"Authorization": f"Bearer {secret}"})[0] == 200
        assert asked(url, {"Authorization": f"Bearer {TOKEN}"})[0] == 401
        assert process.stop() == 0
        assert secret not in process.said
    assert secret.encode() not in (tmp_path / "exchange.db").read_bytes()

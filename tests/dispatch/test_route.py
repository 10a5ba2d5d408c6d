"""Calls through a real proxy and to a real TLS server: who is trusted, which certificate is shown, and what failures mean."""

import shutil
import ssl
import subprocess
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
import ready_entries
from certificates import Authority, serving
from exchange_calls import encode
from payload_examples import GOOD
from proxies import Proxy
from ready_entries import TOKEN, client_of, count, new_orders, send_all
from scripted_exchange import Scripted, accepts, in_turn, lists, says

from loadsheet import run_log
from loadsheet.contract import BY_NAME
from loadsheet.dispatch import OutcomeKind, StopReason, classify
from loadsheet.errors import ExchangeUnreachable, SettingsError

CREATE, ORDERS = BY_NAME["order.create"], BY_NAME["order.list"]
BODY = encode(GOOD["order.create"])
LOGIN = "anna:pa%20ss%40word"
PLAIN_LOGIN = "anna:pa ss@word"
both_ways = pytest.mark.parametrize("secure", [True, False], ids=["tunnel", "forwarded"])
both_versions = pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


def settings(url, **changes):
    return ready_entries.settings(exchange=url, allow_insecure=True, **changes)


def outcome_of(reply, options):
    return classify(CREATE, [GOOD["order.create"]["order_id"]], reply, options.assumptions, wait_max_s=60)


def call(url, **changes):
    """One call of a write; returns its reply and its outcome."""
    options = settings(url, **changes)
    with client_of(url, options) as client:
        reply = client.ask(CREATE, BODY)
    return reply, outcome_of(reply, options)


@contextmanager
def behind_a_proxy(certificate=None, script=accepts, **proxy):
    """An exchange that only the proxy knows by its name; yields both and the URL of the exchange."""
    context = serving(certificate) if certificate else None
    with Scripted(script, tls=context) as server:
        port = urlsplit(server.url).port
        with Proxy(hosts={"exchange.test": port}, **proxy) as through:
            yield server, through, f"{'https' if certificate else 'http'}://exchange.test:{port}"


# through a proxy


def test_writes_and_listings_go_through_a_tunnel(ledger, authority):
    script = in_turn(*[accepts] * 12, lists([{"order_id": "A"}]))
    with behind_a_proxy(authority.issued["server"], script, login=PLAIN_LOGIN) as (server, proxy, url):
        run, _ = new_orders(ledger, 12)
        options = settings(url, proxy=proxy.url_with(LOGIN), ca_bundle=authority.file, connections=1)
        assert send_all(ledger, run, url, options).accepted == 12
        with client_of(url, options) as client:
            assert client.whole_listing(ORDERS).total_count == 1
    assert server.applied.total() == 12
    assert {first.split()[:2] == ["CONNECT", f"exchange.test:{urlsplit(url).port}"] for first in proxy.asked} == {True}
    assert len(proxy.asked) == 2, "one for each client"
    assert not any("authorization" in headers for headers in proxy.headers)
    assert server.requests[0].target == CREATE.path


def test_without_tls_a_proxy_forwards_whole_requests():
    with behind_a_proxy(login=PLAIN_LOGIN) as (server, proxy, url):
        reply, _ = call(url, proxy=proxy.url_with(LOGIN))
    assert reply.status == 200
    assert proxy.asked[0] == f"POST {url}{CREATE.path} HTTP/1.1"
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert server.requests[0].body == BODY


@pytest.mark.parametrize(
    ("variables", "through"),
    [
        ({"HTTP_PROXY": "URL"}, True),
        ({"http_proxy": "PLACE"}, True),
        ({"HTTPS_PROXY": "URL"}, False),
        ({"HTTP_PROXY": "URL", "NO_PROXY": "localhost,127.0.0.0/8"}, False),
        ({"HTTP_PROXY": "URL", "no_proxy": "other.example"}, True),
        ({}, False),
    ],
)
def test_the_environment_names_the_proxy_if_the_setting_says_so(monkeypatch, variables, through):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with Scripted(accepts) as server, Proxy() as proxy:
        for name, value in variables.items():
            monkeypatch.setenv(name, {"URL": proxy.url, "PLACE": f"127.0.0.1:{proxy.port}"}.get(value, value))
        assert call(server.url, proxy="environment")[0].status == 200
        assert bool(proxy.asked) is through
        assert call(server.url)[0].status == 200
        assert len(proxy.asked) == through


def test_the_embedded_exchange_is_never_called_through_a_proxy():
    with Scripted(accepts) as server, Proxy() as proxy:
        with client_of(server.url, ready_entries.settings(proxy=proxy.url)) as client:
            assert client.ask(CREATE, BODY).status == 200
        assert not proxy.asked


@both_ways
def test_a_proxy_that_refuses_the_password_ends_sending_and_nothing_is_unknown(ledger, authority, secure):
    with behind_a_proxy(authority.issued["server"] if secure else None, login="anna:other") as (server, proxy, url):
        run, _ = new_orders(ledger, 3)
        options = settings(url, proxy=proxy.url_with(LOGIN), ca_bundle=authority.file, connections=1)
        report = send_all(ledger, run, url, options)
        assert report.stopped is StopReason.PROXY_LOGIN_REFUSED
        assert "asks for a valid user name and password" in report.why
        assert (count(ledger, "ready"), count(ledger, "unknown")) == (3, 0)
        assert len(proxy.asked) == 1  # more would lock the account
        with client_of(url, options) as client, pytest.raises(ExchangeUnreachable):
            client.listing(ORDERS, 10)
        assert len(proxy.asked) == 2
    assert server.requests == []


@pytest.mark.parametrize("status", [403, 502, 503, 504])
def test_a_proxy_that_opens_no_tunnel_has_sent_nothing(authority, status):
    with behind_a_proxy(authority.issued["server"], fault=f"status {status}") as (server, proxy, url):
        _, outcome = call(url, proxy=proxy.url, ca_bundle=authority.file)
    assert (outcome.kind, outcome.stops_sending) == (OutcomeKind.NOT_SENT, False)
    place = f"127.0.0.1:{proxy.port}"
    assert outcome.reason == f"no connection: the proxy {place} cannot reach the exchange: status {status}"
    assert server.requests == []


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("late", ["late ", ""])
def test_an_error_of_a_proxy_that_had_the_request_is_unknown(status, late):
    with behind_a_proxy(fault=f"{late}status {status}") as (server, proxy, url):
        _, outcome = call(url, proxy=proxy.url)
    assert (outcome.kind, outcome.status) == (OutcomeKind.UNKNOWN, status)
    assert server.applied.total() == bool(late)


@both_ways
def test_a_proxy_that_dies_after_the_request_left_makes_it_unknown(authority, secure):
    with behind_a_proxy(authority.issued["server"] if secure else None, fault="dies") as (server, proxy, url):
        proxy.applied = lambda: bool(server.applied)
        reply, outcome = call(url, proxy=proxy.url, ca_bundle=authority.file)
    assert reply.failure.has_sent
    assert outcome.kind is OutcomeKind.UNKNOWN
    assert server.applied.total() == 1


def test_a_proxy_that_is_silent_or_not_there_is_named_and_costs_no_more_than_the_time_for_connecting(authority):
    with behind_a_proxy(authority.issued["server"], fault="silent") as (_, proxy, url):
        reply, outcome = call(url, proxy=proxy.url, ca_bundle=authority.file, connect_timeout_s=0.5)
    assert outcome.kind is OutcomeKind.NOT_SENT
    assert reply.failure.text == f"the proxy 127.0.0.1:{proxy.port} gave no answer"
    assert reply.duration_ms < 20_000
    reply, outcome = call("https://exchange.test", proxy=proxy.url_with(LOGIN))
    assert outcome.kind is OutcomeKind.NOT_SENT
    assert reply.failure.text == f"the proxy 127.0.0.1:{proxy.port} cannot be reached: connection refused"
    reply, _ = call("https://exchange.test", proxy="http://no-such-host.invalid:3128")
    assert reply.failure.text.endswith("cannot be reached: the host name of the proxy cannot be resolved")


@both_ways
def test_the_password_of_a_proxy_is_nowhere(ledger, authority, secure, tmp_path, capfd):
    encoded = "YW5uYTpwYSBzc0B3b3Jk"  # base64 of the user name and the password
    with behind_a_proxy(authority.issued["server"] if secure else None, login="anna:other") as (_, proxy, url):
        run, _ = new_orders(ledger, 2)
        options = settings(url, proxy=proxy.url_with(LOGIN), ca_bundle=authority.file)
        report = send_all(ledger, run, url, options)
        answered = call(url, proxy=proxy.url_with(LOGIN), ca_bundle=authority.file)
        with client_of(url, options) as client, pytest.raises(ExchangeUnreachable) as caught:
            client.listing(ORDERS, 10)
        shown = [repr(client._route), str(options), repr(options), options.model_dump_json(), str(caught.value)]
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"order" in stored
    texts = [*shown, repr(report), repr(answered), *capfd.readouterr(), stored.decode("latin-1")]
    for secret in (encoded, "pa ss@word", "pa%20ss%40word"):
        assert [text for text in texts if secret in text] == []
    assert encoded not in run_log.clean(f"sent {encoded}")


# TLS


@contextmanager
def tls_exchange(certificate, **options):
    with Scripted(accepts, tls=serving(certificate, **options)) as server:
        yield server, server.named_url


def test_an_authority_of_our_own_is_trusted_from_a_file_and_from_a_folder_and_nobody_else(authority, tmp_path):
    shutil.copy(authority.file, tmp_path / "ours.pem")
    subprocess.run(["openssl", "rehash", str(tmp_path)], check=True, capture_output=True)
    with tls_exchange(authority.issued["server"]) as (server, url):
        assert call(url, ca_bundle=authority.file)[0].status == 200
        assert call(url, ca_bundle=tmp_path)[0].status == 200
        reply, outcome = call(url)
    assert reply.failure.text.startswith("the certificate of the exchange is not trusted: ")
    assert reply.failure.text.endswith(": check dispatch.ca_bundle")
    assert outcome.kind is OutcomeKind.NOT_SENT
    assert server.applied.total() == len(server.requests) == 2


def test_a_bundle_takes_the_place_of_the_authorities_of_the_system(authority, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))  # as a system that trusts it would have it
    other = Authority(tmp_path, "other")
    with tls_exchange(authority.issued["server"]) as (_, url):
        assert call(url)[0].status == 200
        assert "not trusted" in call(url, ca_bundle=other.file)[0].failure.text


def test_a_certificate_that_has_expired_or_is_of_another_host_is_refused_with_the_reason(authority):
    said = "the certificate of the exchange is not trusted: "
    expired, named = authority.issue("expired", days=-1, hosts="DNS:localhost"), authority.issued["server"]
    for certificate, host, words in (
        (expired, "localhost", "certificate has expired"),
        (named, "127.0.0.1", "IP address mismatch"),
    ):
        with tls_exchange(certificate) as (server, url):
            reply, outcome = call(url.replace("localhost", host), ca_bundle=authority.file)
        assert outcome.kind is OutcomeKind.NOT_SENT
        assert reply.failure.text.startswith(said), reply.failure.text
        assert words in reply.failure.text
        assert "ca_bundle" not in reply.failure.text, "it changes nothing"
        assert server.requests == []


@both_versions
def test_an_exchange_that_demands_a_certificate_gets_it(ledger, authority, tmp_path, newest):
    certificate, key = authority.issued["client"]
    both = tmp_path / "both.pem"
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    with tls_exchange(authority.issued["server"], demands=authority.file, newest=newest) as (server, url):
        options = {"ca_bundle": authority.file, "client_certificate": certificate, "client_key": key}
        assert call(url, ca_bundle=authority.file, client_certificate=both)[0].status == 200
        run, _ = new_orders(ledger, 5)
        assert send_all(ledger, run, url, settings(url, **options)).accepted == 5
    assert server.applied.total() == 6


@both_versions
@pytest.mark.parametrize("shown", ["none", "foreign", "expired"])
def test_a_certificate_that_the_exchange_refuses_is_named_and_nothing_is_unknown(
    ledger, authority, tmp_path, newest, shown
):
    options = {"ca_bundle": authority.file}
    if shown != "none":
        issuer = authority if shown == "expired" else Authority(tmp_path, "foreign")
        certificate, key = issuer.issue("theirs", days=-1 if shown == "expired" else 2)
        options |= {"client_certificate": certificate, "client_key": key}
    with tls_exchange(authority.issued["server"], demands=authority.file, newest=newest) as (server, url):
        reply, outcome = call(url, **options)
        assert reply.failure.text.startswith("the exchange does not accept our certificate (") or (
            shown == "none" and newest is ssl.TLSVersion.TLSv1_2  # OpenSSL calls this a failed handshake
        )
        assert outcome.kind is OutcomeKind.NOT_SENT
        run, _ = new_orders(ledger, 3)
        report = send_all(ledger, run, url, settings(url, connections=1, **options))
    assert (report.unknown, report.stopped) == (0, StopReason.UNREACHABLE)
    assert count(ledger, "ready") == 3
    assert server.requests == []


def test_an_alert_after_an_answer_proves_nothing(authority):
    options = settings("https://localhost", ca_bundle=authority.file)
    with (
        Scripted(in_turn(accepts, says(200, b"")), tls=serving(authority.issued["server"])) as server,
        client_of(server.named_url, options) as client,
    ):
        assert client.ask(CREATE, BODY).status == 200
        error = ssl.SSLError(1, "refused")
        error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        connection = client._thread_connection()
        connection.begin(CREATE, BODY)
        connection.send_some()
        reply = connection.finish(error)
    assert reply.failure.has_sent
    assert outcome_of(reply, options).kind is OutcomeKind.UNKNOWN


# settings that cannot be used


@pytest.mark.parametrize(
    "value",
    [
        "socks5://anna:geheimnis@proxy:1080",
        "https://anna:geheimnis@proxy:443",
        "http://anna:geheimnis@proxy:many",
        "http://anna:geheimnis@/x",
        "http://anna:geheimnis@proxy/path",
        "anna:geheimnis@proxy:3128",  # without a scheme, which only the environment may leave out
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(value, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", value)
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for proxy in [value, "environment"] if "://" in value else [value]:
        with pytest.raises(SettingsError, match=r"^dispatch.proxy: .*http://host:port") as caught:
            call("https://exchange.test", proxy=proxy)
        assert "geheimnis" not in str(caught.value)
        assert caught.value.exit_code == 78


def test_files_that_cannot_be_used_are_named_with_their_setting(authority, tmp_path):
    certificate, key = authority.issued["client"]
    nothing, empty, folder, locked = (tmp_path / name for name in ("nothing.pem", "empty.pem", "folder", "locked.pem"))
    empty.write_text("no certificate\n")
    folder.mkdir()
    words = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:geheim", "-out", str(locked)]
    subprocess.run(words, check=True, capture_output=True)
    bundle, shown, its_key = "ca_bundle", "client_certificate", "client_key"
    for options, setting, path, words in (
        ({bundle: nothing}, bundle, nothing, "cannot be read"),
        ({bundle: empty}, bundle, empty, "has no certificates in PEM format"),
        ({bundle: folder}, bundle, folder, "openssl rehash"),
        ({shown: nothing}, shown, nothing, "cannot be read"),
        ({shown: empty}, shown, empty, "has no certificate in PEM format"),
        ({shown: certificate}, shown, certificate, "set dispatch.client_key"),
        ({shown: certificate, its_key: nothing}, its_key, nothing, "cannot be read"),
        ({shown: certificate, its_key: empty}, its_key, empty, "no usable private key"),
        ({shown: certificate, its_key: locked}, its_key, locked, "is encrypted"),
        ({shown: certificate, its_key: authority.issued["server"][1]}, its_key, certificate, "does not belong to"),
        ({its_key: key}, its_key, "", "set dispatch.client_certificate too"),
    ):
        with pytest.raises(SettingsError) as caught:
            call("https://exchange.test", **options)
        said = str(caught.value)
        assert said.startswith(f"dispatch.{setting}: "), said
        assert str(path) in said
        assert words in said
        assert caught.value.exit_code == 78

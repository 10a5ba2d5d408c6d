"""Where the exchange may be reached, and with which tokens: the real command, started as an operator starts it."""

import http.client
import os
import shutil
import ssl
import subprocess

import pytest
from click import Context
from command_in_process import loadsheet
from exchange_calls import AUTHORISED
from exchange_process import TOKEN, serving

from loadsheet.cli.exchange import serve
from loadsheet.exchange import Address
from loadsheet.exchange.server import check_address
from loadsheet.problems import SettingsError

SERVE = ("exchange", "serve", "--port", "0")
EC = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1"


def openssl(words, *more):
    subprocess.run(["openssl", *words.split(), *more], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 signed by itself, its key, and keys that do not fit it."""
    if not shutil.which("openssl") and not os.environ.get("CI"):
        pytest.skip("no openssl command is there to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    words = f"req -x509 {EC} -nodes -days 2 -subj /CN=exchange -addext subjectAltName=IP:127.0.0.1"
    openssl(words, "-out", folder / "cert.pem", "-keyout", folder / "key.pem")
    openssl(f"req -x509 {EC} -nodes -subj /CN=other", "-out", folder / "x", "-keyout", folder / "another's.pem")
    openssl("ec -aes128 -passout pass:secret", "-in", folder / "key.pem", "-out", folder / "with a passphrase.pem")
    (folder / "not a key.pem").write_text("not a key")
    return folder


def tls_of(certificate, key="key"):
    return ("--tls-cert", certificate / "cert.pem", "--tls-key", certificate / f"{key}.pem")


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
    host = next(option for option in serve.params if option.name == "host")
    for ours in (host.get_default(Context(serve)), "127.0.0.1", "127.8.8.8", "::1", "localhost"):
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
            found, _, said = asked(here, headers, certificate / "cert.pem")
            assert (found, said["strict-transport-security"]) == (status, "max-age=31536000")
            assert (said["cache-control"], said["x-content-type-options"]) == ("no-store", "nosniff")
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(here)
        with pytest.raises((ConnectionError, http.client.HTTPException)):  # no answer in the clear
            asked(here.replace("https", "http"))
        assert process.stop() == 0
        assert process.said == f"exchange listening on {url}\n"


@pytest.mark.parametrize("key", ["missing", "not a key", "another's", "with a passphrase"])
def test_a_certificate_that_cannot_be_used_is_said_at_once(tmp_path, certificate, key):
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

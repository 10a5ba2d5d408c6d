"""Where the exchange may be reached, and with which tokens: the real command, started as an operator starts it."""

import http.client
import os
import shutil
import ssl
import subprocess
from contextlib import contextmanager

import pytest
from calling import AUTHORISED
from command import start
from serving import TOKEN
from warm import loadsheet

from loadsheet.exchange.address import is_loopback

SERVE = ("exchange", "serve", "--port", "0")
OTHERS = ["0.0.0.0", "::", "192.0.2.1", "exchange.example"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 signed by itself, and its key."""
    if not shutil.which("openssl") and not os.environ.get("CI"):
        pytest.skip("no openssl command is there to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=exchange -addext subjectAltName=IP:127.0.0.1"
    files = ("-out", folder / "cert.pem", "-keyout", folder / "key.pem")
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)
    return folder


def tls_of(certificate, key="key.pem"):
    return ("--tls-cert", certificate / "cert.pem", "--tls-key", certificate / key)


@contextmanager
def listening(folder, *words, **more):
    """The running command, and the URL that it says."""
    with start(folder, *SERVE, *words, **more) as process:
        try:
            line = process.stdout.readline().strip()
            yield line.removeprefix("exchange listening on "), process
            process.terminate()
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def asked(url, headers=AUTHORISED, trusted=None):
    scheme, _, address = url.partition("://")
    if scheme == "https":
        context = ssl.create_default_context(cafile=trusted)
        connection = http.client.HTTPSConnection(address, timeout=30, context=context)
    else:
        connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/tmsapi/getOrders", headers=headers)
    answer = connection.getresponse()
    read = answer.status, answer.read()
    connection.close()
    return read


@pytest.mark.parametrize("host", OTHERS)
def test_an_address_that_others_reach_is_refused_without_tls(tmp_path, host):
    done = loadsheet(tmp_path, *SERVE, "--host", host)
    assert (done.returncode, done.stdout) == (78, "")
    assert f"{host} can be reached by other machines" in done.stderr
    assert "--tls-cert" in done.stderr
    assert list(tmp_path.iterdir()) == []  # not even a database was made


def test_with_tls_in_front_another_address_is_served(tmp_path):
    with listening(tmp_path, "--host", "0.0.0.0", "--tls-in-front") as (url, _):
        assert asked(url.replace("0.0.0.0", "127.0.0.1"))[0] == 200


def test_with_a_certificate_every_address_is_served_with_tls_alone(tmp_path, certificate):
    with listening(tmp_path, "--host", "0.0.0.0", *tls_of(certificate)) as (url, process):
        assert url.startswith("https://0.0.0.0:")
        here = url.replace("0.0.0.0", "127.0.0.1")
        assert asked(here, trusted=certificate / "cert.pem")[0] == 200
        assert asked(here, {"Authorization": "Bearer x"}, certificate / "cert.pem")[0] == 401
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(here)
        with pytest.raises((ConnectionError, http.client.HTTPException)):  # no answer in the clear
            asked(here.replace("https", "http"))
        process.terminate()
        assert process.communicate(timeout=30) == ("", "")


@pytest.mark.parametrize("wrong", ["missing", "not a key", "another's key", "with a passphrase"])
def test_a_certificate_that_cannot_be_used_is_said_at_once(tmp_path, certificate, wrong):
    words = {
        "not a key": "rand -hex -out {} 100",
        "another's key": "genrsa -out {} 2048",
        "with a passphrase": "genrsa -aes128 -passout pass:secret -out {} 2048",
    }
    if wrong in words:
        made = words[wrong].format(certificate / "other.pem").split()
        subprocess.run(["openssl", *made], check=True, capture_output=True)
    key = "nowhere.pem" if wrong == "missing" else "other.pem"
    done = loadsheet(tmp_path, *SERVE, *tls_of(certificate, key))
    assert (done.returncode, done.stdout) == (78, "")
    assert "give a certificate and its key as PEM files" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_half_of_a_certificate_is_no_certificate(tmp_path):
    done = loadsheet(tmp_path, *SERVE, "--tls-cert", "cert.pem")
    assert done.returncode == 2
    assert "go together" in done.stderr


def test_without_a_token_and_with_none_in_its_database_the_command_refuses_to_serve(tmp_path):
    done = loadsheet(tmp_path, *SERVE, LOADSHEET_TOKEN="")
    assert (done.returncode, done.stdout) == (78, "")
    assert "the exchange needs a token" in done.stderr
    assert "exchange token add" in done.stderr


def test_a_made_token_is_printed_once_and_opens_the_exchange(tmp_path):
    made = loadsheet(tmp_path, "exchange", "token", "add", "--party", "")
    secret = made.stdout.strip()
    assert len(secret) > 40
    assert secret not in loadsheet(tmp_path, "exchange", "token", "list").stdout
    with listening(tmp_path, LOADSHEET_TOKEN="") as (url, process):
        assert asked(url, {"Authorization": f"Bearer {secret}"})[0] == 200
        assert asked(url, {"Authorization": f"Bearer {TOKEN}"})[0] == 401
        process.terminate()
        assert secret not in "".join(process.communicate(timeout=30))
    assert secret.encode() not in (tmp_path / "exchange.db").read_bytes()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), *((host, False) for host in OTHERS)],
)
def test_what_is_this_machine_alone(host, expected):
    assert is_loopback(host) is expected

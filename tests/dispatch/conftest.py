import os
import shutil
import ssl
import subprocess

import pytest
from ledgers import ledger_in


@pytest.fixture
def ledger(tmp_path):
    with ledger_in(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate for localhost that vouches for itself, and the context of a server that shows it."""
    if not shutil.which("openssl") and not os.environ.get("CI"):
        pytest.skip("no openssl command is there to make a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *names]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return folder / "cert.pem", context

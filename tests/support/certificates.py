"""Certificates of an authority of our own, for servers and clients, made with openssl."""

import os
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


class Authority:
    """A certificate authority in a folder. `file` is its certificate; the others that it makes lie beside it. A skip without openssl."""

    def __init__(self, folder: Path, name: str = "authority"):
        if not shutil.which("openssl") and not os.environ.get("CI"):
            pytest.skip("no openssl command is there to make certificates")
        self.issued: dict[str, tuple[Path, Path]] = {}
        self.folder, self.file, self.key = folder, folder / f"{name}.pem", folder / f"{name}.key"
        usage = "keyUsage=critical,keyCertSign"  # without it Python 3.13 trusts no authority
        words = ("-keyout", self.key, "-out", self.file, "-days", "2", "-subj", f"/CN={name}", "-addext", usage)
        openssl("req", "-x509", *_NEW_KEY, *words)

    def issue(self, name: str, *, days: int = 2, hosts: str = "") -> tuple[Path, Path]:
        """A certificate and its key; `hosts` as in subjectAltName. One of -1 days has expired."""
        certificate, key, request = (self.folder / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
        extension = self.folder / f"{name}.ext"
        extension.write_text(f"subjectAltName={hosts}\n" if hosts else "keyUsage=digitalSignature\n")
        openssl("req", "-new", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        signing = ["-CA", self.file, "-CAkey", self.key, "-CAcreateserial", "-days", str(days)]
        openssl("x509", "-req", "-in", request, "-out", certificate, *signing, "-extfile", extension)
        self.issued[name] = (certificate, key)
        return certificate, key


_NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]  # made in no time


def openssl(*words):
    """Run openssl."""
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def serving(certificate: tuple[Path, Path], demands: Path | None = None, newest: ssl.TLSVersion | None = None):
    """The context of a server that shows this certificate, and may demand one of a client from the authority `demands`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    if newest is not None:
        context.maximum_version = newest
    if demands is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(demands)
    return context

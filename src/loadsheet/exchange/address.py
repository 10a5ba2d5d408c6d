"""Where the exchange may listen: this machine alone, or others too, if TLS is between them and us.

Owns: the rule and its words. Opens no socket.
"""

import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from loadsheet.problems import SettingsError

LOOPBACK = "127.0.0.1"


class Tls(NamedTuple):
    """Certificate (with its chain) and private key, PEM files; the key without a passphrase."""

    certificate: Path
    key: Path


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(host: str, tls: Tls | None, *, tls_in_front: bool, faults: bool) -> None:
    """Raises SettingsError for an address that tokens would be sent to in the clear, and for a certificate that is none."""
    if faults and not is_loopback(host):
        raise SettingsError(f"faults are shown on this machine only: serve on {LOOPBACK}, not on {host}")
    if faults and tls:
        raise SettingsError("faults are shown without TLS: leave the certificate out")
    if tls:
        _check_files(tls)
    elif not tls_in_front and not is_loopback(host):
        raise SettingsError(
            f"{host} can be reached by other machines, and tokens would go over the network in the clear: give --tls-cert and "
            f"--tls-key, or serve on {LOOPBACK}; say --tls-in-front if something that speaks TLS stands in front"
        )


def _check_files(tls: Tls) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")  # never ask at a terminal
    except OSError as error:  # an error of TLS is one too
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(
            f"TLS: {tls.certificate} and {tls.key} cannot be used ({reason}); give a certificate and its key as PEM files, "
            "the key without a passphrase"
        ) from error

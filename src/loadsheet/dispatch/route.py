"""The route to an exchange: the proxy of its connections, the authorities they trust, and their client certificate.

requests reads the proxies of the environment; urllib3 opens tunnels. No text of this module contains a proxy password.
"""

import base64
import re
import ssl
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from requests.utils import DEFAULT_CA_BUNDLE_PATH, get_environ_proxies, select_proxy
from urllib3.util import Url

from loadsheet.dispatch.connections import AbortableConnection, AbortableTlsConnection, CallHandle, Tunnel
from loadsheet.problems import SettingsError
from loadsheet.settings import EMBEDDED, Settings

ENVIRONMENT = "environment"
"""The value of `dispatch.proxy` that means HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""
_PORTS = {"http": 80, "https": 443}
_HASHED_NAME = re.compile(r"[0-9a-f]{8}\.\d+")  # how OpenSSL looks certificates up in a folder


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy. `headers` hold its user name and password; `secrets` are texts that must never be shown."""

    host: str
    port: int
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Route:
    """How connections reach one exchange. `trust` is the TLS context, None for http://. `proxy` is None for a direct connection."""

    base_url: str
    trust: ssl.SSLContext | None
    proxy: Proxy | None

    def connection(self, handle: CallHandle, timeout_s: float) -> AbortableConnection:
        """A new connection, not connected yet; `timeout_s` limits each step of connecting."""
        parts = urlsplit(self.base_url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        first = (self.proxy.host, self.proxy.port) if self.proxy else (host, port)
        make = AbortableConnection if self.trust is None else partial(AbortableTlsConnection, ssl_context=self.trust)
        url = Url("http", host=self.proxy.host, port=self.proxy.port) if self.proxy else None
        connection = make(*first, timeout=timeout_s, handle=handle, proxy=url)
        if self.proxy and self.trust is not None:
            connection.tunnel = Tunnel(host, port, self.proxy.headers)
        return connection

    @property
    def forwards(self) -> bool:
        """Whether the proxy reads and forwards each request: http:// uses no tunnel."""
        return self.proxy is not None and self.trust is None


def route_to(base_url: str, settings: Settings) -> Route:
    """The route to an exchange from the settings. Raises SettingsError for a proxy or file that cannot be used."""
    trust = tls_context(settings) if base_url.startswith("https:") else None
    return Route(base_url, trust, _proxy_for(base_url, settings))


def tls_context(settings: Settings) -> ssl.SSLContext:
    """The TLS context of every connection: checks certificates and host names; at least TLS 1.2.

    It trusts `dispatch.ca_bundle`; without one, the bundled authorities and those of the system. Raises SettingsError for files that cannot be used.
    """
    bundle = settings.dispatch.ca_bundle
    if bundle is None:
        context = ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
        context.load_default_certs()
    else:
        context = _context_of(bundle)
    if settings.dispatch.client_certificate is not None:
        _load_client_certificate(context, settings.dispatch.client_certificate, settings.dispatch.client_key)
    elif settings.dispatch.client_key is not None:
        raise SettingsError("dispatch.client_key: a key needs a certificate; set dispatch.client_certificate too")
    return context


def _context_of(bundle: Path) -> ssl.SSLContext:
    if bundle.is_dir():
        if not any(_HASHED_NAME.fullmatch(path.name) for path in bundle.iterdir()):
            raise SettingsError(
                f"dispatch.ca_bundle: {bundle} has no certificates under hashed names; run: openssl rehash {bundle}"
            )
        return ssl.create_default_context(capath=str(bundle))
    _check_readable("dispatch.ca_bundle", bundle)
    try:
        return ssl.create_default_context(cafile=str(bundle))
    except ssl.SSLError:
        raise SettingsError(f"dispatch.ca_bundle: {bundle} has no certificates in PEM format") from None


def _load_client_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    _check_readable("dispatch.client_certificate", certificate)
    if key is not None:
        _check_readable("dispatch.client_key", key)
    key_setting, key_file = (
        ("dispatch.client_certificate", certificate) if key is None else ("dispatch.client_key", key)
    )
    try:
        if b"-----BEGIN CERTIFICATE-----" not in certificate.read_bytes():
            raise SettingsError(f"dispatch.client_certificate: {certificate} has no certificate in PEM format")
        context.load_cert_chain(certificate, key, password=partial(_refuse_password, key_setting, key_file))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(
                f"{key_setting}: the key in {key_file} does not belong to the certificate in {certificate}"
            ) from None
        todo = "" if key is not None else "; if the key is in a separate file, set dispatch.client_key"
        raise SettingsError(f"{key_setting}: {key_file} has no usable private key in PEM format{todo}") from None


def _refuse_password(setting: str, path: Path) -> str:
    """Refuse an encrypted key. OpenSSL calls this instead of asking on the terminal."""
    raise SettingsError(f"{setting}: the key in {path} is encrypted; decrypt it (openssl pkey) and chmod 600 it")


def _check_readable(setting: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise SettingsError(f"{setting}: {path} cannot be read ({(error.strerror or '').lower()})") from None


def _proxy_for(base_url: str, settings: Settings) -> Proxy | None:
    if settings.dispatch.proxy is None or settings.exchange == EMBEDDED:  # the embedded exchange is in this process
        return None
    named = settings.dispatch.proxy.get_secret_value()
    if named != ENVIRONMENT:
        return _parsed_proxy(named, "the value")
    found = select_proxy(base_url, get_environ_proxies(base_url))
    return (
        _parsed_proxy(found if "://" in found else f"http://{found}", "the proxy in the environment") if found else None
    )


def _parsed_proxy(url: str, what: str) -> Proxy:
    """The proxy of a URL. Raises SettingsError, without showing the URL: it may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SettingsError(f"dispatch.proxy: {what} is not a URL; write http://host:port") from None
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise SettingsError(
            f"dispatch.proxy: {what} is not the URL of an HTTP proxy; write http://host:port (https:// goes through it too)"
        )
    headers, secrets = _login(parts)
    return Proxy(parts.hostname, _PORTS["http"] if port is None else port, headers, secrets)


def _login(parts: SplitResult) -> tuple[dict[str, str], tuple[str, ...]]:
    """The header with user name and password (RFC 7617), and the texts to hide."""
    if parts.username is None:
        return {}, ()
    user, password = unquote(parts.username), unquote(parts.password or "")
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    secrets = (encoded, password, parts.password or "")
    return {"Proxy-Authorization": f"Basic {encoded}"}, tuple(dict.fromkeys(secret for secret in secrets if secret))

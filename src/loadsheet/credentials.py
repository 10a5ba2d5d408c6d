"""The bearer token: where it comes from, and how it is renewed when the exchange refuses it.

Owns: the sources (environment, file, the service manager's credentials, command, keyring) and their order, and the addresses to which it
may go unencrypted. The token is never shown: no error contains the content of a file or the output of a command or keyring.

A shipper's own sources (its variables, its table, its credential) win over the shared ones. A shipper with its own exchange uses no shared
source.
"""

import ipaddress
import os
import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from loadsheet.errors import SettingsError
from loadsheet.settings import Settings
from loadsheet.settings.sources import TOKEN_SOURCES, is_open, variables_of

COMMAND_TIMEOUT_S = 60.0
SERVICE = "loadsheet"
_CREDENTIAL = "loadsheet_token"


def read_token(settings: Settings) -> str | None:
    """The bearer token: the setting (from the environment), else the first line of the file, else the service manager's credential
    (`$CREDENTIALS_DIRECTORY/loadsheet_token`, for a shipper `loadsheet_token_NAME`), else the first line the command prints, else the
    keyring's. None if no source is set. Raises SettingsError if the source that is set gives none.
    """
    found = _source(settings)
    return found.read() if found is not None else None


class _Source(NamedTuple):
    """A source of the token: its description for people, and a function that reads the token or raises SettingsError."""

    text: str
    read: Callable[[], str]


def _source(settings: Settings) -> _Source | None:
    """The source that is used. A shipper's credential wins over shared sources."""
    own = _credential(settings.shipper) if settings.own.isdisjoint(TOKEN_SOURCES) else None
    given = settings.token.get_secret_value().strip() if settings.token is not None else ""
    if own is None and given:
        return _Source("from LOADSHEET_TOKEN or the settings file", lambda: given)
    if own is None and (file := settings.token_file) is not None:
        return _Source(f"from {file}", partial(_first_line, file, "token_file"))
    if (path := own or credential_of(settings)) is not None:
        return _Source(f"the service manager's credential {path.name}", partial(_first_line, path, path.name))
    if settings.token_command:
        return _Source("from token_command", partial(_from_command, settings.token_command))
    return _Source("from the keyring", partial(_from_keyring, settings)) if settings.token_keyring else None


def required_token(settings: Settings) -> str:
    """The bearer token. Raises SettingsError if no source is set, or if the source that is set gives none."""
    token = read_token(settings)
    if not token:
        if not (name := settings.shipper):
            raise SettingsError(
                "no token: set LOADSHEET_TOKEN, or token_file, token_command or token_keyring in loadsheet.toml"
            )
        sources = "token_file, token_command or token_keyring"
        raise SettingsError(
            f"no token for shipper {name}: set {variables_of(name)}TOKEN, or {sources} in [shippers.{name}]"
        )
    return token


def another_token(settings: Settings, refused: str) -> str | None:
    """The current token of the source, if it differs from the refused one; None if it is the same, or if the source no longer has one.
    A token from the environment never changes.
    """
    try:
        token = read_token(settings)
    except SettingsError:
        return None
    return None if token == refused else token


def exposed(settings: Settings) -> list[Path]:
    """The files that hold a token and that every user of this machine can read."""
    path = settings.token_file
    return [path] if path is not None and path.exists() and is_open(path) else []


def credential_of(settings: Settings) -> Path | None:
    """The service manager's credential that is used if no setting gives a token; None if there is none."""
    own = _credential(settings.shipper)
    uses_shared = settings.own.isdisjoint({*TOKEN_SOURCES, "exchange"})
    return own or (_credential() if uses_shared else None)


def source(settings: Settings) -> str:
    """Where the token comes from, as text for people; empty if no source is set."""
    found = _source(settings)
    return found.text if found is not None else ""


def _credential(shipper: str | None = None) -> Path | None:
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "")
    if not folder or shipper == "":
        return None
    path = Path(folder, f"{_CREDENTIAL}_{shipper}" if shipper else _CREDENTIAL)
    return path if path.is_file() else None


def _first_line(path: Path, source: str) -> str:
    try:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
    except OSError as error:
        raise SettingsError(f"{source}: {path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{source}: {path} is not text; write the token into its first line") from None
    if not lines:
        raise SettingsError(f"{source}: {path} is empty; write the token into its first line")
    return lines[0].strip()


def _from_keyring(settings: Settings) -> str:
    name = settings.token_keyring if isinstance(settings.token_keyring, str) else settings.shipper or "token"
    try:
        # Optional: the extra `desk` installs it, and it is imported only if the setting is on.
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        message = "token_keyring: the library for keyrings is not installed"
        raise SettingsError(f"{message}; install it with: pip install 'loadsheet[desk]'") from None
    try:
        token = keyring.get_password(SERVICE, name)
    except KeyringError as error:
        message = f"token_keyring: the keyring of this system cannot be read ({type(error).__name__})"
        raise SettingsError(f"{message}; unlock it, or use token_file") from None
    if not token or not token.strip():
        message = f"token_keyring: the keyring holds no token named {name}"
        raise SettingsError(f"{message}; store it with: keyring set {SERVICE} {name}")
    return token.strip()


def _from_command(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SettingsError(f"token_command: {command!r} is not a command line ({error})") from None
    try:
        done = subprocess.run(words, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False)  # noqa: S603 (the operator's own command, without a shell)
    except subprocess.TimeoutExpired:
        raise SettingsError(f"token_command: {words[0]} gave no token within {COMMAND_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise SettingsError(f"token_command: {words[0]} cannot be run ({error.strerror})") from error
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    if done.returncode or not lines:
        fault = f"ended with exit code {done.returncode}" if done.returncode else "printed nothing"
        raise SettingsError(f"token_command: {words[0]} {fault}; it must print the token as its first line")
    return lines[0].strip()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. Names other than localhost count as reachable by others."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

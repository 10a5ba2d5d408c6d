"""The bearer token: where it comes from, how it is renewed when the exchange refuses it, and how it is masked in answers.

Owns: the sources (environment, file, the service manager's credentials, command, keyring) and their order, and the addresses to which it
may go unencrypted. The token is never shown: no error contains the content of a file or the output of a command or keyring.

A shipper's own sources (its variables, its table, its credential) win over the shared ones. A shipper with its own exchange uses no shared
source.

`TokenMask` masks the token in any form an answer may repeat it: JSON, percent and HTML escapes, base64, hex and UTF-16, also nested. It works
on bytes before they are decoded, so the token reaches no log and no report. Long bodies are masked piece by piece and kept in a temporary
file (`MaskedBody`).
"""

import base64
import ipaddress
import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple, cast

from loadsheet.errors import SettingsError
from loadsheet.settings import Settings
from loadsheet.settings.sources import TOKEN_SOURCES, is_world_readable, variables_of

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


def world_readable_token_files(settings: Settings) -> list[Path]:
    """The files that hold a token and that every user of this machine can read."""
    path = settings.token_file
    return [path] if path is not None and path.exists() and is_world_readable(path) else []


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


# ---- masking ----

MASK = b"***"
SECRET_LENGTH = 8  # shorter texts are not masked: that would make answers unreadable
_ROUNDS = 4  # escapes within escapes
_CHARACTER_BYTES_MAX = 32  # for one escaped character of the token

# Only escapes of printable ASCII, the only characters of a token. Each alternative starts differently, so this is linear.
_ESCAPE = re.compile(
    rb"(?<!\\)\\++(?:(?:u00|x)([2-7][0-9a-fA-F])|(/))|%(?:25)*+(?:u00)?([2-7][0-9a-fA-F])"
    rb"|&#(?:[xX]0*+([2-7][0-9a-fA-F])|0*+([0-9]{2,3}));"
)


class TokenMask:
    """Masks every token ever added, because an exchange may repeat a token that has been replaced."""

    def __init__(self) -> None:
        self._needles: tuple[bytes, ...] = ()
        self._tokens: frozenset[str] = frozenset()
        self.reach = 0  # the number of bytes at the end of a text that may begin a token

    def add(self, token: str) -> None:
        """Mask this token too from now on."""
        if len(token) < SECRET_LENGTH or token in self._tokens:
            return
        self._tokens |= {token}
        found = {needle for each in self._tokens for needle in _forms(each)}
        self._needles = tuple(sorted(found, key=len, reverse=True))
        self.reach = _CHARACTER_BYTES_MAX * len(self._needles[0])

    def masked(self, text: bytes) -> bytes:
        """The text without tokens. Where one was escaped, all escapes of that kind are resolved; JSON keeps its meaning."""
        masked = text
        for _ in range(_ROUNDS):
            if any(needle in text for needle in self._needles):
                for needle in self._needles:
                    text = text.replace(needle, MASK)
                masked = text
            resolved = _resolved(text)
            if resolved == text:
                break
            text = resolved
        return masked


def _resolved(text: bytes) -> bytes:
    """The text with one level of escapes resolved."""
    if b"\\" in text or b"%" in text or b"&#" in text:
        return _ESCAPE.sub(_unescape, text)
    return text


def _unescape(found: re.Match[bytes]) -> bytes:
    json_hex, slash, percent_hex, html_hex, html_number = found.groups()
    if slash:
        return slash
    number = int(html_number) if html_number else int(json_hex or percent_hex or html_hex, 16)
    character = chr(number)
    if not (character.isascii() and character.isprintable()):
        return found.group()
    return f"\\{character}".encode() if character in '"\\' else character.encode()


def _forms(token: str) -> Iterator[bytes]:
    """The token itself, and its form in other encodings."""
    plain = token.encode("ascii")
    yield plain
    if any(character.isdigit() for character in token):  # without a digit it may be a word that answers use
        yield from {plain.lower(), plain.upper()} - {plain}
    yield json.dumps(token)[1:-1].encode("ascii")
    yield token.encode("utf-16-le")[:-1]  # also matches UTF-16 in the other byte order
    yield from (plain.hex().encode("ascii"), plain.hex().upper().encode("ascii"))
    for before in range(3):  # base64 with the token at any offset: the part that does not depend on its surroundings
        coded = base64.b64encode(bytes(before) + plain)
        stable = coded[(before * 8 + 5) // 6 : (before + len(plain)) * 8 // 6]
        yield from (stable, stable.translate(bytes.maketrans(b"+/", b"-_")))


IN_MEMORY_BYTES_MAX = 8_388_608


class MaskedBody:
    """Takes the pieces of one body as they arrive, so that a token repeated by the exchange never reaches a report."""

    def __init__(self, mask: TokenMask) -> None:
        self._mask = mask
        self._held = b""  # the end of the input, which may begin a token
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES_MAX)  # noqa: SIM115 (the reader closes it)

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        whole = self._mask.masked(self._held + piece)
        begun = max(len(whole) - self._mask.reach, 0)
        self._file.write(whole[:begun])
        self._held = whole[begun:]

    def finish(self) -> BinaryIO:
        """The whole body, from its beginning."""
        self._file.write(self._held)
        self._held = b""
        self._file.seek(0)
        return cast("BinaryIO", self._file)

    def close(self) -> None:
        """Discard the body."""
        self._file.close()

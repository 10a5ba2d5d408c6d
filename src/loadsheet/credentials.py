"""The bearer token: where it comes from, and how another one is had when the exchange refuses it.

Owns: the sources (environment, file, command) and their order. The token itself is shown to nobody: no error here holds what a
file or a command said.
"""

import shlex
import subprocess

from loadsheet.problems import SettingsError
from loadsheet.settings import Settings

COMMAND_TIMEOUT_S = 60.0
_NO_TOKEN = "no token: set LOADSHEET_TOKEN, or token_file or token_command in loadsheet.toml"  # noqa: S105 (says that there is none)


def read_token(settings: Settings) -> str | None:
    """The bearer token: the setting (from the environment), else the first line of the file, else what the command prints first.
    None if none of them is set. Raises SettingsError if the file or the command gives none.
    """
    if settings.token is not None and (token := settings.token.get_secret_value().strip()):
        return token
    if settings.token_file is not None:
        return _from_file(settings)
    return _from_command(settings.token_command) if settings.token_command else None


def required_token(settings: Settings) -> str:
    """The bearer token. Raises SettingsError if none of its sources is set, or if one of them gives none."""
    token = read_token(settings)
    if not token:
        raise SettingsError(_NO_TOKEN)
    return token


def another_token(settings: Settings, refused: str) -> str | None:
    """The token that the source gives now, if it is another one than the one refused; None if it is the same, if the source has
    none any more, or if it came from the environment, which does not change.
    """
    try:
        token = read_token(settings)
    except SettingsError:
        return None
    return None if token == refused else token


def _from_file(settings: Settings) -> str:
    path = settings.token_file
    assert path is not None  # noqa: S101 (asked for only if it is set)
    try:
        lines = path.read_text(encoding="utf-8").strip().splitlines()
    except OSError as error:
        raise SettingsError(f"token_file: {path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise SettingsError(f"token_file: {path} is no text; write the token into its first line") from None
    if not lines:
        raise SettingsError(f"token_file: {path} is empty; write the token into its first line")
    return lines[0].strip()


def _from_command(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SettingsError(f"token_command: {command!r} is no command line ({error})") from None
    try:
        done = subprocess.run(words, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False)  # noqa: S603 (the operator's own command, without a shell)
    except subprocess.TimeoutExpired:
        raise SettingsError(f"token_command: {words[0]} gave no token within {COMMAND_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise SettingsError(f"token_command: {words[0]} cannot be run ({error.strerror})") from error
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    if done.returncode or not lines:
        said = f"ended with exit code {done.returncode}" if done.returncode else "printed nothing"
        raise SettingsError(f"token_command: {words[0]} {said}; it has to print the token as its first line")
    return lines[0].strip()

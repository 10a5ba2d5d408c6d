"""The truth log: one JSON line for every effect that really happened, in the order of the commits of this process.

Owns: the form of a line and when it is written: after the commit, before any answer leaves. A process that is killed between the
two leaves an effect without a line, never a line without an effect. Knows no HTTP and no SQL.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from loadsheet.exchange.effects import Call, Effect
from loadsheet.problems import SettingsError

Clock = Callable[[], datetime]


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TruthLog:
    """A file that effects are appended to. It survives a restart; several processes may append to one file."""

    def __init__(self, path: Path, clock: Clock = _utc_now) -> None:
        """Open the file, creating it where there is none. Raises SettingsError if it cannot be written."""
        self._clock = clock
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsError(f"the truth log {path} cannot be written ({error.strerror})") from error

    def write(self, done: Iterable[tuple[Call, Effect]]) -> None:
        """Append what the committed calls did, in one write. Raises OSError if the disk does not take it."""
        time = self._clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines = [line for call, effect in done if effect.happened for line in _lines(time, call, effect)]
        rest = memoryview(b"".join(lines))
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_truth(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a truth log as values: time, operation, key, sha256 (of the request's body), effect, number."""
    for line in path.read_bytes().splitlines():
        yield msgspec.json.decode(line)


def _lines(time: str, call: Call, effect: Effect) -> Iterator[bytes]:
    digest = hashlib.sha256(call.body).hexdigest()
    for happened in effect.happened:
        said = {
            "time": time,
            "operation": call.operation.name,
            "key": "/".join(happened.key),
            "sha256": digest,
            "effect": happened.effect,
            "number": happened.number,
        }
        yield msgspec.json.encode(said) + b"\n"

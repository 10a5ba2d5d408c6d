"""The record of the capsules that were made here: a line each in `STATE/capsules.jsonl`, each line with a hash over the one before it.

Owns: the record. A capsule that was put together anew as a whole is sound in itself; that it is another one is seen here, or by
whoever kept its head elsewhere.
"""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import msgspec
from filelock import FileLock, Timeout

from loadsheet.problems import FolderError

NAME = "capsules.jsonl"
_PATIENCE_S = 10


class Line(NamedTuple):
    """A capsule that was made: its run, when (ISO 8601 UTC), the name of its file, its head, and the hash over this and the line
    before (hex).
    """

    run: str
    made_at: str
    file: str
    head: str
    hash: str


class Record(NamedTuple):
    """The lines, and the number of the first (from 1) that does not follow from the one before it; 0 if all do."""

    lines: tuple[Line, ...]
    broken: int = 0

    def heads_of(self, run: str) -> tuple[str, ...]:
        """The heads of all capsules that were made of a run, oldest first."""
        return tuple(line.head for line in self.lines if line.run == run)


def read(state: Path) -> Record:
    """The record of a state folder; empty if there is none."""
    try:
        texts = (state / NAME).read_bytes().splitlines()
    except OSError:
        return Record(())
    lines: list[Line] = []
    broken = 0
    for number, text in enumerate(texts, start=1):
        try:
            line = Line(**msgspec.json.decode(text, type=dict[str, str]))
        except (msgspec.MsgspecError, TypeError):
            broken = broken or number
            continue
        if line.hash != _hash(lines[-1].hash if lines else "", line):
            broken = broken or number
        lines.append(line)
    return Record(tuple(lines), broken)


def add(state: Path, *, run: str, made_at: str, file: str, head: str) -> None:
    """Write a capsule into the record, durably; one process after the other. Raises FolderError."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{state / NAME}.lock", timeout=_PATIENCE_S, mode=0o600), (state / NAME).open("ab") as record:
            known = read(state).lines
            line = Line(run, made_at, file, head, "")
            line = line._replace(hash=_hash(known[-1].hash if known else "", line))
            record.write(msgspec.json.encode(line._asdict()) + b"\n")
            record.flush()
            os.fsync(record.fileno())
    except Timeout:
        raise FolderError(f"{state / NAME} is held by another process; try again when it has finished") from None
    except OSError as error:
        raise FolderError(f"{state / NAME} cannot be written ({error.strerror or error})") from error


def _hash(before: str, line: Line) -> str:
    return hashlib.sha256(f"{before}\n{line.run}\n{line.made_at}\n{line.file}\n{line.head}".encode()).hexdigest()

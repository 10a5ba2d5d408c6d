"""Whether a capsule is what was made: whole in itself, and the one that the record or a kept head names.

Owns: the verdict, and the record: a line for each capsule made here in `STATE/capsules.jsonl`, each with a hash over the line before it. A
capsule rebuilt as a whole is valid in itself. Only the record, or a head kept elsewhere, shows that it is another one.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from filelock import FileLock, Timeout

from loadsheet.problems import FolderError
from loadsheet.run_archive.contents import read_manifest
from loadsheet.run_archive.hash_chain import CannotOpen, Members, look_at

RECORD_FILE = "capsules.jsonl"
KEPT = "kept head"
RECORD = "record"
_PATIENCE_S = 10


class RecordLine(NamedTuple):
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

    lines: tuple[RecordLine, ...]
    broken: int = 0

    def heads_of(self, run: str) -> tuple[str, ...]:
        """The heads of all capsules that were made of a run, oldest first."""
        return tuple(line.head for line in self.lines if line.run == run)


def read_record(state: Path) -> Record:
    """The record of a state folder; empty if there is none."""
    try:
        texts = (state / RECORD_FILE).read_bytes().splitlines()
    except OSError:
        return Record(())
    lines: list[RecordLine] = []
    broken = 0
    for number, text in enumerate(texts, start=1):
        try:
            line = RecordLine(**msgspec.json.decode(text, type=dict[str, str]))
        except (msgspec.MsgspecError, TypeError):
            broken = broken or number
            continue
        if line.hash != _hash(lines[-1].hash if lines else "", line):
            broken = broken or number
        lines.append(line)
    return Record(tuple(lines), broken)


def add_to_record(state: Path, *, run: str, made_at: str, file: str, head: str) -> None:
    """Write a capsule into the record, durably; one process after the other. Raises FolderError."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        path = state / RECORD_FILE
        with FileLock(f"{path}.lock", timeout=_PATIENCE_S, mode=0o600), path.open("ab") as record:
            known = read_record(state).lines
            line = RecordLine(run, made_at, file, head, "")
            line = line._replace(hash=_hash(known[-1].hash if known else "", line))
            record.write(msgspec.json.encode(line._asdict()) + b"\n")
            record.flush()
            os.fsync(record.fileno())
    except Timeout:
        raise FolderError(f"{state / RECORD_FILE} is held by another process; try again when it has finished") from None
    except OSError as error:
        raise FolderError(f"{state / RECORD_FILE} cannot be written ({error.strerror or error})") from error


def _hash(before: str, line: RecordLine) -> str:
    return hashlib.sha256(f"{before}\n{line.run}\n{line.made_at}\n{line.file}\n{line.head}".encode()).hexdigest()


class Verdict(NamedTuple):
    """What `verify` found: the run and the head, everything that is wrong in words, and what vouches for the capsule as a whole
    (`KEPT`, `RECORD`; empty: nobody, it is only sound in itself).
    """

    run: str
    head: str
    members: int
    wrong: tuple[str, ...]
    vouched_by: str = ""


def verify(path: Path, record: Record, head: str = "") -> Verdict:
    """Hold a capsule against its own chain, and against the head that somebody kept, or else the record. `head` may be shortened to
    16 letters or more. Raises CannotOpen if there is no such file.
    """
    looked = look_at(path)
    if looked.wrong:
        return Verdict("", looked.head, len(looked.links), looked.wrong)
    try:
        run = read_manifest(Members(path)).run
    except CannotOpen as error:
        return Verdict("", looked.head, len(looked.links), (str(error),))
    known = record.heads_of(run)
    wrong, vouched_by = _judge(run, looked.head, head, known)
    if record.broken and not head:
        wrong = (
            *wrong,
            f"line {record.broken} of the record does not follow from the one before it: the record was changed",
        )
    return Verdict(run, looked.head, len(looked.links), wrong, "" if wrong else vouched_by)


def _judge(run: str, actual: str, wanted: str, known: Sequence[str]) -> tuple[tuple[str, ...], str]:
    if wanted:
        if actual.startswith(wanted.casefold()):
            return (), KEPT
        return (f"its head is {actual}, not {wanted}: it is another capsule, however sound in itself",), ""
    if not known:
        return (), ""
    if actual in known:
        return (), RECORD
    return (f"its head is {actual}; the record has {known[-1]} for run {run}: the whole capsule was replaced",), ""

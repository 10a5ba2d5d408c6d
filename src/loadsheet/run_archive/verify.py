"""Whether a capsule is what was made: whole in itself, and the one that the record or a kept head names.

Owns: the verdict, and the record: a line for each capsule made here in `STATE/capsules.jsonl`, each with a hash over the line before it. A
capsule rebuilt as a whole is valid in itself. Only the record, or a head kept elsewhere, shows that it is another one.
"""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from filelock import FileLock, Timeout

from loadsheet.problems import FolderError
from loadsheet.run_archive.contents import (
    AT_ONCE,
    CHAIN,
    DAMAGE,
    CannotOpen,
    CapsuleReader,
    CapsuleWriter,
    Link,
    chain_text,
    head_of,
    next_link,
    read_manifest,
)

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
    (`KEPT`, `RECORD`; empty: nothing, it is only sound in itself).
    """

    run: str
    head: str
    members: int
    wrong: tuple[str, ...]
    vouched_by: str = ""


def verify(path: Path, record: Record, head: str = "") -> Verdict:
    """Hold a capsule against its own chain, and against the head that was kept elsewhere, or else the record. `head` may be shortened to
    16 letters or more. Raises CannotOpen if there is no such file.
    """
    checked = check_archive(path)
    if checked.wrong:
        return Verdict("", checked.head, len(checked.links), checked.wrong)
    try:
        run = read_manifest(CapsuleReader(path)).run
    except CannotOpen as error:
        return Verdict("", checked.head, len(checked.links), (str(error),))
    known = record.heads_of(run)
    wrong, vouched_by = _judge(run, checked.head, head, known)
    if record.broken and not head:
        wrong = (
            *wrong,
            f"line {record.broken} of the record does not follow from the one before it: the record was changed",
        )
    return Verdict(run, checked.head, len(checked.links), wrong, "" if wrong else vouched_by)


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


class ArchiveCheck(NamedTuple):
    """The check of a capsule: its members and head as they should be, and everything that is wrong, in words."""

    links: tuple[Link, ...]
    head: str
    wrong: tuple[str, ...]


def check_archive(path: Path) -> ArchiveCheck:
    """Read all of a capsule and hold it against its chain. Raises CannotOpen if the file is not an archive at all, or not there."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            links, wrong = _chain_in(archive)
            wrong += _compared(archive, infos, links)
    except FileNotFoundError:
        raise CannotOpen(f"there is no file {path}") from None
    except DAMAGE as error:
        return ArchiveCheck((), "", (f"the archive cannot be read ({error}): it was cut off or written over",))
    if not wrong and not _is_as_written(path, links):
        wrong.append(
            "the members are whole, but the archive around them was changed (names, times or bytes between members)"
        )
    return ArchiveCheck(tuple(links), head_of(links), tuple(wrong))


def _chain_in(archive: zipfile.ZipFile) -> tuple[list[Link], list[str]]:
    """The chain as the capsule has it, and what is wrong with it in itself."""
    try:
        if archive.getinfo(CHAIN).compress_type != zipfile.ZIP_STORED:
            return [], [f"{CHAIN} was changed: it is packed otherwise"]
        text = archive.read(CHAIN)
        links = [Link(**msgspec.json.decode(line)) for line in text.splitlines()]
        kept = links and all(isinstance(link.name, str) and isinstance(link.size, int) for link in links)
    except KeyError:
        return [], [f"{CHAIN} is missing: the chain was cut away"]
    except (*DAMAGE, TypeError):
        return [], [f"{CHAIN} was changed: it is not a hash chain any more"]
    if not kept or text != chain_text(links):
        return [], [f"{CHAIN} was changed: it is not a hash chain any more"]
    so_far: list[Link] = []
    for place, link in enumerate(links, start=1):
        so_far.append(next_link(so_far, link.name, link.size, str(link.sha256)))
        if so_far[-1] != link:
            return links, [
                f"the chain does not hold at link {place} ({link.name}): a link was changed, taken out or moved"
            ]
    return links, []


def _compared(archive: zipfile.ZipFile, infos: Sequence[zipfile.ZipInfo], links: Sequence[Link]) -> list[str]:
    """What is wrong with the members, held against the chain."""
    names = [info.filename for info in infos]
    known = {link.name: link for link in links}
    wrong = [f"{name} is there more than once" for name in sorted({name for name in names if names.count(name) > 1})]
    wrong += [f"{name} is missing" for name in known if name not in names]
    wrong += [f"{name} was added" for name in names if name not in known and name != CHAIN]
    if not wrong and names != [*known, CHAIN]:
        place = next(place for place, name in enumerate([*known, CHAIN]) if names[place] != name)
        wrong.append(f"the members are in another order, from {names[place]} on")
    return wrong + [text for info in infos if info.filename in known and (text := _changed(archive, info, known))]


def _changed(archive: zipfile.ZipFile, info: zipfile.ZipInfo, known: dict[str, Link]) -> str:
    link, digest, size = known[info.filename], hashlib.sha256(), 0
    try:
        if info.compress_type != zipfile.ZIP_STORED:
            return f"{link.name} was changed: it is packed otherwise"
        with archive.open(info) as opened:
            while piece := opened.read(AT_ONCE):
                digest.update(piece)
                size += len(piece)
    except DAMAGE as error:
        return f"{link.name} was changed: {error}"
    if (size, digest.hexdigest()) == (link.size, link.sha256):
        return ""
    sizes = f", {size:,} bytes instead of {link.size:,}" if size != link.size else ""
    return f"{link.name} was changed{sizes}"


def _is_as_written(path: Path, links: Sequence[Link]) -> bool:
    """Whether the file has the very bytes that its members make."""
    with tempfile.TemporaryFile() as again:
        with zipfile.ZipFile(path) as archive, CapsuleWriter(again) as writer:
            for link in links:
                with archive.open(link.name) as opened, writer.member(link.name) as copied:
                    while piece := opened.read(AT_ONCE):
                        copied.write(piece)
            writer.finish()
        again.seek(0)
        with path.open("rb") as original:
            return _are_equal(again, original)


def _are_equal(one: IO[bytes], other: IO[bytes]) -> bool:
    while True:
        pieces = one.read(AT_ONCE), other.read(AT_ONCE)
        if pieces[0] != pieces[1]:
            return False
        if not pieces[0]:
            return True

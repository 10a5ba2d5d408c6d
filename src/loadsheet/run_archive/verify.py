"""Verifies a capsule: whether it is intact, and whether it is the one that the record or a kept head names.

Owns the verdict and the record: `STATE/capsules.jsonl` has a line for each capsule made here, each with a hash over the
previous line. A capsule that was rebuilt as a whole is valid in itself. Only the record, or a head kept elsewhere,
reveals it.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from filelock import FileLock, Timeout

from loadsheet.errors import FolderError
from loadsheet.run_archive.contents import (
    AT_ONCE,
    CHAIN,
    DAMAGE,
    CannotOpen,
    CapsuleReader,
    CapsuleWriter,
    ChainLink,
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
    """A capsule that was made: its run, when (ISO 8601 UTC), its file name, its head, and the hash over this and the
    previous line (hex).
    """

    run: str
    made_at: str
    file: str
    head: str
    hash: str


class CapsuleRecord(NamedTuple):
    """The lines, and the number of the first (from 1) that does not follow from the previous one; 0 if all do."""

    lines: tuple[RecordLine, ...]
    broken: int = 0

    def heads_of(self, run: str) -> tuple[str, ...]:
        """The heads of all capsules made of a run, oldest first."""
        return tuple(line.head for line in self.lines if line.run == run)


def read_record(state: Path) -> CapsuleRecord:
    """The record of a state folder; empty if it does not exist."""
    try:
        texts = (state / RECORD_FILE).read_bytes().splitlines()
    except OSError:
        return CapsuleRecord(())
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
    return CapsuleRecord(tuple(lines), broken)


def add_to_record(state: Path, *, run: str, made_at: str, file: str, head: str) -> None:
    """Add a capsule to the record durably, one process at a time. Raises FolderError."""
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
        raise FolderError(
            f"{state / RECORD_FILE} is locked by another process; try again when it has finished"
        ) from None
    except OSError as error:
        raise FolderError(f"{state / RECORD_FILE} cannot be written ({error.strerror or error})") from error


def _hash(before: str, line: RecordLine) -> str:
    return hashlib.sha256(f"{before}\n{line.run}\n{line.made_at}\n{line.file}\n{line.head}".encode()).hexdigest()


class VerifyResult(NamedTuple):
    """The result of `verify`: run and head, everything that is wrong in words, and what vouches for the capsule as a
    whole (`KEPT` or `RECORD`; empty: nothing, it is only intact).
    """

    run: str
    head: str
    members: int
    wrong: tuple[str, ...]
    vouched_by: str = ""


def verify(path: Path, record: CapsuleRecord, head: str = "") -> VerifyResult:
    """Check a capsule against its own chain, and against a head kept elsewhere or else the record. `head` may be
    shortened to 16 digits or more. Raises CannotOpen if the file does not exist.
    """
    checked = check_archive(path)
    if checked.wrong:
        return VerifyResult("", checked.head, len(checked.links), checked.wrong)
    try:
        run = read_manifest(CapsuleReader(path)).run
    except CannotOpen as error:
        return VerifyResult("", checked.head, len(checked.links), (str(error),))
    known = record.heads_of(run)
    wrong, vouched_by = _judge(run, checked.head, head, known)
    if record.broken and not head:
        wrong = (
            *wrong,
            f"line {record.broken} of the record does not follow from the previous line: the record was changed",
        )
    return VerifyResult(run, checked.head, len(checked.links), wrong, "" if wrong else vouched_by)


def _judge(run: str, actual: str, wanted: str, known: Sequence[str]) -> tuple[tuple[str, ...], str]:
    if wanted:
        if actual.startswith(wanted.casefold()):
            return (), KEPT
        return (f"its head is {actual}, not {wanted}: it is another capsule, although it is intact",), ""
    if not known:
        return (), ""
    if actual in known:
        return (), RECORD
    return (f"its head is {actual}; the record has {known[-1]} for run {run}: the whole capsule was replaced",), ""


class ArchiveCheck(NamedTuple):
    """The check of a capsule: its members, its head, and everything that is wrong, in words."""

    links: tuple[ChainLink, ...]
    head: str
    wrong: tuple[str, ...]


def check_archive(path: Path) -> ArchiveCheck:
    """Read a whole capsule and check it against its chain. Raises CannotOpen if the file is missing or not an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            links, wrong = _chain_in(archive)
            wrong += _compared(archive, infos, links)
    except FileNotFoundError:
        raise CannotOpen(f"there is no file {path}") from None
    except DAMAGE as error:
        return ArchiveCheck((), "", (f"the archive cannot be read ({error}): it was cut off or overwritten",))
    if not wrong and not _is_as_written(path, links):
        wrong.append(
            "the members are whole, but the archive around them was changed (names, times or bytes between members)"
        )
    return ArchiveCheck(tuple(links), head_of(links), tuple(wrong))


def _chain_in(archive: zipfile.ZipFile) -> tuple[list[ChainLink], list[str]]:
    """The chain in the capsule, and what is wrong with the chain itself."""
    try:
        if archive.getinfo(CHAIN).compress_type != zipfile.ZIP_STORED:
            return [], [f"{CHAIN} was changed: its compression differs"]
        text = archive.read(CHAIN)
        links = [ChainLink(**msgspec.json.decode(line)) for line in text.splitlines()]
        kept = links and all(isinstance(link.name, str) and isinstance(link.size, int) for link in links)
    except KeyError:
        return [], [f"{CHAIN} is missing: the chain was removed"]
    except (*DAMAGE, TypeError):
        return [], [f"{CHAIN} was changed: it is no longer a hash chain"]
    if not kept or text != chain_text(links):
        return [], [f"{CHAIN} was changed: it is no longer a hash chain"]
    so_far: list[ChainLink] = []
    for place, link in enumerate(links, start=1):
        so_far.append(next_link(so_far, link.name, link.size, str(link.sha256)))
        if so_far[-1] != link:
            return links, [f"the chain breaks at link {place} ({link.name}): a link was changed, removed or moved"]
    return links, []


def _compared(archive: zipfile.ZipFile, infos: Sequence[zipfile.ZipInfo], links: Sequence[ChainLink]) -> list[str]:
    """What is wrong with the members according to the chain."""
    names = [info.filename for info in infos]
    known, times = {link.name: link for link in links}, Counter(names)
    wrong = [f"{name} exists more than once" for name in sorted(times) if times[name] > 1]
    wrong += [f"{name} is missing" for name in known if name not in times]
    wrong += [f"{name} was added" for name in names if name not in known and name != CHAIN]
    if not wrong and names != [*known, CHAIN]:
        place = next(place for place, name in enumerate([*known, CHAIN]) if names[place] != name)
        wrong.append(f"the members are in another order, from {names[place]} on")
    return wrong + [text for info in infos if info.filename in known and (text := _changed(archive, info, known))]


def _changed(archive: zipfile.ZipFile, info: zipfile.ZipInfo, known: dict[str, ChainLink]) -> str:
    link, digest, size = known[info.filename], hashlib.sha256(), 0
    try:
        if info.compress_type != zipfile.ZIP_STORED:
            return f"{link.name} was changed: its compression differs"
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


def _is_as_written(path: Path, links: Sequence[ChainLink]) -> bool:
    """Whether the file has exactly the bytes that follow from its members."""
    with tempfile.TemporaryFile() as again:
        with zipfile.ZipFile(path) as archive, CapsuleWriter(again) as writer:
            for link in links:
                with archive.open(link.name) as opened, writer.member(link.name) as copied:
                    shutil.copyfileobj(opened, copied, AT_ONCE)
            writer.finish()
        again.seek(0)
        with path.open("rb") as original:
            digests = [hashlib.file_digest(file, "sha256").digest() for file in (again, original)]
    return digests[0] == digests[1]

"""The parts of a translation: the job of each part, its chunks, and how the chunks are merged.

Every part reads and groups all rows, which is cheap and gives every group the same position everywhere. A part makes only the
documents of its own groups, which is expensive. Groups are dealt out in stripes, so the parts finish together.

The merge proves that the parts are whole: the chunks follow each other without a gap, and all parts counted the same rows and
groups. If the proof fails or a part is lost, the parts are thrown away (`PartsLost`) and one process translates the drop.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping import load, of_shipper, translate
from loadsheet.mapping.documents import Document, Ignored, Instead, SourceRow, TableNotes
from loadsheet.mapping.grouping import MEMORY_ROWS
from loadsheet.mapping.translator import translate_by_group
from loadsheet.mapping.yamlfile import write_source
from loadsheet.problems import MappingError, Problem
from loadsheet.reading import Table, open_tables
from loadsheet.settings import Settings
from loadsheet.translation.row_counts import CountedTables

_PROCESSES_MAX = 4  # with more, they would wait for the planning process


STRIPE = 100
_ROWS_MAX = 2_000  # a chunk ends at this size


class Part(NamedTuple):
    """One part of a drop: its number from 0, the number of parts, and how many consecutive groups go to one part."""

    number: int
    of: int
    stripe: int = STRIPE

    def has(self, position: int) -> bool:
        """Whether the group at this position belongs to this part."""
        return position // self.stripe % self.of == self.number


class Chunk(NamedTuple):
    """The results of consecutive groups: the position of the first group, the number of groups, and their documents and ignored rows in
    order.
    """

    first: int
    groups: int
    items: list[Document | Ignored]


class PartsLost(Exception):
    """The parts of a translation are incomplete or inconsistent and must not be used."""


class GroupChunks:
    """The chunks of one part. `groups` is the number of all groups of the drop, once the chunks were iterated."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.groups = 0

    def chunks(
        self,
        mapping: CompiledMapping,
        tables: Mapping[str, Table],
        *,
        now: datetime,
        memory_rows: int = MEMORY_ROWS,
        spill_folder: Path | None = None,
    ) -> Iterator[Chunk]:
        """The chunks of the part. Arguments and errors are those of `translate`."""
        by_group = translate_by_group(mapping, tables, now=now, memory_rows=memory_rows, spill_folder=spill_folder)
        items: list[Document | Ignored] = []
        groups = rows = 0
        for position, documents in enumerate(by_group):
            self.groups = position + 1
            if not self.part.has(position):
                continue
            groups += 1
            for item in documents:
                items.append(item)
                rows += len(item.rows) if isinstance(item, Document) else 1
            if self.groups % self.part.stripe == 0 or rows >= _ROWS_MAX:
                yield Chunk(self.groups - groups, groups, items)
                items, groups, rows = [], 0, 0
        if groups:  # the rest, up to the last group
            yield Chunk(self.groups - groups, groups, items)


def merge_chunks(chunks: Iterable[Chunk], groups: Callable[[], Iterable[int]]) -> Iterator[Document | Ignored]:
    """The documents and ignored rows of all parts, from their chunks in the order of positions. `groups` is called at the end and gives the
    number of groups each part counted. Raises PartsLost if the chunks do not hold exactly these groups.
    """
    here = 0
    for chunk in chunks:
        if chunk.first != here:
            raise PartsLost(f"expected group {here}, got group {chunk.first}")
        here += chunk.groups
        yield from chunk.items
    counted = list(groups())
    if not counted or any(count != here for count in counted):
        raise PartsLost(f"received {here} groups, the parts counted {', '.join(map(str, counted)) or 'none'}")


_values_of = attrgetter(*(field.name for field in fields(Document)))
_PackedDocument = tuple[
    str, str, str, bytes, str, tuple[SourceRow, ...], tuple[Problem, ...], dict[str, tuple[int, ...]], Instead | None, tuple[str, ...]
]  # fmt: skip
_Packed = tuple[int, int, list[_PackedDocument], list[int], list[Ignored]]
_encode = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


def pack(chunk: Chunk) -> bytes:
    """A chunk as MessagePack; `unpack` reads it back equal."""
    left_out = [place for place, item in enumerate(chunk.items) if isinstance(item, Ignored)]
    ignored = [item for item in chunk.items if isinstance(item, Ignored)]
    documents = [_values_of(item) for item in chunk.items if isinstance(item, Document)]
    return _encode((chunk.first, chunk.groups, documents, left_out, ignored))


def unpack(packed: bytes) -> Chunk:
    """The chunk that `pack` wrote. Raises PartsLost for anything else."""
    try:
        first, groups, documents, left_out, ignored = _decode(packed)
    except (msgspec.DecodeError, RecursionError) as error:  # includes ValidationError
        raise PartsLost(f"invalid chunk: {error}") from error
    items: list[Document | Ignored] = [Document(*fields) for fields in documents]
    for place, row in zip(left_out, ignored, strict=True):
        items.insert(place, row)
    return Chunk(first, groups, items)


class Translated(Protocol):
    """The result of translating a drop. Rows and notes are known after the last document."""

    def documents(self) -> Iterator[Document | Ignored]:
        """The documents and ignored rows, in order. Raises what reading raises."""

    def rows(self) -> Mapping[str, int]:
        """The number of rows read, by table."""

    def notes(self) -> Mapping[str, TableNotes]:
        """The notes on each table."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file of a drop: its role, the name it was dropped under, and its path."""

    role: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class PartJob:
    """Everything needed to translate a part: the mapping by name and hash, its files and its shipper; the files of the drop; the value of
    `$now`; the number of this part and the number of parts.
    """

    mapping: str
    hash: str
    shipper: str
    source: dict[str, str]
    files: tuple[PartFile, ...]
    now: str
    part: int
    of: int


@dataclass(frozen=True, slots=True)
class PartSummary:
    """The report of a part at its end: the rows read of each table, the number of groups and, from the first part, the notes on each
    table.
    """

    rows: dict[str, int]
    groups: int
    notes: dict[str, TableNotes]


def part_jobs(mapping: CompiledMapping, files: Iterable[PartFile], now: str, count: int) -> list[PartJob]:
    """The jobs of all parts of a drop."""
    first = PartJob(mapping.name, mapping.hash, mapping.shipper, dict(mapping.source), tuple(files), now, 0, count)
    return [replace(first, part=number) for number in range(count)]


def extra_processes(settings: Settings) -> int:
    """How many processes may translate a big drop while this one plans it; 0 without a free core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return (settings.translation.processes or min(cores, _PROCESSES_MAX)) - 1


def should_split(mapping: CompiledMapping, tables: Iterable[Table], size: int, settings: Settings) -> bool:
    """Whether parts are faster than one process. Every part reads all files, so they must be text files and large. The other processes
    must be able to recompile the mapping.
    """
    is_text = all(not table.sheet for table in tables)
    return (
        is_text
        and size >= settings.translation.parts_bytes_min
        and bool(mapping.source)
        and settings.reading.process != "none"
    )


class PartTranslation:
    """A running translation of one part, with the mapping compiled again from the job's files. Raises FileRefused, FolderError, and MappingError
    if the mapping compiles to a different one.
    """

    def __init__(self, job: PartJob, settings: Settings, spill_folder: Path | None = None) -> None:
        self._job, self._mapping, self._spill_folder = job, _recompiled(job, settings), spill_folder
        tables: dict[str, Table] = {}
        for source in job.files:
            layouts = self._mapping.layouts.get(source.role)
            if layouts is not None:
                tables |= open_tables(Path(source.path), source.name, layouts, settings)
        self._counted = CountedTables(
            self._mapping, tables, damage_checks=not job.part
        )  # all parts read all rows; one check of them is enough
        self._group_chunks = GroupChunks(Part(job.part, job.of))

    def chunks(self) -> Iterator[Chunk]:
        """Its chunks. Raises FileRefused and other errors of reading."""
        now = datetime.fromisoformat(self._job.now)
        return self._group_chunks.chunks(self._mapping, self._counted.tables, now=now, spill_folder=self._spill_folder)

    def summary(self) -> PartSummary:
        """Its summary, after the last chunk."""
        return PartSummary(dict(self._counted.rows), self._group_chunks.groups, self._counted.notes())


def _recompiled(job: PartJob, settings: Settings) -> CompiledMapping:
    with tempfile.TemporaryDirectory(prefix="loadsheet-") as folder:
        try:
            mapping = load(write_source(job.source, Path(folder)), settings.assumptions)
        except (OSError, ValueError) as error:
            raise MappingError(
                f"its files cannot be written to a temporary folder ({error})", file=job.mapping
            ) from error
    if mapping.hash != job.hash:
        raise MappingError(
            "it compiles to a different mapping in this process: is this another version of loadsheet?",
            file=job.mapping,
        )
    return of_shipper(mapping, job.shipper) if job.shipper else mapping


class MergedParts:
    """The merged result of several parts. `summaries` is called after the last chunk; chunks come in the order of their positions."""

    def __init__(self, chunks: Iterable[Chunk], summaries: Callable[[], Sequence[PartSummary]]) -> None:
        self._chunks, self._summaries = chunks, summaries

    def documents(self) -> Iterator[Document | Ignored]:
        """The documents and ignored rows of all parts, in order. Raises PartsLost if they are incomplete."""
        yield from merge_chunks(self._chunks, lambda: [part.groups for part in self._summaries()])

    def rows(self) -> Mapping[str, int]:
        """How many rows every part read, by table. Raises PartsLost if the parts differ."""
        first, *others = [part.rows for part in self._summaries()]
        if any(rows != first for rows in others):
            raise PartsLost(f"parts read different rows: {first} and {next(rows for rows in others if rows != first)}")
        return first

    def notes(self) -> Mapping[str, TableNotes]:
        """The first part's notes on each table."""
        return self._summaries()[0].notes


class _OneProcess:
    def __init__(self, mapping: CompiledMapping, tables: Mapping[str, Table], now: datetime) -> None:
        self._mapping, self._now = mapping, now
        self._counted = CountedTables(mapping, tables)

    def documents(self) -> Iterator[Document | Ignored]:
        return translate(self._mapping, self._counted.tables, now=self._now)

    def rows(self) -> Mapping[str, int]:
        return self._counted.rows

    def notes(self) -> Mapping[str, TableNotes]:
        return self._counted.notes()


def in_one_process(mapping: CompiledMapping, tables: Mapping[str, Table], now: str) -> Translated:
    """Translate the tables of a drop in this process."""
    return _OneProcess(mapping, tables, datetime.fromisoformat(now))

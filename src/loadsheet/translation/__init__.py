"""Translation of the files of one drop: in this process, or in parts by several processes on this machine.

Several processes are used for a big file when a core is free. `row_counts` counts the rows that were read. The documents and their order are
the same either way. Knows no ledger.

Every part reads and groups all rows, which is cheap and gives every group the same position everywhere. A part makes only the
documents of its own groups, which is expensive. Groups are dealt out in stripes, so the parts finish together.

The merge proves that the parts are whole: the chunks follow each other without a gap, and all parts counted the same rows and
groups. If the proof fails or a part is lost, the parts are thrown away (`PartsLost`) and one process translates the drop.

The processes get no token and no password, write no file except the spill of a sort, and end when their pipe is closed. A problem
of a file is raised here as usual. A process that fails in any other way is a lost part. Both sides of the pipe are in this module.
"""

import heapq
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from operator import attrgetter, itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from loadsheet.contract import Assumptions
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping import load, of_shipper
from loadsheet.mapping.documents import Document, Ignored, Instead, SourceRow, TableNotes
from loadsheet.mapping.translator import translate_by_group
from loadsheet.mapping.yamlfile import write_source
from loadsheet.problems import FileRefused, MappingError, Problem
from loadsheet.reading import Table, open_tables
from loadsheet.reading.messages import BATCH, END, OPEN, REFUSED, ErrorReport, check_problem, decode, receive, send
from loadsheet.settings import Settings
from loadsheet.translation.row_counts import CountedTables, OneProcess, with_counting_tables

__all__ = [
    "OneProcess",
    "PartFile",
    "PartJob",
    "PartProcesses",
    "PartsLost",
    "extra_processes",
    "part_jobs",
    "should_split",
    "with_counting_tables",
]


_PROCESSES_MAX = 4  # with more, they would wait for the planning process
STRIPE = 100
_ROWS_MAX = 2_000  # a chunk ends at this size
_START = "import sys; sys.path[:] = sys.argv[1:]; from loadsheet.translation import serve; serve()"
_PIPE_BYTES = 1 << 20  # limits how far a part runs ahead of planning
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR", "TEMP", "TMP")

_values_of = attrgetter(*(field.name for field in fields(Document)))
_PackedDocument = tuple[
    str, str, str, bytes, str, tuple[SourceRow, ...], tuple[Problem, ...], dict[str, tuple[int, ...]], Instead | None, tuple[str, ...]
]  # fmt: skip
_Packed = tuple[int, int, list[_PackedDocument], list[int], list[Ignored]]
_encode = msgspec.msgpack.Encoder(enc_hook=str).encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


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
    """The chunks of one `part` (from 0) `of` all parts; `stripe` consecutive groups go to one part. `groups` is the number of all groups of
    the drop, once the chunks were iterated.
    """

    def __init__(self, part: int, of: int, stripe: int = STRIPE) -> None:
        self._part, self._of, self._stripe = part, of, stripe
        self.groups = 0

    def chunks(self, by_group: Iterable[Iterable[Document | Ignored]]) -> Iterator[Chunk]:
        """The chunks of the part, from the results of all groups (see `translate_by_group`). Raises what these raise."""
        items: list[Document | Ignored] = []
        groups = rows = 0
        for position, documents in enumerate(by_group):
            self.groups = position + 1
            if position // self._stripe % self._of != self._part:
                continue
            groups += 1
            for item in documents:
                items.append(item)
                rows += len(item.rows) if isinstance(item, Document) else 1
            if self.groups % self._stripe == 0 or rows >= _ROWS_MAX:
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


def pack(chunk: Chunk) -> bytes:
    """A chunk as MessagePack; `unpack` reads it back equal."""
    left_out = [place for place, item in enumerate(chunk.items) if isinstance(item, Ignored)]
    ignored = [item for item in chunk.items if isinstance(item, Ignored)]
    documents = [_values_of(item) for item in chunk.items if isinstance(item, Document)]
    return _encode((chunk.first, chunk.groups, documents, left_out, ignored))


def unpack(packed: bytes | memoryview) -> Chunk:
    """The chunk that `pack` wrote. Raises PartsLost for anything else."""
    try:
        first, groups, documents, left_out, ignored = _decode(packed)
    except (msgspec.DecodeError, RecursionError) as error:  # includes ValidationError
        raise PartsLost(f"invalid chunk: {error}") from error
    items: list[Document | Ignored] = [Document(*fields) for fields in documents]
    for place, row in zip(left_out, ignored, strict=True):
        items.insert(place, row)
    return Chunk(first, groups, items)


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

    rows: Mapping[str, int]
    groups: int
    notes: Mapping[str, TableNotes]


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
    must be able to recompile the mapping. Not on Windows, where connections cannot use the pipes of a program. Not for several
    mappings of one file, because only one process sees which rows they share.
    """
    is_text = all(not table.sheet for table in tables)
    return (
        is_text
        and size >= settings.translation.parts_bytes_min
        and bool(mapping.source)
        and not mapping.parts
        and settings.reading.process != "none"
        and os.name == "posix"
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
        self._group_chunks = GroupChunks(job.part, job.of)

    def chunks(self) -> Iterator[Chunk]:
        """Its chunks. Raises FileRefused and other errors of reading."""
        now = datetime.fromisoformat(self._job.now)
        by_group = translate_by_group(self._mapping, self._counted.tables, now=now, spill_folder=self._spill_folder)
        return self._group_chunks.chunks(by_group)

    def summary(self) -> PartSummary:
        """Its summary, after the last chunk."""
        return PartSummary(self._counted.rows(), self._group_chunks.groups, self._counted.notes())


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


def rows_of_each(parts: Sequence[PartSummary]) -> Mapping[str, int]:
    """How many rows each of these parts read, by table. Raises PartsLost if they differ."""
    first, *others = [part.rows for part in parts]
    if other := next((rows for rows in others if rows != first), None):
        raise PartsLost(f"parts read different rows: {first} and {other}")
    return first


class _Task(NamedTuple):
    """The input of a process. `settings` holds only numbers and words from fixed lists, no secrets."""

    job: PartJob
    settings: dict[str, Any]
    assumptions: dict[str, Any]
    spill_folder: str


class PartProcesses:
    """The parts of a drop, each translated by its own process. Rows and notes are known after the last document. Leaving the context ends
    all processes.
    """

    def __init__(self, jobs: Sequence[PartJob], settings: Settings) -> None:
        self._jobs, self._settings = jobs, settings
        self._ending = ExitStack()
        self._chunks: Iterable[Chunk] = ()
        self._ended: dict[int, PartSummary] = {}

    def __enter__(self) -> Self:
        plain = self._settings.model_dump(mode="json", include={"reading", "translation"})
        assumptions = self._settings.assumptions.model_dump(mode="json", exclude_unset=True)
        with ExitStack() as ending:
            spill = ending.enter_context(tempfile.TemporaryDirectory(prefix="loadsheet-", ignore_cleanup_errors=True))
            streams = []
            for job in self._jobs:
                connection = _start(_Task(job, plain, assumptions, spill), ending)
                streams.append(self._stream(job.part, connection))
            self._chunks = heapq.merge(*streams, key=itemgetter(0))
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    def documents(self) -> Iterator[Document | Ignored]:
        """The documents and ignored rows of all parts, in order. Raises PartsLost if they are incomplete."""
        return merge_chunks(self._chunks, lambda: [part.groups for part in self._summaries()])

    def rows(self) -> Mapping[str, int]:
        """How many rows every part read, by table. Raises PartsLost if the parts differ."""
        return rows_of_each(self._summaries())

    def notes(self) -> Mapping[str, TableNotes]:
        """The first part's notes on each table."""
        return self._summaries()[0].notes

    def _summaries(self) -> list[PartSummary]:
        return [self._ended[job.part] for job in self._jobs]

    def _stream(self, part: int, connection: Connection) -> Iterator[Chunk]:
        try:
            while True:
                kind, body = receive(connection)
                if kind == END:
                    self._ended[part] = decode(body, PartSummary)
                    return
                if kind == REFUSED:
                    raise FileRefused(check_problem(decode(body, Problem)))
                if kind != BATCH:
                    raise PartsLost("part {} failed: {}: {}".format(part + 1, *decode(body, tuple[str, str])))
                yield unpack(body)
        except (EOFError, OSError) as error:  # OSError: it ended in the middle of a message
            raise PartsLost(f"the process of part {part + 1} ended early") from error
        except ValueError as error:
            raise PartsLost(f"part {part + 1} sent invalid data: {error}") from error


def _start(task: _Task, ending: ExitStack) -> Connection:
    """Start a process and give it a task. `ending` ends it, whether it is done or no longer needed. Returns the end of its pipe."""
    kept = {what: os.environ[what] for what in _KEPT if what in os.environ}
    paths = [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 (a zip or "" is not a Path)
    try:
        (task_end, own_end), (chunks_end, child_end) = Pipe(duplex=False), Pipe(duplex=False)
        ending.enter_context(chunks_end)
        with task_end, own_end, child_end:
            process = subprocess.Popen(  # noqa: S603 (runs this interpreter)
                [sys.executable, "-I", "-X", "utf8", "-c", _START, *paths],
                stdin=task_end.fileno(),
                stdout=child_end.fileno(),
                stderr=subprocess.DEVNULL,
                env=kept,  # no token, no password
                start_new_session=True,  # Ctrl-C must reach only the parent
            )
            ending.callback(process.wait)
            ending.callback(process.kill)
            with suppress(ImportError, AttributeError, OSError):  # where pipes can be made larger
                import fcntl

                fcntl.fcntl(chunks_end.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            task_end.close()
            with suppress(BrokenPipeError):  # the failure is read from the other pipe
                send(own_end, OPEN, task)
    except OSError as error:
        raise PartsLost(f"no process can be started: {error}") from error
    return chunks_end


def serve() -> None:
    """Translate the part whose job arrives on standard input, in the process of that part."""
    with Connection(os.dup(1), readable=False) as connection, ErrorReport(connection):
        os.dup2(2, 1)  # keeps a library's output out of the chunks
        task = decode(receive(Connection(os.dup(0), writable=False))[1], _Task)
        settings = Settings(**task.settings, assumptions=Assumptions.model_validate(task.assumptions))
        part = PartTranslation(task.job, settings, Path(task.spill_folder))
        for chunk in part.chunks():
            connection.send_bytes(BATCH + pack(chunk))
        send(connection, END, part.summary())

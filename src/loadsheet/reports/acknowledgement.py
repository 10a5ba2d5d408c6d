"""The machine-readable acknowledgement of a source file for its sender: `ack/NAME.ack.json` and `ack/NAME.ack.csv`.

Owns the format `loadsheet.ack/1` (names are only ever added) and its codes, as in EDI acknowledgements (997, CONTRL):

    A  accepted: the exchange accepted it, or already had the same content
    E  accepted with errors: accepted, but with warnings, or the exchange shows other values
    P  partially accepted (group or file): some records are accepted, others are rejected or wait
    R  rejected: invalid, refused, or the whole file was set aside
    W  waiting: ready, held, being sent, of unknown outcome, or a duplicate of a waiting record; a later
       acknowledgement reports the outcome, for a duplicate that of the original's file

A file has one group per operation. Its control number is run/drop/file and never changes. Each later run that
changes one of its records writes the next acknowledgement into its own folder. `sequence` counts them, and
`supersedes` names the previous one. For a file with the same bytes as an earlier one, `duplicate_of` holds the
earlier control number. `final` means that nothing waits: only an operator's retry can lead to another
acknowledgement. `loadsheet report --schema ack` prints the JSON Schema.
The JSON holds every text unchanged, with control characters escaped. In the CSV, texts that a spreadsheet would
read as a formula begin with an apostrophe, and control characters become U+FFFD.
Records stream through, so memory does not grow with them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from loadsheet.display_text import escaped_json
from loadsheet.ledger import AT_EXCHANGE, FINAL, Drop, Entry, Run, SourceFile, SourceTable, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import Problem
from loadsheet.reconcile import VERDICTS_THAT_NEED_SOMEONE, Match
from loadsheet.reports.report_files import (
    copy_spooled,
    csv_row,
    distinct_name,
    safe_name,
    spooled_file,
    written_atomically,
)
from loadsheet.reports.run_document import described, published_schema

SCHEMA = "loadsheet.ack/1"
FOLDER = "ack"
JSON_SUFFIX, CSV_SUFFIX = ".ack.json", ".ack.csv"

ACCEPTED, WITH_ERRORS, PARTLY, REJECTED, WAITING = "A", "E", "P", "R", "W"
_WORDS = {
    ACCEPTED: "accepted",
    WITH_ERRORS: "accepted with errors",
    PARTLY: "partially accepted",
    REJECTED: "rejected",
    WAITING: "waiting",
}
_REJECTED = frozenset({State.INVALID, State.REFUSED})
_SAME_WAITS = "L603"  # duplicate of a waiting record: its outcome is in the acknowledgements of the original's file
_PUBLISHED = {  # schema names of version 1 that programs may refer to
    "AcknowledgedGroup": "GroupNoted",
    "AcknowledgedProblem": "ProblemNoted",
    "AcknowledgedRecord": "RecordNoted",
    "SupersededAcknowledgement": "Superseded",
}

_COLUMNS = (
    *("level", "control", "sequence", "file", "operation", "key", "rows", "code", "state", "number", "problems"),
    *("records", "accepted", "accepted_with_errors", "rejected", "waiting", "received", "processed", "sha256"),
    *("supersedes", "duplicate_of"),
)
_BLANK = ("",) * 10  # the file and group columns of a record's CSV line
_AFTER = "," * len(_BLANK) + "\r\n"
_RECORDS_AT_ONCE = 256
_NO_RECORDS = b'"records":[]}'
_encode = msgspec.json.Encoder().encode


class AcknowledgedProblem(msgspec.Struct, frozen=True):
    """One problem of a record or a file."""

    code: Annotated[str, described("The code of the catalogue, such as C302")]
    level: Annotated[str, described("error or warning")]
    file: Annotated[str, described("The file; empty if the problem has no place in a file")]
    sheet: Annotated[str, described("The sheet; empty for a CSV file")]
    row: Annotated[int, described("The row number from 1, as in the sender's program; 0 if none")]
    column: Annotated[str, described("The heading of the column")]
    cell: Annotated[str, described("The address of the cell, such as J14; empty for a CSV file")]
    text: Annotated[str, described("The problem in one sentence")]
    hint: Annotated[str, described("What to do")]


class AcknowledgedRecord(msgspec.Struct, frozen=True):
    """One record made from rows of the file."""

    key: Annotated[str, described("Its business key")]
    operation: Annotated[str, described("Its operation, such as order.create")]
    rows: Annotated[Mapping[str, Sequence[int]], described("Its rows in this file, by sheet (empty name for CSV)")]
    code: Annotated[str, described("A, E, R or W")]
    state: Annotated[
        str, described("Its state: accepted, unchanged, invalid, refused, held, ready, sending or unknown")
    ]
    number: Annotated[str, described("The number the exchange gave it; empty if none")]
    reason: Annotated[str, described("The reason for its state")]
    problems: Annotated[Sequence[AcknowledgedProblem], described("Its problems")]


@dataclass(frozen=True, slots=True)
class AcknowledgedGroup:
    """All records of one operation, counted by code."""

    operation: Annotated[str, described("The operation")]
    code: Annotated[str, described("A, E, P, R or W")]
    state: Annotated[str, described("The code in words")]
    records: Annotated[int, described("Number of records; the sum of the four counts below")]
    accepted: Annotated[int, described("With code A")]
    accepted_with_errors: Annotated[int, described("With code E")]
    rejected: Annotated[int, described("With code R")]
    waiting: Annotated[int, described("With code W")]


@dataclass(frozen=True, slots=True)
class SupersededAcknowledgement:
    """The acknowledgement that this one replaces."""

    sequence: Annotated[int, described("Its sequence number")]
    run: Annotated[str, described("The run that wrote it")]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The outcome of one source file. Times are ISO 8601 UTC."""

    schema: Annotated[str, described("The version of this format; names are only ever added")]
    control: Annotated[
        str, described("The control number of the file: run/drop/file; the same in all its acknowledgements")
    ]
    sequence: Annotated[int, described("The sequence number of this acknowledgement of the file, from 1")]
    supersedes: Annotated[
        SupersededAcknowledgement | None, described("The previous acknowledgement; null for the first")
    ]
    duplicate_of: Annotated[str, described("The control number of the earlier file with the same bytes; empty if none")]
    run: Annotated[str, described("The run that writes the acknowledgement")]
    file: Annotated[str, described("The file's name in the inbox, with folders")]
    role: Annotated[str, described("Its role in the mapping")]
    sha256: Annotated[str, described("The SHA-256 of its bytes (hex)")]
    bytes: Annotated[int, described("Its size in bytes")]
    received: Annotated[str, described("When it arrived")]
    processed: Annotated[str, described("When the run ended")]
    mapping: Annotated[str, described("The mapping; empty for a file that no mapping takes")]
    mapping_version: Annotated[str, described("The version of the mapping")]
    code: Annotated[str, described("A, E, P, R or W for the whole file")]
    state: Annotated[str, described("The code in words")]
    final: Annotated[bool, described("True if nothing waits: only an operator's retry can lead to another one")]
    rows: Annotated[int, described("Rows read")]
    problems: Annotated[
        Sequence[AcknowledgedProblem], described("Problems of the whole file, such as why it was set aside")
    ]
    groups: Annotated[Sequence[AcknowledgedGroup], described("One group per operation")]
    records: Annotated[Sequence[AcknowledgedRecord], described("Every record, in the order of planning")]


def acknowledgement_schema() -> bytes:
    """The JSON Schema (2020-12) of an acknowledgement. Later versions may add names."""
    return published_schema(Acknowledgement, SCHEMA, _PUBLISHED)


class Acknowledgements:
    """Writes the acknowledgements of a run, drop by drop: `open` a drop, `add` its entries, `finish` it."""

    def __init__(self, queries: LedgerQueries, run: Run, folder: Path, drops: Iterable[Drop]) -> None:
        """`folder` holds the run's reports; `drops` are all reported drops."""
        self._queries, self._run, self._folder = queries, run, folder
        self._names = _names(drops, run)
        self._files: dict[str, _File] = {}
        self._tables: dict[str, SourceTable] = {}

    def open(self, drop: Drop, stack: ExitStack) -> None:
        """Begin with a drop; `stack` closes its spools. A run that only looked up its records does not acknowledge it again."""
        acknowledged = [self._run.name] if drop.run == self._run.name else self._queries.runs_changing(drop.id)
        self._files = {}
        self._tables = {table.name: table for table in drop.tables}
        if self._run.name not in acknowledged:
            return
        before = acknowledged[: acknowledged.index(self._run.name)]
        names = self._names[drop.id]
        self._files = {
            source.name: _File(self._head(drop, number, source, before), names[source.name], stack)
            for number, source in enumerate(drop.files, start=1)
            if source.name in names
        }

    def add(self, entry: Entry, match: Match) -> None:
        """Add an entry to the acknowledgement of each file it has rows in."""
        if not self._files:
            return
        places: dict[str, dict[str, list[int]]] = {}
        for row in entry.rows:
            table = self._tables[row.table]
            places.setdefault(table.file, {}).setdefault(table.sheet, []).append(row.number)
        with_errors = bool(entry.problems) or match.verdict in VERDICTS_THAT_NEED_SOMEONE
        code = REJECTED if entry.state in _REJECTED else WAITING
        if entry.state in AT_EXCHANGE:
            code = WITH_ERRORS if with_errors else ACCEPTED
        problems = [_acknowledged(problem) for problem in entry.problems]
        reason = "" if entry.state is State.ACCEPTED else entry.reason
        repeats = any(problem.code == _SAME_WAITS for problem in entry.problems)
        is_final = repeats or entry.state in FINAL
        for file, rows in places.items():
            self._files[file].add(
                AcknowledgedRecord(
                    entry.key, entry.operation, rows, code, entry.state.value, entry.service_order, reason, problems
                ),
                is_final=is_final,
            )

    def finish(self) -> list[str]:
        """Move the files of the drop to their final places. Returns their names, relative to the run's report folder."""
        return [written for file in self._files.values() for written in file.finish(self._folder)]

    def _head(self, drop: Drop, number: int, source: SourceFile, before: Sequence[str]) -> Acknowledgement:
        first = self._queries.first_with(source.sha256, drop.id) if source.size else None
        digests = [file.sha256 for file in first.files] if first else []
        return Acknowledgement(
            schema=SCHEMA,
            control=_control(drop, number),
            sequence=len(before) + 1,
            supersedes=SupersededAcknowledgement(len(before), before[-1]) if before else None,
            duplicate_of=_control(first, digests.index(source.sha256) + 1) if first else "",
            run=self._run.name,
            file=source.name,
            role=source.role,
            sha256=source.sha256,
            bytes=source.size,
            received=source.arrived,
            processed=self._run.finished_at,
            mapping=drop.meant_for,
            mapping_version=drop.mapping_version,
            code=REJECTED if source.problems else "",
            state="",
            final=True,
            rows=sum(table.rows for table in drop.tables if table.file == source.name),
            problems=[_acknowledged(problem) for problem in source.problems],
            groups=(),
            records=(),
        )


class _File:
    """One acknowledgement in progress: the file's header, the counts of its groups, and its records in two spools."""

    def __init__(self, header: Acknowledgement, name: str, stack: ExitStack) -> None:
        self._header, self._name, self._final = header, name, True
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._json, self._csv = spooled_file(stack), spooled_file(stack)
        self._fresh: list[tuple[bytes, str]] = []  # records that are not yet in them
        self._before = b"\n"
        self._same = csv_row(("record", header.control, str(header.sequence), header.file)).removesuffix("\r\n")

    def add(self, record: AcknowledgedRecord, *, is_final: bool) -> None:
        """Add a record; `is_final`: no run changes its outcome by itself."""
        self._final = self._final and is_final
        self._counts[record.operation][record.code] += 1
        problems = " ".join(dict.fromkeys([problem.code for problem in record.problems])) if record.problems else ""
        fields = (record.operation, record.key, _rows(record.rows), record.code, record.state, record.number, problems)
        line = csv_row(fields).removesuffix("\r\n")
        self._fresh.append((_encode(record), f"{self._same},{line}{_AFTER}"))
        if len(self._fresh) == _RECORDS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._fresh:
            records, lines = zip(*self._fresh, strict=True)
            self._json.write(self._before + escaped_json(b",\n".join(records)))
            self._csv.write("".join(lines).encode(errors="replace"))
            self._before = b",\n"
            self._fresh.clear()

    def finish(self, folder: Path) -> list[str]:
        """Write both files, problems of the whole file first; returns their names."""
        self._flush()
        groups = []
        for operation, of_group in sorted(self._counts.items()):
            each = [of_group[code] for code in (ACCEPTED, WITH_ERRORS, REJECTED, WAITING)]
            code = _overall_code(of_group)
            groups.append(AcknowledgedGroup(operation, code, _WORDS[code], of_group.total(), *each))
        counts = sum(self._counts.values(), Counter[str]())
        code = self._header.code or _overall_code(counts)
        header = replace(self._header, code=code, state=_WORDS[code], final=self._final, groups=groups)
        names = [f"{FOLDER}/{self._name}{suffix}" for suffix in (JSON_SUFFIX, CSV_SUFFIX)]
        with written_atomically(folder / names[0]) as part, part.open("wb") as target:
            target.write(escaped_json(_encode(header)).removesuffix(_NO_RECORDS) + _NO_RECORDS[:-2])
            copy_spooled(self._json, target)
            target.write(_NO_RECORDS[-2:] + b"\n")
        with written_atomically(folder / names[1]) as part, part.open("wb") as target:
            target.write(_csv_head(header, counts).encode(errors="replace"))
            copy_spooled(self._csv, target)
        return names


def _names(drops: Iterable[Drop], run: Run) -> dict[int, dict[str, str]]:
    """The name of the acknowledgement of each file, by drop: the file's name with folders flattened. Duplicates are
    numbered. Trigger files that only mark others as complete get none.
    """
    names: dict[int, dict[str, str]] = {}
    taken: set[str] = set()
    for drop in drops:
        read = {table.file for table in drop.tables}
        mine = names[drop.id] = {}
        for file in (one for one in drop.files if one.problems or one.name in read):
            base = safe_name(file.name) + ("" if drop.run == run.name else f".of-{drop.run}")
            mine[file.name] = distinct_name(base, "", taken)
    return names


def _control(drop: Drop, number: int) -> str:
    return f"{drop.run}/{drop.id}/{number}"


def _overall_code(counts: Mapping[str, int]) -> str:
    """The code of a group or file whose records have these codes."""
    taken, rejected, waiting = counts[ACCEPTED] + counts[WITH_ERRORS], counts[REJECTED], counts[WAITING]
    if rejected or waiting:
        return PARTLY if taken else WAITING if waiting else REJECTED
    return WITH_ERRORS if counts[WITH_ERRORS] else ACCEPTED


def _acknowledged(problem: Problem) -> AcknowledgedProblem:
    where = problem.where
    place = (where.file, where.sheet, where.row, where.column, where.cell)
    return AcknowledgedProblem(problem.code, problem.level, *place, problem.text_for_its_sender, problem.hint)


def _rows(rows: Mapping[str, Sequence[int]]) -> str:
    """The rows of a record in CSV form: `3 4 5`, or with a sheet `Orders!3 4 5`."""
    return "; ".join(
        [
            f"{sheet}!{' '.join(map(str, numbers))}" if sheet else " ".join(map(str, numbers))
            for sheet, numbers in rows.items()
        ]
    )


def _csv_head(header: Acknowledgement, counts: Counter[str]) -> str:
    """The heading, the line of the file and the lines of its groups."""
    lines = [csv_row(_COLUMNS)]
    same = (header.control, str(header.sequence), header.file)
    problems = " ".join(dict.fromkeys(problem.code for problem in header.problems))
    figures = [str(counts[code]) for code in (ACCEPTED, WITH_ERRORS, REJECTED, WAITING)]
    times = (header.received, header.processed, header.sha256)
    before = str(header.supersedes.sequence) if header.supersedes else ""
    totals = ("", "", "", header.code, header.state, "", problems, str(counts.total()), *figures, *times)
    lines.append(csv_row(("file", *same, *totals, before, header.duplicate_of)))
    for group in header.groups:
        each = (group.records, group.accepted, group.accepted_with_errors, group.rejected, group.waiting)
        counted = (group.operation, "", "", group.code, group.state, "", "", *map(str, each), *_BLANK[5:])
        lines.append(csv_row(("group", *same, *counted)))
    return "".join(lines)

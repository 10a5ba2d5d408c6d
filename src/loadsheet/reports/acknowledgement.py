"""The acknowledgement of a source file in machine form, for the sender's own programs: `ack/NAME.ack.json` and `ack/NAME.ack.csv`.

Owns: the shape `loadsheet.ack/1` (names are only ever added to it) and its codes, which are those of an EDI acknowledgement (997, CONTRL):

    A  accepted: the exchange has it, or had it already with the same content
    E  accepted with errors: it has it, but there are warnings, or the exchange shows it otherwise
    P  partially accepted (a group or a file): some of it is, and some is rejected or waits
    R  rejected: invalid, refused, or the whole file was set aside
    W  waiting: ready, held, being sent or of unknown outcome, and a later acknowledgement says what became of it; or the same as a record
       that waits, and the acknowledgements of that one's file tell

A file has one group for each operation. Its control number is run/drop/file and stays; each later run that changes one of its records
writes the next acknowledgement into its own folder: `sequence` counts them, `supersedes` names the one before. A file with the same bytes
as an earlier one is acknowledged with that one's control number in `duplicate_of`. `final` says that nothing waits: then only an
operator's retry could bring a later one. `loadsheet report --schema ack` prints the JSON Schema.
The JSON has every text as it is, control characters as escapes; in the CSV, texts that a spreadsheet would take for a formula begin with
an apostrophe, and control characters are shown as U+FFFD.
Records stream through; memory does not grow with them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from loadsheet.control_characters import escaped
from loadsheet.ledger import SETTLED, Drop, Entry, Run, SourceFile, SourceTable, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import Problem
from loadsheet.reconcile import NEEDS_SOMEONE, Match
from loadsheet.reports.report_files import Roll, csv_row, distinct_name, placed, safe_name
from loadsheet.reports.run_document import published_schema

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
_SETTLED = frozenset({State.ACCEPTED, State.UNCHANGED})
_SAME_WAITS = (
    "L603"  # of a record that repeats a waiting one: its outcome is in the acknowledgements of the file that it came in
)
_PUBLISHED = {  # schema names of version 1, which programs may refer to
    "AcknowledgedGroup": "GroupNoted",
    "AcknowledgedProblem": "ProblemNoted",
    "AcknowledgedRecord": "RecordNoted",
}

_COLUMNS = (
    *("level", "control", "sequence", "file", "operation", "key", "rows", "code", "state", "number", "problems"),
    *("records", "accepted", "accepted_with_errors", "rejected", "waiting", "received", "processed", "sha256"),
    *("supersedes", "duplicate_of"),
)
_BLANK = ("",) * 10  # of a record's line in the CSV: the columns of its file and groups
_NO_RECORDS = b'"records":[]}'
_encode = msgspec.json.Encoder().encode


def _described(text: str) -> Meta:
    return Meta(description=text)


class AcknowledgedProblem(msgspec.Struct, frozen=True):
    """One problem of a record or a file."""

    code: Annotated[str, _described("The code of the catalogue, such as C302")]
    level: Annotated[str, _described("error or warning")]
    file: Annotated[str, _described("The file; empty if it concerns no place in one")]
    sheet: Annotated[str, _described("The sheet; empty for a CSV file")]
    row: Annotated[int, _described("The row, from 1 as the sender's program shows it; 0 for none")]
    column: Annotated[str, _described("The heading of the column")]
    cell: Annotated[str, _described("The address of the cell, such as J14; empty for a CSV file")]
    text: Annotated[str, _described("What is wrong, in one sentence")]
    hint: Annotated[str, _described("What to do")]


class AcknowledgedRecord(msgspec.Struct, frozen=True):
    """One record made from rows of the file."""

    key: Annotated[str, _described("Its business key")]
    operation: Annotated[str, _described("The operation it asks for, such as order.create")]
    rows: Annotated[Mapping[str, Sequence[int]], _described("Its rows in this file, by sheet (empty name for CSV)")]
    code: Annotated[str, _described("A, E, R or W")]
    state: Annotated[
        str, _described("Its state: accepted, unchanged, invalid, refused, held, ready, sending or unknown")
    ]
    number: Annotated[str, _described("The exchange's own number, if it gave one")]
    reason: Annotated[str, _described("Why it is in its state, in words")]
    problems: Annotated[Sequence[AcknowledgedProblem], _described("Its problems")]


@dataclass(frozen=True, slots=True)
class AcknowledgedGroup:
    """All records of one operation, counted by their codes."""

    operation: Annotated[str, _described("The operation")]
    code: Annotated[str, _described("A, E, P, R or W")]
    state: Annotated[str, _described("The code in words")]
    records: Annotated[int, _described("How many records; the sum of the four below")]
    accepted: Annotated[int, _described("With code A")]
    accepted_with_errors: Annotated[int, _described("With code E")]
    rejected: Annotated[int, _described("With code R")]
    waiting: Annotated[int, _described("With code W")]


@dataclass(frozen=True, slots=True)
class Superseded:
    """The acknowledgement that this one takes the place of."""

    sequence: Annotated[int, _described("Its number")]
    run: Annotated[str, _described("The run that wrote it")]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What became of one source file. Times are ISO 8601 UTC."""

    schema: Annotated[str, _described("The version of this document: names are only ever added to it")]
    control: Annotated[
        str, _described("The control number of the file: run/drop/file; the same in all its acknowledgements")
    ]
    sequence: Annotated[int, _described("Which acknowledgement of the file this is, from 1")]
    supersedes: Annotated[Superseded | None, _described("The one before it; null for the first")]
    duplicate_of: Annotated[
        str, _described("The control number of the earlier file with the same bytes; empty if there is none")
    ]
    run: Annotated[str, _described("The run that acknowledges")]
    file: Annotated[str, _described("The file's name in the inbox, with its folders")]
    role: Annotated[str, _described("What the mapping calls it")]
    sha256: Annotated[str, _described("The hex digest of its bytes")]
    bytes: Annotated[int, _described("How many bytes it has")]
    received: Annotated[str, _described("When it arrived")]
    processed: Annotated[str, _described("When the acknowledging run ended")]
    mapping: Annotated[str, _described("The mapping; empty for a file that was set aside")]
    mapping_version: Annotated[str, _described("The version that the mapping says it has")]
    code: Annotated[str, _described("A, E, P, R or W for the whole file")]
    state: Annotated[str, _described("The code in words")]
    final: Annotated[bool, _described("Whether nothing waits: only an operator's retry could bring a later one")]
    rows: Annotated[int, _described("Rows that were read")]
    problems: Annotated[
        Sequence[AcknowledgedProblem], _described("Problems of the whole file, such as why it was set aside")
    ]
    groups: Annotated[Sequence[AcknowledgedGroup], _described("One for each operation")]
    records: Annotated[
        Sequence[AcknowledgedRecord], _described("Every record, in the order in which they were planned")
    ]


def acknowledgement_schema() -> bytes:
    """The JSON Schema (2020-12) of an acknowledgement. Further names may come."""
    return published_schema(Acknowledgement, SCHEMA, _PUBLISHED)


class Acknowledgements:
    """The acknowledgements of a run under way, a drop at a time: `open` it, `add` its entries, `finish` it."""

    def __init__(self, queries: LedgerQueries, run: Run, folder: Path, drops: Iterable[Drop]) -> None:
        """`folder` is that of the run's reports, `drops` are all that are reported."""
        self._queries, self._run, self._folder = queries, run, folder
        self._names = _names(drops, run)
        self._files: dict[str, _File] = {}
        self._tables: dict[str, SourceTable] = {}

    def open(self, drop: Drop, stack: ExitStack) -> None:
        """Begin with a drop; `stack` closes its spools. A run that only looked for its records does not acknowledge it again."""
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
        """Take an entry: to the acknowledgement of each file that it has rows in."""
        if not self._files:
            return
        places: dict[str, dict[str, list[int]]] = {}
        for row in entry.rows:
            table = self._tables[row.table]
            sheets = places.get(table.file)
            if sheets is None:
                sheets = places[table.file] = {}
            numbers = sheets.get(table.sheet)
            if numbers is None:
                sheets[table.sheet] = [row.number]
            else:
                numbers.append(row.number)
        code = _code(entry, match)
        problems = [_acknowledged(problem) for problem in entry.problems]
        reason = "" if entry.state is State.ACCEPTED else entry.reason
        repeats = any(problem.code == _SAME_WAITS for problem in entry.problems)
        settled = repeats or (entry.state in SETTLED and entry.state is not State.HELD)
        for file, rows in places.items():
            self._files[file].add(
                AcknowledgedRecord(
                    entry.key, entry.operation, rows, code, entry.state.value, entry.receipt, reason, problems
                ),
                settled=settled,
            )

    def finish(self) -> list[str]:
        """Put the files of the drop in their places; returns their names, from the folder of the run's reports on."""
        return [written for file in self._files.values() for written in file.finish(self._folder)]

    def _head(self, drop: Drop, number: int, source: SourceFile, before: Sequence[str]) -> Acknowledgement:
        return Acknowledgement(
            schema=SCHEMA,
            control=_control(drop, number),
            sequence=len(before) + 1,
            supersedes=Superseded(len(before), before[-1]) if before else None,
            duplicate_of=self._duplicate_of(drop, source),
            run=self._run.name,
            file=source.name,
            role=source.role,
            sha256=source.sha256,
            bytes=source.size,
            received=source.arrived,
            processed=self._run.finished_at,
            mapping=drop.mapping,
            mapping_version=drop.mapping_version,
            code=REJECTED if source.problems else "",
            state="",
            final=True,
            rows=sum(table.rows for table in drop.tables if table.file == source.name),
            problems=[_acknowledged(problem) for problem in source.problems],
            groups=(),
            records=(),
        )

    def _duplicate_of(self, drop: Drop, source: SourceFile) -> str:
        first = self._queries.first_with(source.sha256, drop.id) if source.size else None
        if first is None:
            return ""
        digests = [file.sha256 for file in first.files]
        return _control(first, digests.index(source.sha256) + 1)


class _File:
    """One acknowledgement under way: what is known of the file, the counts of its groups, and its records in two spools."""

    def __init__(self, header: Acknowledgement, name: str, stack: ExitStack) -> None:
        self._header, self._name, self._final = header, name, True
        self._counts: dict[str, Counter[str]] = {}
        self._json, self._csv = Roll(stack), Roll(stack)
        self._before = b"\n"
        self._same = ("record", header.control, str(header.sequence), header.file)

    def add(self, record: AcknowledgedRecord, *, settled: bool) -> None:
        """Take a record; `settled` says that it will not change any more."""
        self._final = self._final and settled
        counts = self._counts.get(record.operation)
        if counts is None:
            counts = self._counts[record.operation] = Counter()
        counts[record.code] += 1
        self._json.add(self._before + escaped(_encode(record)))
        self._before = b",\n"
        problems = " ".join(dict.fromkeys([problem.code for problem in record.problems])) if record.problems else ""
        fields = (record.operation, record.key, _rows(record.rows), record.code, record.state, record.number, problems)
        self._csv.add(csv_row((*self._same, *fields, *_BLANK)).encode(errors="replace"))

    def finish(self, folder: Path) -> list[str]:
        """Write both forms, what concerns the whole file first; returns their names."""
        groups = [_group(operation, counts) for operation, counts in sorted(self._counts.items())]
        counts = sum(self._counts.values(), Counter[str]())
        code = self._header.code or _overall_code(counts)
        header = replace(self._header, code=code, state=_WORDS[code], final=self._final, groups=groups)
        names = [f"{FOLDER}/{self._name}{suffix}" for suffix in (JSON_SUFFIX, CSV_SUFFIX)]
        with placed(folder / names[0]) as part, part.open("wb") as target:
            target.write(escaped(_encode(header)).removesuffix(_NO_RECORDS) + _NO_RECORDS[:-2])
            self._json.pour(target)
            target.write(_NO_RECORDS[-2:] + b"\n")
        with placed(folder / names[1]) as part, part.open("wb") as target:
            target.write(_csv_head(header, counts).encode(errors="replace"))
            self._csv.pour(target)
        return names


def _names(drops: Iterable[Drop], run: Run) -> dict[int, dict[str, str]]:
    """The name of the acknowledgement of each file, by drop: the file's own, its folders flattened, numbered where two are alike.
    Files that only said that others are complete get none.
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


def _code(entry: Entry, match: Match) -> str:
    if entry.state in _REJECTED:
        return REJECTED
    if entry.state not in _SETTLED:
        return WAITING
    return WITH_ERRORS if entry.problems or match.verdict in NEEDS_SOMEONE else ACCEPTED


def _overall_code(counts: Mapping[str, int]) -> str:
    """The code of a group or file whose records have these codes."""
    taken, rejected, waiting = counts[ACCEPTED] + counts[WITH_ERRORS], counts[REJECTED], counts[WAITING]
    if rejected or waiting:
        return PARTLY if taken else WAITING if waiting else REJECTED
    return WITH_ERRORS if counts[WITH_ERRORS] else ACCEPTED


def _group(operation: str, counts: Counter[str]) -> AcknowledgedGroup:
    code = _overall_code(counts)
    each = (counts[ACCEPTED], counts[WITH_ERRORS], counts[REJECTED], counts[WAITING])
    return AcknowledgedGroup(operation, code, _WORDS[code], counts.total(), *each)


def _acknowledged(problem: Problem) -> AcknowledgedProblem:
    where = problem.where
    place = (where.file, where.sheet, where.row, where.column, where.cell)
    return AcknowledgedProblem(problem.code, problem.level, *place, problem.text_for_its_sender, problem.hint)


def _rows(rows: Mapping[str, Sequence[int]]) -> str:
    """The rows of a record as the CSV has them: `3 4 5`, with the sheet in front where there is one, `Orders!3 4 5`."""
    return "; ".join(
        [
            f"{sheet}!{' '.join(map(str, numbers))}" if sheet else " ".join(map(str, numbers))
            for sheet, numbers in rows.items()
        ]
    )


def _csv_head(header: Acknowledgement, counts: Counter[str]) -> str:
    """The heading, the line of the file and those of its groups."""
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

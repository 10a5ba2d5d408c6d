"""The format of `run.json` and its JSON Schema, and `RunOutcome`: one run for metrics and notifications.

Names are only ever added (`loadsheet.run/1`). Each name carries its description. The published schema
(`loadsheet report --schema`) is made from these classes. `run_summary` computes the numbers.
"""

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from loadsheet.contract import encode_record
from loadsheet.display_text import as_argument, escaped_json
from loadsheet.errors import LoadsheetError
from loadsheet.problems import Problem
from loadsheet.reconcile import RED

SUMMARY = "run.json"
SCHEMA = "loadsheet.run/1"
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PUBLISHED = {  # schema names of version 1 that programs may refer to
    "BalanceSummary": "BalanceTold",
    "CauseSummary": "CauseTold",
    "DropSummary": "DropTold",
    "FailedStep": "UndoneTold",
    "FileSummary": "FileTold",
    "RemainingFile": "LeftTold",
    "InboxSummary": "InboxTold",
    "LegSummary": "LegTold",
    "MissingRecordsSummary": "MissingRecordsTold",
    "MissingReport": "MissingTold",
    "ProblemSummary": "ProblemTold",
    "TableSummary": "TableTold",
    "TotalSummary": "TotalTold",
}


def described(text: str) -> Meta:
    """The description of a name in a published schema."""
    return Meta(description=text)


_Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """One table as read. The fates add up to the rows if it balances."""

    table: Annotated[str, described("Its name in the mapping")]
    sheet: Annotated[str, described("Its sheet; empty for a CSV file")]
    rows: Annotated[int, described("Rows read")]
    fates: Annotated[_Counts, described("Rows by outcome")]
    balances: Annotated[bool, described("Whether every row read has exactly one fate")]
    found: Annotated[Mapping[str, str], described("Notes from reading: encoding, hidden rows ...")]
    unused: Annotated[
        tuple[str, ...], described("Columns of the file that the mapping does not read, by heading, else by letter")
    ] = ()
    settled: Annotated[int, described("Rows that needed attention, and no longer do")] = 0


@dataclass(frozen=True, slots=True)
class FileSummary:
    """One file as it was dropped."""

    name: Annotated[str, described("Its name in the inbox, with folders")]
    role: Annotated[str, described("Its role in the mapping")]
    sha256: Annotated[str, described("The SHA-256 of its bytes (hex)")]
    size: Annotated[int, described("Its size in bytes")]
    arrived: Annotated[str, described("When it arrived (ISO 8601 UTC)")]
    kept_as: Annotated[str, described("Where its bytes are kept, relative to the state folder")]
    set_aside: Annotated[tuple[str, ...], described("Why it was set aside unread; empty if it was read")]
    tables: Annotated[tuple[TableSummary, ...], described("The tables read from it")]
    results: Annotated[tuple[str, ...], described("Its results files, in the folder of run.json")]


@dataclass(frozen=True, slots=True)
class MissingRecordsSummary:
    """The records that the previous version of a file had and the new one lacks. Nothing was done about them."""

    run: Annotated[str, described("The run that read the previous version; empty if there is none")] = ""
    count: Annotated[int, described("Number of missing records")] = 0
    keys: Annotated[tuple[str, ...], described("Their keys, sorted, the first 1,000")] = ()


@dataclass(frozen=True, slots=True)
class DropSummary:
    """The files that one mapping read together."""

    run: Annotated[str, described("The run that read them")]
    mapping: Annotated[str, described("The mapping; empty for a file that no mapping takes")]
    mapping_version: Annotated[str, described("The version of the mapping")]
    operation: Annotated[str, described("The operation of its documents, such as order.create")]
    entries: Annotated[_Counts, described("Its documents by state")]
    files: Annotated[tuple[FileSummary, ...], described("Its files")]
    fix: Annotated[tuple[str, ...], described("The fix files for its sender, in the folder of run.json")] = ()
    missing_records: Annotated[
        MissingRecordsSummary, described("Records of the previous version of the file that this one lacks")
    ] = MissingRecordsSummary()
    to_fix: Annotated[int, described("Its documents that the sender still has to correct")] = 0


@dataclass(frozen=True, slots=True)
class ProblemSummary:
    """All problems of one code and level."""

    code: Annotated[str, described("The code of the catalogue, such as C302")]
    title: Annotated[str, described("The problem in a few words")]
    level: Annotated[str, described("error or warning")]
    count: Annotated[int, described("Number of problems")]
    places: Annotated[tuple[str, ...], described("The first places, in words")]


@dataclass(frozen=True, slots=True)
class ConsequencesSummary:
    """The problems that another one explains: correcting that one settles them."""

    count: Annotated[int, described("Number of problems")] = 0
    keys: Annotated[int, described("Number of documents that have none of the problems of the cause itself")] = 0
    kinds: Annotated[_Counts, described("The problems by code")] = field(default_factory=dict)
    say: Annotated[str, described("All of that in words; empty if there are none")] = ""


@dataclass(frozen=True, slots=True)
class CauseSummary:
    """Problems with one cause: the same code, in one column of one sheet."""

    code: Annotated[str, described("The code of the catalogue, such as C304")]
    level: Annotated[str, described("error or warning")]
    file: Annotated[str, described("The file; empty if they belong to no file")]
    sheet: Annotated[str, described("Its sheet; empty for a CSV file")]
    column: Annotated[str, described("The heading of the column; empty if they belong to no column")]
    count: Annotated[int, described("Number of problems")]
    keys: Annotated[int, described("Number of documents")]
    places: Annotated[tuple[str, ...], described("The first places, in words")]
    found: Annotated[tuple[str, ...], described("Up to three different values, as the sender wrote them")]
    say: Annotated[str, described("The problem in one sentence")]
    proposal: Annotated[str, described("A proposed fix, derived from the values; may be empty")]
    consequences: Annotated[
        ConsequencesSummary, described("The problems that follow from it; they are in no cause of their own")
    ] = ConsequencesSummary()


@dataclass(frozen=True, slots=True)
class TotalSummary:
    """One control total on each leg. Units and currencies are never mixed."""

    subject: Annotated[str, described("order or tender")]
    figure: Annotated[str, described("The figure: documents, packages, weight ...")]
    unit: Annotated[str, described("Its unit or currency; empty if none")]
    scale: Annotated[str, described("count, weight or money")]
    tolerance: Annotated[Decimal, described("The difference up to which two legs still agree")]
    source: Annotated[Decimal, described("Requested by the source files")]
    not_sent: Annotated[Decimal, described("Requested, but no call was made")]
    sent: Annotated[Decimal, described("Sent in calls")]
    acknowledged: Annotated[Decimal, described("Accepted and not replaced later")]
    listed: Annotated[Decimal, described("Shown by the exchange, of what was acknowledged")]
    says: Annotated[
        str,
        described(
            "agrees, differs or does not add up; not verifiable, listing partial or not listed if that is unknown; "
            "empty in old documents"
        ),
    ] = ""
    replaced: Annotated[Decimal, described("Accepted, and replaced or deleted by a later call")] = Decimal(0)
    not_built: Annotated[
        int, described("Documents of the subject that could not be built: their figures are missing")
    ] = 0


@dataclass(frozen=True, slots=True)
class LegSummary:
    """How many of the exchange's records of one subject were seen."""

    subject: Annotated[str, described("order or tender")]
    read: Annotated[bool, described("Whether its listing was read at all")]
    listed: Annotated[int, described("Number of records it showed")]
    total: Annotated[int, described("Number of records according to the exchange")]
    complete: Annotated[bool, described("Whether absence from it is proof")]
    says: Annotated[str, described("All of that in a sentence")]
    reason: Annotated[str, described("Why it did not show all records; empty if it did")] = ""
    todo: Annotated[str, described("What to do about it")] = ""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A setting that is not at its default."""

    setting: Annotated[str, described("Its name, such as assumptions.flag_form")]
    value: Annotated[str, described("Its value")]
    default: Annotated[str, described("Its default")]


@dataclass(frozen=True, slots=True)
class NeedsSomeone:
    """How much needs a person's attention."""

    entries: Annotated[int, described("Documents, by their verdict")]
    rows: Annotated[int, described("Rows, by their fate")]
    first: Annotated[str, described("The key of the first such document; empty if there is none")]


@dataclass(frozen=True, slots=True)
class RemainingFile:
    """A file that stays in the inbox."""

    file: Annotated[str, described("Its name in the inbox; empty if several are listed together")]
    code: Annotated[str, described("The code of the catalogue, such as A108")]
    level: Annotated[str, described("error: until a person acts; warning: for now")]
    say: Annotated[str, described("The reason in one sentence")]


@dataclass(frozen=True, slots=True)
class InboxSummary:
    """What stays in the inbox."""

    stuck: Annotated[int, described("Number of files that stay until a person acts")] = 0
    count: Annotated[int, described("Number of files that stay, including those that stay only for now")] = 0
    files: Annotated[tuple[RemainingFile, ...], described("The first of them, stuck files first")] = ()


@dataclass(frozen=True, slots=True)
class MissingReport:
    """A report that an internal error prevented."""

    report: Annotated[str, described("Which report, such as workbook or page")]
    why: Annotated[str, described("The error in short; see the log of the run for details")]


@dataclass(frozen=True, slots=True)
class FailedStep:
    """A step that failed after the end of the run was recorded, such as the capsule or the notices."""

    what: Annotated[str, described("The failed step")]
    why: Annotated[str, described("The reason in short; see the log of the run for details")]


@dataclass(frozen=True, slots=True)
class BalanceSummary:
    """The tie-out: every row read is accounted for exactly once."""

    balances: Annotated[bool, described("Whether the rows balance")]
    read: Annotated[int, described("Rows read")]
    rows: Annotated[_Counts, described("Rows by outcome")]
    faults: Annotated[tuple[str, ...], described("Why it does not balance, a sentence each")]


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict on a run in one line, the same in every report."""

    tone: Annotated[str, described("good, note (needs attention), bad (the run failed) or plain (nothing came in)")] = (
        ""
    )
    text: Annotated[str, described("The verdict in one sentence; empty in old documents")] = ""
    details: Annotated[tuple[str, ...], described("The other counts, in a few words each")] = ()
    balance: Annotated[str, described("Rows accounted for, and control totals that agree")] = ""
    todo: Annotated[tuple[str, ...], described("What people have to do, most urgent first, a line each")] = ()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The outcome of a run. Times are ISO 8601 UTC; counts by state, fate or verdict omit zeros."""

    run: Annotated[str, described("The run, such as 2026-03-04-01; or a day, for all its runs together")]
    started_at: Annotated[str, described("When it began")]
    finished_at: Annotated[str, described("When its work ended, before the reports were written; empty if it did not")]
    exit_code: Annotated[int | None, described("Its exit code; null if it did not end")]
    balance: Annotated[BalanceSummary, described("The tie-out of rows")]
    entries: Annotated[_Counts, described("Documents by state")]
    verdicts: Annotated[_Counts, described("Documents by verdict: source, sent and listed compared")]
    groups: Annotated[Mapping[str, _Counts], described("Documents by operation, then by verdict")]
    only_at_exchange: Annotated[int, described("Listed records that loadsheet did not create")]
    needs_someone: Annotated[NeedsSomeone, described("What needs a person's attention")]
    legs: Annotated[tuple[LegSummary, ...], described("What the exchange's listings showed")]
    totals: Annotated[tuple[TotalSummary, ...], described("Control totals")]
    problems: Annotated[tuple[ProblemSummary, ...], described("Problems, most frequent first")]
    drops: Annotated[tuple[DropSummary, ...], described("The drops read, and earlier drops that this run touched")]
    reports: Annotated[tuple[str, ...], described("All report files of this run, including this one")]
    settings: Annotated[Mapping[str, str], described("The settings that affect the result")]
    deviations: Annotated[tuple[Deviation, ...], described("Assumptions that differ from their defaults")]
    versions: Annotated[Mapping[str, str], described("The programs that wrote it")]
    schema: Annotated[str, described("The version of this format; names are only ever added")] = SCHEMA
    remarks: Annotated[tuple[str, ...], described("Remarks on the run as a whole")] = ()
    forecast: Annotated[str, described("What is left to send, and when that is expected to be done")] = ""
    causes: Annotated[
        tuple[CauseSummary, ...], described("The causes of problems: errors first, then by the documents held back")
    ] = ()
    inbox: Annotated[InboxSummary, described("What the run left in the inbox")] = InboxSummary()
    firsts: Annotated[
        Mapping[str, str], described("By verdict that needs attention: the key of the first such document")
    ] = field(default_factory=dict)
    missing: Annotated[
        tuple[MissingReport, ...], described("Reports that could not be written; `loadsheet report` makes them")
    ] = ()
    undone: Annotated[
        tuple[FailedStep, ...],
        described("Steps that failed after the end of the run was recorded; its exit code says so"),
    ] = ()
    stopped: Annotated[str, described("Why the run ended early; empty if it did not")] = ""
    ready: Annotated[int, described("Documents of this and earlier runs that were ready to be sent when it ended")] = 0
    open_earlier: Annotated[int, described("Open exceptions besides the documents of this run that need attention")] = 0
    open_keys: Annotated[tuple[str, ...], described("The keys of the oldest of them, at most three")] = ()
    headline: Annotated[Headline, described("The verdict on the run")] = Headline()
    settled: Annotated[_Counts, described("By verdict: documents that needed attention, and no longer do")] = field(
        default_factory=dict
    )
    records: Annotated[
        Mapping[str, _Counts],
        described(
            "Documents by operation and verdict, without those that no longer need attention; on a day each record once, with its last one"
        ),
    ] = field(default_factory=dict)
    accepted_before: Annotated[
        int, described("Accepted documents of earlier drops that this run touched, which an earlier run had sent")
    ] = 0

    @property
    def counts_text(self) -> str:
        """Its documents by state, such as `3 accepted, 1 invalid`."""
        return ", ".join(f"{count:,} {state}" for state, count in self.entries.items()) or "nothing to send"

    @property
    def is_day(self) -> bool:
        """Whether it reports all runs of a day together."""
        return is_day(self.run)

    @property
    def title(self) -> str:
        """What it reports, such as `run 2026-03-04-01`."""
        return title_of(self.run)

    @property
    def current_verdicts(self) -> Counter[str]:
        """The documents by verdict, without those that no longer need attention."""
        return Counter(self.verdicts) - Counter(self.settled)

    @property
    def red_totals(self) -> int:
        """The number of control totals that need attention."""
        return sum(total.says in RED for total in self.totals)

    def to_json(self) -> bytes:
        """The document as indented JSON."""
        return escaped_json(msgspec.json.format(encode_record(self), indent=2)) + b"\n"


def is_day(name: str) -> bool:
    """Whether reports of this name are those of a day, such as 2026-03-04: a run has a number after it."""
    return _DAY.fullmatch(name) is not None


def title_of(name: str) -> str:
    """What reports of this name report: `run 2026-03-04-01`, `day 2026-03-04`, or the name of a check, which says that itself."""
    return f"{'day' if is_day(name) else 'run'} {name}" if name[:1].isdigit() else name


def schema() -> bytes:
    """The JSON Schema (2020-12) of `run.json`: every name and its meaning.

    Names without a default exist in every document. Names that were added later have a default, so older documents
    stay valid. More names may be added.
    """
    return published_schema(RunSummary, SCHEMA, _PUBLISHED)


def published_schema(document: type, identifier: str, published: Mapping[str, str]) -> bytes:
    """The JSON Schema (2020-12) of a document as indented JSON. `published` maps class names to their names in the schema."""
    (reference,), parts = msgspec.json.schema_components([document], ref_template="#/$defs/{name}")
    text = msgspec.json.encode({"$schema": _DIALECT, "$id": identifier, **reference, "$defs": _numbers(parts)}).decode()
    for name, published_name in published.items():
        text = re.sub(rf'(?<=["/]){name}(?=")', published_name, text)
    return msgspec.json.format(text.encode(), indent=2) + b"\n"


def _numbers(schema_part: Any) -> Any:
    """The schema with decimals declared as numbers, as they are written."""
    if not isinstance(schema_part, dict):
        return schema_part
    if schema_part.get("format") == "decimal":
        others = {name: value for name, value in schema_part.items() if name not in ("type", "format")}
        return {"type": "number", **others}
    return {name: _numbers(value) for name, value in schema_part.items()}


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run. Times are aware, in UTC; `shipper` is empty if the settings declare none. A run that could
    not begin (the ledger is locked, a mapping is wrong) has no `summary` and no `folder`. `stopped` is the reason why it
    ended early or did not begin.
    """

    shipper: str
    began: datetime
    ended: datetime
    exit_code: int
    stopped: LoadsheetError | None = None
    summary: RunSummary | None = None
    folder: Path | None = None
    inbox_problems: tuple[Problem, ...] = ()
    address: str = ""  # where people find the folder, if it is in an object store

    @property
    def title(self) -> str:
        """The beginning of the title of a notice: `loadsheet`, or `loadsheet acme`."""
        return f"loadsheet {self.shipper}".rstrip()

    @property
    def run(self) -> str:
        """The name of the run; empty if the run could not begin."""
        return self.summary.run if self.summary else ""

    def report(self, name: str) -> str:
        """Where people find a report: its address in the object store, else its run; empty if there are no reports. Never a
        path of this machine, which says nothing to those who read mail elsewhere.
        """
        if self.folder is None:
            return ""
        return f"{self.address}/{name}" if self.address else f"{name} of run {self.folder.name}"

    def command(self, words: str, key: str = "") -> str:
        """A command to type, with `--shipper` if there is one, about a record if `key` is given."""
        shipper = f" --shipper {shlex.quote(self.shipper)}" if self.shipper else ""
        return f"loadsheet {words}{shipper}{f' {as_argument(key)}' if key else ''}"


def verdict_of(outcome: RunOutcome) -> str:
    """The verdict on the run for a notice, then whether it balances; empty if the run could not begin."""
    if outcome.summary is None:
        return ""
    verdict = outcome.summary.headline
    return f"Run {outcome.run}: {' · '.join((verdict.text, *verdict.details))}\n{verdict.balance}".rstrip()


def todo_of(outcome: RunOutcome) -> str:
    """What people have to do after the run, as a list for a notice; empty if there is nothing."""
    todo = outcome.summary.headline.todo if outcome.summary else ()
    return "\n".join(("To do:", *(f"- {line}" for line in todo))) if todo else ""

"""The shape of `run.json` and its JSON Schema.

Names are only ever added (`loadsheet.run/1`). Each name carries its description, and the published schema (`loadsheet report --schema`) is
made from these classes. `run_summary` computes the numbers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from loadsheet.reconcile import RED

SUMMARY = "run.json"
SCHEMA = "loadsheet.run/1"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PUBLISHED = {  # schema names of version 1, which programs may refer to
    "BalanceSummary": "BalanceTold",
    "CauseSummary": "CauseTold",
    "DropSummary": "DropTold",
    "FailedStep": "UndoneTold",
    "FileSummary": "FileTold",
    "InboxFile": "LeftTold",
    "InboxSummary": "InboxTold",
    "LegSummary": "LegTold",
    "MissingRecordsSummary": "MissingRecordsTold",
    "MissingReport": "MissingTold",
    "ProblemSummary": "ProblemTold",
    "TableSummary": "TableTold",
    "TotalSummary": "TotalTold",
}
_encode = msgspec.json.Encoder(decimal_format="number").encode


def _described(text: str) -> Meta:
    return Meta(description=text)


_Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """One table as it was read. The fates sum up to the rows if it balances."""

    table: Annotated[str, _described("The mapping's name for it")]
    sheet: Annotated[str, _described("Its sheet; empty for a CSV file")]
    rows: Annotated[int, _described("Rows that were read")]
    fates: Annotated[_Counts, _described("Rows by what became of them")]
    balances: Annotated[bool, _described("Whether every row read has exactly one fate")]
    found: Annotated[Mapping[str, str], _described("What reading found on the way: encoding, hidden rows ...")]
    unused: Annotated[
        tuple[str, ...], _described("Columns of the file that the mapping does not read, by heading, else by letter")
    ] = ()


@dataclass(frozen=True, slots=True)
class FileSummary:
    """One file as it was dropped."""

    name: Annotated[str, _described("Its name in the inbox, with its folders")]
    role: Annotated[str, _described("What the mapping calls it")]
    sha256: Annotated[str, _described("The hex digest of its bytes")]
    size: Annotated[int, _described("How many bytes it has")]
    arrived: Annotated[str, _described("When it arrived (ISO 8601 UTC)")]
    kept_as: Annotated[str, _described("Where its bytes are kept, from the state folder on")]
    set_aside: Annotated[tuple[str, ...], _described("Why it was put aside unread, if it was")]
    tables: Annotated[tuple[TableSummary, ...], _described("What was read from it")]
    results: Annotated[tuple[str, ...], _described("Its results files, beside run.json")]


@dataclass(frozen=True, slots=True)
class MissingRecordsSummary:
    """The records that the last version of a file had and the new one has not. Nothing was done about them."""

    run: Annotated[str, _described("The run that read the last version; empty if there is none to compare with")] = ""
    count: Annotated[int, _described("How many records are missing")] = 0
    keys: Annotated[tuple[str, ...], _described("Their keys, sorted, the first 1,000")] = ()


@dataclass(frozen=True, slots=True)
class DropSummary:
    """The files that one mapping read together."""

    run: Annotated[str, _described("The run that read them")]
    mapping: Annotated[str, _described("The mapping; empty for a file that was set aside")]
    mapping_version: Annotated[str, _described("The version that the mapping says it has")]
    operation: Annotated[str, _described("The operation that its documents ask for, such as order.create")]
    entries: Annotated[_Counts, _described("Its documents by state")]
    files: Annotated[tuple[FileSummary, ...], _described("Its files")]
    fix: Annotated[tuple[str, ...], _described("What its sender gets back to fix, beside run.json")] = ()
    missing_records: Annotated[
        MissingRecordsSummary, _described("What the last version of the file had and this one has not")
    ] = MissingRecordsSummary()


@dataclass(frozen=True, slots=True)
class ProblemSummary:
    """All problems of one code and level, folded."""

    code: Annotated[str, _described("The code of the catalogue, such as C302")]
    title: Annotated[str, _described("What is wrong, in a few words")]
    level: Annotated[str, _described("error or warning")]
    count: Annotated[int, _described("How many there are")]
    places: Annotated[tuple[str, ...], _described("The first places, in words")]


@dataclass(frozen=True, slots=True)
class CauseSummary:
    """Problems with one cause: of one code, in one column of one sheet."""

    code: Annotated[str, _described("The code of the catalogue, such as C304")]
    level: Annotated[str, _described("error or warning")]
    file: Annotated[str, _described("The file; empty if they are of no file")]
    sheet: Annotated[str, _described("Its sheet; empty for a CSV file")]
    column: Annotated[str, _described("The heading of the column; empty if they are of no column")]
    count: Annotated[int, _described("How many there are")]
    keys: Annotated[int, _described("In how many documents")]
    places: Annotated[tuple[str, ...], _described("The first places, in words")]
    found: Annotated[tuple[str, ...], _described("Up to three different values, as their sender wrote them")]
    say: Annotated[str, _described("What is wrong, in one sentence")]
    proposal: Annotated[str, _described("What would mend it, as far as the values show; may be empty")]


@dataclass(frozen=True, slots=True)
class TotalSummary:
    """One control total on each leg; units and currencies are never mixed."""

    subject: Annotated[str, _described("order or tender")]
    figure: Annotated[str, _described("What adds up: documents, packages, weight ...")]
    unit: Annotated[str, _described("Its unit or currency; empty if there is none")]
    scale: Annotated[str, _described("count, weight or money")]
    tolerance: Annotated[Decimal, _described("By how much two legs may differ and still agree")]
    source: Annotated[Decimal, _described("Everything that was asked for")]
    not_sent: Annotated[Decimal, _described("What no call was made for")]
    sent: Annotated[Decimal, _described("What calls were made for")]
    acknowledged: Annotated[Decimal, _described("What was accepted and not replaced later")]
    listed: Annotated[Decimal, _described("What the exchange shows of that")]
    says: Annotated[
        str,
        _described(
            "agrees, differs or does not add up; listing partial or not listed if that is unknown; empty in old documents"
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class LegSummary:
    """How much of the exchange's records of one subject were seen."""

    subject: Annotated[str, _described("order or tender")]
    read: Annotated[bool, _described("Whether its listing was read at all")]
    listed: Annotated[int, _described("How many records it showed")]
    total: Annotated[int, _described("How many the exchange says there are")]
    complete: Annotated[bool, _described("Whether absence from it means anything")]
    says: Annotated[str, _described("All of that in a sentence")]
    reason: Annotated[str, _described("Why it did not show all records, if it did not")] = ""
    todo: Annotated[str, _described("What to do about that")] = ""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A setting that is not at its default."""

    setting: Annotated[str, _described("Its name, such as assumptions.flag_form")]
    value: Annotated[str, _described("Its value")]
    default: Annotated[str, _described("What it would be")]


@dataclass(frozen=True, slots=True)
class NeedsSomeone:
    """How much waits for a person."""

    entries: Annotated[int, _described("Documents, by their verdict")]
    rows: Annotated[int, _described("Rows, by their fate")]
    first: Annotated[str, _described("The key of the first such document; empty if there is none")]


@dataclass(frozen=True, slots=True)
class InboxFile:
    """A file that stays in the inbox."""

    file: Annotated[str, _described("Its name in the inbox; empty if several are listed together")]
    code: Annotated[str, _described("The code of the catalogue, such as A108")]
    level: Annotated[str, _described("error: until someone acts; warning: for now")]
    say: Annotated[str, _described("Why, in one sentence")]


@dataclass(frozen=True, slots=True)
class InboxSummary:
    """What stays in the inbox."""

    stuck: Annotated[int, _described("How many stay there until someone acts")] = 0
    count: Annotated[int, _described("How many stay there, those that do so for now among them")] = 0
    files: Annotated[tuple[InboxFile, ...], _described("The first of them; those that are stuck come first")] = ()


@dataclass(frozen=True, slots=True)
class MissingReport:
    """A report that an internal error kept from being written."""

    report: Annotated[str, _described("Which report, such as workbook or page")]
    why: Annotated[str, _described("The fault, in short; the log of the run has all of it")]


@dataclass(frozen=True, slots=True)
class FailedStep:
    """What failed after the end of the run had been recorded, such as the capsule or the notices."""

    what: Annotated[str, _described("What could not be done")]
    why: Annotated[str, _described("Why, in short; the log of the run has all of it")]


@dataclass(frozen=True, slots=True)
class BalanceSummary:
    """The tie-out: every row that was read is accounted for, once."""

    balances: Annotated[bool, _described("Whether it does")]
    read: Annotated[int, _described("Rows read")]
    rows: Annotated[_Counts, _described("Rows by what became of them")]
    faults: Annotated[tuple[str, ...], _described("Why it does not balance, a sentence each")]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to. Times are ISO 8601 UTC; counts by state, fate or verdict leave zeros out."""

    run: Annotated[str, _described("The run, such as 2026-03-04-01; or a day, for all its runs as one")]
    started_at: Annotated[str, _described("When it began")]
    finished_at: Annotated[str, _described("When it ended; empty if it did not")]
    exit_code: Annotated[int | None, _described("With what it ended; null if it did not")]
    balance: Annotated[BalanceSummary, _described("The tie-out of rows")]
    entries: Annotated[_Counts, _described("Documents by state")]
    verdicts: Annotated[_Counts, _described("Documents by verdict: source, sent and listed compared")]
    groups: Annotated[Mapping[str, _Counts], _described("Documents by operation, then by verdict")]
    only_at_exchange: Annotated[int, _described("Listed records that were not accepted from here")]
    needs_someone: Annotated[NeedsSomeone, _described("What waits for a person")]
    legs: Annotated[tuple[LegSummary, ...], _described("What was seen at the exchange")]
    totals: Annotated[tuple[TotalSummary, ...], _described("Control totals")]
    problems: Annotated[tuple[ProblemSummary, ...], _described("Problems, the most frequent first")]
    drops: Annotated[tuple[DropSummary, ...], _described("What was read, and earlier drops that this run touched")]
    reports: Annotated[tuple[str, ...], _described("The files beside this one, and this one")]
    settings: Annotated[Mapping[str, str], _described("The settings that bear on the result")]
    deviations: Annotated[tuple[Deviation, ...], _described("Assumptions that are not at their default")]
    versions: Annotated[Mapping[str, str], _described("The programs that wrote it")]
    schema: Annotated[str, _described("The version of this document: names are only ever added to it")] = SCHEMA
    remarks: Annotated[tuple[str, ...], _described("What concerns the run and no file")] = ()
    forecast: Annotated[str, _described("What is left to send, and when that would be done")] = ""
    causes: Annotated[
        tuple[CauseSummary, ...], _described("The causes of problems: errors first, the most frequent first")
    ] = ()
    inbox: Annotated[InboxSummary, _described("What the run left in the inbox")] = InboxSummary()
    firsts: Annotated[
        Mapping[str, str], _described("By verdict that waits for a person: the key of the first such document")
    ] = field(default_factory=dict)
    missing: Annotated[
        tuple[MissingReport, ...], _described("Reports that could not be written; `loadsheet report` makes them")
    ] = ()
    undone: Annotated[
        tuple[FailedStep, ...],
        _described("What failed after the end of the run had been recorded; its exit code says so"),
    ] = ()

    @property
    def red_totals(self) -> int:
        """How many control totals need someone."""
        return sum(total.says in RED for total in self.totals)

    def to_json(self) -> bytes:
        """The document as indented JSON."""
        return msgspec.json.format(_encode(self), indent=2) + b"\n"


def schema() -> bytes:
    """The JSON Schema (2020-12) of `run.json`: every name and what it means.

    Names without a default exist in every document. Names that were added later have a default, so older documents stay valid.
    More names may be added.
    """
    return published_schema(RunSummary, SCHEMA, _PUBLISHED)


def published_schema(document: type, identifier: str, published: Mapping[str, str]) -> bytes:
    """The JSON Schema (2020-12) of a document as indented JSON. `published` maps class names to the names that the schema uses."""
    (reference,), parts = msgspec.json.schema_components([document], ref_template="#/$defs/{name}")
    text = msgspec.json.encode({"$schema": _DIALECT, "$id": identifier, **reference, "$defs": _numbers(parts)}).decode()
    for name, published_name in published.items():
        text = re.sub(rf'(?<=["/]){name}(?=")', published_name, text)
    return msgspec.json.format(text.encode(), indent=2) + b"\n"


def _numbers(schema_part: Any) -> Any:
    """The same schema with decimals as numbers, which is how they are written."""
    if not isinstance(schema_part, dict):
        return schema_part
    if schema_part.get("format") == "decimal":
        others = {name: value for name, value in schema_part.items() if name not in ("type", "format")}
        return {"type": "number", **others}
    return {name: _numbers(value) for name, value in schema_part.items()}

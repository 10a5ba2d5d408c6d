"""What a run came to, as one document: the shape of `run.json`, and its JSON Schema.

Owns: the names in it. They are only ever added to (`loadsheet.run/1`), and what a name means is said beside it: the published schema
(`loadsheet report --schema`) is made from here. How the numbers come about is in `summary`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from loadsheet.reconcile import RED

SCHEMA = "loadsheet.run/1"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_encode = msgspec.json.Encoder(decimal_format="number").encode


def _says(text: str) -> Meta:
    return Meta(description=text)


_Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TableTold:
    """One table as it was read. The fates sum up to the rows if it balances."""

    table: Annotated[str, _says("The mapping's name for it")]
    sheet: Annotated[str, _says("Its sheet; empty for a CSV file")]
    rows: Annotated[int, _says("Rows that were read")]
    fates: Annotated[_Counts, _says("Rows by what became of them")]
    balances: Annotated[bool, _says("Whether every row read has exactly one fate")]
    found: Annotated[Mapping[str, str], _says("What reading found on the way: encoding, hidden rows ...")]
    unused: Annotated[
        tuple[str, ...], _says("Columns of the file that the mapping does not read, by heading, else by letter")
    ] = ()


@dataclass(frozen=True, slots=True)
class FileTold:
    """One file as it was dropped."""

    name: Annotated[str, _says("Its name in the inbox, with its folders")]
    role: Annotated[str, _says("What the mapping calls it")]
    sha256: Annotated[str, _says("The hex digest of its bytes")]
    size: Annotated[int, _says("How many bytes it has")]
    arrived: Annotated[str, _says("When it arrived (ISO 8601 UTC)")]
    kept_as: Annotated[str, _says("Where its bytes are kept, from the state folder on")]
    set_aside: Annotated[tuple[str, ...], _says("Why it was put aside unread, if it was")]
    tables: Annotated[tuple[TableTold, ...], _says("What was read from it")]
    results: Annotated[tuple[str, ...], _says("Its results files, beside run.json")]


@dataclass(frozen=True, slots=True)
class MissingRecordsTold:
    """The records that the last version of a file had and the new one has not. Nothing was done about them."""

    run: Annotated[str, _says("The run that read the last version; empty if there is none to compare with")] = ""
    count: Annotated[int, _says("How many records are missing")] = 0
    keys: Annotated[tuple[str, ...], _says("Their keys, sorted, the first 1,000")] = ()


@dataclass(frozen=True, slots=True)
class DropTold:
    """The files that one mapping read together."""

    run: Annotated[str, _says("The run that read them")]
    mapping: Annotated[str, _says("The mapping; empty for a file that was set aside")]
    mapping_version: Annotated[str, _says("The version that the mapping says it has")]
    operation: Annotated[str, _says("The operation that its documents ask for, such as order.create")]
    entries: Annotated[_Counts, _says("Its documents by state")]
    files: Annotated[tuple[FileTold, ...], _says("Its files")]
    fix: Annotated[tuple[str, ...], _says("What its sender gets back to fix, beside run.json")] = ()
    missing_records: Annotated[
        MissingRecordsTold, _says("What the last version of the file had and this one has not")
    ] = MissingRecordsTold()


@dataclass(frozen=True, slots=True)
class ProblemTold:
    """All problems of one code and level, folded."""

    code: Annotated[str, _says("The code of the catalogue, such as C302")]
    title: Annotated[str, _says("What is wrong, in a few words")]
    level: Annotated[str, _says("error or warning")]
    count: Annotated[int, _says("How many there are")]
    places: Annotated[tuple[str, ...], _says("The first places, in words")]


@dataclass(frozen=True, slots=True)
class CauseTold:
    """Problems with one cause: of one code, in one column of one sheet."""

    code: Annotated[str, _says("The code of the catalogue, such as C304")]
    level: Annotated[str, _says("error or warning")]
    file: Annotated[str, _says("The file; empty if they are of no file")]
    sheet: Annotated[str, _says("Its sheet; empty for a CSV file")]
    column: Annotated[str, _says("The heading of the column; empty if they are of no column")]
    count: Annotated[int, _says("How many there are")]
    keys: Annotated[int, _says("In how many documents")]
    places: Annotated[tuple[str, ...], _says("The first places, in words")]
    found: Annotated[tuple[str, ...], _says("Up to three different values, as their sender wrote them")]
    say: Annotated[str, _says("What is wrong, in one sentence")]
    proposal: Annotated[str, _says("What would mend it, as far as the values show; may be empty")]


@dataclass(frozen=True, slots=True)
class TotalTold:
    """One control total on each leg; units and currencies are never mixed."""

    subject: Annotated[str, _says("order or tender")]
    figure: Annotated[str, _says("What adds up: documents, packages, weight ...")]
    unit: Annotated[str, _says("Its unit or currency; empty if there is none")]
    scale: Annotated[str, _says("count, weight or money")]
    tolerance: Annotated[Decimal, _says("By how much two legs may differ and still agree")]
    source: Annotated[Decimal, _says("Everything that was asked for")]
    not_sent: Annotated[Decimal, _says("What no call was made for")]
    sent: Annotated[Decimal, _says("What calls were made for")]
    acknowledged: Annotated[Decimal, _says("What was accepted and not replaced later")]
    listed: Annotated[Decimal, _says("What the exchange shows of that")]
    says: Annotated[
        str,
        _says(
            "agrees, differs or does not add up; listing partial or not listed if nobody can say; empty in old documents"
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class LegTold:
    """How much of the exchange's records of one subject were seen."""

    subject: Annotated[str, _says("order or tender")]
    read: Annotated[bool, _says("Whether its listing was read at all")]
    listed: Annotated[int, _says("How many records it showed")]
    total: Annotated[int, _says("How many the exchange says there are")]
    complete: Annotated[bool, _says("Whether absence from it means anything")]
    says: Annotated[str, _says("All of that in a sentence")]
    reason: Annotated[str, _says("Why it did not show all records, if it did not")] = ""
    todo: Annotated[str, _says("What to do about that")] = ""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A setting that is not at its default."""

    setting: Annotated[str, _says("Its name, such as assumptions.flag_form")]
    value: Annotated[str, _says("Its value")]
    default: Annotated[str, _says("What it would be")]


@dataclass(frozen=True, slots=True)
class NeedsSomeone:
    """How much waits for a person."""

    entries: Annotated[int, _says("Documents, by their verdict")]
    rows: Annotated[int, _says("Rows, by their fate")]
    first: Annotated[str, _says("The key of the first such document; empty if there is none")]


@dataclass(frozen=True, slots=True)
class LeftTold:
    """A file that stays in the inbox."""

    file: Annotated[str, _says("Its name in the inbox; empty if several are told of together")]
    code: Annotated[str, _says("The code of the catalogue, such as A108")]
    level: Annotated[str, _says("error: until somebody sees to it; warning: for now")]
    say: Annotated[str, _says("Why, in one sentence")]


@dataclass(frozen=True, slots=True)
class InboxTold:
    """What stays in the inbox."""

    stuck: Annotated[int, _says("How many stay there until somebody sees to them")] = 0
    count: Annotated[int, _says("How many stay there, those that do so for now among them")] = 0
    files: Annotated[tuple[LeftTold, ...], _says("The first of them; those that are stuck come first")] = ()


@dataclass(frozen=True, slots=True)
class MissingTold:
    """A report that a fault of our own kept from being written."""

    report: Annotated[str, _says("Which report, such as workbook or page")]
    why: Annotated[str, _says("The fault, in short; the log of the run has all of it")]


@dataclass(frozen=True, slots=True)
class UndoneTold:
    """What failed after the end of the run had been recorded, such as the capsule or the notices."""

    what: Annotated[str, _says("What could not be done")]
    why: Annotated[str, _says("Why, in short; the log of the run has all of it")]


@dataclass(frozen=True, slots=True)
class BalanceTold:
    """The tie-out: every row that was read is accounted for, once."""

    balances: Annotated[bool, _says("Whether it does")]
    read: Annotated[int, _says("Rows read")]
    rows: Annotated[_Counts, _says("Rows by what became of them")]
    faults: Annotated[tuple[str, ...], _says("Why it does not balance, a sentence each")]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to. Times are ISO 8601 UTC; counts by state, fate or verdict leave zeros out."""

    run: Annotated[str, _says("The run, such as 2026-03-04-01; or a day, for all its runs as one")]
    started_at: Annotated[str, _says("When it began")]
    finished_at: Annotated[str, _says("When it ended; empty if it did not")]
    exit_code: Annotated[int | None, _says("With what it ended; null if it did not")]
    balance: Annotated[BalanceTold, _says("The tie-out of rows")]
    entries: Annotated[_Counts, _says("Documents by state")]
    verdicts: Annotated[_Counts, _says("Documents by verdict: source, sent and listed compared")]
    groups: Annotated[Mapping[str, _Counts], _says("Documents by operation, then by verdict")]
    only_at_exchange: Annotated[int, _says("Listed records that were not accepted from here")]
    needs_someone: Annotated[NeedsSomeone, _says("What waits for a person")]
    legs: Annotated[tuple[LegTold, ...], _says("What was seen at the exchange")]
    totals: Annotated[tuple[TotalTold, ...], _says("Control totals")]
    problems: Annotated[tuple[ProblemTold, ...], _says("Problems, the most frequent first")]
    drops: Annotated[tuple[DropTold, ...], _says("What was read, and earlier drops that this run touched")]
    reports: Annotated[tuple[str, ...], _says("The files beside this one, and this one")]
    settings: Annotated[Mapping[str, str], _says("The settings that bear on the result")]
    deviations: Annotated[tuple[Deviation, ...], _says("Assumptions that are not at their default")]
    versions: Annotated[Mapping[str, str], _says("The programs that wrote it")]
    schema: Annotated[str, _says("The version of this document: names are only ever added to it")] = SCHEMA
    remarks: Annotated[tuple[str, ...], _says("What concerns the run and no file")] = ()
    forecast: Annotated[str, _says("What is left to send, and when that would be done")] = ""
    causes: Annotated[
        tuple[CauseTold, ...], _says("The causes of problems: errors first, the most frequent first")
    ] = ()
    inbox: Annotated[InboxTold, _says("What the run left in the inbox")] = InboxTold()
    firsts: Annotated[
        Mapping[str, str], _says("By verdict that waits for a person: the key of the first such document")
    ] = field(default_factory=dict)
    missing: Annotated[
        tuple[MissingTold, ...], _says("Reports that could not be written; `loadsheet report` makes them")
    ] = ()
    undone: Annotated[
        tuple[UndoneTold, ...], _says("What failed after the end of the run had been recorded; its exit code says so")
    ] = ()

    @property
    def red_totals(self) -> int:
        """How many control totals need someone."""
        return sum(total.says in RED for total in self.totals)

    def to_json(self) -> bytes:
        """The document as indented JSON."""
        return msgspec.json.format(_encode(self), indent=2) + b"\n"


def schema() -> bytes:
    """The JSON Schema (2020-12) of `run.json`: every name and what it means. Names without a default were always there; those that
    came later have one, so that what was written before still keeps to it. Further names may come.
    """
    (reference,), parts = msgspec.json.schema_components([RunSummary], ref_template="#/$defs/{name}")
    told = {
        "$schema": _DIALECT,
        "$id": SCHEMA,
        **reference,
        "$defs": _numbers(parts),
    }
    return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"


def _numbers(told: Any) -> Any:
    """The same with amounts as the numbers as which they are written."""
    if not isinstance(told, dict):
        return told
    if told.get("format") == "decimal":
        return {"type": "number", **{name: said for name, said in told.items() if name not in ("type", "format")}}
    return {name: _numbers(one) for name, one in told.items()}

"""Encodes values for the ledger's columns and decodes them: JSON for lists and objects, plain text for times; and the clock.

A problem that holds another version of a record keeps the values in which the two differ, field by field (`changes_to_keep`, `kept_changes`).
Old ledgers have only a text with all of them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import BY_NAME, Difference, decode_record, different_fields
from loadsheet.ledger.states import Entry, SourceFile, SourceTable, State, Waits
from loadsheet.mapping.documents import AlternativeForm, ColumnGuide, Lineage, SourceRow
from loadsheet.problems import Problem

_encode = msgspec.json.Encoder().encode
_instead = msgspec.json.Decoder(tuple[str, str, msgspec.Raw]).decode

decode_rows = msgspec.json.Decoder(tuple[SourceRow, ...]).decode
"""The source rows that `encode_rows` of this or an earlier version wrote."""

decode_items = msgspec.json.Decoder(dict[str, tuple[int, ...]]).decode
"""The `items` of an entry."""

decode_cells = msgspec.json.Decoder(tuple[str, ...]).decode
"""A JSON list of strings."""

decode_texts_by_name = msgspec.json.Decoder(dict[str, str]).decode
"""A JSON object whose values are strings."""

decode_lineage = msgspec.json.Decoder(Lineage).decode
"""The lineage of a mapping."""

decode_guide = msgspec.json.Decoder(dict[str, dict[str, ColumnGuide]]).decode
"""The column descriptions for senders: by table and label."""

STATES = {state.value: state for state in State}
_WAITS = {waits.value: waits for waits in Waits}

NOTHING = "{}"
"""An empty JSON object."""

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The current time, aware, in UTC. Every run outside tests uses this clock."""
    return datetime.now(UTC)


def moment(seconds: float) -> datetime:
    """A number of seconds since 1970 as an aware datetime in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def stamp(when: datetime) -> str:
    """An aware datetime as ISO 8601 UTC text with milliseconds, sortable as text."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(value: object) -> str:
    """Any JSON-like value (tuples and NamedTuples as arrays) as compact JSON text."""
    return _encode(value).decode()


def encode_rows(rows: Sequence[SourceRow]) -> bytes:
    """The source rows of an entry as JSON: [[table, number, [cells]], ...]. Typed cells, if any, follow the cells."""
    return _encode([tuple(row) if row.natives else row[:3] for row in rows])


def encode_problems(problems: Sequence[Problem]) -> str:
    """Problems as JSON text. `decode_problems` reads them back."""
    return encode([problem.to_json() for problem in problems]) if problems else "[]"


def decode_problems(stored: str) -> tuple[Problem, ...]:
    """The problems that `encode_problems` wrote."""
    return () if stored == "[]" else tuple(Problem.from_json(item) for item in msgspec.json.decode(stored))


def encode_alternative(form: AlternativeForm | None) -> bytes | None:
    """The other form of an upsert as JSON: [operation, content hash, record]. None if there is none."""
    if form is None:
        return None
    return _encode((form.operation, form.content_hash, msgspec.Raw(form.payload)))


def decode_alternative(stored: bytes) -> AlternativeForm:
    """The form that `encode_alternative` wrote."""
    operation, content_hash, payload = _instead(stored)
    return AlternativeForm(operation, bytes(payload), content_hash)


def entry(row: Any, payload: bytes, rows: bytes) -> Entry:
    """An entry from a row of the entries table, with its columns in table order, and from its contents."""
    identity, drop, operation, key, lane, state, reason, _, content_hash, _, items, problems, *rest = row
    receipt, attempts, created_at, changed_at, waits, removed, figures, instead = rest
    return Entry(
        identity,
        drop,
        operation,
        key,
        lane,
        STATES[state],
        reason,
        payload,
        content_hash,
        decode_rows(rows),
        {} if items == NOTHING else decode_items(items),
        () if problems == "[]" else decode_problems(problems),
        receipt,
        attempts,
        created_at,
        changed_at,
        _WAITS[waits],
        removed,
        figures or b"",
        decode_alternative(instead).operation if instead else "",
    )


def file(row: Any) -> SourceFile:
    """A source file from a row of the files table."""
    problems = decode_problems(row.problems)
    return SourceFile(row.role, row.name, row.sha256, row.size, row.arrived, row.kept_as, problems)


def table(row: Any) -> SourceTable:
    """A source table from a row of the tables table."""
    return SourceTable(
        row.name,
        row.file,
        row.sheet,
        decode_cells(row.header),
        row.header_row,
        row.rows,
        decode_texts_by_name(row.found),
        decode_problems(row.problems),
    )


NOT_KEPT = "the fields are unknown, because the accepted content has been removed"
"""The text in place of the differences from a record whose contents were removed."""

OTHER_VERSION = frozenset({"L601", "L605"})
"""The problems of a record of which another version came before."""

FIELDS = "fields"
"""The value of such a problem with all differences in one text, for operators."""

MEANT = "meant"
"""The value of a problem with the number of the order or tender that its sender may have meant."""

_MORE = "more"
_SHOWN = 5
_LENGTH_MAX = 60


class ChangedValue(NamedTuple):
    """A field that changed: its payload path, and both values as texts (empty: no value). None if they are too long to show."""

    path: str
    old: str | None
    new: str | None


def changes_to_keep(operation: str, before: bytes, after: bytes, ordered: Collection[str]) -> dict[str, Any]:
    """The values of a problem that keep the differences of two JSON records of an operation; none if the earlier contents were removed."""
    if not before:
        return {}
    old, new, record = decode_record(before), decode_record(after), BY_NAME[operation].record
    left_out = (one for one in different_fields(record, old, new, ordered=ordered) if not one.held)
    changed = {one.path: one for one in different_fields(record, new, old, ordered=ordered)}
    found = [*changed.values(), *(Difference(one.path, "", one.sent) for one in left_out if one.path not in changed)]
    kept: dict[str, Any] = {_MORE: len(found) - _SHOWN} if len(found) > _SHOWN else {}
    for number, one in enumerate(found[:_SHOWN], start=1):
        kept[f"path {number}"] = one.path
        if max(len(one.sent), len(one.held)) <= _LENGTH_MAX:
            kept |= {f"old {number}": one.held, f"new {number}": one.sent}
    return kept


def fields_in(payload: bytes) -> dict[str, msgspec.Raw]:
    """The top-level fields of a JSON record. Empty if its contents were removed."""
    return msgspec.json.decode(payload, type=dict[str, msgspec.Raw]) if payload else {}


def left_out(before: bytes, after: bytes) -> dict[str, msgspec.Raw]:
    """The top-level fields with a value in the first JSON record that the second lacks."""
    fields = fields_in(after)
    return {
        name: value
        for name, value in fields_in(before).items()
        if name not in fields and bytes(value) not in (b'""', b"[]")
    }


def list_lengths(payload: bytes) -> dict[str, int]:
    """The number of items of each list of a JSON record, and of the lists within its items together (`packages.inner_cargos`). Empty if
    its contents were removed.
    """
    return dict(_lengths("", [msgspec.json.decode(payload)])) if payload else {}


def _lengths(path: str, records: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """The number of items of each list in records at a path."""
    for name in dict.fromkeys(chain.from_iterable(records)):
        lists = [found for record in records if isinstance(found := record.get(name), list)]
        if lists:
            items = list(chain.from_iterable(lists))
            yield f"{path}{name}", len(items)
            yield from _lengths(f"{path}{name}.", items)


def field_differences(before: bytes, after: bytes) -> list[str]:
    """The top-level fields in which two JSON records differ, each as `name 1 -> 2`, long ones only by name. `NOT_KEPT` if the
    contents of the earlier record were removed (empty).
    """
    if not before:
        return [NOT_KEPT]
    old, new = (msgspec.json.decode(record, type=dict[str, msgspec.Raw]) for record in (before, after))
    names = [name for name in {**old, **new} if _compact(old.get(name)) != _compact(new.get(name))]
    shown = [_difference(name, old.get(name), new.get(name)) for name in names[:_SHOWN]]
    more = len(names) - len(shown)
    return [*shown, f"and {more} more"] if more else shown


def _compact(raw: msgspec.Raw | None) -> Any:
    return None if raw is None else bytes(raw)


def _difference(name: str, old: msgspec.Raw | None, new: msgspec.Raw | None) -> str:
    before, after = ("nothing" if raw is None else bytes(raw).decode() for raw in (old, new))
    if before[0] == after[0] == "[":
        counts = [len(msgspec.json.decode(items)) for items in (before, after)]
        return name if counts[0] == counts[1] else f"{name} {counts[0]} items -> {counts[1]} items"
    too_long = max(len(before), len(after)) > 60
    return name if too_long or before[:1] in "[{" else f"{name} {before} -> {after}"


def kept_changes(problem: Problem) -> list[ChangedValue]:
    """The differences that a problem keeps field by field; none in old ledgers."""
    values = problem.values
    paths = [values.get(f"path {number}") for number in range(1, _SHOWN + 1)]
    return [
        ChangedValue(path, values.get(f"old {number}"), values.get(f"new {number}"))
        for number, path in enumerate(paths, start=1)
        if path is not None
    ]


def further_changes(problem: Problem) -> int:
    """How many more fields changed than the problem keeps."""
    return problem.number(_MORE)

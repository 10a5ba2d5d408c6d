"""Encodes values for the ledger's columns and decodes them: JSON for lists and objects, plain text for times; and the clock."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from loadsheet.ledger.states import Entry, SourceFile, SourceTable, State, Waits
from loadsheet.mapping.documents import ColumnGuide, Instead, Lineage, Source, SourceRow
from loadsheet.problems import Problem

_encode = msgspec.json.Encoder().encode
_rows = msgspec.json.Decoder(tuple[SourceRow, ...])
_items = msgspec.json.Decoder(dict[str, tuple[int, ...]])
_texts_by_name = msgspec.json.Decoder(dict[str, str])
_text_list = msgspec.json.Decoder(tuple[str, ...])
_guide = msgspec.json.Decoder(dict[str, dict[str, ColumnGuide]])
_instead = msgspec.json.Decoder(tuple[str, str, msgspec.Raw])
_lineage = msgspec.json.Decoder(dict[str, tuple[tuple[str, str, str, str], ...]])

_STATES = {state.value: state for state in State}
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


def decode_rows(stored: bytes) -> tuple[SourceRow, ...]:
    """The source rows that `encode_rows` of this or an earlier version wrote."""
    return _rows.decode(stored)


def encode_problems(problems: Sequence[Problem]) -> str:
    """Problems as JSON text. `decode_problems` reads them back."""
    return encode([problem.to_json() for problem in problems]) if problems else "[]"


def decode_problems(stored: str) -> tuple[Problem, ...]:
    """The problems that `encode_problems` wrote."""
    return () if stored == "[]" else tuple(Problem.from_json(item) for item in msgspec.json.decode(stored))


def encode_instead(instead: Instead | None) -> bytes | None:
    """The other form of an upsert as JSON: [operation, content hash, record]. None if there is none."""
    if instead is None:
        return None
    return _encode((instead.operation, instead.content_hash, msgspec.Raw(instead.payload)))


def decode_instead(stored: bytes) -> Instead:
    """The form that `encode_instead` wrote."""
    operation, content_hash, payload = _instead.decode(stored)
    return Instead(operation, bytes(payload), content_hash)


def decode_cells(stored: str) -> tuple[str, ...]:
    """A JSON list of strings."""
    return _text_list.decode(stored)


def decode_texts_by_name(stored: str) -> dict[str, str]:
    """A JSON object whose values are strings."""
    return _texts_by_name.decode(stored)


def decode_items(stored: str) -> dict[str, tuple[int, ...]]:
    """The `items` of an entry."""
    return _items.decode(stored)


def encode_guide(guide: Mapping[str, Mapping[str, ColumnGuide]]) -> str:
    """The column descriptions for senders as JSON text. `decode_guide` reads it back."""
    return encode(guide)


def decode_guide(stored: str) -> dict[str, dict[str, ColumnGuide]]:
    """The guide that `encode_guide` wrote."""
    return _guide.decode(stored)


def encode_lineage(lineage: Lineage) -> str:
    """A lineage as JSON text."""
    return encode({path: [tuple(source) for source in sources] for path, sources in lineage.items()})


def decode_lineage(stored: str) -> Lineage:
    """The lineage that `encode_lineage` wrote."""
    return {path: tuple(Source(*source) for source in sources) for path, sources in _lineage.decode(stored).items()}  # type: ignore[arg-type]


def entry(row: Any) -> Entry:
    """An entry from a row of the entries table, with its columns in table order."""
    identity, drop, operation, key, lane, state, reason, payload, content_hash, rows, items, problems, *rest = row
    receipt, attempts, created_at, changed_at, waits, removed, figures, _instead = rest
    return Entry(
        identity,
        drop,
        operation,
        key,
        lane,
        _STATES[state],
        reason,
        payload,
        content_hash,
        _rows.decode(rows),
        {} if items == NOTHING else _items.decode(items),
        () if problems == "[]" else decode_problems(problems),
        receipt,
        attempts,
        created_at,
        changed_at,
        _WAITS[waits],
        removed,
        figures or b"",
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
        _text_list.decode(row.header),
        row.header_row,
        row.rows,
        _texts_by_name.decode(row.found),
        decode_problems(row.problems),
    )

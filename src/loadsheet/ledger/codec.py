"""Encodes values for the ledger's columns and decodes them: JSON for lists and objects, plain text for times; and the clock."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from loadsheet.ledger.models import Entry, SourceFile, SourceTable, State, Waits
from loadsheet.mapping.documents import NO_LINKS, AlternativeForm, ColumnGuide, Lineage, RowLinks, SourceRow
from loadsheet.problems import Problem

_encode = msgspec.json.Encoder().encode
_instead = msgspec.json.Decoder(tuple[str, str, msgspec.Raw]).decode

decode_rows = msgspec.json.Decoder(tuple[SourceRow, ...]).decode
"""The source rows that `encode_rows` of this or an earlier version wrote."""

decode_cells = msgspec.json.Decoder(tuple[str, ...]).decode
"""A JSON list of strings."""

decode_texts_by_name = msgspec.json.Decoder(dict[str, str]).decode
"""A JSON object whose values are strings."""

decode_lineage = msgspec.json.Decoder(Lineage).decode
"""The lineage of a mapping."""

decode_guide = msgspec.json.Decoder(dict[str, dict[str, ColumnGuide]]).decode
"""The column descriptions for senders: by table and label."""

_decode_indexes = msgspec.json.Decoder(dict[str, tuple[int, ...]]).decode
_LISTS = ("(shared)", "(looked up)", "(fix of)")
_ROWS, _SETS, _INNER = " rows", " sets", "[]"  # no name of a table has a space
_ORDERED, _TIME_OF_RUN = "(ordered) ", "(time of run) "

STATES = {state.value: state for state in State}
_WAITS = {waits.value: waits for waits in Waits}

NOTHING = "{}"
"""An empty JSON object."""

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The current time, aware, in UTC. Every run outside tests uses this clock."""
    return datetime.now(UTC)


def utc_from_seconds(seconds: float) -> datetime:
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


def encode_links(links: RowLinks) -> str:
    """The links of a document as JSON, which names them as 0.5.0 did: `{"(lines)": [0, 1], "(lines sets)": [1, 2], "(shared)": [0]}`."""
    if links == NO_LINKS:
        return NOTHING
    lists = zip(_LISTS, (links.shared, links.looked_up, links.fix_of), strict=True)
    named: dict[str, Sequence[int]] = {name: numbers for name, numbers in lists if numbers}
    for table, rows in links.rows.items():
        named[f"({table}{_ROWS})" if f"({table})" in _LISTS else f"({table})"] = rows
    named |= {f"({table}{_SETS})": sets for table, sets in links.sets.items()}
    named |= links.present
    named |= {f"{path}{_INNER}": rows for path, rows in links.inner_rows.items()}
    named |= {f"{_ORDERED}{path}": () for path in sorted(links.ordered)}
    named |= {f"{_TIME_OF_RUN}{name}": () for name in sorted(links.times_of_run)}
    return encode(named)


@lru_cache(maxsize=256)  # the records of a file have few different links
def decode_links(stored: str) -> RowLinks:
    """The links that `encode_links` of this or an earlier version wrote."""
    if stored == NOTHING:
        return NO_LINKS
    named = _decode_indexes(stored)
    shared, looked_up, fix_of = (named.pop(name, ()) for name in _LISTS)
    ordered, times_of_run = (
        frozenset(name.removeprefix(flag) for name in named if name.startswith(flag))
        for flag in (_ORDERED, _TIME_OF_RUN)
    )
    links = RowLinks({}, {}, {}, {}, shared, looked_up, fix_of, ordered, times_of_run)
    for name, numbers in named.items():
        if name.endswith(f"{_SETS})"):
            links.sets[name[1 : -len(_SETS) - 1]] = numbers
        elif name.endswith(")"):
            links.rows[name[1:-1].removesuffix(_ROWS)] = numbers
        elif name.endswith(_INNER):
            links.inner_rows[name.removesuffix(_INNER)] = numbers
        elif not name.startswith("("):
            links.present[name] = numbers
    return links


def entry(row: Any, payload: bytes, rows: bytes) -> Entry:
    """An entry from a row of the entries table, with its columns in table order, and from its contents."""
    identity, drop, operation, key, lane, state, reason, _, content_hash, _, links, problems, *rest = row
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
        decode_links(links),
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

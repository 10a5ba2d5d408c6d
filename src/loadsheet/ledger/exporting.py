"""The ledger as plain tables for others to read: runs, entries, attempts, exceptions. Streams rows; changes nothing.

Owns: the names of columns and what stands in them. They are told to people and programs outside: a column may be added, none changes.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from sqlalchemy import Engine, Select, func, select

from loadsheet.ledger import codec
from loadsheet.ledger.schema import attempts, drops, entries, exceptions, files, mappings, runs
from loadsheet.ledger.statements import streamed

Kind = Literal["text", "whole", "moment"]


class Column(NamedTuple):
    """A column: its name, and whether it holds texts, whole numbers or moments (ISO 8601 UTC texts)."""

    name: str
    kind: Kind = "text"


class Export(NamedTuple):
    """A table: its name, its columns, and how to read its rows; None stands for nothing."""

    name: str
    columns: tuple[Column, ...]
    query: Select[Any]


def exports(*, since: str = "", payloads: bool = False) -> tuple[Export, ...]:
    """All tables, of runs that began `since` a time (ISO 8601 UTC; empty: of all) and what they planned; `payloads` adds these."""
    return (_runs(since), _entries(since, payloads=payloads), _attempts(since), _exceptions(since))


def rows(engine: Engine, export: Export) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, in the order of its columns."""
    moments = [place for place, column in enumerate(export.columns) if column.kind == "moment"]
    problems = next((place for place, column in enumerate(export.columns) if column.name == "problems"), None)
    for row in streamed(engine, export.query):
        values: list[Any] = [value.decode() if isinstance(value, bytes) else value for value in row]
        for place in moments:
            values[place] = values[place] or None
        if problems is not None:
            values[problems] = _codes(values[problems])
        yield tuple(values)


def _runs(since: str) -> Export:
    columns = (
        Column("run"),
        Column("started_at", "moment"),
        Column("finished_at", "moment"),
        Column("exit_code", "whole"),
        Column("summary"),
    )
    query = select(runs.c.name, runs.c.started_at, runs.c.finished_at, runs.c.exit_code, runs.c.summary)
    return Export("runs", columns, query.where(runs.c.started_at >= since).order_by(runs.c.id))


def _entries(since: str, *, payloads: bool) -> Export:
    first = select(func.min(files.c.name)).where(files.c.drop_id == entries.c.drop_id).scalar_subquery()
    named: list[tuple[Column, Any]] = [
        (Column("entry", "whole"), entries.c.id),
        (Column("run"), runs.c.name),
        (Column("drop", "whole"), entries.c.drop_id),
        (Column("file"), first),
        (Column("mapping"), mappings.c.name),
        (Column("operation"), entries.c.operation),
        (Column("key"), entries.c.key),
        (Column("lane"), entries.c.lane),
        (Column("state"), entries.c.state),
        (Column("reason"), entries.c.reason),
        (Column("waits"), entries.c.waits),
        (Column("problems"), entries.c.problems),
        (Column("exception"), exceptions.c.verdict),
        (Column("service_order"), entries.c.receipt),
        (Column("attempts", "whole"), entries.c.attempts),
        (Column("content_hash"), entries.c.content_hash),
        (Column("created_at", "moment"), entries.c.created_at),
        (Column("changed_at", "moment"), entries.c.changed_at),
        (Column("removed_at", "moment"), entries.c.removed),
    ]
    if payloads:
        named.append((Column("payload"), entries.c.payload))
    query = (
        select(*(value for _, value in named))
        .join(drops, drops.c.id == entries.c.drop_id)
        .join(runs, runs.c.id == drops.c.run_id)
        .join(mappings, mappings.c.hash == drops.c.mapping_hash)
        .outerjoin(exceptions, exceptions.c.entry_id == entries.c.id)
        .where(runs.c.started_at >= since)
        .order_by(entries.c.id)
    )
    return Export("entries", tuple(column for column, _ in named), query)


def _attempts(since: str) -> Export:
    columns = (
        Column("entry", "whole"),
        Column("number", "whole"),
        Column("run"),
        Column("started_at", "moment"),
        Column("request_hash"),
        Column("outcome"),
        Column("status", "whole"),
        Column("detail"),
        Column("duration_ms", "whole"),
    )
    names = ("started_at", "request_hash", "outcome", "status", "detail", "duration_ms")
    query = select(attempts.c.entry_id, attempts.c.number, runs.c.name, *(attempts.c[name] for name in names))
    query = query.join(runs, runs.c.id == attempts.c.run_id).where(runs.c.started_at >= since)
    return Export("attempts", columns, query.order_by(attempts.c.entry_id, attempts.c.number))


def _exceptions(since: str) -> Export:
    first, last = runs.alias(), runs.alias()
    columns = (
        Column("entry", "whole"),
        Column("key"),
        Column("run"),
        Column("opened_at", "moment"),
        Column("verdict"),
        Column("closed_run"),
        Column("closed_at", "moment"),
        Column("closed_because"),
    )
    told = (
        exceptions.c.opened_at,
        exceptions.c.verdict,
        last.c.name,
        exceptions.c.closed_at,
        exceptions.c.closed_because,
    )
    query = (
        select(exceptions.c.entry_id, entries.c.key, first.c.name, *told)
        .join(entries, entries.c.id == exceptions.c.entry_id)
        .join(first, first.c.id == exceptions.c.run_id)
        .outerjoin(last, last.c.id == exceptions.c.closed_run_id)
        .where(first.c.started_at >= since)
        .order_by(exceptions.c.entry_id)
    )
    return Export("exceptions", columns, query)


def _codes(stored: str) -> str:
    """The codes of stored problems, each once: what was found in cells is no business of an export."""
    return " ".join(dict.fromkeys(problem.code for problem in codec.decode_problems(stored)))

"""What the page for people reads: counts, lists from the newest on, one record with what belongs to it, search by id.

Owns: these reading statements and nothing that writes. Every reader takes a `party`, the key of one that sees the records of which
it is sender or receiver, with what belongs to them; empty: all. Knows no HTTP.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, func, or_, select

from loadsheet.contract import BY_NAME, Moment, Overview, moment, overview_of
from loadsheet.exchange.effects import key_text
from loadsheet.exchange.store import Store
from loadsheet.exchange.store.schema import (
    BY_SUBJECT,
    CONFIRMATIONS,
    EVENTS,
    ORDERS,
    PARTIES,
    QUOTES,
    TENDERS,
    owner_of,
)
from loadsheet.exchange.wire import stored

PAGE_ROWS = 50
SEARCH_ROWS = 25
BELONGING_ROWS = 500  # of quotes, decisions or status records of one record
_NUMBER_DIGITS = 15

_RECORDS = {subject: BY_NAME[f"{subject}.list"].record for subject in BY_SUBJECT}
_COUNTED = {"tenders": TENDERS, "quotes": QUOTES, "decisions": CONFIRMATIONS, "orders": ORDERS, "events": EVENTS}
_OWNERS = {QUOTES: TENDERS, CONFIRMATIONS: TENDERS, EVENTS: ORDERS}
_BELONGING = {"tender": {"quotes": QUOTES, "decisions": CONFIRMATIONS}, "order": {"events": EVENTS}}

_JOURNEYS = "order"  # records of this subject have status records

Rows = Sequence[Any]


class Line(NamedTuple):
    """A record in a list: the exchange's own number, the record at a overview, and for an order what was reported last."""

    number: int
    overview: Overview
    last: Moment | None = None


class Lines(NamedTuple):
    """One page of a list, newest first. `older` and `newer` are the numbers to go on from; None at an end."""

    rows: Sequence[Line]
    older: int | None
    newer: int | None


class Whole(NamedTuple):
    """A record with what belongs to it, each in the order of arrival: quotes and decisions, or status records."""

    number: int
    content: Mapping[str, Any]
    quotes: Sequence[Mapping[str, Any]]
    decisions: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]


class Browser:
    """The reads of the page on an open store. All raise StoreFailed if it cannot be read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def counts(self, party: str) -> dict[str, int]:
        """How many records of each kind there are."""
        questions = {
            name: _seen(select(func.count()).select_from(table), table, party) for name, table in _COUNTED.items()
        }
        return {name: int(rows[0][0]) for name, rows in (await self._read(questions)).items()}

    async def lines(
        self, subject: str, party: str, *, before: int | None = None, after: int | None = None, rows: int = PAGE_ROWS
    ) -> Lines:
        """A page of the tenders or the orders: the newest, those before a number, or those right after one."""
        table = BY_SUBJECT[subject]
        number = table.c.number
        page = _seen(select(number, table.c.content), table, party).limit(rows + 1)
        if after is not None:
            found = await self._one(page.where(number > after).order_by(number))
            kept = found[:rows][::-1]
            newer = kept[0][0] if len(found) > rows else None
            return Lines(await self._lines(subject, kept), kept[-1][0] if kept else after + 1, newer)
        if before is not None:
            page = page.where(number < before)
        found = await self._one(page.order_by(number.desc()))
        kept = found[:rows]
        newer = before - 1 if before is not None else None
        return Lines(await self._lines(subject, kept), kept[-1][0] if len(found) > rows else None, newer)

    async def whole(self, subject: str, identifier: str, party: str) -> Whole | None:
        """One tender or order with all that belongs to it; None if there is none that the party may see."""
        table, key = BY_SUBJECT[subject], key_text(identifier)
        asked = select(table.c.number, table.c.content).where(owner_of(table) == key)
        questions = {"record": _seen(asked, table, party)}
        for name, belonging in _BELONGING[subject].items():
            mine = select(belonging.c.content).where(owner_of(belonging) == key)
            questions[name] = mine.order_by(belonging.c.number.desc()).limit(BELONGING_ROWS)
        found = await self._read(questions)
        if not found["record"]:
            return None
        number, content = found["record"][0]
        quotes, decisions, events = (
            [stored(row[0]) for row in reversed(found.get(name, ()))] for name in ("quotes", "decisions", "events")
        )
        return Whole(number, stored(content), quotes, decisions, events)

    async def search(self, text: str, party: str) -> dict[str, Sequence[Line]]:
        """Tenders and orders whose identifier begins with the text, or whose number at the exchange it is."""
        questions = {}
        for subject, table in BY_SUBJECT.items():
            owner = owner_of(table)
            meant = or_(owner.startswith(text, autoescape=True), owner == key_text(text))
            if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS:
                meant = or_(meant, table.c.number == int(text))
            asked = _seen(select(table.c.number, table.c.content).where(meant), table, party)
            questions[subject] = asked.order_by(table.c.number.desc()).limit(SEARCH_ROWS)
        found = await self._read(questions)
        return {subject: await self._lines(subject, rows) for subject, rows in found.items()}

    async def _lines(self, subject: str, rows: Rows) -> list[Line]:
        lines = [Line(number, overview_of(_RECORDS[subject], stored(content))) for number, content in rows]
        if subject != _JOURNEYS or not lines:
            return lines
        owner = owner_of(EVENTS)
        keys = [key_text(line.overview.key) for line in lines]
        newest = select(func.max(EVENTS.c.number)).where(owner.in_(keys)).group_by(owner)
        reported = await self._one(select(owner, EVENTS.c.content).where(EVENTS.c.number.in_(newest)))
        last = {key: moment(stored(content)) for key, content in reported}
        return [line._replace(last=last.get(key)) for key, line in zip(keys, lines, strict=True)]

    async def _one(self, question: Select[Any]) -> Rows:
        return (await self._read({"": question}))[""]

    async def _read(self, questions: Mapping[str, Select[Any]]) -> dict[str, Rows]:
        """The rows of several questions, as the database stood at one moment."""

        def ask(connection: Connection) -> dict[str, Rows]:
            return {name: connection.execute(question).all() for name, question in questions.items()}

        return await self._store.read(ask)


def _seen(question: Select[Any], table: Table, party: str) -> Select[Any]:
    """The question, bounded to what the party may see."""
    if not party:
        return question
    owners = _OWNERS.get(table)
    if owners is None:
        return question.where(or_(*(table.c[side] == party for side in PARTIES)))
    return question.where(owner_of(table).in_(_seen(select(owner_of(owners)), owners, party)))

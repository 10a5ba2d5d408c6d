"""Databases as the first version of the exchange made them, with records in them."""

import json
from contextlib import contextmanager

from payload_examples import CONFIRMATION, EVENT, ORDER, QUOTE, TENDER
from sqlalchemy import create_engine, text

FIRST_SCHEMA = """
CREATE TABLE tenders (number {number} NOT NULL, tender TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number), UNIQUE (tender));
CREATE TABLE orders (number {number} NOT NULL, order_ref TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number), UNIQUE (order_ref));
CREATE TABLE quotes (number {number} NOT NULL, tender TEXT NOT NULL, carrier TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number), UNIQUE (tender, carrier));
CREATE TABLE confirmations (number {number} NOT NULL, tender TEXT NOT NULL, carrier TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number));
CREATE INDEX ix_confirmations_tender ON confirmations (tender);
CREATE TABLE status_events (number {number} NOT NULL, order_ref TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number));
CREATE INDEX ix_status_events_order_ref ON status_events (order_ref);
CREATE TABLE counters (name TEXT NOT NULL, last {number} NOT NULL, PRIMARY KEY (name))
"""
LONG = "SO-" + "9" * 2000  # was a key as it stands; PostgreSQL indexes no such key if its digits were random


def as_text(record):
    return json.dumps(record, default=float)


def first_rows(orders):
    made = [{**ORDER, "order_id": f"SO-{number}"} for number in range(orders)] + [{**ORDER, "order_id": LONG}]
    made[7] |= {"sender_id": 4711, "receiver_id": "Jemand"}
    yield "tenders", [{"number": 3, "tender": "T-1", "content": as_text(TENDER)}]
    yield (
        "orders",
        [{"number": at, "order_ref": row["order_id"], "content": as_text(row)} for at, row in enumerate(made, 5)],
    )
    yield "quotes", [{"number": 1, "tender": "T-1", "carrier": "C-1", "content": as_text(QUOTE)}]
    yield "confirmations", [{"number": 1, "tender": "T-1", "carrier": "C-1", "content": as_text(CONFIRMATION)}]
    yield "status_events", [{"number": 9, "order_ref": LONG, "content": as_text({**EVENT, "order_id": LONG})}]
    last = {"tenders": 3, "orders": 2600, "quotes": 1, "confirmations": 1, "status_events": 9}
    yield "counters", [{"name": name, "last": number} for name, number in last.items()]


@contextmanager
def opened(url):
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def make_first(url, orders):
    """Fill an empty database as the first version would have: a tender with all that belongs to it, and orders, one more than said."""
    with opened(url) as connection:
        number = "INTEGER" if connection.dialect.name == "sqlite" else "BIGINT"
        for statement in FIRST_SCHEMA.format(number=number).split(";"):
            connection.execute(text(statement))
        for table, rows in first_rows(orders):
            names = list(rows[0])
            values = ", ".join(f":{name}" for name in names)
            connection.execute(text(f"insert into {table} ({', '.join(names)}) values ({values})"), rows)

"""A real ledger filled without network: documents are planned, sent to nobody, and settled as a test decides."""

import hashlib
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest
from sqlalchemy import insert, select, update

from loadsheet.contract import BY_NAME, Listing
from loadsheet.errors import LedgerError
from loadsheet.ledger import (
    Drop,
    Ledger,
    PlanningRules,
    ReadTotals,
    Settlement,
    SourceFile,
    SourceTable,
    State,
    open_ledger,
)
from loadsheet.ledger.content_blocks import zstd
from loadsheet.ledger.ledger_tables import tenures
from loadsheet.ledger.location import LedgerFiles
from loadsheet.ledger.postgres import Fence
from loadsheet.mapping.documents import AlternativeForm, Document, Ignored, SourceRow
from loadsheet.problems import Problem, Where

HEADER = ("Auftrag", "Empfänger", "PLZ", "Gewicht", "Wert")
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(dict, float_hook=Decimal).decode


class Ticking:
    """A clock that goes on by seven milliseconds at each look, from a fixed night on."""

    def __init__(self):
        self.now = datetime(2026, 3, 4, 2, 15, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(milliseconds=7)
        return self.now

    def pass_time(self, seconds):
        self.now += timedelta(seconds=seconds)


@contextmanager
def ledger_at(url, clock=None):
    with open_ledger(url, clock=clock or Ticking()) as ledger:
        yield ledger


def ledger_in(folder, clock=None):
    return ledger_at(f"sqlite:///{folder / 'ledger.db'}", clock)


def blocks_in(path):
    """The packed records and cells of a ledger's file."""
    with closing(sqlite3.connect(path)) as database:
        return [packed for (packed,) in database.execute("select packed from contents order by block")]


def contents_of(connection):
    """The record and the source rows of each entry by its id, as their bytes, from the blocks of a ledger."""
    found = {}
    for block, packed in connection.execute("select block, packed from contents"):
        parts = msgspec.msgpack.decode(zstd.decompress(packed))
        half = len(parts) // 2
        found |= {block * half + at: (parts[at], parts[half + at]) for at in range(half)}
    return found


def contents_in(path):
    """The record and the source rows of each entry of a ledger's file by its id, as their bytes."""
    with closing(sqlite3.connect(path)) as database:
        return contents_of(database)


def bytes_of(path):
    """The bytes of a file, those of a ledger also unpacked."""
    packed = blocks_in(path) if path.name.startswith("ledger") and path.suffix == ".db" else []
    return path.read_bytes() + b"".join(map(zstd.decompress, packed))


def refusal(opening, error=LedgerError, match=None):
    """The error with which a ledger is not opened."""
    with pytest.raises(error, match=match) as caught, opening:
        pytest.fail("it was opened")
    return caught.value


def taken_over(ledger):
    """The same ledger as another process has it on a server: whoever had it before may change it no more."""
    with ledger._unfenced() as connection:
        raised = connection.execute(update(tenures).values(epoch=tenures.c.epoch + 1))
        if not raised.rowcount:
            connection.execute(insert(tenures).values(id=1, epoch=1, holder="one of several", since="0", seen_at="0"))
        epoch = connection.scalar(select(tenures.c.epoch))
    return Ledger(ledger._engine, ledger._clock, LedgerFiles(None), fence=Fence(epoch))


def order(number, **changes):
    """A complete order record; `changes` replace its fields."""
    stop = {
        "startdatetime": "2026-03-05 08:00:00",
        "enddatetime": "2026-03-05 12:00:00",
        "company": f"Empfänger {number % 17} GmbH",
        "country": "DE",
        "city": "Dresden",
        "province": "Sachsen",
        "pincode": "01067",
        "address1": f"Hauptstraße {number % 90 + 1}",
        "address2": "",
    }
    record = {
        "order_id": f"A-{number:05}",
        "sender_id": "ACME",
        "receiver_id": "CARGO",
        "timezone": "Europe/Berlin",
        "timeoffset": "1",
        **{f"{side}_{name}": value for side in ("pickup", "delivery") for name, value in stop.items()},
        "total_packages": 2,
        "total_weight": Decimal(412 + number % 31) + Decimal("0.5"),
        "gross_weight_uom": "KG",
        "chargeable_weight": Decimal("420.25"),
        "chargeable_weight_uom": "KG",
        "total_volume": Decimal("1.24"),
        "volume_uom": "CBM",
        "goods_value": Decimal(1000 + number % 900) + Decimal("0.99"),
        "currency": ("EUR", "EUR", "EUR", "CHF")[number % 4],
        "transport_mode": "ROAD",
        "packages": [
            {"package_type": "Pallet/Skid", "item_name": "Kabel", "weight": Decimal("200.25"), "weight_uom": "KG"},
            {"package_type": "Box", "item_name": "Stecker", "weight": Decimal("12.5"), "weight_uom": "KG"},
        ],
    }
    return {**record, **changes}


def tender(number, **changes):
    record = {
        "tender_id": f"T-{number:04}",
        "sender_id": "ACME",
        "receiver_id": "CARGO",
        "tender_status": "OPEN",
        "currency": "EUR",
        "packages": [
            {
                "package_type": "Pallet/Skid",
                "item_name": "Kabel",
                "quantity": "3",
                "weight": "612.5",
                "weight_uom": "KG",
            }
        ],
    }
    return {**record, **changes}


def document(operation, payload, rows, *problems):
    """A document; a payload of None could not be built. Rows are (table, number, cells)."""
    rows = tuple(SourceRow(*row) for row in rows)
    contract = BY_NAME[operation]
    if payload is None:
        key = rows[0].cells[0] if rows[0].cells else ""
        return Document(operation, key, f"{contract.subject}:{key}", b"", "", rows, problems)
    body = _encode(payload)
    digest = hashlib.sha256(_encode(dict(sorted(payload.items())))).hexdigest()
    return Document(operation, contract.key_of(payload), contract.lane_of(payload), body, digest, rows, problems)


UPSERT = "order.upsert"


def upsert(payload, rows, instead=None):
    """A document that creates an order or, where it exists, updates it: with `instead`, if that is given."""
    other = document("order.update", instead or {**payload, "currency": "CHF"}, rows)
    return replace(
        document("order.create", payload, rows),
        alternative=AlternativeForm(other.operation, other.payload, other.content_hash),
    )


def left_out(number, cells=("", "Summe", "", "", "99"), rule="row begins with Summe", table="orders"):
    return Ignored(SourceRow(table, number, cells), rule)


def weight_problem(file, row, found="zwölf", **more):
    where = Where(file, more.pop("sheet", ""), row, "Gewicht", more.pop("cell", ""), "total_weight")
    return Problem("C302", where, found, {"locale": "de"}, **more)


def drop_of(*tables, mapping="acme", operation="order.create", header=HEADER, size=2048):
    """A drop of one file a table; tables are (name, file) or (name, file, sheet)."""
    files = dict.fromkeys(table[1] for table in tables)
    sources = tuple(_file(name, size) for name in files)
    found = tuple(SourceTable(name, file, *(sheet or [""]), header, 1) for name, file, *sheet in tables)
    digest = hashlib.sha256(mapping.encode()).hexdigest()
    return Drop(0, "", sources, found, mapping, "3", digest, operation)


def _file(name, size):
    digest = hashlib.sha256(name.encode()).hexdigest()
    return SourceFile("data", name, digest, size, "2026-03-04T02:14:50.000Z", f"archive/2026/03/04/{name}")


def unreadable(name, problem):
    source = _file(name, 77)
    return SourceFile("data", name, source.sha256, 77, source.arrived, f"aside/{name}", (problem,))


def plan(ledger, run, drop, items, *, seen=True, **rules):
    """Plan documents and ignored rows; returns the drop. Orders and tenders of children are taken for seen, unless told."""
    items = list(items)
    if seen:
        ledger.record_seen(
            run, {one.lane for one in items if isinstance(one, Document) and not BY_NAME[one.operation].creates}
        )
    rows = [row for item in items for row in ([item.row] if isinstance(item, Ignored) else item.rows)]
    read = {table.name: sum(row.table == table.name for row in rows) for table in drop.tables}
    return ledger.plan(run, drop, {}, [*items, ReadTotals(read)], PlanningRules(**rules))[0]


def send(ledger, run, decide=lambda submission: None):
    """Settle everything that is ready. `decide` gives the settlement of a submission; None: accepted."""
    while ready := ledger.ready(200):
        calls = [([one], BY_NAME[one.operation].body([one.payload])) for one in ready]
        lanes = set()
        calls = [call for call in calls if not (call[0][0].lane in lanes or lanes.add(call[0][0].lane))]
        ledger.mark_sending(run, calls)
        ledger.settle(run, [decide(one) or accepted(one) for ((one,), _) in calls])


def accepted(submission):
    receipt = f"88{submission.id:05}" if submission.operation.startswith("order.") else ""
    return Settlement(
        submission.id, State.ACCEPTED, "accepted", receipt, outcome="accepted", status=200, duration_ms=41
    )


def refused(submission, text="pickup_pincode is invalid", where=None):
    problem = Problem("X701", where or Where(), values={"text": text})
    return Settlement(submission.id, State.REFUSED, "refused by the exchange", "", (problem,), "refused", 400, 38)


def unknown(submission):
    problem = Problem("X702", values={"text": "no answer within 60 s"})
    return Settlement(submission.id, State.UNKNOWN, "no answer within 60 s", "", (problem,), "unknown", None, 60_000)


def listing(records, total=None):
    """A listing as the client reads it, of payloads or decoded records."""
    decoded = [_decode(_encode(record)) for record in records]
    return Listing(decoded, 1000, len(decoded) if total is None else total, 1)

"""Listings of any size: the same bytes as ever, flat memory, and slow readers hold up nobody."""

import http.client
import re
import resource
import socket
from contextlib import closing
from pathlib import Path

import pytest
from exchange_calls import Inside, OverSocket, encode, request, url_of
from exchange_process import TOKEN, served
from payload_examples import ORDER, TENDER
from sqlalchemy import create_engine, insert, update

from loadsheet.contract import BY_NAME, Assumptions, as_listed, listing_body, read_refusal
from loadsheet.exchange import Store, create_app, serve_embedded
from loadsheet.exchange.app import FILES_MAX, MEMORY_MAX
from loadsheet.exchange.database import BY_SUBJECT, COUNTERS

GROWTH_MAX_MB = {20_000: 20, 100_000: 40}  # of the whole process while it answers 30 or 150 MB
PATHS = {"order": "/tmsapi/getOrders?", "tender": "/tmsapi/getOrders?record=tender&"}
GOOD = {"order": ORDER, "tender": TENDER}


def fill(database, subject, count):
    """Put records straight into the tables, as creates would leave them."""
    Store(url_of(database)).close()
    table = BY_SUBJECT[subject]
    head, tail = encode({**GOOD[subject], f"{subject}_id": "@@"}).decode().split("@@")
    engine = create_engine(url_of(database).replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for start in range(1, count + 1, 10_000):
            rows = [
                (number, f"R-{number}", "ACME", "CARRIER-9", f"{head}R-{number}{tail}")
                for number in range(start, min(start + 10_000, count + 1))
            ]
            names = table.c.keys()
            connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in rows])
        counts = update(COUNTERS).where(COUNTERS.c.name == table.name)
        connection.execute(counts.values(last=count, held=count))
    engine.dispose()


def expected(subject, size, total):
    operation = BY_NAME[f"{subject}.list"]
    records = [{**GOOD[subject], f"{subject}_id": f"R-{number}"} for number in range(1, min(size, total) + 1)]
    shown = [as_listed(operation.record, record) for record in records] if subject == "tender" else records
    return encode(listing_body(shown, page_size=size, total_count=total))


def test_a_page_of_any_size_is_the_same_to_the_letter(database):
    fill(database, "order", 1203)
    with closing(Store(url_of(database))) as store:
        app = Inside(create_app(store, TOKEN, Assumptions()))
        assert app.send("GET", f"{PATHS['tender']}page_size=7").raw == expected("tender", 7, 0)
        fill(database, "tender", 120)
        for subject, total in (("order", 1203), ("tender", 120)):
            for size in (1, 2, 99, 100, 101, 500, 501, 1203, 1204, 100_000):
                answer = app.send("GET", f"{PATHS[subject]}page_size={size}")
                assert answer.raw == expected(subject, size, total), (subject, size)
                assert answer.headers["content-length"] == str(len(answer.raw))
        assert len(app.send("GET", f"{PATHS['order']}page_size=1203").raw) > MEMORY_MAX


def test_a_large_page_shows_one_moment_although_records_come_and_go(database):
    """Every record is written by one transaction that also counts it: a page and its total agree only if both are of one moment."""
    fill(database, "order", 1000)
    with serve_embedded(url_of(database), TOKEN, Assumptions()) as url:
        writer, reader = OverSocket(url), OverSocket(url)
        for turn in range(6):
            writer.done("order.delete", {"order_id": f"R-{turn + 1}"})
            writer._connection.request(
                "POST", "/tmsapi/createOrder", encode({**ORDER, "order_id": turn}), {"Authorization": f"Bearer {TOKEN}"}
            )
            page = reader.send("GET", "/tmsapi/getOrders?page_size=100000").body
            assert len(page["results"]) == page["total_count"]
            assert writer._connection.getresponse().read()


def taken(connection, page_size):
    """Size of a page in bytes, how many orders it holds, and its end, read in pieces."""
    connection.request("GET", f"/tmsapi/getOrders?page_size={page_size}", headers={"Authorization": f"Bearer {TOKEN}"})
    answer, read, seen, last, key = connection.getresponse(), 0, 0, b"", b'"order_id":"'
    while piece := answer.read(1_000_000):
        read += len(piece)
        last = last[1 - len(key) :] + piece
        seen += last.count(key)
    assert read == int(answer.headers["content-length"])
    return read, seen, last


def sizes(process):
    """The size of a process in MB: the present one, the largest."""
    status = Path(f"/proc/{process}/status").read_text()
    return [int(re.search(rf"{name}:\s+(\d+)", status)[1]) // 1024 for name in ("VmRSS", "VmHWM")]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell the size of a process")
@pytest.mark.parametrize(
    ("kind", "many"), [("sqlite", 20_000), pytest.param("postgresql", 100_000, marks=pytest.mark.sweep)]
)
def test_a_page_of_very_many_orders_takes_no_memory(new_database, kind, many):
    database = new_database(kind)
    fill(database, "order", many)
    with served(database) as running:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=120)
        assert taken(connection, 10)[1] == 10
        before = sizes(running.process.pid)[0]
        length, seen, last = taken(connection, many)
        peak = sizes(running.process.pid)[1]
        connection.close()
        assert running.process.stop() == 0
    print(f"{length / 1e6:.0f} MB answered, the process from {before} to {peak} MB")
    assert length > 1_000 * many
    assert seen == many
    assert last.endswith(b'],"total_count":%d,"total_pages":1}' % many)
    assert peak - before < GROWTH_MAX_MB[many]


def test_slow_readers_of_large_pages_hold_up_nobody_and_are_bounded(tmp_path):
    database = tmp_path / "exchange.db"
    fill(database, "order", 4500)
    with serve_embedded(url_of(database), TOKEN, Assumptions(page_size_default=100_000)) as url:
        host, port = url.removeprefix("http://").split(":")
        slow = [socket.create_connection((host, int(port)), timeout=60) for _ in range(FILES_MAX)]
        for connection in slow:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(request("order.list", None))
        for connection in slow:
            # its page lies in a file now, and the client reads no further
            assert connection.recv(12) == b"HTTP/1.1 200"
        caller = OverSocket(url)
        caller.done("order.create", {**ORDER, "order_id": "meanwhile"})
        busy = caller.send("GET", "/tmsapi/getOrders?page_size=100000")
        assert (busy.status, busy.headers["retry-after"]) == (429, "5")
        assert "smaller page_size" in read_refusal(BY_NAME["tender.list"], busy.body)[0].text
        assert len(caller.orders("?page_size=100")) == 100  # small ones need no room
        for connection in slow:
            connection.close()
        while (answer := caller.send("GET", "/tmsapi/getOrders?page_size=100000")).status == 429:
            pass
        assert answer.body["total_count"] == len(answer.body["results"]) == 4501


def test_a_disk_without_room_for_a_page_is_503_and_leaves_nothing_behind(tmp_path):
    database = tmp_path / "exchange.db"
    fill(database, "order", 1000)
    with closing(Store(url_of(database))) as store:
        app = Inside(create_app(store, TOKEN, Assumptions()))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY_MAX // 2, hard))
        try:
            statuses = [app.send("GET", "/tmsapi/getOrders?page_size=1000").status for _ in range(FILES_MAX + 2)]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert set(statuses) == {503}  # not one of them a 429: each gave its place back
        assert len(app.orders("?page_size=1000")) == 1000

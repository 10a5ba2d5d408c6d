"""Every shipped sample through reading and mapping, held against its golden documents.

`golden/MAPPING.jsonl` has one line a document: operation, key, the payload byte for byte (or the problems, each with code and
place), and its source rows. LOADSHEET_REWRITE=1 writes them anew; read the difference before you keep it. `oracle` computes other
layouts a second time from their cells.
"""

import json
import os
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from exchange_calls import embedded
from shipped_samples import NAMES, routed, sample

from loadsheet.contract import BY_NAME, SENDING_ORDER, Assumptions, body_checker, checker
from loadsheet.mapping.documents import Document

GOLDEN = Path(__file__).parent / "golden"
REWRITE = os.environ.get("LOADSHEET_REWRITE") == "1"

REFUSED = {  # the codes of the problems, by key, of what is refused
    "acme-flat": {"A-4506": "C306", "A-4512": "C302", "A-4517": "G406", "A-4521": "G401"},
    "nordic-join": {"00833": "G404", "00883": "G403", "00895": "G406", "00902": "C306", "00905": "C302"},
    "harbour-two-sheets": {
        "HLT-26-0147": "R207", "HLT-26-0152": "G406", "HLT-26-O152": "G404", "HLT-26-0158": "C313", "HLT-26-0163": "C308",
    },
    "carrier-status": {"00896": "C305", "A-4515": "C306"},
    "spring-tenders": {"LSC-SP26-007": "C302", "LSC-SP26-012": "C306", "LSC-SP26-016": "C306"},
    "carrier7-quotes": {"LSC-SP26-013/CARRIER7": "C302"},
    "quote-confirmations": {"LSC-SP26-006/CARRIER7": "C306"},
    "tender-updates": {"LSC-SP26-005": "C304"},
    "tender-withdrawals": {},
    "order-updates": {"HLT-26-0145": "C304"},
    "order-deletes": {"": "G405"},
    "brightwater-pairs": {"BW-7004": "C313", "BW-7005": "C302", "BW-7006": "G406"},
    "kastell-records": {"": "G408", "K-3303": "C306"},
    "lindqvist-changes": {"LQ-504": "K501", "LQ-505": "C306"},
    "alder-parcels": {"AF-13": "C307"},
    "birch-parcels": {"": "G408", "B-91": "C302"},
    "terracotta-nested": {"TI-63": "G404"},
    "quayline-milestones": {"TI-61": "C304"},
}  # fmt: skip


def line(item) -> bytes:
    """One golden line; the payload stands in it as its bytes are."""
    if not isinstance(item, Document):
        return text({"ignored": item.rule, "rows": rows([item.row])})
    parts = [b'"operation":' + text(item.operation), b'"key":' + text(item.key)]
    if item.usable:
        parts.append(b'"payload":' + item.payload)
    if item.problems:
        parts.append(b'"problems":' + text([[problem.code, str(problem.where)] for problem in item.problems]))
    return b"{" + b",".join([*parts, b'"rows":' + text(rows(item.rows))]) + b"}"


def rows(source) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in source:
        found.setdefault(row.table, []).append(row.number)
    return found


def text(value) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# ---- all samples ----


def test_every_sample_file_finds_its_mapping_and_every_mapping_a_sample():
    mappings = [drop.route.mapping for drop in routed().drops]
    assert not routed().aside
    assert not routed().routes.waiting
    assert sorted(mapping.name for mapping in mappings) == NAMES == sorted(REFUSED)
    assert {mapping.operation.name for mapping in mappings} == set(SENDING_ORDER)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_gives_its_golden_documents(name):
    found = b"".join(line(item) + b"\n" for item in sample(name).items)
    golden = GOLDEN / f"{name}.jsonl"
    if REWRITE:
        golden.write_bytes(found)
    assert found.splitlines() == golden.read_bytes().splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_only_the_honest_mistakes_are_refused_and_every_row_is_in_one_document_or_ignored(name):
    found = sample(name)
    assert found.usable
    for item in found.usable:
        assert checker(BY_NAME[item.operation], Assumptions())(json.loads(item.payload, parse_float=Decimal)) == ()
    refused = [item for item in found.documents if not item.usable]
    codes = sorted((item.key, code) for item in refused for code in {problem.code for problem in item.problems})
    assert codes == sorted(REFUSED[name].items())
    assert all(one.where.row and one.where.column for item in refused for one in item.problems)
    came = Counter((table, row.number) for table, read in found.tables.items() for row in read.rows())
    told = Counter(
        (row.table, row.number)
        for item in found.items
        for row in (item.own_rows if isinstance(item, Document) else (item.row,))
    )
    assert told == came
    assert set(told.values()) == {1}


# ---- at the exchange ----


def test_the_exchange_accepts_every_payload_but_those_for_unknown_records(tmp_path):
    with embedded(tmp_path / "exchange.db") as exchange:
        refused = {}
        every = [item for name in REFUSED for item in sample(name).usable]
        for name in SENDING_ORDER:
            operation = BY_NAME[name]
            if name == "order.delete":
                created = [item.payload for item in every if item.operation == "order.create"]
                updated = {item.key for item in every if item.operation == "order.update"}
                assert_listed(exchange, created, but=updated)
            for item in (item for item in every if item.operation == name):
                answer = exchange.send_body(name, operation.body([item.payload]))
                assert answer.status in {200, 400}, answer.raw
                if answer.status == 400:
                    refused.setdefault(name, set()).add(item.key)
    assert refused == {
        "tender.quote": {"LSC-SP26-112/CARRIER7"},
        "tender.confirm": {"LSC-SP26-001/NSTAR"},
        "order.update": {"HLT-26-0999", "LQ-599"},
        "order.status": {"A-4599", "00991"},
        "order.delete": {"HLT-26-0099"},
        "tender.delete": {"LSC-SP26-047"},
    }


def assert_listed(exchange, created: list[bytes], *, but: set[str]) -> None:
    """The listing holds every created order as it was mapped, numbers digit by digit."""
    held = {order["order_id"]: order for order in exchange.orders()}
    assert len(held) == len(created)
    for payload in created:
        order = json.loads(payload, parse_float=Decimal)
        if order["order_id"] not in but:
            assert repr(held[order["order_id"]]) == repr(order)


def test_more_than_a_hundred_events_travel_in_one_call_in_time_order_but_for_those_of_strangers(tmp_path):
    found, operation = sample("carrier-status"), BY_NAME["order.status"]
    events = [json.loads(item.payload, parse_float=Decimal) for item in found.usable]
    times: dict[str, list[str]] = {}
    for event in events:
        times.setdefault(event["order_id"], []).append(event["status_datetime"])
    assert all(moments == sorted(moments) for moments in times.values())
    assert (found.mapping.batch_size, len(events)) == (120, 128)
    assert body_checker(operation, Assumptions())({"data": events[:120]}) == ()
    batch = found.usable[:120]
    with embedded(tmp_path / "exchange.db") as exchange:
        for item in [*sample("acme-flat").usable, *sample("nordic-join").usable]:
            assert exchange.send_body("order.create", item.payload).status == 200
        answer = exchange.send_body("order.status", operation.body([item.payload for item in batch]))
        strangers = {f"data[{index}]" for index, item in enumerate(batch) if item.key in {"A-4599", "00991"}}
        assert (answer.status, answer.body["errors"].keys()) == (400, strangers)
        known = [item.payload for item in batch if item.key not in {"A-4599", "00991"}]
        assert len(known) > 100
        assert exchange.send_body("order.status", operation.body(known)).status == 200

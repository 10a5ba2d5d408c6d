"""The exchange as a stranger meets it: curl against `loadsheet exchange serve`, every word kept in transcript.txt.

LOADSHEET_REWRITE=1 writes the transcript anew; read the difference before you commit it.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from exchange_calls import encode
from exchange_process import TOKEN, exchange
from payload_examples import CONFIRMATION, EVENT, GOOD, ORDER, PARTIES, QUOTE, TENDER

from loadsheet.contract import BY_NAME, OPERATIONS, Operation

TRANSCRIPT = Path(__file__).with_name("transcript.txt")
CURL = shutil.which("curl")

LISTINGS = {"tender.list": "?record=tender", "order.list": ""}
STORY: tuple[tuple[str, object], ...] = (  # operation and its bad body, in an order in which each good body can succeed
    ("tender.create", {"tender_id": "T-1", **PARTIES, "packages": [{"item_name": "Schrauben", "weight": "6,25"}]}),
    ("tender.update", {**TENDER, "tender_status": 5, "createdon": "01.03.2026"}),
    ("tender.quote", {**QUOTE, "tender_id": "T-9"}),
    ("tender.confirm", {name: CONFIRMATION[name] for name in CONFIRMATION if name != "status"}),
    ("tender.list", "page_size=none"),
    ("tender.delete", {"order_id": "SO-1001"}),
    ("order.create", {**{name: ORDER[name] for name in ORDER if name != "currency"}, "total_weight": "12,5"}),
    ("order.update", {"order_id": "SO-9", **PARTIES, "timezone": "Mars/One"}),
    ("order.status", {"data": [EVENT, {**EVENT, "order_id": "SO-9"}, {"status_datetime": "2026-03-01 09:30:00"}]}),
    ("order.list", "page_size=0"),
    ("order.delete", {"order_id": "SO-9"}),
)


def curl(url: str, operation: Operation, given: object, *, authorised: bool) -> str:
    """What curl prints for a call, under the command line that a person would type."""
    words = ["-X", operation.method] if operation.is_write else []
    query = "" if operation.is_write else LISTINGS[operation.name]
    if isinstance(given, str) and given:
        query += f"{'&' if query else '?'}{given}"
    header = ["-H", "Authorization: Bearer {token}"] if authorised else []
    body = ["-d", encode(given).decode()] if operation.is_write else []
    words += ["{url}" + operation.path + query, *header, *body]
    typed = " ".join(f"'{word}'" if set(word) & set(' {"&?') else word for word in words)
    real = [word.replace("{url}", url).replace("{token}", TOKEN) for word in words]
    done = subprocess.run([CURL, "--silent", "--include", "--max-time", "20", *real], capture_output=True, check=True)
    said = done.stdout.decode().replace("\r\n", "\n")
    return f"$ curl -i {typed}\n" + "\n".join(line for line in said.split("\n") if not line.startswith("date: "))


@pytest.mark.skipif(CURL is None and not os.environ.get("CI"), reason="curl is not installed here; CI has it")
def test_curl_hears_what_the_transcript_says(tmp_path):
    assert {name for name, _ in STORY} == {operation.name for operation in OPERATIONS}
    written = []
    with exchange(tmp_path / "exchange.db") as serving:
        for name, bad in STORY:
            operation = BY_NAME[name]
            calls = (
                ("unauthorised", GOOD.get(name, ""), "401"),
                ("bad", bad, "400"),
                ("good", GOOD.get(name, ""), "200"),
            )
            for kind, given, status in calls:
                said = curl(serving.url, operation, given, authorised=kind != "unauthorised")
                assert said.split("\nHTTP/1.1 ")[1].startswith(status), said
                assert json.loads(said.split("\n\n", 1)[1])
                written.append(f"## {name}, {kind}\n{said}\n")
    transcript = "\n".join(written)
    if os.environ.get("LOADSHEET_REWRITE"):
        TRANSCRIPT.write_text(transcript, encoding="utf-8")
    assert TRANSCRIPT.read_text(encoding="utf-8") == transcript

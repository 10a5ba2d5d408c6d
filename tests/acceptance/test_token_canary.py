"""The token is told to the exchange and to nobody else, even where that sends it back in everything it says."""

import json
from zipfile import ZipFile

import pytest
from orders import MAPPINGS, order_id, write_orders
from scripted import Move, Scripted, answer
from warm import loadsheet

from loadsheet.contract import BY_NAME, Fault, refusal

CANARY = "canary-5d21e8f04b"
CREATE = BY_NAME["order.create"]
GOOD = {"CUSTOMER_ORDER": "x", "SERVICE_ORDER": "1"}


def echoes(token):
    """Answers to a create that all hold the token, one after the other."""
    return [
        answer(400, refusal(CREATE, [Fault("pickup_city", f"{token} may not")])),
        answer(400, f"<html>{token}</html>".encode()),
        answer(500, token.encode()),
        answer(200, {"status": False, "message": token, "data": {}}),
        answer(200, {"status": True, "message": "ok", "data": {"order_id": {"orders_data": [{**GOOD, "CUSTOMER_ORDER": token}]}}}),
        answer(200, {"status": token}),
        answer(302, token.encode(), f"Location: /{token}\r\n"),
    ]  # fmt: skip


def speaks_of_it(broken):
    """An exchange that repeats the token wherever it can; its listing shows it as a key, or fails with it."""

    def move(number, request):
        token = request.headers["authorization"].split()[-1]

        def act(connection, request):
            if request.method == "GET":
                shown = {
                    "results": [{"order_id": token, "currency": token}],
                    "count": 1,
                    "total_count": 1,
                    "total_pages": 1,
                }
                connection.sendall(answer(broken, token.encode()) if broken else answer(200, shown))
            else:
                said = echoes(token)
                connection.sendall(said[number % len(said)])
            return True

        return Move(act)

    return move


@pytest.mark.parametrize("broken", [0, 404])
def test_no_output_of_any_command_holds_the_token(tmp_path, broken):
    write_orders(tmp_path / "inbox", 14)
    with Scripted(speaks_of_it(broken)) as server:
        where = ("--exchange", server.url)
        given = {
            "LOADSHEET_TOKEN": CANARY,
            "LOADSHEET_CANARY": "0",
            "LOADSHEET_CONNECTIONS": "1",
            "LOADSHEET_UNKNOWN_MAX": "100",
        }
        commands = [
            ("run", "--settle", "0", "--mappings", MAPPINGS, *where, "--json"),
            ("run", "--settle", "0", "--mappings", MAPPINGS, *where),
            ("doctor", "--mappings", MAPPINGS, *where, "--json"),
            ("resolve", *where),
            ("resolve", *where, "--json"),
            ("retry", "--refused", "--dry-run", "--json"),
            ("show", order_id(0), "--payload"),
            ("show", order_id(3), "--json"),
            ("runs", "--json"),
            ("retry", "--refused", "--comment", "again"),
            ("run", "--settle", "0", "--mappings", MAPPINGS, *where, "--json"),
            ("check", "--mappings", MAPPINGS, "--json", tmp_path / ".loadsheet"),
            ("config", "--all", "--origin"),
            ("config", "--all", "--json"),
            ("run", "--dry-run", "--mappings", MAPPINGS, *where, "--json"),
        ]
        done = [loadsheet(tmp_path, *words, **given) for words in commands]
        assert any(CANARY in request.headers["authorization"] for request in server.requests)
    assert 70 not in {each.returncode for each in done}, done
    first = json.loads(done[0].stdout)
    assert {"refused", "unknown"} <= first["entries"].keys(), "the answers were met"
    assert [each.args for each in done if CANARY in each.stdout + each.stderr] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 6
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []
    assert [path for path in files if path.suffix == ".xlsx" and leaks(path)] == []


def leaks(workbook):
    """Whether the token stands in a workbook, which is packed."""
    with ZipFile(workbook) as parts:
        return any(CANARY.encode() in parts.read(name) for name in parts.namelist())

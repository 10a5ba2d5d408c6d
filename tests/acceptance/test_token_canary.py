"""The token is told to the exchange and to nobody else, even where that sends it back in everything it says."""

import json
from zipfile import ZipFile

import pytest
from exchange_process import exchange
from notification_servers import web
from orders import order_id
from scripted_exchange import Move, Scripted, answer

from loadsheet.contract import BY_NAME, Fault, refusal_body

CANARY = "canary-5d21e8f04b"
CREATE = BY_NAME["order.create"]
GOOD = {"CUSTOMER_ORDER": "x", "SERVICE_ORDER": "1"}


def echoes(token):
    """Answers to a create that all hold the token, one after the other."""
    return [
        answer(400, refusal_body(CREATE, [Fault("pickup_city", f"{token} may not")])),
        answer(400, f"<html>{token}</html>".encode()),
        answer(500, token.encode()),
        answer(200, {"status": False, "message": token, "data": {}}),
        answer(200, {"status": True, "message": "ok", "data": {"order_id": {"orders_data": [{**GOOD, "CUSTOMER_ORDER": token}]}}}),
        answer(200, {"status": token}),
        answer(302, token.encode(), f"Location: /{token}\r\n"),
    ]  # fmt: skip


def escaped(said, token):
    """An answer with the token as JSON may write it; HTTP's own length is set again."""
    head, _, body = said.partition(b"\r\n\r\n")
    body = body.replace(token.encode(), "".join(f"\\u{ord(sign):04X}" for sign in token).encode())
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


def speaks_of_it(broken, escape):
    """An exchange that repeats the token wherever it can; its listing shows it as a key, or fails with it."""

    def move(number, request):
        token = request.headers["authorization"].split()[-1]

        def act(connection, request):
            if request.method == "GET":
                listed = {"results": [{"order_id": token, "currency": token}]}
                listed |= dict.fromkeys(["count", "total_count", "total_pages"], 1)
                said = answer(broken, token.encode()) if broken else answer(200, listed)
            else:
                said = echoes(token)[number % len(echoes(token))]
            connection.sendall(escaped(said, token) if escape else said)
            return True

        return Move(act)

    return move


HOW = [
    pytest.param({"broken": 404, "escape": False}, id="as it is", marks=pytest.mark.journey),
    pytest.param({"broken": 0, "escape": True}, id="escaped and listed as a key", marks=pytest.mark.sweep),
]


@pytest.mark.parametrize("how", HOW)
def test_no_output_of_any_command_holds_the_token(workspace, how):
    workspace.write_orders(14)
    with Scripted(speaks_of_it(**how)) as server, web() as collector:
        where = ("--exchange", server.url)
        workspace.variables |= {
            "LOADSHEET_TOKEN": CANARY,
            "LOADSHEET_DISPATCH__CANARY": "0",
            "LOADSHEET_DISPATCH__CONNECTIONS": "1",
            "LOADSHEET_DISPATCH__UNKNOWN_MAX": "100",
            "LOADSHEET_MONITORING__LOG_LEVEL": "debug",
            "LOADSHEET_MONITORING__METRICS_FILE": str(workspace / "loadsheet.prom"),
            "LOADSHEET_MONITORING__OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
        }
        commands = [
            ("run", *where, "--json"),
            ("run", *where),
            ("doctor", *where, "--json"),
            ("resolve", *where),
            ("resolve", *where, "--json"),
            ("retry", "--refused", "--dry-run", "--json"),
            ("show", order_id(0), "--payload"),
            ("show", order_id(3), "--json"),
            ("runs", "--json"),
            ("retry", "--refused", "--comment", "again"),
            ("run", *where, "--json"),
            ("check", "--json", ".loadsheet"),
            ("config", "--all", "--origin"),
            ("config", "--all", "--json"),
            ("run", "--dry-run", *where, "--json"),
        ]
        done = [workspace.command(*words) for words in commands]
        assert any(CANARY in request.headers["authorization"] for request in server.requests)
    assert [(each.args, each.stdout, each.stderr) for each in done if each.returncode == 70] == []
    assert {"refused", "unknown"} <= json.loads(done[0].stdout)["entries"].keys(), "the answers were met"
    assert [each.args for each in done if CANARY in each.stdout + each.stderr] == []
    assert holding(workspace, CANARY) == []
    assert ("call answered" in done[0].stderr, (workspace / "loadsheet.prom").exists()) == (True, True)
    traced = b"".join(body for *_, body, _ in collector.got)
    assert (traced != b"", CANARY.encode() in traced) == (True, False)


def holding(workspace, token):
    """The files in which it stands, in workbooks as well."""
    files = [path for path in workspace.folder.rglob("*") if path.is_file()]
    assert len(files) > 6
    return [path for path in files if token.encode() in path.read_bytes() or (path.suffix == ".xlsx" and leaks(path))]


def leaks(workbook):
    """Whether the token stands in a workbook, which is packed."""
    with ZipFile(workbook) as parts:
        return any(CANARY.encode() in parts.read(name) for name in parts.namelist())


def test_a_wrong_token_stands_in_no_file_and_no_output_and_may_come_from_a_file(workspace, tmp_path):
    workspace.write_orders(3, first=1, wrong_every=2)
    (workspace / "token").write_text(f"{CANARY}\n", encoding="utf-8")
    with exchange(tmp_path / "exchange.db", token=CANARY) as served:
        words = ("--exchange", served.url)
        done = [workspace.run(*words, LOADSHEET_TOKEN=f"{CANARY}-wrong")]
        done.append(workspace.command("doctor", *words, LOADSHEET_TOKEN=f"{CANARY}-wrong"))
        done += [workspace.run(*words, LOADSHEET_TOKEN="", LOADSHEET_TOKEN_FILE=name) for name in ("nowhere", "token")]
    (workspace / "token").unlink()
    assert [each.returncode for each in done] == [77, 1, 78, 1]
    assert all(CANARY not in each.stdout + each.stderr for each in done)
    assert holding(workspace, CANARY) == []
    done = workspace.command("exchange", "serve", "--port", "0", LOADSHEET_TOKEN="")
    assert (done.returncode, done.stdout, "LOADSHEET_TOKEN" in done.stderr) == (78, "", True)

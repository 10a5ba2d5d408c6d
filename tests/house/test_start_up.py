"""What a command loads before it works: nothing that it has no use for. All in one process, each command after the lighter ones."""

import csv
import json
import os
import subprocess
import sys

import click

from loadsheet.cli import COMMANDS, loadsheet
from loadsheet.ledger import open_ledger

MAPPING = """\
mapping: plain
version: 1
target: order.update
source: {files: ["*.csv"], locale: en_GB, timezone: Europe/Berlin}
columns:
  id:     {label: ID, required: true, key: true}
  weight: {label: Weight, type: quantity, unit: kg}
payload:
  order_id: {col: id}
  sender_id: {value: S}
  receiver_id: {value: R}
  total_weight: {col: weight}
"""
COUNTING = """\
import json, sys
from loadsheet.cli import invoke
loaded = {}
for name, words in json.loads(sys.argv[1]):
    code = invoke(words)
    loaded[name] = [code, sorted(sys.modules)]
from loadsheet.mapping import expressions
from rule_engine import Rule
loaded["grammar"] = sorted({str(production.file) for production in Rule.parser._parser.productions})
print("\\n" + json.dumps(loaded))
"""
FOR_A_LOOK = {"pandas", "numpy", "duckdb", "pint", "rule_engine", "babel", "ruamel", "openpyxl", "xlsxwriter", "xlrd", "jinja2", "leather"} | {
    "requests", "httptools", "starlette", "uvicorn", "holidays", "alembic", "watchdog", "apprise", "opentelemetry", "prometheus_client",
    "filelock", "rich", "structlog",
}  # fmt: skip
FOR_HELP = FOR_A_LOOK | {
    "asyncio",
    "pydantic",
    "sqlalchemy",
    "loadsheet.contract",
    "loadsheet.ledger",
    "loadsheet.settings",
}
FOR_A_RUN = {"pandas", "numpy", "duckdb", "pint", "rule_engine", "openpyxl", "xlrd", "holidays", "watchdog"} | {
    "starlette", "uvicorn", "sqlalchemy.dialects.postgresql",
}  # fmt: skip


def helps():
    """The words for the help of every command, with those in groups."""
    context = click.Context(loadsheet)
    for name in COMMANDS:
        command = loadsheet.get_command(context, name)
        yield [name, "--help"]
        yield from ([name, inner, "--help"] for inner in getattr(command, "commands", ()))


def test_no_command_loads_what_it_has_no_use_for(tmp_path):
    """M13: the mapping of the run has no expression and no unit but our own, its rows need no sort on disk, the exchange is another's and
    the ledger a file.
    """
    for folder in ("mappings", "inbox"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mappings" / "plain.yaml").write_text(MAPPING, encoding="utf-8")
    with (tmp_path / "inbox" / "one.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["ID", "Weight"], ["", "12.5 lb"]])
    (tmp_path / "state").mkdir()
    with open_ledger(f"sqlite:///{tmp_path / 'state' / 'ledger.db'}"):
        pass
    state = ["--state", str(tmp_path / "state")]
    run = ["run", *state, "--settle", "0", "--exchange", "http://127.0.0.1:9"]
    for name in ("inbox", "mappings", "outbox"):
        run += [f"--{name}", str(tmp_path / name)]
    commands = [
        *((" ".join(words), words) for words in helps()),
        ("runs", ["runs", *state]),
        ("show", ["show", "1", *state]),
        ("check", ["check", "--mappings", str(tmp_path / "mappings"), str(tmp_path / "inbox" / "one.csv")]),
        ("run", run),
    ]
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"LOADSHEET_TOKEN": "a-token"},
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    for words in helps():
        name = " ".join(words)
        assert loaded[name][0] == 0, name
        assert not FOR_HELP.intersection(loaded[name][1]), name
    for name in ("runs", "show"):
        assert not FOR_A_LOOK.intersection(loaded[name][1]), name
    for name in ("check", "run"):
        assert not FOR_A_RUN.intersection(loaded[name][1]), name
    assert [loaded[name][0] for name in ("runs", "show", "check", "run")] == [0, 1, 65, 65], done.stderr
    assert set(loaded["grammar"]) == {"", "None"}  # tables that ply makes itself name the grammar's source

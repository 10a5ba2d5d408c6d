"""What a command loads before it works: nothing that it has no use for. All in one process, each command after the lighter ones."""

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
FOR_A_LOOK = {"pandas", "numpy", "duckdb", "pint", "rule_engine", "babel", "yaml", "openpyxl", "xlsxwriter", "xlrd", "jinja2", "leather"} | {
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
    "starlette", "uvicorn", "sqlalchemy.dialects.postgresql", "loadsheet.forecasts",
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
    for folder in ("mappings", "inbox", "state"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mappings" / "plain.yaml").write_text(MAPPING, encoding="utf-8")
    (tmp_path / "inbox" / "one.csv").write_text("ID,Weight\n,12.5 lb\n", encoding="utf-8")
    with open_ledger(f"sqlite:///{tmp_path / 'state' / 'ledger.db'}"):
        pass
    tried = {
        "runs": ("--state state", 0, FOR_A_LOOK),
        "show": ("1 --state state", 1, FOR_A_LOOK),
        "check": ("--mappings mappings inbox/one.csv", 65, FOR_A_RUN),
        "run": ("--state state --outbox outbox --settle 0 --exchange http://127.0.0.1:9", 65, FOR_A_RUN),
    }
    tried = {" ".join(words): ("", 0, FOR_HELP) for words in helps()} | tried
    commands = [[name, [*name.split(), *more.split()]] for name, (more, *_) in tried.items()]
    words = [sys.executable, "-c", COUNTING, json.dumps(commands)]
    given = os.environ | {"LOADSHEET_TOKEN": "a-token"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path, env=given)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert set(loaded.pop("grammar")) == {"", "None"}  # tables that ply makes itself name the grammar's source
    assert loaded.keys() == tried.keys()
    for name, (_, code, useless) in tried.items():
        assert loaded[name][0] == code, (name, done.stderr)
        assert not useless.intersection(loaded[name][1]), name

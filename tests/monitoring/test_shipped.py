"""The files for other programs: each is loaded as its program loads it, and asks only for what exists."""

import asyncio
import gc
import importlib
import itertools
import json
import re
import warnings
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml
from monitored_runs import Exchange, house, order_id
from prometheus_client.parser import text_string_to_metric_families
from run_with_every_outcome import every_outcome
from shared_ledger import a_fleet

from loadsheet.cli.deploy import monitoring_file
from loadsheet.ledger import ExceptionStatus
from loadsheet.operations.metrics import collect_cluster_metrics, exposition


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The names of all samples that a real night exports, and the labels of each."""
    folder = tmp_path_factory.mktemp("house")
    with house(folder, Exchange(refused=[order_id(1)]), metrics_file=folder / "m.prom") as here:
        here.night(3)
    found = {}
    text = (folder / "m.prom").read_text(encoding="utf-8") + exposition([collect_cluster_metrics(a_fleet())]).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def asked(expression, exported):
    """Compare an expression's metrics and labels with those that exist; returns the metrics."""
    used = set(re.findall(r"loadsheet_\w+", expression))
    assert used
    assert used <= exported.keys(), expression
    labels = {label for metric in used for label in exported[metric]} | {"instance", "job"}
    matched = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    grouped = ",".join(re.findall(r"(?:by|on)\s*\(([^)]*)\)", expression))
    assert {*matched, *re.findall(r"\w+", grouped)} <= labels, expression
    return used


def test_the_dashboard_asks_for_what_is_exported_and_shows_all_of_it(exported):
    board = json.loads(monitoring_file("grafana.json"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used = {one: asked(one, exported) for one in expressions}
    assert set().union(*used.values()) == exported.keys(), "what nobody looks at need not be exported"
    of_one = [one for one, names in used.items() if "shipper" in set().union(*(exported[name] for name in names))]
    assert all('shipper=~"$shipper"' in expression for expression in of_one)
    assert len(of_one) >= len(used) - 7, "only what is the whole fleet's belongs to no shipper"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert {variable["name"] for variable in board["templating"]["list"]} == {"source", "shipper"}
    taken = set()
    for panel in board["panels"]:
        left, top, width, height = (panel["gridPos"][name] for name in "xywh")
        cells = set(itertools.product(range(left, left + width), range(top, top + height)))
        assert left + width <= 24
        assert not cells & taken, f"{panel['title']} covers another one"
        taken |= cells


def test_the_alerts_ask_for_what_is_exported(exported):
    groups = yaml.safe_load(monitoring_file("prometheus-alerts.yml"))["groups"]
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    assert len(rules) == sum(len(group["rules"]) for group in groups)
    used = set().union(*(asked(rule["expr"], exported) for rule in rules.values()))
    wanted = ("last_success_timestamp_seconds", "oldest_unsent_seconds", "unknown_entries", "last_run_exit_code")
    assert {f"loadsheet_{name}" for name in wanted} <= used
    for rule in rules.values():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
    waiting = [rule["expr"] for rule in rules.values() if "oldest_waiting" in rule["expr"]]
    assert len(waiting) == 2
    assert all('(loadsheet_fleet_queue{state="under way"})) == 0' in expression for expression in waiting)
    codes = re.findall(r"loadsheet_last_run_exit_code == (\d+)", monitoring_file("prometheus-alerts.yml"))
    assert {int(code) for code in codes} == {65, 70, 75, 77, 78}, "each that stops a shipper"


# questions about the ledger


@pytest.fixture
def questions(tmp_path):
    """The answers of Datasette to every canned question about a real ledger in which something happened."""
    with every_outcome(tmp_path) as filled:
        ledger, run, since = filled.ledger, filled.run, "2026-02-20T02:15:00.000Z"
        open_ones = [ledger.queries.entries_by_key(key)[-1] for key in ("A-00002", "A-00003", "A-00020")]
        ledger.record_exceptions(run, [ExceptionStatus(one.id, run.name, since, "refused") for one in open_ones])
        ledger.end_run(run, exit_code=70, summary={})
        ledger.begin_run()
    with left_open():
        return asyncio.run(_answers(tmp_path / "ledger.db"))


@contextmanager
def left_open():
    """What the block leaves to the collector is collected without the warnings of Python 3.13 about open databases: datasette closes none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


async def _answers(ledger):
    app, utils = importlib.import_module("datasette.app"), importlib.import_module("datasette.utils")
    metadata = utils.parse_metadata(monitoring_file("datasette.yaml"))
    served = app.Datasette([], immutables=[str(ledger)], metadata=metadata, settings={"num_sql_threads": 0})
    await served.invoke_startup()
    queries = await served.get_canned_queries("ledger", None)
    assert queries.keys() == metadata["databases"]["ledger"]["queries"].keys()
    found = {}
    for name in queries:
        parameters = urlencode({"_shape": "array", "key": "A-00002"})
        answer = await served.client.get(f"/ledger/{name}.json?{parameters}")
        assert answer.status_code == 200, answer.text
        page = await served.client.get(f"/ledger/{name}?key=A-00002")
        assert page.status_code == 200
        assert queries[name]["title"] in page.text
        found[name] = answer.json()
    for database in served.databases.values():
        database.close()
    return found


def test_the_questions_of_an_operator_are_answered_from_the_ledger(questions):
    assert [(row["exit_code"], row["meaning"]) for row in questions.pop("failed_runs")] == [
        (None, "did not end"),
        (70, "an internal error, or rows do not balance"),
    ]
    (row,) = questions.pop("open_by_shipper_and_age")
    ages = ("days_0_to_1", "days_2_to_7", "days_8_to_30", "days_over_30")
    assert (row["shipper"], row["open"], sum(row[age] for age in ages)) == ("acme", 3, 3)
    assert row["oldest_days"] > 8
    rows = questions.pop("history_of_key")
    steps = [("", "ready"), ("ready", "sending"), ("sending", "refused")]
    assert [(row["before"], row["after"]) for row in rows] == steps
    assert {row["file"] for row in rows} == {"acme_2026-03-04.xlsx"}
    (row,) = questions.pop("refused_by_reason")
    assert (row["operation"], row["records"], row["for_example"]) == ("order.create", 1, "A-00002")
    times = [row["duration_ms"] for row in questions.pop("slowest_calls")]
    assert times == sorted(times, reverse=True)
    assert times[0] == 60_000
    (row,) = questions.pop("unknown")
    assert (row["key"], row["attempts"], row["reason"]) == ("A-00003", 1, "no answer within 60 s")
    assert questions == {}


def test_the_guide_names_every_metric_that_is_exported_and_no_other(exported):
    guide = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    families = {re.sub(r"_(bucket|count|sum|total|created)$", "", name) for name in exported}
    assert set(re.findall(r"`(loadsheet_\w+)`", guide)) == families

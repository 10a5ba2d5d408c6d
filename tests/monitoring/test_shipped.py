"""The files for other programs: each is loaded as its program loads it, and asks only for what there is."""

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from datasette.app import Datasette
from datasette.utils import parse_metadata
from monitored_runs import Exchange, house, order_id
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from run_with_every_outcome import every_outcome
from shared_ledger import a_fleet

from loadsheet.deploy import monitoring_file
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
    """Hold an expression's metrics and labels against those that there are; returns the metrics."""
    used = set(re.findall(r"loadsheet_\w+", expression))
    assert used
    assert used <= exported.keys(), expression
    labels = {label for metric in used for label in exported[metric]} | {"instance", "job"}
    matched = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    grouped = [
        name.strip() for group in re.findall(r"(?:by|on)\s*\(([^)]*)\)", expression) for name in group.split(",")
    ]
    assert {*matched, *grouped} <= labels, expression
    return used


def test_the_dashboard_asks_for_what_is_exported_and_shows_all_of_it(exported):
    board = json.loads(monitoring_file("grafana.json"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used = set().union(*(asked(expression, exported) for expression in expressions))
    assert used == exported.keys(), "what nobody looks at need not be exported"
    of_one = [
        one for one in expressions if "shipper" in set().union(*(exported[name] for name in asked(one, exported)))
    ]
    assert all('shipper=~"$shipper"' in expression for expression in of_one)
    assert len(of_one) >= len(expressions) - 7, "only what is the whole fleet's is nobody's in particular"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert {variable["name"] for variable in board["templating"]["list"]} == {"source", "shipper"}


def test_no_panel_of_the_dashboard_covers_another():
    board = json.loads(monitoring_file("grafana.json"))
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_alerts_ask_for_what_is_exported(exported):
    rules = [
        rule
        for group in YAML(typ="safe").load(monitoring_file("prometheus-alerts.yml"))["groups"]
        for rule in group["rules"]
    ]
    used = set().union(*(asked(rule["expr"], exported) for rule in rules))
    wanted = ("last_success_timestamp_seconds", "oldest_unsent_seconds", "unknown_entries", "last_run_exit_code")
    assert {f"loadsheet_{name}" for name in wanted} <= used
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]


def test_no_alert_says_that_nothing_moves_while_something_is_under_way():
    groups = YAML(typ="safe").load(monitoring_file("prometheus-alerts.yml"))["groups"]
    waiting = [rule["expr"] for group in groups for rule in group["rules"] if "oldest_waiting" in rule["expr"]]
    assert len(waiting) == 2
    assert all('(loadsheet_fleet_queue{state="under way"})) == 0' in expression for expression in waiting)


def test_the_alerts_know_every_exit_code_that_stops_a_shipper():
    text = monitoring_file("prometheus-alerts.yml")
    assert {int(code) for code in re.findall(r"loadsheet_last_run_exit_code == (\d+)", text)} == {65, 70, 75, 77, 78}


# questions about the ledger


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """The answers of Datasette to every canned question about a real ledger in which something happened."""
    folder = tmp_path_factory.mktemp("ledger")
    with every_outcome(folder) as told:
        entries = {
            entry.key: entry
            for drop in told.ledger.queries.drops_of(told.run)
            for entry in told.ledger.queries.entries_of(drop.id)
        }
        open_ones = [entries[key] for key in ("A-00002", "A-00003", "A-00020")]
        told.ledger.record_exceptions(
            told.run,
            [ExceptionStatus(one.id, told.run.name, "2026-02-20T02:15:00.000Z", "refused") for one in open_ones],
        )
        told.ledger.end_run(told.run, exit_code=70, summary={})
        told.ledger.begin_run()
    return asyncio.run(_answers(folder / "ledger.db"))


async def _answers(ledger):
    metadata = parse_metadata(monitoring_file("datasette.yaml"))
    served = Datasette([], immutables=[str(ledger)], metadata=metadata)
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


def test_the_questions_are_those_an_operator_has(questions):
    assert questions.keys() == {
        "failed_runs",
        "open_by_shipper_and_age",
        "history_of_key",
        "refused_by_reason",
        "slowest_calls",
        "unknown",
    }


def test_the_questions_are_answered_from_the_ledger(questions):
    assert [(row["exit_code"], row["meaning"]) for row in questions["failed_runs"]] == [
        (None, "did not end"),
        (70, "an internal error, or rows do not balance"),
    ]
    (row,) = questions["open_by_shipper_and_age"]
    ages = ("days_0_to_1", "days_2_to_7", "days_8_to_30", "days_over_30")
    assert (row["shipper"], row["open"], sum(row[age] for age in ages)) == ("acme", 3, 3)
    assert row["oldest_days"] > 8
    rows = questions["history_of_key"]
    steps = [("", "ready"), ("ready", "sending"), ("sending", "refused")]
    assert [(row["before"], row["after"]) for row in rows] == steps
    assert {row["file"] for row in rows} == {"acme_2026-03-04.xlsx"}
    (row,) = questions["refused_by_reason"]
    assert (row["operation"], row["records"], row["for_example"]) == ("order.create", 1, "A-00002")
    times = [row["duration_ms"] for row in questions["slowest_calls"]]
    assert times == sorted(times, reverse=True)
    assert times[0] == 60_000
    (row,) = questions["unknown"]
    assert (row["key"], row["attempts"], row["reason"]) == ("A-00003", 1, "no answer within 60 s")


def test_the_guide_names_every_metric_that_is_exported_and_no_other(exported):
    guide = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    families = {re.sub(r"_(bucket|count|sum|total|created)$", "", name) for name in exported}
    assert set(re.findall(r"`(loadsheet_\w+)`", guide)) == families

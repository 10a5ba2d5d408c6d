"""Acknowledgements: the machine-readable answer to every file of every run."""

import csv
import json
import tempfile
import tracemalloc
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import jsonschema
from hypothesis import given, settings
from ledgers import (
    accepted,
    document,
    drop_of,
    ledger_in,
    listing,
    order,
    plan,
    refused,
    send,
    unknown,
    weight_problem,
)
from random_runs import delivered, run_files, views
from reported_runs import run_begun, written
from run_with_every_outcome import every_outcome

from loadsheet.ledger import Settlement, State
from loadsheet.reconcile import reconcile_run
from loadsheet.reports.acknowledgement import Acknowledgements, acknowledgement_schema
from loadsheet.settings import Settings

VALID = jsonschema.Draft202012Validator(json.loads(acknowledgement_schema()))


def create(number, *problems, rows=(("orders", 2, ("a",)),), **changes):
    return document("order.create", order(number, **changes), rows, *problems)


def creates(*numbers):
    return [create(number, rows=[("orders", number + 2, ("a",))]) for number in numbers]


def acknowledged(report):
    """All acknowledgements of a report by file; each keeps to the schema, and its CSV says the same."""
    found = {}
    for path in sorted((report.folder / "ack").glob("*.ack.json")):
        one = json.loads(path.read_bytes())
        VALID.validate(one)
        same_in_csv(one, path.with_name(path.name.removesuffix(".json") + ".csv"))
        assert f"ack/{path.name}" in report.summary.reports
        found[one["file"]] = one
    return found


def same_in_csv(one, path):
    with path.open(newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    lines = [dict(zip(head, line, strict=True)) for line in lines]
    expected = Counter({"file": 1, "group": len(one["groups"]), "record": len(one["records"])})
    assert Counter(line["level"] for line in lines) == +expected
    assert (lines[0]["code"], lines[0]["control"], lines[0]["sha256"]) == (one["code"], one["control"], one["sha256"])
    codes = [(line["code"], line["state"]) for line in lines if line["level"] == "record"]
    assert codes == [(record["code"], record["state"]) for record in one["records"]]


def test_each_file_is_answered_record_by_record_and_group_by_group(tmp_path):
    with every_outcome(tmp_path) as ended:
        answers = acknowledged(ended.write(tmp_path / "out"))
    one = answers["acme_2026-03-04.xlsx"]
    assert (one["control"], one["sequence"], one["supersedes"]) == (f"{ended.run.name}/1/1", 1, None)
    assert (one["code"], one["state"], one["final"], one["rows"]) == ("P", "partially accepted", False, 15)
    assert (one["received"], one["processed"]) == ("2026-03-04T02:14:50.000Z", "2026-03-04T02:20:00.000Z")
    counts = {"records": 7, "accepted": 2, "accepted_with_errors": 2, "rejected": 2, "waiting": 1}
    assert one["groups"] == [{"operation": "order.create", "code": "P", "state": "partially accepted", **counts}]
    records = {record["key"]: record for record in one["records"]}
    codes = {1: "A", 2: "R", 3: "W", 4: "E", 5: "E", 6: "A", 20: "R"}
    assert {key: record["code"] for key, record in records.items()} == {f"A-{n:05}": code for n, code in codes.items()}
    assert records["A-00001"]["number"].startswith("88")
    assert records["A-00020"]["rows"] == {"Aufträge": [20, 21]}
    assert [(problem["code"], problem["cell"]) for problem in records["A-00020"]["problems"]] == [("C302", "D20")]
    aside = answers["broken.xlsx"]
    assert (aside["code"], aside["final"], aside["groups"], aside["records"]) == ("R", True, [], [])
    assert aside["problems"][0]["text"] == "the file cannot be read: it is not a workbook"


def test_the_code_of_a_file_comes_from_those_of_its_records(tmp_path):
    answers = {
        "aa.csv": ((accepted, accepted), "A"),
        "rr.csv": ((refused, refused), "R"),
        "ar.csv": ((accepted, refused), "P"),
        "au.csv": ((accepted, unknown), "P"),
        "ru.csv": ((refused, unknown), "W"),
        "uu.csv": ((unknown, unknown), "W"),
    }
    by_key, warned = {}, create(99, weight_problem("warned.csv", 2, level="warning"))
    with run_begun(tmp_path) as (ledger, run, chosen):
        for first, (name, (given, _)) in enumerate(answers.items()):
            numbers = (2 * first, 2 * first + 1)
            by_key |= {f"A-{number:05}": answer for number, answer in zip(numbers, given, strict=True)}
            plan(ledger, run, drop_of(("orders", name), mapping=name), creates(*numbers))
        plan(ledger, run, drop_of(("orders", "warned.csv"), mapping="warned"), [warned])
        send(ledger, run, lambda one: by_key.get(one.key, accepted)(one))
        found = acknowledged(written(ledger, run, chosen, {"order": listing([order(0), order(1), order(99)])}))
    codes = {name: (code, unknown not in given) for name, (given, code) in answers.items()}
    assert {name: (one["code"], one["final"]) for name, one in found.items()} == {**codes, "warned.csv": ("E", True)}
    assert found["warned.csv"]["state"] == "accepted with errors"


def test_a_later_run_that_changes_a_record_acknowledges_the_file_again(tmp_path):
    with run_begun(tmp_path) as (ledger, first, chosen):
        plan(ledger, first, drop_of(("orders", "in.csv")), creates(0, 1))
        send(ledger, first, lambda one: unknown(one) if one.key.endswith("1") else None)
        before = acknowledged(written(ledger, first, chosen))["in.csv"]
        second = ledger.begin_run()
        waiting = next(iter(ledger.queries.entries_in(State.UNKNOWN)))
        ledger.settle(second, [Settlement(waiting.id, State.ACCEPTED, "listed", "8812")])
        after = acknowledged(written(ledger, second, chosen))["in.csv"]
    assert (before["sequence"], before["final"], before["groups"][0]["waiting"]) == (1, False, 1)
    assert (after["control"], after["sequence"]) == (before["control"], 2)
    assert after["supersedes"] == {"sequence": 1, "run": first.name}
    assert (after["run"], after["final"], after["groups"][0]["waiting"]) == (second.name, True, 0)


def dropped(ledger, chosen, names, *, sent):
    """The acknowledgement of each of these files, dropped with the same order in a run of its own."""
    for name in names:
        run = ledger.begin_run()
        plan(ledger, run, drop_of(("orders", name)), [create(1)])
        if sent:
            send(ledger, run)
        yield acknowledged(written(ledger, run, chosen))[name]


def test_a_file_dropped_twice_is_a_duplicate_and_is_accepted_only_if_the_first_was(tmp_path):
    with run_begun(tmp_path) as (ledger, _, chosen):
        first, *again = dropped(ledger, chosen, ["in.csv"] * 3, sent=True)
    assert [one["duplicate_of"] for one in (first, *again)] == ["", first["control"], first["control"]]
    assert [(one["code"], one["records"][0]["state"]) for one in again] == [("A", "unchanged")] * 2
    with run_begun(tmp_path / "waiting") as (ledger, _, chosen):
        waiting = list(dropped(ledger, chosen, ["in.csv", "again.csv"], sent=False))
    assert [(one["code"], one["records"][0]["state"], one["final"]) for one in waiting] == [
        ("W", "ready", False),
        ("W", "ready", True),
    ]


def test_files_read_together_are_each_acknowledged_with_their_own_rows(tmp_path):
    joined = create(1, rows=[("orders", 2, ("a",)), ("packages", 7, ("a",)), ("packages", 8, ("a",))])
    with run_begun(tmp_path) as (ledger, run, chosen):
        plan(ledger, run, drop_of(("orders", "orders.csv"), ("packages", "packages.csv")), [joined])
        found = acknowledged(written(ledger, run, chosen))
    assert {name: (one["control"].rpartition("/")[2], one["records"][0]["rows"]) for name, one in found.items()} == {
        "orders.csv": ("1", {"": [2]}),
        "packages.csv": ("2", {"": [7, 8]}),
    }


@settings(max_examples=10, deadline=None)
@given(run_files, views)
def test_every_record_of_any_run_is_acknowledged_once(files, view):
    with delivered(files, view) as (ledger, run, listings), tempfile.TemporaryDirectory() as folder:
        report = written(ledger, run, Settings(outbox=Path(folder)), listings)
        answers = acknowledged(report)
        states = Counter(record["state"] for one in answers.values() for record in one["records"])
        assert dict(states) == report.summary.entries
        names = {"A": "accepted", "E": "accepted_with_errors", "R": "rejected", "W": "waiting"}
        for one in answers.values():
            assert sum(group["records"] for group in one["groups"]) == len(one["records"])
            counts = Counter(record["code"] for record in one["records"])
            for code, name in names.items():
                assert sum(group[name] for group in one["groups"]) == counts[code]


def test_memory_does_not_grow_with_the_records(tmp_path):
    peaks = []
    for size in (300, 3000):
        folder = tmp_path / str(size)
        folder.mkdir()
        with ledger_in(folder) as ledger:
            run = ledger.begin_run()
            items = creates(*range(size))
            drop = plan(ledger, run, drop_of(("orders", "in.csv")), items)
            found = reconcile_run(ledger.queries, {}, run, Settings()).matches
            writing = Acknowledgements(ledger.queries, run, folder / "out", [drop])
            tracemalloc.start()
            with ExitStack() as stack:
                writing.open(drop, stack)
                for entry in ledger.queries.entries_of(drop.id):
                    writing.add(entry, found[entry.id])
                writing.finish()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < peaks[0] + 3_000_000

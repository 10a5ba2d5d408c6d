"""Acknowledgements: what every file of every run is answered with in machine form."""

import csv
import json
import tempfile
import tracemalloc
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
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
    unreadable,
    weight_problem,
)
from random_runs import nights, played, views
from run_with_every_outcome import night

from loadsheet.ledger import Settlement, State
from loadsheet.problems import Problem, Where
from loadsheet.reconcile import settle
from loadsheet.reports import write
from loadsheet.reports.acknowledgement import Acknowledgements, acknowledgement_schema
from loadsheet.settings import Settings

VALID = jsonschema.Draft202012Validator(json.loads(acknowledgement_schema()))


def reported(ledger, run, folder, listings=None):
    chosen = Settings(outbox=Path(folder))
    ended = replace(run, finished_at="2026-03-04T02:20:00.000Z")
    return write(ledger.queries, settle(ledger.queries, listings or {}, run, chosen), ended, chosen)


def one_drop(tmp_path, *items, tables=(("orders", "in.csv"),), listings=None):
    """The reports of a run of one drop, and its acknowledgements."""
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        plan(ledger, run, drop_of(*tables), items)
        send(ledger, run)
        report = reported(ledger, run, tmp_path / "out", listings)
    return report, acknowledged(report)


def create(number, *problems, rows=(("orders", 2, ("a",)),), **changes):
    return document("order.create", order(number, **changes), rows, *problems)


def acknowledged(report):
    """All acknowledgements of a report by file; each valid, and its CSV telling the same."""
    told = {}
    for path in sorted((report.folder / "ack").glob("*.ack.json")) if (report.folder / "ack").exists() else ():
        one = json.loads(path.read_bytes())
        VALID.validate(one)
        same_in_csv(one, path.with_name(path.name.removesuffix(".json") + ".csv"))
        assert f"ack/{path.name}" in report.summary.reports
        told[one["file"]] = one
    return told


def same_in_csv(one, path):
    with path.open(newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert {len(line) for line in lines} == {len(head)}
    lines = [dict(zip(head, line, strict=True)) for line in lines]
    assert (
        Counter(line["level"] for line in lines)
        == Counter({"file": 1, "group": len(one["groups"]), "record": len(one["records"])}) - Counter()
    )
    assert (lines[0]["code"], lines[0]["control"], lines[0]["sha256"]) == (one["code"], one["control"], one["sha256"])
    codes = [(line["code"], line["state"]) for line in lines if line["level"] == "record"]
    assert codes == [(record["code"], record["state"]) for record in one["records"]]


def test_a_file_is_answered_record_by_record_and_group_by_group(tmp_path):
    with night(tmp_path) as held:
        told = acknowledged(held.write(tmp_path / "out"))
    one = told["acme_2026-03-04.xlsx"]
    assert (one["control"], one["sequence"], one["supersedes"]) == (f"{held.run.name}/1/1", 1, None)
    assert (one["code"], one["state"], one["final"], one["rows"]) == ("P", "partially accepted", False, 15)
    assert (one["received"], one["processed"]) == ("2026-03-04T02:14:50.000Z", "2026-03-04T02:20:00.000Z")
    assert one["groups"] == [
        {
            "operation": "order.create",
            "code": "P",
            "state": "partially accepted",
            "records": 7,
            "accepted": 2,
            "accepted_with_errors": 2,
            "rejected": 2,
            "waiting": 1,
        }
    ]
    records = {record["key"]: record for record in one["records"]}
    assert {key: record["code"] for key, record in records.items()} == {
        "A-00001": "A",
        "A-00002": "R",
        "A-00003": "W",
        "A-00004": "E",
        "A-00005": "E",
        "A-00006": "A",
        "A-00020": "R",
    }
    assert records["A-00001"]["number"].startswith("88")
    assert records["A-00020"]["rows"] == {"Aufträge": [20, 21]}
    assert [(problem["code"], problem["cell"]) for problem in records["A-00020"]["problems"]] == [("C302", "D20")]


def test_a_file_set_aside_is_rejected_with_its_reason(tmp_path):
    with night(tmp_path) as held:
        one = acknowledged(held.write(tmp_path / "out"))["broken.xlsx"]
    assert (one["code"], one["final"], one["groups"], one["records"]) == ("R", True, [], [])
    assert one["problems"][0]["text"] == "the file cannot be read: it is not a workbook"


def test_the_code_of_a_file_comes_from_those_of_its_records(tmp_path):
    answers = {
        "aa.csv": ((accepted, accepted), "A"),
        "rr.csv": ((refused, refused), "R"),
        "ar.csv": ((accepted, refused), "P"),
        "au.csv": ((accepted, unknown), "P"),
        "ru.csv": ((refused, unknown), "W"),
        "uu.csv": ((unknown, unknown), "W"),
    }
    by_key = {}
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        for first, (name, (given, _)) in enumerate(answers.items()):
            numbers = (2 * first, 2 * first + 1)
            items = [document("order.create", order(number), [("orders", number + 2, ("a",))]) for number in numbers]
            by_key |= {f"A-{number:05}": answer for number, answer in zip(numbers, given, strict=True)}
            plan(ledger, run, drop_of(("orders", name), mapping=name), items)
        send(ledger, run, lambda one: by_key[one.key](one))
        told = acknowledged(reported(ledger, run, tmp_path / "out"))
    found = {name: (one["code"], one["final"]) for name, one in told.items()}
    assert found == {name: (code, unknown not in given) for name, (given, code) in answers.items()}


def test_warnings_make_it_accepted_with_errors(tmp_path):
    warned = create(1, weight_problem("in.csv", 2, level="warning"))
    one = one_drop(tmp_path, warned, listings={"order": listing([order(1)])})[1]["in.csv"]
    assert (one["code"], one["state"], one["records"][0]["code"]) == ("E", "accepted with errors", "E")


def test_a_later_run_that_changes_a_record_acknowledges_the_file_again(tmp_path):
    with ledger_in(tmp_path) as ledger:
        first = ledger.begin_run()
        items = [document("order.create", order(number), [("orders", number + 2, ("a",))]) for number in range(2)]
        plan(ledger, first, drop_of(("orders", "in.csv")), items)
        send(ledger, first, lambda one: unknown(one) if one.key.endswith("1") else None)
        before = acknowledged(reported(ledger, first, tmp_path / "out"))["in.csv"]
        second = ledger.begin_run()
        waiting = next(iter(ledger.queries.entries_in(State.UNKNOWN)))
        ledger.settle(second, [Settlement(waiting.id, State.ACCEPTED, "listed", "8812")])
        report = reported(ledger, second, tmp_path / "out")
        after = acknowledged(report)["in.csv"]
    assert (before["sequence"], before["final"], before["groups"][0]["waiting"]) == (1, False, 1)
    assert (after["control"], after["sequence"]) == (before["control"], 2)
    assert after["supersedes"] == {"sequence": 1, "run": first.name}
    assert (after["run"], after["final"], after["groups"][0]["waiting"]) == (second.name, True, 0)
    assert f"ack/in.csv.of-{first.name}.ack.json" in report.summary.reports


def test_a_file_dropped_twice_is_acknowledged_as_a_duplicate(tmp_path):
    with ledger_in(tmp_path) as ledger:
        controls = []
        for _ in range(3):
            run = ledger.begin_run()
            plan(ledger, run, drop_of(("orders", "in.csv")), [create(1)])
            send(ledger, run)
            controls.append(acknowledged(reported(ledger, run, tmp_path / "out"))["in.csv"])
    assert [one["duplicate_of"] for one in controls] == ["", controls[0]["control"], controls[0]["control"]]
    assert [(one["code"], one["records"][0]["state"]) for one in controls[1:]] == [("A", "unchanged")] * 2


def test_the_same_as_what_still_waits_is_no_acceptance(tmp_path):
    with ledger_in(tmp_path) as ledger:
        told = []
        for name in ("in.csv", "again.csv"):
            run = ledger.begin_run()
            plan(ledger, run, drop_of(("orders", name)), [create(1)])
            told.append(acknowledged(reported(ledger, run, tmp_path / "out"))[name])
    assert [(one["code"], one["records"][0]["state"], one["final"]) for one in told] == [
        ("W", "ready", False),
        ("W", "ready", True),
    ]


def test_files_read_together_are_each_acknowledged_with_their_own_rows(tmp_path):
    joined = create(1, rows=[("orders", 2, ("a",)), ("packages", 7, ("a",)), ("packages", 8, ("a",))])
    told = one_drop(tmp_path, joined, tables=(("orders", "orders.csv"), ("packages", "packages.csv")))[1]
    assert {name: (one["control"].rpartition("/")[2], one["records"][0]["rows"]) for name, one in told.items()} == {
        "orders.csv": ("1", {"": [2]}),
        "packages.csv": ("2", {"": [7, 8]}),
    }


def test_names_that_fold_alike_get_files_of_their_own(tmp_path):
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        for name in ("a/in.csv", "a__in.csv", "A__IN.csv"):
            ledger.set_aside(run, unreadable(name, Problem("R202", Where(name))))
        told = acknowledged(reported(ledger, run, tmp_path / "out"))
    assert set(told) == {"a/in.csv", "a__in.csv", "A__IN.csv"}


def test_control_characters_and_formulas_are_exact_in_the_json_and_harmless_in_the_csv(tmp_path):
    hidden, formula = "\x1b\x7f\x9b\u202e\u2066", "=cmd|' /C calc'!A0"
    keys = [f"A-1{hidden}", formula]
    report, told = one_drop(
        tmp_path, *(create(1, order_id=key, rows=[("orders", row, ("a",))]) for row, key in enumerate(keys, 2))
    )
    assert [record["key"] for record in told["in.csv"]["records"]] == keys
    for path in (report.folder / "ack").iterdir():
        assert not set(path.read_text(encoding="utf-8")) & set(hidden), path
    shown = (report.folder / "ack" / "in.csv.ack.csv").read_text(encoding="utf-8")
    assert "A-1\ufffd\ufffd" in shown
    assert f"'{formula}" in shown


@settings(max_examples=10, deadline=None)
@given(nights, views)
def test_every_record_is_acknowledged_once_whatever_the_night(some, view):
    with played(some, view) as (ledger, run, listings), tempfile.TemporaryDirectory() as folder:
        report = reported(ledger, run, folder, listings)
        told = acknowledged(report)
        states = Counter(record["state"] for one in told.values() for record in one["records"])
        assert dict(states) == report.summary.entries
        for one in told.values():
            assert sum(group["records"] for group in one["groups"]) == len(one["records"])
            counts = Counter(record["code"] for record in one["records"])
            names = {"A": "accepted", "E": "accepted_with_errors", "R": "rejected", "W": "waiting"}
            assert {code: sum(group[name] for group in one["groups"]) for code, name in names.items()} == {
                code: counts[code] for code in names
            }


def test_memory_does_not_grow_with_the_records(tmp_path):
    peaks = []
    for size in (300, 3000):
        folder = tmp_path / str(size)
        folder.mkdir()
        with ledger_in(folder) as ledger:
            run = ledger.begin_run()
            items = [
                document("order.create", order(number), [("orders", number + 2, ("a" * 50,))]) for number in range(size)
            ]
            drop = plan(ledger, run, drop_of(("orders", "in.csv")), items)
            found = settle(ledger.queries, {}, run, Settings()).matches
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

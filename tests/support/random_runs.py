"""Random runs: any mix of files, operations, mistakes and answers, in a real ledger."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import msgspec
from hypothesis import strategies as st
from ledgers import (
    document,
    drop_of,
    ledger_in,
    left_out,
    listing,
    order,
    plan,
    refused,
    send,
    tender,
    unknown,
    weight_problem,
)

OPERATIONS = ("order.create", "order.update", "order.delete", "order.status", "tender.create", "tender.delete")

item = st.fixed_dictionaries(
    {
        "operation": st.sampled_from(OPERATIONS),
        "number": st.integers(0, 4),
        "city": st.sampled_from(["Dresden", "Köln"]),
        "rows": st.integers(1, 3),
        "fate": st.sampled_from(["good", "good", "good", "warned", "wrong", "unbuilt", "ignored"]),
        "answer": st.sampled_from(["accepted", "accepted", "accepted", "refused", "unknown", "none"]),
    }
)
run_files = st.lists(st.lists(item, max_size=6), max_size=3)
"""The files of one run, each a list of its documents."""


def sent_order(answer):
    """A good create of the first order, which the exchange answers so."""
    return {"operation": "order.create", "number": 0, "city": "Dresden", "rows": 1, "fate": "good", "answer": answer}


views = st.sampled_from(["whole", "whole", "partial", "empty", "none"])
"""What the exchange's listings show afterwards."""


@contextmanager
def delivered(files, view="whole"):
    """The ledger, the run and the listings after a run with these files."""
    with tempfile.TemporaryDirectory() as folder, ledger_in(Path(folder)) as ledger:
        run = ledger.begin_run()
        for number, items in enumerate(files):
            deliver_file(ledger, run, f"file {number}.csv", items)
        yield ledger, run, listings(ledger, run, view)


def counted(ledger, entry):
    """The state that an entry counts as: of an unchanged one, that of what it repeats, until that is accepted."""
    repeated = entry.reason.removeprefix("already waiting as entry ")
    if entry.state != "unchanged" or not repeated.isdigit():
        return entry.state
    state = counted(ledger, ledger.queries.entry(int(repeated)))
    return entry.state if state == "accepted" else state


def deliver_file(ledger, run, file, items):
    """Plan and settle the documents of one file."""
    answers, documents, row = {}, [], 2
    for spec in items:
        rows = [("orders", row + offset, (f"cell {row}", "=1+1", "", "-5", "ü")) for offset in range(spec["rows"])]
        row += len(rows)
        if spec["fate"] == "ignored":
            documents += [left_out(number, cells) for _, number, cells in rows]
            continue
        documents.append(_document(spec, rows, file))
        answers.setdefault(documents[-1].key, []).append(spec["answer"])
    plan(ledger, run, drop_of(("orders", file), mapping=file), documents)
    pending = [submission.id for submission in ledger.ready(1000)]
    if pending:
        send(ledger, run, lambda submission: _answer(answers, submission))


def _document(spec, rows, file):
    payload = {
        "order.create": lambda n: order(n, delivery_city=spec["city"]),
        "order.update": lambda n: {
            "order_id": f"A-{n:05}",
            "sender_id": "ACME",
            "receiver_id": "CARGO",
            "delivery_city": spec["city"],
        },
        "order.delete": lambda n: {"order_id": f"A-{n:05}"},
        "order.status": lambda n: {"order_id": f"A-{n:05}", "status_code": spec["city"]},
        "tender.create": tender,
        "tender.delete": lambda n: {"tender_id": f"T-{n:04}"},
    }[spec["operation"]](spec["number"])
    wrong = weight_problem(file, rows[0][1], level="warning" if spec["fate"] == "warned" else "error")
    problems = () if spec["fate"] == "good" else (wrong,)
    return document(spec["operation"], None if spec["fate"] == "unbuilt" else payload, rows, *problems)


def _answer(answers, submission):
    answer = (answers.get(submission.key) or ["accepted"])[-1]
    return {"refused": refused, "unknown": unknown}.get(answer, lambda _: None)(submission)


def listings(ledger, run, view):
    """What an exchange that did exactly what it accepted would list."""
    if view == "none":
        return {}
    listed = {"order": {}, "tender": {}}
    done = [entry for drop in ledger.queries.drops_of(run) for entry in ledger.queries.entries_of(drop.id)]
    for entry in sorted((e for e in done if e.state == "accepted"), key=lambda e: (e.changed_at, e.id)):
        subject, action = entry.operation.split(".")
        record = msgspec.json.decode(entry.payload)
        if action == "delete":
            listed[subject].pop(entry.key, None)
        elif action in ("create", "update"):
            listed[subject].setdefault(entry.key, {}).update(record)
    found = {}
    for subject, records in listed.items():
        shown = list(records.values())[:1] if view == "partial" else [] if view == "empty" else list(records.values())
        found[subject] = listing(shown, total=len(records) + (5 if view == "partial" else 0))
    if view == "empty":
        found = {subject: listing([]) for subject in listed}
    return found

"""The planned state of a document for everything that its lane can hold."""

import hashlib
import re
import shlex
from dataclasses import replace

import ledgers
import msgspec
import pytest

from loadsheet.cli.resolve import resolve, retry
from loadsheet.contract import BY_NAME
from loadsheet.ledger import State
from loadsheet.ledger.content_changes import (
    changes_to_keep,
    field_differences,
    further_changes,
    kept_changes,
    list_lengths,
)
from loadsheet.ledger.models import EarlierEntry
from loadsheet.ledger.planning import (
    decide,
    held_if_outdated,
    planned_state,
    recognized,
    with_operation,
)
from loadsheet.mapping.documents import AlternativeForm, Document, SourceRow
from loadsheet.problems import Problem

SAID = Problem("X701", values={"text": "pickup_city: is wrong"})


def document(operation, content="one", *problems):
    contract = BY_NAME[operation]
    field, _, value = content.rpartition("=")
    body = {"order_id": "A-1", "tender_id": "T-1", "carrier_id": "C-1", field or "note": value}
    more = {"delivery_city": "Ulm"} if contract.creates else {}
    record = {name: body[name] for name in (*contract.record.key, field or "note")} | more
    payload = msgspec.json.encode(record)
    digest = hashlib.sha256(payload).hexdigest()
    return Document(
        operation, contract.key_of(record), "a lane", payload, digest, (SourceRow("orders", 2, ()),), problems
    )


def known(operation, state, content="one", identity=7):
    made = document(operation, content)
    problems = (SAID,) if state is State.REFUSED else ()
    number = "88001" if state is State.ACCEPTED else ""
    return EarlierEntry(identity, operation, made.key, state, made.content_hash, made.payload, number, problems)


def verdict_on(document, lane):
    planned = planned_state(document, lane)
    return planned.state, planned.problems[0].code if planned.problems else ""


READY, SENDING, ACCEPTED, REFUSED = State.READY, State.SENDING, State.ACCEPTED, State.REFUSED
UNKNOWN, UNCHANGED, HELD = State.UNKNOWN, State.UNCHANGED, State.HELD
CREATE, UPDATE, DELETE, EVENT, QUOTE = "order.create", "order.update", "order.delete", "order.status", "tender.quote"
TABLE = [
    # what is on the lane, what comes, in which state it is planned, and with which problem
    ("a first create", [], CREATE, "one", READY, ""),
    ("a create that is accepted", [(CREATE, ACCEPTED, "one")], CREATE, "one", UNCHANGED, ""),
    ("a create that changed", [(CREATE, ACCEPTED, "one")], CREATE, "two", HELD, "L601"),
    ("a create that waits", [(CREATE, READY, "one")], CREATE, "one", UNCHANGED, "L603"),
    ("another version waits", [(CREATE, READY, "one")], CREATE, "two", HELD, "L605"),
    ("a create in doubt", [(CREATE, UNKNOWN, "one")], CREATE, "one", HELD, "L602"),
    ("another create in doubt", [(CREATE, UNKNOWN, "one")], CREATE, "two", HELD, "L602"),
    ("a create under way", [(CREATE, SENDING, "one")], CREATE, "one", HELD, "L602"),
    ("a create that was refused", [(CREATE, REFUSED, "one")], CREATE, "one", REFUSED, "L604"),
    ("a refused create put right", [(CREATE, REFUSED, "one")], CREATE, "two", READY, ""),
    ("back to the first refused", [(CREATE, REFUSED, "one"), (CREATE, REFUSED, "two")], CREATE, "one", READY, ""),
    ("refused, then accepted", [(CREATE, REFUSED, "one"), (CREATE, ACCEPTED, "two")], CREATE, "two", UNCHANGED, ""),
    ("created, deleted", [(CREATE, ACCEPTED, "one"), (DELETE, ACCEPTED, "")], CREATE, "one", HELD, "L618"),
    ("created, deleted, changed", [(CREATE, ACCEPTED, "one"), (DELETE, ACCEPTED, "")], CREATE, "two", READY, ""),
    ("created, to be deleted", [(CREATE, ACCEPTED, "one"), (DELETE, READY, "")], CREATE, "one", READY, ""),
    ("created, delete refused", [(CREATE, ACCEPTED, "one"), (DELETE, REFUSED, "")], CREATE, "one", UNCHANGED, ""),
    ("created, delete in doubt", [(CREATE, ACCEPTED, "one"), (DELETE, UNKNOWN, "")], CREATE, "one", HELD, "L602"),
    ("only a delete in doubt", [(DELETE, UNKNOWN, "")], CREATE, "one", HELD, "L602"),
    ("an update in between", [(CREATE, ACCEPTED, "one"), (UPDATE, ACCEPTED, "x")], CREATE, "one", UNCHANGED, ""),
    ("a first update", [(CREATE, ACCEPTED, "one")], UPDATE, "x", READY, ""),
    ("the same update", [(CREATE, ACCEPTED, "one"), (UPDATE, ACCEPTED, "x")], UPDATE, "x", UNCHANGED, ""),
    ("another was refused", [(UPDATE, ACCEPTED, "x"), (UPDATE, REFUSED, "y")], UPDATE, "x", UNCHANGED, ""),
    ("another update", [(UPDATE, ACCEPTED, "x")], UPDATE, "y", READY, ""),
    ("back to an earlier update", [(UPDATE, ACCEPTED, "x"), (UPDATE, ACCEPTED, "y")], UPDATE, "x", READY, ""),
    ("another field since", [(UPDATE, ACCEPTED, "x"), (UPDATE, ACCEPTED, "city=Ulm")], UPDATE, "x", UNCHANGED, ""),
    ("another field to be set", [(UPDATE, ACCEPTED, "x"), (UPDATE, READY, "city=Ulm")], UPDATE, "x", UNCHANGED, ""),
    ("another field in doubt", [(UPDATE, ACCEPTED, "x"), (UPDATE, UNKNOWN, "city=Ulm")], UPDATE, "x", READY, ""),
    (
        "back, and another field since",
        [(UPDATE, ACCEPTED, "x"), (UPDATE, ACCEPTED, "y"), (UPDATE, ACCEPTED, "city=Ulm")],
        *(UPDATE, "x", READY, ""),
    ),
    (
        "created anew, and another field since",
        [(UPDATE, ACCEPTED, "x"), (DELETE, ACCEPTED, ""), (CREATE, ACCEPTED, "one"), (UPDATE, ACCEPTED, "city=Ulm")],
        *(UPDATE, "x", READY, ""),
    ),
    ("an update in doubt", [(UPDATE, UNKNOWN, "x")], UPDATE, "x", HELD, "L602"),
    ("another update behind one in doubt", [(UPDATE, UNKNOWN, "x")], UPDATE, "y", READY, ""),
    ("an update that was refused", [(UPDATE, REFUSED, "x")], UPDATE, "x", READY, ""),
    ("an update that waits", [(UPDATE, READY, "x")], UPDATE, "x", UNCHANGED, "L603"),
    ("a delete", [(CREATE, ACCEPTED, "one")], DELETE, "", READY, ""),
    ("a second delete", [(DELETE, ACCEPTED, "")], DELETE, "", UNCHANGED, ""),
    ("a delete of what was made anew", [(DELETE, ACCEPTED, ""), (CREATE, ACCEPTED, "one")], DELETE, "", READY, ""),
    ("a first event", [(CREATE, ACCEPTED, "one")], EVENT, "x", READY, ""),
    ("another event", [(EVENT, ACCEPTED, "x")], EVENT, "y", READY, ""),
    ("the same event", [(EVENT, ACCEPTED, "x"), (EVENT, ACCEPTED, "y")], EVENT, "x", UNCHANGED, ""),
    ("an event in doubt", [(EVENT, UNKNOWN, "x")], EVENT, "x", HELD, "L602"),
    ("an event that was refused", [(EVENT, REFUSED, "x")], EVENT, "x", READY, ""),
    ("an event that waits", [(EVENT, READY, "x")], EVENT, "x", UNCHANGED, "L603"),
    ("a first quote", [], QUOTE, "x", READY, ""),
    ("the same quote", [(QUOTE, ACCEPTED, "x")], QUOTE, "x", UNCHANGED, ""),
    ("a new quote", [(QUOTE, ACCEPTED, "x")], QUOTE, "y", READY, ""),
    ("back to an earlier quote", [(QUOTE, ACCEPTED, "x"), (QUOTE, ACCEPTED, "y")], QUOTE, "x", READY, ""),
]


def standing(lane):
    return [known(*entry, identity=identity) for identity, entry in enumerate(lane, start=1)]


@pytest.mark.parametrize(
    ("lane", "operation", "content", "state", "code"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_verdict_follows_from_the_lane(lane, operation, content, state, code):
    planned = planned_state(document(operation, content), standing(lane))
    assert (planned.state, planned.problems[0].code if planned.problems else "") == (state, code)
    assert planned.reason or state is State.READY
    assert planned.service_order == ("88001" if state is UNCHANGED and not code else "")


@pytest.mark.parametrize(
    ("content", "state", "code"), [("two", UNCHANGED, ""), ("one", HELD, "L601"), ("three", HELD, "L601")]
)
def test_a_create_that_was_sent_as_an_update_is_what_later_ones_are_judged_by(content, state, code):
    """Also back to what was created: it is another change, and not what the exchange has."""
    made, sent = known(CREATE, ACCEPTED, "one"), known(CREATE, ACCEPTED, "two", identity=8)._replace(operation=UPDATE)
    assert verdict_on(document(CREATE, content), [made, sent]) == (state, code)
    if code:
        assert f'note "two" -> "{content}"' in planned_state(document(CREATE, content), [made, sent]).problems[0].text
    assert planned_state(document(CREATE, "one"), [made, sent._replace(state=REFUSED)]).state is UNCHANGED
    assert verdict_on(document(CREATE, content), [made, sent._replace(state=UNKNOWN)]) == (HELD, "L602")


@pytest.mark.parametrize("key", ["A-1; $(id)", "--held", "-h `id`"])
@pytest.mark.parametrize("state", [ACCEPTED, REFUSED, READY, UNKNOWN])
def test_a_key_in_a_command_to_copy_stays_one_word_of_a_shell_and_is_no_option(state, key):
    hostile = replace(document(CREATE, "two" if state is not REFUSED else "one"), key=key)
    problem = planned_state(hostile, [known(CREATE, state)._replace(key=key)]).problems[0]
    name, *words = shlex.split(re.search(r"loadsheet (.*?)(, or always.*)?$", problem.hint)[1])
    command = {"retry": retry, "resolve": resolve}[name]
    params = command.make_context(name, words, resilient_parsing=True).params
    assert params["key"] == key if name == "resolve" else params["wanted"] == (key,)


OLDER = [  # the lane with the drop of each entry, what comes in a copy of drop 1, and its state
    ("changed since", [(UPDATE, ACCEPTED, "x", 1), (UPDATE, ACCEPTED, "y", 2)], UPDATE, "x", HELD),
    ("to be changed", [(UPDATE, ACCEPTED, "x", 1), (UPDATE, READY, "y", 2)], UPDATE, "x", HELD),
    ("both still to be sent", [(UPDATE, READY, "x", 1), (UPDATE, READY, "y", 2)], UPDATE, "x", HELD),
    ("it was refused itself", [(UPDATE, REFUSED, "x", 1), (UPDATE, ACCEPTED, "y", 2)], UPDATE, "x", HELD),
    ("it was refused last", [(UPDATE, ACCEPTED, "y", 2), (UPDATE, REFUSED, "x", 1)], UPDATE, "x", READY),
    ("of another file", [(UPDATE, ACCEPTED, "x", 2), (UPDATE, ACCEPTED, "y", 3)], UPDATE, "x", READY),
    ("other values by now", [(UPDATE, ACCEPTED, "x", 1), (UPDATE, ACCEPTED, "y", 2)], UPDATE, "z", READY),
    ("both of this file", [(UPDATE, ACCEPTED, "x", 1), (UPDATE, ACCEPTED, "y", 1)], UPDATE, "x", UNCHANGED),
    ("deleted by this file", [(DELETE, ACCEPTED, "", 1), (CREATE, ACCEPTED, "one", 1)], DELETE, "", UNCHANGED),
    ("created anew", [(DELETE, ACCEPTED, "", 1), (CREATE, ACCEPTED, "one", 2)], DELETE, "", HELD),
    ("it never left", [(DELETE, HELD, "", 1), (CREATE, ACCEPTED, "one", 2)], DELETE, "", HELD),
    ("another quote since", [(QUOTE, ACCEPTED, "x", 1), (QUOTE, ACCEPTED, "y", 2)], QUOTE, "x", HELD),
]


@pytest.mark.parametrize(
    ("lane", "operation", "content", "state"), [row[1:] for row in OLDER], ids=[row[0] for row in OLDER]
)
def test_a_copy_of_an_old_file_undoes_no_later_change(lane, operation, content, state):
    given = document(operation, content)
    earlier = [known(*entry, identity=place)._replace(drop=drop) for place, (*entry, drop) in enumerate(lane, start=1)]
    decision = decide(given, earlier, changed="hold", is_listed=True)
    assert decision.planned.state is READY
    after = held_if_outdated(decision, given, earlier, {1: False}).planned
    assert (after.state, after.problems[0].code if after.problems else "") == (state, "L619" if state is HELD else "")
    older = "these are older values of A-1: another file has changed, corrected or deleted them since"
    assert not after.problems or after.problems[0].text == older.replace("A-1", given.key)
    assert held_if_outdated(decision, given, earlier, {}) == decision


def test_a_copy_of_an_old_file_is_recognised_by_either_form_of_an_upsert():
    made = known(CREATE, ACCEPTED, "one")._replace(drop=1)
    changed = known(UPDATE, ACCEPTED, "two", identity=8)._replace(drop=2)
    update = document(UPDATE, "one")
    given = replace(document(CREATE, "one"), alternative=AlternativeForm(UPDATE, update.payload, update.content_hash))
    decision = decide(given, [made, changed], changed="hold", is_listed=True)
    assert (decision.document.operation, decision.planned.state) == (UPDATE, READY)
    assert held_if_outdated(decision, given, [made, changed], {1: False}).planned.state is HELD


FILES = [  # what each file of a run asks, with its last change, and which files hold the order against the last one's delete
    ("newer", [(CREATE, "09:00"), (DELETE, "08:00")], "0.csv"),
    ("updated since", [(CREATE, "07:00"), (UPDATE, "09:00"), (DELETE, "08:00")], "1.csv"),
    ("newer before older", [(CREATE, "09:00"), (UPDATE, "07:00"), (DELETE, "08:00")], "0.csv"),
    ("older", [(CREATE, "07:00"), (DELETE, "08:00")], ""),
    ("as old", [(CREATE, "08:00"), (DELETE, "08:00")], ""),
    ("of an earlier run", [(CREATE, "09:00"), "ended", (DELETE, "08:00")], ""),
    ("of a killed run", [(CREATE, "09:00"), "killed", (DELETE, "08:00")], "0.csv"),
    ("of another order", [("order.create A-00007", "09:00"), (DELETE, "08:00")], ""),
    ("only its status", [(CREATE, "07:00"), (EVENT, "09:00"), (DELETE, "08:00")], ""),
]


ON_SQLITE, ON_A_SERVER = [("sqlite", *row[1:]) for row in FILES], ("postgresql", *FILES[1][1:])


@pytest.mark.parametrize(
    ("kind", "given", "newer"), [*ON_SQLITE, ON_A_SERVER], ids=[*(row[0] for row in FILES), "on a server"]
)
def test_a_delete_is_held_if_a_newer_file_of_the_run_has_the_record(ledger, given, newer):
    run = ledger.begin_run()
    for number, file in enumerate(given):
        if file in ("ended", "killed"):
            ledgers.send(ledger, run)
            if file == "ended":
                ledger.end_run(run, exit_code=0, summary={})
            run = ledger.begin_run()
            continue
        (operation, *key), arrived = file[0].split(), f"2026-03-04T{file[1]}:00Z"
        record = ledgers.order(0, order_id=(key or ["A-00000"])[0], status_code="PU")
        names = {field.name for field in BY_NAME[operation].record.fields}
        payload = {name: value for name, value in record.items() if name in names}
        asked = ledgers.document(operation, payload, [("orders", 2, ("x",))])
        drop = ledgers.drop_of(("orders", f"{number}.csv"), mapping=operation, operation=operation)
        drop = replace(drop, files=(replace(drop.files[0], arrived=arrived),))
        planned = ledgers.plan(ledger, run, drop, [asked])
    (entry,) = ledger.queries.entries_of(planned.id)
    assert (entry.state, [problem.code for problem in entry.problems]) == ((HELD, ["L620"]) if newer else (READY, []))
    assert not newer or entry.problems[0].values == {"key": "A-00000", "file": newer}


def test_a_document_with_an_error_is_invalid_and_one_with_a_warning_is_not():
    error, warning = Problem("C301"), Problem("C301", level="warning")
    assert planned_state(document(CREATE, "one", error), [known(CREATE, ACCEPTED)]).state is State.INVALID
    assert planned_state(document(CREATE, "one", warning), []).state is State.READY


def test_verdicts_say_what_changed_and_what_was_said_before():
    changed = planned_state(document(CREATE, "two"), [known(CREATE, ACCEPTED, "one")])
    assert 'note "one" -> "two"' in changed.problems[0].text
    again = planned_state(document(CREATE, "one"), [known(CREATE, REFUSED, "one")])
    assert "pickup_city: is wrong" in again.problems[0].text


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1.50}, {"a": 2}, ["a 1.5 -> 2"]),
        ({"a": 1}, {}, ["a 1 -> nothing"]),
        ({}, {"a": "x"}, ['a nothing -> "x"']),
        ({"a": [1]}, {"a": [2]}, ["a"]),
        ({"a": [1, [2]]}, {"a": [3]}, ["a 2 items -> 1 items"]),
        ({"a": "x" * 99}, {"a": "y"}, ["a"]),
        (dict.fromkeys("abcdefgh", 1), {}, [f"{c} 1 -> nothing" for c in "abcde"] + ["and 3 more"]),
    ],
)
def test_differences_are_listed_by_field(before, after, told):
    assert field_differences(msgspec.json.encode(before), msgspec.json.encode(after)) == told


def test_the_lengths_of_lists_count_the_lists_in_their_items_together():
    packages = [{"inner_cargos": [{}, {}], "weight": 1}, {}, {"inner_cargos": [{}]}]
    lengths = {"packages": 3, "packages.inner_cargos": 3, "order_references": 0}
    assert list_lengths(msgspec.json.encode({"packages": packages, "order_references": []})) == lengths
    assert list_lengths(b"") == {}


@pytest.mark.parametrize(
    ("lane", "content", "operation", "state"),
    [
        ([], "one", CREATE, READY),
        ([(CREATE, REFUSED, "one")], "two", CREATE, READY),
        ([(CREATE, ACCEPTED, "one")], "one", CREATE, UNCHANGED),
        ([(CREATE, ACCEPTED, "one")], "two", UPDATE, READY),
        ([(CREATE, ACCEPTED, "one"), (UPDATE, ACCEPTED, "two")], "two", UPDATE, UNCHANGED),
        ([(CREATE, ACCEPTED, "one"), (UPDATE, ACCEPTED, "two")], "one", UPDATE, READY),
        ([(CREATE, ACCEPTED, "one"), (DELETE, ACCEPTED, "one")], "one", CREATE, HELD),
        ([(CREATE, ACCEPTED, "one"), (DELETE, ACCEPTED, "one")], "two", CREATE, READY),
        ([(CREATE, UNKNOWN, "one")], "one", CREATE, HELD),
    ],
)
def test_an_upsert_creates_what_is_not_there_and_updates_what_is(lane, content, operation, state):
    update = document(UPDATE, content)
    upsert = replace(
        document(CREATE, content), alternative=AlternativeForm(UPDATE, update.payload, update.content_hash)
    )
    made = with_operation(upsert, standing(lane))
    assert (made.operation, planned_state(made, standing(lane)).state) == (operation, state)


# rows in another order, and other line ends


def lines(*names, ordered=()):
    payload = msgspec.json.encode({"order_id": "A-1", "packages": [{"item_name": name} for name in names]})
    digest = hashlib.sha256(payload).hexdigest()
    return replace(document(CREATE), payload=payload, content_hash=digest, ordered=ordered)


def kept(made, identity=1, payload=None):
    payload = made.payload if payload is None else payload
    return EarlierEntry(identity, CREATE, made.key, State.ACCEPTED, made.content_hash, payload, "88001", ())


def test_a_record_whose_lines_come_in_another_order_is_unchanged_under_the_hash_it_was_kept_by():
    lane = [kept(lines("a", "b"), 1)]
    found = recognized(lines("b", "a"), lane)
    assert (found.content_hash, found.payload) == (lane[0].content_hash, lines("b", "a").payload)
    assert planned_state(found, lane).state is UNCHANGED
    lane.append(kept(lines("b", "a"), 2))
    assert recognized(lines("a", "b"), lane).content_hash == lane[1].content_hash, "the last version counts"


def test_what_does_not_say_the_same_or_is_not_kept_or_whose_order_is_content_is_other_content():
    for lane in ([kept(lines("a", "c"))], [kept(lines("a", "b"), payload=b"")]):  # contents that are not kept any more
        assert recognized(lines("b", "a"), lane) == lines("b", "a")
    lane = [kept(lines("a", "b"))]
    assert planned_state(recognized(lines("b", "a", ordered=("packages",)), lane), lane).state is HELD


@pytest.mark.parametrize("operation", [CREATE, UPDATE, EVENT])
@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_a_record_accepted_with_other_line_ends_in_its_texts_is_unchanged(operation, end):
    lane, same = [known(operation, ACCEPTED, f"ring twice{end}wait")], document(operation, "ring twice\nwait")
    made = recognized(same, lane)
    assert (planned_state(made, lane, is_listed=True).state, made.payload) == (UNCHANGED, same.payload)
    other = recognized(document(operation, "ring twice\n\nwait"), lane)
    assert planned_state(other, lane, is_listed=True).state is not UNCHANGED


def test_a_problem_keeps_each_changed_value_apart_and_counts_those_beyond_five():
    before = {"order_id": "A", "total_weight": 5, "packages": [{"weight": 1}, {"weight": 2}], "note": "old"}
    after = {"order_id": "A", "total_weight": 7.5, "packages": [{"weight": 1}, {"weight": 3}], "currency": "x" * 61}

    def changes(*records):
        problem = Problem("L601", values=changes_to_keep(CREATE, *map(msgspec.json.encode, records), ()))
        return kept_changes(Problem.from_json(problem.to_json())), further_changes(problem)

    found = [("total_weight", "5", "7.5"), ("packages[1].weight", "2", "3"), ("currency", None, None)]
    assert changes(before, after) == ([*found, ("note", "old", "")], 0)
    assert changes({}, dict.fromkeys("abcdefg", 1)) == ([(name, "", "1") for name in "abcde"], 2)
    assert changes_to_keep(CREATE, b"", msgspec.json.encode(after), ()) == {}
    assert kept_changes(Problem("L601", values={"fields": "note"})) == []

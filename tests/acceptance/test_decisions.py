"""Several nights with the real command: children wait for their orders, lost answers are looked up, people decide."""

import grp
import json
import os
import pwd
import re
import shutil
import socket
from collections import Counter
from contextlib import closing
from datetime import datetime

import pytest
from command_processes import shared_nursery
from exchange_calls import OverSocket
from faulty_exchange import misbehaving
from orders import order_id
from workspace import Workspace

from loadsheet.ledger import open_ledger


@pytest.fixture
def house(workspace):
    workspace.add("events")
    return workspace


def drop_events(house, *numbers, name="events.csv", place="Köln"):
    rows = "".join(f"{order_id(number)},{place},2026-03-01 10:00\n" for number in numbers)
    house.drop(name, f"Order,Code,At\n{rows}")


def local_day():
    return f"{datetime.now():%Y-%m-%d}"


def entries(house):
    """Operation, key and state of every entry, oldest first."""
    return house.ask("select operation, key, state from entries order by id")


def states(folder, operation):
    return [state for name, _, state in entries(folder) if name == operation]


def test_events_wait_for_their_order_over_runs_and_go_with_it(house):
    drop_events(house, 1, 2)
    assert house.run().returncode == 1
    assert states(house, "order.status") == ["held", "held"]
    assert house.run_json()["balance"]["balances"] is True
    row = house.results("events.csv")[0]
    assert "Waits for order 00000001: it has not been sent yet" in row["problem"]
    assert "if that is a wrong number, correct it and drop the file again" in row["what to do"]
    house.write_orders(1, first=1)
    assert house.run().returncode == 1, "the other one still waits"
    assert states(house, "order.status") == ["accepted", "held"]
    drop_events(house, 1, 2, name="events-again.csv")
    again = house.run()
    waits = f"waiting for their order or tender since earlier runs: 1, the oldest ({order_id(2)})"
    assert waits in again.stderr
    (remark,) = house.run_json()["remarks"]
    assert waits in remark
    assert house.run_json()["forecast"] == ""
    assert states(house, "order.status") == ["accepted", "held", "unchanged", "unchanged"]
    with open_ledger(f"sqlite:///{house / '.loadsheet' / 'ledger.db'}"):  # one may look while a run works, and no more
        seen = house.command("doctor")
        assert (seen.returncode, "a run or a watch holds it" in seen.stdout) == (0, True), seen.stdout
        assert house.command("retry", "--held", "--dry-run").returncode == 0
        assert house.command("retry", "--held").returncode == 75
    assert house.command("retry", "--held").returncode == 0


def test_an_order_that_somebody_else_created_lets_its_events_go_unless_nobody_may_look(house, tmp_path):
    house.write_orders(2)
    other = Workspace(tmp_path / "other")
    other.add("events")
    drop_events(other, 0, 7)
    with misbehaving(tmp_path, status_unknown="accept") as served:
        words = ("--exchange", served.url)
        assert other.run(*words).returncode == 1
        assert states(other, "order.status") == ["held", "held"]
        assert house.run(*words).returncode == 0
        other.run(*words, LOADSHEET_VERIFICATION__PARENTS="wait")
        assert states(other, "order.status") == ["held", "held"]
        assert other.run(*words).returncode == 1, "the other one still waits"
        assert states(other, "order.status") == ["accepted", "held"]
        drop_events(other, 0, name="events-2.csv", place="Bonn")
        assert other.run(*words, LOADSHEET_VERIFICATION__PARENTS="wait").returncode == 0, "what was seen once is known"
        assert other.run(*words, LOADSHEET_VERIFICATION__PARENTS="send").returncode == 0
        assert states(other, "order.status") == ["accepted"] * 3


def lost(folder, served):
    """A run in which the answer to the second of three creates is lost."""
    folder.write_orders(3)
    return folder.run("--exchange", served.url, LOADSHEET_DISPATCH__CONNECTIONS="1")


def rule(fault):
    return {"fault": fault, "operation": "order.create", "at": (2,)}


def test_a_lost_answer_is_looked_up_in_the_same_run_and_its_events_go_then(house, tmp_path):
    drop_events(house, 0, 1, 2)
    with misbehaving(tmp_path, rule("reset_after_effect")) as served:
        done = lost(house, served)
        assert done.returncode == 0, done.stdout
        assert {state for _, _, state in entries(house)} == {"accepted"}
        assert max(Counter((line["operation"], line["key"]) for line in served.happened()).values()) == 1


@pytest.fixture(scope="module")
def doubted(tmp_path_factory):
    """A workspace with one create of unknown outcome, and the database of the exchange that has not got it."""
    house = Workspace(tmp_path_factory.mktemp("doubted"))
    with misbehaving(house.folder, rule("reset_before_effect")) as served:
        assert lost(house, served).returncode == 1
    return house


@pytest.fixture
def doubt(doubted, house, tmp_path):
    """A copy of it, its key, and the exchange at work again."""
    shutil.copytree(doubted, tmp_path, dirs_exist_ok=True)
    ((_, key, _),) = [entry for entry in entries(house) if entry[2] == "unknown"]
    with misbehaving(tmp_path) as served:
        yield house, key, ("--exchange", served.url), served


def test_what_stays_unknown_says_which_rule_was_not_met(doubt):
    house, _, where, _ = doubt
    (results,) = house.outbox.rglob("orders.csv.results.csv")
    assert "the next run asks the exchange" in results.read_text(encoding="utf-8-sig"), "in the sender's words"
    assert "quiesce_s" in (house.reports()[0] / "run.json").read_text(encoding="utf-8"), "in the operator's"
    again = house.run(*where)
    assert again.returncode == 1
    assert "1 with an unknown outcome" in again.stdout, "every night names its doubts"


def test_resolve_shows_what_is_unknown_with_its_evidence(doubt):
    """A decision about it needs a key and grounds."""
    house, key, where, _ = doubt
    done = house.command("resolve", *where)
    assert done.returncode == 1
    assert re.search(rf"order.create {key}: unknown since \d{{4}}-\d\d-\d\d \d\d:\d\d, ", done.stdout)
    assert re.search(r"attempt 1  [-\d]{10} \d\d:\d\d  ", done.stdout)
    for line in (r"looked   [-\d]{10} \d\d:\d\d", "now    "):
        assert re.search(rf"{line}  it is not listed; too early to be sure for another 15 minutes \(", done.stdout)
    (shown,) = json.loads(house.command("resolve", *where, "--json").stdout)
    assert (shown["key"], shown["state"], len(shown["attempts"])) == (key, "unknown", 1)
    assert "quiesce_s" in shown["now"]
    assert {*shown["findings"][0]} == {"entry", "run", "at", "shown", "counts", "text"}
    offline = house.command("resolve", "--exchange", "http://127.0.0.1:9")
    assert offline.returncode == 1
    assert "could not be read" in offline.stdout
    assert house.command("resolve", *where, "--accepted", "--comment", "seen").returncode == 2
    assert house.command("resolve", *where, key, "--accepted").returncode == 2
    nobody = house.command("resolve", *where, "nobody", "--accepted", "--comment", "seen")
    assert nobody.returncode == 1, "the words were right"
    assert nobody.stderr == "there is nothing to decide about nobody: `loadsheet show nobody` shows its state\n"


def state_of(folder, key):
    (state,) = {state for _, name, state in entries(folder) if name == key}
    return state


def test_a_create_is_sent_again_only_when_its_key_is_typed(doubt):
    house, key, where, served = doubt
    words = ["resolve", *where, key, "--send-again", "--comment", "not on their page", "--who", "ann"]
    for typed, said in (("yes\n", "not confirmed: nothing was done"), ("", "add --yes to run without a terminal")):
        done = house.command(*words, typed=typed)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    refused = house.command(*words, "--yes")
    assert (refused.returncode, "--i-know-it-may-double" in refused.stderr) == (2, True)
    assert house.command(*words, typed=f"{key}\n").returncode == 0
    assert state_of(house, key) == "ready"
    assert house.run(*where).returncode == 0
    assert Counter(line["key"] for line in served.happened())[key] == 1
    shown = house.command("show", key).stdout
    assert "sent again by decision of ann: not on their page" in shown
    assert "possibly" in shown.lower() or "more than once" in shown


def test_what_was_given_up_may_be_found_after_all_and_doctor_notices_a_changed_decision(doubt):
    """The exchange, which never had it, refuses the event that this lets go."""
    house, key, where, served = doubt
    drop_events(house, *(int(name) for _, name, _ in entries(house)))
    house.run(*where)
    assert states(house, "order.status").count("held") == 1
    decision = ("--yes", "--who", "ann", "--comment")
    given_up = house.command("resolve", *where, key, "--give-up", *decision, "cancelled")
    assert given_up.returncode == 0, given_up.stderr
    again = house.command("resolve", *where, key, "--give-up", *decision, "cancelled")
    assert again.returncode == 1
    assert f"{key} is already given up; use --send-again or --accepted to change that" in again.stderr
    assert "was never proved" in house.command("retry", key).stdout
    before = Counter(line["key"] for line in served.happened())[key]
    found = house.command("resolve", *where, key, "--accepted", *decision, "mail of ben", "--json")
    assert json.loads(found.stdout)[0]["decided"] == "accepted"
    assert "found at the exchange by ann: mail of ben" in house.command("show", key).stdout
    assert house.run(*where).returncode in (0, 1)
    assert Counter(line["key"] for line in served.happened())[key] == before
    assert states(house, "order.status").count("refused") == 1
    assert house.command("resolve", *where).returncode == 0
    assert "was altered" not in house.command("doctor", *where).stdout
    house.change("update decisions set who = 'bob' where id = 1")
    altered = house.command("doctor", *where)
    assert (altered.returncode, "was altered" in altered.stdout) == (1, True)


@pytest.mark.journey
def test_a_headline_counts_what_a_run_sent_not_what_earlier_runs_sent_of_the_same_file(house):
    """Of the events that wait, each goes when its order comes. The rows of the whole file still balance."""
    says = []
    drop_events(house, 1, 2, 3)
    house.run()
    for number in (1, 2, 3):
        house.write_orders(1, first=number)
        house.run()
        headline = house.run_json()["headline"]
        says.append([headline["text"], *headline["details"]])
        assert house.run_json()["balance"]["rows"] == {"accepted": 3 + 1 + number} | (
            {"held": 3 - number} if number < 3 else {}
        )
    assert says == [
        ["2 of 4 documents need attention", "2 accepted"],
        ["1 of 4 documents needs attention", "2 accepted", "1 accepted before"],
        ["All 4 documents were accepted, now or before", "2 accepted", "2 accepted before"],
    ]
    assert house.command("report", "--day", local_day()).stdout.startswith("✓ All 6 documents were accepted ")


@pytest.mark.journey
def test_retry_sends_the_order_of_another_sender_also_after_a_newer_version_of_the_first_one(workspace):
    """But not an older version of the same sender."""
    workspace.use_senders("orders", "others", changed="update")
    workspace.nights("orders: A-1,Bonn,1", "others: A-1,Bonn,2", "others: A-1,Bonn,3", "orders: A-1,Bonn,4")
    assert [state for _, _, state in entries(workspace)] == ["accepted", "held", "held", "accepted"]
    told = json.loads(workspace.command("retry", "A-1", "--json").stdout)
    assert [one["message"] for one in told] == ["a newer version replaced it (entry 3)", "is sent by the next run"]
    assert workspace.run().returncode == 0
    assert [state for _, _, state in entries(workspace)] == ["accepted", "held", "accepted", "accepted"]


def test_retry_brings_back_what_was_refused_or_held(house, tmp_path):
    with misbehaving(tmp_path) as served:
        where = ("--exchange", served.url)
        drop_events(house, 1, 2)
        house.run(*where, LOADSHEET_VERIFICATION__PARENTS="send")
        assert states(house, "order.status") == ["refused", "refused"]
        assert house.command("retry").returncode == 2
        assert "would be sent" in house.command("retry", "--refused", "--dry-run").stdout
        assert states(house, "order.status") == ["refused", "refused"]
        house.write_orders(1, first=1)
        house.run(*where)
        assert house.command("retry", order_id(1), "--comment", "order is there now").returncode == 0
        house.run(*where)
        assert states(house, "order.status") == ["accepted", "refused"]
        told = json.loads(house.command("retry", "--file", "events.csv", "--json").stdout)
        assert [one["key"] for one in told] == [order_id(2)]
        assert house.command("retry", "--held").returncode == 1


def test_retry_takes_several_keys_and_names_those_without_an_entry_to_send(house):
    drop_events(house, 1, 2, 3)
    house.run(LOADSHEET_VERIFICATION__PARENTS="send")
    assert states(house, "order.status") == ["refused", "refused", "refused"]
    some = house.command("retry", order_id(1), order_id(3), "A-misspelt", order_id(1))
    assert (some.returncode, some.stderr) == (1, "no entry of A-misspelt is refused or held\n")
    assert states(house, "order.status") == ["ready", "refused", "ready"]
    assert house.command("retry", order_id(2), "--json").returncode == 0
    assert states(house, "order.status") == ["ready", "ready", "ready"]
    none = house.command("retry", order_id(1), order_id(2))
    assert (none.returncode, none.stderr) == (1, "no matching entry is refused or held\n")


@pytest.mark.parametrize(
    "words",
    [
        ("retry", "A-1"),
        ("retry", "--held"),
        ("ledger", "vacuum"),
        ("ledger", "forget", "A-1", "--because", "x", "--yes"),
    ],
)
def test_in_a_folder_without_a_ledger_a_decision_makes_none_and_says_so(workspace, words):
    done = workspace.command(*words)
    assert (done.returncode, "if there were runs, go to their folder, or name it with --state" in done.stderr) == (
        78,
        True,
    )
    assert not (workspace.folder / ".loadsheet" / "ledger.db").exists()


def test_a_dry_run_says_how_long_sending_takes_at_the_rate_of_the_last_run(house, tmp_path):
    with misbehaving(tmp_path) as served:
        where = ("--exchange", served.url)
        house.write_orders(3)
        assert "At the rate of" not in house.run("--dry-run", *where).stdout
        assert house.run(*where).returncode == 0
        pace = '{"limit":2,"wire_s":0.1,"shrank":false,"per_second":0.01}'
        name = f"remembered: concurrency limit of {served.url}"
        house.change("insert or replace into meta values (?, ?)", name, pace)
        house.write_orders(6)
        assert "(36 documents an hour), sending takes about 5 min" in house.run("--dry-run", *where).stdout


def test_only_deciders_may_decide_and_everyone_may_look(house):
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    drop_events(house, 1)
    house.run(LOADSHEET_VERIFICATION__PARENTS="send")
    assert states(house, "order.status") == ["refused"]
    others = {"LOADSHEET_LEDGER__DECIDERS": '["anna", "@no-such-group"]', "LOGNAME": "anna"}
    refused = house.command("retry", "--refused", **others)
    assert (refused.returncode, f"{user} may not decide" in refused.stderr) == (2, True)
    decision = ("--accepted", "--comment", "seen", "--yes")
    assert house.command("resolve", order_id(1), *decision, **others).returncode == 2
    assert house.command("retry", "--refused", "--dry-run", **others).returncode == 0
    assert house.command("resolve", **others).returncode == 0
    assert states(house, "order.status") == ["refused"]
    for allowed in (user, f"@{group}"):
        decided = house.command("resolve", order_id(1), *decision, LOADSHEET_LEDGER__DECIDERS=f'["{allowed}"]')
        assert decided.returncode == 1, "there is nothing to decide"
    assert house.command("retry", "--refused", LOADSHEET_LEDGER__DECIDERS=f'["@{group}"]').returncode == 0
    assert states(house, "order.status") == ["ready"]


def test_a_changed_order_goes_as_an_update_after_a_persons_word(house, tmp_path):
    with misbehaving(tmp_path) as served:
        where = ("--exchange", served.url)
        house.write_orders(2, first=1)
        house.run(*where)
        for street in ("Nebenstraße", "Seitenstraße"):
            house.write_orders(2, first=1)
            house.edit("inbox/orders.csv", "Hauptstraße 1,", f"{street} 1,")
            assert house.run(*where).returncode == 1
        told = json.loads(house.command("retry", "--held", "--json").stdout)
        assert [(one["operation"], one["state"]) for one in told] == [
            ("order.create", "held"),
            ("order.update", "ready"),
        ]
        assert "a newer version" in told[0]["message"]
        assert house.run(*where).returncode == 0
        with closing(OverSocket(served.url)) as listed:
            streets = {order["order_id"]: order["delivery_address1"] for order in listed.orders()}
        assert streets[order_id(1)] == "Seitenstraße 1"


def test_two_processes_at_once_send_every_document_once(house, tmp_path):
    """The lock lets one work, and the other finds everything done."""
    house.write_orders(20)
    with misbehaving(tmp_path) as served:
        words = ("run", "--exchange", served.url)
        both = [shared_nursery().start(house, *words, **house.variables) for _ in range(2)]
        assert sorted(process.wait(120) for process in both) in ([0, 0], [0, 75])
        house.write_orders(20)
        assert house.run("--exchange", served.url).returncode == 0
        applied = Counter(line["key"] for line in served.happened())
    assert (len(applied), max(applied.values())) == (20, 1)
    assert Counter(state for _, _, state in entries(house)) == {"accepted": 20, "unchanged": 20}


# ---- between a kill and the next run ----


@pytest.fixture(scope="module")
def half_sent(tmp_path_factory):
    """A workspace whose last run looks as a kill leaves it: two orders are being sent, and it has no end."""
    house = Workspace(tmp_path_factory.mktemp("half sent"))
    house.write_orders(3, first=1)
    assert house.run().returncode == 0
    house.change("update runs set finished_at = '', exit_code = null")
    for key in (order_id(1), order_id(2)):
        ((entry,),) = house.ask("select id from entries where key = ?", key)
        house.change("delete from events where entry_id = ? and after = 'accepted'", entry)
        house.change("update attempts set outcome = '' where entry_id = ?", entry)
        house.change("update entries set state = 'sending' where id = ?", entry)
    return house


@pytest.fixture
def killed(half_sent, tmp_path):
    """A copy of it."""
    return Workspace(shutil.copytree(half_sent, tmp_path / "killed"))


def test_what_a_killed_run_was_sending_is_in_doubt(killed):
    done = killed.command("resolve")
    assert done.returncode == 1
    assert done.stderr.startswith("2 are marked as being sent by run ")
    assert "which did not finish: `loadsheet run` verifies them" in done.stderr
    listed = json.loads(killed.command("resolve", "--json").stdout)
    assert [(one["key"], one["state"]) for one in listed] == [(order_id(1), "sending"), (order_id(2), "sending")]
    assert all("verifies them" in one["now"] for one in listed)
    of_one = killed.command("resolve", order_id(2), "--accepted", "--comment", "seen")
    assert of_one.returncode == 1
    assert "1 is marked as being sent by run" in of_one.stderr
    assert killed.command("resolve", order_id(3)).returncode == 0
    killed.write_orders(3, first=1)
    again = killed.run()
    assert (again.returncode, "3 unchanged" in again.stdout) == (0, True), (
        "what is there is known before files are judged"
    )
    after = killed.command("resolve")
    assert (after.returncode, after.stderr) == (0, "nothing is unknown\n")


def test_what_a_living_run_sends_is_no_doubt(killed):
    holder = f"process {os.getpid()} on {socket.gethostname()} since 2026-03-04T02:00:00.000Z"
    (killed.state / "ledger.db.holder").write_text(holder, encoding="utf-8")
    done = killed.command("resolve")
    assert done.returncode == 0
    assert done.stderr == f"2 are being sent now, by {holder}: try again when it has ended\n"
    told = killed.command("report", "--json")
    (run,) = (path.name for path in killed.reports())
    sent = "2 documents being sent now, outcome not known yet"
    assert (told.returncode, told.stderr) == (1, f"run {run} is in progress, by {holder}: {sent}\n")
    shown = json.loads(told.stdout)
    assert (shown["entries"], shown["verdicts"]["waiting to be sent"]) == ({"ready": 2, "accepted": 1}, 2)
    assert shown["remarks"] == ["The run is in progress: what is being sent now counts as waiting to be sent."]
    assert killed.command("runs").stderr == f"run {run} is in progress, by {holder}\n"


def test_what_to_do_about_a_run_that_did_not_finish_is_said_until_another_reports_it(killed):
    (run,) = (path.name for path in killed.reports())
    todo = f"run {run} did not finish: `loadsheet run` resumes and reports it\n"
    for words in (["report"], ["report", "--day", local_day()], ["runs"]):
        assert killed.command(*words).stderr == todo, words
    assert killed.run().returncode == 0
    listed = killed.command("runs")
    assert (listed.stderr, f"not finished, reported by {killed.reports()[-1].name}" in listed.stdout) == ("", True)

"""Content that comes again, in another order or corrected: nothing is sent twice, and what waits is said in every drop that holds it."""

import json
import os
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial

import pytest
from faulty_exchange import misbehaving
from fix_workbooks import FixBook, House
from monitored_runs import house, order_id
from orders import write_orders
from outcome_check import check_outcome
from workspace import SAMPLES, SMALL, Workspace

from loadsheet.cli.options import ledger_to_read
from loadsheet.forecasts import forecast_run
from loadsheet.mapping.mapping_folder import load_folder


@pytest.fixture
def mappings(tmp_path):
    workspace = Workspace(tmp_path / "mapped")
    workspace.add("events")
    return workspace / "mappings"


def drop_events(home):
    rows = "".join(f"{order_id(number)},DEP,2026-03-01 10:00\n" for number in (1, 2))
    (home.settings.inbox / "events.csv").write_text(f"Order,Code,At\n{rows}", encoding="utf-8")


def sent(home, path=""):
    """The keys of all records that calls carried, in order."""
    calls = [call for call in home.server.requests if call.method == "POST" and path in call.target]
    return sorted(record["order_id"] for call in calls for record in call.payloads)


def run(home, drop):
    """The outcome of a run the day after, checked against all that it wrote."""
    home.clock.go_on(days=1)
    drop(home)
    result = home.night()
    said = check_outcome(result.reports.folder)
    assert said["exit_code"] == result.exit_code
    return said


def test_what_a_limit_kept_back_waits_in_the_second_drop_as_well(tmp_path, mappings):
    with house(tmp_path, mappings=mappings, run_entries_max=1) as home:
        first, second = (run(home, lambda one: write_orders(one.settings.inbox, 9, first=1)) for _ in range(2))
        assert first["verdicts"]["waiting to be sent"] == 8
        assert second["verdicts"]["waiting to be sent"] == 7 + 7, "in both drops"
        assert len(sent(home)) == len(set(sent(home))) == 2


def foreseen(home):
    """What a dry run says of the inbox: its exit code, and the records by what would become of them."""
    mappings = load_folder(home.settings.mappings, home.settings.assumptions)
    with ledger_to_read(home.settings) as ledger:
        forecast = forecast_run(home.settings, ledger, mappings)
    return forecast.exit_code, forecast.to_json()["records"]


def test_events_that_wait_for_their_order_wait_in_every_drop_that_holds_them_and_go_once(tmp_path, mappings):
    """A dry run foresees both."""
    with house(tmp_path, mappings=mappings) as home:
        for _ in range(2):
            said = run(home, drop_events)
            assert said["exit_code"] == 1
            assert said["verdicts"] == {"not sent: held": 2}
            assert said["entries"] == said["balance"]["rows"] == {"held": 2}
        drop_events(home)
        assert foreseen(home) == (1, {"waiting": 2})
        assert sent(home) == []
        write_orders(home.settings.inbox, 2, first=1)
        assert foreseen(home) == (0, {"ready": 2, "unchanged": 2})
        assert run(home, drop_events)["exit_code"] == 0
        assert sent(home, "/statusOrder") == [order_id(1), order_id(2)]


# ---- in another order ----


def turned(content):
    """A file with its rows in the opposite order."""
    head, *rows = content.splitlines(keepends=True)
    return b"".join([head, *reversed(rows)])


def dropped(workspace, exchange, name, *, change=bytes, joined=True):
    """What becomes of samples whose records have several lines: one grouped file, and orders with their packages in another."""
    workspace.drop(f"alder_{name}.csv", change((SAMPLES / "alder_2026-03-10.csv").read_bytes()))
    for path in (SAMPLES / "nordic").glob("*/*") if joined else ():
        workspace.drop(f"nordic/{name}/{path.name}", change(path.read_bytes()))
    workspace.run("--exchange", exchange.url)
    return workspace.run_json()["groups"]["order.create"]


def test_the_same_rows_sorted_otherwise_are_unchanged(workspace, tmp_path):
    workspace.use_shipped("alder-parcels", "nordic-join")
    with misbehaving(tmp_path) as exchange:
        first = dropped(workspace, exchange, "2026-03-10")
        assert first["matched"] > 30
        calls = len(exchange.happened())
        again = dropped(workspace, exchange, "2026-03-11", change=turned)
        assert set(again) == {"not sent: invalid", "unchanged"}
        assert again["unchanged"] == first["matched"]
        assert len(exchange.happened()) == calls


def test_where_the_mapping_says_that_order_counts_it_does(workspace, tmp_path):
    workspace.use_shipped("alder-parcels")
    (path,) = [path for path in (workspace / "mappings" / "base").iterdir() if "each: rows" in path.read_text("utf-8")]
    workspace.edit(path.relative_to(workspace.folder), "each: rows", "each: rows\n    ordered: true")
    with misbehaving(tmp_path) as exchange:
        dropped(workspace, exchange, "2026-03-10", joined=False)
        again = dropped(workspace, exchange, "2026-03-11", change=turned, joined=False)
        assert again["not sent: held"] == 1


def test_a_dry_run_foresees_that_two_senders_of_its_files_have_the_same_number(tmp_path):
    workspace = Workspace(tmp_path / "mapped")
    workspace.use_senders("orders", "others", changed="update")
    with house(tmp_path, mappings=workspace / "mappings") as home:
        run(home, lambda _: None)
        for age, name in enumerate(("others.csv", "orders.csv")):
            path = home.settings.inbox / name
            path.write_text(f"Order,City,Weight\nA-1,Bonn,{age}\n", encoding="utf-8")
            os.utime(path, (time.time() - age,) * 2)
        assert foreseen(home) == (1, {"ready": 1, "held": 1})
        said = run(home, lambda _: None)
        assert (said["exit_code"], said["entries"]) == (1, {"accepted": 1, "held": 1})


def test_a_dry_run_foresees_that_an_update_of_other_fields_corrects_no_wrong_order(workspace):
    """But that a right update corrects a wrong one."""
    workspace.use_small("orders", "order-updates", changed="update")
    assert workspace.nights("orders: A-1,Bonn,1 | A-2,Bonn,1").returncode == 0
    workspace.drop_rows("updates_1: A-2,", "updates_2: A-1,Ulm | A-2,Ulm")
    assert workspace.run("--dry-run").returncode == 0
    workspace.drop("orders.csv", "Order,City,Weight\nA-1,Bonn,x\n", age=600)
    assert [workspace.run(*words).returncode for words in (["--dry-run"], [])] == [1, 1]


# ---- rows that create or update, whichever it is ----

HEAD = "Åtgärd;Order;Mottagare;Gata;Postnr;Ort;Land;Hämtning;Leverans;Kolli;Vikt;Volym;Värde;Orsak"
ROW = "N;LQ-501;{name};Storgatan 5;903 26;Umeå;SE;2026-03-11 08:00;2026-03-12 10:00;3;41,5;0,9;2 150,00;"
LONG = "Norra Möbler, avdelningen för kök och badrum"


def test_the_corrected_row_creates_what_the_exchange_refused_before_it(workspace, tmp_path):
    def drop(number, name):
        workspace.drop(f"lindqvist_changes_{number}.csv", f"{HEAD}\n{ROW.format(name=name)}\n")

    def run():
        return workspace.run("--exchange", served.url).returncode, workspace.run_json()["groups"]

    workspace.use_shipped("lindqvist-changes")
    for number, name in enumerate((LONG, "Norra Möbler", "Norra Möbler AB"), 1):
        drop(number, name)
    with misbehaving(tmp_path, text_length_max=40) as served:
        orders = {"refused": 1, "replaced later": 1}
        assert run() == (0, {"order.create": orders, "order.update": {"matched": 1}})
        assert [one["operation"] for one in served.happened()] == ["order.create", "order.update"]
        drop(4, "Norra Möbler AB")
        assert run() == (0, {"order.update": {"unchanged": 1}})


# ---- several versions in one inbox ----


@pytest.mark.parametrize(
    ("text_max", "ends"),
    [(60, {"replaced later": 2, "matched": 1}), (25, {"refused": 1, "replaced later": 1, "matched": 1})],
)
def test_each_version_of_a_new_order_in_one_inbox_is_sent_in_its_turn(workspace, tmp_path, text_max, ends):
    """Also if the exchange refuses the first: then the second creates the order."""
    workspace.use(SMALL)
    workspace.edit("mappings/orders.yaml", "target: order.create", "target: order.create\nchanged: update")
    for number, city in enumerate(("Frankfurt an der Oder und Slubice", "Bonn", "Halle"), 1):
        workspace.drop(f"orders{number}.csv", f"Order,City,Weight\nA-1,{city},1\n")
    with misbehaving(tmp_path, text_length_max=text_max) as served:
        foreseen = workspace.run("--exchange", served.url, "--dry-run", "--json")
        assert json.loads(foreseen.stdout)["records"] == {"ready": 3}
        workspace.run("--exchange", served.url)
        assert sum((Counter(group) for group in workspace.run_json()["groups"].values()), Counter()) == ends
        assert next(one["operation"] for one in served.happened()) == "order.create"
        assert "held" not in workspace.run_json()["entries"]
        assert workspace.run("--exchange", served.url).returncode == 0


@pytest.mark.parametrize("newer", ["export", "other"])
@pytest.mark.parametrize("other", ["fix file", "update"])
def test_of_several_files_with_one_order_the_newer_counts_whatever_they_are(workspace, tmp_path, other, newer):
    workspace.use(SMALL)
    workspace.edit("mappings/orders.yaml", "target: order.create", "target: order.create\nchanged: update")
    workspace.drop("orders.csv", f"Order,City,Weight\nA-1,Bonn,{'x' if other == 'fix file' else 1}\n")
    with misbehaving(tmp_path) as served:
        workspace.run("--exchange", served.url)
        book = FixBook(workspace.reports()[-1] / "orders.fix.xlsx") if other == "fix file" else None
        assert book is None or book.repair({"x": 1})

        def drop_other():
            if book:
                book.save(workspace.inbox / "orders.fix.xlsx")
            else:
                workspace.drop("updates.csv", "Order,City\nA-1,Bonn\n")

        def drop_export():
            workspace.drop("orders_all.csv", "Order,City,Weight\nA-1,Halle,1\n")

        for drop in (drop_other, drop_export) if newer == "export" else (drop_export, drop_other):
            drop()
            time.sleep(0.01)  # files are taken in the order in which they changed last
        assert workspace.run("--exchange", served.url).returncode == 0
        workspace.command("pull", "orders", "--to", "all.json", "--exchange", served.url)
        assert f'"delivery_city":"{"Halle" if newer == "export" else "Bonn"}"' in compact(workspace / "all.json")


@pytest.mark.journey
def test_a_delete_waits_for_a_person_if_a_newer_file_of_the_run_still_holds_the_order(workspace, tmp_path):
    """Although that is unchanged since it was accepted."""
    workspace.use(SMALL)
    orders, deletes = "orders: A-1,Bonn,1", "deletes: A-1"

    def at_the_exchange():
        workspace.command("pull", "orders", "--to", "all.json", *options)
        return (workspace / "all.json").read_text(encoding="utf-8")

    with misbehaving(tmp_path) as served:
        options = ("--exchange", served.url)
        workspace.drop_rows(orders)
        workspace.run(*options)
        workspace.drop_rows(deletes, orders)
        foreseen = workspace.run("--dry-run", "--json", *options)
        assert foreseen.returncode == workspace.run(*options).returncode == 1
        assert json.loads(foreseen.stdout)["records"]["held"] == 1
        assert "A-1" in at_the_exchange()
        shown = workspace.command("show", "A-1").stdout
        assert "orders.csv is newer and still holds A-1, so A-1 is not deleted" in shown
        workspace.command("retry", "A-1", "--comment", "it is cancelled")
        assert workspace.run(*options).returncode == 0
        assert "A-1" not in at_the_exchange()


def compact(path):
    return path.read_text(encoding="utf-8").replace('": "', '":"')


@pytest.fixture
def refused(tmp_path):
    """A house in which the exchange refused an order and a row was wrong; changes are sent as updates. With the fix file as it came."""
    workspace = Workspace(tmp_path / "mapped")
    workspace.use_small("orders", changed="update")
    with house(tmp_path, mappings=workspace / "mappings") as home:
        home.exchange.refused.add("A-1")
        home.bad = b"Order,City,Weight\nA-1,Bonn,1\nA-2,Ulm,x\n"
        home.drop = lambda name, content: (home.settings.inbox / name).write_bytes(content)
        assert run(home, lambda one: one.drop("orders.csv", one.bad))["entries"] == {"refused": 1, "invalid": 1}
        home.exchange.refused.clear()
        (path,) = home.settings.outbox.glob("*/orders.fix.xlsx")
        home.uncorrected = path.read_bytes()
        book = FixBook(path)
        assert book.repair({"Bonn": "Köln", "x": "2"}) == 2
        book.save(home.settings.inbox / "mended.xlsx")
        assert run(home, lambda _: None)["exit_code"] == 0
        assert home.exchange.records["A-1"]["delivery_city"] == "Köln"
        yield home


def test_an_uncorrected_fix_file_overwrites_no_correction_of_what_the_exchange_refused(refused):
    for _ in range(2):
        said = run(refused, lambda home: home.drop("late.xlsx", home.uncorrected))
        assert refused.exchange.records["A-1"]["delivery_city"] == "Köln"
        assert (said["exit_code"], said["entries"]) == (0, {"held": 1, "invalid": 1})
    assert len(sent(refused, "/updateOrder")) == 0


def test_a_dry_run_foresees_that_an_uncorrected_fix_file_needs_nobody(refused):
    refused.drop("late.xlsx", refused.uncorrected)
    assert foreseen(refused) == (0, {"held": 1, "invalid": 1})
    refused.drop("orders.csv", refused.bad)
    assert foreseen(refused) == (1, {"held": 2, "invalid": 2})


@pytest.mark.parametrize("corrected_first", [True, False])
def test_a_dry_run_foresees_that_a_fix_file_and_its_corrected_copy_need_nobody(refused, corrected_first):
    """Also a row without an identifier."""
    refused.drop("orders.csv", b"Order,City,Weight\nA-3,Bonn,x\n,Ulm,1\n")
    assert foreseen(refused) == (65, {"invalid": 2})
    run(refused, lambda _: None)
    path = max(refused.settings.outbox.glob("*/orders.fix.xlsx"))
    names = ["a.xlsx", "b.xlsx"] if corrected_first else ["b.xlsx", "a.xlsx"]
    refused.drop(names[1], path.read_bytes())
    assert foreseen(refused) == (65, {"invalid": 2})
    book = FixBook(path)
    assert book.repair({"x": "2"}) == 1
    (keyless,) = [row for row in book.sheets()[0].iter_rows(min_row=2) if "Ulm" in [cell.value for cell in row]]
    keyless[1].value = "A-4"
    book.save(refused.settings.inbox / names[0])
    for age, name in enumerate(("b.xlsx", "a.xlsx"), start=1):
        os.utime(refused.settings.inbox / name, (time.time() - age,) * 2)
    assert foreseen(refused) == (0, {"invalid": 2, "ready": 2})
    assert run(refused, lambda _: None)["exit_code"] == 0


def test_a_refused_file_that_comes_again_overwrites_no_correction(refused):
    said = run(refused, lambda home: home.drop("orders.csv", home.bad))
    assert said["entries"] == {"held": 1, "invalid": 1}
    assert refused.exchange.records["A-1"]["delivery_city"] == "Köln"
    assert len(sent(refused, "/updateOrder")) == 0


RENUMBERED = {  # a row that the exchange refuses under the number A-1, and the path of its calls
    "order-updates": ("updates.csv", "Order,City\nA-1,Köln\n", "/updateOrder"),
    "events": ("events.csv", "Order,Code,At\nA-1,DEP,2026-03-01 10:00\n", "/statusOrder"),
}


@pytest.fixture(params=RENUMBERED)
def renumbered(request, tmp_path):
    """A house in which the exchange refused a row of A-1, and the sender gave it the number A-2 in the second fix file."""
    workspace = Workspace(tmp_path / "mapped")
    workspace.use_small("orders", request.param)
    with house(tmp_path, mappings=workspace / "mappings") as home:
        home.name, bad, home.path = RENUMBERED[request.param]
        home.bad = bad.encode()
        home.drop = lambda name, content: (home.settings.inbox / name).write_bytes(content)
        run(home, lambda one: one.drop("orders.csv", b"Order,City,Weight\nA-1,Bonn,1\nA-2,Bonn,1\n"))
        home.exchange.refused.add("A-1")
        assert run(home, lambda one: one.drop(home.name, home.bad))["entries"] == {"refused": 1}
        home.fix_files = []
        for values in ({}, {"A-1": "A-2"}):
            path = max(home.settings.outbox.glob("*/*.fix.xlsx"))
            home.fix_files.append(path.read_bytes())
            book = FixBook(path)
            book.repair(values)
            book.save(home.settings.inbox / f"mended{len(home.fix_files)}.xlsx")
            run(home, lambda _: None)
        assert sent(home, home.path) == ["A-1", "A-1", "A-2"]
        home.exchange.refused.clear()
        yield home


@pytest.mark.parametrize("comes", ["the first fix file", "the second fix file", "the file"])
def test_a_row_that_got_another_number_in_a_fix_file_is_not_sent_under_the_old_one(renumbered, comes):
    """Also if the order of the old number is real: only a person can want it."""
    if comes == "the file":
        renumbered.drop(renumbered.name, renumbered.bad)
    else:
        renumbered.drop("late.xlsx", renumbered.fix_files[comes == "the second fix file"])
    assert foreseen(renumbered)[1]["held"] == 1
    assert run(renumbered, lambda _: None)["entries"]["held"] == 1
    assert sent(renumbered, renumbered.path) == ["A-1", "A-1", "A-2"]


def test_a_delete_that_waited_deletes_no_order_of_a_newer_file_when_it_comes_again(workspace):
    """Nor does an update that waited undo its values. A person can send both."""
    workspace.use_small("orders", "order-updates", "order-deletes")
    old = ("updates: A-1,Ulm", "deletes: A-2")
    assert workspace.nights(old).returncode == 1
    assert workspace.nights("orders: A-1,Bonn,1 | A-2,Bonn,1", old).returncode == 1
    assert workspace.states() == {"A-1": "held", "A-2": "held"}
    assert workspace.ask("select count(*) from attempts") == [(2,)], "the two orders"


def states(workspace):
    """Those of all entries, oldest first."""
    return [state for (state,) in workspace.ask("select state from entries order by id")]


def test_an_old_file_that_was_unchanged_before_undoes_no_later_change(workspace):
    """An order as it was in two files, changed by a third; and a delete that two files had while it waited."""
    workspace.use_small("orders", "order-deletes", changed="update")
    old = ("orders2: A-1,Bonn,1 |", "deletes2: A-2 |")
    workspace.nights(("orders: A-1,Bonn,1", "deletes: A-2"), old, "orders: A-1,Kiel,1 | A-2,Kiel,1")
    assert states(workspace) == ["accepted", "held", "unchanged", "unchanged", "accepted", "accepted"]
    assert workspace.nights(old).returncode == 1
    assert workspace.states() == {"A-1": "held", "A-2": "held"}
    assert workspace.ask("select count(*) from attempts") == [(3,)]


def test_an_old_file_undoes_no_later_change_with_a_new_version_of_its_mapping_either(workspace):
    """One order was changed, one was deleted, and one is as it is: that one is sent with what the mapping adds."""
    workspace.use_small("orders", "order-deletes", changed="update")
    old = "orders: A-1,Bonn,1 | A-2,Bonn,1 | A-3,Bonn,1"
    assert workspace.nights(old, ("orders2: A-1,Kiel,1", "deletes: A-2")).returncode == 0
    workspace.edit("mappings/orders.yaml", "goods_value: {value: 10}", "goods_value: {value: 11}")
    workspace.drop_rows(old)
    assert [workspace.run(*words).returncode for words in (["--dry-run"], [])] == [1, 1]
    assert workspace.states() == {"A-1": "held", "A-2": "held", "A-3": "accepted"}
    assert {problem["code"] for problem in workspace.run_json()["problems"]} == {"L619"}


def test_an_old_file_that_was_held_undoes_no_later_change_with_a_new_version_of_its_mapping_either(workspace):
    workspace.use_small("orders")
    workspace.nights("orders: A-1,Bonn,1", "orders2: A-1,Kiel,1")
    workspace.edit("mappings/orders.yaml", "target:", "changed: update\ntarget:")
    assert workspace.nights("orders3: A-1,Ulm,1").returncode == 0
    workspace.edit("mappings/orders.yaml", "goods_value: {value: 10}", "goods_value: {value: 11}")
    assert workspace.nights("orders2: A-1,Kiel,1").returncode == 1
    assert {problem["code"] for problem in workspace.run_json()["problems"]} == {"L619"}


def test_the_values_before_a_change_that_left_one_blank_are_a_change(workspace):
    """The update that a person released has no field for the blank cell."""
    workspace.use_small("orders")
    workspace.edit("mappings/orders.yaml", "columns:", "columns:\n  note: {label: Note, type: text}")
    workspace.edit("mappings/orders.yaml", "  currency:", "  order_status: {col: note}\n  currency:")
    for name, row in (("orders", "A-1,Bonn,1,OPEN"), ("orders2", "A-1,Kiel,1,")):
        workspace.drop(f"{name}.csv", f"Order,City,Weight,Note\n{row}\n")
        workspace.run()
    assert workspace.command("retry", "A-1", "--comment", "it is right").returncode == 0
    workspace.drop("orders3.csv", "Order,City,Weight,Note\n\nA-1,Bonn,1,OPEN\n")
    assert workspace.run().returncode == 1
    assert workspace.states() == {"A-1": "held"}


def test_a_quote_is_sent_again_for_a_tender_that_was_withdrawn_and_came_anew(workspace):
    """The withdrawal took it along. The old file brings it back only if a person says so."""
    workspace.use_small("tenders", "quotes", "tender-deletes")
    (deletes,) = workspace.folder.glob("mappings/tender-deletes.yaml")
    prefix = deletes.read_text(encoding="utf-8").split('files: ["')[1].split("*")[0]
    quote = "Tender,Carrier,Rate\nT-1,C1,100\n"
    for name, content in (
        ("tenders.csv", "Tender,City\nT-1,Bonn\n"),
        ("quotes.csv", quote),
        (f"{prefix}.csv", "Tender\nT-1\n"),
        ("tenders2.csv", "Tender,City\nT-1,Kiel\n"),
    ):
        workspace.drop(name, content)
        assert workspace.run().returncode == 0
    workspace.drop("quotes.csv", quote)
    assert workspace.run().returncode == 1
    assert {problem["code"] for problem in workspace.run_json()["problems"]} == {"L619"}
    workspace.drop("quotes2.csv", quote + "\n")
    assert workspace.run().returncode == 0
    assert workspace.states()["T-1/C1"] == "accepted"


TENDERS = """\
mapping: lanes
version: 1
target: tender.create
source: {files: ["lanes*.csv"], locale: en_GB}
columns:
  no:     {label: No, required: true, key: true}
  code:   {label: Postcode}
payload:
  tender_id: {col: no}
  sender_id: {value: A}
  receiver_id: {value: B}
  tender_status: {value: OPEN}
  pickup_startdatetime: {value: "2026-03-04 08:00:00"}
  pickup_pincode: {col: code}
  packages: {each: rows, item: {package_type: {value: BOX}, item_name: {value: Box}}}
"""


def test_the_values_of_a_tender_before_a_change_that_left_one_blank_are_a_change(workspace):
    workspace.use({"lanes": TENDERS})
    for name, row in (("lanes", "L1,53111"), ("lanes2", "L1,")):
        workspace.drop(f"{name}.csv", f"No,Postcode\n{row}\n")
        workspace.run()
    assert workspace.command("retry", "L1", "--comment", "it is right").returncode == 0
    workspace.drop("lanes3.csv", "No,Postcode\n\nL1,53111\n")
    assert workspace.run().returncode == 1
    assert workspace.states() == {"L1": "held"}


def test_a_warning_names_the_values_that_an_update_does_not_clear(workspace):
    workspace.use({"lanes": TENDERS.replace("target:", "changed: update\ntarget:")})
    for name, row in (("lanes", "L1,53111"), ("lanes2", "L1,")):
        workspace.drop(f"{name}.csv", f"No,Postcode\n{row}\n")
        assert workspace.run().returncode == 0
    assert '"pickup_pincode":"53111"' in workspace.command("pull", "tenders", "--json").stdout
    (row,) = workspace.results("lanes2.csv")
    assert row["problem"] == (
        "Warning: Values of L1 are blank now, and the exchange keeps those that were sent before: Postcode 53111 -> (blank) [L626]"
    )
    workspace.edit("mappings/lanes.yaml", "{col: code}", '{col: code, default: ""}')
    workspace.drop("lanes3.csv", "No,Postcode\nL1,\n\n")
    assert workspace.run().returncode == 0
    assert workspace.run_json()["problems"] == []
    assert '"pickup_pincode":""' in workspace.command("pull", "tenders", "--json").stdout
    workspace.edit("mappings/lanes.yaml", '{col: code, default: ""}', "{col: code}")
    workspace.edit("mappings/lanes.yaml", "OPEN", "CLOSED")
    workspace.drop("lanes4.csv", "No,Postcode\nL1,\n\n\n")
    assert workspace.run().returncode == 0
    assert workspace.run_json()["problems"] == [], "an empty text is no value that stays"


@pytest.mark.parametrize("named", [True, False])
def test_fields_that_a_mapping_does_not_name_are_not_blank_in_its_sheet(workspace, named):
    """A second mapping of the same tenders, by which a value is blank, or for which there is no such column."""
    upserts = TENDERS.replace("create", "upsert")
    others = (
        upserts.replace("lanes", "others") if named else MOVED.replace("update", "upsert").replace("moved", "others")
    )
    workspace.use({"lanes": upserts, "others": others})
    other = "No,Postcode\nL1,\n" if named else "No,Pickup\nL1,2026-03-05 07:00\n"
    files = {"lanes.csv": "No,Postcode\nL1,53111\n", "others.csv": other}
    for name, text in files.items():
        workspace.drop(name, text)
        assert workspace.run().returncode == 0
    assert [problem["code"] for problem in workspace.run_json()["problems"]] == ["L626"] * named


@pytest.mark.parametrize(("code", "said"), [("53113", []), ("", ["L626"])])
def test_a_field_that_a_mapping_does_not_give_its_updates_is_not_blank(workspace, code, said):
    update = "payload_of:\n  tender.update:\n    tender_id: {col: no}\n    sender_id: {value: A}\n    receiver_id: {value: B}\n"
    update += "    tender_status: {value: CLOSED}\n"
    workspace.use({"lanes": TENDERS.replace("create", "upsert") + update})
    for name, now in (("lanes", "53111"), ("lanes2", code)):
        workspace.drop(f"{name}.csv", f"No,Postcode\nL1,{now}\n")
        assert workspace.run().returncode == 0
    assert [problem["code"] for problem in workspace.run_json()["problems"]] == said


@pytest.mark.parametrize("last", ["Kiel", ""])
def test_a_person_who_sends_a_change_reads_what_it_does_not_clear(workspace, last):
    workspace.use({"lanes": TENDERS})
    for number, code in enumerate(("53111", last)):
        workspace.drop(f"lanes{number}.csv", f"No,Postcode\nL1,{code}\n")
        workspace.run()
    shown = workspace.command("show", "L1").stdout
    assert ("the update leaves pickup_pincode as before" in shown) == (not last)


@pytest.mark.parametrize("again", ["changes", "lanes"])
def test_a_warning_says_that_an_update_with_fewer_packages_removes_the_others(workspace, again):
    """Also if it is a new version of its record: a second file may list only the further packages."""
    tenders = TENDERS.replace("payload:", "group: {by: no}\npayload:").replace("{value: Box}", "{col: code}")
    tenders = tenders.replace("{label: Postcode}", "{label: Box}").replace("  pickup_pincode: {col: code}\n", "")
    updates = tenders.replace("create", "update").replace("lanes", "changes")
    workspace.use({"lanes": tenders.replace("target:", "changed: update\ntarget:"), "changes": updates})
    for name, boxes in (("lanes1", "abc"), (f"{again}2", "xyz"), (f"{again}3", "y")):
        workspace.drop(f"{name}.csv", "No,Box\n" + "".join(f"L1,{box}\n" for box in boxes))
        assert workspace.run().returncode == 0
        assert [problem["code"] for problem in workspace.run_json()["problems"]] == ["L627"] * (boxes == "y")
    (row,) = workspace.results(f"{again}3.csv")
    assert row["problem"] == ("Warning: This update replaces all 3 packages of L1 by 1 [L627]")
    assert workspace.command("pull", "tenders", "--json").stdout.count("item_name") == 1


@pytest.mark.parametrize("target", ["create", "create\nchanged: update", "upsert"])
def test_the_time_of_a_run_makes_no_row_that_comes_again_a_change(workspace, target):
    made = "payload:\n  createdon: {expr: $now}"
    mapping = TENDERS.replace("locale:", "timezone: UTC, locale:").replace("payload:", made)
    workspace.use({"lanes": mapping.replace("create\n", f"{target}\n")})
    files = ["L1,53111\nL2,5020\n", "L2,5020\nL1,53111\nL3,1010\n", "L1,53113\n"]
    for hour, rows in enumerate(files):
        workspace.drop(f"lanes{hour}.csv", f"No,Postcode\n{rows}")
        done = workspace.run(clock=partial(datetime, 2026, 3, 4, hour, tzinfo=UTC))
        assert done.returncode == (hour == 2 and target == "create"), done.stdout
    tenders = workspace.command("pull", "tenders", "--json").stdout
    assert [tenders.count(f'"createdon":"2026-03-04 0{hour}:00:00"') for hour in range(3)] == (
        [2, 1, 0] if target == "create" else [1, 1, 1]
    )
    verdicts = [row["verdict"] for row in workspace.results("lanes1.csv")]
    assert verdicts == ["unchanged", "unchanged", "matched"]


def test_whether_a_record_has_the_time_of_a_run_is_a_change(workspace):
    """A cell decides it that fills nothing else."""
    made = "payload:\n  createdon: {expr: $now, when: 'code == \"sold\"'}"
    mapping = TENDERS.replace("locale:", "timezone: UTC, locale:").replace("payload:", made)
    workspace.use({"lanes": mapping.replace("  pickup_pincode: {col: code}\n", "")})
    for code, held in (("open", False), ("sold", True)):
        workspace.drop(f"lanes_{code}.csv", f"No,Postcode\nL1,{code}\n")
        assert (workspace.run().returncode == 1) == held


def test_an_event_at_the_time_of_a_run_is_new_unless_it_repeats_the_last_one(workspace):
    """Its sheet has no time, so the same status on another day may be another event."""
    workspace.use_small("orders", "events")
    workspace.edit("mappings/events.yaml", "{col: at}", "{expr: $now}")
    workspace.edit("mappings/events.yaml", "  at: {label: At, type: datetime, required: true}\n", "")
    workspace.drop("orders.csv", "Order,City,Weight\nA-1,Bonn,1\n")
    for hour, (code, total) in enumerate([("HELD", 1), ("HELD", 1), ("GONE", 2), ("HELD", 3), ("HELD", 3)]):
        workspace.drop(f"events{hour}.csv", f"Order,Code\nA-1,{code}\n" + "\n" * hour)
        assert workspace.run(clock=partial(datetime, 2026, 3, 4, hour, tzinfo=UTC)).returncode == 0
        (sent,) = workspace.ask("select count(*) from entries where operation = 'order.status' and state = 'accepted'")
        assert sent == (total,), (hour, code)


def test_a_file_that_a_restored_ledger_does_not_know_is_set_aside_and_its_events_are_not_sent_twice(workspace):
    workspace.use_small("orders", "events")
    workspace.drop("orders.csv", "Order,City,Weight\nA-1,Bonn,1\n")
    assert workspace.run().returncode == 0
    copy = workspace / "copy.db"
    assert workspace.command("ledger", "backup", "--to", str(copy)).returncode == 0
    events = "Order,Code,At\nA-1,DEP,2026-03-01 10:00\n"
    for expected in (0, 70, 65):
        workspace.drop("events.csv", events)
        assert (
            workspace.run(LOADSHEET_LEDGER__ACCEPT_OLDER="false" if expected == 70 else "true").returncode == expected
        )
        if not expected:
            assert workspace.command("ledger", "restore", str(copy), "--yes").returncode == 0
    assert "of which this ledger knows nothing" in (workspace.reports()[-1] / "run.json").read_text(encoding="utf-8")
    (told,) = workspace.results("events.csv")
    assert told["problem"].startswith("Events.csv was processed before, and is not sent twice")
    assert told["what to do"].startswith("Contact the people who run loadsheet"), (
        "not how to send it twice all the same"
    )
    (aside,) = workspace.outbox.glob("*/set-aside/events.csv")
    assert aside.read_text(encoding="utf-8") == events
    assert workspace.ask("select count(*) from entries where operation = 'order.status'") == [(0,)]
    workspace.drop("events.csv", events + "\n")  # saved anew
    assert workspace.run().returncode == 0
    assert workspace.ask("select count(*) from entries where operation = 'order.status'") == [(1,)]


MOVED = """\
mapping: moved
version: 1
target: tender.update
source: {files: ["moved*.csv"], locale: en_GB, timezone: Europe/Berlin, dates: ["%Y-%m-%d %H:%M"]}
columns:
  no: {label: No, required: true, key: true}
  at: {label: Pickup, type: datetime}
payload:
  tender_id: {col: no}
  sender_id: {value: A}
  receiver_id: {value: B}
  tender_status: {value: OPEN}
  pickup_startdatetime: {col: at}
  pickup_enddatetime: {col: at}
"""


@pytest.mark.parametrize("zone", ["Europe/Athens", "Europe/Paris", ""])
@pytest.mark.parametrize("named", [True, False])
def test_times_of_another_time_zone_than_that_of_their_tender_wait_for_a_person(workspace, zone, named):
    ours = "payload:\n  timezone: {value: Europe/Berlin}" if named else "payload:"
    theirs = f"payload:\n  timezone: {{value: {zone}}}" if zone else "payload:"
    workspace.use({"lanes": TENDERS.replace("payload:", theirs), "moved": MOVED.replace("payload:", ours)})
    workspace.drop("lanes.csv", "No,Postcode\nL1,53111\n")
    assert workspace.run().returncode == 0
    workspace.drop("moved.csv", "No,Pickup\nL1,2026-03-05 07:00\n")
    is_other = zone == "Europe/Athens"
    assert workspace.run().returncode == is_other
    assert [problem["code"] for problem in workspace.run_json()["problems"]] == ["L628"] * is_other
    if is_other:
        (row,) = workspace.results("moved.csv")
        text = "The times are in the time zone Europe/Berlin, but those of L1 are in Europe/Athens [L628]"
        assert row["problem"] == text
        assert workspace.command("retry", "L1", "--comment", "they moved").returncode == 0
        assert workspace.run().returncode == 0
    assert '"pickup_enddatetime":"2026-03-05 07:00:00"' in workspace.command("pull", "tenders", "--json").stdout


def use_senders(workspace, **more):
    """Orders of two senders, and updates and deletes of the first."""
    workspace.use_senders("orders", "others", **more)
    for name in ("order-updates", "order-deletes"):
        workspace.add(name)


@pytest.mark.parametrize("first", ["orders", "others"], ids=["changed", "of another sender"])
def test_an_order_that_was_held_is_not_sent_when_its_file_comes_again_after_a_delete(workspace, first):
    use_senders(workspace)
    done = workspace.nights(f"{first}: A-1,Bonn,1", "orders2: A-1,Ulm,2", "deletes: A-1", "orders2: A-1,Ulm,2")
    assert (done.returncode, workspace.states()["A-1"]) == (1, "held")
    assert workspace.ask("select count(*) from attempts") == [(2,)], "the first order and the delete"
    workspace.command("retry", "A-1")
    workspace.run()
    assert workspace.states()["A-1"] == "accepted", "a person wants it"


def test_a_delete_that_a_newer_file_overruled_is_not_sent_when_its_file_comes_again(workspace):
    workspace.use_small("orders", "order-deletes")
    workspace.nights("orders: A-1,Bonn,1", ("deletes: A-1", "orders2: A-1,Bonn,1"))
    assert workspace.states()["A-1"] == "held"
    assert workspace.nights("deletes: A-1").returncode == 1
    assert workspace.ask("select count(*) from attempts") == [(1,)], "the order"


def test_what_a_person_released_counts_from_then_on(workspace):
    """A new delete of the order that came back is sent, and so is a new change of an order that was created anew."""
    use_senders(workspace)
    workspace.nights("others: A-1,Bonn,11", "orders: A-1,Ulm,2", "deletes: A-1", "retry A-1", "deletes2: A-1 |")
    assert workspace.ask("select operation, state from entries order by id") == [
        ("order.create", "accepted"),
        ("order.create", "accepted"),
        ("order.delete", "accepted"),
        ("order.delete", "accepted"),
    ]


def test_a_version_that_a_person_sent_undoes_no_newer_order_that_follows_a_delete(workspace):
    """The person released a delete as well. So the older version waits for the order, which the newer file brings."""
    use_senders(workspace, changed="update")
    workspace.nights(("deletes: A-1", "others: A-1,Bonn,1"), ("others2: A-1,Hamm,1", "orders: A-1,Ulm,1"), "retry A-1")
    assert workspace.nights("orders2: A-1,Kiel,1").returncode == 1
    (order,) = json.loads(workspace.command("pull", "orders", "--json").stdout)["results"]
    assert order["delivery_city"] == "Kiel"
    held = workspace.ask("select operation, reason from entries where state = 'held'")
    assert held == [("order.update", "waits for order A-1: it was created after this")]
    assert workspace.run().returncode == 0, "it is judged once"


def test_a_change_is_not_with_the_exchange_if_its_order_was_deleted_by_a_person_since(workspace):
    """The delete waited for the order, and was released after the change."""
    workspace.use_small("orders", "order-updates", "order-deletes")
    files = ("deletes: A-1", "orders: A-1,Bonn,1", "updates: A-1,Ulm")
    assert workspace.nights(*files, "retry A-1", "updates2: A-1,Ulm |").returncode == 1
    assert states(workspace) == ["accepted", "accepted", "accepted", "held"]


def test_an_update_of_another_party_makes_it_no_sender_of_the_order(workspace):
    """Its own order with the same number would overwrite the first one."""
    use_senders(workspace, changed="update")
    workspace.nights("others: A-1,Jena,5", "updates: A-1,Ulm", "orders: A-1,Kiel,7")
    assert states(workspace) == ["accepted", "accepted", "held"]
    assert workspace.ask("select reason from entries where state = 'held'") == [("another sender has this number",)]


def test_an_update_of_another_party_that_waits_for_an_order_holds_back_no_order(workspace):
    """It shows nothing: its own sender has no such order."""
    use_senders(workspace)
    workspace.nights("updates: A-1,Ulm", "others: A-1,Kiel,7")
    assert states(workspace) == ["held", "accepted"]


@pytest.mark.parametrize("operation", ["order.create", "order.upsert"])
def test_an_order_is_created_anew_although_an_update_of_another_party_waits_for_it(workspace, operation):
    """The exchange had it before; it was looked up then, and deleted since."""
    use_senders(workspace)
    workspace.edit("mappings/others.yaml", "order.create", operation)
    workspace.nights("updates: A-1,Ulm", "others: A-1,Kiel,7", "deletes: A-1")
    workspace.nights(("updates2: A-1,Bonn", "others2: A-1,Kiel,8"))
    assert workspace.ask("select operation, state from entries where id in (4, 5) order by id") == [
        ("order.update", "held"),
        ("order.create", "accepted"),
    ]


def test_a_held_upsert_creates_its_order_anew_if_that_was_deleted_before_a_person_releases_it(workspace):
    """It was held as an update, because it came again after newer values."""
    workspace.use_small("orders", "order-deletes")
    workspace.edit("mappings/orders.yaml", "order.create", "order.upsert")
    workspace.nights("orders: A-1,Kiel,7", "orders: A-1,Kiel,8", "orders: A-1,Kiel,7", "deletes: A-1")
    assert "order.create" in workspace.command("retry", "A-1").stdout
    assert workspace.run().returncode == 0
    assert workspace.ask("select operation, state from entries order by id") == [
        ("order.create", "accepted"),
        ("order.update", "accepted"),
        ("order.create", "accepted"),
        ("order.delete", "accepted"),
    ]


def test_a_list_that_makes_and_changes_orders_sends_nothing_when_it_comes_again(workspace):
    """Each order has a later value in the same list. Its first row would set that back, and its second one be held as older."""
    workspace.use_shipped("lindqvist-changes")
    made = "N;{0};Kund;Gata 1;21122;Lund;SE;2026-03-01 08:00;2026-03-02 08:00;1;100;1;1000;"
    rows = [made.format("A-1"), "U;A-1;;;;Kiruna;;;;;50;;;", made.format("A-2"), "X;A-2;;;;;;;;;;;;"]
    rows += ["U;A-3;;;;Kiruna;;;;;;;;", made.format("A-3")]
    heads = "Åtgärd;Order;Mottagare;Gata;Postnr;Ort;Land;Hämtning;Leverans;Kolli;Vikt;Volym;Värde;Orsak"
    for _ in range(2):
        workspace.drop("lindqvist_changes_1.csv", "\n".join([heads, *rows, ""]))
        done = workspace.run()
    assert done.returncode == 0, done.stdout
    sent = workspace.ask("select key, operation from entries where state = 'accepted' order by id")
    assert Counter(sent).most_common(1)[0][1] == 1
    again = workspace.ask("select key, operation, state, reason from entries where drop_id = 2 order by id")
    assert {state for _, _, state, _ in again} == {"unchanged"}, again
    orders = {one["order_id"]: one for one in map(json.loads, House.held(workspace)["orders"].elements())}
    assert (orders["A-1"]["delivery_city"], orders["A-1"]["total_weight"]) == ("Kiruna", 50)

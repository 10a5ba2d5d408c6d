"""Payloads, cells and answers go after `payload_days`; what they were needed for is answered all the same."""

import csv
from dataclasses import replace

import databases
import pytest
from ledgers import document, drop_of, left_out, listing, plan, refused, send, tender, unknown, weight_problem
from retention_runs import PERSON, orders, records

from loadsheet import reconcile
from loadsheet.dispatch.unknown_rules import content_before
from loadsheet.errors import LedgerError
from loadsheet.ledger import Choice, Settlement, State
from loadsheet.ledger.content_changes import NOT_KEPT
from loadsheet.ledger.decisions import judge_retry
from loadsheet.ledger.maintenance import figures_of
from loadsheet.mapping.documents import RowLinks


def invalid(number):
    row = ("orders", 2 * number, (f"A-{number:05}", PERSON, "01067", "zwölf", ""))
    return document("order.create", None, [row], weight_problem("orders.csv", 2 * number))


def answers(one):
    return {"A-00004": refused, "A-00005": unknown}.get(one.key, lambda _: None)(one)


def removed(house, drop):
    return {entry.key for entry in house.entries(drop) if entry.removed}


@databases.ON_BOTH
def test_what_is_settled_and_old_is_emptied_and_all_that_is_open_stays(house):
    _, drop = house.night(
        "orders.csv", [*orders(1, 2, 3, 4, 5), invalid(6)], answers=answers, listed=records(1, 2, goods_value=7)
    )
    before = {entry.key: entry for entry in house.entries(drop)}
    for days in (29, 2):
        house.days(days)
        house.keep(payload_days=30)
        # 1 and 2 differ at the exchange and 3 is missing there, which are open exceptions, as are 4, 5 and 6
        assert removed(house, drop) == set()
    house.night("nothing.csv", [], listed=records(1, 2, 3))
    house.expire()
    assert removed(house, drop) == {"A-00001", "A-00002", "A-00003"}
    for entry in house.entries(drop):
        was = before[entry.key]
        same = ("id", "key", "lane", "state", "content_hash", "service_order", "attempts", "created_at", "changed_at")
        assert all(getattr(entry, name) == getattr(was, name) for name in same)
        assert [row[:2] for row in entry.rows] == [row[:2] for row in was.rows]
        if entry.removed:
            assert entry.payload == b""
            assert {row.cells for row in entry.rows} == {()}
            assert PERSON.encode() not in entry.figures
        else:
            assert (entry.payload, entry.rows, entry.problems) == (was.payload, was.rows, was.problems)
    assert house.ledger.check() == []
    assert house.ledger.maintenance.removed_by_rule()["payloads"] == 3


def test_an_accepted_entry_is_emptied_at_the_end_of_its_last_day(house):
    _, drop = house.night("orders.csv", orders(1), listed=records(1))
    house.days(29)
    house.keep(payload_days=30)
    assert removed(house, drop) == set()
    house.days(1)
    house.keep()
    assert removed(house, drop) == {"A-00001"}


@databases.ON_BOTH
def test_an_exception_that_was_closed_is_emptied_with_its_values(house):
    """So are rows that a rule left out, once nothing of their file is kept."""
    run, drop = house.night("orders.csv", [*orders(1), invalid(6), left_out(30, ("", PERSON))], listed=records(1))
    house.night("fixed.csv", orders(6), listed=records(1, 6))
    house.expire()
    assert removed(house, drop) == {"A-00001", "A-00006"}
    (problem,) = house.entries(drop)[1].problems
    assert (problem.code, problem.where.row, problem.found) == ("C302", 12, "…")
    assert problem.text == '"…" is not a number'
    (row,) = house.ledger.queries.ignored_of(drop.id)
    assert (row.number, row.cells, row.rule) == (30, (), "row begins with Summe")
    assert house.told_again(run).balances


@databases.ON_BOTH
def test_what_came_back_wrong_is_emptied_once_the_exception_of_its_record_is_closed(house):
    _, drop = house.night("orders.csv", [invalid(6)])
    drops = [drop]
    for fixed in (1, 2):  # a fix file of a fix file
        run = house.ledger.begin_run()
        back = replace(drop_of(("orders", "orders.csv")), fixes=fixed)
        drops.append(plan(house.ledger, run, back, [replace(invalid(6), links=RowLinks(fix_of=(fixed,)))]))
        house.end(run)
    house.expire()
    assert [removed(house, one) for one in drops] == [set()] * 3
    house.night("whole.csv", orders(6), listed=records(6))
    house.expire()
    assert [removed(house, one) for one in drops] == [{"A-00006"}] * 3


@databases.ON_BOTH
def test_a_fix_file_that_comes_back_as_it_was_deletes_no_newer_order(house):
    delete = document("order.delete", {"order_id": "A-00001"}, [("orders", 2, ("A-00001", PERSON, "", "", ""))])
    _, drop = house.night("deletes.csv", [delete], answers=refused, operation="order.delete")
    (wrong,) = house.entries(drop)
    house.night("deletes2.csv", [delete], operation="order.delete")  # it settles the first one
    house.night("orders.csv", orders(1), listed=records(1))
    house.expire()
    assert removed(house, drop) == {"A-00001"}
    back = replace(drop_of(("orders", "deletes.fix.csv"), operation="order.delete"), fixes=drop.id)
    drop = plan(house.ledger, house.ledger.begin_run(), back, [replace(delete, links=RowLinks(fix_of=(wrong.id,)))])
    (entry,) = house.entries(drop)
    assert (entry.state, [problem.code for problem in entry.problems]) == (State.HELD, ["L619"])


def test_while_its_record_may_still_be_sent_or_looked_for_an_accepted_entry_is_kept(house):
    _, drop = house.night("orders.csv", orders(1, 2), listed=records(1, 2))
    house.night("changed.csv", orders(1, delivery_city="Köln"), listed=records(1, 2))  # held: changed
    house.expire()
    assert removed(house, drop) == {"A-00002"}


def books(house, run):
    found = house.told_again(run)
    counted = (found.matches.verdicts(), found.matches.states(), sum(1 for _ in found.exceptions.open))
    return (*counted, found.balance, found.totals, found.shares)


@databases.ON_BOTH
def test_the_books_of_an_old_run_are_the_same_without_its_payloads(house):
    listed = [*records(1, 2), *records(3, total_weight=416), *records(4, goods_value=1004.991)]
    run, drop = house.night("orders.csv", orders(1, 2, 3, 4, 5), answers=unknown_fifth, listed=listed)
    before = books(house, run)
    outcomes = {"matched", "value difference", "matched within tolerance", "outcome unknown"}
    assert set(map(str, before[0])) == outcomes
    house.night("nothing.csv", [], listed=records(1, 2, 3, 4))
    house.expire()
    queries = house.ledger.queries
    still_open = [one.entry for one in queries.exceptions_at(queries.runs(1)[0]) if not one.closed]
    keys = {queries.entry(entry).key for entry in still_open}
    assert removed(house, drop) == {"A-00001", "A-00002", "A-00003", "A-00004"} - keys
    assert books(house, run) == before
    written = house.reported_again(run)
    with (written.folder / "orders.csv.results.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 11
    assert {len(row) for row in rows} == {len(rows[0])}
    assert rows[1][4:] == ["", "", "", "", "", "order.create", "A-00001", "8800001", "matched"]
    assert PERSON in rows[9]


def unknown_fifth(one):
    return unknown(one) if one.key == "A-00005" else None


def test_an_emptied_entry_is_not_verifiable_today_and_needs_nobody(house):
    run, drop = house.night("orders.csv", orders(1), listed=records(1))
    entry = house.entry("A-00001")
    assert content_before([entry])["delivery_company"] == PERSON
    house.expire()
    for listed, verdict in ((records(1), "not verifiable"), (records(9), "missing at exchange")):
        there = {"order": listing(listed)}
        found = reconcile.reconcile_run(house.ledger.queries, there, run, house.settings, drops=[drop])
        assert [str(match.verdict) for match in found.matches.values()] == [verdict]
        assert found.needs_someone == (verdict == "missing at exchange")
    emptied = house.entry("A-00001")
    update = entry._replace(operation="order.update", payload=b'{"delivery_city":"Koln"}')
    assert [content_before([emptied]), content_before([emptied, update])] == [None, None]
    assert content_before([emptied, entry])["delivery_company"] == PERSON


def test_the_same_content_dropped_again_is_unchanged_and_other_content_is_held(house):
    """A mapping that updates what changed does so without the old payload."""
    house.night("orders.csv", orders(1, 2, 3), listed=records(1, 2, 3))
    house.expire()
    items = [*orders(1), *orders(2, delivery_city="Köln")]
    _, again = house.night("again.csv", items, listed=records(1, 2, 3))
    same, other = house.entries(again)
    assert (same.state, other.state) == (State.UNCHANGED, State.HELD)
    assert other.problems[0].text == f"A-00002 was accepted before with other values: {NOT_KEPT}"
    run = house.ledger.begin_run()
    drop = plan(house.ledger, run, drop_of(("orders", "x.csv")), orders(3, delivery_city="Köln"), changed="update")
    assert [(one.operation, one.state) for one in house.entries(drop)] == [("order.update", State.READY)]


def test_an_order_without_contents_still_has_its_sender_and_its_last_version(house):
    """The number of another sender is held. What was before a change is not taken for what the exchange has."""
    house.night("orders.csv", orders(1), listed=records(1))
    run = house.ledger.begin_run()
    plan(house.ledger, run, drop_of(("orders", "new.csv")), orders(1, delivery_city="Köln"), changed="update")
    send(house.ledger, run, lambda _: None)
    house.expire()
    _, theirs = house.night("others.csv", orders(1, sender_id="OTHER"))
    _, old = house.night("as_before.csv", orders(1))
    codes = [[problem.code for problem in one.problems] for drop in (theirs, old) for one in house.entries(drop)]
    assert codes == [["L622"], ["L601"]]


@databases.ON_BOTH
def test_of_a_refusal_that_was_closed_only_the_fact_stays(house):
    """Retry and the reports of its run say that the values are removed, and what to do."""
    run, drop = house.night("orders.csv", orders(4), answers=refused)
    house.night("later.csv", orders(4, delivery_city="Köln"), listed=records(4, delivery_city="Köln"))
    house.expire()
    (entry,), queries = house.entries(drop), house.ledger.queries
    assert entry.removed
    attempts, events = queries.attempts_of(entry.id), queries.events_of(entry.id)
    assert [attempt.outcome for attempt in attempts] == ["refused"]
    steps = [("", "ready"), ("ready", "sending"), ("sending", "refused")]
    assert [(event.before, event.after) for event in events] == steps
    assert not any("pincode" in str(one) for one in (*events, *attempts, *entry.problems, entry.reason))
    retry = judge_retry(entry, attempts, list(queries.heads_on([entry.lane], *State)))
    assert retry.refusal == "its contents were removed on 2026-04-04; to send it again, drop its file again"
    chosen = [Choice(entry, Settlement(entry.id, State.READY, "sent again"))]
    with pytest.raises(LedgerError, match="contents of A-00004 were removed on 2026-04-04"):
        house.ledger.decide(house.ledger.begin_run(), chosen, who="me", choice="retry", comment="")
    assert house.ledger.check() == []
    written = house.reported_again(run)
    page = (written.folder / "run.html").read_text(encoding="utf-8")
    assert "its values were removed on 2026-04-04 and are no longer kept" in page
    assert PERSON not in page
    assert not [name for name in written.summary.reports if ".fix." in name]
    _, again = house.night("again.csv", orders(4), listed=records(4))
    assert house.entries(again)[0].state in (State.HELD, State.REFUSED)


def test_a_tender_keeps_the_figures_of_its_packages_and_nothing_else(house):
    item = document("tender.create", tender(1), [("orders", 2, ("T-0001",))])
    run, drop = house.night("t.csv", [item], operation="tender.create")
    before = books(house, run)
    house.expire()
    (entry,) = house.entries(drop)
    packages = b'"packages":[{"quantity":"3","weight":"612.5","weight_uom":"KG"}]'
    assert entry.figures == b'{%s,"sender_id":"ACME","receiver_id":"CARGO"}' % packages
    assert books(house, run) == before
    assert figures_of("order.status", b'{"order_id":"A-1"}') == figures_of("order.create", b"") == b""

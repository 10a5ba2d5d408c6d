"""Whatever a run brings: each row and each entry is accounted for once, and what the run saw says the same again."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from random_runs import counted, delivered, run_files, sent_order, views

from loadsheet.ledger import State
from loadsheet.reconcile import (
    IGNORED,
    VERDICTS_THAT_NEED_SOMEONE,
    Match,
    RecordedListings,
    RunNotes,
    Verdict,
    reconcile_run,
)
from loadsheet.reconcile.verdicts import Matches
from loadsheet.settings import Settings

SETTINGS = Settings()
STATES_OF = {
    Verdict.INVALID: {State.INVALID},
    Verdict.HELD: {State.HELD},
    Verdict.REFUSED: {State.REFUSED},
    Verdict.UNKNOWN: {State.UNKNOWN, State.SENDING},
    Verdict.WAITING: {State.READY},
    Verdict.ACKNOWLEDGED: {State.ACCEPTED},
    Verdict.REPLACED: {State.ACCEPTED},
    Verdict.MATCHED: {State.ACCEPTED},
    Verdict.UNCHANGED: {State.UNCHANGED},
}
ON_RECORD = {State.ACCEPTED, State.UNCHANGED}
WRONG = {Verdict.VALUE_DIFFERENCE, Verdict.MISSING, Verdict.STILL_LISTED, Verdict.LISTED_TWICE}


@settings(max_examples=60, deadline=None)
@given(run_files, views)
@example([[sent_order("unknown")] * 2, [sent_order("accepted")] * 2], "whole")
def test_any_run_is_accounted_for(files, view):
    with delivered(files, view) as (ledger, run, listings):
        found = reconcile_run(ledger.queries, listings, run, SETTINGS)
        drops = ledger.queries.drops_of(run)
        entries = [entry for drop in drops for entry in ledger.queries.entries_of(drop.id)]
        each_entry_has_a_verdict_that_its_state_allows(found, entries, ledger)
        rows_read_are_the_sum_of_their_fates(found, entries, drops, ledger, files)
        for total in found.totals:
            assert total.source == total.not_sent + total.sent
            assert total.sent >= total.acknowledged
        if view == "whole":  # the exchange did what it accepted
            assert not WRONG & set(found.verdicts)
            assert not found.only_listed
            assert all(total.acknowledged == total.listed for total in found.totals)
        if view == "partial":
            assert Verdict.MISSING not in found.verdicts
        what_was_seen_says_the_same_again(found, ledger, run)
        each_entry_that_needs_someone_is_an_exception(found, ledger, listings, run)


def each_entry_has_a_verdict_that_its_state_allows(found, entries, ledger):
    assert [match.entry for match in found.matches.values()] == [entry.id for entry in entries]
    for entry in reversed(entries):
        match = found.matches[entry.id]
        assert match.state is counted(ledger, entry)
        assert match.state in STATES_OF.get(match.verdict, ON_RECORD), match


def rows_read_are_the_sum_of_their_fates(found, entries, drops, ledger, files):
    assert found.balances
    assert not list(found.faults())
    expected = Counter(counted(ledger, entry) for entry in entries for _ in entry.rows)
    expected.update(IGNORED for drop in drops for _ in ledger.queries.ignored_of(drop.id))
    assert {fate: count for fate, count in found.balance.rows.items() if count} == dict(expected)
    assert found.balance.read == expected.total() == sum(spec["rows"] for items in files for spec in items)
    assert found.balance.entries == found.verdicts.total()
    assert found.verdicts == Counter(match.verdict for match in found.matches.values())


def what_was_seen_says_the_same_again(found, ledger, run):
    seen = replace(found, notes=RunNotes(("a remark",), "the rest by noon", ready=5)).pack_snapshot()
    recalled = RecordedListings([(replace(run, finished_at=ledger.now()), seen)])
    again = reconcile_run(ledger.queries, recalled, run, SETTINGS)
    for name in ("only_listed", "coverage", "balance", "totals", "fields", "shares", "exceptions"):
        assert getattr(again, name) == getattr(found, name), name
    assert dict(again.matches) == dict(found.matches)
    assert again.notes == RunNotes(("a remark",), "the rest by noon", {}, {}, ready=5)


def each_entry_that_needs_someone_is_an_exception(found, ledger, listings, run):
    needing = {entry for entry, match in found.matches.items() if match.verdict in VERDICTS_THAT_NEED_SOMEONE}
    assert {one.entry for one in found.exceptions.statuses} <= needing
    shown = [entry for one in found.exceptions.statuses for entry in one.versions]
    assert len(shown) == len(set(shown)), "no document belongs to two exceptions"
    assert needing <= set(shown)
    ledger.record_exceptions(run, found.exceptions.statuses)
    later = reconcile_run(ledger.queries, listings, run, SETTINGS)
    assert [one._replace(closed_run="") for one in later.exceptions.statuses] == list(found.exceptions.statuses)
    assert (later.fields, later.shares) == (found.fields, found.shares)


@pytest.mark.parametrize("entries", [(1, 3, 5), (5, 1, 3), ()])
def test_a_match_is_found_in_whatever_order_they_were_added(entries):
    added = [Match(entry, "order.create", State.READY, Verdict.WAITING) for entry in entries]
    matches = Matches()
    for match in added:
        matches.add(match)
    assert [matches[entry] for entry in reversed(entries)] == added[::-1]
    assert 2 not in matches

"""Records and cells are packed in blocks of neighbours: small, read back byte for byte, and whatever is damaged or missing is said."""

import sqlite3
from contextlib import closing

import databases
import pytest
from ledgers import blocks_in, document, drop_of, ledger_in, order, send
from sqlalchemy import select

from loadsheet.errors import LedgerError
from loadsheet.ledger import ReadTotals, State, codec, content_blocks
from loadsheet.ledger.content_blocks import BLOCK
from loadsheet.ledger.ledger_tables import entries
from loadsheet.mapping.documents import NO_LINKS, RowLinks


def documents(first, count):
    """Orders of one row each, from row 2 on."""
    numbers = range(first, first + count)
    return [
        document("order.create", order(number), [("orders", number + 1, (f"A-{number:05}", "Käthe"))])
        for number in numbers
    ]


def plan(ledger, run, first, count):
    """Plan orders in a drop of their own; returns their documents."""
    made = documents(first, count)
    ledger.plan(run, drop_of(("orders", f"{first}.csv")), {}, [*made, ReadTotals({"orders": count})])
    return made


@databases.ON_BOTH
def test_what_was_packed_is_read_back_byte_for_byte_whatever_drops_share_its_block(ledger, run):
    made = [*plan(ledger, run, 1, 1), *plan(ledger, run, 2, 2), *plan(ledger, run, 4, 2 * BLOCK)]
    read = [entry for drop in (1, 2, 3) for entry in ledger.queries.entries_of(drop)]
    assert [(entry.payload, entry.rows) for entry in read] == [(one.payload, one.rows) for one in made]
    assert [one.payload for one in ledger.ready(BLOCK)] == [one.payload for one in made[:BLOCK]]
    assert ledger.check() == []


def test_neighbours_take_a_tenth_of_their_size(tmp_path):
    with ledger_in(tmp_path) as ledger:
        made = plan(ledger, ledger.begin_run(), 1, 2 * BLOCK)
    assert 10 * sum(map(len, blocks_in(tmp_path / "ledger.db"))) < sum(len(one.payload) for one in made)


@databases.ON_BOTH
def test_what_an_earlier_version_kept_in_the_entry_is_read_sent_and_replaced(ledger, run):
    made = plan(ledger, run, 1, 3)
    with ledger._writing() as connection:  # as schema 6 had it
        for row, content in list(content_blocks.with_contents(connection, connection.execute(select(entries)))):
            connection.execute(entries.update().where(entries.c.id == row.id).values(content._asdict()))
        connection.exec_driver_sql("delete from contents")
    more = plan(ledger, run, 4, 1)
    assert [one.payload for one in ledger.ready(9)] == [one.payload for one in (*made, *more)]
    send(ledger, run)
    assert ledger.maintenance.remove_contents_of_drop(1, "9999") == 3
    assert ledger.maintenance.remove_contents_of_drop(2, "9999") == 1
    read = [entry for drop in (1, 2) for entry in ledger.queries.entries_of(drop)]
    assert [(entry.payload, len(entry.rows), entry.rows[0].cells) for entry in read] == [(b"", 1, ())] * 4
    assert ledger.check() == []
    plan(ledger, run, 1, 1)
    assert [entry.state for entry in ledger.queries.entries_of(3)] == [State.UNCHANGED]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("update contents set packed = substr(packed, 1, 50) where block = 1", "the records of the entries 128 to 255 are damaged"),
        ("update contents set packed = x'00' where block = 1", "the records of the entries 128 to 255 are damaged"),
        ("delete from contents where block = 1", "the record of entry 128 is missing"),
        ("update contents set packed = (select packed from contents where block = 2) where block = 1", "the record of entry 133 is missing"),
    ],
)  # fmt: skip
def test_what_is_damaged_or_missing_is_found_by_check_and_never_read_as_nothing(tmp_path, change, words):
    with ledger_in(tmp_path) as ledger:
        plan(ledger, ledger.begin_run(), 1, 2 * BLOCK + 4)
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database, database:
        database.execute(change)
    with ledger_in(tmp_path) as ledger:
        assert words in ledger.check()[0]
        with pytest.raises(LedgerError, match=words) as caught:
            list(ledger.queries.entries_of(1))
        assert "loadsheet ledger restore" in str(caught.value.todo)


def test_a_record_that_was_marked_as_removed_but_is_there_is_found_by_check(ledger, run):
    plan(ledger, run, 1, 2)
    with ledger._writing() as connection:
        connection.execute(entries.update().where(entries.c.id == 2).values(removed="2026-03-04T02:15:00.000Z"))
    assert ledger.check() == ["entry 2 has a payload although it is marked as removed"]


@pytest.mark.parametrize(
    ("links", "stored"),
    [
        (NO_LINKS, "{}"),
        (
            RowLinks(
                {"lines": (0, 1), "lines.sku": (-1, 2)}, {"a/lines": (1, 2)}, shared=(0,), looked_up=(3,), fix_of=(7,)
            ),
            '{"(shared)":[0],"(looked up)":[3],"(fix of)":[7],"(lines)":[0,1],"(lines.sku)":[-1,2],"(a/lines sets)":[1,2]}',
        ),
        (
            RowLinks({"shared": (0,)}, {"shared": (1,)}, shared=(2,)),  # a table of that name
            '{"(shared)":[2],"(shared rows)":[0],"(shared sets)":[1]}',
        ),
        (
            RowLinks(present={"order_references": (1,)}, inner_rows={"packages[0].items": (2, 3)}),
            '{"order_references":[1],"packages[0].items[]":[2,3]}',
        ),
        (
            RowLinks(ordered=frozenset(["packages", "involved"]), times_of_run=frozenset(["createdon"])),
            '{"(ordered) involved":[],"(ordered) packages":[],"(time of run) createdon":[]}',
        ),
    ],
)
def test_links_of_rows_are_read_back_as_they_were_written_since_0_5_0(links, stored):
    assert (codec.encode_links(links), codec.decode_links(stored)) == (stored, links)

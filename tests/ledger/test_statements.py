"""A statement does the same on each kind of database, with values and with lists of any length."""

import databases
import pytest
from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, Text, create_engine

from loadsheet.ledger.ledger_tables import Statement

METADATA = MetaData()
COLUMNS = Column("id", Integer, primary_key=True), Column("state", Text), Column("payload", LargeBinary)
THINGS = Table("things", METADATA, *COLUMNS)
INSERT = Statement("insert into things (id, state, payload) values (:id, :state, :payload)")
ONE_CHANGED = Statement("update things set state = :after, payload = :payload where id = :id and state = 'ready'")
WANTED = Statement("select id, payload from things where state in ('sent', 'held') and id in (:wanted)")
LEFT = Statement("select id from things where id not in (:gone) and state in (:states) order by id limit :most")


@pytest.fixture(params=databases.KINDS)
def connection(request, tmp_path):
    url = f"sqlite:///{tmp_path / 'things.db'}"
    if request.param == "postgresql":
        url = databases.server().new_database().replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with engine.begin() as opened:
        METADATA.create_all(opened)
        yield opened
    engine.dispose()


def test_rows_are_inserted_changed_and_chosen_by_lists_of_any_length_beside_values(connection):
    rows = [{"id": at, "state": "ready" if at % 2 else "held", "payload": b"\x00%d" % at} for at in range(1, 1501)]
    assert INSERT.run(connection, rows) == 1500
    changes = [{"id": at, "after": "sent", "payload": b"it's 50 %"} for at in range(1, 11)]
    assert ONE_CHANGED.run(connection, changes) == 5  # the others are guarded
    for count in (0, 1, 2, 16, 17, 600, 1400):
        found = WANTED.rows_of(connection, range(1, count + 1))
        assert sorted(row.id for row in found) == [at for at in range(1, count + 1) if at % 2 == 0 or at < 11]
        assert all(row.payload == (b"it's 50 %" if row.id % 2 else b"\x00%d" % row.id) for row in found)
    INSERT.run(connection, [{"id": 2000 + at, "state": f"s:{at} %", "payload": b""} for at in range(1, 6)])
    every = [f"s:{at} %" for at in range(1, 6)]
    for gone, states, most, left in (([], every, 9, [1, 2, 3, 4, 5]), ([1, 4], every, 2, [2, 3]), ([1], [], 9, [])):
        found = LEFT.rows(connection, gone=[2000 + at for at in gone], states=states, most=most)
        assert [row.id - 2000 for row in found] == left

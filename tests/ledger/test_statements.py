"""Statements over many rows do on each kind of database what SQLAlchemy would do, row by row."""

import databases
import pytest
from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, Text, bindparam, create_engine, select, update

from loadsheet.ledger.statements import Asked, Chosen, Many, fixed, insert_many
from loadsheet.problems import LedgerError

METADATA = MetaData()
THINGS = Table(
    "things",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("state", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
CHANGE = Many(
    update(THINGS)
    .where(THINGS.c.id == bindparam("one"), THINGS.c.state.in_(fixed("ready")))
    .values(state=bindparam("new_state"), payload=bindparam("new_payload")),
    ("new_state", "new_payload", "one"),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def connection(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'things.db'}"
    else:
        url = databases.server().new_database().replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with engine.begin() as opened:
        METADATA.create_all(opened)
        yield opened
    engine.dispose()


def test_rows_are_inserted_changed_and_chosen(connection):
    rows = [(at, "ready" if at % 2 else "held", f"it's {at} %", b"\x00%d" % at) for at in range(1, 1501)]
    insert_many(THINGS).run(connection, rows)
    assert connection.execute(select(THINGS).order_by(THINGS.c.id)).all() == [(*row[:3], row[3]) for row in rows]
    assert CHANGE.run(connection, [("sent", b"x", at) for at in range(1, 11)]) == 5  # the others are guarded
    chosen = Chosen(select(THINGS.c.id, THINGS.c.state).where(THINGS.c.state.in_(fixed("sent", "held"))), THINGS.c.id)
    for count in (1, 2, 16, 17, 600, 1400):
        found = sorted(chosen.rows(connection, list(range(1, count + 1))))
        assert found == [
            (at, "held" if at % 2 == 0 else "sent") for at in range(1, count + 1) if at % 2 == 0 or at < 11
        ]
    assert chosen.rows(connection, []) == []


def test_rows_are_asked_for_by_what_is_named_beside_what_never_changes(connection):
    insert_many(THINGS).run(connection, [(at, "held", "50 %", b"\x00%d" % at) for at in range(1, 6)])
    named = (THINGS.c.id > bindparam("after")) | (THINGS.c.id == -bindparam("after", type_=Integer))
    query = select(THINGS.c.id, THINGS.c.payload).where(named, THINGS.c.state == "held", THINGS.c.before == "50 %")
    asked = Asked(query.order_by(THINGS.c.id.desc()).limit(bindparam("most")))
    assert asked.rows(connection, most=2, after=3) == [(5, b"\x005"), (4, b"\x004")]
    assert asked.rows(connection, after=4, most=2) == [(5, b"\x005")]
    assert asked.rows(connection, after=5, most=2) == []
    for wrong in ({"most": 1}, {"most": 1, "after": 1, "before": ""}):
        with pytest.raises(LedgerError, match=r"a fault of loadsheet's own"):
            asked.rows(connection, **wrong)


def test_numbers_come_from_the_database_where_they_are_left_out(connection):
    assert insert_many(THINGS, "id").run(connection, [("held", "", b""), ("held", "", b"")]) == 2
    assert sorted(connection.scalars(select(THINGS.c.id))) == [1, 2]


def test_values_in_a_wrong_order_are_refused_before_they_are_written(connection):
    wrong = Many(CHANGE.statement, ("one", "new_state"))
    with pytest.raises(LedgerError, match=r"a fault of loadsheet's own"):
        wrong.run(connection, [(1, "sent")])

"""Claims on objects in the shared tables of a real PostgreSQL: one of all who want a version gets it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from databases import new_url
from scripted_exchange import until

from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.mutual_exclusion import held_claims

PLACE = "s3://bucket/inbox"


@pytest.fixture
def database(tmp_path):
    url = new_url("postgresql", tmp_path).replace("shared=fleet", f"shared=claims_{tmp_path.name[-30:]}".lower())
    with open_shared(url, makes=True):
        yield url


def machine(database, takeover_s=30.0):
    return held_claims(database, takeover_s)


def test_of_many_who_want_a_version_one_gets_it(database):
    with machine(database) as one, machine(database) as two, machine(database) as three:
        wanted = [(claims, f"{number}.csv") for number in range(20) for claims in (one, two, three)]
        with ThreadPoolExecutor(9) as threads:
            won = list(threads.map(lambda want: want[0].take(PLACE, want[1], "v-1", "run"), wanted))
        assert sum(won) == 20
        assert [claims.holds(PLACE, name, "v-1") for claims, name in wanted] == won
        assert one.take(PLACE, "0.csv", "v-2", "run")  # another version is another thing
        assert one.take("s3://bucket/other", "0.csv", "v-1", "run")


def test_who_has_a_claim_has_it_until_it_is_let_go(database):
    with machine(database) as one, machine(database) as two:
        assert one.take(PLACE, "a.csv", "v", "run")
        assert one.take(PLACE, "a.csv", "v", "run")
        two.release(PLACE, "a.csv", "v")  # is not his
        assert not two.take(PLACE, "a.csv", "v", "run")
        one.release(PLACE, "a.csv", "v")
        assert two.take(PLACE, "a.csv", "v", "run")
    with machine(database) as three:  # whoever ends holds nothing
        assert three.take(PLACE, "a.csv", "v", "run")


def test_a_claim_whose_holder_is_not_heard_of_is_taken_over_and_the_holder_notices(database):
    with machine(database, 0.2) as two, machine(database, 1e6) as dead:  # which beats once in days
        assert dead.take(PLACE, "a.csv", "v", "run")
        assert dead.holds(PLACE, "a.csv", "v")
        until(lambda: two.take(PLACE, "a.csv", "v", "run"))
        assert not dead.holds(PLACE, "a.csv", "v")
        dead.release(PLACE, "a.csv", "v")  # is not his any more
        assert two.holds(PLACE, "a.csv", "v")


def test_a_holder_that_lives_is_heard_of_again_and_again(database):
    """So its claim is never older than what counts as silent."""
    with machine(database, 0.2) as alive, open_shared(database) as engine:

        def heard_of():
            with engine.begin() as connection:
                return connection.exec_driver_sql("select at from claims where name = 'alive.csv'").scalar()

        assert alive.take(PLACE, "alive.csv", "v", "run")
        first = heard_of()
        until(lambda: heard_of() > first)


def test_who_holds_the_tenure_inherits_the_claims_of_the_one_before(database):
    with (
        machine(database) as before,
        machine(database) as now,
        machine(database.replace("shipper=acme", "shipper=birch")) as other,
    ):
        assert before.take(PLACE, "a.csv", "v", "run")
        assert other.take("s3://bucket/birch", "a.csv", "v", "run")
        now.drop_others(PLACE)
        assert now.take(PLACE, "a.csv", "v", "run")
        assert not before.holds(PLACE, "a.csv", "v")
        assert other.holds("s3://bucket/birch", "a.csv", "v")

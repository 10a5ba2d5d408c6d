"""Finished files become entries; what goes wrong on the way leaves the file in one place and says why."""

import pytest
from inbox_files import lies_in, settings_in, taking
from orders import write_orders

from loadsheet.errors import FolderError
from loadsheet.ledger import State

BOTH = ["orders.csv", "packages.csv"]


@pytest.fixture
def place(tmp_path):
    return settings_in(tmp_path, settle_s=0)


@pytest.mark.parametrize(
    ("mode", "late"),
    [("ab", b"00000001,BOX,Late,1,0.1\n"), ("wb", b"\xff\xfe\x00 not a table at all")],
    ids=["still a table", "not a table"],
)
def test_a_file_that_is_written_to_while_it_is_read_is_not_planned_and_goes_back(place, mode, late):
    write_orders(place.inbox, 5)

    def write_late(_what):
        (path,) = (place.state / "work").rglob("packages.csv")
        with path.open(mode) as file:
            file.write(late)

    with taking(place, write_late) as (ledger, taken):
        assert [(problem.code, problem.found) for problem in taken.inbox_problems] == [("A106", "packages.csv")]
        assert ledger.queries.count_in(*State) == 0
    assert lies_in(place.inbox) == BOTH
    assert not place.outbox.exists()
    write_orders(place.inbox, 5)
    with taking(place) as (ledger, taken):
        assert (taken.inbox_problems, taken.fault) == ((), None)
        assert ledger.queries.count_in(State.READY) == 5


def test_an_archive_that_refuses_ends_the_intake_and_what_is_planned_stays_planned(place):
    write_orders(place.inbox, 5)
    place.state.mkdir()
    archive = place.state / "archive"
    archive.write_text("a file where the folder should be")
    with taking(place) as (ledger, taken):
        assert isinstance(taken.fault, FolderError)
        assert taken.fault.exit_code == 75
        assert ledger.queries.count_in(State.READY) == 5
    archive.unlink()
    with taking(place) as (ledger, taken):  # what was planned is put away, not planned twice
        assert taken.fault is None
        assert ledger.queries.count_in(State.READY) == ledger.queries.count_in(*State) == 5
        drops = ledger.queries.drops_of(ledger.queries.runs()[-1])
        kept = [place.state / file.kept_as for drop in drops for file in drop.files]
        assert sorted(path.name for path in kept if path.is_relative_to(archive)) == BOTH
    assert not list((place.state / "work").rglob("*.csv"))

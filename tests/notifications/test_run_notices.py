"""Notices around a run as `run_hooks` makes them: whatever a run comes to is told, and raised or returned as it was."""

import pytest

from loadsheet.ledger import open_ledger, utc_now
from loadsheet.operations.run_hooks import run_with_hooks
from loadsheet.problems import TokenRefused
from loadsheet.settings import Settings
from loadsheet.stages import Result


@pytest.fixture
def chosen(tmp_path, receiver):
    return Settings(state=tmp_path / "state", notify=[f"json://127.0.0.1:{receiver.port}"])


def raising(error):
    def run():
        raise error

    return run


def test_a_run_that_cannot_go_on_is_told_and_raised(chosen, receiver):
    with pytest.raises(TokenRefused):
        run_with_hooks(chosen, raising(TokenRefused("401")), clock=utc_now, say=print)
    assert [notice["title"] for notice in receiver.notices] == ["loadsheet: a run failed (exit code 77)"]


def test_a_fault_of_ours_is_told_as_such_without_what_it_says(chosen, receiver):
    with pytest.raises(ZeroDivisionError):
        run_with_hooks(chosen, raising(ZeroDivisionError("Müller GmbH, Dresden")), clock=utc_now, say=print)
    (notice,) = receiver.notices
    assert notice["title"] == "loadsheet: a run failed (exit code 70)"
    assert "an internal error (ZeroDivisionError)" in notice["message"]
    assert "Dresden" not in notice["message"]


def test_an_interrupted_run_is_no_failure(chosen, receiver):
    with pytest.raises(KeyboardInterrupt):
        run_with_hooks(chosen, raising(KeyboardInterrupt()), clock=utc_now, say=print)
    assert receiver.notices == []


def test_a_ledger_that_cannot_be_read_hides_no_failure(chosen, receiver):
    said = []
    chosen.state.mkdir()
    with open_ledger(chosen.database_url):
        pass
    (chosen.state / "ledger.db").write_bytes(b"no ledger at all" * 512)
    with pytest.raises(TokenRefused):
        run_with_hooks(chosen, raising(TokenRefused("401")), clock=utc_now, say=said.append)
    assert len(receiver.notices) == 1


def test_a_run_that_is_well_tells_nothing(chosen, receiver, told):
    result = Result(0, told.house.night(), None, ())
    assert run_with_hooks(chosen, lambda: result, clock=utc_now, say=print) == result
    assert receiver.got == []

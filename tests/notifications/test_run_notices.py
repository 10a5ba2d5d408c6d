"""Notices and pings around a run as `run_hooks` makes them: whatever a run comes to is told, and raised or returned as it was."""

import socket

import pytest
from notification_servers import web

from loadsheet.ledger import open_ledger, utc_now
from loadsheet.operations.notifications.notice_delivery import ping
from loadsheet.operations.run_hooks import run_with_hooks
from loadsheet.pipeline import Result
from loadsheet.problems import ExchangeUnreachable, SettingsError, TokenRefused
from loadsheet.settings import Settings


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
    assert [notice["title"] for notice in receiver.notices] == ["loadsheet: a run failed: 401"]


def test_a_fault_of_ours_is_told_as_such_without_what_it_says(chosen, receiver):
    with pytest.raises(ZeroDivisionError):
        run_with_hooks(chosen, raising(ZeroDivisionError("Müller GmbH, Dresden")), clock=utc_now, say=print)
    (notice,) = receiver.notices
    assert notice["title"] == "loadsheet: a run failed: an internal error"
    assert "An internal error (ZeroDivisionError)" in notice["message"]
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
    result = Result(0, told.house.report(), None, ())
    assert run_with_hooks(chosen, lambda: result, clock=utc_now, say=print) == result
    assert receiver.got == []


def test_a_run_is_pinged_at_its_begin_and_with_its_exit_code_and_what_was_said(receiver, tmp_path):
    settings = Settings(state=tmp_path, ping_url=f"http://127.0.0.1:{receiver.port}/key-of-mine/")
    said = []

    def down():
        assert receiver.paths == ["/key-of-mine/start"], "before the run, not after it"
        raise ExchangeUnreachable("nobody answers at https://exchange.example")

    with pytest.raises(ExchangeUnreachable):
        run_with_hooks(settings, down, clock=utc_now, say=said.append)
    assert receiver.paths == ["/key-of-mine/start", "/key-of-mine/75"]
    assert receiver.got[-1][3].decode() == "loadsheet: exit code 75\nnobody answers at https://exchange.example\n"
    assert said == []


def test_a_night_with_documents_says_what_they_came_to(told, receiver):
    told.set(notify=[], ping_url=f"http://127.0.0.1:{receiver.port}/k?create=1")
    night = told.night(exit_code=0)
    assert receiver.paths == ["/k/0?create=1"]
    assert receiver.got[0][3].decode().splitlines() == [
        f"loadsheet {night.run}: exit code 0",
        f"Run {night.run}: No file came in",
        "0 of 0 rows accounted for",
    ]


def test_only_the_end_of_a_long_text_goes_with_a_ping(receiver):
    assert ping(f"http://127.0.0.1:{receiver.port}/", "0", "x" * 20_000 + "ende", 5) == ""
    body = receiver.got[0][3]
    assert len(body) == 10_000
    assert body.endswith(b"ende")


def test_what_goes_wrong_is_said_without_the_secret_and_changes_nothing(told, receiver):
    receiver.code = 404
    told.set(notify=[], ping_url=f"http://user:hunter2@127.0.0.1:{receiver.port}/key-of-mine")
    told.night()
    told.set(ping_url="http://127.0.0.1:1/key-of-mine")
    told.night()
    assert told.said[0].startswith("the health check at http://127.0.0.1 could not be pinged (")
    assert told.said[1] == "the health check at http://127.0.0.1 could not be pinged (Connection refused)"
    assert not any("key-of-mine" in line or "hunter2" in line for line in told.said)


def test_a_health_check_that_does_not_answer_is_not_waited_for(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        why = ping(f"http://127.0.0.1:{silent.getsockname()[1]}/k", "0", "", 0.2)
    assert why.startswith("the health check at http://127.0.0.1 could not be pinged (")


def test_no_redirect_to_another_host_is_followed(receiver):
    with web() as other:
        receiver.redirect = f"http://127.0.0.1:{other.port}/stolen"
        assert "it answered 302" in ping(f"http://127.0.0.1:{receiver.port}/k", "0", "secret", 5)
        assert other.got == []


def test_a_redirect_on_the_same_host_is_followed(receiver):
    receiver.redirect = f"http://127.0.0.1:{receiver.port}/moved"
    assert ping(f"http://127.0.0.1:{receiver.port}/k", "0", "", 5) == ""
    assert receiver.paths == ["/k/0", "/moved"]


def test_user_and_password_of_a_url_go_as_such(receiver):
    assert ping(f"http://me:hunter%202@127.0.0.1:{receiver.port}/k", "0", "", 5) == ""
    assert receiver.got[0][2]["Authorization"] == "Basic bWU6aHVudGVyIDI="
    assert receiver.paths == ["/k/0"]


def test_no_proxy_is_used(receiver, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert ping(f"http://127.0.0.1:{receiver.port}/k", "0", "", 5) == ""


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "host/x", "http:///x"])
def test_a_url_that_is_not_http_is_refused_without_being_shown(url):
    with pytest.raises(SettingsError, match="ping_url") as refused:
        Settings.load(ping_url=url)
    assert url not in str(refused.value)
    assert Settings.load(ping_url="").notifications.ping_url is None

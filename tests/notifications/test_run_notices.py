"""Notices and pings around a run: however a run ends, that is reported, and raised or returned as it was."""

import socket

import pytest
from notification_servers import web

from loadsheet.errors import ExchangeUnreachable, SettingsError, TokenRefused
from loadsheet.ledger import open_ledger, utc_now
from loadsheet.operations.notifications.notice_delivery import ping
from loadsheet.operations.run_hooks import run_with_hooks
from loadsheet.pipeline import Result
from loadsheet.settings import Settings


@pytest.fixture
def chosen(tmp_path, receiver):
    return Settings(state=tmp_path / "state", notify=[f"json://127.0.0.1:{receiver.port}"])


def run_that_raises(settings, error):
    def run():
        raise error

    with pytest.raises(type(error)):
        run_with_hooks(settings, run, clock=utc_now, say=[].append)


@pytest.mark.parametrize("ledger", ["none", "damaged"])
def test_a_run_that_cannot_go_on_is_reported_and_raised(chosen, receiver, ledger):
    if ledger == "damaged":
        chosen.state.mkdir()
        with open_ledger(chosen.database_url):
            pass
        (chosen.state / "ledger.db").write_bytes(b"no ledger at all" * 512)
    run_that_raises(chosen, TokenRefused("401"))
    assert [notice["title"] for notice in receiver.notices] == ["loadsheet: a run failed: 401"]


def test_a_notice_keeps_the_name_of_a_file(chosen, receiver):
    run_that_raises(chosen, SettingsError("mappings/a.yaml: the key is missing"))
    assert "\nmappings/a.yaml: the key" in receiver.notices[0]["message"]


def test_an_internal_error_is_reported_without_its_text_and_an_interrupted_run_not_at_all(chosen, receiver):
    run_that_raises(chosen, KeyboardInterrupt())
    assert receiver.notices == []
    run_that_raises(chosen, ZeroDivisionError("Müller GmbH, Dresden"))
    (notice,) = receiver.notices
    assert notice["title"] == "loadsheet: a run failed: an internal error"
    assert "An internal error (ZeroDivisionError)" in notice["message"]
    assert "Dresden" not in notice["message"]


def test_a_good_run_sends_no_notice(chosen, receiver, notified):
    result = Result(0, notified.house.report(), None, ())
    assert run_with_hooks(chosen, lambda: result, clock=utc_now, say=print) == result
    assert receiver.got == []


# pings


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


def test_a_ping_says_what_became_of_the_documents_and_an_unanswered_one_is_reported_without_its_secret(
    notified, receiver
):
    notified.set(notify=[], ping_url=f"http://127.0.0.1:{receiver.port}/k?create=1")
    ended = notified.run(exit_code=0)
    assert receiver.paths == ["/k/0?create=1"]
    assert receiver.got[0][3].decode().splitlines() == [
        f"loadsheet {ended.run}: exit code 0",
        f"Run {ended.run}: No file came in",
        "0 of 0 rows accounted for",
    ]
    receiver.code = 404
    notified.set(ping_url=f"http://user:hunter2@127.0.0.1:{receiver.port}/key-of-mine")
    notified.run()
    notified.set(ping_url="http://127.0.0.1:1/key-of-mine")
    notified.run()
    assert notified.said[0].startswith("the health check at http://127.0.0.1 could not be pinged (")
    assert notified.said[1] == "the health check at http://127.0.0.1 could not be pinged (Connection refused)"
    assert not any("key-of-mine" in line or "hunter2" in line for line in notified.said)


def test_a_ping_follows_a_redirect_on_its_host_only_and_uses_no_proxy(receiver, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    here = f"http://127.0.0.1:{receiver.port}"
    receiver.redirect = f"{here}/moved"
    assert ping(f"{here}/k", "0", "", 5) == ""
    assert receiver.paths == ["/k/0", "/moved"]
    with web() as other:
        receiver.redirect = f"http://127.0.0.1:{other.port}/stolen"
        assert "it answered 302" in ping(f"{here}/k", "0", "secret", 5)
        assert other.got == []


def test_a_ping_carries_user_and_password_and_the_end_of_a_long_text(receiver):
    assert ping(f"http://me:hunter%202@127.0.0.1:{receiver.port}/k", "0", "x" * 20_000 + "ende", 5) == ""
    (_, path, headers, body, _) = receiver.got[0]
    assert (path, headers["Authorization"]) == ("/k/0", "Basic bWU6aHVudGVyIDI=")
    assert (len(body), body[-4:]) == (10_000, b"ende")


def test_a_health_check_that_does_not_answer_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        why = ping(f"http://127.0.0.1:{silent.getsockname()[1]}/k", "0", "", 0.2)
    assert why.startswith("the health check at http://127.0.0.1 could not be pinged (")


def test_a_url_that_is_not_http_is_refused_without_being_shown():
    for url in ("file:///etc/passwd", "ftp://host/x", "host/x", "http:///x"):
        with pytest.raises(SettingsError, match="ping_url") as refused:
            Settings.load(ping_url=url)
        assert url not in str(refused.value)
    assert Settings.load(ping_url="").notifications.ping_url is None

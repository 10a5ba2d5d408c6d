"""The token comes from environment, file or command; a refused one is asked for again, once; and it shows itself nowhere."""

import sys

import pytest
import sendings
from scripted import Scripted, accepts, says

from loadsheet.contract import BY_NAME, UNAUTHORISED
from loadsheet.credentials import another_token, read_token, required_token
from loadsheet.dispatch import Client, Stop, send
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings

CREATE = BY_NAME["order.create"]


def command(tmp_path, text):
    """A command that runs this Python text."""
    script = tmp_path / "token command.py"
    script.write_text(text, encoding="utf-8")
    return f"{sys.executable} '{script}'"


def test_environment_before_file_before_command(tmp_path):
    (tmp_path / "token").write_text("from-file\nsecond line\n", encoding="utf-8")
    given = {"token_file": tmp_path / "token", "token_command": command(tmp_path, "print('from-command')")}
    assert read_token(Settings(**given)) == "from-file"
    assert read_token(Settings(**given, token="from-environment")) == "from-environment"
    assert read_token(Settings(token_command=given["token_command"])) == "from-command"
    assert read_token(Settings()) is None


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"token_file": "nowhere"}, "cannot be read"),
        ({"token_file": "empty"}, "is empty"),
        ({"token_file": "binary"}, "is no text"),
        ({"token_command": "no-such-command --now"}, "no-such-command cannot be run"),
        ({"token_command": "false"}, "ended with exit code 1"),
        ({"token_command": "true"}, "printed nothing"),
        ({"token_command": "'"}, "is no command line"),
        ({}, "set LOADSHEET_TOKEN"),
    ],
)
def test_a_source_without_a_token_says_so(tmp_path, setting, told):
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    if "token_file" in setting:
        setting = {"token_file": tmp_path / setting["token_file"]}
    with pytest.raises(SettingsError, match=told):
        required_token(Settings(**setting))


def test_a_command_that_fails_after_printing_keeps_its_secret(tmp_path):
    secret = command(tmp_path, "print('s3cret-token'); raise SystemExit(3)")
    with pytest.raises(SettingsError) as raised:
        required_token(Settings(token_command=secret))
    assert "s3cret" not in str(raised.value)


def test_another_token_is_another_one(tmp_path):
    path = tmp_path / "token"
    path.write_text("first", encoding="utf-8")
    settings = Settings(token_file=path)
    assert another_token(settings, "first") is None
    path.write_text("second", encoding="utf-8")
    assert another_token(settings, "first") == "second"
    path.unlink()
    assert another_token(settings, "second") is None


class Door:
    """An exchange whose tokens are good for so many calls each."""

    def __init__(self, *, calls_each):
        self.calls_each, self.good, self.calls, self.asked = calls_each, 1, 0, 0

    def move(self, _number, request):
        token = request.headers["authorization"].removeprefix("Bearer ")
        if token != f"token-number-{self.good}":
            return says(401, UNAUTHORISED)
        self.calls += 1
        if self.calls % self.calls_each == 0:
            self.good += 1
        return accepts

    def renew(self, refused):
        self.asked += 1
        assert refused.startswith("token-number-")
        return f"token-number-{self.good}"


@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("calls_each", [1, 3, 7])
def test_an_expired_token_loses_and_doubles_nothing(ledger, connections, calls_each):
    door = Door(calls_each=calls_each)
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 20)
    options = sendings.settings(connections=connections)
    with (
        Scripted(door.move) as server,
        Client(server.url, "token-number-1", options, renew=door.renew) as client,
    ):
        report = send(ledger, client, run, options)
    assert max(server.applied.values()) == 1
    states = sendings.states(ledger, drop)
    if connections == 1 or report.stopped is None:
        assert states == ["accepted"] * 20
    assert set(states) <= {"accepted", "ready"}


def test_a_token_that_stays_refused_is_asked_for_once(ledger):
    asked = []
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 5)
    options = sendings.settings(connections=2)
    with (
        Scripted(lambda *_: says(401, UNAUTHORISED)) as server,
        Client(server.url, "canary-old-token", options, renew=asked.append) as client,
    ):
        report = send(ledger, client, run, options)
    assert report.stopped is Stop.TOKEN_REFUSED
    assert asked == ["canary-old-token"]
    assert set(sendings.states(ledger, drop)) == {"ready"}


def test_the_probe_shows_the_token_it_was_given_only(tmp_path):
    """`ask` sends just what it is told: it never renews."""
    with (
        Scripted(lambda *_: says(401, UNAUTHORISED)) as server,
        Client(server.url, "canary-old-token", sendings.settings(), renew=lambda _: "another") as client,
    ):
        assert client.ask(CREATE, b"{}").status == 401
    assert len(server.requests) == 1

"""The token comes from environment, file, credential, command or keyring; a refused one is asked for again, once; and it shows itself nowhere."""

import os
import subprocess
import sys

import keyring
import keyring.core
import memory_keyring
import pytest
import ready_entries
from scripted_exchange import Scripted, accepts, says

from loadsheet.contract import BY_NAME, UNAUTHORISED
from loadsheet.credentials import another_token, read_token, required_token
from loadsheet.dispatch import Client, StopReason, send
from loadsheet.errors import SettingsError
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
        ({"token_file": "binary"}, "is not text"),
        ({"token_command": "no-such-command --now"}, "no-such-command cannot be run"),
        ({"token_command": "false"}, "ended with exit code 1"),
        ({"token_command": "true"}, "printed nothing"),
        ({"token_command": "'"}, "is not a command line"),
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
    settings = Settings(token_file=path)
    for written, refused, other in (("first", "first", None), ("second", "first", "second")):
        path.write_text(written, encoding="utf-8")
        assert another_token(settings, refused) == other
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
    door, run = Door(calls_each=calls_each), ledger.begin_run()
    drop = ready_entries.orders(ledger, run, 20)
    options = ready_entries.settings(connections=connections)
    with Scripted(door.move) as server, Client(server.url, "token-number-1", options, renew=door.renew) as client:
        report = send(ledger, client, run, options)
    assert max(server.applied.values()) == 1
    states = ready_entries.states(ledger, drop)
    if connections == 1 or report.stopped is None:
        assert states == ["accepted"] * 20
    assert set(states) <= {"accepted", "ready"}


def test_a_token_that_stays_refused_is_asked_for_once(ledger):
    asked = []
    run = ledger.begin_run()
    drop = ready_entries.orders(ledger, run, 5)
    options = ready_entries.settings(connections=2)
    with (
        Scripted(lambda *_: says(401, UNAUTHORISED)) as server,
        Client(server.url, "canary-old-token", options, renew=asked.append) as client,
    ):
        report = send(ledger, client, run, options)
    assert report.stopped is StopReason.TOKEN_REFUSED
    assert asked == ["canary-old-token"]
    assert set(ready_entries.states(ledger, drop)) == {"ready"}


def test_the_probe_shows_the_token_it_was_given_only(tmp_path):
    """`ask` sends just what it is told: it never renews."""
    with (
        Scripted(lambda *_: says(401, UNAUTHORISED)) as server,
        Client(server.url, "canary-old-token", ready_entries.settings(), renew=lambda _: "another") as client,
    ):
        assert client.ask(CREATE, b"{}").status == 401
    assert len(server.requests) == 1


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder to work in, on a desk whose keyring is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "memory_keyring.InMemory")
    keyring.core.init_backend()
    monkeypatch.setattr(memory_keyring.InMemory, "held", {})
    monkeypatch.setattr(memory_keyring.InMemory, "locked", False)
    return tmp_path


def test_the_keyring_of_a_desk_holds_a_token_for_all_or_for_each_shipper(desk):
    (desk / "loadsheet.toml").write_text("token_keyring = true\n[shippers.acme]\n[shippers.birch]\n", encoding="utf-8")
    for name in ("token", "acme", "mine"):
        keyring.set_password("loadsheet", name, f"of-{name}")
    assert required_token(Settings.load()) == "of-token"
    assert required_token(Settings.load(shipper="acme")) == "of-acme"
    assert required_token(Settings.load(shipper="acme", token_keyring="mine")) == "of-mine"
    with pytest.raises(SettingsError, match="holds no token named birch; store it with: keyring set loadsheet birch"):
        required_token(Settings.load(shipper="birch"))


def test_words_of_the_environment_switch_the_keyring_on_and_off(desk, monkeypatch):
    keyring.set_password("loadsheet", "token", "from-keyring")
    for word, token in (("true", "from-keyring"), ("no", None), ("", None)):
        monkeypatch.setenv("LOADSHEET_TOKEN_KEYRING", word)
        assert read_token(Settings.load()) == token


@pytest.mark.usefixtures("desk")
def test_a_locked_keyring_is_named_and_what_it_says_is_not_repeated(monkeypatch):
    monkeypatch.setattr(memory_keyring.InMemory, "locked", True)
    with pytest.raises(
        SettingsError, match=r"keyring of this system cannot be read .KeyringLocked.; unlock it"
    ) as refused:
        required_token(Settings.load(token_keyring=True))
    assert "s3cret" not in str(refused.value)


def test_without_the_extra_the_keyring_is_refused_with_what_to_install(tmp_path):
    (tmp_path / "keyring.py").write_text("raise ImportError", encoding="utf-8")
    code = "from loadsheet.credentials import read_token; from loadsheet.settings import Settings; read_token(Settings(token_keyring=True))"
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1].endswith(
        "token_keyring: the library for keyrings is not installed; install it with: pip install 'loadsheet[desk]'"
    )


def test_the_service_managers_credentials_are_for_all_or_for_one_shipper(desk, monkeypatch):
    lines = ["[shippers.acme]", "[shippers.birch]", "[shippers.cedar]", 'exchange = "https://c.example"']
    lines += ["[shippers.elm]", 'token_command = "printf of-elm"']
    (desk / "loadsheet.toml").write_text("\n".join(lines), encoding="utf-8")
    (desk / "given").mkdir()
    for name in ("loadsheet_token", "loadsheet_token_acme"):
        (desk / "given" / name).write_text(f"{name}\n", encoding="utf-8")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(desk / "given"))
    assert read_token(Settings.load()) == "loadsheet_token"
    monkeypatch.setenv("LOADSHEET_TOKEN", "of-all")
    assert read_token(Settings.load()) == "of-all"
    assert read_token(Settings.load(shipper="acme")) == "loadsheet_token_acme", "its own before that of all"
    assert read_token(Settings.load(shipper="birch")) == "of-all"
    assert read_token(Settings.load(shipper="elm")) == "of-elm"
    with pytest.raises(SettingsError, match=r"no token for shipper cedar: set LOADSHEET_SHIPPERS__CEDAR__TOKEN, or "):
        required_token(Settings.load(shipper="cedar"))  # it has an exchange of its own


@pytest.mark.skipif(os.name != "posix", reason="the rights of files are told otherwise there")
def test_a_token_in_a_settings_file_that_everybody_can_read_is_refused(desk):
    file = desk / "loadsheet.toml"
    for text in ('token = "s3cret"', '[shippers.acme]\ntoken = "s3cret"'):
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)
        with pytest.raises(SettingsError, match=r"chmod 600 loadsheet\.toml") as refused:
            Settings.load()
        assert "s3cret" not in str(refused.value)
        file.chmod(0o640)
        assert read_token(Settings.load(shipper="acme" if "acme" in text else "")) == "s3cret"

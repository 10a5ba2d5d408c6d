"""`loadsheet doctor`: each thing that can be wrong is found, said with what to do, and shows in the exit code."""

import json
import os
import shutil
import socket
import sqlite3
import zoneinfo
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command_in_process import loadsheet
from exchange_process import TOKEN, exchange
from notification_servers import web
from workspace import SMALL

from loadsheet.cli.doctor import examine
from loadsheet.ledger import open_ledger
from loadsheet.settings import Settings


def now():
    return datetime.now(UTC)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in [name for name in os.environ if name.startswith("LOADSHEET_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Folders as they should be, in which we are."""
    monkeypatch.chdir(tmp_path)
    for name, mode in (("inbox", 0o770), ("outbox", 0o770), (".loadsheet", 0o700)):
        (tmp_path / name).mkdir(mode=mode)
    (tmp_path / "mappings").mkdir()
    shutil.copy(SMALL / "events.yaml", tmp_path / "mappings")
    return tmp_path


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with exchange(tmp_path_factory.mktemp("exchange") / "exchange.db") as serving:
        yield serving.url


def found(check, *, clock=now, ours=now, quick=False, **given):
    """What the doctor says of one check: level, text and advice of each finding."""
    findings = examine(Settings.load(**given), clock, ours=ours, quick=quick)
    return [(one.level, one.text, one.todo) for one in findings if one.check == check]


def one_of(check, **more):
    (finding,) = found(check, **more)
    return finding


def test_a_house_in_order_has_nothing_wrong(house, served):
    findings = list(examine(Settings.load(exchange=served, token=TOKEN), now))
    assert {one.level for one in findings if one.check != "time zones"} == {"ok"}, findings
    looked_at = "settings inbox outbox state volume space mapping ledger token exchange clock"
    assert set(looked_at.split()) <= {one.check for one in findings}
    (space,) = [one.text for one in findings if one.check == "space"]
    assert (space.startswith("state, inbox, outbox: "), "GB" in space) == (True, True)


def test_a_broken_mapping_is_wrong_and_so_is_no_folder_of_mappings_or_an_empty_one(house):
    assert [level for level, _, _ in found("mapping")] == ["ok"]
    broken = "mapping: broken\nversion: 1\ntarget: order.creat\n"
    (house / "mappings" / "broken.yaml").write_text(broken, encoding="utf-8")
    level, text, todo = one_of("mapping")
    assert (level, todo) == ("wrong", f"loadsheet mapping lint {Path('mappings/broken.yaml')}")
    assert "broken.yaml" in text
    shutil.rmtree(house / "mappings")
    assert one_of("mappings")[0] == "wrong"
    (house / "mappings").mkdir()
    level, text, _ = one_of("mappings")
    assert (level, "this folder holds no mapping" in text) == ("wrong", True)


def test_a_folder_that_cannot_be_made_or_is_a_file_is_wrong_and_one_on_another_volume_a_warning(house, other_volume):
    (house / "file").write_text("")
    for name, check, place, level, said in (
        ("inbox", "inbox", house / "file", "wrong", "is not a folder"),
        ("outbox", "outbox", house / "file" / "outbox", "wrong", "cannot be written to"),
        ("inbox", "volume", other_volume, "warning", "copying"),
    ):
        came, text, todo = one_of(check, **{name: place})
        assert (came, said in text, bool(todo)) == (level, True, True), check


SECRET = 'notifications.urls = ["json://user:hunter2@example.com"]'


@pytest.mark.skipif(os.name != "posix", reason="rights are POSIX'")
@pytest.mark.parametrize(
    ("check", "name", "modes", "text"),
    [
        ("state", ".loadsheet", {0o700: "ok", 0o750: "ok", 0o755: "warning", 0o777: "wrong"}, ""),
        ("inbox", "inbox", {0o777: "warning", 0o1777: "ok"}, ""),
        ("outbox", "outbox", {0o777: "warning", 0o755: "ok"}, ""),
        ("settings", "loadsheet.toml", {0o644: "wrong", 0o600: "ok", 0o640: "ok"}, SECRET),
        ("settings", "loadsheet.toml", {0o644: "ok"}, "arrival.settle_s = 1.0"),
    ],
    ids=["state", "inbox", "outbox", "settings with a secret", "settings without one"],
)
def test_folders_and_settings_that_too_many_may_use_are_named_with_the_cure(house, check, name, modes, text):
    if text:
        (house / name).write_text(text, encoding="utf-8")
    for mode, level in modes.items():
        (house / name).chmod(mode)
        came, said, todo = one_of(check, quick=True)
        assert (came, todo.startswith("chmod " if text else "chmod o-"), "hunter2" in said) == (
            level,
            level != "ok",
            False,
        ), oct(mode)


@pytest.mark.skipif(os.name != "posix", reason="rights are POSIX'")
def test_a_token_that_is_missing_refused_or_readable_to_all_is_wrong_and_never_shown(house, served):
    level, text, _ = one_of("token", exchange=served, quick=True)
    assert (level, "no token: set LOADSHEET_TOKEN, or token_file" in text) == ("wrong", True)
    assert not found("exchange", exchange=served, quick=True), "it is said once"
    wrong = {"exchange": served, "token": "canary-of-a-wrong-token"}
    refused = one_of("exchange", **wrong)
    assert (refused[0], "refuses the token" in refused[1], refused[2]) == ("wrong", True, "replace the token")
    assert one_of("token", **wrong)[0] == "ok", "there is one"
    assert "canary" not in str(refused)
    file = house / "token"
    file.write_text(TOKEN, encoding="utf-8")
    file.chmod(0o600)
    assert one_of("token", exchange=served, token_file=file) == ("ok", f"set, from {file}", "")
    file.chmod(0o644)
    (level, text, todo), _ = found("token", exchange=served, token_file=file)
    assert (level, text) == ("wrong", f"every user of this machine can read {file}")
    assert todo.startswith(f"chmod 600 {file}")


def test_a_shipper_without_a_token_learns_its_own_variable(house, served):
    (house / "loadsheet.toml").write_text(f"exchange = '{served}'\n[shippers.acme]\n", encoding="utf-8")
    lines = json.loads(loadsheet(house, "doctor", "--quick", "--json", LOADSHEET_TOKEN="").stdout)
    (line,) = [one for one in lines if one["check"] == "token"]
    assert (line["level"], "set LOADSHEET_SHIPPERS__ACME__TOKEN" in line["finding"]) == ("wrong", True)


def test_the_source_of_the_token_is_named(house, monkeypatch):
    def source(**given):
        return one_of("token", exchange="https://example.com", quick=True, **given)[1].partition(", ")[2]

    assert source(token_command="echo canary") == "from token_command"
    (house / "loadsheet_token").write_text("canary", encoding="utf-8")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(house))
    assert source() == "the service manager's credential loadsheet_token"
    monkeypatch.setenv("LOADSHEET_TOKEN", "canary")
    assert source() == "from LOADSHEET_TOKEN or the settings file"


def test_an_exchange_that_does_not_answer_or_a_run_could_not_use_is_wrong(house):
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    level, text, todo = one_of("exchange", exchange=f"http://127.0.0.1:{free}", token=TOKEN)
    assert (level, str(free) in text) == ("wrong", True)
    assert todo == "check `exchange` and the network connection to it, or try again later"
    for quick in (True, False):
        level, text, todo = one_of("exchange", quick=quick, database="postgresql://loadsheet@127.0.0.1:1/ledger")
        assert (level, "the embedded exchange runs in a single process" in text) == ("wrong", True)
        assert todo.startswith("give the URL of an exchange")
    assert found("exchange", quick=True) == []
    assert one_of("exchange") == ("ok", "embedded", "")


def test_clocks_that_differ_are_compared_with_the_exchange(house, served):
    for ahead_s, level, said in (
        (0, "ok", "agrees"),
        (4, "ok", "differs by"),
        (30, "warning", "ahead of"),
        (-30, "warning", "behind"),
        (90, "wrong", "ahead of"),
        (-86_400, "wrong", "behind"),
    ):
        ours = lambda ahead_s=ahead_s: now() + timedelta(seconds=ahead_s)  # noqa: E731 (bound to its row)
        came, text, todo = one_of("clock", ours=ours, exchange=served, token=TOKEN)
        assert (came, said in text, bool(todo)) == (level, True, level != "ok"), text
    assert one_of("clock", exchange=served, token="of-nobody")[0] == "ok"


def test_a_ledger_is_examined_and_the_last_good_run_shown(house):
    with open_ledger(f"sqlite:///{house / '.loadsheet' / 'ledger.db'}") as ledger:
        ledger.begin_run()
    assert one_of("latest run")[:2] == ("warning", "no run was successful yet")
    assert loadsheet(house, "run", "--settle", "0").returncode == 0
    level, text, _ = one_of("ledger")
    assert (level, "intact" in text, "MB" in text) == ("ok", True, True)
    level, text, _ = one_of("latest run")
    assert (level, "exit code 0" in text) == ("ok", True)
    level, text, todo = one_of("latest run", clock=lambda: now() + timedelta(hours=50))
    assert (level, "50 h ago" in text, bool(todo)) == ("warning", True, True)
    assert one_of("latest run", runs_due_s=7200.0, clock=lambda: now() + timedelta(hours=3))[0] == "warning"
    with closing(sqlite3.connect(house / ".loadsheet" / "ledger.db")) as ledger:
        for schema, level, said in (("1", "warning", "upgrades it"), ("999", "wrong", "newer one")):
            with ledger:
                ledger.execute("update meta set value = ? where name = 'schema_version'", [schema])
            came, _, todo = one_of("ledger")
            assert (came, said in todo) == (level, True)


def test_a_ledger_on_a_server_that_does_not_answer_is_wrong_and_its_password_is_never_shown(house):
    given = {"database": "postgresql://loadsheet:hunter2@127.0.0.1:1/ledger"}
    findings = list(examine(Settings.load(**given), now, quick=True))
    assert "hunter2" not in str(findings)
    assert one_of("ledger", **given)[0] == "wrong"


def test_the_holder_of_the_ledger_is_named_and_a_quick_look_does_not_ask_for_the_lock(house):
    with open_ledger(f"sqlite:///{house / '.loadsheet' / 'ledger.db'}"):
        for quick in (False, True):
            _, text, _ = one_of("ledger", quick=quick)
            assert f"a run or a watch holds it (process {os.getpid()} on {socket.gethostname()}" in text
    assert "holds it" not in one_of("ledger")[1]


def test_a_missing_or_damaged_ledger_is_wrong(house):
    loadsheet(house, "run", "--settle", "0")
    state = house / ".loadsheet"
    (state / "ledger.db").rename(house / "moved")
    for more in state.glob("ledger.db-*"):
        more.unlink()
    for day, changed_at in (("2026-03-04", 3e9), ("2026-03-05", 4e9)):
        backup = state / "backups" / f"ledger-{day}.db"
        backup.write_bytes(b"")
        os.utime(backup, (changed_at, changed_at))
    restore = "restore the newest backup: `loadsheet ledger restore .loadsheet/backups/ledger-2026-03-05.db`"
    level, text, todo = one_of("ledger")
    assert (level, "is gone or empty, but run" in text, restore in todo) == ("wrong", True, True)
    for words in (("runs",), ("show", "x"), ("run", "--dry-run"), ("run",)):
        done = loadsheet(house, *words)
        assert (done.returncode, "is gone or empty, but run" in done.stderr) == (70, True), words
    (state / "ledger.db").write_bytes(b"no database at all" * 100)
    level, text, todo = one_of("ledger")
    assert (level, "it is damaged or not a ledger" in text, restore in todo) == ("wrong", True, True)


def test_a_ledger_that_is_older_than_its_last_run_is_wrong_for_a_quick_look_too(house):
    loadsheet(house, "run", "--settle", "0")
    file = house / ".loadsheet" / "ledger.db"
    older = file.read_bytes()
    loadsheet(house, "run", "--settle", "0")
    file.write_bytes(older)
    for quick in (True, False):
        level, text, todo = one_of("ledger", quick=quick)
        assert (level, "does not know run" in text, "accept_older" in todo) == ("wrong", True, True)
    assert one_of("ledger", quick=True, accept_older_ledger=True)[0] == "ok"


def test_the_zones_in_use_are_named_and_old_data_of_the_system_is_a_warning(house, tmp_path):
    expected = {"files": ["acme*"], "by": "21:30", "timezone": "Asia/Kolkata"}
    _, text, _ = one_of("time zones", expect=[expected])
    assert "Asia/Kolkata" in text
    assert "Europe/Berlin" in text, "the mappings name it"
    (tmp_path / "zones").mkdir()
    (tmp_path / "zones" / "tzdata.zi").write_text("# version 2021a\nZ x 0 - x\n", encoding="ascii")
    before = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath([str(tmp_path / "zones")])
        level, text, todo = one_of("time zones")
        zoneinfo.reset_tzpath([str(tmp_path / "none")])
        assert one_of("time zones")[0] == "ok", "the version is not known"
    finally:
        zoneinfo.reset_tzpath(before)
    assert (level, "2021a" in text, "tzdata" in todo) == ("warning", True, True)


def test_a_wrong_address_for_notices_is_named_without_its_password(house):
    good, bad = "json://user:hunter2@127.0.0.1:9", "carrier-pigeon://hunter2"
    assert one_of("notices")[:2] == ("ok", "no notices are sent (notifications.urls is not set)")
    assert one_of("notices", notify=(good,)) == ("ok", "notifications.urls: json://127.0.0.1", "")
    level, text, todo = one_of("notices", notify=(good, bad))
    assert (level, "notifications.urls: address 2" in text, bool(todo)) == ("wrong", True, True)
    assert "hunter2" not in text + todo
    assert one_of("notices", notify_file=house / "missing")[0] == "wrong"
    assert found("notices", notify=(bad,), quick=True) == []


def test_a_notice_is_sent_on_wish_only_with_what_was_found(house):
    with web() as receiver:
        address = f"json://user:hunter2@127.0.0.1:{receiver.port}"
        (house / "loadsheet.toml").write_text(f'notifications.urls = ["{address}"]', encoding="utf-8")
        (house / "loadsheet.toml").chmod(0o600)
        shutil.rmtree(house / "mappings")
        assert loadsheet(house, "doctor", "--quick").returncode == 1
        assert receiver.got == []
        done = loadsheet(house, "doctor", "--quick", "--notify", "the unit x has failed")
        test = loadsheet(house, "doctor", "--quick", "--notify")
    assert "a notice was sent to json://127.0.0.1" in done.stdout
    assert "hunter2" not in done.stdout + test.stdout
    first, second = receiver.notices
    assert "the unit x has failed" in first["title"]
    assert "wrong: mappings: " in first["message"]
    assert "a test" in second["title"]
    (house / "loadsheet.toml").unlink()
    done = loadsheet(house, "doctor", "--quick", "--notify")
    assert (done.returncode, "no address for notices is set" in done.stdout) == (1, True)


def test_the_command_says_all_of_it_and_its_exit_code_whether_anything_is_wrong(house):
    done = loadsheet(house, "doctor")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("Check\t\tFinding\tWhat to do\n")
    levels = [line.split("\t")[1] for line in done.stdout.splitlines()[1:]]
    assert levels == sorted(levels, key=("wrong", "warning", "ok").index), "what needs somebody comes first"
    assert done.stdout.count("\nmapping\t") == 1
    quick = json.loads(loadsheet(house, "doctor", "--json", "--quick", LOADSHEET_ALLOW_ROOT="true").stdout)
    assert [one["level"] for one in quick if one["check"] == "user"] == ["ok"]
    assert {"shipper", "check", "level", "ok", "finding", "do"} == set(quick[0])
    assert "exchange" not in {one["check"] for one in quick}
    shutil.rmtree(house / "mappings")
    done = loadsheet(house, "doctor", "--json")
    assert done.returncode == 1
    assert [one["check"] for one in json.loads(done.stdout) if not one["ok"]] == ["mappings"]


def test_every_declared_shipper_is_looked_at_and_one_wrong_is_no_others(house):
    (house / "loadsheet.toml").write_text(
        "[shippers.acme]\n[shippers.nord]\narrival.settle_s = -1\n[shippers.sued]\n", encoding="utf-8"
    )
    done = loadsheet(house, "doctor", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert {one["shipper"] for one in told} == {"", "acme", "nord", "sued"}
    assert {one["shipper"] for one in told if not one["ok"]} == {"nord"}
    assert loadsheet(house, "doctor", "--shipper", "acme").returncode == 0

"""The systemd units: sound, hardened, and such that everything a run needs still works behind them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import click
import pytest
from systemd_filter import directives

from loadsheet.cli import loadsheet

ROOT = Path(__file__).parents[2]
EXPOSURE_MAX = 2.0
ZONE = ("--timezone", "Europe/Berlin")


def _here(tool):
    return shutil.which(tool) or "CI" in os.environ


analysed = pytest.mark.skipif(not _here("systemd-analyze"), reason="there is no systemd-analyze here")
filtered = pytest.mark.skipif(
    sys.platform != "linux" or not _here("systemd-analyze"), reason="system call filters are Linux' and systemd's"
)


def analyse(*words):
    return subprocess.run(["systemd-analyze", *map(str, words)], capture_output=True, text=True, check=False)


def units(folder):
    """The units of a folder, templates as an instance of theirs."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".service", ".timer"))
    return [folder / re.sub(r"@\.", "@acme.", name) for name in names]


def behind(unit, *words):
    """The words of a Python behind the system call filter of a unit."""
    launcher = ROOT / "tests" / "support" / "systemd_filter.py"
    return [sys.executable, launcher, unit, sys.executable, *words]


@analysed
@pytest.mark.parametrize("name", ["house", "the night's 100% $HOME häuser"])
def test_systemd_finds_nothing_wrong_with_the_units_wherever_they_were_made(deployed, tmp_path, name):
    made = deployed("systemd", *ZONE, folder=tmp_path / name, config='exchange = "https://example.com"')
    done = analyse("verify", "--man=no", *units(made))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert len(units(made)) == 8
    unit = made / "loadsheet.service"
    unit.write_text(unit.read_text().replace("RestartSec=10min", "RestartSec=soon"))
    assert "Failed to parse sec value" in analyse("verify", "--man=no", unit).stderr, "a mistake would be found"


@analysed
def test_systemd_thinks_the_services_little_exposed(deployed, tmp_path):
    def exposed(unit):
        return analyse("security", "--offline=yes", f"--threshold={EXPOSURE_MAX * 10:.0f}", "--no-pager", unit)

    for unit in deployed("systemd", *ZONE).glob("*.service"):
        done = exposed(unit)
        assert done.returncode == 0, done.stdout
    loose = tmp_path / "loose.service"
    loose.write_text("[Service]\nExecStart=/bin/true\n")
    assert exposed(loose).returncode


@analysed
@pytest.mark.parametrize(("at", "nights"), [("04:15", 4), ("02:15", 3)])
def test_the_default_time_exists_on_the_day_of_a_clock_change_and_another_may_not(deployed, at, nights):
    (calendar,) = directives(deployed("systemd", "--at", at, *ZONE) / "loadsheet.timer")["OnCalendar"]
    told = analyse("calendar", "--base-time=2026-03-27 12:00 UTC", "--iterations=6", calendar).stdout
    days = re.findall(r"\(in UTC\): \w+ (\S+)", told) or re.findall(r"(?:elapse|#\d+): \w+ (\S+)", told)
    assert len([day for day in days if "2026-03-28" <= day <= "2026-03-31"]) == nights, told


@pytest.mark.sweep
@filtered
def test_behind_the_units_filter_files_are_still_read_by_processes_that_can_do_nothing_else(deployed):
    """Without the calls of Landlock in the filter the reading processes would be unprotected; that test would be skipped then."""
    suite = ROOT / "tests" / "reading" / "test_sandbox.py"
    chosen = ["-k", "can_do_nothing or allocate or rows_come_back", "-p", "no:randomly", "-p", "no:cacheprovider"]
    words = behind(deployed("systemd", *ZONE) / "loadsheet.service", "-m", "pytest", "-n", "0", *chosen, suite)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert "skipped" not in done.stdout, done.stdout


@filtered
def test_the_filter_of_the_test_above_refuses_what_the_unit_forbids(deployed):
    deeds = {
        "a raw socket to the kernel": "socket.socket(16, 3)",
        "memory that is writable and executable": "mmap.mmap(-1, 4096, prot=7)",
        "another user": "os.setuid(5)",
        "a namespace": "ctypes.CDLL(None, use_errno=True).unshare(0x20000) and 1 / 0",
    }
    code = "import ctypes, mmap, os, socket\nfor deed in {!r}:\n  try: exec(deed); print('done', deed)\n  except (OSError, ZeroDivisionError): pass"
    words = behind(deployed("systemd", *ZONE) / "loadsheet.service", "-c", code.format(list(deeds.values())))
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == ""


def parsed(words):
    """The command that these words call and the options they give it; click raises where they do not fit."""
    context, group = click.Context(loadsheet), loadsheet
    while isinstance(group, click.Group):
        group, words = group.get_command(context, words[0]), words[1:]
    return group.name, group.make_context(group.name, list(words)).params


def commands_of(unit):
    (line,) = directives(unit)["ExecStart"]
    return shlex.split(line.replace("%i", "acme").replace("%%", "%").replace("$$", "$"))


def test_every_unit_starts_this_installation_with_words_that_loadsheet_knows(deployed, tmp_path):
    made = deployed("systemd", *ZONE, folder=tmp_path / "50% of the house", config="arrival.settle_s = 1.0")
    called = {}
    for unit in made.glob("*.service"):
        program, *words = commands_of(unit)
        assert Path(program).name in ("loadsheet", "loadsheet.exe")
        assert os.access(program, os.X_OK)
        name, given = parsed(words)
        assert given["config"] == tmp_path / "50% of the house" / "loadsheet.toml"
        called[unit.stem] = name
    expected = {"loadsheet": "run", "loadsheet@": "run", "loadsheet-watch": "watch", "loadsheet-worker@": "worker"}
    assert called.items() >= (expected | {"loadsheet-exchange": "serve", "loadsheet-notify@": "doctor"}).items()


def test_the_exchange_has_a_token_and_writes_its_own_records_alone(deployed, tmp_path):
    unit = directives(deployed("systemd", *ZONE, folder=tmp_path / "house") / "loadsheet-exchange.service")
    assert (unit["StateDirectory"], unit["StateDirectoryMode"]) == (["loadsheet-exchange"], ["0700"])
    assert "ReadWritePaths" not in unit
    assert unit["LoadCredential"] == ["loadsheet_token:/etc/loadsheet/exchange_token"]
    assert unit["Environment"] == ["LOADSHEET_TOKEN_FILE=%d/loadsheet_token"]
    assert unit["RestartPreventExitStatus"] == ["2 78"]


@filtered
def test_behind_the_units_filter_the_exchange_serves_and_stops(deployed, tmp_path):
    unit = deployed("systemd", *ZONE, config="arrival.settle_s = 1.0") / "loadsheet-exchange.service"
    (tmp_path / "loadsheet-exchange").mkdir()
    (tmp_path / "token").write_text("a-token")
    (tmp_path / "token").chmod(0o600)
    words = [word.replace("%S", str(tmp_path)) for word in commands_of(unit)]
    words = [*behind(unit)[:-1], *words, "--port", "0"]
    environment = {**os.environ, "LOADSHEET_TOKEN_FILE": str(tmp_path / "token")}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip().removeprefix("exchange listening on ")
            with urllib.request.urlopen(f"{url}/openapi.json", timeout=30) as answer:
                assert answer.status == 200
            process.terminate()
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
    assert (tmp_path / "loadsheet-exchange" / "exchange.db").is_file()


def test_exit_codes_for_people_are_no_failure_and_what_does_not_mend_itself_is_not_repeated(deployed):
    made = deployed("systemd", *ZONE)
    run, watching = directives(made / "loadsheet.service"), directives(made / "loadsheet-watch.service")
    assert run["SuccessExitStatus"] == ["1 65 130 143"]
    for unit in (run, watching):
        assert {"77", "78"} <= set(unit["RestartPreventExitStatus"][0].split())
        assert unit["OnFailure"] == ["loadsheet-notify@%n"]
    assert "75" not in run["RestartPreventExitStatus"][0], "trying again is what 75 asks for"
    worker = directives(made / "loadsheet-worker@.service")
    assert worker["Restart"] == ["always"], "a worker whose database went away may end with any exit code"
    assert worker["RestartPreventExitStatus"] == ["2 78"]
    assert worker["SuccessExitStatus"] == ["130 143"], "a stop is not a failure that is reported"
    assert worker["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_folders_side_by_side_are_opened_as_one_so_that_files_can_be_renamed_between_them(deployed, tmp_path):
    """Those that lie apart are opened each by itself, and those below /var/lib belong to the service."""

    def run_of(config=None):
        return directives(deployed("systemd", *ZONE, folder=tmp_path / "house", config=config) / "loadsheet.service")

    house = tmp_path / "house"
    beside = run_of()
    assert beside["ReadWritePaths"] == [str(house)]
    assert beside["ReadOnlyPaths"] == [f"-{house / 'mappings'}"]
    assert run_of(f'outbox = "{house}/reports/outbox"')["ReadWritePaths"] == [str(house)]
    (deep,) = run_of(f'outbox = "{house}/reports/daily/outbox"')["ReadWritePaths"]
    assert deep.split() == [f"{house}/{name}" for name in (".loadsheet", "inbox", "reports/daily/outbox")]
    apart = {"inbox": f"{tmp_path}/drop/off/here/inbox", "state": "/var/lib/loadsheet", "outbox": "/srv/reports"}
    (opened,) = run_of("\n".join(f'{name} = "{folder}"' for name, folder in apart.items()))["ReadWritePaths"]
    assert opened.split() == sorted(apart.values())
    owned = run_of("\n".join(f'{name} = "/var/lib/loadsheet/{name}"' for name in apart))
    assert (owned["StateDirectory"], "ReadWritePaths" in owned) == (["loadsheet"], False)


def test_the_token_comes_as_a_credential_and_only_where_one_is_needed(deployed):
    at_home = directives(deployed("systemd", *ZONE) / "loadsheet.service")
    assert "LoadCredential" not in at_home, "a credential that is not there would keep the unit from starting"
    config = 'exchange = "https://example.com"\ntoken_file = "/etc/loadsheet/acme"'
    away = directives(deployed("systemd", *ZONE, config=config) / "loadsheet.service")
    assert away["LoadCredential"] == ["loadsheet_token:/etc/loadsheet/acme"]
    assert away["Environment"] == ["LOADSHEET_TOKEN_FILE=%d/loadsheet_token"]


def test_every_shipper_has_its_folders_and_its_token(deployed, tmp_path):
    config = """\
exchange = "https://example.com"
monitoring.metrics_file = "/var/lib/node_exporter/loadsheet.prom"
[shippers.acme]
[shippers.north-sea]
token_file = "/etc/north"
"""
    run = directives(deployed("systemd", *ZONE, folder=tmp_path / "house", config=config) / "loadsheet@.service")
    assert run["ReadWritePaths"] == [f"{tmp_path}/house /var/lib/node_exporter"]
    credentials = {"acme": "/etc/loadsheet/token_acme", "north-sea": "/etc/north"}
    assert run["LoadCredential"] == [f"loadsheet_token_{name}:{path}" for name, path in credentials.items()]
    assert run["Environment"] == [
        f"LOADSHEET_SHIPPERS__{name.upper().replace('-', '_')}__TOKEN_FILE=%d/loadsheet_token_{name}"
        for name in credentials
    ]


@pytest.mark.skipif(not _here("systemd-sysusers"), reason="there is no systemd-sysusers here")
def test_the_user_of_the_units_can_be_made(deployed, tmp_path):
    users = deployed("systemd", *ZONE, "--user", "night") / "loadsheet.sysusers"
    (tmp_path / "root" / "etc").mkdir(parents=True)
    subprocess.run(["systemd-sysusers", f"--root={tmp_path / 'root'}", "-"], input=users.read_bytes(), check=True)
    assert "night:" in (tmp_path / "root" / "etc" / "passwd").read_text()
    assert directives(users.with_name("loadsheet.service"))["User"] == ["night"]

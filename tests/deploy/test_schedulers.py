"""What cron, Windows and launchd get, parsed as they parse it; clock changes; and completion, asked of the shells themselves."""

import json
import os
import plistlib
import shutil
import subprocess
import sys
from datetime import date, time
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest
import yaml

from loadsheet.cli.deploy import clock_change_warnings, zone_of_this_machine

SUMMER = date(2026, 6, 1)


def crontab(path):
    """Variables and jobs of a crontab: schedule and command, as crontab(5) reads them."""
    variables, jobs = {}, []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if "=" in line.split(" ", 1)[0]:
            variables.update([line.split("=", 1)])
        else:
            *when, command = line.split(" ", 5)
            jobs.append((when, command))
    return variables, jobs


def test_the_line_for_cron_runs_loadsheet_in_its_folder_at_its_time(deployed, tmp_path):
    """It says what clock changes do to that time."""
    house = tmp_path / "50% of the night's house"
    words = ("cron", "--timezone", "Europe/Berlin", "--user", "operator")
    path = deployed(*words, "--at", "05:20", folder=house, config="") / "loadsheet.crontab"
    variables, ((when, command),) = crontab(path)
    assert variables == {"MAILTO": "operator"}
    assert when == ["20", "5", "*", "*", "*"]
    assert "# No clock change affects 05:20 in Europe/Berlin" in path.read_text()
    assert command.count("%") == command.count(r"\%"), "cron takes a bare % for the end of the command"
    (house / "loadsheet.toml").unlink()
    done = subprocess.run(["/bin/sh", "-c", command.replace(r"\%", "%")], capture_output=True, text=True, check=False)
    assert done.returncode == 78, "that command reached loadsheet, in that folder, with that settings file"
    assert f"settings file {house / 'loadsheet.toml'} does not exist" in done.stderr
    deployed(*words, "--at", "02:15", folder=house)
    assert "02:15 does not exist in Europe/Berlin" in path.read_text()
    assert crontab(deployed("cron", folder=house) / "loadsheet.crontab")[1][0][0] == ["15", "4", "*", "*", "*"]


@pytest.mark.parametrize("user", ["S-1-5-19", r"WORK\night & day"])
def test_the_task_for_windows_says_what_runs_when_and_as_whom(deployed, tmp_path, user):
    house = tmp_path / "a <house> & more"
    made = deployed("windows", "--at", "04:15", "--user", user, folder=house, config="")
    text = (made / "loadsheet.xml").read_text(encoding="utf-8").split("\n", 1)[1]
    task = ET.fromstring(text.replace(' xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task"', ""))
    assert (task.tag, task.get("version"), "windows/2004/02/mit/task" in text) == ("Task", "1.2", True)
    (trigger,) = task.find("Triggers")
    order = ["Enabled", "StartBoundary", "RandomDelay", "ScheduleByDay"]
    assert [part.tag for part in trigger] == order, "the schema demands it"
    start = trigger.findtext("StartBoundary")
    assert start.endswith("T04:15:00"), "no offset: the machine's own time, in summer and in winter"
    assert task.find(".//Principal").get("id") == task.find("Actions").get("Context")
    assert Path(task.findtext(".//Command")).name.startswith("loadsheet")
    for name, value in {
        "UserId": user,
        "LogonType": None if user == "S-1-5-19" else "S4U",
        "Arguments": f'run --quiet --config "{house / "loadsheet.toml"}"',
        "WorkingDirectory": str(house),
        "MultipleInstancesPolicy": "IgnoreNew",
        "StartWhenAvailable": "true",
    }.items():
        assert task.findtext(f".//{name}") == value, name


def test_the_property_list_for_launchd_says_what_runs_when_and_as_whom(deployed, tmp_path):
    house = tmp_path / "a <house> & more"
    made = plistlib.loads(
        (deployed("launchd", "--user", "night", folder=house, config="") / "loadsheet.plist").read_bytes()
    )
    program, *words = made["ProgramArguments"]
    assert (Path(program).name, words) == ("loadsheet", ["run", "--quiet", "--config", str(house / "loadsheet.toml")])
    assert made["StartCalendarInterval"] == {"Hour": 4, "Minute": 15}
    assert (made["UserName"], made["WorkingDirectory"], made["Umask"]) == ("night", str(house), 0o027)


def test_what_watches_it_comes_with_it(deployed):
    made = deployed("monitoring")
    documented = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert [path.name for path in made.iterdir() if f"`{path.name}`" not in documented] == []
    assert json.loads((made / "loadsheet-grafana.json").read_text(encoding="utf-8"))["panels"]
    for name, key in (("loadsheet-prometheus-alerts.yml", "groups"), ("loadsheet-datasette.yaml", "databases")):
        assert yaml.safe_load((made / name).read_text(encoding="utf-8"))[key], name


def test_everything_is_made_at_once(deployed):
    wanted = {f"loadsheet.{ending}" for ending in ("service", "crontab", "xml", "plist", "bash")} | {"_loadsheet"}
    assert wanted <= {path.name for path in deployed("all").iterdir()}


@pytest.mark.parametrize("words", [("cron", "--at", "25:00"), ("systemd", "--timezone", "Europe/Atlantis")])
def test_a_time_or_a_zone_that_does_not_exist_is_refused_in_words(deployed, words):
    with pytest.raises(click.BadParameter, match=r"is not (a time of day|the name of a time zone), such as"):
        deployed(*words)


def test_the_days_on_which_a_time_does_not_come_or_comes_twice_are_named():
    for at, zone, expected in (
        (time(4, 15), "Europe/Berlin", []),
        (time(4, 15), "Europe/Helsinki", []),
        (time(4, 15), "America/New_York", []),
        (time(4, 15), "Asia/Kolkata", []),
        (time(2, 15), "Europe/Berlin", ["2026-10-25 02:15 comes twice", "2027-03-28 02:15 does not exist"]),
        (time(1, 58), "Europe/Berlin", ["2027-03-28 02:03 does not exist"]),
        (time(0, 15), "America/Santiago", ["2026-09-06 00:15 does not exist"]),
    ):
        found = clock_change_warnings(at, zone, SUMMER)
        assert bool(found) == bool(expected), (at, zone)
        for sentence in expected:
            assert any(f"On {sentence} in {zone}" in line for line in found), found


def test_the_zone_of_this_machine_is_that_of_its_link(tmp_path):
    for name, target in (("known", tmp_path / "zoneinfo/Europe/Berlin"), ("unknown", "/etc/nowhere")):
        (tmp_path / name).symlink_to(target)
    zones = [zone_of_this_machine(tmp_path / name) for name in ("known", "unknown", "missing")]
    assert zones == ["Europe/Berlin", "UTC", "UTC"]


IN_BASH = (
    'source "$1"; shift; COMP_WORDS=(loadsheet "$@"); COMP_CWORD=$#; _loadsheet_completion loadsheet; '
    'printf "%s\\n" "${COMPREPLY[@]}"'
)
IN_FISH = 'source $argv[1]; complete --do-complete "loadsheet $argv[2..]"'
SHELLS = {"bash": ["--norc", "-c", IN_BASH, "bash"], "fish": ["--no-config", "-c", IN_FISH]}


def complete(shell, script, *words):
    """What a shell offers for the last of the words; `loadsheet` is this very tree's."""
    program = script.parent / "bin" / "loadsheet"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m loadsheet "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    paths = {"PATH": [str(program.parent), os.environ["PATH"]], "PYTHONPATH": filter(None, sys.path)}
    given = os.environ | {name: os.pathsep.join(folders) for name, folders in paths.items()}
    command = [shell, *SHELLS[shell], script, *words]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=True)
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(deployed, shell):
    (script,) = deployed("completion", shell).iterdir()
    text = script.read_text(encoding="utf-8")
    assert "_LOADSHEET_COMPLETE" in text
    assert f"{shell}_complete" in text
    if shell in SHELLS and shutil.which(shell) is None:
        assert shell != "bash" or "CI" not in os.environ
        pytest.skip(f"{shell} is not installed here")
    if shell in SHELLS:
        assert script.name == f"loadsheet.{shell}"
        assert {"report", "resolve", "retry"} <= set(complete(shell, script, "re"))
        assert "--mappings" in complete(shell, script, "run", "--ma")

"""What cron, Windows and launchd get, parsed as they parse it; the clock changes that a time of day meets; and completion, asked of the shells themselves."""

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
from ruamel.yaml import YAML

from loadsheet.deploy import clock_change_warnings, zone_of_this_machine

TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
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
    house = tmp_path / "50% of the night's house"
    variables, ((when, command),) = crontab(
        deployed("cron", "--at", "05:20", "--user", "night", folder=house, config="") / "loadsheet.crontab"
    )
    assert variables == {"MAILTO": "night"}
    assert when == ["20", "5", "*", "*", "*"]
    assert command.count("%") == command.count(r"\%"), "cron takes a bare % for the end of the command"
    (house / "loadsheet.toml").unlink()
    done = subprocess.run(["/bin/sh", "-c", command.replace(r"\%", "%")], capture_output=True, text=True, check=False)
    assert done.returncode == 78, "that command reached loadsheet, in that folder, with that settings file"
    assert f"settings file {house / 'loadsheet.toml'} does not exist" in done.stderr


def test_the_line_for_cron_says_what_clock_changes_do_to_its_time(deployed):
    told = (deployed("cron", "--at", "02:15", "--timezone", "Europe/Berlin") / "loadsheet.crontab").read_text()
    assert "02:15 does not exist in Europe/Berlin" in told
    told = (deployed("cron", "--timezone", "Europe/Berlin") / "loadsheet.crontab").read_text()
    assert "# No clock change affects 04:15 in Europe/Berlin" in told


@pytest.mark.parametrize("user", ["S-1-5-19", r"WORK\night & day"])
def test_the_task_for_windows_says_what_runs_when_and_as_whom(deployed, tmp_path, user):
    house = tmp_path / "a <house> & more"
    made = deployed("windows", "--at", "04:15", "--user", user, folder=house, config="")
    task = ET.fromstring((made / "loadsheet.xml").read_text(encoding="utf-8").split("\n", 1)[1])
    assert (task.tag, task.get("version")) == (f"{TASK}Task", "1.2")
    (trigger,) = task.find(f"{TASK}Triggers")
    assert [part.tag.removeprefix(TASK) for part in trigger] == [
        "Enabled",
        "StartBoundary",
        "RandomDelay",
        "ScheduleByDay",
    ], "the schema demands this order"
    start = trigger.findtext(f"{TASK}StartBoundary")
    assert start.endswith("T04:15:00"), "no offset: the machine's own time, in summer and in winter"
    assert task.findtext(f".//{TASK}UserId") == user
    assert task.findtext(f".//{TASK}LogonType") == (None if user == "S-1-5-19" else "S4U")
    assert task.find(f".//{TASK}Principal").get("id") == task.find(f"{TASK}Actions").get("Context")
    assert Path(task.findtext(f".//{TASK}Command")).name.startswith("loadsheet")
    assert task.findtext(f".//{TASK}Arguments") == f'run --quiet --config "{house / "loadsheet.toml"}"'
    assert task.findtext(f".//{TASK}WorkingDirectory") == str(house)
    assert task.findtext(f".//{TASK}MultipleInstancesPolicy") == "IgnoreNew"
    assert task.findtext(f".//{TASK}StartWhenAvailable") == "true"


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
        assert YAML(typ="safe").load((made / name).read_text(encoding="utf-8"))[key], name


def test_everything_is_made_at_once(deployed):
    made = deployed("all")
    assert {
        "loadsheet.service",
        "loadsheet.crontab",
        "loadsheet.xml",
        "loadsheet.plist",
        "loadsheet.bash",
        "_loadsheet",
    } <= {path.name for path in made.iterdir()}


@pytest.mark.parametrize("words", [("cron", "--at", "25:00"), ("systemd", "--timezone", "Europe/Atlantis")])
def test_a_time_or_a_zone_that_does_not_exist_is_refused_in_words(deployed, words):
    with pytest.raises(click.BadParameter, match=r"is not (a time of day|the name of a time zone), such as"):
        deployed(*words)


@pytest.mark.parametrize(
    ("at", "zone", "told"),
    [
        (time(4, 15), "Europe/Berlin", []),
        (time(4, 15), "Europe/Helsinki", []),
        (time(4, 15), "America/New_York", []),
        (time(4, 15), "Asia/Kolkata", []),
        (time(2, 15), "Europe/Berlin", ["2026-10-25 02:15 comes twice", "2027-03-28 02:15 does not exist"]),
        (time(1, 58), "Europe/Berlin", ["2027-03-28 02:03 does not exist"]),
        (time(0, 15), "America/Santiago", ["2026-09-06 00:15 does not exist"]),
    ],
)
def test_the_nights_on_which_a_time_does_not_come_or_comes_twice_are_named(at, zone, told):
    found = clock_change_warnings(at, zone, SUMMER)
    assert bool(found) == bool(told)
    for sentence in told:
        assert any(f"On {sentence} in {zone}" in line for line in found), found


def test_the_zone_of_this_machine_is_that_of_its_link(tmp_path):
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    assert zone_of_this_machine(link) in ("Europe/Berlin", "UTC") if not link.exists() else "Europe/Berlin"
    assert zone_of_this_machine(tmp_path / "missing") == "UTC"


SHELLS = {
    "bash": (
        "loadsheet.bash",
        'source "$1"; shift; COMP_WORDS=(loadsheet "$@"); COMP_CWORD=$#; _loadsheet_completion loadsheet; printf "%s\\n" "${COMPREPLY[@]}"',
    ),
    "fish": ("loadsheet.fish", 'source $argv[1]; complete --do-complete "loadsheet $argv[2..]"'),
}


def complete(shell, script, words):
    """What a shell offers for the last of the words; `loadsheet` is this very tree's."""
    place = script.parent / "bin"
    place.mkdir(exist_ok=True)
    program = place / "loadsheet"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m loadsheet "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = os.pathsep.join([str(place), os.environ["PATH"]])
    code = SHELLS[shell][1]
    command = [shell, "--norc", "-c", code, shell] if shell == "bash" else [shell, "--no-config", "-c", code]
    words = [*command, str(script), *words]
    pythonpath = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        words,
        env={**os.environ, "PATH": path, "PYTHONPATH": pythonpath},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_and_options(deployed, shell):
    if shutil.which(shell) is None:
        assert shell != "bash" or "CI" not in os.environ
        pytest.skip(f"{shell} is not installed here")
    script = deployed("completion", shell) / SHELLS[shell][0]
    assert {"report", "resolve", "retry"} <= set(complete(shell, script, ["re"]))
    assert "--mappings" in complete(shell, script, ["run", "--ma"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_calls_the_program_by_its_name(deployed, shell):
    (script,) = deployed("completion", shell).iterdir()
    text = script.read_text(encoding="utf-8")
    assert "_LOADSHEET_COMPLETE" in text
    assert f"{shell}_complete" in text

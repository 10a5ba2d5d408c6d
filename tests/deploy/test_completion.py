"""Completion, asked of the shells themselves."""

import os
import shutil
import subprocess
import sys

import pytest

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

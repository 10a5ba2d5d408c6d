"""The real command in a process of its own, in a folder of its own, started as a user starts it."""

import os
import subprocess
import sys
from pathlib import Path

from outcome_check import check_command

TOKEN = "token-of-the-tests"


def environment(**more: str) -> dict[str, str]:
    """The environment of a command: this process's without any setting of loadsheet, then what is given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOADSHEET_")}
    return {**clean, "LOADSHEET_TOKEN": TOKEN, "LOADSHEET_ALLOW_ROOT": "true", **more}


def loadsheet(folder: Path, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `loadsheet WORDS` in a folder until it ends."""
    command = [sys.executable, "-m", "loadsheet", *map(str, words)]
    done = subprocess.run(
        command, cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=170, check=False
    )
    check_command(folder, command[3:], done)
    return done


def start(folder: Path, *words: object, **more: str) -> subprocess.Popen[str]:
    """Start `loadsheet WORDS` in a folder and do not wait."""
    command = [sys.executable, "-m", "loadsheet", *map(str, words)]
    return subprocess.Popen(
        command, cwd=folder, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

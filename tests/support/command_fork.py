"""Whole commands without their start: forked from the process that has done a run already, and waited for.

They read files themselves, without the process that reads apart: `command` and the tests of reading have that.
"""

import subprocess
from pathlib import Path

from command_processes import shared_nursery
from outcome_check import check_command


def loadsheet(folder, *words, typed="", **more):
    """What `loadsheet WORDS` came to in a folder: its exit code, stdout and stderr; `typed` is its input."""
    words = [str(word) for word in words]
    given = {"LOADSHEET_READING_PROCESS": "none", **more}
    code, out, err = shared_nursery().start(folder, *words, apart=True, typed=typed, **given).end()
    done = subprocess.CompletedProcess(words, code, out, err)
    check_command(Path(folder), words, done)
    return done

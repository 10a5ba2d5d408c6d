"""Whole commands without their start: a process that has done a run already forks a fresh one for each `loadsheet WORDS`.

They read files themselves, without the process that reads apart: `command` and the tests of reading have that.
"""

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import preloaded
from command import environment
from outcome_check import check_command


def loadsheet(folder, *words, typed="", **more):
    """What `loadsheet WORDS` came to in a folder: its exit code, stdout and stderr; `typed` is its input."""
    process = _waiting()
    order = [
        str(folder),
        [str(word) for word in words],
        typed,
        environment(**{"LOADSHEET_READING_PROCESS": "none", **more}),
    ]
    print(json.dumps(order), file=process.stdin, flush=True)
    code, out, err = json.loads(process.stdout.readline())
    done = subprocess.CompletedProcess(words, code, out, err)
    check_command(Path(folder), order[1], done)
    return done


@cache
def _waiting():
    """The process that waits for commands, the same for all tests of this one."""
    more = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, __file__]
    process = subprocess.Popen(words, env=environment(**more), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)  # closes its stdin, which ends it
    return process


def _serve():
    preloaded.prepare()
    for line in sys.stdin:
        print(json.dumps(_done(*json.loads(line))), flush=True)


def _done(folder, words, typed, variables):
    files = [os.memfd_create(name) for name in ("in", "out", "err")]
    os.write(files[0], typed.encode())
    os.lseek(files[0], 0, os.SEEK_SET)
    child = os.fork()
    if not child:
        preloaded.become(folder, words, variables, files)
    _, status = os.waitpid(child, 0)
    said = [os.pread(file, 10_000_000, 0).decode("utf-8", "replace") for file in files[1:]]
    for file in files:
        os.close(file)
    return [os.waitstatus_to_exitcode(status), *said]


if __name__ == "__main__":
    _serve()

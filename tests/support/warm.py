"""Whole commands without their start: a process that has imported the product forks a fresh one for each `loadsheet WORDS`."""

import importlib
import json
import os
import subprocess
import sys
from contextlib import contextmanager

from command import environment

COMMANDS = ("run", "resolve", "retry", "look", "doctor", "check", "exchange")
LAZY = ("loadsheet.mapping.expressions", "pandas", "structlog")  # else each command would load them again
NEEDED = (*(f"loadsheet.cli.{name}" for name in COMMANDS), "loadsheet.pipeline", "loadsheet.exchange.server", *LAZY)


class Warm:
    """Runs commands one after the other; each has a folder, an environment and an input of its own."""

    def __init__(self, process):
        self._process = process

    def loadsheet(self, folder, *words, typed="", **more):
        """What `loadsheet WORDS` came to in a folder: its exit code, stdout and stderr; `typed` is its input."""
        order = [str(folder), [str(word) for word in words], typed, environment(**more)]
        print(json.dumps(order), file=self._process.stdin, flush=True)
        code, out, err = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(words, code, out, err)


@contextmanager
def warmed():
    """A process that waits for commands."""
    more = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, __file__]
    with subprocess.Popen(
        words, env=environment(**more), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Warm(process)
        process.stdin.close()
        process.wait(timeout=60)


def _serve():
    for name in NEEDED:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_done(*json.loads(line))), flush=True)


def _done(folder, words, typed, variables):
    files = [os.memfd_create(name) for name in ("in", "out", "err")]
    os.write(files[0], typed.encode())
    os.lseek(files[0], 0, os.SEEK_SET)
    child = os.fork()
    if not child:
        _be_command(folder, words, variables, files)
    _, status = os.waitpid(child, 0)
    said = [os.pread(file, 10_000_000, 0).decode("utf-8", "replace") for file in files[1:]]
    for file in files:
        os.close(file)
    return [os.waitstatus_to_exitcode(status), *said]


def _be_command(folder, words, variables, files):
    from loadsheet.cli import invoke  # noqa: PLC0415 (the tests' own process needs none of it)

    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (a descriptor; the process ends with it)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    code = 70
    try:
        code = invoke(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()

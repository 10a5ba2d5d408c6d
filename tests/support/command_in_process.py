"""Whole commands in this process, for tests whose subject is not the process itself.

They read files without the sandboxed reader, which the tests of reading use.
"""

import io
import os
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from command import environment
from outcome_check import check_command

from loadsheet import places
from loadsheet.cli import invoke


def loadsheet(folder, *words, typed="", clock=None, **more):
    """Exit code, stdout and stderr of `loadsheet WORDS` in a folder. `typed` is its input, `clock` its clock, `more` its environment."""
    words, out, err = [str(word) for word in words], _stream(), _stream()
    variables = environment(**{"LOADSHEET_READING__PROCESS": "none", **more})
    with _surroundings(folder, variables, typed), redirect_stdout(out), redirect_stderr(err):
        code = invoke(words, clock=clock)
    done = subprocess.CompletedProcess(words, code, _text(out), _text(err))
    check_command(Path(folder), words, done)
    return done


@contextmanager
def _surroundings(folder, variables, typed):
    """Folder, environment and input of a command; those of the test and its umask return at the end."""
    here, before, stdin = Path.cwd(), dict(os.environ), sys.stdin
    umask = os.umask(0o022)
    os.umask(umask)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.stdin = _stream(typed)
    places._umask_before.clear()  # a test may have called `invoke` itself before
    try:
        yield
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)
        os.umask(umask)
        places._umask_before.clear()  # as in a new process


@contextmanager
def stdout_to(file):
    """This process's stdout is an open file in which maybe nothing can be written: what stays in its buffer goes nowhere."""
    with file, redirect_stdout(file):
        yield
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), file.fileno())


class Terminal(io.StringIO):
    """A stream that says it is a terminal: of output, or of input at whose end it is."""

    encoding = "utf-8"

    def isatty(self):
        return True


def nobody_reads():
    """The end of a pipe, open for writing, whose reader has gone away."""
    reads, writes = os.pipe()
    os.close(reads)
    return os.fdopen(writes, "w")


def _stream(text=""):
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8", "replace")

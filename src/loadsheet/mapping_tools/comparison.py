"""Translates files into memory by one mapping (`translate_files`), and compares two translations of the same files, field by field: by two
mappings, or by a mapping and its golden case.

A golden case is stored beside the mapping: input files and the expected documents.

    mappings/tests/acme-flat/umlauts.csv                 a case of mapping acme-flat
    mappings/tests/acme-flat/umlauts.expected.jsonl      its expected documents
    mappings/tests/nordic-join/late-night/*.csv          a case of several files is a folder
    mappings/tests/nordic-join/late-night.expected.jsonl

Owns: translation into memory by one mapping, the pairing of documents, the verdicts, and the files of cases. An expectation has a first line with
mapping, version and the value of `$now`, then a line for each document in order. Numbers are compared as sent (`12.50` is not
`12.5`), because the exchange gets that form.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from loadsheet import exit_codes
from loadsheet.contract import decode_value, encode_record
from loadsheet.errors import FileRefused, LoadsheetError, MappingError
from loadsheet.inbox import Candidate, InboxFile
from loadsheet.inbox.files import shown_name
from loadsheet.ingest import FilesInPlace, IngestContext, ReadDrop, RoutedDrop, RoutedFiles, ingest
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.documents import Document, Ignored
from loadsheet.mapping.routing import Route
from loadsheet.mapping_tools.value_origins import json_by_path, without_positions
from loadsheet.problems import Problem
from loadsheet.reading import Table
from loadsheet.settings import Settings

CASES_FOLDER = "tests"
EXPECTATION_ENDING = ".expected.jsonl"


class CollectingSink(FilesInPlace):
    """Keeps the tables of a drop, and its documents and ignored rows in order, up to `documents_max` documents; `problems` are those of
    the tables and of the whole drop, if it was read to its end. An unusable file raises FileRefused.
    """

    def __init__(self, documents_max: int | None) -> None:
        self._documents_max = documents_max
        self.tables = dict[str, Table]()
        self.items: list[Document | Ignored] = []
        self.documents: list[Document] = []
        self.problems: list[Problem] = []

    def set_aside(self, _file: InboxFile, problem: Problem) -> None:
        """Raise FileRefused."""
        raise FileRefused(problem)

    def refuse(self, _files: Sequence[InboxFile], problem: Problem) -> None:
        """Raise FileRefused."""
        raise FileRefused(problem)

    def take(self, drop: ReadDrop) -> None:
        """Keep the documents, without warnings for dates far from now, so that a comparison does not depend on the day. Raises FileRefused."""
        self.tables |= drop.tables
        for item in drop.documents(warn_of_far_dates=False):
            self.items.append(item)
            if isinstance(item, Document):
                self.documents.append(item)
                if len(self.documents) == self._documents_max:
                    return
        self.problems += [problem for notes in drop.notes().values() for problem in notes.problems]
        self.problems += drop.doubts()


class MissingFile(LoadsheetError):
    """A mapping reads several files, and one of them was not given."""

    exit_code = exit_codes.WRONG_USAGE


def translate_files(
    mapping: CompiledMapping,
    files: Sequence[Path],
    settings: Settings,
    *,
    now: datetime,
    documents_max: int | None = None,
) -> CollectingSink:
    """Translate these files as one drop of this mapping; `now` (aware) is the value of `$now`. The name of a single file does not matter.
    Each of several files gets the role whose pattern fits best. Raises FileRefused, and MissingFile if a role has no file.
    """
    return translate_files_by_role(mapping, roles_of(mapping, files), settings, now=now, documents_max=documents_max)


def translate_files_by_role(
    mapping: CompiledMapping,
    roles: dict[str, Path],
    settings: Settings,
    *,
    now: datetime,
    documents_max: int | None = None,
) -> CollectingSink:
    """The same for files whose roles are known."""
    bare = [path.name for path in roles.values()]
    names = {role: shown_name(Path(path.name) if bare.count(path.name) == 1 else path) for role, path in roles.items()}
    candidates = {names[role]: Candidate(names[role], path) for role, path in roles.items()}
    sink = CollectingSink(documents_max)
    drop = RoutedDrop(Route(mapping, names))
    ingest(RoutedFiles(candidates, (drop,)), sink, IngestContext(settings, (mapping,), None, now))
    return sink


def roles_of(mapping: CompiledMapping, files: Sequence[Path]) -> dict[str, Path]:
    """The files by role. Raises MissingFile."""
    patterns = {mapping.main_role: mapping.files, **{role: (text,) for role, text in mapping.companions.items()}}
    if len(patterns) == 1 and len(files) == 1:
        return {mapping.main_role: files[0]}
    left, roles = list(files), dict[str, Path]()
    for role, wanted in patterns.items():
        fits = [path for path in left if matches_bare_name(wanted, path)]
        if not fits:
            raise MissingFile(
                f"mapping {mapping.name} needs a file for {role} ({', '.join(wanted)}); "
                f"given: {', '.join(path.name for path in files)}"
            )
        roles[role] = fits[0]
        left.remove(fits[0])
    return roles


def matches_bare_name(patterns: Iterable[str], path: Path) -> bool:
    """Whether the bare name of a file matches the last part of one of the patterns; placeholders match any text."""
    lasts = (re.sub(r"\{[^}]*\}", "*", PurePosixPath(pattern).name) for pattern in patterns)
    return any(PurePosixPath(path.name.casefold()).match(last.casefold()) for last in lasts)


# ---- two mappings ----


class PairVerdict(StrEnum):
    """The change of a document from the old to the new translation."""

    IDENTICAL = "identical"
    CHANGED = "changed"
    NOW_FAILING = "now failing"
    NOW_PASSING = "now passing"
    STILL_FAILING = "still failing"
    ONLY_OLD = "only in the old"
    ONLY_NEW = "only in the new"


HARMLESS = frozenset({PairVerdict.IDENTICAL, PairVerdict.STILL_FAILING})


class FieldChange(NamedTuple):
    """A payload path with its old and its new value as JSON; an empty text where the path is missing."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A document before and after: its verdict, the fields that differ, and the problems of the side that fails."""

    operation: str
    key: str
    verdict: PairVerdict
    changes: tuple[FieldChange, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class Comparison:
    """Every pair that is not identical, the count of each verdict, and how many documents differ in each field."""

    pairs: list[Pair] = field(default_factory=list)
    counts: Counter[PairVerdict] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)

    @property
    def same(self) -> bool:
        """Whether every document is unchanged: sent with the same payload, or refused before and after."""
        return set(self.counts) <= HARMLESS

    def merge(self, other: "Comparison") -> None:
        """Add the pairs and counts of another comparison."""
        self.counts.update(other.counts)
        self.fields.update(other.fields)
        self.pairs += other.pairs

    def add(self, pair: Pair) -> None:
        """Count a pair; identical ones are not kept."""
        self.counts[pair.verdict] += 1
        self.fields.update({without_positions(change.path) for change in pair.changes})
        if pair.verdict is not PairVerdict.IDENTICAL:
            self.pairs.append(pair)


def compare(old: Iterable[Document], new: Iterable[Document]) -> Comparison:
    """Compare old with new. Documents are paired by operation and key; documents with the same key are paired in order."""
    waiting: dict[tuple[str, str], list[Document]] = defaultdict(list)
    for document in old:
        waiting[document.operation, document.key].append(document)
    found = Comparison()
    for document in new:
        partners = waiting[document.operation, document.key]
        found.add(_pair(partners.pop(0) if partners else None, document))
    for left in waiting.values():
        for document in left:
            found.add(_pair(document, None))
    return found


def sent_payload(document: Document) -> bytes:
    """The payload of a document. A document with an update form for an existing record shows that payload too."""
    if document.alternative is None:
        return document.payload
    instead = {"operation": document.alternative.operation, "payload": msgspec.Raw(document.alternative.payload)}
    return encode_record({"payload": msgspec.Raw(document.payload), "instead": instead})


def changed_paths(old: bytes, new: bytes) -> tuple[FieldChange, ...]:
    """The paths in which two payloads differ, in the order of the old one, then those that only the new one has."""
    before, after = json_by_path(old), json_by_path(new)
    paths = [*before, *(path for path in after if path not in before)]
    return tuple(
        FieldChange(path, before.get(path, ""), after.get(path, ""))
        for path in paths
        if before.get(path) != after.get(path)
    )


def _pair(old: Document | None, new: Document | None) -> Pair:
    document = new or old
    if document is None:
        raise ValueError("a pair needs a document")
    if old is None or new is None:
        return Pair(document.operation, document.key, PairVerdict.ONLY_NEW if old is None else PairVerdict.ONLY_OLD)
    if old.usable and new.usable:
        found = changed_paths(sent_payload(old), sent_payload(new))
        return Pair(new.operation, new.key, PairVerdict.CHANGED if found else PairVerdict.IDENTICAL, found)
    if old.usable or new.usable:
        failing = new if old.usable else old
        verdict = PairVerdict.NOW_FAILING if old.usable else PairVerdict.NOW_PASSING
        return Pair(new.operation, new.key, verdict, problems=_errors(failing))
    return Pair(new.operation, new.key, PairVerdict.STILL_FAILING, problems=_errors(new))


def _errors(document: Document) -> tuple[str, ...]:
    return tuple(str(problem) for problem in document.problems if problem.level == "error")


# ---- golden cases ----


@dataclass(frozen=True, slots=True)
class Case:
    """The mapping's name, the case's name, its files, and where the expectation is or will be."""

    mapping: str
    name: str
    files: tuple[Path, ...]
    expected: Path


def find_cases(folder: Path) -> list[Case]:
    """Every case below `folder` (such as `mappings/tests`), by mapping and name. Hidden files are skipped."""
    found = []
    for own in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        for path in sorted(own.iterdir()):
            if path.name.startswith(".") or path.name.endswith(EXPECTATION_ENDING):
                continue
            files = tuple(sorted(inner for inner in path.iterdir() if inner.is_file())) if path.is_dir() else (path,)
            name = path.name if path.is_dir() else path.stem
            found.append(Case(own.name, name, files, own / f"{name}{EXPECTATION_ENDING}"))
    return found


def now_of(case: Case) -> datetime:
    """The value of `$now` in a case: from its expectation, or this minute if it has none yet."""
    if not case.expected.is_file():
        return datetime.now(UTC).replace(second=0, microsecond=0)
    with case.expected.open(encoding="utf-8") as file:
        head = _decoded(file.readline(), case.expected, 1)
    return datetime.fromisoformat(str(head.get("now", "2026-01-01T00:00:00+00:00")))


def expectation_text(mapping: CompiledMapping, now: datetime, documents: Iterable[Document | Ignored]) -> str:
    """The documents of a case as the text of its expectation file."""
    head = {"mapping": mapping.name, "version": mapping.version, "now": now.isoformat()}
    return "".join(f"{line}\n" for line in [_encoded(head), *map(_line, documents)])


def differences_from_expectation(case: Case, documents: Sequence[Document | Ignored]) -> list[str]:
    """The differences from the expectation, one sentence each; empty if the case passes. Raises MappingError for an invalid expectation."""
    if not case.expected.is_file():
        return [f"{case.expected.name} does not exist; --update writes it"]
    texts = case.expected.read_bytes().splitlines()[1:]  # of a str also at U+0085, which JSON may contain
    wanted = [_decoded(text, case.expected, line) for line, text in enumerate(texts, 2) if text.strip()]
    got = [_decoded(_line(document), case.expected, 0) for document in documents]
    differences = []
    for place in range(max(len(wanted), len(got))):
        expected = wanted[place] if place < len(wanted) else None
        actual = got[place] if place < len(got) else None
        differences += _difference(expected, actual, place + 1)
    return differences


def _line(document: Document | Ignored) -> str:
    if isinstance(document, Ignored):
        return _encoded({"ignored": document.rule, "rows": [_row(document.row)]})
    problems = [[problem.code, str(problem.where)] for problem in document.problems]
    parts = [f'"operation":{_encoded(document.operation)}', f'"key":{_encoded(document.key)}']
    parts += [f'"payload":{sent_payload(document).decode()}'] if document.usable else []
    parts += [f'"problems":{_encoded(problems)}'] if problems else []
    return "{" + ",".join([*parts, f'"rows":{_encoded([_row(row) for row in document.rows])}']) + "}"


def _row(row: Any) -> str:
    return f"{row.table}:{row.number}"


def _encoded(value: object) -> str:
    return encode_record(value).decode()


def _decoded(text: str | bytes, path: Path, line: int) -> dict[str, Any]:
    try:
        found = decode_value(text)
    except msgspec.DecodeError as error:
        raise MappingError(f"the expectation is not JSON: {error}", file=str(path), line=line, column=1) from error
    if not isinstance(found, dict):
        raise MappingError("the expectation is not a JSON object", file=str(path), line=line, column=1)
    return found


def _difference(wanted: dict[str, Any] | None, got: dict[str, Any] | None, place: int) -> list[str]:
    if wanted is None or got is None:
        line = wanted or got or {}
        return [f"document {place} ({_named(line)}) is {'not expected' if wanted is None else 'expected, but missing'}"]
    head = f"document {place} ({_named(wanted)})"
    differences = [
        f"{head}: {name} is {_short(got.get(name))}, expected {_short(wanted.get(name))}"
        for name in ("operation", "key", "ignored", "problems", "rows")
        if wanted.get(name) != got.get(name)
    ]
    if wanted.get("payload") is not None and got.get("payload") is not None:
        differences += [
            f"{head}: {change.path} is {change.new or 'missing'}, expected {change.old or 'nothing'}"
            for change in changed_paths(encode_record(wanted["payload"]), encode_record(got["payload"]))
        ]
    elif wanted.get("payload") is not None or got.get("payload") is not None:
        differences.append(
            f"{head}: {'is refused' if got.get('payload') is None else 'is accepted, but should be refused'}"
        )
    return differences


def _named(line: dict[str, Any]) -> str:
    return f"{line.get('operation', 'ignored')} {line.get('key', '')}".strip()


def _short(value: object) -> str:
    return "nothing" if value is None else _encoded(value)

"""Golden cases beside a mapping: files with rows, and what has to become of them.

    mappings/tests/acme-flat/umlauts.csv                 a case of mapping acme-flat
    mappings/tests/acme-flat/umlauts.expected.jsonl      what it has to come to
    mappings/tests/nordic-join/late-night/*.csv          a case of several files is a folder
    mappings/tests/nordic-join/late-night.expected.jsonl

Owns: where cases lie and how expectations are written: first a line with mapping, version and the moment that `$now` means,
then a line for each document in its order. Refuses to know how files are read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from loadsheet.mapping import Document, Ignored, Mapping
from loadsheet.mapping_tools.diff import changes, sent
from loadsheet.problems import MappingError

FOLDER = "tests"
ENDING = ".expected.jsonl"

_DECODE = msgspec.json.Decoder(float_hook=Decimal).decode  # numbers stay as they are written
_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class Case:
    """The mapping's name, the case's name, its files, and where the expectation is or will be."""

    mapping: str
    name: str
    files: tuple[Path, ...]
    expected: Path


def find_cases(folder: Path) -> list[Case]:
    """Every case below `folder` (such as `mappings/tests`), by mapping and name. Hidden files are passed over."""
    found = []
    for own in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        for path in sorted(own.iterdir()):
            if path.name.startswith(".") or path.name.endswith(ENDING):
                continue
            files = tuple(sorted(inner for inner in path.iterdir() if inner.is_file())) if path.is_dir() else (path,)
            name = path.name if path.is_dir() else path.stem
            found.append(Case(own.name, name, files, own / f"{name}{ENDING}"))
    return found


def moment_of(case: Case) -> datetime:
    """The moment that `$now` means in a case: what its expectation says, or this minute for a case that has none yet."""
    if not case.expected.is_file():
        return datetime.now(UTC).replace(second=0, microsecond=0)
    with case.expected.open(encoding="utf-8") as file:
        head = _decoded(file.readline(), case.expected, 1)
    return datetime.fromisoformat(str(head.get("now", "2026-01-01T00:00:00+00:00")))


def written(mapping: Mapping, now: datetime, documents: Iterable[Document | Ignored]) -> str:
    """The expectation for what a case came to, as the text of its file."""
    head = {"mapping": mapping.name, "version": mapping.version, "now": now.isoformat()}
    return "".join(f"{line}\n" for line in [_encoded(head), *map(_line, documents)])


def judge(case: Case, documents: Sequence[Document | Ignored]) -> list[str]:
    """What is not as expected, a sentence each; nothing if the case holds. Raises MappingError for an unreadable expectation."""
    if not case.expected.is_file():
        return [f"there is no {case.expected.name}; --update writes it"]
    texts = case.expected.read_text(encoding="utf-8").splitlines()[1:]
    wanted = [_decoded(text, case.expected, line) for line, text in enumerate(texts, 2) if text.strip()]
    got = [_decoded(_line(document), case.expected, 0) for document in documents]
    said = []
    for place in range(max(len(wanted), len(got))):
        one = wanted[place] if place < len(wanted) else None
        other = got[place] if place < len(got) else None
        said += _difference(one, other, place + 1)
    return said


def _line(document: Document | Ignored) -> str:
    if isinstance(document, Ignored):
        return _encoded({"ignored": document.rule, "rows": [_row(document.row)]})
    problems = [[problem.code, str(problem.where)] for problem in document.problems]
    parts = [f'"operation":{_encoded(document.operation)}', f'"key":{_encoded(document.key)}']
    parts += [f'"payload":{sent(document).decode()}'] if document.usable else []
    parts += [f'"problems":{_encoded(problems)}'] if problems else []
    return "{" + ",".join([*parts, f'"rows":{_encoded([_row(row) for row in document.rows])}']) + "}"


def _row(row: Any) -> str:
    return f"{row.table}:{row.number}"


def _encoded(value: object) -> str:
    return _ENCODE(value).decode()


def _decoded(text: str, path: Path, line: int) -> dict[str, Any]:
    try:
        found = _DECODE(text)
    except msgspec.DecodeError as error:
        raise MappingError(f"the expectation is not JSON: {error}", file=str(path), line=line, column=1) from error
    if not isinstance(found, dict):
        raise MappingError("the expectation is not a JSON object", file=str(path), line=line, column=1)
    return found


def _difference(wanted: dict[str, Any] | None, got: dict[str, Any] | None, place: int) -> list[str]:
    if wanted is None or got is None:
        one = wanted or got or {}
        return [f"document {place} ({_named(one)}) is {'not expected' if wanted is None else 'expected, but missing'}"]
    head = f"document {place} ({_named(wanted)})"
    said = [
        f"{head}: {name} is {_short(got.get(name))}, expected {_short(wanted.get(name))}"
        for name in ("operation", "key", "ignored", "problems", "rows")
        if wanted.get(name) != got.get(name)
    ]
    if wanted.get("payload") is not None and got.get("payload") is not None:
        said += [
            f"{head}: {change.path} is {change.new or 'missing'}, expected {change.old or 'nothing'}"
            for change in changes(_ENCODE(wanted["payload"]), _ENCODE(got["payload"]))
        ]
    elif wanted.get("payload") is not None or got.get("payload") is not None:
        said.append(f"{head}: {'is refused' if got.get('payload') is None else 'is accepted, but was to be refused'}")
    return said


def _named(line: dict[str, Any]) -> str:
    return f"{line.get('operation', 'ignored')} {line.get('key', '')}".strip()


def _short(value: object) -> str:
    return "nothing" if value is None else _encoded(value)

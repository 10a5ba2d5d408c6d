"""What is in a capsule: the names of its members, its manifest, and rows of the ledger as lines of JSON.

Owns: the format. `manifest.json` says what the run was, which settings bore on it, and what lies where; a program that reads it knows
by `format` whether it can.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from loadsheet.run_archive.hash_chain import CannotOpen, Members

FORMAT = 1
MANIFEST = "manifest.json"

BEARING = ("reading", "translation", "dispatch", "verification", "reconcile", "reports")
"""The sections of the settings that a capsule keeps: none holds a path, an address or a secret."""

_RUN = re.compile(r"\d{4}-\d\d-\d\d-\d{2,}", re.ASCII)  # both become names of folders
_HASH = re.compile(r"[0-9a-f]{64}")
_PACKED = {"shown", "figures"}
_TEXTS = {"payload", "rows"}


class Input(msgspec.Struct, frozen=True):
    """A file of a drop, as it was claimed; `member` is empty where its bytes were not kept. `arrived` is ISO 8601 UTC."""

    name: str
    role: str
    sha256: str
    size: int
    arrived: str
    member: str


class DropKept(msgspec.Struct, frozen=True):
    """A drop that the run planned: the hash of its mapping (empty: it was set aside), its files, and the drop that it fixes."""

    id: int
    mapping: str
    files: tuple[Input, ...]
    fixes: int | None


class MappingKept(msgspec.Struct, frozen=True):
    """A mapping as it was: its own file first among `files`, which are paths from the folder of members that bears its hash."""

    hash: str
    name: str
    version: str
    shipper: str
    files: tuple[str, ...]


class Output(msgspec.Struct, frozen=True):
    """A report as it lay in the outbox when the capsule was made."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a capsule tells of itself. `touched` are all drops that the run's reports tell of; `changed_since` counts their entries that
    changed after the run ended. Times are ISO 8601 UTC.
    """

    format: int
    loadsheet: str
    python: str
    run: str
    run_id: int
    started_at: str
    finished_at: str
    exit_code: int | None
    settings: dict[str, Any]
    assumptions: dict[str, Any]
    exchange: str
    mappings: tuple[MappingKept, ...]
    drops: tuple[DropKept, ...]
    touched: tuple[int, ...]
    changed_since: int
    counts: dict[str, int]
    outputs: tuple[Output, ...]


class _Versioned(msgspec.Struct):
    format: int


def write_manifest(manifest: Manifest) -> bytes:
    """A manifest as a member."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(members: Members) -> Manifest:
    """The manifest of a capsule. Raises CannotOpen for one that a newer program made."""
    text = members.read(MANIFEST)
    try:
        if (version := msgspec.json.decode(text, type=_Versioned).format) != FORMAT:
            raise CannotOpen(
                f"this capsule has format {version}, this program knows {FORMAT}; use the program that made it"
            )
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise CannotOpen(f"{MANIFEST} is none of this program's: {error}") from error
    if not _RUN.fullmatch(manifest.run) or not all(_HASH.fullmatch(one.hash) for one in manifest.mappings):
        raise CannotOpen(
            f"{MANIFEST} is none of this program's: run {manifest.run!r}, or a mapping, is called as none is"
        )
    return manifest


def member_of(table: str) -> str:
    """The member that holds the rows of a table of the ledger."""
    return f"ledger/{table}.jsonl.gz"


def mapping_member(digest: str, name: str) -> str:
    """The member that holds a file of a mapping."""
    return f"mappings/{digest}/{name}"


def as_lines(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of the ledger as JSON values: payloads and source rows as the texts that they are, what is packed in base64."""
    for row in rows:
        for name, value in row.items():
            if isinstance(value, bytes | memoryview):
                row[name] = bytes(value).decode() if name in _TEXTS else base64.b64encode(value).decode()
        yield row


def rows_of(members: Members, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table, as the ledger keeps them."""
    for row in members.lines(member_of(table)):
        if table == "entries":
            for name in _TEXTS & row.keys():
                row[name] = row[name].encode()
        for name in _PACKED & row.keys():
            row[name] = base64.b64decode(row[name]) if row[name] is not None else None
        yield row

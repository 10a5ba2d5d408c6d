"""The capsule of a run: its inputs, mappings, payloads and answers in one archive with a hash chain, to replay and verify.

`seal` puts a run into an archive, on request or after every run, and refuses to make one with missing parts. `contents` defines the archive
and its members. `verify` checks whether it was changed, and records the archives made here. `replay` makes payloads and reports again from
the archive alone; `replay_diff` compares them with the originals. This module owns the place of capsules
(`STATE/capsules/RUN.capsule.zip`), what happens after each run, and how long capsules are kept. A failure here never changes a run.
"""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import file_digest
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import msgspec

from loadsheet import object_storage
from loadsheet.display_text import count_of
from loadsheet.errors import FolderError, LoadsheetError, MappingError
from loadsheet.ledger import Drop, Run, SourceFile
from loadsheet.ledger.exporting import TABLES, Row, Slice, slice_of
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.mapping.routing import current_mapping
from loadsheet.reports import archive_from, download_reports
from loadsheet.reports.report_files import safe_name
from loadsheet.reports.run_summary import without_credentials
from loadsheet.run_archive import contents
from loadsheet.run_archive.contents import (
    CannotSeal,
    CapsuleDrop,
    CapsuleMapping,
    CapsuleWriter,
    Input,
    Manifest,
    Output,
)
from loadsheet.run_archive.verify import add_to_record
from loadsheet.settings import Settings

SUFFIX = ".capsule.zip"


def day_of(path: Path) -> datetime | None:
    """The day of the run in a capsule's file name; None for other names."""
    try:
        return datetime.strptime(path.name[:10], "%Y-%m-%d")  # noqa: DTZ007 (only a day)
    except ValueError:
        return None


def capsule_path(settings: Settings, run: str) -> Path:
    """The path of a run's capsule."""
    return settings.state / "capsules" / f"{run}{SUFFIX}"


def seal_after_run(
    settings: Settings, queries: LedgerQueries, run: str, now: datetime, say: Callable[[str], None]
) -> None:
    """After a run, make its capsule if the settings ask for it and the run had work, and remove expired capsules. `now`
    is aware, in UTC.
    """
    if settings.run_archive.capsules == "each":
        with_work = (one for one in queries.runs_named(run) if one.name == run and queries.drops_of(one))
        for one in with_work:
            try:
                seal(queries, one, settings, capsule_path(settings, run), now)
            except LoadsheetError as error:
                say(f"no capsule of run {run}: {error}")
    if settings.run_archive.capsule_days:
        purge(settings, now)


def purge(settings: Settings, now: datetime) -> int:
    """Remove capsules of runs older than `run_archive.capsule_days`. Returns how many. The record keeps their heads."""
    oldest, removed = now.replace(tzinfo=None) - timedelta(days=settings.run_archive.capsule_days), 0
    for path in sorted((settings.state / "capsules").glob(f"*{SUFFIX}")):
        day = day_of(path)
        if day is not None and day.date() < oldest.date():
            with suppress(OSError):  # retried next time
                path.unlink()
                removed += 1
    return removed


class NewCapsule(NamedTuple):
    """A new capsule: its path, its head, its contents, and remarks."""

    path: Path
    head: str
    manifest: Manifest
    remarks: tuple[str, ...]


def make(queries: LedgerQueries, run: Run, settings: Settings, target: Path) -> NewCapsule:
    """Put a finished run into a capsule at `target`, replacing any existing one. Raises CannotSeal if a required part no
    longer exists, and FolderError if the capsule cannot be written.
    """
    if not run.finished_at:
        raise CannotSeal(f"run {run.name} has not ended; a capsule needs a finished run")
    part = target.with_name(f".{target.name}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as file:  # noqa: PTH123 (rights from the first byte)
            with slice_of(queries, run) as rows, CapsuleWriter(file) as writer:
                made = _CapsuleBuilder(queries, run, settings, rows, writer).build()
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        raise FolderError(
            f"{target} cannot be written ({error.strerror or error}); check the folder and the disk"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return made._replace(path=target)


class _CapsuleBuilder:
    """One capsule in progress."""

    def __init__(
        self, queries: LedgerQueries, run: Run, settings: Settings, rows: Slice, writer: CapsuleWriter
    ) -> None:
        self._queries, self._run, self._settings, self._writer, self._slice = queries, run, settings, writer, rows
        self._remarks: list[str] = []
        self._changed = 0

    def build(self) -> NewCapsule:
        """Write every member; the manifest comes last because it lists the others."""
        if not self._slice.touched:
            raise CannotSeal(f"run {self._run.name} had nothing to do, so there is nothing to put into a capsule")
        drops = tuple(map(self._drop, self._queries.drops_by_id(self._slice.own)))
        mappings = tuple(self._mappings())
        counts = {table: self._rows(table) for table in TABLES}
        manifest = self._manifest(drops, mappings, counts)
        self._writer.put(contents.MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        return NewCapsule(Path(), self._writer.finish(), manifest, tuple(self._remarks))

    def _drop(self, drop: Drop) -> CapsuleDrop:
        kept = tuple(self._input(drop, number, file) for number, file in enumerate(drop.files, start=1))
        return CapsuleDrop(drop.id, drop.mapping_hash, kept, drop.fixes)

    def _input(self, drop: Drop, number: int, file: SourceFile) -> Input:
        member = f"inputs/{drop.id}/{number}/{safe_name(Path(file.name).name)}"
        try:
            path = self._sound(file)
        except CannotSeal:
            if not drop.set_aside:
                raise
            # it was not read then and is not needed now
            self._remarks.append(
                f"{file.name} was set aside, and its original at {file.kept_as} is missing or changed;"
                " the capsule only names it"
            )
            member = ""
        else:
            if self._writer.copy(member, path) != file.sha256:
                raise CannotSeal(f"{path} changed while it was being read; try again")
        return Input(file.name, file.role, file.sha256, file.size, file.arrived, member)

    def _sound(self, file: SourceFile) -> Path:
        """The path of a file's original, if it exists unchanged."""
        try:
            path = object_storage.local_copy(file.kept_as, self._settings)
        except FolderError as error:
            message = f"the original of {file.name} cannot be read: {error}"
            raise CannotSeal(f"{message}; without it the run cannot be replayed") from error
        try:
            with path.open("rb") as kept:
                digest = file_digest(kept, "sha256").hexdigest()
        except OSError as error:
            gone = f"the original of {file.name} is no longer at {path} ({error.strerror})"
            raise CannotSeal(f"{gone}; without it the run cannot be replayed: put it back and try again") from error
        if digest != file.sha256:
            raise CannotSeal(f"{path} is not the file that run {self._run.name} read: its SHA-256 is {digest}")
        return path

    def _mappings(self) -> Iterator[CapsuleMapping]:
        """The mappings that read the run's own drops, as they were then."""
        used = dict.fromkeys(
            drop.mapping_hash for drop in map(self._queries.drop, self._slice.own) if drop.mapping_hash
        )
        on_disk = self._on_disk() if used else ()
        rows = {row["hash"]: row for row in self._slice.rows("mappings") if row["hash"] in used}
        for digest, row in sorted(rows.items()):
            same = current_mapping(row["name"], on_disk)
            source = self._queries.mapping_source(digest)
            if not source and same is not None and same.hash == digest:
                source = dict(same.source)
            if not source:
                message = f"the ledger has no copy of mapping {row['name']} as run {self._run.name} used it"
                raise CannotSeal(
                    f"{message}, and the one on disk is another version: without it the run cannot be replayed"
                )
            for name, text in source.items():
                self._writer.put(contents.mapping_member(digest, name), text.encode())
            yield CapsuleMapping(digest, row["name"], row["version"], same.shipper if same else "", tuple(source))

    def _on_disk(self) -> Sequence[CompiledMapping]:
        try:
            return load_folder(self._settings.mappings, self._settings.assumptions)
        except MappingError:
            return ()  # the ledger has the versions that were used

    def _rows(self, table: str) -> int:
        rows = self._slice.rows(table)
        seen = self._watched(rows) if table == "entries" else rows
        return self._writer.lines(contents.member_of(table), contents.as_lines(seen))

    def _watched(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The entries. Counts those of the run that changed since it ended. Raises CannotSeal if contents were removed."""
        own, touched, until = set(self._slice.own), set(self._slice.touched), self._run.finished_at
        for row in rows:
            if row["removed"] and row["drop_id"] in own:
                message = f"the contents of {row['key']} in run {self._run.name} were removed on {row['removed'][:10]}"
                raise CannotSeal(f"{message}, by retention or on request, so the run cannot be put into a capsule")
            self._changed += row["drop_id"] in touched and row["changed_at"] > until
            yield row

    def _manifest(
        self, drops: tuple[CapsuleDrop, ...], mappings: tuple[CapsuleMapping, ...], counts: dict[str, int]
    ) -> Manifest:
        settings, run = self._settings, self._run
        kept = settings.model_dump(
            mode="json", include=set(contents.CAPSULE_SECTIONS), exclude=contents.OF_THIS_MACHINE
        )
        return Manifest(
            format=contents.FORMAT,
            loadsheet=version("loadsheet"),
            python=platform.python_version(),
            run=run.name,
            run_id=run.id,
            started_at=run.started_at,
            finished_at=run.finished_at,
            exit_code=run.exit_code,
            settings={name: kept[name] for name in sorted(kept)},
            assumptions=settings.assumptions.model_dump(mode="json", exclude_unset=True),
            exchange=without_credentials(settings.exchange),
            mappings=mappings,
            drops=drops,
            touched=tuple(self._slice.touched),
            changed_since=self._changed_since(),
            counts=counts,
            outputs=tuple(self._outputs()),
            archive=archive_from(settings, run.name),
            archive_path=settings.archive_path,
        )

    def _changed_since(self) -> int:
        if self._changed:
            changed = count_of(self._changed, "entry", "entries")
            message = f"{changed} of run {self._run.name} changed since it ended"
            self._remarks.append(
                f"{message}: the capsule has their current state, and reports with their earlier state will differ"
            )
        return self._changed

    def _outputs(self) -> Iterator[Output]:
        """The reports that run.json names, as far as they exist."""
        folder = self._settings.outbox_here / self._run.name
        for name in download_reports(self._settings, self._run.name):
            path = folder / name
            try:
                with path.open("rb") as report:
                    yield Output(name, path.stat().st_size, file_digest(report, "sha256").hexdigest())
            except OSError as error:
                message = f"{name} in {folder} cannot be read ({error.strerror})"
                self._remarks.append(f"{message}, so a replay cannot be compared with it")


def seal(queries: LedgerQueries, run: Run, settings: Settings, target: Path, now: datetime) -> NewCapsule:
    """Make the capsule of a run and add it to the record. `now` is aware. Raises CannotSeal and FolderError."""
    made = make(queries, run, settings, target)
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    add_to_record(settings.state, run=run.name, made_at=stamp, file=target.name, head=made.head)
    return made

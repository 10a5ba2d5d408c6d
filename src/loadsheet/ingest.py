"""Ingest: finished files are routed, opened and translated, and each drop goes to a sink. Stages 1 to 3, for every command.

The sink makes the difference: a run records entries (`ledger_sink`), a dry run forecasts (`dry_run`), a check lists problems (`checking`).
Owns: the order of files (parents before children), how a drop is opened, and what is watched while it is translated. Uses no network.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from loadsheet import inbox, run_log, translation
from loadsheet.contract import SENDING_ORDER
from loadsheet.fix_files import (
    FixFile,
    FixFiles,
    OpenedDrop,
    as_original_drop,
    fix_texts,
    open_fix,
    recognise,
    with_original_mappings,
)
from loadsheet.inbox import Candidate, InboxFile
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping import Document, Ignored, Route, Routes, route
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping.plausibility import DateRangeCheck, NotationCheck
from loadsheet.mapping.routing import broken_mappings
from loadsheet.problems import FileRefused, Problem
from loadsheet.reading import Table, open_tables
from loadsheet.settings import Settings


class IngestContext(NamedTuple):
    """What routing and translating depend on. `now` (aware) is the time for `$now` and for dates that are far away. `queries` recognise
    fix files; None where no ledger is used.
    """

    settings: Settings
    mappings: Sequence[CompiledMapping]
    queries: LedgerQueries | None
    now: datetime


class RoutedDrop(NamedTuple):
    """Files that are read together: their route, and the fix workbook if they are one."""

    route: Route
    fix: FixFile | None = None

    @property
    def data_files(self) -> list[str]:
        """The names of the files that hold rows, the main file first."""
        return [*dict.fromkeys(self.route.files.values())]

    @property
    def names(self) -> list[str]:
        """The names of all its files: those that hold rows, then the trigger file if there is one."""
        return [*self.data_files, *([self.route.trigger] if self.route.trigger else [])]


@dataclass(frozen=True, slots=True)
class RoutedFiles:
    """Where each finished file goes. `drops` are complete, parents before children; `aside` are the files that cannot be used, by name.
    The files of `routes` that wait or are blocked stay where they are.
    """

    candidates: Mapping[str, Candidate]
    drops: tuple[RoutedDrop, ...]
    aside: Mapping[str, Problem]
    routes: Routes

    def left(self, context: IngestContext) -> list[Problem]:
        """The problems of the files that stay in the inbox, and of the mappings that do not load."""
        overdue = [
            _overdue(context.settings, self.candidates[name], wait) for name, wait in self.routes.waiting.items()
        ]
        broken = [one.problem for one in broken_mappings(context.mappings)]
        return [*overdue, *broken, *self.routes.blocked.values()]


@dataclass(slots=True)
class ReadDrop:
    """One drop while it is read. Its documents can be iterated once; what is known of all of them, is known after the last."""

    routed: RoutedDrop
    files: Sequence[InboxFile]
    opened: OpenedDrop
    context: IngestContext
    translated: translation.Translated
    _notation_check: NotationCheck = field(init=False, default_factory=NotationCheck)

    @property
    def mapping(self) -> CompiledMapping:
        """The mapping that reads the files."""
        return self.routed.route.mapping

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables by the mapping's names."""
        return self.opened.tables

    @property
    def error_share_max(self) -> float:
        """The share of invalid records (0 to 1) above which nothing is sent. The mapping overrides the setting. A fix workbook holds only
        what was wrong: it proves nothing about the rest, so it has no such limit.
        """
        if self.opened.fixes is not None:
            return 1.0
        own = self.mapping.error_share_max
        return self.context.settings.dispatch.error_share_max if own is None else own

    def documents(self) -> Iterator[Document | Ignored]:
        """The documents and ignored rows in order, with warnings for dates far from now. Raises FileRefused."""
        settings = self.context.settings
        far_dates = DateRangeCheck.around(
            self.context.now,
            years_back=settings.reading.dates_years_back,
            years_ahead=settings.reading.dates_years_ahead,
        )
        dated = far_dates.watch(self.translated.documents(), self.mapping.lineage, self.tables)
        return self.opened.with_fixed_entries(self._notation_check.watch(dated))

    def doubts(self) -> Sequence[Problem]:
        """The problems that concern all documents: columns read in the wrong notation. A fix workbook has none (see `error_share_max`)."""
        return () if self.opened.fixes is not None else self._notation_check.problems(self.tables)


class Sink(Protocol):
    """Where `ingest` leaves files and documents. Every file that is claimed ends in exactly one of the other methods."""

    def claim(self, candidate: Candidate, /) -> InboxFile | None:
        """Take a file for reading; None if it is gone or is being written to."""

    def give_back(self, files: Sequence[InboxFile], /) -> None:
        """Release the claimed files of a drop whose other files could not be claimed."""

    def set_aside(self, file: InboxFile, problem: Problem, /) -> None:
        """Put away a file that nothing can read."""

    def refuse(self, files: Sequence[InboxFile], problem: Problem, /) -> None:
        """Put away the files of a drop that cannot be opened or read to the end."""

    def take(self, drop: ReadDrop, /) -> None:
        """Use the documents of a drop. Raises FileRefused; then `refuse` follows."""


def route_files(scan: inbox.Scan, context: IngestContext) -> RoutedFiles:
    """Decide where each file of a scan goes. Reads only the beginnings of files that may be fix files."""
    by_name = {candidate.name: candidate for candidate in scan.candidates}
    fix_files = FixFiles({}, {})
    if context.queries is not None:
        fix_files = recognise(scan.candidates, context.queries, context.mappings, context.settings)
    names = [name for name in by_name if not fix_files.holds(name)]
    routes = _routes_of(names, by_name, context)
    drops = [RoutedDrop(complete) for complete in routes.complete]
    drops += [RoutedDrop(fix.route, fix) for fix in fix_files.files.values()]
    drops.sort(key=lambda drop: SENDING_ORDER.index(drop.route.mapping.operation.name))
    return RoutedFiles(by_name, tuple(drops), {**fix_files.refused, **routes.unmapped, **routes.ambiguous}, routes)


def ingest(found: RoutedFiles, sink: Sink, context: IngestContext) -> None:
    """Hand every drop to the sink, parents before children, after the files that cannot be used. Raises what the sink raises."""
    for name, problem in found.aside.items():
        if file := sink.claim(found.candidates[name]):
            sink.set_aside(file, problem)
    for routed in found.drops:
        names = routed.names
        claims = (sink.claim(found.candidates[name]) for name in names)
        files = [file for file in claims if file is not None]
        if len(files) < len(names):
            sink.give_back(files)
            continue
        with run_log.stage("one drop", file=names[0], mapping=routed.route.mapping.name):
            try:
                sink.take(read_drop(routed, files, context))
            except FileRefused as refused:
                sink.refuse(files, refused.problem)


def read_drop(routed: RoutedDrop, files: Sequence[InboxFile], context: IngestContext) -> ReadDrop:
    """Open the files of a drop; this process translates them while the documents are iterated. Raises FileRefused."""
    opened = _open(routed, files, context)
    translated = translation.in_one_process(routed.route.mapping, opened.tables, context.now.isoformat())
    return ReadDrop(routed, files, opened, context, translated)


def _open(routed: RoutedDrop, files: Sequence[InboxFile], context: IngestContext) -> OpenedDrop:
    """The tables of a drop; those of a fix file in the form of its original."""
    by_name = {file.name: file for file in files}
    queries, fix = context.queries, routed.fix
    if fix is not None and queries is not None:
        return as_original_drop(open_fix(fix, by_name[fix.name].path, context.settings), queries, fix.drop)
    tables = open_route(
        routed.route, {role: by_name[name] for role, name in routed.route.files.items()}, context.settings
    )
    return OpenedDrop(tables) if queries is None else as_original_drop(tables, queries, None)


def in_place(candidate: Candidate) -> InboxFile:
    """A file that stays where it is, as reading wants it: without its hash."""
    status = candidate.path.stat()
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    return InboxFile(candidate.name, candidate.path, status.st_size, "", changed)


def open_route(chosen: Route, files: Mapping[str, InboxFile], settings: Settings) -> dict[str, Table]:
    """The tables of a route by the mapping's names, each from the file of its role. Raises FileRefused."""
    tables: dict[str, Table] = {}
    for role, layouts in chosen.mapping.layouts.items():
        tables |= open_tables(files[role].path, files[role].name, layouts, settings)
    return tables


def _routes_of(names: Sequence[str], by_name: Mapping[str, Candidate], context: IngestContext) -> Routes:
    """The routes of files by their names. Fix files that are text take the route and the mapping of their originals."""
    settings, mappings, queries, _ = context
    if queries is None:
        return route(names, mappings)
    texts = fix_texts([by_name[name] for name in names if ".fix." in name.casefold()], queries)
    routes = route(names, mappings, texts)
    if renamed := fix_texts([by_name[name] for name in routes.unmapped], queries):
        texts |= renamed
        routes = route(names, mappings, texts)
    return with_original_mappings(routes, texts, queries, mappings, settings) if texts else routes


def _overdue(settings: Settings, candidate: Candidate, wait: Problem) -> Problem:
    """The problem of a file that waits for its companion; an error once it has waited too long."""
    if candidate.lain_s < settings.arrival.companion_wait_s:
        return wait
    hours = round(candidate.lain_s / 3600)
    return replace(wait, code="A111", values={**wait.values, "hours": hours}, level="error")

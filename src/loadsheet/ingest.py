"""Ingest: files are routed, claimed, read and translated, and each drop goes to a sink. Stages 1 to 3, for every command.

    for drop in route_files(scan):          # a drop: the files that one mapping reads together
        claim and open its files
        sink.take(drop)                     # iterates over drop.documents()

The sink makes the difference: a run records entries (`ledger_sink`), a dry run in a ledger that is thrown away (`forecasts`), a check lists problems (`checking`),
and `mapping test`, `diff` and `preview` keep the documents (`mapping_tools.comparison`).

Owns: the order of drops (parents before children), how a drop is opened, and the checks during translation. Uses no network.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from loadsheet import inbox, run_log
from loadsheet.contract import SENDING_ORDER, Action
from loadsheet.display_text import count_of
from loadsheet.drop_checks import DropChecks
from loadsheet.drop_translation import DropTranslation, with_counting_tables
from loadsheet.errors import FileRefused, LoadsheetError
from loadsheet.fix_files import (
    FixFile,
    FixFileFinder,
    FixFiles,
    OpenedDrop,
    as_original_drop,
    open_fix,
)
from loadsheet.inbox import Candidate, InboxFile
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.documents import MEANT_FOR, MEANT_IN, Document, Ignored, TableNotes
from loadsheet.mapping.mapping_folder import broken_mappings
from loadsheet.mapping.plausibility import DateRangeCheck
from loadsheet.mapping.routing import Route, Routes, route
from loadsheet.problems import Problem
from loadsheet.reading import Table, open_tables
from loadsheet.settings import Settings


class IngestContext(NamedTuple):
    """The inputs of routing and translation. `now` (aware) is the time for `$now` and for the check of distant dates. `queries` recognise
    fix files; None without a ledger.
    """

    settings: Settings
    mappings: Sequence[CompiledMapping]
    queries: LedgerQueries | None
    now: datetime

    @property
    def fix_file_finder(self) -> FixFileFinder | None:
        """Finds fix files; None without a ledger."""
        return None if self.queries is None else FixFileFinder(self.queries, self.mappings, self.settings)


class RoutedDrop(NamedTuple):
    """Files that are read together: their route, and the fix workbook if it is one."""

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
    The files of `routes` that wait or are blocked stay where they are, and so do those of the drops that a `later` run takes.
    """

    candidates: Mapping[str, Candidate]
    drops: tuple[RoutedDrop, ...]
    aside: Mapping[str, Problem] = field(default_factory=dict)
    routes: Routes = field(default_factory=Routes)
    later: tuple[RoutedDrop, ...] = ()

    def inbox_problems(self, context: IngestContext) -> list[Problem]:
        """The problems of the files that stay in the inbox, and of the mappings that do not load."""
        overdue = [
            _overdue(context.settings, self.candidates[name], wait) for name, wait in self.routes.waiting.items()
        ]
        broken = [mapping.problem for mapping in broken_mappings(context.mappings)]
        return [*overdue, *broken, *self.routes.blocked.values(), *self._over_budget(context.settings)]

    def _over_budget(self, settings: Settings) -> Iterator[Problem]:
        if count := sum(len(drop.names) for drop in self.later):
            arrival = settings.arrival
            most = {"run_files_max": (arrival.run_files_max, "file"), "run_bytes_max": (arrival.run_bytes_max, "byte")}
            limits = [f"{count_of(*limit)} (arrival.{name})" for name, limit in most.items() if limit[0]]
            yield Problem("A119", values={"count": count, "limit": " or ".join(limits)}, level="warning")


@dataclass(slots=True)
class ReadDrop:
    """One drop while it is read. Its documents can be iterated once. Totals and doubts are complete after the last one."""

    routed: RoutedDrop
    files: Sequence[InboxFile]
    opened: OpenedDrop
    context: IngestContext
    translated: DropTranslation
    _checks: DropChecks = field(init=False)

    def __post_init__(self) -> None:
        is_fix = self.opened.fixes is not None
        self._checks = DropChecks(self.mapping, self.tables, self.context.queries, is_fix=is_fix)

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
        """The share of invalid records (0 to 1) above which nothing is sent. The mapping overrides the setting. A fix workbook holds
        only the wrong records of a drop, so it has no limit. If several mappings read the file, the strictest limit applies.
        """
        if self.opened.fixes is not None:
            return 1.0
        default = self.context.settings.dispatch.error_share_max
        limits = [mapping.error_share_max for mapping in self.mapping.parts or (self.mapping,)]
        return min(default if own is None else own for own in limits)

    def documents(self, *, warn_of_far_dates: bool = True) -> Iterator[Document | Ignored]:
        """The documents and ignored rows in order; `warn_of_far_dates`: dates far from now get a warning. Raises FileRefused."""
        reading = self.context.settings.reading
        dates = DateRangeCheck.around(
            self.context.now, years_back=reading.dates_years_back, years_ahead=reading.dates_years_ahead
        )
        return self.opened.with_fixed_entries(
            self._checks.watch(self.translated.documents(), dates if warn_of_far_dates else None)
        )

    def notes(self) -> Mapping[str, TableNotes]:
        """The notes on each table, known after the last document."""
        return self._checks.notes(self.translated)

    def doubts(self) -> Sequence[Problem]:
        """The problems by which nothing of the drop is sent until a person decides, known after the last document."""
        return self._checks.doubts(self.translated)


class Sink(Protocol):
    """Where `ingest` sends files and documents. Every claimed file ends in exactly one of the other methods."""

    def claim(self, candidate: Candidate, /) -> InboxFile | None:
        """Take a file for reading; None if it is gone or is being written to."""

    def give_back(self, files: Sequence[InboxFile], /) -> None:
        """Release the claimed files of a drop whose other files could not be claimed."""

    def set_aside(self, file: InboxFile, problem: Problem, /) -> None:
        """Set aside a file that no mapping can read."""

    def refuse(self, files: Sequence[InboxFile], problem: Problem, /) -> None:
        """Set aside the files of a drop that cannot be read completely."""

    def take(self, drop: ReadDrop, /) -> None:
        """Use the documents of a drop. Raises FileRefused; then `refuse` follows."""


class FilesInPlace:
    """The claims of a sink that reads files in place, without their hash."""

    def claim(self, candidate: Candidate) -> InboxFile | None:
        """The file where it is; None if it is gone."""
        try:
            status = candidate.path.stat()
        except FileNotFoundError:
            return None
        changed = datetime.fromtimestamp(status.st_mtime, UTC)
        return InboxFile(candidate.name, candidate.path, status.st_size, "", changed)

    def give_back(self, files: Sequence[InboxFile]) -> None:
        """Do nothing: no file was moved."""


class IngestResult(NamedTuple):
    """The result of an ingest: problems of files that stay in the inbox and warnings about others, and the error that stopped it early, if
    any.
    """

    inbox_problems: tuple[Problem, ...]
    fault: LoadsheetError | None


def route_files(scan: inbox.Scan, context: IngestContext) -> RoutedFiles:
    """Decide where each file of a scan goes. Reads only document properties and the beginnings of files, to find fix files."""
    candidates = {candidate.name: candidate for candidate in scan.candidates}
    finder, fix_files = context.fix_file_finder, FixFiles({}, {})
    if finder is not None:
        fix_files = finder.by_document_properties(scan.candidates)
    routes = _routes_of([candidate for candidate in scan.candidates if candidate.name not in fix_files], context)
    if finder is not None and routes.unmapped:
        fix_files = fix_files.merged_with(finder.by_row_marks([candidates[name] for name in routes.unmapped]))
        others = {name: problem for name, problem in routes.unmapped.items() if name not in fix_files}
        routes = replace(routes, unmapped=others)
    drops = [RoutedDrop(complete) for complete in routes.complete]
    drops += [RoutedDrop(fix.route, fix) for fix in fix_files.files.values()]
    position = _positions_by_age(candidates)
    drops.sort(key=lambda drop: (_rank(drop), max(position[name] for name in drop.names)))
    aside = {**fix_files.refused, **routes.unmapped, **routes.ambiguous}
    return RoutedFiles(candidates, tuple(drops), aside, routes)


def _positions_by_age(candidates: Mapping[str, Candidate]) -> dict[str, int]:
    """The place of each file among all, the oldest first, as a scan lists them."""
    return {name: place for place, name in enumerate(candidates)}


def _rank(drop: RoutedDrop) -> int:
    """The place of a drop's operation in a run. Creates and updates have the same: the newer file counts, whichever it is."""
    operation = drop.route.mapping.operation
    return SENDING_ORDER.index(f"{operation.subject}.create" if operation.action is Action.UPDATE else operation.name)


def limited_to_one_run(routed: RoutedFiles, settings: Settings) -> RoutedFiles:
    """The same with the drops that one run takes: the oldest, at least one, up to `arrival.run_files_max` and `arrival.run_bytes_max`."""
    files_max, bytes_max = settings.arrival.run_files_max, settings.arrival.run_bytes_max
    if not settings.arrival.limits_runs:
        return routed
    position = _positions_by_age(routed.candidates)
    oldest_first = sorted(routed.drops, key=lambda drop: min(position[name] for name in drop.names))
    count, files, size = 0, 0, 0
    for drop in oldest_first:
        files += len(drop.names)
        size += sum(routed.candidates[name].size for name in drop.names)
        if count and ((files_max and files > files_max) or (bytes_max and size > bytes_max)):
            break
        count += 1
    taken = {drop.names[0] for drop in oldest_first[:count]}
    kept = tuple(drop for drop in routed.drops if drop.names[0] in taken)
    return replace(routed, drops=kept, later=tuple(oldest_first[count:]))


def ingest(routed: RoutedFiles, sink: Sink, context: IngestContext) -> None:
    """Hand every drop to the sink, parents before children, after the files that cannot be used. Raises what the sink raises."""
    for name, problem in routed.aside.items():
        if file := sink.claim(routed.candidates[name]):
            sink.set_aside(file, problem)
    for drop in routed.drops:
        claims = [sink.claim(routed.candidates[name]) for name in drop.names]
        files = [file for file in claims if file is not None]
        if len(files) < len(claims):
            sink.give_back(files)
            continue
        with run_log.stage("one drop", file=files[0].name, mapping=drop.route.mapping.name):
            try:
                sink.take(read_drop(drop, files, context))
            except FileRefused as refused:
                problem, mapping = refused.problem, drop.route.mapping
                meant = {MEANT_FOR: mapping.name, MEANT_IN: mapping.language}
                sink.refuse(files, replace(problem, values={**meant, **problem.values}))


def read_drop(routed: RoutedDrop, files: Sequence[InboxFile], context: IngestContext) -> ReadDrop:
    """Open the files of a drop. They are translated while the documents are iterated. Raises FileRefused."""
    opened = _open(routed, files, context)
    translated = DropTranslation(routed.route.mapping, opened.tables, context.now)
    return ReadDrop(routed, files, opened, context, translated)


def _open(routed: RoutedDrop, files: Sequence[InboxFile], context: IngestContext) -> OpenedDrop:
    """The tables of a drop; those of a fix file in the form of its original."""
    by_name = {file.name: file for file in files}
    chosen, fix = routed
    settings, queries = context.settings, context.queries
    if fix is not None and queries is not None:
        tables = open_fix(fix, by_name[fix.name].path, settings, queries)
        return as_original_drop(with_counting_tables(tables), queries, chosen.mapping, fix.drop)
    tables = {}
    for role, layouts in chosen.mapping.layouts.items():
        file = by_name[chosen.files[role]]
        tables |= open_tables(file.path, file.name, layouts, settings)
    tables = with_counting_tables(tables)
    return OpenedDrop(tables) if queries is None else as_original_drop(tables, queries, chosen.mapping)


def _routes_of(candidates: Sequence[Candidate], context: IngestContext) -> Routes:
    """The routes of files by their names. Fix files that are text take the route and the mapping of their originals."""
    names = [candidate.name for candidate in candidates]
    if (finder := context.fix_file_finder) is None:
        return route(names, context.mappings)
    texts = finder.text_originals(candidates)
    routes = route(names, context.mappings, texts)
    return finder.with_original_mappings(routes, texts) if texts else routes


def _overdue(settings: Settings, candidate: Candidate, wait: Problem) -> Problem:
    """The problem of a file that waits for its companion; an error once it has waited too long."""
    if candidate.unchanged_s < settings.arrival.companion_wait_s:
        return wait
    hours = round(candidate.unchanged_s / 3600)
    return replace(wait, code="A111", values={**wait.values, "hours": hours}, level="error")

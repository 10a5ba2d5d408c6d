"""The Python API behind `import loadsheet`: translate and check files or frames, and do a whole run.

Nothing is printed, no process-wide state changes (no signal handlers, no umask, no logging), and every error is an exception. All functions
may be called from any thread and from a notebook. `docs/python.md` shows them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadsheet.checking import CheckEvent, CheckSink, check_files, problems_of
from loadsheet.display_text import count_of
from loadsheet.drop_translation import DropTranslation, with_counting_tables
from loadsheet.errors import FileRefused, LoadsheetError, SettingsError
from loadsheet.fix_files import OpenedDrop
from loadsheet.inbox import InboxFile, make_inbox
from loadsheet.ingest import IngestContext, ReadDrop, RoutedDrop
from loadsheet.ledger import utc_now
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.documents import Document, Ignored
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.mapping.routing import Route
from loadsheet.mapping_tools.comparison import CollectingSink, translate_files
from loadsheet.operations.run_hooks import RunWithHooks
from loadsheet.places import address_of
from loadsheet.problem_groups import Cause
from loadsheet.problems import Problem, Where
from loadsheet.reading.tables import Bounds, Layout, Table, bounds_of, cell_of
from loadsheet.reading.workbook import Book, Rows, Sheet, SheetTraits, open_workbook
from loadsheet.reports import RunSummary
from loadsheet.run_resources import RunResources, dispatcher_for, held_ledger
from loadsheet.settings import Settings, every_field, shippers_in

if TYPE_CHECKING:
    from pandas import DataFrame

    OnePath = str | os.PathLike[str]
    Files = OnePath | Sequence[OnePath] | DataFrame | Mapping[str, DataFrame]
    """One file, the files of one drop, a frame, or the frames of a mapping by its names of tables."""

_CONFIG = "loadsheet.toml"


@dataclass(frozen=True, slots=True)
class Translation:
    """The result of `translate`, in memory: the documents in the order of the file, valid or not, and the rows that rules left out. Iterates
    over the documents. `problems` are those of the documents, then those of tables and of the whole.
    """

    documents: tuple[Document, ...]
    ignored: tuple[Ignored, ...]
    problems: tuple[Problem, ...]

    def __repr__(self) -> str:
        usable, documents = sum(document.usable for document in self), count_of(len(self), "document")
        return f"<Translation: {documents}, {usable:,} usable, {count_of(len(self.problems), 'problem')}>"

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def to_frame(self) -> "DataFrame":
        """A row for each document: operation and key (string), whether it is usable (bool), then the fields of its payload by path
        (`address.city`, object). Numbers are Decimal; lists stay lists of dicts. Nothing else is converted.
        """
        from pandas import DataFrame

        rows = [
            {"operation": document.operation, "key": document.key, "usable": document.usable, **_flat(document.record)}
            for document in self.documents
        ]
        own = {"operation": "string", "key": "string", "usable": "bool"}
        return DataFrame(rows, columns=None if rows else [*own], dtype=object).astype(own)

    def problems_frame(self) -> "DataFrame":
        """A row for each problem: code, level, its place, the sender's value, the message and what to do."""
        return _problems_frame(self.problems)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of `check`: how many documents could be sent, every problem, and the problems by cause. `exit_code` is that of the
    command `loadsheet check`.
    """

    usable: int
    problems: tuple[Problem, ...]
    causes: tuple[Cause, ...]
    exit_code: int

    def __repr__(self) -> str:
        found, causes = count_of(len(self.problems), "problem"), count_of(len(self.causes), "cause")
        return f"<Check: {count_of(self.usable, 'usable document')}, {found} of {causes}, exit code {self.exit_code}>"

    def problems_frame(self) -> "DataFrame":
        """A row for each problem: code, level, its place, the sender's value, the message and what to do."""
        return _problems_frame(self.problems)


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of `run`: the exit code of the command, the verdict in one line, the content of `run.json`, and the folder of the reports.

    `stopped` is the error that ended the run early, `left` are problems of files that stay in the inbox. `messages` are the lines that the
    command prints on stderr.
    """

    exit_code: int
    headline: str
    summary: RunSummary
    folder: Path
    stopped: LoadsheetError | None
    left: tuple[Problem, ...]
    messages: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<RunReport: {self.headline}, exit code {self.exit_code}>"


def translate(
    files: "Files",
    mapping: "CompiledMapping | OnePath",
    *,
    settings: Settings | None = None,
    now: datetime | None = None,
    documents_max: int | None = None,
) -> Translation:
    """Translate the files of one drop, or frames, by one mapping. Nothing is sent or stored; file names do not matter for one file.

    All documents are kept in memory; `documents_max` stops after that many. `now` (aware) is the value of `$now`. Without `settings`, those
    of the command line count. Raises FileRefused, MappingError, SettingsError, and MissingFile if the mapping reads more files.
    """
    settings, now = settings or Settings.load(), now or datetime.now(UTC)
    compiled = _compiled(mapping, settings)
    frames = _frames(files, compiled)
    if frames is None:
        sink = translate_files(compiled, _paths(files), settings, now=now, documents_max=documents_max)
    else:
        sink = CollectingSink(documents_max)
        sink.take(_drop_of(frames, compiled, settings, now))
    own = [problem for document in sink.documents for problem in document.problems]
    ignored = tuple(item for item in sink.items if isinstance(item, Ignored))
    return Translation(tuple(sink.documents), ignored, (*own, *sink.problems))


def check(
    files: "Files",
    mappings: "CompiledMapping | OnePath | Sequence[CompiledMapping] | None" = None,
    *,
    settings: Settings | None = None,
) -> Check:
    """Forecast what is wrong with files, as `loadsheet check` does. Each file goes to the mapping that takes its name; frames need exactly one.

    `mappings` are compiled ones, a mapping file, or a folder of them; without it, the folder in the settings. Raises MappingError and
    SettingsError, and FileRefused for a file that does not exist and a frame without the columns; any other file is a problem.
    """
    settings = settings or Settings.load()
    known = _all_compiled(mappings, settings)
    problems: list[Problem] = []

    def keep(found: CheckEvent) -> None:
        problems.extend(problems_of(found))

    frames = _frames(files, known[0]) if len(known) == 1 else None
    if frames is not None:
        sink = CheckSink(keep)
        sink.take(_drop_of(frames, known[0], settings, datetime.now(UTC)))
        result = sink.result
    else:
        result = check_files(_paths(files), known, settings, keep)
    return Check(result.usable, tuple(problems), tuple(result.causes.ranked()), result.exit_code)


def run(place: "Settings | OnePath | None" = None, *, shipper: str = "", **given: Any) -> RunReport:
    """Do a whole run, as `loadsheet run` does: every finished file in the inbox is translated, sent and reported.

    `place` are settings, or a folder with `loadsheet.toml`: relative paths in it then count from that folder. Without it, settings come from
    where the command line finds them. `given` (not beside Settings) override single ones (`exchange="https://...", dispatch={"window": 3}`).

    Raises LoadsheetError if the run could not begin, such as SettingsError, MappingError and LedgerBusy. A run that stopped early is not an
    error: see `RunReport.stopped`.
    """
    settings = _settings(place, shipper, given).model_copy(update={"monitoring": {"log_level": "off"}})
    messages: list[str] = []
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_inbox(settings)

    with RunWithHooks(settings, lambda: held_ledger(settings), clock=utc_now, say=messages.append) as whole:
        result = whole.correct_if_changed(whole.run(lambda: _resources(settings, messages.append)))
    written, headline = result.reports, result.reports.summary.headline
    text = " · ".join((headline.text, *headline.details))
    lines = (*messages, *([result.late] if result.late else []))
    return RunReport(
        result.exit_code, text, written.summary, written.folder, result.stopped, result.inbox_problems, lines
    )


@contextmanager
def _resources(settings: Settings, say: Callable[[str], None]) -> Iterator[RunResources]:
    with held_ledger(settings) as ledger, dispatcher_for(settings, say, stopping=()) as dispatcher:
        yield RunResources(ledger, dispatcher)


# ---- what callers give ----


def _settings(place: "Settings | OnePath | None", shipper: str, given: dict[str, Any]) -> Settings:
    if isinstance(place, Settings):
        if shipper or given:
            raise ValueError("give a Settings object or single settings, not both")
        return place
    folder = Path(place).absolute() if place is not None else None
    config = folder / _CONFIG if folder else None
    names = () if shipper or os.environ.get("LOADSHEET_SHIPPER") else shippers_in(config)
    if len(names) > 1:
        raise SettingsError(
            f'this folder has several shippers ({", ".join(names)}): give one, such as shipper="{names[0]}"'
        )
    loaded = Settings.load(config, shipper=shipper or "".join(names), **given)
    if folder is None:
        return loaded
    moved: dict[str, Any] = {}
    for (name, *inner), _ in every_field():
        value = getattr(loaded, name) if not inner else getattr(getattr(loaded, name), inner[0])
        if isinstance(value, Path) and not address_of(value):
            moved[name] = folder / value if not inner else {**moved.get(name, {}), inner[0]: folder / value}
    return loaded.model_copy(update=moved)


def _paths(files: Any) -> list[Path]:
    """The paths of these files. Raises ValueError for anything but paths, and FileRefused if one does not exist."""
    is_one = isinstance(files, str | os.PathLike | Mapping) or _is_frame(files) or not isinstance(files, Iterable)
    given = [files] if is_one else list(files)
    if wrong := [type(file).__name__ for file in given if not isinstance(file, str | os.PathLike)]:
        takes = "paths of files, or frames and one mapping: a DataFrame, or a dict of DataFrames by table"
        raise ValueError(f"give {takes}; found {wrong[0]}")
    paths = [Path(file) for file in given]
    for path in paths:
        if not path.is_file():
            raise FileRefused(Problem("R201", Where(str(path)), values={"reason": "there is no such file"}))
    return paths


def _compiled(mapping: "CompiledMapping | OnePath", settings: Settings) -> CompiledMapping:
    return mapping if isinstance(mapping, CompiledMapping) else CompiledMapping.load(mapping, settings.assumptions)


def _all_compiled(mappings: Any, settings: Settings) -> Sequence[CompiledMapping]:
    if isinstance(mappings, Sequence) and not isinstance(mappings, str):
        return mappings
    if isinstance(mappings, CompiledMapping) or (mappings is not None and Path(mappings).is_file()):
        return [_compiled(mappings, settings)]
    return load_folder(Path(mappings or settings.mappings), settings.assumptions)


def _frames(files: Any, mapping: CompiledMapping) -> "Mapping[str, DataFrame] | None":
    """Frames by the mapping's names of tables; None if these are files. Raises ValueError naming tables that lack a frame, or have
    anything else.
    """
    tables = [layout.name for layouts in mapping.layouts.values() for layout in layouts]
    if _is_frame(files):
        files = {tables[0]: files}
    if not isinstance(files, Mapping):
        return None
    if files.keys() != {*tables}:
        missing, unknown = ({*tables} - files.keys(), files.keys() - {*tables})
        wrong = [
            f"{word}: {', '.join(sorted(map(str, some)))}"
            for word, some in (("missing", missing), ("unknown", unknown))
            if some
        ]
        raise ValueError(f"mapping {mapping.name} reads the tables {', '.join(tables)}; {'; '.join(wrong)}")
    for name, frame in files.items():
        if not _is_frame(frame):
            raise ValueError(f"the table {name} takes a DataFrame, found {type(frame).__name__}")
    return files


def _is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame. pandas is not loaded for it."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


def _drop_of(
    frames: "Mapping[str, DataFrame]", mapping: CompiledMapping, settings: Settings, now: datetime
) -> ReadDrop:
    """A drop whose tables are frames."""
    layouts = [layout for layouts in mapping.layouts.values() for layout in layouts]
    tables = with_counting_tables(_frame_tables(frames, layouts, bounds_of(settings)))
    routed = RoutedDrop(Route(mapping, {mapping.main_role: _FILE}))
    files = (InboxFile(_FILE, Path(_FILE), 0, "", now),)
    context = IngestContext(settings, (mapping,), None, now)
    return ReadDrop(routed, files, OpenedDrop(tables), context, DropTranslation(mapping, tables, now))


# ---- frames in ----
#
# No file is written, and every value keeps its kind, as in a workbook. Texts stay as they are. Numbers are exact: a float is the shortest
# decimal that reads back the same, so `4501.0` is 4501. None, NaN and NaT are blank. Times without a zone are local times of the mapping;
# those with one are text (ISO 8601), which a column reads by its `formats`.

_FILE = "DataFrame"
"""The name of frames in places, as the file's name."""


def _frame_tables(frames: "Mapping[str, DataFrame]", layouts: Sequence[Layout], bounds: Bounds) -> dict[str, Table]:
    """The tables for `layouts` from the frame of each table, by layout name. The labels of the columns are row 1; the index is not read.
    Raises FileRefused like a file, its hint beginning with the index if that has a name; and KeyError for a table without a frame.
    """
    tables: dict[str, Table] = {}
    for layout in layouts:
        frame = frames[layout.name]
        try:
            tables |= open_workbook(
                _book(layout.name, frame), [replace(layout, sheets=(), header_row=1, header_rows=1)], bounds
            )
        except FileRefused as error:
            index = ", ".join(str(name) for name in frame.index.names if name is not None)
            if not index:
                raise
            hint = f"the index ({index}) is not read: call reset_index(); {error.problem.hint}"
            raise FileRefused(replace(error.problem, hint=hint)) from error
    return tables


def _book(name: str, frame: "DataFrame") -> Book:
    def rows(_key: str) -> Rows:
        for number, values in enumerate(_with_header(frame), start=1):
            cells = [(position, cell) for position, value in enumerate(values) if (cell := cell_of(value))]
            if cells:
                yield number, cells

    return Book(_FILE, "a DataFrame", (Sheet(name, name, hidden=False),), {}, rows, lambda _key: SheetTraits())


def _with_header(frame: "DataFrame") -> Iterator[Sequence[object]]:
    yield [str(label) for label in frame.columns]
    columns = [frame.iloc[:, position].array for position in range(len(frame.columns))]
    blank = frame.isna().itertuples(index=False, name=None)
    for values, blanks in zip(zip(*columns, strict=True), blank, strict=True):
        yield [None if is_blank else value for value, is_blank in zip(values, blanks, strict=True)]


# ---- frames out ----


def _flat(record: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in record.items():
        found |= _flat(value, f"{path}{name}.") if isinstance(value, dict) else {f"{path}{name}": value}
    return found


_PROBLEM_COLUMNS = ("code", "level", "file", "sheet", "row", "column", "cell", "path", "found", "text", "hint")


def _problems_frame(problems: Sequence[Problem]) -> "DataFrame":
    from pandas import DataFrame

    rows = [
        (
            one.code,
            one.level,
            *(getattr(one.where, name) for name in _PROBLEM_COLUMNS[2:8]),
            one.found,
            one.text,
            one.hint,
        )
        for one in problems
    ]
    return DataFrame(rows, columns=list(_PROBLEM_COLUMNS))

"""Annotations: owner, reason, comment and status that analysts wrote into workbooks of earlier runs, read into the ledger.

Owns which workbooks are read and who is named as the author. Each row of the sheet records what we wrote into it, so an
old workbook contributes only its changes. A workbook that cannot be read now (open, half saved) is not an error: a
later run reads it.
"""

import html
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from loadsheet import object_storage
from loadsheet.errors import FileRefused, ReadersUnavailable
from loadsheet.ledger import Ledger, Remark, WorkbookRead
from loadsheet.ledger.codec import stamp
from loadsheet.reading import Layout, WantedColumn, open_tables
from loadsheet.settings import Settings
from loadsheet.workbook_marks import HEADS, ID, SHEET, STATUSES, WRITTEN, as_written, changed_values, entry_of

RUNS_MAX, WORKBOOKS_MAX = 60, 200
"""The number of latest runs searched for saved workbooks, and of workbooks whose last state is kept."""

_WRITTEN_LAST = "run.json"  # a workbook newer than this was saved by an analyst
_PROPERTIES, _PROPERTIES_MAX = "docProps/core.xml", 65_536
_SAVED_BY = re.compile(r"<cp:lastModifiedBy>([^<]*)</cp:lastModifiedBy>")
_BOOK = re.compile(r"reconciliation[^/]*\.xlsx")
_VALUE_MAX = 4_000
_RETRY_CODES = ("R201",)  # the system denies access for now
_LAYOUT = Layout(
    SHEET,
    (
        WantedColumn("id", (ID,)),
        *(WantedColumn(name, (head,), required=False) for name, head in HEADS.items()),
        WantedColumn("written", (WRITTEN,), required=False),
    ),
    sheets=(SHEET,),
    header_row=1,
)


class _Workbook(NamedTuple):
    name: str
    path: Path
    saved_ns: int
    object: object_storage.Object | None = None  # set if the outbox is in an object store: downloaded before reading


class _Row(NamedTuple):
    """The analyst's cells of an exception, and digests of what we wrote into them."""

    entry: int
    cells: dict[str, str]
    written: str

    @property
    def mark(self) -> str:
        """The digests of what we wrote into the cells and of what they hold now."""
        return f"{self.written}: {as_written(self.cells)}"

    def before(self, mark: str) -> str:
        """The digests of the cells at this mark; those of what we wrote if the mark belongs to another row."""
        written, _, remarks = mark.partition(": ")
        return remarks if remarks and written == self.written else self.written


_NEVER = WorkbookRead(0, {})


def import_annotations(settings: Settings, ledger: Ledger) -> int:
    """Read into the ledger what analysts wrote into workbooks of earlier runs since they were written or last read.
    Returns the number of new remarks. If nothing was saved, it only checks a few file times. Raises LedgerError.
    """
    known = ledger.queries.workbooks_read()
    found = [book for book in _saved_workbooks(settings, ledger) if book.saved_ns != _last_read(known, book).saved_ns]
    read, remarks = dict(known), list[Remark]()
    for book in sorted(found, key=lambda one: one.saved_ns):
        if book.object is not None and not object_storage.fetch(book.object, book.path):
            continue  # saved again a moment ago
        try:
            rows = list(_rows_of(book, settings))
        except ReadersUnavailable:
            continue
        except FileRefused as refused:
            if refused.problem.code not in _RETRY_CODES:  # refused again until it is saved
                read[book.name] = WorkbookRead(book.saved_ns, _last_read(known, book).edited)
            continue
        remarks += _remarks_in(book, rows, _last_read(known, book).edited)
        edited = {row.entry: row.mark for row in rows if as_written(row.cells) != row.written}
        read[book.name] = WorkbookRead(book.saved_ns, edited)
    return ledger.record_remarks(remarks, dict(list(read.items())[-WORKBOOKS_MAX:])) if read != known else 0


def unread_workbooks(settings: Settings, ledger: Ledger) -> list[str]:
    """The names (below the outbox) of workbooks of earlier runs that were saved since we last wrote or read them."""
    known = ledger.queries.workbooks_read()
    return [
        book.name for book in _saved_workbooks(settings, ledger) if book.saved_ns != _last_read(known, book).saved_ns
    ]


def _saved_workbooks(settings: Settings, ledger: Ledger) -> Iterator[_Workbook]:
    """The workbooks of the latest runs and days that were saved after we wrote them."""
    runs = [run.name for run in ledger.queries.runs(RUNS_MAX)]
    folders = list(dict.fromkeys([*runs, *(name[:10] for name in runs)]))
    if settings.outbox_address:
        yield from _saved_in_store(settings, folders)
        return
    outbox = settings.outbox
    for folder in folders:
        try:
            written_at = (outbox / folder / _WRITTEN_LAST).stat().st_mtime_ns
        except OSError:
            continue
        for path in sorted((outbox / folder).glob("reconciliation*.xlsx")):
            with suppress(OSError):  # removed meanwhile
                if (saved := path.stat().st_mtime_ns) > written_at:
                    yield _Workbook(f"{folder}/{path.name}", path, saved)


def _saved_in_store(settings: Settings, folders: Sequence[str]) -> Iterator[_Workbook]:
    """The same for an outbox in an object store, by its times in whole seconds: `run.json` is written after the workbook."""
    place = settings.outbox_address
    for folder, there in zip(
        folders,
        object_storage.in_parallel(lambda one: object_storage.objects_in(f"{place}/{one}"), folders),
        strict=True,
    ):
        written_at = next((one.changed for one in there if one.name == _WRITTEN_LAST), None)
        for one in there:
            if written_at is not None and one.changed > written_at and _BOOK.fullmatch(one.name):
                path = settings.state / "fetched" / "books" / object_storage.digest(one.address) / one.name
                yield _Workbook(f"{folder}/{one.name}", path, int(one.changed.timestamp() * 1e9), one)


def _last_read(known: Mapping[str, WorkbookRead], book: _Workbook) -> WorkbookRead:
    return known.get(book.name, _NEVER)


def _rows_of(book: _Workbook, settings: Settings) -> Iterator[_Row]:
    """The rows of a workbook that are exceptions. Raises FileRefused if it cannot be read."""
    table = open_tables(book.path, book.name, [_LAYOUT], settings)[SHEET]
    for row in table.rows():
        cells = {name: row.shown[position].strip()[:_VALUE_MAX] for name, position in table.columns.items()}
        entry = entry_of(cells.pop("id", ""))
        if entry is not None and row.problem is None:
            yield _Row(entry, cells, cells.pop("written", ""))


def _remarks_in(book: _Workbook, rows: Sequence[_Row], before: Mapping[int, str]) -> Iterator[Remark]:
    """The changes in a workbook since we wrote it or, for rows in `before`, since we last read it."""
    author, moment = _saved_by(book.path), datetime.fromtimestamp(book.saved_ns // 1_000_000 / 1000, tz=UTC)
    for row in rows:
        for name, value in changed_values(row.cells, row.before(before.get(row.entry, ""))).items():
            # pasted in, `Explained` is not refused by the list of the column
            said = value.casefold() if name == "status" and value.casefold() in STATUSES else value
            yield Remark(row.entry, name, said, author, stamp(moment))


def _saved_by(path: Path) -> str:
    """Who saved a workbook last, if its properties say so."""
    try:
        with zipfile.ZipFile(path) as package, package.open(_PROPERTIES) as stream:
            found = _SAVED_BY.search(stream.read(_PROPERTIES_MAX).decode("utf-8", "replace"))
    except (OSError, zipfile.BadZipFile, KeyError, RuntimeError, NotImplementedError):
        return ""
    return html.unescape(found[1]).strip()[:200] if found else ""

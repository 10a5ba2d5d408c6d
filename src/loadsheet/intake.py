"""Intake: finished files become entries, or are set aside. Stages 1 to 4 for everything that one look into the inbox finds.

Owns: the order in which files are taken (parents before children), and where a file goes when its rows are planned. Touches no
network. Every row that reading gives is counted here, apart from the mapping, and held against what the ledger recorded.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from loadsheet import inbox
from loadsheet.contract import SENDING_ORDER
from loadsheet.ledger import Drop, Ledger, Run, SourceFile, SourceTable
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping import Route, route, translate
from loadsheet.problems import DoesNotBalance, FileRefused, LoadsheetError, Problem, Where
from loadsheet.reading import Row, Table, open_tables
from loadsheet.settings import Settings


class Taken(NamedTuple):
    """What intake left behind: problems of files that stay in the inbox for now, and a fault of our own, if there was one."""

    left: tuple[Problem, ...]
    fault: LoadsheetError | None


def take_in(settings: Settings, ledger: Ledger, this_run: Run, mappings: Sequence[CompiledMapping]) -> Taken:
    """Claim every finished file and plan its documents. Raises FolderError and LedgerError; a file that cannot be used is set aside."""
    found = inbox.scan(settings)
    by_name = {candidate.name: candidate for candidate in found.candidates}
    routes = route(list(by_name), mappings)
    fault: LoadsheetError | None = None
    for name, problem in {**routes.unmapped, **routes.ambiguous}.items():
        if file := inbox.claim(by_name[name], settings, this_run.name):
            _set_aside(settings, ledger, this_run, file, problem)
    for chosen in sorted(routes.complete, key=lambda chosen: SENDING_ORDER.index(chosen.mapping.operation.name)):
        names = [*chosen.files.values(), *([chosen.trigger] if chosen.trigger else [])]
        claimed = [file for name in names if (file := inbox.claim(by_name[name], settings, this_run.name))]
        if len(claimed) == len(names):  # else somebody took a file away: the next run finds the others in the work area
            fault = _plan(settings, ledger, this_run, chosen, claimed) or fault
    growing = [Problem("A104", Where(name), name) for name in found.unsettled]
    unreadable = [Problem("A105", Where(name), name) for name in found.unreadable]
    return Taken((*routes.waiting.values(), *growing, *unreadable), fault)


def open_route(chosen: Route, files: Mapping[str, inbox.InboxFile], settings: Settings) -> dict[str, Table]:
    """The tables of a route by the mapping's names, each from the file of its role. Raises FileRefused."""
    tables: dict[str, Table] = {}
    for role, layouts in chosen.mapping.layouts.items():
        tables |= open_tables(files[role].path, files[role].name, layouts, settings)
    return tables


def _plan(
    settings: Settings, ledger: Ledger, this_run: Run, chosen: Route, claimed: Sequence[inbox.InboxFile]
) -> LoadsheetError | None:
    """Stages 2 to 4 for the files of one route; what cannot be read is set aside, what is planned is archived. Returns a fault
    of our own, if there was one: rows that got lost between reading and ledger set the files aside as well.
    """
    mapping, by_name = chosen.mapping, {file.name: file for file in claimed}
    roles = {name: role for role, name in chosen.files.items()}
    try:
        tables = open_route(chosen, {role: by_name[name] for role, name in chosen.files.items()}, settings)
        rows: Counter[str] = Counter()
        counted = {name: replace(table, rows=_counting(table, rows)) for name, table in tables.items()}
        documents = translate(mapping, counted, now=datetime.fromisoformat(this_run.started_at))
        drop = Drop(
            id=0,
            run=this_run.name,
            files=tuple(_source(file, roles.get(file.name, "trigger"), str(file.path)) for file in claimed),
            tables=tuple(SourceTable(t.name, t.file, t.sheet, t.header, t.header_row) for t in tables.values()),
            mapping=mapping.name,
            mapping_version=str(mapping.version),
            mapping_hash=mapping.hash,
            operation=mapping.operation.name,
            batch_size=mapping.batch_size,
        )
        planned, _ = ledger.plan(this_run, drop, mapping.lineage, documents, lambda: rows, changed=mapping.changed)
    except FileRefused as refused:
        for file in claimed:
            _set_aside(settings, ledger, this_run, file, refused.problem)
        return None
    except DoesNotBalance as fault:
        for file in claimed:
            _set_aside(
                settings, ledger, this_run, file, Problem("L606", Where(file.name), values={"reason": str(fault)})
            )
        return fault
    for file in claimed:
        kept_as = inbox.archive(file, settings, datetime.fromisoformat(this_run.started_at).date(), this_run.name)
        ledger.archived(planned.id, file.name, str(kept_as))
    return None


def _counting(table: Table, rows: Counter[str]) -> Callable[[], Iterator[Row]]:
    """The table's rows, counted as reading gives them: what the ledger holds against the rows it was handed."""

    def counted() -> Iterator[Row]:
        count = 0
        for count, row in enumerate(table.rows(), start=1):  # noqa: B007 (the count is what we are here for)
            yield row
        rows[table.name] = count

    return counted


def _source(file: inbox.InboxFile, role: str, kept_as: str, *problems: Problem) -> SourceFile:
    arrived = file.arrived.isoformat(timespec="seconds").replace("+00:00", "Z")
    return SourceFile(role, file.name, file.sha256, file.size, arrived, kept_as, problems)


def _set_aside(settings: Settings, ledger: Ledger, this_run: Run, file: inbox.InboxFile, problem: Problem) -> None:
    place = inbox.set_aside(file, settings, this_run.name, [problem])
    ledger.set_aside(this_run, _source(file, "set aside", str(place), problem))

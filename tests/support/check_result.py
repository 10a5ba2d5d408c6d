"""What loadsheet makes of files, in this process and without a ledger: as `loadsheet check` says it, in plain values to compare."""

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from loadsheet.checking import Checked, check_files
from loadsheet.contract import Assumptions
from loadsheet.mapping.compile import load
from loadsheet.problems import Problem
from loadsheet.settings import Settings

decode = msgspec.json.Decoder(float_hook=Decimal).decode
Place = tuple[str, str, int]


@dataclass
class Translation:
    """The records that could be sent, those that could not with their problems, and what is said beside them."""

    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    wrong: list[tuple[set[Place], list[Problem]]] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    beside: list[Problem] = field(default_factory=list)
    left_out: int = 0
    said: list[tuple[str, str, str, str]] = field(default_factory=list)  # code, level, column and key of each problem
    tables: dict[tuple[str, str], Any] = field(default_factory=dict)  # by file and sheet
    columns: dict[tuple[str, str], set[int]] = field(default_factory=dict)  # that the mapping reads, by file and sheet
    came_of: dict[Place, list[Any]] = field(default_factory=dict)  # the records of each row, with what is said of them

    @property
    def problems(self) -> list[Problem]:
        """All of them, warnings included."""
        return [*(problem for _, found in self.wrong for problem in found), *self.warnings, *self.beside]


def translation(mappings: list[Path] | list[Any], files: list[Path], **settings: Any) -> Translation:
    """What becomes of files under mappings, given as files of their own or loaded already."""
    loaded = [load(each, Assumptions()) if isinstance(each, Path) else each for each in mappings]
    found = Translation()

    def add(each: Any) -> None:
        if isinstance(each, Problem):
            found.beside.append(each)
        elif not isinstance(each, Checked):
            found.beside.append(each.problem)
        else:
            _add(found, each)

    result = check_files(files, loaded, Settings(reading_process="none", **settings), add)
    found.said += [_said(problem) for problem in found.beside]
    found.left_out = result.left_out.count
    return found


def _add(found: Translation, made: Checked) -> None:
    document, tables = made.document, made.tables
    found.tables |= {(table.file, table.sheet): table for table in tables.values()}
    for table in tables.values():
        found.columns.setdefault((table.file, table.sheet), set()).update(table.columns.values())
    said = [_said(problem, document.key) for problem in document.problems]
    found.said += said
    payload = decode(document.payload) if document.usable else None
    places = {(tables[row.table].file, tables[row.table].sheet, row.number) for row in document.rows}
    for place in places:
        found.came_of.setdefault(place, []).append((document.operation, document.key, payload, said))
    if document.usable:
        found.sent.append((document.operation, document.key, payload))
        found.warnings += document.problems
    else:
        found.wrong.append((places, list(document.problems)))


def _said(problem: Problem, key: str = "") -> tuple[str, str, str, str]:
    return problem.code, problem.level, problem.where.column, key

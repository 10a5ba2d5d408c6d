"""Runs the examples of the reference of the mapping language, as they stand on its pages.

An example has the lines of a mapping that matter. `completed` puts them into the small mapping that the page shows first (the block
`yaml frame`). Files are routed, read and translated as in a run.
"""

import csv
import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
from command_in_process import loadsheet
from openpyxl import Workbook

from loadsheet.contract import Assumptions
from loadsheet.drop_translation import DropTranslation
from loadsheet.errors import MappingError
from loadsheet.mapping.compile import load
from loadsheet.mapping.documents import Ignored
from loadsheet.mapping.expressions import compile_expression
from loadsheet.mapping.notations import canonical
from loadsheet.mapping.plans import CALCULATION_ERRORS, ExpressionError, Frame, Scope, reason_text
from loadsheet.mapping.routing import route
from loadsheet.mapping.rows import RowReader
from loadsheet.mapping.translator import translate
from loadsheet.mapping.yamlfile import yaml_values
from loadsheet.mapping_tools.reference import Block, Entry, entries, page_source, parts_of
from loadsheet.reading import open_tables
from loadsheet.settings import Settings

OUTCOMES = ("cells", "result", "expression", "console")
"""The kinds of blocks that say what comes out."""

ARROW = " -> "
_LINE = re.compile(r",? in line [0-9]+")  # of the mapping, which no page shows as a file
BLANK = "(blank)"
HIDDEN = "(hidden) "
_WIDEST = 112  # characters of a record in one line
_NOW = datetime(2026, 3, 6, tzinfo=UTC)
_SETTINGS = Settings(reading_process="none")


class Example(NamedTuple):
    """The blocks of one example; the last one is its outcome."""

    entry: Entry
    number: int
    given: tuple[Block, ...]
    outcome: Block

    def __str__(self):
        return f"{self.entry.name} {self.number}"


def examples_of(page):
    """The examples of a page, in their order."""
    return [example for entry in entries().values() if entry.page == page for example in _examples_of(entry)]


def _examples_of(entry):
    given = []
    for number, block in enumerate(entry.blocks):
        if block.kind not in OUTCOMES:
            given.append(block)
            continue
        yield Example(entry, number, tuple(given), block)
        given = []


def frame():
    """The mapping that every example completes."""
    parts = parts_of(page_source("mapping"))
    return yaml_values(next(part.text for part in parts if isinstance(part, Block) and part.name == "frame"))


def completed(fragment):
    """The whole mapping of an example."""
    rest, columns = frame(), fragment.get("columns", {})
    tables = fragment.get("source", {}).get("tables", {})
    has_key = any(isinstance(one, dict) and one.get("key") for one in columns.values())
    if len(tables) > 1 or "order" in columns or has_key:
        del rest["columns"]
    if str(fragment.get("target")) in {"order.delete", "order.status"}:
        rest["payload"] = {"order_id": rest["payload"]["order_id"]}
    if "tender_id" in fragment.get("payload", {}):
        del rest["payload"]
    if "extends" in fragment:
        return fragment
    return _merged(rest, fragment)


def _merged(below, above):
    if not isinstance(below, dict) or not isinstance(above, dict) or _is_whole(above):
        return above
    return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}


def _is_whole(value):
    return bool(value.keys() & {"col", "value", "expr", "const"})


def outcome(example, folder):
    """What the example really gives, in the form of its last block."""
    if example.outcome.kind == "expression":
        return "\n".join(_evaluated(line) for line in example.outcome.text.splitlines())
    fragment = next((yaml_values(block.text) for block in example.given if block.kind == "yaml" and not block.name), {})
    if example.outcome.kind == "console":
        return _consoles(example, folder)
    _write(example.given, fragment, folder)
    mapping = loaded(fragment, folder)
    if isinstance(mapping, str):
        return mapping
    if example.outcome.kind == "cells":
        return _cells(mapping, fragment, example.outcome.text, folder)
    return "\n".join(results(mapping, fragment, folder / "inbox"))


def _write(blocks, fragment, folder):
    beside = [one for section in ("lookups", "calendars") for one in fragment.get(section, {}).values()]
    tables = {one.get("file") for one in beside}
    workbooks = {}
    for block in blocks:
        if block.kind not in {"yaml", "csv"} or (block.kind == "yaml" and not block.name):
            continue
        name, _, sheet = block.name.partition(" ")
        home = "mappings" if block.kind == "yaml" or name in tables else "inbox"
        path = folder / home / (name or "orders.csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".xlsx":
            workbooks.setdefault(path, {})[sheet] = block.text
        else:
            path.write_text(f"{block.text}\n", encoding="utf-8")
    for path, sheets in workbooks.items():
        write_workbook(path, sheets)


def write_workbook(path, sheets):
    book = Workbook()
    book.remove(book.active)
    for name, text in sheets.items():
        sheet = book.create_sheet(name or "Sheet1")
        for number, line in enumerate(text.splitlines(), start=1):
            sheet.row_dimensions[number].hidden = line.startswith(HIDDEN)
            for place, cell in enumerate(line.removeprefix(HIDDEN).split(";"), start=1):
                sheet.cell(number, place, cell.removeprefix(HIDDEN) or None)
                if cell.startswith(HIDDEN):
                    sheet.column_dimensions[sheet.cell(number, place).column_letter].hidden = True
    book.save(path)


def loaded(fragment, folder):
    path = folder / "mappings" / "example.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(completed(fragment), default=_plain, ensure_ascii=False), encoding="utf-8")
    try:
        return load(path, Assumptions(), path.parent)
    except MappingError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return f"refused at load: {error.text}{hint}"


def _plain(value):
    assert isinstance(value, Decimal)
    return float(value)


# ---- cells: one column, or a few ----


def _cells(mapping, fragment, text, folder):
    plan = mapping.plan.tables[0]
    lines = [line.partition(ARROW.rstrip())[0].rstrip() for line in text.splitlines()]
    own = [column for column in plan.columns if column.spec.label and column.name in fragment["columns"]]
    header = ["Order", *(column.label for column in own)]
    rows = [["A1", *(cell.strip().replace(BLANK, "") for cell in line.split("|"))] for line in lines]
    path = folder / "orders.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=";").writerows([header, *([f"A{n}", *row[1:]] for n, row in enumerate(rows, 1))])
    table = open_tables(path, path.name, mapping.layouts["main"], _SETTINGS)[plan.name]
    reader = RowReader(plan, table, Frame(_NOW))
    shown = [column for column in plan.columns if column.name in fragment["columns"]]
    parts = [column for column in shown if column.spec.part_of]
    problems = _by_row(translate(mapping, {plan.name: table}, now=_NOW))
    width = max(map(len, lines))
    found = []
    for line, row in zip(lines, table.rows(), strict=True):
        values = reader.read(row).values
        listed = [_cell(values[column.slot.index], column) for column in (parts or _last(shown, fragment))]
        refused = [_said(problem, show=len(own) > 1) for problem in problems.get(row.number, ())]
        errors = [text for text in refused if not text.startswith("warning")]
        warnings = [f" ({text})" for text in refused if text.startswith("warning")]
        right = "; ".join(errors) if errors else " | ".join(listed) + "".join(warnings)
        found.append(f"{line.ljust(width)}{ARROW}{right}")
    return "\n".join(found)


def _last(shown, fragment):
    """The columns of which an example shows the values: all, or the only one that is about a row."""
    alone = [
        column for column in shown if column.spec.lookup_with or (column.spec.pad_left and column.spec.pad_left.when)
    ]
    return alone or shown


def _by_row(found):
    problems = {}
    for document in found:
        for problem in _of_interest(getattr(document, "problems", ())):
            problems.setdefault(problem.where.row, []).append(problem)
    return problems


def _of_interest(problems):
    """The problems without the warning that an example, which shows one option, changes nothing of its order."""
    return [problem for problem in problems if problem.code != "C323"]


def _said(problem, *, show=True):
    column = f"{problem.where.column}: " if show and problem.where.column else ""
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{problem.level}: {column}{problem.text}{hint}"


def _cell(value, column):
    if value is None:
        return BLANK
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}" if column.spec.type == "date" else f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, timedelta):
        return f"{datetime(2026, 1, 1) + value:%H:%M}"
    if isinstance(value, Decimal):
        return format(canonical(value), "f")
    return ", ".join(part or BLANK for part in value) if isinstance(value, tuple) else str(value)


# ---- records ----


def results(mapping, fragment, inbox):
    names = sorted(path.relative_to(inbox).as_posix() for path in inbox.rglob("*") if path.is_file())
    routes = route(names, [mapping])
    for name, problem in sorted({**routes.waiting, **routes.unmapped}.items()):
        yield problem.text if name in routes.waiting else f"{name} is not taken"
    for found in routes.complete:
        tables = {}
        for role, layouts in mapping.layouts.items():
            tables |= open_tables(inbox / found.files[role], found.files[role], layouts, _SETTINGS)
        several = len({table.file for table in tables.values()}) > 1
        for item in DropTranslation(mapping, tables, _NOW).documents():
            yield from _lines(item, mapping, fragment, several=several)
    if mapping.batch_size:
        yield f"(up to {mapping.batch_size} records in one call)"


def _lines(item, mapping, fragment, *, several):
    if isinstance(item, Ignored):
        yield f"ignored: row {item.row.number} ({item.rule})"
        return
    if item.usable:
        wanted = {*fragment.get("payload", {}), *fragment.get("payload_of", {}).get(item.operation, {})}
        record = msgspec.json.decode(item.payload)
        if "extends" not in fragment:
            record = {name: value for name, value in record.items() if name in wanted}
        operation = f"{item.operation} " if len(mapping.operations) > 1 else ""
        yield f"{operation}{_json(record)}"
        if item.alternative:
            yield f"or {item.alternative.operation}"
    for problem in _of_interest(item.problems):
        where = problem.where
        row = f"row {where.row}" if where.row else ""
        places = [where.file if several else "", where.sheet if several else "", row, where.column]
        place = ", ".join(part for part in places if part)
        hint = f" ({problem.hint})" if problem.hint else ""
        yield f"{problem.level}: {f'{place}: ' if place else ''}{problem.text}{hint}"


def _json(value, depth=0):
    line = json.dumps(value, ensure_ascii=False, default=float)
    if len(line) <= _WIDEST or not isinstance(value, dict | list) or not value:
        return line
    pad, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        inner = ",\n".join(pad + _json(one, depth + 1) for one in value)
        return f"[\n{inner}\n{end}]"
    inner = ",\n".join(f"{pad}{json.dumps(name)}: {_json(one, depth + 1)}" for name, one in value.items())
    return f"{{\n{inner}\n{end}}}"


# ---- commands ----

_PROMPT = "$ "
_DAY = "2026-03-04"
_TODAY = re.compile(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}(?=-[0-9]{2}\b)")  # in the name of a run
_ELAPSED = re.compile(r"(?<=· )[0-9.]+ s\b")  # how long a run took


def _consoles(example, folder):
    """What the commands print. The blocks of the entry before them are carried out in order, commands included."""
    fragment, files = {}, []
    for number, block in enumerate(example.entry.blocks):
        if block.kind == "yaml" and not block.name:
            fragment = yaml_values(block.text)
        elif block.kind == "console":
            _write(files, fragment, folder)
            assert not isinstance(loaded(fragment, folder), str)
            found, files = _session(block.text, folder), []
            if number == example.number:
                return found
        else:
            files.append(block)
    raise AssertionError(example)


def _session(text, folder):
    """The commands of a text, each with what it prints."""
    commands = [line for line in text.splitlines() if line.startswith(_PROMPT)]
    return "\n".join(line for command in commands for line in (command, *_printed(command, folder)))


def _printed(command, folder):
    """The lines that a command prints on a terminal without colours."""
    words = shlex.split(command.removeprefix(_PROMPT))
    assert words[0] == "loadsheet", command
    done = loadsheet(folder, *words[1:], LOADSHEET_ARRIVAL__SETTLE_S="0")
    text = _ELAPSED.sub("0.5 s", _TODAY.sub(_DAY, f"{done.stdout}{done.stderr}"))
    return [line.rstrip() for line in text.splitlines()]


# ---- expressions ----


class Given(NamedTuple):
    """The rows of the page on expressions, and what its expressions may use."""

    scope: Scope
    frame: Frame


@cache
def given():
    """The sheet at the top of the page on expressions, read and bound."""
    blocks = [part for part in parts_of(page_source("expressions")) if isinstance(part, Block)]
    named = {(block.kind, block.name): block for block in blocks}
    fragment, rows = yaml_values(named["yaml", "given"].text), named["csv", "given"].text
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write([named["csv", "sites.csv"]], fragment, folder)
        mapping = loaded(fragment, folder)
        assert not isinstance(mapping, str), mapping
        path = folder / "orders.csv"
        path.write_text(f"{rows}\n", encoding="utf-8")
        plan = mapping.plan.tables[0]
        table = open_tables(path, path.name, mapping.layouts["main"], _SETTINGS)[plan.name]
        reader = RowReader(plan, table, Frame(_NOW))
        values = [reader.read(row).values for row in table.rows()]
    made = Frame(_NOW)
    made.row = made.main = values[0]
    made.lists = (values,)
    return Given(Scope(plan.shape, plan.shape, {plan.name: (0, plan.shape)}), made)


def _evaluated(line):
    text = line.rpartition(ARROW)[0].rstrip() if ARROW in line else line
    try:
        expression = compile_expression(text.strip(), given().scope)
    except ExpressionError as error:
        hint = _LINE.sub("", f" ({error.hint})") if error.hint else ""
        return f"{text}{ARROW}refused: {error.text}{hint}"
    try:
        return f"{text}{ARROW}{in_words(expression.evaluate(given().frame))}"
    except CALCULATION_ERRORS as error:
        return f"{text}{ARROW}error: {reason_text(error)}"


def in_words(value):
    """A value as the page writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, timedelta):
        return f"{value.total_seconds() / 3600:g} h"
    if isinstance(value, list):
        return f"[{', '.join(map(in_words, value))}]"
    return f'"{value}"' if isinstance(value, str) else format(canonical(value), "f")


# ---- writing the pages anew ----


def rewritten(page, outcomes):
    """The source of a page with these outcomes, in order, in the place of those that it has."""
    return with_outcomes(page_source(page), outcomes)


def with_outcomes(text, outcomes):
    """A page with these outcomes, in order, in the place of those that it has."""
    lines, kind, found = [], None, iter(outcomes)
    for line in text.splitlines():
        if not line.startswith("```"):
            lines += [line] if kind not in OUTCOMES else []
            continue
        if kind in OUTCOMES:
            lines += next(found).splitlines()
        kind = line[3:].partition(" ")[0] if kind is None else None
        lines.append(line)
    return "\n".join(lines) + "\n"


def carried_out(text, folder):
    """A tutorial with what its commands really print. Named blocks are files that it writes; all happens in order in the folder."""
    outcomes = []
    for block in parts_of(text):
        if isinstance(block, Block) and block.kind == "console":
            outcomes.append(_session(block.text, folder))
        elif isinstance(block, Block):
            path = folder / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{block.text}\n", encoding="utf-8")
    return with_outcomes(text, outcomes)

"""Small mappings and tables for the tests of the room: real mapping files on disk, tables as reading hands them over."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

import msgspec

from loadsheet.contract import Assumptions
from loadsheet.mapping.compile import lint, load
from loadsheet.mapping.documents import Document, Ignored, locate
from loadsheet.mapping.translator import translate
from loadsheet.reading import open_tables
from loadsheet.reading.tables import Row, Table
from loadsheet.settings import Settings

ASSUMED = Assumptions()
NOW = datetime(2026, 3, 6, tzinfo=UTC)
decode = msgspec.json.Decoder(float_hook=Decimal).decode
EXAMPLES = Path(__file__).parent / "examples"
DROPS = {  # the files of the examples' mappings, by role
    "acme-flat": {"main": "acme_orders_1.csv"},
    "nordic-join": {"orders": "nordic/orders.csv", "packages": "nordic/packages.csv"},
    "carrier-status": {"main": "status_1.csv"},
    "pairs": {"main": "drops/hamburg/pairs_2026-11.csv"},
    "rates": {
        "main": "drops/rates/lines.csv",
        "products": "drops/rates/products.csv",
        "tariffs": "drops/rates/tariffs.csv",
    },
    "nested": {"orders": "drops/orders.csv", "packages": "drops/packages.csv", "cargo": "drops/cargo.csv"},
}
for place in sorted((EXAMPLES / "drops").iterdir()):
    if place.stem not in DROPS and (EXAMPLES / f"{place.stem}.yaml").exists():
        files = {path.stem: path for path in place.iterdir()} if place.is_dir() else {"main": place}
        DROPS[place.stem] = {role: path.relative_to(EXAMPLES).as_posix() for role, path in files.items()}


@cache
def example(name):
    """A mapping of the room's examples and the tables of its files, read once."""
    mapping = load(EXAMPLES / f"{name}.yaml", ASSUMED)
    return mapping, tables_of(mapping, EXAMPLES, DROPS[name])


def example_text(name):
    """The text of a mapping of the room's examples."""
    return (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")


def tables_of(mapping, folder, files):
    """The tables of a mapping's files, by role, with their rows kept."""
    found = {}
    for role, layouts in mapping.layouts.items():
        found |= open_tables(folder / files[role], files[role], layouts, Settings())
    return {key: with_rows(one, one.rows()) for key, one in found.items()}


def of_file(mapping, path, *, process="none"):
    """The tables of a file of the mapping's main role, and what is translated from it."""
    tables = open_tables(path, path.name, mapping.layouts["main"], Settings(reading_process=process))
    return tables, list(translate(mapping, tables, now=NOW))


def of_text(mapping, folder, text, **options):
    """What is translated from a CSV file of this text."""
    path = folder / "a.csv"
    path.write_text(text, encoding="utf-8")
    return of_file(mapping, path, **options)[1]


def copied_examples(folder):
    """The folder with a copy of the room's example mappings and their tables."""
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    return folder


def with_rows(of, rows):
    """The table with these rows instead of its own."""
    kept = list(rows)
    return replace(of, rows=lambda: iter(kept))


def load_text(folder, text, assumptions=ASSUMED, **lookups):
    """A mapping from its text; `lookups` are the code tables' texts by file name without .csv."""
    return load(written(folder, "mapping.yaml", text, lookups), assumptions)


def findings(folder, text, assumptions=ASSUMED, **lookups):
    """What lint says of a mapping of this text, such as `m.yaml:3:9: ...`; `lookups` as above."""
    path = written(folder, "m.yaml", text, lookups)
    return [str(found).removeprefix(f"{folder}/") for found in lint(path, assumptions)]


def written(folder, name, text, lookups):
    for table, content in lookups.items():
        (folder / f"{table}.csv").write_text(content, encoding="utf-8")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def table(plan, rows, *, sheet="", file="drop.csv", problems=None, header=None):
    """A table under the labels of the plan's columns. `rows` are lists of cells; row numbers count from 2."""
    header = tuple(column.label for column in plan.columns) if header is None else tuple(header)
    columns = {column.name: header.index(column.label) for column in plan.columns if column.label in header}
    kept = [Row(number, tuple(cells), (problems or {}).get(number)) for number, cells in enumerate(rows, 2)]
    return Table(plan.name, file, sheet, header, 1, columns, lambda: iter(kept), {})


def run(mapping, *tables_of_rows, now=NOW, **options):
    """Documents and ignored rows of a drop; one list of rows for each table of the mapping."""
    plans = mapping.plan.tables
    names = [plan.name for plan in plans]
    files = names if len(names) > 1 else ["drop"]
    tables = {
        plan.name: rows if isinstance(rows, Table) else table(plan, rows, file=f"{file}.csv")
        for plan, rows, file in zip(plans, tables_of_rows, files, strict=True)
    }
    return list(translate(mapping, tables, now=now, **options))


def documents(mapping, *tables_of_rows, **options):
    return [found for found in run(mapping, *tables_of_rows, **options) if isinstance(found, Document)]


def made(folder, text, *tables_of_rows, lookups=None, **options):
    """The documents that a mapping of this text makes of these rows; `lookups` as of `load_text`."""
    return documents(load_text(folder, text, **(lookups or {})), *tables_of_rows, **options)


def fates(found):
    """How often each row counts, as (table, row number): in documents that own it, and ignored."""
    rows = [row for item in found for row in (item.own_rows if isinstance(item, Document) else (item.row,))]
    return sorted((row.table, row.number) for row in rows)


def cells(mapping, document, path):
    """The cells behind a path of the payload, as (table, row number, label)."""
    found = locate(mapping.lineage, document.rows, document.links, path)
    return [(place.table, document.rows[place.row].number, place.label) for place in found]


def accounted(found):
    """Every row that came out, as (table, row number), in documents and ignored."""
    rows = [row for item in found if isinstance(item, Document) for row in item.rows]
    rows += [item.row for item in found if isinstance(item, Ignored)]
    return sorted((row.table, row.number) for row in rows)


def codes(document):
    return [problem.code for problem in document.problems]


def texts(document):
    return [str(problem) for problem in document.problems]

"""`loadsheet mapping preview`: the first rows of a file beside the payload they become."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from loadsheet import exit_codes
from loadsheet.cli.mapping.input_files import mapping_for, mapping_named, tables_for
from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import print_json
from loadsheet.mapping import Document, translate
from loadsheet.mapping_tools.explain import Cell, Explanation
from loadsheet.mapping_tools.preview import Preview
from loadsheet.mapping_tools.preview import preview as make_preview
from loadsheet.problems import Where

_SHORT = 48


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--mapping", "name", metavar="NAME", help="A mapping by name, or its file; else the one that names the file."
)
@click.option(
    "--rows", "records", default=3, show_default=True, type=click.IntRange(1), help="So many records at most."
)
@together(MAPPINGS, CONFIG, JSON)
def preview(
    files: tuple[Path, ...],
    *,
    name: str | None,
    records: int,
    mappings: Path | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Show the first records of FILES: each cell beside the field and value it becomes, and what is wrong with it.

    Nothing is sent or kept. In a pipe each value is one line: record, field, value, place, heading, cell.
    """
    settings = load(config, mappings=mappings)
    mapping = mapping_named(name, settings) if name else mapping_for(files, settings)
    tables = tables_for(mapping, files, settings)
    documents = (found for found in translate(mapping, tables, now=datetime.now(UTC)) if isinstance(found, Document))
    shown = [make_preview(mapping, document, tables) for document in islice(documents, records)]
    if as_json:
        heading = {"mapping": mapping.name, "version": mapping.version, "hash": mapping.hash}
        print_json({**heading, "records": [_as_json(found) for found in shown]})
    elif sys.stdout.isatty():
        console = Console()
        for found in shown:
            console.print(_grid(found))
    else:
        for found in shown:
            click.echo("\n".join(_lines(found)))
    return (
        exit_codes.NEEDS_SOMEONE
        if any(problem.level == "error" for found in shown for problem in found.problems)
        else 0
    )


def _grid(found: Preview) -> Grid:
    rows = "; ".join(found.rows)
    grid = Grid("Cell", "Heading", "As it was sent", "", "Field", "Value", title_justify="left", header_style="bold")
    grid.title = escape(f"{found.operation} {found.key}  ({rows})")
    at = {str(problem.where): problem for problem in found.problems}
    for value in found.values:
        place, label, text = _source(value)
        style = "yellow" if place in at else "dim" if not value.cells else ""
        near = _place(value.cells[0].where) if value.cells else ""
        grid.add_row(*map(escape, (near, label, text, "->", value.path, value.value)), style=style)
    for cell in found.unused:
        style = "dim" if found.values else "yellow" if str(cell.where) in at else ""
        use = "not used" if found.values else ""
        grid.add_row(*map(escape, (_place(cell.where), cell.label, _short(cell.text), "", use, "")), style=style)
    for problem in found.problems:
        style = "bold red" if problem.level == "error" else "yellow"
        hint = f" ({problem.hint})" if problem.hint else ""
        grid.add_row(
            escape(_place(problem.where)), escape(problem.where.column), escape(_short(problem.found)), "!!",
            problem.code, escape(f"{problem.text}{hint}"), style=style,
        )  # fmt: skip
    return grid


def _lines(found: Preview) -> Iterator[str]:
    for value in found.values:
        place, label, text = _source(value)
        yield f"{found.key}\t{value.path}\t{value.value}\t{place}\t{label}\t{text}"
    for cell in found.unused:
        yield "\t".join((found.key, "", "", str(cell.where), cell.label, _short(cell.text)))
    yield from (f"{found.key}\t{problem}" for problem in found.problems)


def _source(value: Explanation) -> tuple[str, str, str]:
    """Place, heading and text of the cells behind a value, in one line."""
    if not value.cells:
        return "", "", "(the mapping)"
    first, more = value.cells[0], value.cells_in_all - 1
    return str(first.where), first.label, _short(first.text) + (f" and {more} more" if more else "")


def _place(where: Where) -> str:
    """A place without what the reader knows: the sheet and cell, or the file and row."""
    return f"{where.sheet}!{where.cell}" if where.cell else f"{where.file}:{where.row}"


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _SHORT else f"{plain[: _SHORT - 3]}..."


def _as_json(found: Preview) -> dict[str, Any]:
    return {
        "operation": found.operation,
        "key": found.key,
        "rows": list(found.rows),
        "values": [
            {"field": value.path, "value": value.value, "cells": [_cell(cell) for cell in value.cells]}
            for value in found.values
        ],
        "unused": [_cell(cell) for cell in found.unused],
        "problems": [problem.to_json() for problem in found.problems],
    }


def _cell(cell: Cell) -> dict[str, str]:
    return {"place": str(cell.where), "label": cell.label, "text": cell.text}

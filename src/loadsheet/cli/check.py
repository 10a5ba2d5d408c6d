"""`loadsheet check`: shows what is wrong with files. Nothing is sent or stored."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from loadsheet.checking import Checked, Finding, check_files, problems_of
from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import counted, print_json, say
from loadsheet.mapping import load_folder
from loadsheet.problem_groups import Cause
from loadsheet.reading import start_fork_server


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--payloads", is_flag=True, help="Print one line of JSON for each document: operation, key, payload, source rows."
)
@click.option(
    "--all", "every", is_flag=True, help="Show every problem on a line of its own, then the summary by cause."
)
@together(MAPPINGS, CONFIG, JSON)
def check(
    files: tuple[Path, ...], *, payloads: bool, every: bool, mappings: Path | None, config: Path | None, as_json: bool
) -> int:
    """Read, translate and validate FILES and show what is wrong. Nothing is sent or stored, and no file is moved."""
    settings = load(config, mappings=mappings)
    start_fork_server(settings)
    loaded = load_folder(settings.mappings, settings.assumptions)
    problems: list[dict[str, Any]] = []

    def show(found: Finding) -> None:
        for problem in problems_of(found):
            if as_json and not payloads:
                problems.append(problem.to_json())
            elif every:
                say(str(problem))
        if payloads and isinstance(found, Checked) and found.document.usable:
            sys.stdout.buffer.write(_line(found))

    result = check_files(files, loaded, settings, show)
    sys.stdout.flush()
    causes, left_out = result.causes.ranked(), result.left_out
    if as_json and not payloads:
        rows = {"left_out": left_out.count, "left_out_by": left_out.to_json(), "tables": left_out.tables}
        print_json({"usable": result.usable, "errors": result.errors, **rows, "causes": causes, "problems": problems})
    else:
        for cause in causes:
            say(describe_cause(cause))
        for line in left_out.sentences():
            say(line)
        counts = f"{counted(result.errors, 'error')}, {counted(result.warnings, 'warning')}"
        say(f"{counted(result.usable, 'document')} could be sent; {counts}")
    return result.exit_code


def describe_cause(cause: Cause) -> str:
    """A cause in up to three lines: what happened, where, and what to do."""
    lines = [f"{cause.code} {cause.level}: {cause.say}"]
    if cause.places:
        more = f" and {cause.count - len(cause.places):,} more" if cause.count > len(cause.places) else ""
        values = f": {', '.join(cause.found)}" if cause.found and cause.count > 1 else ""
        lines.append(f"    at {', '.join(cause.places)}{more}{values}")
    if cause.proposal:
        lines.append(f"    {cause.proposal}")
    return "\n".join(lines)


def _line(checked: Checked) -> bytes:
    document, tables, mapping = checked
    rows = [
        {"file": (table := tables[row.table]).file, "sheet": table.sheet, "row": row.number} for row in document.rows
    ]
    values = {
        "operation": document.operation,
        "key": document.key,
        "payload": msgspec.Raw(document.payload),
        "rows": rows,
        "mapping": {"name": mapping.name, "version": mapping.version, "hash": mapping.hash},
    }
    return msgspec.json.encode(values) + b"\n"

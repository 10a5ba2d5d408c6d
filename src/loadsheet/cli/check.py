"""`loadsheet check` and `explain`: what is wrong with files, and what the code of a problem means. Nothing is sent or stored."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec
from click.shell_completion import CompletionItem

from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, combined_options, grouped, load_for_files
from loadsheet.cli.output import print_json, print_lines, say
from loadsheet.display_text import count_of
from loadsheet.problems import CATALOGUE

if TYPE_CHECKING:
    from loadsheet.checking import Checked, CheckEvent, CheckResult, Corrections
    from loadsheet.problem_groups import Cause

_SECTION = re.compile(r"^### ([A-Z][0-9]{3}) (.+)\n((?:(?!#).+\n?)+)", re.MULTILINE)


class CheckOptions(NamedTuple):
    """What `check` shows besides the causes: records, every problem, the effect of proposed values (`trying`) and of `given` ones, OLD=NEW."""

    payloads: bool
    every: bool
    trying: bool
    given: tuple[str, ...]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--payloads", is_flag=True, help="Print one line of JSON for each document: operation, key, payload, source rows."
)
@click.option(
    "--all", "every", is_flag=True, help="Show every problem on a line of its own, then the summary by cause."
)
@click.option(
    "--try", "trying", is_flag=True, help="Also show what the proposed values would clear. No file is changed."
)
@click.option(
    "--correct", "given", multiple=True, metavar="OLD=NEW", help="The same with this value of your own. Repeatable."
)
@combined_options(MAPPINGS, CONFIG, JSON)
@grouped(options=CheckOptions)
def check(
    files: tuple[Path, ...], *, options: CheckOptions, mappings: Path | None, config: Path | None, as_json: bool
) -> int:
    """Read, translate and validate FILES, or all files of a folder, and show what is wrong. Nothing is sent or stored, and no file is moved.

    The findings go to stdout; with --payloads, only the records do.
    """
    from loadsheet.checking import Checked, Corrections, check_files, problems_of
    from loadsheet.mapping.mapping_folder import load_folder
    from loadsheet.reading import start_fork_server

    payloads, every, trying, given = options
    show_lines = _say_each if payloads else print_lines
    corrections = Corrections(dict(map(_old_and_new, given)))
    settings = load_for_files(config, mappings)
    start_fork_server(settings)
    loaded = load_folder(settings.mappings, settings.assumptions)
    files = tuple(_files_of(files, settings.arrival.ignore))
    problems: list[dict[str, Any]] = []

    def show(found: "CheckEvent") -> None:
        if trying:
            corrections.propose(found)
        for problem in problems_of(found):
            if as_json and not payloads:
                problems.append(problem.to_json())
            elif every:
                show_lines([str(problem)])
        if payloads and isinstance(found, Checked) and found.document.usable:
            sys.stdout.buffer.write(_line(found))

    result = check_files(files, loaded, settings, show)
    sys.stdout.flush()
    tried = check_files(files, loaded, settings, corrections=corrections) if trying or given else None
    if as_json and not payloads:
        found = _result_json(result, problems)
        print_json(found if tried is None else {**found, "tried": _tried_json(tried, corrections)})
        return result.exit_code
    show_lines([*_result_lines(result), *(_tried_lines(result, tried, corrections) if tried is not None else ())])
    return result.exit_code


def _files_of(paths: Sequence[Path], ignored: Sequence[str]) -> Iterator[Path]:
    """The files among the paths, and those below the folders, without the ones that an inbox skips."""
    from loadsheet.inbox.files import is_ignored

    for path in paths:
        below = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        found = [one for one in below if not any(is_ignored(part, ignored) for part in one.relative_to(path).parts)]
        if not found:
            raise click.BadParameter(f"{path} has no file to check", param_hint="FILES")
        yield from found


def _say_each(lines: Sequence[str]) -> None:
    for line in lines:
        say(line)


def _result_json(result: "CheckResult", problems: list[dict[str, Any]]) -> dict[str, Any]:
    left_out, causes = result.left_out, result.causes.ranked()
    rows = {"left_out": left_out.count, "left_out_by": left_out.to_json(), "tables": left_out.tables}
    return {"usable": result.usable, "errors": result.errors, **rows, "causes": causes, "problems": problems}


def _result_lines(result: "CheckResult") -> Iterator[str]:
    """The causes, the rows left out, and the counts."""
    yield from map(describe_cause, result.causes.ranked())
    yield from result.left_out.sentences()
    counts = f"{count_of(result.errors, 'error')}, {count_of(result.warnings, 'warning')}"
    yield f"{count_of(result.usable, 'document')} could be sent; {counts}"


def _old_and_new(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (old and sign):
        raise click.BadParameter(
            f"{text}: write the value in the cell and the new one, such as NSTR=NSTAR", param_hint="--correct"
        )
    return old, new


def _tried_lines(before: "CheckResult", tried: "CheckResult", corrections: "Corrections") -> Iterator[str]:
    """What corrected values would clear, in lines."""
    if not corrections.cells:
        yield "Nothing to try: no problem proposes another value, and no cell has a value that was given"
        return
    for (old, new), count in corrections.cells.most_common():
        yield f"tried {old} -> {new} in {count_of(count, 'cell')}"
    more = tried.usable - before.usable
    yield f"With these values {count_of(tried.usable, 'document')} could be sent ({more:+,}); {count_of(tried.errors, 'error')} left. No file was changed"


def _tried_json(tried: "CheckResult", corrections: "Corrections") -> dict[str, Any]:
    values = [{"old": old, "new": new, "cells": count} for (old, new), count in corrections.cells.most_common()]
    return {"values": values, "usable": tried.usable, "errors": tried.errors}


def describe_cause(cause: "Cause") -> str:
    """A cause in up to four lines: what happened, where, what to do, and what follows from it."""
    lines = [f"{cause.code} {cause.level}: {cause.say}"]
    if cause.places:
        more = f" and {cause.count - len(cause.places):,} more" if cause.count > len(cause.places) else ""
        values = f": {', '.join(cause.found)}" if cause.found and cause.count > 1 else ""
        lines.append(f"    at {', '.join(cause.places)}{more}{values}")
    if cause.proposal:
        lines.append(f"    {cause.proposal}")
    if cause.consequences.say:
        lines.append(f"    {cause.consequences.say}")
    return "\n".join(lines)


def _line(checked: "Checked") -> bytes:
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


def _codes(_ctx: click.Context, _argument: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(code, help=kind.title) for code, kind in CATALOGUE.items() if code.startswith(begun.upper())]


@click.command()
@click.argument("code", metavar="CODE", shell_complete=_codes)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def explain(code: str, *, as_json: bool) -> None:
    """Explain a problem by its CODE, such as C306: its cause, an example, and what to do."""
    pages = explanations()
    wanted = code.upper()
    if wanted not in pages:
        raise click.BadParameter(f"there is no problem {code}; codes are like {min(CATALOGUE)} and {max(CATALOGUE)}")
    title, text = pages[wanted]
    if as_json:
        print_json({"code": wanted, "title": title, "text": text})
    else:
        click.echo(f"{wanted} {title}\n\n{text}")


def explanations() -> dict[str, tuple[str, str]]:
    """Title and text of every problem, by code, from `reference/problems.md`."""
    from importlib import resources

    page = (resources.files("loadsheet") / "reference" / "problems.md").read_text(encoding="utf-8")
    return {code: (title, text.strip()) for code, title, text in _SECTION.findall(page)}

"""The output of commands: tables and progress bars on a terminal, plain lines in a pipe, JSON on request.

rich is imported where a terminal is drawn on: at night there is none.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, NamedTuple

import click
import msgspec

from loadsheet.display_text import escaped_json, printable


class ProgressBar(NamedTuple):
    """A bar on a terminal. `begin` shows what is done now, `advance` how much of it: the number done, and the total."""

    begin: Callable[[str], None]
    advance: Callable[[int, int], None]


def print_json(value: object) -> None:
    """One JSON document on stdout, indented for a terminal and compact in a pipe."""
    print_raw_json(msgspec.json.encode(value))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table on a terminal; in a pipe, one tab-separated line per row, headings first. Markup and control characters in the cells have
    no effect.
    """
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*heads, header_style="bold")
        for row in rows:
            table.add_row(*(Text(printable(str(cell))) for cell in row))
        Console().print(table)
        return
    click.echo("\t".join(heads))
    for row in rows:
        click.echo("\t".join(printable(" ".join(str(cell).split())) for cell in row))


def say(text: str, *, level: Literal["info", "warning"] = "warning") -> None:
    """A line for the user, on stderr; with this level where stderr gets JSON."""
    run_log = sys.modules.get("loadsheet.run_log")  # if it is not loaded, stderr has no JSON
    if run_log is None or not run_log.say_as_json(text, level):
        click.echo(printable(text), err=True)


@contextmanager
def progress(title: str) -> Iterator[ProgressBar | None]:
    """A progress bar on stderr if that is a terminal; None otherwise, so that logs stay clean."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    title_column, count_column = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[count]}")
    columns = (title_column, BarColumn(), count_column, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, count="")

        def begin(title: str) -> None:
            bar.tasks[0].total = None  # `update` leaves it if it is None
            bar.update(task, description=printable(title), count="", refresh=True)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, count=f"{done:,}/{total:,}")

        yield ProgressBar(begin, advance)


def print_raw_json(text: bytes) -> None:
    """A finished JSON document on stdout, in the layout of `print_json`."""
    click.echo(escaped_json(msgspec.json.format(text, indent=2 if sys.stdout.isatty() else -1)).decode())


_COLOURS = {"✓": "green", "✗": "red", "!": "yellow"}
_ASCII = str.maketrans({"✓": "ok", "✗": "x", "·": "-", "…": "...", "→": "->"})


def print_lines(lines: Sequence[str]) -> None:
    """Sentences on stdout, a line each. On a terminal a line's mark has its colour, unless NO_COLOR is set or TERM is dumb; an output that
    cannot show the marks gets ASCII.
    """
    encoding = sys.stdout.encoding or "utf-8"
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    for line in map(printable, lines):
        if not encoding.lower().replace("-", "").startswith("utf"):
            click.echo(line.translate(_ASCII))
        elif coloured and line[:1] in _COLOURS:
            click.echo(
                click.style(line[0], fg=_COLOURS[line[0]], bold=True) + click.style(line[1:], bold=line[0] != "✓")
            )
        else:
            click.echo(line)


def local_time(moment: str) -> str:
    """A moment (ISO 8601) on the clock of this machine, to the second."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"


_NOTHING_DONE = "not confirmed: nothing was done"
_NO_ANSWER = f"no answer, {_NOTHING_DONE}; add --yes to run without a terminal"


def confirm(question: str) -> None:
    """Ask for confirmation. Raises UsageError for a no or without a terminal; Ctrl-C is raised."""
    with answered(_NO_ANSWER):
        if not click.confirm(question, err=True):
            raise click.UsageError(_NOTHING_DONE)


def confirm_by_typing(question: str, expected: str) -> None:
    """Ask the user to type this text. Raises what `confirm` raises."""
    with answered(_NO_ANSWER):
        if click.prompt(question, err=True).strip() != expected:
            raise click.UsageError(_NOTHING_DONE)


@contextmanager
def answered(unless: str) -> Iterator[None]:
    """Ask in the block. Raises UsageError with this text at the end of input; Ctrl-C is raised."""
    try:
        yield
    except click.Abort as ended:  # click raises the same exception for Ctrl-C and for the end of input
        if not isinstance(ended.__context__, EOFError):
            raise
        raise click.UsageError(unless) from None

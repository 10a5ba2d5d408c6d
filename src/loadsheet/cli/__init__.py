"""The command line: arguments in, exit code out. Results go to stdout, everything else to stderr.

Owns: the command group, the options that all commands share, and the one place where exceptions become exit codes:
0 clean, 1 finished with rows that need someone, 2 usage, 65 nothing usable, 70 internal error, rows that do not balance or a
damaged ledger, 75 try again, 77 token refused, 78 settings or mapping wrong, 130 interrupted, 143 terminated (SIGTERM). A reader of
stdout or stderr that goes away (`| head -1`) changes neither the work nor its exit code.

The module of a command imports at its top what its help needs, and in its functions what their work needs, so that help is quick.
"""

import contextvars
import gc
import importlib
import io
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeVar

import click
from click.shell_completion import CompletionItem

from loadsheet import exit_codes
from loadsheet.errors import FolderError, LoadsheetError
from loadsheet.internal_errors import Terminated

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_Done = TypeVar("_Done")


class CommandSpec(NamedTuple):
    """The module of a command, imported only when the command is used, and a one-line summary."""

    module: str
    summary: str


COMMANDS = {
    "init": CommandSpec("init", "Make a folder ready: settings, inbox, and a mapping with a sample file."),
    "demo": CommandSpec("init", "Send sample files to the embedded exchange, to see what happens."),
    "run": CommandSpec("run", "Process every finished file in the inbox, submit what is ready, report on every row."),
    "watch": CommandSpec("watch", "Keep running, and start a run whenever files are finished or entries wait."),
    "worker": CommandSpec(
        "cluster", "Do the runs that schedules and watches request, together with workers on other machines."
    ),
    "check": CommandSpec("check", "Show what is wrong with files. Nothing is sent or stored."),
    "explain": CommandSpec("check", "Explain a problem by its code: cause, example, what to do."),
    "show": CommandSpec("show", "Show everything known about one order or tender."),
    "runs": CommandSpec("show", "List the latest runs with their exit codes and results."),
    "workers": CommandSpec("cluster", "Show the processes that share the ledger, the queue and the shared rate."),
    "expected": CommandSpec("show", "List expected files, and what is late."),
    "report": CommandSpec("report", "Rebuild the reports of a run from the current ledger."),
    "pull": CommandSpec("exchange", "Download what the exchange lists."),
    "resolve": CommandSpec("resolve", "Show records with an unknown outcome, or decide about them."),
    "retry": CommandSpec("resolve", "Make refused or held entries ready again: the next run sends them."),
    "doctor": CommandSpec("doctor", "Check everything a run needs, and say what to do about each problem."),
    "config": CommandSpec("config", "Show the settings, and where each comes from."),
    "mapping": CommandSpec("mapping", "Draft, check, preview, test and compare mapping files."),
    "ledger": CommandSpec("ledger", "Check, back up, restore, export and move the ledger, and erase personal data."),
    "capsule": CommandSpec("capsule", "Archive a run, verify the archive, replay it."),
    "exchange": CommandSpec("exchange", "Our own exchange: serve it, and list its assumptions."),
    "deploy": CommandSpec("deploy", "Print files for schedulers and shells, with the paths of this installation."),
}

GROUPS = {
    "First steps": ("init", "demo"),
    "Every day": ("run", "check", "explain", "show", "runs", "report", "retry", "resolve", "expected"),
    "Mappings": ("mapping",),
    "Operation": ("watch", "worker", "workers", "doctor", "config", "ledger", "capsule", "deploy"),
    "The exchange": ("exchange", "pull"),
}
"""The commands by group, in the order of the help."""


class Commands(click.Group):
    """The commands, each loaded only when it is used: `exchange` needs no workbook library, `runs` no exchange, and help neither."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (signature is click's)
        """The names in the order of the help."""
        return [name for names in GROUPS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"loadsheet.cli.{COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name; for an unknown one, the error names the nearest commands."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as unknown:
            raise click.exceptions.NoSuchCommand(unknown.command_name, possibilities=list(COMMANDS), ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The names and summaries by group, without loading a command."""
        for group, names in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{name:<9}", COMMANDS[name].summary) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names that begin with `incomplete`. Loads no command, because completion must be fast."""
        names = [CompletionItem(name, help=spec.summary) for name, spec in COMMANDS.items()]
        matching = [item for item in names if item.value.startswith(incomplete)]
        return [*matching, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="loadsheet", message="loadsheet %(version)s")
def loadsheet() -> None:
    """Spreadsheets in, orders and tenders out, and a report that balances.

    Every setting can also come from the environment (LOADSHEET_NAME) or from loadsheet.toml; the command line wins.
    """


def main() -> None:
    """Run the command line and end the process with its exit code."""
    warnings.formatwarning = lambda text, *_, **__: f"loadsheet: {text}\n"
    gc.set_threshold(50_000)  # rows make many objects and no cycles: the default costs 10 % more time
    sys.exit(invoke(sys.argv[1:]))


def invoke(words: list[str], *, clock: Callable[[], datetime] | None = None) -> int:
    """Run one command; returns its exit code. `clock` returns the current time (aware) for the command, if not the real one. The user never
    sees a traceback: that of an internal error is written to a file.
    """
    with _readers_may_leave():
        return _invoke(words, clock)


def _invoke(words: list[str], clock: Callable[[], datetime] | None) -> int:
    try:
        return contextvars.copy_context().run(
            _to_exit_code,
            lambda: int(loadsheet.main(words, prog_name="loadsheet", standalone_mode=False, obj=clock) or 0),
        )
    except click.exceptions.Exit as exited:
        return exited.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except (click.Abort, KeyboardInterrupt) as interrupted:
        click.echo("interrupted; the state is safe, the next run continues from here", err=True)
        # click wraps it
        terminated = isinstance(interrupted, Terminated) or isinstance(interrupted.__cause__, Terminated)
        return exit_codes.TERMINATED if terminated else exit_codes.INTERRUPTED


class _Outlet(io.FileIO):
    """The file descriptor of an output. What is written goes nowhere if its reader has gone away. So do messages whose disk is full: they
    end no work.
    """

    def __init__(self, descriptor: int, *, is_result: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_result = is_result

    def write(self, data: "ReadableBuffer", /) -> int:
        """The number of bytes taken. Raises FolderError if a result cannot be written."""
        try:
            return super().write(data)
        except OSError as error:
            if self._is_result and not isinstance(error, BrokenPipeError):
                from loadsheet.inbox.files import folder_error

                raise folder_error(error, "the output", "written") from error
            return memoryview(data).nbytes


@contextmanager
def _readers_may_leave() -> Iterator[None]:
    """Outputs that a command can write to, even if their readers go away or they were closed before it began."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _outlet(sys.stdout, is_result=True), _outlet(sys.stderr, is_result=False)
    try:
        yield
    finally:
        with suppress(FolderError):  # whoever wrote to it knows
            sys.stdout.flush()
        sys.stdout, sys.stderr = before


def _outlet(stream: TextIO | None, *, is_result: bool) -> TextIO:
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    buffer = getattr(stream, "buffer", None)
    if not isinstance(getattr(buffer, "raw", buffer), io.FileIO):  # an unbuffered one is the file itself
        return stream  # a test or a library has replaced it
    with suppress(BrokenPipeError):
        stream.flush()
    outlet = io.BufferedWriter(_Outlet(stream.fileno(), is_result=is_result))
    return io.TextIOWrapper(outlet, stream.encoding, stream.errors, line_buffering=bool(stream.line_buffering))


class Failed(NamedTuple):
    """A failed action: its exit code and the reason."""

    exit_code: int
    why: str


def attempt_action(action: Callable[[], _Done]) -> _Done | Failed:
    """The result of an action, or a Failed if it fails. Usage errors and interruptions are raised."""
    try:
        return action()
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except LoadsheetError as error:
        return Failed(error.exit_code, str(error))
    except Exception as fault:  # noqa: BLE001 (an internal error ends as exit 70 and a filed traceback)
        why = f"an internal error ({type(fault).__name__}); the traceback is in {_write_traceback()}"
        return Failed(exit_codes.INTERNAL_ERROR, why)


def _to_exit_code(action: Callable[[], int]) -> int:
    code = attempt_action(action)
    if isinstance(code, Failed):
        from loadsheet.cli.output import say

        say(f"loadsheet: {code.why}")
        return code.exit_code
    return code


def _write_traceback() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="loadsheet-", suffix=".traceback.txt", delete=False) as file:
        file.write(traceback.format_exc())
    return Path(file.name)

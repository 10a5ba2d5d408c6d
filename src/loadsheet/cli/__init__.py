"""The command line: words in, exit code out. stdout is the result, stderr everything else.

Owns: the command group, the options that all commands share, and the one place where exceptions become exit codes:
0 clean, 1 finished with rows that need someone, 2 usage, 65 nothing usable, 70 our fault, does not balance or the
ledger cannot be used, 75 try again, 77 token refused, 78 settings or mapping wrong, 130 interrupted, 143 told to end (SIGTERM).
"""

import contextvars
import errno
import gc
import importlib
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from loadsheet import exit_codes
from loadsheet.control_characters import printable
from loadsheet.problems import LoadsheetError

_Done = TypeVar("_Done")

CLOSED_PIPE = 1
"""The exit code that click gives if stdout is closed."""


class Terminated(KeyboardInterrupt):
    """SIGTERM came: what is under way ends as with Ctrl-C."""


class CommandSpec(NamedTuple):
    """The module that holds a command under its name, imported only when it is asked for; and what the command does, in short."""

    module: str
    summary: str


COMMANDS = {
    "run": CommandSpec("run", "Take in every finished file of the inbox, submit what is ready, report on every row."),
    "watch": CommandSpec("watch", "Stay, and run whenever files are finished or entries wait to be sent or resolved."),
    "worker": CommandSpec(
        "worker", "Do the runs that schedules and watches want, beside other workers on other machines."
    ),
    "check": CommandSpec("check", "Say what would become of files. Nothing is sent or kept."),
    "show": CommandSpec("show", "Everything known about one order or tender."),
    "runs": CommandSpec("show", "The latest runs with their exit codes and what came of them."),
    "workers": CommandSpec("workers", "The processes that share the ledger: what each does, what waits, at what pace."),
    "expected": CommandSpec("expected", "Files that are waited for, and what is late."),
    "report": CommandSpec("report", "Make the reports of a run again from what the ledger knows by now."),
    "pull": CommandSpec("pull", "Write what the exchange lists."),
    "resolve": CommandSpec("resolve", "Show what was sent with an unknown outcome, or decide about it."),
    "retry": CommandSpec("retry", "Bring refused or held entries back: the next run sends them."),
    "doctor": CommandSpec("doctor", "Look at everything a run needs, and say what to do about what is wrong."),
    "config": CommandSpec("config", "Show the settings, and where each comes from."),
    "mapping": CommandSpec("mapping", "Draft, check, try, test and compare mapping files."),
    "ledger": CommandSpec("ledger", "Check, back up, restore, export the ledger, and remove what is personal."),
    "capsule": CommandSpec("capsule", "Put a run into one archive, verify it, replay it."),
    "exchange": CommandSpec("exchange", "Our own exchange: serve it, and list its assumptions."),
    "deploy": CommandSpec("deploy", "Files for schedulers and shells, with the paths of this installation."),
}


class Commands(click.Group):
    """The commands, each loaded when it is asked for: an exchange needs no workbooks, `runs` no exchange, and help none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (signature is click's)
        """The names, in the order in which help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"loadsheet.cli.{COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The names with what each does, without loading one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, spec.summary) for name, spec in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names that begin so. No command is loaded for it: completion has to be fast."""
        names = [CompletionItem(name, help=spec.summary) for name, spec in COMMANDS.items()]
        begun = [item for item in names if item.value.startswith(incomplete)]
        return [*begun, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="loadsheet", message="loadsheet %(version)s")
def loadsheet() -> None:
    """Spreadsheets in, orders and tenders out, and a report that balances.

    Every setting can also come from the environment (LOADSHEET_NAME) or from loadsheet.toml; the command line wins.
    """


def main() -> None:
    """Run the command line and end the process with its exit code."""
    gc.set_threshold(50_000)  # rows make many objects and no cycles: looking for those more often costs a tenth
    sys.exit(invoke(sys.argv[1:]))


def invoke(words: list[str], *, clock: Callable[[], datetime] | None = None) -> int:
    """Run one command; returns its exit code. `clock` gives the moment (aware) that it takes for now, if not the present one. Never
    lets a traceback reach the user: one of our own faults is filed away.
    """
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
        click.echo("interrupted; the state is safe, the next run goes on from here", err=True)
        terminated = isinstance(interrupted, Terminated) or isinstance(
            interrupted.__cause__, Terminated
        )  # click wraps it
        return exit_codes.TERMINATED if terminated else exit_codes.INTERRUPTED


def _say_on_stderr(text: str) -> None:
    run_log = sys.modules.get("loadsheet.run_log")  # if it is not loaded, stderr has no JSON
    if run_log is None or not run_log.say_as_json(f"loadsheet: {text}"):
        click.echo(printable(f"loadsheet: {text}"), err=True)


class Failed(NamedTuple):
    """An action that broke: the exit code it comes to, and why."""

    exit_code: int
    why: str


def attempt(action: Callable[[], _Done]) -> _Done | Failed:
    """The result of an action; if it breaks, what that comes to. Wrong words on the command line and interruptions go through."""
    try:
        return action()
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except LoadsheetError as error:
        return Failed(error.exit_code, str(error))
    except Exception as fault:  # noqa: BLE001 (an internal error ends as exit 70 and a filed traceback)
        why = f"an internal error ({type(fault).__name__}); the traceback is in {_file_away()}"
        return Failed(LoadsheetError.exit_code, why)


def _to_exit_code(action: Callable[[], int]) -> int:
    code = attempt(action)
    if isinstance(code, Failed):
        _say_on_stderr(code.why)
        return code.exit_code
    return code


def exit_code_of(error: BaseException) -> int:
    """With which exit code the process ends if this is what ends it."""
    if isinstance(error, LoadsheetError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return exit_codes.TERMINATED if isinstance(error, Terminated) else exit_codes.INTERRUPTED
    closed = isinstance(error, OSError) and error.errno == errno.EPIPE
    return CLOSED_PIPE if closed else LoadsheetError.exit_code


def _file_away() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="loadsheet-", suffix=".traceback.txt", delete=False) as file:
        file.write(traceback.format_exc())
    return Path(file.name)

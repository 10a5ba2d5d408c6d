"""The command line: words in, exit code out. stdout is the result, stderr everything else.

Owns: the command group, the options that all commands share, and the one place where exceptions become exit codes:
0 clean, 1 finished with rows that need someone, 2 usage, 65 nothing usable, 70 our fault or does not balance,
75 try again, 77 token refused, 78 settings or mapping wrong, 130 interrupted.
"""

import importlib
import sys
import tempfile
import traceback
from pathlib import Path

import click

from loadsheet.problems import LoadsheetError

INTERRUPTED = 130


COMMANDS = {  # command: the module that holds it under the same name; imported only when it is asked for
    "run": "loadsheet.cli.run",
    "watch": "loadsheet.cli.watch",
    "check": "loadsheet.cli.check",
    "show": "loadsheet.cli.look",
    "runs": "loadsheet.cli.look",
    "report": "loadsheet.cli.report",
    "pull": "loadsheet.cli.pull",
    "resolve": "loadsheet.cli.resolve",
    "retry": "loadsheet.cli.retry",
    "doctor": "loadsheet.cli.doctor",
    "mapping": "loadsheet.cli.mapping",
    "exchange": "loadsheet.cli.exchange",
}


class Commands(click.Group):
    """The commands, each loaded when it is asked for: an exchange needs no workbooks, `runs` no exchange."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (signature is click's)
        """The names, in the order in which help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="loadsheet", message="loadsheet %(version)s")
def loadsheet() -> None:
    """Spreadsheets in, orders and tenders out, and a report that balances.

    Every setting can also come from the environment (LOADSHEET_NAME) or from loadsheet.toml; the command line wins.
    """


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(words: list[str]) -> int:
    """Run one command; returns its exit code. Never lets a traceback reach the user: one of our own faults is filed away."""
    try:
        return int(loadsheet.main(words, prog_name="loadsheet", standalone_mode=False) or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; the state is safe, the next run goes on from here", err=True)
        return INTERRUPTED
    except LoadsheetError as error:
        click.echo(f"loadsheet: {error}", err=True)
        return error.exit_code
    except Exception as fault:  # noqa: BLE001 (the outermost function: a fault of ours ends as exit 70 and a filed traceback)
        click.echo(
            f"loadsheet: a fault of our own ({type(fault).__name__}); the traceback is in {_file_away()}", err=True
        )
        return LoadsheetError.exit_code


def _file_away() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="loadsheet-", suffix=".traceback.txt", delete=False) as file:
        file.write(traceback.format_exc())
    return Path(file.name)

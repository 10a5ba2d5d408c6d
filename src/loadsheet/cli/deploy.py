"""`loadsheet deploy ...`: files for schedulers, shells and monitoring, with the paths of this installation."""

import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click
from click.shell_completion import get_completion_class

from loadsheet.cli.options import CONFIG, load_each, settings_or_raise, together
from loadsheet.cli.output import say
from loadsheet.deploy import (
    KINDS,
    MONITORING_FILES,
    Credential,
    Site,
    clock_change_warnings,
    monitoring_file,
    zone_of_this_machine,
)
from loadsheet.problems import FolderError

if TYPE_CHECKING:
    from loadsheet.settings import Settings

SHELLS = ("bash", "zsh", "fish")
_COMPLETE = "_LOADSHEET_COMPLETE"
_SQLITE = "sqlite:///"
_GRACE_S = 30  # from the end of the last call to the end of the process

TO = click.option(
    "--to", "--out", "to", type=click.Path(file_okay=False, path_type=Path), help="Write the files into this folder."
)


def _zone(_context: click.Context, _option: click.Parameter, value: str | None) -> str:
    name = value or zone_of_this_machine()
    try:
        return ZoneInfo(name).key
    except (OSError, ValueError, KeyError):
        raise click.BadParameter(f"{name!r} is not the name of a time zone, such as Europe/Berlin") from None


def _time(_context: click.Context, _option: click.Parameter, value: str) -> time:
    try:
        return datetime.strptime(value, "%H:%M").replace(tzinfo=UTC).time()
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a time of day, such as 04:15") from None


_SCHEDULE = together(
    click.option(
        "--at", default="04:15", show_default=True, callback=_time, metavar="HH:MM", help="Time of day of the run."
    ),
    click.option(
        "--timezone", "zone", callback=_zone, metavar="ZONE", help="Time zone of that time (default: this machine's)."
    ),
    click.option("--user", help="User that it runs as (default: loadsheet; on Windows the local service account)."),
    CONFIG,
    TO,
)


@click.group()
def deploy() -> None:
    """Files for schedulers and shells, with the paths of this installation: printed, or written with --to DIR."""


def _add_scheduler(kind: str, doc: str) -> None:
    def command(*, to: Path | None, **chosen: Any) -> None:
        _print_or_write(_scheduled([kind], **chosen), to)

    command.__doc__ = doc
    deploy.command(kind)(_SCHEDULE(command))


_add_scheduler(
    "systemd",
    "systemd units: a service and its timer, a watch, one for each shipper, our exchange, and a notice of failures.",
)
_add_scheduler("cron", "A line for a crontab, with a note on clock changes.")
_add_scheduler("windows", "A task for the Windows Task Scheduler, as XML.")
_add_scheduler("launchd", "A property list for launchd (macOS).")


@deploy.command()
@click.argument("shell", type=click.Choice(SHELLS))
@TO
def completion(*, shell: str, to: Path | None) -> None:
    """Completion of commands and options for a shell.

    For bash: loadsheet deploy completion bash > ~/.local/share/bash-completion/completions/loadsheet
    """
    _print_or_write({_completion_name(shell): _completion(shell)}, to)


@deploy.command()
@TO
def monitoring(*, to: Path | None) -> None:
    """A Grafana dashboard, alert rules for Prometheus, and queries on the ledger for datasette."""
    _print_or_write(_monitoring(), to)


@deploy.command("all")
@_SCHEDULE
def everything(*, to: Path | None, **chosen: Any) -> None:
    """All of them."""
    made = _scheduled(list(KINDS), **chosen) | {_completion_name(shell): _completion(shell) for shell in SHELLS}
    _print_or_write(made | _monitoring(), to)


def _scheduled(kinds: list[str], *, at: time, zone: str, user: str | None, config: Path | None) -> dict[str, str]:
    every = load_each(config)
    sound = {name: settings_or_raise(settings) for name, settings in every.items()}
    made: dict[str, str] = {}
    for kind in kinds:
        who = user or ("S-1-5-19" if kind == "windows" else "loadsheet")
        made |= KINDS[kind](_site(sound, at=at, zone=zone, user=who))
    for line in clock_change_warnings(at, zone, _today()):
        say(f"loadsheet: {line}")
    return made


def _site(every: "Mapping[str, Settings]", *, at: time, zone: str, user: str) -> Site:
    """This installation, run in the current folder with the settings of every shipper."""
    from loadsheet.settings import EMBEDDED

    config = next(iter(every.values())).file
    also = [folder for settings in every.values() for folder in _also_written(settings)]
    read = [path for settings in every.values() for path in (settings.mappings, settings.capabilities, config) if path]
    read += [Path(sys.prefix), Path(sys.base_prefix)]  # the interpreter may be in a home folder
    return Site(
        program=_program(),
        config=config.absolute() if config and config.is_file() else None,
        folder=Path.cwd(),
        writes=_absolute(folder for own in every.values() for folder in _folders(own)),
        also=_absolute(also),
        reads=_absolute(read),
        user=user,
        at=at,
        zone=zone,
        today=_today(),
        stop_s=round(max(settings.dispatch.call_timeout_s for settings in every.values())) + _GRACE_S,
        credentials=tuple(_credential(name, own) for name, own in every.items() if own.exchange != EMBEDDED),
    )


def _also_written(settings: "Settings") -> Iterator[Path]:
    """Folders other than inbox, outbox and state that a run writes to."""
    if settings.monitoring.metrics_file is not None:
        yield settings.monitoring.metrics_file.parent
    if settings.notifications.fixes_to is not None:
        yield settings.notifications.fixes_to
    if settings.database.startswith(_SQLITE):
        yield Path(settings.database.removeprefix(_SQLITE)).parent


def _credential(shipper: str, settings: "Settings") -> Credential:
    from loadsheet.settings.sources import PREFIX, variables_of

    name = f"loadsheet_token_{shipper}" if shipper else "loadsheet_token"
    start = variables_of(shipper) if shipper else PREFIX
    file = settings.token_file or Path("/etc/loadsheet", f"token_{shipper}" if shipper else "token")
    return Credential(name, file.absolute(), f"{start}TOKEN_FILE")


def _folders(settings: "Settings") -> list[Path]:
    """The folders that are written to, without places in object stores."""
    from loadsheet.settings.places import address_of

    own = (settings.inbox, settings.outbox, settings.state, settings.archive)
    return [folder for folder in own if folder is not None and not address_of(folder)]


def _absolute(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(path.absolute() for path in paths)


def _today() -> date:
    return datetime.now(UTC).date()


def _program() -> tuple[str, ...]:
    """The command line that starts this installation."""
    scripts = Path(sysconfig.get_path("scripts"))
    found = shutil.which("loadsheet", path=str(scripts)) or shutil.which("loadsheet")
    return (str(Path(found).absolute()),) if found else (sys.executable, "-m", "loadsheet")


def _completion_name(shell: str) -> str:
    return {"bash": "loadsheet.bash", "zsh": "_loadsheet", "fish": "loadsheet.fish"}[shell]


def _completion(shell: str) -> str:
    from loadsheet.cli import loadsheet

    completion_class = get_completion_class(shell)
    assert completion_class is not None  # noqa: S101 (click knows the shells above)
    return completion_class(loadsheet, {}, "loadsheet", _COMPLETE).source()


def _monitoring() -> dict[str, str]:
    return {f"loadsheet-{name}": monitoring_file(name) for name in MONITORING_FILES}


def _print_or_write(made: Mapping[str, str], to: Path | None) -> None:
    """Print the files, or write them into a folder and say which. Raises FolderError."""
    if to is None:
        for name, text in made.items():
            click.echo((f"# ---- {name}\n" if len(made) > 1 else "") + text.rstrip("\n"))
        return
    try:
        to.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (to / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FolderError(f"{to} cannot be written ({error.strerror}); choose another folder") from error
    say(f"{', '.join(made)} written to {to}")

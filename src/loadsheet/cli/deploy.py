"""`loadsheet deploy ...`: files for schedulers, shells and monitoring, with the paths of this installation.

Owns: how paths and words are quoted in each format of the templates in `loadsheet/deploy`. Each function in `KINDS` returns texts by file
name. `clock_change_warnings` finds the nights on which a time of day does not exist or comes twice. Schedulers treat these differently, so
another time is safer.
"""

import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.resources import files as packaged
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

import click
from click.shell_completion import get_completion_class

from loadsheet.cli.options import CONFIG, combined_options, load_each, settings_or_raise
from loadsheet.cli.output import say
from loadsheet.errors import FolderError

if TYPE_CHECKING:
    from loadsheet.settings import Settings


MONITORING_FILES = ("grafana.json", "prometheus-alerts.yml", "datasette.yaml")

_DELAY = timedelta(minutes=5)  # the random delay of a schedule
_DAYS = 2 * 366
_LOCALTIME = Path("/etc/localtime")

_PLACEHOLDER = re.compile(r"@([A-Z_]+)@")
_WINDOWS_ACCOUNTS = {"S-1-5-18", "S-1-5-19", "S-1-5-20"}  # the system account and the two service accounts
_TOO_WIDE = {"/", "/home", "/var/lib", "/var/opt", "/var/spool", "/srv", "/opt", "/mnt", "/root"}
_HOMES = (PurePath("/home"), PurePath("/root"), PurePath("/run/user"))
_TEMPORARY = (PurePath("/tmp"), PurePath("/var/tmp"))  # noqa: S108 (only compared with paths)

_UNITS = (
    "loadsheet.service",
    "loadsheet.timer",
    "loadsheet@.service",
    "loadsheet@.timer",
    "loadsheet-watch.service",
    "loadsheet-worker@.service",
    "loadsheet-exchange.service",
    "loadsheet-notify@.service",
)

SHELLS = ("bash", "zsh", "fish")
_COMPLETE = "_LOADSHEET_COMPLETE"
_SQLITE = "sqlite:///"
_GRACE_S = 30  # from the end of the last call to the end of the process

TO = click.option(
    "--to", "--out", "to", type=click.Path(file_okay=False, path_type=Path), help="Write the files into this folder."
)


class Credential(NamedTuple):
    """A token that the service manager passes on: its name there, its file, and the variable with the path of the copy."""

    name: str
    file: Path
    variable: str


@dataclass(frozen=True, slots=True)
class Site:
    """One installation. Paths are absolute. `program` is the command line, `config` the settings file (None: none), `folder` the working
    directory. `writes` are the inboxes, outboxes and states, `also` other folders it writes to, `reads` files it needs to read. `at` is
    the time of day in `zone` (an IANA name); clock changes are checked from `today` on. `stop_s` is the time for stopping in seconds,
    `user` the user it runs as, `credentials` are the tokens it needs.
    """

    program: tuple[str, ...]
    config: Path | None
    folder: Path
    writes: tuple[Path, ...]
    also: tuple[Path, ...]
    reads: tuple[Path, ...]
    user: str
    at: time
    zone: str
    today: date
    stop_s: int
    credentials: tuple[Credential, ...] = ()


# ---- systemd ----


def _systemd(site: Site) -> dict[str, str]:
    used = [*site.writes, *site.also, *site.reads, site.folder, Path(site.program[0])]
    values = {
        "PROGRAM": " ".join(map(_unit_word, site.program)),
        "CONFIG": f" --config {_unit_word(str(site.config))}" if site.config else "",
        "PLACE": "\n".join(_unit_place(site)),
        "PROTECT_HOME": "read-only" if _any_below(used, _HOMES) else "yes",
        "PRIVATE_TMP": "no" if _any_below(used, _TEMPORARY) else "yes",
        "STOP_S": str(site.stop_s),
        "TIME": f"{site.at:%H:%M}",
        "ZONE": site.zone,
        "TRAPS": _remark(site, "#"),
        "USER": site.user,
        "HOME": str(site.folder),
    }
    values["HARDENING"] = _filled("systemd/hardening", values).rstrip("\n")
    units = {name: _filled(f"systemd/{name}", values) for name in _UNITS}
    return {**units, "loadsheet.sysusers": _filled("systemd/loadsheet.sysusers", values)}


def _unit_place(site: Site) -> list[str]:
    """User, working directory and writable paths. Folders under one parent are opened together: each path that is opened separately is its
    own mount, and files cannot be renamed between mounts.
    """
    lines = [f"User={site.user}", f"WorkingDirectory={_unit_rest(site.folder)}"]
    together = _common_folder(site.writes)
    opened = list(site.also)
    if together and together.parent == Path("/var/lib"):
        lines += [f"StateDirectory={_unit_word(together.name)}", "StateDirectoryMode=0750"]
    else:
        opened += [together] if together else site.writes
    if opened:
        lines.append("ReadWritePaths=" + " ".join(_unit_word(str(path)) for path in sorted(set(opened))))
    if kept := sorted({path for path in site.reads if together and path.is_relative_to(together)}):
        lines.append("ReadOnlyPaths=" + " ".join(_unit_word(f"-{path}") for path in kept))
    return lines + _unit_tokens(site)


def _unit_tokens(site: Site) -> list[str]:
    if not site.credentials:
        return ["# No token is needed: the embedded exchange runs in the same process."]
    lines = ["# Only root can read the token files; loadsheet gets copies that no other user can read."]
    for credential in site.credentials:
        lines.append(f"LoadCredential={credential.name}:{_unit_rest(credential.file)}")
        lines.append(f"Environment={credential.variable}=%d/{credential.name}")
    return lines


def _unit_rest(path: Path) -> str:
    """A path at the end of a line: only specifiers need escaping there."""
    return str(path).replace("%", "%%")


def _common_folder(folders: tuple[Path, ...]) -> Path | None:
    """The common folder of these that may be opened for them; None if there is none, or if it is shared with others."""
    common = Path(os.path.commonpath([str(folder.parent) for folder in folders]))
    near = all(len(folder.relative_to(common).parts) <= 2 for folder in folders)
    return common if near and str(common) not in _TOO_WIDE and common.parent != Path("/home") else None


def _unit_word(word: str) -> str:
    """A word of a unit's command line or path list, with specifiers and variables escaped."""
    text = word.replace("%", "%%").replace("$", "$$")
    if re.search(r"[\s\"'\\;]", text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def _any_below(paths: list[Path], tops: tuple[PurePath, ...]) -> bool:
    return any(path.is_relative_to(top) for path in paths for top in tops)


# ---- the others ----


def _cron(site: Site) -> dict[str, str]:
    values = {
        "PROGRAM": " ".join(map(_cron_word, site.program)),
        "CONFIG": f" --config {_cron_word(str(site.config))}" if site.config else "",
        "FOLDER": _cron_word(str(site.folder)),
        "USER": site.user,
        "HOUR": str(site.at.hour),
        "MINUTE": str(site.at.minute),
        "TRAPS": _remark(site, "#"),
    }
    return {"loadsheet.crontab": _filled("crontab", values)}


def _cron_word(word: str) -> str:
    return shlex.quote(word).replace("%", r"\%")  # cron reads a bare % as a line break, even in quotes


def _windows(site: Site) -> dict[str, str]:
    program, *words = _run_command(site)
    values = {
        "COMMAND": escape(program),
        "ARGUMENTS": escape(" ".join(f'"{word}"' if re.search(r"\s", word) else word for word in words)),
        "FOLDER": escape(str(site.folder)),
        "TIME": f"{site.at:%H:%M}",
        "USER": escape(site.user),
        "LOGON": "" if site.user in _WINDOWS_ACCOUNTS else "\n      <LogonType>S4U</LogonType>",
    }
    return {"loadsheet.xml": _filled("windows.xml", values)}


def _launchd(site: Site) -> dict[str, str]:
    values = {
        "WORDS": "\n".join(f"    <string>{escape(word)}</string>" for word in _run_command(site)),
        "USER": escape(site.user),
        "FOLDER": escape(str(site.folder)),
        "LOG": escape(str(site.folder / "loadsheet.log")),
        "HOUR": str(site.at.hour),
        "MINUTE": str(site.at.minute),
    }
    return {"loadsheet.plist": _filled("launchd.plist", values)}


def _run_command(site: Site) -> list[str]:
    return [*site.program, "run", "--quiet", *(["--config", str(site.config)] if site.config else [])]


KINDS: Mapping[str, Callable[[Site], dict[str, str]]] = {
    "systemd": _systemd,
    "cron": _cron,
    "windows": _windows,
    "launchd": _launchd,
}


def _remark(site: Site, sign: str) -> str:
    """The effect of clock changes on the time of day, as comment lines."""
    found = clock_change_warnings(site.at, site.zone, site.today)
    lines = found or [f"No clock change affects {site.at:%H:%M} in {site.zone}: it comes exactly once a day."]
    return "\n".join(f"{sign} {line}" for line in lines)


def _filled(name: str, values: Mapping[str, str]) -> str:
    """A template with its placeholders filled in."""
    text = packaged("loadsheet").joinpath("deploy", name).read_text(encoding="utf-8")
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def monitoring_file(name: str) -> str:
    """A file of MONITORING_FILES for another program: a Grafana dashboard, Prometheus alert rules, or Datasette queries."""
    return packaged("loadsheet").joinpath("deploy", "monitoring", name).read_text(encoding="utf-8")


# ---- clock changes ----


def clock_change_warnings(at: time, zone: str, today: date) -> list[str]:
    """A sentence for each night of the next two years on which `at`, or the minutes after it, does not exist in `zone` or comes twice."""
    found, where = [], ZoneInfo(zone)
    for day in (today + timedelta(days=number) for number in range(_DAYS)):
        begin = datetime.combine(day, at)
        for moment in (begin, begin + _DELAY):
            local = moment.replace(tzinfo=where)
            if local.astimezone(UTC).astimezone(where).replace(tzinfo=None) != moment:
                effect = "does not exist", "there is no run that night. Choose another time."
            elif local.utcoffset() != local.replace(fold=1).utcoffset():
                effect = "comes twice", "there may be two runs. Nothing is sent twice."
            else:
                continue
            found.append(f"On {day} {moment:%H:%M} {effect[0]} in {zone}: {effect[1]}")
            break
    return found


def zone_of_this_machine(link: Path = _LOCALTIME) -> str:
    """The IANA name of this machine's time zone, or UTC if it is unknown."""
    _, found, name = str(link.resolve()).partition("/zoneinfo/")
    return name if found else "UTC"


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


_SCHEDULE = combined_options(
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
    from loadsheet.places import address_of

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

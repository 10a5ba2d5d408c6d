"""Deploy: files for the schedulers of operating systems, filled in for one installation, and files for monitoring.

Owns: the templates in this folder, and how paths and words are quoted in each of their formats. Writes no file and queries no system:
Each function in `KINDS` returns texts by file name. `clock_change_warnings` finds the nights on which a time of day does not exist or comes twice. Schedulers treat these
differently, so another time is safer.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.resources import files as packaged
from pathlib import Path, PurePath
from typing import NamedTuple
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

__all__ = [
    "KINDS",
    "MONITORING_FILES",
    "Credential",
    "Site",
    "clock_change_warnings",
    "monitoring_file",
    "zone_of_this_machine",
]

MONITORING_FILES = ("grafana.json", "prometheus-alerts.yml", "datasette.yaml")

_DELAY = timedelta(minutes=5)  # the random delay of a schedule
_DAYS = 2 * 366
_LOCALTIME = Path("/etc/localtime")

_PLACEHOLDER = re.compile(r"@([A-Z_]+)@")
_WINDOWS_ACCOUNTS = {"S-1-5-18", "S-1-5-19", "S-1-5-20"}  # the system account and the two service accounts
_TOO_WIDE = {"/", "/home", "/var/lib", "/var/opt", "/var/spool", "/srv", "/opt", "/mnt", "/root"}
_HOMES = (PurePath("/home"), PurePath("/root"), PurePath("/run/user"))
_TEMPORARY = (PurePath("/tmp"), PurePath("/var/tmp"))  # noqa: S108 (only compared with paths)


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
    text = packaged("loadsheet.deploy").joinpath(name).read_text(encoding="utf-8")
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def monitoring_file(name: str) -> str:
    """A file of MONITORING_FILES for another program: a Grafana dashboard, Prometheus alert rules, or Datasette queries."""
    return packaged("loadsheet.deploy").joinpath("monitoring", name).read_text(encoding="utf-8")


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

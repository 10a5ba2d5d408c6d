"""Deploy: the files that make an operating system run loadsheet, filled in for one installation.

Owns: the templates beside this file, and how a path or a word is written in each of their languages. Writes no file and asks no
system: `files` returns texts by name. `traps` finds the nights on which a time of day does not come, or comes twice: what a scheduler makes of
them differs, so the time is better chosen where neither happens.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from importlib.resources import files as packaged
from pathlib import Path, PurePath
from typing import NamedTuple
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

__all__ = ["KINDS", "Credential", "Site", "files", "traps", "zone_of_this_machine"]

_DELAY = timedelta(minutes=5)  # by which a schedule may be late on purpose
_DAYS = 2 * 366
_LOCALTIME = Path("/etc/localtime")

_BLANK = re.compile(r"@([A-Z_]+)@")
_WINDOWS_ACCOUNTS = {"S-1-5-18", "S-1-5-19", "S-1-5-20"}  # the system, and the services' two
_TOO_WIDE = {"/", "/home", "/var/lib", "/var/opt", "/var/spool", "/srv", "/opt", "/mnt", "/root"}
_HOMES = (PurePath("/home"), PurePath("/root"), PurePath("/run/user"))
_TEMPORARY = (PurePath("/tmp"), PurePath("/var/tmp"))  # noqa: S108 (asked whether something lies there)


class Credential(NamedTuple):
    """A token that the service manager hands over: its name there, the file it lies in, and the variable that names its copy."""

    name: str
    file: Path
    variable: str


@dataclass(frozen=True, slots=True)
class Site:
    """One installation. Paths are absolute. `program` is the command's words, `config` the settings file to name (None: none),
    `folder` where it runs; `writes` are the inboxes, outboxes and states, `also` what else it writes, `reads` what it needs of its
    own. `at` is the time of day in `zone` (an IANA name), from `today` on clock changes are looked for. `stop_s` is how long
    stopping may take, `user` who it runs as, and `credentials` are the tokens it needs.
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


def files(kind: str, site: Site) -> dict[str, str]:
    """The files of a kind (one of `KINDS`), by the name that each should have."""
    return KINDS[kind](site)


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
    """Who runs where, and what may be written there. Folders under one parent are opened as one: a file can be renamed from one to the
    other only within one mount, and each path opened by itself is a mount of its own.
    """
    lines = [f"User={site.user}", f"WorkingDirectory={_unit_rest(site.folder)}"]
    together = _together(site.writes)
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
        return ["# The exchange is our own, in the same process: no token is needed."]
    lines = ["# Tokens are in files that only root can read; loadsheet gets copies that no other user can read."]
    for credential in site.credentials:
        lines.append(f"LoadCredential={credential.name}:{_unit_rest(credential.file)}")
        lines.append(f"Environment={credential.variable}=%d/{credential.name}")
    return lines


def _unit_rest(path: Path) -> str:
    """A path that is the rest of a line: nothing but specifiers has a meaning there."""
    return str(path).replace("%", "%%")


def _together(folders: tuple[Path, ...]) -> Path | None:
    """The folder that holds all of these and may be opened for them, if there is one: none that is shared with others."""
    common = Path(os.path.commonpath([str(folder.parent) for folder in folders]))
    near = all(len(folder.relative_to(common).parts) <= 2 for folder in folders)
    return common if near and str(common) not in _TOO_WIDE and common.parent != Path("/home") else None


def _unit_word(word: str) -> str:
    """A word of a unit's command line or list of paths: specifiers and variables stay text."""
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
    return shlex.quote(word).replace("%", r"\%")  # cron takes a bare % for a line break, even between quotes


def _windows(site: Site) -> dict[str, str]:
    words = [*site.program[1:], "run", "--quiet", *(["--config", str(site.config)] if site.config else [])]
    values = {
        "COMMAND": escape(site.program[0]),
        "ARGUMENTS": escape(" ".join(f'"{word}"' if re.search(r"\s", word) else word for word in words)),
        "FOLDER": escape(str(site.folder)),
        "TIME": f"{site.at:%H:%M}",
        "USER": escape(site.user),
        "LOGON": "" if site.user in _WINDOWS_ACCOUNTS else "\n      <LogonType>S4U</LogonType>",
    }
    return {"loadsheet.xml": _filled("windows.xml", values)}


def _launchd(site: Site) -> dict[str, str]:
    words = [*site.program, "run", "--quiet", *(["--config", str(site.config)] if site.config else [])]
    values = {
        "WORDS": "\n".join(f"    <string>{escape(word)}</string>" for word in words),
        "USER": escape(site.user),
        "FOLDER": escape(str(site.folder)),
        "LOG": escape(str(site.folder / "loadsheet.log")),
        "HOUR": str(site.at.hour),
        "MINUTE": str(site.at.minute),
    }
    return {"loadsheet.plist": _filled("launchd.plist", values)}


KINDS: Mapping[str, Callable[[Site], dict[str, str]]] = {
    "systemd": _systemd,
    "cron": _cron,
    "windows": _windows,
    "launchd": _launchd,
}


def _remark(site: Site, sign: str) -> str:
    """What clock changes do to the time chosen, as remarks; that they do nothing is said too."""
    found = traps(site.at, site.zone, site.today)
    told = found or [f"{site.at:%H:%M} comes exactly once on every day in {site.zone}: no clock change touches it."]
    return "\n".join(f"{sign} {line}" for line in told)


def _filled(name: str, values: Mapping[str, str]) -> str:
    """A template with its blanks filled in. Each has to be known."""
    text = packaged("loadsheet.deploy").joinpath(name).read_text(encoding="utf-8")
    return _BLANK.sub(lambda blank: values[blank[1]], text)


# ---- clock changes ----


def traps(at: time, zone: str, today: date) -> list[str]:
    """A sentence for each night of the next two years on which `at`, or the minutes after it, does not exist in `zone` or comes twice."""
    return list(_traps(at, ZoneInfo(zone), today))


def _traps(at: time, zone: ZoneInfo, today: date) -> Iterator[str]:
    for day in (today + timedelta(days=number) for number in range(_DAYS)):
        begin = datetime.combine(day, at)
        for moment in (begin, begin + _DELAY):
            local = moment.replace(tzinfo=zone)
            if local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment:
                yield f"On {day} {moment:%H:%M} does not exist in {zone.key}: that night is left out. Choose another time."
                break
            if local.utcoffset() != local.replace(fold=1).utcoffset():
                yield f"On {day} {moment:%H:%M} comes twice in {zone.key}: the run may too. It sends nothing twice."
                break


def zone_of_this_machine(link: Path = _LOCALTIME) -> str:
    """The IANA name of the zone that this machine is set to, or UTC if it cannot be known."""
    _, found, name = str(link.resolve()).partition("/zoneinfo/")
    return name if found else "UTC"

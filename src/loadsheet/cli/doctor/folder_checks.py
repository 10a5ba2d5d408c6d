"""The doctor's checks on disk: folders and their permissions, free space, volumes, and the settings file.

Owns: how much free space is too little, and which permissions are too open.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from loadsheet import object_storage
from loadsheet.cli.doctor.findings import Finding, ok, warning, wrong
from loadsheet.inbox.files import file_system_of, needs_polling
from loadsheet.problems import FolderError, SettingsError
from loadsheet.settings import Settings, every_field
from loadsheet.settings.places import address_of, shown
from loadsheet.settings.sources import from_file, is_open, read

LITTLE_BYTES, NEARLY_NO_BYTES = 1 << 30, 64 << 20
LITTLE_FILES, NEARLY_NO_FILES = 20_000, 500
_GB = 10**9
_PASSWORD = re.compile(r"://[^/@]*:[^/@]+@|[?&]\w*password=")


def folders(settings: Settings) -> Iterator[Finding]:
    """Whether each folder exists and can be used, and whether its permissions are too open."""
    for name in ("inbox", "outbox", "state", *(("archive",) if settings.archive else ())):
        folder = getattr(settings, name)
        if address_of(folder):
            yield _store(name, folder)
            continue
        fault = _fault(name, folder)
        yield fault or _too_open(name, folder) or ok(name, _describe(name, folder))
    yield from _volumes(settings)


def _store(name: str, place: Path) -> Finding:
    """Whether a place in an object store can be listed."""
    try:
        object_storage.names_in(shown(place))
    except (FolderError, SettingsError) as error:
        return wrong(name, str(error), f"change {name}, or check the store and its credentials")
    return ok(name, f"{shown(place)} is in an object store and can be listed")


def _describe(name: str, folder: Path) -> str:
    if not folder.exists():
        return f"{folder} does not exist yet; the first run creates it"
    kind = file_system_of(folder)
    if name == "inbox" and needs_polling(kind):
        return f"{folder} is on a network share or a shared folder ({kind}): a watch polls it"
    return str(folder)


def _fault(name: str, folder: Path) -> Finding | None:
    who = _user()
    if not folder.exists():
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        if os.access(parent, os.W_OK | os.X_OK) and parent.is_dir():
            return None
        return wrong(name, f"{folder} does not exist, and {parent} cannot be written to", f"create it for {who}")
    if not folder.is_dir():
        return wrong(name, f"{folder} is not a folder", f"change {name}, or move the file away")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return wrong(name, f"{folder} cannot be read and written", f"let {who} read, write and enter it")
    return None


def _too_open(name: str, folder: Path) -> Finding | None:
    if os.name != "posix" or not folder.exists():
        return None
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not (mode & stat.S_ISVTX and name == "inbox"):
        text = f"every user of this machine can write to {folder}"
        finding = wrong if name == "state" else warning
        return finding(name, text, f"chmod o-w {folder}" + (f", or chmod o+t {folder}" if name == "inbox" else ""))
    if name == "state" and mode & (stat.S_IROTH | stat.S_IXOTH):
        return warning(name, f"every user of this machine can list {folder}", f"chmod o-rx {folder}")
    return None


def _volumes(settings: Settings) -> Iterator[Finding]:
    if not (settings.inbox.is_dir() and settings.state.is_dir()):
        return
    if _mount(settings.inbox) == _mount(settings.state):
        yield ok("volume", "inbox and state are on the same volume: files are claimed by renaming")
        return
    yield warning(
        "volume",
        "inbox and state are on different volumes or mounts: each file is claimed by copying it and verifying the copy",
        "this is safe, but slower and needs twice the space; put both under one mount to claim by renaming",
    )


def _mount(folder: Path) -> tuple[int, str]:
    """The device of a folder, and its mount if known: a file cannot be renamed between two mounts of the same device."""
    device = folder.stat().st_dev
    if not Path("/proc/self/fdinfo").is_dir():
        return device, ""
    opened = os.open(folder, os.O_RDONLY)
    try:
        lines = Path(f"/proc/self/fdinfo/{opened}").read_text(encoding="ascii").splitlines()
    finally:
        os.close(opened)
    return device, next((line for line in lines if line.startswith("mnt_id")), "")


def free_space(settings: Settings) -> Iterator[Finding]:
    """Free space and free inodes, once for each volume."""
    if not hasattr(os, "statvfs"):
        return
    seen: dict[int, list[str]] = {}
    where: dict[int, Path] = {}
    for name in ("state", "inbox", "outbox"):
        if address_of(getattr(settings, name)):
            continue
        folder = _there(getattr(settings, name))
        device = folder.stat().st_dev
        seen.setdefault(device, []).append(name)
        where.setdefault(device, folder)
    for device, names in seen.items():
        yield _space_finding(", ".join(names), where[device], needed=_ledger_bytes(settings) if "state" in names else 0)


def _space_finding(names: str, folder: Path, needed: int) -> Finding:
    volume = os.statvfs(folder)
    space = volume.f_bavail * volume.f_frsize
    files = volume.f_favail if volume.f_files else None  # some file systems create inodes on demand
    text = f"{names}: {space / _GB:,.1f} GB" + (f" and room for {files:,} files" if files is not None else "") + " free"
    if space < NEARLY_NO_BYTES or (files is not None and files < NEARLY_NO_FILES):
        return wrong(
            "space", text, f"free space on the volume of {folder}: a run stops if the ledger cannot be written"
        )
    if space < max(LITTLE_BYTES, 2 * needed) or (files is not None and files < LITTLE_FILES):
        return warning(
            "space",
            text,
            f"free space on the volume of {folder}, or shorten the retention (retention.archive_days, retention.reports_days)",
        )
    return ok("space", text)


def _there(folder: Path) -> Path:
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def _ledger_bytes(settings: Settings) -> int:
    """The size of the ledger. An upgrade needs the same space again for its backup."""
    path = settings.state / "ledger.db"
    return path.stat().st_size if path.is_file() else 0


def settings_file(settings: Settings) -> Iterator[Finding]:
    """Which file the settings come from, and whether others can read the secrets in it."""
    file = settings.file
    if file is None or not file.is_file():
        yield ok("settings", "no settings file; only environment, command line and defaults")
        return
    if is_open(file) and (secrets := _secrets(file)):
        text = f"{file} holds secrets ({', '.join(secrets)}), and every user of this machine can read it"
        yield wrong("settings", text, f"chmod 600 {file}")
        return
    yield ok("settings", str(file))


def _secrets(file: Path) -> list[str]:
    """The names, not the values, of the settings in a file that hold secrets."""
    tables = [from_file(Settings, file), *(from_file(Settings, file, name) for name in read(file).get("shippers", {}))]
    known = [path for path, field in every_field() if "SecretStr" in str(field.annotation)]
    named = []
    for path, found in (item for table in tables for item in table.items()):
        has_password = path == ("database",) and _PASSWORD.search(str(found.value)) is not None
        if found.value and (has_password or any(path[: len(secret)] == secret for secret in known)):
            named.append(".".join(path[:2]))
    return list(dict.fromkeys(named))


def user() -> Iterator[Finding]:
    """The user of this process."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        yield warning("user", "running as root", "create a user for loadsheet (loadsheet deploy systemd names one)")
        return
    yield ok("user", _user())


def _user() -> str:
    """The name or number of the user this process runs as."""
    if not hasattr(os, "geteuid"):
        return os.environ.get("USERNAME", "this user")
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's user may have no name
        return f"user {os.geteuid()}"

"""Places of files: folders on this machine, or addresses in an object store such as `s3://bucket/prefix`. Both are stored as paths.

Owns: which of the two a path is; and for files on this machine, their access rights (for the owner alone, and for a group if a setting
names one), writing them whole or not at all, and the file system that they are on. A path holds an address with one slash after the scheme
(`s3:/bucket/prefix`), so that paths below it are built as for folders. `address_of` returns the address, `shown` the text for people and
for the ledger.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9]+):/+(?P<rest>[^/].*)", re.DOTALL)
_IN_THE_STATE = ("archive", "work")
_BEGINS = re.compile(r"[A-Za-z][A-Za-z0-9+]+:(/|$)")


def address_of(place: Path | str) -> str:
    """The address of a place in an object store, without a slash at its end; empty for a folder."""
    found = _ADDRESS.fullmatch(str(place))
    return f"{found['scheme']}://{found['rest'].rstrip('/')}" if found else ""


def place_text(place: Path) -> str:
    """A place as text for people and for the ledger."""
    return address_of(place) or str(place)


def to_stored_path(place: Path | str, state: Path) -> str:
    """A place as the ledger stores it, so that it is found from every working directory: relative to the state folder if it is in it or
    beside it, because they move together; else absolute. An address is stored as it is.
    """
    if "://" in str(place) or address_of(place):
        return address_of(place)
    path, top = Path(place).absolute(), state.absolute()
    together = top if top.parent == Path(top.anchor) else top.parent
    return os.path.relpath(path, top) if path.is_relative_to(together) else str(path)


def from_stored_path(stored: str, state: Path) -> str:
    """The place that the ledger stores as this text, as a path that can be opened, or an address. Up to 0.5.0, paths were relative to the
    working directory of the run: such a file is searched for in the state folder as well.
    """
    if not stored or "://" in stored or stored.startswith(f"{state}/"):
        return stored
    place, parts = os.path.normpath(state / stored), Path(stored).parts
    inside = [state.joinpath(*parts[number:]) for number, part in enumerate(parts) if part in _IN_THE_STATE]
    searched = map(str, (place, stored, *inside, state.absolute().parent / stored))
    return next(filter(os.path.lexists, searched), place)


def checked_place(place: Path) -> Path:
    """Return the place. Raises ValueError for an invalid address; the message never contains credentials."""
    if not _BEGINS.match(str(place)):
        return place
    address = address_of(place)
    scheme, _, rest = address.partition("://")
    if not address or scheme == "file":
        raise ValueError("write a path, or an address such as s3://bucket/prefix")
    if "@" in rest.partition("/")[0]:
        raise ValueError(
            "an address must not contain credentials: set them in the environment (AWS_ACCESS_KEY_ID) or by a role, and remove"
            " the part before the @"
        )
    if "?" in rest or "#" in rest or ".." in rest.split("/"):
        raise ValueError("an address such as s3://bucket/prefix must not contain ?, # or ..")
    return place


BY_DAY_AND_RUN = "{yyyy}/{mm}/{dd}/{run}/{name}"
_PLACEHOLDERS = ("yyyy", "mm", "dd", "run", "name")


def checked_template(template: str) -> None:
    """Raise ValueError for an unusable path of originals in the archive."""
    folder, slash, last = template.rpartition("/")
    named = re.findall(r"\{([^{}]*)\}", template)
    if unknown := [name for name in named if name not in _PLACEHOLDERS]:
        listed = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        raise ValueError(f"{{{unknown[0]}}} is unknown; the placeholders are {listed}")
    parts = folder.split("/") if slash else []
    if last != "{name}" or "name" in named[:-1] or not all(map(_is_folder_name, parts)):
        raise ValueError("write a path below the archive that ends with {name}, such as {yyyy}/{mm}/{name}")


def _is_folder_name(part: str) -> bool:
    """Whether a part of a template is the name of one folder, the same on every file system."""
    text = re.sub(r"\{[a-z]+\}", "0", part)
    return bool(re.fullmatch(r"[\w -]([\w .-]*[\w-])?", text, re.ASCII)) and text.strip() == text


def check_apart(name: str, place: Path, others: dict[str, Path]) -> None:
    """Raise ValueError if another place is inside this one in an object store: files written there would be found again here."""
    for other, its in others.items():
        if address_of(place) and address_of(its) and its.is_relative_to(place):
            raise ValueError(
                f"{other} ({place_text(its)}) is inside {name} ({place_text(place)}): give it a place outside"
            )


AS_ROOT = (
    "loadsheet: running as root is not necessary: create a user for loadsheet (loadsheet deploy systemd names one), or set"
    " allow_root = true"
)
_PRIVATE_UMASK = 0o077
_OWNER, _GROUP = (0o600, 0o700), (0o660, 0o770)  # of files and of folders

MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")

_umask_before: list[int] = []


def write_privately(say: Callable[[str], None], *, allow_root: bool) -> None:
    """From now on, only the owner may read the files that this process writes. Warns once if it runs as root."""
    if _umask_before:
        return
    _umask_before.append(os.umask(_PRIVATE_UMASK))
    if not allow_root and hasattr(os, "geteuid") and os.geteuid() == 0:
        say(AS_ROOT)


def leave_to_umask(path: Path) -> None:
    """Give a file or folder that is meant for others the mode of the original umask. Raises OSError."""
    if _umask_before:
        path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask_before[0])


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: who reads it gets the old content or the new. Raises OSError."""
    unfinished = path.with_name(f".{path.name[:80]}.tmp")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: which files it has, and which were renamed or removed. Raises OSError."""
    if os.name == "posix":  # other systems do not open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def group_number(group: str) -> int:
    """The ID of a group, given as name or number. Raises ValueError if there is no such group."""
    if group.isdigit():
        return int(group)
    try:
        import grp

        return grp.getgrnam(group).gr_gid
    except (ImportError, KeyError):
        raise ValueError(f"there is no group {group} on this machine") from None


def close_to_others(place: Path, group: str) -> None:
    """Restrict a file, or a folder with its content, to its owner, or to the owner and this group. Files of other users are left
    alone.
    """
    inner = [path for path in place.rglob("*") if not path.is_symlink()] if place.is_dir() else []
    for path in (place, *inner):
        close_one(path, group)


def close_one(path: Path, group: str) -> None:
    """The same for a file, or for a folder without its content."""
    with suppress(FileNotFoundError, PermissionError):  # gone, or saved by an analyst, who owns it now
        _set_mode(path, group_number(group) if group else -1)


def _set_mode(path: Path, group: int) -> None:
    status = path.stat()
    mode = (_OWNER if group < 0 else _GROUP)[path.is_dir()]
    if group >= 0 and status.st_gid != group:
        os.chown(path, -1, group)
    if status.st_mode & 0o7777 != mode or (group >= 0 and status.st_gid != group):
        path.chmod(mode)


def file_system_of(folder: Path, mounts: Path = MOUNTS) -> str:
    """The type of a folder's file system, as mount(8) calls it, by the kernel's list of mounts (proc(5), mountinfo); empty if it is unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        place = os.path.realpath(folder) + "/"
    except OSError:
        return ""
    best, kind = 0, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) > 4 and after:
            point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]).rstrip("/") + "/"
            if len(point) >= best and place.startswith(point):  # a later mount hides an earlier one at the same place
                best, kind = len(point), after.split(" ", 1)[0]
    return kind


def relative_to_here(path: Path) -> Path:
    """A path, relative to the working directory if it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

"""Whether the inbox is the folder that it was: an empty mount point must never pass for an inbox in which nothing lies.

The first look leaves a marker in the inbox and notes it in `STATE/inboxes.json`, with the folder's place on its disk. A folder that
has neither the marker nor the place is another one.
"""

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from loadsheet.problems import FolderError, SettingsError
from loadsheet.settings import Settings

MARKER = ".loadsheet-inbox"
_FILE = "inboxes.json"
_MARKER_BYTES_MAX = 100
_BUILT_IN: Path = Settings.model_fields["inbox"].default


class _KnownInbox(NamedTuple):
    marker: str
    device: int
    inode: int


def make_inbox(settings: Settings) -> None:
    """Make the built-in inbox, or that of a shipper below an inbox, if it is not there. Raises SettingsError if another one was chosen
    that does not exist.
    """
    check_inbox(settings)
    if not settings.inbox_address and _is_ours_to_make(settings):
        settings.inbox.mkdir(parents=True, exist_ok=True)


def check_inbox(settings: Settings) -> None:
    """Raises SettingsError if an inbox was chosen that is a folder and does not exist. One that was there before is not our business: the
    look into it says that it is gone.
    """
    inbox = settings.inbox
    if settings.inbox_address or inbox.exists() or _is_ours_to_make(settings):
        return
    if _name_of(inbox) in _known_inboxes(settings.state / _FILE):
        return
    raise SettingsError(
        f"the inbox {inbox} does not exist. Create the folder, or correct the setting `inbox` (--inbox)"
    )


def _is_ours_to_make(settings: Settings) -> bool:
    inbox = settings.inbox
    if settings.shippers and inbox.name == settings.shipper:
        return inbox.parent == _BUILT_IN or inbox.parent.is_dir()
    return inbox == _BUILT_IN


def verify_same_inbox(inbox: Path, state: Path) -> None:
    """Remember an inbox that is new, and pass one that is known. Raises FolderError if it is not there or is another folder."""
    path = state / _FILE
    known = _known_inboxes(path)
    name = _name_of(inbox)
    before = known.get(name)
    try:
        status = inbox.stat()
    except OSError as error:
        lost = "; it was there before: is it mounted?" if before else "; create it or set another"
        raise FolderError(f"{inbox} cannot be read ({error.strerror}){lost}") from error
    place = (status.st_dev, status.st_ino)
    marker = _marker(inbox)
    if before is not None and marker != before.marker and place != (before.device, before.inode):
        raise FolderError(
            f"{inbox} is not the folder that it was: {'its marker ' + MARKER + ' is missing' if not marker else 'its marker is another one'};"
            f" is it mounted? If it was replaced on purpose, remove {path} and run again"
        )
    wanted = before.marker if before is not None else marker or uuid.uuid4().hex
    if marker != wanted:
        with suppress(OSError):  # an inbox that we may not write to is known by its place
            (inbox / MARKER).write_text(wanted, encoding="ascii")
    if before != (now := _KnownInbox(wanted, *place)):
        _save_inboxes(path, {**known, name: now})


def _name_of(inbox: Path) -> str:
    return os.fsencode(inbox.absolute()).decode("utf-8", "backslashreplace")


def _marker(inbox: Path) -> str:
    try:
        descriptor = os.open(inbox / MARKER, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MARKER_BYTES_MAX).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _known_inboxes(path: Path) -> dict[str, _KnownInbox]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, _KnownInbox])
    except (OSError, msgspec.DecodeError):
        return {}


def _save_inboxes(path: Path, known: dict[str, _KnownInbox]) -> None:
    unfinished = path.with_name(f"{_FILE}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(msgspec.json.encode(known))
        unfinished.replace(path)
    except OSError as error:
        raise FolderError(f"{path} cannot be written ({error.strerror}); make the state folder ours") from error

"""Places: a folder on this machine, or an address in an object store such as `s3://bucket/prefix`. Both are stored as paths.

Owns: which of the two a path is. A path holds an address with one slash after the scheme (`s3:/bucket/prefix`), so that paths below it are
built as for folders. `address_of` returns the address, `shown` the text for people and for the ledger.
"""

import os
import re
from pathlib import Path

_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9]+):/+(?P<rest>[^/].*)", re.DOTALL)
_IN_THE_STATE = ("archive", "work")
_BEGINS = re.compile(r"[A-Za-z][A-Za-z0-9+]+:(/|$)")


def address_of(place: Path | str) -> str:
    """The address of a place in an object store, without a slash at its end; empty for a folder."""
    found = _ADDRESS.fullmatch(str(place))
    return f"{found['scheme']}://{found['rest'].rstrip('/')}" if found else ""


def shown(place: Path) -> str:
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


def checked(place: Path) -> Path:
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


def apart(name: str, place: Path, others: dict[str, Path]) -> None:
    """Raise ValueError if another place is inside this one in an object store: files written there would be found again here."""
    for other, its in others.items():
        if address_of(place) and address_of(its) and its.is_relative_to(place):
            raise ValueError(f"{other} ({shown(its)}) is inside {name} ({shown(place)}): give it a place outside")

"""Places: a folder on this machine, or an address in an object store such as `s3://bucket/prefix`. Both are given and kept as paths.

Owns: which of the two a path is. A path holds an address with one slash after the scheme (`s3:/bucket/prefix`), so that what is below it
is reached as below a folder; `address_of` gives the address back, and `shown` is what people read and the ledger keeps.
"""

import re
from pathlib import Path

_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9]+):/+(?P<rest>[^/].*)", re.DOTALL)
_BEGINS = re.compile(r"[A-Za-z][A-Za-z0-9+]+:(/|$)")


def address_of(place: Path | str) -> str:
    """The address of a place in an object store, without a slash at its end; empty for a folder."""
    found = _ADDRESS.fullmatch(str(place))
    return f"{found['scheme']}://{found['rest'].rstrip('/')}" if found else ""


def shown(place: Path) -> str:
    """A place as people and the ledger have it."""
    return address_of(place) or str(place)


def checked(place: Path) -> Path:
    """The same place. Raises ValueError for an address that cannot be one, and never shows what stands before an @ in it."""
    if not _BEGINS.match(str(place)):
        return place
    address = address_of(place)
    scheme, _, rest = address.partition("://")
    if not address or scheme == "file":
        raise ValueError("write a path, or an address such as s3://bucket/prefix")
    if "@" in rest.partition("/")[0]:
        raise ValueError(
            "an address holds no credentials: give them by the environment (AWS_ACCESS_KEY_ID) or a role, and take out"
            " what stands before the @"
        )
    if "?" in rest or "#" in rest or ".." in rest.split("/"):
        raise ValueError("an address such as s3://bucket/prefix has no ?, # or .. in it")
    return place


def apart(name: str, place: Path, others: dict[str, Path]) -> None:
    """Raise ValueError if one of the others lies in a store within this place: what is put there would be found here again."""
    for other, its in others.items():
        if address_of(place) and address_of(its) and its.is_relative_to(place):
            raise ValueError(f"{other} ({shown(its)}) lies within {name} ({shown(place)}): give it a place beside it")

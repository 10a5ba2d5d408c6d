"""The archive of a capsule: its members, a chain of hashes over them, and what is wrong with a changed one.

Owns: the form, and the exceptions of the room. A capsule is a .zip with uncompressed members (large ones are gzip files), fixed times and
fixed rights: its bytes follow from its members alone, so no byte can change unnoticed. The last member, `chain.jsonl`, names every other
one in order with its size, its SHA-256 and a hash over that and all before it. The last hash is the head: it proves the whole capsule.
Knows nothing of what the members hold.
"""

import gzip
import hashlib
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import msgspec

from loadsheet.problems import LoadsheetError


class CannotSeal(LoadsheetError):  # noqa: N818 (named for what cannot be done)
    """A run cannot be put into a capsule: something that belongs into it is not there any more."""

    exit_code = 65


class CannotOpen(LoadsheetError):  # noqa: N818 (as above)
    """A file is no capsule that this program can read."""

    exit_code = 65


CHAIN = "chain.jsonl"
_START = hashlib.sha256(b"loadsheet capsule 1").hexdigest()
_WHEN = (1980, 1, 1, 0, 0, 0)
_RIGHTS = 0o100600 << 16
_UNIX = 3
_AT_ONCE = 1 << 20
_DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, OverflowError)
"""What reading a damaged archive raises: the module leaves it at that."""


class Link(NamedTuple):
    """A member in the chain: its name, size in bytes, SHA-256 (hex), and the hash over that and all before it (hex)."""

    name: str
    size: int
    sha256: str
    chain: str


_line = msgspec.json.Encoder().encode
_link = msgspec.json.Decoder(Link).decode


class Sealing:
    """A capsule that is being written, while the `with` block lasts. `links` grow with its members; `finish` writes the chain and
    returns the head.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self.links: list[Link] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @contextmanager
    def member(self, name: str) -> Iterator["_Hashing"]:
        """A member to be written, a piece at a time."""
        with self._zip.open(_described(name), "w", force_zip64=True) as opened:
            hashing = _Hashing(opened)
            yield hashing
        self.links.append(_next(self.links, name, hashing.size, hashing.digest.hexdigest()))

    def put(self, name: str, content: bytes) -> None:
        """A whole member."""
        with self.member(name) as opened:
            opened.write(content)

    def copy(self, name: str, path: Path) -> str:
        """A file as a member; returns its SHA-256 (hex). Raises OSError."""
        with path.open("rb") as source, self.member(name) as opened:
            while piece := source.read(_AT_ONCE):
                opened.write(piece)
        return self.links[-1].sha256

    def lines(self, name: str, values: Iterable[Any]) -> int:
        """A member of JSON lines, packed; returns how many there were."""
        count = 0
        with (
            self.member(name) as opened,
            gzip.GzipFile(filename="", mode="wb", fileobj=opened, compresslevel=6, mtime=0) as packed,
        ):
            for count, value in enumerate(values, start=1):  # noqa: B007 (the count is the answer)
                packed.write(_line(value) + b"\n")
        return count

    def finish(self) -> str:
        """Write the chain; returns its head."""
        with self._zip.open(_described(CHAIN), "w", force_zip64=True) as opened:
            opened.write(_chain_text(self.links))
        return head_of(self.links)


class _Hashing:
    """Passes bytes on and hashes them."""

    def __init__(self, opened: IO[bytes]) -> None:
        self._opened, self.digest, self.size = opened, hashlib.sha256(), 0

    def write(self, piece: bytes) -> int:
        self._opened.write(piece)
        self.digest.update(piece)
        self.size += len(piece)
        return len(piece)

    def flush(self) -> None:
        """Nothing: the archive does."""


class Members:
    """The members of a capsule that was found sound, for reading."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> bytes:
        """A whole member. Raises CannotOpen if there is none of this name."""
        with self._opened(name) as opened:
            return opened.read()

    def lines(self, name: str) -> Iterator[Any]:
        """The values of a member of JSON lines, one after the other."""
        with self._opened(name) as opened, gzip.GzipFile(fileobj=opened) as unpacked:
            for line in unpacked:
                yield msgspec.json.decode(line)

    def copy(self, name: str, target: Path) -> None:
        """A member as a file. Raises OSError."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._opened(name) as opened, target.open("wb") as written:
            while piece := opened.read(_AT_ONCE):
                written.write(piece)

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(name) as opened:
                yield opened
        except (*_DAMAGE, KeyError) as error:
            raise CannotOpen(f"{self._path}: {name} cannot be read ({error})") from error


class Looked(NamedTuple):
    """What a look at a capsule came to: its members and head as they should be, and everything that is wrong, in words."""

    links: tuple[Link, ...]
    head: str
    wrong: tuple[str, ...]


def look_at(path: Path) -> Looked:
    """Read all of a capsule and hold it against its chain. Raises CannotOpen if the file is no archive at all, or not there."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            links, wrong = _chain_in(archive)
            wrong += _compared(archive, infos, links)
    except FileNotFoundError:
        raise CannotOpen(f"there is no file {path}") from None
    except _DAMAGE as error:
        return Looked((), "", (f"the archive cannot be read ({error}): it was cut off or written over",))
    if not wrong and not _is_as_written(path, links):
        wrong.append(
            "the members are whole, but the archive around them was changed (names, times or bytes between members)"
        )
    return Looked(tuple(links), head_of(links), tuple(wrong))


def head_of(links: Sequence[Link]) -> str:
    """The last hash of a chain."""
    return links[-1].chain if links else _START


def _described(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _WHEN)
    info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_STORED, _UNIX, _RIGHTS
    return info


def _next(before: Sequence[Link], name: str, size: int, sha256: str) -> Link:
    text = "\n".join((head_of(before), name, str(size), sha256))
    return Link(name, size, sha256, hashlib.sha256(text.encode()).hexdigest())


def _chain_text(links: Sequence[Link]) -> bytes:
    return b"".join(_line(link._asdict()) + b"\n" for link in links)


def _chain_in(archive: zipfile.ZipFile) -> tuple[list[Link], list[str]]:
    """The chain as the capsule has it, and what is wrong with it in itself."""
    try:
        if archive.getinfo(CHAIN).compress_type != zipfile.ZIP_STORED:
            return [], [f"{CHAIN} was changed: it is packed otherwise"]
        text = archive.read(CHAIN)
        links = [Link(**msgspec.json.decode(line)) for line in text.splitlines()]
        kept = links and all(isinstance(link.name, str) and isinstance(link.size, int) for link in links)
    except KeyError:
        return [], [f"{CHAIN} is missing: the chain was cut away"]
    except (*_DAMAGE, TypeError):
        return [], [f"{CHAIN} was changed: it is no chain any more"]
    if not kept or text != _chain_text(links):
        return [], [f"{CHAIN} was changed: it is no chain any more"]
    so_far: list[Link] = []
    for place, link in enumerate(links, start=1):
        so_far.append(_next(so_far, link.name, link.size, str(link.sha256)))
        if so_far[-1] != link:
            return links, [
                f"the chain does not hold at link {place} ({link.name}): a link was changed, taken out or moved"
            ]
    return links, []


def _compared(archive: zipfile.ZipFile, infos: Sequence[zipfile.ZipInfo], links: Sequence[Link]) -> list[str]:
    """What is wrong with the members, held against the chain."""
    names = [info.filename for info in infos]
    known = {link.name: link for link in links}
    wrong = [f"{name} is there more than once" for name in sorted({name for name in names if names.count(name) > 1})]
    wrong += [f"{name} is missing" for name in known if name not in names]
    wrong += [f"{name} was added" for name in names if name not in known and name != CHAIN]
    if not wrong and names != [*known, CHAIN]:
        place = next(place for place, name in enumerate([*known, CHAIN]) if names[place] != name)
        wrong.append(f"the members are in another order, from {names[place]} on")
    return wrong + [text for info in infos if info.filename in known and (text := _changed(archive, info, known))]


def _changed(archive: zipfile.ZipFile, info: zipfile.ZipInfo, known: dict[str, Link]) -> str:
    link, digest, size = known[info.filename], hashlib.sha256(), 0
    try:
        if info.compress_type != zipfile.ZIP_STORED:
            return f"{link.name} was changed: it is packed otherwise"
        with archive.open(info) as opened:
            while piece := opened.read(_AT_ONCE):
                digest.update(piece)
                size += len(piece)
    except _DAMAGE as error:
        return f"{link.name} was changed: {error}"
    if (size, digest.hexdigest()) == (link.size, link.sha256):
        return ""
    sizes = f", {size:,} bytes instead of {link.size:,}" if size != link.size else ""
    return f"{link.name} was changed{sizes}"


def _is_as_written(path: Path, links: Sequence[Link]) -> bool:
    """Whether the file has the very bytes that its members make."""
    with tempfile.TemporaryFile() as again:
        with zipfile.ZipFile(path) as archive, Sealing(again) as sealing:
            for link in links:
                with archive.open(link.name) as opened, sealing.member(link.name) as copied:
                    while piece := opened.read(_AT_ONCE):
                        copied.write(piece)
            sealing.finish()
        again.seek(0)
        with path.open("rb") as original:
            return _are_equal(again, original)


def _are_equal(one: IO[bytes], other: IO[bytes]) -> bool:
    while True:
        pieces = one.read(_AT_ONCE), other.read(_AT_ONCE)
        if pieces[0] != pieces[1]:
            return False
        if not pieces[0]:
            return True

"""Mappings that do not load: which files they would take, so that these and no others wait for them.

Owns: reading the patterns of such a file as far as it goes. A mapping that is right but for one key says them as usual; of one that is
no YAML the text after `files:` is taken; where nothing can be read, every file that no other mapping takes may be meant.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from loadsheet.mapping.compile import Mapping as CompiledMapping
from loadsheet.mapping.filenames import match
from loadsheet.mapping.inheritance import KEY
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.problems import MappingError, Problem, Where

_FILES = re.compile(r"\bfiles:[ \t]*(\[[^\]]*\]|(?:\n[ \t]*-[^\n]*)+|[^\s\[{,][^,}\n]*)")
_FIX = re.compile(r"\.fix(\.[^./]+)$", re.IGNORECASE)


class Broken(NamedTuple):
    """A mapping file that does not load: its path in the folder, the folder of its shipper (empty: none), its name as far as that can be read,
    the first finding, the patterns of its files, and whether these are all.
    """

    path: str
    shipper: str
    name: str
    finding: MappingError
    patterns: tuple[str, ...]
    all_known: bool

    @property
    def problem(self) -> Problem:
        """What a run has to say of it, whatever lies in the inbox."""
        values = {"mapping": self.path, "reason": self._reason, "count": 0}  # it is no file of the inbox
        hint = f"correct it (loadsheet mapping lint lists everything); its files stay in the inbox: {self._files}"
        return Problem("A115", Where(self.path), values=values, hint=hint)

    def takes(self, name: str) -> bool:
        """Whether one of its patterns names this file."""
        bare = name.partition("/")[2] if self.shipper else name
        return any(
            match(pattern, one) is not None for pattern in self.patterns for one in (bare, _FIX.sub(r"\1", bare))
        )

    def waiting(self, name: str) -> Problem:
        """What to say of a file that stays in the inbox because of it."""
        claim = "names it" if self.takes(name) else "may name it (its file names cannot be read)"
        values = {"mapping": self.path, "reason": self._reason, "claim": claim}
        return Problem("A116", Where(name), name, values, "correct the mapping: loadsheet mapping lint")

    @property
    def _reason(self) -> str:
        said = self.finding.text + (f" ({self.finding.hint})" if self.finding.hint else "")
        name, own = Path(self.finding.file).name, Path(self.path).name
        where = [*([name] if name != own else []), *([f"line {self.finding.line}"] if self.finding.line else [])]
        return f"{', '.join(where)}: {said}" if where else said

    @property
    def _files(self) -> str:
        known = ", ".join(self.patterns)
        more = "whatever no other mapping takes, as its file names cannot be read"
        return known if self.all_known else f"{known}, and {more}" if known else more


class Loaded(tuple[CompiledMapping, ...]):  # noqa: SLOT001 (a tuple cannot have any)
    """The mappings of a folder that load, and those that do not."""

    broken: tuple[Broken, ...]

    def __new__(cls, mappings: Iterable[CompiledMapping], broken: Iterable[Broken] = ()) -> Self:
        """These mappings, as a tuple."""
        made = super().__new__(cls, mappings)
        made.broken = tuple(broken)
        return made


def broken_among(mappings: Iterable[CompiledMapping]) -> tuple[Broken, ...]:
    """The mappings that did not load when these were loaded."""
    return mappings.broken if isinstance(mappings, Loaded) else ()


def broken_mapping(path: Path, folder: Path, finding: MappingError) -> Broken:
    """A mapping file that does not load, as far as it can be read."""
    shipper = "" if path.parent == folder else path.parent.name
    name, patterns, all_known = path.stem, tuple[str, ...](), False
    for values in _values(path, folder):
        name = values["mapping"] if isinstance(values.get("mapping"), str) else name
        source = values.get("source")
        if isinstance(source, dict) and (found := _patterns(source)):
            patterns, all_known = found, True
            break
    else:
        patterns = _from_text(path)
    return Broken(path.relative_to(folder).as_posix(), shipper, name, finding, patterns, all_known)


def _values(path: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """The values of the file itself and of the one that it extends, those that are YAML."""
    file = read_yaml(path)
    file.home = folder
    if not isinstance(file.values, dict):
        return
    yield file.values
    named = file.values.get(KEY)
    base = file.beside(named, (KEY,)) if isinstance(named, str) and named.endswith((".yaml", ".yml")) else None
    if base is not None:
        values = read_yaml(base).values
        if isinstance(values, dict):
            yield {"source": values.get("source")}


def _patterns(source: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of all its files; nothing if they are not written as they have to be."""
    files, companions = source.get("files"), source.get("companions") or {}
    main = files if isinstance(files, list) else [files]
    others = list(companions.values()) if isinstance(companions, dict) else [None]
    trigger = [source["complete_when"]] if source.get("complete_when") is not None else []
    found = [*main, *others, *trigger]
    return tuple(found) if all(isinstance(one, str) and one for one in found) else ()


def _from_text(path: Path) -> tuple[str, ...]:
    try:
        found = _FILES.search(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ()
    pieces = re.split(r"[,\n]", found[1].strip("[]")) if found else []
    plain = (piece.partition(" #")[0].strip().removeprefix("- ").strip(" \"'") for piece in pieces)
    return tuple(one for one in plain if one)

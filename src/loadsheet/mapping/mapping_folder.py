"""The mappings of a folder: those that load, those in the folders of shippers below it, and what is known of those that do not load.

`mappings/nordic/` holds the mappings for the files below `inbox/nordic/`; `mappings/base/` files that other mappings extend. The files of a
mapping that does not load stay in the inbox. Its patterns are read as far as possible: from the YAML values, otherwise from the text after
`files:`. If no pattern can be read, any file that no other mapping takes may belong to it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from loadsheet.contract import Assumptions
from loadsheet.errors import MappingError
from loadsheet.mapping.compile import CompiledMapping, combined_error, examine
from loadsheet.mapping.file_patterns import match_file_name
from loadsheet.mapping.yamlfile import KEY, read_yaml
from loadsheet.problems import Problem, Where

BASES = "base"
"""The folder beside the mappings with files that they extend."""
_FILES = re.compile(r"\bfiles:[ \t]*(\[[^\]]*\]|(?:\n[ \t]*-[^\n]*)+|[^\s\[{,][^,}\n]*)")
_FIX = re.compile(r"\.fix(\.[^./]+)$", re.IGNORECASE)


class BrokenMapping(NamedTuple):
    """A mapping file that does not load: its path in the folder, its shipper's folder (empty: none), its name if readable, the first finding,
    the patterns of its files, and whether the patterns are complete.
    """

    path: str
    shipper: str
    name: str
    finding: MappingError
    patterns: tuple[str, ...]
    all_known: bool

    @property
    def problem(self) -> Problem:
        """The problem that a run reports for it, with or without files in the inbox."""
        values = {"mapping": self.path, "reason": self._reason, "count": 0}  # counts no files of the inbox
        known, more = ", ".join(self.patterns), "any file that no other mapping takes (its patterns cannot be read)"
        files = known if self.all_known else f"{known}, and {more}" if known else more
        hint = f"correct it (loadsheet mapping lint lists all errors); its files stay in the inbox: {files}"
        return Problem("A115", Where(self.path), values=values, hint=hint)

    def takes(self, name: str) -> bool:
        """Whether one of its patterns matches this file."""
        bare = name.partition("/")[2] if self.shipper else name
        forms = (bare, original_name(bare))
        return any(match_file_name(pattern, form) is not None for pattern in self.patterns for form in forms)

    def waiting(self, name: str) -> Problem:
        """The problem of a file that stays in the inbox because of it."""
        claim = "matches it" if self.takes(name) else "may match it (its patterns cannot be read)"
        values = {"mapping": self.path, "reason": self._reason, "claim": claim}
        return Problem("A116", Where(name), name, values, "correct the mapping: loadsheet mapping lint")

    @property
    def _reason(self) -> str:
        message = self.finding.text + (f" ({self.finding.hint})" if self.finding.hint else "")
        name, own = Path(self.finding.file).name, Path(self.path).name
        where = [*([name] if name != own else []), *([f"line {self.finding.line}"] if self.finding.line else [])]
        return f"{', '.join(where)}: {message}" if where else message


class LoadedMappings(tuple[CompiledMapping, ...]):  # noqa: SLOT001 (a tuple cannot have any)
    """The mappings of a folder that load, and those that do not."""

    broken: tuple[BrokenMapping, ...]

    def __new__(cls, mappings: Iterable[CompiledMapping], broken: Iterable[BrokenMapping] = ()) -> Self:
        """These mappings, as a tuple."""
        made = super().__new__(cls, mappings)
        made.broken = tuple(broken)
        return made


def broken_mappings(mappings: Iterable[CompiledMapping]) -> tuple[BrokenMapping, ...]:
    """The mappings that did not load when these were loaded."""
    return mappings.broken if isinstance(mappings, LoadedMappings) else ()


def broken_mapping(path: Path, folder: Path, finding: MappingError) -> BrokenMapping:
    """A mapping file that does not load, as far as it can be read."""
    name, patterns, all_known = path.stem, tuple[str, ...](), False
    for values in _values(path, folder):
        name = values["mapping"] if isinstance(values.get("mapping"), str) else name
        source = values.get("source")
        if isinstance(source, dict) and (found := _patterns(source)):
            patterns, all_known = found, True
            break
    else:
        patterns = _from_text(path)
    shipper = "" if path.parent == folder else path.parent.name
    return BrokenMapping(path.relative_to(folder).as_posix(), shipper, name, finding, patterns, all_known)


def _values(path: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """The values of the file itself and of the one it extends, if they are YAML."""
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
    """The patterns of all its files; empty if they are invalid."""
    files, companions = source.get("files"), source.get("companions") or {}
    others = list(companions.values()) if isinstance(companions, dict) else [None]
    trigger = [source["complete_when"]] if source.get("complete_when") is not None else []
    found = [*(files if isinstance(files, list) else [files]), *others, *trigger]
    return tuple(found) if all(isinstance(pattern, str) and pattern for pattern in found) else ()


def _from_text(path: Path) -> tuple[str, ...]:
    try:
        found = _FILES.search(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ()
    pieces = re.split(r"[,\n]", found[1].strip("[]")) if found else []
    plain = (piece.partition(" #")[0].strip().removeprefix("- ").strip(" \"'") for piece in pieces)
    return tuple(pattern for pattern in plain if pattern)


def load_folder(folder: Path, assumptions: Assumptions) -> LoadedMappings:
    """The mappings of a folder (`*.yaml`, `*.yml`) by file name, and those in the shippers' folders below it. Mappings that do not load or
    have the name of another are `broken`. Raises one MappingError if none loads, or there is none.
    """
    if not folder.is_dir():
        hint = "`loadsheet init` makes one, or set mappings to the folder of mapping files"
        where = "" if folder.is_absolute() else f" in {Path.cwd()}"
        raise MappingError(f"there is no such folder{where}", file=str(folder), hint=hint)
    examined = [(path, *examine(path, assumptions, folder)) for path in mapping_files(folder)]
    if not examined:  # as on a volume that is not mounted
        hint = "copy mapping files into it, or draft one: loadsheet mapping suggest FILE"
        raise MappingError("this folder holds no mapping", file=str(folder), hint=hint)
    mappings: dict[str, CompiledMapping] = {}
    broken: list[BrokenMapping] = []
    findings: list[MappingError] = []
    for path, mapping, found in examined:
        if mapping is not None and mapping.name in mappings:
            message = f'"{mapping.name}" is already the name of {mappings[mapping.name].path.name}'
            found = [MappingError(message, file=str(path))]  # noqa: PLW2901 (adds a finding)
        elif mapping is not None:
            mappings[mapping.name] = mapping if path.parent == folder else of_shipper(mapping, path.parent.name)
        findings += found
        broken += [broken_mapping(path, folder, found[0])] if found else []
    if findings and not mappings:
        raise combined_error(findings)
    return LoadedMappings(mappings.values(), broken)


def of_shipper(mapping: CompiledMapping, shipper: str) -> CompiledMapping:
    """The mapping for the files below a shipper's folder. Parts of file names in its columns are relative to it too."""

    def placed(pattern: str) -> str:
        return f"{shipper}/{pattern}" if "/" in pattern else pattern

    tables = tuple(replace(table, patterns=tuple(map(placed, table.patterns))) for table in mapping.plan.tables)
    parts = tuple(of_shipper(part, shipper) for part in mapping.parts)
    return replace(mapping, shipper=shipper, plan=replace(mapping.plan, tables=tables), parts=parts)


def mapping_files(folder: Path) -> list[Path]:
    """The mapping files of a folder by name, then those in each shipper's folder below it. Files in `base` are excluded: they are only
    extended. Raises MappingError for a folder that cannot be read.
    """
    try:
        entries = sorted(folder.iterdir())
        shippers = (entry for entry in entries if entry.is_dir() and entry.name != BASES)
        inner = (path for shipper in shippers for path in sorted(shipper.iterdir()))
        return [path for path in (*entries, *inner) if path.suffix in {".yaml", ".yml"} and path.is_file()]
    except OSError as error:
        hint = "let the user that loadsheet runs as read and enter it"
        raise MappingError(f"cannot be read: {error.strerror}", file=str(error.filename), hint=hint) from error


def original_name(name: str) -> str:
    """The name of a file without `.fix` before its ending: for a fix file in text form, the name of its original."""
    return _FIX.sub(r"\1", name)

"""Files translated with one mapping, independent of their names: for `preview`, `test` and `diff`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath

import click

from loadsheet.checking import name_in_inbox
from loadsheet.inbox import Candidate
from loadsheet.ingest import IngestContext, RoutedDrop, RoutedFiles, ingest
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping import Route, load_folder, route
from loadsheet.mapping import load as load_mapping
from loadsheet.mapping.routing import LoadedMappings
from loadsheet.mapping_tools.comparison import CompareSink
from loadsheet.problems import FileRefused
from loadsheet.settings import Settings


def mapping_named(name: str, settings: Settings) -> CompiledMapping:
    """The mapping file at this path, otherwise the mapping of this name in the folder. Raises MappingError, click.BadParameter."""
    if Path(name).suffix in {".yaml", ".yml"} and Path(name).is_file():
        return load_mapping(Path(name), settings.assumptions, home_of(Path(name), settings))
    return mapping_among(load_folder(settings.mappings, settings.assumptions), name, settings)


def mapping_among(loaded_mappings: LoadedMappings, name: str, settings: Settings) -> CompiledMapping:
    """The mapping of this name in the folder. Raises MappingError, click.BadParameter."""
    loaded = {mapping.name: mapping for mapping in loaded_mappings}
    if name not in loaded:
        if broken := next((mapping for mapping in loaded_mappings.broken if name == mapping.name), None):
            raise broken.finding
        known = ", ".join(loaded) or "none"
        raise click.BadParameter(
            f"{name} is neither a mapping file nor a mapping in {settings.mappings}; known: {known}"
        )
    return loaded[name]


def home_of(path: Path, settings: Settings) -> Path | None:
    """The folder of mappings, if it contains this mapping file."""
    return settings.mappings if path.resolve().is_relative_to(settings.mappings.resolve()) else None


def mapping_for(files: Sequence[Path], settings: Settings) -> CompiledMapping:
    """The mapping of the folder that matches the first of these files. Raises MappingError, and FileRefused if none or several match."""
    loaded = load_folder(settings.mappings, settings.assumptions)
    name = name_in_inbox(files[0], loaded)
    routes = route([name], loaded)
    waiting = (mapping for mapping in loaded if name in route([name], [mapping]).waiting)
    if named := next((found.mapping for found in routes.complete), None) or next(waiting, None):
        return named
    if broken := next((mapping for mapping in loaded.broken if mapping.takes(name)), None):
        raise broken.finding
    raise FileRefused({**routes.unmapped, **routes.ambiguous, **routes.blocked}[name])


def translate_files(
    mapping: CompiledMapping,
    files: Sequence[Path],
    settings: Settings,
    *,
    now: datetime,
    documents_max: int | None = None,
) -> CompareSink:
    """Translate these files as one drop of this mapping; `now` (aware) is the value of `$now`. The name of a single file does not matter.
    Each of several files gets the role whose pattern fits best. Raises FileRefused, click.UsageError.
    """
    roles = _roles(mapping, files)
    bare = [path.name for path in roles.values()]
    names = {role: path.name if bare.count(path.name) == 1 else path.as_posix() for role, path in roles.items()}
    candidates = {names[role]: Candidate(names[role], path) for role, path in roles.items()}
    sink = CompareSink(documents_max)
    drop = RoutedDrop(Route(mapping, names))
    ingest(RoutedFiles(candidates, (drop,)), sink, IngestContext(settings, (mapping,), None, now))
    return sink


def _roles(mapping: CompiledMapping, files: Sequence[Path]) -> Mapping[str, Path]:
    patterns = {mapping.main_role: mapping.files, **{role: (text,) for role, text in mapping.companions.items()}}
    if len(patterns) == 1 and len(files) == 1:
        return {mapping.main_role: files[0]}
    left, roles = list(files), dict[str, Path]()
    for role, wanted in patterns.items():
        fits = [path for path in left if named_by(wanted, path)]
        if not fits:
            raise click.UsageError(
                f"mapping {mapping.name} needs a file for {role} ({', '.join(wanted)}); "
                f"given: {', '.join(path.name for path in files)}"
            )
        roles[role] = fits[0]
        left.remove(fits[0])
    return roles


def named_by(patterns: Iterable[str], path: Path) -> bool:
    """Whether one of the patterns matches this file's bare name."""
    return any(_fits(path, pattern) for pattern in patterns)


def _fits(path: Path, pattern: str) -> bool:
    """Whether the bare name of a file matches the last part of a pattern; placeholders match any text."""
    last = PurePosixPath(pattern).name
    while "{" in last and "}" in last:
        last = f"{last[: last.index('{')]}*{last[last.index('}') + 1 :]}"
    return PurePosixPath(path.name.casefold()).match(last.casefold())

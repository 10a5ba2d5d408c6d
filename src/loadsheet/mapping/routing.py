"""Which mapping a dropped file belongs to, and which files make one drop.

Owns: the patterns (`acme_*.xlsx`, `nordic/{batch}/orders.csv`), companions and trigger files. Never a first match: a file that two
mappings name is refused. Knows names only, no content.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadsheet.contract import Assumptions
from loadsheet.mapping import compile as compiled
from loadsheet.mapping.compile import examine, together
from loadsheet.mapping.filenames import PLACEHOLDER, match
from loadsheet.problems import MappingError, Problem, Where


@dataclass(frozen=True, slots=True)
class Route:
    """Files that are translated together: the mapping, role -> name of the file, and the trigger file, if there is one."""

    mapping: compiled.Mapping
    files: Mapping[str, str]
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class Routes:
    """Where each name goes: into a complete route, or with a problem into one of the other three."""

    complete: tuple[Route, ...] = ()
    waiting: Mapping[str, Problem] = field(default_factory=dict)
    unmapped: Mapping[str, Problem] = field(default_factory=dict)
    ambiguous: Mapping[str, Problem] = field(default_factory=dict)


def load_folder(folder: Path, assumptions: Assumptions) -> tuple[compiled.Mapping, ...]:
    """Every mapping of a folder (`*.yaml`, `*.yml`), by file name. Raises one MappingError for all that is wrong in any of them,
    also if two files give the same mapping name or the folder does not exist.
    """
    if not folder.is_dir():
        raise MappingError(
            "there is no such folder", file=str(folder), hint="set mappings to the folder of mapping files"
        )
    paths = sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"} and path.is_file())
    examined = [examine(path, assumptions) for path in paths]
    if findings := [finding for _, found in examined for finding in found]:
        raise together(findings)
    mappings = tuple(mapping for mapping, _ in examined if mapping is not None)
    first: dict[str, Path] = {}
    for mapping in mappings:
        if mapping.name in first:
            raise MappingError(
                f'"{mapping.name}" is the name of {first[mapping.name].name} already', file=str(mapping.path)
            )
        first[mapping.name] = mapping.path
    return mappings


def route(names: Sequence[str], mappings: Sequence[compiled.Mapping]) -> Routes:
    """Sorts the names of finished files (relative to the inbox, with slashes) into routes. Patterns match without case; one without a
    slash matches the bare file name in any folder. `names` are all that is there: companions are looked for among them.
    """
    claims = {name: [claim for mapping in mappings for claim in _claims(name, mapping)] for name in names}
    ambiguous = {
        name: _ambiguous(name, found)
        for name, found in claims.items()
        if len({claim.mapping.name for claim in found}) > 1
    }
    clear = {name: found[0] for name, found in claims.items() if found and name not in ambiguous}
    unmapped = {name: _unmapped(name, mappings) for name, found in claims.items() if not found}
    complete: list[Route] = []
    waiting: dict[str, Problem] = {}
    for mapping in mappings:
        own = {name: claim for name, claim in clear.items() if claim.mapping is mapping}
        for found, waits in _sets(mapping, own):
            complete += [found] if found is not None else []
            waiting |= waits
    return Routes(tuple(complete), waiting, unmapped, ambiguous)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A mapping's claim to a name: in which role, and what the placeholders stand for."""

    mapping: compiled.Mapping
    role: str
    values: tuple[tuple[str, str], ...]


_TRIGGER = "(trigger)"


def _claims(name: str, mapping: compiled.Mapping) -> Iterator[_Claim]:
    patterns = [(mapping.main_role, pattern) for pattern in mapping.files]
    patterns += list(mapping.companions.items())
    patterns += [(_TRIGGER, mapping.complete_when)] if mapping.complete_when is not None else []
    for role, pattern in patterns:
        values = match(pattern, name)
        if values is not None:
            yield _Claim(mapping, role, tuple(sorted(values.items())))
            return


def _sets(mapping: compiled.Mapping, own: Mapping[str, _Claim]) -> Iterator[tuple[Route | None, dict[str, Problem]]]:
    """The sets of one mapping: a main file with the companions and the trigger that share its placeholders."""
    taken: set[str] = set()
    for name, claim in own.items():
        if claim.role != mapping.main_role:
            continue
        files, trigger, missing = {mapping.main_role: name}, None, []
        for role, pattern in _others(mapping):
            fits = [other for other, held in own.items() if held.role == role and _agree(held, claim)]
            partner = next((other for other in fits if other not in taken), None)  # never one file in two sets
            if partner is None:
                missing.append(_filled(pattern, claim))
            elif role == _TRIGGER:
                trigger = partner
            else:
                files[role] = partner
        there = [*files.values(), *([trigger] if trigger else [])]
        taken.update(there)
        if missing:
            yield None, {file: _waits(file, missing[0]) for file in there}
        else:
            yield Route(mapping, files, trigger), {}
    for name, claim in own.items():
        if name not in taken and claim.role != mapping.main_role:
            yield None, {name: _waits(name, _filled(mapping.files[0], claim))}


def _others(mapping: compiled.Mapping) -> list[tuple[str, str]]:
    trigger = [(_TRIGGER, mapping.complete_when)] if mapping.complete_when is not None else []
    return [*mapping.companions.items(), *trigger]


def _agree(one: _Claim, other: _Claim) -> bool:
    """Whether placeholders that both have stand for the same."""
    mine, theirs = dict(one.values), dict(other.values)
    return all(mine[key] == theirs[key] for key in mine.keys() & theirs.keys())


def _filled(pattern: str, claim: _Claim) -> str:
    values = dict(claim.values)
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), pattern)


def _waits(name: str, companion: str) -> Problem:
    return Problem("A103", Where(name), name, {"companion": companion}, f"drop {companion} beside it")


def _unmapped(name: str, mappings: Sequence[compiled.Mapping]) -> Problem:
    patterns = [pattern for mapping in mappings for pattern in (*mapping.files, *mapping.companions.values())]
    return Problem(
        "A101", Where(name), name, {"patterns": ", ".join(patterns) or "none"}, "name it as one of the patterns"
    )


def _ambiguous(name: str, claims: Sequence[_Claim]) -> Problem:
    mappings = ", ".join(dict.fromkeys(claim.mapping.name for claim in claims))
    return Problem(
        "A102", Where(name), name, {"mappings": mappings}, "make the patterns of these mappings exclude each other"
    )

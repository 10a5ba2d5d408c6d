"""Which mapping a dropped file belongs to, which files make one drop, and several mappings for one file.

Owns: companions, trigger files and the folders of shippers. The mappings in
`mappings/nordic/` take the files below `inbox/nordic/`, and no other mapping takes them. Their patterns are relative to that folder.
A file that matches several mappings is refused, unless all of them are `shared`. A fix file in text form goes to the mapping of its
original. Knows no content of files.

Mappings that share a file become one mapping with `parts`, so that a file stays one drop, planned in one transaction. A part is the mapping
itself, but its tables and the paths of its lineage begin with its name (`acme-orders/rows`).
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from loadsheet.contract import SENDING_ORDER, Assumptions, update_of
from loadsheet.mapping.compile import MAIN, CompiledMapping, load
from loadsheet.mapping.documents import JOINT, SHARED_LIST, Lineage, column_path
from loadsheet.mapping.file_patterns import PLACEHOLDER, match_file_name
from loadsheet.mapping.mapping_folder import BrokenMapping, broken_mappings, original_name
from loadsheet.problems import Problem, Where
from loadsheet.similar_text import nearest

_TRIGGER = "(trigger)"
_FIXED, _ORIGINAL = "(fixed)", "no"  # a placeholder value: originals and fix files never form a set


@dataclass(frozen=True, slots=True)
class Route:
    """Files that are translated together: the mapping, role -> name of the file, and the trigger file, if there is one."""

    mapping: CompiledMapping
    files: Mapping[str, str]
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class Routes:
    """The result for each name: part of a complete route, or a problem. A `blocked` file stays in the inbox because its mapping does not
    load.
    """

    complete: tuple[Route, ...] = ()
    waiting: Mapping[str, Problem] = field(default_factory=dict)
    unmapped: Mapping[str, Problem] = field(default_factory=dict)
    ambiguous: Mapping[str, Problem] = field(default_factory=dict)
    blocked: Mapping[str, Problem] = field(default_factory=dict)


class FixOf(NamedTuple):
    """The original of a fix file: the name it was dropped under, the mapping that read it, and the number of the drop."""

    original: str
    mapping: str
    drop: int

    def is_of(self, mapping: str) -> bool:
        """Whether this mapping read the original, alone or with others."""
        return mapping in self.mapping.split(JOINT)


def route(
    names: Sequence[str], mappings: Sequence[CompiledMapping], fixes: Mapping[str, FixOf] = MappingProxyType({})
) -> Routes:
    """Sort the names of finished files (relative to the inbox, with slashes) into routes. Patterns ignore case. A pattern without a slash
    matches the bare file name in any folder. `names` are all files present, companions included. A fix file goes to the mapping of its
    original: by the name in `fixes`, otherwise by its own name without `.fix`. It must be in a folder of that mapping. The route of a
    file that several shared mappings match has their combination.
    """
    broken = broken_mappings(mappings)
    by_shipper: dict[str, list[CompiledMapping]] = {"": [], **{mapping.shipper.casefold(): [] for mapping in broken}}
    for mapping in mappings:
        by_shipper.setdefault(mapping.shipper.casefold(), []).append(mapping)
    concerned = {name: by_shipper[_shipper_of(name, by_shipper)] for name in names}
    matches: dict[str, list[_PatternMatch]] = {}
    blocked: dict[str, Problem] = {}
    together: dict[tuple[str, ...], CompiledMapping] = {}
    for name in names:
        found = [match for mapping in concerned[name] if (match := _match_of(name, mapping, fixes.get(name)))]
        found = [match for match in found if match.is_of_fix_file] or found
        if (problem := _blocked(name, broken, by_shipper, is_taken=bool(found))) is not None:
            blocked[name] = problem
        else:
            matches[name] = _combined_match(found, together)
    several = {name for name, found in matches.items() if len({match.mapping.name for match in found}) > 1}
    ambiguous = {name: _ambiguous(name, matches[name]) for name in several}
    clear = {name: found[0] for name, found in matches.items() if found and name not in ambiguous}
    unmapped = {name: _unmapped(name, concerned[name]) for name, found in matches.items() if not found}
    complete, waiting = list[Route](), dict[str, Problem]()
    readers = (*mappings, *together.values())
    own_of: dict[str, dict[str, _PatternMatch]] = {mapping.name: {} for mapping in readers}
    for name, match in clear.items():
        own_of[match.mapping.name][name] = match
    for mapping in readers:
        for whole, waits in _file_sets(mapping, own_of[mapping.name]):
            complete += [whole] if whole is not None else []
            for name, other in waits.items():
                values = {"companion": other}
                waiting[name] = Problem("A103", Where(name), name, values, f"drop {other} beside it", "warning")
    return Routes(tuple(complete), waiting, unmapped, ambiguous, blocked)


def _blocked(
    name: str, broken: Sequence[BrokenMapping], by_shipper: Mapping[str, object], *, is_taken: bool
) -> Problem | None:
    """Why a file stays in the inbox: a broken mapping matches it or may match it, and no other mapping does."""
    area = _shipper_of(name, by_shipper) if broken else ""
    near = [mapping for mapping in broken if mapping.shipper.casefold() == area]
    first = next((mapping for mapping in near if mapping.takes(name)), None)
    if first is None and not is_taken:
        first = next((mapping for mapping in near if not mapping.all_known), None)
    return first.waiting(name) if first is not None else None


@dataclass(frozen=True, slots=True)
class _PatternMatch:
    """A mapping whose pattern matches a file name: its role, and the values of the placeholders."""

    mapping: CompiledMapping
    role: str
    values: tuple[tuple[str, str], ...]

    @property
    def is_of_fix_file(self) -> bool:
        """Whether the file is a fix file."""
        return (_FIXED, _ORIGINAL) not in self.values


def _shipper_of(name: str, by_shipper: Mapping[str, object]) -> str:
    """The shipper whose folder contains a file, if that shipper has its own mappings."""
    folder, slash, _ = name.partition("/")
    return folder.casefold() if slash and folder.casefold() in by_shipper else ""


def is_for(mapping: CompiledMapping, name: str, mappings: Sequence[CompiledMapping]) -> bool:
    """Whether a mapping takes files in the folder of this one: those of its shipper, or of all shippers without their own mappings."""
    names = [*(one.shipper for one in (mapping, *mappings)), *(one.shipper for one in broken_mappings(mappings))]
    shippers = dict.fromkeys(map(str.casefold, names))
    return _shipper_of(name, shippers) == mapping.shipper.casefold()


def _match_of(name: str, mapping: CompiledMapping, fix: FixOf | None) -> _PatternMatch | None:
    """The mapping's match of a file, if a pattern of it does."""
    original = fix.original if fix is not None else original_name(name)
    match = None
    if original != name and (fix is None or fix.is_of(mapping.name)):
        match = _match(original, mapping, fixed=f"drop {fix.drop}" if fix is not None else "yes")
    return match or _match(name, mapping)


def _match(name: str, mapping: CompiledMapping, *, fixed: str = _ORIGINAL) -> _PatternMatch | None:
    name = name.partition("/")[2] if mapping.shipper else name
    patterns = [(mapping.main_role, pattern) for pattern in mapping.files]
    patterns += list(mapping.companions.items())
    patterns += [(_TRIGGER, mapping.complete_when)] if mapping.complete_when is not None else []
    for role, pattern in patterns:
        values = match_file_name(pattern, name)
        if values is not None:
            return _PatternMatch(mapping, role, tuple(sorted({**values, _FIXED: fixed}.items())))
    return None


def _combined_match(
    matches: list[_PatternMatch], together: dict[tuple[str, ...], CompiledMapping]
) -> list[_PatternMatch]:
    """The match of all these mappings together, if they can share the file; else the matches. `together` keeps the combinations."""
    mappings = {match.mapping.name: match.mapping for match in matches}
    if len(mappings) < 2 or obstacle(mappings.values()):
        return matches
    names = tuple(mappings)
    if names not in together:
        together[names] = combine_mappings(mappings.values())
    return [replace(matches[0], mapping=together[names], role=together[names].main_role)]


def _file_sets(
    mapping: CompiledMapping, own: Mapping[str, _PatternMatch]
) -> Iterator[tuple[Route | None, dict[str, str]]]:
    """The sets of one mapping: a main file with the companions and the trigger that share its placeholders, or the files that wait and
    for which.
    """
    taken: set[str] = set()
    partners = _Partners(own)
    for name, match in own.items():
        if match.role != mapping.main_role:
            continue
        files, trigger, missing = {mapping.main_role: name}, None, []
        waits = mapping.complete_when is not None and not match.is_of_fix_file  # a fix file waits for no trigger
        awaited = [*mapping.companions.items(), *([(_TRIGGER, mapping.complete_when or "")] if waits else [])]
        for role, pattern in awaited:
            partner = partners.take(role, match)  # never one file in two sets
            if partner is None:
                missing.append(_expected_name(pattern, match))
            elif role == _TRIGGER:
                trigger = partner
            else:
                files[role] = partner
        there = [*files.values(), *([trigger] if trigger else [])]
        taken.update(there)
        yield (None if missing else Route(mapping, files, trigger)), {file: missing[0] for file in there if missing}
    for name, match in own.items():
        if name not in taken and match.role != mapping.main_role:
            yield None, {name: _expected_name(mapping.files[0], match)}


class _Partners:
    """The files of one mapping by role and placeholder values. Each is used once."""

    def __init__(self, own: Mapping[str, _PatternMatch]) -> None:
        self._by_role: dict[str, list[tuple[str, dict[str, str]]]] = {}
        for name, match in own.items():
            self._by_role.setdefault(match.role, []).append((name, dict(match.values)))
        self._lines: dict[tuple[str, tuple[str, ...]], defaultdict[tuple[str, ...], deque[str]]] = {}
        self._taken: set[str] = set()

    def take(self, role: str, match: _PatternMatch) -> str | None:
        """The first unused file of a role with the same values in the shared placeholders, or None."""
        mine, there = dict(match.values), self._by_role.get(role, [])
        # a role has one pattern, so one set of placeholders
        shared = tuple(sorted(mine.keys() & there[0][1].keys())) if there else ()
        if (role, shared) not in self._lines:
            lines = self._lines[role, shared] = defaultdict(deque)
            for name, values in there:
                lines[tuple(values[key] for key in shared)].append(name)
        line = self._lines[role, shared][tuple(mine[key] for key in shared)]
        while line:
            name = line.popleft()
            if name not in self._taken:
                self._taken.add(name)
                return name
        return None


def _expected_name(pattern: str, match: _PatternMatch) -> str:
    values = dict(match.values)
    name = PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), pattern)
    stem, dot, ending = name.rpartition(".")
    return f"{stem}.fix.{ending}" if match.is_of_fix_file and dot else name


def _unmapped(name: str, mappings: Sequence[CompiledMapping]) -> Problem:
    patterns = [pattern for mapping in mappings for pattern in (*mapping.files, *mapping.companions.values())]
    bare = "/" not in name and any(
        match_file_name(one.rpartition("/")[2], name) is not None for one in patterns if "/" in one
    )
    hint = "put files that belong together in a folder of the inbox" if bare else "give it a name that a mapping takes"
    return Problem("A101", Where(name), name, {"patterns": ", ".join(nearest(name, patterns)) or "none"}, hint)


def _ambiguous(name: str, matches: Sequence[_PatternMatch]) -> Problem:
    mappings = {match.mapping.name: match.mapping for match in matches}
    hint = f"make the patterns of these mappings exclude each other, or {obstacle(mappings.values())}"
    return Problem("A102", Where(name), name, {"mappings": ", ".join(mappings)}, hint)


# ---- several mappings for one file ----


def obstacle(mappings: Iterable[CompiledMapping]) -> str:
    """What to do so that these mappings can read one file together; empty if they can."""
    mappings = list(mappings)
    if not all(mapping.shared for mapping in mappings):
        return "set source.shared: true in all of them"
    changed = {mapping.changed for mapping in mappings if any(map(update_of, mapping.operations))}
    return "set the same value for changed: in all of them" if len(changed) > 1 else ""


def combine_mappings(mappings: Iterable[CompiledMapping]) -> CompiledMapping:
    """The mapping that reads a file with all of these, which are at least two. The strictest `errors.stop_at` and the smallest
    `batch.max_records` apply to all.
    """
    rank = SENDING_ORDER.index  # parents before children, then by name
    in_order = sorted(mappings, key=lambda mapping: (rank(mapping.operation.name), mapping.name.casefold()))
    parts = tuple(map(_as_part, in_order))
    lineage: Lineage = {}
    for part in parts:
        lineage |= part.lineage
    languages = {part.language for part in parts}
    return replace(
        parts[0],
        name=JOINT.join(part.name for part in parts),
        description=JOINT.join(filter(None, (part.description for part in parts))),
        hash=hashlib.sha256(" ".join(part.hash for part in parts).encode()).hexdigest(),
        operations=tuple(dict.fromkeys(operation for part in parts for operation in part.operations)),
        layouts={MAIN: tuple(layout for part in parts for layout in part.layouts[MAIN])},
        lineage=lineage,
        batch_size=min((part.batch_size for part in parts if part.batch_size is not None), default=None),
        changed="update" if any(part.changed == "update" for part in parts) else "hold",
        notes=tuple(note for part in parts for note in part.notes),
        language=languages.pop() if len(languages) == 1 else "",
        guide={table: guide for part in parts for table, guide in part.guide.items()},
        source=_source(in_order),
        plan=replace(parts[0].plan, tables=tuple(table for part in parts for table in part.plan.tables)),
        parts=parts,
    )


def current_mapping(name: str, mappings: Iterable[CompiledMapping]) -> CompiledMapping | None:
    """The mapping of this name, or the combination of this name; None if one of its parts is missing."""
    names = name.split(JOINT)
    found = {mapping.name: mapping for mapping in mappings if mapping.name in names}
    if len(found) < len(names):
        return None
    return combine_mappings(found.values()) if len(names) > 1 else found[name]


def load_kept(path: Path, assumptions: Assumptions) -> CompiledMapping:
    """The mapping whose files were kept (see `Mapping.source`); `path` is the first of them. Raises MappingError, OSError and ValueError."""
    if path.name != SHARED_LIST:
        return load(path, assumptions)
    return combine_mappings(
        [load(path.parent / main, assumptions) for main in path.read_text(encoding="utf-8").split("\n")]
    )


def _as_part(mapping: CompiledMapping) -> CompiledMapping:
    """The mapping with its name before the names of its tables and the paths of its lineage."""
    own = f"{mapping.name}/"
    tables = tuple(replace(table, name=own + table.name, source=own + table.source) for table in mapping.plan.tables)
    lineage: Lineage = {}
    for path, sources in mapping.lineage.items():
        table, _, column = path[1:].partition(").")  # `(items).weight` names a table, every other path a field
        here = column_path(own + table, column) if path.startswith("(") else own + path
        lineage[here] = tuple(one._replace(table=own + one.table, via=one.via and own + one.via) for one in sources)
    return replace(
        mapping,
        main_role=MAIN,
        layouts={MAIN: tuple(replace(layout, name=own + layout.name) for layout in mapping.layouts[mapping.main_role])},
        lineage=lineage,
        guide={own + table: guide for table, guide in mapping.guide.items()},
        plan=replace(mapping.plan, tables=tables),
    )


def _source(mappings: Sequence[CompiledMapping]) -> dict[str, str]:
    """The files of all mappings, each in a folder of its own, and before them the list of the mappings."""
    if not all(mapping.source for mapping in mappings):
        return {}
    kept = {f"{mapping.name}/{path}": text for mapping in mappings for path, text in mapping.source.items()}
    return {SHARED_LIST: "\n".join(f"{one.name}/{next(iter(one.source))}" for one in mappings), **kept}

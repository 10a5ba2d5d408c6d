"""Several mappings for one file: those with `source.shared: true` whose patterns match it read it together.

They become one mapping with `parts`, so that a file stays one drop with one mapping, planned in one transaction. A part is the mapping
itself, but its tables and the paths of its lineage begin with its name (`acme-orders/rows`). Owns: the order of the parts (parents before
children, then by name), what the combination takes from them, and the copy of it that the ledger keeps.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from loadsheet.contract import SENDING_ORDER, Assumptions, update_of
from loadsheet.mapping.compile import MAIN, Mapping, load
from loadsheet.mapping.documents import JOINT, SHARED_LIST, Lineage, rows_of


def obstacle(mappings: Iterable[Mapping]) -> str:
    """What to do so that these mappings can read one file together; empty if they can."""
    mappings = list(mappings)
    if not all(mapping.shared for mapping in mappings):
        return "set source.shared: true in all of them"
    changed = {mapping.changed for mapping in mappings if any(map(update_of, mapping.operations))}
    return "set the same value for changed: in all of them" if len(changed) > 1 else ""


def combined(mappings: Iterable[Mapping]) -> Mapping:
    """The mapping that reads a file with all of these, which are at least two. The strictest `errors.stop_at` and the smallest
    `batch.max_records` apply to all.
    """
    in_order = sorted(
        mappings, key=lambda mapping: (SENDING_ORDER.index(mapping.operation.name), mapping.name.casefold())
    )
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


def current(name: str, mappings: Iterable[Mapping]) -> Mapping | None:
    """The mapping of this name, or the combination of this name; None if one of its parts is missing."""
    names = name.split(JOINT)
    found = {mapping.name: mapping for mapping in mappings if mapping.name in names}
    if len(found) < len(names):
        return None
    return combined(found.values()) if len(names) > 1 else found[name]


def load_kept(path: Path, assumptions: Assumptions) -> Mapping:
    """The mapping whose files were kept (see `Mapping.source`); `path` is the first of them. Raises MappingError, OSError and ValueError."""
    if path.name != SHARED_LIST:
        return load(path, assumptions)
    return combined([load(path.parent / main, assumptions) for main in path.read_text(encoding="utf-8").split("\n")])


def operations_of(mapping: Mapping) -> str:
    """The operation of a mapping, or those of its parts, as the ledger keeps it."""
    return JOINT.join(dict.fromkeys(part.operation.name for part in mapping.parts or (mapping,)))


def version_of(mapping: Mapping) -> str:
    """The version of a mapping, or those of its parts, as the ledger keeps it."""
    return JOINT.join(str(part.version) for part in mapping.parts or (mapping,))


def part_reading(table: str, mapping: Mapping) -> Mapping:
    """The part of a mapping that reads this table; the mapping itself if it has no parts."""
    return next((part for part in mapping.parts if any(plan.source == table for plan in part.plan.tables)), mapping)


def _as_part(mapping: Mapping) -> Mapping:
    """The mapping with its name before the names of its tables and the paths of its lineage."""
    own = f"{mapping.name}/"
    tables = tuple(replace(table, name=own + table.name, source=own + table.source) for table in mapping.plan.tables)
    lineage = {
        _path(path, own): tuple(
            source._replace(table=own + source.table, via=source.via and own + source.via) for source in sources
        )
        for path, sources in mapping.lineage.items()
    }
    return replace(
        mapping,
        main_role=MAIN,
        layouts={MAIN: tuple(replace(layout, name=own + layout.name) for layout in mapping.layouts[mapping.main_role])},
        lineage=lineage,
        guide={own + table: guide for table, guide in mapping.guide.items()},
        plan=replace(mapping.plan, tables=tables),
    )


def _path(path: str, own: str) -> str:
    """A path of the lineage in a part; `(items).weight` names a table, every other one a field."""
    table, closing, column = path[1:].partition(")") if path.startswith("(") else ("", "", "")
    return f"{rows_of(own + table)}{column}" if closing else own + path


def _source(mappings: Sequence[Mapping]) -> dict[str, str]:
    """The files of all mappings, each in a folder of its own, and before them the list of the mappings."""
    if not all(mapping.source for mapping in mappings):
        return {}
    kept = {f"{mapping.name}/{path}": text for mapping in mappings for path, text in mapping.source.items()}
    mains = [f"{mapping.name}/{next(iter(mapping.source))}" for mapping in mappings]
    return {SHARED_LIST: "\n".join(mains), **kept}

"""The trace of one value: from its cells through the mapping of its run to the payload."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from loadsheet.display_text import count_of
from loadsheet.errors import LoadsheetError
from loadsheet.ledger import Drop, Entry, Ledger
from loadsheet.ledger import Origin as LedgerOrigin
from loadsheet.mapping.compile import CompiledMapping, part_reading, version_of
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.mapping.routing import current_mapping, load_kept
from loadsheet.mapping.yamlfile import write_source
from loadsheet.mapping_tools.value_origins import Origin, explain, fields_named
from loadsheet.places import relative_to_here
from loadsheet.problems import Where
from loadsheet.reading import fold_label
from loadsheet.settings import Settings
from loadsheet.workbook_marks import table_of


def trace_field(ledger: Ledger, entries: Sequence[Entry], field: str, settings: Settings) -> list[dict[str, Any]]:
    """The origin of a field for each entry that has it. Raises click.BadParameter if none has it."""
    details, lacking = [], []
    for entry in entries:
        if entry.removed:
            lacking.append(f"{entry.operation} {entry.key}: its values were removed on {entry.removed[:10]}")
            continue
        if not entry.payload:
            reason = "; ".join(str(problem) for problem in entry.problems) or entry.reason
            lacking.append(f"{entry.operation} {entry.key} has no record: {reason}")
            continue
        try:
            details.append(_field_of_entry(ledger, entry, field, settings))
        except KeyError as unknown:
            lacking.append(f"{entry.operation} {entry.key}: {unknown.args[0]}")
    if lacking and not details:
        raise click.BadParameter("\n".join(lacking))
    return details


def trace_text(details: dict[str, Any]) -> str:
    """The same as lines for people."""
    lines = [f"{details['operation']} {details['key']} ({details['state']}, run {details['run']})"]
    for value in details["values"]:
        lines.append(f"  {value['field']} = {value['value']}")
        if not value["cells"]:
            lines.append("    from     the mapping, not from a cell")
        for cell in value["cells"]:
            lines.append(f'    cell     {cell["place"]} {cell["label"]}: "{cell["text"]}"')
            lines += [f"    {name:<8} {cell[name]}" for name in ("read", "code") if cell[name]]
        if value["cells_in_all"] > len(value["cells"]):
            more = value["cells_in_all"] - len(value["cells"])
            lines.append(f"    and {count_of(more, 'more cell')}")
        if value["leaf"]:
            lines.append(f"    by       {value['leaf_at']} {value['leaf']}")
    lines.append(f"  mapping {details['mapping']} version {details['mapping_version']}, hash {details['mapping_hash']}")
    return "\n".join([*lines, *([f"  {details['note']}"] if details["note"] else [])])


def _field_of_entry(ledger: Ledger, entry: Entry, field: str, settings: Settings) -> dict[str, Any]:
    drop, origin = ledger.queries.drop(entry.drop), ledger.queries.origin(entry.drop)
    with _mapping(ledger, drop, _with_mappings_of_run(ledger, settings)) as (mapping, note, restored):
        return _field_by_mapping(entry, field, drop, origin, _UsedMapping(mapping, note, restored))


class _UsedMapping(NamedTuple):
    """A mapping (None: not available), a note about it, and the folder its paths begin with if it was restored."""

    mapping: CompiledMapping | None
    note: str
    restored: str


def _field_by_mapping(entry: Entry, field: str, drop: Drop, origin: LedgerOrigin, used: _UsedMapping) -> dict[str, Any]:
    mapping = used.mapping
    labels = {(source.table, source.column): [source.label] for found in origin.lineage.values() for source in found}
    if mapping is not None:
        mapping = part_reading(entry.rows[0].table, mapping)
        for table in mapping.plan.tables:
            labels |= {(table.name, column.name): [*column.labels] for column in table.columns}
    columns: dict[str, dict[str, int]] = {name: {} for name in origin.tables}
    for name, source in origin.tables.items():
        for (table_name, column), own in labels.items():
            known = {fold_label(label) for label in own}
            places = [position for position, label in enumerate(source.header) if fold_label(label) in known]
            if table_name == table_of(name) and places:
                columns[name][column] = places[0]

    headers = {name: table.header for name, table in origin.tables.items()}

    def place(name: str, row: int, column: int | None) -> Where:
        return origin.tables[name].where(row, headers[name][column] if column is not None else "")

    origin_of_values = Origin(entry.payload, entry.rows, entry.links, origin.lineage, columns, headers, place)
    values = explain(origin_of_values, fields_named(entry.payload, field), mapping)
    return {
        "operation": entry.operation,
        "key": entry.key,
        "state": entry.state,
        "run": drop.run,
        "mapping": drop.mapping,
        "mapping_version": drop.mapping_version,
        "mapping_hash": drop.mapping_hash,
        "note": used.note,
        "values": [
            {
                "field": found.path,
                "value": found.value,
                "cells": [
                    {
                        "place": str(cell.where),
                        "label": cell.label,
                        "text": cell.text,
                        "read": cell.read,
                        "code": cell.code,
                    }
                    for cell in found.cells
                ],
                "cells_in_all": found.cells_in_all,
                "leaf": found.leaf,
                "leaf_at": found.leaf_at.removeprefix(used.restored),
            }
            for found in values
        ],
    }


def _with_mappings_of_run(ledger: Ledger, settings: Settings) -> Settings:
    """The settings; if they name no folder of mappings and there is none here, with the folder that the latest run used."""
    recorded = ledger.queries.mappings_folder()
    is_default = settings.mappings == Settings.model_fields["mappings"].default
    if not is_default or settings.mappings.is_dir() or not recorded:
        return settings
    if Path(recorded) == settings.mappings.absolute():
        return settings
    return settings.model_copy(update={"mappings": relative_to_here(Path(recorded))})


@contextmanager
def _mapping(ledger: Ledger, drop: Drop, settings: Settings) -> Iterator[tuple[CompiledMapping | None, str, str]]:
    """The mapping with which a drop was read, as the folder of mappings has it or as the ledger kept it; a note if it is not today's; and
    the folder that its paths begin with if it was restored. None if it cannot be loaded, with the reason.
    """
    try:
        loaded = list(load_folder(settings.mappings, settings.assumptions))
        note = ""
    except LoadsheetError as error:
        loaded, note = [], str(error).splitlines()[0]
    same = current_mapping(drop.mapping, loaded)
    for mapping in (*loaded, *([same] if same is not None else [])):
        if mapping.hash == drop.mapping_hash:
            yield mapping, "", ""
            return
    if same is not None:
        changed = " or ".join(str(part.path) for part in same.parts or (same,))
        note = f"{changed} has changed since (now version {version_of(same)}, hash {same.hash[:12]})"
    note = note or f"{settings.mappings} has no mapping {drop.mapping} today"
    with tempfile.TemporaryDirectory(prefix="loadsheet-") as folder:
        try:
            kept = write_source(ledger.queries.mapping_source(drop.mapping_hash), Path(folder))
            mapping = load_kept(kept, settings.assumptions)
        except (LoadsheetError, OSError, ValueError):
            yield None, f"the conversion of cells is not shown: {note}", ""
        else:
            yield mapping, f"this is the mapping of the run: {note}", f"{Path(folder).resolve()}/"

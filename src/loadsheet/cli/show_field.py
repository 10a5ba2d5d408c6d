"""Explains one value of a record for `loadsheet show KEY --field PATH`: cell, conversion, code row, mapping leaf, payload path."""

from collections.abc import Sequence
from typing import Any

import click

from loadsheet.ledger import Drop, Entry, Ledger
from loadsheet.mapping import Mapping, load_folder
from loadsheet.mapping_tools.explain import Explanation, Origin, explain, fields_named
from loadsheet.problems import LoadsheetError, Where
from loadsheet.reading import fold
from loadsheet.settings import Settings


def field_details(ledger: Ledger, entries: Sequence[Entry], field: str, settings: Settings) -> list[dict[str, Any]]:
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
            details.append(_details(ledger, entry, field, settings))
        except KeyError as unknown:
            lacking.append(f"{entry.operation} {entry.key}: {unknown.args[0]}")
    if lacking and not details:
        raise click.BadParameter("\n".join(lacking))
    return details


def field_text(details: dict[str, Any]) -> str:
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
            lines.append(f"    and {value['cells_in_all'] - len(value['cells'])} more cells")
        if value["leaf"]:
            lines.append(f"    by       {value['leaf_at']} {value['leaf']}")
    lines.append(f"  mapping {details['mapping']} version {details['mapping_version']}, hash {details['mapping_hash']}")
    return "\n".join([*lines, *([f"  {details['note']}"] if details["note"] else [])])


def _details(ledger: Ledger, entry: Entry, field: str, settings: Settings) -> dict[str, Any]:
    drop, origin = ledger.queries.drop(entry.drop), ledger.queries.origin(entry.drop)
    mapping, note = _mapping(drop, settings)
    labels = {(source.table, source.column): [source.label] for found in origin.lineage.values() for source in found}
    if mapping is not None:
        for table in mapping.plan.tables:
            labels |= {(table.name, column.name): [column.label, *column.spec.aliases] for column in table.columns}
    columns: dict[str, dict[str, int]] = {name: {} for name in origin.tables}
    for (name, column), own in labels.items():
        known = {fold(label) for label in own}
        header = origin.tables[name].header if name in origin.tables else ()
        places = [position for position, label in enumerate(header) if fold(label) in known]
        if places:
            columns[name][column] = places[0]

    headers = {name: table.header for name, table in origin.tables.items()}

    def place(name: str, row: int, column: int | None) -> Where:
        return origin.tables[name].where(row, headers[name][column] if column is not None else "")

    origin_of_values = Origin(entry.payload, entry.rows, entry.items, origin.lineage, columns, headers, place)
    values = explain(origin_of_values, fields_named(entry.payload, field), mapping)
    return {
        "operation": entry.operation,
        "key": entry.key,
        "state": entry.state,
        "run": drop.run,
        "mapping": drop.mapping,
        "mapping_version": drop.mapping_version,
        "mapping_hash": drop.mapping_hash,
        "note": note,
        "values": [_value(found) for found in values],
    }


def _mapping(drop: Drop, settings: Settings) -> tuple[Mapping | None, str]:
    """The mapping of a drop, if it is unchanged; else None and the reason as text."""
    try:
        loaded = load_folder(settings.mappings, settings.assumptions)
    except LoadsheetError as error:
        return None, f"the conversion of cells is not shown: {str(error).splitlines()[0]}"
    for mapping in loaded:
        if mapping.hash == drop.mapping_hash:
            return mapping, ""
    same = next((mapping for mapping in loaded if mapping.name == drop.mapping), None)
    if same is None:
        return (
            None,
            f"the conversion of cells is not shown: {settings.mappings} no longer has the mapping {drop.mapping}",
        )
    return None, (
        f"the conversion of cells is not shown: {same.path} has changed since "
        f"(now version {same.version}, hash {same.hash[:12]})"
    )


def _value(found: Explanation) -> dict[str, Any]:
    cells = [
        {"place": str(cell.where), "label": cell.label, "text": cell.text, "read": cell.read, "code": cell.code}
        for cell in found.cells
    ]
    return {
        "field": found.path,
        "value": found.value,
        "cells": cells,
        "cells_in_all": found.cells_in_all,
        "leaf": found.leaf,
        "leaf_at": found.leaf_at,
    }

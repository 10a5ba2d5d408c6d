"""What the mappings of a folder have in common: constants such as the sender, and the time zone.

Owns: the values that a draft takes over, so that few places are left to fill in. A mapping that cannot be read is passed over.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadsheet.mapping import mapping_files
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.problems import MappingError


@dataclass(frozen=True, slots=True)
class FolderValues:
    """The values that all mappings of a folder agree on, by the field of the record, each with the number of mappings; and their zone."""

    fields: dict[str, tuple[str, int]] = field(default_factory=dict)
    zone: str = ""
    zones: int = 0


def values_of(folder: Path) -> FolderValues:
    """What the mappings in a folder have in common; nothing if it does not exist."""
    fields: dict[str, list[str]] = defaultdict(list)
    zones: list[str] = []
    for path in mapping_files(folder) if folder.is_dir() else ():
        try:
            values = read_yaml(path).values
        except (MappingError, OSError):
            continue
        if not isinstance(values, dict):
            continue
        source, payload = values.get("source"), values.get("payload")
        if isinstance(source, dict) and isinstance(source.get("timezone"), str):
            zones.append(source["timezone"])
        if isinstance(payload, dict):
            for name, leaf in payload.items():
                if text := _constant(leaf, values.get("constants")):
                    fields[str(name)].append(text)
    common = {name: (texts[0], len(texts)) for name, texts in fields.items() if len(set(texts)) == 1}
    return FolderValues(common, zones[0] if len(set(zones)) == 1 else "", len(zones))


def _constant(leaf: Any, constants: Any) -> str:
    """The text of a leaf that is the same in every record; empty if it is no text."""
    if not isinstance(leaf, dict):
        return ""
    value = leaf.get("value")
    if "const" in leaf:
        value = constants
        for part in str(leaf["const"]).split("."):
            value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""

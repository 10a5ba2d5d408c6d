"""The payload of a draft as lines of YAML, and values as YAML writes them in one line.

Owns: the values that `suggest_payload.py` makes and `yaml_writer.py` prints. Knows no field and no column's meaning.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadsheet.mapping_tools.suggest import DraftColumn


class Line(NamedTuple):
    """A line under `payload:`: how deep, its text, and the remark behind it."""

    depth: int
    text: str
    remark: str = ""


@dataclass(slots=True)
class Payload:
    """The finished payload of a draft: its lines, the constants (None: to fill in) with what they mean, derived values by table, and
    the time zone with what is remarked about it.
    """

    lines: list[Line] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    derived: dict[str, dict[str, str]] = field(default_factory=dict)
    zone: str = ""
    zone_column: DraftColumn | None = None
    zone_remark: str = ""


def scalar(value: Any) -> str:
    """A value as YAML writes it in one line: texts quoted wherever YAML could read them as something else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(str(key))}: {scalar(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(scalar(inner) for inner in value) + "]"
    text = str(value)
    if isinstance(value, int):
        return text
    return (
        text
        if _is_plain(text)
        else '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\t", " ") + '"'
    )


def _is_plain(text: str) -> bool:
    """Whether a text may stand without quotes in a flow mapping."""
    if (
        not text
        or text != text.strip()
        or text.casefold() in {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"}
    ):
        return False
    if not text[0].isalpha() or any(mark in text for mark in ":#,[]{}&*!|>'\"%@`\\\n\t"):
        return False
    return text.isprintable()

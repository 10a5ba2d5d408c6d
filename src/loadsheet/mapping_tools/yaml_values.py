"""Values as YAML on one line, as people write it: without quotes where none are needed."""

import json
from typing import Any


def flow(value: Any) -> str:
    """A value as YAML on one line. Texts are quoted where YAML could read them as another type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(inner) for inner in value) + "]"
    text = str(value)
    if isinstance(value, int) or _is_plain(text):
        return text
    return json.dumps(text.replace("\n", " ").replace("\t", " "), ensure_ascii=False)


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

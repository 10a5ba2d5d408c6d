"""YAML 1.2 as nodes with their places: mapping files, and what is known of an exchange.

libyaml scans and parses. PyYAML's own nodes follow YAML 1.1, in which `no` is a truth value and `1:30` a number, and a deeply nested text
ends the process; so the nodes are made here, from the events of the parser.
"""

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

DEEPEST = 40
"""The number of levels that a text may be nested."""

_PARSER = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
_TAG = "tag:yaml.org,2002:"
_UNTAGGED = (None, "!")
_PLAIN = {  # what an unquoted scalar means, by the core schema of YAML 1.2 (10.3.2); dates and merge keys are told apart to refuse them
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?[0-9_]+|[-+]?0x[0-9a-fA-F_]+",
    "float": r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?\.[0-9_]+(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "timestamp": r"\d{4}-\d\d-\d\d"
    r"|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?",
    "merge": r"<<",
}
_KIND = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PLAIN.items()))
SCALARS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": lambda raw: int(raw.replace("_", ""), 0),
    "float": lambda raw: Decimal(raw.lower().replace("_", "").replace(".inf", "Infinity").replace(".nan", "NaN")),
    "bool": lambda raw: raw.lower() == "true",
    "null": lambda _raw: None,
}
"""The value of a scalar by its kind. Numbers with a decimal point are Decimal. Other kinds have no value."""


class Node(NamedTuple):
    """A part of a YAML text, with its line and column from 1. `kind` is `map` (`value` is a list of pairs of nodes), `seq` (a list of nodes), or for
    a scalar `str`, `int`, `float`, `bool`, `null`, `timestamp`, `merge`, or the tag that it has. Its `value` is then the text.
    """

    kind: str
    value: Any
    line: int
    column: int


class NotYaml(ValueError):
    """A text that is not YAML, with the line and column of the error from 1."""

    def __init__(self, text: str, line: int = 1, column: int = 1) -> None:
        super().__init__(text)
        self.line, self.column = line, column


def compose(text: str) -> Node | None:
    """The node of a text; None if it is empty. An alias is the node that it names. Raises NotYaml, also for several documents, and for more than
    `DEEPEST` levels.
    """
    try:
        documents = _documents(yaml.parse(text, Loader=_PARSER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise NotYaml(str(error.problem or error.context), *place) from None
    except yaml.YAMLError as error:
        raise NotYaml(" ".join(str(error).split())) from None
    if len(documents) > 1:
        raise NotYaml("there are several documents; write one", documents[1].line, documents[1].column)
    return documents[0] if documents else None


def values_of(text: str) -> Any:
    """The values of a YAML text. Raises NotYaml, also for duplicate keys, tags and unquoted dates."""
    node = compose(text)
    return None if node is None else _value(node, 0)


def _documents(events: Iterable[Any]) -> list[Node]:
    documents: list[Node] = []
    inside: list[list[Any]] = [documents]  # the values of the maps and lists around the next node
    anchors: dict[str, Node] = {}
    for event in events:
        if isinstance(event, CollectionEndEvent):
            done = inside.pop()
            if isinstance(event, MappingEndEvent):
                done[:] = zip(done[::2], done[1::2], strict=True)
        elif isinstance(event, NodeEvent):
            node = _node(event, anchors)
            inside[-1].append(node)
            if isinstance(event, CollectionStartEvent):
                inside.append(node.value)
                if len(inside) - 2 > DEEPEST:
                    raise NotYaml(f"nested more than {DEEPEST} levels deep", node.line, node.column)
    return documents


def _node(event: Any, anchors: dict[str, Node]) -> Node:
    """The node that begins with an event; a map or list is still empty."""
    line, column = event.start_mark.line + 1, event.start_mark.column + 1
    if isinstance(event, AliasEvent):
        if event.anchor not in anchors:
            raise NotYaml(f"found undefined alias {event.anchor!r}", line, column)
        return anchors[event.anchor]
    if isinstance(event, ScalarEvent):
        kind = "str" if event.tag or not event.implicit[0] else _kind_of(event.value)
        node = Node(kind if event.tag in _UNTAGGED else event.tag.removeprefix(_TAG), event.value, line, column)
    else:
        node = Node(_kind_of_several(event, line, column), [], line, column)
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node


@lru_cache(maxsize=4096)
def _kind_of(plain: str) -> str:
    """The kind of a scalar without quotes."""
    found = _KIND.fullmatch(plain)
    return "str" if found is None else str(found.lastgroup)


def _kind_of_several(event: Any, line: int, column: int) -> str:
    """The kind of a map or a list. Raises NotYaml for a tag that makes it another value."""
    kind = "map" if isinstance(event, MappingStartEvent) else "seq"
    if event.tag not in (*_UNTAGGED, f"{_TAG}{kind}"):
        raise NotYaml(f"the tag {event.tag} is not known; remove it", line, column)
    return kind


def _value(node: Node, depth: int) -> Any:
    if depth > DEEPEST:
        raise NotYaml(f"nested more than {DEEPEST} levels deep", node.line, node.column)
    if node.kind == "seq":
        return [_value(inner, depth + 1) for inner in node.value]
    if node.kind != "map":
        if node.kind not in SCALARS:
            raise NotYaml(f"this is not a value: {node.value}; write it in quotes", node.line, node.column)
        return SCALARS[node.kind](node.value)
    values: dict[Any, Any] = {}
    for key_node, inner in node.value:
        key = key_node.value if key_node.kind in SCALARS else None
        if key is None or key in values:
            raise NotYaml(f"the key {key_node.value} cannot be used, or is there twice", key_node.line, key_node.column)
        values[key] = _value(inner, depth + 1)
    return values

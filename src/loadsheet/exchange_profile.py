"""How one exchange handles what the interface leaves open: the findings of a probe, and personalities of our own exchange.

Owns: reading and writing `capabilities.yaml`. `loadsheet exchange probe` writes it, the setting `capabilities` names it, and its
assumptions then replace our defaults. Uses no network: the caller passes the findings in.

A personality makes our exchange answer like another one. It is a file of assumptions by name, at the top level or under
`assumptions:`, so `capabilities.yaml` is a personality as well. Files are YAML, or TOML by their suffix, and are read strictly:
duplicate keys and YAML tags are refused.
"""

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from loadsheet.contract import Assumptions, register
from loadsheet.display_text import one_line
from loadsheet.errors import SettingsError
from loadsheet.places import replace_file

Value = str | int
Confidence = Literal["seen", "said", "unknown"]
"""Seen: the effect was observed, or the exchange refused. Said: only its answer claims it. Unknown: not determined."""

_LARGEST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ProbedAnswer:
    """One question and its finding. `assumption` is its name in the register (empty: none); `value` is the value of that assumption,
    None if it could not be determined.
    """

    question: str
    assumption: str = ""
    value: Value | None = None
    sent: str = ""
    came_back: str = ""
    finding: str = ""
    confidence: Confidence = "unknown"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The answers of one exchange. `probed_at` is in UTC."""

    exchange: str
    probed_at: datetime
    loadsheet: str
    answers: tuple[ProbedAnswer, ...]

    @property
    def assumptions(self) -> dict[str, Value]:
        """The values that the probe determined, by the name of their assumption."""
        return {answer.assumption: answer.value for answer in self.answers if answer.value is not None}

    def to_yaml(self) -> str:
        """The text of the file: the assumptions with their questions as comments, then every answer with its evidence."""
        lines = [
            f"# How the exchange at {self.exchange} handles what the interface leaves open.",
            "# Written by `loadsheet exchange probe`. Name this file in the setting `capabilities`: the assumptions below then",
            "# replace the defaults for this exchange. Assumptions in the settings win over them.",
            f"exchange: {_quoted(self.exchange)}",
            f"probed_at: {_quoted(self.probed_at.strftime('%Y-%m-%dT%H:%M:%SZ'))}",
            f"loadsheet: {_quoted(self.loadsheet)}",
            "",
            "assumptions:" if self.assumptions else "assumptions: {}",
        ]
        for answer in self.answers:
            if answer.assumption:
                lines += _assumption_lines(answer)
        lines += ["", "# Requests and answers for each question, for people only.", "answers:"]
        for answer in self.answers:
            lines += _answer_lines(answer)
        return "\n".join(lines) + ("\n" if self.answers else " []\n")


def write_capabilities(path: Path, capabilities: Capabilities) -> None:
    """Write the file atomically. Raises SettingsError if it cannot be written."""
    try:
        replace_file(path, capabilities.to_yaml().encode())
    except OSError as error:
        raise SettingsError(f"{path} cannot be written ({error.strerror})") from error


def assumptions_for(exchange: str, path: Path) -> dict[str, Value]:
    """The assumptions in the file, for the exchange at this base URL.

    Raises SettingsError for a file that cannot be read, that describes another exchange, or that contains an unknown name (with the
    closest known one).
    """
    found = _read(path)
    _refuse_unknown(path, "", found, {field.name for field in fields(Capabilities)} | {"assumptions"})
    probed = found.get("exchange")
    if not isinstance(probed, str) or probed.rstrip("/") != exchange.rstrip("/"):
        raise SettingsError(
            f"capabilities: {path} describes the exchange {probed}, but the setting exchange is {exchange}; probe that"
            " exchange (loadsheet exchange probe), or remove the setting capabilities"
        )
    for place, answer in enumerate(_list(path, found, "answers")):
        _refuse_unknown(path, f"answers[{place}].", answer, {field.name for field in fields(ProbedAnswer)})
    return _assumptions(path, found.get("assumptions"))


def read_personality(path: Path, settings: Assumptions) -> Assumptions:
    """The assumptions of a file, with the others from `settings`. Raises SettingsError like `assumptions_for`."""
    found = _read(path)
    given = _assumptions(path, found.get("assumptions", found))
    return Assumptions.model_validate({**settings.model_dump(), **given})


def deviations(assumptions: Assumptions) -> list[str]:
    """The differences from the defaults of the register, one line each: `create_existing: replace (default: reject)`."""
    return [
        f"{name}: {str(value) or '(empty)'} (default: {str(field.default) or '(empty)'})"
        for name, field in Assumptions.model_fields.items()
        if (value := getattr(assumptions, name)) != field.default
    ]


def _assumptions(path: Path, given: object) -> dict[str, Value]:
    values: dict[str, Value] = dict(_mapping(path, "assumptions", given or {}))
    _refuse_unknown(path, "assumptions.", values, Assumptions.model_fields)
    try:
        Assumptions.model_validate(values)
    except ValidationError as error:
        wrong = [
            f"{path}: assumptions.{details['loc'][0]}: {details['msg']}, got {details['input']!r}"
            for details in error.errors()
        ]
        raise SettingsError("\n".join(wrong)) from None
    return values


def _assumption_lines(answer: ProbedAnswer) -> list[str]:
    sections = {entry.setting: entry.section for entry in reversed(register())}  # the first of a setting counts
    section = sections.get(f"assumptions.{answer.assumption}", "")
    comments = [f"  # {section}: {one_line(answer.question)}", f"  # {answer.confidence}: {one_line(answer.finding)}"]
    if answer.value is None:
        return ["", *comments, f"  # {answer.assumption}: not determined"]
    return ["", *comments, f"  {answer.assumption}: {_quoted(answer.value)}"]


def _answer_lines(answer: ProbedAnswer) -> list[str]:
    named = [(field.name, getattr(answer, field.name)) for field in fields(ProbedAnswer)]
    given = [
        f"{name}: {_quoted(value)}" for name, value in named if value is not None and (value != "" or name == "value")
    ]
    return [f"  - {given[0]}", *(f"    {line}" for line in given[1:])]


def _quoted(value: Value) -> str:
    """A value as JSON, which is valid YAML: a text is never read as another type."""
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


def _read(path: Path) -> Mapping[str, Any]:
    from loadsheet.yaml_nodes import NotYaml, values_of  # loads a library that most commands do not need

    try:
        content = path.read_bytes()
        if len(content) > _LARGEST_BYTES:
            raise SettingsError(f"{path} has {len(content)} bytes; the limit is {_LARGEST_BYTES}")
        text = content.decode("utf-8-sig")
        values = tomllib.loads(text) if path.suffix == ".toml" else values_of(text)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read ({error.strerror}). `loadsheet exchange probe` writes such a file"
        ) from error
    except NotYaml as error:
        raise SettingsError(f"{path} is not YAML: line {error.line}: {error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        form = "TOML" if path.suffix == ".toml" else "YAML"
        raise SettingsError(f"{path} is not {form}: {' '.join(str(error).split())}") from None
    return _mapping(path, "the file", {} if values is None else values)


def _mapping(path: Path, name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{path}: {name} must be a table of names and values")
    return value


def _list(path: Path, holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = holder.get(name) or []
    if not isinstance(value, list):
        raise SettingsError(f"{path}: {name} must be a list")
    return [_mapping(path, f"{name}[{place}]", item) for place, item in enumerate(value)]


def _refuse_unknown(path: Path, prefix: str, found: Mapping[str, Any], known: Iterable[str]) -> None:
    wrong = []
    names = list(known)
    for name in found:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f"; did you mean {prefix}{close[0]}?" if close else ""
            wrong.append(f"{path}: {prefix}{name}: unknown name{hint}")
    if wrong:
        raise SettingsError("\n".join(wrong))

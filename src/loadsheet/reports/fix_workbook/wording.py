"""The texts of a fix workbook in one language, and the wording of a problem for the sender of a file.

`problems.CATALOGUE` words problems for all readers. The catalogues here word them for senders, who know their
columns but neither payload fields nor our commands. A problem without a text here uses `problems.CATALOGUE`. The
catalogues are `texts_en` and `texts_de`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from loadsheet.control_characters import visible
from loadsheet.ledger import ColumnGuide
from loadsheet.problems import CATALOGUE, Problem
from loadsheet.reports.fix_workbook.fix_rows import FixRow, Remark

_NEAR = re.compile(r"did you mean ([^?;]+)\?")
_PATTERN = re.compile(r", (?:like the pattern|nach dem Muster) .*?(?=, (?:blank means|leer bedeutet)|$)")
_NOTHING_MEANT = re.compile(r", (?:blank means|leer bedeutet) ?$")
_ANY_TEXT = ("a text", "ein Text")
_FOR_OPERATORS = re.compile(r"\bloadsheet (?:retry|resolve)\b")


_WHOLE_VALUES = frozenset({"C302", "C306", "C308", "C309", "C311"})
"""Problems whose hint may suggest a value for the whole cell. Hints of other problems concern a part of it."""

_OURS = "ours"
"""The key in `todo` for a value that comes from the mapping, not from a cell."""

_SAID_BETTER = frozenset({"C301", "C306", "C313", "C314", "C315"})
"""Problems for which the catalogue's advice is better than the guide to the column."""


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language. `problems` are templates by code, filled like those of `problems.CATALOGUE`. `todo`
    says what to do, by code, for problems that do not say it. `phrases` pair an English pattern in values and hints with
    its replacement.
    """

    language: str
    what_to_fix: str
    quoted: str
    belongs: str
    errors_title: str
    errors_heads: tuple[str, ...]
    errors_level: Mapping[str, str]
    errors_summary: str
    errors_clears: str
    errors_more: str
    errors_counted: tuple[str, str]
    kinds_counted: tuple[str, str]
    documents_counted: tuple[str, str]
    warnings_counted: tuple[str, str]
    warning: str
    changed_title: str
    changed_intro: str
    changed_some: str
    changed_heads: tuple[str, ...]
    changed_kinds: Mapping[str, str]
    changed_blank: str
    read_title: str
    read_sentences: tuple[str, str, str]
    read_aside: tuple[str, str, str]
    read_facts: tuple[str, str, str]
    read_more: str
    read_held: tuple[str, str]
    takes: str
    required: str
    choose: str
    whole_row: str
    date_format: str
    thousands: str
    problems: Mapping[str, str]
    todo: Mapping[str, str]
    phrases: tuple[tuple[str, str], ...]

    def number(self, count: int) -> str:
        """A count with the thousands separator of this language."""
        return f"{count:,}".replace(",", self.thousands)

    def counted(self, forms: tuple[str, str], count: int) -> str:
        """A count with its noun, singular or plural."""
        return forms[count != 1].format(self.number(count))

    def phrase(self, text: str) -> str:
        """The translation of a phrase; the text itself if no pattern matches."""
        for pattern, instead in self.phrases:
            found = re.fullmatch(pattern, text)
            if found is not None:
                return instead.format(*found.groups(default=""))
        return text


class ProblemText(NamedTuple):
    """A problem in the sender's words: column, what is wrong, what to do, and the suggested value (empty if none)."""

    column: str
    text: str
    todo: str
    suggestion: str


def word_problem(
    problem: Problem, words: Words, titles: Mapping[str, str], guide: ColumnGuide | None = None
) -> ProblemText:
    """Word a problem for its sender. `titles` are the sheets by table; `guide` describes the column."""
    values = {"found": problem.found, "column": problem.where.column}
    english = problem.shown(words.thousands)
    prefix = f"{problem.where.path}: " if problem.where.column else ""
    values |= {name: words.phrase(value.removeprefix(prefix)) for name, value in english.items()}
    if problem.where.column:
        values["path"] = values["target"] = problem.where.column
    values["table"] = titles.get(values.get("table", ""), values.get("table", ""))
    template = words.problems.get(problem.code, CATALOGUE[problem.code].template)
    text = template.format_map(_Lenient(values))
    near = _NEAR.search(problem.hint) if problem.code in _WHOLE_VALUES else None
    suggestion = near[1].strip('"') if near else ""
    if suggestion.islower() and problem.found[:1].isupper():  # country names are stored in lower case
        suggestion = suggestion.title()
    return ProblemText(values["column"], _sentence(text), _sentence(_todo(problem, words, values, guide)), suggestion)


def line_of(text: str, todo: str) -> str:
    """What is wrong and what to do, in one line."""
    return f"{text.rstrip('.')}. {todo}" if todo else text


def lines_of(row: FixRow, words: Words) -> list[str]:
    """The texts about a row without repeats. Each names its columns unless the text does, or says that the row is fine."""
    columns: dict[Remark, list[str]] = {}
    for remark in row.remarks:
        unplaced = remark._replace(position=None, column="", code="")
        columns.setdefault(unplaced, [])
        if remark.column not in (*columns[unplaced], "") and remark.column not in remark.text:
            columns[unplaced].append(remark.column)
    lines = []
    for remark, named in columns.items():
        warning = f"{words.warning}: " if remark.level == "warning" else ""
        place = f"{', '.join(named)}: " if named else ""
        lines.append(f"{warning}{place}{line_of(remark.text, remark.todo)}")
    return lines if row.is_wrong else [*lines, words.belongs.format(key=row.key)]


def takes_of(guide: ColumnGuide) -> str:
    """What a column accepts, without patterns meant for programs. Empty if it accepts any text."""
    takes = _NOTHING_MEANT.sub("", _PATTERN.sub("", guide.takes))
    return "" if takes in _ANY_TEXT else takes


def _todo(problem: Problem, words: Words, values: Mapping[str, str], guide: ColumnGuide | None) -> str:
    hint = problem.hint if not _FOR_OPERATORS.search(problem.hint) else ""
    if hint:
        return "; ".join(words.phrase(part) for part in hint.split("; "))
    if guide is not None and takes_of(guide) and problem.code[0] in "CK" and problem.code not in _SAID_BETTER:
        return words.takes.format(takes=takes_of(guide))
    is_ours = problem.code[0] in "KX" and problem.where.path and not problem.where.column
    return words.todo.get(_OURS if is_ours else problem.code, "").format_map(_Lenient(values))


def _sentence(text: str) -> str:
    return visible(text[:1].upper() + text[1:])


class _Lenient(dict[str, str]):
    """Values for a template; a value missing in an old ledger is empty."""

    def __missing__(self, name: str) -> str:
        return ""

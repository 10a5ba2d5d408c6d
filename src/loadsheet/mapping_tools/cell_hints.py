"""What single cells of a column show: several values in one, values that may stand for blank, lost zeros, states of rows to leave out.

Owns: how cells such as `01067 Dresden` or `Kade 8, 9711 LM Groningen` are recognised, and the columns that read their parts; a part is found
by a pattern of the mapping language. Everything else here changes no draft: it is offered in comments marked CHECK.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from loadsheet.mapping_tools.column_types import times_in
from loadsheet.mapping_tools.columns import CHECK, Column, Guess, enough, renamed, some
from loadsheet.mapping_tools.drafts import flow
from loadsheet.mapping_tools.headings import SIDES, words_of
from loadsheet.mapping_tools.sheet_profiles import Sheet
from loadsheet.mapping_tools.target_choice import CANCELLED

# ---- several values in one cell ----

_ZIP = r"(?:[A-Z]{1,2}-)?[0-9]{4,5}(?: ?[A-Z]{2})?|[0-9]{3} [0-9]{2}|[0-9]{2}-[0-9]{3}"
_TIME = r"[0-9]{1,2}(?:[:.h][0-9]{2})?"
_LAYOUTS = (
    (frozenset({"postal", "city"}), rf"(?P<postal>{_ZIP})[ ,]+(?P<city>[^0-9].*)"),
    (frozenset({"postal", "city"}), rf"(?P<city>[^0-9]+?),? +(?P<postal>{_ZIP})"),
    *((frozenset({town}), rf"(?P<postal>{_ZIP})[ ,]+(?P<city>[^0-9].*)") for town in ("place", "city")),
    (frozenset({"address"}), rf"(?P<address>.+?), *(?P<postal>{_ZIP}) +(?P<city>[^0-9,]+)"),
    (frozenset({"moment"}), rf"[^0-9]*(?P<early>{_TIME})h?[^0-9:.h]+(?P<late>{_TIME})[^0-9]*"),
)
"""The concepts that a heading must have, and the pattern of the cells, with a group for the concept of each part."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The columns of the parts of a column, by the names of their groups in its pattern."""

    whole: Column
    pattern: str
    columns: Mapping[str, Column]

    @property
    def example(self) -> str:
        """The first cell that has the parts, for messages about cells that have not."""
        return next(text for text in self.whole.cells.texts if re.fullmatch(self.pattern, text))

    def split(self, names: Mapping[str, str]) -> str:
        """The pattern for `split` with groups of these names; the other parts have no name."""
        found = self.pattern
        for concept in self.columns:
            found = found.replace(f"?P<{concept}>", f"?P<{names[concept]}>" if concept in names else "?:")
        return found


def with_parts(sheet: Sheet) -> tuple[Sheet, list[Parts]]:
    """The sheet with columns for the parts of its cells, beside the whole ones; unchanged if no cell has parts."""
    found: list[Parts] = []
    columns: list[Column] = []
    for column in sheet.columns:
        if parts := _parts(column):
            found.append(parts)
            columns += [parts.whole, *parts.columns.values()]
        else:
            columns.append(column)
    return replace(sheet, columns=tuple(columns)), found


def _parts(column: Column) -> Parts | None:
    if column.guess.type != "text" or column.cells.kinds:
        return None
    for concepts, pattern in _LAYOUTS:
        matches = (
            {text: re.fullmatch(pattern, text) for text in column.cells.texts} if concepts <= column.concepts else {}
        )
        read = sum(column.cells.texts[text] for text, match in matches.items() if match)
        if enough(read, column.filled) and len(matches) > 1:
            evidence = f"in {read} of {column.filled} values"
            return Parts(_unnamed(column), pattern, dict(_columns(column, matches, evidence)))
    return None


def _unnamed(column: Column) -> Column:
    """The whole column, which fills no field itself."""
    return replace(column, reading=replace(column.reading, concepts=frozenset({"unused"})))


def _columns(
    column: Column, matches: Mapping[str, re.Match[str] | None], evidence: str
) -> Iterator[tuple[str, Column]]:
    first = next(match for match in matches.values() if match)
    for number, concept in enumerate(first.groupdict(), start=1):
        values = [(match[concept] if (match := matches[value.strip()]) else "") for value in column.cells.values]
        cells = renamed(column.cells, values)
        reading = replace(column.reading, concepts=(column.concepts & (SIDES | {"moment"})) | {concept}, unknown=())
        times = times_in(cells, "%H:%M", "%H.%M", "%Hh%M", "%H") if concept in {"early", "late"} else None
        guess = times or Guess("text", {}, "")
        guess = guess._replace(evidence=f"part {number} of the cell, {evidence}")
        yield concept, Column(f"{column.label} {concept}", column.position, reading, "", cells, guess)


# ---- observations for the author ----

_FOR_BLANK = re.compile(r"([xX*?._\-])\1+|[-?.*]|none|unknown|tbd|tba", re.IGNORECASE)
_STATES_MOST = 12  # different values
_LEFT_OUT = CANCELLED | {"fraud", "refunded", "void", "voided", "failed", "betrug", "fraude", "frode"}
_ZEROS_MOST = 2  # digits that a postal code may have lost, where others may be of other countries


def offers(sheet: Sheet, column: Column, name: str) -> Iterator[str]:
    """Comments for a column of this name in the draft."""
    for_blank = [text for text in column.cells.shown if _FOR_BLANK.fullmatch(text)]
    if for_blank and column.guess.type == "text":
        yield f"{CHECK} whether {some(for_blank)} means blank: blank: {flow(for_blank)}"
    if "postal" in column.concepts and (lost := _lost_zeros(sheet, column)):
        yield lost
    states = list(column.cells.shown)
    if "status" in column.concepts and column.guess.type == "text" and len(states) <= _STATES_MOST:
        yield from _of_states(states, name)


def _lost_zeros(sheet: Sheet, column: Column) -> str:
    """The offer to pad postal codes that are shorter than the others; empty if they may be those of another country."""
    codes = list(column.cells.shown)
    longest = max(map(len, codes), default=0)
    short = [text for text in codes if len(text) < longest]
    countries = {text for other in sheet.columns if "country" in other.concepts for text in other.cells.shown}
    least = longest - (_ZEROS_MOST if len(countries) > 1 else 1)
    if not short or not all(text.isdecimal() for text in codes) or min(map(len, short)) > least:
        return ""
    return f"{CHECK} whether {some(short)} lost zeros, others have {longest} digits: pad_left: {{to: {longest}}}"


def _of_states(states: list[str], name: str) -> Iterator[str]:
    """The offer to ignore rows with some of these states, if not all are alike."""
    out = [text for text in states if _LEFT_OUT & set(words_of(text))]
    if out and len(out) < len(states):
        texts = ", ".join(f'"{text}"' for text in out)
        rule = f"{name} == {texts}" if len(out) == 1 else f"{name} in [{texts}]"
        yield f"{CHECK} whether rows with {some(out)} are to be left out: ignore_rows: '{rule}'"

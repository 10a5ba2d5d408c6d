"""What single cells of a column suggest to the author: values that may stand for blank, lost zeros, states of rows to leave out.

Owns: these observations and the keys that are offered for them. Nothing here changes a draft: each is a comment marked CHECK.
"""

import re
from collections.abc import Iterator

from loadsheet.mapping_tools.columns import CHECK, Column, some
from loadsheet.mapping_tools.sheet_profiles import Sheet
from loadsheet.mapping_tools.target_choice import CANCELLED
from loadsheet.mapping_tools.vocabulary import words_of
from loadsheet.mapping_tools.yaml_values import flow

_FOR_BLANK = re.compile(r"([xX*?._\-])\1+|[-?.*]|n/a|n\.a\.|null|none|unknown|tbd|tba", re.IGNORECASE)
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

"""Texts: trimmed, composed, padded, measured, matched, looked up in lists and code tables, and split.

`docs/mapping/columns.md` states the order of these steps. Two steps wait until the whole row is read: padding with a condition, and code
tables with several keys. Knows no row, no number and no date.

"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loadsheet.mapping.lookups import Lookup, folded
from loadsheet.mapping.patterns import PatternError, describe_pattern, matcher
from loadsheet.mapping.plans import CONSEQUENCE, CellProblem, Finish, SettingError, Type, ValueWithWarning
from loadsheet.mapping.schema import Column
from loadsheet.mapping.words import did_you_mean_value, some
from loadsheet.reading.tables import Native

_INVISIBLE = "\N{ZERO WIDTH SPACE}\N{ZERO WIDTH NO-BREAK SPACE}"
_Parse = Callable[[str], Any]


# ---- texts ----


def bare(cell: str) -> str:
    """A cell without surrounding white space and invisible characters."""
    return cell.strip().strip(_INVISIBLE)


def takes_any(spec: Column, lookup: Lookup | None) -> bool:
    """Whether a text column accepts any text unchanged."""
    changes = (spec.case, spec.pad_left, spec.one_of, spec.pattern, spec.split, spec.min_length, spec.max_length)
    return lookup is None and not spec.lookup_with and not any(changes)


def text_reader(spec: Column, lookup: Lookup | None) -> _Parse:
    """A function from a cell that is not blank to its text. Steps that need the row are left to `finish_by_row`."""
    start = _start(spec)
    if spec.lookup_with or (spec.pad_left is not None and spec.pad_left.when is not None):
        return start  # the row finishes it
    finish = _in_turn([*_checks(spec), *_codes(spec, lookup), *_matching("split", spec.split, spec.example)])
    if spec.pad_left is not None:
        to, letter = spec.pad_left.to, spec.pad_left.with_
        return lambda cell: finish(start(cell).rjust(to, letter))
    return lambda cell: finish(start(cell))


def finish_by_row(spec: Column, lookup: Lookup | None) -> Finish | None:
    """The steps that need the whole row, or None. Raises SettingError."""
    pad = spec.pad_left
    if lookup is not None and spec.lookup_with:
        check, always = _in_turn(_checks(spec)), pad if pad is not None and pad.when is None else None
        find = _found_with(lookup)

        def finish(text: str, others: Sequence[Any]) -> Any:
            value = check(text if always is None else text.rjust(always.to, always.with_))
            if isinstance(value, CellProblem):
                return value
            return find(value.value if isinstance(value, ValueWithWarning) else value, others)

    elif pad is None or pad.when is None:
        return None
    else:
        alone = _in_turn([*_checks(spec), *_codes(spec, lookup)])

        def finish(text: str, others: Sequence[Any]) -> Any:  # noqa: ARG001 (there are none)
            return alone(text)

    searched = lookup.range.type if lookup is not None and lookup.range is not None else None
    if pad is None or pad.when is None:
        return Finish(finish, tuple(spec.lookup_with), searched=searched)
    return Finish(finish, tuple(spec.lookup_with), pad.when, pad.to, pad.with_, searched)


def before_row(spec: Column, searched: Type | None) -> Finish:
    """The steps that are left when the whole row is read, before a row of another table is found for the value. Raises SettingError."""
    pad = spec.pad_left
    if spec.type != "text" or not (spec.lookup_with or (pad is not None and pad.when is not None)):
        return Finish(lambda value, _: value, tuple(spec.lookup_with), searched=searched)
    check, always = _in_turn(_checks(spec)), pad if pad is not None and pad.when is None else None

    def finish(text: str, others: Sequence[Any]) -> Any:  # noqa: ARG001 (they are keys)
        return check(text if always is None else text.rjust(always.to, always.with_))

    if pad is None or pad.when is None:
        return Finish(finish, tuple(spec.lookup_with), searched=searched)
    return Finish(finish, tuple(spec.lookup_with), pad.when, pad.to, pad.with_, searched)


def before_codes(spec: Column, *, padded: bool) -> Callable[[str], str | None]:
    """A function from a text to the text used for the code lookup; None if an earlier step refuses it. Raises SettingError."""
    start, check, pad = _start(spec), _in_turn(_checks(spec)), spec.pad_left if padded else None

    def read(text: str) -> str | None:
        text = start(bare(text))
        value = check(text if pad is None else text.rjust(pad.to, pad.with_))
        return None if isinstance(value, CellProblem) else value.value if isinstance(value, ValueWithWarning) else value

    return read


def part_reader(name: str, convert: _Parse, whole: _Parse, split: str) -> _Parse:
    """The converter of a part: the named group of `split` in the value that `whole` gives for the cell."""
    match = matcher(split)

    def read(cell: str) -> Any:
        value = whole(cell)
        if isinstance(value, CellProblem):
            return CONSEQUENCE
        found = match((value.value if isinstance(value, ValueWithWarning) else value) or "")
        return convert("" if found is None else found[name] or "")

    return read


def _start(spec: Column) -> Callable[[str], str]:
    changes: dict[str | None, Callable[[str], str]] = {"upper": str.upper, "lower": str.lower, None: str}
    change = changes[spec.case]

    def start(cell: str) -> str:
        text = cell.shown.strip() if isinstance(cell, Native) else cell
        return change(text if text.isascii() else unicodedata.normalize("NFC", text))

    return start


def _in_turn(steps: Sequence[_Parse]) -> _Parse:
    """The steps in order, until one refuses. A warning is kept."""
    if not steps:
        return str
    if len(steps) == 1:
        return steps[0]

    def finish(text: str) -> Any:
        value: Any = text
        warning: CellProblem | None = None
        for step in steps:
            value = step(value)
            if isinstance(value, CellProblem):
                return value
            if isinstance(value, ValueWithWarning):
                value, warning = value
            if value is None:  # a code without a meaning
                break
        return value if warning is None else ValueWithWarning(value, warning)

    return finish


def _checks(spec: Column) -> list[_Parse]:
    return [*_length(spec), *_matching("pattern", spec.pattern, spec.example)]


def _length(spec: Column) -> list[_Parse]:
    least, most = spec.min_length or 0, spec.max_length
    if not least and most is None:
        return []
    cut = spec.on_too_long == "cut_and_warn"

    def check(text: str) -> Any:
        if len(text) < least:
            return CellProblem("C305", {"expected": f"at least {least} characters"})
        if most is None or len(text) <= most:
            return text
        values = {"length": len(text), "expected": most}
        if cut:
            return ValueWithWarning(
                text[:most].rstrip(), CellProblem("C312", values, f"cut to {most} characters", "warning")
            )
        return CellProblem("C312", values)

    return [check]


def _matching(key: str, pattern: str | None, example: object) -> list[_Parse]:
    if pattern is None:
        return []
    try:
        match = matcher(pattern)
    except PatternError as error:
        raise SettingError(key, f"{key}: {error}") from None
    problem = CellProblem("C313", hint=describe_pattern(pattern, example))
    return [lambda text: problem if match(text) is None else text]


def _codes(spec: Column, lookup: Lookup | None) -> list[_Parse]:
    if lookup is not None:
        find = _found_with(lookup)
        return [lambda text: find(text, ())]
    if spec.one_of is None:
        return []
    meanings = spec.one_of if isinstance(spec.one_of, dict) else {word: word for word in spec.one_of}
    by_key = _by_key(meanings, ignore_case=spec.ignore_case)
    problem = CellProblem("C306", {"expected": some(meanings)})

    def choose(text: str) -> Any:
        meaning = by_key.get(folded(text, ignore_case=spec.ignore_case))
        return problem._replace(hint=did_you_mean_value(text, meanings)) if meaning is None else meaning

    return [choose]


def _by_key(meanings: Mapping[str, str], *, ignore_case: bool) -> dict[str, str]:
    """The meanings by folded code. Raises SettingError for two codes that fold to the same text but differ in meaning."""
    first: dict[str, str] = {}
    for word, meaning in meanings.items():
        known = first.setdefault(folded(word, ignore_case=ignore_case), word)
        if meanings[known] != meaning:
            values = f"{known} and {word} are the same code here but mean {meanings[known]} and {meaning}"
            hint = "ignore_case: true ignores capitals" if ignore_case else "remove one of them"
            raise SettingError("one_of", values, hint)
    return {key: meanings[word] for key, word in first.items()}


def _found_with(lookup: Lookup) -> Callable[[str, Sequence[Any]], Any]:
    """The values of a code table for a text and the further keys, or the result of its `missing` rule."""

    def look_up(text: str, others: Sequence[Any]) -> Any:
        found = lookup.find(text, *others)
        if found is not None:
            return found if lookup.many else found[0]
        return lookup.missed(text, others)

    return look_up

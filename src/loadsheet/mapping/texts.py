"""Texts: trimmed, composed, padded, measured, matched, looked up in lists and code tables, and split.

`docs/mapping/columns.md` states the order of these steps. Two steps wait until the whole row is read: padding with a condition, and code
tables with several keys. Contradictory settings are refused at load. Knows no row, no number and no date.

Owns RE2, which matches the patterns of mapping files (`pattern`, `split`, `$matches`, `$replace`) in time linear in the text. It has no
look-around and no back references, so these are refused at load. Messages never show a pattern, only the names of its parts and an
example. A pattern that Python's parser cannot read has no example.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from re import _compiler as compiler  # type: ignore[attr-defined]  # missing in typeshed
from re import _constants as ops  # type: ignore[attr-defined]  # missing in typeshed
from re import _parser as parser  # type: ignore[attr-defined]  # as above
from typing import Any

import re2  # type: ignore[import-untyped]  # it ships no types

from loadsheet.mapping.lookups import Lookup, lookup_key
from loadsheet.mapping.plans import (
    CONSEQUENCE,
    CellProblem,
    ColumnPlan,
    Convert,
    Incalculable,
    RowStep,
    SettingError,
    TableLookup,
    Type,
    ValueWithWarning,
)
from loadsheet.mapping.schema import Column, Pad
from loadsheet.mapping.yamlfile import Loc, YamlFile
from loadsheet.reading.tables import Native, as_typed
from loadsheet.similar_text import did_you_mean, did_you_mean_value, short_list

_KEPT_AS_TEXT = re.compile(
    r"'(?:(?=(?:[^0-9]*[0-9]){3})[0-9+][0-9 ()./+\-]*|[A-Z]{1,2}-?[0-9][0-9A-Z]*(?:[ -][0-9][0-9A-Z]*)*)"
)
_AS_FORMULA = re.compile(r'="([^"]*)"')
_BEFORE_A_VALUE = re.compile(r"'(?=[+-]?[.,]?[0-9])")
_SCIENTIFIC = re.compile(r"[0-9](?:[.,][0-9]+)?E\+[0-9]{1,3}", re.IGNORECASE)
_DIGITS_LOST = CellProblem("C322", hint="enter the whole number, in a cell formatted as text")
_INVISIBLE = "\N{ZERO WIDTH SPACE}\N{ZERO WIDTH NO-BREAK SPACE}"
_Parse = Callable[[str], Any]


# ---- texts ----


def stripped_cell(cell: str) -> str:
    """A cell without surrounding white space, invisible characters, and the marks by which programs keep codes as text (`'02108`, `="02108"`)."""
    text = cell.strip().strip(_INVISIBLE).strip()
    if text[:1] == "=" and (kept := _AS_FORMULA.fullmatch(text)):
        text = kept[1].strip()
    if not as_typed(text):
        return ""
    return text[1:] if text[:1] == "'" and _KEPT_AS_TEXT.fullmatch(text) else text


def of_an_identifier(convert: Convert) -> Convert:
    """The conversion of a text that names a record: it refuses a number that lost its digits."""

    def converted(cell: str) -> Any:
        return _DIGITS_LOST if "+" in cell and _SCIENTIFIC.fullmatch(stripped_cell(cell)) else convert(cell)

    return converted


def without_apostrophe(text: str) -> str:
    """A number, a date or a time without the apostrophe by which programs keep it as text (`'12`)."""
    return text[1:] if _BEFORE_A_VALUE.match(text) else text


def text_parser(spec: Column, lookup: Lookup | None) -> _Parse:
    """A function from a cell that is not blank to its text. Steps that need the row are left to `row_step_of`."""
    start = _cleaner(spec)
    if spec.lookup_with or _waits_to_pad(spec):
        return start  # `row_step_of` has the rest
    rest = _chained([*_checks(spec), *_codes(spec, lookup), *_matching("split", spec.split, spec.example)])
    return lambda cell: rest(start(cell))


def row_step_of(spec: Column, lookup: Lookup | None) -> RowStep | None:
    """The part of a conversion that needs other cells of the row, or None. Raises SettingError."""
    searched = lookup.searched if lookup is not None else None
    if lookup is not None and spec.lookup_with:
        check, find = _chained(_checks(spec)), lookup.value_of

        def look_up(text: str, others: Sequence[Any]) -> Any:
            value = check(text)
            if isinstance(value, CellProblem):
                return value
            return find(value.value if isinstance(value, ValueWithWarning) else value, others)

        return _padded_first(spec, look_up, searched)
    if _waits_to_pad(spec):
        alone = _chained([*_checks(spec), *_codes(spec, lookup)])
        return _padded_first(spec, lambda text, _: alone(text), searched)
    return None


def before_row(spec: Column, searched: Type | None) -> RowStep:
    """The steps that are left when the whole row is read, before a row of another table is found for the value. Raises SettingError."""
    if spec.type != "text" or not (spec.lookup_with or _waits_to_pad(spec)):
        return RowStep(lambda value, _: value, tuple(spec.lookup_with), searched=searched)
    check = _chained(_checks(spec))
    return _padded_first(spec, lambda text, _: check(text), searched)


def _padded_first(spec: Column, apply: Callable[[str, Sequence[Any]], Any], searched: Type | None) -> RowStep:
    """This step, after the padding that has a condition."""
    pad, others = spec.pad_left, tuple(spec.lookup_with)
    if pad is None or pad.when is None:
        return RowStep(apply, others, searched=searched)
    return RowStep(apply, others, pad.when, pad.to, pad.with_, searched)


def _waits_to_pad(spec: Column) -> bool:
    """Whether the padding has a condition on the row."""
    return spec.pad_left is not None and spec.pad_left.when is not None


def _cleaner(spec: Column) -> Callable[[str], str]:
    changes: dict[str | None, Callable[[str], str]] = {"upper": str.upper, "lower": str.lower, None: str}
    change = changes[spec.case]

    def start(cell: str) -> str:
        text = cell.without_currency.strip() if isinstance(cell, Native) else cell
        return change(text if text.isascii() else unicodedata.normalize("NFC", as_typed(text)))

    return start


def _chained(steps: Sequence[_Parse]) -> _Parse:
    """The steps in order, until one refuses. A warning is kept."""
    if not steps:
        return str
    if len(steps) == 1:
        return steps[0]

    def chained(text: str) -> Any:
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

    return chained


def _checks(spec: Column) -> list[_Parse]:
    """Padding without a condition, length and pattern."""
    pads = [] if spec.pad_left is None or _waits_to_pad(spec) else [_padded(spec.pad_left)]
    return [*pads, *_length(spec), *_matching("pattern", spec.pattern, spec.example)]


def _padded(pad: Pad) -> Callable[[str], str]:
    return lambda text: text.rjust(pad.to, pad.with_)


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
            warning = CellProblem("C312", values, f"cut to {most} characters", "warning")
            return ValueWithWarning(text[:most].rstrip(), warning)
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
        return [lookup.value_of]
    return [choice_parser(spec)] if spec.one_of is not None else []


def choice_parser(spec: Column) -> _Parse:
    """A function from a text in `one_of` to its meaning; C306 for others. Raises SettingError for two codes that fold to the same text."""
    words = spec.one_of or ()
    meanings = words if isinstance(words, dict) else {word: word for word in words}
    by_key = _by_key(meanings, ignore_case=spec.ignore_case)
    problem = CellProblem("C306", {"expected": short_list(meanings)})

    def choose(text: str) -> Any:
        meaning = by_key.get(lookup_key(text, ignore_case=spec.ignore_case))
        return problem._replace(hint=did_you_mean_value(text, meanings)) if meaning is None else meaning

    return choose


def _by_key(meanings: Mapping[str, str], *, ignore_case: bool) -> dict[str, str]:
    """The meanings by folded code. Raises SettingError for two codes that fold to the same text but differ in meaning."""
    first: dict[str, str] = {}
    for word, meaning in meanings.items():
        known = first.setdefault(lookup_key(word, ignore_case=ignore_case), word)
        if meanings[known] != meaning:
            values = f"{known} and {word} are the same code here but mean {meanings[known]} and {meaning}"
            hint = "ignore_case: true ignores capitals" if ignore_case else "remove one of them"
            raise SettingError("one_of", values, hint)
    return {key: meanings[word] for key, word in first.items()}


# ---- settings that contradict each other ----


def text_contradictions(spec: Column, lookup: Lookup | TableLookup | None) -> Iterator[SettingError]:
    """Settings of a text column that contradict each other, with what to do."""
    yield from _code_contradictions(spec)
    yield from _split_contradictions(spec, lookup)
    yield from _length_contradictions(spec)


def _code_contradictions(spec: Column) -> Iterator[SettingError]:
    if spec.one_of is not None and spec.lookup is not None:
        yield SettingError("one_of", "one_of and lookup cannot be combined", "keep one of them")
    if spec.ignore_case and spec.one_of is None:
        hint = (
            f"set it under lookups: {spec.lookup}" if spec.lookup else "it compares the cell with the codes of one_of"
        )
        yield SettingError("ignore_case", "ignore_case needs one_of", hint)
    try:
        dead = [] if spec.one_of is None or spec.lookup is not None else _unreachable(spec)
    except SettingError:
        return  # reported where the column is compiled
    if dead:
        steps = [key for key in ("case", "pad_left", "min_length", "max_length", "pattern") if getattr(spec, key)]
        yield SettingError(
            "one_of", f"no cell can match {short_list(dead)} after {' and '.join(steps)}", "change the codes"
        )


def _unreachable(spec: Column) -> list[str]:
    """The codes of `one_of` that no cell can match, because earlier steps change the code itself."""
    ways = [_before_codes(spec, pad) for pad in ((None, spec.pad_left) if _waits_to_pad(spec) else (None,))]
    texts = {code: {way(code) for way in ways} for code in spec.one_of or ()}
    same = {code: lookup_key(code, ignore_case=spec.ignore_case) for code in texts}
    return [
        code
        for code, found in texts.items()
        if not any(lookup_key(text, ignore_case=spec.ignore_case) == same[code] for text in found if text is not None)
    ]


def _before_codes(spec: Column, pad: Pad | None) -> Callable[[str], str | None]:
    """A function from a text to the text used for the code lookup, padded by `pad` first; None if a step refuses it. Raises SettingError."""
    start, check = _cleaner(spec), _chained([*([_padded(pad)] if pad is not None else []), *_checks(spec)])

    def read(text: str) -> str | None:
        value = check(start(stripped_cell(text)))
        return None if isinstance(value, CellProblem) else value.value if isinstance(value, ValueWithWarning) else value

    return read


def _split_contradictions(spec: Column, lookup: Lookup | TableLookup | None) -> Iterator[SettingError]:
    if spec.split is None:
        return
    if isinstance(lookup, TableLookup) or (lookup is not None and lookup.has_named_values):
        yield SettingError(
            "split", f"lookup {spec.lookup} gives several values, but split needs one text", "name one value"
        )
    if spec.lookup_with:
        yield SettingError(
            "split", "split cannot be combined with lookup_with: the parts are needed before the row is complete"
        )
    if spec.pad_left is not None and spec.pad_left.when is not None:
        yield SettingError("split", "split cannot be combined with pad_left.when", "pad the part instead")
    if spec.part_of is not None:
        yield SettingError("split", "a part of a split cannot be split again", f"name all parts at {spec.part_of}")


def _length_contradictions(spec: Column) -> Iterator[SettingError]:
    if spec.on_too_long != "error" and spec.max_length is None:
        yield SettingError("on_too_long", "on_too_long needs max_length")
    if spec.pad_left is not None and spec.max_length is not None and spec.pad_left.to > spec.max_length:
        message = f"pad_left pads to {spec.pad_left.to} characters, but max_length is {spec.max_length}"
        yield SettingError("max_length", message, "no value fits")


# ---- parts of a split column ----


def bind_parts(columns: Sequence[ColumnPlan], file: YamlFile, loc: Loc) -> list[ColumnPlan]:
    """The columns; a part of a split column is bound to that column."""
    by_name = {column.name: column for column in columns}
    found = []
    for column in columns:
        part_of = column.spec.part_of
        whole = by_name.get(part_of or "")
        if part_of is not None and whole is not None and column.name in _parts_of(whole):
            convert = _part_parser(column.name, column.convert, whole.convert, whole.spec.split or "")
            found.append(replace(column, convert=convert, cells=whole.cells, heading=whole.label))
            continue
        found.append(column)
        if part_of is None:
            continue
        if whole is None or whole.spec.split is None:
            splits = [name for name, other in by_name.items() if other.spec.split is not None]
            hint = did_you_mean(part_of, splits) or f"columns with split: {short_list(splits) or 'none'}"
            file.refuse((*loc, column.name, "part_of"), f'"{part_of}" is not a column with a split', hint)
        else:
            names, text = _parts_of(whole), f'the split of {whole.name} has no part "{column.name}"'
            hint = f"name the column as one of {short_list(names)}" if names else "name the parts: (?P<name>...)"
            file.refuse((*loc, column.name), text, hint, at_key=True)
    return found


def _parts_of(whole: ColumnPlan) -> tuple[str, ...]:
    return group_names(whole.spec.split) if whole.spec.split is not None else ()


def _part_parser(name: str, convert: _Parse, whole: _Parse, split: str) -> _Parse:
    """The converter of a part: the named group of `split` in the value that `whole` gives for the cell."""
    match = matcher(split)

    def read(cell: str) -> Any:
        value = whole(cell)
        if isinstance(value, CellProblem):
            return CONSEQUENCE
        found = match((value.value if isinstance(value, ValueWithWarning) else value) or "")
        return convert("" if found is None else found[name] or "")

    return read


_MEMORY_BYTES = 8_000_000


class PatternError(Incalculable):
    """An invalid pattern, and why."""


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[str], Mapping[str, str | None] | None]:
    """A function from a whole text to the texts of the pattern's named groups (None: a group that took no part), or to None if
    the text does not match. Raises PatternError.
    """
    compiled = _compiled(pattern)
    names = tuple(compiled.groupindex)

    def match(text: str) -> Mapping[str, str | None] | None:
        found = compiled.fullmatch(text)
        return None if found is None else {name: found[name] for name in names}

    return match


def group_names(pattern: str) -> tuple[str, ...]:
    """The names of its groups, in their order. Raises PatternError."""
    index: Mapping[str, int] = _compiled(pattern).groupindex
    return tuple(sorted(index, key=index.__getitem__))


_GROUP = re.compile(r"\\(.?)", re.DOTALL)  # in the text that replaces a match


@lru_cache(maxsize=256)
def replacer(pattern: str, replacement: str) -> Callable[[str], str]:
    r"""A function that replaces every match of the pattern in a text. In the replacement, `\1` is the text of the first group (empty if it
    took no part) and `\0` the whole match; a backslash is doubled. Raises PatternError.
    """
    compiled = _compiled(pattern)
    pieces: list[str | int] = []
    end = 0
    for found in _GROUP.finditer(replacement):
        if found[1] != "\\" and not found[1].isdecimal():
            what = "in the replacement, a backslash is followed by a digit or a backslash"
            raise PatternError(f"{what}, not by {found[1] or 'its end'}")
        if found[1].isdecimal() and int(found[1]) > compiled.groups:
            raise PatternError(f"the replacement names group {found[1]}, but the pattern has {compiled.groups}")
        pieces += [replacement[end : found.start()], int(found[1]) if found[1].isdecimal() else "\\"]
        end = found.end()
    pieces.append(replacement[end:])

    def expand(match: Any) -> str:
        return "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in pieces)

    def replace(text: str) -> str:
        replaced: str = compiled.sub(expand, text)
        return replaced

    return replace


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        detail = error.args[0]
        text = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        if "perl operator" in text or "escape sequence: \\" in text:
            raise PatternError("look-around and back references are not supported") from None
        raise PatternError(f"invalid pattern: {text}") from None


_TRIED = "1234567890ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz -./_"  # in order of preference
_ANY = "Abcdefghij"
_USUAL = 3  # repetitions of a character, if allowed


class _UnknownError(Exception):
    """A part of a pattern that has no example."""


def describe_pattern(pattern: str, example: object = None) -> str:
    """A pattern in words: `expected: street, zip, city; example: Kade 8, 9711 LM Groningen`. The example comes from the mapping, or is made
    up if the pattern has no named parts.
    """
    parts = group_names(pattern)
    shown = str(example) if example is not None else "" if parts else example_of(pattern)
    form_parts = [f"expected: {', '.join(parts)}"] if parts else []
    return "; ".join([*form_parts, *([f"example: {shown}"] if shown else [])])


def example_of(pattern: str) -> str:
    """A short text that matches the whole pattern; empty if none is found."""
    try:
        text = _sequence(parser.parse(pattern))
        return text if matcher(pattern)(text) is not None else ""
    except (re.error, PatternError, _UnknownError):
        return ""


def _sequence(nodes: Any) -> str:
    return "".join(_text(op, value, nodes.state) for op, value in nodes)


def _text(op: Any, value: Any, state: Any) -> str:
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        return _repeated(*value)
    if op is ops.SUBPATTERN:
        return _sequence(value[3])
    if op is ops.BRANCH:
        return _sequence(value[1][0])
    return "" if op is ops.AT else _characters(op, value, state)[0]


def _repeated(low: int, high: int, inner: Any) -> str:
    op, value = inner[0]
    if len(inner) > 1 or op not in (ops.IN, ops.ANY, ops.NOT_LITERAL):
        return _sequence(inner) * low
    characters = _characters(op, value, inner.state)
    count = max(low, min(_USUAL, int(high)))
    return "".join(characters[place % len(characters)] for place in range(count))


def _characters(op: Any, value: Any, state: Any) -> str:
    """The characters of its first kind (digits, capitals, ...) that a part matches."""
    if op is ops.LITERAL:
        return chr(value)
    if op is ops.ANY:
        return _ANY
    part = compiler.compile(parser.SubPattern(state, [(op, value)]))
    found = [letter for letter in _TRIED if part.fullmatch(letter)]
    if not found:
        raise _UnknownError
    kind = found[0].isdigit(), found[0].isupper()
    return "".join(letter for letter in found if (letter.isdigit(), letter.isupper()) == kind)

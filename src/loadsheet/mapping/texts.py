"""Texts: trimmed, composed, padded, measured, matched, looked up in lists and code tables, and split.

`docs/mapping/columns.md` states the order of these steps. Two steps wait until the whole row is read: padding with a condition, and code
tables with several keys. Knows no row, no number and no date.

Code tables are CSV files beside a mapping with the meanings of a shipper's codes. Keys are compared trimmed and in Unicode's composed
form, with or without case. With wildcards, a key ending in `*` matches all codes with that prefix. A key that occurs twice with different
values is refused at load, with both lines.

Patterns (`pattern` and `split`) are matched by RE2 in time linear in the text. RE2 has no look-around and no back references, so these
are refused at load. Messages never show a pattern, only the names of its parts and an example. A pattern that Python's parser cannot
read has no example.
"""

import csv
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from re import _compiler as compiler  # type: ignore[attr-defined]  # missing in typeshed
from re import _constants as ops  # type: ignore[attr-defined]  # missing in typeshed
from re import _parser as parser  # type: ignore[attr-defined]  # as above
from typing import Any, Literal

import re2  # type: ignore[import-untyped]  # it ships no types

from loadsheet.mapping.plans import CONSEQUENCE, CellProblem, Finish, SettingError, ValueWithWarning
from loadsheet.mapping.schema import Column, LookupSpec
from loadsheet.mapping.words import did_you_mean, did_you_mean_value, some
from loadsheet.mapping.yamlfile import Loc, YamlFile
from loadsheet.reading.tables import Native

_INVISIBLE = "\N{ZERO WIDTH SPACE}\N{ZERO WIDTH NO-BREAK SPACE}"
_Parse = Callable[[str], Any]


# ---- code tables ----

_TABLES = frozenset({".csv", ".tsv", ".txt"})
Codes = tuple[str | None, ...]
"""The values of a key, in the order of `Lookup.columns`; None for a blank."""

Form = tuple[int | None, ...]
"""The compared length of each key: all of it (None), or the number of letters before its wildcard."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A code table in memory. With `many`, values are named (`event.code`); else the single column is the value. `keys` are the first keys
    without wildcards, as written. `by_form` holds the rows of each form, the most specific form first.
    """

    columns: tuple[str, ...]
    many: bool
    by_form: tuple[tuple[Form, dict[tuple[str, ...], Codes]], ...]
    keys: tuple[str, ...]
    more_keys: int
    ignore_case: bool
    missing: Literal["error", "keep", "blank"]
    content: bytes

    def find(self, *keys: str) -> Codes | None:
        """The row of a key, or of several, or None."""
        parts = [folded(key, ignore_case=self.ignore_case) for key in keys]
        for form, rows in self.by_form:
            found = rows.get(tuple(part[:length] for part, length in zip(parts, form, strict=True)))
            if found is not None:
                return found
        return None

    def knows(self, key: str) -> bool:
        """Whether any row has this first key, written out."""
        return folded(key, ignore_case=self.ignore_case) in {
            folded(known, ignore_case=self.ignore_case) for known in self.keys
        }

    @property
    def meanings(self) -> list[Codes]:
        """The values of all rows."""
        return [codes for _, rows in self.by_form for codes in rows.values()]

    def may_be_blank(self, column: str) -> bool:
        """Whether any row leaves this column blank."""
        place = self.columns.index(column)
        return any(row[place] is None for row in self.meanings)


def folded(text: str, *, ignore_case: bool) -> str:
    """A text in the form in which keys are compared: trimmed, composed, and without case if `ignore_case`."""
    plain = unicodedata.normalize("NFC", text.strip())
    return plain.casefold() if ignore_case else plain


def read_lookup(spec: LookupSpec, file: YamlFile, loc: Loc) -> Lookup | None:
    """Read a code table. If it is invalid, add findings to the mapping file and return None."""
    path = file.beside(spec.file, (*loc, "file"))
    if path is None:
        return None
    values = [*spec.key, *(spec.value if isinstance(spec.value, list) else [spec.value])]
    try:
        content = path.read_bytes()
        header, rows = _rows(content.decode("utf-8-sig"), values)
    except OSError as error:
        file.refuse(
            (*loc, "file"), f"{spec.file} cannot be read: {error.strerror}", "the path is relative to the mapping"
        )
        return None
    except UnicodeDecodeError as error:
        file.refuse((*loc, "file"), f"{spec.file} is not UTF-8: first bad byte at offset {error.start}")
        return None
    except csv.Error as error:
        file.refuse((*loc, "file"), f"{spec.file} is not CSV: {error}")
        return None
    unknown = [column for column in values if column not in header]
    for column in unknown:
        where = (*loc, "key" if column in spec.key else "value")
        hint = did_you_mean(column, header) or f"it has {some(header)}"
        is_table = path.suffix.lower() in _TABLES  # do not quote the content of any other file
        file.refuse(where, f'{spec.file} has no column "{column}"', hint if is_table else "is it a code table?")
    if unknown:
        return None
    if isinstance(spec.value, list) and spec.missing == "keep":
        file.refuse((*loc, "missing"), "keep needs a single value column", "name one column instead of a list")
    places = [header.index(column) for column in values]
    cells = [
        (line, [unicodedata.normalize("NFC", row[place]) if place < len(row) else "" for place in places])
        for line, row in rows
    ]
    keys = dict.fromkeys(own[0] for _, own in cells if not (spec.wildcards and own[0].endswith("*")))
    return Lookup(
        columns=tuple(values[len(spec.key) :]),
        many=isinstance(spec.value, list),
        by_form=_by_form(cells, spec, file, loc),
        keys=tuple(keys),
        more_keys=len(spec.key) - 1,
        ignore_case=spec.ignore_case,
        missing=spec.missing,
        content=content,
    )


def _rows(text: str, wanted: list[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header and numbered rows, with the delimiter that gives most of the wanted columns. Raises csv.Error."""
    if "\0" in text:
        raise csv.Error("it holds NUL characters")
    best: list[tuple[int, list[str]]] = []
    for delimiter in (",", ";", "\t"):
        reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
        if rows and (not best or len({*rows[0][1]}.intersection(wanted)) > len({*best[0][1]}.intersection(wanted))):
            best = rows
    return (best[0][1], best[1:]) if best else ([], [])


def _by_form(
    rows: list[tuple[int, list[str]]], spec: LookupSpec, file: YamlFile, loc: Loc
) -> tuple[tuple[Form, dict[tuple[str, ...], Codes]], ...]:
    """`Lookup.by_form` of rows with their line numbers. A key with two meanings is a finding, and so is a wildcard that is not at the end."""
    forms: dict[Form, dict[tuple[str, ...], tuple[int, Codes]]] = {}
    for line, cells in rows:
        keys, codes = cells[: len(spec.key)], tuple(value or None for value in cells[len(spec.key) :])
        shown = ", ".join(keys)
        if spec.wildcards and any("*" in key[:-1] for key in keys):
            file.refuse(loc, f'{spec.file}, line {line}: "{shown}" has a * that is not at the end')
        plain = [folded(key, ignore_case=spec.ignore_case) for key in keys]
        form = tuple(len(key) - 1 if spec.wildcards and key.endswith("*") else None for key in plain)
        compared = tuple(key[:length] for key, length in zip(plain, form, strict=True))
        first, known = forms.setdefault(form, {}).setdefault(compared, (line, codes))
        if known != codes:
            file.refuse(loc, f'{spec.file} gives "{shown}" two meanings, in lines {first} and {line}')
    longest_first = sorted(
        forms, key=lambda form: [_LONGEST if length is None else length for length in form], reverse=True
    )
    return tuple((form, {key: codes for key, (_, codes) in forms[form].items()}) for form in longest_first)


_LONGEST = 1 << 30  # more letters than any key has


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

        def finish(text: str, others: Sequence[str]) -> Any:
            value = check(text if always is None else text.rjust(always.to, always.with_))
            if isinstance(value, CellProblem):
                return value
            return find(value.value if isinstance(value, ValueWithWarning) else value, others)

    elif pad is None or pad.when is None:
        return None
    else:
        alone = _in_turn([*_checks(spec), *_codes(spec, lookup)])

        def finish(text: str, others: Sequence[str]) -> Any:  # noqa: ARG001 (there are none)
            return alone(text)

    if pad is None or pad.when is None:
        return Finish(finish, tuple(spec.lookup_with))
    return Finish(finish, tuple(spec.lookup_with), pad.when, pad.to, pad.with_)


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


def _found_with(lookup: Lookup) -> Callable[[str, Sequence[str]], Any]:
    """The values of a code table for a text and the further keys, or the result of its `missing` rule."""
    problem = CellProblem("C306", {"expected": some(lookup.keys)})

    def look_up(text: str, others: Sequence[str]) -> Any:
        found = lookup.find(text, *others)
        if found is not None:
            return found if lookup.many else found[0]
        if lookup.missing == "error":
            return problem._replace(hint=_why_missing(lookup, text, others))
        return text if lookup.missing == "keep" else None

    return look_up


def _why_missing(lookup: Lookup, text: str, others: Sequence[str]) -> str:
    if lookup.knows(text):
        return f"the table has no row for this value with {' and '.join(other or 'a blank' for other in others)}"
    return did_you_mean_value(text, lookup.keys)


# ---- patterns ----

_MEMORY_BYTES = 8_000_000


class PatternError(ValueError):
    """An invalid pattern, and why."""


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

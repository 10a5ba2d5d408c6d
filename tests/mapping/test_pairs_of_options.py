"""Every option of a column with every other (E5): a pair is refused when the mapping is loaded, or gives what the reference says.

`reference` is a second converter of a few lines, written from `docs/mapping/columns.md`. It shares no code with the one under test.
"""

import json
import re
import unicodedata
from datetime import datetime
from decimal import Decimal
from itertools import combinations

import pytest
from example_converters import swapped
from sheets import ASSUMED, NOW, table

from loadsheet.mapping.compile import lint, load
from loadsheet.mapping.grouping import gather
from loadsheet.mapping.names import DocumentFrame
from loadsheet.mapping.rows import RowReader
from loadsheet.mapping.schema import Column

CODES = {"a-1": "P-10", "ab": "Q-2", "A-1": "P-10"}
TWO_KEYS = {("ab", "y"): "T-1", ("a-1", "x"): "T-2"}
OF_ANY = {
    "required": {"required": True},
    "fill_down": {"fill_down": True},
    "file": {"file": "stem"},
    "part_of": {"part_of": "whole"},
    "convert": {"convert": "swapped"},
}
TEXTS = OF_ANY | {
    "default": {"default": "a-1"},
    "blank": {"blank": ["-", "n/a"]},
    "upper": {"case": "upper"},
    "lower": {"case": "lower"},
    "pad_left": {"pad_left": {"to": 3}},
    "pad_when": {"pad_left": {"to": 6, "with": "x", "when": 'beside == "y"'}},
    "min_length": {"min_length": 3},
    "max_length": {"max_length": 4},
    "on_too_long": {"max_length": 4, "on_too_long": "cut_and_warn"},
    "pattern": {"pattern": "[A-Za-z0-9]+-[0-9]+"},
    "one_of": {"one_of": CODES},
    "list": {"one_of": ["a-1", "ab-77"]},
    "ignore_case": {"one_of": {"a-1": "P-10", "AB": "Q-2"}, "ignore_case": True},
    "lookup": {"lookup": "codes"},
    "kept": {"lookup": "kept"},
    "blanked": {"lookup": "blanked"},
    "lookup_with": {"lookup": "two_keys", "lookup_with": "beside"},
    "split": {"split": "(?P<{left}>[A-Za-z0-9]+)-(?P<{right}>[0-9]+)?.*"},
}
OF_OTHERS = OF_ANY | {"locale": {"locale": "en_GB"}}
NUMBERS = OF_OTHERS | {
    "default": {"default": 12},
    "blank": {"blank": ["-", "0"]},
    "min": {"min": 2},
    "max": {"max": 1500},
}
DATES = {
    "default": {"default": "01.02.2026"},
    "blank": {"blank": ["-", "31.12.2099"]},
    "formats": {"formats": ["%Y-%m-%d"]},
}
FLAGS = {"default": {"default": "no"}, "blank": {"blank": ["-"]}, "yes": {"yes": ["x", "ja"]}, "no": {"no": ["o", "-"]}}
OPTIONS = {
    "text": TEXTS,
    "integer": NUMBERS,
    "decimal": NUMBERS | {"places": {"places": 1}, "currency": {"currency": "EUR"}},
    "quantity": NUMBERS | {"from_unit": {"from_unit": "t"}, "unit_column": {"unit_column": "beside"}},
    "date": OF_OTHERS | DATES,
    "yesno": OF_OTHERS | FLAGS,
}
NEEDED = {"quantity": {"unit": "kg"}}
NOT_PAIRED = {
    "label", "aliases", "type", "unit", "key", "example", "note",  # of no effect on a value
    "from_set", "above", "place", "occurrence",  # say where the cell is, as `file` does
}  # fmt: skip
CELLS = {
    "text": ["", " ", "ab", "", "\N{ZERO WIDTH SPACE}", "-", "n/a", "\u00a0AB ", "a-1", "A-1", "7", "0007-4", "a-1 x", "abcdef", "q-", "Zoe\u0308", "ß-1"],
    "integer": ["", "12", " ", "-", "0", "1", " 7 ", "1.234", "1,234", "1501", "2,0", "2,5", "-3", "x"],
    "decimal": ["", "7,5 €", "12", " ", "-", "0", "1", " 7 ", "1.234", "1,234", "1501", "2,0", "2,5", "-3", "x"],
    "quantity": ["", "12", " ", "-", "0", "1", " 7 kg", "500 g", "2 t", "1.234", "1,234", "0,5", "-3", "x"],
    "date": ["", "04.03.2026", " ", "-", "31.12.2099", " 05.03.2026 ", "2026-03-06", "31.02.2026", "x"],
    "yesno": ["", "x", " ", "-", "ja", "JA", " o ", "yes", "no", "nein", "maybe"],
}  # fmt: skip
BESIDE = "yx"  # in turn
UNITS = {"x": "t", "y": "g"}  # what they mean as units
WHOLE = "of:{}"  # a cell of the split column whose part is the cell
STEM = {"text": "a-1", "integer": "12", "decimal": "12", "quantity": "12", "date": "04.03.2026", "yesno": "ja"}


class RefusedError(Exception):
    """What the reference does not take."""


def reference(type_, said, cell, beside):
    """The value of one cell: None for a blank one; raises RefusedError."""
    text = cell.strip().strip("\u200b\ufeff")
    if not text or text in said.get("blank", ()):
        if "default" not in said:
            if said.get("required"):
                raise RefusedError
            return None
        if type_ == "yesno":
            return said["default"] == "yes"
        if type_ != "text" and not isinstance(said["default"], str):
            text = str(said["default"])
            return measured(type_, said, converted(text) if "convert" in said else Decimal(text))
        text = said["default"]
    if "unit_column" in said:
        said = {**said, "from_unit": UNITS[beside]}
    if "convert" in said:
        text = converted(text)
        if not isinstance(text, str):
            return reference(type_, said, "", beside) if text is None else typed(type_, said, text)
    if type_ == "text":
        return worded(said, unicodedata.normalize("NFC", text), beside)
    return {"date": dated, "yesno": flagged}.get(type_, numbered)(type_, said, text)


def converted(text):
    try:
        return swapped(text)
    except ArithmeticError:
        raise RefusedError from None


def typed(type_, said, value):
    if type_ == "yesno":
        return flagged(type_, said, str(value).lower())
    return value if type_ == "date" else measured(type_, said, Decimal(value))


def worded(said, text, beside):
    text = {"upper": text.upper(), "lower": text.lower()}.get(said.get("case"), text)
    if (pad := said.get("pad_left")) and ("when" not in pad or beside == "y"):
        text = pad.get("with", "0") * (pad["to"] - len(text)) + text
    longest = said.get("max_length", 99)
    if len(text) < said.get("min_length", 0) or (len(text) > longest and "on_too_long" not in said):
        raise RefusedError
    text = text[:longest].rstrip()
    if "pattern" in said and not re.fullmatch(said["pattern"], text):
        raise RefusedError
    text = coded(said, text, beside)
    if text is not None and "split" in said and not re.fullmatch(said["split"], text):
        raise RefusedError
    return text


def coded(said, text, beside):
    codes, rule = said.get("one_of"), {"kept": text, "blanked": None}
    if said.get("ignore_case"):
        text, codes = text.casefold(), {code.casefold(): meaning for code, meaning in codes.items()}
    if isinstance(codes, list):
        codes = {code: code for code in codes}
    if "lookup" in said:
        codes = TWO_KEYS if "lookup_with" in said else CODES
        text = (text, beside) if "lookup_with" in said else text
    if codes is None:
        return text
    if text not in codes and said.get("lookup") not in rule:
        raise RefusedError
    return codes[text] if text in codes else rule[said["lookup"]]


def numbered(type_, said, text):
    text = text.removesuffix(" €") if "currency" in said else text
    dot, comma = (",", ".") if said.get("locale") == "en_GB" else (".", ",")
    form = rf"(-?(?:\d{{1,3}}(?:\{dot}\d{{3}})+|\d+)(?:\{comma}\d+)?) ?(kg|g|t)?"
    found = re.fullmatch(form, text)
    if found is None or (found[2] and type_ != "quantity"):
        raise RefusedError
    if "unit_column" in said and found[2] not in (None, said["from_unit"]):
        raise RefusedError
    number = Decimal(found[1].replace(dot, "").replace(comma, "."))
    return measured(type_, said, number, found[2])


def measured(type_, said, number, unit=None):
    if type_ == "quantity":
        number *= {"kg": 1, "g": Decimal("0.001"), "t": 1000}[unit or said.get("from_unit", "kg")]
    if type_ == "integer" and number % 1:
        raise RefusedError
    if not said.get("min", number) <= number <= said.get("max", number):
        raise RefusedError
    if number != round(number, said.get("places", 9)):
        raise RefusedError
    return number


def dated(_, said, text):
    for form in said.get("formats", ["%d.%m.%Y"]):
        try:
            return datetime.strptime(text, form).date()
        except ValueError:
            continue
    raise RefusedError


def flagged(_, said, text):
    german = "locale" not in said
    yes = said.get("yes", ["yes", "y", "true", "1", *(["ja", "j", "wahr"] if german else [])])
    no = said.get("no", ["no", "n", "false", "0", *(["nein", "falsch"] if german else [])])
    if text.casefold() not in (*yes, *no):
        raise RefusedError
    return text.casefold() in yes


# ---- what has to be refused ----


def has_no_meaning(type_, names, said):
    """Whether a pair has to be refused at load, as `docs/mapping/columns.md` says."""
    if {"file", "part_of"} <= names or ("fill_down" in names and names & {"file", "part_of"}):
        return True
    if "one_of" in said and "lookup" in said:
        return True
    if "split" in names and names & {"lookup_with", "pad_when", "part_of"}:
        return True
    if "pad_left" in said and said["pad_left"]["to"] > said.get("max_length", 99):
        return True
    if type_ == "yesno" and {"-"} <= {*said.get("no", ())} & {*said.get("blank", ())}:
        return True
    return out_of_reach(said) or default_is_refused(type_, said)


BEFORE_CODES = {"case", "pad_left", "min_length", "max_length", "on_too_long", "pattern"}


def out_of_reach(said):
    if "one_of" not in said:
        return False
    steps = {key: said[key] for key in said.keys() & BEFORE_CODES}

    def same(text):
        return text.casefold() if said.get("ignore_case") else text

    def stays(code, beside):
        try:
            return same(worded(steps, code, beside)) == same(code)
        except RefusedError:
            return False

    return not all(stays(code, "x") or stays(code, "y") for code in said["one_of"])


def default_is_refused(type_, said):
    if "default" not in said or "lookup_with" in said:
        return False
    try:
        reference(type_, said, "", "x")
    except RefusedError:
        return True
    return False


# ---- the test ----


def pairs(type_):
    options = OPTIONS[type_]
    for number, (one, other) in enumerate(combinations([None, *options], 2)):
        names = {one, other} - {None}
        both = [options[name] for name in names]
        if len(both) == 2 and set(both[0]) & set(both[1]):
            continue  # one setting twice
        said = {key: value for half in both for key, value in half.items()}
        if "split" in said:
            said["split"] = said["split"].format(left=f"left{number}", right=f"right{number}")
        yield number, names, said


def column(type_, number, said):
    """The lines of one column, and of the split column that it is a part of, or of the parts of its own split."""
    own = {"type": type_, **NEEDED.get(type_, {}), **said}
    name, label = f"c{number}", "" if {"file", "part_of"} & said.keys() else f"label: C{number}, "
    if "part_of" in said:
        own["part_of"] = f"w{number}"
        yield f"  w{number}: {{label: C{number}, split: 'of:(?P<c{number}>.*)'}}"
    yield f"  {name}: {{{label}{', '.join(f'{key}: {json.dumps(value)}' for key, value in own.items())}}}"
    if "split" in said:
        yield from (f"  {side}{number}: {{part_of: {name}}}" for side in ("left", "right"))


def mapping_of(folder, type_, chosen):
    """The path of a mapping with a column for each of these pairs, and which line belongs to which."""
    head = """\
mapping: pairs
version: 1
target: order.update
source: {files: ["*.csv"], locale: de_DE, dates: ["%d.%m.%Y"], timezone: UTC, units: {x: t, y: g}}
lookups:
  codes: {file: codes.csv, key: code, value: meaning}
  kept: {file: codes.csv, key: code, value: meaning, missing: keep}
  blanked: {file: codes.csv, key: code, value: meaning, missing: blank}
  two_keys: {file: two_keys.csv, key: [code, beside], value: meaning}
payload: {order_id: {col: no}, sender_id: {value: A}, receiver_id: {value: B}}
columns:
  no: {label: No, required: true, key: true}
  beside: {label: Beside}"""
    lines, owner = head.splitlines(), {}
    for number, _, said in chosen:
        for line in column(type_, number, said):
            lines.append(line)
            owner[len(lines)] = number
    rows = [f"{code},{meaning}" for code, meaning in CODES.items()]
    (folder / "codes.csv").write_text("\n".join(["code,meaning", *rows]), encoding="utf-8")
    rows = [f"{code},{beside},{meaning}" for (code, beside), meaning in TWO_KEYS.items()]
    (folder / "two_keys.csv").write_text("\n".join(["code,beside,meaning", *rows]), encoding="utf-8")
    path = folder / "pairs.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, owner


def values_of(plan, rows, file):
    """The values of each row by column name; what was refused is RefusedError."""
    frame = DocumentFrame(NOW)
    frame.clear()
    labels = [column.label for column in plan.columns if not column.spec.part_of and not column.spec.file]
    reader = RowReader(plan, table(plan, rows, file=file, header=dict.fromkeys(labels)), frame)
    (group,) = gather([reader])
    names = {slot.index: name for name, slot in plan.shape.slots.items()}
    for row in group.rows[0]:
        read = reader.read(row)
        yield {
            names[index]: RefusedError if index in read.refused else value for index, value in enumerate(read.values)
        }


def expected(type_, said, cells, number):
    """The cell that counts and what the reference makes of it; a part is what the reference makes of its value."""
    cell, beside = cells[number], BESIDE[number % 2]
    if "file" in said:
        cell = STEM[type_]
    if said.get("fill_down"):
        cell = next((above for above in reversed(cells[: number + 1]) if above.strip(" \N{ZERO WIDTH SPACE}")), "")
    try:
        return reference(type_, said, cell, beside)
    except RefusedError:
        return RefusedError


def plain(value):
    return value.date() if isinstance(value, datetime) else value


@pytest.mark.parametrize("type_", OPTIONS)
def test_every_pair_of_options_is_refused_or_right(tmp_path, type_):
    chosen = list(pairs(type_))
    path, owner = mapping_of(tmp_path, type_, chosen)
    found = lint(path, ASSUMED)
    refused = {owner.get(finding.line) for finding in found}
    meaningless = {number for number, names, said in chosen if has_no_meaning(type_, names, said)}
    by_number = {number: sorted(names) for number, names, _ in chosen}
    assert {str(by_number.get(number)) for number in refused ^ meaningless} == set(), [str(one) for one in found]

    good = [pair for pair in chosen if pair[0] not in refused]
    path, _ = mapping_of(tmp_path, type_, good)
    (plan,) = load(path, ASSUMED).plan.tables
    cells = CELLS[type_]
    columns = [said for _, _, said in good if "file" not in said]
    wrapped = [[WHOLE.format(cell) if "part_of" in said else cell for said in columns] for cell in cells]
    rows = [["1", BESIDE[number % 2], *row] for number, row in enumerate(wrapped)]
    wrong = []
    for place, values in enumerate(values_of(plan, rows, f"{STEM[type_]}.csv")):
        for number, names, said in good:
            want, got = expected(type_, said, cells, place), plain(values[f"c{number}"])
            if want != got:
                wrong.append((sorted(names), cells[place], want, got))
            if "split" in said:
                parts = re.fullmatch(said["split"], want) if isinstance(want, str) else None
                want = RefusedError if want is RefusedError else [parts and parts[1], parts and parts[2]]
                got = [values[f"left{number}"], values[f"right{number}"]]
                if want != (RefusedError if got == [RefusedError, RefusedError] else got):
                    wrong.append((sorted(names), cells[place], "parts", want, got))
    assert not wrong, "\n".join(map(str, wrong))


def test_every_option_of_a_column_is_paired():
    used = {key for options in OPTIONS.values() for said in options.values() for key in said}
    assert used | NOT_PAIRED == set(Column.model_fields)

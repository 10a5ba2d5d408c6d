"""How rows and tables of a drop belong together, by the values of their columns and not by headings alone.

Owns: the rows of each record and the columns that have one value for all of them; the table whose rows are the records, the table with their
lines, and code tables offered for the rest; and the column that identifies the records. Values may have lost their leading zeros in one of
the tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from loadsheet.contract import FieldKind
from loadsheet.mapping.yamlfile import flow
from loadsheet.mapping_tools.columns import MOMENTS, NUMBERS, Column
from loadsheet.mapping_tools.field_matching import Filled, Match
from loadsheet.mapping_tools.headings import MEASURES, concepts_of, reading_of, vocabulary, words_of
from loadsheet.mapping_tools.sheet_profiles import Sheet
from loadsheet.reading import SUM_WORDS, fold_label

BELONGS = 0.5  # share of common keys for two tables to be joined
_ALL = 0.9  # share of values that a code table must hold
_DISTINCT_MIN = 2
_SAME = 0.8  # share of headings for tables of one layout
_HEADINGS_LEAST = 3
_OTHER_LISTS = frozenset({
    "archive", "archiv", "old", "alt", "history", "done", "erledigt", "return", "returns", "returned", "retoure", "retouren", "rma",
    "template", "vorlage", "example", "beispiel", "muster", "sample", "test", "draft", "entwurf", "copy", "kopie", "backup",
})  # fmt: skip
"""Words in the name of a sheet that say that it is not one of several lists of the same records."""
_LOWEST = frozenset({"min", "minimum", "above", "over", "lower", "mindestens", "ueber"})
_HIGHEST = frozenset({"max", "maximum", "below", "under", "upper", "hochstens", "unter"})
_TYPES = {
    "decimal": "decimal", "quantity": "decimal", "integer": "integer", "datetime": "date", "date": "date", "yesno": "yesno",
}  # fmt: skip
"""The type of a column of a code table, by the guess for its cells."""
_TEXTS = frozenset({"text", "integer", "country", "currency"})


class Tables(NamedTuple):
    """The number of the table with the records, that of the table with their lines (-1: none), the columns of both by which they join, and
    remarks on other tables, by their numbers.
    """

    main: int
    lines: int = -1
    main_key: Column | None = None
    lines_key: Column | None = None
    offers: tuple[tuple[int, str], ...] = ()


def related_tables(sheets: Sequence[Sheet], key: Column | None, of: int) -> Tables:
    """The tables as they belong together, where `key` in table `of` identifies the records. Without a key, that table alone."""
    if key is None:
        return Tables(of)
    holders = {of: key}
    for number, sheet in enumerate(sheets):
        if number != of and (column := _partner(key, sheet)) is not None:
            holders[number] = column
    distinct = {number: len(column.cells.values) / max(1, column.filled_count) for number, column in holders.items()}
    complete = [number for number, column in holders.items() if number == of or share(key, column) >= BELONGS]
    main = max(complete, key=lambda number: (distinct[number], number == of, -number))
    others = [
        number
        for number, column in holders.items()
        if number != main
        and can_be_joined(holders[main], column)
        and not _is_another_list(sheets[number], sheets[main], column)
    ]
    lines = max(others, key=lambda number: (holders[number].rows, -number), default=-1)
    found = Tables(main, lines, holders[main], holders.get(lines))
    return found._replace(offers=tuple(_offers(sheets, found)))


def _partner(key: Column, sheet: Sheet) -> Column | None:
    """The column of another table with the values of a key: the one with its heading, else the one that shares the most values."""
    same = sheet.column(key.label)
    if same is not None:
        return same
    shares = [(share(column, key), -column.position, column) for column in sheet.columns if _can_identify(column)]
    found, _, column = max(shares, key=lambda one: one[:2], default=(None, None, None))
    return column if found and found >= _ALL else None


def _is_another_list(sheet: Sheet, main: Sheet, key: Column) -> bool:
    """Whether a table is a second list of the records, such as that of the next month, and not one of their lines: it has the headings of
    the first, and each of its rows is a record.
    """
    return len(key.cells.values) >= _DIFFERENT * key.filled_count and have_same_headings(sheet, main)


def _can_identify(column: Column) -> bool:
    return column.guess.type in _TEXTS and len(column.cells.values) >= _DISTINCT_MIN and not column.holds_moments


def share(one: Column, other: Column) -> float:
    """The share of the different values of one column that also occur in the other, with or without leading zeros."""
    mine, theirs = _without_zeros(one), _without_zeros(other)
    return len(mine & theirs) / max(1, len(mine))


def can_be_joined(one: Column, other: Column) -> bool:
    """Whether two key columns have enough common values to be joined."""
    mine, theirs = set(one.cells.shown), set(other.cells.shown)
    agree = len(mine & theirs) >= BELONGS * max(1, min(len(mine), len(theirs)))
    return agree or padded_length(one, other) > 0 or padded_length(other, one) > 0


def padded_length(keys: Column, others: Column) -> int:
    """The length of keys that match `others` padded with leading zeros; 0 if padding does not make them match."""
    mine, theirs = set(keys.cells.shown), set(others.cells.shown)
    lengths = {len(text) for text in mine}
    least = BELONGS * max(1, min(len(mine), len(theirs)))
    if len(lengths) != 1 or not any(text.startswith("0") for text in mine) or len(mine & theirs) >= least:
        return 0
    (length,) = lengths
    return length if len(mine & {text.rjust(length, "0") for text in theirs}) >= least else 0


def count_common(one: Column, other: Column) -> int:
    """The number of different values that two columns share, without leading zeros."""
    return len(_without_zeros(one) & _without_zeros(other))


def _without_zeros(column: Column) -> set[str]:
    return {text.lstrip("0") or text for text in column.cells.shown}


def _offers(sheets: Sequence[Sheet], found: Tables) -> Iterator[tuple[int, str]]:
    """Remarks on the tables that are not joined: tables of the same layout, of bands, and code tables for a column."""
    used = [sheets[place] for place in (found.main, found.lines) if place >= 0]
    for number, sheet in enumerate(sheets):
        if number in (found.main, found.lines):
            continue
        if offer := _same_layout(sheet, used[0]) or _band_table(sheet, used) or _code_table(sheet, used):
            yield number, offer


def have_same_headings(sheet: Sheet, main: Sheet) -> bool:
    """Whether a table has nearly all the headings of another one."""
    labels, others = ({fold_label(column.label) for column in one.columns} for one in (sheet, main))
    return len(labels & others) >= max(_HEADINGS_LEAST, _SAME * min(len(labels), len(others)))


def sheets_of_same_kind(sheets: Sequence[Sheet], tables: Tables, used: Sequence[Column]) -> list[Sheet]:
    """The sheets that list records like the main one, such as those of months or places, with all of its columns in use, and itself. None if
    there is no other, if the name of one says that it lists something else, or if two share records.
    """
    main, key = sheets[tables.main], tables.main_key
    alike = [
        one for one in sheets if one.path == main.path and one.title != main.title and have_same_headings(one, main)
    ]
    labels = {
        column.position: column.label for column in reversed(main.columns)
    }  # of parts of a cell, that of the whole
    needed = {labels[column.position] for column in used if column.position in labels and column.position >= 0}
    own = [sheet for sheet in sheets if sheet is main or (sheet in alike and all(map(sheet.column, needed)))]
    if key is None or tables.lines >= 0 or len(own) < 2:
        return []
    words = [set(words_of(sheet.title)) for sheet in own]
    apart = {word for one in words for word in one if not all(word in other for other in words)}
    of_others = _OTHER_LISTS.union(*vocabulary().verbs.values())
    keys = [column for sheet in own if (column := sheet.column(key.label)) is not None]
    shared = any(count_common(one, other) for one, other in combinations(keys, 2))
    is_other_kind = apart & of_others or any("order" in reading_of(word).concepts for word in apart)
    return [] if shared or is_other_kind or len(keys) < len(own) else own


def left_out(sheets: Sequence[Sheet], tables: Tables, same_kind: Sequence[Sheet]) -> list[tuple[Sheet, str]]:
    """The sheets that are not read, each with the reason."""
    main = sheets[tables.main].title or sheets[tables.main].path.stem
    read = {(sheet.path, sheet.title) for sheet in (sheets[tables.main], *same_kind)}
    reasons = []
    for number, sheet in enumerate(sheets):
        if number in (tables.main, tables.lines) or (sheet.path, sheet.title) in read:
            continue
        key = tables.main_key
        other = sheet.column(key.label) if key is not None else None
        why = f"it shares no key with {main}"
        if key is not None and other is not None and can_be_joined(key, other):
            more = "but a record has one list of packages; join it by hand if it belongs in them"
            why = f"it shares {key.label} with {main}, {more if tables.lines >= 0 else 'but none of its columns fills a field'}"
        elif other is not None:
            why = f"both have {other.label}, but too few of its values match"
        reasons.append((sheet, dict(tables.offers).get(number, why)))
    return reasons


def _same_layout(sheet: Sheet, main: Sheet) -> str:
    """The offer to map a table with the headings of the main one and records of its own; empty if it has others."""
    if not have_same_headings(sheet, main):
        return ""
    both = "with source: {shared: true} in both, " if sheet.path == main.path else ""
    return (
        f"it has the headings of {main.title or main.path.name} and records of its own: write a second mapping for it, {both}"
        "and let both extend a base with all that they have in common (extends: base/NAME.yaml)"
    )


def _code_table(sheet: Sheet, used: Sequence[Sheet]) -> str:
    """The offer to use a table as a code table, for the column whose values it holds; empty if it holds those of none."""
    found = _key_pair([column for column in sheet.columns if column.is_unique], used)
    if found is None:
        return ""
    key, other = found
    held = (
        f"its column {key.label} holds {count_common(other, key)} of {len(other.cells.values)} values of {other.label}"
    )
    values = [column for column in sheet.columns if column is not key]
    # with a row for each record, such as its address, the next rows come with the next records
    added = _added(sheet, values, {"key": key.label}, comes_again=other.is_unique)
    return f"{held}: {added}, and lookup: {_name(sheet)} at {other.label}"


def _key_pair(columns: Sequence[Column], used: Sequence[Sheet]) -> tuple[Column, Column] | None:
    """The one of these columns that holds the values of a used one, and that one: of several, the one with most values."""
    best, found = (_ALL, 0), None
    for column in columns:
        if not _can_identify(column) or column.guess.type in NUMBERS - {"integer"}:
            continue
        for other in (other for table in used for other in table.columns if _can_identify(other)):
            if (held := (share(other, column), len(other.cells.values))) >= best:
                best, found = held, (column, other)
    return found


def _name(sheet: Sheet) -> str:
    return "_".join(words_of(sheet.title or sheet.path.stem))


def _added(sheet: Sheet, values: Sequence[Column], keys: dict[str, Any], *, comes_again: bool = False) -> str:
    """What to add for a table with these columns of values: a table of the drop, if it is a sheet of the workbook or `comes_again` with each
    drop, or else a file of the mapping.
    """
    if sheet.title or comes_again:
        own = {name: "_".join(words_of(label)) if name == "key" else label for name, label in keys.items()}
        table = {_name(sheet): {"table": _name(sheet), **own}}
        file = "" if sheet.title else "add the file under source.companions, "
        return f"to look up its values, {file}add the table {_name(sheet)} with its columns, lookups: {flow(table)}"
    labels = [column.label for column in values]
    types = {column.label: _TYPES[column.guess.type] for column in values if column.guess.type in _TYPES}
    value = labels if len(labels) > 1 else "".join(labels)
    spec = {"file": f"lookups/{sheet.path.name}", **keys, "value": value, **({"types": types} if types else {})}
    plain = "" if sheet.notation.locale.startswith("en") or not types else " (write its numbers like 1234.5)"
    return f"to look up its values, copy it to lookups/ beside the mapping{plain}, add lookups: {flow({_name(sheet): spec})}"


# ---- tables of bands ----


def _band_table(sheet: Sheet, used: Sequence[Sheet]) -> str:
    """The offer to look up values by an interval of a number or a date, such as weight bands or periods; empty if it has no bounds."""
    low, high = _bound(sheet, "early", _LOWEST), _bound(sheet, "late", _HIGHEST)
    if low is None or high is None or low is high or (low.guess.type in MOMENTS) != (high.guess.type in MOMENTS):
        return ""
    rest = [column for column in sheet.columns if column not in (low, high)]
    key, other = _key_pair(rest, used) or (None, None)
    by = _searched(low, used)
    band: dict[str, Any] = {"from": low.label, "to": high.label}
    if not set(low.cells.shown) & set(high.cells.shown):  # 0 to 99, 100 to 199
        band |= {"upper": "included"} | ({} if low.guess.type in MOMENTS else {"gaps": "allow"})
    keys = {**({"key": key.label} if key is not None else {}), "range": band}
    added = _added(sheet, [column for column in rest if column is not key], keys)
    what = f"{low.label} and {high.label} are bounds"
    if other is not None:
        name = "_".join(words_of(by.label)) if by is not None else "COLUMN"
        return f"{what}: {added}, and lookup: {_name(sheet)}, lookup_with: [{name}] at {other.label}"
    label = by.label if by is not None else "HEADING"
    type_ = {"type": "date" if low.guess.type in MOMENTS else "decimal", "required": True}
    return f"{what}: {added}, and a column {flow({'label': label, **type_, 'lookup': _name(sheet)})}"


def _bound(sheet: Sheet, concept: str, words: frozenset[str]) -> Column | None:
    """The column with one bound of each row: numbers or dates under a heading such as `from kg`, `valid to`."""
    own = [column for column in sheet.columns if column.guess.type in NUMBERS | MOMENTS]
    read = {column: reading_of(column.label).concepts for column in own}
    return next((one for one in own if concept in read[one] or words & set(words_of(one.label))), None)


def _searched(low: Column, used: Sequence[Sheet]) -> Column | None:
    """The used column whose values lie in the bands: one of the same measure, or the first date."""
    columns = [column for table in used for column in table.columns]
    if low.guess.type in MOMENTS:
        return next((column for column in columns if column.guess.type in MOMENTS), None)
    measured = low.concepts & MEASURES.keys()
    return next((one for one in columns if measured & one.concepts and one.guess.type in NUMBERS), None)


# ---- the rows of each record ----

_AGREES = 0.9  # share of groups with one value, for a column of the whole record
_ONCE = 0.8  # share of the rows without a key in which a column of the record is blank too
_FEW = 0.05  # share of rows without a key that are only gaps
_FILLED = 0.98  # share of the cells of a key
_DIFFERENT = 0.95
_REPEATED = 3  # records with several rows, in each of which an amount is the same
_ROWS_MOST = 12  # rows of a record on average, if rows agree in other columns
_LINES_MOST = 100  # the same for an invoice or another reference
_NO_KEYS = frozenset(
    {"other", "unused", "postal", "phone", "quantity", "weight", "item"}
)  # concepts of headings that are no keys
_BLANK = -1


@dataclass(frozen=True, slots=True)
class RecordRows:
    """The rows of a table by record. `rows` are those of records with several rows, `groups` is the number of records, and `without_key` are
    the rows whose key is blank. `is_written_once`: these rows continue the record above them.
    """

    key: Column
    rows: Sequence[Sequence[int]]
    groups: int
    without_key: Sequence[int]
    is_written_once: bool

    @property
    def several(self) -> int:
        """The number of records with several rows."""
        return len(self.rows)

    def is_once(self, column: Column) -> bool:
        """Whether a column is filled in the first row of each record, and mostly blank below."""
        value_indexes, below = column.cells.value_indexes, set(self.without_key)
        blank = sum(value_indexes[row] == _BLANK for row in below)
        first = (code for row, code in enumerate(value_indexes) if row not in below)
        return blank >= _ONCE * len(below) and all(code != _BLANK for code in first)

    def is_at_top(self, column: Column) -> bool:
        """Whether the first row of a record says for those right below it what a column has: these are blank there, if not the same."""
        value_indexes = column.cells.value_indexes
        said = [rows for rows in self.rows if value_indexes[rows[0]] != _BLANK]
        is_kept = all(rows[-1] - rows[0] < len(rows) for rows in said) and all(
            value_indexes[row] in (_BLANK, value_indexes[rows[0]]) for rows in self.rows for row in rows
        )
        return is_kept and any(value_indexes[row] == _BLANK for rows in said for row in rows)


def record_rows(sheet: Sheet, key: Column, *more: Column) -> RecordRows:
    """The rows of a sheet by record, where `more` columns belong to the key as well."""
    blank = [row for row, code in enumerate(key.cells.value_indexes) if code == _BLANK]
    is_once = _is_written_once(sheet, key, blank)
    groups: dict[tuple[int, ...], list[int]] = {}
    last = (_BLANK,)
    for row, value_indexes in enumerate(
        zip(key.cells.value_indexes, *(column.cells.value_indexes for column in more), strict=True)
    ):
        last = value_indexes if value_indexes[0] != _BLANK else last if is_once else (_BLANK,)
        if last[0] != _BLANK:
            groups.setdefault(last, []).append(row)
    several = [rows for rows in groups.values() if len(rows) > 1]
    return RecordRows(key, several, len(groups), blank, is_once)


def total_rows(sheet: Sheet, keyed: RecordRows) -> tuple[Column | None, str, set[int]]:
    """The rows below the records that have no key but a word for totals: the column with that word (None: there is none), the word, and the
    rows.
    """
    for column in sheet.columns:
        if column is keyed.key or column.guess.type != "text":
            continue
        for word in column.cells.values:
            text = word.strip()
            if fold_label(text) in SUM_WORDS and text.replace(" ", "").isalpha():
                code = column.cells.values.index(word)
                if rows := {row for row in keyed.without_key if column.cells.value_indexes[row] == code}:
                    return column, text, rows
    return None, "", set()


def _is_written_once(sheet: Sheet, key: Column, blank: Sequence[int]) -> bool:
    """Whether rows without a key continue a record: there are many, they have values, and other columns are blank in the same rows."""
    rows = len(key.cells.value_indexes)
    if not blank or key.cells.value_indexes[0] == _BLANK or len(blank) <= _FEW * rows:
        return False
    others = [column for column in sheet.columns if column is not key and column.filled_count]
    with_values = sum(any(column.cells.value_indexes[row] != _BLANK for column in others) for row in blank)
    share = [sum(column.cells.value_indexes[row] == _BLANK for row in blank) / len(blank) for column in others]
    return with_values >= _ONCE * len(blank) and sum(one >= _ONCE for one in share) >= 1


def agreeing(keyed: RecordRows, column: Column) -> tuple[bool, bool]:
    """Whether a column has one value in nearly every record with several rows, blanks aside; and whether no row of these is blank."""
    value_indexes, one, same = column.cells.value_indexes, 0, 0
    for rows in keyed.rows:
        values = {value_indexes[row] for row in rows}
        same += len(values) == 1
        one += len(values - {_BLANK}) <= 1
    return one >= _AGREES * len(keyed.rows), same >= _AGREES * len(keyed.rows)


def count_copies(sheet: Sheet, keyed: RecordRows) -> int:
    """The number of records of which all rows have the same cells, spaces around them aside."""
    texts = [
        ([*(str(value).strip() for value in one.cells.values), ""], one.cells.value_indexes) for one in sheet.columns
    ]
    return sum(len({tuple(own[codes[row]] for own, codes in texts) for row in rows}) == 1 for rows in keyed.rows)


def with_repeated_amounts(found: Match, keyed: RecordRows, *, of_lines: bool = False) -> Match:
    """The match with the weight or volume that all rows of a record repeat, under a heading such as `Order weight`, as that of the record. Under
    another heading, and in a table of lines, there is a doubt.
    """
    by_path, fields = dict(found.by_path), dict(found.operation.record.walk())
    for path, one in found.by_path.items():
        measures = concepts_of(fields[path]) & {"weight", "volume"}
        is_of_rows = (
            "[]" in path
            and fields[path].kind is FieldKind.NUMERIC
            and len(one.column.cells.value_indexes) == keyed.key.rows
        )
        if not measures or not is_of_rows or not keyed.several:
            continue
        fits, is_same = agreeing(keyed, one.column)
        of_record = (other for other, field in fields.items() if concepts_of(field) == measures | {"total"})
        total = next(
            (other for other in of_record if "[]" not in other and fields[other].kind is FieldKind.NUMERIC), ""
        )
        if fits and found.operation.subject in one.column.concepts and total and total not in by_path and not of_lines:
            by_path[total] = by_path.pop(path)
        elif (
            is_same
            and keyed.several >= _REPEATED
            and len({one.column.cells.value_indexes[rows[0]] for rows in keyed.rows}) > 1
        ):
            subject = found.operation.subject
            doubt = f"all rows of each {subject} have the same; is it that of the whole {subject}?"
            by_path[path] = one._replace(doubt=one.doubt or doubt)
    return Match(found.operation, by_path)


def identifies(sheet: Sheet, column: Column) -> bool:
    """Whether the values of a column identify records: nearly all are different, or rows with the same value agree in other columns. The
    column may be blank in rows that continue a record.
    """
    if not column.filled_count or column.guess.type not in {"text", "integer"}:
        return False
    if not column.cells.looks & {"code", "digits"} or column.concepts & _NO_KEYS:
        return False
    keyed = record_rows(sheet, column)
    if column.filled_count < _FILLED * column.rows and not keyed.is_written_once:
        return False
    if len(column.cells.values) >= _DIFFERENT * column.filled_count:
        return True
    others = [
        other for other in sheet.columns if other is not column and len(other.cells.values) > 1 and other.concepts
    ]
    agree = sum(agreeing(keyed, other)[0] for other in others)
    is_reference = "reference" in column.concepts
    most = _LINES_MOST if is_reference else _ROWS_MOST
    return len(column.cells.values) * most >= column.rows and agree * 2 >= (4 if is_reference else max(len(others), 4))


WEAK = 0.2  # score of a key whose values do not identify records
_KEY_PLACES = 3  # columns at the left that may be the key without saying so


def key_by_values(sheet: Sheet, first: int, found: Match) -> Filled | None:
    """The column that identifies the records by its values: one at the left or else another that fills no field, or only that of another
    number; else a reference, best the sender's own; else the one with the most different values. A constant would make one record of all
    rows. `first` is the number of the sheet.
    """
    fields = dict(found.operation.record.walk())
    used = {
        id(one.column): fields[path].is_required(creates=found.operation.creates)
        for path, one in found.by_path.items()
        if not one.doubt and not {"reference", "id"} & concepts_of(fields[path])
    }
    columns = [column for column in sheet.columns if not column.holds_moments]
    free = [column for column in columns if id(column) not in used]
    left = [column for column in sheet.columns[:_KEY_PLACES] if column in free]
    subject = found.operation.subject
    if column := next((column for column in (*left, *free) if identifies(sheet, column)), None):
        references = (one for one in free if "reference" in one.concepts and identifies(sheet, one))
        column = next(references, column) if _is_row_number(column) else column
        return Filled(first, column, 2 * WEAK, f"no heading names the {subject}, but the values identify rows")
    rated = [column for column in columns if column.filled_count and column.guess.type in {"text", "integer"}]
    rated = [one for one in rated if not one.concepts & _NO_KEYS] or rated  # a quantity makes a new order of each
    rated = rated or [column for column in sheet.columns if column.filled_count]
    best = min(rated, key=lambda one: (_no_reference(one), used.get(id(one), -1), -len(one.cells.values)), default=None)
    if best is None:
        return None
    why = "has the most different values" if _no_reference(best) == _NONE else "is a reference"
    return Filled(first, best, WEAK, f"no column identifies the {subject}; this one {why}")


def _is_row_number(column: Column) -> bool:
    """Whether the values of a column, also of one of texts, only number all rows: 1, 2, 3."""
    texts = [str(value) for value in column.cells.values]
    return texts in ([str(number) for number in range(first, first + column.rows)] for first in (0, 1))


_NONE = 2


def _no_reference(column: Column) -> int:
    """How little a column is like the sender's reference of an order: 0 is `Shipper Ref`, 1 another reference, 2 none."""
    if "reference" not in column.concepts:
        return _NONE
    return 0 if column.concepts & {"customer", "pickup"} else 1

"""Plausibility checks on translated documents: columns read in the wrong notation, lines that appear twice, dates far from today,
postal codes without their zeros.

A refused value can prove that a column is read wrongly, such as `13/04/2026` in a column read as month/day. Then `03/04/2026` was
silently read as the wrong day. Unless another value of the column proves the opposite, this is a problem of the file. Only columns
with such a refused value are read again.

A line that is pasted twice is sent as two lines. Two equal lines may be meant, such as two equal parcels, but not if one of their columns
numbers the lines. Without such a column they are in doubt if they are rare, or if a copy stands apart in a file sorted by record.

A pickup in 1900 is the number 1 in a date cell, and a delivery in 2206 is a typing error. The check reads the dates of finished
records, so it covers every way of making them.

A spreadsheet program that opens a code table drops the zeros at the start of its postal codes. The damage checks see only the cells of the
sheet, so postal codes from a code table are compared with the number of digits that their country has; so are those of a column whose codes
have all lost their zeros.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cache
from itertools import pairwise
from shlex import quote
from typing import Any, NamedTuple

import msgspec

from loadsheet.contract import FIRST_PICKUP, LAST_DELIVERY, country_field
from loadsheet.mapping.codes import country_parser
from loadsheet.mapping.documents import Document, Ignored, Lineage, SourceRow, locate
from loadsheet.mapping.notations import decimal_mark
from loadsheet.mapping.plans import TablePlan
from loadsheet.problems import NOWHERE, Problem, Where
from loadsheet.reading import CellTally, Native, Table

_WRONG_NOTATION = "L612"

_DATE = re.compile(r"\s*([0-9]{1,2})([./-])([0-9]{1,2})\2[0-9]{2,4}\b")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+(?:[.,][0-9]+)+)(?![0-9.,])")
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")
_MONTHS = 12
_DAY_FIRST, _MONTH_FIRST = "the day before the month", "the month before the day"
_COMMA, _POINT = "a decimal comma", "a decimal point"
_OTHER = {_DAY_FIRST: _MONTH_FIRST, _MONTH_FIRST: _DAY_FIRST, _COMMA: _POINT, _POINT: _COMMA}
_EITHER = "either"


class Notation(NamedTuple):
    """How a text is written. `separator` is that of a date, empty for a number; `order` is `either` if the text fits both."""

    separator: str
    order: str


class _Proof(NamedTuple):
    """A refused value that proves that its column is written the other way."""

    file: str
    sheet: str
    column: str
    notation: Notation


class NotationCheck:
    """Finds columns read in the wrong notation. Pass the documents through `watch`, then call `problems`."""

    def __init__(self) -> None:
        self._proofs: dict[_Proof, str] = {}

    def watch(self, documents: Iterable[Document | Ignored]) -> Iterator[Document | Ignored]:
        """The documents, unchanged."""
        for document in documents:
            if isinstance(document, Document) and document.problems:
                for problem in document.problems:
                    self.add(problem)
            yield document

    def add(self, problem: Problem) -> None:
        """Take one problem of a document."""
        notation = _refused_notation(problem)
        if notation is not None:
            at = problem.where
            proof = _Proof(at.file, at.sheet, at.column, notation)
            self._proofs.setdefault(proof, problem.found)

    def problems(self, tables: Mapping[str, Table]) -> list[Problem]:
        """One problem for each column read wrongly, at its first accepted value with another meaning."""
        found: dict[tuple[str, ...], Problem] = {}
        for proof, value in self._proofs.items():
            for table in (one for one in tables.values() if (one.file, one.sheet) == proof[:2]):
                if (problem := self._wrong_notation(proof, value, table)) is not None:
                    found[problem.where.file, problem.where.sheet, problem.where.column] = problem
        return list(found.values())

    def _wrong_notation(self, proof: _Proof, value: str, table: Table) -> Problem | None:
        either = proof._replace(notation=Notation(proof.notation.separator, _EITHER))
        if either in self._proofs or table.header.count(proof.column) != 1:
            return None  # values that fit both notations were refused too
        position, count, first = table.header.index(proof.column), 0, None
        for row in table.rows():
            cell = row.cells[position]
            if row.ignored or row.problem or isinstance(cell, Native):
                continue
            notation = notation_order(cell, proof.notation.separator)
            if notation == _OTHER[proof.notation.order]:
                return None
            if notation == _EITHER:
                count, first = count + 1, first or (row.number, cell)
        if first is None:
            return None
        hint = (
            "set dates: or locale: in the mapping, or have the shipper write the column in one way, and drop the file again; "
            f"if all other values are read correctly: loadsheet retry --file {quote(table.file)}"
        )
        values = {"read": _OTHER[proof.notation.order], "written": proof.notation.order, "proof": value, "count": count}
        return Problem(_WRONG_NOTATION, table.where(first[0], position), first[1], values, hint)


_ASCENTS_MIN = 8  # with this many, a column ascends by chance in 1 of 256 tables
_DIGITS_MAX = 20  # of a number; the serial numbers of pallets have 18
_RARE = 100  # equal lines that are meant, such as one for each parcel, are more than one in so many
_TOGETHER_MIN = 8  # with this many records, the file is sorted by record
_LINE_TWICE_HINT = "delete the second line and drop the file again, unless both are meant"


@dataclass(slots=True)
class _TableLines:
    """The lines of one table: the positions of the columns whose numbers ascend in every record (None: not known yet), how often they
    ascend, how many records stand together in the file and how many do not, and the lines that appeared before in their record, with the
    first of them: all, and those that stand apart, after rows of other records.
    """

    count: int = 0
    ascending: list[int] | None = None
    ascents: int = 0
    together: int = 0
    spread: int = 0
    repeated: CellTally = field(default_factory=CellTally)
    apart: CellTally = field(default_factory=CellTally)
    first: SourceRow | None = None

    def add(self, rows: Sequence[SourceRow], *, usable: bool) -> None:
        """Add the rows of one record. Only a `usable` one shows which columns number lines: in others a cell may be wrong or missing."""
        self.count += len(rows)
        if len(rows) == 1:
            return
        lines, is_apart = {rows[0].cells: rows[0]}, False
        for before, row in pairwise(rows):
            is_apart = is_apart or not _follows(row, before)
            if lines.setdefault(row.cells, row) is not row:
                self.repeated.add(row.number)
                self.first = self.first or row
                if is_apart:
                    self.apart.add(row.number)
        if len(lines) == 1:
            return
        if all(_follows(row, before) for before, row in pairwise(lines.values())):
            self.together += 1
        else:
            self.spread += 1
        if usable and self.ascending != []:
            self.ascents += len(lines) - 1
            places = range(len(rows[0].cells)) if self.ascending is None else self.ascending
            self.ascending = [place for place in places if _ascend([line[place] for line in lines])]

    def in_doubt(self) -> CellTally:
        """The repeated lines that are probably not meant, though no column numbers the lines."""
        if self.repeated.count * _RARE <= self.count:
            return self.repeated
        return self.apart if self.together >= _TOGETHER_MIN and not self.spread else CellTally()


def _by_table(rows: Sequence[SourceRow]) -> Iterable[tuple[str, Sequence[SourceRow]]]:
    if len(rows) == 1:  # as in most files
        return ((rows[0].table, rows),)
    found: dict[str, list[SourceRow]] = {}
    for row in rows:
        found.setdefault(row.table, []).append(row)
    return found.items()


def _follows(row: SourceRow, before: SourceRow) -> bool:
    """Whether the row stands in the next line of the file. Line breaks in the cells of a text file count as lines."""
    return row.number - before.number <= 1 + sum(cell.count("\n") for cell in before.cells)


def _ascend(cells: Sequence[str]) -> bool:
    """Whether these are whole numbers, each larger than the one before."""
    if not all(cell.isdecimal() and len(cell) <= _DIGITS_MAX for cell in cells):
        return False
    return all(int(cell) < int(following) for cell, following in pairwise(cells))


class RepeatedLineCheck:
    """Finds lines that appear twice in one record. Pass the documents through `watch`, then call `problems`."""

    def __init__(self) -> None:
        self._tables: dict[str, _TableLines] = {}

    def watch(self, documents: Iterable[Document | Ignored]) -> Iterator[Document | Ignored]:
        """The documents, unchanged."""
        for document in documents:
            if isinstance(document, Document):
                for table, rows in _by_table(document.own_rows):
                    self._tables.setdefault(table, _TableLines()).add(rows, usable=document.usable)
            yield document

    def problems(self, name: str, table: Table) -> Iterator[Problem]:
        """A warning if lines of the table, by the mapping's name for it, appear twice and are probably not meant."""
        found = self._tables.get(name, _TableLines())
        if found.first is None:
            return
        named = [place for place in found.ascending or () if table.header[place].strip()]
        if named and found.ascents >= _ASCENTS_MIN:
            where, shown, tally = table.where(found.first.number, named[0]), found.first.cells[named[0]], found.repeated
        elif (tally := found.in_doubt()).count:
            where, shown = table.where(tally.rows[0]), ""
        else:
            return
        yield Problem(
            "R251", where, shown, {"count": tally.count, "rows": tally.rows_text}, _LINE_TWICE_HINT, "warning"
        )


def notation_order(text: str, separator: str) -> str:
    """The order of a date with the separator `separator`, or of a number (empty); empty if the text is neither."""
    found = _number(text) if not separator else _date(text)
    return found.order if found is not None and found.separator == separator else ""


def _date(text: str) -> Notation | None:
    found = _DATE.match(text)
    if found is None or found[1] == found[3]:
        return None
    first, second = int(found[1]), int(found[3])
    if min(first, second) > _MONTHS:
        return None
    if max(first, second) <= _MONTHS:
        return Notation(found[2], _EITHER)
    return Notation(found[2], _DAY_FIRST if first > second else _MONTH_FIRST)


def _number(text: str) -> Notation | None:
    found = _NUMBER.match(text)
    if found is None:
        return None
    if _THOUSANDS.fullmatch(found[1]):
        return Notation("", _EITHER)
    marks = [letter for letter in found[1] if letter in ".,"]
    if marks.count(marks[-1]) > 1 or len(set(marks[:-1])) > 1:  # 1,234,567 or 1.2,3.4
        return None
    return Notation("", _COMMA if marks[-1] == "," else _POINT)


def _refused_notation(problem: Problem) -> Notation | None:
    """The notation of a refused value whose column is read the other way; `either` for a number that fits both."""
    if problem.code not in ("C302", "C304", "C316"):
        return None
    notation = _date(problem.found) if problem.code == "C304" else _number(problem.found)
    if notation is None:
        return None
    if problem.code == "C304":
        declared = [_date(example) for example in str(problem.values.get("expected", "")).split(" or ")]
        read = {date_.order for date_ in declared if date_ is not None and date_.separator == notation.separator}
    elif problem.code == "C302":
        read = {_POINT if decimal_mark(problem.values["locale"]) == "." else _COMMA}
    else:  # a single mark that the column does not use
        read = {_OTHER.get(notation.order, "")} if len(re.findall("[.,]", problem.found)) == 1 else set()
    return notation if notation.order == _EITHER or read == {_OTHER[notation.order]} else None


_DATES = re.compile(rb'"(\w*datetime)":"(\d{4}-\d\d-\d\d)')
_PICKED_UP, _DELIVERED, _NEVER = FIRST_PICKUP.encode(), LAST_DELIVERY.encode(), b"9999-99-99"
_HINT = "check the date; if it is right, there is nothing to do"


@dataclass(frozen=True, slots=True)
class DateRangeCheck:
    """Warns of dates outside the first and the last usual day (ISO texts), and of deliveries that end on a day before their pickup. Times
    are not compared: those of a flight over the date line may seem to run backwards.
    """

    first: str
    last: str

    @classmethod
    def around(cls, now: datetime, *, years_back: int, years_ahead: int) -> "DateRangeCheck":
        """Bounds in years before and after the day of a run; 0: no bound."""
        first = _shifted_years(now.date(), -years_back) if years_back else ""
        return cls(first, _shifted_years(now.date(), years_ahead) if years_ahead else "9999-99-99")

    def watch(
        self, documents: Iterable[Document | Ignored], lineage: Lineage, tables: Mapping[str, Table]
    ) -> Iterator[Document | Ignored]:
        """The documents, with a warning for each cell whose date is wrong, however many fields it fills."""
        first, last = self.first.encode(), self.last.encode()
        for document in documents:
            days = dict(_DATES.findall(document.payload)) if isinstance(document, Document) else {}
            wrong = [path for path, day in days.items() if not first <= day <= last]
            wrong += [_DELIVERED] if days.get(_DELIVERED, _NEVER) < days.get(_PICKED_UP, b"") else []
            if wrong and isinstance(document, Document):
                warnings: dict[str, Problem] = {}
                for path in map(bytes.decode, wrong):
                    warning = self._warning(document, path, days, lineage, tables)
                    warnings.setdefault(str(warning.where) or path, warning)
                document = replace(document, problems=(*document.problems, *warnings.values()))  # noqa: PLW2901 (adds warnings)
            yield document

    def _warning(
        self, document: Document, path: str, days: Mapping[bytes, bytes], lineage: Lineage, tables: Mapping[str, Table]
    ) -> Problem:
        _, where, found = _place(document, path, lineage, tables)
        day = days[path.encode()].decode()
        if self.first <= day <= self.last:
            values = {"day": day, "pickup": days[_PICKED_UP].decode()}
            return Problem("C324", where, found or day, values, _HINT, "warning")
        bound = f"before {self.first}" if day < self.first else f"after {self.last}"
        return Problem("C318", where, found or day, {"day": day, "bound": bound}, _HINT, "warning")


def _shifted_years(day: date, years: int) -> str:
    year = min(max(day.year + years, 1), 9999)
    return f"{year:04}-{day.month:02}-{day.day:02}"


_STEP = re.compile(r"(\w+)((?:\[[0-9]*\])?)\.?")
_DIGITS = {
    **dict.fromkeys(["AU", "DK", "GE", "NO", "NZ", "PH", "ZA"], 4),
    **dict.fromkeys(["DE", "ES", "FI", "FR", "IT", "KR", "LT", "MX", "MY", "PL", "SK", "TR", "UA", "US"], 5),
    **dict.fromkeys(["CN", "KZ", "RO", "SG"], 6),
    "JP": 7,
}
"""The digits of a postal code, for countries in which it may begin with zeros."""

_MOST_LOST = 2  # zeros, as in 00601 of Puerto Rico
_CODES_LOOKED_AT = 200  # documents at the start of a file; each takes as long as it takes to read its payload again


class _PostcodeField(NamedTuple):
    """A field with a postal code: what its tables and paths begin with (empty, or of several mappings that share a file the name of its own
    and a slash), the path pattern of its record (`parties[]`; empty: the document), its name and that of its country.
    """

    own: str
    record: str
    name: str
    country: str


@dataclass(frozen=True, slots=True)
class PostcodeCheck:
    """Warns of postal codes that are too short for their country: at each one in `fields`, which a code table fills or whose country it gives;
    once for one of the `others`, at the first one at the start of a file. Damage checks know no countries: they see only zeros that some values of
    a column for one country have lost.
    """

    fields: tuple[_PostcodeField, ...]
    others: tuple[_PostcodeField, ...] = ()
    _shortened: dict[tuple[_PostcodeField, str], tuple[str, Problem] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, lineage: Lineage, tables: Sequence[TablePlan]) -> "PostcodeCheck":
        """The check for a mapping."""
        looked_up = {(table.name, column.name) for table in tables for column in table.columns if column.spec.lookup}
        found: tuple[list[_PostcodeField], list[_PostcodeField]] = ([], [])
        for path, sources in lineage.items():
            part, slash, field = path.rpartition("/")  # the name of its mapping, if several share the file
            record, _, name = field.rpartition(".")
            country, own = country_field(name), part + slash
            if country and not path.startswith("("):
                both = (*sources, *lineage.get(own + f"{record}.{country}".lstrip("."), ()))
                is_other = looked_up.isdisjoint(source[:2] for source in both)
                found[is_other].append(_PostcodeField(own, record, name, country))
        return cls(tuple(found[0]), tuple(found[1]))

    def watch(
        self, documents: Iterable[Document | Ignored], lineage: Lineage, tables: Mapping[str, Table]
    ) -> Iterable[Document | Ignored]:
        """The documents, with a warning for each postal code in `fields` that is too short."""
        if self.fields:
            documents = (self._checked(document, lineage, tables) for document in documents)
        return self._watched(documents, lineage, tables) if self.others else documents

    def problems(self, name: str) -> Iterator[Problem]:
        """A warning for each of the `others` whose postal codes in the table of this name are too short. Call it after the last document."""
        return (found[1] for found in self._shortened.values() if found is not None and found[0] == name)

    def _watched(
        self, documents: Iterable[Document | Ignored], lineage: Lineage, tables: Mapping[str, Table]
    ) -> Iterator[Document | Ignored]:
        left = _CODES_LOOKED_AT
        for document in documents:
            if left and isinstance(document, Document) and document.payload:
                left -= 1
                self._note(document, lineage, tables)
            yield document

    def _note(self, document: Document, lineage: Lineage, tables: Mapping[str, Table]) -> None:
        for postcode, path, code, country in _codes_of(document, self.others):
            digits, key = _DIGITS.get(country, 0), (postcode, country)
            if _is_short(code, digits) and key not in self._shortened:
                name, where, text = _place(document, path, lineage, tables)
                values = {"code": code, "country": country, "count": len(code), "digits": digits}
                problem = Problem("C319", where, text or code, values, _COLUMN_HINT, "warning")
                self._shortened[key] = (name, problem) if name else None

    def _checked(
        self, document: Document | Ignored, lineage: Lineage, tables: Mapping[str, Table]
    ) -> Document | Ignored:
        if isinstance(document, Ignored) or not document.payload:
            return document
        return replace(document, problems=(*document.problems, *self._warnings(document, lineage, tables)))

    def _warnings(self, document: Document, lineage: Lineage, tables: Mapping[str, Table]) -> Iterator[Problem]:
        seen = set[str]()
        for _, path, code, country in _codes_of(document, self.fields):
            digits = _DIGITS.get(country, 0)
            if path not in seen and _is_short(code, digits):
                _, where, found = _place(document, path, lineage, tables)
                values = {"code": code, "country": country, "count": len(code), "digits": digits}
                yield Problem("C319", where, found or code, values, _POSTCODE_HINT, "warning")
            seen.add(path)


def _codes_of(document: Document, fields: Iterable[_PostcodeField]) -> Iterator[tuple[_PostcodeField, str, str, str]]:
    """The postal codes of a document in these fields that are numbers, each with its path and the code of its country (empty: none is known)."""
    payload = msgspec.json.decode(document.payload)
    for postcode in fields:
        if document.rows[0].table.startswith(postcode.own):
            for path, record in _records(payload, postcode.record):
                code = str(record.get(postcode.name, ""))
                if code.isdecimal():
                    place = postcode.own + f"{path}.{postcode.name}".lstrip(".")
                    yield postcode, place, code, _country_code(str(record.get(postcode.country, "")))


def _is_short(code: str, digits: int) -> bool:
    return digits - _MOST_LOST <= len(code) < digits


_POSTCODE_HINT = "correct the code table: spreadsheet programs drop zeros at the start of numbers; if the postal code is right, there is nothing to do"
_COLUMN_HINT = (
    "spreadsheet programs drop zeros at the start of numbers; format the column as text and fill it again from its source; if all its codes "
    "are of this country, the mapping can pad the values (pad_left)"
)


@cache
def _country_code(text: str) -> str:
    """The two-letter code of a country; empty if the text is none."""
    if not text or text in _DIGITS:
        return text
    code = country_parser("en")(text)  # loads the names of all countries
    return code if isinstance(code, str) else ""


def _records(value: Any, pattern: str, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects at a path pattern such as `parties[]`, each with its path."""
    found = _STEP.match(pattern)
    if found is None:
        yield path, value if isinstance(value, Mapping) else {}
        return
    inner = value.get(found[1]) if isinstance(value, Mapping) else None
    here, rest = f"{path}.{found[1]}".lstrip("."), pattern[found.end() :]
    if found[2]:
        for index, item in enumerate(inner if isinstance(inner, list) else ()):
            yield from _records(item, rest, f"{here}[{index}]")
    elif inner is not None:
        yield from _records(inner, rest, here)


def _place(document: Document, path: str, lineage: Lineage, tables: Mapping[str, Table]) -> tuple[str, Where, str]:
    """The table of the first cell that a field comes from, its place and its text. No table: it comes from none."""
    for place in locate(lineage, document.rows, document.links, path):
        row, table = document.rows[place.row], tables.get(place.table)
        if table is not None:
            column = table.header.index(place.label) if place.label in table.header else None
            found = row.cells[column] if column is not None and column < len(row.cells) else ""
            return place.table, table.where(row.number, column, path), found
    return "", NOWHERE, ""

"""The profile of a sheet: where its table begins and ends, and its columns with the evidence of their cells.

`table_rows` finds the rows of the table. A file without headings, and a form, is refused.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import NamedTuple

from loadsheet.errors import FileRefused
from loadsheet.inbox.files import shown_name
from loadsheet.mapping.schema import SET
from loadsheet.mapping_tools.column_types import countries_read, guess_type
from loadsheet.mapping_tools.columns import CHECK, MOMENTS, Cells, Column, cells_of, cells_without
from loadsheet.mapping_tools.headings import (
    SIDES,
    Reading,
    read_heading,
    reading_of,
    three_sides,
    vocabulary,
    words_of,
)
from loadsheet.mapping_tools.notation_guesses import locale_of, order_near, shapes_of_numbers
from loadsheet.mapping_tools.table_rows import (
    Headings,
    OutsideRows,
    ends_with_headings,
    explanations,
    find_headings,
    is_form,
    split_outside_rows,
)
from loadsheet.problems import Problem, Where, column_letters
from loadsheet.reading import (
    Layout,
    Row,
    Table,
    Top,
    WantedColumn,
    fold_label,
    open_tables,
    read_tops,
)
from loadsheet.settings import Settings

ROWS_READ = 20_000  # enough for a guess; the evidence gives the number of values
_A_DAY = re.compile(r"(?<![0-9])(20[0-9]{2})([-_.]?)(0[1-9]|1[0-2])\2(0[1-9]|1[0-9]|2[0-8])(?![0-9])")
_GAP = re.compile(r"\S {2,}(?=\S)")
_TITLE = 40  # characters; a longer text is a title
# what databases and programs write
_NO_VALUE = re.compile(r"null|\(null\)|<null>|\\n|nan|#?n/a|n\.a\.|--+", re.IGNORECASE)
_OF_PLACES = frozenset({"company", "address", "city", "postal", "country", "province", "second", "location", "moment"})
_WESTERN, _CENTRAL, _TURKISH = "cp1252", "cp1250", "cp1254"
_IN_TURKISH = re.compile(r"[ğĞıİşŞçÇöÖüÜâÂîÎûÛ²³\W\d_a-z]*", re.IGNORECASE)
_NAMES = frozenset({"name", "nom", "nome", "naam", "namn"})  # of a company, or the last one of a person
Progress = Callable[[int, int], None]
"""Reports progress: the columns done, and the total."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A detected table: the file, its sheet, encoding and delimiter of a text file, the number of heading rows, row numbers, columns, what stands
    outside of it (without the rows of the table), and duplicate headings. `unnamed` are the letters of columns with values but no heading.
    `is_cut`: there are further rows, which were not looked at. `blank` are texts such as NULL, whose cells count as blank here. `above` is a label
    with its value from the rows above the headings, which a mapping cannot read; empty if there is none. `uneven` is the number of rows that
    cannot be read, since they have more or fewer cells than there are headings. `is_unquoted`: quotes in the text file belong to its values.
    `explained` are the texts, by position, of a row below the headings that explains them.
    """

    path: Path
    title: str
    encoding: str
    delimiter: str
    header_rows: int
    rows: tuple[int, ...]
    columns: tuple[Column, ...]
    notation: "FileNotation"
    outside: OutsideRows
    doubles: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    is_cut: bool = False
    blank: tuple[str, ...] = ()
    above: str = ""
    uneven: int = 0
    is_unquoted: bool = False
    explained: tuple[tuple[int, str], ...] = ()

    def column(self, label: str) -> Column | None:
        """The column with this heading, in any case."""
        return next((column for column in self.columns if fold_label(column.label) == fold_label(label)), None)


@dataclass(slots=True)
class FileNotation:
    """The notation of a file: the number locale with its evidence and the count of numbers that show it, and the languages of the headings of
    all files.
    """

    languages: Counter[str]
    locale: str = ""
    locale_evidence: str = ""
    numbers: int = 0

    @property
    def language(self) -> str:
        """The language of most headings; English by default."""
        return max(("en", *vocabulary().habits), key=lambda language: self.languages[language])


# ---- the table of a file ----


def observe(paths: Sequence[Path], settings: Settings, progress: Progress | None = None) -> list[Sheet]:
    """Every table in these files, in an order that does not depend on that of `paths`. Raises FileRefused for a file that cannot be read, or
    has no table.
    """
    in_order = sorted(paths, key=lambda path: (path.name, str(path)))
    raw = [found for path in in_order for found in _tables_of(path, settings)]
    languages, countries = _languages_of(raw), Counter[str]()
    for found in raw:
        for place, cells in found.columns.items():
            if "country" in reading_of("".join(found.headings.labels[place : place + 1])).concepts:
                countries.update(cells.shown)
    notation = {
        path: _notation_of([found for found in raw if found.sheet.path == path], languages, countries) for path in paths
    }
    numbers = [len(found.columns) for found in raw]
    sheets = []
    for found, done in zip(raw, accumulate(numbers), strict=True):
        sheets.append(_sheet(found, notation[found.sheet.path]))
        if progress is not None:
            progress(done, sum(numbers))
    return sheets


class _Raw(NamedTuple):
    """A table as read: its sheet without columns and notation, its first rows, the headings, and the cells of its columns by position."""

    sheet: Sheet
    top: Top
    headings: Headings
    columns: dict[int, Cells]


def _tables_of(path: Path, settings: Settings) -> list[_Raw]:
    name = shown_name(Path(path.name))
    tops = read_tops(path, name, settings)
    readable = [_in_its_encoding(top) for top in tops if not _has_fixed_width(top)]
    wanted = {str(number): one for number, top in enumerate(readable) if (one := _wanted(str(number), top)) is not None}
    tables, is_unquoted = _opened(path, [layout for *_, layout in wanted.values()], settings) if wanted else ({}, False)
    read = (
        _table(path, top, headings, tables[name], is_unquoted=is_unquoted)
        for name, (top, headings, _) in wanted.items()
    )
    found = [raw for raw in read if raw is not None]
    if not found:
        reason = "no row looks like headings above a table"
        hint = "write one heading over each column; a form cannot be read"
        if any(map(_has_fixed_width, tops)):
            reason, hint = "its columns are separated by spaces alone", "save it as CSV or .xlsx"
        elif any(map(ends_with_headings, tops)):
            reason, hint = "there are no rows below the headings", "fill in a few rows as they will come"
        elif wanted and not any(top.sheet for top, *_ in wanted.values()):
            reason = "no row below the headings has a cell for each of them"
            hint = "write every cell of a row, also blank ones, and texts that contain the delimiter in quotes"
        raise FileRefused(Problem("R201", Where(name), "", {"reason": reason}, hint))
    return found


def _has_fixed_width(top: Top) -> bool:
    """Whether no delimiter divides the first line of a text file, no bars or tabs most lines, and several gaps of spaces stand in most lines."""
    lines = [top.delimiter.join(cells) for _, cells in top.rows]
    gaps = sum(len(_GAP.findall(line)) > 1 for line in lines)
    divided = top.delimiter in "|\t" and sum(top.delimiter in line for line in lines) > len(lines) / 2
    return not top.sheet and bool(lines) and not divided and top.delimiter not in lines[0] and gaps > len(lines) / 2


def _in_its_encoding(top: Top) -> Top:
    """The first rows of a text file in the encoding in which more words of its headings are known, that of Western or of Central Europe, or in
    that of Turkey if only letters of Turkish then stand there.
    """
    if top.encoding != _WESTERN:
        return top
    western, turkish = top, _read_as(top, _TURKISH)
    if turkish.rows != western.rows and all(_IN_TURKISH.fullmatch(cell) for _, cells in turkish.rows for cell in cells):
        return turkish
    return max(western, _read_as(top, _CENTRAL), key=_known_words)


def _read_as(top: Top, encoding: str) -> Top:
    """The rows in another encoding than that of Western Europe; unchanged where they cannot be in it."""
    try:
        again = ((number, [cell.encode(_WESTERN).decode(encoding) for cell in cells]) for number, cells in top.rows)
        rows = tuple((number, tuple(cells)) for number, cells in again)
    except UnicodeError:
        return top
    return top._replace(rows=rows, encoding=encoding)


def _known_words(top: Top) -> int:
    texts = (cell for _, cells in top.rows for cell in cells if cell.strip())
    readings = [reading_of(text) for text in texts if not text.isascii() and len(text) < _TITLE]
    return sum(bool(reading.concepts) - len(reading.unknown) for reading in readings)


def _wanted(name: str, top: Top) -> tuple[Top, Headings, Layout] | None:
    """The headings of a table, and a layout with this name that reads all columns; None if these are no rows of a table."""
    headings = None if is_form(top) else find_headings(top)
    if headings is None:
        return None
    # a duplicate heading cannot be requested
    once = [label for label in headings.labels if fold_label(label) and fold_label(label) not in headings.doubles]
    if not once:
        return None
    columns = tuple(WantedColumn(str(place), (label,), required=False) for place, label in enumerate(once))
    layout = Layout(
        name, columns, (top.sheet,) if top.sheet else (), headings.row,
        (top.encoding or "utf-8-sig",), (top.delimiter or ",",), header_rows=headings.rows,
    )  # fmt: skip
    return top, headings, layout


def _table(path: Path, top: Top, headings: Headings, table: Table, *, is_unquoted: bool) -> _Raw | None:
    left_out = set[int]()
    rows = list(islice(_counted(table.rows(), left_out), ROWS_READ + 1))
    damaged = {row.number for row in rows if row.problem is not None}
    found = split_outside_rows([(row.number, row.cells) for row in rows[:ROWS_READ]], damaged, left_out)
    explained = explanations(found.rows)
    if explained:
        found = found._replace(rows=found.rows[1:])
    if not found.rows:
        return None
    columns = {
        place: cells_of(column)
        for place, column in enumerate(zip(*(cells for _, cells in found.rows), strict=True))
        if any(column)
    }
    numbers = tuple(number for number, _ in found.rows)
    blank = tuple(sorted({text for cells in columns.values() for text in cells.texts if _NO_VALUE.fullmatch(text)}))
    is_ended = bool(found.at_blank or found.footer)
    sheet = Sheet(
        path, top.sheet, top.encoding, top.delimiter, headings.rows, numbers, (), FileNotation(Counter()), found._replace(rows=[]),
        is_cut=len(rows) > ROWS_READ, blank=blank, uneven=sum(not is_ended or number < numbers[-1] for number in damaged),
        is_unquoted=is_unquoted, explained=explained,
    )  # fmt: skip
    return _Raw(sheet, top, headings, {place: cells_without(cells, blank) for place, cells in columns.items()})


def _opened(path: Path, layouts: Sequence[Layout], settings: Settings) -> tuple[dict[str, Table], bool]:
    """The tables of a file, and whether its quotes enclose nothing: marketplaces do not quote the values of their tab separated reports."""
    name = shown_name(Path(path.name))
    try:
        return open_tables(path, name, layouts, settings), False
    except FileRefused as refused:
        if refused.problem.code != "R206" or any(layout.delimiters != ("\t",) for layout in layouts):
            raise
    return open_tables(path, name, [replace(layout, quote="") for layout in layouts], settings), True


def _counted(rows: Iterator[Row], left_out: set[int]) -> Iterator[Row]:
    """The rows of a table without those that are always left out, such as lines of dashes, whose numbers go into `left_out`."""
    for row in rows:
        if row.ignored:
            left_out.add(row.number)
        else:
            yield row


def _languages_of(raw: Sequence[_Raw]) -> Counter[str]:
    """How many words of the headings of these tables each language knows."""
    found = Counter[str]()
    for label in (label for one in raw for label in one.headings.labels):
        found.update(reading_of(label).languages)
    return found


def _notation_of(raw: Sequence[_Raw], languages: Counter[str], countries: Counter[str]) -> FileNotation:
    """The notation of one file, whose tables these are, with the languages and countries of all files. The numbers of another file may come
    from another program, and its headings be in another language.
    """
    notation, own = FileNotation(languages), FileNotation(_languages_of(raw) or languages)
    numbers = Counter[str]()
    for cells in (cells for found in raw for cells in found.columns.values()):
        numbers.update(shapes_of_numbers(cells.texts))
    known = vocabulary().locales_from(vocabulary().habits[own.language]["locale"])
    named = {locale: countries_read(countries, locale) for locale in known} if countries else {}
    notation.locale, notation.locale_evidence = locale_of(numbers, known, named, is_read=bool(languages))
    notation.numbers = numbers.total()
    return notation


def _sheet(raw: _Raw, notation: FileNotation) -> Sheet:
    doubles, labels = raw.headings.doubles, raw.headings.labels
    columns, unnamed, sides = [], [], dict(_sides_in(labels))
    for position, cells in _all_columns(raw):
        label = labels[position] if position < len(labels) else ""
        again = doubles.get(fold_label(label), [])
        if not fold_label(label) or SET in label:  # a mapping would take the latter for a set of columns
            unnamed.append(column_letters(position))
            continue
        reading, unit = read_heading(label)
        reading = sides.get(position, reading)
        guess = guess_type(cells, reading, unit, notation.locale)
        reading = _with_side(reading, is_moment=guess.type in (*MOMENTS, "time"))
        if again:
            reading, remark = _one_of_several(reading, again, position)
            guess = guess._replace(evidence=f"{guess.evidence}; {CHECK}: {remark}")
        occurrence = again.index(position) + 1 if again else 0
        columns.append(Column(label, position, reading, unit, cells, guess, occurrence))
    columns = [_with_last_name(column, columns) for column in columns]
    return replace(
        raw.sheet,
        columns=tuple(_with_order(columns, raw.sheet.path, notation)),
        notation=notation,
        doubles=tuple(labels[positions[0]] for positions in doubles.values()),
        unnamed=tuple(unnamed),
        above=next(_labelled(raw), ""),
    )


def _sides_in(labels: Sequence[str]) -> Iterator[tuple[int, Reading]]:
    """What headings of one letter mean, by position, where all three sides of a package stand beside each other, such as `L`, `W`, `H`."""
    for at in range(len(labels) - 2):
        letters = labels[at : at + 3]
        if all(len(label.strip(" .")) == 1 for label in letters):
            yield from (
                (at + step, Reading(frozenset({side}), (), Counter())) for step, side in enumerate(three_sides(letters))
            )


def _with_last_name(column: Column, columns: Sequence[Column]) -> Column:
    """The column; a `Name` right beside the first name of the same person (`Vorname`, `Prénom`) is the last name, unless another one is."""
    side, own = column.concepts & SIDES, column.concepts - SIDES - {"address", "customer"}
    same = [one for one in columns if one.concepts & SIDES == side]
    is_beside = any("given" in one.concepts and abs(one.position - column.position) == 1 for one in same)
    is_name = own == {"company"} and words_of(column.label)[-1] in _NAMES and not column.cells.names_companies
    if not (is_name and is_beside) or any("family" in one.concepts for one in same):
        return column
    concepts = column.concepts - {"company"} | {"contact", "family"}
    return replace(column, reading=replace(column.reading, concepts=concepts))


def _labelled(raw: _Raw) -> Iterator[str]:
    """The cells with a value beside them in the rows above the headings, such as `Order no: A-17`."""
    above = [cells for number, cells in raw.top.rows if number < raw.headings.row]
    for cells in above:
        for label, value in pairwise(cell.strip() for cell in cells if cell.strip()):
            if reading_of(label).concepts:
                yield f"{label} {value}"


def _one_of_several(reading: Reading, positions: Sequence[int], own: int) -> tuple[Reading, str]:
    """The reading of one of several columns with the same heading, and a remark. Of two addresses, the first is taken for the pickup."""
    there = " and ".join(map(column_letters, positions))
    remark = f"columns {there} have this heading"
    if len(positions) != 2 or reading.concepts & SIDES or not reading.concepts & _OF_PLACES:
        return reading, remark
    side = "pickup" if own == positions[0] else "delivery"
    return replace(reading, concepts=reading.concepts | {side}), f"{remark}; taken for the {side}"


def _with_side(reading: Reading, *, is_moment: bool) -> Reading:
    """The reading of a heading whose words depend on the cells. `Shipping` is over dates of pickups and over places of deliveries, `Deliver
    to` over the end of a window or over a name.
    """
    concepts = reading.concepts
    if "shipping" in concepts:
        side = "pickup" if is_moment or "moment" in concepts else "delivery"
        concepts = concepts - {"shipping"} | (frozenset[str]() if concepts & SIDES else {side})
    if is_moment or "moment" in concepts:
        return replace(reading, concepts=concepts)
    is_bare = not concepts & SIDES and not reading.unknown
    if is_bare and len(concepts & {"early", "late"}) == 1:  # `From` and `To` over places
        concepts |= {"pickup" if "early" in concepts else "delivery", "place"}
    return replace(reading, concepts=concepts - {"early", "late"})


def _with_order(columns: Sequence[Column], path: Path, notation: FileNotation) -> Iterator[Column]:
    """The columns; what some prove of the order of day and month holds for the others, else what the date in the file's name says, else what
    the one with the most dates is read with.
    """
    proved = {column.guess.order for column in columns} & {"day", "month"}
    named = _A_DAY.search(path.stem)
    remark = ""
    if not proved and named:
        day = date(*map(int, named.group(1, 3, 4)))
        unproved = [column.cells.texts for column in columns if column.guess.order == "open"]
        proved = {order_near(texts, day, notation.locale or None) for texts in unproved} - {""}
        remark = f"; {'or '.join(proved)} first, by the date in the file's name"
    order = next(iter(proved)) if len(proved) == 1 else ""
    undecided = [column for column in columns if column.guess.order == "open"] if not proved else []
    most = max(undecided, key=lambda column: len(column.cells.values), default=None)
    if most is not None and any(_order_of(column) != _order_of(most) for column in undecided):
        order, remark = _order_of(most), f"; {CHECK} day and month, as in {most.label}"
    for column in columns:
        if column.guess.order == "open" and order and column is not most:
            guess = guess_type(column.cells, column.reading, column.unit, notation.locale, order)
            yield replace(column, guess=guess._replace(evidence=f"{guess.evidence}{remark}"))
        else:
            yield column


def _order_of(column: Column) -> str:
    """The order of day and month in the first format of a column."""
    format_ = column.guess.keys["formats"][0]
    return "day" if format_.find("%d") < format_.find("%m") else "month"


def _all_columns(raw: _Raw) -> Iterator[tuple[int, Cells]]:
    """The columns with a heading or a value, by position. A column without a value has blank cells."""
    blank = cells_of("" for _ in raw.sheet.rows)
    for position in range(max(len(raw.headings.labels), max(raw.columns, default=0) + 1)):
        label = raw.headings.labels[position] if position < len(raw.headings.labels) else ""
        if position in raw.columns or fold_label(label):
            yield position, raw.columns.get(position, blank)

"""The rows under a header that are not part of the table. Pure, and the same for every format.

Units, comments, totals, notes, separator lines, page numbers, a repeated header and the titles of further pages come out with the rule in
words as `Row.ignored`, so that every row of a file is accounted for. Starts are compared folded and by whole words.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where
from loadsheet.reading.header import Header, fold_label
from loadsheet.reading.tables import Layout, Native, Row

_UNITS = """
    g gr kg kgs t to lb lbs oz mt cwt mm cm dm m km in inch inches ft feet yd mi ldm lm % cbm cdm ccm m3 m² m2 m³ dm3 dm³ cm3 cm³ cft cuft
    ft3 ft³ l ltr ml hl gal pc pcs pce st stk stck stuck ea each ctn pal plt h hrs min s sec d days kw kwh °c °f
    eur usd gbp chf pln czk sek nok dkk jpy cny € $ £ dd.mm.yyyy yyyy-mm-dd dd/mm/yyyy mm/dd/yyyy tt.mm.jjjj hh:mm
"""
UNITS = frozenset(_UNITS.split())
"""The texts in the cells of a units row; any text in brackets counts as well."""

_HEADER_AGAIN = "repeated header"
_LABELS_LEAST = 3  # different labels make a row headings
_NUMBERS_AND_SPACES = re.compile(r"[\W\d_]+")
_SAYS_NOTHING = re.compile(r"=|#[A-Z0-9/]+[!?]?$|[^\w=#]*(0[0.,]*|-)( ?[^\W\d_]{1,4})?$")
_PAGE = r"(page|seite|blatt|p[aá]gina|p[aá]g|sida|side|strona|strana|sayfa)\W*[0-9]{1,4}"
_OF_TOTAL = r"\s*(of|von|de|di|van|av|af|z|/)\s*[0-9]{1,4}"
_PAGE_NUMBER = re.compile(rf"\W*{_PAGE}({_OF_TOTAL})?\W*", re.IGNORECASE)
_PAGE_OF_TOTAL = re.compile(rf"(?<![^\W_]){_PAGE}{_OF_TOTAL}\W*$|^\W*{_PAGE}{_OF_TOTAL}(?![^\W_])", re.IGNORECASE)
"""At the end or at the beginning of a text."""
_LETTERS_MIN = 3  # of a title
_LINE_SIGNS = frozenset("-=_~+:")
_SEPARATOR = re.compile(r"\s*[-=_~+:]{3,}\s*")
_LONGER_MAX = 3  # surrounding characters make a repeated label at most this much longer
_BRACKETED = re.compile(r"(?![\[(][0-9\s.,+-]*[\])])(?:\[[^\[\]]{1,20}\]|\([^()]{1,20}\))")  # (12.5) is a number
SUM_WORDS = frozenset(
    {
        "sum", "total", "summe", "gesamt", "totaal", "suma", "totale", "summa", "gesamtsumme", "totals", "grand total", "gesamt summe",
        "overall total", "report total", "page total", "total general", "total geral", "eindtotaal", "totale generale", "slutsumma",
        "gesamtergebnis", "gesamt ergebnis", "total result", "razem", "suma czesciowa", "celkem", "mezisoucet", "toplam", "genel toplam", "ara toplam", "totaux", "totali", "totalt",
        "*", "**", "***", "****",
        "subtotal", "sub total", "sub-total", "zwischensumme", "sous-total", "sous total", "subtotaal", "subtotale", "delsumma",
    }
)  # fmt: skip
"""What starts rows of totals and subtotals, folded: words, and the stars of SAP's lists."""


def says_nothing(text: str) -> bool:
    """Whether a cell holds what formulas give for a row without values: a zero with or without its unit, a dash, an error, or no result."""
    return _SAYS_NOTHING.match(text.strip()) is not None


_RESULTS = SUM_WORDS | {"ergebnis", "result", "resultat", "resultado", "risultato", "resultaat"}


def end_of_subtotal(cell: str) -> str:
    """The word for a sum at the end of a text, with the blank before it, as pivot tables name subtotals (`Acme Total`); empty if there is none."""
    before, blank, word = cell.rstrip().rpartition(" ")
    return f"{blank}{word}" if before.strip() and word.isalpha() and fold_label(word) in _RESULTS else ""


def begins_like_totals(cell: str) -> bool:
    """Whether a row with this text in its first column looks like a row of totals: a word for them, or the stars of SAP's lists."""
    return _start(cell) in SUM_WORDS


def places_of_totals(first: int, width: int) -> list[int]:
    """The columns of a table of this width where a row of totals may say that it is one: `first`, the first that the mapping reads, the table's first two before it, since
    lists of SAP begin with a blank column, and the next one, as in pivot tables of two levels.
    """
    return [place for place in dict.fromkeys((0, 1, first, first + 1)) if place <= first + 1 and place < width]


def begins_with(words: Sequence[str]) -> Callable[[str], str]:
    """A function from the first text of a row to the one of these words that it begins with, folded; empty if there is none."""
    folded = sorted(filter(None, map(_start, words)), key=len, reverse=True)
    pattern = re.compile(f"(?:{'|'.join(map(re.escape, folded))})(?![^\\W_])") if folded else None

    def word_of(text: str) -> str:
        found = pattern.match(_start(text)) if pattern else None
        return found[0] if found else ""

    return word_of


def _start(text: str) -> str:
    """The text folded. Stars alone stay, since folding removes them."""
    return fold_label(text) or text.strip()


def is_separator(cells: Iterable[str]) -> bool:
    """Whether a row is a line that only separates others: dashes or the like in all its cells that are not blank, three at least."""
    texts = [cell for cell in cells if cell and not cell.isspace()]
    return bool(texts) and all(map(_SEPARATOR.fullmatch, texts))


def mark_stray_rows(
    rows: Iterable[Row | None], layout: Layout, header: Header, where: Callable[[int], Where]
) -> Iterator[Row]:
    """The rows under a header, with stray rows marked as ignored. In `rows`, None stands for blank rows; `where` gives the place of a row.
    Raises FileRefused at the headings of another table: the rows below would be read into wrong columns.
    """
    marked = _marked(rows, layout, header, where)
    titles = {(len(texts), page) for texts in header.titles if (page := _of_any_page("".join(texts)))}
    return _with_page_titles(marked, titles) if titles else marked


def _with_page_titles(rows: Iterable[Row], titles: Collection[tuple[int, str]]) -> Iterator[Row]:
    """The rows, with the titles of each further page ignored: rows with the texts of one above the first page but for numbers (`titles` has the
    number of texts with each), and with the header below them.
    """
    waiting: list[Row] = []
    counts = {count for count, _ in titles}
    for row in rows:
        texts = [cell for cell in row.cells if cell and not cell.isspace()]
        is_title = not row.ignored and len(texts) in counts and (len(texts), _of_any_page("".join(texts))) in titles
        if is_title or (waiting and row.ignored and row.ignored != _HEADER_AGAIN):
            waiting.append(row)
            continue
        is_page = row.ignored == _HEADER_AGAIN
        yield from (each if each.ignored or not is_page else _left_out(each, "repeated title") for each in waiting)
        waiting.clear()
        yield row
    yield from waiting


def _of_any_page(title: str) -> str:
    """A title without its numbers, dates and spaces; empty if little is left."""
    letters = _NUMBERS_AND_SPACES.sub("", title)
    return letters if len(letters) >= _LETTERS_MIN else ""


def _left_out(row: Row, rule: str) -> Row:
    return Row(row.number, row.cells, None, rule)


def _marked(rows: Iterable[Row | None], layout: Layout, header: Header, where: Callable[[int], Where]) -> Iterator[Row]:
    row_filters, rules = layout.row_filters, _StrayRowRules(layout, header)
    has_rules = bool(row_filters.comment or row_filters.totals or row_filters.footer)
    place, label = rules.header_cell
    shortest, longest = len(label) - _LONGER_MAX, len(label) + _LONGER_MAX
    ended, last, first = "", header.row, True
    for row in rows:
        if row is None:
            if row_filters.stop_at_blank and not first and not ended:
                ended = f"stop_at_blank: below row {last}"
            continue
        last = row.number
        if row.ignored:
            yield row
            continue
        if row.problem is not None and row.problem.code == "R214":
            yield row  # reading ends here; report it, whatever the rules say
            continue
        rule = ended
        if not rule and has_rules:
            rule, ends = rules.rule_of_first_text(row)
            ended = rule if ends else ""
        rule = rule or _rule_of_print(row.cells, place)
        if not rule and first:
            first, rule = False, rules.units_rule(row)
        if not rule and shortest <= len(row.cells[place]) <= longest and rules.is_header(row):
            rule = _HEADER_AGAIN
        if not rule:
            rules.refuse_other_headings(row, where)
        yield _left_out(row, rule) if rule else row


def _rule_of_print(cells: Sequence[str], place: int) -> str:
    """The rule that ignores a row that only structures a printed list; empty if it does not. `place` is the first column that is read."""
    begins = cells[0][:1].strip() or cells[place][:1].strip() or "-"  # only amounts may be underlined
    if begins in _LINE_SIGNS and is_separator(cells):
        return "separator line"
    if cells.count("") + 1 != len(cells) or len(cells) < 2:  # cheap check first
        return ""
    begins_row = cells[0] or cells[place]  # other single texts may continue the row above
    is_page = _PAGE_NUMBER.fullmatch("".join(cells)) or (begins_row and _PAGE_OF_TOTAL.search(begins_row))
    return "page number" if is_page else ""


class _StrayRowRules:
    """The rules of a layout, for the rows under one header."""

    def __init__(self, layout: Layout, header: Header) -> None:
        self._row_filters = layout.row_filters
        required = [column.name for column in layout.columns if column.required]
        columns = header.columns
        self._required = [columns[name] for name in required if name in columns]
        self._place = min(columns.values())
        self._totals = begins_with(layout.row_filters.totals)
        self._footer = begins_with(layout.row_filters.footer)
        last = header.rows[-1]
        label = last[self._place] if self._place < len(last) else ""
        self.header_cell = self._place, label
        """A position, and the text of the header's last row at it. Its length alone excludes nearly all rows."""
        self._word = (fold_label(label).split() or [""])[0]
        self._compared = fold_label if sum(bool(cell.strip()) for cell in last) > 1 else _unmarked
        self._header = self._compared_cells(last)
        places = sorted({place for found in header.positions.values() for place in found if place < len(last)})
        self._read = [(place, last[place]) for place in places if last[place]]
        self._labels = frozenset(label for _, label in self._read)  # nearly no other row holds one

    def is_header(self, row: Row) -> bool:
        """Whether a row repeats the last row of the header. Labels are compared folded, a single label exactly."""
        text = row.cells[self._place]
        if not self._word or (text.isascii() and self._word not in text.casefold()):  # cheap check first
            return False
        return (
            self._compared(text) == self._compared(self.header_cell[1])
            and self._compared_cells(row.cells) == self._header
        )

    def refuse_other_headings(self, row: Row, where: Callable[[int], Where]) -> None:
        """Raises FileRefused if a row holds most headings again, and another one over a column that is read, as where two exports were put
        together.
        """
        if self._labels.isdisjoint(row.cells):
            return
        filled = sum(bool(cell) and not cell.isspace() for cell in row.cells)
        held = len(self._labels.intersection(row.cells))
        if held < _LABELS_LEAST or held * 2 <= filled:
            return
        for place, label in self._read:
            if (other := row.cells[place].strip()) and self._compared(other) != self._compared(label):
                reason = f'row {row.number} holds headings again, with "{other}" in the column of "{label}"'
                hint = "the rows below it would be read into wrong columns: send each table as a file of its own"
                raise FileRefused(Problem("R201", where(row.number), other, {"reason": reason}, hint))

    def _compared_cells(self, cells: Sequence[str]) -> tuple[str, ...]:
        """The cells in the form used for comparison, without trailing blanks."""
        bare = [self._compared(cell) for cell in cells]
        while bare and not bare[-1]:
            bare.pop()
        return tuple(bare)

    def units_rule(self, row: Row) -> str:
        """The rule that makes the first row under the header a units row; empty if it is not one. An undeclared units row must
        lack a required value, or hold only texts in brackets.
        """
        if self._row_filters.units_row is True:
            return "units_row: the first row under the header"
        texts = [cell.strip() for cell in row.cells if cell.strip()]
        if self._row_filters.units_row is False or not texts or any(isinstance(cell, Native) for cell in row.cells):
            return ""
        bracketed = all(_BRACKETED.fullmatch(text) for text in texts)
        partial = any(not row.cells[place].strip() for place in self._required)
        units = all(_BRACKETED.fullmatch(text) or text.casefold().rstrip(".") in UNITS for text in texts)
        if bracketed or (partial and units):
            return "units_row: auto (the first row under the header holds only units)"
        return ""

    def rule_of_first_text(self, row: Row) -> tuple[str, bool]:
        """The rule that ignores a row because of its first text, and whether the table ends with it."""
        text = next((cell for cell in row.cells if cell and not cell.isspace()), "")
        comment = self._row_filters.comment
        if comment and text.lstrip().startswith(comment):
            return f"comment: {comment}", False
        if found := self._totals(text):
            return f"totals: begins with {found}", False
        if found := self._footer(text):
            return f"footer: row {row.number} begins with {found}, and all below", True
        return "", False


def _unmarked(cell: str) -> str:
    """The cell without surrounding white space, and without the byte order mark of an appended file."""
    return cell.lstrip("\ufeff").strip()

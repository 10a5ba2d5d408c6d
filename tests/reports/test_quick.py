import zipfile
from datetime import datetime

from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadsheet.reports.book import Kind, Tone, open_book
from loadsheet.reports.sheets import Column, QuickRows, write

COLUMNS = (Column("Key"), Column("Text"), Column("Count", Kind.COUNT), Column("When", Kind.MOMENT), Column("More"))
LIKELY = st.sampled_from(
    ["", "A-1", "Köln", "a b", " a", "a ", "<r>b</r>", "a|b", "|", "_x0041_", "\t", "x\ny", "&", '"']
)
text = LIKELY | st.sampled_from(["\xa0a", "a\u2003", "\x85", "\ufffe"]) | st.text(max_size=8)
rows = st.lists(
    st.tuples(
        text,
        text,
        st.none() | st.integers(0, 9) | st.floats(-1e9, 1e9) | st.decimals(-9, 9, places=3),
        st.none() | st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1)),
        text,
        st.sampled_from([None, Tone.BAD]),
        st.sampled_from([None, None, 28, 41]),
    ),
    min_size=1,
    max_size=8,
)


def sheet_xml(folder, lines, put):
    path = folder / "book.xlsx"
    with open_book(path, title="t", footer="f") as book:
        put(book, lines)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if "docProps" not in name}


def quickly(book, lines):
    sheet = book.sheet("Sheet")
    quick = QuickRows(sheet, lambda position, tone: book.style(COLUMNS[position].kind, tone or Tone.PLAIN))
    slowly_one(book, sheet, 0, [column.head for column in COLUMNS], None)
    for row, (*values, tone, height) in enumerate(lines, start=1):
        if not quick.add(row, values, {1: tone}, height):
            slowly_one(book, sheet, row, values, tone, height=height)


def slowly(book, lines):
    sheet = book.sheet("Sheet")
    slowly_one(book, sheet, 0, [column.head for column in COLUMNS], None)
    for row, (*values, tone, height) in enumerate(lines, start=1):
        slowly_one(book, sheet, row, values, tone, height=height)


def slowly_one(book, sheet, row, values, tone, *, height=None):
    if height is not None:
        sheet.set_row(row, height)
    for position, value in enumerate(values):
        chosen = tone if position == 1 and tone else Tone.PLAIN
        write(sheet, row, position, value, book.style(COLUMNS[position].kind, chosen))


@given(rows)
@example(
    [
        ("A-1", "b", None, None, "c", None, 28),
        ("A-2", "<", 3, None, " d", Tone.BAD, None),
        ("A-3", "", None, None, "e", Tone.BAD, 41),
    ]
)
@settings(max_examples=60, deadline=None)
def test_a_sheet_is_the_same_to_the_byte_whoever_wrote_its_rows(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("sheets")
    assert sheet_xml(folder, lines, quickly) == sheet_xml(folder, lines, slowly)

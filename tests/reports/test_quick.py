import zipfile

from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadsheet.reports.quick import QuickRows
from loadsheet.reports.sheets import Column, Kind, Tone, open_book, write

COLUMNS = (Column("Key"), Column("Text"), Column("Count", Kind.COUNT), Column("More"))
LIKELY = st.sampled_from(
    ["", "A-1", "Köln", "a b", " a", "a ", "<r>b</r>", "a|b", "|", "_x0041_", "\t", "x\ny", "&", '"']
)
text = LIKELY | st.text(max_size=8)
rows = st.lists(
    st.tuples(text, text, st.none() | st.integers(0, 9), text, st.sampled_from([None, Tone.BAD])),
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
    for row, (*values, tone) in enumerate(lines, start=1):
        if not quick.add(row, values, {1: tone}):
            slowly_one(book, sheet, row, values, tone)


def slowly(book, lines):
    sheet = book.sheet("Sheet")
    slowly_one(book, sheet, 0, [column.head for column in COLUMNS], None)
    for row, (*values, tone) in enumerate(lines, start=1):
        slowly_one(book, sheet, row, values, tone)


def slowly_one(book, sheet, row, values, tone):
    for position, value in enumerate(values):
        chosen = tone if position == 1 and tone else Tone.PLAIN
        write(sheet, row, position, value, book.style(COLUMNS[position].kind, chosen))


@given(rows)
@example([("A-1", "b", None, "c", None), ("A-2", "<", 3, " d", Tone.BAD), ("A-3", "", None, "e", Tone.BAD)])
@settings(max_examples=60, deadline=None)
def test_a_sheet_is_the_same_to_the_byte_whoever_wrote_its_rows(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("sheets")
    assert sheet_xml(folder, lines, quickly) == sheet_xml(folder, lines, slowly)

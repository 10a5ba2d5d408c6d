"""Which sheet is read: the one that is named, else the only one that holds the table; what would be lost refuses the file."""

from xml.sax.saxutils import escape

import pytest
from reading_corpus import inline, layout, open_one, refusal, wanted, workbook_parts, write_parts
from reading_writers import WRITERS, Sheet, Typed

from loadsheet.problems import FileRefused
from loadsheet.reading import Layout, open_tables
from loadsheet.reading.layouts import RowFilters, bounds_of
from loadsheet.reading.workbook import Book, Traits, open_workbook
from loadsheet.reading.workbook import Sheet as Listed
from loadsheet.settings import Settings

ASKED = layout("Id", "City", optional=("City",))
HEAD = ["Id", "City"]
WEEK_10, WEEK_11 = Sheet([HEAD, ["A1", "Ulm"]], "Week 10"), Sheet([["Orders"], HEAD, ["A2", "Bonn"]], "Week 11")


def written(folder, *sheets, form="xlsx"):
    return WRITERS[form](folder / f"a.{form}", list(sheets))


@pytest.mark.parametrize("form", WRITERS)
def test_two_sheets_that_hold_the_table_are_refused_unless_one_is_named(tmp_path, form):
    path = written(tmp_path, Sheet([["About"]], "Cover"), WEEK_10, WEEK_11, form=form)
    problem = refusal(path, ASKED)
    assert (problem.code, problem.values["sheets"]) == ("R238", "Week 10, Week 11")
    assert "name the one that is in the mapping" in problem.hint
    assert open_one(path, layout("Id", sheets=("Week 11",))).sheet == "Week 11"


def test_the_sheet_that_is_read_may_be_the_empty_one_of_two(tmp_path):
    path = written(tmp_path, Sheet([HEAD], "Week 10"), WEEK_11)
    assert refusal(path, ASKED).values["sheets"] == "Week 10, Week 11"


@pytest.mark.parametrize(
    "other",
    [
        Sheet([HEAD], "Week 12"),
        Sheet([HEAD, ["(no.)", "(name)"], ["total", "2"]], "Units and totals alone"),
        Sheet([["City", "Count"], ["Ulm", "2"]], "Other columns"),
        Sheet([["Id", "Orders"], ["A1", Typed(3)]], "A summary by Id"),
        Sheet([HEAD, ["A9", "Trier"]], "Old", hidden=True),
        Sheet([*[["note"]] * 60, HEAD, ["A9", "Trier"]], "Header too far down"),
    ],
    ids=lambda sheet: sheet.title,
)
def test_a_sheet_without_rows_of_the_table_or_hidden_changes_nothing(tmp_path, other):
    asked = layout("Id", "City", optional=("City",), row_filters=RowFilters(totals=("total",)))
    assert open_one(written(tmp_path, WEEK_10, other), asked).sheet == "Week 10"


def test_a_workbook_whose_sheets_are_all_hidden_is_refused_by_saying_so(tmp_path):
    parts = workbook_parts(inline("Id", number=1), sheets=(("Week 10", "hidden"), ("Week 11", "veryHidden")))
    problem = refusal(write_parts(tmp_path / "a.xlsx", parts), ASKED)
    assert problem.text == "the file cannot be read: all its sheets are hidden: Week 10, Week 11"
    assert problem.hint == "unhide the sheet that holds the table, or name it in the mapping (sheet: ...)"


def test_a_page_that_explains_the_only_column_is_no_table_and_a_sheet_with_the_same_labels_is(tmp_path):
    guide = Sheet([["Id", "required", "the number of the order"], ["City", "optional", ""]], "Guide")
    assert open_one(written(tmp_path, WEEK_10, guide), layout("Id")).sheet == "Week 10"
    assert refusal(written(tmp_path, WEEK_10, guide, WEEK_11), layout("Id")).values["sheets"] == "Week 10, Week 11"


def test_a_column_that_need_not_be_there_may_lack_on_one_of_them(tmp_path):
    asked = layout("Id", "City", "Weight", optional=("City", "Weight"))
    whole = Sheet([["Id", "City", "Weight"], ["A1", "Ulm", "5"]], "Week 10")
    assert refusal(written(tmp_path, whole, WEEK_11), asked).values["sheets"] == "Week 10, Week 11"


def test_a_sheet_that_another_table_is_read_from_is_not_lost(tmp_path):
    path = written(tmp_path, WEEK_10, Sheet([["Id", "Kind"], ["A1", "PAL"]], "Packages"))
    layouts = [ASKED, Layout("packages", wanted("Id", "Kind"))]
    tables = open_tables(path, "a.xlsx", layouts, Settings())
    assert {name: table.sheet for name, table in tables.items()} == {"rows": "Week 10", "packages": "Packages"}
    path = written(tmp_path, WEEK_10, WEEK_11, Sheet([["Id", "Kind"], ["A1", "PAL"]], "Packages"))
    with pytest.raises(FileRefused, match=r"R238.*: Week 10, Week 11 "):
        open_tables(path, "a.xlsx", layouts, Settings())


def test_without_a_required_column_the_sheet_with_most_columns_is_read(tmp_path):
    asked = layout("Id", "City", optional=("Id", "City"))
    assert open_one(written(tmp_path, WEEK_10, Sheet([["City"], ["Ulm"]], "Cities")), asked).sheet == "Week 10"


def test_of_the_other_sheets_only_the_tops_are_read():
    seen = []

    def rows(key):
        yield 1, [(0, "Id")]
        for number in range(2, 100_000):
            seen.append(key)
            yield number, [(0, "a note" if key == "1" else f"A{number}")]

    sheets = tuple(Listed(f"Week {key}", key, hidden=False) for key in "012")
    row_filters = RowFilters(comment="a note")
    with pytest.raises(FileRefused, match=r"R238.*: Week 0, Week 2 "):
        open_workbook(
            Book("a.xlsx", "workbook", sheets, {}, rows, lambda _: Traits()),
            [layout("Id", row_filters=row_filters)],
            bounds_of(Settings()),
        )
    assert len(seen) < 100


@pytest.mark.parametrize("form", [*(form for form in WRITERS if form != "ods"), "csv"])  # .ods has paragraphs
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "_x000D_\n"])
def test_line_ends_within_a_cell_are_line_feeds_whoever_saved_the_file(tmp_path, form, end):
    if form == "csv":
        path = tmp_path / "a.csv"
        path.write_bytes(f'Id,City{end}A1,"Ulm{end}West"{end}'.replace("_x000D_", "\r").encode())
    elif form == "xlsx":
        written = escape(end).replace("\r", "_x000D_")
        path = write_parts(
            tmp_path / "a.xlsx", workbook_parts(inline(*HEAD, number=1) + inline("A1", f"Ulm{written}West", number=2))
        )
    else:
        path = WRITERS[form](
            tmp_path / f"a.{form}", [Sheet([HEAD, ["A1", f"Ulm{end.replace('_x000D_', chr(13))}West"]])]
        )
    (row,) = open_one(path, ASKED).rows()
    assert row.cells == ("A1", "Ulm\nWest")
    assert row.problem is None

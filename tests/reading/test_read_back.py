"""What is written is read back identical; whatever the bytes are, they give tables or one refusal."""

import csv
import io

import pytest
import xlsxwriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading_corpus import attempt, layout
from reading_writers import WRITERS, Sheet, Typed

from loadsheet.problems import Problem

ONE_FOLDER = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PIECES = (*',;|"a7ü東𠀀=\t\n \u00a0\u2028', '""', "sep=;", "_x0041_", "\r\n")
TEXT = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=12
)
WIDTH = st.integers(1, 5)


@st.composite
def tables(draw, text=TEXT):
    """A header of unlike labels and rows that are not blank."""
    width = draw(WIDTH)
    rows = draw(st.lists(st.lists(text, min_size=width, max_size=width), max_size=6))
    return [f"c{place}" for place in range(width)], [row for row in rows if "".join(row).strip()]


def read_back(path, header, **more):
    """The cells, or the problem the file is refused with."""
    rows = attempt(path, layout(*header, **more))
    if isinstance(rows, Problem):
        return rows
    assert [row.problem for row in rows if row.problem] == []
    return [list(row.cells) for row in rows]


@given(
    table=tables(),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
@ONE_FOLDER
def test_a_table_written_as_csv_is_read_back_identical_but_for_line_ends(tmp_path, table, delimiter, quoting, encoding):
    header, rows = table
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\r\n").writerows([header, *rows])
    path = tmp_path / "a.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    declared = {"delimiters": (delimiter,)} if len(header) == 1 else {}  # one label alone fits every delimiter
    read = read_back(path, header, **declared)
    if isinstance(read, Problem):  # a value whose lines look like rows could have swallowed them: the one safe refusal
        assert (read.code, len(header) > 2) == ("R206", True)
        assert any("\n" in cell and delimiter in cell for row in rows for cell in row)
    else:
        assert read == [[cell.replace("\r\n", "\n").replace("\r", "\n") for cell in row] for row in rows]


def write_inline(path, sheets):
    """As programs write what they stream: texts in the cells."""
    with xlsxwriter.Workbook(path, {"constant_memory": True}) as book:
        page = book.add_worksheet()
        for number, row in enumerate(sheets[0].rows):
            for place, cell in enumerate(row):
                page.write_string(number, place, cell)
    return path


@pytest.mark.parametrize("write", [*WRITERS.values(), write_inline])
@given(table=tables(TEXT.map(lambda text: text.replace("\r", ""))))
@ONE_FOLDER
def test_a_table_of_text_written_in_any_format_is_read_back_identical(tmp_path, write, table):
    header, rows = table
    if write is WRITERS["xls"]:  # its writer miscounts letters beyond the basic plane
        rows = [["".join(filter(lambda letter: letter < "\U00010000", cell)) for cell in row] for row in rows]
    rows = [row for row in rows if "".join(row).strip()]
    assert read_back(write(tmp_path / "a", [Sheet([header, *rows])]), header) == rows


@pytest.mark.parametrize("form", WRITERS)
@given(number=st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15))
@ONE_FOLDER
def test_a_number_written_in_any_format_is_the_same_number(tmp_path, form, number):
    ((cell,),) = read_back(WRITERS[form](tmp_path / "a", [Sheet([["c0"], [Typed(number)]])]), ["c0"])
    assert cell.kind == "number"
    assert float(cell) == float(f"{number:.16G}" if form == "xlsx" else number)  # as the writer spells it
    assert "E" not in cell.upper()
    assert not ("." in cell and cell.endswith("0"))


@given(
    st.binary(max_size=300)
    | st.lists(st.sampled_from([b"c0", b"c1", b'"', b",", b"\n", b"\r", b"\0", b"\xff", b"\xfe", b"x"])).map(b"".join)
)
@ONE_FOLDER
def test_any_bytes_give_tables_or_a_refusal(tmp_path, content):
    path = tmp_path / "a.bin"
    for start in (b"", b"c0,c1\n", b"PK\x03\x04", b"\xff\xfe", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        path.write_bytes(start + content)
        found = attempt(path, layout("c0", "c1", optional=("c1",)))
        assert isinstance(found, Problem) or all(row.cells and str(row.problem) for row in found)

"""Delimited text: encodings, delimiters, line ends, quotes, lengths; every defect named by its line."""

import re

import pytest
from reading_corpus import cells_of, layout, open_one, refusal, rows_of, text_file

from loadsheet.reading import Layout, WantedColumn, open_tables
from loadsheet.settings import Settings

ASKED = layout("Order", "City", "Weight", optional=("City", "Weight"))
TEXT = "Order,City,Weight\nA1,Köln,1.5\n00012,Łódź,2\n"
CELLS = [["A1", "Köln", "1.5"], ["00012", "Łódź", "2"]]

# ---- encodings ----


@pytest.mark.parametrize("mark", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_every_mark_is_known_in_both_byte_orders(tmp_path, mark):
    table = open_one(text_file(tmp_path, ("\ufeff" + TEXT).encode(mark)), ASKED)
    assert [list(row.cells) for row in table.rows()] == CELLS
    assert table.reading_notes["encoding"] == f"{mark.upper()} (by its byte order mark)"
    chinese = "\ufeff订单,城市\n" + "".join(f"订单号码甲乙丙丁{'东' * 50},北京市朝阳区\n" for _ in range(60))
    assert len(rows_of(text_file(tmp_path, chinese.encode(mark)), layout("订单"))) == 60


LEGACY = {
    "cp1252": "NESTLÉ®,Zürich\nSociété,Genève",
    "shift_jis": "東京都,ﾄｳｷｮｳ",
    "gb18030": "北京𠀀,上海",
    "iso8859-7": "Αθήνα,Πάτρα",
    "cp1251": "Москва,Тула",
    "big5": "臺北,高雄",
    "cp037": "Koln,Bonn",
}


@pytest.mark.parametrize("encoding", LEGACY)
def test_a_declared_encoding_gives_the_exact_text_and_is_not_taken_for_damaged_utf_8(tmp_path, encoding):
    path = text_file(tmp_path, f"Order,City\n{LEGACY[encoding]}\n", encoding=encoding)
    expected = [line.split(",") for line in LEGACY[encoding].splitlines()]
    for encodings in ((encoding,), ("utf-8", encoding)):
        assert cells_of(path, layout("Order", "City", encodings=encodings)) == expected


def test_declared_encodings_are_tried_in_order_over_the_whole_file(tmp_path):
    path = text_file(tmp_path, "Order,City\n" + "A,plain\n" * 40_000 + "A,Köln\n", encoding="cp1252")
    table = open_one(path, layout("Order", encodings=("utf-8-sig", "cp1252")))
    assert table.reading_notes["encoding"] == "CP1252"
    assert list(table.rows())[-1].cells == ("A", "Köln")
    problem = refusal(path, layout("Order", encodings=("utf-8-sig", "ascii")))
    assert problem.values["encoding"] == "UTF-8"  # the first that failed
    for name in ("latin-99", "rot13", "hex"):
        assert name in refusal(path, layout("Order", encodings=(name,))).text


@pytest.mark.parametrize("place", [0, 3, 262_143, 262_144, 262_145])
@pytest.mark.parametrize("encoding", ["utf-8", "shift_jis"])
def test_a_bad_byte_is_named_by_offset_and_line(tmp_path, place, encoding):
    good = b"Order,City\r\n" + "A1,東京\r\n".encode(encoding) * 30_000
    cut = place - 1 if place and good[place - 1] > 0x7F else place
    while good[cut] > 0x7F:  # stay between characters
        cut += 1
    path = text_file(tmp_path, good[:cut] + b"\xff" + good[cut:])
    problem = refusal(path, layout("Order", encodings=(encoding,)))
    assert (problem.code, problem.values["offset"]) == ("R203", cut)
    assert problem.values["line"] == problem.where.row == len(re.findall(rb"\r\n?|\n", good[:cut])) + 1
    assert "source.encoding" in problem.hint


BAD = "Order,City\nA1,Skövde\nA2,Malmö\nA3,Umeå\n".encode()


@pytest.mark.parametrize(
    ("bytes_", "offset", "line"),
    [
        (BAD.replace(b"vde", b"v\xe9de"), 19, 2),
        (BAD[:-2], 38, 4),
        ("Order,City\nA1,Skövde\nA2,Ö".encode()[:-1], 25, 3),
        (b"Order,City\n" + b"A1,Bonn\n" * 32_764 + b"A1,Bonnbonnbon\n" + BAD[11:-2], 262_165, 32_769),
    ],
    ids=["a bad byte", "cut in a letter", "cut with one letter before", "letters where pieces of it meet"],
)
@pytest.mark.parametrize("encodings", [("utf-8-sig", "cp1252"), ("ascii", "UTF8", "latin-1")])
def test_damaged_utf_8_is_refused_and_never_read_as_what_takes_any_byte(tmp_path, bytes_, offset, line, encodings):
    problem = refusal(text_file(tmp_path, bytes_), layout("Order", encodings=encodings))
    assert (problem.code, problem.values["offset"], problem.where.row) == ("R203", offset, line)
    assert "damaged or cut off here" in problem.hint
    assert list(rows_of(text_file(tmp_path, bytes_), layout("Order", encodings=encodings[-1:])))  # if it is said so


@pytest.mark.parametrize(
    ("mark", "content", "said"),
    [
        (b"\xff\xfe", "utf-32-le", "UTF-16"),
        (b"\xff\xfe", "utf-32-be", "UTF-32"),
        (b"\xff\xfe", "utf-16-be", "UTF-16"),
        (b"\xff\xfe", "utf-8", "UTF-16"),
        (b"\xfe\xff", "utf-16-le", "UTF-16"),
        (b"\xfe\xff", "utf-32-le", "UTF-16"),
        (b"\xff\xfe\0\0", "utf-16-le", "UTF-32"),
        (b"\xff\xfe\0\0", "utf-8", "UTF-32"),
        (b"\xef\xbb\xbf", "utf-16-le", "UTF-8"),
    ],
)
def test_a_mark_of_another_encoding_than_the_content_has_is_refused_as_such(tmp_path, mark, content, said):
    problem = refusal(text_file(tmp_path, mark + TEXT.encode(content)), ASKED)
    assert problem.code == "R201"
    assert f"its byte order mark says {said}, but its content is not" in problem.text


def test_bytes_that_no_mark_explains_are_refused_and_utf_16_without_mark_is_read_when_declared(tmp_path):
    assert refusal(text_file(tmp_path, b"\xef\xbb\xbfOrder\nK\xf6ln\n"), ASKED).code == "R203"
    path = text_file(tmp_path, TEXT, encoding="utf-16-le")
    assert "UTF-16 without a byte order mark" in refusal(path, ASKED).text
    assert cells_of(path, layout("Order", encodings=("utf-16",))) == CELLS


def test_text_without_nuls_is_not_read_as_utf_16(tmp_path):
    asked = layout("Order", encodings=("utf-8-sig", "utf-16-le", "cp1252"))
    assert cells_of(text_file(tmp_path, "Order,Town\nA1,Kölln\n", encoding="cp1252"), asked)[0][-1] == "Kölln"


# ---- delimiters ----


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_under_which_the_header_is_found(tmp_path, delimiter):
    lines = [["Order", "At", "Note"], ["A1", "10:00:00", "a:b,c;d|e\tf".replace(delimiter, " ")]]
    path = text_file(tmp_path, "\n".join(delimiter.join(line) for line in lines))
    assert cells_of(path, layout("Order", "At")) == lines[1:]


@pytest.mark.parametrize(
    ("text", "declared", "said"),
    [
        ("Order;City\nA1;Ulm\n", ",", "seem to be separated by semicolons"),
        ("A report\nOrder\tCity\tWeight\nA1\tUlm\t1\n", ";", "seem to be separated by tabs"),
        ("Order|Town\nA1|Ulm\n", ",", "seem to be separated by pipes"),
        ("Order;Town\nA1;Ulm\n", ";", "the row holds: Order, Town"),
        ("Name;Town\nA1;Ulm\n", ",", "row 1 holds: Name;Town"),
        ("sep=,\nOrder;City\nA1;Ulm\n", ",", "row 2 holds: Order;City"),
    ],
)
def test_another_delimiter_than_the_declared_one_is_named(tmp_path, text, declared, said):
    problem = refusal(text_file(tmp_path, text), layout("Order", "City", delimiters=(declared,)))
    assert problem.code in ("R204", "R215")
    assert said in problem.hint
    assert ("source.delimiter" in problem.hint) == ("seem" in said)


def test_of_several_declared_delimiters_the_one_that_fits_is_taken(tmp_path):
    path = text_file(tmp_path, "Order;City\nA1;Ulm\n")
    assert open_one(path, layout("Order", delimiters=(",", ";"))).reading_notes["delimiter"] == "semicolon"


def test_a_separator_line_wins_and_is_no_row(tmp_path):
    path = text_file(tmp_path, 'sep=;\r\nOrder;City\r\nA,1;"Ulm"\r\n')
    (row,) = rows_of(path, layout("Order", "City", delimiters=(",",)))
    assert (row.number, row.cells) == (3, ("A,1", "Ulm"))


# ---- rows ----


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("last", ["", "end"])
def test_every_line_end_gives_the_same_rows(tmp_path, end, last):
    text = end.join(["Order,City", "A1,Ulm", "", "A2,Bonn"]) + (end if last else "")
    assert [(row.number, row.cells) for row in rows_of(text_file(tmp_path, text), ASKED)] == [
        (2, ("A1", "Ulm")),
        (4, ("A2", "Bonn")),
    ]
    cut = rows_of(text_file(tmp_path, end.join(["Order,City", "A1,Ulm", "A2"])), ASKED)[-1].problem
    assert "the file ends within this row" in cut.hint


def test_row_numbers_are_the_physical_lines_of_their_beginnings(tmp_path):
    text = 'note\n\nOrder,City\nA1,"two\nlines"\n,\nA2,"x\r\ny"\n \nA3,z\n'
    table = open_one(text_file(tmp_path, text), ASKED)
    assert [(row.number, *row.cells) for row in table.rows()] == [
        (4, "A1", "two\nlines"),
        (7, "A2", "x\ny"),
        (10, "A3", "z"),
    ]
    assert (table.header_row, table.reading_notes["rows above the header"]) == (3, "1")


def test_doubled_quotes_are_one_and_quotes_inside_bare_values_stay(tmp_path):
    path = text_file(tmp_path, 'Order,City\n"A ""1""","say ""hi"""\nMonitor 19",x\n')
    assert cells_of(path, ASKED) == [['A "1"', 'say "hi"'], ['Monitor 19"', "x"]]


@pytest.mark.parametrize(("line", "whole"), [('"A1,""Ulm, Nord"",5"', True), ("A1", False), ('"A1, of 2"', False)])
def test_a_row_that_is_one_value_in_quotes_is_told_as_such(tmp_path, line, whole):
    (row,) = rows_of(text_file(tmp_path, f"Order,City,Weight\n{line}\n"), ASKED)
    assert (row.problem.code, "the whole row is one value in quotes" in row.problem.hint) == ("R205", whole)


def test_short_and_long_rows_are_reported_and_the_others_go_on(tmp_path):
    path = text_file(tmp_path, "Order,City,Weight\nA1,Ulm\nA2,Bonn,1,,\nA3,Köln,1,5\nA4,Trier,2\n")
    short, dropped, long, good = rows_of(path, ASKED)
    assert (short.number, short.cells, short.problem.code) == (2, ("A1", "Ulm", ""), "R205")
    assert short.problem.text == "number of cells: 2 in the row, 3 in the header"
    assert (dropped.cells, dropped.problem) == (("A2", "Bonn", "1"), None)
    assert (long.cells, long.problem.code, long.problem.found) == (("A3", "Köln", "1"), "R205", "5")
    assert str(long.problem).startswith("orders.csv:4: R205 error")
    assert [where.column for where in long.problem.also] == ["Order", "City", "Weight"], "any may be in the wrong place"
    assert (good.number, good.problem) == (5, None)


@pytest.mark.parametrize("character", ["\0", "\x1a", "\x0b", "\x7f"])
def test_a_control_character_is_named_by_row_and_column(tmp_path, character):
    first, second = rows_of(text_file(tmp_path, f"Order,City\nA1,U{character}lm\nA2,Bonn\n"), ASKED)
    assert (first.problem.code, first.problem.where.row, first.problem.where.column) == ("R209", 2, "City")
    assert first.problem.values["character"] == ord(character)
    assert second.problem is None


def test_a_cell_that_is_too_long_is_named_and_the_limit_is_a_setting(tmp_path):
    for count in (131_072, 131_073, 200_000):  # by default the csv module takes 131,072
        path = text_file(tmp_path, f'Order,City\nA1,{"x" * count}\nA2,"{"y" * 40}\n{"z" * 40}"\n')
        one, two = rows_of(path, ASKED, cell_length_max=60)
        assert (one.problem.code, one.problem.values["length"]) == ("R212", count)
        assert two.problem.text == "the cell holds 81 characters; at most 60 are read"
        assert rows_of(path, ASKED, cell_length_max=1_000_000)[0].cells == ("A1", "x" * count)
    path = text_file(tmp_path, b"Order,City\nA1," + b"x" * 2_000_000)
    assert "1,048,576 characters" in refusal(path, ASKED).text


def test_an_empty_file_is_refused_and_a_header_alone_is_an_empty_table(tmp_path):
    for content in (b"", b"\n\n \r\n", b"\xef\xbb\xbf", b"\xff\xfe", b",,,\n"):
        assert refusal(text_file(tmp_path, content), ASKED).code in ("R202", "R215"), content
    assert rows_of(text_file(tmp_path, "Order,City"), ASKED) == []


def test_tables_with_different_layouts_come_from_one_file(tmp_path):
    path = text_file(tmp_path, "Order,City\nA1,Köln\n", encoding="cp1252")
    one = Layout("one", (WantedColumn("o", ("Order",)),), encodings=("cp1252",))
    two = Layout("two", (WantedColumn("c", ("City",)),), encodings=("iso8859-1",))
    tables = open_tables(path, "x", [one, two], Settings())
    assert [(name, table.columns) for name, table in tables.items()] == [("one", {"o": 0}), ("two", {"c": 1})]


# ---- quotes ----
BROKEN = {
    "end of file": 'A1,Ulm,1\nA2,"Bonn,2\nA3,Köln,3\n',
    "text after the next quote": 'A1,Ulm,1\nA2,"Bonn,2\nA3,"Köln",3\n',
    "another stray quote": 'A1,Ulm,1\nA2,"Bonn,2\n' + "A3,Köln,3\n" * 69 + 'A4,Monitor 19",4\nA5,Ulm,5\n',
    "too many lines": 'A1,Ulm,1\nA2,"Bonn,2\n' + "prose\n" * 200 + '",9\n',
    "last line": 'A1,Ulm,1\nA2,"Bonn',
    "a space after a delimiter": 'A1,Ulm,1\nA2,Bonn,"2\nA3,Köln, 3\nA4,Trier,4"\nA5,Ulm,5\n',
    "a space after the last delimiter": 'A1,Ulm,1\nA2,Bonn,"2\nA3,Köln, 3"\nA5,Ulm,5\n',
    "a space before the quote": 'A1,Ulm,1\nA2, Bonn,"2\nA3,Köln,3"\nA5,Ulm,5\n',
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_quote_that_is_never_closed_refuses_the_file_and_names_the_row_it_opens_in(tmp_path, case):
    problem = refusal(text_file(tmp_path, "Order,City,Weight\n" + BROKEN[case]), ASKED)
    assert (problem.code, problem.where.row) == ("R206", 3)
    assert "row 3" in problem.text
    assert ("were read as one row" in problem.hint) == (case != "last line")
    assert "A2" in problem.found


@pytest.mark.parametrize("above", ["", "Report\n\n"])
@pytest.mark.parametrize("rows", ["A-1,x,1\nA-2,y,2\n", 'A-1,x,1\nA-2,"y",2\n', ""])
def test_a_quote_that_is_never_closed_in_the_header_is_named(tmp_path, above, rows):
    problem = refusal(text_file(tmp_path, f'{above}Order,"City,Weight\n{rows}'), ASKED)
    assert (problem.code, problem.where.row, problem.found) == ("R206", above.count("\n") + 1, "Order,City,Weight")


def test_text_after_a_closing_quote_spoils_its_row_only(tmp_path):
    path = text_file(tmp_path, 'Order,City\n"A1" x,Ulm\n"A2" ,Bonn\nA3,"Kö"ln"\nA4,Trier\n')
    rows = rows_of(path, ASKED)
    assert [row.problem.code if row.problem else "" for row in rows] == ["R213", "R213", "R213", ""]
    assert [row.number for row in rows] == [2, 3, 4, 5]
    assert rows[0].cells == ('A1" x', "Ulm")  # what could be read


ADDRESSES = [
    "Main St 5, Floor 2\nParis, TX, USA\nRing, twice, please",
    "Main St 5\nParis, TX, USA\nRing, twice, please",
    "Main St 5\nParis, TX, USA",
    "Main St 5\nFloor 2, Paris,\nTX, USA, Earth",
]


def test_an_address_on_several_lines_is_no_broken_quote(tmp_path):
    for address in ADDRESSES:
        path = text_file(tmp_path, f'Order,City,Address\nA1,Ulm,"{address}"\n')
        assert cells_of(path, layout("Order", "Address")) == [["A1", "Ulm", address]]
    text = 'a,b,c,d,e\n1,"Attn: J. Doe, X, Y, Z\nMain St 5, Paris",c,d,e\n2,b,c,"J. Doe\nMain St, Floor 2, TX",e\n'
    assert len(cells_of(text_file(tmp_path, text), layout("a"))) == 2


def test_a_stray_quote_above_the_header_does_not_matter(tmp_path):
    path = text_file(tmp_path, '"Report of March\nby: "x" y\nOrder,City\nA1,"Ulm"\n')
    assert [(row.number, row.cells) for row in rows_of(path, ASKED)] == [(4, ("A1", "Ulm"))]


def test_a_declared_quote_that_is_never_closed_and_swallowed_wide_rows_are_named(tmp_path):
    problem = refusal(text_file(tmp_path, "a,b\n1,2\n'open,3\n4,5\n"), layout("a", "b", quote="'"))
    assert (problem.code, problem.where.row) == ("R206", 3)
    text = 'a,b,c,d,e\n1,2,3,4,"5\n6, 7, 8, 9, 10\n11, 12, 13, 14, 15"\n'
    assert refusal(text_file(tmp_path, text), layout("a")).code == "R206"

"""The patterns that read plain sheets quickly give what the parser gives, cell for cell, and leave to it what is not plain.

A comment in the head of a part sends all of it to the parser, so the same rows are read both ways through the same door.
"""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reading_corpus import MAIN, attempt, layout, open_one, workbook_parts, write_parts

from loadsheet.problems import FileRefused, column_letters
from loadsheet.reading import package, xml_patterns
from loadsheet.reading.tables import Native

HEAD = '<row r="1"><c r="A1" t="s"><v>0</v></c></row>'
TEXTS = (
    *("Order", "Köln", " a ", "x &amp; &lt;y&gt;", "_x0041__x000D_", "<r><t>ri</t></r><r><t>ch</t></r>", "&#65;", ""),
    "4711",
)
STYLES = (
    '<numFmts><numFmt numFmtId="170" formatCode="00000"/></numFmts><cellXfs>'
    '<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/><xf numFmtId="22"/></cellXfs>'
)
VALUES = ["1", "45000", "1447296446.7", "1E3", " 7 ", "", "&#49;", "-1"]
FORMULAS = ("<f>A1</f>", '<f t="shared" si="0"/>', "<f>A1&lt;2</f>")
INLINE = (
    *(
        "<is><t>in</t></is>",
        '<is><t xml:space="preserve"> a&amp;b </t></is>',
        "<is><r><t>r</t></r></is>",
        "<is><t/></is>",
    ),
)

style = st.sampled_from(["", ' s="0"', ' s="1"', ' s="2"', ' s="3"', ' s="99"'])
number = st.builds(
    lambda s, f, v, t: (s + t, f + v),
    style,
    st.sampled_from(["", "", *FORMULAS]),
    st.sampled_from(["<v/>", *(f"<v>{value}</v>" for value in VALUES)]),
    st.sampled_from(["", ' t="n"']),
)
text = st.builds(lambda s, place: (s + ' t="s"', f"<v>{place}</v>"), style, st.integers(0, len(TEXTS) - 1))
other = st.sampled_from(
    [
        *((' t="inlineStr"', value) for value in INLINE),
        (' t="str"', "<f>A1</f><v>made</v>"),
        (' t="str"', "<v>a&amp;b &quot;&#x41;</v>"),
        (' t="b"', "<v>1</v>"),
        (' t="e"', "<v>#N/A</v>"),
        (' t="d"', "<v>2026-03-01</v>"),
        ("", "<f>A1</f>"),
        ("", ""),
        (' cm="1"', "<v>5</v>"),
        (' t="s"', "<v>99</v>"),
        ("", "<v>a\r\nb</v>"),
    ]
)
cells = st.lists(number | text | other, min_size=1, max_size=6)
odd = st.sampled_from(
    [*[""] * 4, "\n  ", '<row r="900"/>', "<!-- <row><c/></row> -->", "<?pi?>", ' spans="1:3"', ' ht="15" x:y="&gt;"']
)


def row_xml(number, row, mark, with_r):
    attributes = mark if mark.startswith(" ") else ""
    held = ""
    for place, (kind, value) in enumerate(row):
        at = f' r="{chr(65 + place)}{number}"' if with_r else ""
        held += f"<c{at}{kind}>{value}</c>" if value else f"<c{at}{kind}/>"
    before = "" if attributes else mark
    return f'{before}<row r="{number}"{attributes}>{held}</row>'


def read(folder, rows_xml, *, comment, texts=TEXTS):
    parts = workbook_parts(rows_xml, texts=texts, styles=STYLES)
    for part in ("xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"):
        parts[part] = parts[part].replace(f' xmlns="{MAIN}"', f' xmlns="{MAIN}" xmlns:x="urn:x"', 1)
        if comment:
            parts[part] = parts[part].replace("<sheetData>", "<!-- --><sheetData>").replace("<si>", "<!-- --><si>", 1)
    found = attempt(write_parts(folder / "orders.xlsx", parts), layout("Order"))
    if not isinstance(found, list):
        return found.code
    return [
        (row, [(cell.kind, cell.shown) if isinstance(cell, Native) else cell for cell in row.cells]) for row in found
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(cells, odd, st.sampled_from([True, True, False])), max_size=8))
@example([([("", "<v>1</v>")], "", True)] * 3)
def test_patterns_and_parser_agree_on_every_row(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("scan")
    xml = HEAD + "".join(row_xml(number, *row) for number, row in enumerate(rows, 2))
    assert read(folder, xml, comment=False) == read(folder, xml, comment=True)


def test_patterns_and_parser_agree_over_pieces_of_a_long_sheet(tmp_path):
    """Rows of every kind over many pieces: where one begins must not matter, nor what the piece before was read by."""
    chance = random.Random(5)
    kinds = [
        ("", "<v>1.5</v>"),
        (' s="1"', "<v>45000</v>"),
        (' t="s"', "<v>1</v>"),
        (' t="inlineStr"', INLINE[0]),
        (' t="e"', "<v>#REF!</v>"),
    ]
    xml = HEAD
    for number in range(2, 2_500):
        row = chance.choices(kinds, [50, 50, 50, 5, 0.1], k=8)
        xml += row_xml(number, row, "", with_r=True)
    texts = [*TEXTS, *(f"text {place}" for place in range(8_000))]
    quick = read(tmp_path, xml, comment=False, texts=texts)
    assert len(quick) == 2_498
    assert quick == read(tmp_path, xml, comment=True, texts=texts)


@settings(max_examples=200, deadline=None)
@given(
    pool=st.lists(cells, min_size=1, max_size=3),
    order=st.lists(st.tuples(st.integers(0, 2), odd), min_size=5, max_size=30),
    size=st.sampled_from([100, 400, 3_000]),
)
def test_patterns_and_parser_agree_on_rows_that_look_alike(tmp_path_factory, pool, order, size):
    """Small pieces, so that what was learned of some rows is used for others, with cells missing here and there."""
    folder = tmp_path_factory.mktemp("alike")
    xml = HEAD
    for row, (place, mark) in enumerate(order, 2):
        alike = pool[place % len(pool)]
        xml += row_xml(row, alike[: len(alike) - (row % 5 == 0)] or alike, mark, with_r=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "_CHUNK", size)
        assert read(folder, xml, comment=False) == read(folder, xml, comment=True)


def test_rows_that_look_alike_never_see_the_parser(tmp_path, monkeypatch):
    row = [("", "<v>1.5</v>"), (' s="1"', "<f>A1</f><v>45000</v>"), (' t="s"', "<v>1</v>"), (' t="b"', "<v>1</v>")]
    xml = HEAD
    xml += "".join(row_xml(number, row[: 2 + number % 3], "", with_r=True) for number in range(2, 3_000))
    fed = []
    monkeypatch.setattr(package, "_CHUNK", 1_000)
    monkeypatch.setattr(
        xml_patterns, "_cells_of", lambda unit, whole=xml_patterns._cells_of: fed.append(unit) or whole(unit)
    )
    found = read(tmp_path, xml, comment=False)
    assert len(found) == 2_998
    assert len(fed) < 40


@pytest.mark.parametrize("columns", [1, 450])
def test_a_sheet_of_rows_that_have_little_in_common_is_read_by_cells(tmp_path, monkeypatch, columns):
    chance = random.Random(columns)
    kinds = ["", *(f' s="{style}"' for style in range(90))]
    xml = HEAD
    for number in range(2, 90):
        held = "".join(
            f'<c r="{column_letters(place)}{number}"{chance.choice(kinds)}><v>{place}</v></c>'
            for place in range(columns)
        )
        xml += f'<row r="{number}">{held}</row>'
    monkeypatch.setattr(package, "_CHUNK", 500)
    assert read(tmp_path, xml, comment=False) == read(tmp_path, xml, comment=True)


@pytest.mark.parametrize("text", ["a&unknown;b", "a]]>b", "a\x01b", "a & b", "<b>a</b>", "&#x0;", "\ufffe"])
def test_shared_texts_that_are_no_xml_are_refused_or_read_alike(tmp_path, text):
    xml = HEAD + '<row r="2"><c r="A2" t="s"><v>1</v></c></row>'
    both = [read(tmp_path, xml, comment=comment, texts=("Order", f"<t>{text}</t>")) for comment in (False, True)]
    assert both[0] == both[1]


DAMAGE = (
    *("<c r='A30'><v>1</c></v>", "<c r='A30'><v>1</v>", "<row", "&bad;", "\x01"),
    *("<c r='A30'><v>1]]></v></c>", "<c r='A30'><v>&bad;</v></c>", "<c r='A30'><v>\x01</v></c>"),
    *("<c r='A30'><v>1</v></c><b>", "<c r='A30' t='s'><v>1</v></c>\x02", "<c r='A30' s='1' s='1'><v>1</v></c>"),
    *("<c r='A30'><f t='a' t='b'>1</f><v>1</v></c>", "</row><row r='31' ht='1' ht='1'>"),
)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_among_rows_that_look_alike_is_refused_before_a_row_is_given(tmp_path, monkeypatch, damage):
    damaged = f'<row r="30">{damage}</row>'.replace("'", '"')
    assert [read(tmp_path, HEAD + damaged, comment=comment) for comment in (False, True)] == ["R201", "R201"]
    monkeypatch.setattr(package, "_CHUNK", 200)
    rows = [f'<row r="{number}"><c r="A{number}" t="s"><v>0</v></c></row>' for number in range(1, 60)]
    rows[29] = damaged
    parts = workbook_parts("".join(rows), texts=TEXTS, styles=STYLES)
    with pytest.raises(FileRefused) as refused:
        open_one(write_parts(tmp_path / "orders.xlsx", parts), layout("Order"))
    assert refused.value.problem.code == "R201"

"""Rows that several mappings read: counted once, ignored only if nobody uses them."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from loadsheet.drop_translation import RowNumbers, SharedRows, with_counting_tables
from loadsheet.mapping.documents import COUNTED_IN, Document, Ignored, RowLinks, SourceRow
from loadsheet.reading import Row, Table

NUMBERS = st.integers(2, 30)


def table(name, numbers, sheet="S"):
    rows = [Row(number, (str(number),)) for number in sorted(numbers)]
    return Table(name, "a.xlsx", sheet, ("A",), 1, {"a": 0}, lambda: iter(rows), {})


def opened(*tables):
    return with_counting_tables({one.name: one for one in tables})


def document(name, numbers, **links):
    rows = tuple(SourceRow(name, number, (str(number),)) for number in numbers)
    return Document("order.create", "k", "order:k", b"{}", "", rows, links=RowLinks(**links))


def ignored(name, number, rule="rule"):
    return Ignored(SourceRow(name, number, (str(number),)), rule)


def test_a_table_on_a_sheet_that_another_mapping_reads_names_the_table_that_counts():
    tables = opened(table("a/x", ()), table("a/y", ()), table("b/x", ()), table("b/y", (), "T"), table("c/x", (), "T"))
    assert {name: one.reading_notes.get(COUNTED_IN) for name, one in tables.items()} == {
        "a/x": None,
        "a/y": None,  # two tables of one mapping count for themselves, as ever
        "b/x": "a/x",
        "b/y": None,
        "c/x": "b/y",
    }


def test_a_later_document_shares_rows_of_an_earlier_one():
    rows = SharedRows(opened(table("a/x", (2, 3)), table("b/x", (2, 3, 4)), table("b/z", (2,), "Z")))
    (first,) = rows.once([document("a/x", [2])])
    both = replace(document("b/x", [2, 3]), rows=(*document("b/x", [2, 3]).rows, SourceRow("b/z", 2, ())))
    (second,) = rows.once([replace(both, links=RowLinks({"x": (0, 1)}, shared=(2,)))])
    assert (first.links, second.links) == (RowLinks(), RowLinks({"x": (0, 1)}, shared=(0, 2)))
    (third,) = rows.once([document("b/x", [4], shared=(0,))])  # what came first in its mapping does not matter
    assert third.links == RowLinks()


@given(st.sets(NUMBERS), st.sets(NUMBERS), st.sets(NUMBERS), st.sets(NUMBERS))
def test_a_row_is_ignored_once_and_only_if_no_mapping_uses_it(first, second, first_used, second_used):
    """Also where the mappings read different rows, because their headings are in different rows."""
    used = [first & first_used, second & second_used]
    rows = SharedRows(opened(table("a/x", first), table("b/x", second)))
    found = []
    for name, read, mine in (("a/x", first, used[0]), ("b/x", second, used[1])):
        items = [document(name, [n]) if n in mine else ignored(name, n, name) for n in sorted(read)]
        found += rows.once(items)
    own = [row.number for one in found for row in one.own_rows]
    left = list(rows.ignored())
    assert sorted(own) == sorted(used[0] | used[1])
    assert sorted(one.row.number for one in left) == sorted((first | second) - used[0] - used[1])
    assert all(one.rule == ("a/x" if one.row.number in first else "b/x") for one in left)
    assert all(one.row.cells == (str(one.row.number),) for one in left)


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 65_535))), st.sets(NUMBERS))
def test_the_first_mark_of_a_row_stays(given, others):
    numbers, there, known = RowNumbers(), RowNumbers(), {}
    for number, value in given:
        assert numbers.add(number, value) == (number not in known)
        known.setdefault(number, value)
    for number in others:
        there.add(number)
    assert len(numbers) == len(known)
    assert {number: numbers[number] for number in range(40) if numbers[number]} == known
    assert numbers.has_rows_not_in(there) == bool(known.keys() - others)

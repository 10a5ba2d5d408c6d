"""Cells that are looked at together have the shapes that each of them has by itself."""

import re
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from loadsheet.reading.cell_shapes import group_by_shape, text_shapes

PIECES = [
    "0",
    "00",
    "7",
    "12",
    "13",
    "31",
    "2026",
    "123456789012345",
    "jan",
    "Mai",
    "MAR1",
    "tor",
    "x",
    "e+",
    "E",
    "T",
    "t",
    "Z",
]
PIECES += [
    "-",
    "/",
    ".",
    ",",
    "'",
    " ",
    "+",
    ":",
    "\t",
    "\x1c",
    "\xa0",
    "ü",
    "Ã¼",
    "\x92",
    "\u200b",
    "\ufffd",
    "\udc80",
    "²",
    "٣",
    "\u017fep",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
TYPED = st.tuples(
    st.sampled_from(["number", "date", "text"]),
    st.sampled_from(["007", "12", "1.5", "2026-03-01", "376130321109103427"]),
)
OTHERS = [f"{place}-{place * 7}" for place in range(250)]  # so many that they are not looked at one by one


@settings(max_examples=500)
@given(
    st.lists(TEXTS, min_size=1, max_size=40),
    st.randoms(use_true_random=False),
    st.lists(TYPED, max_size=3),
    st.booleans(),
)
def test_together_they_have_the_shapes_of_each(texts, dice, typed, joined):
    texts = [*texts, *(resembling(text, dice) for text in texts), *(["1\n2"] if joined else [])]
    cells = [*texts, *OTHERS, *typed, *texts]
    names, groups = group_by_shape(cells)
    groups = list(groups)
    found = Counter()
    for group in groups:
        assert cells[list(names).index(group.name)] in (group.example, group.name)
        found.update(dict.fromkeys(group.shapes, group.times))
    each = Counter(shape for text in (*texts, *OTHERS, *texts) for shape in text_shapes(text))
    each.update(shape for one in typed for shape in next(group_by_shape([one])[1]).shapes)
    assert found == each
    assert [group.name for group in groups] == list(dict.fromkeys(names))


def resembling(text, dice):
    """A text with other digits and letters in the same places."""
    if dice.random() < 0.3:  # a month where there are letters
        return re.sub("[A-Za-z]{3}", lambda _: dice.choice(["Mar", "dec", "JAN", "tor"]), text)
    digits, letters = "0123456789", "abcdefmnrtTE"
    return "".join(
        dice.choice(digits if sign in digits else letters if sign.isascii() and sign.isalpha() else sign)
        for sign in text
    )


def test_most_texts_of_a_long_column_are_looked_at_once():
    cells = [f"2026-03-{place % 28 + 1:02} {place % 24:02}:{place % 60:02}" for place in range(4_000)]
    cells += [f"0{place:07}" for place in range(4_000)] + [f"Hafenstr. {place}" for place in range(4_000)]
    _, groups = group_by_shape(cells)
    assert len(list(groups)) < 100


def test_very_long_texts_are_looked_at_one_by_one():
    cells = [f"{place}: {'long ' * 2_000}" for place in range(300)]
    names, groups = group_by_shape(cells)
    assert names is cells
    assert [(group.name, group.times) for group in groups] == [(cell, 1) for cell in cells]

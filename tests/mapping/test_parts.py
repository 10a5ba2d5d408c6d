"""Parts of a drop are exactly the whole, in its order, for every shape of source; and chunks travel without losing anything."""

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import DROPS, NOW, example, in_parts, load_text, table, with_rows
from shipped_samples import NAMES, sample
from test_grouping import FLAT

from loadsheet.mapping import Document, Ignored, SourceRow, translate
from loadsheet.mapping.translator import translate_by_group
from loadsheet.problems import Problem, Where
from loadsheet.reading.tables import Row
from loadsheet.translation import Chunk, GroupChunks, PartsLost, merge_chunks, pack, unpack


@cache
def shape(name):
    """A mapping and its tables in memory: an example of this room, or a shipped mapping with its sample."""
    if name in DROPS:
        return example(name)
    found = sample(name.removeprefix("shipped: "))
    return found.mapping, {key: with_rows(one, one.rows()) for key, one in found.tables.items()}


SHAPES = [*DROPS, *(f"shipped: {name}" for name in NAMES)]


@cache
def whole(name):
    """Everything that comes of a shape."""
    return list(translate(*shape(name), now=NOW))


@pytest.mark.parametrize("name", SHAPES)
def test_the_parts_of_every_layout_are_the_whole_in_its_order(name):
    assert in_parts(*shape(name), 3, stripe=2) == whole(name)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(SHAPES), st.integers(0, 2**32), st.sampled_from([0, 4, 999]), st.integers(1, 7), st.integers(1, 9)
)
def test_rows_in_any_order_and_grouped_in_any_way_give_the_same_parts(name, seed, memory_rows, count, stripe):
    mapping, tables = shape(name)
    dice = random.Random(seed)
    mixed = {}
    for key, one in tables.items():
        rows = list(one.rows())
        mixed[key] = with_rows(one, dice.sample(rows, min(len(rows), 30)))
    everything = list(translate(mapping, mixed, now=NOW, memory_rows=memory_rows))
    assert in_parts(mapping, mixed, count, stripe=stripe, memory_rows=memory_rows) == everything


@pytest.fixture(scope="module")
def flat(tmp_path_factory):
    return load_text(tmp_path_factory.mktemp("flat"), FLAT)


def test_only_the_groups_of_a_part_are_made(flat):
    """What is not of the part costs its reading alone: its cells are never converted."""
    touched = Counter()

    class Cells(tuple):
        __slots__ = ()

        def __getitem__(self, index):
            touched[super().__getitem__(0)] += index == 3  # the weight, which no grouping looks at
            return super().__getitem__(index)

    rows = [Row(number, Cells([str(number), "Ulm", "a", "1"])) for number in range(2, 12)]
    one = {"rows": replace(table(flat.plan.tables[0], []), rows=lambda: iter(rows))}
    list(GroupChunks(1, 2, 5).chunks(translate_by_group(flat, one, now=NOW)))
    assert {key for key, count in touched.items() if count} == {str(number) for number in range(7, 12)}


def test_a_chunk_of_many_rows_is_not_made_larger(flat):
    rows = [[str(number // 900), "Ulm", "a", "1"] for number in range(3_600)]
    one = {"rows": table(flat.plan.tables[0], rows)}
    chunks = GroupChunks(0, 1).chunks(translate_by_group(flat, one, now=NOW))
    assert [(chunk.first, chunk.groups) for chunk in chunks] == [(0, 3), (3, 1)]


# ---- the proof that nothing is missing ----


def chunks_of(flat):
    """The chunks of two parts of ten rows, two groups each."""
    one = {"rows": table(flat.plan.tables[0], [[str(number), "Ulm", "a", "1"] for number in range(10)])}
    wholes = [GroupChunks(number, 2, 2) for number in range(2)]
    return sorted(chunk for whole in wholes for chunk in whole.chunks(translate_by_group(flat, one, now=NOW)))


def test_a_chunk_that_is_missing_or_comes_twice_or_parts_that_found_different_rows_are_noticed(flat):
    chunks = chunks_of(flat)
    assert len(chunks) == 5
    assert len(list(merge_chunks(chunks, lambda: [10, 10]))) == 10
    assert list(merge_chunks([], lambda: [0, 0])) == []
    spoilt = [(chunks, counted) for counted in ([10, 11], [9, 10], [])]
    for place in range(5):
        spoilt.append((chunks[:place] + chunks[place + 1 :], [10, 10]))
        spoilt.append((chunks[: place + 1] + chunks[place:], [10, 10]))
    for found, counted in spoilt:
        with pytest.raises(PartsLost):
            list(merge_chunks(found, lambda counted=counted: counted))


# ---- chunks as bytes ----

wheres = st.builds(Where, row=st.integers(0, 10**6), file=..., sheet=..., column=..., cell=..., path=...)
scalars = st.text() | st.integers(-(2**40), 2**40) | st.booleans() | st.none()
problems = st.builds(
    Problem,
    st.sampled_from(["C302", "G401", "K502"]),
    where=wheres,
    values=st.dictionaries(st.text(), scalars, max_size=3),
    also=st.lists(wheres, max_size=2).map(tuple),
    found=...,
    hint=...,
    level=...,
)
places = st.lists(st.integers(0, 99), max_size=3).map(tuple)
natives = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["number", "date"]), st.text()), max_size=2).map(tuple)
rows = st.builds(SourceRow, number=st.integers(1, 2**31), cells=..., natives=natives)
documents = st.builds(
    Document,
    rows=st.lists(rows, max_size=3).map(tuple),
    problems=st.lists(problems, max_size=2).map(tuple),
    items=st.dictionaries(st.text(), places, max_size=2),
    instead=...,
    ordered=...,
)
items = st.lists(documents | st.builds(Ignored, rows), max_size=8)
chunks = st.builds(Chunk, st.integers(0, 2**31), st.integers(0, 10_000), items)


@settings(deadline=None)
@given(chunks, st.data())
def test_a_chunk_is_read_back_as_it_was_and_a_piece_of_one_is_refused(chunk, data):
    packed = pack(chunk)
    back = unpack(packed)
    assert back == chunk
    assert [type(item) for item in back.items] == [type(item) for item in chunk.items]
    with pytest.raises(PartsLost):
        unpack(packed[: data.draw(st.integers(0, len(packed) - 1))])


def test_values_that_are_no_texts_say_the_same_afterwards():
    problem = Problem("C302", Where("a.csv"), "x", {"locale": Path("de_DE"), "when": 7})
    chunk = Chunk(0, 1, [Document("order.create", "1", "order:1", b"", "", (), (problem,))])
    (back,) = unpack(pack(chunk)).items
    assert (back.problems[0].to_json(), str(back.problems[0])) == (problem.to_json(), str(problem))

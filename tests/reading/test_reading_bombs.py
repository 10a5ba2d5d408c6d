"""Zip bombs are refused by name and measured size, before they cost memory; damage of any kind is a refusal and never a crash."""

import random
import zipfile

import pytest
from hostile_cost import cost_of
from hostile_zips import BOMBS, ROWS, book, one_large_part
from reading_corpus import attempt, cells_of, inline, layout, refusal, text_file, workbook_parts, write_parts

from loadsheet.problems import Problem

ASKED = layout("Order")
SECONDS_EACH = 2


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bombs")
    return {make.__name__: make(folder / make.__name__) for make in BOMBS}


@pytest.mark.parametrize(("make", "code"), BOMBS.items(), ids=[make.__name__ for make in BOMBS])
def test_a_bomb_is_refused_by_the_limit_it_breaks(bombs, make, code):
    problem = refusal(bombs[make.__name__], ASKED, reading_process="none")
    assert problem.code == code, problem.text
    assert problem.hint
    assert make is not one_large_part or "as a zip bomb does" in problem.text


@pytest.mark.journey
def test_bombs_cost_their_reader_little_time_and_memory(bombs):
    cost = cost_of(bombs.values())
    assert cost.codes == list(BOMBS.values())
    assert cost.peak_mb < 150, cost
    assert cost.cpu_s < SECONDS_EACH * len(bombs), cost


def test_a_sound_workbook_with_odd_but_honest_parts_is_read(tmp_path):
    odd = {f"xl/media/{number}.bin": random.Random(number).randbytes(20_000) for number in range(300)}
    assert cells_of(book(tmp_path / "a.xlsx", **odd), ASKED) == [["A1"]]


def test_a_range_that_is_only_declared_costs_nothing(tmp_path):
    dimension = '<dimension ref="A1:XFD1048576"/><cols><col min="1" max="16384" width="9"/></cols>'
    styled = "".join(f'<row r="{row}"><c r="A{row}" s="0"/><c r="XFD{row}" s="0"/></row>' for row in range(3, 5_000))
    path = write_parts(tmp_path / "a.xlsx", workbook_parts(ROWS + styled, dimension=dimension))
    assert cells_of(path, ASKED) == [["A1"]]


def test_names_of_parts_never_become_paths(tmp_path):
    names = ["../../outside.xml", "/outside.xml", "C:\\outside.xml", "xl/../../outside.xml"]
    assert cells_of(book(tmp_path / "a.xlsx", **dict.fromkeys(names, "<x/>")), ASKED) == [["A1"]]
    assert [path.name for path in tmp_path.iterdir()] == ["a.xlsx"]


# ---- damage ----


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return book(tmp_path_factory.mktemp("whole") / "whole.xlsx").read_bytes()


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_workbook_cut_at_any_byte_is_refused(tmp_path, whole, step):
    for length in (*range(0, len(whole), step), *range(len(whole) - 40, len(whole))):
        problem = refusal(text_file(tmp_path, whole[:length], "a.xlsx"), ASKED, reading_process="none")
        assert problem.code in ("R201", "R202", "R203", "R206", "R215", "R235"), (length, problem)


def test_a_workbook_cut_at_some_bytes_is_refused_apart_as_well(tmp_path, whole):
    for length in range(0, len(whole), 97):
        assert refusal(text_file(tmp_path, whole[:length], "a.xlsx"), ASKED).code != "R233"


def flipped(whole, place):
    content = bytearray(whole)
    content[place // 8] ^= 1 << place % 8
    return bytes(content)


def holds_or_is_refused(tmp_path, content, **more):
    """One wrong bit either does not matter, or the file is refused: never another cell."""
    found = attempt(text_file(tmp_path, content, "a.xlsx"), ASKED, **more)
    if isinstance(found, Problem):
        assert found.code not in ("R232", "R233"), found
        return "refused"
    assert [(row.number, row.cells, row.problem) for row in found] == [(2, ("A1",), None)]
    return "the same"


def test_a_flipped_bit_is_found_or_does_not_matter(tmp_path, whole):
    places = random.Random(5).sample(range(len(whole) * 8), 150)
    fates = [holds_or_is_refused(tmp_path, flipped(whole, place), reading_process="none") for place in places]
    fates += [holds_or_is_refused(tmp_path, flipped(whole, place)) for place in places[:20]]
    assert fates.count("refused") > 50


@pytest.mark.sweep
def test_five_thousand_flipped_bits_are_found_or_do_not_matter(tmp_path, whole):
    places = random.Random(7).choices(range(len(whole) * 8), k=5_000)
    for turn, place in enumerate(places):
        mode = "child" if turn % 10 == 0 else "none"
        holds_or_is_refused(tmp_path, flipped(whole, place), reading_process=mode)


def test_an_honest_table_whose_rows_repeat_each_other_is_read_whatever_it_shrinks_by(tmp_path):
    cells = "".join(f'<c r="{column}0000" s="0" t="n"><v>1000</v></c>' for column in "BCDEFGHIJKLMNOPQRSTUVWXYZ")
    rows = "".join(f'<row r="{number}"><c r="A0"><v>{number}</v></c>{cells}</row>' for number in range(2, 15_000))
    head = inline("Order", *"BCDEFGHIJKLMNOPQRSTUVWXYZ", number=1)
    path = write_parts(tmp_path / "a.xlsx", workbook_parts(head + rows))
    with zipfile.ZipFile(path) as archive:
        sheet = archive.getinfo("xl/worksheets/sheet1.xml")
    assert sheet.file_size > 100 * sheet.compress_size
    assert len(cells_of(path, ASKED)) == 14_998


def test_a_row_of_endless_cells_is_refused(tmp_path):
    cells = '<c r="A2"><v>1</v></c>' * 500_000
    path = write_parts(tmp_path / "a.xlsx", workbook_parts(f'{inline("Order", number=1)}<row r="2">{cells}</row>'))
    assert "more cells than columns" in refusal(path, ASKED).text

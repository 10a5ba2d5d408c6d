"""What was broken, repaired in its fix workbook and dropped back: exactly that is sent, and the exchange ends as if nothing had been."""

import csv
import json
import random
import shutil
from collections import Counter
from datetime import datetime
from typing import NamedTuple

import pytest
from fix_workbooks import RED, FixBook, House, write_fix, write_fixes
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from libreoffice import convert
from openpyxl import Workbook, load_workbook
from orders import MAPPINGS as BENCH
from orders import write_orders
from workspace import ROOT, SAMPLES, copy_mappings

from loadsheet.ledger import State
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.reading import fold_label

_TYPED = {"integer", "decimal", "quantity", "date", "datetime", "time"}
SHAPES = {
    "acme_orders_2026-03.xlsx": "acme-flat",  # a workbook, typed cells, title rows, a total
    "nordic": "nordic-join",  # two files joined, a column from the folder's name
    "harbour_two_sheets.xlsx": "harbour-two-sheets",  # two sheets joined
    "brightwater_ams_2026-03-09.csv": "brightwater-pairs",  # column sets
    "alder_2026-03-10.csv": "alder-parcels",  # a mapping that extends another
    "kastell_0309.txt": "kastell-records",  # rows of several kinds
}
"""Samples of unlike shape and their mappings; what is wrong in them as they are stays wrong."""


class Cell(NamedTuple):
    """A cell of a source: where it is, what it says, and the document that it belongs to."""

    file: str
    sheet: str
    row: int
    column: int
    text: str
    document: int


class Baseline(NamedTuple):
    """A sample that nobody broke: what the exchange held after it, the keys of its documents and the cells that can be broken."""

    held: dict
    keys: dict
    cells: list


def house_with(sample, folder):
    """A house with a sample in its inbox, workbooks as openpyxl writes them."""
    if sample == "bench":
        house = House(folder, BENCH)
        write_orders(house.inbox, 8, first=1)
        return house
    copy_mappings(folder / "shipped", SHAPES[sample])
    house = House(folder, folder / "shipped")
    house.drop(SAMPLES / sample)
    for path in house.inbox.rglob("*.xlsx"):
        load_workbook(path).save(path)
    return house


@pytest.fixture(scope="module")
def baselines(tmp_path_factory):
    """The samples as they are, each taken in once when it is first asked for."""
    known = {}

    def of(sample):
        if sample not in known:
            house = house_with(sample, tmp_path_factory.mktemp("house"))
            known[sample] = baseline_of(house, house.night())
        return known[sample]

    return of


def baseline_of(house, night):
    mappings = {mapping.name: mapping for mapping in load_folder(house.settings.mappings, house.settings.assumptions)}
    keys, cells = {}, []
    with house.queries() as queries:
        for drop in night.drops:
            typed = {table.name: typed_columns(mappings[drop.mapping], table) for table in drop.tables}
            for entry in queries.entries_of(drop.id):
                if entry.state is not State.ACCEPTED:
                    continue
                keys[entry.id] = entry.key
                for row in entry.rows:
                    table = drop.table(row.table)
                    cells += [
                        Cell(table.file, table.sheet, row.number, place, row.cells[place], entry.id)
                        for place in typed[row.table]
                        if row.cells[place].strip()
                    ]
    return Baseline(house.held(), keys, cells)


def typed_columns(mapping, table):
    """The places of columns that refuse a text which is nonsense."""
    labels = {
        fold_label(label.replace("{set}", word))
        for plan in mapping.plan.tables
        if plan.source == table.name
        for column in plan.columns
        if column.spec.type in _TYPED and not column.spec.whereabouts() and column.spec.label != "Kind"
        for label in (column.label, *column.spec.aliases)
        for word in ([word for word, _ in plan.sets.words] if plan.sets else [""])
    }
    return [place for place, label in enumerate(table.header) if fold_label(label) in labels]


def break_cells(house, cells):
    """Writes nonsense into cells of the files in the inbox, different in each; returns what each nonsense stands for."""
    values = {}
    for number, cell in enumerate(cells):
        nonsense = f"??{number}??"
        path = house.inbox / cell.file
        if cell.sheet:
            book = load_workbook(path)
            at = book[cell.sheet].cell(cell.row, cell.column + 1)
            values[nonsense], at.value = at.value, nonsense
            book.save(path)
        else:
            values[nonsense] = cell.text
            lines = path.read_bytes().split(b"\n")
            line = lines[cell.row - 1].decode("latin-1")
            delimiter = max(";,|\t", key=line.count)
            parts = line.split(delimiter)
            ending = "\r" if cell.column == len(parts) - 1 and line.endswith("\r") else ""
            parts[cell.column] = nonsense + ending
            lines[cell.row - 1] = delimiter.join(parts).encode("latin-1")
            path.write_bytes(b"\n".join(lines))
    return values


def breakable(house, cells, chance):
    """One to five of the cells, none in a line with quotes."""
    picked = chance.sample(cells, min(len(cells), chance.randint(1, 5)))
    return [cell for cell in picked if cell.sheet or b'"' not in line_of(house, cell)]


def line_of(house, cell):
    return (house.inbox / cell.file).read_bytes().split(b"\n")[cell.row - 1]


def shuffled(chance):
    """The rows in any order, with blank ones between."""

    def order(rows):
        mixed = chance.sample(rows, len(rows))
        return [row for one in mixed for row in ([None, one] if chance.random() < 0.3 else [one])]

    return order


def fix_of(house, drop, path):
    with house.queries() as queries:
        return write_fix(queries, drop, path, house.settings)


def round_trip(baseline, sample, folder, seed):
    chance = random.Random(seed)
    house = house_with(sample, folder)
    cells = breakable(house, baseline.cells, chance)
    broken = sorted(baseline.keys[document] for document in {cell.document for cell in cells})
    values = break_cells(house, cells)
    first = house.night()
    assert len(first.drops) == 1
    assert first.of(State.ACCEPTED) == sorted((Counter(baseline.keys.values()) - Counter(broken)).elements())
    book = FixBook(fix_of(house, first.drops[0], folder / "some.fix.xlsx"))
    assert book.repair(values) == len(cells)
    book.rearrange(shuffled(chance))
    shipper = "nordic/" if sample == "nordic" else ""
    house.drop(book.save(folder / "mended.xlsx"), f"{shipper}{chance.choice(['a', 'Kopie von b'])} {seed}.xlsx")
    second = house.night()
    assert second.aside == []
    assert second.of(State.ACCEPTED) == broken
    assert second.drops[0].fixes == first.drops[0].id
    assert house.held() == baseline.held


NO_SHRINKING = {  # an example takes seconds; its seed says all
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
}


@pytest.mark.journey
@settings(max_examples=1, **NO_SHRINKING)
@given(seed=st.integers(0, 2**20))
def test_what_was_broken_and_is_mended_is_sent_and_nothing_else(baselines, tmp_path_factory, seed):
    round_trip(baselines("nordic"), "nordic", tmp_path_factory.mktemp("house"), seed)


@pytest.mark.sweep
@pytest.mark.parametrize("sample", [*SHAPES, "bench"])
@settings(max_examples=6, **NO_SHRINKING)
@given(seed=st.integers(0, 2**20))
def test_many_breakages_of_many_shapes_are_mended(sample, baselines, tmp_path_factory, seed):
    round_trip(baselines(sample), sample, tmp_path_factory.mktemp("house"), seed)


# ---- one thing at a time ----


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A house with two joined files, of which orders 5 and 10 are broken, after its first run; and the drop of that run."""
    house = House(tmp_path_factory.mktemp("first"), BENCH)
    write_orders(house.inbox, 12, first=1, wrong_every=5)
    night = house.night()
    assert night.counts == {"accepted": 10, "invalid": 2}
    return house.folder, night.drops[0]


@pytest.fixture
def house(first_run, tmp_path):
    """A copy of it."""
    folder, drop = first_run
    house = House(shutil.copytree(folder, tmp_path / "house"), BENCH)
    house.broken = drop
    return house


def opened(house, drop=None, name="orders.fix.xlsx"):
    return FixBook(fix_of(house, drop or house.broken, house.folder / name))


def mended(house, drop=None, name="orders.fix.xlsx"):
    """A fix workbook with a number for each weight that is none."""
    book = opened(house, drop, name)
    assert book.repair({"heavy": 12.5}) > 0
    return book


def drop_back(house, book, name="orders.fix.xlsx"):
    house.drop(book.save(), name)
    return house.night()


def all_corrected(house):
    """Whether everything that was wrong in the first run has a right version by now."""
    with house.queries() as queries:
        first = [entry.id for entry in queries.entries_of(house.broken.id) if entry.state is State.INVALID]
        return queries.versions.corrected_among(first) == set(first)


def edit(path, before, after, count=-1):
    path.write_text(path.read_text(encoding="utf-8").replace(before, after, count), encoding="utf-8")


def told(house, night, code):
    """The texts of the problems with this code, by sheet and cell or row."""
    with house.queries() as queries:
        return {
            (problem.where.sheet, problem.where.cell or problem.where.row): problem.text
            for drop in night.drops
            for entry in queries.entries_of(drop.id)
            for problem in entry.problems
            if problem.code == code
        }


def test_what_is_mended_is_sent_once_however_often_it_is_dropped(house):
    book = mended(house)
    assert drop_back(house, book, "Kopie.xlsx").counts == {"accepted": 2}
    assert drop_back(house, book, "Kopie (2).xlsx").counts == {"unchanged": 2}
    as_it_was = drop_back(house, opened(house, name="old.xlsx"), "old.xlsx")
    assert as_it_was.counts == {"invalid": 2}
    assert list(told(house, as_it_was, "C302")) == [("packages", "E2"), ("packages", "E5")]


def test_a_fix_file_can_itself_be_fixed(house):
    book = opened(house)
    book.book["packages"]["E2"] = 7
    second = drop_back(house, book)
    assert second.counts == {"accepted": 1, "invalid": 1}
    again = mended(house, second.drops[0], "again.xlsx")
    assert [sheet.title for sheet in again.sheets()] == ["orders", "packages"]
    third = drop_back(house, again, "again.xlsx")
    assert third.counts == {"accepted": 1}
    assert third.drops[0].fixes == second.drops[0].id
    assert all_corrected(house)


def test_a_fix_file_of_a_fix_file_has_the_name_of_the_original(house):
    """In: what comes back is wrong again, under names of its shipper. Out: the name of the first fix file; of two in one run, a number."""
    for name in ("Kopie von orders.fix.xlsx", "orders.fix (2).xlsx"):
        house.drop(opened(house).save(), name)
    assert house.night().counts == {"invalid": 4}
    with house.queries() as queries:
        names = write_fixes(queries, queries.runs(1)[0], house.folder / "fixes", house.settings)
    assert names == ["orders.fix.xlsx", "orders-2.fix.xlsx"]


def test_the_rows_of_two_fix_files_may_be_pasted_together(house):
    write_orders(house.inbox, 12, first=21, wrong_every=5)
    other = house.night()
    assert other.counts == {"accepted": 10, "invalid": 2}
    book, more = mended(house), mended(house, other.drops[0], "more.xlsx")
    for title in ("orders", "packages"):
        book.paste(title, more.rows(title))
    night = drop_back(house, book, "together.xlsx")
    assert night.aside == []
    assert night.of(State.ACCEPTED) == ["00000005", "00000010", "00000025", "00000030"]


def test_columns_rows_and_names_of_sheets_of_the_senders_own_are_passed_over(house):
    """What is still wrong is said of the cell in the sheet as they arranged it."""
    book = mended(house)
    sheet = book.book["packages"]
    sheet["E5"] = "heavy"
    sheet.insert_cols(3)
    sheet["C1"], sheet["C2"] = "my notes", "asked Anna"
    sheet.insert_rows(1)
    sheet["B1"] = "please send today"
    for number, one in enumerate(book.sheets()):
        one.title = f"Tabelle{number}"
    night = drop_back(house, book)
    assert night.of(State.ACCEPTED) == ["00000005"]
    with house.queries() as queries:
        table = queries.drop(night.drops[0].id).table("packages")
    assert table.header == ("Order", "Kind", "Item", "Weight", "Volume")
    assert list(told(house, night, "C302")) == [(table.sheet, "F6")]


@pytest.mark.parametrize("renamed", [False, True])
def test_a_fix_file_without_one_of_its_sheets_is_refused_with_its_name(house, renamed):
    """In: a workbook without the sheet of the orders, in which nothing was wrong."""
    book = mended(house)
    del book.book["orders"]
    if renamed:
        book.book["packages"].title = "Pakete"
    (problem,) = drop_back(house, book).aside
    assert problem.code == "R210"
    assert problem.text.startswith("no sheet is named orders; the workbook has ")
    assert problem.hint.startswith("copy that sheet back from the fix workbook that you received")


def test_a_remark_beside_a_row_changes_nothing(house):
    """In: a word to the right of the hidden last column, where no heading is."""
    book = mended(house)
    sheet = book.book["packages"]
    sheet.cell(2, sheet.max_column + 1).value = "done, Anna"
    assert drop_back(house, book).counts == {"accepted": 2}


@pytest.mark.parametrize(
    ("text", "state"), [("Regards, Ann", State.ACCEPTED), ("please check", State.ACCEPTED), ("SO-99", State.INVALID)]
)
def test_a_remark_below_the_rows_is_no_record_but_a_number_alone_is_one(house, text, state):
    """In: a blank row, and below it one text in the column of the order's number, on both sheets."""
    book = mended(house)
    for title in ("orders", "packages"):
        sheet = book.book[title]
        sheet.cell(sheet.max_row + 2, 2).value = text
    night = drop_back(house, book)
    assert night.of(State.ACCEPTED) == ["00000005", "00000010"]
    with house.queries() as queries:
        drop = night.drops[0].id
        ignored = [(row.cells[0], row.rule) for row in queries.ignored_of(drop)]
        invalid = {entry.key for entry in queries.entries_of(drop) if entry.state is State.INVALID}
    assert ignored == ([(text, "remark below the rows")] * 2 if state is State.ACCEPTED else [])
    assert invalid == (set() if state is State.ACCEPTED else {text})


def paste_first(book):
    book.paste("packages", book.rows("packages")[:1])


def delete(row):
    return lambda book: book.book["packages"].delete_rows(row)


TWICE = "a row of 00000005 appears here more than once: rows 2, 8"
LACKS = "00000005 lacks row 3 of 4"


@pytest.mark.parametrize(
    ("spoil", "correct", "code", "said"),
    [
        (paste_first, delete(2), "R236", dict.fromkeys([("packages", 2), ("packages", 8)], TWICE)),
        (delete(3), lambda _: None, "R237", dict.fromkeys([("orders", 2), ("packages", 2), ("packages", 3)], LACKS)),
    ],
    ids=["twice", "missing"],
)
def test_a_row_that_is_there_twice_or_missing_is_an_error_at_each_row_concerned(house, spoil, correct, code, said):
    """One of two is then deleted, as the sheet says; what is dropped again as it is goes without the missing row."""
    book = mended(house)
    spoil(book)
    night = drop_back(house, book)
    assert night.counts == {"accepted": 1, "invalid": 1}
    assert told(house, night, code) == said
    again = opened(house, night.drops[0], "again.xlsx")
    correct(again)
    assert drop_back(house, again, "again.xlsx").counts == {"accepted": 1}


def filled_down(house, *rows):
    """A corrected fix file in which the first order's number was dragged too far on the sheet of packages."""
    book = mended(house)
    for row in rows:
        book.book["packages"].cell(row, 2).value = "00000005"
    return book


BACK = "enter 00000010 in this row again, or drop the fix file that comes back as it is if the row belongs to 00000005"


@pytest.mark.parametrize("rows", [(5,), (5, 6, 7)], ids=["one", "all"])
def test_rows_with_the_identifier_of_another_record_are_errors_until_it_is_put_right(house, rows):
    """Nothing of either record is sent: the one has rows too many, the other too few."""
    night = drop_back(house, filled_down(house, *rows))
    assert night.counts == {"invalid": 2}
    texts = told(house, night, "R237")
    assert [texts["packages", row] for row in rows] == [f"00000010 lacks row {row - 3} of 4" for row in rows]
    with house.queries() as queries:
        hints = [problem.hint for entry in queries.entries_of(night.drops[0].id) for problem in entry.problems]
    assert BACK in hints
    again = opened(house, night.drops[0], "again.xlsx")
    for row in rows:
        again.book["packages"].cell(row, 2).value = "00000010"
    assert drop_back(house, again, "again.xlsx").counts == {"accepted": 2}
    assert all_corrected(house)


def test_no_advice_to_delete_a_row_whose_order_number_was_filled_down_over_it(house):
    """It would lose that order."""
    book = mended(house)
    book.book["orders"].cell(3, 2).value = "00000005"
    night = drop_back(house, book)
    assert told(house, night, "G402") == told(house, night, "G401") == {}
    assert told(house, night, "R237")["orders", 3] == "00000010 lacks row 1 of 4"


def test_a_row_that_belongs_to_the_other_record_is_sent_with_it_when_the_file_comes_again_as_it_is(house):
    night = drop_back(house, filled_down(house, 5))
    assert drop_back(house, opened(house, night.drops[0], "again.xlsx"), "again.xlsx").counts == {"accepted": 2}
    held = [json.loads(order) for order in house.held()["orders"]]
    counts = {order["order_id"]: len(order["packages"]) for order in held}
    assert [counts["00000005"], counts["00000010"]] == [4, 2]


def test_a_row_left_over_by_a_wrong_identifier_joins_its_record_when_it_is_corrected(tmp_path):
    house = House(tmp_path, BENCH)
    write_orders(house.inbox, 3, first=1)
    edit(house.inbox / "packages.csv", "00000002", "000O0002")
    first = house.night()
    assert first.counts == {"accepted": 2, "invalid": 2}
    book = opened(house, first.drops[0])
    for cell in book.book["packages"]["B"]:
        cell.value = "00000002" if cell.value == "000O0002" else cell.value
    assert drop_back(house, book).counts == {"accepted": 1}


def test_a_package_joins_its_order_where_a_check_of_their_number_failed(tmp_path):
    house = House(tmp_path, BENCH)
    (mapping,) = (tmp_path / "mappings").glob("bench-join.yaml")
    check = '\nchecks:\n  - {id: three, rule: "$count(packages) == 3", say: an order has three packages}\n'
    mapping.write_text(mapping.read_text(encoding="utf-8") + check, encoding="utf-8")
    write_orders(house.inbox, 3, first=1)
    edit(house.inbox / "packages.csv", "00000002", "00000001", 1)
    first = house.night()
    assert first.counts == {"accepted": 1, "invalid": 2}
    book = opened(house, first.drops[0])
    last = max(row for row in range(2, 9) if book.book["packages"].cell(row, 2).value == "00000001")
    book.book["packages"].cell(last, 2).value = "00000002"
    assert drop_back(house, book).counts == {"accepted": 2}


def test_a_row_that_the_sheet_says_to_delete_may_be_deleted(tmp_path):
    house = House(tmp_path, BENCH)
    write_orders(house.inbox, 3, first=1)
    path = house.inbox / "orders.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, lines[1], ""]), encoding="utf-8")
    first = house.night()
    assert first.counts == {"invalid": 1, "accepted": 2}
    book = opened(house, first.drops[0])
    sheet = book.book["orders"]
    assert [cell.value for cell in sheet["B"]] == ["Order", "00000001", "00000001"]
    assert (
        "If Order is wrong in one of the rows, correct it; otherwise keep one of the rows and delete the others"
        in sheet["A3"].value
    )
    sheet.delete_rows(3)
    assert drop_back(house, book).counts == {"accepted": 1}


def test_rows_without_a_mark_are_new_ones_of_which_any_may_be_left_out(house):
    book = mended(house)
    book.book["packages"].delete_rows(3)
    for title in ("orders", "packages"):
        (row, *_) = book.rows(title)
        book.paste(title, [[(None, "General"), ("99", "@"), *row[2:-1], (None, "General")]])
        for row in book.book[title].iter_rows(min_row=2):
            row[-1].value = None
    assert drop_back(house, book).of(State.ACCEPTED) == ["00000005", "00000010", "99"]


OTHER = """\
mapping: other
version: 1
target: order.delete
source: {files: "other.csv"}
columns: {order: {label: Order, required: true}}
payload: {order_id: {col: order}}
"""


def test_a_mapping_that_changed_since_reads_the_fix_file_as_it_was_then(house):
    path = house.settings.mappings / "bench-join.yaml"
    edit(path, "min: 0.001", "min: 100")
    book = mended(house)
    night = drop_back(house, book)
    assert night.counts == {"accepted": 2}
    assert night.drops[0].mapping_hash == house.broken.mapping_hash
    path.write_text(OTHER, encoding="utf-8")
    assert drop_back(house, book, "later.xlsx").counts == {"unchanged": 2}, "nor need it be there any more"
    assert list(house.state.glob("mapping-*")) == []


def set_aside(house, book, name="orders.fix.xlsx"):
    """The problem with which a fix file is set aside that is not for this folder."""
    (problem,) = drop_back(house, book, name).aside
    assert problem.code == "A112"
    return problem


def test_a_fix_file_of_another_ledger_or_for_another_folder_is_set_aside_with_what_to_do(house, tmp_path_factory):
    problem = set_aside(House(tmp_path_factory.mktemp("other"), BENCH), mended(house))
    assert "this ledger does not know the files of run" in problem.text
    assert "drop the original file again" in problem.hint
    own = house.settings.mappings / "bench-join.yaml"
    (house.settings.mappings / "other").mkdir()
    other = own.read_text(encoding="utf-8").replace("bench-join", "other-join")
    (house.settings.mappings / "other" / "x.yaml").write_text(other, encoding="utf-8")
    assert "is for no shipper's folder" in set_aside(house, mended(house), "other/orders.fix.xlsx").text


def test_a_fix_file_is_taken_only_in_the_folder_of_its_shipper(tmp_path):
    house = House(tmp_path, BENCH)
    (house.settings.mappings / "bench").mkdir()
    (house.settings.mappings / "bench-join.yaml").rename(house.settings.mappings / "bench" / "join.yaml")
    write_orders(house.inbox / "bench", 5, first=1, wrong_every=5)
    first = house.night()
    assert first.counts == {"accepted": 4, "invalid": 1}
    book = mended(house, first.drops[0])
    assert "is for the folder bench" in set_aside(house, book, "fix.xlsx").text
    assert drop_back(house, book, "bench/fix.xlsx").counts == {"accepted": 1}


def fix_texts(house):
    """The fix files of the first run as text, by table, with a number for each weight that is none."""
    settings = house.settings.model_copy(update={"feedback": "csv"})
    with house.queries() as queries:
        names = write_fixes(queries, queries.runs()[-1], house.folder / "texts", settings)
    assert [name.removeprefix("bench__") for name in names] == ["orders.fix.csv", "packages.fix.csv"]
    return [(house.folder / "texts" / name).read_text(encoding="utf-8-sig").replace("heavy", "12.5") for name in names]


def test_fix_files_as_text_are_taken_only_in_the_folder_of_their_shipper(tmp_path):
    """Another shipper who guesses the marks, or has the files, corrects nothing."""
    house = House(tmp_path, BENCH)
    own = house.settings.mappings / "bench-join.yaml"
    text = own.read_text(encoding="utf-8")
    for shipper in ("bench", "rival"):
        (house.settings.mappings / shipper).mkdir()
        mapping = text.replace("bench-join", f"{shipper}-join")
        (house.settings.mappings / shipper / "join.yaml").write_text(mapping, encoding="utf-8")
    own.unlink()
    write_orders(house.inbox / "bench", 5, first=1, wrong_every=5)
    (broken,) = house.night().drops
    texts = fix_texts(house)

    def dropped(folder, *names):
        (house.inbox / folder).mkdir(exist_ok=True)
        for text, name in zip(texts, names, strict=True):
            (house.inbox / folder / name).write_text(text, encoding="utf-8")
        return house.night()

    refused = dropped("rival", "orders.fix.csv", "packages.fix.csv")
    assert (refused.counts, {problem.code for problem in refused.aside}) == ({}, {"A101"})
    (own,) = dropped("rival", "orders.csv", "packages.csv").drops
    assert (own.mapping, own.fixes) == ("rival-join", None)
    assert [drop.fixes for drop in dropped("bench", "orders.csv", "packages.csv").drops] == [broken.id]


def test_fix_files_as_text_go_where_their_originals_went_under_any_name(house):
    for text, name in zip(fix_texts(house), ("orders-2.fix.csv", "Kopie von packages.csv"), strict=True):
        (house.inbox / name).write_text(text, encoding="utf-8")
    write_orders(house.inbox, 2, first=30)
    night = house.night()
    assert night.aside == []
    assert night.of(State.ACCEPTED) == ["00000005", "00000010", "00000030", "00000031"]
    assert {drop.fixes for drop in night.drops} == {None, house.broken.id}
    assert {table.header[0] for drop in night.drops for table in drop.tables} == {"Order"}


@pytest.mark.parametrize("change", ["changed", "removed", "renamed"])
def test_half_a_fix_as_text_waits_for_the_other_half_and_is_read_with_the_mapping_as_it_was(house, change):
    orders, packages = fix_texts(house)
    path = house.settings.mappings / "bench-join.yaml"
    text = path.read_text(encoding="utf-8").replace("min: 0.001", "min: 100")
    now = {"changed": text, "removed": OTHER, "renamed": text.replace("bench-join", "other-join")}
    path.write_text(now[change], encoding="utf-8")
    (house.inbox / "packages.fix.csv").write_text(packages, encoding="utf-8")
    assert house.night().drops == []
    assert (house.inbox / "packages.fix.csv").exists()
    (house.inbox / "orders.fix.csv").write_text(orders, encoding="utf-8")
    night = house.night()
    assert not (house.inbox / "packages.fix.csv").exists()
    assert night.counts == {"accepted": 2}
    assert night.drops[0].mapping_hash == house.broken.mapping_hash


@pytest.mark.sweep
@pytest.mark.parametrize("form", ["xlsx", "ods", "xls"])
def test_a_fix_workbook_that_libreoffice_has_saved_is_still_one(house, form):
    house.drop(convert(mended(house).save(), form, house.folder), f"whatever.{form}")
    night = house.night()
    assert night.counts == {"accepted": 2}
    assert night.drops[0].fixes == house.broken.id


def test_a_fix_workbook_without_properties_is_known_by_its_rows_under_any_name(house):
    """As a spreadsheet on the web saves it."""
    book, copy = mended(house), Workbook()
    copy.remove(copy.active)
    for sheet in book.sheets():
        made = copy.create_sheet(f"Copy of {sheet.title}")
        for row in sheet.iter_rows(values_only=True):
            made.append(row)
    copy.save(house.inbox / "done by Anna.xlsx")
    night = house.night()
    assert (night.aside, night.counts) == ([], {"accepted": 2})
    assert night.drops[0].fixes == house.broken.id


SEMICOLONS = 'source: {files: ["*.csv"], delimiter: [","], quote: none, encoding: [cp1252]'


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(";", "cp1252"), ("\t", "utf-16"), (",", "utf-8"), (";", "utf-8-sig")]
)
def test_a_fix_file_of_a_text_may_be_saved_as_another_kind_of_text(workspace, delimiter, encoding):
    """With another delimiter, with quotes, as UTF-8 or Unicode text; under a name that the mapping takes, or another one."""
    workspace.use({"loads": LOADS.replace('source: {files: ["*.csv"]', SEMICOLONS)})
    workspace.drop("loads.csv", "Order,Ready,Kg\nMünchen;1,02.03.2026,12.5\n".encode("cp1252"))
    assert workspace.run().returncode == 65
    (path,) = workspace.reports()[-1].glob("*.fix.xlsx")
    lines = [list(line) for line in load_workbook(path)["loads"].iter_rows(values_only=True)]
    assert lines[1][1] == "München;1"
    lines[1][3] = "12,5"
    name = "mended.csv" if encoding == "utf-8" else "mended.txt"
    with (workspace.inbox / name).open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(lines)
    workspace.run()
    assert workspace.ask("select key, state, waits from entries order by id desc limit 1") == [
        ("München;1", "held", "parent")
    ]


def test_a_fix_file_of_a_workbook_that_is_saved_as_text_is_refused_with_what_to_do(tmp_path):
    """In a text, 1.234 of a cell can be 1234."""
    house = house_with("acme_orders_2026-03.xlsx", tmp_path)
    (first,) = house.night().drops
    (sheet,) = FixBook(fix_of(house, first, tmp_path / "a.fix.xlsx")).sheets()
    for name, encoding in (("mended.csv", "cp1252"), ("acme_orders_b.txt", "utf-16")):
        with (house.inbox / name).open("w", encoding=encoding, errors="replace", newline="") as file:
            csv.writer(file, delimiter=";").writerows(sheet.iter_rows(values_only=True))
        (problem,) = house.night().aside
        assert problem.code == "R201"
        assert str(problem).endswith(
            "it is a fix workbook saved as text, in which numbers and dates can change (save it as .xlsx and send it again)"
        )


def test_an_order_that_was_refused_and_comes_back_unchanged_is_not_sent_again(tmp_path):
    somebody = House(tmp_path / "somebody", BENCH)
    write_orders(somebody.inbox, 1, first=1)
    somebody.night()
    house = House(tmp_path / "house", BENCH)
    house.state.mkdir()
    shutil.copy(somebody.state / "exchange.db", house.state)
    write_orders(house.inbox, 2, first=1)
    first = house.night()
    assert first.counts == {"refused": 1, "accepted": 1}, "the exchange has that order already"
    again = drop_back(house, opened(house, first.drops[0]), "again.xlsx")
    assert again.counts == {"refused": 1}
    assert "was refused before" in "".join(told(house, again, "L604").values())
    with house.queries() as queries:
        (entry,) = queries.entries_of(again.drops[0].id)
        assert queries.attempts_of(entry.id) == []


def test_what_differs_from_what_was_accepted_can_be_taken_back_in_the_fix_file(house):
    write_orders(house.inbox, 3, first=1)
    edit(house.inbox / "packages.csv", "Item 1", "Item I", 1)
    second = house.night()
    assert second.counts == {"held": 1, "unchanged": 2}
    book = opened(house, second.drops[0])
    assert book.repair({"Item I": "Item 1"}) == 1
    assert drop_back(house, book).counts == {"unchanged": 1}


def test_what_differs_from_what_was_accepted_is_red_and_named_by_the_senders_headings(tmp_path):
    recipe = ROOT / "docs/cookbook/15-german-numbers-and-dates"
    house = House(tmp_path, recipe / "mapping.yaml")
    house.drop(recipe / "uhlig_versand_kw11.csv")
    assert house.night().counts == {"accepted": 4}
    text = (recipe / "uhlig_versand_kw11.csv").read_text(encoding="utf-8")
    text = text.replace("85 kg", "90,5 kg").replace("Kiel", "Kiel-Nord").replace("14:30", "15:30")
    (house.inbox / "uhlig_versand_kw12.csv").write_text(text, encoding="utf-8")
    second = house.night()
    assert second.counts == {"held": 2, "unchanged": 2}
    _, one, other = opened(house, second.drops[0]).book.worksheets[0].iter_rows()
    begins = "Die Plattform hat U-471{} bereits mit anderen Werten: {}. Sind"
    assert one[0].value.startswith(begins.format(2, "Ort Kiel -> Kiel-Nord; Gewicht 85 -> 90,5"))
    assert other[0].value.startswith(begins.format(4, "Bereit 10.03.2026 14:30 -> 10.03.2026 15:30"))
    red = [[cell.value for cell in row[1:] if cell.fill.fgColor.rgb == "FFFBD5D5"] for row in (one, other)]
    assert red == [["Kiel-Nord", "90,5 kg"], ["10.03.2026 15:30"]]


def test_a_file_that_its_mapping_cannot_read_is_answered_in_the_language_of_the_sheet(workspace):
    """In: a German sheet without its column Gewicht."""
    recipe = ROOT / "docs/cookbook/15-german-numbers-and-dates"
    workspace.use({"uhlig": (recipe / "mapping.yaml").read_text(encoding="utf-8")})
    text = (recipe / "uhlig_versand_kw11.csv").read_text(encoding="utf-8")
    workspace.drop("uhlig_versand_kw12.csv", text.replace("Gewicht", "Brutto"))
    assert workspace.run().returncode == 65
    folder = workspace.reports()[0]
    heads, line, *_ = (folder / "uhlig_versand_kw12.csv.results.csv").read_text(encoding="utf-8-sig").splitlines()
    assert heads.startswith(("Zeile;Ergebnis", "Zeile,Ergebnis"))
    assert "Die Überschriften wurden nicht gefunden" in line
    assert load_workbook(folder / "uhlig_versand_kw12.fix.xlsx").sheetnames[-1] == "Bitte lesen"


@pytest.mark.parametrize(
    ("heading", "problem", "todo"),
    [
        ("City", "dort fehlt aber City [R204]", "Geben Sie den Spalten wieder die Überschriften"),
        ("Remark", "dort fehlt aber Remark [R204]", "Geben Sie den Spalten wieder die Überschriften"),
        ("", "eine als Text gespeicherte Korrekturdatei", "Speichern Sie sie als .xlsx"),
    ],
    ids=["a heading is changed", "that of an optional column", "it is saved as text"],
)
def test_a_fix_workbook_that_cannot_be_read_is_answered_as_one_in_the_language_of_the_sheet(
    workspace, heading, problem, todo
):
    mapping = (ROOT / "tests/proofs/mappings/orders.yaml").read_text(encoding="utf-8").replace("en_US", "de_DE")
    mapping = mapping.replace("constants:", "  remark: {label: Remark, type: text}\nconstants:")
    mapping += "  order_references:\n    list:\n      - {name: {value: remark}, value: {col: remark}}\n"
    workspace.use({"orders": mapping.replace("orders*.csv", "orders*.xlsx")})
    workspace.drop_book("orders.xlsx", {"Sheet": [["Order", "City", "Weight", "Remark"], ["A-1", "Ulm", "x", "call"]]})
    workspace.run()
    book = FixBook(workspace.reports()[-1] / "orders.fix.xlsx")
    (sheet,) = book.sheets()
    if not heading:
        rows = sheet.iter_rows(values_only=True)
        workspace.drop("mended.csv", "\n".join(";".join(str(cell or "") for cell in row) for row in rows))
    else:
        sheet.cell(1, [cell.value for cell in sheet[1]].index(heading) + 1).value = "Of ours"
        book.save(workspace.inbox / "mended.xlsx")
    assert workspace.run().returncode == 65
    (line,) = workspace.results(f"mended.{'xlsx' if heading else 'csv'}")
    assert line["Ergebnis"] == "nicht gelesen"
    assert problem in line["Problem"]
    assert line["Was zu tun ist"].startswith(todo)


LOADS = """\
mapping: loads
version: 1
target: order.update
source: {files: ["*.csv"], locale: de_DE, dates: ["%d.%m.%Y"], timezone: Europe/Berlin}
columns:
  order: {label: Order, required: true, key: true}
  ready: {label: Ready, type: date, required: true}
  kg: {label: Kg, type: quantity, unit: kg, required: true}
group: {by: order}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  pickup_startdatetime: {expr: '$at(rows[0].ready, t"PT8H")'}
  total_weight: {expr: '$sum([r.kg for r in rows])'}
"""


def test_a_number_and_a_date_in_a_fix_file_of_texts_are_no_mixed_style(workspace):
    workspace.use({"loads": LOADS})
    workspace.drop("loads.csv", "Order;Ready;Kg\nA-1;02.03.2026;12,5\nA-1;soon;many\nA-1;03.03.2026;7\n")
    workspace.run()
    with workspace.fixing("loads.fix.xlsx") as book:
        for cell in (cell for row in book["loads"].iter_rows(min_row=2) for cell in row):
            cell.value = {"soon": datetime(2026, 3, 4), "many": 80}.get(cell.value, cell.value)
    said = workspace.run().stdout
    assert "R225" not in said
    assert "R227" not in said


@pytest.mark.parametrize(
    ("first", "then", "children", "heading"),
    [
        ("events", "orders", "Order,Code,At\n{0},PU,2026-03-01 08:00\n", "Order"),
        ("orders", "events", "Order,Code,At\n{0},PU,2026-03-01 08:00\n", "Order"),
        ("quotes", "tenders", "Tender,Carrier,Rate\n{0},C1,100\n", "Tender"),
        ("orders", "order-deletes", "Order\n{0}\n", "Order"),
    ],
)
def test_a_number_that_looks_like_another_comes_back_and_its_corrected_row_ends_the_wait(
    workspace, first, then, children, heading
):
    """In: an event, a quote or a delete of A-1O, where A-10 is meant, before or after A-10."""
    workspace.use_small(first, then)
    parents = {"orders": "Order,City,Weight\n{0},Bonn,1\n", "tenders": "Tender,City\n{0},Bonn\n"}
    (parent,) = {first, then} & parents.keys()
    (child,) = {first, then} - parents.keys()
    files = {parent: f"{parent}.csv", child: f"{child.removeprefix('order-')}.csv"}
    for name in (first, then):
        workspace.drop(files[name], {parent: parents[parent].format("A-10"), child: children.format("A-1O")}[name])
        done = workspace.run()
    assert done.returncode == 1
    with workspace.fixing("*.fix.xlsx", back="mended.xlsx") as book:
        heads, line = book.worksheets[0].iter_rows()
        assert "Did you mean A-10?" in line[0].value
        (red,) = (cell for cell in line if cell.fill.fgColor.rgb == RED and cell.column > 1)
        assert (heads[red.column - 1].value, red.value) == (heading, "A-1O")
        red.value = "A-10"
    assert workspace.run().returncode == 0
    workspace.drop(files[parent].replace(".", "2."), parents[parent].format("A-1O"))
    workspace.drop(files[child], children.format("A-1O"))
    assert workspace.run().returncode == 1
    operations = "select key, state from entries where operation not like '%create' order by id"
    old, mended, again = workspace.ask(operations)
    assert (mended[0].partition("/")[0], mended[1]) == ("A-10", "accepted")
    assert (old[1], again[1]) == ("held", "held"), "neither the wrong row nor its copy follows A-1O"


HEADS_AND_EVENTS = """\
mapping: edi
version: 1
target: order.status
source:
  files: ["edi*.csv"]
  timezone: Europe/Berlin
  dates: ["%Y-%m-%d %H:%M"]
  tables:
    events: {kind: {label: Type, is: E}}
    heads:  {kind: {label: Type, is: H}}
lookups: {head: {table: heads, key: order}}
columns:
  heads: {order: {label: A, required: true}}
  events:
    order: {above: heads.order, lookup: head, required: true, key: true}
    code:  {place: 2, required: true}
    at:    {place: 3, type: datetime, required: true}
payload: {order_id: {col: order.order}, status_code: {col: code}, status_datetime: {col: at}}
"""


def test_events_below_heads_stay_below_them_in_a_fix_workbook(workspace):
    workspace.use_small("orders")
    (workspace / "mappings" / "edi.yaml").write_text(HEADS_AND_EVENTS, encoding="utf-8")
    workspace.drop("orders.csv", "Order,City,Weight\nA-1,Bonn,1\nA-2,Bonn,1\nA-3,Bonn,1\n")
    rows = [
        "Type;A;B",
        "H;A-1",
        "E;PU;2026-03-01 08:00",
        "H;A-2",
        "E;PU;soon",
        "E;DL;2026-03-02 08:00",
        "H;A-3",
        "E;PU;late",
    ]
    workspace.drop("edi.csv", "\n".join([*rows, ""]))
    assert workspace.run().returncode == 1
    with workspace.fixing("edi.fix.xlsx") as book:
        for cell in (cell for row in book.worksheets[0].iter_rows() for cell in row):
            cell.value = {"soon": "2026-03-01 09:00", "late": "2026-03-01 10:00"}.get(cell.value, cell.value)
    assert workspace.run().returncode == 0
    sent = map(json.loads, House.held(workspace)["status_events"].elements())
    assert sorted((one["order_id"], one["status_datetime"]) for one in sent) == [
        ("A-1", "2026-03-01T08:00:00"),
        ("A-2", "2026-03-01T09:00:00"),
        ("A-2", "2026-03-02T08:00:00"),
        ("A-3", "2026-03-01T10:00:00"),
    ]

"""What a change to a file may not change: rows and columns in another order, another form or name, two files for one, ten times as many rows.

One table of drops (every shipped sample, every layout that is thrown here) and one of relations; each relation says what a drop becomes,
and what of its records and problems has to be the same. Nothing here knows what is right: see `test_second_translation` for that.
"""

import io
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import flat_lines
import grids
import milestone_rows
import openpyxl
import order_changes
import parcels_joined
import pytest
import tender_lanes
import wide_items
import workbook_sheets
from check_result import translation
from grids import Cell, saved

from loadsheet.contract import Assumptions
from loadsheet.mapping.compile import load
from loadsheet.mapping.routing import route

ROOT = Path(__file__).parents[2]
INBOX = ROOT / "inbox_samples"
LAYOUTS = (flat_lines, parcels_joined, workbook_sheets, wide_items, milestone_rows, tender_lanes, order_changes)
QUOTES = {"tender_lanes": ("'", None), "order_changes": ('"', "\\")}
SEED, ROWS = 23, 80
BOUND = {  # rows whose place says something: filled from above, units below the heading, totals of those above, a footer
    "birch-parcels", "kastell-records", "terracotta-nested", "workbook_sheets", "tender_lanes",
}  # fmt: skip


@dataclass(frozen=True)
class Drop:
    """Files that belong together, and their mapping."""

    name: str
    mapping: object
    files: dict


@cache
def drop_of(name):
    """The drop of this name."""
    if name not in THROWN:
        mapping = load(ROOT / "mappings" / f"{name}.yaml", Assumptions())
        (chosen,) = route(
            [path.relative_to(INBOX).as_posix() for path in INBOX.rglob("*") if path.is_file()], [mapping]
        ).complete
        return Drop(name, mapping, {file: (INBOX / file).read_bytes() for file in chosen.files.values()})
    layout = THROWN[name]
    made = Drop(name, load(Path(__file__).parent / "mappings" / layout.MAPPING, Assumptions()), layout.make(SEED, ROWS))
    if layout is workbook_sheets:
        ((file, content),) = made.files.items()
        book = openpyxl.load_workbook(io.BytesIO(content))
        for page in book:  # what is hidden would be seen again where the file is saved in another form
            for row in page.row_dimensions.values():
                row.hidden = False
        book.save(shown := io.BytesIO())
        made.files[file] = shown.getvalue()
    return made


THROWN = {layout.__name__: layout for layout in LAYOUTS}
QUICK = {"nordic-join", "terracotta-nested"}  # of the samples; the others by `make sweep`
NAMES = sorted([path.stem for path in (ROOT / "mappings").glob("*.yaml")] + [*THROWN])
EACH = [name if name in THROWN or name in QUICK else pytest.param(name, marks=pytest.mark.sweep) for name in NAMES]


def translated(drop, files, folder):
    """What becomes of files under the mapping of a drop."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return translation([drop.mapping], [folder / name for name in files])


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """What becomes of a drop as it is, and its files as grids."""

    @cache
    def found(name):
        drop = drop_of(name)
        made = translated(drop, drop.files, tmp_path_factory.mktemp(name))
        tables = {}
        for (file, _), table in made.tables.items():
            tables.setdefault(file, []).append(table)
        return made, {file: grids.read(drop.files[file], own, *QUOTES.get(name, ())) for file, own in tables.items()}

    return found


# ---- relations: what a drop becomes ----


def rows_in_another_order(drop, own, dice):
    if drop.name in BOUND:
        return None
    return [
        {
            name: saved(grid.changed(lambda _, top, rows: [*top, *dice.sample(rows, len(rows))]))
            for name, grid in own.items()
        }
    ]


def columns_in_another_order(drop, own, dice):
    if drop.name in {"kastell-records", "tender_lanes", "flat_lines", "milestone_rows", "workbook_sheets"}:
        return None  # columns by number, headings over two rows, comments and totals known by their first cell

    def turned(_, top, rows):
        width = max(map(len, (*top, *rows)), default=0)
        order = dice.sample(range(width), width)
        return [row and [row[place] if place < len(row) else Cell("") for place in order] for row in (*top, *rows)]

    return [{name: saved(grid.changed(turned)) for name, grid in own.items()}]


def a_column_more_that_nobody_reads(drop, own, dice):
    if drop.name in {"kastell-records", "workbook_sheets"}:  # rows of several kinds; a row that holds nothing but units
        return None

    def wider(_, top, rows):
        width, head, found = len(top[-1]), len(top) - 1, []
        for place, row in enumerate((*top, *rows)):
            value = "zz internal" if place == head else "" if place < head or is_empty(row) else "x"
            found.append([*row, *[Cell("")] * (width - len(row)), Cell(value)])
        return found

    return [{name: saved(grid.changed(wider)) for name, grid in own.items()}]


def other_line_ends(drop, own, dice):
    if not all(grid.is_text for grid in own.values()):
        return None
    return [{name: grids.text(grid, end=end) for name, grid in own.items()} for end in ("\n", "\r\n", "\r")]


def utf_16(drop, own, dice):
    if not all(grid.is_text for grid in own.values()) or drop.name in ENCODED:
        return None
    return [{name: grids.text(grid, encoding="utf-16") for name, grid in own.items()}]


def a_workbook(drop, own, dice):
    return None if drop.name == "kastell-records" else [{name: grids.xlsx(grid) for name, grid in own.items()}]


def an_opendocument_sheet(drop, own, dice):
    if not all(grid.is_text for grid in own.values()) or drop.name == "kastell-records":
        return None
    return [{name: grids.ods(grid) for name, grid in own.items()}]


def another_name(drop, own, dice):
    found = {}
    for pattern in (drop.mapping.files[-1], *drop.mapping.companions.values()):
        (name,) = [
            name for name in drop.files if re.fullmatch(re.sub(r"\\\{\w+\\\}|\\\*", ".*", re.escape(pattern)), name)
        ]
        other = re.sub(r"\{site\}", re.escape("lil" if "lil" in name else "ams"), pattern)
        found[re.sub(r"\{\w+\}|\*", "-zz 9", other)] = drop.files[name]
    return [found]


def two_files(drop, own, dice):
    if drop.name in BOUND or len(own) > 1 or len(next(iter(own.values())).tops) > 1:
        return None
    ((name, grid),) = own.items()
    label = next(title for title in grid.labels(next(iter(grid.tops))) if is_key(drop, title))

    def half(which):
        def kept(title, top, rows):
            place = grid.labels(title).index(label)
            return [*top, *(row for row in rows if len(row) <= place or sum(bare(row[place]).encode()) % 2 == which)]

        return kept

    other = re.sub(r"(\.\w+)$", r"-zz\1", name) if "*" in drop.mapping.files[0] else None
    return other and [{name: saved(grid.changed(half(0))), other: saved(grid.changed(half(1)))}]


def is_empty(row):
    return all(cell.is_blank for cell in row)


def bare(cell):
    """A key without what may be done to it: blanks around it, capitals, zeros before it."""
    return unicodedata.normalize("NFKC", str(cell.value)).casefold().strip().lstrip("0")


def is_key(drop, title):
    """Whether this heading is of a column that says which record a row belongs to; what becomes of the record says another one."""
    told = {
        column.spec.label for table in drop.mapping.plan.tables for column in table.columns if column.name == "action"
    }
    labels = {
        label
        for table in drop.mapping.plan.tables
        for column in table.columns
        if column.spec.key or column.slot.index in table.key
        for label in (column.label, *column.spec.aliases)
    }
    return title in labels - told


ENCODED = {
    "carrier-status", "flat_lines", "kastell-records", "nordic-join", "order_changes", "tender_lanes", "wide_items",
}  # their mappings name the encoding  # fmt: skip
RELATIONS = [
    rows_in_another_order, columns_in_another_order, a_column_more_that_nobody_reads, other_line_ends, utf_16, a_workbook, an_opendocument_sheet,
    another_name, two_files,
]  # fmt: skip


# ---- what has to be the same ----


def unordered(value):
    """A value to compare in which the order of a list says nothing."""
    if isinstance(value, dict):
        return tuple(sorted((key, unordered(each)) for key, each in value.items()))
    return ("list", *sorted((unordered(each) for each in value), key=repr)) if isinstance(value, list) else value


def records(made):
    return Counter((operation, key, unordered(payload)) for operation, key, payload in made.sent)


def is_of_a_file(code, level):
    """Whether a problem is said once of a column of a file: cells that look damaged, and postal codes that are too short."""
    return level == "warning" and (code[0] == "R" or code == "C319")


def problems(made):
    """What is said of records and cells; what looks damaged is judged by column and form, so other forms may look otherwise."""
    return Counter(each for each in made.said if not is_of_a_file(*each[:2]))


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.__name__)
def test_a_drop_means_the_same(relation, name, before, tmp_path):
    drop, (made, own) = drop_of(name), before(name)
    variants = relation(drop, own, Random(SEED))
    for number, files in enumerate(variants or ()):
        (tmp_path / str(number)).mkdir()
        again = translated(drop, files, tmp_path / str(number))
        assert problems(again) - problems(made) == Counter()
        assert problems(made) - problems(again) == Counter()
        assert records(again) - records(made) == Counter()
        assert records(made) - records(again) == Counter()
        assert again.left_out == made.left_out


@pytest.mark.sweep
def test_each_relation_is_tried_on_several_drops(before):
    tried = {
        relation.__name__: sum(relation(drop_of(name), before(name)[1], Random(1)) is not None for name in NAMES)
        for relation in RELATIONS
    }
    assert min(tried.values()) > 8, tried


@pytest.mark.parametrize("name", EACH)
def test_ten_times_the_rows_give_ten_times_the_records_and_problems(name, before, tmp_path):
    if name in {*BOUND, "milestone_rows"}:
        return
    drop, (made, own) = drop_of(name), before(name)

    def copied(grid):
        def times(title, top, rows):
            labels = grid.labels(title) if top else []
            keys = [place for place, label in enumerate(labels) if label and is_key(drop, label)]
            return [*top, *([renamed(row, copy, keys, labels) for copy in range(10) for row in rows])]

        return grid.changed(times)

    again = translated(drop, {name: saved(copied(grid)) for name, grid in own.items()}, tmp_path)
    assert counted(again) == {kind: 10 * count for kind, count in counted(made).items()}
    assert len(again.sent) == 10 * len(made.sent)
    assert len(again.wrong) == 10 * len(made.wrong)
    assert sentinels(again) >= sentinels(made)


def renamed(row, copy, keys, labels):
    """The row with keys of its own, as the tenth copy of an order has."""
    found = list(row)
    for place in (place for place in keys if copy and place < len(row)):
        cell = row[place]
        if bare(cell) and cell.value not in (labels[place], "Summe", "Zwischensumme", "Gesamt"):
            found[place] = cell._replace(value=f"{str(cell.value).rstrip()}x{copy}")
    return found


def counted(made):
    """How often each kind of problem is told of records, beside each other."""
    return Counter((code, level, column) for code, level, column, _ in made.said if not is_of_a_file(code, level))


def sentinels(made):
    return {(code, column) for code, level, column, _ in made.said if is_of_a_file(code, level)}

"""Each recipe of the cookbook works: its mappings load, its sample gives the records that it states, and a run sends them. Its page shows what is
in its files.

LOADSHEET_REWRITE=1 writes the records and what the commands print anew; read the difference before you keep it.
"""

import csv
import json
import os
import re
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path

import openpyxl
import pytest
from command_in_process import loadsheet
from reference_examples import carried_out

from loadsheet.contract import Assumptions
from loadsheet.mapping.compile import lint
from loadsheet.mapping.mapping_folder import mapping_files
from loadsheet.mapping_tools.reference import Block, parts_of

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook"
INDEX = (COOKBOOK / "README.md").read_text(encoding="utf-8")
RECIPES = sorted(path.name for path in COOKBOOK.iterdir() if path.is_dir())
EARLIER = {"04-one-column-per-milestone": "01-one-row-per-order"}
"""Recipes whose records concern those of another one."""

DAILY = "17-the-same-list-every-day"
"""The recipe whose samples are those of two days."""

REWRITE = bool(os.environ.get("LOADSHEET_REWRITE"))
LONGEST = 60  # lines of a page
OMITTED = {"", "...", "…"}


def samples(recipe):
    """The files that a shipper drops, in the order of their names. What belongs to the mapping stands in folders."""
    other = {".md", ".json", ".yaml"}
    return sorted(path for path in (COOKBOOK / recipe).iterdir() if path.is_file() and path.suffix not in other)


def text_of(recipe, name):
    return (COOKBOOK / recipe / name).read_text(encoding="utf-8")


def stated(recipe):
    return json.loads(text_of(recipe, "expected.json"), parse_float=Decimal)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_gives_the_records_that_it_states(recipe):
    folder = COOKBOOK / recipe
    assert [finding for path in mapping_files(folder) for finding in lint(path, Assumptions(), folder)] == []
    done = loadsheet(folder, "check", "--payloads", "--mappings", ".", *samples(recipe))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = [{"operation": line["operation"], "record": line["payload"]} for line in lines]
    if REWRITE:
        text = json.dumps(found, indent=2, ensure_ascii=False)
        (folder / "expected.json").write_text(f"{text}\n", encoding="utf-8")
    exact = [json.loads(line, parse_float=Decimal)["payload"] for line in done.stdout.splitlines()]
    assert (done.returncode, exact) == (0, [each["record"] for each in stated(recipe)]), done.stderr
    assert [each["operation"] for each in found] == [each["operation"] for each in stated(recipe)]


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe != DAILY])
def test_a_run_of_a_recipe_sends_all_records(workspace, recipe):
    names = list(filter(None, (EARLIER.get(recipe), recipe)))
    for name in names:
        workspace.use(COOKBOOK / name)
        run(workspace, samples(name))
    states = Counter(state for (state,) in workspace.ask("select state from entries"))
    assert states == Counter(accepted=sum(len(stated(name)) for name in names))


def test_a_list_that_comes_again_sends_only_what_is_new_or_changed(workspace):
    workspace.use(COOKBOOK / DAILY)
    for path in samples(DAILY):
        run(workspace, [path])
    entries = workspace.ask("select key, operation, state from entries order by id")
    assert entries[:3] == [(f"TM-700{n}", "tender.create", "accepted") for n in (1, 2, 3)]
    assert [(key, state) for key, _, state in entries[3:] if state != "accepted"] == [
        ("TM-7001", "unchanged"),
        ("TM-7003", "unchanged"),
    ]
    assert [entry[:2] for entry in entries[3:] if entry[2] == "accepted"] == [
        ("TM-7002", "tender.update"),
        ("TM-7004", "tender.create"),
    ]


def run(workspace, paths):
    for path in paths:
        workspace.drop(path.name, path)
    done = workspace.run()
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_page_of_a_recipe_shows_what_is_in_its_files(recipe):
    page = text_of(recipe, "README.md")
    assert len(page.splitlines()) <= LONGEST
    blocks = [part for part in parts_of(page) if isinstance(part, Block)]
    assert {block.kind for block in blocks} >= {"yaml", "console"}
    for block in (block for block in blocks if block.name):
        held = squeezed(block, text_of(recipe, block.name))
        missing = [part for part in excerpts(block) if squeezed(block, part) not in held]
        assert missing == [], f"{block.name} has no such lines"
    assert_rows_of_the_sheet(recipe, page)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_commands_of_a_recipe_print_what_its_page_shows(tmp_path, recipe):
    page = text_of(recipe, "README.md")
    folder = shutil.copytree(COOKBOOK / recipe, tmp_path / recipe)
    for shown in re.findall(r"^```console\n.*?^```\n", page, flags=re.MULTILINE | re.DOTALL):
        printed = carried_out(shown, folder)
        if REWRITE:
            page = page.replace(shown, printed)
            (COOKBOOK / recipe / "README.md").write_text(page, encoding="utf-8")
        else:
            assert shown == printed, "run the test with LOADSHEET_REWRITE=1 and look at the difference"


def squeezed(block, text):
    """A text in the form in which parts of it are found: whole lines, or JSON without its blanks."""
    return re.sub(r"\s+", "", text) if block.kind == "json" else f"\n{text}\n"


def excerpts(block):
    """The parts of a block between lines of dots, which stand for what is left out."""
    parts = re.split(r"^ *\.\.\.\n?", f"{block.text}\n", flags=re.MULTILINE)
    return [part.rstrip("\n") for part in parts if part.strip()]


def assert_rows_of_the_sheet(recipe, page):
    """The tables of a page show rows of its sample: their cells stand there in this order."""
    shown = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|") and "---" not in line]
    rows = [row for path in samples(recipe) for row in rows_of(path)]
    assert shown
    for cells in ([cell.strip() for cell in row] for row in shown):
        wanted = [cell for cell in cells if cell not in OMITTED]
        assert any(is_within(wanted, row) for row in rows), f"no row of the sample has {wanted}"


def is_within(wanted, row):
    rest = iter(row)
    return all(any(cell == other for other in rest) for cell in wanted)


def rows_of(path):
    """The cells of a sample as a reader sees them."""
    if path.suffix == ".xlsx":
        for sheet in openpyxl.load_workbook(path):
            yield from ([as_shown(cell) for cell in row] for row in sheet.iter_rows(values_only=True))
        return
    text = path.read_text(encoding="utf-8")
    delimiter = max(",;|", key=text.count)
    yield from csv.reader(text.splitlines(), delimiter=delimiter)


def as_shown(cell):
    if cell is None:
        return ""
    return f"{cell:%d/%m/%Y %H:%M}" if hasattr(cell, "hour") else str(cell)


def test_the_index_leads_to_every_recipe_once():
    assert sorted(re.findall(r"\]\(([0-9]{2}-[\w-]+)/README\.md\)", INDEX)) == RECIPES
    titles = {recipe: text_of(recipe, "README.md").splitlines()[0] for recipe in RECIPES}
    assert len({*titles.values()}) == len(RECIPES)
    assert all(title.startswith("# ") for title in titles.values())

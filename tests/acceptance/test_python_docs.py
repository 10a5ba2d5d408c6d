"""docs/python.md is true: its examples run, and its package is built, installed and used."""

import doctest
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_wheel

from loadsheet.cli import invoke

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
WORK = """\
import os, pathlib, loadsheet
inbox = pathlib.Path(os.environ["VAULT"], "orders", "in")
inbox.mkdir(parents=True)
inbox.joinpath("items_1.csv").write_text("ID,Item\\n1,4006381333931\\n2,17\\n", encoding="utf-8")
report = loadsheet.run(
    inbox="vault://orders/in", outbox="vault://reports", notifications={"urls": "pager://night-shift"}, settle_s=0
)
print(report.exit_code, report.headline)
"""
MAPPING = """\
mapping: items
version: 1
target: order.update
source: {files: ["items_*.csv"]}
columns:
  id:   {label: ID, required: true, key: true}
  item: {label: Item, convert: gtin}
payload: {order_id: {col: id}, sender_id: {value: S}, receiver_id: {value: R}, pickup_company: {col: item}}
"""


@pytest.mark.journey
def test_the_examples_of_the_page_run_in_the_folder_that_init_makes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(["init"]) == 0
    found = doctest.DocTestParser().get_doctest(PAGE, {}, "docs/python.md", "docs/python.md", 0)
    assert len(found.examples) > 20
    said = []
    assert doctest.DocTestRunner().run(found, out=said.append).failed == 0, "".join(said)


def blocks(language):
    """The code of this language on the page, without the examples of a session."""
    return [code for code in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if not code.startswith(">>>")]


@pytest.fixture
def installed(tmp_path):
    """A folder in which the package of the page is installed from its wheel."""
    source, target = tmp_path / "source", tmp_path / "installed"
    source.mkdir()
    (project,) = blocks("toml")
    (source / "pyproject.toml").write_text(project, encoding="utf-8")
    (source / "my_company.py").write_text("\n\n".join(blocks("python")), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(source)
        wheel = build_wheel(str(tmp_path))
    zipfile.ZipFile(tmp_path / wheel).extractall(target)
    return target


@pytest.mark.journey
def test_the_package_of_the_page_converts_cells_sends_notices_and_is_a_store(tmp_path, installed):
    here = tmp_path / "here"
    (here / "mappings").mkdir(parents=True)
    (here / "mappings" / "items.yaml").write_text(MAPPING, encoding="utf-8")
    variables = {"PYTHONPATH": str(installed), "VAULT": str(tmp_path / "vault"), "PAGER": str(tmp_path / "pager")}
    done = subprocess.run(
        [sys.executable, "-c", WORK], cwd=here, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"1 [12] of 2 documents need", done.stdout), done.stdout
    (results,) = (tmp_path / "vault" / "reports").glob("*/items_1.csv.results.csv")
    assert "A GTIN has 8 to 14 digits" in results.read_text(encoding="utf-8")
    assert (tmp_path / "pager").read_text(encoding="utf-8").startswith("pager://night-shift: loadsheet")

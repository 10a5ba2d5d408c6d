"""`import loadsheet` in a program: the same as the commands, as values; nothing printed, nothing left changed; docs/python.md is true."""

import doctest
import json
import os
import re
import signal
import subprocess
import sys
import threading
import zipfile
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hatchling.build import build_wheel

import loadsheet
from loadsheet.cli import invoke
from loadsheet.reading.tables import Native, cell_of

ROOT = Path(__file__).parents[2]
SAMPLES, MAPPINGS = ROOT / "inbox_samples", ROOT / "mappings"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
MAPPING = """\
mapping: frames
version: 1
target: order.update
source: {files: ["*.csv"], locale: de_DE, dates: ["%d.%m.%Y %H:%M"], timezone: Europe/Berlin, tables: {rows: {header_row: 4, sheet: Any}}}
columns:
  id:     {label: ID, required: true, key: true}
  pickup: {label: Pickup, type: datetime}
  weight: {label: Weight, type: quantity, unit: kg}
payload:
  order_id: {col: id}
  sender_id: {value: S}
  receiver_id: {value: R}
  pickup_startdatetime: {col: pickup}
  total_weight: {col: weight}
"""


@pytest.fixture
def mapping(tmp_path):
    path = tmp_path / "frames.yaml"
    path.write_text(MAPPING, encoding="utf-8")
    return loadsheet.Mapping.load(path)


@pytest.fixture
def first(tmp_path, monkeypatch):
    """The folder that `loadsheet init` makes, seen from another one."""
    monkeypatch.chdir(tmp_path)
    assert invoke(["init", "first"]) == 0
    return tmp_path / "first"


def test_a_file_is_translated_into_documents_and_problems():
    file, mapping = SAMPLES / "harbour_two_sheets.xlsx", MAPPINGS / "harbour-two-sheets.yaml"
    found = loadsheet.translate(file, mapping, now=NOW)
    assert len(found) == len(found.documents) == len(list(found))
    assert {type(document) for document in found} == {loadsheet.Document}
    assert {problem.code for problem in found.problems} >= {"C308"}
    first = next(document for document in found if document.usable)
    assert first.record == json.loads(first.payload, parse_float=Decimal)
    few = loadsheet.translate(file, mapping, now=NOW, documents_max=2)
    assert few.documents == found.documents[:2]


@pytest.mark.parametrize(
    ("value", "cell", "kind"),
    [
        (None, "", None), ("0815", "0815", None), ("", "", None), (4501, "4501", "number"), (4501.0, "4501", "number"),
        (0.1, "0.1", "number"), (np.float32(0.1), "0.1", "number"), (1e22, "1" + "0" * 22, "number"), (np.int64(7), "7", "number"),
        (Decimal("12345678901234567890.120"), "12345678901234567890.12", "number"), (float("inf"), "inf", None),
        (True, "true", "flag"), (np.False_, "false", "flag"), (date(2026, 3, 4), "2026-03-04", "date"),
        (pd.Timestamp("2026-03-04 08:05"), "2026-03-04 08:05:00", "datetime"), (time(8, 5), "08:05:00", "time"),
        (pd.Timestamp("2026-03-04 08:05", tz="Europe/Berlin"), "2026-03-04T08:05:00+01:00", None),
        (["a"], "<list>", "object"), (object(), "<object>", "object"), (b"a", "<bytes>", "object"), (pd.Timedelta(hours=8), "<Timedelta>", "object"),
    ],
)  # fmt: skip
def test_a_value_is_a_cell_that_keeps_its_kind_and_every_digit(value, cell, kind):
    found = cell_of(value)
    assert (str(found), found.kind if isinstance(found, Native) else None) == (cell, kind)


def test_a_frame_is_read_by_its_values_whatever_notation_the_mapping_has_for_files(mapping):
    frame = pd.DataFrame(
        {
            "ID": [4501.0, 4502.0, float("nan")],
            "Pickup": [pd.Timestamp("2026-03-04 08:05"), pd.NaT, None],
            "Weight": [Decimal("1.250"), None, 3],
        }
    )
    frame.index = [7, 7, 7]
    found = loadsheet.translate(frame, mapping, now=NOW)
    assert [document.key for document in found] == ["", "4501", "4502"]
    assert found.documents[1].record["pickup_startdatetime"] == "2026-03-04 08:05:00"
    assert found.documents[1].record["total_weight"] == Decimal("1.25")
    (missing,) = (problem for problem in found.problems if problem.level == "error")
    assert str(missing.where) == "DataFrame:rows!A4"


@pytest.mark.parametrize("column", ["ID", "Pickup", "Weight", "Note"])
def test_an_object_is_a_problem_of_its_cell_if_the_mapping_reads_the_column(mapping, column):
    frame = pd.DataFrame({"ID": ["1", "2"], "Pickup": None, "Weight": None, "Note": None}, dtype=object)
    frame[column] = [None if column != "ID" else "1", ["a"]]
    found = loadsheet.translate(frame, mapping, now=NOW)
    said = [
        (one.code, one.where.cell, one.found)
        for one in found.problems
        if one.where.column == column and one.level == "error"
    ]
    at = f"{'ABCD'[frame.columns.get_loc(column)]}3"
    assert said == ([("C313", at, "<list>")] if column != "Note" else [])
    assert sum(document.usable for document in found) == (2 if column == "Note" else 1)


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_texts_of_every_type_of_column_stay_as_they_are(mapping, dtype):
    frame = pd.DataFrame(
        {"ID": pd.Series(["007", None, "8 "], dtype=dtype), "Pickup": "04.03.2026 08:05", "Weight": "1.250,5 kg"}
    )
    found = loadsheet.translate(frame, mapping, now=NOW)
    assert [document.key for document in found if document.usable] == ["007", "8"]
    assert found.documents[-1].record["total_weight"] == Decimal("1250.5")


def test_frames_by_table_are_those_of_the_files(tmp_path):
    mapping = loadsheet.Mapping.load(MAPPINGS / "nordic-join.yaml")
    files = sorted((SAMPLES / "nordic" / "2026-03-04").glob("*.csv"))
    of_files = loadsheet.translate(files, mapping, now=NOW)
    encodings = {"orders": "cp1252", "packages": "utf-8-sig"}
    frames = {path.stem: pd.read_csv(path, sep=";", dtype=str, encoding=encodings[path.stem]) for path in files}
    of_frames = loadsheet.translate(frames, mapping, now=NOW)
    assert [document.payload for document in of_frames] == [document.payload for document in of_files]
    assert any(document.payload for document in of_frames)
    with pytest.raises(ValueError, match=r"reads the tables .*; missing: "):
        loadsheet.translate({"other": frames["orders"]}, mapping)
    with pytest.raises(loadsheet.MissingFile, match="needs a file for"):
        loadsheet.translate(files[0], mapping)


def test_documents_and_problems_are_frames_with_exact_numbers_and_one_line_in_a_notebook(mapping):
    frame = pd.DataFrame({"ID": ["1", "2"], "Pickup": None, "Weight": ["0,1", "x"]})
    found = loadsheet.translate(frame, mapping, now=NOW)
    assert repr(found) == "<Translation: 2 documents, 1 usable, 1 problem>"
    documents = found.to_frame()
    assert documents["key"].tolist() == ["1", "2"]
    assert documents[~documents["usable"]]["key"].tolist() == ["2"]
    assert [str(kind) for kind in documents.dtypes[:3]] == ["string", "string", "bool"]
    assert documents["total_weight"][0] == Decimal("0.1")
    problems = found.problems_frame()
    assert problems[["code", "cell", "found"]].to_numpy().tolist() == [["C302", "C3", "x"]]
    none = loadsheet.translate(frame[:0], mapping, now=NOW).to_frame()
    assert none[~none["usable"]].columns.tolist() == ["operation", "key", "usable"]


def test_a_check_says_what_the_command_says(mapping):
    found = loadsheet.check(SAMPLES / "acme_orders_2026-03.xlsx", MAPPINGS)
    assert (found.exit_code, found.usable > 0, bool(found.causes)) == (1, True, True)
    assert len(found.problems_frame()) == len(found.problems)
    frame = pd.DataFrame({"ID": ["1", "2"], "Pickup": None, "Weight": ["x", "2"]})
    said = repr(loadsheet.check(frame, mapping))
    assert said == "<Check: 1 usable document, 1 problem of 1 cause, exit code 1>"
    assert loadsheet.check(frame[:1], mapping).exit_code == 65


def test_a_run_from_a_thread_is_a_run_and_leaves_the_process_as_it_was(first, capfd):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    umask, here, found = os.umask(0o022), Path.cwd(), []
    thread = threading.Thread(target=lambda: found.append(loadsheet.run(first, settle_s=0)))
    capfd.readouterr()
    thread.start()
    thread.join()
    (report,) = found
    assert (report.exit_code, report.headline) == (0, "All 3 documents were accepted")
    assert repr(report) == "<RunReport: All 3 documents were accepted, exit code 0>"
    assert report.folder.parent == first / "outbox"
    assert report.summary.to_json() == (report.folder / "run.json").read_bytes()
    assert capfd.readouterr() == ("", "")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert (os.umask(umask), Path.cwd()) == (0o022, here)
    assert (first / ".loadsheet").stat().st_mode & 0o077 == 0


def test_a_translation_that_cannot_be_made_is_an_exception(tmp_path, mapping):
    acme, frame = MAPPINGS / "acme-flat.yaml", pd.DataFrame({"ID": ["1"], "Pickup": None, "Weight": None})
    with pytest.raises(loadsheet.MappingError, match="No such file"):
        loadsheet.translate(SAMPLES / "acme_orders_2026-03.xlsx", tmp_path / "none.yaml")
    with pytest.raises(loadsheet.FileRefused, match="R201"):
        loadsheet.translate(tmp_path / "none.csv", acme)
    with pytest.raises(loadsheet.FileRefused, match="R204") as refused:
        loadsheet.translate(frame.set_index("ID"), mapping)
    assert refused.value.problem.hint.startswith("the index (ID) is not read: call reset_index()")
    with pytest.raises(ValueError, match="one mapping"):
        loadsheet.check(frame, [mapping, mapping])
    for function in (loadsheet.translate, loadsheet.check):
        for given, name in (([frame], "DataFrame"), ({"rows": ["1"]}, "list"), ([1], "int"), (None, "NoneType")):
            with pytest.raises(ValueError, match=f"found {name}$"):
                function(given, mapping)


@pytest.mark.journey
def test_a_run_that_cannot_begin_is_an_exception_and_one_that_stops_early_says_why(tmp_path, first):
    stopped = loadsheet.run(first, exchange="http://127.0.0.1:9", token="a-token", settle_s=0)
    assert (stopped.exit_code, type(stopped.stopped)) == (75, loadsheet.ExchangeUnreachable)
    with pytest.raises(loadsheet.SettingsError, match="does not exist"):
        loadsheet.run(tmp_path)
    with pytest.raises(loadsheet.SettingsError, match="windw"):
        loadsheet.run(first, dispatch={"windw": 3})
    with pytest.raises(ValueError, match="not both"):
        loadsheet.run(loadsheet.Settings(), exchange="embedded")
    with (first / "loadsheet.toml").open("a", encoding="utf-8") as file:
        file.write("\n[shippers.acme]\n[shippers.nordic]\n")
    with pytest.raises(
        loadsheet.SettingsError, match=r'several shippers \(acme, nordic\): give one, such as shipper="acme"'
    ):
        loadsheet.run(first)


@pytest.mark.journey
def test_importing_loads_nothing_and_every_name_is_there():
    code = (
        "import sys; before = {*sys.modules}; import loadsheet; new = {m for m in sys.modules if m.startswith('loadsheet')};"
        "assert new == {'loadsheet'}, new; assert {*loadsheet.__all__} <= {*dir(loadsheet)};"
        "[getattr(loadsheet, name) for name in loadsheet.__all__]; assert 'click' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        loadsheet.tranlsate  # noqa: B018 (reading it is the test)


PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
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
ITEMS = """\
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
    (here / "mappings" / "items.yaml").write_text(ITEMS, encoding="utf-8")
    variables = {"PYTHONPATH": str(installed), "VAULT": str(tmp_path / "vault"), "PAGER": str(tmp_path / "pager")}
    done = subprocess.run(
        [sys.executable, "-c", WORK], cwd=here, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"1 [12] of 2 documents need", done.stdout), done.stdout
    (results,) = (tmp_path / "vault" / "reports").glob("*/items_1.csv.results.csv")
    assert "A GTIN has 8 to 14 digits" in results.read_text(encoding="utf-8")
    assert (tmp_path / "pager").read_text(encoding="utf-8").startswith("pager://night-shift: loadsheet")

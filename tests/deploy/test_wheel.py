"""The wheel: built twice it is the same, and in an environment of its own it does the whole job."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hatchling.build import build_wheel

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "loadsheet"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("LOADSHEET_", "PYTHON"))}


def built(folder):
    """A wheel of this checkout, built without the network. The build reads only copies of what it may see."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(SRC, source / "src" / "loadsheet", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("inbox_samples", "mappings"):
        shutil.copytree(ROOT / name, source / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(source)
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        return folder / build_wheel(str(folder))  # as pip does it


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("wheel"))


class Installed(NamedTuple):
    """A fresh environment with the wheel in it."""

    scripts: Path
    packages: Path

    def loadsheet(self, folder, *words):
        program = self.scripts / "loadsheet"
        done = subprocess.run(
            [program, *map(str, words)], cwd=folder, env=CLEAN, capture_output=True, text=True, timeout=120, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel in an environment of its own, which lends the other packages from the one the tests run in: nothing is downloaded."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=False, symlinks=os.name == "posix")
    paths = sysconfig.get_paths("venv", {"base": str(home), "platbase": str(home), "installed_base": str(home)})
    python = Path(paths["scripts"]) / "python"
    words = [
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-cache-dir",
        "--no-compile",
        wheel,
    ]
    subprocess.run([sys.executable, "-m", "pip", *words], env=CLEAN, check=True)
    lent = {path for path in sys.path if path.endswith("site-packages")}
    (Path(paths["purelib"]) / "lent.pth").write_text("\n".join(sorted(lent)), encoding="utf-8")
    code = "import loadsheet; print(loadsheet.__file__)"
    found = subprocess.run([python, "-c", code], cwd=home, env=CLEAN, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(home), "what is tested is the wheel and not the checkout"
    return Installed(Path(paths["scripts"]), Path(paths["purelib"]))


@pytest.mark.journey
def test_two_builds_of_the_same_source_are_the_same_to_the_byte(wheel, tmp_path):
    again = built(tmp_path / "again")
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    there = {name for name in zipfile.ZipFile(wheel).namelist() if not name.split("/")[0].endswith(".dist-info")}
    roots = ((SRC, SRC.parent), (ROOT / "inbox_samples", ROOT), (ROOT / "mappings", ROOT))
    files = [(path, top) for folder, top in roots for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(top).as_posix() for path, top in files if "__pycache__" not in path.parts}
    assert there == {name if name.startswith("loadsheet/") else f"loadsheet/{name}" for name in names}
    assert {"loadsheet/deploy/systemd/loadsheet.timer", "loadsheet/deploy/windows.xml"} <= there
    assert any(name.endswith(".html") for name in there), "the pages' templates"


def test_the_wheel_says_what_it_is_and_what_it_needs(wheel):
    with zipfile.ZipFile(wheel) as packed:
        metadata = next(name for name in packed.namelist() if name.endswith("/METADATA"))
        told = packed.read(metadata).decode()
        assert any(name.endswith("/licenses/LICENSE") for name in packed.namelist())
    assert "\nRequires-Python: >=3.11\n" in told
    assert "\nRequires-Dist: openpyxl" in told
    assert "\nTyping :: Typed" in told.replace("Classifier: ", "")
    assert "\nProvides-Extra: notices\n" in told
    assert "file://" not in told


PROGRAM = """\
import sys
from decimal import Decimal
from pathlib import Path

import loadsheet


def weights(found: loadsheet.Translation) -> dict[str, Decimal]:
    return {document.key: Decimal(document.record["total_weight"]) for document in found if document.usable}


def first_problem(files: list[Path], mapping: loadsheet.Mapping) -> str:
    problem: loadsheet.Problem = loadsheet.check(files, [mapping]).problems[0]
    return f"{problem.where.cell}: {problem.text}"


try:
    report = loadsheet.run(sys.argv[1], settle_s=0)
except loadsheet.LoadsheetError as error:
    raise SystemExit(error.exit_code) from error
code: int = report.exit_code
print(code, report.headline, report.summary.balance.balances)
orders = weights(loadsheet.translate(f"{sys.argv[1]}/mappings/tests/orders/two_rows.csv", f"{sys.argv[1]}/mappings/orders.yaml"))
print(orders)
"""


@pytest.mark.sweep  # mypy reads all of the package: forty seconds
def test_a_program_that_uses_the_wheel_is_typed_and_runs(installed, tmp_path):
    python = installed.scripts / "python"

    def mypy(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        words = ["--strict", "--python-executable", python, "--cache-dir", tmp_path / "cache", name]
        command = [sys.executable, "-m", "mypy", *words]
        return subprocess.run(command, cwd=tmp_path, env=CLEAN, capture_output=True, text=True, check=False)

    found = mypy("program.py", PROGRAM)
    assert found.returncode == 0, found.stdout
    wrong = mypy("wrong.py", "import loadsheet\nloadsheet.tranlsate('a', 'b')\nloadsheet.run(3).exit\n").stdout
    assert 'has no attribute "tranlsate"' in wrong
    assert 'Argument 1 to "run" has incompatible type "int"' in wrong
    assert '"RunReport" has no attribute "exit"' in wrong
    assert installed.loadsheet(tmp_path, "init", "first").returncode == 0
    words = [python, "program.py", "first"]
    done = subprocess.run(words, cwd=tmp_path, env=CLEAN, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("0 All 3 documents were accepted True\n{"), done.stdout


@pytest.mark.sweep
@pytest.mark.parametrize("installer", ["pipx", "uv"])
def test_an_installer_of_tools_installs_the_wheel(wheel, tmp_path, installer):
    """Downloads every package, so only the sweeps do it, where the installer is there (pip install uv pipx)."""
    program = shutil.which(installer, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip(f"{installer} is not installed here")
    names = ("HOME", "BIN_DIR", "TOOL_DIR", "TOOL_BIN_DIR", "MAN_DIR")
    place = {f"{installer.upper()}_{name}": str(tmp_path / name) for name in names}
    words = ["install", wheel] if installer == "pipx" else ["tool", "install", "--python", sys.executable, wheel]
    subprocess.run([program, *words], env=CLEAN | place, check=True, timeout=500)
    (command,) = tmp_path.glob("*BIN_DIR/loadsheet")
    assert subprocess.run([command, "demo"], cwd=tmp_path, env=CLEAN, check=True, capture_output=True, timeout=120)


@pytest.mark.sweep
def test_installed_from_the_wheel_demo_does_what_make_demo_does(installed, tmp_path):
    done = installed.loadsheet(tmp_path, "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "580 of 580 rows accounted for" in done.stdout
    (reports,) = (path for path in (tmp_path / "loadsheet-demo" / "outbox").iterdir() if path.is_dir())
    assert {"run.html", "reconciliation.xlsx", "run.json"} <= {path.name for path in reports.iterdir()}
    assert json.loads((reports / "run.json").read_text(encoding="utf-8"))["balance"]["balances"] is True


@pytest.mark.sweep
def test_installed_from_the_wheel_it_knows_its_version_and_its_own_place(installed, tmp_path):
    assert installed.loadsheet(tmp_path, "--version").stdout.startswith("loadsheet ")
    assert installed.loadsheet(tmp_path, "deploy", "systemd", "--to", "units").returncode == 0
    unit = (tmp_path / "units" / "loadsheet.service").read_text(encoding="utf-8")
    assert f"ExecStart={installed.scripts / 'loadsheet'} run --quiet" in unit

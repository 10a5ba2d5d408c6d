"""The first hour at a terminal: `init` makes a folder in which everything works, dead ends name the next command, codes are explained, a shell completes words."""

import io
import re
import shutil
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from command_in_process import Terminal, loadsheet
from workspace import Workspace

from loadsheet.cli import invoke
from loadsheet.cli import loadsheet as command_line
from loadsheet.cli.check import explanations
from loadsheet.problems import CATALOGUE

README = Path(__file__).parents[2] / "README.md"
HEADER = "Order,Deliver to,Street,City,Postcode,Country,Collect,Deliver,Item,Weight (kg),Value\n"


def test_a_run_and_the_test_of_the_mapping_work_at_once(tmp_path):
    made = loadsheet(tmp_path, "init", "first")
    assert made.returncode == 0
    assert made.stdout.endswith(
        "Next:\n  cd first\n"
        "  loadsheet run                      # sends the sample\n"
        "  loadsheet mapping test             # runs the test of the mapping\n"
    )
    done = loadsheet(tmp_path / "first", "run")
    assert (done.returncode, done.stdout.startswith("✓ All 3 documents were accepted")) == (0, True), done.stdout
    for word in ("test", "lint"):
        assert loadsheet(tmp_path / "first", "mapping", word).returncode == 0


def test_existing_files_are_kept(tmp_path):
    (tmp_path / "mappings").mkdir()
    for name in ("loadsheet.toml", "mappings/orders.yaml"):
        (tmp_path / name).write_text("# mine\n", encoding="utf-8")
    made = loadsheet(tmp_path, "init")
    assert (made.returncode, made.stdout.count("kept")) == (0, 2)
    for name in ("loadsheet.toml", "mappings/orders.yaml"):
        assert (tmp_path / name).read_text(encoding="utf-8") == "# mine\n"
    again = loadsheet(tmp_path, "init")
    assert (again.returncode, "created" in again.stdout) == (0, False)


@pytest.mark.journey
def test_the_demo_sends_the_samples(tmp_path):
    done = loadsheet(tmp_path, "demo")
    assert (done.returncode, "580 of 580 rows accounted for" in done.stdout) == (0, True), done.stdout + done.stderr
    (shown,) = re.findall(r"ends like this:\n\n```\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    printed, promised = (
        {re.sub(r" · [0-9.]+ s +\(run .*", "", line) for line in text.splitlines()} for text in (done.stdout, shown)
    )
    assert [line for line in promised - printed if not line.startswith(("→", "  …"))] == []


def test_an_exchange_is_written_into_the_settings_unless_it_is_no_address(tmp_path):
    for wrong in ("not a url", "https://ada:secret@exchange.example"):
        refused = loadsheet(tmp_path, "init", "new", "--exchange", wrong)
        assert (refused.returncode, "Error: exchange: " in refused.stderr) == (2, True), refused.stderr
        assert "secret" not in refused.stderr
        assert not (tmp_path / "new").exists()
    made = loadsheet(tmp_path, "init", "--exchange", 'https://exchange.example/a"b')
    assert "LOADSHEET_TOKEN" in made.stdout, "the token is the next step"
    assert 'https://exchange.example/a"b' in loadsheet(tmp_path, "config", "--json").stdout.replace('\\"', '"')


def test_the_end_of_input_instead_of_an_exchange_makes_nothing_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.chdir(tmp_path)
    assert (invoke(["init"]), list(tmp_path.iterdir())) == (2, [])
    assert "nothing was made; name the exchange: --exchange URL" in sys.stderr.getvalue()
    assert "the state is safe" not in sys.stderr.getvalue()


def test_a_mapping_is_drafted_from_a_sheet(tmp_path):
    row = "EX-{0},M. Ansah,Park Row {0},Leeds,LS1 5HD,GB,14/12/2026 09:00,16/12/2026 08:00,Lamp,{0}.5,{0}9.90\n"
    sheet = tmp_path / "our orders.csv"
    sheet.write_text(HEADER + "".join(map(row.format, range(1, 9))), encoding="utf-8")
    made = loadsheet(tmp_path, "init", "ours", "--from", sheet.name)
    assert made.returncode == 0, made.stderr
    assert "edit mappings/our orders.yaml" in made.stdout
    for place in ("inbox/", "outbox/", "mappings/", "mappings/our orders.yaml  (a draft from our orders.csv)"):
        assert f"  created  ours/{place}\n" in made.stdout
    draft = (tmp_path / "ours" / "mappings" / "our orders.yaml").read_text(encoding="utf-8")
    assert draft.startswith("# yaml-language-server: $schema=mapping.schema.json\n")
    assert "FILL IN" in draft
    assert not (tmp_path / "ours" / "mappings" / "orders.yaml").exists()


def test_dead_ends_name_what_to_do(tmp_path):
    lost = loadsheet(tmp_path, "run")
    assert (lost.returncode, "loadsheet init" in lost.stderr) == (78, True)
    unreported = loadsheet(tmp_path, "report")
    assert (unreported.returncode, "`loadsheet run` creates it" in unreported.stderr) == (78, True)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    (tmp_path / "file").write_text("", encoding="utf-8")
    refused = loadsheet(tmp_path, "init", "file/below")
    assert (refused.returncode, "cannot be written" in refused.stderr) == (75, True), refused.stderr
    refused = loadsheet(tmp_path, "demo", ".")
    assert (refused.returncode, "is not empty; name another folder" in refused.stderr) == (2, True)


def test_every_problem_is_explained_under_its_title_with_what_to_do():
    pages = explanations()
    assert {code: title for code, (title, _) in pages.items()} == {code: kind.title for code, kind in CATALOGUE.items()}
    assert [code for code, (_, text) in pages.items() if not re.search(r"^To do: .", text, re.MULTILINE)] == []
    assert [code for code, (_, text) in pages.items() if text.index("To do: ") < 20] == [], "the cause comes first"


@pytest.mark.parametrize("code", ["C306", "c306"])
def test_a_code_is_explained(tmp_path, code):
    done = loadsheet(tmp_path, "explain", code)
    assert (done.returncode, done.stdout.startswith("C306 Not in the list\n\n")) == (0, True)
    assert "To do: use a value of the list." in done.stdout


def test_an_unknown_code_is_a_usage_error(tmp_path):
    done = loadsheet(tmp_path, "explain", "Z999")
    assert (done.returncode, "there is no problem Z999" in done.stderr) == (2, True)


COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook"


def offered(*words):
    """What is offered for the last word, with its explanation."""
    complete = ShellComplete(command_line, {}, "loadsheet", "_LOADSHEET_COMPLETE")
    return {item.value: item.help for item in complete.get_completions(list(words[:-1]), words[-1])}


@pytest.fixture(scope="module")
def waited(tmp_path_factory):
    """A folder whose only run held events, because their orders are not at the exchange."""
    recipe = COOKBOOK / "04-one-column-per-milestone"
    place = Workspace(tmp_path_factory.mktemp("waited"), recipe)
    (sample,) = recipe.glob("*.csv")
    place.drop(sample.name, sample)
    assert place.run().returncode == 1
    return place


@pytest.fixture
def waiting(waited, tmp_path, monkeypatch):
    """A copy of it, in which we are."""
    place = Workspace(shutil.copytree(waited, tmp_path / "waiting"), waited / "mappings")
    monkeypatch.chdir(place)
    return place


def test_keys_are_those_that_the_command_can_do_something_with(waiting):
    keys = {key for (key,) in waiting.ask("select key from entries where state = 'held'")}
    some = min(keys)
    ((run,),) = waiting.ask("select name from runs")
    assert set(offered("retry", "")) == keys
    assert set(offered("show", "")) == {run, *keys}
    assert set(offered("ledger", "forget", some[:-1])) == {key for key in keys if key.startswith(some[:-1])}
    assert offered("resolve", "") == offered("show", "no such key") == {}


def test_runs_mappings_codes_and_words_are_offered(waiting):
    ((name,),) = waiting.ask("select name from runs")
    assert offered("report", "--run", "") == offered("capsule", "make", name[:6]) == {name: "exit code 1"}
    (text,) = (path.read_text(encoding="utf-8") for path in (waiting / "mappings").glob("*.yaml"))
    mapping = text.split("mapping: ")[1].split()[0]
    assert set(offered("mapping", "template", mapping[:3])) == {mapping}
    assert set(offered("mapping", "preview", "--mapping", "")) == {mapping}
    assert offered("explain", "c306") == {"C306": "Not in the list"}
    assert {"pad_left", "payload"} <= set(offered("mapping", "help", "pa"))
    assert "columns.pad_left" in offered("mapping", "help", "columns.pad_l")


def test_the_folders_of_the_command_line_and_the_ledger_of_the_named_shipper_count(waiting, tmp_path, monkeypatch):
    keys = offered("show", "")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert offered("show", "") == {}
    assert offered("show", "--state", str(waiting.state), "") == keys
    toml = f'[shippers.acme]\nstate = "{waiting.state}"\n[shippers.birch]\n'
    Path("loadsheet.toml").write_text(toml, encoding="utf-8")
    assert offered("show", "--shipper", "acme", "") == keys
    assert offered("show", "--shipper", "birch", "") == {}
    assert set(offered("worker", "--only", "")) == {"acme", "birch"}


@pytest.mark.parametrize(
    "settings",
    [
        "no TOML",
        "[shippers.acme]\n[shippers.birch]\n",
        'database = "postgresql://nobody@203.0.113.1/none"\n',  # nothing answers there: a shell must not wait
        'state = "empty"\n',
    ],
)
def test_what_cannot_be_known_is_not_offered_and_nothing_is_said(waiting, settings, capfd):
    (waiting.folder / "loadsheet.toml").write_text(settings, encoding="utf-8")
    assert offered("show", "") == offered("report", "--run", "") == {}
    assert capfd.readouterr() == ("", "")

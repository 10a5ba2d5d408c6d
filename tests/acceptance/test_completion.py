"""What a shell offers: keys, runs, mappings, codes and words, and nothing but silence where they cannot be known."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from loadsheet.cli import loadsheet

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook"


def offered(*words):
    """What is offered for the last word, with its explanation."""
    complete = ShellComplete(loadsheet, {}, "loadsheet", "_LOADSHEET_COMPLETE")
    return {item.value: item.help for item in complete.get_completions(list(words[:-1]), words[-1])}


@pytest.fixture
def waiting(workspace, monkeypatch):
    """A folder whose only run held events, because their orders are not at the exchange."""
    recipe = COOKBOOK / "04-one-column-per-milestone"
    workspace.use(recipe)
    (sample,) = recipe.glob("*.csv")
    workspace.drop(sample.name, sample)
    assert workspace.run().returncode == 1
    monkeypatch.chdir(workspace.folder)
    return workspace


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

"""A command that writes a file makes the folders on the way to it."""

import shutil
from pathlib import Path

import pytest
from workspace import copy_mappings

from loadsheet.cli import invoke

ROOT = Path(__file__).parents[2]
WRITING = {
    "mapping template": ("mapping", "template", "carrier-status", "--out", "new/folder/sheet.xlsx"),
    "mapping schema": ("mapping", "schema", "--out", "new/folder/schema.json"),
    "mapping suggest": (
        "mapping",
        "suggest",
        "status.csv",
        "--target",
        "order.status",
        "--out",
        "new/folder/draft.yaml",
    ),
    "ledger backup": ("ledger", "backup", "--to", "new/folder/ledger.db"),
    "ledger export": ("ledger", "export", "--to", "new/folder/entries.csv"),
    "pull": ("pull", "orders", "--to", "new/folder/orders.csv"),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    copy_mappings(folder / "mappings", "carrier-status")
    (folder / "inbox").mkdir()
    shutil.copyfile(ROOT / "inbox_samples" / "status_rotterdam_2026-03-05.csv", folder / "status.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert invoke(["run", "--settle", "0"]) == 0
    return folder


@pytest.mark.parametrize("command", WRITING)
def test_missing_folders_are_made(prepared, tmp_path, monkeypatch, command, capsys):
    words = WRITING[command]
    monkeypatch.chdir(shutil.copytree(prepared, tmp_path / "house"))
    assert invoke(list(words)) == 0, capsys.readouterr().err
    assert Path(words[-1]).is_file()


def test_a_file_in_the_place_of_a_folder_is_named(prepared, monkeypatch, capsys):
    monkeypatch.chdir(prepared)
    assert invoke(["mapping", "schema", "--out", "status.csv/schema.json"]) == 75
    assert "the folder status.csv cannot be created" in capsys.readouterr().err

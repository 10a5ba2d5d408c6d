"""A folder in which `loadsheet deploy` is run, and what it gives."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadsheet.cli import loadsheet


@pytest.fixture
def deployed(tmp_path, monkeypatch):
    """Run `loadsheet deploy WORDS` in a folder (by default one of this test's own), into `files` beside it; returns that folder."""

    def deployed(*words, folder=None, config=None):
        folder = folder or tmp_path / "house"
        folder.mkdir(parents=True, exist_ok=True)
        for name in [name for name in os.environ if name.startswith("LOADSHEET_")]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(folder)
        if config is not None:
            (folder / "loadsheet.toml").write_text(config, encoding="utf-8")
        made = tmp_path / "files"
        done = CliRunner().invoke(loadsheet, ["deploy", *words, "--to", str(made)], standalone_mode=False)
        if done.exception:
            raise done.exception
        assert done.exit_code == 0
        return Path(made)

    return deployed

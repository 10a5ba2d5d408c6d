import pytest
from ledgers import ledger_in


@pytest.fixture
def ledger(tmp_path):
    with ledger_in(tmp_path) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, of somebody without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOADSHEET_ALLOW_ROOT", raising=False)
    monkeypatch.delenv("LOADSHEET_QUIET", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def write(folder):
    """Writes the lines of the settings file in that folder."""

    def lines_written(*lines):
        (folder / "loadsheet.toml").write_text("\n".join(lines), encoding="utf-8")

    return lines_written

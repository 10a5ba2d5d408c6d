"""Settings: where they come from, which wins, and how a wrong one is told."""

import re

import pytest

from loadsheet.credentials import read_token
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "loadsheet.toml"
    path.write_text(
        'dispatch.connections = 3\ndispatch.window = 30\n[assumptions]\nunknown_fields = "ignore"\n', encoding="utf-8"
    )
    return path


def test_the_command_line_wins_over_the_environment_over_the_file_over_the_defaults(config, monkeypatch):
    monkeypatch.setenv("LOADSHEET_DISPATCH__WINDOW", "20")
    monkeypatch.setenv("LOADSHEET_DISPATCH__CONNECTIONS", "2")
    settings = Settings.load(config, connections=1, settle_s=None)
    assert (settings.dispatch.connections, settings.dispatch.window, settings.arrival.settle_s) == (1, 20, 5.0)
    assert settings.assumptions.unknown_fields == "ignore"


def test_an_assumption_can_come_from_the_environment(config, monkeypatch):
    monkeypatch.setenv("LOADSHEET_ASSUMPTIONS__NULL_FIELDS", "absent")
    settings = Settings.load(config)
    assert (settings.assumptions.null_fields, settings.assumptions.unknown_fields) == ("absent", "ignore")


def test_a_wrong_setting_is_named_with_what_was_probably_meant(tmp_path):
    path = tmp_path / "loadsheet.toml"
    for text, told in (
        ("conections = 3", "conections: unknown setting; did you mean dispatch.connections?"),
        ('[assumptions]\nunknown_field = "ignore"', "did you mean assumptions.unknown_fields?"),
        ("dispatch.connections = 0", "connections: "),
        ('dispatch.connections = "many"', "connections: "),
        ("dispatch.connections = ", "loadsheet.toml: "),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError, match=re.escape(told)):
            Settings.load(path)


def test_a_settings_file_that_was_named_must_be_there(tmp_path):
    with pytest.raises(SettingsError, match="does not exist"):
        Settings.load(tmp_path / "nowhere.toml")


def test_a_token_never_shows_itself(monkeypatch):
    monkeypatch.setenv("LOADSHEET_TOKEN", "very-secret")
    settings = Settings.load()
    assert "very-secret" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert read_token(settings) == "very-secret"

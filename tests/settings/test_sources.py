"""Settings: where they come from, which wins, and how a wrong one is told; old names are accepted with a warning that says the new one."""

import os
import subprocess
import sys
import warnings

import pytest

from loadsheet.cli.settings_shown import trace
from loadsheet.credentials import read_token
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings, every_field
from loadsheet.settings.sections import OLD_NAMES


def test_the_command_line_wins_over_the_environment_over_the_file_over_the_defaults(write, monkeypatch):
    write("dispatch.connections = 3", "dispatch.window = 30", "[assumptions]", 'unknown_fields = "ignore"')
    monkeypatch.setenv("LOADSHEET_DISPATCH__WINDOW", "20")
    monkeypatch.setenv("LOADSHEET_DISPATCH__CONNECTIONS", "2")
    monkeypatch.setenv("LOADSHEET_ASSUMPTIONS__NULL_FIELDS", "absent")
    settings = Settings.load(connections=1, settle_s=None)
    assert (settings.dispatch.connections, settings.dispatch.window, settings.arrival.settle_s) == (1, 20, 5.0)
    assert (settings.assumptions.null_fields, settings.assumptions.unknown_fields) == ("absent", "ignore")


def test_a_settings_file_that_was_named_must_be_there(tmp_path):
    with pytest.raises(SettingsError, match="does not exist"):
        Settings.load(tmp_path / "nowhere.toml")


def test_a_token_never_shows_itself(monkeypatch):
    monkeypatch.setenv("LOADSHEET_TOKEN", "very-secret")
    settings = Settings.load()
    assert "very-secret" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert read_token(settings) == "very-secret"


def warned(**more):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        settings = Settings.load(**more)
    assert {one.category for one in caught} <= {FutureWarning}
    return settings, [str(one.message) for one in caught]


def test_every_old_name_leads_to_a_setting_and_each_setting_has_one_old_name_at_most():
    paths = {path for path, _ in every_field()}
    assert set(OLD_NAMES.values()) <= paths
    assert len(set(OLD_NAMES.values())) == len(OLD_NAMES)
    assert not OLD_NAMES.keys() & Settings.model_fields.keys()


def test_an_old_name_in_the_file_counts_and_is_warned_of_once_with_the_new_one(write):
    write("Window = 30", 'notify = "json://u:s3cret@h"', "[notify_owners]", 'Anna = "json://h"')
    settings, told = warned()
    assert (settings.dispatch.window, list(settings.notifications.owners)) == (30, ["Anna"])
    assert told == [
        "loadsheet.toml: window is now dispatch.window; write window in the table [dispatch]. The old name is removed in 0.7.0.",
        "loadsheet.toml: notify is now notifications.urls; write urls in the table [notifications]. The old name is removed in 0.7.0.",
        "loadsheet.toml: notify_owners is now notifications.owners; write owners in the table [notifications]. The old name is removed in 0.7.0.",
    ]
    assert {one.name: one.origin for one in trace(settings)}["dispatch.window"] == "loadsheet.toml line 1"


def test_an_old_name_in_a_shippers_table_and_in_variables(write, monkeypatch):
    write("[shippers.acme]", "window = 30", "[shippers.birch]")
    monkeypatch.setenv("LOADSHEET_CANARY", "7")
    monkeypatch.setenv("LOADSHEET_SHIPPERS__ACME__SCHEDULE_ZONE", "Europe/Berlin")
    monkeypatch.setenv("LOADSHEET_NOTIFY_OWNERS__ANNA", "json://h")
    settings, told = warned(shipper="acme")
    assert (settings.dispatch.window, settings.dispatch.canary) == (30, 7)
    assert settings.schedules.timezone == "Europe/Berlin"
    assert "anna" in settings.notifications.owners
    parts = ("[shippers.acme.dispatch]", "LOADSHEET_DISPATCH__CANARY.", "LOADSHEET_SHIPPERS__ACME__SCHEDULES__TIMEZONE.",
             "LOADSHEET_NOTIFICATIONS__OWNERS__ANNA.")  # fmt: skip
    assert len(told) == len(parts)
    assert all(any(part in one for one in told) for part in parts)


def test_where_both_are_written_the_new_name_wins_and_a_stronger_source_wins_over_both(write, monkeypatch):
    write("window = 30", "canary = 1", "[dispatch]", "window = 40", "canary = 2")
    monkeypatch.setenv("LOADSHEET_CANARY", "7")
    settings, _ = warned()
    assert (settings.dispatch.window, settings.dispatch.canary) == (40, 7)


def test_in_python_old_names_are_silent(folder):
    settings, told = warned(window=30, dispatch={"canary": 1})
    assert (told, settings.dispatch.window, settings.dispatch.canary) == ([], 30, 1)
    assert Settings(window=30) == Settings(dispatch={"window": 30})
    copy = settings.model_copy(update={"window": 5, "dispatch": {"canary": 2}, "state": folder})
    assert (copy.dispatch.window, copy.dispatch.canary, copy.state, settings.dispatch.window) == (5, 2, folder, 30)


def test_what_does_nothing_any_more_is_warned_of(write, monkeypatch):
    write("batch_entries = 3")
    monkeypatch.setenv("LOADSHEET_WORKER_WAIT_S", "3")
    settings, told = warned()
    assert settings.model_dump() == Settings().model_dump()
    assert [one.partition(" has no effect")[0] for one in told] == [
        "environment LOADSHEET_WORKER_WAIT_S: worker_wait_s",
        "loadsheet.toml: batch_entries",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("conections = 3", "conections: unknown setting; did you mean dispatch.connections?"),
        (
            '[assumptions]\nunknown_field = "ignore"',
            "assumptions.unknown_field: unknown setting; did you mean assumptions.unknown_fields?",
        ),
        ('dispatch.connections = "many"', "dispatch.connections: Input should be a valid integer"),
        ("dispatch.connections = ", "loadsheet.toml: "),
        ("[dispatch]\nwindw = 3", "dispatch.windw: unknown setting; did you mean dispatch.window?"),
        ("[reading]\nwindow = 3", "reading.window: unknown setting; did you mean dispatch.window?"),
        ("reading_cpu = 3", "reading_cpu: unknown setting; did you mean reading.cpu_s?"),
        ("dispatch = 3", "dispatch: Input should be a valid dictionary"),
        ("[dispatch]\nwindow = 0", "dispatch.window: Input should be greater than 0"),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_probably_meant(write, text, told):
    write(text)
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    assert str(refused.value).startswith(told)


def test_on_stderr_a_warning_is_one_line_without_the_line_of_the_file(folder, write):
    write('notify = "json://u:s3cret@h"')
    words = [sys.executable, "-m", "loadsheet", "config"]
    done = subprocess.run(words, cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=False)
    (line,) = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert "notify is now notifications.urls" in line
    assert "s3cret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr

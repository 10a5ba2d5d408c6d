"""Settings: where they come from, which source wins, for all and for each shipper, and how a wrong one is told; old names are accepted with a warning."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from loadsheet.cli import loadsheet
from loadsheet.cli.config import trace
from loadsheet.credentials import read_token
from loadsheet.errors import SettingsError
from loadsheet.settings import Settings, every_field, shippers_in
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


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a file to another user")
def test_settings_that_another_user_put_into_this_folder_run_no_command_unless_they_are_named(write, tmp_path):
    write(f'token_command = "touch {tmp_path}/ran"')
    file = Path("loadsheet.toml")
    os.chown(file, 4711, -1)
    with pytest.raises(SettingsError, match=r"belongs to another user \(4711\) and is not used"):
        read_token(Settings.load())
    assert not (tmp_path / "ran").exists()
    assert Settings.load(file).token_command
    os.chown(file.absolute().parent, 4711, -1)  # a folder of that user, such as a volume of a container
    assert Settings.load().token_command


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


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("LOADSHEET_INBX", "LOADSHEET_INBOX"),
        ("LOADSHEET_DISPATCH_WINDOW", "LOADSHEET_DISPATCH__WINDOW"),
        ("LOADSHEET_DISPTCH__WINDOW", "LOADSHEET_DISPATCH__WINDOW"),
        ("LOADSHEET_PORT_8080_TCP_ADDR", ""),  # as Kubernetes sets it for a service of this name
        ("LOADSHEET_VERSION", ""),
        ("LOADSHEET_CONFIG", ""),
        ("LOADSHEET_DISPATCH__WINDOW", ""),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_warned_of(write, monkeypatch, variable, meant):
    write("quiet = true")
    monkeypatch.setenv(variable, "loadsheet.toml" if variable == "LOADSHEET_CONFIG" else "7")
    told = [f"{variable} is not a setting and has no effect; did you mean {meant}?"] if meant else []
    assert warned()[1] == told


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


def test_a_folder_that_no_longer_exists_is_said(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SettingsError, match="the folder in which loadsheet was started no longer exists"):
        Settings.load()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("conections = 3", "conections: unknown setting; did you mean dispatch.connections?"),
        (
            '[assumptions]\nunknown_field = "ignore"',
            "assumptions.unknown_field: unknown setting; did you mean assumptions.unknown_fields?",
        ),
        ('quiet = "maybe"', "quiet: must be true, false or auto"),
        ("token_keyring = 5", "token_keyring: must be true, false or a name"),
        ('dispatch.connections = "many"', "dispatch.connections: must be a whole number"),
        ("dispatch.connections = ", "loadsheet.toml: "),
        ("[dispatch]\nwindw = 3", "dispatch.windw: unknown setting; did you mean dispatch.window?"),
        ("[reading]\nwindow = 3", "reading.window: unknown setting; did you mean dispatch.window?"),
        ("reading_cpu = 3", "reading_cpu: unknown setting; did you mean reading.cpu_s?"),
        ("dispatch = 3", "dispatch: must be a table"),
        ("[dispatch]\nwindow = 0", "dispatch.window: must be greater than 0"),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_probably_meant(write, monkeypatch, text, told):
    monkeypatch.setenv("LOADSHEET_DISPATCH__CANARY", "7")  # a value in the place of a table stays wrong beside it
    write(text)
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    assert str(refused.value).startswith(told)


def test_a_wrong_variable_is_named_without_its_value(monkeypatch):
    monkeypatch.setenv("LOADSHEET_DISPATCH__WINDOW", "s3cret")
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    assert str(refused.value) == "dispatch.window: must be a whole number (environment LOADSHEET_DISPATCH__WINDOW)"


def test_on_stderr_a_warning_is_one_line_without_the_line_of_the_file(folder, write):
    write('notify = "json://u:s3cret@h"')
    words = [sys.executable, "-m", "loadsheet", "config"]
    done = subprocess.run(words, cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=False)
    (line,) = [line for line in done.stderr.splitlines() if "notify" in line]
    assert line.startswith("loadsheet: loadsheet.toml: notify is now notifications.urls")
    assert "s3cret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def profiles():
    """The settings of every declared shipper; the only ones under an empty name if none is declared."""
    return {name: Settings.load(shipper=name) for name in shippers_in() or ("",)}


def test_without_shippers_there_is_one_profile_and_nothing_changes(write):
    write("dispatch.connections = 3")
    assert shippers_in() == ()
    assert list(profiles()) == [""]
    assert profiles()[""].model_dump() == Settings.load().model_dump()
    assert Settings.load().shipper == ""


def test_each_shipper_has_folders_and_a_ledger_of_its_own_below_those_of_all(folder, write, monkeypatch):
    (folder / "maps" / "acme").mkdir(parents=True)
    write('inbox = "in"', 'Outbox = "out"', 'mappings = "maps"', 'state = "keep"',
          "[shippers.acme]", "[shippers.birch]", 'inbox = "own"')  # fmt: skip
    acme, birch = profiles().values()
    assert (acme.shipper, birch.shipper) == ("acme", "birch")
    assert (acme.inbox, birch.inbox) == (Path("in/acme"), Path("own")), "a folder of its own is taken as it is"
    assert (acme.mappings, birch.mappings) == (Path("maps/acme"), Path("maps")), "its own folder, if there is one"
    assert (acme.outbox, acme.state) == (Path("out/acme"), Path("keep/acme"))
    assert acme.database_url == "sqlite:///keep/acme/ledger.db" != birch.database_url
    assert Settings.load().shippers == acme.shippers == ("acme", "birch")
    monkeypatch.setenv("LOADSHEET_INBOX", "elsewhere")
    assert [one.inbox for one in profiles().values()] == [Path("elsewhere/acme"), Path("own")]


def test_a_table_may_hold_any_setting(write):
    write(
        "dispatch.connections = 3",
        "dispatch.window = 30",
        "[shippers.acme]",
        "dispatch.connections = 5",
        "[shippers.acme.assumptions]",
        'unknown_fields = "ignore"',
        "[shippers.birch]",
    )
    acme, birch = profiles().values()
    assert [(one.dispatch.connections, one.dispatch.window) for one in (acme, birch)] == [(5, 30), (3, 30)]
    assert acme.assumptions.unknown_fields == "ignore" != birch.assumptions.unknown_fields


def test_command_line_then_its_variable_then_that_of_all_then_its_table_then_the_file(write, monkeypatch):
    names = ("window", "connections", "canary", "unreachable_max", "unknown_max")
    write(
        *(f"dispatch.{name} = 5" for name in names),
        "[shippers.a-b]",
        *(f"dispatch.{name} = 4" for name in names[:-1]),
    )
    for name in names[:3]:
        monkeypatch.setenv(f"LOADSHEET_DISPATCH__{name.upper()}", "3")
    for name in names[:2]:
        monkeypatch.setenv(f"LOADSHEET_SHIPPERS__A_B__DISPATCH__{name.upper()}", "2")
    loaded = Settings.load(shipper="a-b", window=1)
    assert [getattr(loaded.dispatch, name) for name in names] == [1, 2, 3, 4, 5]
    assert Settings.load(shipper="a-b", inbox=Path("here")).inbox == Path("here")


def test_the_token_of_a_shipper_goes_before_that_of_all_which_no_other_exchange_gets(write, monkeypatch):
    write(
        'exchange = "https://a.example"',
        'token_command = "pass a"',
        'capabilities = "a.yaml"',
        "[shippers.acme]",
        'token_file = "acme.token"',
        "[shippers.birch]",
        "[shippers.cedar]",
        "[shippers.elm]",
        'exchange = "https://b.example"',
    )
    monkeypatch.setenv("LOADSHEET_TOKEN", "of-all")
    monkeypatch.setenv("LOADSHEET_SHIPPERS__BIRCH__TOKEN", "of-birch")
    acme, birch, cedar, elm = (Settings.load(shipper=name, **more) for name, more in (
        ("acme", {"capabilities": ""}), ("birch", {"capabilities": ""}), ("cedar", {"capabilities": ""}), ("elm", {})
    ))  # fmt: skip
    assert (acme.token, acme.token_file) == (None, Path("acme.token"))
    assert [one.token.get_secret_value() for one in (birch, cedar)] == ["of-birch", "of-all"]
    assert (elm.exchange, elm.token, elm.token_command, elm.capabilities) == ("https://b.example", None, "", None)
    assert elm.own == {"exchange"}


def test_shippers_share_a_postgresql_database_and_have_schemas_of_their_own_in_it(write):
    write('database = "postgresql://u:s3cret@h/l"', "[shippers.acme]", "[shippers.b-2]")
    acme, other = (Settings.load(shipper=name) for name in ("acme", "b-2"))
    assert acme.is_shared
    assert acme.database_url.partition("?")[2] == "schema=loadsheet_acme&shared=loadsheet_fleet&shipper=acme"
    assert other.database_url.partition("?")[2] == "schema=loadsheet_b_2&shared=loadsheet_fleet&shipper=b-2"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["[shippers.acme]", "conections = 3"], "loadsheet.toml [shippers.acme] conections: unknown setting; did you mean dispatch.connections?"),
        (["[shippers.acme]", "dispatch.connections = 0"], "[shippers.acme] dispatch.connections: "),
        (["[shippers.acme]", 'shipper = "b"'], "[shippers.acme] shipper: cannot be set for one shipper"),
        (["[shippers.acme.shippers.b]"], "[shippers.acme] shippers: cannot be set for one shipper"),
        (['shippers = ["acme"]'], "write [shippers.NAME]"),
        (["[shippers]", 'acme = "x"'], "shippers.acme: must be a table"),
        (['[shippers."../acme"]'], "a name has at most 40 letters, digits"),
        (["[shippers.a__b]"], "a name has at most 40 letters, digits"),
        (["[shippers.Lookups]"], "this name is reserved"),
        (["[shippers.NUL]"], "this name is reserved"),
        (["[shippers.a-b]", "[shippers.A_b]"], "[shippers.A_b]: too similar to [shippers.a-b]"),
        (["[shippers.acme]", 'inbox = "x"', "[shippers.b]", 'inbox = "./x"'], "have the same inbox"),
        (["[shippers.acme]", 'inbox = "inbox"', "[shippers.b]"], "have one inbox inside the other"),
        (["[shippers.acme]", 'state = ".loadsheet/b"', "[shippers.b]"], "have the same state"),
        (["[shippers.acme]", 'outbox = "outbox/b"', "[shippers.b]"], "have the same outbox"),
        (['database = "sqlite:///one/ledger.db"', "[shippers.acme]", "[shippers.b]"], "have the same ledger (database)"),
        (["[shippers.birch]"], "there is no shipper acme: declared are birch"),
        (["[shippers.acne]"], "did you mean acne?"),
        (["dispatch.window = 3"], "none is declared; write [shippers.acme] into loadsheet.toml"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_shippers_is_named(write, lines, told):
    write(*lines)
    with pytest.raises(SettingsError) as refused:
        Settings.load(shipper="acme")
    assert told in str(refused.value)
    write("[shippers.acme]", "conections = 3", "[shippers.birch]")
    assert Settings.load(shipper="birch").shipper == "birch", "a mistake in one table is no other shipper's affair"


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("LOADSHEET_SHIPPERS__BRICH__TOKEN", "unknown shipper; declared are: acme"),
        ("LOADSHEET_SHIPPERS__ACME__TOKN", "unknown setting; did you mean LOADSHEET_SHIPPERS__ACME__TOKEN?"),
        ("LOADSHEET_SHIPPERS__ACME__ARRIVAL__IGNORE", 'ACME__ARRIVAL__IGNORE: write it as JSON, such as ["a", "b"]'),
        ("LOADSHEET_ARRIVAL__IGNORE", 'LOADSHEET_ARRIVAL__IGNORE: write it as JSON, such as ["a", "b"]'),
        ("LOADSHEET_SHIPPER", "there is no shipper s3cret: declared are acme"),
        ("LOADSHEET_CONFIG", "settings file s3cret does not exist"),
    ],
)
def test_what_is_wrong_with_a_variable_is_named(write, monkeypatch, variable, told):
    write("[shippers.acme]")
    monkeypatch.setenv(variable, "s3cret")
    with pytest.raises(SettingsError) as refused:
        Settings.load(shipper="" if variable == "LOADSHEET_SHIPPER" else "acme")
    assert told in str(refused.value)


def test_the_environment_can_choose_the_shipper_and_their_names_complete_on_the_command_line(write, monkeypatch):
    write("[shippers.Acme]", "[shippers.alder]", "[shippers.birch]")
    monkeypatch.setenv("LOADSHEET_SHIPPER", "acme")
    assert Settings.load().shipper == "Acme"
    assert Settings.load(shipper="birch").shipper == "birch"
    complete = ShellComplete(loadsheet, {}, "loadsheet", "_LOADSHEET_COMPLETE")
    assert [one.value for one in complete.get_completions(["runs", "--shipper"], "a")] == ["Acme", "alder"]
    write("no TOML")
    assert complete.get_completions(["runs", "--shipper"], "a") == []


def test_the_first_settings_file_counts_the_one_named_the_one_here_the_users(folder, write, monkeypatch):
    (folder / "home" / "loadsheet").mkdir(parents=True)
    (folder / "home" / "loadsheet" / "loadsheet.toml").write_text(
        "dispatch.window = 4\ndispatch.connections = 4", encoding="utf-8"
    )
    assert Settings.load().dispatch.window == 4
    write("dispatch.window = 3")
    assert (Settings.load().dispatch.window, Settings.load().dispatch.connections) == (3, 8), "files are not mixed"
    (folder / "named.toml").write_text("dispatch.window = 2", encoding="utf-8")
    monkeypatch.setenv("LOADSHEET_CONFIG", "named.toml")
    assert Settings.load().dispatch.window == 2
    (folder / "given.toml").write_text("dispatch.window = 1", encoding="utf-8")
    assert Settings.load(folder / "given.toml").dispatch.window == 1


def test_what_was_found_to_be_sound_is_judged_anew_when_a_variable_changes_it(write, monkeypatch):
    write("[shippers.acme]", "[shippers.birch]")
    assert list(profiles()) == ["acme", "birch"]
    monkeypatch.setenv("LOADSHEET_SHIPPERS__BIRCH__OUTBOX", "outbox/acme")
    with pytest.raises(SettingsError, match=r"acme. and .* have the same outbox"):
        Settings.load(shipper="acme")

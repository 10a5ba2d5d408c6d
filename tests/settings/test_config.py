"""`loadsheet config`: what is in force and where it is from; secrets are told to be set, and never shown."""

import json
import re
from pathlib import Path

import pytest

from loadsheet.cli import invoke
from loadsheet.settings import Settings
from loadsheet.settings.origin import trace
from loadsheet.settings.sample import sample

SECRET = "s3cret-canary"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOADSHEET_ALLOW_ROOT", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


def config(capsys, *words):
    assert invoke(["config", *words]) == 0
    return capsys.readouterr()


def rows(said):
    return {line.split("\t")[0]: line.split("\t")[1:] for line in said.out.splitlines()[1:]}


def test_without_anything_set_it_says_so_and_that_there_is_no_file(folder, capsys):
    said = config(capsys)
    assert said.out == ""
    assert said.err.startswith(
        "no settings file: there is neither loadsheet.toml here, nor one of this user, nor /etc/"
    )
    assert "every setting has its default" in said.err
    assert set(rows(config(capsys, "--all"))) == {one.name for one in trace(Settings.load())}
    assert json.loads(config(capsys, "--json").out) == {"file": None, "settings": []}


def test_each_value_is_told_with_its_origin(folder, capsys, monkeypatch):
    (folder / "probed.yaml").write_text(
        "exchange: https://b.example\nassumptions: {create_existing: replace}\n", encoding="utf-8"
    )
    lines = ["window = 30", "# canary = 9", "connections = 3", "[assumptions]", 'unknown_fields = "ignore"']
    lines += ["[shippers.acme]", "connections = 5", 'exchange = "https://b.example"', 'capabilities = "probed.yaml"']
    lines += ["[shippers.acme.assumptions]", 'null_fields = "absent"', "[shippers.birch]"]
    (folder / "loadsheet.toml").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("LOADSHEET_CANARY", "7")
    monkeypatch.setenv("LOADSHEET_ASSUMPTIONS__FLAG_FORM", "true/false")
    monkeypatch.setenv("LOADSHEET_SHIPPERS__ACME__POLL_S", "9")
    shared = config(capsys, "--origin")
    assert rows(shared) == {
        "connections": ["3", "loadsheet.toml line 3"],
        "window": ["30", "loadsheet.toml line 1"],
        "canary": ["7", "environment LOADSHEET_CANARY"],
        "shippers": ['["acme", "birch"]', "loadsheet.toml"],
        "assumptions.flag_form": ["true/false", "environment LOADSHEET_ASSUMPTIONS__FLAG_FORM"],
        "assumptions.unknown_fields": ["ignore", "loadsheet.toml line 5"],
    }
    assert shared.err.splitlines() == [
        "settings file: loadsheet.toml",
        "acme, birch may have others: --shipper NAME shows them",
    ]
    acme = rows(config(capsys, "--origin", "--shipper", "acme"))
    assert acme["connections"] == ["5", "loadsheet.toml [shippers.acme] line 7"]
    assert acme["window"] == ["30", "loadsheet.toml line 1"]
    assert acme["poll_s"] == ["9.0", "environment LOADSHEET_SHIPPERS__ACME__POLL_S"]
    assert acme["inbox"] == ["inbox/acme", "follows from [shippers.acme]"]
    assert acme["assumptions.null_fields"] == ["absent", "loadsheet.toml [shippers.acme] line 11"]
    assert acme["assumptions.create_existing"] == ["replace", "probed.yaml"]
    told = json.loads(config(capsys, "--json", "--all", "--shipper", "acme").out)
    by_name = {one["setting"]: one for one in told["settings"]}
    assert by_name["settle_s"] == {"setting": "settle_s", "value": 5.0, "default": True, "origin": "default"}


@pytest.mark.parametrize("words", [(), ("--all", "--origin"), ("--json",), ("--json", "--all")])
def test_no_secret_is_shown(folder, capsys, monkeypatch, words):
    lines = [f'notify = ["mailto://u:{SECRET}@h"]', f'exchange = "https://u:{SECRET}@x.example"']
    lines += [f'database = "sqlite://u:{SECRET}@h/l.db"', f'token_command = "printf {SECRET}"']
    lines += ["[notify_owners]", f'anna = "mailto://u:{SECRET}@h"']
    (folder / "loadsheet.toml").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("LOADSHEET_TOKEN", SECRET)
    monkeypatch.setenv("LOADSHEET_PING_URL", f"https://h/{SECRET}")
    said = config(capsys, *words)
    assert SECRET not in said.out + said.err
    assert "token_command" in said.out
    if not words:
        assert rows(said)["token"] == ["set (environment LOADSHEET_TOKEN)"]
        assert rows(said)["exchange"] == ["https://***@x.example"]
        assert rows(said)["token_command"] == ["printf ..."]


def test_the_service_managers_credential_is_told(folder, capsys, monkeypatch):
    (folder / "loadsheet_token").write_text(SECRET, encoding="utf-8")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    assert rows(config(capsys)) == {"token": ["set (credential loadsheet_token)"]}


def uncommented(text):
    return re.sub(r"^# (?=\w+ = |\[assumptions\]$)", "", text, flags=re.MULTILINE)


def test_the_sample_holds_every_setting_and_comes_to_the_defaults_commented_or_not(folder, capsys):
    text = config(capsys, "--sample").out
    assert text == sample()
    file = folder / "loadsheet.toml"
    bare = Settings.load().model_dump()
    for version in (text, uncommented(text)):
        file.write_text(version, encoding="utf-8")
        assert Settings.load().model_dump() == bare
    shipper = re.sub(r"^## (?=\[shippers|\w+ = )", "", text, flags=re.MULTILINE)
    file.write_text(shipper, encoding="utf-8")
    assert Settings.load(shipper="acme").token_file == Path("/etc/loadsheet/acme.token")
    every = {*Settings.model_fields, *type(Settings.load().assumptions).model_fields}
    named = set(re.findall(r"^(\w+) = ", uncommented(text), flags=re.MULTILINE))
    assert every - named == {"shipper", "shippers", "assumptions"}
    assert max(len(line) for line in text.splitlines()) < 400


def test_an_empty_text_is_not_set(folder, monkeypatch):
    for name in ("TOKEN_FILE", "TOKEN", "METRICS_FILE", "ARRIVED_SINCE"):
        monkeypatch.setenv(f"LOADSHEET_{name}", "")
    loaded = Settings.load()
    assert (loaded.token_file, loaded.token, loaded.metrics_file, loaded.arrived_since) == (None,) * 4

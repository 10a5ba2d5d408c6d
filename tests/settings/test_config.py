"""`loadsheet config`: what is in force and where it is from; secrets are told to be set, and never shown."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from loadsheet.cli import invoke
from loadsheet.cli.config import sample_file, trace
from loadsheet.contract import Assumptions
from loadsheet.settings import Settings, every_field

SECRET = "s3cret-canary"


def config(capsys, *words):
    assert invoke(["config", *words]) == 0
    return capsys.readouterr()


def rows(said):
    return {line.split("\t")[0]: line.split("\t")[1:] for line in said.out.splitlines()[1:]}


def test_without_anything_set_it_says_so_and_that_there_is_no_file(folder, capsys):
    said = config(capsys)
    assert said.out == ""
    assert said.err.startswith("no settings file: neither loadsheet.toml in this folder, nor the user's, nor /etc/")
    assert "all settings have their defaults" in said.err
    assert set(rows(config(capsys, "--all"))) == {one.name for one in trace(Settings.load())}
    assert json.loads(config(capsys, "--json").out) == {"file": None, "settings": []}


def test_each_value_is_shown_with_its_origin(folder, write, capsys, monkeypatch):
    probed = "exchange: https://b.example\nassumptions: {create_existing: replace}\n"
    (folder / "probed.yaml").write_text(probed, encoding="utf-8")
    write(
        *("dispatch.window = 30", "# dispatch.canary = 9", "dispatch.connections = 3"),
        *("[assumptions]", 'unknown_fields = "ignore"'),
        *(
            "[shippers.acme]",
            "dispatch.connections = 5",
            'exchange = "https://b.example"',
            'capabilities = "probed.yaml"',
        ),
        *("[shippers.acme.assumptions]", 'null_fields = "absent"'),
        "[shippers.birch]",
    )
    monkeypatch.setenv("LOADSHEET_DISPATCH__CANARY", "7")
    monkeypatch.setenv("LOADSHEET_ASSUMPTIONS__FLAG_FORM", "true/false")
    monkeypatch.setenv("LOADSHEET_SHIPPERS__ACME__WATCH__POLL_S", "9")
    shared = config(capsys, "--origin")
    assert rows(shared) == {
        "dispatch.connections": ["3", "loadsheet.toml line 3"],
        "dispatch.window": ["30", "loadsheet.toml line 1"],
        "dispatch.canary": ["7", "environment LOADSHEET_DISPATCH__CANARY"],
        "shippers": ['["acme", "birch"]', "loadsheet.toml"],
        "assumptions.flag_form": ["true/false", "environment LOADSHEET_ASSUMPTIONS__FLAG_FORM"],
        "assumptions.unknown_fields": ["ignore", "loadsheet.toml line 5"],
    }
    assert shared.err.splitlines() == [
        "settings file: loadsheet.toml",
        "acme, birch may have different settings: --shipper NAME shows them",
    ]
    acme = rows(config(capsys, "--origin", "--shipper", "acme"))
    assert acme["dispatch.connections"] == ["5", "loadsheet.toml [shippers.acme] line 7"]
    assert acme["dispatch.window"] == ["30", "loadsheet.toml line 1"]
    assert acme["watch.poll_s"] == ["9.0", "environment LOADSHEET_SHIPPERS__ACME__WATCH__POLL_S"]
    assert acme["inbox"] == ["inbox/acme", "follows from [shippers.acme]"]
    assert acme["assumptions.null_fields"] == ["absent", "loadsheet.toml [shippers.acme] line 11"]
    assert acme["assumptions.create_existing"] == ["replace", "probed.yaml"]
    told = json.loads(config(capsys, "--json", "--all", "--shipper", "acme").out)
    by_name = {one["setting"]: one for one in told["settings"]}
    default = {"setting": "arrival.settle_s", "value": 5.0, "default": True, "origin": "default"}
    assert by_name["arrival.settle_s"] == default


@pytest.mark.parametrize("words", [(), ("--all", "--origin"), ("--json",), ("--json", "--all")])
def test_no_secret_is_shown(write, capsys, monkeypatch, words):
    write(
        f'notifications.urls = ["mailto://u:{SECRET}@h"]',
        f'exchange = "https://u:{SECRET}@x.example"',
        f'database = "sqlite://u:{SECRET}@h/l.db"',
        f'token_command = "printf {SECRET}"',
        "[notifications.owners]",
        f'anna = "mailto://u:{SECRET}@h"',
    )
    monkeypatch.setenv("LOADSHEET_TOKEN", SECRET)
    monkeypatch.setenv("LOADSHEET_NOTIFICATIONS__PING_URL", f"https://h/{SECRET}")
    said = config(capsys, *words)
    assert SECRET not in said.out + said.err
    assert "token_command" in said.out
    if not words:
        assert rows(said)["token"] == ["set (environment LOADSHEET_TOKEN)"]
        assert rows(said)["exchange"] == ["https://***@x.example"]
        assert rows(said)["token_command"] == ["printf ..."]


def test_the_service_managers_credential_is_shown(folder, capsys, monkeypatch):
    (folder / "loadsheet_token").write_text(SECRET, encoding="utf-8")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    assert rows(config(capsys)) == {"token": ["set (credential loadsheet_token)"]}


def uncommented(text):
    return re.sub(r"^# (?=\w+ = |\[\w+\]$)", "", text, flags=re.MULTILINE)


def names_in(table, above=()):
    for name, value in table.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from names_in(value, (*above, name))


def test_the_sample_holds_every_setting_and_comes_to_the_defaults_commented_or_not(folder, capsys):
    text = config(capsys, "--sample").out
    assert text == sample_file()
    file = folder / "loadsheet.toml"
    bare = Settings.load().model_dump()
    for version in (text, uncommented(text)):
        file.write_text(version, encoding="utf-8")
        assert Settings.load().model_dump() == bare
    shipper = re.sub(r"^## (?=\[shippers|\w+ = )", "", text, flags=re.MULTILINE)
    file.write_text(shipper, encoding="utf-8")
    assert Settings.load(shipper="acme").token_file == Path("/etc/loadsheet/acme.token")
    every = {path for path, _ in every_field()} | {("assumptions", name) for name in Assumptions.model_fields}
    assert every - set(names_in(tomllib.loads(uncommented(text)))) == {("shipper",), ("shippers",)}
    assert max(len(line) for line in text.splitlines()) < 400


def test_an_empty_text_is_not_set(folder, monkeypatch):
    for name in ("TOKEN_FILE", "TOKEN", "MONITORING__METRICS_FILE", "ARRIVAL__ARRIVED_SINCE"):
        monkeypatch.setenv(f"LOADSHEET_{name}", "")
    loaded = Settings.load()
    assert (loaded.token_file, loaded.token, loaded.monitoring.metrics_file, loaded.arrival.arrived_since) == (
        None,
    ) * 4

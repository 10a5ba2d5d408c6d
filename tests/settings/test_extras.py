"""Libraries that few need are extras: without one, a single sentence names what to install, and nothing was begun."""

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from loadsheet import extras
from loadsheet.errors import SettingsError
from loadsheet.exchange.record_store import Store
from loadsheet.ledger import open_ledger
from loadsheet.settings import Settings

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
URL = {"notifications": {"urls": "json://127.0.0.1:9"}}
WANTED = {
    "notifications.urls": ("notices", "apprise", URL),
    "notifications.fixes_mail": ("notices", "apprise", {"notifications": {"fixes_mail": "json://127.0.0.1:9"}}),
    "monitoring.metrics_file": ("metrics", "prometheus_client", {"monitoring": {"metrics_file": "loadsheet.prom"}}),
    "monitoring.health_address": ("metrics", "prometheus_client", {"monitoring": {"health_address": "127.0.0.1:0"}}),
    "reports.working_days": ("holidays", "holidays", {"reports": {"working_days": "DE"}}),
    "expected_files.expect: holidays": (
        "holidays",
        "holidays",
        {"expected_files": {"expect": ({"files": "*.csv", "by": "08:00", "holidays": "DE"},)}},
    ),
}


@pytest.mark.parametrize("setting", WANTED)
def test_a_setting_that_needs_a_missing_library_names_the_extra(monkeypatch, setting):
    extra, library, values = WANTED[setting]
    extras.check(Settings(**values))
    monkeypatch.setitem(sys.modules, library, None)
    extras.check(Settings())
    with pytest.raises(SettingsError) as raised:
        extras.check(Settings(**values))
    assert str(raised.value) == (
        f"{setting} needs the library {library}, which is not installed; pip install 'loadsheet[{extra}]'"
    )


def test_a_run_that_needs_a_missing_library_does_not_begin(workspace, monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    (workspace.inbox / "orders.csv").write_text("anything\n", encoding="utf-8")
    workspace.variables["LOADSHEET_NOTIFICATIONS__URLS"] = '["json://127.0.0.1:9"]'
    done = workspace.command("run")
    assert (done.returncode, done.stdout) == (78, "")
    assert "pip install 'loadsheet[notices]'" in done.stderr
    assert (workspace.inbox / "orders.csv").exists()


def test_doctor_says_it_too_and_goes_on(workspace, monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    workspace.variables["LOADSHEET_NOTIFICATIONS__URLS"] = '["json://127.0.0.1:9"]'
    said = workspace.command("doctor", "--quick").stdout
    assert "extras\twrong\tnotifications.urls needs the library apprise, which is not installed" in said
    assert "versions\t" in said or "token\t" in said
    monkeypatch.undo()
    assert "extras\tok\t" in workspace.command("doctor", "--quick").stdout


def test_an_export_as_parquet_names_its_extra(workspace, monkeypatch):
    workspace.command("run")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = workspace.command("ledger", "export", "--to", workspace / "figures")
    assert (done.returncode, done.stdout) == (78, "")
    assert "an export as Parquet needs the library duckdb, which is not installed" in done.stderr
    assert workspace.command("ledger", "export", "--to", workspace / "figures", "--format", "csv").returncode == 0


def test_databases_on_postgresql_name_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SettingsError, match=r"pip install 'loadsheet\[postgres\]'"), open_ledger("postgresql://h/d"):
        pass
    with pytest.raises(SettingsError, match=r"pip install 'loadsheet\[postgres\]'"):
        Store("postgresql://h/d")


def test_every_extra_is_declared_and_a_run_can_use_all_of_them():
    groups = PROJECT["optional-dependencies"]
    assert extras._LIBRARIES.keys() <= groups.keys()
    (everything,) = map(Requirement, groups["all"])
    assert everything.extras == groups.keys() - {"all", "dev", "docs", "fuzz", "mutants", "ship"}
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert core.isdisjoint({"apprise", "duckdb", "holidays", "prometheus-client", "psycopg"})

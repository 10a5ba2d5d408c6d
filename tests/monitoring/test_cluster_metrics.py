"""The figures of a fleet, compared with what a real PostgreSQL has, in the file and at the health endpoint."""

import time
import urllib.request

import pytest
from monitored_runs import samples
from shared_ledger import Fleet, a_fleet, joined, shared_settings

from loadsheet.ledger.shared.cluster_status import cluster_status
from loadsheet.operations.health import WatchStatus, serve_status
from loadsheet.operations.metrics import (
    CACHE_S,
    CachedClusterMetrics,
    collect_cluster_metrics,
    exposition,
    write_cluster_metrics,
    writing_cluster_metrics,
)
from loadsheet.settings import Settings


def of(found, name):
    return {key[1:]: value for key, value in found.items() if key[0] == f"loadsheet_fleet_{name}"}


def samples_of(metrics):
    return samples(exposition([metrics]).decode())


@pytest.fixture
def settings(tmp_path):
    return shared_settings(metrics_file=tmp_path / "loadsheet.prom", health_address="127.0.0.1:0")


@pytest.fixture
def fleet(settings):
    with joined(settings) as connection:
        found = Fleet(connection)
        found.worker("alfa-1-aa")
        found.worker("beta-1-bb", seen=3_600)
        found.takeover("alfa-1-aa")
        found.job("acme", "calls", age=400)
        found.pace(wants=[("alfa-1-aa", 20, 3)])
        yield found


def test_the_figures_are_those_of_the_fleet():
    found = samples_of(collect_cluster_metrics(a_fleet()))
    pace = (("exchange", "https://exchange.example"), ("pace", "d41d8cd98f00"))
    for name, expected in {
        "workers": {(): 1},
        "takeovers_total": {(): 57},
        "oldest_waiting_seconds": {(): 400},
        "leased_rate": {pace: 25},
        "allowed_rate": {pace: 50},
        "share": {pace: 0.5},
        "seen_timestamp_seconds": {(): a_fleet().at.timestamp()},
    }.items():
        assert of(found, name) == expected, name
    assert {tuple(value for _, value in labels): number for labels, number in of(found, "queue").items()} == {
        ("files", "acme", "waiting"): 12,
        ("files", "acme", "under way"): 2,
        ("schedule", "bolt", "waiting"): 0,
        ("schedule", "bolt", "under way"): 1,
    }


def test_removed_takeovers_are_still_counted(fleet, settings):
    fleet.takeover("alfa-1-aa")
    before = of(samples_of(collect_cluster_metrics(cluster_status(settings))), "takeovers_total")
    fleet.connection.exec_driver_sql("delete from takeovers")
    assert of(samples_of(collect_cluster_metrics(cluster_status(settings))), "takeovers_total") == before == {(): 2}


def test_a_watch_or_worker_shows_the_fleet_and_keeps_its_file_beside_those_of_the_shippers(fleet, settings, tmp_path):
    said = []
    with serve_status(settings, said.append):
        words = [word for line in said for word in line.split()]
        (address,) = (word.removesuffix("/health") for word in words if word.endswith("/health"))
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            found = samples(answer.read().decode())
        while not (file := tmp_path / "loadsheet-fleet.prom").exists():
            time.sleep(0.01)
    kept = samples(file.read_text(encoding="utf-8"))
    assert of(found, "workers") == of(kept, "workers") == {(): 1}
    assert of(kept, "oldest_waiting_seconds").keys() == {()}
    assert [path.name for path in tmp_path.iterdir()] == ["loadsheet-fleet.prom"]


def test_figures_are_taken_again_when_they_are_some_seconds_old(fleet, settings):
    now = [0.0]
    live = CachedClusterMetrics(settings, lambda: now[0])
    assert of(samples_of(live()), "workers") == {(): 1}
    fleet.worker("gamma-1-cc")
    for now[0], workers in ((CACHE_S - 1, 1), (CACHE_S, 2)):
        assert of(samples_of(live()), "workers") == {(): workers}


def test_while_the_database_is_away_there_are_no_figures_of_the_fleet_and_it_is_said_once(tmp_path):
    url, said = f"postgresql://me:hunter2@/there?host={tmp_path}", []
    away = Settings(database=url, metrics_file=tmp_path / "loadsheet.prom")
    assert list(CachedClusterMetrics(away)()) == []
    with writing_cluster_metrics(away, said.append, pause_s=0.001):
        while not said:
            time.sleep(0.01)
        time.sleep(0.1)  # it goes on trying meanwhile
    (line,) = said
    assert line.startswith("loadsheet: the metrics of the fleet cannot be read (")
    assert "hunter2" not in line
    assert not list(tmp_path.glob("*.prom"))


def test_who_shares_no_ledger_has_no_figures_of_a_fleet(tmp_path):
    alone = Settings(metrics_file=tmp_path / "loadsheet.prom")
    write_cluster_metrics(alone, print)
    with writing_cluster_metrics(alone, print):
        pass
    assert list(tmp_path.iterdir()) == []
    assert WatchStatus(alone).metrics() == [()]

"""Originals lie where `archive_path` says and are found wherever one looks from; files are closed to others; missing folders are made."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError
from workspace import SAMPLES, Workspace

from loadsheet.contract import Assumptions
from loadsheet.exchange import serve_embedded
from loadsheet.inbox import archive, claim, complete_interrupted_move, scan
from loadsheet.ledger import read_ledger
from loadsheet.operations.retention import remove_originals
from loadsheet.settings import Settings

BY_MONTH = {"LOADSHEET_ARCHIVE_PATH": "{yyyy}-{mm}/in/{name}"}
of_posix = pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")


def kept_as(place):
    """The places of the files as the ledger stores them."""
    return [kept for (kept,) in place.ask("select kept_as from files order by kept_as")]


def test_equal_names_are_numbered_and_the_ledger_knows_each_place(workspace):
    for count in (1, 2):
        workspace.write_orders(count)
        assert workspace.run(**BY_MONTH).returncode == 0
    month = workspace.run_json()["run"][:7]
    names = ["orders.csv", "orders~2.csv", "packages.csv", "packages~2.csv"]
    assert sorted(path.name for path in (workspace.state / "archive" / month / "in").iterdir()) == names
    assert kept_as(workspace) == [f"archive/{month}/in/{name}" for name in names]
    assert json.loads(workspace.command("ledger", "check", "--json").stdout)["wrong"] == []


def test_originals_at_such_paths_go_after_their_days(workspace):
    workspace.write_orders(1)
    workspace.run(**BY_MONTH)
    given = {"archive_path": "{yyyy}-{mm}/in/{name}", "retention": {"archive_days": 10}}
    settings = Settings(state=workspace.state, outbox=workspace.outbox, inbox=workspace.inbox, **given)
    (workspace.state / "archive" / "note.txt").write_text("not ours", encoding="utf-8")
    with read_ledger(settings.database_url, settings.state) as ledger:
        assert remove_originals(settings, ledger, datetime.now(UTC)) == 0
    assert workspace.run(**BY_MONTH, LOADSHEET_RETENTION__ARCHIVE_DAYS="10").returncode == 0
    workspace.change("update runs set name = '2020-01-01-01' where id = 1")
    assert workspace.run(**BY_MONTH, LOADSHEET_RETENTION__ARCHIVE_DAYS="10").returncode == 0
    assert [path.name for path in (workspace.state / "archive").rglob("*")] == ["note.txt"]
    assert {*kept_as(workspace)} == {""}


def test_a_file_that_a_killed_run_had_numbered_is_found(tmp_path):
    folders = {name: tmp_path / name for name in ("inbox", "state", "outbox")}
    place = Settings(**folders, archive_path="{name}", settle_s=0)
    place.inbox.mkdir()
    run = "2026-03-04-01"
    for text in ("first", "second"):
        (place.inbox / "a.csv").write_text(text, encoding="utf-8")
        file = claim(scan(place).candidates[0], place, run)
        moved = archive(file, place, run)
    for mark in (place.state / "known").rglob("*"):
        if mark.is_symlink():
            mark.unlink()
    assert moved.name == "a~2.csv"
    assert complete_interrupted_move(file, place, run) == moved


LEADING_ELSEWHERE = (
    "{yyyy} {name}/{yyyy} ../{name} a/../{name} /srv/{name} a//{name} {yyyy/{name} a:b/{name} a./{name} x{name}"
)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"archive_path": "{yyyy}/{month}/{name}"}, "{month} is unknown"),
        *(({"archive_path": path}, "ends with {name}") for path in LEADING_ELSEWHERE.split()),
        ({"archive": "s3://bucket/archive", "archive_path": "{yyyy}/{name}"}, r"needs \{run\}"),
    ],
)
def test_a_path_that_could_lead_elsewhere_is_refused_when_it_is_set(given, says):
    """In an object store each run has a folder of its own."""
    with pytest.raises(ValidationError, match=says):
        Settings(**given)
    assert Settings(archive="s3://bucket/archive", archive_path="{yyyy}/{run}/{name}").archive_path


# ---- from elsewhere, and after a move ----


@pytest.fixture
def sent(workspace):
    """A workspace after a run that archived two files and set one aside."""
    workspace.write_orders(2)
    workspace.drop("unknown.csv", "Order No;Pickup\nA-1")
    assert workspace.run().returncode == 1
    return workspace


def wrong_of(elsewhere, state):
    """The problems that the check of a ledger finds, asked from another folder."""
    done = Workspace(elsewhere).command("ledger", "check", "--json", "--state", str(state))
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["wants"] else 0)
    return [*found["wrong"], *found["wants"]]


def test_originals_are_found_from_elsewhere_and_after_a_move_and_known_when_they_come_again(sent, tmp_path_factory):
    run, elsewhere = sent.run_json()["run"], tmp_path_factory.mktemp("elsewhere")
    archived = f"archive/{run[:10].replace('-', '/')}/{run}"
    aside = f"../outbox/{run}/set-aside/unknown.csv"
    assert kept_as(sent) == [aside, f"{archived}/orders.csv", f"{archived}/packages.csv"]
    assert wrong_of(elsewhere, sent.state) == []
    moved = Workspace(shutil.move(sent.folder, tmp_path_factory.mktemp("moved") / "to"))
    assert wrong_of(elsewhere, moved.state) == []
    moved.write_orders(2)
    assert "A110" in moved.run().stderr


def test_a_ledger_of_an_earlier_version_is_understood_and_rewritten_by_the_next_run(sent, tmp_path):
    before = kept_as(sent)
    sent.change("update files set kept_as = '.loadsheet/' || kept_as where kept_as like 'archive/%'")
    sent.change("update files set kept_as = substr(kept_as, 4) where kept_as like '../outbox/%'")
    sent.change("delete from meta where name = 'places of files'")
    assert all(kept.startswith((".loadsheet/archive/", "outbox/")) for kept in kept_as(sent))
    assert wrong_of(tmp_path / "elsewhere", sent.state) == []
    sent.run()
    assert kept_as(sent) == before


# ---- who may read them ----


def modes(folder):
    """Every file and folder below, and how open each is."""
    return {path: path.stat().st_mode & 0o777 for path in folder.rglob("*") if not path.is_symlink()}


@of_posix
def test_reports_state_and_logs_are_closed_to_others_whatever_the_umask_but_for_a_group_in_the_outbox(workspace):
    os.umask(0)
    workspace.write_orders(3)
    workspace.drop("strange.csv", "a;b\n1;2\n")
    done = workspace.run(LOADSHEET_ALLOW_ROOT="false")
    assert done.stderr.count("running as root") == (1 if os.geteuid() == 0 else 0)
    for folder in (workspace.outbox, workspace.state):
        found = modes(folder) | {folder: folder.stat().st_mode}
        assert len(found) > 6
        assert {path: oct(mode) for path, mode in found.items() if mode & 0o077} == {}
    assert list(workspace.outbox.glob("*/set-aside"))
    shutil.rmtree(workspace.outbox)
    workspace.write_orders(3)
    done = workspace.run(LOADSHEET_OUTBOX_GROUP=str(os.getgid()))
    assert "running as root" not in done.stderr
    assert {mode for path, mode in modes(workspace.outbox).items() if path.is_file()} == {0o660}
    assert workspace.outbox.stat().st_mode & 0o777 == 0o770
    assert not any(mode & 0o077 for mode in modes(workspace.state).values())
    done = workspace.run(LOADSHEET_OUTBOX_GROUP="nobody-at-all")
    assert (done.returncode, "there is no group nobody-at-all" in done.stderr) == (78, True)


@of_posix
def test_the_exchanges_database_is_closed_to_others_also_one_that_was_open(tmp_path):
    database = tmp_path / "exchange.db"
    for _ in range(2):
        os.umask(0)
        with serve_embedded(f"sqlite:///{database}", "token", Assumptions()):
            files = [tmp_path / f"exchange.db{ending}" for ending in ("", "-shm", "-wal")]
            assert modes(tmp_path) == dict.fromkeys(files, 0o600)
        database.chmod(0o644)


# ---- folders on the way ----

WRITING = (
    "mapping template carrier-status --out new/folder/sheet.xlsx",
    "mapping schema --out new/folder/schema.json",
    "mapping suggest status.csv --target order.status --out new/folder/draft.yaml",
    "ledger backup --to new/folder/ledger.db",
    "ledger export --to new/folder/entries.csv",
    "pull orders --to new/folder/orders.csv",
)


@pytest.mark.journey
def test_a_command_that_writes_a_file_makes_the_folders_on_the_way_to_it(workspace):
    workspace.use_shipped("carrier-status")
    shutil.copyfile(SAMPLES / "status_rotterdam_2026-03-05.csv", workspace / "status.csv")
    assert workspace.run().returncode == 0
    for line in WRITING:
        words = line.split()
        done = workspace.command(*words)
        assert (done.returncode, (workspace / words[-1]).is_file()) == (0, True), done.stderr
        shutil.rmtree(workspace / Path(words[-1]).parts[0])
    refused = workspace.command("mapping", "schema", "--out", "status.csv/schema.json")
    assert (refused.returncode, "the folder status.csv cannot be created" in refused.stderr) == (75, True)


def test_a_run_and_a_check_say_of_files_beside_their_folder_that_they_belong_into_it(workspace):
    workspace.use_shipped("nordic-join")
    files = [workspace.drop(name, "Order;Ort\n1;Ulm\n") for name in ("orders.csv", "packages.csv")]
    for words in (["check", *files], ["run"]):
        done = workspace.command(*words)
        assert done.returncode == 65, words
        assert done.stdout.count("put files that belong together in a folder of the inbox") == 2, words

"""Originals are found from every working directory, and after the folder with state and outbox has moved."""

import json
import shutil

import pytest
from workspace import Workspace

BROKEN = "Order No;Pickup\nA-1"


@pytest.fixture
def sent(workspace):
    """A workspace after a run that archived two files and set one aside."""
    workspace.write_orders(2)
    workspace.drop("unknown.csv", BROKEN)
    assert workspace.run().returncode == 1
    return workspace


def stored(place):
    """The places of the files as the ledger stores them."""
    return sorted(kept for (kept,) in place.ask("select kept_as from files"))


def check(elsewhere, state):
    """The problems that the check of a ledger finds, asked from another folder."""
    place = Workspace(elsewhere)
    done = place.command("ledger", "check", "--json", "--state", str(state))
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["wants"] else 0)
    return [*found["wrong"], *found["wants"]]


def test_places_are_stored_relative_to_the_state_folder_and_found_from_elsewhere(sent, tmp_path):
    run = sent.run_json()["run"]
    day = run[:10].replace("-", "/")
    assert stored(sent) == [
        f"../outbox/{run}/set-aside/unknown.csv",
        f"archive/{day}/{run}/orders.csv",
        f"archive/{day}/{run}/packages.csv",
    ]
    assert check(tmp_path / "elsewhere", sent.state) == []


def test_a_moved_folder_keeps_its_originals_and_knows_a_file_dropped_again(sent, tmp_path_factory):
    moved = Workspace(shutil.move(sent.folder, tmp_path_factory.mktemp("moved") / "to"))
    assert check(tmp_path_factory.mktemp("elsewhere"), moved.state) == []
    moved.write_orders(2)
    assert "A110" in moved.run().stderr


def test_a_ledger_of_an_earlier_version_is_understood_and_rewritten_by_the_next_run(sent, tmp_path):
    before = stored(sent)
    sent.change("update files set kept_as = '.loadsheet/' || kept_as where kept_as like 'archive/%'")
    sent.change("update files set kept_as = substr(kept_as, 4) where kept_as like '../outbox/%'")
    sent.change("delete from meta where name = 'places of files'")
    assert all(kept.startswith((".loadsheet/archive/", "outbox/")) for kept in stored(sent))
    assert check(tmp_path / "elsewhere", sent.state) == []
    sent.run()
    assert stored(sent) == before

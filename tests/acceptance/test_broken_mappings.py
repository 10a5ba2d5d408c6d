"""A mapping that does not load stops its own files and no others."""

import json

import pytest
from faulty_exchange import misbehaving
from workspace import ROOT, SAMPLES

from loadsheet.contract import Assumptions
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.mapping.routing import route

TORN = "mapping: torn\nversion: 1\nsource:\n  files:\n    - torn_*.csv   # and more\n    - 'worn_*.csv'\n  locale: [\n"
UNFINISHED = (
    "mapping: draft\nversion: 1\ntarget: order.create\nsource: {files: [draft_*.csv], companions: {more: more_*.csv}}\n"
)


@pytest.fixture
def house(workspace):
    workspace.use_shipped("alder-parcels")
    for name in ("draft_1.csv", "more_1.csv"):
        workspace.drop(name, "Order\n1\n")
    workspace.drop("alder_2026-03-10.csv", SAMPLES / "alder_2026-03-10.csv")
    (workspace / "mappings" / "draft.yaml").write_text(UNFINISHED, encoding="utf-8")
    return workspace


def test_the_other_files_go_and_its_own_stay_and_are_reported(house, tmp_path):
    house.drop("stranger.csv", "a\n1\n")
    with misbehaving(tmp_path) as exchange:
        done = house.run("--exchange", exchange.url, "--json")
        assert sum(one["operation"] == "order.create" for one in exchange.happened()) > 1
    said = json.loads(done.stdout)
    assert done.returncode == said["exit_code"] == 78
    lying = {(one["file"], one["code"]) for one in said["inbox"]["files"]}
    assert lying == {("draft.yaml", "A115"), ("draft_1.csv", "A116"), ("more_1.csv", "A116")}
    assert said["inbox"]["stuck"] == 2
    assert sorted(path.name for path in house.inbox.glob("*.csv")) == ["draft_1.csv", "more_1.csv"]
    assert 'draft.yaml does not load: line 1: the key "columns" is missing' in done.stderr
    assert "loadsheet mapping lint" in done.stderr


def test_commands_about_other_mappings_work(house):
    alder, draft = "inbox/alder_2026-03-10.csv", "inbox/draft_1.csv"
    done = house.command("check", alder)
    assert (done.returncode, "2 documents could be sent; 1 error," in done.stdout) == (1, True)
    assert house.command("mapping", "preview", alder).returncode in (0, 1)
    assert house.command("mapping", "template", "alder-parcels", "--out", "a.xlsx").returncode == 0
    refused = house.command("mapping", "template", "draft", "--out", "d.xlsx")
    assert (refused.returncode, "draft.yaml:1:1" in refused.stderr) == (78, True)
    for words in (["check", alder, draft], ["mapping", "preview", draft], ["run", "--dry-run"], ["mapping", "lint"]):
        assert house.command(*words).returncode == 78, words


def test_where_no_mapping_loads_nothing_is_touched(house):
    (house / "mappings" / "alder-parcels.yaml").unlink()
    done = house.run("--exchange", "http://127.0.0.1:9")
    assert (done.returncode, "columns" in done.stderr) == (78, True)
    assert (house.states(), house.reports()) == ({}, [])
    assert (house.inbox / "alder_2026-03-10.csv").exists()


# ---- which files stay ----


def blocked(house, *names):
    """Which of these files stay, and which no mapping takes."""
    routes = route(names, load_folder(house / "mappings", Assumptions()))
    return set(routes.blocked), set(routes.unmapped)


def test_of_a_mapping_that_says_no_file_names_all_stay_that_no_other_takes(house):
    (house / "mappings" / "empty.yaml").write_text("mapping: empty\nversion: 1\n", encoding="utf-8")
    assert blocked(house, "alder_1.csv", "unknown.csv") == ({"unknown.csv"}, set())
    (broken,) = [one for one in load_folder(house / "mappings", Assumptions()).broken if one.name == "empty"]
    assert "its patterns cannot be read" in broken.problem.hint


def test_the_files_that_a_broken_mapping_names_stay(house):
    """One that is no YAML names them in its text, and any other file may be a companion of it; a child names them for a broken base."""
    mappings = house / "mappings"
    (mappings / "torn.yaml").write_text(TORN, encoding="utf-8")
    names = ("torn_1.csv", "worn_1.csv", "torn_1.fix.csv", "alder_1.csv", "unknown.csv")
    assert blocked(house, *names) == ({"torn_1.csv", "worn_1.csv", "torn_1.fix.csv", "unknown.csv"}, set())
    (mappings / "torn.yaml").unlink()
    (base,) = (mappings / "base").glob("*.yaml")
    house.edit(base.relative_to(house.folder), "payload:", "paylaod:")
    sound = (ROOT / "mappings" / "order-deletes.yaml").read_text(encoding="utf-8")
    (mappings / "sound.yaml").write_text(sound, encoding="utf-8")
    assert blocked(house, "alder_1.csv")[0] == {"alder_1.csv"}


def test_a_broken_mapping_of_one_shipper_leaves_the_files_of_others_alone(house):
    (house / "mappings" / "nordic").mkdir()
    (house / "mappings" / "draft.yaml").rename(house / "mappings" / "nordic" / "draft.yaml")
    names = ("nordic/draft_1.csv", "nordic/alder_1.csv", "draft_1.csv")
    assert blocked(house, *names) == ({"nordic/draft_1.csv"}, {"nordic/alder_1.csv", "draft_1.csv"})


def test_of_two_mappings_of_one_name_the_second_is_broken(house):
    text = (house / "mappings" / "alder-parcels.yaml").read_text(encoding="utf-8")
    (house / "mappings" / "draft.yaml").write_text(text.replace("alder_*", "other_*"), encoding="utf-8")
    assert blocked(house, "alder_1.csv", "other_1.csv")[0] == {"other_1.csv"}

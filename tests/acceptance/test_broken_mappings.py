"""A mapping that does not load stops its own files and no others."""

import json
import shutil

import pytest
from command_in_process import loadsheet
from exchange_process import TOKEN
from faulty_exchange import misbehaving
from orders import MAPPINGS

from loadsheet.contract import Assumptions
from loadsheet.mapping import load_folder, route
from loadsheet.problems import MappingError

ROOT = MAPPINGS.parents[2]
SAMPLES = ROOT / "inbox_samples"
TORN = "mapping: torn\nversion: 1\nsource:\n  files:\n    - torn_*.csv   # and more\n    - 'worn_*.csv'\n  locale: [\n"
UNFINISHED = (
    "mapping: draft\nversion: 1\ntarget: order.create\nsource: {files: [draft_*.csv], companions: {more: more_*.csv}}\n"
)


@pytest.fixture
def house(tmp_path):
    (tmp_path / "mappings" / "base").mkdir(parents=True)
    (tmp_path / "inbox").mkdir()
    for name in ("alder-parcels.yaml", "base"):
        source = ROOT / "mappings" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(
            source, tmp_path / "mappings" / name, **({"dirs_exist_ok": True} if source.is_dir() else {})
        )
    for name in ("draft_1.csv", "more_1.csv"):
        (tmp_path / "inbox" / name).write_text("Order\n1\n", encoding="utf-8")
    shutil.copy(SAMPLES / "alder_2026-03-10.csv", tmp_path / "inbox")
    (tmp_path / "mappings" / "draft.yaml").write_text(UNFINISHED, encoding="utf-8")
    return tmp_path


def command(house, *words):
    return loadsheet(house, *words, LOADSHEET_TOKEN=TOKEN)


def test_the_other_files_go_and_its_own_stay_and_are_reported(house, tmp_path):
    (house / "inbox" / "stranger.csv").write_text("a\n1\n", encoding="utf-8")
    with misbehaving(tmp_path) as exchange:
        done = command(house, "run", "--settle", "0", "--exchange", exchange.exchange.url, "--json")
        told = json.loads(done.stdout)
        assert done.returncode == 78
        assert told["exit_code"] == 78
        assert sum(one["operation"] == "order.create" for one in exchange.happened()) > 1
    lying = {(one["file"], one["code"]) for one in told["inbox"]["files"]}
    assert lying == {("draft.yaml", "A115"), ("draft_1.csv", "A116"), ("more_1.csv", "A116")}
    assert told["inbox"]["stuck"] == 2
    assert sorted(path.name for path in (house / "inbox").glob("*.csv")) == ["draft_1.csv", "more_1.csv"]
    assert 'draft.yaml does not load: line 1: the key "columns" is missing' in done.stderr
    assert "loadsheet mapping lint" in done.stderr


def test_commands_about_other_mappings_work(house):
    alder, draft = house / "inbox" / "alder_2026-03-10.csv", house / "inbox" / "draft_1.csv"
    done = command(house, "check", alder)
    assert (done.returncode, "2 documents could be sent; 1 error," in done.stdout) == (1, True)
    assert command(house, "check", alder, draft).returncode == 78
    assert command(house, "mapping", "preview", alder).returncode in (0, 1)
    assert command(house, "mapping", "preview", draft).returncode == 78
    assert command(house, "mapping", "template", "alder-parcels", "--out", house / "a.xlsx").returncode == 0
    refused = command(house, "mapping", "template", "draft", "--out", house / "d.xlsx")
    assert (refused.returncode, "draft.yaml:1:1" in refused.stderr) == (78, True)
    assert command(house, "run", "--dry-run").returncode == 78
    assert command(house, "mapping", "lint").returncode == 78


def test_where_no_mapping_loads_nothing_is_touched(house):
    (house / "mappings" / "alder-parcels.yaml").unlink()
    assert command(house, "run", "--exchange", "http://127.0.0.1:9").returncode == 78
    assert not (house / "state" / "ledger.db").exists()
    assert (house / "inbox" / "alder_2026-03-10.csv").exists()


# ---- which files stay ----


def blocked(folder, *names):
    routes = route(names, load_folder(folder, Assumptions()))
    return set(routes.blocked), set(routes.unmapped)


def test_the_file_names_of_a_mapping_that_is_no_yaml_are_read_from_its_text(house):
    (house / "mappings" / "torn.yaml").write_text(TORN, encoding="utf-8")
    names = ("torn_1.csv", "worn_1.csv", "torn_1.fix.csv", "alder_1.csv", "unknown.csv")
    stay, unmapped = blocked(house / "mappings", *names)
    assert stay == {"torn_1.csv", "worn_1.csv", "torn_1.fix.csv", "unknown.csv"}  # a companion of it may be any
    assert unmapped == set()


def test_of_a_mapping_that_says_no_file_names_all_stay_that_no_other_takes(house):
    (house / "mappings" / "empty.yaml").write_text("mapping: empty\nversion: 1\n", encoding="utf-8")
    assert blocked(house / "mappings", "alder_1.csv", "unknown.csv") == ({"unknown.csv"}, set())
    (broken,) = [one for one in load_folder(house / "mappings", Assumptions()).broken if one.name == "empty"]
    assert "its patterns cannot be read" in broken.problem.hint


def test_children_of_a_broken_base_are_broken_too_and_their_files_stay(house):
    (base,) = (house / "mappings" / "base").glob("*.yaml")
    base.write_text(base.read_text(encoding="utf-8").replace("payload:", "paylaod:"), encoding="utf-8")
    (house / "mappings" / "sound.yaml").write_text(
        (ROOT / "mappings" / "order-deletes.yaml").read_text(encoding="utf-8")
    )
    stay, _ = blocked(house / "mappings", "alder_1.csv")
    assert stay == {"alder_1.csv"}


def test_a_broken_mapping_of_one_shipper_leaves_the_files_of_others_alone(house):
    (house / "mappings" / "nordic").mkdir()
    (house / "mappings" / "draft.yaml").rename(house / "mappings" / "nordic" / "draft.yaml")
    names = ("nordic/draft_1.csv", "nordic/alder_1.csv", "draft_1.csv")
    assert blocked(house / "mappings", *names) == ({"nordic/draft_1.csv"}, {"nordic/alder_1.csv", "draft_1.csv"})


def test_of_two_mappings_of_one_name_the_second_is_broken(house):
    text = (house / "mappings" / "alder-parcels.yaml").read_text(encoding="utf-8")
    (house / "mappings" / "draft.yaml").write_text(text.replace("alder_*", "other_*"), encoding="utf-8")
    stay, _ = blocked(house / "mappings", "alder_1.csv", "other_1.csv")
    assert stay == {"other_1.csv"}


def test_a_folder_without_a_sound_mapping_is_refused(house):
    (house / "mappings" / "alder-parcels.yaml").unlink()
    with pytest.raises(MappingError, match="columns"):
        load_folder(house / "mappings", Assumptions())

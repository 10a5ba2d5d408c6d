"""The same files once more, as they are, then sorted otherwise under another name: nothing is sent again, and nothing looks better than it is."""

import json
import shutil
from random import Random

import pytest
import test_relations as relations
from command_in_process import loadsheet
from fix_workbooks import House
from test_relations import INBOX, ROOT, before, drop_of  # noqa: F401 (before is a fixture)
from workspace import copy_mappings

LAYOUTS = [layout.__name__ for layout in relations.LAYOUTS]
FEW = {  # files and their mappings
    "quotes_carrier7.csv": "carrier7-quotes",
    "alder_2026-03-10.csv": "alder-parcels",
    "order_updates.csv": "order-updates",
    "tender_spring_lanes.xlsx": "spring-tenders",
    "quayline_milestones_2026-03-12.xlsx": "quayline-milestones",
}
DELETES = ("order_deletes.csv", "tender_withdrawals.csv", "lindqvist_changes_2026-03-10.csv")


@pytest.mark.parametrize("names", [FEW, pytest.param(None, marks=pytest.mark.sweep)], ids=["a few", "all"])
def test_samples_dropped_twice_send_nothing_the_second_time_and_need_as_much(names, tmp_path):
    copy_mappings(tmp_path / "mappings", *(FEW.values() if names else ()))
    found = []
    for _ in range(2):
        shutil.copytree(INBOX, tmp_path / "inbox", dirs_exist_ok=True)
        for path in [path for path in (tmp_path / "inbox").rglob("*") if path.is_file()]:
            if path.name in DELETES or (names and path.name not in names):  # what was deleted is held
                path.unlink()
        done = loadsheet(tmp_path, "run", "--settle", "0", LOADSHEET_READING__PROCESS="none")
        newest = max((tmp_path / "outbox").glob("*/run.json"))
        found.append((done.returncode, json.loads(newest.read_text("utf-8")), done.stdout.splitlines()))
    (code, first, _), (again, second, said) = found
    assert (code, again) == (1, 1)
    assert second["entries"].get("accepted", 0) == 0
    assert second["entries"]["unchanged"] == first["entries"]["accepted"]
    for state in ("invalid", "held", "refused"):
        assert second["entries"].get(state, 0) == first["entries"].get(state, 0), state
    assert second["needs_someone"] == first["needs_someone"], said
    needy, total = first["needs_someone"]["entries"], sum(second["entries"].values())
    assert said[0].startswith(f"✗ {needy} of {total} documents need attention"), said


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("parcels_joined", "milestone_rows") else pytest.param(name, marks=pytest.mark.sweep)
        for name in LAYOUTS
        if name != "order_changes"  # it deletes
    ],
)
def test_a_layout_dropped_again_in_other_forms_sends_nothing(name, before, tmp_path):  # noqa: F811 (the fixture)
    drop, own = drop_of(name), before(name)[1]
    house = House(tmp_path, relations.Path(relations.__file__).parent / "mappings" / f"{name.replace('_', '-')}.yaml")
    shutil.copytree(ROOT / "tests" / "oracle" / "mappings" / "lookups", tmp_path / "mappings" / "lookups")
    forms = [
        drop.files,
        drop.files,
        *(relations.rows_in_another_order(drop, own, Random(5)) or ()),
        *relations.another_name(drop, own, None),
    ]
    counts, records = [], []
    for files in forms:
        for file, content in files.items():
            (house.inbox / file).write_bytes(content)
        counts.append(house.night().counts)
        records.append(house.held())
    sent = counts[0].pop("accepted", 0) + counts[0].pop("held", 0)  # what waits for its order is known as well
    assert sent > 10
    for later, there in zip(counts[1:], records[1:], strict=True):
        assert later.pop("unchanged", 0) == sent
        assert later == counts[0]
        assert there == records[0]

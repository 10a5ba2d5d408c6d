"""Drafts for labelled sheets as people and programs make them: most columns send the right field, and what is wrong is marked."""

import re
from collections import Counter

import pytest
from drafting import mapping_of, translated
from layouts.all_layouts import LAYOUTS
from layouts.scores import MARKED, MISSING, RIGHT, UNMARKED, verdicts

from loadsheet.errors import FileRefused
from loadsheet.mapping.yamlfile import yaml_values
from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import draft
from loadsheet.mapping_tools.yaml_writer import write_draft
from loadsheet.settings import Settings

LEAST = {
    "loads_uk": 24,
    "zendingen": 21,
    "carrier_quotes": 6,
    "quote_decisions": 5,
    "events": 7,
}  # columns that are right


def drafted(layout, folder, **more):
    """The draft for a layout and its files, the last one first if it is written backwards."""
    folder.mkdir(exist_ok=True)
    paths = layout.write(folder, **more)[:: -1 if more else 1]
    return write_draft(draft(observe(paths, Settings()), None)), paths


def judged(layout, folder):
    """The verdict on each column of a layout, and what else is wrong with its draft."""
    try:
        text, paths = drafted(layout, folder)
    except FileRefused:
        return {}, ["refused"] * bool(layout.targets)
    chosen = re.search(r"^target: (\S+)", text, re.MULTILINE)[1]
    target = "col" if chosen.startswith("{col") else chosen
    mapping = mapping_of(folder, text, "order.create" if target == "col" else target)
    faults = [] if target in layout.targets else [f"target {target}"]
    documents, keys = translated(mapping, paths), layout.keys()
    main = mapping.plan.tables[0].name
    rows = {row.number for document in documents for row in document.rows if row.table == main}
    faults += [f"rows {lost}"] if (lost := {*layout.sheets[0].data_rows} - rows) else []
    found = Counter(document.key if document.key in keys else document.key.partition("/")[0] for document in documents)
    if keys and (found.keys() != keys or (target != "order.status" and found.total() != len(keys))):
        faults.append(f"keys {found}")
    if len(layout.sheets) > 1:
        other = drafted(layout, folder / "backwards", backwards=True)[0]
        faults += ["order of files"] * (yaml_values(other) != yaml_values(text))
    return verdicts(layout, text, mapping), faults


@pytest.mark.parametrize("name", LEAST)
def test_a_draft_is_as_good_as(tmp_path, name):
    found, faults = judged(next(one for one in LAYOUTS if one.name == name), tmp_path)
    counts = Counter(found.values())
    assert (counts[RIGHT] >= LEAST[name], counts[UNMARKED], faults) == (True, 0, []), found


def share(counts, verdict):
    return 100 * counts[verdict] / counts.total()


@pytest.mark.sweep
def test_the_drafts_of_all_layouts_are_as_good_as(tmp_path):
    """The columns of layouts that are held out are not shown: nobody tunes drafts to them."""
    counts, wrong = {True: Counter(), False: Counter()}, {}
    for layout in LAYOUTS:
        found, faults = judged(layout, tmp_path / layout.name)
        counts[layout.held_out].update(found.values())
        if not layout.held_out:
            wrong[layout.name] = faults, {heading: verdict for heading, verdict in found.items() if verdict != RIGHT}
    print(wrong)
    for name, one in counts.items():
        print(name, {verdict: share(one, verdict) for verdict in (RIGHT, MARKED, UNMARKED, MISSING)})
        assert share(one, RIGHT) >= 80, one
        assert share(one, UNMARKED) <= 5, one
    assert {name: faults for name, (faults, _) in wrong.items() if faults} == {}

"""A run takes at most so many files or bytes, the oldest first; what is left is said and taken by the next run."""

import orders
import pytest


@pytest.fixture
def four_pairs(workspace):
    """Orders and packages of four days in the inbox, the first day came last."""
    mapping = next((workspace / "mappings").glob("*join*.yaml")).name
    workspace.edit(f"mappings/{mapping}", '["orders.csv"]', '["{day}_orders.csv"]')
    workspace.edit(f"mappings/{mapping}", '"packages.csv"', '"{day}_packages.csv"')
    for number in (3, 2, 1, 0):
        orders.write_orders(workspace / "coming", 1, first=number)
        for path in sorted((workspace / "coming").iterdir()):
            path.rename(workspace.inbox / f"d{number}_{path.name}")
    return workspace


def left(workspace):
    """The days whose files are still in the inbox, with their number."""
    names = [path.name[:2] for path in workspace.inbox.glob("*.csv")]
    return {day: names.count(day) for day in sorted(set(names))}


@pytest.mark.parametrize(
    ("setting", "limit", "days"),
    [
        ("RUN_FILES_MAX", 5, ["d0", "d1"]),
        ("RUN_FILES_MAX", 1, ["d0", "d1", "d2"]),  # files that are read together stay together
        ("RUN_BYTES_MAX", 1, ["d0", "d1", "d2"]),
        ("RUN_BYTES_MAX", 10**9, []),
    ],
)
def test_the_oldest_files_within_the_limit_are_taken_and_the_others_stay(four_pairs, setting, limit, days):
    done = four_pairs.run(**{f"LOADSHEET_ARRIVAL__{setting}": str(limit)})
    assert done.returncode == 0
    assert left(four_pairs) == dict.fromkeys(days, 2)
    inbox = four_pairs.run_json()["inbox"]
    assert (inbox["stuck"], inbox["count"]) == (0, 2 * len(days))
    assert ("A119" in done.stderr) is bool(days)
    assert f"{2 * len(days)} files wait in the inbox: a run takes at most" in done.stderr or not days


def test_the_next_runs_take_the_rest_and_a_dry_run_says_what_one_takes(four_pairs):
    limit = {"LOADSHEET_ARRIVAL__RUN_FILES_MAX": "4"}
    forecast = four_pairs.run("--dry-run", **limit)
    assert "d3_orders.csv" in forecast.stdout
    assert "d1_orders.csv" not in forecast.stdout
    four_pairs.run(**limit)
    assert left(four_pairs) == {"d0": 2, "d1": 2}
    four_pairs.run(**limit)
    assert left(four_pairs) == {}
    assert len(four_pairs.states()) == 4

"""Every seed of the fuzzers, and everything they ever found, keeps the promise of reading."""

import pytest
from fuzz_targets import SEEDS, TARGETS

SEEDS_OF = [(target, path) for target in TARGETS for path in sorted((SEEDS / target).iterdir())]


@pytest.mark.parametrize(("target", "path"), SEEDS_OF, ids=[f"{target}-{path.name}" for target, path in SEEDS_OF])
def test_a_seed_gives_a_table_or_a_refusal(target, path):
    TARGETS[target](path.read_bytes())


def test_seeds_stay_small():
    assert sum(path.stat().st_size for path in SEEDS.rglob("*")) < 200_000

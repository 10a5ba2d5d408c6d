"""Random nights: after each of them the exchange holds what the newest input says, or an exception shows the record."""

import pytest
from faulty_exchange import misbehaving
from night_records import TEXT_MAX
from random_nights import Walk


@pytest.mark.parametrize("seed", [305, 306, 345])
def test_a_few_random_nights(seed, tmp_path):
    walk(tmp_path, seed, nights=2)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(300, 330))
def test_many_random_nights(seed, tmp_path, record_property):
    walk(tmp_path, seed, nights=8)
    record_property("nights", 8)


def walk(folder, seed, nights):
    with misbehaving(folder, text_length_max=TEXT_MAX) as served:
        walking = Walk(folder, served, seed)
        try:
            for _ in range(nights):
                walking.night()
        except AssertionError as error:
            error.add_note("\n".join(walking.log))
            raise

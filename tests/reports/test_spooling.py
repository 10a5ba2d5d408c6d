"""Lines on their way into a report: none is lost, and they come out in their order, however many there are."""

import io
from contextlib import ExitStack

import pytest

from loadsheet.reports.report_files import Spool, pour, roll

LONG = 3_000  # so that a few hundred do not fit into a block


def lines(numbers, length):
    return [(number, f"{number}:{place}:".encode().ljust(length, b".") + b"\n") for place, number in enumerate(numbers)]


@pytest.mark.parametrize("length", [10, LONG])
@pytest.mark.parametrize(
    "numbers", [range(400), [*range(200, 400), *range(200)], [7, 7, 3, 7, 3], [5], []], ids=lambda one: str(len(one))
)
def test_lines_come_out_by_number_and_those_of_one_number_as_they_came(numbers, length):
    came = lines(numbers, length)
    wanted = sorted(came, key=lambda line: line[0])
    with ExitStack() as stack:
        spool, target = Spool(stack), io.BytesIO()
        for number, line in came:
            spool.add(number, line)
        assert list(spool.lines()) == wanted
        spool.pour(target)
        assert list(spool.lines()) == wanted  # as often as it is wanted
    assert target.getvalue() == b"".join(line for _, line in wanted)


@pytest.mark.parametrize("count", [0, 1, 50, 500])
def test_pieces_come_out_as_they_came(count):
    pieces = [bytes([place % 251]) * LONG for place in range(count)]
    with ExitStack() as stack:
        rolled, target = roll(stack), io.BytesIO()
        rolled.writelines(pieces)
        pour(rolled, target)
    assert target.getvalue() == b"".join(pieces)

"""Two runs with every outcome, each sealed into a capsule: made once, and only read by the tests."""

from typing import NamedTuple

import pytest
from capsule_runs import House
from openpyxl import load_workbook

SOME = (  # a workbook, two files joined, a mapping that extends another, batches, updates, deletes, children of tenders
    *("tender_spring_lanes.xlsx", "quotes_carrier7.csv", "confirmations.csv", "acme_orders_2026-03.xlsx"),
    *("alder_2026-03-10.csv", "nordic", "status_rotterdam_2026-03-05.csv", "order_deletes.csv", "order_updates.csv"),
)
THEIRS = (
    *("spring-tenders", "carrier7-quotes", "quote-confirmations", "acme-flat", "alder-parcels", "nordic-join"),
    *("carrier-status", "order-deletes", "order-updates"),
)


class TwoRuns(NamedTuple):
    """The house, its two runs, and what their summaries say."""

    house: House
    first: str
    second: str
    told: tuple

    def capsule(self, run):
        return self.house.capsule(run)


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory):
    """The samples with one answer lost; then two of them again, a mended fix workbook, and a file that nobody knows."""
    house = House(tmp_path_factory.mktemp("house"), *THEIRS)
    house.drop(*SOME)
    long = house.settings.inbox / "status_rotterdam_2026-03-05.csv"
    long.write_bytes(b"".join(long.read_bytes().splitlines(keepends=True)[:31]))
    first = house.run({"fault": "html", "operation": "order.create", "at": (3,)})
    told = [house.last]
    house.drop("acme_orders_2026-03.xlsx", "nordic")
    mend(house.settings.outbox / first / "acme_orders_2026-03.fix.xlsx", house.settings.inbox / "mended.xlsx")
    (house.settings.inbox / "holiday.csv").write_text("nobody knows this\n", encoding="utf-8")
    second = house.run()
    return TwoRuns(house, first, second, (*told, house.last))


@pytest.fixture(scope="session")
def little_house(tmp_path_factory):
    """A house with one run behind it, of one small file."""
    house = House(tmp_path_factory.mktemp("little"), "alder-parcels")
    house.drop("alder_2026-03-10.csv")
    house.run()
    return house


@pytest.fixture(scope="session")
def little(little_house):
    """The capsule of that run, quickly replayed."""
    return little_house.capsule(little_house.last.run)


WRONG = {"zwölf": "12", "n/a": "1"}


def mend(fix, target):
    """A fix workbook with the first text that is no number made one, as its sender would save it."""
    book = load_workbook(fix)
    for cell in (cell for sheet in book for row in sheet.iter_rows(min_row=2) for cell in row):
        if cell.value in WRONG:
            cell.value = WRONG[cell.value]
    book.save(target)

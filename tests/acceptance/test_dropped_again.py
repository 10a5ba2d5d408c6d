"""What is dropped a second and a third time is told no better than before, and nothing is sent twice."""

import csv
import shutil

import pytest
from monitored_runs import house, order_id
from orders import MAPPINGS, write_orders
from outcome_check import check_outcome

from loadsheet.cli.access import ledger_to_read
from loadsheet.dry_run import forecast_run
from loadsheet.mapping import load_folder

EVENTS = """\
mapping: events
version: 1
target: order.status
source: {files: ["events*.csv"], timezone: Europe/Berlin, dates: ["%Y-%m-%d %H:%M"]}
columns:
  order: {label: Order, type: text, required: true, key: true}
  code:  {label: Code, type: text, required: true}
  at:    {label: At, type: datetime, required: true}
payload:
  order_id: {col: order}
  status_code: {col: code}
  status_datetime: {col: at}
"""


@pytest.fixture
def place(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "mappings" / "events.yaml").write_text(EVENTS, encoding="utf-8")
    return tmp_path


def at(place, **more):
    return house(place, mappings=place / "mappings", **more)


def events(home):
    with (home.settings.inbox / "events.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["Order", "Code", "At"])
        lines.writerows([order_id(number), "DEP", "2026-03-03 14:00"] for number in (1, 2))


def sent(home, path=""):
    """The keys of all records that calls carried, in order."""
    calls = [call for call in home.server.requests if call.method == "POST" and path in call.target]
    return sorted(record["order_id"] for call in calls for record in call.payloads)


def nights(home, drop, times):
    """The outcomes of so many nights with the same drop, each held against all that it wrote."""
    for _ in range(times):
        home.clock.go_on(days=1)
        drop(home)
        result = home.night()
        told = check_outcome(result.reports.folder)
        assert told["exit_code"] == result.exit_code
        yield told


def test_what_a_limit_kept_back_waits_in_the_second_drop_as_well(place):
    with at(place, run_entries_max=1) as home:
        first, second = nights(home, lambda one: write_orders(one.settings.inbox, 9, first=1), 2)
        assert first["verdicts"]["waiting to be sent"] == 8
        assert second["verdicts"]["waiting to be sent"] == 7 + 7  # in both drops
        assert len(sent(home)) == len(set(sent(home))) == 2


def foretold(home):
    """What a dry run says of the inbox: its exit code, and the records by what would become of them."""
    mappings = load_folder(home.settings.mappings, home.settings.assumptions)
    with ledger_to_read(home.settings) as ledger:
        told = forecast_run(home.settings, ledger, mappings)
    return told.exit_code, told.to_json()["records"]


def test_events_that_wait_for_their_order_wait_in_every_drop_that_holds_them_and_go_once(place):
    """A dry run foretells both."""
    with at(place) as home:
        for told in nights(home, events, 2):
            assert told["exit_code"] == 1
            assert told["verdicts"] == {"not sent: held": 2}
            assert told["entries"] == told["balance"]["rows"] == {"held": 2}
        events(home)
        assert foretold(home) == (1, {"waiting": 2})
        assert sent(home) == []
        write_orders(home.settings.inbox, 2, first=1)
        assert foretold(home) == (0, {"ready": 2, "unchanged": 2})
        (told,) = nights(home, events, 1)
        assert told["exit_code"] == 0
        assert sent(home, "/statusOrder") == [order_id(1), order_id(2)]

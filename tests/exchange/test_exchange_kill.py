"""kill -9 at random moments under load, 60 in the sweep: what was answered 200 is there, and nothing is half there.

Each client thread has orders of its own and one call under way at a time. So after a kill the orders of a thread, with their
whole history, are either as the last 200 left them or as the one call that was never answered would leave them.
"""

import http.client
import random
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing

import pytest
from exchange_calls import OverSocket
from exchange_process import serving, starting
from payload_examples import EVENT, ORDER, PARTIES

LANES, ORDERS_OF_A_LANE = 4, 12
LOAD_MAX_S, START_MAX_S = 0.3, 0.3
KILLED_WHILE_STARTING = 0.1  # of the kills; the others come under load


class Lane:
    """One client: its orders with their histories as last answered, and as the call under way would leave them."""

    def __init__(self, number, seed):
        self.number, self.dice = number, random.Random(seed * LANES + number)
        self.answered = self.asked = {}
        self.count = 0

    def keep_calling(self, url, tally):
        """Call until the server is gone."""
        caller = OverSocket(url)
        try:
            while True:
                name, payload, self.asked = self.next_call()
                answer = caller.call(name, payload)
                if answer.status != 200:
                    tally["refused"] += 1  # an assertion in a thread would be heard by nobody
                    return
                self.answered = self.asked
                tally[name] += 1
        except (OSError, http.client.HTTPException):
            pass

    def next_call(self):
        """Operation, payload, and what the lane's orders are afterwards."""
        self.count += 1
        key = f"L{self.number}-{self.dice.randrange(ORDERS_OF_A_LANE)}"
        if key not in self.answered:
            order = {**ORDER, "order_id": key, "vehicle_type": str(self.count)}
            return "order.create", order, {**self.answered, key: (order, ())}
        order, history = self.answered[key]
        lot = self.dice.random()
        if lot < 0.2:
            left = {name: held for name, held in self.answered.items() if name != key}
            return "order.delete", {"order_id": key}, left
        if lot < 0.6:
            change = {"order_id": key, **PARTIES, "vehicle_type": str(self.count), "goods_value": self.count}
            return "order.update", change, {**self.answered, key: ({**order, **change}, history)}
        return self.status()

    def status(self):
        """A batch over several orders, which happens as a whole or not at all."""
        names = self.dice.choices(sorted(self.answered), k=self.dice.randint(1, 4))
        events = [{**EVENT, "order_id": name, "status_code": f"{self.count}.{at}"} for at, name in enumerate(names)]
        after = dict(self.answered)
        for event in events:
            order, history = after[event["order_id"]]
            after[event["order_id"]] = order, (*history, event["status_code"])
        return "order.status", {"data": events}, after


def kept(url, file):
    """What the exchange holds, in the form of a lane's orders; the file itself is found sound on the way."""
    caller = OverSocket(url)
    page = caller.send("GET", "/tmsapi/getOrders?page_size=100000").body
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        asked = "select order_ref, json_extract(content, '$.status_code') from status_events order by number"
        events = database.execute(asked).fetchall()
        counts = dict(database.execute("select name, held from counters").fetchall())
        last = dict(database.execute("select name, last from counters").fetchall())
        for table in ("orders", "status_events"):
            (highest,) = database.execute(f"select coalesce(max(number), 0) from {table}").fetchone()
            assert highest <= last[table]
    assert counts["orders"] == page["total_count"] == len(page["results"])
    found = {order["order_id"]: (order, ()) for order in page["results"]}
    for key, code in events:
        order, history = found[key]  # an event without its order would be half of something
        found[key] = order, (*history, code)
    return found


def settle(lanes, found, tally):
    """Each lane is as answered or as asked; from now on as it was found."""
    assert not found.keys() - {key for lane in lanes for key in (*lane.answered, *lane.asked)}
    for lane in lanes:
        mine = {key: held for key, held in found.items() if key.startswith(f"L{lane.number}-")}
        assert mine in (lane.answered, lane.asked)
        if lane.answered != lane.asked:
            tally["unanswered, had happened" if mine == lane.asked else "unanswered, had not happened"] += 1
        lane.answered = lane.asked = mine


def serve_until_killed(folder, lanes, dice, tally):
    """One life of the exchange: it finds what the last one left, and is killed at some moment."""
    if dice.random() < KILLED_WHILE_STARTING:
        process = starting(folder)
        time.sleep(dice.random() * START_MAX_S)
        tally["killed while starting"] += 1
        process.kill()
        return
    with serving(folder) as (url, process):
        settle(lanes, kept(url, folder / "exchange.db"), tally)
        threads = [threading.Thread(target=lane.keep_calling, args=(url, tally)) for lane in lanes]
        for thread in threads:
            thread.start()
        time.sleep(dice.random() * LOAD_MAX_S)
        tally["killed under load"] += 1
        process.kill()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=[pytest.mark.sweep, pytest.mark.timeout(1200)])])
def test_after_each_of_many_kills_all_that_was_answered_is_there(tmp_path, kills, record_property):
    dice, tally, lanes = random.Random(kills), Counter(), [Lane(number, kills) for number in range(LANES)]
    for _ in range(kills):
        serve_until_killed(tmp_path, lanes, dice, tally)
    with serving(tmp_path) as (url, _):
        settle(lanes, kept(url, tmp_path / "exchange.db"), tally)
    record_property("kills of the exchange", kills)
    record_property("answers of 200 found again", tally.total())
    assert tally["order.create"] >= kills
    assert kills < 60 or tally["unanswered, had happened"]  # the kills did fall between commit and answer
    assert not tally["refused"]

"""What must be true of a simulated fleet, at each call that leaves and at the end: judged by the record of the exchange and by the tables
of the ledger, read without any code of the product.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from simulated_exchange import Exchange, token_of
from simulated_time import Time

from loadsheet.dispatch.lanes import Call

SELF_CHECK_S = 5.0
_ROUNDED_S = 0.002
_OPEN = ("sending", "unknown")


class Known(NamedTuple):
    """An entry as the ledger has it at the end."""

    id: int
    operation: str
    key: str
    lane: str
    state: str
    reason: str
    waits: str
    problems: str
    token: str


class Judge:
    """Looks at everything; what it finds wrong is an AssertionError. `holds` says whether a worker has a lease."""

    def __init__(
        self, tables: sqlite3.Connection, time: Time, exchange: Exchange, holds: Callable[[str], bool]
    ) -> None:
        self._tables, self._time, self._exchange, self._holds = tables, time, exchange, holds

    def _rows(self, query: str, *given: Any) -> list[Any]:
        return self._tables.execute(query, given).fetchall()

    def open_batches(self) -> list[int]:
        return [row[0] for row in self._rows("select id from batches where state = 'open' order by id")]

    def is_planned(self, name: str) -> bool:
        return bool(self._rows("select id from files where name = ?", name))

    # while it runs

    def leaves(self, worker: str, call: Call) -> None:
        """A call leaves at this moment."""
        for one in call.submissions:
            state, attempts, began = self._rows(
                "select state, entries.attempts, started_at from entries join attempts on entry_id = entries.id and number = ? "
                "where entries.id = ?",
                one.attempts + 1,
                one.id,
            )[0]
            told = f"{one.operation} {one.key} (entry {one.id}) leaves {worker}"
            assert state in _OPEN, f"{told} although it is {state}"
            assert attempts == one.attempts + 1, f"{told} as attempt {one.attempts + 1} of {attempts}"
            age = self._time.wall().timestamp() - _seconds(began)
            assert age <= SELF_CHECK_S + _ROUNDED_S, f"{told} {age:.1f} s after its intent"
            lanes = [lane for lanes in self._exchange.under_way.values() for lane in lanes]
            assert one.lane not in lanes, f"{told} while another call of its lane is under way"
        assert self._holds(worker), f"{worker} has no lease"

    def looks_at_lanes(self) -> None:
        """After each transaction: no lane has two entries being sent in different calls, or one sent beside an unknown one."""
        busy: defaultdict[str, list[Any]] = defaultdict(list)
        for row in self._rows(
            "select lane, state, operation, batch_id from entries where state in ('sending', 'unknown')"
        ):
            busy[row[0]].append(row)
        for lane, rows in busy.items():
            if len(rows) > 1:
                together = {(row[2], row[3]) for row in rows}
                assert together == {("order.status", rows[0][3])}, f"{lane} is busy more than once: {rows}"

    # at the end

    def has(self, operation: str, payload: bytes) -> bool:
        """Whether the exchange applied this record, by its own record."""
        token = token_of(operation, json.loads(payload))
        return any(one.token == token for one in self._exchange.applied)

    def entries(self) -> list[Known]:
        columns = "id, operation, key, lane, state, reason, waits, problems, payload"
        return [
            Known(*row[:8], token_of(row[1], json.loads(row[8])))
            for row in self._rows(f"select {columns} from entries order by id")
        ]

    def settles(self, *, everything: bool) -> None:
        """After a quiet night: the exchange has what the ledger says, once, and what is unknown is named. `everything`: nothing of that is
        left, and nothing is ready any more; before that what is unknown may keep creates back.
        """
        entries, done = self.entries(), Counter(one.token for one in self._exchange.applied)
        for one in entries:
            times, told = done[one.token], f"entry {one.id}, {one.operation} {one.key} ({one.state}: {one.reason})"
            assert one.state != "sending", f"{told} was left behind"
            assert not everything or one.state not in ("ready", "unknown"), f"{told} was left behind"
            if one.state == "accepted":
                assert times > 0, f"{told} is lost"
                assert times == 1 or "L608" in one.problems, f"{told} was applied {times} times"
            elif one.state == "unknown":
                self._is_named(one)
            elif one.state != "unchanged":
                again = (
                    one.state in ("held", "ready") and "L608" in one.problems
                )  # to be sent once more, and named as that
                assert times == 0 or again, f"{told} was applied {times} times"
                assert one.reason or one.state == "ready", f"{told} says nothing"
            assert times <= 2, f"{told} was applied {times} times"
        self._in_order(entries)
        self._is_held(entries)

    def _is_named(self, one: Known) -> None:
        events = self._rows("select after, reason from events where entry_id = ? order by id", one.id)
        assert events[-1][0] == "unknown", f"{one} has no event that says so"
        assert events[-1][1], f"{one} does not say why"
        assert "X702" in one.problems, f"{one} is not named among the problems"

    def _in_order(self, entries: list[Known]) -> None:
        """On each lane what was applied was applied in the order of the entries, but that children may have waited for their create."""
        place = {one.token: one for one in entries if one.state not in ("unchanged", "held", "refused", "invalid")}
        firsts = dict.fromkeys(one.token for one in self._exchange.applied)
        lasts = dict.fromkeys(one.token for one in reversed(self._exchange.applied))
        for tokens in (list(firsts), list(lasts)[::-1]):  # what is named as possibly doubled has two
            before: dict[str, Known] = {}
            for one in (place[token] for token in tokens if token in place):
                other = before.get(one.lane)
                waited = other is not None and other.operation == "order.create" != one.operation
                assert other is None or other.id <= one.id or waited, f"{one} was applied after {other}"
                before[one.lane] = one

    def _is_held(self, entries: list[Known]) -> None:
        """The exchange holds of each order what the ledger last brought there."""
        last: dict[str, Known] = {}
        doubtful = {one.lane for one in entries if one.state == "unknown"}
        applied = {one.token: place for place, one in enumerate(self._exchange.applied)}
        for one in sorted(entries, key=lambda one: applied.get(one.token, -1)):
            if one.state == "accepted" and one.operation != "order.status":
                last[one.lane] = one
        for lane, one in last.items():
            records = self._exchange.records.get(one.key, [])
            if lane in doubtful:
                continue
            if one.operation == "order.delete":
                assert not records, f"{one.key} was deleted and is there"
            else:
                assert [record["pickup_address2"] for record in records] == [one.token], (
                    f"{one.key} is there as {records}"
                )

    def fingerprint(self) -> tuple[Any, ...]:
        """All that a further run may not change."""
        return self._rows("select id, state, reason, attempts, receipt, problems from entries order by id"), len(
            self._exchange.applied
        )

    def unknown_ever(self) -> int:
        return int(self._rows("select count(*) from events where after = 'unknown'")[0][0])


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()

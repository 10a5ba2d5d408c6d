"""Random nights: after each of them the exchange holds what the newest input says, or an exception shows the record."""

import psycopg
import pytest
from databases import forget_engines, server
from faulty_exchange import misbehaving
from invariants import LEDGER_ROWS, Known
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


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(330, 338))
def test_random_nights_with_a_ledger_on_a_server(seed, tmp_path, record_property):
    walk(tmp_path, seed, nights=6, kind=OnServer)
    record_property("nights", 6)


class OnServer(Walk):
    """The same walk with its ledger on PostgreSQL."""

    def __init__(self, folder, served, seed):
        super().__init__(folder, served, seed)
        self.url = server().new_database()
        self.workspace.variables["LOADSHEET_DATABASE"] = self.url
        self.workspace.ask = lambda statement, *values: self._ask(statement, values)

    def _ask(self, statement, values=(), row=psycopg.rows.tuple_row):
        with psycopg.connect(self.url, options="-c search_path=loadsheet", row_factory=row) as ledger:
            try:
                done = ledger.execute(statement.replace("?", "%s"), values or None)
                return done.fetchall() if done.description else []
            except psycopg.errors.UndefinedTable:  # not there yet
                return []

    def _ledger(self):
        return Known(*(self._ask(f"select * from {rows}", row=psycopg.rows.dict_row) for rows in LEDGER_ROWS))

    def _run_that_dies(self):
        forget_engines()  # a child process must not share their connections
        said = super()._run_that_dies()
        if self.killed:
            self._ask("update tenures set seen_at = '0'")  # as if it had been silent for long
        return said


def walk(folder, seed, nights, kind=Walk):
    with misbehaving(folder, text_length_max=TEXT_MAX) as served:
        walking = kind(folder, served, seed)
        try:
            for _ in range(nights):
                walking.night()
        except AssertionError as error:
            error.add_note("\n".join(walking.log))
            raise

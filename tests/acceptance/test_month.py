"""The second half of a month of runs, unattended: late files, a dead exchange, a full disk, a broken mapping, summer time, a new token, an upgrade.

Every run ends with the exit code that is documented, whoever should know gets a notice when something begins and one when it is over,
and at the end the exchange has every order once and the books balance.
"""

import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from fix_workbooks import FixBook
from ledgers import contents_of
from month_of_runs import ORDERS, Month
from orders import PACKAGES_EACH, order_id
from small_disk import small_disk

from loadsheet.ledger.ledger_tables import SCHEMA_VERSION

pytestmark = pytest.mark.sweep
ROWS_EACH = 1 + PACKAGES_EACH  # rows of an order
DAYS = range(15, 32)
LATE, DEAD, FULL, BROKEN, ROTATED, WRONG, UPGRADED = 18, 20, 22, 24, 26, 28, 31
EXIT_CODES = {DEAD: 75, FULL: 75, BROKEN: 78, ROTATED: 77, WRONG: 1}  # of all other runs: 0


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    folder = tmp_path_factory.mktemp("month")
    with small_disk(folder / "disk", mb=64) as disk:
        month = Month(folder, disk)
        try:
            month.nights = {day: the_run(month, day) for day in DAYS}
            yield month
        finally:
            month.close()


def the_run(month, day):
    """What happens on the day before, the run, and what the operator does the morning after."""
    evening = day - 1
    weekday = month.moment(evening, hour=12, minute=0).weekday() < 5
    if day == LATE + 1:
        month.drop(LATE - 1, at=month.moment(LATE, hour=9, minute=0))
    if weekday and day != LATE:
        month.drop(evening, wrong_every=2 if day == WRONG else 0)
    before(month, day)
    run = month.night(day)
    # here, where it began: later runs would only follow from it
    assert run.exit_code == EXIT_CODES.get(day, 0), (day, run)
    month.books |= month.summaries()  # before retention removes them
    after(month, day)
    return run


def before(month, day):
    if day == DEAD:
        month.port = int(month.served.url.rsplit(":", 1)[1])
        month.stop_serving()
    if day == FULL:
        month.disk.fill()
    if day == BROKEN:
        edit(month, "total_weight: {expr:", "total_wait: {expr:")
    if day == ROTATED:
        month.stop_serving()
        month.serve(token="second-token", port=month.port)
    if day == WRONG + 1:
        mend(month)
    if day == UPGRADED:
        as_the_version_before_left_it(month.folder / "disk" / "state" / "ledger.db")


def after(month, day):
    if day == DEAD:
        month.serve(port=month.port)
    if day == FULL:
        month.disk.free()
    if day == BROKEN:
        edit(month, "total_wait: {expr:", "total_weight: {expr:")
        edit(month, "version: 1", "version: 2")
    if day == ROTATED:
        (month.folder / "token").write_text(month.token, encoding="utf-8")


def edit(month, old, new):
    path = month.folder / "mappings" / "bench-join.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def mend(month):
    """What the shipper does with the fix file that came back: every red weight becomes a weight, and the file is dropped again."""
    (path,) = (month.folder / "back").iterdir()
    assert path.name == "27__orders.fix.xlsx"
    book = FixBook(path)
    book.repair({"heavy": "12.5"})
    book.save(month.folder / "inbox" / "mended.xlsx")


def as_the_version_before_left_it(path):
    """Take back the newest step of the schema."""
    with closing(sqlite3.connect(path)) as connection, connection:
        unpacked = [(*content, entry) for entry, content in contents_of(connection).items() if content[1]]
        connection.executemany("update entries set payload = ?, rows = ? where id = ?", unpacked)
        connection.execute("drop table contents")
        connection.execute("update meta set value = ? where name = 'schema_version'", (str(SCHEMA_VERSION - 1),))


def test_every_run_ends_with_its_documented_exit_code_also_in_its_reports(month):
    codes = dict.fromkeys(DAYS, 0) | EXIT_CODES
    assert {day: run.exit_code for day, run in month.nights.items()} == codes
    begun = {f"2026-03-{day:02}-01": code for day, code in codes.items() if day not in (FULL, BROKEN)}
    assert {name: book["exit_code"] for name, book in month.books.items()} == begun
    for name in sorted(begun)[-5:]:
        found = {path.name for path in (month.folder / "outbox" / name).iterdir()}
        assert {"run.html", "run.json", "reconciliation.xlsx"} <= found


def test_a_good_run_says_nothing(month):
    for day, run in month.nights.items():
        if day != LATE and day not in EXIT_CODES:
            assert (run.out, run.err) == ("", ""), day


def test_whoever_should_know_gets_a_notice_when_it_begins_and_one_when_it_is_over(month):
    assert [(day, title) for day, run in month.nights.items() for title, _ in run.notices] == [
        (LATE, "loadsheet: orders: late"),
        (LATE + 1, "loadsheet: orders: no longer late"),
        (DEAD, "loadsheet: a run failed: the exchange cannot be reached"),
        (DEAD + 1, "loadsheet: works again after 1 failed run"),
        (FULL, "loadsheet: a run failed: the ledger's folder disk/state cannot be written"),
        (FULL + 1, "loadsheet: works again after 1 failed run"),
        (
            BROKEN,
            "loadsheet: a run failed: mappings/bench-join.yaml:36:1: payload lacks total_weight, which order.create requires",
        ),
        (BROKEN + 1, "loadsheet: works again after 1 failed run"),
        (ROTATED, "loadsheet: a run failed: the token was refused"),
        (ROTATED + 1, "loadsheet: works again after 1 failed run"),
        (WRONG, "loadsheet: 2 of 4 documents need attention"),
        (WRONG + 1, "loadsheet: no open exceptions"),
    ]
    ((_, text),) = month.nights[LATE + 1].notices
    assert (f"{LATE - 1:02}/orders.csv" in text, "never" in text) == (True, False), "it came late"


def test_no_notice_and_no_output_holds_a_token(month):
    words = [str(run) for run in month.nights.values()]
    words += [path.read_text(encoding="utf-8", errors="replace") for path in (month.folder / "disk").rglob("*.jsonl")]
    assert len(words) > 30
    assert not [text for text in words if "first-token" in text or "second-token" in text]


def test_the_exchange_has_every_order_of_the_month_once_and_the_books_balance(month):
    with closing(sqlite3.connect(month.folder / "exchange.db")) as connection:
        held = [key for (key,) in connection.execute("select order_ref from orders")]
    assert sorted(held) == [order_id(number) for number in range(month.first)]
    assert month.first == 11 * ORDERS
    assert all(book["balance"]["balances"] for book in month.books.values())
    fates = sum((Counter(book["balance"]["rows"]) for book in month.books.values()), Counter())
    assert sum(book["balance"]["read"] for book in month.books.values()) == fates.total()
    assert (fates["accepted"], fates["invalid"]) == (month.first * ROWS_EACH, ORDERS // 2 * ROWS_EACH)


def test_what_is_older_than_the_rules_want_is_gone_and_the_rest_is_there(month):
    kept = sorted(path.name for path in (month.folder / "outbox").iterdir() if path.is_dir())
    assert "2026-03-24-01" < kept[0] < "2026-03-28-01"
    state = month.folder / "disk" / "state"
    archived = sorted(path.name for path in (state / "archive" / "2026" / "03").iterdir())
    assert archived[0] == "26"
    assert len(list((state / "backups").glob("*.db.gz"))) == 3
    with closing(sqlite3.connect(state / "ledger.db")) as connection:
        (removed,) = connection.execute("select max(created_at) from entries where removed != ''").fetchone()
        (kept_since,) = connection.execute("select min(created_at) from entries where removed = ''").fetchone()
    assert "2026-03-22" < removed < "2026-03-26" <= kept_since


def test_the_ledger_was_upgraded_after_a_backup_of_what_it_was_and_the_metrics_tell_of_the_last_run(month):
    (backup,) = (month.folder / "disk" / "state").glob(f"ledger.db.schema-{SCHEMA_VERSION - 1}.*")
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("select max(name) from runs").fetchone() == ("2026-03-30-01",)
    lines = (month.folder / "loadsheet.prom").read_text(encoding="utf-8").splitlines()
    (success,) = [line for line in lines if line.startswith("loadsheet_last_success_timestamp_seconds")]
    assert abs(float(success.split()[-1]) - month.moment(31, hour=2, minute=15).timestamp()) < 60

"""The truth log says what the database says, and a personality file makes the exchange another one."""

import hashlib
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from exchange_calls import OverSocket, encode, inside
from exchange_process import serving
from invariants import read_truth
from payload_examples import CONFIRMATION, EVENT, GOOD, ORDER, QUOTE, TENDER

from loadsheet.contract import Assumptions
from loadsheet.errors import SettingsError
from loadsheet.exchange import Store
from loadsheet.exchange_profile import deviations, read_personality


@contextmanager
def truthful(folder, **assumptions):
    """The application with a truth log, and the log."""
    log = folder / "truth.jsonl"
    with inside(folder / "exchange.db", truth=log, **assumptions) as app:
        yield app, log


def lines(log):
    return [(line["operation"], line["key"], line["effect"], line["number"]) for line in read_truth(log)]


def test_every_operation_leaves_its_line_with_the_hash_of_the_bytes_as_they_came_also_after_a_restart(tmp_path):
    body = b"  " + encode(ORDER) + b"\n"
    with truthful(tmp_path) as (caller, log):
        assert caller.send_body("order.create", body).status == 200
        for name in ("tender.create", "tender.update", "tender.quote", "tender.confirm", "tender.delete"):
            caller.done(name, GOOD[name])
    with truthful(tmp_path) as (caller, log):
        for name in ("order.update", "order.status", "order.delete"):
            caller.done(name, GOOD[name])
    assert lines(log) == [
        ("order.create", "SO-1001", "created", 1),
        ("tender.create", "T-1", "created", 1),
        ("tender.update", "T-1", "updated", 1),
        ("tender.quote", "T-1/C-1", "quoted", 1),
        ("tender.confirm", "T-1/C-1", "confirmed", 1),
        ("tender.delete", "T-1", "deleted", 1),
        ("order.update", "SO-1001", "updated", 1),
        ("order.status", "SO-1001", "reported", 1),
        ("order.delete", "SO-1001", "deleted", 1),
    ]
    first = read_truth(log)[0]
    assert first["sha256"] == hashlib.sha256(body).hexdigest()
    assert datetime.fromisoformat(first["time"]).tzinfo == UTC
    assert log.stat().st_mode & 0o077 == 0


def test_what_is_refused_and_a_200_without_an_effect_leave_no_line(tmp_path):
    ways = {"create_existing": "accept", "update_unknown": "accept", "delete_unknown": "accept"}
    with truthful(tmp_path, **ways) as (caller, log):
        assert {
            caller.call(name, GOOD[name]).status for name in ("tender.quote", "tender.confirm", "order.status")
        } == {400}
        caller.done("tender.create", TENDER)
        for name in ("tender.create", "order.update", "order.delete"):
            caller.done(name, GOOD[name])
    assert lines(log) == [("tender.create", "T-1", "created", 1)]


def test_a_replaced_record_a_kept_quote_and_half_a_batch_are_told_apart(tmp_path):
    ways = {"create_existing": "replace", "quote_unknown": "accept", "status_on_400": "partial"}
    with truthful(tmp_path, **ways) as (caller, log):
        for _ in range(2):
            caller.done("order.create", ORDER)
        caller.done("tender.quote", QUOTE)
        caller.done("tender.confirm", CONFIRMATION)
        caller.errors("order.status", {"data": [EVENT, {**EVENT, "order_id": "nobody"}, EVENT]})
    assert [(key, effect, number) for _, key, effect, number in lines(log)] == [
        ("SO-1001", "created", 1),
        ("SO-1001", "replaced", 1),
        ("T-1/C-1", "quoted", 1),
        ("T-1/C-1", "confirmed", 1),
        ("SO-1001", "reported", 1),
        ("SO-1001", "reported", 2),
    ]


def test_under_many_clients_log_answers_and_database_agree_in_the_order_of_the_commits(tmp_path):
    with truthful(tmp_path) as (caller, log):

        def create(client):
            keys = [f"{client if number % 3 else 'shared'}-{number}" for number in range(40)]
            return [key for key in keys if caller.call("order.create", {**ORDER, "order_id": key}).status == 200]

        with ThreadPoolExecutor(6) as clients:
            answered = list(itertools.chain(*clients.map(create, range(6))))
        held = [order["order_id"] for order in caller.orders("?page_size=1000")]
    assert [key for _, key, _, _ in lines(log)] == held
    assert [number for *_, number in lines(log)] == list(range(1, len(held) + 1))
    assert sorted(answered) == sorted(held)


def test_a_killed_exchange_has_a_line_for_every_effect_that_was_answered(tmp_path):
    with serving(tmp_path, "--truth", "truth.jsonl") as (url, process):
        caller = OverSocket(url)
        answered = [f"K-{number}" for number in range(30)]
        for key in answered:
            caller.done("order.create", {**ORDER, "order_id": key})
        process.kill()
    assert [key for _, key, _, _ in lines(tmp_path / "truth.jsonl")] == answered


def test_a_log_that_cannot_be_written_closes_the_store_and_nothing_is_answered_200(tmp_path, caplog):
    if not os.path.exists("/dev/full"):  # noqa: PTH110 (a device)
        pytest.skip("this system has no device that is always full")
    (tmp_path / "truth.jsonl").symlink_to("/dev/full")
    with truthful(tmp_path) as (caller, _):
        assert [caller.call("order.create", ORDER).status for _ in range(2)] == [503, 503]
    assert "the truth log cannot be written" in caplog.text
    with inside(tmp_path / "exchange.db") as app:
        assert len(app.orders()) == 1  # it was committed: the client knows no more than that the outcome is open


def test_a_log_in_no_folder_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="truth log"):
        Store(f"sqlite:///{tmp_path / 'exchange.db'}", truth=tmp_path / "nowhere" / "truth.jsonl")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.yaml", "create_existing: replace\npage_size_max: 7\n"),
        ("p.toml", 'create_existing = "replace"\npage_size_max = 7\n'),
        ("capabilities.yaml", "exchange: x\nassumptions:\n  create_existing: replace\n  page_size_max: 7\n"),
    ],
)
def test_a_personality_wins_over_the_settings_and_leaves_the_others(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    read = read_personality(tmp_path / name, Assumptions(create_existing="accept", unknown_path=404))
    assert read == Assumptions(create_existing="replace", page_size_max=7, unknown_path=404)
    assert deviations(read) == [
        "page_size_max: 7 (default: 0)",
        "create_existing: replace (default: reject)",
        "unknown_path: 404 (default: 405)",
    ]


def test_the_defaults_deviate_in_nothing_and_a_wrong_personality_says_what_is_wrong(tmp_path):
    (tmp_path / "p.yaml").write_text("")
    assert deviations(read_personality(tmp_path / "p.yaml", Assumptions())) == []
    for name, text, said in (
        ("p.yaml", "create_exsting: reject", "did you mean assumptions.create_existing?"),
        ("p.yaml", "create_existing: perhaps", "got 'perhaps'"),
        ("p.yaml", "!!python/object:x {}", "p.yaml"),
        ("p.toml", "create_existing = ", "p.toml"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(SettingsError) as wrong:
            read_personality(tmp_path / name, Assumptions())
        assert said in str(wrong.value)


def test_the_command_serves_a_personality_and_says_what_deviates(tmp_path):
    (tmp_path / "p.toml").write_text('create_existing = "accept"')
    words = ("--personality", "p.toml", "--truth", "t.jsonl")
    with serving(tmp_path, *words, LOADSHEET_ASSUMPTIONS__CREATE_EXISTING="replace") as (url, process):
        caller = OverSocket(url)
        assert [caller.call("order.create", ORDER).status for _ in range(2)] == [200, 200]
        assert process.stop() == 0
    assert "assumptions.create_existing: accept (default: reject)\n" in process.said
    assert lines(tmp_path / "t.jsonl") == [("order.create", "SO-1001", "created", 1)]

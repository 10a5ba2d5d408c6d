"""The probe against our own exchange in many personalities: it finds exactly what is set, and leaves nothing behind.

What it asks and finds is kept in probe.*.txt. LOADSHEET_REWRITE=1 writes it anew; read the difference before you commit it.
"""

import os
import re
import textwrap
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest
from command_in_process import loadsheet
from exchange_calls import embedded, encode
from exchange_process import TOKEN
from payload_examples import GOOD, ORDER
from scripted_exchange import Move, Scripted, answer, closes_before_reading, says

from loadsheet.contract import UNAUTHORISED, Assumptions, listing_body
from loadsheet.dispatch import Client
from loadsheet.dispatch.probe import probe
from loadsheet.dispatch.probe_tenant import CALLS_MAX, PREFIX
from loadsheet.errors import ExchangeUnreachable, TokenRefused
from loadsheet.exchange_profile import assumptions_for, read_personality, write_capabilities
from loadsheet.settings import Settings

NOT_VISIBLE = {  # assumptions that no call of a probe could tell, and those of limits, which would cost too many
    "offset_hours_form",
    "history_description",
    "quote_by",
    "confirm_by",
    "text_length_max",
    "body_bytes_max",
    "array_length_max",
    "status_records_max",
    "calls_per_second",
}
NOT_OURS = {"flag_form", "page_size_in"}  # our exchange takes all of their values at once
VISIBLE = [name for name in Assumptions.model_fields if name not in NOT_VISIBLE | NOT_OURS]
FREE_VALUES = {  # values to find where an assumption has no closed list of them
    "status_on_400": {"atomic", "partial"},
    "status_index_base": {0, 1},
    "accept_sets_tender_status": {"AWARDED"},
    "tender_listing_query": {""},
    "page_size_default": {1, 2, 3},
    "page_size_max": {50, 100_000},
    "customer_order_key": {"order"},
    "service_order_key": {"number"},
}
PERMISSIVE = {"create_existing": "replace", "update_unknown": "replace", "delete_unknown": "accept"}
PERMISSIVE |= {"quote_unknown": "accept", "confirm_unknown": "accept", "status_unknown": "accept"}
PERMISSIVE |= {"null_fields": "absent", "unknown_fields": "ignore", "timezones": "any"}
STRICT = {"empty_required": "reject", "known_values": "closed", "quote_existing": "reject", "unknown_path": 404}
ODD = {**PERMISSIVE, "status_sets_order_status": "name", "status_on_400": "partial", "status_index_base": 1}
PERSONALITIES = {
    "permissive": {**ODD, "listing_only_fields": "accept", "decision_words": "open"}
    | {"page_size_default": 1, "customer_order_key": "order"},
    "strict": {**STRICT, "number_forms": "declared", "confirm_decided": "reject"}
    | {"accept_sets_tender_status": "AWARDED", "status_sets_order_status": "code", "status_on_400": "atomic"}
    | {"status_index_base": 0, "page_size_default": 2, "page_size_max": 50, "service_order_key": "number"},
    "forgetful": {"create_existing": "accept", "update_unknown": "accept", "confirm_decided": "replace"}
    | {"quote_accepted": "replace", "page_size_default": 3, "page_size_max": 100_000},
    "tenders first": {"plain_listing": "tenders"},
    "tenders hidden": {"tender_listing_query": ""},
}


def probed(url, *, given=None, report=lambda _line: None, **settings):
    loaded = Settings.load(exchange=url, **settings)
    with Client(url, TOKEN, loaded) as client:
        return probe(client, loaded, given=given, pause_s=0, report=report)


def url_of(caller):
    return f"http://{caller.address}"


def listed(caller):
    return caller.orders(), caller.tenders()


def content(database):
    """All that an exchange holds, whatever it is set to show."""
    with embedded(database) as caller:
        return listed(caller)


def answers_of(found):
    return {answer.question: answer.finding for answer in found.capabilities.answers}


@pytest.fixture(scope="module")
def in_use(tmp_path_factory):
    """What the probe found at an exchange in use, by default settings, and what that listed before and afterwards."""
    with embedded(tmp_path_factory.mktemp("in_use") / "exchange.db") as caller:
        for name in ("order.create", "tender.create", "tender.quote"):
            caller.done(name, GOOD[name])
        before = listed(caller)
        yield probed(url_of(caller)), before, listed(caller)


def test_every_visible_default_is_found_and_so_is_what_has_no_setting(in_use):
    found = in_use[0].capabilities.assumptions
    defaults = {name: value for name, value in Assumptions() if name in VISIBLE and value != "prove"}
    assert {name: found.get(name) for name in defaults} == defaults
    assert (
        answers_of(in_use[0]).items()
        >= {
            "Is the exchange's own order number a number or a text?": "on create a number, on update a text",
            "Is a fresh create listed at once?": "listed at once",
            "Does an identifier keep its leading zeros, or is 00123 the same as 123?": "kept",
            "Are references echoed in the listing, so that they can carry a mark?": "yes",
            "What answers a known path with another method?": "status 405",
        }.items()
    )


def test_every_assumption_is_asked_about_or_known_to_be_invisible(in_use):
    asked = {answer.assumption for answer in in_use[0].capabilities.answers}
    assert asked - {""} == set(Assumptions.model_fields) - NOT_VISIBLE


def test_what_was_there_before_is_there_afterwards_and_nothing_else(in_use):
    found, before, after = in_use
    assert after == before
    assert found.left == ()
    assert found.calls < CALLS_MAX


def test_every_value_that_shows_stands_in_a_personality():
    tried = {pair for personality in PERSONALITIES.values() for pair in personality.items()}
    for name in VISIBLE:
        field = Assumptions.model_fields[name]
        values = FREE_VALUES.get(name) or set(get_args(field.annotation)) - {field.default}
        assert {(name, value) for value in values} <= tried


@pytest.mark.parametrize("name", ["permissive", "strict"])
def test_what_is_asked_and_found_is_what_is_kept(tmp_path, name):
    kept, calls = Path(__file__).with_name(f"probe.{name}.txt"), []
    with embedded(tmp_path / "exchange.db", **PERSONALITIES[name]) as caller:
        answers = probed(url_of(caller), report=calls.append).capabilities.answers
    asked = ", ".join(re.sub(r".*? /tmsapi/(.*?) -> (...) .*", r"\1 \2", call) for call in calls)
    found = [
        f"{one.assumption or one.question} = {one.value} ({one.confidence}): {one.sent}: {one.finding}"
        for one in answers
    ]
    text = "\n".join([*textwrap.wrap(asked, 180), "", *found, ""])
    if os.environ.get("LOADSHEET_REWRITE"):
        kept.write_text(text, encoding="utf-8")
    assert text == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("personality", PERSONALITIES.values(), ids=PERSONALITIES)
def test_every_visible_assumption_is_found_as_it_is_set(tmp_path, personality):
    database = tmp_path / "exchange.db"
    with embedded(database, **personality) as caller:
        found = probed(url_of(caller))
    assert {name: found.capabilities.assumptions.get(name) for name in personality} == personality
    assert (found.stopped, found.left) == (None, ())
    assert content(database) == ([], [])


def test_a_tenant_that_refuses_every_record_gives_no_answers_about_records(tmp_path):
    with embedded(tmp_path / "exchange.db", text_length_max=5) as caller:
        found = probed(url_of(caller)).capabilities.assumptions
    assert set(found) == {"page_size_default", "page_size_in", "page_size_max", "unknown_path"}


NEVER = 10_000  # a probe makes fewer calls


@contextmanager
def forwarding(caller, script=lambda _number: None):
    """A server that hands requests on to an exchange, but for those for which `script(number)` gives a move of its own."""
    lock = threading.Lock()

    def hand_on(connection, request):
        with lock:
            answered = caller.send(request.method, request.target, request.body)
        connection.sendall(answer(answered.status, answered.raw))
        return True

    with Scripted(lambda number, _request: script(number) or Move(hand_on)) as server:
        yield server


def test_the_parties_of_the_records_can_be_given(tmp_path):
    with embedded(tmp_path / "exchange.db") as caller, forwarding(caller) as between:
        probed(between.url, given={"sender_id": "ACME"})
        written = [request for request in between.requests if request.operation and request.body]
        assert {one.get("sender_id", "ACME") for request in written for one in request.payloads} == {"ACME"}


def test_an_interrupted_probe_cleans_up_and_stays_interrupted(tmp_path):
    said = []

    def report(line):
        said.append(line)
        if len(said) == 25:
            raise KeyboardInterrupt

    with embedded(tmp_path / "exchange.db") as caller:
        settings = Settings.load(exchange=url_of(caller))
        with Client(url_of(caller), TOKEN, settings) as client, pytest.raises(KeyboardInterrupt):
            probe(client, settings, pause_s=0, report=report)
        assert listed(caller) == ([], [])


@pytest.mark.parametrize("at", [4, 36, NEVER])
def test_a_write_whose_answer_is_lost_is_cleaned_up_also_where_listings_hide_it(tmp_path, at):
    with embedded(tmp_path / "exchange.db", **PERMISSIVE, tender_listing_query="") as caller:

        def hand_on_and_close(_connection, request):
            caller.send(request.method, request.target, request.body)
            return False

        with forwarding(caller, lambda number: Move(hand_on_and_close) if 0 <= number - at < 3 else None) as between:
            found = probed(between.url)
    assert found.left == ()
    assert content(tmp_path / "exchange.db") == ([], [])
    unknown = {answer.assumption for answer in found.capabilities.answers if answer.confidence == "unknown"}
    assert at != NEVER or {"accept_sets_tender_status", "listing_only_fields"} <= unknown


def test_a_listing_that_is_cut_leaves_open_what_it_cannot_tell(tmp_path):
    with embedded(tmp_path / "exchange.db", page_size_max=2) as caller:
        for number in range(5):
            caller.done("order.create", {**ORDER, "order_id": f"SO-{number}"})
        before = caller.orders("?page_size=2")
        found = probed(url_of(caller))
        assert caller.orders("?page_size=2") == before
    unknown = {answer.assumption for answer in found.capabilities.answers if answer.value is None}
    assert {"plain_listing", "status_sets_order_status"} <= unknown
    assert found.capabilities.assumptions["create_existing"] == "reject"


REFUSED = says(401, UNAUTHORISED)  # of the token


@pytest.mark.parametrize(
    ("fails", "at", "lasts", "stopped"),
    [
        (REFUSED, 0, True, TokenRefused),
        (REFUSED, 40, True, TokenRefused),
        (REFUSED, 5, False, TokenRefused),
        (REFUSED, 33, False, TokenRefused),
        (closes_before_reading, 12, True, ExchangeUnreachable),
    ],
)
def test_a_probe_that_cannot_go_on_cleans_up_if_it_can_and_names_what_is_left(tmp_path, fails, at, lasts, stopped):
    with embedded(tmp_path / "exchange.db") as caller:
        script = lambda number: fails if number == at or (lasts and number > at) else None  # noqa: E731 (a script in a line)
        with forwarding(caller, script) as between:
            found = probed(between.url)
        orders, tenders = listed(caller)
    assert isinstance(found.stopped, stopped)
    there = {record["order_id"] for record in orders} | {tender["tender_id"] for tender in tenders}
    assert {key for key in there if not any(key in line for line in found.left)} == set()
    assert all(PREFIX in line for line in found.left)
    assert bool(found.left) is bool(lasts and at)


def test_an_exchange_that_is_not_there_or_answers_oddly_is_no_exception():
    with Scripted(lambda _number, _request: says(307, b"", "Location: /elsewhere\r\n")) as odd:
        found = probed(odd.url)
    assert found.capabilities.assumptions == {}
    assert answers_of(found)["Are calls redirected?"] != "0 redirects"
    found = probed(odd.url)  # nobody is there any more
    assert isinstance(found.stopped, ExchangeUnreachable)
    assert found.left == ()


def test_a_busy_exchange_is_waited_for_and_its_limit_is_reported(tmp_path):
    busy = says(429, b"", "Retry-After: 0\r\n")
    script = lambda number: busy if number in (3, 9) else None  # noqa: E731 (a script in a line)
    with embedded(tmp_path / "exchange.db") as caller, forwarding(caller, script) as between:
        found = probed(between.url)
    assert found.stopped is None
    assert answers_of(found)["Is there a rate limit (429)?"] == "2 answers with 429"
    assert found.capabilities.assumptions["create_existing"] == "reject"


def test_what_the_probe_wrote_is_what_the_translator_reads(tmp_path):
    with embedded(tmp_path / "exchange.db", **STRICT, status_index_base=1) as caller:
        found = probed(url_of(caller))
        file = tmp_path / "capabilities.yaml"
        write_capabilities(file, found.capabilities)
        assert assumptions_for(url_of(caller), file) == found.capabilities.assumptions
        read = Settings.load(exchange=url_of(caller), capabilities=file).assumptions
    assert read == Assumptions(**STRICT, status_index_base=1)
    assert read_personality(file, Assumptions()) == read  # so our exchange can become the one that was probed


@pytest.mark.sweep
def test_a_listing_that_lags_is_waited_for(tmp_path):
    """A listing shows a write only after 0.4 s."""
    seen, wrote = {}, [0.0]
    with embedded(tmp_path / "exchange.db", **ODD) as caller:

        def act(connection, request):
            answered = caller.send(request.method, request.target, request.body)
            raw, lists = answered.raw, request.method == "GET" and "getOrders" in request.target
            if lists and time.monotonic() - wrote[0] < 0.4:
                raw = seen.get(request.target, encode(listing_body([], page_size=100, total_count=0)))
            elif lists:
                seen[request.target] = raw
            else:
                wrote[0] = time.monotonic()
            connection.sendall(answer(answered.status, raw))
            return True

        with Scripted(Move(act)) as between:
            found = probed(between.url)
        assert listed(caller) == ([], [])
    assert found.left == ()
    assert answers_of(found)["Is a fresh create listed at once?"] == "listed after 0.5 s"
    assert {name: found.capabilities.assumptions.get(name) for name in ODD} == ODD


def test_the_command_asks_for_consent_and_writes_what_it_found(tmp_path):
    with embedded(tmp_path / "exchange.db") as caller:
        words = ("exchange", "probe", "--exchange", url_of(caller), "--pause", 0)
        refused = loadsheet(tmp_path, *words)
        assert (refused.returncode, "--i-own-this-tenant" in refused.stderr) == (78, True)
        assert caller.orders() == []
        words += ("--i-own-this-tenant",)
        done = loadsheet(tmp_path, *words)
        assert (done.returncode, "everything was cleaned up" in done.stderr) == (0, True), done.stderr
        assert 'create_existing: "reject"' in (tmp_path / "capabilities.yaml").read_text(encoding="utf-8")
        again = loadsheet(tmp_path, *words, "--json", LOADSHEET_CAPABILITIES="not-yet.yaml")
        assert (again.returncode, '"create_existing"' in again.stdout) == (0, True), again.stderr
        (tmp_path / "capabilities.yaml").unlink()
        done = loadsheet(tmp_path, *words, "--json", LOADSHEET_TOKEN="another-token")
        assert (done.returncode, '"stopped"' in done.stdout) == (77, True), done.stderr
        assert not (tmp_path / "capabilities.yaml").exists()
        assert listed(caller) == ([], [])


def test_our_own_exchange_and_half_a_value_are_refused(tmp_path):
    assert loadsheet(tmp_path, "exchange", "probe", "--i-own-this-tenant").returncode == 78
    words = ("exchange", "probe", "--exchange", "http://127.0.0.1:9", "--i-own-this-tenant", "--set", "sender_id")
    assert "FIELD=VALUE" in loadsheet(tmp_path, *words).stderr

"""Who may do what: two parties, an operator, expired and revoked tokens, tried on every operation; and a flood of wrong tokens, which good ones never wait for."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from exchange_calls import AUTHORISED, OverSocket, embedded, inside
from exchange_process import TOKEN
from payload_examples import CONFIRMATION, EVENT, GOOD, NEEDS, ORDER, QUOTE, TENDER

from loadsheet.cli import invoke
from loadsheet.contract import BY_NAME, OPERATIONS, UNAUTHORISED, WRITES, Assumptions, read_refusal
from loadsheet.errors import SettingsError
from loadsheet.exchange import Store, TokenAdmin, serve_embedded
from loadsheet.exchange.auth import KEYS_MAX, REMEMBERED_S, WAIT_MAX_S, Authenticator, WrongTokenLimit, digest_of
from loadsheet.settings.sections import ServerSettings

SENDER, RECEIVER, STRANGER = ORDER["sender_id"], ORDER["receiver_id"], "STRANGER"
NAMES = [operation.name for operation in OPERATIONS]
WRITE_NAMES = [operation.name for operation in WRITES]
LISTINGS = {"tender.list": "/tmsapi/getOrders?record=tender", "order.list": "/tmsapi/getOrders"}


class Holder:
    """The verbs of a caller with one token."""

    def __init__(self, caller, secret):
        self.caller, self.headers = caller, {"Authorization": f"Bearer {secret}"}

    def call(self, name, payload=None):
        operation = BY_NAME[name]
        body = b"" if payload is None else json.dumps(payload, default=float).encode()
        return self.caller.send(operation.method, LISTINGS.get(name, operation.path), body, self.headers)

    def listed(self, subject):
        answer = self.call(f"{subject}.list").body
        assert len(answer["results"]) == answer["total_count"]
        return [record[f"{subject}_id"] for record in answer["results"]]


@contextmanager
def opened(database, **assumptions):
    """Callers of the application by party; empty: an operator's own token, None: the one that serve was given."""
    with TokenAdmin(database) as admin:
        secrets = {party: admin.add(party)[1] for party in (SENDER, RECEIVER, STRANGER, "C-1", "C-2", "")}
    with inside(database, **assumptions) as caller:
        yield {None: Holder(caller, TOKEN), **{party: Holder(caller, secret) for party, secret in secrets.items()}}


@pytest.fixture
def on_sqlite(tmp_path):
    return f"sqlite:///{tmp_path / 'exchange.db'}"


@pytest.fixture
def holders(on_sqlite):
    with opened(on_sqlite) as found:
        yield found


@pytest.fixture
def stored_holders(database):
    with opened(database) as found:
        yield found


@contextmanager
def prepared(holders, name):
    """What must be there before an operation can succeed; nothing is left of it."""
    for before in NEEDS.get(name, ()):
        assert holders[None].call(before, GOOD[before]).status == 200
    yield
    for delete in ("order.delete", "tender.delete"):
        holders[None].call(delete, GOOD[delete])


def test_its_parties_and_operators_may_do_every_operation_but_quotes_and_decisions(holders):
    for party in (SENDER, RECEIVER, "", None):
        for name in NAMES:
            allowed = {"tender.quote": party in ("", None), "tender.confirm": party != RECEIVER}.get(name, True)
            with prepared(holders, name):
                assert holders[party].call(name, GOOD.get(name)).status == (200 if allowed else 400), (party, name)


def test_what_belongs_to_others_is_answered_as_if_it_were_not_there(stored_holders):
    holders, stranger = stored_holders, stored_holders[STRANGER]
    for name in WRITE_NAMES:
        if name.endswith("create"):
            continue
        own = {**GOOD[name], "sender_id": STRANGER} if "sender_id" in GOOD[name] else GOOD[name]
        unknown = stranger.call(name, own)
        with prepared(holders, name):
            before = holders[None].call("order.list").raw, holders[None].call("tender.list").raw
            assert stranger.call(name, own) == unknown
            assert unknown.status == 400, name
            assert (holders[None].call("order.list").raw, holders[None].call("tender.list").raw) == before


@pytest.mark.parametrize("setting", ["accept", "replace"])
def test_no_setting_lets_others_change_a_record(on_sqlite, setting):
    settings = {"create_existing": setting, "update_unknown": setting, "quote_existing": "replace"}
    settings |= dict.fromkeys(("delete_unknown", "quote_unknown", "confirm_unknown", "status_unknown"), "accept")
    settings |= {"accept_sets_tender_status": "CLOSED", "status_sets_order_status": "code"}
    with opened(on_sqlite, **settings) as holders:
        app = holders[None].caller
        for made in ("order.create", "tender.create"):
            app.done(made, GOOD[made])
        before = app.orders(), app.tenders()
        for name in WRITE_NAMES:
            own = {**GOOD[name], "sender_id": STRANGER} if "sender_id" in GOOD[name] else GOOD[name]
            holders[STRANGER].call(name, own)
            assert (app.orders(), app.tenders()) == before, name
            app.done("tender.quote", QUOTE)


def test_a_party_creates_only_what_names_it_and_sees_only_that(stored_holders):
    holders = stored_holders
    own = {"receiver_id": STRANGER, "sender_id": STRANGER}
    for subject in ("order", "tender"):
        name, key = f"{subject}.create", f"{subject}_id"
        record = GOOD[name]
        refused = holders[STRANGER].call(name, record)
        assert refused.status == 400
        assert set(refused.body["errors"]) == {"sender_id", "receiver_id"}
        assert holders[SENDER].call(name, {**record, key: "A"}).status == 200
        assert holders[RECEIVER].call(name, {**record, key: "B", "sender_id": "ELSE"}).status == 200
        assert holders[STRANGER].call(name, {**record, key: "C", **own}).status == 200
        assert holders[SENDER].listed(subject) == ["A"]
        assert holders[RECEIVER].listed(subject) == ["A", "B"]
        assert holders[STRANGER].listed(subject) == ["C"]
        assert holders[""].listed(subject) == holders[None].listed(subject) == ["A", "B", "C"]
        taken = holders[STRANGER].call(name, {**record, key: "A", "sender_id": STRANGER})
        assert "exists" in taken.body["errors"][key]


def test_a_page_of_a_party_is_its_own_first_page(stored_holders):
    holders = stored_holders
    for number in range(12):
        who = {"sender_id": SENDER if number % 2 else "ELSE", "receiver_id": SENDER if number % 3 == 0 else "ELSE"}
        assert holders[None].call("order.create", {**ORDER, "order_id": f"{number:02}", **who}).status == 200
    page = holders[SENDER].caller.send("GET", "/tmsapi/getOrders?page_size=3", b"", holders[SENDER].headers).body
    assert [order["order_id"] for order in page["results"]] == ["00", "01", "03"]
    assert (page["total_count"], page["total_pages"]) == (8, 3)


@pytest.mark.parametrize("subject", ["order", "tender"])
def test_the_parties_of_a_record_are_changed_by_operators_only(holders, subject):
    record, key = GOOD[f"{subject}.create"], f"{subject}_id"
    holders[SENDER].call(f"{subject}.create", record)
    for sender, receiver, changed in (
        ("X", RECEIVER, {"sender_id"}),
        (SENDER, "X", {"receiver_id"}),
        (RECEIVER, SENDER, {"sender_id", "receiver_id"}),
        (RECEIVER, RECEIVER, {"sender_id"}),
    ):
        update = {**record, "sender_id": sender, "receiver_id": receiver}
        for party in (SENDER, RECEIVER):
            answer = holders[party].call(f"{subject}.update", update)
            assert (answer.status, set(answer.body["errors"])) == (400, changed)
            assert holders[party].call(f"{subject}.update", record).status == 200
            assert holders[party].listed(subject) == [record[key]]
        assert holders[""].call(f"{subject}.update", update).status == 200
        assert (record[key] in holders[SENDER].listed(subject)) is (SENDER in (sender, receiver))
        assert holders[""].call(f"{subject}.update", record).status == 200


def test_nobody_takes_a_record_over_by_creating_it_again(on_sqlite):
    with opened(on_sqlite, create_existing="replace") as holders:
        assert holders[SENDER].call("order.create", ORDER).status == 200
        assert holders[RECEIVER].call("order.create", {**ORDER, "sender_id": "X"}).status == 400
        assert holders[RECEIVER].call("order.create", {**ORDER, "currency": "USD"}).status == 200
        assert holders[SENDER].listed("order") == ["SO-1001"]


def test_of_a_batch_only_the_own_records_are_known(holders):
    holders[SENDER].call("order.create", ORDER)
    holders[STRANGER].call("order.create", {**ORDER, "order_id": "mine", "sender_id": STRANGER})
    answer = holders[STRANGER].call("order.status", {"data": [{**EVENT, "order_id": "mine"}, EVENT]})
    assert (answer.status, list(answer.body["errors"])) == (400, ["data[1]"])


INVOLVED = {**TENDER, "involved_carriers": [{"carrier_company": "C-1"}]}
OWN_QUOTE = {**QUOTE, "receiver_id": "C-1"}


@pytest.mark.parametrize(
    ("setting", "tender", "status"),
    [
        ("involved", {**TENDER, "receiver_id": "C-1"}, 200),
        ("parties", INVOLVED, 400),
        ("involved", INVOLVED, 200),
        ("involved", TENDER, 400),
        ("any", TENDER, 200),
    ],
)
def test_quote_by_says_which_carrier_may_quote_with_its_own_token(on_sqlite, setting, tender, status):
    with opened(on_sqlite, quote_by=setting) as holders:
        holders[None].caller.done("tender.create", tender)
        assert holders["C-1"].call("tender.quote", OWN_QUOTE).status == status
        assert holders["C-2"].call("tender.quote", {**QUOTE, "receiver_id": "C-2"}).status == 400  # in another's name
        assert holders["C-1"].call("tender.confirm", CONFIRMATION).status == 400
        if tender["receiver_id"] != "C-1":
            assert holders["C-1"].listed("tender") == []  # it may quote it; it is none of its records


@pytest.mark.parametrize(("setting", "status"), [("involved", 400), ("any", 400), ("parties", 200)])
def test_a_tenders_parties_quote_for_carriers_only_where_a_setting_says_so(on_sqlite, setting, status):
    with opened(on_sqlite, quote_by=setting) as holders:
        holders[None].caller.done("tender.create", INVOLVED)
        holders[None].caller.done("tender.quote", OWN_QUOTE)
        for party in (SENDER, RECEIVER):
            assert holders[party].call("tender.quote", {**QUOTE, "tenderRate": "1.00"}).status == status


@pytest.mark.parametrize(("setting", "status"), [("sender", 400), ("parties", 200)])
def test_only_the_tenders_sender_decides_on_quotes_and_an_accepted_one_stays(on_sqlite, setting, status):
    with opened(on_sqlite, confirm_by=setting) as holders:
        holders[None].caller.done("tender.create", INVOLVED)
        for rate in ("950.00", "940.00"):
            assert holders["C-1"].call("tender.quote", {**OWN_QUOTE, "tenderRate": rate}).status == 200
        assert holders["C-1"].call("tender.confirm", {**CONFIRMATION, "receiver_id": "C-1"}).status == 400
        assert holders[RECEIVER].call("tender.confirm", CONFIRMATION).status == status
        assert holders[SENDER].call("tender.confirm", CONFIRMATION).status == 200
        answer = holders["C-1"].call("tender.quote", {**OWN_QUOTE, "tenderRate": "99940.00"})
        assert (answer.status, list(answer.body["errors"])) == (400, ["carrier_id"])


def test_a_token_that_is_not_usable_opens_nothing(database):
    long_ago = datetime.now(UTC) - timedelta(days=3)
    with TokenAdmin(database, clock=lambda: long_ago) as admin:
        expired = admin.add(SENDER, name="short", expires_days=2)[1]
    with TokenAdmin(database) as admin:
        token, revoked = admin.add(SENDER, name="gone")
        admin.revoke("gone")
    with inside(database) as app:
        for secret in (expired, revoked, "lsx_unknown", token.digest):
            for name in NAMES:
                answer = Holder(app, secret).call(name, GOOD.get(name))
                assert (answer.status, answer.body) == (401, UNAUTHORISED), (secret, name)
                assert answer.headers["www-authenticate"] == "Bearer"
        assert app.orders() == app.tenders() == []


def test_a_token_revoked_while_the_exchange_runs_is_refused_soon(on_sqlite):
    with TokenAdmin(on_sqlite) as admin, embedded(on_sqlite) as caller:
        _, secret = admin.add(SENDER, name="short-lived")
        holder = Holder(caller, secret)  # made while it runs, and known at once
        assert holder.call("order.create", ORDER).status == 200
        admin.revoke("short-lived")
        deadline = time.monotonic() + REMEMBERED_S + 5
        while holder.call("order.list").status == 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert holder.call("order.list").status == 401


def test_a_token_that_expires_is_refused_at_that_moment(on_sqlite, monkeypatch):
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    with TokenAdmin(on_sqlite, clock=lambda: now[0]) as admin:
        _, secret = admin.add("ACME", expires_days=2)
    asked = []
    read = Store.read
    monkeypatch.setattr(Store, "read", lambda self, query: asked.append(query.keywords["digest"]) or read(self, query))

    async def story(store):
        authenticator = Authenticator(None, store, lambda: now[0])
        first = await authenticator.caller(secret)
        now[0] = datetime(2026, 3, 3, tzinfo=UTC)
        return first.party, await authenticator.caller(secret), await authenticator.caller("other")

    with closing(Store(on_sqlite)) as store:
        assert asyncio.run(story(store)) == ("ACME", None, None)
    assert asked == [digest_of(secret), digest_of("other")]  # remembered for a moment, but not beyond its end


def test_numbers_of_tokens_rise_a_party_may_have_several_and_those_that_make_no_sense_are_refused(database):
    with TokenAdmin(database) as admin:
        made = [admin.add("A")[0] for _ in range(3)]
        assert [(token.number, token.name) for token in made] == [(1, "A-1"), (2, "A-2"), (3, "A-3")]
        assert admin.revoke("2").revoked == admin.revoke("A-2").revoked
        for party, more in (
            ("A", {"name": "A-1"}),
            ("A", {"name": "12"}),
            ("A\n", {}),
            (" A", {}),
            ("A", {"expires_days": 0}),
            ("A", {"expires_days": 10**9}),
        ):
            with pytest.raises(SettingsError, match="token: "):
                admin.add(party, **more)
        assert [token.state(datetime.now(UTC)) for token in admin.all()] == ["usable", "revoked", "usable"]


def test_the_command_makes_lists_and_revokes_tokens(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def told(*words):
        code, said = invoke(["exchange", "token", *words]), capsys.readouterr()
        return code, said.out, said.err

    code, out, err = told("add", "--party", SENDER, "--expires", "30", "--name", "acme-tms")
    secret = out.strip()
    assert (code, "acme-tms" in err, secret in err) == (0, True, False)
    (token,) = json.loads(told("list", "--json")[1])
    assert (token["name"], token["party"], token["state"]) == ("acme-tms", SENDER, "usable")
    assert "digest" not in token
    assert "acme-tms" in told("list")[1]
    assert json.loads(told("add", "--party", "", "--json")[1])["token"] != secret
    assert told("revoke", "acme-tms")[0] == 0
    assert told("revoke", "nobody")[0] == 78
    assert [each["state"] for each in json.loads(told("list", "--json")[1])] == ["revoked", "usable"]


WRONG = {"Authorization": "Bearer lsx_guessed"}
LISTING = "/tmsapi/getOrders"


def serving(folder, per_second):
    settings = ServerSettings(wrong_tokens_per_second=per_second)
    return serve_embedded(f"sqlite:///{folder / 'exchange.db'}", TOKEN, Assumptions(), settings)


def ticking(per_second):
    now = [1000.0]
    return now, WrongTokenLimit(per_second, lambda: now[0])


def test_the_first_cost_nothing_the_next_more_and_more_and_then_there_is_a_429():
    now, limit = ticking(10.0)
    waits = [limit.wait("192.0.2.1") for _ in range(40)]
    assert waits[:10] == [0.0] * 10
    assert waits[10:30] == pytest.approx([number / 10 for number in range(1, 21)])  # so ten a second come through
    assert max(wait for wait in waits if wait) <= WAIT_MAX_S
    assert waits[30:] == [None] * 10  # and these did not make it longer
    now[0] += 3.0
    assert limit.wait("192.0.2.1") == pytest.approx(0.0, abs=0.11)


@pytest.mark.parametrize("per_second", [0.2, 1.0, 300.0])
def test_no_more_401s_come_through_than_the_pace_allows(per_second):
    now, limit = ticking(per_second)
    answered = []
    for tick in range(20_000):
        now[0] = 1000 + tick / 1000
        if (wait := limit.wait("192.0.2.1")) is not None:
            answered.append(now[0] + wait)
    assert sum(moment < 1020 for moment in answered) <= 20 * per_second + max(per_second, 1) + 1
    assert len(answered) >= 20 * per_second - 1


def test_each_address_has_its_own_count_and_a_network_of_ipv6_one():
    _, limit = ticking(1.0)
    assert limit.wait("192.0.2.1") == 0
    assert limit.wait("192.0.2.1") > 0
    assert [limit.wait(other) for other in ("192.0.2.2", "::ffff:192.0.2.3", "2001:db8::1", "/run/socket")] == [0] * 4
    assert limit.wait("2001:db8::ffff:1") > 0  # whoever has one of these addresses has the others
    assert limit.wait("::ffff:192.0.2.2") > 0
    assert limit.wait("2001:db8:0:1::1") == 0


def test_one_wrong_token_has_a_count_of_its_own_wherever_it_comes_from():
    _, limit = ticking(1.0)
    assert [limit.wait(f"192.0.2.{number}", "lsx_leaked") for number in range(3)] == [0.0, 1.0, 2.0]
    assert limit.wait("192.0.2.9", "lsx_leaked") is None
    assert limit.wait("192.0.2.10", "lsx_other") == 0.0


def test_addresses_without_number_take_bounded_memory():
    _, limit = ticking(1.0)
    for number in range(3 * KEYS_MAX):
        limit.wait(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", f"token-{number}")
    assert (len(limit._addresses), len(limit._tokens)) == (KEYS_MAX, KEYS_MAX)


def test_a_flood_is_slowed_and_good_tokens_of_its_address_are_served_at_once(tmp_path):
    with serving(tmp_path, 2.0) as url, ThreadPoolExecutor(11) as threads:
        until = time.monotonic() + 0.5
        began = time.monotonic()

        def flood(_):
            caller, statuses = OverSocket(url), []
            while time.monotonic() < until:
                answer = caller.send("GET", LISTING, b"", WRONG)
                statuses.append(answer.status)
                if answer.status == 429:
                    assert answer.headers["retry-after"] == "2"
                    assert "not authorised" in read_refusal(BY_NAME["tender.list"], answer.body)[0].text
                else:
                    assert answer.body == UNAUTHORISED
            return statuses

        floods = [threads.submit(flood, number) for number in range(10)]
        good, times, number = OverSocket(url), [], 0
        while time.monotonic() < until:
            asked = time.monotonic()
            good.done("order.create", {**ORDER, "order_id": f"G-{number}"})
            times.append(time.monotonic() - asked)
            number += 1
        statuses = [status for lane in floods for status in lane.result()]
        took = time.monotonic() - began
    assert set(statuses) == {401, 429}
    assert statuses.count(401) <= 2 * (took + 1) + 1
    assert sorted(times)[len(times) * 9 // 10] < WAIT_MAX_S  # they do not stand in the line of the wrong ones


def test_without_a_limit_every_wrong_token_is_a_401_at_once(tmp_path):
    with serving(tmp_path, 0.0) as url:
        caller = OverSocket(url)
        assert {caller.send("GET", LISTING, b"", WRONG).status for _ in range(200)} == {401}
        assert caller.send("GET", LISTING, b"", AUTHORISED).status == 200

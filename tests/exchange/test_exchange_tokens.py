"""Who may do what: two parties, an operator, expired and revoked tokens, tried on every operation."""

import asyncio
import json
import logging
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from calling import OverSocket, embedded, inside
from command import environment
from examples import CONFIRMATION, EVENT, GOOD, NEEDS, ORDER, QUOTE, TENDER
from serving import TOKEN
from warm import loadsheet

from loadsheet.contract import BY_NAME, OPERATIONS, UNAUTHORISED, WRITES
from loadsheet.exchange import Store, TokenOffice
from loadsheet.exchange.tokens import REMEMBERED_S, Doorkeeper, digest_of, new_secret
from loadsheet.problems import SettingsError

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


def issue(database, party, **more):
    with TokenOffice(database) as office:
        return office.add(party, **more)[1]


@pytest.fixture
def holders(database):
    """The application, and callers by party; empty: an operator's own token, None: the one that serve was given."""
    secrets = {party: issue(database, party) for party in (SENDER, RECEIVER, STRANGER, "C-1", "")}
    with inside(database) as caller:
        yield {None: Holder(caller, TOKEN), **{party: Holder(caller, secret) for party, secret in secrets.items()}}


def prepare(holders, name):
    for before in NEEDS.get(name, ()):
        assert holders[None].call(before, GOOD[before]).status == 200


@pytest.mark.parametrize("party", [SENDER, RECEIVER, "", None])
@pytest.mark.parametrize("name", NAMES)
def test_its_parties_and_operators_may_do_every_operation(holders, name, party):
    prepare(holders, name)
    assert holders[party].call(name, GOOD.get(name)).status == 200


@pytest.mark.parametrize("name", [name for name in WRITE_NAMES if not name.endswith("create")])
def test_what_belongs_to_others_is_answered_as_if_it_were_not_there(holders, name):
    stranger, payload = holders[STRANGER], GOOD[name]
    own = {**payload, "sender_id": STRANGER} if "sender_id" in payload else payload
    unknown = stranger.call(name, own)
    prepare(holders, name)
    before = holders[None].call("order.list").raw, holders[None].call("tender.list").raw
    assert stranger.call(name, own) == unknown
    assert unknown.status == 400
    assert (holders[None].call("order.list").raw, holders[None].call("tender.list").raw) == before


@pytest.mark.parametrize("setting", ["accept", "replace"])
@pytest.mark.parametrize("name", WRITE_NAMES)
def test_no_setting_lets_others_change_a_record(database, name, setting):
    settings = {"create_existing": setting, "update_unknown": setting, "quote_existing": "replace"}
    settings |= dict.fromkeys(("delete_unknown", "quote_unknown", "confirm_unknown", "status_unknown"), "accept")
    settings |= {"accept_sets_tender_status": "CLOSED", "status_sets_order_status": "code"}
    secret = issue(database, STRANGER)
    with inside(database, **settings) as app:
        for made in ("order.create", "tender.create"):
            app.done(made, GOOD[made])
        before = app.orders(), app.tenders()
        payload = GOOD[name]
        Holder(app, secret).call(name, {**payload, "sender_id": STRANGER} if "sender_id" in payload else payload)
        assert (app.orders(), app.tenders()) == before
        app.done("tender.quote", QUOTE)


@pytest.mark.parametrize(("name", "subject"), [("order.create", "order"), ("tender.create", "tender")])
def test_a_party_creates_only_what_names_it_and_sees_only_that(holders, name, subject):
    refused = holders[STRANGER].call(name, GOOD[name])
    assert refused.status == 400
    assert set(refused.body["errors"]) == {"sender_id", "receiver_id"}
    key = f"{subject}_id"
    assert holders[SENDER].call(name, {**GOOD[name], key: "A"}).status == 200
    assert holders[RECEIVER].call(name, {**GOOD[name], key: "B", "sender_id": "ELSE"}).status == 200
    assert (
        holders[STRANGER].call(name, {**GOOD[name], key: "C", "receiver_id": STRANGER, "sender_id": STRANGER}).status
        == 200
    )
    assert holders[SENDER].listed(subject) == ["A"]
    assert holders[RECEIVER].listed(subject) == ["A", "B"]
    assert holders[STRANGER].listed(subject) == ["C"]
    assert holders[""].listed(subject) == holders[None].listed(subject) == ["A", "B", "C"]
    assert "exists" in holders[STRANGER].call(name, {**GOOD[name], key: "A", "sender_id": STRANGER}).body["errors"][key]


def test_a_page_of_a_party_is_its_own_first_page(holders):
    for number in range(12):
        who = {"sender_id": SENDER if number % 2 else "ELSE", "receiver_id": SENDER if number % 3 == 0 else "ELSE"}
        assert holders[None].call("order.create", {**ORDER, "order_id": f"{number:02}", **who}).status == 200
    page = holders[SENDER].caller.send("GET", "/tmsapi/getOrders?page_size=3", b"", holders[SENDER].headers).body
    assert [order["order_id"] for order in page["results"]] == ["00", "01", "03"]
    assert (page["total_count"], page["total_pages"]) == (8, 3)


def test_a_party_cannot_write_itself_out_of_a_record(holders):
    holders[SENDER].call("order.create", ORDER)
    away = {"order_id": ORDER["order_id"], "sender_id": "X", "receiver_id": RECEIVER}
    assert holders[SENDER].call("order.update", away).status == 400
    assert holders[RECEIVER].call("order.update", away).status == 200
    assert holders[SENDER].listed("order") == []
    assert holders[RECEIVER].listed("order") == ["SO-1001"]


def test_of_a_batch_only_the_own_records_are_known(holders):
    holders[SENDER].call("order.create", ORDER)
    holders[STRANGER].call("order.create", {**ORDER, "order_id": "mine", "sender_id": STRANGER})
    answer = holders[STRANGER].call("order.status", {"data": [{**EVENT, "order_id": "mine"}, EVENT]})
    assert answer.status == 400
    assert list(answer.body["errors"]) == ["data[1]"]


INVOLVED = {**TENDER, "involved_carriers": [{"carrier_company": "C-1"}]}
OWN_QUOTE = {**QUOTE, "receiver_id": "C-1"}


@pytest.mark.parametrize(
    ("setting", "tender", "status"),
    [
        ("parties", INVOLVED, 400),
        ("involved", INVOLVED, 200),
        ("involved", TENDER, 400),
        ("any", TENDER, 200),
    ],
)
def test_quote_by_says_which_carrier_may_quote_with_its_own_token(database, setting, tender, status):
    carrier, other = issue(database, "C-1"), issue(database, "C-2")
    with inside(database, quote_by=setting) as app:
        app.done("tender.create", tender)
        assert Holder(app, carrier).call("tender.quote", OWN_QUOTE).status == status
        assert (
            Holder(app, other).call("tender.quote", {**QUOTE, "receiver_id": "C-2"}).status == 400
        )  # in another's name
        assert Holder(app, carrier).call("tender.confirm", CONFIRMATION).status == 400
        assert Holder(app, carrier).listed("tender") == []  # it may quote it; it is none of its records


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["expired", "revoked", "unknown", "digest"])
def test_a_token_that_is_not_usable_opens_nothing(database, name, which):
    long_ago = datetime.now(UTC) - timedelta(days=3)
    with TokenOffice(database, clock=lambda: long_ago) as office:
        expired = office.add(SENDER, name="short", expires_days=2)[1]
    with TokenOffice(database) as office:
        token, revoked = office.add(SENDER, name="gone")
        office.revoke("gone")
    secret = {"expired": expired, "revoked": revoked, "unknown": new_secret(), "digest": token.digest}[which]
    with inside(database) as app:
        answer = Holder(app, secret).call(name, GOOD.get(name))
        assert (answer.status, answer.body) == (401, UNAUTHORISED)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert app.orders() == app.tenders() == []


def test_the_token_is_looked_at_before_the_body_is_read(database):
    async def ask():
        asked, said = [], []

        async def receive():
            asked.append(1)
            return {"type": "http.request", "body": b"", "more_body": True}

        async def send(message):
            said.append(message)

        headers = [(b"authorization", b"Bearer nobody")]
        path = BY_NAME["order.create"].path
        await app._app(
            {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}, receive, send
        )
        return asked, said[0]["status"]

    with inside(database) as app:
        assert asyncio.run(ask()) == ([], 401)


def test_a_token_revoked_while_the_exchange_runs_is_refused_soon(database):
    with TokenOffice(database) as office, embedded(database) as caller:
        _, secret = office.add(SENDER, name="short-lived")
        holder = Holder(caller, secret)  # made while it runs, and known at once
        assert holder.call("order.create", ORDER).status == 200
        office.revoke("short-lived")
        deadline = time.monotonic() + REMEMBERED_S + 5
        while holder.call("order.list").status == 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert holder.call("order.list").status == 401


def test_a_token_that_expires_is_refused_at_that_moment():
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    asked = []

    async def find(digest):
        asked.append(digest)
        return tokens.get(digest)

    async def story():
        doorkeeper = Doorkeeper(None, find, lambda: now[0])
        first = await doorkeeper.caller("secret")
        now[0] = datetime(2026, 3, 3, tzinfo=UTC)
        return first.party, await doorkeeper.caller("secret"), await doorkeeper.caller("other")

    from loadsheet.exchange import Token  # noqa: PLC0415 (only here)

    token = Token(1, "n", digest_of("secret"), "ACME", now[0], expires=datetime(2026, 3, 3, tzinfo=UTC))
    tokens = {token.digest: token}
    assert asyncio.run(story()) == ("ACME", None, None)
    assert asked == [digest_of("secret"), digest_of("other")]  # remembered for a moment, but not beyond its end


def test_no_token_is_kept_or_logged(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    database = f"sqlite:///{tmp_path / 'exchange.db'}"
    secret = issue(database, SENDER)
    with embedded(database) as caller:
        holder = Holder(caller, secret)
        assert holder.call("order.create", ORDER).status == 200
        assert Holder(caller, secret + "x").call("order.list").status == 401
    written = "".join(capfd.readouterr()) + caplog.text
    assert secret not in written
    assert secret.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("party", "more"),
    [("A", {"name": "taken"}), ("A", {"name": "12"}), ("A\n", {}), (" A", {}), ("A", {"expires_days": 0}), ("A", {"expires_days": 10**9})],
)  # fmt: skip
def test_tokens_that_make_no_sense_are_refused(database, party, more):
    with TokenOffice(database) as office:
        office.add("A", name="taken")
        with pytest.raises(SettingsError, match="token: "):
            office.add(party, **more)
        assert len(office.all()) == 1


def test_numbers_of_tokens_rise_and_a_party_may_have_several(database):
    with TokenOffice(database) as office:
        made = [office.add("A")[0] for _ in range(3)]
        assert [(token.number, token.name) for token in made] == [(1, "A-1"), (2, "A-2"), (3, "A-3")]
        assert office.revoke("2").revoked == office.revoke("A-2").revoked
        assert [token.state(datetime.now(UTC)) for token in office.all()] == ["usable", "revoked", "usable"]
    with closing(Store(database)) as store:
        assert len(store.tokens()) == 3


def test_the_command_makes_lists_and_revokes_tokens(tmp_path):
    added = loadsheet(tmp_path, "exchange", "token", "add", "--party", SENDER, "--expires", "30", "--name", "acme-tms")
    assert added.returncode == 0
    secret = added.stdout.strip()
    assert "acme-tms" in added.stderr
    assert secret not in added.stderr
    listed = loadsheet(tmp_path, "exchange", "token", "list", "--json")
    (token,) = json.loads(listed.stdout)
    assert (token["name"], token["party"], token["state"]) == ("acme-tms", SENDER, "usable")
    assert "digest" not in token
    assert "acme-tms" in loadsheet(tmp_path, "exchange", "token", "list").stdout
    again = loadsheet(tmp_path, "exchange", "token", "add", "--party", "", "--json")
    assert json.loads(again.stdout)["token"] != secret
    assert loadsheet(tmp_path, "exchange", "token", "revoke", "acme-tms").returncode == 0
    assert loadsheet(tmp_path, "exchange", "token", "revoke", "nobody").returncode == 78
    states = [each["state"] for each in json.loads(loadsheet(tmp_path, "exchange", "token", "list", "--json").stdout)]
    assert states == ["revoked", "usable"]


def test_an_exchange_without_an_operators_token_serves_if_its_database_holds_one(tmp_path):
    clean = {name: value for name, value in environment().items() if name != "LOADSHEET_TOKEN"}
    command = [sys.executable, "-m", "loadsheet", "exchange", "serve", "--port", "0"]
    refused = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 78
    assert "loadsheet exchange token add" in refused.stderr
    secret = issue(f"sqlite:///{tmp_path / 'exchange.db'}", SENDER)
    with subprocess.Popen(command, cwd=tmp_path, env=clean, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().rsplit(" ", 1)[1].strip()
            caller = OverSocket(url)
            assert Holder(caller, secret).call("order.list").status == 200
            assert caller.send("GET", "/tmsapi/getOrders").status == 401  # the token of the tests means nothing here
            caller.close()
        finally:
            process.terminate()

"""The pages for people, asked as a browser asks, without one."""

import asyncio
import json
import re
import time
from contextlib import closing, contextmanager
from urllib.parse import urlencode

import pytest
from exchange_calls import AUTHORISED, Answered, Inside, encode
from exchange_process import TOKEN
from payload_examples import GOOD
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import Response

from loadsheet.contract import BY_NAME, WRITES, Assumptions, example_body, example_steps
from loadsheet.exchange import Store, TokenAdmin, create_app
from loadsheet.exchange.auth import (
    SESSION_S,
    SESSIONS_MAX,
    Authenticator,
    OpenSession,
    Sessions,
    WrongTokenLimit,
    add_session,
    digest_of,
)
from loadsheet.exchange.database import SESSIONS
from loadsheet.exchange.pages import Pages

PAGES = ["/", "/web/tenders", "/web/orders", "/web/order?id=x", "/web/tender?id=x", "/web/calls", "/web/search?q=x"]


class Visitor(Inside):
    """A browser without a window: it keeps cookies and follows no redirects."""

    def __init__(self, app):
        super().__init__(self._answered)
        self._faces = app
        self.cookies = {}
        self.said = []

    def get(self, path, **headers):
        return self._ask("GET", path, b"", headers)

    def post(self, path, fields, **headers):
        return self._ask("POST", path, urlencode(fields).encode(), headers)

    def _ask(self, method, path, body, headers):
        cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        return self.send(method, path, body, {**cookie, "host": "exchange.test", **headers})

    async def _answered(self, scope, receive, send):
        async def kept(message):
            for name, value in message.get("headers", ()):
                if name == b"set-cookie":
                    self._keep(value.decode())
            await send(message)

        await self._faces(scope, receive, kept)

    def _keep(self, cookie):
        self.said.append(cookie)
        name, value = cookie.partition(";")[0].split("=", 1)
        self.cookies[name] = value
        if "Max-Age=0" in cookie:
            del self.cookies[name]

    def login(self, token=TOKEN):
        return self.post("/web/login", {"token": token, "proof": proof(self.get("/"))})


def proof(page):
    return re.search(r'name="proof" value="([^"]+)"', page.raw.decode())[1]


@contextmanager
def faces(database, *, failed_s=0.0, docs_open=True, tls_in_front=False, wrong_tokens=None, **assumptions):
    store, given = Store(database), Assumptions(**assumptions)
    try:
        sessions = Sessions(Authenticator(TOKEN, store), wrong_tokens=wrong_tokens, failed_s=failed_s)
        api = create_app(store, TOKEN, given)
        yield Visitor(Pages(api, sessions, given, docs_open=docs_open, tls_in_front=tls_in_front))
    finally:
        store.close()


@pytest.fixture
def visitor(tmp_path):
    with faces(f"sqlite:///{tmp_path / 'exchange.db'}") as visitor:
        yield visitor


@pytest.fixture
def stored_visitor(database):
    """The same on each kind of database in turn."""
    with faces(database) as visitor:
        yield visitor


def text(answer: Answered) -> str:
    assert answer.status == 200, answer.raw
    return answer.raw.decode()


def test_without_login_there_is_only_the_form_the_manual_and_the_document(visitor):
    assert "Log in with the token" in text(visitor.get("/"))
    assert "Latest orders" not in text(visitor.get("/"))
    for path in PAGES[1:]:
        assert (visitor.get(path).status, visitor.get(path).headers["location"]) == (303, "/")
    assert "How to call" in text(visitor.get("/docs"))
    assert json.loads(visitor.get("/openapi.json").raw)["openapi"] == "3.1.0"


def test_the_manual_can_be_kept_behind_the_login(tmp_path):
    with faces(f"sqlite:///{tmp_path / 'exchange.db'}", docs_open=False) as visitor:
        assert visitor.get("/docs").status == visitor.get("/openapi.json").status == 303
        visitor.login()
        assert visitor.get("/docs").status == visitor.get("/openapi.json").status == 200


def test_the_cookies_are_for_this_page_alone(visitor):
    visitor.login()
    assert len(visitor.said) == 3  # the form's, the session's, and the form's taken back
    for cookie in visitor.said:
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert "Max-Age=" in cookie
        assert TOKEN not in cookie


@pytest.mark.parametrize("in_front", [True, False])
def test_behind_tls_the_cookies_travel_over_tls_alone(tmp_path, in_front):
    with faces(f"sqlite:///{tmp_path / 'exchange.db'}", tls_in_front=in_front) as visitor:
        assert visitor.login().status == 303
        assert {"secure" in cookie.lower() for cookie in visitor.said} == {in_front}
        assert "Latest orders" in text(visitor.get("/"))


def test_another_token_opens_nothing(visitor):
    for token in ("", "wrong", TOKEN + "x", "ü", "x" * 9000, "'; drop table tokens; --"):
        assert visitor.login(token).status in (400, 403), token
        assert "loadsheet_session" not in visitor.cookies
        assert visitor.get("/web/orders").status == 303


def test_a_failed_login_takes_its_time_whatever_was_wrong(tmp_path):
    with faces(f"sqlite:///{tmp_path / 'exchange.db'}", failed_s=0.3) as visitor:
        for token in ("x", TOKEN[:-1]):
            began = time.monotonic()
            assert visitor.login(token).status == 403
            assert 0.3 <= time.monotonic() - began < 10


def test_a_form_from_elsewhere_is_not_ours(visitor):
    good = {"token": TOKEN, "proof": proof(visitor.get("/"))}
    for headers in ({"origin": "https://evil.test"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert visitor.post("/web/login", good, **headers).status == 400
    assert visitor.post("/web/login", {"token": TOKEN, "proof": ""}).status == 400
    visitor.cookies.clear()
    assert visitor.post("/web/login", {"token": TOKEN, "proof": "guessed"}).status == 400
    visitor.login()
    page = visitor.get("/")
    visitor.post("/web/logout", {"proof": "guessed"})
    visitor.post("/web/logout", {"proof": proof(page)}, origin="https://evil.test")
    assert "Latest orders" in text(visitor.get("/"))


def test_no_control_character_of_a_record_reaches_a_page(visitor):
    hidden = "\x1b[2J\x9b\u202eevil\u2066\x07"
    visitor.send("POST", "/tmsapi/createTender", encode({**GOOD["tender.create"], "pickup_city": hidden}), AUTHORISED)
    visitor.login()
    page = text(visitor.get("/web/tender?id=T-1"))
    assert "evil" in page
    assert not set(hidden) & set(page) - set("evil[2J")


def test_a_session_ends_by_itself_and_with_its_token(database):
    with faces(database) as visitor, TokenAdmin(database) as admin:
        _, secret = admin.add("ACME", name="acme")
        assert visitor.login(secret).status == 303
        assert "Latest orders" in text(visitor.get("/"))
        admin.revoke("acme")
        assert "Latest orders" not in text(visitor.get("/"))


def test_a_session_ends_after_its_hours(tmp_path):
    now = [1_000_000.0]

    async def open_after(seconds, sessions):
        now[0] = 1_000_000.0
        response = Response()
        assert await sessions.login(asking(), TOKEN, response)
        cookie = response.headers["set-cookie"].partition(";")[0].encode()
        now[0] += seconds
        return await sessions.current(asking((b"cookie", cookie))) is not None

    with closing(Store(f"sqlite:///{tmp_path / 'exchange.db'}")) as store:
        sessions = Sessions(Authenticator(TOKEN, store), clock=lambda: now[0])
        assert asyncio.run(open_after(SESSION_S - 1, sessions))
        assert not asyncio.run(open_after(SESSION_S, sessions))


def asking(*headers):
    return Request({"type": "http", "path": "/", "headers": list(headers)})


def test_a_token_opens_a_session_at_every_process_on_its_database_that_logging_out_ends(database):
    with faces(database) as one, faces(database) as other:
        answer = one.login()
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert "Latest orders" in text(one.get("/"))
        other.cookies = dict(one.cookies)
        page = other.get("/")
        assert "Latest orders" in text(page)
        assert other.post("/web/logout", {"proof": proof(page)}).status == 303
        assert "Latest orders" not in text(one.get("/"))


def test_a_session_outlives_a_restart_but_not_its_token(tmp_path):
    database = f"sqlite:///{tmp_path / 'exchange.db'}"
    with faces(database) as visitor:
        visitor.login()
        kept = visitor.cookies
    for token, shown in ((TOKEN, True), ("another-operators", False), (None, False)):
        with closing(Store(database)) as store:
            sessions = Sessions(Authenticator(token, store))
            cookie = f"loadsheet_session={kept['loadsheet_session']}".encode()
            assert (asyncio.run(sessions.current(asking((b"cookie", cookie)))) is not None) is shown
    content = (tmp_path / "exchange.db").read_bytes()
    assert not [kind for kind in (TOKEN, digest_of(TOKEN), kept["loadsheet_session"]) if kind.encode() in content]


def test_sessions_without_number_are_not_kept(tmp_path):
    with closing(Store(f"sqlite:///{tmp_path / 'exchange.db'}")) as store:

        def fill(connection):
            ends = select(SESSIONS.c.ends).order_by(SESSIONS.c.ends)
            for number in range(SESSIONS_MAX + 19):
                session = OpenSession(f"{number:05}", "mark", "form", 2000 + number)
                add_session(connection, session=session, now=1000)
            full = connection.scalars(ends).all()
            add_session(connection, session=OpenSession("last", "mark", "form", 4000), now=2500)
            return full, connection.scalars(ends).all()

        full, after = asyncio.run(store.change(fill))
    assert full == list(range(2019, 2000 + SESSIONS_MAX + 19))  # those that end first have gone
    assert after == [*range(2501, 2000 + SESSIONS_MAX + 19), 4000]  # and those that are over


def test_every_page_forbids_scripts_frames_and_other_hosts(visitor):
    visitor.login()
    for path in [*PAGES, "/docs", "/web/style.css"]:
        headers = visitor.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
        assert "unsafe" not in headers["content-security-policy"]
    for path in [*PAGES, "/docs"]:
        page = visitor.get(path).raw.decode()
        assert "<script" not in page
        assert "style=" not in page
        assert not re.search(r'(src|href)="(https?:)?//', page)


def arrive(visitor):
    for name in example_steps():
        if not name.endswith("delete"):
            visitor.done(name, example_body(BY_NAME[name]))


def test_what_arrived_is_shown_with_what_belongs_to_it(stored_visitor):
    visitor = stored_visitor
    arrive(visitor)
    visitor.login()
    overview = text(visitor.get("/"))
    assert re.findall(r"<dd>(\d+)</dd>", overview) == ["1", "1", "1", "1", "1"]
    tender = text(visitor.get("/web/tender?id=T-2026-0093"))
    assert "1840.00" in tender
    assert ">accepted<" in tender
    assert "Centrifugal pumps CP-40" in tender
    assert "AWARDED" in tender
    order = text(visitor.get("/web/order?id=SO-2026-0417"))
    assert all(word in order for word in ("Picked up", "seal 88120", "inner_cargos", "1480.5", "23800.00", "Brescia"))
    assert visitor.get("/web/order?id=T-2026-0093").status == 404


def test_every_value_of_every_example_is_shown(visitor):
    def leaves(value):
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from leaves(inner)
        elif value != "":
            yield str(value)

    visitor.login()
    visitor.done("order.create", example_body(BY_NAME["order.create"]))
    page = text(visitor.get("/web/order?id=SO-2026-0417")).replace("&amp;", "&")
    assert [leaf for leaf in leaves(example_body(BY_NAME["order.create"])) if leaf not in page] == []


def test_long_lists_have_pages_both_ways(visitor):
    for count in range(120):
        visitor.done("order.create", {**GOOD["order.create"], "order_id": f"SO-{count:04}"})
    visitor.login()

    def keys(path):
        page = text(visitor.get(path))
        return re.findall(r'class="key">(SO-\d+)', page), dict(re.findall(r'href="\?(before|after)=(\d+)"', page))

    first, links = keys("/web/orders")
    assert first == [f"SO-{count:04}" for count in range(119, 69, -1)]
    assert set(links) == {"before"}
    second, links = keys(f"/web/orders?before={links['before']}")
    assert second == [f"SO-{count:04}" for count in range(69, 19, -1)]
    back, newest = keys(f"/web/orders?after={links['after']}")
    assert set(newest) == {"before"}, "none is newer than these 50"
    third, links = keys(f"/web/orders?before={links['before']}")
    assert third == [f"SO-{count:04}" for count in range(19, -1, -1)]
    assert set(links) == {"after"}
    assert back == first


def test_search_finds_by_the_beginning_by_number_and_goes_to_the_only_one(stored_visitor):
    visitor = stored_visitor
    for order in ("SO-1", "SO-10", "SO_1", "so%"):
        visitor.done("order.create", {**GOOD["order.create"], "order_id": order})
    visitor.login()
    assert visitor.get("/web/search?q=SO-10").headers["location"] == "/web/order?id=SO-10"
    found = text(visitor.get("/web/search?q=SO-1"))
    assert re.findall(r'class="key">([^<]+)', found) == ["SO-10", "SO-1"]
    assert re.findall(r'class="key">([^<]+)', text(visitor.get("/web/search?q=3"))) == ["SO_1"]
    assert "No results" in text(visitor.get("/web/search?q=%25"))
    assert text(visitor.get("/web/search"))


def test_odd_identifiers_can_be_opened(visitor):
    visitor.login()
    for order in ("a/b?c=d&e#f", "ü ö", "x" * 300, "<b>", '"'):
        visitor.done("order.create", {**GOOD["order.create"], "order_id": order})
        link = re.search(r'/web/order\?[^"]+', text(visitor.get("/web/orders")))[0]
        assert visitor.get(link.replace("&amp;", "&")).status == 200


def test_a_strange_query_is_no_error(stored_visitor):
    arrive(stored_visitor)
    stored_visitor.login()
    for query in (
        *("before=x", "before=-1", "before=" + "9" * 40, "after=0", "after=999999999"),
        *("page=0", "page=99", "q=%00", "q=%ff", "id=%ed%a0%80"),
    ):
        for path in ("/web/orders", "/web/calls", "/web/search", "/", "/web/order"):
            assert stored_visitor.get(f"{path}?{query}").status in (200, 404), (path, query)


def test_the_latest_calls_are_shown_without_bodies_and_tokens(visitor):
    visitor.call("order.create", {**GOOD["order.create"], "currency": 7, "vehicle_type": "secret-body"})
    visitor.call("order.status", {"data": [{"order_id": "nobody"}, {"order_id": "else"}]})
    visitor.send("POST", "/tmsapi/createOrder", b"{", {"authorization": "Bearer secret-token"})
    visitor.send("GET", "/tmsapi/getOrders", b"", AUTHORISED)
    visitor.send_body("order.delete", b"{")
    visitor.login()
    page = text(visitor.get("/web/calls"))
    rows = re.findall(r'"status">(\d+)</span>\s*<span class="what"><b>([^<]+)</b>(?: <span class="key">([^<]*))?', page)
    assert rows == [
        ("400", "order.delete", ""),
        ("200", "list", ""),
        ("401", "order.create", ""),
        ("400", "order.status", "nobody and 1 more"),
        ("400", "order.create", "SO-1001"),
    ]
    assert "currency: must be a text" in page
    assert "secret" not in page
    assert "<b>list</b>" not in text(visitor.get("/web/calls?problems=1"))


def test_a_party_sees_its_own_records_and_calls_only(database):
    with faces(database) as visitor, TokenAdmin(database) as admin:
        arrive(visitor)
        mine = {"sender_id": "ACME", "receiver_id": "OTHER"}
        _, secret = admin.add("ACME", name="acme")
        theirs = {"authorization": f"Bearer {secret}"}
        order = encode({**GOOD["order.create"], **mine, "order_id": "SO-mine"})
        assert visitor.send("POST", "/tmsapi/createOrder", order, theirs).status == 200
        visitor.login(secret)
        overview = text(visitor.get("/"))
        assert re.findall(r"<dd>(\d+)</dd>", overview) == ["0", "0", "0", "1", "0"]
        assert "SO-mine" in overview
        assert "2026-0417" not in overview + text(visitor.get("/web/calls"))
        assert "T-2026" not in text(visitor.get("/web/tenders"))
        assert (
            visitor.get("/web/order?id=SO-2026-0417").status == visitor.get("/web/tender?id=T-2026-0093").status == 404
        )
        assert "No results" in text(visitor.get("/web/search?q=SO-2026"))
        assert visitor.get("/web/order?id=SO-mine").status == 200


def test_programs_get_their_own_answers_on_every_path_that_is_not_a_page(visitor):
    assert visitor.send("GET", "/", b"", AUTHORISED).status == 405
    assert visitor.send("POST", "/", b"", AUTHORISED).status == 405
    assert visitor.send("POST", "/docs", b"", {}).status == 401
    assert visitor.send("GET", "/web/nowhere", b"", AUTHORISED).status == 405
    assert visitor.send("DELETE", "/web/orders", b"", {}).status == 401


def test_the_manual_holds_every_operation_every_field_and_every_error(visitor):
    page = text(visitor.get("/docs"))
    for operation in WRITES:
        assert f'id="{operation.name}"' in page
        assert operation.path in page
        assert all(f"<code>{field.name}" in page for _, field in operation.record.walk())
    for word in ("Not authorised.", "Unknown method.", "is required", "data[1]", "SO-2026-0417", "23800.00"):
        assert word in page, word


def test_many_failing_logins_at_once_are_turned_away_and_a_right_one_is_not(tmp_path):
    limit = WrongTokenLimit(clock=lambda: 1000.0)
    with faces(f"sqlite:///{tmp_path / 'exchange.db'}", wrong_tokens=limit) as visitor:
        proved = proof(visitor.get("/"))
        cookie = f"loadsheet_form={visitor.cookies['loadsheet_form']}".encode()
        statuses = []

        async def once(token):
            async def receive():
                return {"type": "http.request", "body": urlencode({"token": token, "proof": proved}).encode()}

            async def send(message):
                statuses.extend([message["status"]] if "status" in message else [])

            scope = {"type": "http", "method": "POST", "path": "/web/login", "query_string": b"", "scheme": "http"}
            headers = [(b"host", b"exchange.test"), (b"cookie", cookie)]
            await visitor._app({**scope, "headers": headers, "server": ("exchange.test", 80)}, receive, send)

        async def many():
            await asyncio.gather(*(once("wrong") for _ in range(40)), once(TOKEN))

        asyncio.run(many())
        assert statuses.count(403) == 30  # a second's worth at once, two more that wait; good tokens are none of these
        assert statuses.count(429) == 10
        assert statuses.count(303) == 1

"""The pages for people, asked as a browser asks, without one."""

import asyncio
import json
import re
import time
from contextlib import closing, contextmanager
from urllib.parse import urlencode

import pytest
from exchange_calls import AUTHORISED, Inside, encode, url_of
from exchange_process import TOKEN
from payload_examples import GOOD, ORDER
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
ORDER_ID, TENDER_ID = "SO-2026-0417", "T-2026-0093"  # of the worked examples


class Visitor(Inside):
    """A browser without a window: it keeps cookies and follows no redirects."""

    def __init__(self, pages):
        super().__init__(self._answered)
        self._pages = pages
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

        await self._pages(scope, receive, kept)

    def _keep(self, cookie):
        self.said.append(cookie)
        name, value = cookie.partition(";")[0].split("=", 1)
        self.cookies[name] = value
        if "Max-Age=0" in cookie:
            del self.cookies[name]

    def login(self, token=TOKEN):
        return self.post("/web/login", {"token": token, "proof": proof(self.get("/"))})

    def text(self, path):
        """The text of a page that is there."""
        answer = self.get(path)
        assert answer.status == 200, answer.raw
        return answer.raw.decode()

    def keys(self, path):
        """The identifiers on a page, from the top."""
        return re.findall(r'class="key">([^<]+)', self.text(path))

    def create_orders(self, *names):
        for name in names:
            self.done("order.create", {**ORDER, "order_id": name})


def proof(page):
    return re.search(r'name="proof" value="([^"]+)"', page.raw.decode())[1]


@contextmanager
def pages_of(database, *, failed_s=0.0, wrong_tokens=None, **options):
    """A visitor of the pages on a database."""
    with closing(Store(url_of(database))) as store:
        sessions = Sessions(Authenticator(TOKEN, store), wrong_tokens=wrong_tokens, failed_s=failed_s)
        yield Visitor(Pages(create_app(store, TOKEN, Assumptions()), sessions, Assumptions(), **options))


@pytest.fixture
def visitor(tmp_path):
    with pages_of(tmp_path / "exchange.db") as visitor:
        yield visitor


@pytest.fixture
def stored_visitor(database):
    """The same on each kind of database in turn."""
    with pages_of(database) as visitor:
        yield visitor


def test_without_login_there_is_only_the_form_and_the_manual_unless_that_is_closed_too(tmp_path, visitor):
    assert "Log in with the token" in visitor.text("/")
    assert "Latest orders" not in visitor.text("/")
    for path in PAGES[1:]:
        assert (visitor.get(path).status, visitor.get(path).headers["location"]) == (303, "/")
    assert "How to call" in visitor.text("/docs")
    assert json.loads(visitor.text("/openapi.json"))["openapi"] == "3.1.0"
    with pages_of(tmp_path / "closed.db", docs_open=False) as closed:
        assert closed.get("/docs").status == closed.get("/openapi.json").status == 303
        closed.login()
        assert closed.get("/docs").status == closed.get("/openapi.json").status == 200


@pytest.mark.parametrize("in_front", [True, False])
def test_the_cookies_are_for_this_page_alone_and_behind_tls_for_tls_alone(tmp_path, in_front):
    with pages_of(tmp_path / "exchange.db", tls_in_front=in_front) as visitor:
        assert visitor.login().status == 303
        assert "Latest orders" in visitor.text("/")
    assert len(visitor.said) == 3  # the form's, the session's, and the form's taken back
    for cookie in visitor.said:
        for part in ("HttpOnly", "Max-Age=", "SameSite=strict"):
            assert part.lower() in cookie.lower()
        assert TOKEN not in cookie
        assert ("secure" in cookie.lower()) is in_front


def test_a_failed_login_takes_its_time_whatever_was_wrong(tmp_path):
    with pages_of(tmp_path / "exchange.db", failed_s=0.1) as visitor:
        for token in ("", "wrong", TOKEN + "x", TOKEN[:-1], "ü", "x" * 9000, "'; drop table tokens; --"):
            began = time.monotonic()
            status = visitor.login(token).status
            assert status == (400 if len(token) > 8000 else 403), token
            assert status == 400 or 0.1 <= time.monotonic() - began < 10
            assert "loadsheet_session" not in visitor.cookies
            assert visitor.get("/web/orders").status == 303


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
    assert "Latest orders" in visitor.text("/")


def test_a_token_opens_a_session_at_every_process_on_its_database_that_logging_out_ends(database):
    with pages_of(database) as one, pages_of(database) as other:
        answer = one.login()
        assert (answer.status, answer.headers["location"]) == (303, "/")
        other.cookies = dict(one.cookies)
        page = other.get("/")
        assert "Latest orders" in page.raw.decode()
        assert other.post("/web/logout", {"proof": proof(page)}).status == 303
        assert "Latest orders" not in one.text("/")


def asking(cookie=""):
    return Request({"type": "http", "path": "/", "headers": [(b"cookie", cookie.encode())]})


def test_a_session_outlives_a_restart_but_neither_its_hours_nor_its_token(tmp_path):
    database, now = tmp_path / "exchange.db", [1_000_000.0]

    def visit(token, ask):
        with closing(Store(url_of(database))) as store:
            return asyncio.run(ask(Sessions(Authenticator(token, store), clock=lambda: now[0])))

    response = Response()
    assert visit(TOKEN, lambda sessions: sessions.login(asking(), TOKEN, response))
    cookie = response.headers["set-cookie"].partition(";")[0]
    for token, seconds, is_open in (
        (TOKEN, SESSION_S - 1, True),
        (TOKEN, SESSION_S, False),
        ("another-operators", 0, False),
        (None, 0, False),
    ):
        now[0] = 1_000_000.0 + seconds
        assert (visit(token, lambda sessions: sessions.current(asking(cookie))) is not None) is is_open
    for secret in (TOKEN, digest_of(TOKEN), cookie.partition("=")[2]):
        assert secret.encode() not in database.read_bytes()


def test_sessions_without_number_are_not_kept(tmp_path):
    with closing(Store(url_of(tmp_path / "exchange.db"))) as store:

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
        answer = visitor.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r'<script|style="|(src|href)="(https?:)?//', answer.raw.decode())


def arrive(visitor):
    for name in example_steps():
        if not name.endswith("delete"):
            visitor.done(name, example_body(BY_NAME[name]))


def leaves(value):
    """Every text and number within a record, as a page shows it."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    elif value != "":
        yield str(value)


def test_what_arrived_is_shown_with_what_belongs_to_it_and_every_value(stored_visitor):
    visitor = stored_visitor
    visitor.login()
    order = example_body(BY_NAME["order.create"])
    visitor.done("order.create", order)
    page = visitor.text(f"/web/order?id={ORDER_ID}").replace("&amp;", "&")
    assert [leaf for leaf in leaves(order) if leaf not in page] == []
    visitor.done("order.delete", {"order_id": ORDER_ID})
    arrive(visitor)
    assert re.findall(r"<strong>(\d+)</strong>", visitor.text("/")) == ["1", "1", "1", "1", "1"]
    for path, words in (
        (f"/web/tender?id={TENDER_ID}", ("1840.00", ">accepted<", "Centrifugal pumps CP-40", "AWARDED")),
        (f"/web/order?id={ORDER_ID}", ("Picked up", "seal 88120", "inner_cargos", "1480.5", "23800.00", "Brescia")),
    ):
        page = visitor.text(path)
        assert [word for word in words if word not in page] == []
    assert visitor.get(f"/web/order?id={TENDER_ID}").status == 404


def test_long_lists_have_pages_both_ways(visitor):
    visitor.create_orders(*(f"SO-{count:04}" for count in range(120)))
    visitor.login()

    def page(query=""):
        links = re.findall(r'href="\?(before|after)=(\d+)"', visitor.text(f"/web/orders{query}"))
        return visitor.keys(f"/web/orders{query}"), dict(links)

    def orders(first, last):
        return [f"SO-{count:04}" for count in range(first, last - 1, -1)]

    first, links = page()
    assert (first, set(links)) == (orders(119, 70), {"before"})
    second, links = page(f"?before={links['before']}")
    assert (second, set(links)) == (orders(69, 20), {"before", "after"})
    back, newest = page(f"?after={links['after']}")
    assert (back, set(newest)) == (first, {"before"}), "none is newer than these 50"
    third, links = page(f"?before={links['before']}")
    assert (third, set(links)) == (orders(19, 0), {"after"})


def test_search_finds_by_the_beginning_by_number_and_goes_to_the_only_one(stored_visitor):
    visitor = stored_visitor
    visitor.create_orders("SO-1", "SO-10", "SO_1", "so%")
    visitor.login()
    assert visitor.get("/web/search?q=SO-10").headers["location"] == "/web/order?id=SO-10"
    assert visitor.keys("/web/search?q=SO-1") == ["SO-10", "SO-1"]
    assert visitor.keys("/web/search?q=3") == ["SO_1"]
    assert "No results" in visitor.text("/web/search?q=%25")
    assert visitor.text("/web/search")


def test_odd_identifiers_and_odd_texts_are_shown_as_text(visitor):
    hidden = "\x1b[2J\x9b\u202eevil\u2066\x07"
    visitor.done("tender.create", {**GOOD["tender.create"], "pickup_city": hidden})
    visitor.login()
    page = visitor.text("/web/tender?id=T-1")
    assert "evil" in page
    assert not set(hidden) & set(page) - set("evil[2J")
    for order in ("a/b?c=d&e#f", "ü ö", "x" * 300, "<b>", '"'):
        visitor.create_orders(order)
        link = re.search(r'/web/order\?[^"]+', visitor.text("/web/orders"))[0]
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
    visitor.call("order.create", {**ORDER, "currency": 7, "vehicle_type": "secret-body"})
    visitor.call("order.status", {"data": [{"order_id": "nobody"}, {"order_id": "else"}]})
    visitor.send("POST", "/tmsapi/createOrder", b"{", {"authorization": "Bearer secret-token"})
    visitor.send("GET", "/tmsapi/getOrders", b"", AUTHORISED)
    visitor.send_body("order.delete", b"{")
    visitor.login()
    page = visitor.text("/web/calls")
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
    assert "<b>list</b>" not in visitor.text("/web/calls?problems=1")


def test_a_party_sees_its_own_records_and_calls_only_until_its_token_is_revoked(database):
    with pages_of(database) as visitor, TokenAdmin(database) as admin:
        arrive(visitor)
        _, secret = admin.add("ACME", name="acme")
        theirs = {"authorization": f"Bearer {secret}"}
        order = encode({**ORDER, "sender_id": "ACME", "receiver_id": "OTHER", "order_id": "SO-mine"})
        assert visitor.send("POST", "/tmsapi/createOrder", order, theirs).status == 200
        assert visitor.login(secret).status == 303
        overview = visitor.text("/")
        assert re.findall(r"<strong>(\d+)</strong>", overview) == ["0", "0", "0", "1", "0"]
        assert "SO-mine" in overview
        assert "2026-0417" not in overview + visitor.text("/web/calls")
        assert "T-2026" not in visitor.text("/web/tenders")
        assert "No results" in visitor.text("/web/search?q=SO-2026")
        for path, status in (
            (f"order?id={ORDER_ID}", 404),
            (f"tender?id={TENDER_ID}", 404),
            ("order?id=SO-mine", 200),
        ):
            assert visitor.get(f"/web/{path}").status == status
        admin.revoke("acme")
        assert "Latest orders" not in visitor.text("/")


def test_programs_get_their_own_answers_on_every_path_that_is_not_a_page(visitor):
    for method, path, headers, status in (
        ("GET", "/", AUTHORISED, 405),
        ("POST", "/", AUTHORISED, 405),
        ("POST", "/docs", {}, 401),
        ("GET", "/web/nowhere", AUTHORISED, 405),
        ("DELETE", "/web/orders", {}, 401),
    ):
        assert visitor.send(method, path, b"", headers).status == status, (method, path)


def test_the_manual_holds_every_operation_every_field_and_every_error(visitor):
    page = visitor.text("/docs")
    for operation in WRITES:
        assert f'id="{operation.name}"' in page
        assert operation.path in page
        assert all(f"<code>{field.name}" in page for _, field in operation.record.walk())
    for word in ("Not authorised.", "Unknown method.", "is required", "data[1]", ORDER_ID, "23800.00"):
        assert word in page, word


def test_many_failing_logins_at_once_are_turned_away_and_a_right_one_is_not(tmp_path):
    limit = WrongTokenLimit(clock=lambda: 1000.0)
    while limit.wait("", "wrong") is not None:
        pass
    with pages_of(tmp_path / "exchange.db", wrong_tokens=limit) as visitor:
        assert [visitor.login(token).status for token in ("wrong", TOKEN)] == [429, 303]

"""The pages in a real browser, on a real server: they work, stay calm, ask nobody else, and show text as text."""

import json

import pytest
from browser import chromium, login, look, next_page, violations
from exchange_calls import OverSocket
from exchange_process import TOKEN, exchange
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from loadsheet.contract import BY_NAME, example_body, example_steps

SCREENS = [(390, 844), (1440, 900), (2560, 1440)]  # width, height
PATHS = ["/", "/?wall=1", "/web/orders", "/web/tenders", "/web/calls", "/web/search?q=SO", "/docs"]
PATHS += ["/web/order?id=SO-2026-0417", "/web/tender?id=T-2026-0093"]
PAYLOAD = "<script>hit()</script><img src=x onerror=hit()>\"'><svg/onload=hit()>{{7*7}}</textarea>"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with exchange(tmp_path_factory.mktemp("faces") / "exchange.db") as serving:
        caller = OverSocket(serving.url)
        for name in example_steps():
            if not name.endswith("delete"):
                caller.done(name, example_body(BY_NAME[name]))
        caller.call("order.delete", {"order_id": "nobody"})
        yield serving.url


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def inside(url, browser):
    browser.delete_all_cookies()
    login(browser, url, TOKEN)
    browser.get_log("browser")
    browser.get_log("performance")
    return browser


def complaints(driver):
    return [entry for entry in driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]


def requested(driver):
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def body(driver):
    return driver.find_element(By.TAG_NAME, "body").text


@pytest.mark.sweep
def test_a_person_logs_in_looks_around_and_leaves_with_the_keyboard_alone_if_need_be(url, browser):
    browser.delete_all_cookies()
    login(browser, url, "wrong-token")
    assert "not authorised" in body(browser)
    browser.get(url)
    with next_page(browser):
        browser.switch_to.active_element.send_keys(TOKEN, Keys.ENTER)
    assert "Latest orders" in body(browser)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the content"
    for name in ("Tenders", "Orders", "Calls", "Docs", "Overview"):
        with next_page(browser):
            browser.find_element(By.LINK_TEXT, name).click()
        assert browser.find_element(By.CSS_SELECTOR, "[aria-current]").text == name
    with next_page(browser):
        browser.find_element(By.PARTIAL_LINK_TEXT, "SO-2026-0417").click()
    assert "seal 88120" in body(browser)
    with next_page(browser):
        browser.find_element(By.NAME, "q").send_keys("T-2026", Keys.ENTER)
    with next_page(browser):
        browser.find_element(By.PARTIAL_LINK_TEXT, "T-2026-0093").click()
    assert "1840.00" in body(browser)
    with next_page(browser):
        browser.find_element(By.CSS_SELECTOR, ".leave button").click()
    browser.get(url + "/web/orders")
    assert "Log in" in body(browser)


@pytest.mark.sweep
def test_every_page_fits_each_screen_can_be_read_and_asks_no_other_host(url, inside):
    found = []
    for path in PATHS:
        allowed = ["meta-refresh"] if "wall" in path else []  # nobody reads on there
        inside.get(url + path)
        for width, height in SCREENS:
            look(inside, width, height)
            assert inside.execute_script("return document.documentElement.scrollWidth <= innerWidth"), (path, width)
        for dark in (False, True):
            look(inside, 1440, 900, dark=dark)
            found += [(path, dark, one) for one in violations(inside) if one[0] not in allowed]
    assert found == []
    asked = set(requested(inside))
    assert {one for one in asked if not one.startswith((url + "/", "data:"))} == set()
    assert {url + path for path in (*PATHS, "/web/style.css")} <= asked
    assert complaints(inside) == []


def poisoned(value, keep):
    """Every text of a record, but for those that have to have a form, made a payload."""
    if isinstance(value, dict):
        return {name: inner if name in keep else poisoned(inner, keep) for name, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(inner, keep) for inner in value]
    return PAYLOAD if isinstance(value, str) else value


HITS = "return [hits, document.querySelectorAll('main img, main script, main svg').length]"


@pytest.mark.journey
def test_markup_in_any_text_field_stays_text(url, inside):
    caller = OverSocket(url)
    for name in example_steps():
        if name.endswith("delete"):
            continue
        operation = BY_NAME[name]
        keep = {
            field.name
            for _, field in operation.record.walk()
            if field.kind not in ("String", "String/Numeric", "Object", "Array") or field.closed_by == "decision_words"
        }
        caller.done(name, poisoned(example_body(operation), keep))
    caller.call("order.delete", {"order_id": PAYLOAD + "?"})
    caller.call("order.update", {"order_id": PAYLOAD, PAYLOAD: 1})
    source = {"source": "window.hits = 0; window.hit = () => hits++;"}
    inside.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
    for subject in ("order", "tender"):
        inside.get(f"{url}/web/{subject}s")
        with next_page(inside):
            inside.find_element(By.PARTIAL_LINK_TEXT, "<script>").click()
        assert body(inside).count(PAYLOAD) > 10
        assert inside.execute_script(HITS) == [0, 0]
    script = "%3Cscript%3Ehit()%3C/script%3E"
    for path in ("/", "/web/calls", f"/web/search?q={script}", f"/web/order?id={script}"):
        inside.get(url + path)
        assert "<script>" in body(inside) or "Not found" in body(inside)
        assert inside.execute_script(HITS) == [0, 0]
    assert [one for one in complaints(inside) if "404" not in one["message"]] == []

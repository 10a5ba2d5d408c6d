"""The pages in a real browser: search, filters and anchors work, nothing is fetched, text stays text, axe finds nothing."""

import base64
import json
import re
import subprocess

import pytest
from browser import chromium, look, violations
from ledgers import document, order, unreadable
from run_with_every_outcome import every_outcome, rows
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from shared_ledger import a_fleet

from loadsheet.problems import Problem, Where
from loadsheet.reconcile import reconcile_run
from loadsheet.reports.html_pages import cluster_as_shown, write_index
from loadsheet.settings import Settings

SIZES = [(390, 844), (1280, 900), (2560, 1440)]
PAYLOADS = (
    "<script>hit()</script><img src=x onerror=hit()>\"'><svg/onload=hit()>{{7*7}}</td></article></details></script></style>",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "javascript:hit()//",
    "&lt;b&gt; &amp; ]]> <!-- -->",
)
POISONED_NAME = f"{PAYLOADS[0].replace('/', '')}.csv"


@pytest.fixture(scope="module")
def outbox(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outbox")
    cities = {number: payload for number, payload in enumerate(PAYLOADS, start=1) if payload[0] != "\t"}
    poisoned = [
        document("order.create", order(50 + number, order_id=payload), rows(50 + 2 * number, payload, payload))
        for number, payload in enumerate(PAYLOADS)
    ]
    with every_outcome(tmp_path_factory.mktemp("state"), more=poisoned, cities=cities) as ended:
        why = Problem("R201", Where(POISONED_NAME), values={"reason": PAYLOADS[0]})
        ended.ledger.set_aside(ended.run, unreadable(POISONED_NAME, why))
        ended.write(folder)
        exceptions = reconcile_run(ended.ledger.queries, ended.listings, ended.run, Settings(outbox=folder)).exceptions
        workers = [one._replace(name=payload, doing=(payload,)) for one in a_fleet().workers for payload in PAYLOADS]
        fleet = cluster_as_shown(a_fleet(workers=workers), "")
        write_index(Settings(outbox=folder), ended.ledger.queries, ended.run, exceptions, fleet=fleet)
    return folder


@pytest.fixture(scope="module")
def run_page(outbox):
    (folder,) = (path for path in outbox.iterdir() if path.is_dir())
    return (folder / "run.html").as_uri()


@pytest.fixture(scope="module")
def pages(outbox, run_page):
    """The addresses of both pages."""
    return run_page, (outbox / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        source = "window.hits = 0; window.hit = () => window.hits++;"
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        yield driver


def open_page(browser, address, size=(1280, 900), *, dark=False, unfolded=False):
    look(browser, *size, dark=dark)
    browser.get("about:blank")  # else a page with another anchor is not loaded anew
    browser.get(address)
    if unfolded:
        browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")


@pytest.fixture
def page(browser, run_page):
    open_page(browser, run_page)
    browser.get_log("browser")
    browser.get_log("performance")
    return browser


def shown(driver):
    return [one.get_attribute("id") for one in driver.find_elements(By.CSS_SELECTOR, ".document") if one.is_displayed()]


def only(driver, *anchors):
    """Wait until just these documents are shown."""
    WebDriverWait(driver, 20).until(lambda browser: shown(browser) == list(anchors))


def target(driver):
    return driver.execute_script("return document.querySelector(':target').id")


def test_the_search_narrows_down_while_one_types(page):
    assert shown(page) == [], "folded at first"
    everything = [one.get_attribute("id") for one in page.find_elements(By.CSS_SELECTOR, ".document")]
    count = page.find_element(By.ID, "count")
    assert count.text == f"{len(everything)} of {len(everything)} found"
    box = page.find_element(By.ID, "find")
    box.send_keys("zwölf")
    only(page, "A-00020")
    assert count.text == f"1 of {len(everything)} found"
    box.send_keys(" nowhere")
    only(page)
    page.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    only(page, *everything)
    apply = "arguments[0].dataset.beyond = arguments[1]; document.querySelector('.filters').dispatchEvent(new Event('input'))"
    page.execute_script(apply, count, 14657)
    assert count.text.endswith(" found; 14,657 more are only in the workbook")
    page.execute_script(apply, count, 0)


def test_a_document_is_found_by_its_key_in_any_spelling_and_by_its_number_at_the_exchange(page):
    box = page.find_element(By.ID, "find")
    for text, anchor in (
        ("A-00020", "A-00020"),
        ("8800006", "A-00006"),
        ("a00020", "A-00020"),
        ("A-00099", "A-00099"),
        ("a_00020", "A-00020"),
    ):
        box.clear()
        box.send_keys(text)
        only(page, anchor)


def test_the_filters_work_alone_and_together(page):
    outcome, file = (Select(page.find_element(By.ID, name)) for name in ("outcome", "file"))
    outcome.select_by_value("refused")
    only(page, "A-00002")
    file.select_by_value("lines.csv")
    only(page)
    outcome.select_by_value("")
    only(page, "A-00099")
    file.select_by_value("")
    mapping = Select(page.find_element(By.ID, "mapping"))
    mapping.select_by_value("lines")
    only(page, "A-00099")
    mapping.select_by_value("")
    page.find_element(By.CSS_SELECTOR, "[data-choose='value difference']").click()
    only(page, "A-00004")
    assert page.current_url.endswith("#orders")


def test_an_anchor_leads_to_its_document_and_opens_it(browser, run_page):
    open_page(browser, f"{run_page}#A-00004")
    article = browser.find_element(By.ID, "A-00004")
    assert browser.execute_script(
        "const box = arguments[0].getBoundingClientRect(); return box.top >= 0 && box.top < innerHeight", article
    )
    assert article.find_element(By.TAG_NAME, "details").get_attribute("open")
    lines = {
        line.find_element(By.TAG_NAME, "th").text: [cell.text for cell in line.find_elements(By.TAG_NAME, "td")]
        for line in article.find_elements(By.CSS_SELECTOR, "details[open] tbody tr")
    }
    assert lines["total_weight"] == ["200,25\nD8 · Gewicht\n12,5\nD9 · Gewicht", "416.5", "1 differs"]
    browser.find_element(By.CSS_SELECTOR, "#A-00002 h4 a").click()
    assert target(browser) == "A-00002"
    browser.find_element(By.LINK_TEXT, "acme_2026-03-04.xlsx:Aufträge!D20").click()  # a cause, to its document
    assert target(browser) == "A-00020"


def test_nothing_is_fetched_and_the_browser_reports_no_error(page, pages):
    for address in pages:
        page.get(address)
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    fetched = {one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"}
    assert {one for one in fetched if not one.startswith("data:")} == set(pages)
    assert page.get_log("browser") == []


def test_the_policy_runs_nothing_that_is_not_the_pages_own(page):
    page.execute_script(
        "const one = document.createElement('script'); one.textContent = 'hit()'; document.body.append(one);"
        "const img = document.createElement('img'); img.src = 'x'; img.setAttribute('onerror', 'hit()'); document.body.append(img);"
    )
    assert page.execute_script("return hits") == 0
    assert any("Content Security Policy" in entry["message"] for entry in page.get_log("browser"))


def test_markup_and_formulas_stay_text(page):
    visible_text = page.find_element(By.TAG_NAME, "main").get_property("textContent")
    for payload in (*PAYLOADS, POISONED_NAME):
        assert payload in visible_text
    found = page.execute_script(
        "return [hits, document.querySelectorAll('main img, main script, main svg:not(.chart), main style').length,"
        " [...document.links].filter(one => one.protocol === 'javascript:').length]"
    )
    assert found == [0, 0, 0]


@pytest.mark.sweep
@pytest.mark.parametrize(("dark", "lightness"), [(False, range(601, 766)), (True, range(150))], ids=["light", "dark"])
def test_axe_finds_nothing_in_light_and_dark(browser, pages, dark, lightness):
    for address in pages:
        open_page(browser, address, dark=dark, unfolded=True)
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, re.findall(r"\d+", ground)[:3])) in lightness
        assert violations(browser) == []


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_page_fits_its_screen(browser, pages, size):
    for address in pages:
        open_page(browser, address, size, unfolded=True)
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth"), address


def test_the_page_can_be_used_from_the_keyboard(page):
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert page.switch_to.active_element.text == "Skip to the content"
    page.find_element(By.CSS_SELECTOR, "details.documents > summary").send_keys(Keys.ENTER)
    summary = page.find_element(By.CSS_SELECTOR, "#A-00003 summary")
    summary.send_keys(Keys.ENTER)
    assert page.find_element(By.CSS_SELECTOR, "#A-00003 details").get_attribute("open")


def test_everything_is_there_without_script(browser, run_page):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page(browser, run_page)
        assert not browser.find_element(By.CSS_SELECTOR, ".filters").is_displayed()
        assert len(browser.find_elements(By.CSS_SELECTOR, ".document")) == 14
        browser.find_element(By.CSS_SELECTOR, "details.documents > summary").click()
        assert "differs" in browser.find_element(By.ID, "A-00004").text
        browser.find_element(By.CSS_SELECTOR, "#A-00003 summary").click()
        assert "total_weight" in browser.find_element(By.ID, "A-00003").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_print_is_short_and_shows_files_outcomes_and_totals_although_they_are_folded(page, tmp_path):
    printed = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    (tmp_path / "run.pdf").write_bytes(printed)
    done = subprocess.run(["pdftotext", "-layout", str(tmp_path / "run.pdf"), "-"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("needs pdftotext")
    visible_text = done.stdout.decode()
    assert "Acknowledged" in visible_text, "the control totals"
    assert "the sender has to fix it" in visible_text, "the outcomes"
    assert "Show all" not in visible_text
    assert visible_text.count("\f") <= 4, "pages"

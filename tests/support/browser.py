"""A headless Chromium that looks at a page as a person would, and reports what a page must not do, and what axe finds."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@contextmanager
def chromium(profile) -> Iterator[webdriver.Chrome]:
    """A browser with a profile folder of its own; skips the test where there is none, but never in CI."""
    if not (CHROMIUM and DRIVER):
        assert not os.environ.get("CI"), "CI must have chromium and chromedriver"
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def login(driver, url, token):
    """Log in with a token through the form."""
    driver.get(url + "/")
    driver.find_element(By.NAME, "token").send_keys(token)
    with next_page(driver):
        driver.find_element(By.CSS_SELECTOR, "form.login button").click()


@contextmanager
def next_page(driver) -> Iterator[None]:
    """What is done inside leads to another page: be there when it ends, however long the server takes.

    A mark on the window of the old page distinguishes it from the new one. An element of the old page cannot: asking for it
    while its page unloads raises errors of the driver under several names.
    """
    driver.execute_script("window.old = true")
    yield
    there = "return !window.old && document.readyState === 'complete'"
    waiting = WebDriverWait(driver, 20, ignored_exceptions=[WebDriverException])
    waiting.until(lambda driver: driver.execute_script(there))


def look(driver, width, height, *, dark=False):
    """Set the window's size and the colour scheme that the page is asked for."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def violations(driver):
    """Each rule that is broken, with the elements that break it; none if the page is clean."""
    driver.set_script_timeout(120)
    driver.execute_script(_axe())
    result = driver.execute_async_script("axe.run(document, {resultTypes: ['violations']}).then(arguments[0])")
    return [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in result["violations"]]


@cache
def _axe():
    return (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")

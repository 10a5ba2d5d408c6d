"""A headless Chromium that looks at a page as a person would, and reports what a page must not do."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import staleness_of
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
    button = driver.find_element(By.CSS_SELECTOR, "form.login button")
    button.click()
    WebDriverWait(driver, 20).until(staleness_of(button))  # a failed login takes its time


def look(driver, width, height, *, dark=False):
    """Set the window's size and the colour scheme that the page is asked for."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

"""What axe says of the page that a browser shows: the rules of WCAG 2.1 A and AA and axe's own best practices."""

from functools import cache
from importlib import resources


def violations(driver):
    """Each rule that is broken, with the elements that break it; none if the page is clean."""
    driver.set_script_timeout(120)
    driver.execute_script(_axe())
    told = driver.execute_async_script("axe.run(document, {resultTypes: ['violations']}).then(arguments[0])")
    return [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in told["violations"]]


@cache
def _axe():
    return (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")

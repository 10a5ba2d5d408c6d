"""What the sweeps tried is told at the end, in whatever processes they ran: `record_property("kills", 312)`. And the object store."""

import os
from collections import Counter

import pytest
from hypothesis import settings

if not os.environ.get("CI"):  # where it is set, hypothesis has no deadline either
    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")


@pytest.fixture(scope="module")
def store():
    """A real S3-compatible server."""
    from buckets import running_store  # noqa: PLC0415 (its client takes a second to load: only for those who use it)

    with running_store() as running:
        yield running


@pytest.fixture
def bucket(store):
    """A bucket of one test in it."""
    return store.bucket()


def pytest_terminal_summary(terminalreporter):
    """A line for each sweep that counted something, and the sums."""
    done = [report for report in terminalreporter.getreports("passed") if report.user_properties]
    if not done:
        return
    terminalreporter.section("what the sweeps tried")
    total = Counter()
    for report in done:
        told = ", ".join(f"{value:,} {name}" for name, value in report.user_properties)
        terminalreporter.line(f"{report.nodeid.rpartition('::')[2]}: {told}")
        total.update(dict(report.user_properties))
    terminalreporter.line("in all: " + ", ".join(f"{count:,} {name}" for name, count in total.items()))

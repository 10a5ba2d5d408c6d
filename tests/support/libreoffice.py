"""LibreOffice as a second program: converts a workbook, in a profile of its own."""

import os
import shutil
import subprocess

import pytest

_START_FAILED = "uno::RuntimeException"  # its start loses a race with itself now and then; nothing was converted then


def convert(path, form, folder):
    """Have LibreOffice save a workbook as `form` (`xlsx`, `ods`, `csv:FILTER`) and return the new file."""
    (saved,) = convert_all([path], form, folder)
    return saved


def convert_all(paths, form, folder, *, calculate=False):
    """The same for several in one start of the program, as names differ; returns the new files in that order.

    `calculate` makes it calculate every formula anew. Where LibreOffice is missing: a skip, in CI a failure.
    """
    made, profile = folder / "made", folder / "profile"
    (profile / "user").mkdir(parents=True, exist_ok=True)
    if calculate:
        (profile / "user" / "registrymodifications.xcu").write_text(_ALWAYS_CALCULATE, encoding="utf-8")
    words = [_program(), f"-env:UserInstallation={profile.as_uri()}", "--headless", "--convert-to", form]
    for attempt in range(2):
        done = subprocess.run(
            [*words, "--outdir", made, *paths], check=False, capture_output=True, text=True, timeout=150
        )
        if attempt or _START_FAILED not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    saved = {one.stem: one for one in made.iterdir()}
    return [saved[path.stem] for path in paths]


def _program():
    found = shutil.which("soffice")
    if found is None and not os.environ.get("CI"):
        pytest.skip("LibreOffice is not installed here; CI has it")
    assert found, "CI must have LibreOffice"
    return found


_ALWAYS_CALCULATE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop></item>
</oor:items>"""

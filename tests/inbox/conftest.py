"""Inboxes over empty folders, a machine whose clock a test moves, and a user who may not read and move everything."""

import codecs
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from inbox_files import Machine, settings_in

NOBODY = 65_534


@pytest.fixture
def place(tmp_path):
    return settings_in(tmp_path)


@pytest.fixture
def apart(tmp_path, other_volume):
    """Settings whose inbox lies on another volume than the rest."""
    (tmp_path / "apart").mkdir()
    return settings_in(tmp_path / "apart", inbox=other_volume)


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def ordinary():
    """Settings for an ordinary user: the superuser may read and move everything."""
    top = Path(tempfile.mkdtemp())
    (top / "inbox").mkdir()
    codecs.lookup("ascii")  # loaded from files that only the superuser may read
    superuser = os.geteuid() == 0
    if superuser:
        for path in (top, top / "inbox"):
            os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield settings_in(top)
    if superuser:
        os.seteuid(0)
    shutil.rmtree(top)

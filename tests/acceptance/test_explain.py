"""Every problem can be looked up by its code."""

import re

import pytest
from command_in_process import loadsheet

from loadsheet.cli.explain import explanations
from loadsheet.problems import CATALOGUE


def test_every_problem_is_explained_under_its_title_with_what_to_do():
    pages = explanations()
    assert {code: title for code, (title, _) in pages.items()} == {code: kind.title for code, kind in CATALOGUE.items()}
    assert [code for code, (_, text) in pages.items() if not re.search(r"^To do: .", text, re.MULTILINE)] == []
    assert [code for code, (_, text) in pages.items() if text.index("To do: ") < 20] == [], "the cause comes first"


@pytest.mark.parametrize("code", ["C306", "c306"])
def test_a_code_is_explained(tmp_path, code):
    done = loadsheet(tmp_path, "explain", code)
    assert (done.returncode, done.stdout.startswith("C306 Not in the list\n\n")) == (0, True)
    assert "To do: use a value of the list." in done.stdout


def test_an_unknown_code_is_a_usage_error(tmp_path):
    done = loadsheet(tmp_path, "explain", "Z999")
    assert (done.returncode, "there is no problem Z999" in done.stderr) == (2, True)

"""`tests/failure_modes.md` is complete: each mode stands there once, with tests that exist or with the reason why there is none."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
COUNTS = {"A": 32, "M": 31, "L": 25, "D": 44, "X": 26}
MODES = re.findall(
    r"^([A-Z][0-9]+)\b(.*?)(?=^[A-Z][0-9]+\b|^```)",
    (TESTS / "failure_modes.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


def test_every_failure_mode_stands_in_the_table_once():
    numbered = [f"{kind}{number}" for kind, last in COUNTS.items() for number in range(1, last + 1)]
    assert [mode for mode, _ in MODES] == numbered


def test_every_failure_mode_names_tests_that_exist_or_says_why_not():
    texts = {path.relative_to(TESTS).as_posix(): path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    there = {
        *texts,
        *(test for text in texts.values() for test in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)),
    }
    named = {mode: set(re.findall(r"\b(?:\w+/)?test_\w+(?:\.py)?", text)) for mode, text in MODES}
    assert {mode: missing for mode, tests in named.items() if (missing := tests - there)} == {}
    assert [mode for mode, text in MODES if not named[mode] and "Not:" not in text] == []

"""`tests/promises.md` is true: what it quotes stands in the documents, and the tests it names exist.

An entry is a promise in plain words, quotations of the document (`>`) and the tests that fail without it (`-`). A test
that runs only behind a marker is named as `file::test (sweep)`.
"""

import ast
import difflib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
INDEX = TESTS / "promises.md"
DOCUMENTS = (
    "README.md",
    "docs/commands.md",
    "docs/fix-files.md",
    "docs/delivery.md",
    "mappings/README.md",
    "docs/nightly.md",
    "docs/reading.md",
    "docs/backup-and-upgrade.md",
    "docs/capsules.md",
    "docs/exchange.md",
    "docs/pace.md",
    "docs/reports.md",
)
TESTED_PAGES = tuple(
    sorted(path.relative_to(TESTS.parent).as_posix() for path in (TESTS.parent / "docs/mapping").glob("*.md"))
)
"""Every section has examples that `mapping_tools/test_reference.py` runs; some promise more."""
WITHOUT_PROMISES = {"Guides"}
HIDING = ("sweep", "alone")  # markers of tests that `make test` leaves out


class Entry(NamedTuple):
    line: int
    document: str
    section: str
    promise: str
    quotations: tuple[str, ...]
    tests: tuple[str, ...]


@cache
def entries():
    found, document, section = [], "", ""
    for number, text in enumerate(INDEX.read_text(encoding="utf-8").splitlines(), start=1):
        kind, _, rest = text.partition(" ")
        if kind == "#":
            document = rest
        elif kind == "##":
            section = rest
        elif kind == ">":
            found[-1] = found[-1]._replace(quotations=(*found[-1].quotations, rest))
        elif kind == "-":
            found[-1] = found[-1]._replace(tests=(*found[-1].tests, rest))
        elif text and document:
            found.append(Entry(number, document, section, text, (), ()))
    return found


def sections(document):
    """The text under each heading, in one line each."""
    text = (TESTS.parent / document).read_text(encoding="utf-8")
    parts = re.split(
        r"^#{1,4} (.+)$",
        re.sub(r"^```.*?^```", lambda block: block[0].replace("#", ""), text, flags=re.MULTILINE | re.DOTALL),
        flags=re.MULTILINE,
    )
    return {heading: " ".join(body.split()) for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def defined_in(file):
    """The names of the tests of a file, and whether `make test` leaves each out."""
    if not (TESTS / file).is_file():
        return {}
    body = ast.parse((TESTS / file).read_text(encoding="utf-8")).body
    marks = [text for text in map(ast.unparse, body) if text.startswith("pytestmark")]
    tests = [
        one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_")
    ]
    return {
        test.name: any(
            f"mark.{mark}" in text for mark in HIDING for text in (*map(ast.unparse, test.decorator_list), *marks)
        )
        for test in tests
    }


def nearest(name):
    """Where a test of that name or of the most similar one is."""
    everywhere = {test: path for path in TESTS.rglob("test_*.py") for test in defined_in(path.relative_to(TESTS))}
    found = difflib.get_close_matches(name, everywhere, n=1, cutoff=0.6)
    return f"; the nearest is {everywhere[found[0]].relative_to(TESTS)}::{found[0]}" if found else ""


def test_every_quotation_is_in_its_section():
    wrong = []
    for entry in entries():
        text, place = sections(entry.document).get(entry.section, ""), f"{INDEX.name}:{entry.line}"
        missing = [quoted for quoted in entry.quotations or ("",) if not quoted or " ".join(quoted.split()) not in text]
        wrong += [f"{place}: {entry.document}, {entry.section}, does not say: {quoted}" for quoted in missing]
    assert not wrong, "quote the new words, or remove the promise:\n" + "\n".join(wrong)


def test_every_named_test_exists():
    wrong = []
    for entry, named in [(one, test) for one in entries() for test in one.tests]:
        (test, _, marked), place = named.partition(" ("), f"{INDEX.name}:{entry.line}"
        file, _, name = test.partition("::")
        hidden = defined_in(file).get(name)
        if hidden is None:
            wrong.append(f"{place}: there is no {test}{nearest(name)}")
        elif hidden != bool(marked):
            state = "behind a marker: add" if hidden else "not behind a marker: remove"
            wrong.append(f"{place}: {test} is {state} (sweep)")
    assert not wrong, "name the tests that hold these promises now:\n" + "\n".join(wrong)


def test_every_promise_has_a_test_that_always_runs():
    assert [entry.promise for entry in entries() if all(test.endswith(")") for test in entry.tests)] == []
    assert len({entry.promise for entry in entries()}) == len(entries())


def test_every_section_that_promises_something_has_an_entry():
    there, tested = (
        {(document, heading) for document in documents for heading, body in sections(document).items() if body}
        for documents in (DOCUMENTS, TESTED_PAGES)
    )
    indexed = {(entry.document, entry.section) for entry in entries()}
    introductions = {("docs/nightly.md", "Every night, unattended")}
    assert there - indexed - introductions == {("README.md", heading) for heading in WITHOUT_PROMISES}
    assert indexed <= there | tested

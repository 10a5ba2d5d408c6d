"""The documentation is true: its commands and settings exist, its examples load, its links lead somewhere, and the site holds every page.

The site itself is built by `make docs`, with Zensical. These tests need only the pages that it is made of.
"""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
from ruamel.yaml import YAML

from loadsheet.cli import loadsheet
from loadsheet.languages import words_in
from loadsheet.problems import CATALOGUE
from loadsheet.reconcile import FATES
from loadsheet.settings import every_field

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "mappings" / "README.md", *sorted(DOCS.rglob("*.md"))]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}
PICTURES = sorted((DOCS / "pictures").iterdir())
SITE = tomllib.loads((DOCS / "zensical.toml").read_text(encoding="utf-8"))["project"]
BLOCK = re.compile(r"^( *)```(\w*).*\n((?:.*\n)*?)\1```$", re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The module that makes the pages of the site, and those pages by their place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / ".ci")
        import site_pages

        folder = tmp_path_factory.mktemp("site") / "site"
        site_pages.prepare(folder)
    pages = folder / "pages"
    return site_pages, {
        path.relative_to(pages).as_posix(): path.read_text(encoding="utf-8") for path in pages.rglob("*.md")
    }


def listed(nav):
    for entry in nav:
        for one in entry.values() if isinstance(entry, dict) else [entry]:
            yield from listed(one) if isinstance(one, list) else [one]


def test_the_site_lists_every_page_once(site):
    _, pages = site
    assert sorted(listed(SITE["nav"])) == sorted(pages)


def test_every_page_can_be_reached_from_the_first_one():
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\(([^)#:]+)", TEXTS["docs/index.md"])}
    assert set(DOCS.glob("*.md")) - linked == {DOCS / "index.md"}
    assert (DOCS / "index.md").relative_to(ROOT).as_posix() in TEXTS["README.md"]


def links(text):
    """Target and anchor of each link and picture of a page."""
    return re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", BLOCK.sub("", text))


def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(site):
    site_pages, _ = site
    wrong = []
    for page, text in TEXTS.items():
        for target, anchor in links(text):
            there = ((ROOT / page).parent / target).resolve() if target else ROOT / page
            if not there.exists():
                wrong.append(f"{page}: {target}")
            elif anchor and anchor not in site_pages.anchors(there.read_text(encoding="utf-8")):
                wrong.append(f"{page}: {target}#{anchor}")
    assert wrong == []


def test_every_link_of_the_site_leads_to_a_page_of_the_site(site):
    _, pages = site
    places = {*pages, *(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*") if path.suffix != ".md")}
    wrong = []
    for page, text in pages.items():
        for target, anchor in links(text):
            there = (DOCS / page).parent.joinpath(target).resolve().relative_to(DOCS).as_posix() if target else page
            if there not in places:
                wrong.append(f"{page}: {target}")
            elif anchor and f"{{#{anchor}}}" not in pages[there]:
                wrong.append(f"{page}: {target}#{anchor}")
    assert wrong == []


def test_every_source_file_that_a_page_names_exists():
    examples = ("docs/mapping/", "docs/cookbook/")  # they speak of mappings that the reader makes
    texts = [text for page, text in TEXTS.items() if not page.startswith(examples)]
    named = {path for text in texts for path in re.findall(r"`((?:src|tests|mappings)/[\w./-]+)`", text)}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    assert list((ROOT / "src").rglob("README*")) == [], "pages for people belong into docs"


def test_every_problem_has_its_code_as_anchor(site):
    _, pages = site
    found = re.findall(r"^### (\w+) .+ \{#(\w+)\}$", pages["problems.md"], re.MULTILINE)
    assert dict(found) == {code: code for code in CATALOGUE}


def test_the_site_has_every_option(site):
    _, pages = site
    for section in pages["options.md"].split("\n## ")[1:]:
        command, words = command_of(section.splitlines()[0].split()[1:])
        missing = [
            one.opts[0] for one in command.params if isinstance(one, click.Option) and one.opts[0] not in section
        ]
        assert (words, missing) == ([], [])
    assert "## loadsheet mapping suggest\n" in pages["options.md"]


def command_of(words):
    """The command that words name, and the words after its name."""
    command = loadsheet
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words[0])
        if inner is None:
            raise click.UsageError(f"no command {words[0]}")
        command, words = inner, words[1:]
    return command, words


def commands_in(text):
    """What a page calls: lines of its blocks, and code in its sentences."""
    for _, kind, block in BLOCK.findall(text):
        if kind in {"", "sh", "console"}:
            lines = [line.strip().removeprefix("$ ") for line in block.splitlines()]
            yield from (line for line in lines if re.match(r"(\w+=\S+ )*(\.venv/bin/)?loadsheet [a-z-]", line))
    yield from re.findall(r"`((?:[A-Z_]+=\S+ )?loadsheet [a-z-][^`]*)`", BLOCK.sub("", text))


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_of_a_page_exists_with_its_options(page):
    wrong = []
    for line in commands_in(TEXTS[page]):
        words = shlex.split(re.sub(r" [|&>] ?.*", "", line), comments=True)
        words = words[[word.endswith("loadsheet") for word in words].index(True) + 1 :]
        try:
            command, rest = command_of(words)
            command.make_parser(click.Context(command)).parse_args([word for word in rest if word != "..."])
        except click.UsageError as error:
            wrong.append(f"{line}: {error.format_message()}")
    assert wrong == []


def test_the_test_of_commands_finds_mistakes():
    (mistaken,) = commands_in("`loadsheet run --no-such-option`")
    command, rest = command_of(shlex.split(mistaken)[1:])
    with pytest.raises(click.NoSuchOption):
        command.make_parser(click.Context(command)).parse_args(rest)
    with pytest.raises(click.UsageError):
        command_of(["rum"])


@pytest.mark.parametrize(
    "page", [page for page in TEXTS if "cookbook/" not in page]
)  # test_cookbook.py compares its excerpts
def test_every_example_of_settings_and_mappings_loads(page):
    known = {".".join(path) for path, _ in every_field()}
    for _, kind, block in BLOCK.findall(TEXTS[page]):
        if kind == "yaml":
            YAML(typ="safe").load(block)
        if kind == "toml" and "[project]" not in block:  # of a package that extends loadsheet
            assert set(names_in(tomllib.loads(block))) <= known | {path.partition(".")[0] for path in known}


def names_in(table, above=""):
    """The settings of a table of TOML, without the names of shippers."""
    for name, value in table.items():
        if name == "shippers":
            for shipper in value.values():
                yield from names_in(shipper)
        elif isinstance(value, dict) and not above:
            yield from names_in(value, f"{name}.")
        else:
            yield above + name


def test_the_pages_for_shippers_say_the_same_in_every_language():
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "shippers").glob("*.md")}
    assert sorted(pages) == ["de", "en", "es", "fr"]
    for language, text in pages.items():
        assert f'lang="{language}"' in text
        assert re.findall(r"^(\d)\. \*\*", text, re.MULTILINE) == list("12345")
        raw = words_in(language).raw
        listed = [word for cell in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) for word in cell.split(", ")]
        assert {raw(fate) for fate in FATES} <= {*listed}
        quoted = [raw("outcome") if name == "outcome" else name for name in re.findall(r"`([^`]+)`", pages["en"])]
        assert re.findall(r"`([^`]+)`", text) == quoted


def test_pictures_are_small_and_shown_and_name_no_place_of_the_machine_that_made_them():
    assert [path.name for path in PICTURES if path.stat().st_size > 150_000] == []
    assert sum(path.stat().st_size for path in PICTURES) < 800_000
    shown = {
        (ROOT / page).parent.joinpath(target).resolve()
        for page, text in TEXTS.items()
        for target in re.findall(r"!\[.+?\]\(([^)]+)\)", text)
    }
    assert shown == set(PICTURES)
    for path in PICTURES:
        if path.suffix == ".svg":
            assert (
                re.search(r"/(?:home|root|tmp|work|Users)/|url\(.?http|@import", path.read_text(encoding="utf-8"))
                is None
            )

"""The documentation is true: its commands and settings exist, its examples load, its links lead somewhere. The site holds every page.

`make docs` builds the site with Zensical; these tests need only the pages that it is made of.
"""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
import yaml

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


def wrong_links(pages, file_of, anchors_of):
    """Links and pictures of pages whose target or anchor is not there."""
    wrong = []
    for page, text in pages.items():
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", BLOCK.sub("", text)):
            there = file_of(page, target) if target else page
            if there is None or (anchor and anchor not in anchors_of(there)):
                wrong.append(f"{page}: {target}#{anchor}")
    return wrong


def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(site):
    def file_of(page, target):
        path = ((ROOT / page).parent / target).resolve()
        return path if path.exists() else None

    def anchors_of(page):
        return site[0].anchors((ROOT / page).read_text(encoding="utf-8"))

    assert wrong_links(TEXTS, file_of, anchors_of) == []


def test_every_link_of_the_site_leads_to_a_page_of_the_site(site):
    _, pages = site
    places = {*pages, *(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*") if path.suffix != ".md")}

    def file_of(page, target):
        place = (DOCS / page).parent.joinpath(target).resolve().relative_to(DOCS).as_posix()
        return place if place in places else None

    assert wrong_links(pages, file_of, lambda page: re.findall(r"\{#([^}]+)\}", pages[page])) == []


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
        options = [one.opts[0] for one in command.params if isinstance(one, click.Option)]
        assert (words, [one for one in options if one not in section]) == ([], [])
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


def wrong_commands(text):
    """What is wrong with the commands that a page calls: in lines of its blocks, and in code in its sentences."""
    lines = re.findall(r"`((?:[A-Z_]+=\S+ )?loadsheet [a-z-][^`]*)`", BLOCK.sub("", text))
    for _, kind, block in BLOCK.findall(text):
        if kind in {"", "sh", "console"}:
            inner = [line.strip().removeprefix("$ ") for line in block.splitlines()]
            lines += [line for line in inner if re.match(r"(\w+=\S+ )*(\.venv/bin/)?loadsheet [a-z-]", line)]
    for line in lines:
        words = shlex.split(re.sub(r" [|&>] ?.*", "", line), comments=True)
        words = words[[word.endswith("loadsheet") for word in words].index(True) + 1 :]
        try:
            command, rest = command_of(words)
            command.make_parser(click.Context(command)).parse_args([word for word in rest if word != "..."])
        except click.UsageError as error:
            yield f"{line}: {error.format_message()}"


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_of_a_page_exists_with_its_options(page):
    assert list(wrong_commands(TEXTS[page])) == []


def test_the_test_of_commands_finds_mistakes():
    found = list(wrong_commands("`loadsheet run --no-such-option`\n\n```sh\n$ loadsheet rum\n```\n"))
    assert [one.partition(":")[0] for one in found] == ["loadsheet run --no-such-option", "loadsheet rum"]


@pytest.mark.parametrize("page", [page for page in TEXTS if "cookbook/" not in page])  # test_cookbook.py has those
def test_every_example_of_settings_and_mappings_loads(page):
    known = {".".join(path) for path, _ in every_field()}
    for _, kind, block in BLOCK.findall(TEXTS[page]):
        if kind == "yaml":
            yaml.safe_load(block)
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
    targets = [(page, target) for page, text in TEXTS.items() for target in re.findall(r"!\[.+?\]\(([^)]+)\)", text)]
    assert {(ROOT / page).parent.joinpath(target).resolve() for page, target in targets} == set(PICTURES)
    place = re.compile(r"/(?:home|root|tmp|work|Users)/|url\(.?http|@import")
    texts = {path.name: path.read_text(encoding="utf-8") for path in PICTURES if path.suffix == ".svg"}
    assert [name for name, text in texts.items() if place.search(text)] == []

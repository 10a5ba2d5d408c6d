"""The README is true: its commands exist, its mapping loads, its tables say what the code says."""

import itertools
import os
import re
from pathlib import Path

import click

from loadsheet.cli import COMMANDS, GROUPS, invoke, loadsheet
from loadsheet.contract import Assumptions
from loadsheet.ledger import State
from loadsheet.mapping import lint
from loadsheet.problems import LoadsheetError
from loadsheet.settings import every_field

ROOT = Path(__file__).parents[2]
FILE = ROOT / "README.md"
README = FILE.read_text(encoding="utf-8")
GUIDES = [
    ROOT / "mappings" / "README.md",
    ROOT / "docs" / "mapping" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in (FILE, *sorted((ROOT / "docs").glob("*.md")))}
WORDS = "\n".join(path.read_text(encoding="utf-8") for path in (FILE, *GUIDES))
SETTINGS = ROOT / "docs" / "settings.md"
MARK = "<!-- settings -->\n"


def commands(group=loadsheet, words=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def test_the_help_shows_every_command_once_in_its_group(capsys):
    assert sorted(itertools.chain(*GROUPS.values())) == sorted(COMMANDS)
    assert invoke(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{group}:\n" in said for group in GROUPS)
    assert [name for name in COMMANDS if len(re.findall(rf"\n  {name} ", said)) != 1] == []


def test_to_and_out_mean_the_same_everywhere():
    several = {option for _, command in commands() for one in command.params for option in one.opts}
    assert {"--to", "--out"} <= several
    alone = [
        words for words, command in commands() for one in command.params if len({"--to", "--out"} & {*one.opts}) == 1
    ]
    assert alone == []


def test_a_mistyped_command_is_answered_with_the_nearest_one(capsys):
    assert invoke(["rnu"]) == 2
    assert "No such command 'rnu'. Did you mean 'run'?" in capsys.readouterr().err


def rows(document, heading):
    """The rows of the first table under a line, as lists of cells."""
    return tables(TEXTS[document].split(heading, 1)[1].lstrip())[0]


def tables(text):
    """The rows of each table, as lists of cells."""
    parts = itertools.groupby(text.splitlines(), lambda line: line.startswith("|"))
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in list(lines)[2:]]
        for is_table, lines in parts
        if is_table
    ]


def shown(default):
    if default is None or default == "":
        return "none"
    if isinstance(default, tuple):
        return " ".join(f"`{item}`" for item in default)
    return "see the register" if isinstance(default, Assumptions) else f"`{default}`"


def settings_table():
    lines = ["| Setting | Default | Meaning |", "|---|---|---|"]
    lines += [f"| `{'.'.join(path)}` | {shown(field.default)} | {field.description} |" for path, field in every_field()]
    return "\n".join(lines) + "\n"


def test_the_settings_table_is_made_from_the_settings():
    before, table = SETTINGS.read_text(encoding="utf-8").split(MARK, 1)
    if os.environ.get("LOADSHEET_REWRITE"):
        SETTINGS.write_text(before + MARK + settings_table(), encoding="utf-8")
    assert table == settings_table(), "run the test once with LOADSHEET_REWRITE=1 and look at the difference"


def test_every_command_stands_in_the_guide_and_every_one_there_exists():
    named = {
        tuple(re.match(r"`loadsheet ([a-z ]+?)(?: [A-Z].*)?`", row[0])[1].split())
        for table in tables(TEXTS["commands.md"])
        for row in table
    }
    assert named == {words for words, _ in commands()}
    assert {words[0] for words in named} == set(COMMANDS)


def test_every_command_explains_itself_and_its_options():
    silent = []
    for words, command in commands():
        if not command.help:
            silent.append(words)
        explained = [isinstance(option, click.Argument) or option.help or option.is_eager for option in command.params]
        silent += [(*words, option.name) for option, told in zip(command.params, explained, strict=True) if not told]
    assert silent == []


def test_every_option_in_the_readme_exists():
    known = {name for _, command in commands() for option in command.params for name in option.opts}
    loadsheet_lines = [line for line in WORDS.splitlines() if "loadsheet " in line and "pip install" not in line]
    used = {option for line in loadsheet_lines for option in re.findall(r"(?<!\w)(--[a-z-]+)", line)}
    assert used - known == {"--help"}


def test_the_states_are_those_of_the_ledger():
    assert [row[0].strip("`") for row in rows("delivery.md", "what is known about it.\n")] == [state.value for state in (
        State.INVALID, State.HELD, State.READY, State.SENDING, State.ACCEPTED, State.REFUSED, State.UNKNOWN, State.UNCHANGED
    )]  # fmt: skip


def test_every_exit_code_of_an_exception_is_explained():
    def tree(kind):
        yield kind
        for child in kind.__subclasses__():
            yield from tree(child)

    explained = {int(row[0]) for row in rows("README.md", "use the exit code:\n")}
    assert {kind.exit_code for kind in tree(LoadsheetError)} | {0, 1, 2, 130, 143} == explained


def test_the_mapping_of_the_readme_loads(tmp_path):
    example = README.split("```yaml\n", 1)[1].split("```", 1)[0]
    path = tmp_path / "acme-flat.yaml"
    path.write_text(example, encoding="utf-8")
    assert lint(path, Assumptions()) == []


def test_every_path_and_every_link_leads_somewhere():
    paths = {ROOT / path for path in re.findall(r"`((?:src|tests|mappings)/[\w./-]+)`", WORDS)}
    for guide in (FILE, *GUIDES, *(ROOT / "docs").rglob("*.md")):
        targets = re.findall(r"\]\(([^)#:]+)\)", guide.read_text(encoding="utf-8"))
        paths |= {guide.parent / target for target in targets}
    assert [path for path in paths if not path.exists()] == []


def anchors(text):
    """The anchors of the headings of a page, as GitHub makes them."""
    without_blocks = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    slugs = [
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", without_blocks, re.MULTILINE)
    ]
    return {
        f"{slug}-{slugs[:place].count(slug)}" if slug in slugs[:place] else slug for place, slug in enumerate(slugs)
    }


def test_every_link_to_a_heading_leads_to_one():
    wrong = []
    for page in (FILE, *GUIDES, *(ROOT / "docs" / "mapping").glob("*.md")):
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
            there = page.parent / target if target else page
            wrong += [] if anchor in anchors(there.read_text(encoding="utf-8")) else [f"{page.name}: {target}#{anchor}"]
    assert wrong == []


def test_the_readme_leads_to_every_guide():
    linked = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)#:]+)\)", README)}
    assert set(GUIDES) <= linked


def test_the_map_of_the_house_names_every_room():
    block = TEXTS["architecture.md"].split("src/loadsheet/\n", 1)[1].split("```", 1)[0]
    named = {line.split()[0].rstrip("/") for line in block.strip().splitlines()}
    there = {path.name for path in (ROOT / "src" / "loadsheet").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named == there - {"__init__.py", "__main__.py", "__pycache__"}

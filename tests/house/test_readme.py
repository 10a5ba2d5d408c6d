"""The README and the tables of the guides say what the code says."""

import itertools
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args, get_origin

import click
from pydantic import SecretStr

from loadsheet.cli import COMMANDS, GROUPS, invoke, loadsheet
from loadsheet.contract import Assumptions
from loadsheet.errors import LoadsheetError
from loadsheet.ledger import State
from loadsheet.mapping.compile import lint
from loadsheet.settings import every_field
from loadsheet.settings.operations_sections import Expectation
from loadsheet.settings.sources import PREFIX

ROOT = Path(__file__).parents[2]
FILE = ROOT / "README.md"
README = FILE.read_text(encoding="utf-8")
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in (FILE, *sorted((ROOT / "docs").glob("*.md")))}
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
    """A mistyped command is answered with the nearest one."""
    assert sorted(itertools.chain(*GROUPS.values())) == sorted(COMMANDS)
    assert invoke(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{group}:\n" in said for group in GROUPS)
    assert [name for name in COMMANDS if len(re.findall(rf"\n  {name} ", said)) != 1] == []
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
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, tuple):
        return " ".join(f"`{item}`" for item in default)
    return "see the register" if isinstance(default, Assumptions) else f"`{default}`"


KINDS = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    SecretStr: "text",
    Path: "path",
    datetime: "time",
    Expectation: "table",
    Assumptions: "table",
}
LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def kind_of(annotation):
    """The type of a setting in words."""
    parts = [part for part in get_args(annotation) if part not in (..., type(None))]
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if get_origin(annotation) is tuple:
        return f"list ({kind_of(parts[0])})"
    if get_origin(annotation) is dict:
        return f"table ({kind_of(parts[1])} by name)"
    return " or ".join(map(kind_of, parts)) if parts else KINDS[annotation]


def limits_of(field):
    limits = [(one, name) for one in field.metadata for name in LIMITS if hasattr(one, name)]
    return "".join(f" {LIMITS[name]} {getattr(one, name):,}" for one, name in limits)


def settings_table():
    lines = ["| Setting, and its variable | Type | Default | Meaning |", "|---|---|---|---|"]
    for path, field in every_field():
        variable = PREFIX + "__".join(path).upper() + ("__NAME" if field.annotation is Assumptions else "")
        kind = kind_of(field.annotation) + limits_of(field)
        cells = (f"`{'.'.join(path)}`<br>`{variable}`", kind, shown(field.default), field.description)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_a_setting_says_its_unit():
    units = {"_s": "second", "_ms": "millisecond", "_bytes": "byte", "_mb": "MB", "_days": "day", "_share_max": "share"}
    wanted = [
        (path, field, unit) for path, field in every_field() for end, unit in units.items() if path[-1].endswith(end)
    ]
    assert [path for path, field, unit in wanted if unit.casefold() not in field.description.casefold()] == []


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
    """`--to` and `--out` mean the same everywhere."""
    silent = [words for words, command in commands() if not command.help]
    options = [(words, option) for words, command in commands() for option in command.params]
    silent += [(*words, option.name) for words, option in options if not explained(option)]
    assert silent == []
    assert [words for words, option in options if len({"--to", "--out"} & {*option.opts}) == 1] == []
    assert any("--to" in option.opts for _, option in options)


def explained(option):
    return isinstance(option, click.Argument) or option.help or option.is_eager


def test_the_states_are_those_of_the_ledger():
    states = ["INVALID", "HELD", "READY", "SENDING", "ACCEPTED", "REFUSED", "UNKNOWN", "UNCHANGED"]
    shown = [row[0].strip("`") for row in rows("delivery.md", "what is known about it.\n")]
    assert shown == [State[name].value for name in states]


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


def test_the_map_of_the_house_names_every_room():
    block = TEXTS["architecture.md"].split("src/loadsheet/\n", 1)[1].split("```", 1)[0]
    named = {line.split()[0].rstrip("/") for line in block.strip().splitlines()}
    there = {path.name for path in (ROOT / "src" / "loadsheet").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named == there - {"__init__.py", "__main__.py", "__pycache__"}

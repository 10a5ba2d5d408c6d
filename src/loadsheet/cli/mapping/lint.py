"""`loadsheet mapping lint`: every mistake in mapping files, with its line and a caret below the place."""

import sys
import unicodedata
from pathlib import Path

import click

from loadsheet.cli.mapping.input_files import home_of
from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import print_json, say
from loadsheet.mapping import lint as lint_file
from loadsheet.mapping import load as load_mapping
from loadsheet.mapping import mapping_files
from loadsheet.problems import MappingError

_WIDE = frozenset("WF")  # East Asian letters that take two places on a terminal
_SHOWN = 160  # characters of a line; longer lines are cut on both sides of the place


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@together(MAPPINGS, CONFIG, JSON)
def lint(files: tuple[Path, ...], *, mappings: Path | None, config: Path | None, as_json: bool) -> int:
    """Check mapping FILES (default: all in the folder) and show every mistake with line, column and a suggestion.

    On a terminal, the line is shown below each mistake, with a caret. In a pipe, each mistake is one line.
    """
    settings = load(config, mappings=mappings)
    paths = files or (tuple(mapping_files(settings.mappings)) if settings.mappings.is_dir() else ())
    home = {path: home_of(path, settings) for path in paths}
    by_path = {path: lint_file(path, settings.assumptions, home[path]) for path in paths}
    sound = [load_mapping(path, settings.assumptions, home[path]) for path, found in by_path.items() if not found]
    findings = [finding for found in by_path.values() for finding in found]
    if as_json:
        print_json([_as_json(finding) for finding in findings])
        return MappingError.exit_code if findings else 0
    for text in _shown(findings):
        click.echo(text)
    for loaded in sound:
        for note in loaded.notes:
            say(f"{loaded.path}: note: {note}")
    s_files, s_mistakes = "" if len(paths) == 1 else "s", "" if len(findings) == 1 else "s"
    say(f"{len(paths)} mapping file{s_files}, {len(findings)} mistake{s_mistakes}")
    return MappingError.exit_code if findings else 0


def _shown(findings: list[MappingError]) -> list[str]:
    if not sys.stdout.isatty():
        return [str(finding) for finding in findings]
    texts = {}
    for file in {finding.file for finding in findings}:  # a finding may be in the extended file
        texts[file] = Path(file).read_bytes().decode("utf-8-sig", errors="replace") if Path(file).is_file() else ""
    return [f"{framed(finding, texts[finding.file])}\n" for finding in findings]


def _as_json(finding: MappingError) -> dict[str, object]:
    names = ("file", "line", "column", "text", "hint")
    return {name: getattr(finding, name) for name in names}


def framed(finding: MappingError, text: str) -> str:
    """The finding with its line of `text` (the whole file), for example:

        mappings/acme.yaml:31:12: there is no lookup "pakages"
           |
        31 |   kind: {lookup: pakages}
           |                  ^
           = did you mean packages?

    If the text does not have the place, the result is the bare finding.
    """
    lines = text.splitlines()
    if not 1 <= finding.line <= len(lines):
        return str(finding)
    line, before = _cut(lines[finding.line - 1], finding.column - 1)
    margin = " " * len(str(finding.line))
    head, *others = finding.text.splitlines()
    frame = [
        f"{finding.file}:{finding.line}:{finding.column}: {head}",
        f"{margin} |",
        f"{finding.line} | {line}",
        f"{margin} | {' ' * _columns(line[:before])}^",
    ]
    return "\n".join(
        [*frame, *([f"{margin} = {finding.hint}"] if finding.hint else []), *(f"{margin} | {more}" for more in others)]
    )


def _cut(line: str, at: int) -> tuple[str, int]:
    """The part of a line that fits, and the position of the place in it. A tab becomes one blank, as the caret counts it."""
    plain = line.replace("\t", " ").rstrip()
    if len(plain) <= _SHOWN:
        return plain, at
    start = max(0, min(at - _SHOWN // 2, len(plain) - _SHOWN))
    return plain[start : start + _SHOWN], at - start


def _columns(text: str) -> int:
    """The width of a text on a terminal."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in _WIDE else 1
        for letter in text
    )

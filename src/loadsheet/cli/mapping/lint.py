"""`loadsheet mapping lint`: every mistake of mapping files, shown at its place."""

import sys
from pathlib import Path

import click

from loadsheet.cli.mapping.input_files import home_of
from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import print_json, say
from loadsheet.mapping import lint as lint_file
from loadsheet.mapping import load as load_mapping
from loadsheet.mapping import mapping_files
from loadsheet.mapping_tools.excerpts import framed
from loadsheet.problems import MappingError


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@together(MAPPINGS, CONFIG, JSON)
def lint(files: tuple[Path, ...], *, mappings: Path | None, config: Path | None, as_json: bool) -> int:
    """Check mapping FILES (default: all of the folder): every mistake with line, column and what was probably meant.

    On a terminal the line itself stands below each mistake, with a caret under the place; in a pipe each is one line.
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
    say(f"{len(paths)} mapping files, {len(findings)} mistakes")
    return MappingError.exit_code if findings else 0


def _shown(findings: list[MappingError]) -> list[str]:
    if not sys.stdout.isatty():
        return [str(finding) for finding in findings]
    texts = {}
    for file in {finding.file for finding in findings}:  # what is extended may be another file
        texts[file] = Path(file).read_bytes().decode("utf-8-sig", errors="replace") if Path(file).is_file() else ""
    return [f"{framed(finding, texts[finding.file])}\n" for finding in findings]


def _as_json(finding: MappingError) -> dict[str, object]:
    names = ("file", "line", "column", "text", "hint")
    return {name: getattr(finding, name) for name in names}

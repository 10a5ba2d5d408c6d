"""`loadsheet mapping ...`: look after mapping files."""

from pathlib import Path

import click

from loadsheet.cli.options import CONFIG, JSON, MAPPINGS, load, together
from loadsheet.cli.output import print_json, say
from loadsheet.mapping import lint as lint_file
from loadsheet.mapping import load as load_mapping
from loadsheet.mapping import mapping_files
from loadsheet.problems import MappingError


@click.group()
def mapping() -> None:
    """Mapping files: what the shipper sends, and what the exchange gets."""


@mapping.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@together(MAPPINGS, CONFIG, JSON)
def lint(files: tuple[Path, ...], *, mappings: Path | None, config: Path | None, as_json: bool) -> int:
    """Check mapping FILES (default: all of the folder): every mistake with line, column and what was probably meant."""
    settings = load(config, mappings=mappings)
    paths = files or (tuple(mapping_files(settings.mappings)) if settings.mappings.is_dir() else ())
    by_path = {path: lint_file(path, settings.assumptions) for path in paths}
    sound = [load_mapping(path, settings.assumptions) for path, found in by_path.items() if not found]
    findings = [finding for found in by_path.values() for finding in found]
    if as_json:
        print_json([_told(finding) for finding in findings])
    else:
        for finding in findings:
            click.echo(str(finding))
        for loaded in sound:
            for note in loaded.notes:
                say(f"{loaded.path}: note: {note}")
        say(f"{len(paths)} mapping files, {len(findings)} mistakes")
    return MappingError.exit_code if findings else 0


def _told(finding: MappingError) -> dict[str, object]:
    names = ("file", "line", "column", "text", "hint")
    return {name: getattr(finding, name) for name in names}

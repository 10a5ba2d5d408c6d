"""`loadsheet mapping ...`: files for an author and for a shipper, what mappings give, and help on their keys and functions."""

import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.shell_completion import CompletionItem

from loadsheet import exit_codes
from loadsheet.cli.options import (
    CONFIG,
    JSON,
    MAPPINGS,
    STATE,
    Target,
    combined_options,
    grouped,
    load,
    load_for_files,
    mapping_names,
    with_settings,
)
from loadsheet.cli.output import print_json, progress, say
from loadsheet.display_text import count_of
from loadsheet.errors import MappingError

if TYPE_CHECKING:
    from loadsheet.settings import Settings

_MAPPING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_WIDE = frozenset("WF")  # East Asian letters that take two places on a terminal
_SHOWN = 160  # characters of a line; longer lines are cut on both sides of the place


@click.group()
def mapping() -> None:
    """Mapping files: what the shipper sends, and what the exchange gets."""


@mapping.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@combined_options(MAPPINGS, CONFIG, JSON)
def lint(files: tuple[Path, ...], *, mappings: Path | None, config: Path | None, as_json: bool) -> int:
    """Check mapping FILES (default: all in the folder) and show every mistake with line, column and a suggestion.

    On a terminal, the line is shown below each mistake, with a caret. In a pipe, each mistake is one line.
    """
    from loadsheet.cli.mapping_results import home_of
    from loadsheet.mapping.compile import examine
    from loadsheet.mapping.mapping_folder import mapping_files

    settings = load(config, mappings=mappings)
    paths = files or (tuple(mapping_files(settings.mappings)) if settings.mappings.is_dir() else ())
    examined = [examine(path, settings.assumptions, home_of(path, settings)) for path in paths]
    sound = [loaded for loaded, _ in examined if loaded is not None]
    # a mistake in a base mapping is found for each mapping that extends it
    findings = list({str(finding): finding for _, found in examined for finding in found}.values())
    if as_json:
        names = ("file", "line", "column", "text", "hint")
        print_json([{name: getattr(finding, name) for name in names} for finding in findings])
        return exit_codes.CONFIG_WRONG if findings else 0
    for text in _shown(findings):
        click.echo(text)
    for loaded in sound:
        shown = loaded.notes if len(sound) == 1 else loaded.notes[:1]
        hidden = len(loaded.notes) - len(shown)
        more = f"; and {count_of(hidden, 'more note')} (lint this file alone)" if hidden else ""
        for note in shown:
            say(f"{loaded.path}: note: {note}{more}")
    say(f"{count_of(len(paths), 'mapping file')}, {count_of(len(findings), 'mistake')}")
    return exit_codes.CONFIG_WRONG if findings else 0


def _shown(findings: list[MappingError]) -> list[str]:
    if not sys.stdout.isatty():
        return [str(finding) for finding in findings]
    texts = {}
    for file in {finding.file for finding in findings}:  # a finding may be in the extended file
        texts[file] = Path(file).read_bytes().decode("utf-8-sig", errors="replace") if Path(file).is_file() else ""
    return [f"{framed(finding, texts[finding.file])}\n" for finding in findings]


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


def _targets() -> list[str]:
    from loadsheet.contract import WRITES

    return ["tender", "order", *(operation.name for operation in WRITES)]


def _checked_target(_ctx: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    if name is not None and name not in _targets():
        raise click.BadParameter(f"{name} is none of {', '.join(_targets())}")
    return name


@mapping.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--target",
    metavar="tender|order|OPERATION",
    callback=_checked_target,
    shell_complete=lambda _ctx, _option, begun: [name for name in _targets() if name.startswith(begun)],
    help="The operation of the records, such as order.create, or tender or order for the most likely one of these. Default: the most likely one.",
)
@click.option("--to", "--out", "out", type=Target(), help="Write the draft to this file, which must not exist.")
@with_settings(MAPPINGS)
@JSON
def suggest(
    files: tuple[Path, ...], *, settings: "Settings", target: str | None, out: Path | None, as_json: bool
) -> None:
    """Draft a mapping from FILES: one workbook, one text file, or several that belong together, in any order.

    A comment gives the evidence for each guess. Missing values are marked FILL IN, uncertain ones CHECK. What all mappings in the folder have in
    common, such as the sender, is taken from them.
    """
    from loadsheet.mapping_tools.drafts import values_of
    from loadsheet.mapping_tools.reference import schema_line
    from loadsheet.mapping_tools.sheet_profiles import observe
    from loadsheet.mapping_tools.suggest import draft
    from loadsheet.mapping_tools.yaml_writer import draft_as_json, marks_in, warnings, write_draft

    if out is not None and out.exists():
        raise click.UsageError(f"{out} already exists; a draft never overwrites a mapping: choose another --out")
    with progress("reading columns") as bar:
        sheets = observe(files, settings, bar and bar.advance)
    made = draft(sheets, target, values_of(settings.mappings))
    text = schema_line(settings.mappings, out.parent if out else settings.mappings) + write_draft(made)
    if out is not None:
        out.write_text(text, encoding="utf-8")
    if as_json:
        print_json(draft_as_json(made, text))
        return
    if out is None:
        click.echo(text, nl=False)
    for warning in warnings(made):
        say(warning)
    marked = ", ".join(f"{count_of(count, 'line')} marked {mark}" for mark, count in marks_in(text).items())
    say(f"{out or 'the draft'}: {marked}")


@mapping.command()
@click.argument("name", metavar="MAPPING", shell_complete=mapping_names)
@click.option(
    "--to", "--out", "out", type=Target(), help="The workbook to write (default: a name that the mapping takes)."
)
@combined_options(MAPPINGS, CONFIG)
def template(name: str, *, out: Path | None, mappings: Path | None, config: Path | None) -> None:
    """Write the workbook that the shipper of MAPPING (a name or a file) fills in, with lists, notes, an example and a guide.

    A mapping of several files gives one workbook for each, named after its role.
    """
    from loadsheet.cli.mapping_results import mapping_named
    from loadsheet.mapping_tools.template import file_name, write_template

    chosen = mapping_named(name, load(config, mappings=mappings))
    for role in chosen.layouts:
        if out is None:
            path = Path(file_name(chosen, role))
        else:
            path = out if len(chosen.layouts) == 1 else out.with_name(f"{out.stem}-{role}{out.suffix}")
        write_template(chosen, role, path)
        click.echo(str(path))


@mapping.command()
@click.option("--to", "--out", "out", type=Target(), help="Write the schema to this file instead of stdout.")
def schema(*, out: Path | None) -> None:
    """Print the JSON Schema of mapping files (draft 2020-12), for completion and validation in editors.

    `init` writes it into the folder of mappings. Mappings there begin with `# yaml-language-server: $schema=mapping.schema.json`.
    """
    from loadsheet.mapping_tools.reference import schema_text

    if out is None:
        click.echo(schema_text(), nl=False)
        return
    out.write_text(schema_text(), encoding="utf-8")
    say(f'{out} written; first line of a mapping beside it: "# yaml-language-server: $schema={out.name}"')


class PreviewOptions(NamedTuple):
    """The mapping of a preview (None: the one that takes the files), the number of records, and whether it is shown again at each save."""

    name: str | None
    records: int
    watching: bool


@mapping.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--mapping",
    "name",
    metavar="NAME",
    shell_complete=mapping_names,
    help="A mapping by name or file. Default: the mapping that takes the file.",
)
@click.option(
    "--rows", "records", default=3, show_default=True, type=click.IntRange(1), help="Number of records to show."
)
@click.option(
    "--watch", "watching", is_flag=True, help="Show them again whenever a mapping, a code table or a file is saved."
)
@combined_options(MAPPINGS, CONFIG, JSON)
@grouped(options=PreviewOptions)
def preview(
    files: tuple[Path, ...], *, options: PreviewOptions, mappings: Path | None, config: Path | None, as_json: bool
) -> int:
    """Show the first records of FILES: each cell beside the field and value it becomes, with its problems.

    Nothing is sent or stored. In a pipe, each value is one line: record, field, value, place, heading, cell. If several mappings share
    the file, each shows its first records. --watch goes on until Ctrl-C.
    """
    from loadsheet.cli.mapping_results import show_preview

    settings = load(config, mappings=mappings) if options.name else load_for_files(config, mappings)
    return show_preview(files, options, settings, as_json=as_json)


@mapping.command()
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--update", is_flag=True, help="Write the current results as the expected ones. Review the difference.")
@combined_options(MAPPINGS, CONFIG, JSON)
def test(folder: Path | None, *, update: bool, mappings: Path | None, config: Path | None, as_json: bool) -> int:
    """Run the golden tests in FOLDER (default: tests in the folder of mappings) and show what differs.

    A test is a file (or a folder of files) in a folder named after its mapping, with CASE.expected.jsonl beside it.
    """
    from loadsheet.cli.mapping_results import run_tests

    return run_tests(load(config, mappings=mappings), folder, update=update, as_json=as_json)


class DiffOptions(NamedTuple):
    """The mappings that are compared (no new one: the versions that read the originals), on files or on the last originals."""

    old: Path
    new: Path | None
    files: tuple[Path, ...]
    last: int | None


@mapping.command()
@click.argument("old", type=_MAPPING_FILE)
@click.argument("new", type=_MAPPING_FILE, required=False)
@click.option(
    "--on",
    "files",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="A file to translate with both mappings, or a folder with the files of one drop. Repeatable.",
)
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Use the last N originals that the mapping of this name read."
)
@combined_options(STATE, CONFIG, JSON)
@grouped(options=DiffOptions)
def diff(*, options: DiffOptions, as_json: bool, config: Path | None, state: Path | None) -> int:
    """Translate files with mapping OLD and with NEW, and compare each document: identical, changed, now failing.

    From a folder, the files that match the patterns of OLD or NEW are used. --last takes originals from the archive; files that are read
    together count once. With --last and one mapping, it is compared with the version that read each original, as the ledger kept it.
    Exits with 65 if there is nothing to compare.
    """
    from loadsheet.cli.mapping_results import show_differences

    if bool(options.files) == bool(options.last):
        raise click.UsageError("give either --on FILE or --last N")
    if options.new is None and not options.last:
        raise click.UsageError("name two mappings to compare on files; with --last N one is enough")
    settings = load(config, state=state) if options.last else load(config)
    return show_differences(settings, options, as_json=as_json)


def _words(_ctx: click.Context, _argument: click.Parameter, begun: str) -> list[CompletionItem]:
    """The words by their full and their short names."""
    from loadsheet.mapping_tools.reference import entries

    names = dict.fromkeys(name for full in entries() for name in (full, full.rpartition(".")[2]))
    return [CompletionItem(name) for name in names if name.startswith(begun)]


@mapping.command("help")
@click.argument("name", required=False, shell_complete=_words)
@JSON
def explain(name: str | None, *, as_json: bool) -> None:
    """Explain NAME: a key (`pad_left`, `source.fold`), a function (`$sum`), an operator (`??`), a target (`order.create`) or a field of the payload.

    Each example is shown with its result. Without NAME, all names are listed. In a shell, write '$sum' in single quotes, or sum.
    """
    from loadsheet.mapping_tools import reference_pages as pages
    from loadsheet.mapping_tools.reference import entries, find

    found = find(name) if name is not None else list(entries().values())
    fields = pages.fields_named(name) if name is not None else []
    if not found and not fields:
        from loadsheet.similar_text import closest_or_known, short_list

        known = list(dict.fromkeys([*entries(), *(one.rpartition(".")[2] or one for one in entries())]))
        longer = [one for one in known if one.startswith(name or " ")]
        hint = f"did you mean {short_list(longer)}?" if longer else closest_or_known(name or "", known, most=8)
        raise click.UsageError(f'"{name}" is not a word of mapping files; {hint}')
    if as_json:
        print_json([*(pages.as_json(entry) for entry in found), *fields])
    elif name is None:
        click.echo(pages.overview())
    else:
        click.echo("\n\n".join([*map(pages.shown, found), *map(pages.shown_field, fields)]))

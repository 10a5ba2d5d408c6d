"""`loadsheet init`: a folder in which `loadsheet run` works at once. `loadsheet demo`: the sample files through the sample mappings.

An existing file is never changed: it is kept, and the command says so.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import click

from loadsheet.cli.mapping import suggest
from loadsheet.cli.output import answered, print_lines, say
from loadsheet.cli.run import run
from loadsheet.display_text import count_of
from loadsheet.errors import FolderError, SettingsError

_STARTER = resources.files("loadsheet") / "starter"
_SAMPLES = {"inbox": "inbox_samples", "mappings": "mappings"}
_MADE_BY_RUN = "the files that loadsheet makes by itself"


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--exchange", metavar="URL|embedded", help="The exchange (asked on a terminal; default: embedded).")
@click.option(
    "--from",
    "sheet",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Draft the mapping from this file instead of the example.",
)
def init(folder: Path, *, exchange: str | None, sheet: Path | None) -> None:
    """Make FOLDER ready (default: this folder): settings, inbox, outbox, and a mapping with a sample file and a test.

    Then `loadsheet run` works there at once. Existing files are kept.
    """
    chosen = _exchange(exchange)
    print_lines(_make(folder, chosen, with_example=sheet is None))
    if sheet is not None:
        draft = folder / "mappings" / f"{sheet.stem}.yaml"
        click.get_current_context().invoke(
            suggest, files=(sheet,), target=None, out=draft, mappings=draft.parent, config=None
        )
        print_lines([f"  created  {draft}  (a draft from {sheet.name})"])
    print_lines(["", *_next_steps(folder, sheet, chosen)])


@click.command()
@click.argument("folder", default="loadsheet-demo", type=click.Path(file_okay=False, path_type=Path))
def demo(folder: Path) -> int:
    """Send the sample files through the sample mappings to the embedded exchange, in FOLDER (default: loadsheet-demo).

    The samples contain typical mistakes, so that the reports have something to show. Nothing leaves this machine.
    """
    from loadsheet.settings import EMBEDDED

    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty; name another folder")
    say(f"{count_of(_copy_samples(folder), 'sample file')} and their mappings are in {folder}")
    places = {name: folder / name for name in ("inbox", "mappings", "outbox")} | {"state": folder / ".loadsheet"}
    options: dict[str, Any] = {"exchange": EMBEDDED, "exit_zero": True, "settle_s": 0}  # no file is still being written
    options |= dict.fromkeys(("limit", "since", "config"))
    options |= dict.fromkeys(("dry_run", "quiet", "verbose", "as_json"), False)
    code: int = click.get_current_context().invoke(run, **places, **options)
    return code


class _Starter(NamedTuple):
    """A file that `init` writes: its place in the folder, its template (empty: the schema of mappings), and what it is for."""

    place: str
    template: str
    purpose: str


_SETTINGS = _Starter("loadsheet.toml", "loadsheet.toml", "the settings")
_IGNORED = _Starter(".gitignore", "gitignore", _MADE_BY_RUN)
_EXAMPLE = (
    _Starter("mappings/orders.yaml", "orders.yaml", "how rows become orders, with comments"),
    _Starter("mappings/tests/orders/two_rows.csv", "tests/two_rows.csv", "a test of this mapping"),
    _Starter("mappings/tests/orders/two_rows.expected.jsonl", "tests/two_rows.expected.jsonl", "its expected record"),
    _Starter("inbox/orders_sample.csv", "orders_sample.csv", "a sample file with three orders"),
)


def _make(folder: Path, exchange: str, *, with_example: bool) -> list[str]:
    """Make the folders, and write the files that are missing; returns what happened, a line each. Raises FolderError."""
    from loadsheet.mapping_tools.reference import SCHEMA_FILE

    new = [folder / name for name in ("inbox", "outbox", "mappings") if not (folder / name).is_dir()]
    for path in new:
        _write(path, lambda path: path.mkdir(parents=True))
    schema = _Starter(f"mappings/{SCHEMA_FILE}", "", "the keys of mappings, for editors")
    files = (_SETTINGS, _IGNORED, schema, *(_EXAMPLE if with_example else ()))
    return [*(f"  created  {path}/" for path in new), *(_place(folder, one, exchange) for one in files)]


def _copy_samples(folder: Path) -> int:
    """Copy inbox and mappings of the samples into this folder; returns the number of files in the inbox. Raises FolderError."""
    for name, source in _SAMPLES.items():
        _write(folder / name, partial(shutil.copytree, _samples(source)))
    return sum(path.is_file() for path in (folder / "inbox").rglob("*"))


def _exchange(given: str | None) -> str:
    """The exchange that the option or the user on a terminal names; elsewhere the embedded one. Raises UsageError if it is no base URL."""
    from loadsheet.dispatch.client import checked_url
    from loadsheet.settings import EMBEDDED

    exchange = given or (_asked(EMBEDDED) if sys.stdin.isatty() else EMBEDDED)
    try:
        return exchange if exchange == EMBEDDED else checked_url(exchange, allow_insecure=True)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None


def _asked(default: str) -> str:
    question = "Address of the exchange, or embedded to try it without one"
    with answered("no answer, so nothing was made; name the exchange: --exchange URL, or --exchange embedded"):
        return str(click.prompt(question, default=default, err=True))


def _place(folder: Path, one: _Starter, exchange: str) -> str:
    """Write a file unless it exists; returns what happened as a line."""
    from loadsheet.mapping_tools.reference import schema_text
    from loadsheet.settings import EMBEDDED

    path = folder / one.place
    if path.exists():
        return f"  kept     {path}"
    text = (_STARTER / one.template).read_text(encoding="utf-8") if one.template else schema_text()
    if one is _SETTINGS:
        text = text.replace(f'exchange = "{EMBEDDED}"', f"exchange = {json.dumps(exchange)}")
    if path.suffix == ".csv" and path.parent.name == "inbox":
        days = [f"{date.today() + timedelta(days=ahead):%d/%m/%Y}" for ahead in (1, 2)]  # noqa: DTZ011 (days as people count them)
        text = text.format(collect=f"{days[0]} 09:00", deliver=f"{days[1]} 10:00")
    _write(path, lambda place: _write_text(place, text))
    return f"  created  {path}  ({one.purpose})"


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write(path: Path, action: Callable[[Path], None]) -> None:
    try:
        action(path)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise FolderError(message, todo="choose another folder") from error


def _next_steps(folder: Path, sheet: Path | None, exchange: str) -> Iterator[str]:
    """What to do next, as lines; the folder was made for this sheet, if any."""
    from loadsheet.settings import EMBEDDED

    yield "Next:"
    if folder != Path():
        yield f"  cd {shlex.quote(str(folder))}"
    if exchange != EMBEDDED:
        yield "  export LOADSHEET_TOKEN=...         # or token_file in loadsheet.toml"
        yield "  loadsheet doctor                   # is everything in place?"
    if sheet is not None:
        yield f"  edit mappings/{sheet.stem}.yaml     # fill in what is marked FILL IN"
        yield f"  loadsheet mapping preview {shlex.quote(str(sheet.resolve()))}"
        yield "  then drop the file into inbox, and: loadsheet run"
        return
    yield "  loadsheet run                      # sends the sample"
    yield "  loadsheet mapping test             # runs the test of the mapping"


def _samples(name: str) -> Path:
    """The folder of samples: part of the installed package, or at the top of the source."""
    packaged = Path(str(resources.files("loadsheet"))) / name
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / name

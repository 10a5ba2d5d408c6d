"""The files of a new folder: settings, mapping, sample, test; and the samples of the demo.

An existing file is never changed: it is kept, and the command says so.
"""

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import click

from loadsheet.dispatch.client import checked_url
from loadsheet.mapping_tools.json_schema import SCHEMA_FILE, schema_text
from loadsheet.problems import FolderError, SettingsError
from loadsheet.settings import EMBEDDED

_STARTER = resources.files("loadsheet") / "starter"
_SAMPLES = {"inbox": "inbox_samples", "mappings": "mappings"}
_AN_HOUR_S = 3600  # samples look like files that were finished long ago, so a run takes them at once
_MADE_BY_RUN = "the files that loadsheet makes by itself"


class _Starter(NamedTuple):
    """A file that `init` writes: its place in the folder, its template, and what it is for."""

    place: str
    template: str
    purpose: str


_SETTINGS = _Starter("loadsheet.toml", "loadsheet.toml", "the settings")
_IGNORED = _Starter(".gitignore", "gitignore", _MADE_BY_RUN)
_SCHEMA = _Starter(f"mappings/{SCHEMA_FILE}", "", "the keys of mappings, for editors")
_EXAMPLE = (
    _Starter("mappings/orders.yaml", "orders.yaml", "how rows become orders, with comments"),
    _Starter("mappings/tests/orders/two_rows.csv", "tests/two_rows.csv", "a test of this mapping"),
    _Starter("mappings/tests/orders/two_rows.expected.jsonl", "tests/two_rows.expected.jsonl", "its expected record"),
    _Starter("inbox/orders_sample.csv", "orders_sample.csv", "a sample file with three orders"),
)


def make(folder: Path, exchange: str, *, with_example: bool) -> list[str]:
    """Make the folders, and write the files that are missing; returns what happened, a line each. Raises FolderError."""
    new = [folder / name for name in ("inbox", "outbox", "mappings") if not (folder / name).is_dir()]
    for path in new:
        _write(path, lambda path: path.mkdir(parents=True))
    files = (_SETTINGS, _IGNORED, _SCHEMA, *(_EXAMPLE if with_example else ()))
    return [*(f"  created  {path}/" for path in new), *(_place(folder, one, exchange) for one in files)]


def copy_samples(folder: Path) -> int:
    """Copy inbox and mappings of the samples into this folder; returns the number of files in the inbox. Raises FolderError."""
    for name, source in _SAMPLES.items():
        _write(folder / name, partial(shutil.copytree, _samples(source)))
    files = [path for path in (folder / "inbox").rglob("*") if path.is_file()]
    for path in files:
        _age(path)
    return len(files)


def asked() -> str:
    """The exchange that the user names on a terminal; elsewhere the embedded one."""
    if not sys.stdin.isatty():
        return EMBEDDED
    question = "Address of the exchange, or embedded to try it without one"
    try:
        answer: str = click.prompt(question, default=EMBEDDED, err=True)
    except click.Abort as aborted:
        if not isinstance(aborted.__context__, EOFError):
            raise
        message = "no answer, so nothing was made; name the exchange: --exchange URL, or --exchange embedded"
        raise click.UsageError(message) from None
    return answer


def checked(exchange: str) -> str:
    """The exchange, if its address is a base URL."""
    if exchange == EMBEDDED:
        return exchange
    try:
        return checked_url(exchange, allow_insecure=True)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None


def _place(folder: Path, one: _Starter, exchange: str) -> str:
    """Write a file unless it exists; returns what happened as a line."""
    path = folder / one.place
    if path.exists():
        return f"  kept     {path}"
    text = schema_text() if one is _SCHEMA else (_STARTER / one.template).read_text(encoding="utf-8")
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
    _age(path)


def _write(path: Path, action: Callable[[Path], None]) -> None:
    try:
        action(path)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise FolderError(message, todo="choose another folder") from error


def _age(path: Path) -> None:
    before = time.time() - _AN_HOUR_S
    os.utime(path, (before, before))


def next_steps(folder: Path, sheet: Path | None, exchange: str) -> Iterator[str]:
    """What to do next, as lines; the folder was made for this sheet, if any."""
    yield "Next:"
    if folder != Path():
        yield f"  cd {shlex.quote(str(folder))}"
    if exchange != EMBEDDED:
        yield "  export LOADSHEET_TOKEN=...         # or token_file in loadsheet.toml"
        yield "  loadsheet doctor                   # is everything in place?"
    if sheet is not None:
        yield f"  edit mappings/{sheet.stem}.yaml     # fill in what is marked FILL IN"
        yield f"  loadsheet mapping preview {shlex.quote(str(sheet.absolute()))}"
        yield "  then drop the file into inbox, and: loadsheet run"
        return
    yield "  loadsheet run                      # sends the sample"
    yield "  loadsheet mapping test             # runs the test of the mapping"


def _samples(name: str) -> Path:
    """The folder of samples: part of the installed package, or at the top of the source."""
    packaged = Path(str(resources.files("loadsheet"))) / name
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / name

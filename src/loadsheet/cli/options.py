"""What commands share: options, the settings made from them, for all shippers or one, the ledger of the settings, the clock, and what a
shell offers for arguments.

Help needs the options only, so the settings are imported when they are loaded. A shell waits for every answer, so nothing here asks a
server: keys and runs come from a ledger in a file only. Settings that are wrong, and a ledger that is missing or damaged, give no offers
and no message.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from loadsheet.errors import FolderError, LoadsheetError, SettingsError

if TYPE_CHECKING:
    from loadsheet.ledger import Clock, Ledger
    from loadsheet.settings import Settings


Command = Callable[..., Any]

_FOLDER = click.Path(file_okay=False, path_type=Path)

_SHIPPER = "loadsheet.shipper"  # where the option is stored: commands need not pass it on
_OF_ONE = frozenset({"inbox", "outbox", "state", "exchange"})  # settings that differ by shipper
_SETTINGS = (*sorted(_OF_ONE), "mappings")  # that options below give

MAPPINGS = click.option("--mappings", type=_FOLDER, help="Folder of mapping files (default: mappings).")
STATE = click.option("--state", type=_FOLDER, help="Folder of ledger and archive (default: .loadsheet).")
INBOX = click.option("--inbox", type=_FOLDER, help="Folder in which shippers drop files (default: inbox).")
OUTBOX = click.option("--outbox", type=_FOLDER, help="Folder for reports (default: outbox).")
EXCHANGE = click.option(
    "--exchange", metavar="URL|embedded", help="Base URL of the exchange (default: our own, in this process)."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")

Offers = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_MOST = 100  # more names help nobody
_NAME = re.compile(r"^mapping: *[\"']?([^\s\"'#]+)", re.MULTILINE)


class Target(click.Path):
    """The file or folder that a command writes. Missing parent folders are created."""

    def __init__(self, *, dir_okay: bool = False) -> None:
        super().__init__(dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; creates its folder. Raises FolderError."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderError(
                f"{path} cannot be written: the folder {path.parent} cannot be created ({error.strerror})"
            ) from error
        return path


def combined_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _store_shipper(ctx: click.Context, _option: click.Parameter, name: str | None) -> None:
    ctx.meta[_SHIPPER] = name or ""


def shipper_names(ctx: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the names of the declared shippers to a shell that completes."""
    try:
        names = _shippers(ctx.params.get("config"))
    except SettingsError:
        return []
    return [CompletionItem(name) for name in names if name.casefold().startswith(begun.casefold())]


CONFIG = combined_options(
    click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        is_eager=True,  # completion of --shipper reads it
        help="Settings file (default: loadsheet.toml in this folder, else the user's or the machine's).",
    ),
    click.option(
        "--shipper",
        metavar="NAME",
        envvar="LOADSHEET_SHIPPER",
        expose_value=False,
        callback=_store_shipper,
        shell_complete=shipper_names,
        help="Shipper to process, if the settings file declares shippers.",
    ),
)


def shipper_given() -> str:
    """The shipper that the command line or the environment names; empty if none is."""
    ctx = click.get_current_context(silent=True)
    return str(ctx.meta.get(_SHIPPER, "")) if ctx else ""


def _shippers(config: Path | None) -> tuple[str, ...]:
    from loadsheet.settings import shippers_in

    return shippers_in(config)


def _of(shipper: str, config: Path | None, given: dict[str, Any]) -> "Settings":
    from loadsheet.settings import Settings

    return Settings.load(config, shipper=shipper, **given)


def load(config: Path | None, **given: Any) -> "Settings":
    """The settings of a command; options that were not given are None.

    If several shippers are declared and none is named, a command that needs the folders, the ledger or the exchange of one is refused. Other
    commands get the shared settings. Raises SettingsError and click.UsageError.
    """
    name = shipper_given()
    if not name and not _OF_ONE.isdisjoint(given) and (names := _shippers(config)):
        if len(names) > 1:
            raise click.UsageError(f"which shipper? --shipper {'|'.join(names)}")
        (name,) = names
    return _of(name, config, given)


def load_for_files(config: Path | None, mappings: Path | None) -> "Settings":
    """The settings of a command that reads files by mappings, with these `mappings` if given. Raises SettingsError, and click.UsageError if
    shippers have mappings of their own and none is named.
    """
    settings = load(config, mappings=mappings)
    if mappings is None and not shipper_given():
        names = [name for name in _shippers(config) if (settings.mappings / name).is_dir()]
        if len(names) > 1:
            raise click.UsageError(f"which shipper? --shipper {'|'.join(names)}")
    return settings


def with_settings(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """These options and CONFIG as one decorator. The command gets the `settings` made from them instead."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def loading(*, config: Path | None, **words: Any) -> Any:
            given = {name: words.pop(name) for name in _SETTINGS if name in words}
            return command(settings=load(config, **given), **words)

        return combined_options(*options, CONFIG)(loading)

    return decorate


def grouped(**kinds: Any) -> Callable[[Command], Command]:
    """Options as values of these kinds of NamedTuple: the command gets each by its name, made from the options named like its fields."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def grouping(**words: Any) -> Any:
            made = {name: kind(*(words.pop(field) for field in kind._fields)) for name, kind in kinds.items()}
            return command(**made, **words)

        return grouping

    return decorate


def load_each(config: Path | None, **given: Any) -> "dict[str, Settings | SettingsError]":
    """The settings of the named shipper, else of every declared one, by name (empty where none is declared). With several, wrong settings
    of one are returned as its SettingsError.

    Raises SettingsError for errors that concern all, and click.UsageError if folders or the exchange are given for several.
    """
    names = (shipper_given(),) if shipper_given() else _shippers(config) or ("",)
    if len(names) > 1 and (single := [name for name in _SETTINGS if given.get(name) is not None]):
        listed = "|".join(names)
        raise click.UsageError(f"--{single[0]} needs one shipper, and several are declared: add --shipper {listed}")
    if len(names) == 1:
        return {names[0]: _of(names[0], config, given)}
    return {name: _settings_or_error(config, name, given) for name in names}


def _settings_or_error(config: Path | None, name: str, given: dict[str, Any]) -> "Settings | SettingsError":
    try:
        return _of(name, config, given)
    except SettingsError as wrong:
        return wrong


def serves_all(found: Mapping[str, object]) -> bool:
    """Whether `load_each` returned all declared shippers, and there are some."""
    return bool(next(iter(found))) and not shipper_given()


def settings_or_raise(settings: "Settings | SettingsError") -> "Settings":
    """The settings; raises the SettingsError if that is what was loaded."""
    if isinstance(settings, SettingsError):
        raise settings
    return settings


def is_quiet(settings: "Settings") -> bool:
    """Whether the settings ask for silence when nothing needs attention, as cron expects."""
    return not sys.stdout.isatty() if settings.quiet == "auto" else settings.quiet


def any_allows_root(found: "Iterable[Settings | SettingsError]") -> bool:
    """Whether one of these settings lets loadsheet run as root without a warning."""
    return any(
        not isinstance(settings, SettingsError) and (settings.allow_root or settings.quiet is True)
        for settings in found
    )


def clock() -> "Clock":
    """The clock of this command: the one given to `invoke`, else the current time in UTC."""
    from loadsheet.ledger import utc_now

    ctx = click.get_current_context(silent=True)
    given: Clock | None = ctx.find_root().obj if ctx else None
    return given or utc_now


def ledger_to_read(settings: "Settings") -> AbstractContextManager["Ledger"]:
    """The ledger of the settings, for reading only: a run may be in progress. Raises what `open_ledger` raises."""
    from loadsheet.ledger import read_ledger

    return read_ledger(settings.database_url, settings.state, clock=clock())


def held_ledger(settings: "Settings") -> AbstractContextManager["Ledger"]:
    """The ledger of the settings, held by this process alone. Raises what `open_ledger` raises."""
    from loadsheet import run_resources

    return run_resources.held_ledger(settings, clock())


def existing_ledger(settings: "Settings") -> AbstractContextManager["Ledger"]:
    """The same for a command that makes no ledger. Raises LedgerMissing if there is none, as in a wrong folder."""
    from loadsheet.ledger.ledger_opening import is_there

    if not is_there(settings.database_url):
        with ledger_to_read(settings):
            pass  # it says why
    return held_ledger(settings)


def _settings(ctx: click.Context) -> "Settings":
    """The settings of the command line as far as it is typed. Raises LoadsheetError and click.UsageError."""
    given = {name: ctx.params[name] for name in ("mappings", "state") if name in ctx.params}
    with ctx.scope(cleanup=False):
        return load(ctx.params.get("config"), **given)


@contextmanager
def _ledger(ctx: click.Context) -> Iterator["Ledger | None"]:
    """The ledger in a file of the command line, or None if it is on a server."""
    settings = _settings(ctx)
    if settings.is_shared:
        yield None
        return
    with ledger_to_read(settings) as ledger:
        yield ledger


def _quietly(offers: Offers) -> Offers:
    def offer(ctx: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
        with suppress(LoadsheetError, click.ClickException, OSError):
            return offers(ctx, option, begun)
        return []

    return offer


def keys(*states: str) -> Offers:
    """Offers the keys of entries in one of these states (values of State; default: any), those of the latest entries first."""

    @_quietly
    def offer(ctx: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
        from loadsheet.ledger import State

        with _ledger(ctx) as ledger:
            found = ledger.queries.keys_beginning(begun, [*map(State, states)], _MOST) if ledger else []
        return [CompletionItem(key) for key in found]

    return offer


@_quietly
def run_names(ctx: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the names of the latest runs, with their exit codes."""
    with _ledger(ctx) as ledger:
        found = ledger.queries.runs(_MOST) if ledger else []
    return [CompletionItem(run.name, help=f"exit code {run.exit_code}") for run in found if run.name.startswith(begun)]


def keys_and_runs(ctx: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the latest runs and the keys of all entries."""
    return [*run_names(ctx, option, begun), *keys()(ctx, option, begun)]


@_quietly
def mapping_names(ctx: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the names of the mappings in the folder, with their files. The files are searched, not loaded."""
    from loadsheet.mapping.mapping_folder import mapping_files

    settings = _settings(ctx)
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in mapping_files(settings.mappings)}
    named = ((found[1], path) for path, text in texts.items() if (found := _NAME.search(text)))
    return [CompletionItem(name, help=path.name) for name, path in named if name.startswith(begun)]

"""What a command opens: the ledger of the settings, the exchange; who holds the ledger; and the clock of a command.

Libraries that only calls need are imported on use: `runs` and `show` start without them.
"""

import getpass
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadsheet import run_log
from loadsheet.cli.output import say
from loadsheet.ledger import Clock, Ledger, Opening, open_ledger, read_ledger, utc_now
from loadsheet.ledger.ledger_opening import file_of
from loadsheet.problems import SettingsError
from loadsheet.settings import EMBEDDED, Settings

if TYPE_CHECKING:
    from loadsheet.dispatch import Client, Dispatcher


def clock() -> Clock:
    """The clock of this command: the one given to `invoke`, else the current time in UTC."""
    ctx = click.get_current_context(silent=True)
    given: Clock | None = ctx.find_root().obj if ctx else None
    return given or utc_now


def ledger_to_read(settings: Settings) -> AbstractContextManager[Ledger]:
    """The ledger of the settings, for reading only: a run may be in progress. Raises what `open_ledger` raises."""
    return read_ledger(settings.database_url, settings.state, clock=clock())


@contextmanager
def held_ledger(settings: Settings) -> Iterator[Ledger]:
    """The ledger of the settings, held by this process alone. Raises what `open_ledger` raises."""
    opening = Opening(
        state=settings.state,
        takeover_s=settings.cluster.takeover_s,
        allow_network=settings.ledger.allow_network,
        accept_older=settings.ledger.accept_older,
    )
    held = open_ledger(settings.database_url, opening, clock=clock())
    with run_log.opened(settings, reuse=True), held as ledger:
        yield ledger


def refuse_to_decide(settings: Settings) -> None:
    """Raise UsageError if `ledger.deciders` names neither the user of this process nor one of the user's groups."""
    allowed = settings.ledger.deciders
    user, groups = _user_and_groups()
    if allowed and user not in allowed and not {f"@{group}" for group in groups} & {*allowed}:
        raise click.UsageError(f"{user} may not decide: ledger.deciders names {', '.join(allowed)}. Ask one of them")


def _user_and_groups() -> tuple[str, set[str]]:
    """The user of this process and the names of the user's groups, by the operating system and not by variables."""
    try:
        import grp
        import pwd
    except ImportError:  # Windows
        return getpass.getuser(), set()
    known, groups = os.getuid(), {os.getgid(), *os.getgroups()}
    names = set()
    for number in groups:
        with suppress(KeyError):  # a number without a name
            names.add(grp.getgrgid(number).gr_name)
    try:
        return pwd.getpwuid(known).pw_name, names
    except KeyError:
        return str(known), names


def holder_of_file(path: Path) -> str:
    """The live process that holds a ledger file, as text (empty: none). Does not try the lock, because that could block a run that
    begins now.
    """
    try:
        holder = Path(f"{path}.holder").read_text(encoding="utf-8")
        number = int(holder.split()[1])
        if f" on {socket.gethostname()} " in holder and os.name == "posix":
            os.kill(number, 0)
    except (OSError, ValueError, IndexError):
        return ""
    return holder


def holder_of(settings: Settings) -> str:
    """The live process that holds the ledger of the settings, as text; empty if none does. Raises LedgerGone if the server is unreachable."""
    if not settings.is_shared:
        return holder_of_file(file_of(settings.database_url))
    from loadsheet.ledger.postgres import look

    return look(settings.database_url, settings.cluster.takeover_s).holder


@contextmanager
def exchange_client(settings: Settings) -> Iterator["Client"]:
    """A client of the exchange in the settings. The embedded exchange is started for it, with its own token.

    Raises SettingsError without a token.
    """
    from loadsheet.dispatch import Client

    if settings.exchange != EMBEDDED:
        from loadsheet.credentials import another_token, required_token

        renew = partial(another_token, settings)
        with Client(settings.exchange, required_token(settings), settings, renew=renew) as client:
            yield client
        return
    from loadsheet.exchange import Embedded

    token = secrets.token_urlsafe(32)
    settings.state.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{settings.state / 'exchange.db'}"
    with Embedded(database, token, settings.assumptions) as served, Client(served.url, token, settings) as client:
        yield client


@contextmanager
def dispatcher_for(settings: Settings, stopping: Sequence[int] | None = None) -> Iterator["Dispatcher"]:
    """The dispatcher of a run; with a shared ledger it uses the shared rate. A caller with its own signal handlers passes `stopping`, the
    signals received so far. Raises SettingsError.
    """
    from loadsheet.dispatch import Dispatcher

    if not settings.is_shared:
        with exchange_client(settings) as client:
            yield Dispatcher(client, stopping=stopping)
        return
    from loadsheet.cluster.rate import shared_pace

    check_exchange(settings)
    with exchange_client(settings) as client, shared_pace(settings, say) as pace:
        yield Dispatcher(client, pace, stopping)


def check_exchange(settings: Settings) -> None:
    """Raise SettingsError if the ledger is shared but the exchange is embedded, which only one process can reach."""
    if settings.is_shared and settings.exchange == EMBEDDED:
        message = "exchange: the embedded exchange runs in a single process, but several share a ledger on PostgreSQL"
        raise SettingsError(message, todo="give the URL of an exchange (`loadsheet exchange serve` is one)")

"""What a command opens: the ledger of the settings; who holds it and who may decide about it; and the clock of a command.

What opens them is imported on use: help needs none of it.
"""

import os
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from loadsheet.ledger import Clock, Ledger
    from loadsheet.settings import Settings


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


def refuse_to_decide(settings: "Settings") -> None:
    """Raise UsageError if `ledger.deciders` names neither the user of this process nor one of the user's groups."""
    allowed = settings.ledger.deciders
    user, groups = _user_and_groups()
    if allowed and user not in allowed and not {f"@{group}" for group in groups} & {*allowed}:
        raise click.UsageError(f"{user} may not decide: ledger.deciders names {', '.join(allowed)}. Ask one of them")


def _user_and_groups() -> tuple[str, set[str]]:
    """The user of this process and the names of the user's groups, by the operating system and not by variables."""
    import getpass

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
    import socket

    try:
        holder = Path(f"{path}.holder").read_text(encoding="utf-8")
        number = int(holder.split()[1])
        if f" on {socket.gethostname()} " in holder and os.name == "posix":
            os.kill(number, 0)
    except (OSError, ValueError, IndexError):
        return ""
    return holder


def holder_of(settings: "Settings") -> str:
    """The live process that holds the ledger of the settings, as text; empty if none does. Raises LedgerGone if the server is unreachable."""
    if not settings.is_shared:
        from loadsheet.ledger.ledger_opening import file_of

        return holder_of_file(file_of(settings.database_url))
    from loadsheet.ledger.postgres import look

    return look(settings.database_url, settings.cluster.takeover_s).holder

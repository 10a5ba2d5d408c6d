"""What tells a command the time."""

import click

from loadsheet.ledger import Clock, utc_now


def clock() -> Clock:
    """What tells this command the time: the present moment in UTC, or what `invoke` was given."""
    ctx = click.get_current_context(silent=True)
    given: Clock | None = ctx.find_root().obj if ctx else None
    return given or utc_now

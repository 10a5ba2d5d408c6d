"""What the doctor finds about the token and the exchange, and how far its clock is from ours.

Owns: how much difference between clocks is too much. The token itself is never shown.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from loadsheet.cli.connections import reached
from loadsheet.cli.doctor.findings import Finding, ok, warning, wrong
from loadsheet.contract import BY_NAME
from loadsheet.credentials import exposed, read_token, source
from loadsheet.dispatch import Client
from loadsheet.problems import TokenRefused
from loadsheet.settings import EMBEDDED, Settings

APART, FAR_APART = timedelta(seconds=5), timedelta(seconds=60)
_DATE_RESOLUTION = timedelta(seconds=1)
_UNAUTHORISED = 401


def token(settings: Settings) -> Iterator[Finding]:
    """Whether there is a token, where it comes from, and who else can read it."""
    for path in exposed(settings):
        yield wrong(
            "token", f"everybody on this machine can read {path}", f"chmod 600 {path}, and have the token renewed"
        )
    if settings.exchange == EMBEDDED:
        yield ok("token", "none is needed for our own exchange in this process")
        return
    if read_token(settings):
        yield ok("token", f"there is one, {source(settings)}")
        return
    yield wrong("token", f"there is none for {settings.exchange}", "set LOADSHEET_TOKEN, token_file or token_command")


def exchange(settings: Settings, clock: Callable[[], datetime]) -> Iterator[Finding]:
    """Whether the exchange answers and takes the token, and what its clock says."""
    if settings.exchange == EMBEDDED:
        yield ok("exchange", "embedded: needs nothing")
        return
    with reached(settings) as client:
        yield from _clock(client, clock)
        try:
            listing = client.listing(BY_NAME["order.list"], 1)
        except TokenRefused as error:
            yield wrong("token", f"{settings.exchange} refuses it ({source(settings)})", error.todo)
            return
        yield ok("exchange", f"{settings.exchange} answers and takes the token; it holds {listing.total_count} orders")


def _clock(client: Client, clock: Callable[[], datetime]) -> Iterator[Finding]:
    """The exchange's clock against ours. Its answers name a second, made at some moment between the call and its end."""
    began = clock()
    reply = client.shortest_listing(BY_NAME["order.list"])
    ended = clock()
    try:
        theirs = parsedate_to_datetime(reply.date)
    except (TypeError, ValueError):
        return  # no answer, or one that says no date: nothing is known
    early, late = began - _DATE_RESOLUTION, ended
    apart = theirs - late if theirs > late else early - theirs if theirs < early else timedelta()
    if apart <= APART:
        yield ok(
            "clock",
            "agrees with that of the exchange"
            if apart <= _DATE_RESOLUTION
            else f"{apart.total_seconds():.0f} s apart from that of the exchange",
        )
        return
    told = f"ours is {apart.total_seconds():,.0f} s {'behind' if theirs > late else 'ahead of'} that of the exchange"
    todo = "set this machine's clock (timedatectl set-ntp true); if it is right, tell the exchange"
    yield (wrong if apart > FAR_APART else warning)("clock", told, todo)

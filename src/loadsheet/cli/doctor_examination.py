"""All checks of `loadsheet doctor` in their order, those of token, exchange and notices, and the notice that it sends on request.

Tokens and passwords in addresses are never shown.
"""

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from loadsheet.cli import doctor_checks as checks
from loadsheet.cli.doctor import A_TEST
from loadsheet.cli.doctor_checks import Finding, checked, ok, warning, wrong
from loadsheet.cli.options import any_allows_root
from loadsheet.contract import BY_NAME
from loadsheet.credentials import exposed, required_token, source
from loadsheet.dispatch import Client
from loadsheet.ledger import Clock, utc_now
from loadsheet.ledger.codec import stamp
from loadsheet.operations.notifications.notice_delivery import (
    FIXES,
    NOTIFY,
    OWNER,
    addresses,
    deliver,
    is_deliverable,
)
from loadsheet.operations.notifications.state import Notice
from loadsheet.problems import SettingsError, TokenRefused
from loadsheet.run_resources import check_exchange, exchange_client
from loadsheet.settings import EMBEDDED, Settings

APART, FAR_APART = timedelta(seconds=5), timedelta(seconds=60)
_DATE_RESOLUTION = timedelta(seconds=1)


def examine_all(
    every: Mapping[str, Settings | SettingsError], now: Clock, *, quick: bool, notice: str | None
) -> dict[str, list[Finding]]:
    """The findings about these shippers by name, those about the machine with the first; `now` is the time for ages. Unless `notice` is None,
    they are sent as a notice after this text.
    """
    machine = [*checks.versions(), *checks.user(root_allowed=any_allows_root(every.values()))]
    found = {
        name: [wrong("settings", str(settings))]
        if isinstance(settings, SettingsError)
        else list(examine(settings, now, quick=quick))
        for name, settings in every.items()
    }
    found = {"": machine + found.pop("", [])} | found
    if notice is not None:
        sound = [settings for settings in every.values() if isinstance(settings, Settings)]
        found[""] += send(sound, notice, [finding for findings in found.values() for finding in findings], now())
    return found


def examine(settings: Settings, clock: Clock, *, ours: Clock = utc_now, quick: bool = False) -> Iterator[Finding]:
    """Every finding about one set of settings. `clock` gives the time for ages, `ours` the time of this machine's clock (both aware,
    UTC).
    """
    yield from checks.settings_file(settings)
    yield from checks.folders(settings)
    yield from checks.free_space(settings)
    yield from checked("extras", lambda: checks.installed_extras(settings))
    yield from checked("mappings", lambda: checks.mappings(settings))
    yield from checked("ledger", lambda: checks.ledger(settings, clock(), quick=quick))
    yield from checked("token", lambda: token(settings))
    yield from checked("exchange", lambda: exchange(settings, ours, quick=quick))
    if not quick:
        yield from checked("notices", lambda: notices(settings))


def token(settings: Settings) -> Iterator[Finding]:
    """Whether there is a token, where it comes from, and who else can read it. Raises SettingsError if there is none."""
    for path in exposed(settings):
        yield wrong("token", f"every user of this machine can read {path}", f"chmod 600 {path}, and renew the token")
    if settings.exchange == EMBEDDED:
        yield ok("token", "the embedded exchange needs none")
        return
    required_token(settings)
    yield ok("token", f"set, {source(settings)}")


def exchange(settings: Settings, clock: Clock, *, quick: bool) -> Iterator[Finding]:
    """Whether a run may use the exchange, and unless `quick`, whether it answers and accepts the token, and whether its clock agrees."""
    check_exchange(settings)
    if quick:
        return
    if settings.exchange == EMBEDDED:
        yield ok("exchange", "embedded")
        return
    with exchange_client(settings) as client:
        yield from _clock(client, clock)
        try:
            listing = client.listing(BY_NAME["order.list"], 1)
        except TokenRefused as error:
            yield wrong("exchange", f"{settings.exchange} refuses the token ({source(settings)})", error.todo)
            return
        yield ok("exchange", f"{settings.exchange} answers and accepts the token; it has {listing.total_count} orders")


def _clock(client: Client, clock: Clock) -> Iterator[Finding]:
    """Compares the exchange's clock with ours. Its answers contain a time in whole seconds, taken between the start and end of the call."""
    began = clock()
    reply = client.shortest_listing(BY_NAME["order.list"])
    ended = clock()
    try:
        theirs = parsedate_to_datetime(reply.date)
    except (TypeError, ValueError):
        return  # no answer, or no date in it
    early, late = began - _DATE_RESOLUTION, ended
    apart = theirs - late if theirs > late else early - theirs if theirs < early else timedelta()
    if apart <= APART:
        yield ok(
            "clock",
            "agrees with the clock of the exchange"
            if apart <= _DATE_RESOLUTION
            else f"differs by {apart.total_seconds():.0f} s from the clock of the exchange",
        )
        return
    text = f"this machine's clock is {apart.total_seconds():,.0f} s {'behind' if theirs > late else 'ahead of'} that of the exchange"
    todo = "set this machine's clock (timedatectl set-ntp true); if it is right, contact the exchange"
    yield (wrong if apart > FAR_APART else warning)("clock", text, todo)


def notices(settings: Settings) -> Iterator[Finding]:
    """Whether the addresses of notices are well-formed. Nothing is sent."""
    faults: list[str] = []
    to = {
        "notifications.urls": NOTIFY,
        "notifications.fixes_mail": FIXES,
        **{f"notifications.owners, {name}": f"{OWNER}{name}" for name in settings.notifications.owners},
    }
    found = {name: addresses(settings, whom, faults.append)[0] for name, whom in to.items()}
    for fault in dict.fromkeys(faults):
        yield wrong("notices", fault, "allow loadsheet to read it, or remove notifications.urls_file")
    for name, known in found.items():
        for place, address in enumerate(known, start=1):
            if not is_deliverable(address):
                text = f"{name}: address {place} ({address.label}) is not a valid address for notices"
                yield wrong("notices", text, "write it as an apprise URL, such as mailto://user:password@example.com")
    if not faults and all(is_deliverable(address) for known in found.values() for address in known):
        text = "; ".join(f"{name}: {', '.join(each.label for each in known)}" for name, known in found.items() if known)
        yield ok("notices", text or "no notices are sent (notifications.urls is not set)")


def send(every: Iterable[Settings], text: str, found: Sequence[Finding], now: datetime) -> Iterator[Finding]:
    """Send a text with the findings to every address for notices in the settings, once each."""
    faults: list[str] = []
    known = {address.url: address for settings in every for address in addresses(settings, NOTIFY, faults.append)[0]}
    for fault in dict.fromkeys(faults):
        yield wrong("notices", fault)
    if not known:
        yield wrong("notices", "no address for notices is set", "set notifications.urls, or notifications.urls_file")
    notice = _notice(text, found, now)
    for address in known.values():
        if why := deliver(address, notice):
            todo = "check the address, and whether this machine can reach it"
            yield wrong("notices", f"{address.label}: {why}", todo)
        else:
            yield ok("notices", f"a notice was sent to {address.label}")


def _notice(text: str, found: Sequence[Finding], now: datetime) -> Notice:
    bad = [finding for finding in found if finding.level != "ok"]
    lines = [
        f"{finding.level}: {finding.check}: {finding.text}" + (f" ({finding.todo})" if finding.todo else "")
        for finding in bad
    ]
    body = "\n".join([text, "", *(lines or ["loadsheet doctor found no problem."])])
    where = socket.gethostname()
    title = f"loadsheet on {where}: " + ("a test" if text == A_TEST else text)
    return Notice(NOTIFY, stamp(now), "info" if text == A_TEST else "failure", title, body)

"""`loadsheet doctor`: checks whether everything is in place, and says what to do if not; sends the findings as a notice on request.

Owns the findings, their display, and the checks of token, exchange and notices; those of this machine are in `doctor_checks`. Tokens and
passwords in addresses are never shown.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from loadsheet.cli.options import (
    CONFIG,
    EXCHANGE,
    INBOX,
    JSON,
    MAPPINGS,
    OUTBOX,
    STATE,
    any_allows_root,
    clock,
    combined_options,
    load_each,
)
from loadsheet.cli.output import print_json, print_table
from loadsheet.display_text import count_of
from loadsheet.errors import LoadsheetError, SettingsError, TokenRefused

if TYPE_CHECKING:
    from loadsheet.dispatch import Client
    from loadsheet.ledger import Clock
    from loadsheet.operations.notifications.state import Notice
    from loadsheet.settings import Settings


Level = Literal["ok", "warning", "wrong"]
A_TEST = "This is a test: loadsheet doctor --notify sent it."
_WORST_FIRST = ("wrong", "warning", "ok")

APART, FAR_APART = timedelta(seconds=5), timedelta(seconds=60)
_DATE_RESOLUTION = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check. `text` says what was found, `todo` what to do about it (empty: nothing, or it is in `text`)."""

    check: str
    level: Level
    text: str
    todo: str = ""


def ok(check: str, text: str) -> DoctorFinding:
    """Nothing to do."""
    return DoctorFinding(check, "ok", text)


def warning(check: str, text: str, todo: str = "") -> DoctorFinding:
    """Runs continue, but this needs attention."""
    return DoctorFinding(check, "warning", text, todo)


def wrong(check: str, text: str, todo: str = "") -> DoctorFinding:
    """Runs fail because of this, or it is a security risk."""
    return DoctorFinding(check, "wrong", text, todo)


def checked(check: str, run_check: Callable[[], Iterable[DoctorFinding]]) -> Iterator[DoctorFinding]:
    """The findings of `run_check`; a LoadsheetError or a file that may not be read ends it and becomes the last finding."""
    try:
        yield from run_check()
    except LoadsheetError as error:
        yield wrong(check, error.found, error.todo)
    except PermissionError as error:
        yield wrong(check, f"{error.filename} cannot be read", "let the user that loadsheet runs as read it")


@click.command()
@combined_options(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option("--quick", is_flag=True, help="Only fast, local checks: no calls, and the ledger is not read completely.")
@click.option(
    "--notify",
    metavar="[TEXT]",
    is_flag=False,
    flag_value=A_TEST,
    help="Send the findings as a notice, after this text (default: a note that this is a test).",
)
@JSON
def doctor(*, config: Path | None, quick: bool, notify: str | None, as_json: bool, **given: Any) -> int:
    """Check folders, disk, mappings, ledger, time zones, token, exchange, clock and notices, and say what to do about each problem.

    Exits with 1 if anything is wrong; warnings alone exit with 0. Checks all declared shippers, or the one given by --shipper.
    Sends a notice only with --notify.
    """
    found = examine_all(load_each(config, **given), clock(), quick=quick, notice=notify)
    _show(found, as_json=as_json)
    return int(any(finding.level == "wrong" for findings in found.values() for finding in findings))


def _show(found: Mapping[str, list[DoctorFinding]], *, as_json: bool) -> None:
    rows = [(shipper, finding) for shipper, findings in found.items() for finding in findings]
    if as_json:
        print_json(
            [
                {
                    "shipper": shipper,
                    "check": finding.check,
                    "level": finding.level,
                    "ok": finding.level != "wrong",
                    "finding": finding.text,
                    "do": finding.todo,
                }
                for shipper, finding in rows
            ]
        )
        return
    names = ["Shipper", "Check", "", "Finding", "What to do"]
    shown = [(shipper, finding) for shipper, findings in found.items() for finding in _folded(findings)]
    shown.sort(key=lambda one: _WORST_FIRST.index(one[1].level))
    cells = [[shipper, finding.check, finding.level, finding.text, finding.todo] for shipper, finding in shown]
    first = int(len(found) == 1)  # without the column of shippers
    print_table(names[first:], [row[first:] for row in cells])


def _folded(findings: Sequence[DoctorFinding]) -> Iterator[DoctorFinding]:
    """The findings, with all that are ok about several things of one kind, such as mappings, as one."""
    fine = Counter(finding.check for finding in findings if finding.level == "ok")
    folded: set[str] = set()
    for finding in findings:
        count = fine[finding.check]
        if finding.level != "ok" or count == 1:
            yield finding
        elif finding.check not in folded:
            folded.add(finding.check)
            yield replace(finding, text=f"{count:,} ok (--json lists them)", todo="")


def examine_all(
    every: "Mapping[str, Settings | SettingsError]", now: "Clock", *, quick: bool, notice: str | None
) -> dict[str, list[DoctorFinding]]:
    """The findings about these shippers by name, those about the machine with the first; `now` is the time for ages. Unless `notice` is None,
    they are sent as a notice after this text.
    """
    from loadsheet.cli import doctor_checks
    from loadsheet.settings import Settings

    machine = [*doctor_checks.versions(), *doctor_checks.user(root_allowed=any_allows_root(every.values()))]
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


def examine(
    settings: "Settings", clock: "Clock", *, ours: "Clock | None" = None, quick: bool = False
) -> Iterator[DoctorFinding]:
    """Every finding about one set of settings. `clock` gives the time for ages, `ours` that of this machine's clock (default: it;
    both aware, UTC).
    """
    from loadsheet.cli import doctor_checks as checks
    from loadsheet.ledger import utc_now

    yield from checks.settings_file(settings)
    yield from checks.folders(settings)
    yield from checked("space", lambda: checks.free_space(settings))
    yield from checked("extras", lambda: checks.installed_extras(settings))
    yield from checked("mappings", lambda: checks.mappings(settings))
    yield from checked("ledger", lambda: checks.ledger(settings, clock(), quick=quick))
    tokens = list(checked("token", lambda: token(settings)))
    yield from tokens
    known = {finding.text for finding in tokens}  # the exchange would repeat that there is no token
    asked = checked("exchange", lambda: exchange(settings, ours or utc_now, quick=quick))
    yield from (finding for finding in asked if finding.text not in known)
    if not quick:
        yield from checked("notices", lambda: notices(settings))


def token(settings: "Settings") -> Iterator[DoctorFinding]:
    """Whether there is a token, where it comes from, and who else can read it. Raises SettingsError if there is none."""
    from loadsheet.credentials import required_token, source, world_readable_token_files
    from loadsheet.settings import EMBEDDED

    for path in world_readable_token_files(settings):
        yield wrong("token", f"every user of this machine can read {path}", f"chmod 600 {path}, and renew the token")
    if settings.exchange == EMBEDDED:
        yield ok("token", "the embedded exchange needs none")
        return
    required_token(settings)
    yield ok("token", f"set, {source(settings)}")


def exchange(settings: "Settings", clock: "Clock", *, quick: bool) -> Iterator[DoctorFinding]:
    """Whether a run may use the exchange, and unless `quick`, whether it answers and accepts the token, and whether its clock agrees."""
    from loadsheet.contract import BY_NAME
    from loadsheet.credentials import source
    from loadsheet.run_resources import check_exchange, exchange_client
    from loadsheet.settings import EMBEDDED

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
        held = count_of(listing.total_count, "order")
        yield ok("exchange", f"{settings.exchange} answers and accepts the token; it has {held}")


def _clock(client: "Client", clock: "Clock") -> Iterator[DoctorFinding]:
    """Compares the exchange's clock with ours. Its answers contain a time in whole seconds, taken between the start and end of the call."""
    from email.utils import parsedate_to_datetime

    from loadsheet.contract import BY_NAME

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


def notices(settings: "Settings") -> Iterator[DoctorFinding]:
    """Whether the addresses of notices are well-formed. Nothing is sent."""
    from loadsheet.operations.notifications.notice_delivery import FIXES, NOTIFY, OWNER, addresses, is_deliverable

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


def send(
    every: "Iterable[Settings]", text: str, found: Sequence[DoctorFinding], now: datetime
) -> Iterator[DoctorFinding]:
    """Send a text with the findings to every address for notices in the settings, once each."""
    from loadsheet.operations.notifications.notice_delivery import NOTIFY, addresses, deliver

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


def _notice(text: str, found: Sequence[DoctorFinding], now: datetime) -> "Notice":
    from loadsheet.ledger.codec import stamp
    from loadsheet.operations.notifications.notice_delivery import NOTIFY
    from loadsheet.operations.notifications.state import Notice

    bad = [finding for finding in found if finding.level != "ok"]
    lines = [
        f"{finding.level}: {finding.check}: {finding.text}" + (f" ({finding.todo})" if finding.todo else "")
        for finding in bad
    ]
    body = "\n".join([text, "", *(lines or ["loadsheet doctor found no problem."])])
    where = socket.gethostname()
    title = f"loadsheet on {where}: " + ("a test" if text == A_TEST else text)
    return Notice(NOTIFY, stamp(now), "info" if text == A_TEST else "failure", title, body)

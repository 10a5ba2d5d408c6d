"""What the doctor finds about notices: whether each address can be one at all; and the notice it sends on wish.

Addresses hold passwords: of one only what `Address.label` says is ever shown.
"""

import socket
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from loadsheet.cli.doctor.findings import Finding, ok, wrong
from loadsheet.ledger.codec import stamp
from loadsheet.operations.notifications.delivery import (
    FIXES,
    NOTIFY,
    OWNER,
    Address,
    addresses,
    deliver,
    is_deliverable,
)
from loadsheet.operations.notifications.state import Notice
from loadsheet.settings import Settings

A_TEST = "This is a test: loadsheet doctor --notify sent it."


def notices(settings: Settings) -> Iterator[Finding]:
    """Whether the addresses of notices can be used, as far as they themselves show. Nothing is sent."""
    faults: list[str] = []
    to = {
        "notify": NOTIFY,
        "fixes_mail": FIXES,
        **{f"notify_owners, {name}": f"{OWNER}{name}" for name in settings.notify_owners},
    }
    found = {name: addresses(settings, whom, faults.append)[0] for name, whom in to.items()}
    for fault in dict.fromkeys(faults):
        yield wrong("notices", fault, "let loadsheet read it, or take notify_file out")
    for name, known in found.items():
        for place, address in enumerate(known, start=1):
            if not is_deliverable(address):
                told = f"{name}: address {place} ({address.label}) is none that notices can go to"
                yield wrong("notices", told, "write it as apprise does, such as mailto://user:password@example.com")
    if not faults and all(is_deliverable(address) for known in found.values() for address in known):
        told = "; ".join(f"{name}: {', '.join(each.label for each in known)}" for name, known in found.items() if known)
        yield ok("notices", told or "nobody is told of anything (notify is not set)")


def send(every: Iterable[Settings], text: str, found: Sequence[Finding], now: datetime) -> Iterator[Finding]:
    """Send a text with what was found to everybody whom the settings name for notices, once each."""
    faults: list[str] = []
    known = {one.url: one for settings in every for one in addresses(settings, NOTIFY, faults.append)[0]}
    for fault in dict.fromkeys(faults):
        yield wrong("notices", fault)
    if not known:
        yield wrong("notices", "there is nobody to send a notice to", "set notify, or notify_file")
    notice = _notice(text, found, now)
    for address in known.values():
        yield _sent(address, deliver(address, notice))


def _sent(address: Address, why: str) -> Finding:
    if why:
        return wrong("notices", f"{address.label}: {why}", "look at the address, and whether this machine reaches it")
    return ok("notices", f"a notice was sent to {address.label}")


def _notice(text: str, found: Sequence[Finding], now: datetime) -> Notice:
    bad = [finding for finding in found if finding.level != "ok"]
    lines = [f"{one.level}: {one.check}: {one.text}" + (f" ({one.todo})" if one.todo else "") for one in bad]
    body = "\n".join([text, "", *(lines or ["loadsheet doctor finds nothing wrong."])])
    where = socket.gethostname()
    title = f"loadsheet on {where}: " + ("a test" if text == A_TEST else text)
    return Notice(NOTIFY, stamp(now), "info" if text == A_TEST else "failure", title, body)

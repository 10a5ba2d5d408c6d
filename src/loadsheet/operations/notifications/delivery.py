"""Delivering: one notice to one address, by apprise.

Owns: the addresses, and that they stay secret: of one only its scheme is ever said, and its host where that is a host and no token.
apprise is loaded when there is something to deliver; what it logs is silenced, as it knows the addresses.
"""

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadsheet.operations.notifications.state import Kept, Notice
from loadsheet.settings import Settings

NOTIFY, FIXES, OWNER = "notify", "fixes", "owner:"
"""To whom a notice can go: those of `notify`, the shipper, and before an owner's name."""

Remember = Callable[[Kept], object]

TRIES = 2
"""So many failures at an address in one night say that it cannot be reached."""

_HOSTS_ARE_HOSTS = frozenset(
    {"json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos", "syslog", "rsyslog", "gotify", "gotifys"}
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where notices go: an apprise URL, which may hold passwords, and what it may be called."""

    url: str
    called: str

    @classmethod
    def of(cls, url: str) -> "Address":
        """The address with a name that holds no secret: `mailto://smtp.example.org`, or just `slack://...`."""
        scheme, colon, _ = url.partition("://")
        if not colon or not scheme.isalnum():
            return cls(url, "an address that is no URL")
        try:
            host = urlsplit(url).hostname if scheme.lower() in _HOSTS_ARE_HOSTS else None
        except ValueError:
            host = None
        return cls(url, f"{scheme.lower()}://{host or '...'}")


def addresses(settings: Settings, to: str, say: Callable[[str], None]) -> tuple[list[Address], bool]:
    """Where a notice goes, and whether those are all: a file of addresses that cannot be read is said. What is for an owner without an
    address goes to `notify`.
    """
    if to == FIXES:
        return [Address.of(one.get_secret_value()) for one in settings.fixes_mail], True
    owners = {name.strip().casefold(): url for name, url in settings.notify_owners.items()}
    own = owners.get(to.removeprefix(OWNER).strip().casefold()) if to.startswith(OWNER) else None
    if own is not None:
        return [Address.of(own.get_secret_value())], True
    in_file = _in_file(settings.notify_file, say)
    urls = [*(one.get_secret_value() for one in settings.notify), *(in_file or ())]
    return [Address.of(url) for url in dict.fromkeys(urls) if url.strip()], in_file is not None


def understood(address: Address) -> bool:
    """Whether notices could go to an address, as far as it shows itself: nobody is asked on the network."""
    with _silenced():
        return _sender(address) is not None


def deliver_all(settings: Settings, kept: Kept, remember: Remember, say: Callable[[str], None]) -> Kept:
    """Deliver what waits, in the order in which it came to be; remember each delivery at once. After `TRIES` failures at an address just the
    newest is tried there, and what others were delivered past goes behind them: a notice that nobody takes must not hold up
    all after it. A process that is killed between delivering and remembering tells twice.
    """
    return _Round(settings, kept, remember, say).delivered()


class _Round:
    """One attempt at everything that waits."""

    def __init__(self, settings: Settings, kept: Kept, remember: Remember, say: Callable[[str], None]) -> None:
        self._kept, self._remember, self._say = kept, remember, say
        self._to = {to: addresses(settings, to, say) for to in dict.fromkeys(notice.to for notice in kept.outbox)}
        self._newest = {notice.to: notice for notice in kept.outbox}
        self._failures: Counter[str] = Counter()
        self._reached: set[str] = set()
        self._refused: list[tuple[str, Notice]] = []

    def delivered(self) -> Kept:
        """What is left to remember afterwards."""
        for notice in self._kept.outbox:
            self._deliver(notice)
        self._put_behind([notice for url, notice in self._refused if url in self._reached])
        return self._kept

    def _deliver(self, notice: Notice) -> None:
        wanted, all_known = self._to[notice.to]
        is_newest = notice is self._newest[notice.to]
        for address in wanted:
            mark = self._kept.mark(address.url)
            if mark in notice.reached or (self._failures[address.url] >= TRIES and not is_newest):
                continue
            if why := deliver(address, notice):
                self._note_failure(address, notice, why)
                continue
            self._reached.add(address.url)
            further = replace(notice, reached=(*notice.reached, mark))
            self._keep([further if one is notice else one for one in self._kept.outbox])
            notice = further
        if all_known and all(self._kept.mark(address.url) in notice.reached for address in wanted):
            self._keep([one for one in self._kept.outbox if one is not notice])

    def _note_failure(self, address: Address, notice: Notice, why: str) -> None:
        self._failures[address.url] += 1
        self._refused.append((address.url, notice))
        if self._failures[address.url] == 1:
            self._say(f"notices: {address.called}: {why}; it is tried again after the next run")

    def _put_behind(self, refused: Sequence[Notice]) -> None:
        late = [one for one in self._kept.outbox if any(one is notice for notice in refused)]
        if late:
            self._keep([*(one for one in self._kept.outbox if not any(one is notice for notice in late)), *late])

    def _keep(self, outbox: Sequence[Notice]) -> None:
        self._kept = replace(self._kept, outbox=tuple(outbox))
        self._remember(self._kept)


def deliver(address: Address, notice: Notice) -> str:
    """Deliver one notice to one address; returns why it could not be done, without secrets, or nothing."""
    with _silenced():
        sender = _sender(address)
        if sender is None:
            return "this is no address that notices can go to"
        there = [path for path in notice.files if Path(path).is_file()]
        gone = [Path(path).name for path in notice.files if path not in there]
        body = notice.body + (f"\n\nNot there any more: {', '.join(gone)}" if gone else "")
        try:
            done = sender.notify(
                body=body,
                title=notice.title,
                notify_type=notice.kind,
                body_format="text",
                attach=_attached(there) if there else None,
            )
        except (TypeError, ValueError, OSError, UnicodeError) as error:  # a plugin's own faults
            return f"the notice could not be delivered ({type(error).__name__})"
    return "" if done else "the notice could not be delivered"


def _sender(address: Address) -> Any:
    """What delivers to an address; None if that is none."""
    import apprise  # noqa: PLC0415 (takes half a second to load, and few nights have anything to tell)

    sender = apprise.Apprise(asset=apprise.AppriseAsset(app_id="loadsheet", app_desc="loadsheet", app_url=""))
    return sender if sender.add(address.url) else None


def _attached(paths: Sequence[str]) -> Any:
    """Files as attachments: given as such, as a text would be read as a URL."""
    import apprise  # noqa: PLC0415
    from apprise.attachment.file import AttachFile  # noqa: PLC0415

    return apprise.AppriseAttachment([AttachFile(path, name=Path(path).name) for path in paths])  # type: ignore[no-untyped-call]


@contextmanager
def _silenced() -> Iterator[None]:
    """Neither what apprise logs, which knows the addresses, nor what the libraries under its many plugins deprecate."""
    log = logging.getLogger("apprise")
    log.handlers, log.propagate = [logging.NullHandler()], False
    log.setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _in_file(path: Path | None, say: Callable[[str], None]) -> list[str] | None:
    if path is None:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        say(f"notices: notify_file {path} cannot be read ({why})")
        return None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]

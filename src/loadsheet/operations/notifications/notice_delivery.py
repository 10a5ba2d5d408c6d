"""Delivery of notices by apprise or another package, and pings of a health check.

Addresses are secret: messages show only the scheme, and the host if it is a host and not a token. apprise is imported when there is
something to deliver; its log is silenced, because it contains addresses.
"""

import logging
import urllib.error
import urllib.request
import warnings
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from http.client import HTTPException, HTTPMessage
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from loadsheet.display_text import templates_of
from loadsheet.extras import OWN_NOTICES, need
from loadsheet.operations.notifications.state import Notice, NotificationState
from loadsheet.settings import Settings

NOTIFY, FIXES, OWNER = "notify", "fixes", "owner:"
"""The recipients of a notice: the addresses of `notifications.urls`, the shipper, and the prefix before an owner's name."""

PING_BYTES_MAX = 10_000
"""Maximum size of a ping's body; a longer body loses its beginning."""

Send = Callable[[Notice, str, Sequence[str]], bool]
"""Sends a notice with this body and these files (paths); returns whether it did. Raises errors of plugins."""

SaveState = Callable[[NotificationState], object]

FAILURES_MAX = 2
"""Failures at an address in one run after which it counts as unreachable."""

_HOSTS_ARE_HOSTS = frozenset(
    {"json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos", "syslog", "rsyslog", "gotify", "gotifys"}
)


@dataclass(frozen=True, slots=True)
class Address:
    """An apprise URL, which may hold passwords, and a label for messages that holds none."""

    url: str
    label: str

    @classmethod
    def of(cls, url: str) -> "Address":
        """The address with its label: `mailto://smtp.example.org`, or just `slack://...`."""
        scheme, colon, _ = url.partition("://")
        if not colon or not scheme.isalnum():
            return cls(url, "an address that is not a URL")
        try:
            host = urlsplit(url).hostname if scheme.lower() in _HOSTS_ARE_HOSTS else None
        except ValueError:
            host = None
        return cls(url, f"{scheme.lower()}://{host or '...'}")


def addresses(settings: Settings, to: str, say: Callable[[str], None]) -> tuple[list[Address], bool]:
    """The addresses of a recipient, and whether they are complete: False, with a warning, if `notifications.urls_file` cannot be read. An owner without
    an address has those of `notifications.urls`.
    """
    if to == FIXES:
        return [Address.of(url.get_secret_value()) for url in settings.notifications.fixes_mail], True
    owners = {name.strip().casefold(): url for name, url in settings.notifications.owners.items()}
    own = owners.get(to.removeprefix(OWNER).strip().casefold()) if to.startswith(OWNER) else None
    if own is not None:
        return [Address.of(own.get_secret_value())], True
    file_store = _in_file(settings.notifications.urls_file, say)
    urls = [*(url.get_secret_value() for url in settings.notifications.urls), *(file_store or ())]
    return [Address.of(url) for url in dict.fromkeys(urls) if url.strip()], file_store is not None


def is_deliverable(address: Address) -> bool:
    """Whether the address can be used. Does not use the network."""
    with _silenced():
        return _sender(address) is not None


def deliver_all(
    settings: Settings, state: NotificationState, save: SaveState, say: Callable[[str], None]
) -> NotificationState:
    """Deliver the outbox, oldest notice first, and save after each delivery. Returns the new state.

    After `FAILURES_MAX` failures at an address only its newest notice is still tried. A notice that an address refused while it took others
    moves to the end, so that it does not block them. A process that is killed between delivery and save sends the notice twice.
    """
    return _DeliveryRound(settings, state, save, say).deliver_outbox()


class _DeliveryRound:
    """One attempt to deliver the whole outbox."""

    def __init__(
        self, settings: Settings, state: NotificationState, save: SaveState, say: Callable[[str], None]
    ) -> None:
        self._state, self._save, self._say = state, save, say
        self._to = {to: addresses(settings, to, say) for to in dict.fromkeys(notice.to for notice in state.outbox)}
        self._newest = {notice.to: notice for notice in state.outbox}
        self._failures: Counter[str] = Counter()
        self._reached: set[str] = set()
        self._refused: list[tuple[str, Notice]] = []

    def deliver_outbox(self) -> NotificationState:
        """Deliver; returns the state afterwards."""
        for notice in self._state.outbox:
            self._deliver(notice)
        self._move_to_end([notice for url, notice in self._refused if url in self._reached])
        return self._state

    def _deliver(self, notice: Notice) -> None:
        wanted, all_known = self._to[notice.to]
        is_newest = notice is self._newest[notice.to]
        for address in wanted:
            address_hash = self._state.address_hash(address.url)
            if address_hash in notice.reached or (self._failures[address.url] >= FAILURES_MAX and not is_newest):
                continue
            if error := deliver(address, notice):
                self._note_failure(address, notice, error)
                continue
            self._reached.add(address.url)
            updated = replace(notice, reached=(*notice.reached, address_hash))
            self._set_outbox([updated if queued is notice else queued for queued in self._state.outbox])
            notice = updated
        if all_known and all(self._state.address_hash(address.url) in notice.reached for address in wanted):
            self._set_outbox([queued for queued in self._state.outbox if queued is not notice])

    def _note_failure(self, address: Address, notice: Notice, error: str) -> None:
        self._failures[address.url] += 1
        self._refused.append((address.url, notice))
        if self._failures[address.url] == 1:
            self._say(f"notices: {address.label}: {error}; it is retried after the next run")

    def _move_to_end(self, refused: Sequence[Notice]) -> None:
        late = [queued for queued in self._state.outbox if any(queued is notice for notice in refused)]
        if late:
            self._set_outbox(
                [*(queued for queued in self._state.outbox if not any(queued is notice for notice in late)), *late]
            )

    def _set_outbox(self, outbox: Sequence[Notice]) -> None:
        self._state = replace(self._state, outbox=tuple(outbox))
        self._save(self._state)


def deliver(address: Address, notice: Notice) -> str:
    """Deliver one notice to one address; returns the error, without secrets, or an empty text."""
    with _silenced():
        sender = _sender(address)
        if sender is None:
            return "this is not a valid address for notices"
        there = [path for path in notice.files if Path(path).is_file()]
        gone = [Path(path).name for path in notice.files if path not in there]
        body = notice.body + (f"\n\nThese files no longer exist: {', '.join(gone)}" if gone else "")
        try:
            done = sender(notice, body, there)
        except (TypeError, ValueError, OSError, UnicodeError) as error:  # errors of a plugin
            return f"the notice could not be delivered ({type(error).__name__})"
    return "" if done else "the notice could not be delivered"


def _sender(address: Address) -> Send | None:
    """The function that sends to an address: that of another package for its scheme, else apprise's. None if neither understands it.
    Raises SettingsError if apprise is needed and not installed.
    """
    scheme = address.url.partition("://")[0].lower()
    own = next((entry for entry in entry_points(group=OWN_NOTICES) if entry.name == scheme), None)
    if own is not None:
        try:
            return partial(_by_package, own.load(), address.url)
        except (ImportError, AttributeError):
            return None
    need("notices", "a notice")
    import apprise

    sender = apprise.Apprise(asset=apprise.AppriseAsset(app_id="loadsheet", app_desc="loadsheet", app_url=""))
    return partial(_by_apprise, sender) if sender.add(address.url) else None


def _by_package(
    function: Callable[[str, str, str, Sequence[str]], object],
    url: str,
    notice: Notice,
    body: str,
    files: Sequence[str],
) -> bool:
    function(url, notice.title, body, files)
    return True


def _by_apprise(sender: Any, notice: Notice, body: str, files: Sequence[str]) -> bool:
    is_mail = all(map(_is_mail, sender))
    return bool(
        sender.notify(
            body=_mail_page(notice, body) if is_mail else body,
            title=notice.title,
            notify_type=notice.kind,
            body_format="html" if is_mail else "text",
            attach=_attached(files) if files else None,
        )
    )


def _is_mail(service: Any) -> bool:
    """Whether a service takes whole HTML pages, and makes the plain text of them. Chats that know a few tags take Markdown as well."""
    return {str(service.resolve_format(wanted).value) for wanted in (None, "markdown")} == {"html"}


@cache
def _mail_template() -> Any:
    return templates_of("loadsheet.operations.notifications", {}).get_template("mail.html")


def _mail_page(notice: Notice, body: str) -> str:
    """A notice as HTML. Blank lines part its body into blocks; lines that begin with `- ` are a list."""
    blocks = [
        ([line for line in lines if not line.startswith("- ")], [line[2:] for line in lines if line.startswith("- ")])
        for lines in (block.splitlines() for block in body.split("\n\n"))
    ]
    return str(_mail_template().render(title=notice.title, kind=notice.kind, blocks=blocks))


def _attached(paths: Sequence[str]) -> Any:
    """Files as attachments. Given as objects, because apprise reads a string as a URL."""
    import apprise
    from apprise.attachment.file import AttachFile

    return apprise.AppriseAttachment([AttachFile(path, name=Path(path).name) for path in paths])  # type: ignore[no-untyped-call]


@contextmanager
def _silenced() -> Iterator[None]:
    """Silence apprise's log, which contains addresses, and deprecation warnings of its plugins' libraries."""
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
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        say(f"notices: notifications.urls_file {path} cannot be read ({why})")
        return None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


# ---- health checks ----


def ping(url: str, step: str, text: str, timeout_s: float) -> str:
    """Ping the health check at `url` for a step (`start`, or an exit code) with a body. Returns the error, without secrets, or an empty
    text. It has a short timeout, uses no proxy, and follows no redirect to another host. Messages show only the host of the URL.
    """
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    target = urlunsplit(parts._replace(netloc=host, path=f"{parts.path.rstrip('/')}/{step}", fragment=""))
    body = text.encode("utf-8", "replace")[-PING_BYTES_MAX:]
    headers = {"Content-Type": "text/plain; charset=utf-8", "User-Agent": "loadsheet"}
    if at:
        headers["Authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHost())
    try:
        request = urllib.request.Request(target, data=body, headers=headers)  # noqa: S310 (the settings take http and https only)
        with opener.open(request, timeout=timeout_s):
            return ""
    except urllib.error.HTTPError as answer:
        answer.close()
        why = f"it answered {answer.code}"
    except urllib.error.URLError as error:
        why = getattr(error.reason, "strerror", None) or type(error.reason).__name__
    except (OSError, HTTPException, ValueError) as error:
        why = type(error).__name__
    return f"the health check at {parts.scheme}://{parts.hostname or ''} could not be pinged ({why})"


class _SameHost(urllib.request.HTTPRedirectHandler):
    def redirect_request(  # noqa: PLR0917 (signature is urllib's)
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Follow a redirect on the same host; treat any other as an error."""
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)

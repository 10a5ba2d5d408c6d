"""The client of one exchange: makes a call, returns the reply, and reads listings.

Holds the base URL and the token, and chooses the page size of listings. An exchange may refuse a large page size. The
size it accepts is then stored in the state folder. If an exchange cuts pages instead, nothing is stored and every
request asks for all records. `outcomes` interprets replies to writes; `transport` moves the bytes.
"""

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

import msgspec

from loadsheet import run_log
from loadsheet.contract import PAGE_SIZE, Listing, Operation, UndocumentedAnswer, scan_listing
from loadsheet.credentials import TokenMask, is_loopback
from loadsheet.dispatch.connections import Deadlines, NetworkRoute, route_to
from loadsheet.dispatch.outcomes import PROXY_LOGIN, Reply, excerpt
from loadsheet.dispatch.transport import CallConnection
from loadsheet.errors import ExchangeUnreachable, ListingNotServed, PageSizeRefused, SettingsError, TokenRefused
from loadsheet.places import replace_file
from loadsheet.settings import Settings

LISTING_TRIES = 3
LISTING_PAUSE_S = 0.5
EXTRA_RECORDS = 100  # records that may be added between two requests
_OK, _UNAUTHORISED = 200, 401
_NOT_SERVED = (403, 404, 405, 410, 501)
_SIZE_REFUSED = (400, 413, 422)


class Client:
    """The client of one exchange, used in a `with` block, at whose end no call may be running. Many threads may call; each uses a
    connection of its own.

    When the exchange refuses a token (401), `renew` gets the refused token and returns a new one, or None. A 401 comes before any effect,
    so the call is repeated with the new token. Raises SettingsError for an invalid base URL, one with credentials, one that would send
    the token unencrypted to another machine, a token that cannot be sent in a header, and a proxy or certificate that cannot be used.
    """

    def __init__(
        self, base_url: str, token: str, settings: Settings, *, renew: Callable[[str], str | None] | None = None
    ) -> None:
        self.base_url = checked_url(base_url, allow_insecure=settings.dispatch.allow_insecure)
        self._mask = TokenMask()
        self._token = self._checked_token(token)
        self._renew = renew
        self._renewing = threading.Lock()
        self._irreplaceable = ""  # the refused token that could not be replaced
        self._settings = settings
        self._local = threading.local()
        self._opened: list[CallConnection] = []
        self._reusable: list[CallConnection] = []
        self._deadlines = Deadlines(settings.dispatch.call_timeout_s)
        self._page_sizes = PageSizes(settings.state, self.base_url)
        self._route = self._hidden(route_to(self.base_url, settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.close()
        for connection in self._opened:
            connection.close()

    def __repr__(self) -> str:
        return f"Client({self.base_url!r})"

    # for `CallsInFlight`, which makes the calls that write

    @property
    def token(self) -> str:
        """The token of the next call."""
        return self._token

    @property
    def can_renew(self) -> bool:
        """Whether a new token can be requested when one is refused."""
        return self._renew is not None

    def connection(self) -> CallConnection:
        """A connection with the current token, used before or new. Give it back with `release`."""
        while self._reusable:
            connection = self._reusable.pop()
            if connection.token == self._token:
                return connection
        return self._new_connection()

    def release(self, connection: CallConnection) -> None:
        """Close the socket and keep the object, with its buffers and TLS context, for later calls."""
        connection.close()
        self._reusable.append(connection)

    def renew_token(self, refused: str) -> bool:
        """Request a new token unless another thread has. Returns whether there is one. May block; other threads wait."""
        with self._renewing:
            if self._token == refused and self._renew and self._irreplaceable != refused:
                another = self._renew(refused)
                if another is None:
                    self._irreplaceable = refused
                else:
                    self._token = self._checked_token(another)
            return self._token != refused

    def ask(self, operation: Operation, body: bytes = b"", *, query: str = "") -> Reply:
        """Make any request once, unchanged, for the probe. Raises nothing for network failures: see `Reply.failure`."""
        return self._thread_connection().send(operation, body, query)

    def shortest_listing(self, operation: Operation) -> Reply:
        """Fetch a listing of one record and return the reply, for its Date header. Raises nothing for network failures."""
        reply = self._fetch_page(operation, 1)
        if reply.body_file:
            reply.body_file.close()
        return reply

    def listing(self, operation: Operation, page_size: int) -> Listing:
        """Fetch one page of a listing. Numbers are int or Decimal. The records stay encoded; those of a long listing are in
        a file. The request is retried on network failures: reading changes nothing.

        Raises TokenRefused for 401; ListingNotServed for 403, 404, 405, 410 and 501; PageSizeRefused for 400, 413 and 422;
        ExchangeUnreachable for anything else that is not a listing.
        """
        for tries in range(1, LISTING_TRIES + 1):
            reply = self._fetch_page(operation, page_size)
            if reply.failure is None or tries == LISTING_TRIES or reply.failure.name == PROXY_LOGIN:
                break
            time.sleep(LISTING_PAUSE_S * tries)
        if reply.failure is not None:
            run_log.info("a listing got no answer", operation=operation.name, failure=reply.failure.log)
            raise ExchangeUnreachable(
                f"the listing at {self.base_url} gave no answer: {reply.failure.text}",
                todo="check `exchange` and the network connection to it, or try again later",
            )
        if reply.body_file and reply.status != _OK:
            reply.body_file.close()
        if reply.status == _UNAUTHORISED:
            raise TokenRefused(
                f"the exchange at {self.base_url} refused the token",
                todo="replace the token",
            )
        if reply.status != _OK:
            answer = f'it answered {reply.status}, "{excerpt(reply.body)}"'
            message = f"the listing at {self.base_url} cannot be used: {answer}"
            if reply.status in _NOT_SERVED:
                raise ListingNotServed(message, todo=f"check `exchange`, to which calls add {operation.path}")
            if reply.status in _SIZE_REFUSED:
                raise PageSizeRefused(message, todo="ask the operator of the exchange which page_size it accepts")
            raise ExchangeUnreachable(message, todo="ask the operator of the exchange, or try again later")
        body = reply.body_file or io.BytesIO(reply.body)
        try:
            return scan_listing(body)
        except (UndocumentedAnswer, ValueError, RecursionError) as error:
            body.close()
            message = f"the listing at {self.base_url} cannot be used: {error}"
            raise ExchangeUnreachable(message, todo="check that `exchange` is the address of an exchange") from None

    def whole_listing(self, operation: Operation) -> Listing:
        """Fetch a listing with all records, as far as the exchange lists them: first the count, then all.

        The listing may be incomplete (`Listing.complete`), with the reason. Raises the errors of `listing` except
        PageSizeRefused: smaller page sizes are tried instead.
        """
        listing, most = self.listing(operation, 1), self._settings.assumptions.page_size_max
        for _ in range(LISTING_TRIES):
            if listing.complete:
                break
            wanted = listing.total_count + listing.total_count // 5 + EXTRA_RECORDS
            asked = min(wanted, most) if most else wanted
            listing, accepted = self._largest_page(operation, asked, listing)
            listing = with_reason(listing, asked=asked, accepted=accepted, allowed=most)
            if accepted < wanted or listing.page_size < accepted:
                break  # only a larger page could show more
        run_log.info(
            "listing read",
            operation=operation.name,
            records=len(listing.results),
            total=listing.total_count,
            complete=listing.complete,
        )
        return listing

    def _largest_page(self, operation: Operation, asked: int, shorter: Listing) -> tuple[Listing, int]:
        """Fetch `asked` records or, if refused, as many as the exchange accepts. Returns the listing and the accepted page
        size. `shorter` is the listing of one record, used if nothing else works.
        """
        with suppress(PageSizeRefused):
            return self.listing(operation, asked), asked
        for size in self._page_sizes.sizes_below(asked):
            with suppress(PageSizeRefused):
                listing = self.listing(operation, size)
                self._page_sizes.remember(size)
                return listing, size
        return shorter, 1

    def _fetch_page(self, operation: Operation, page_size: int) -> Reply:
        assumptions = self._settings.assumptions
        asked = {PAGE_SIZE: page_size}
        query = [] if assumptions.page_size_in == "body" else [urlencode(asked)]
        if operation.subject == "tender" and assumptions.tender_listing_query:
            query.append(assumptions.tender_listing_query)
        body = b"" if assumptions.page_size_in == "query" else msgspec.json.encode(asked)
        connection = self._thread_connection()
        reply = connection.send_for_file(operation, body, "&".join(query), long=page_size > 1)
        if reply.status == _UNAUTHORISED and self.renew_token(connection.token):
            if reply.body_file:
                reply.body_file.close()
            reply = self._thread_connection().send_for_file(operation, body, "&".join(query), long=page_size > 1)
        return reply

    def _thread_connection(self) -> CallConnection:
        connection: CallConnection | None = getattr(self._local, "mine", None)
        if connection is None or connection.token != self._token:
            if connection is not None:
                connection.close()
            connection = self._local.mine = self._new_connection()
        return connection

    def _new_connection(self) -> CallConnection:
        connection = CallConnection(self._route, self._token, self._settings, self._deadlines, self._mask)
        self._opened.append(connection)
        return connection

    def _hidden(self, route: NetworkRoute) -> NetworkRoute:
        """Hide the proxy's password in logs and in the proxy's answers."""
        for secret in route.proxy.secrets if route.proxy else ():
            run_log.hide(secret)
            if secret.isascii() and secret.isprintable():
                self._mask.add(secret)
        return route

    def _checked_token(self, token: str) -> str:
        # The library would show an invalid header, including the token, in its error.
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise SettingsError("token: set a token of printable ASCII characters without spaces")
        run_log.hide(token)
        self._mask.add(token)
        return token


def checked_url(base_url: str, *, allow_insecure: bool) -> str:
    """The base URL of an exchange without a slash at its end. Raises SettingsError."""
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise SettingsError(f"exchange: {base_url!r} is not a URL ({error})") from None
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            "exchange: the URL contains a user name or password; remove it and set the token separately"
        )
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise SettingsError(f"exchange: {base_url!r} is not a base URL; write https://host or https://host/path")
    if parts.scheme == "http" and not allow_insecure and not is_loopback(host):
        raise SettingsError(
            f"exchange: {base_url} would send the token unencrypted; use https://, or set dispatch.allow_insecure"
        )
    return base_url.rstrip("/")


FILE = "page_sizes.json"
_DIGITS_MAX = 12
_ASK_OPERATOR = "ask the operator of the exchange to raise its maximum page_size"
_ROUND_SIZES = sorted((step * 10**power for power in range(1, _DIGITS_MAX) for step in (1, 2, 5)), reverse=True)


class PageSizes:
    """Remembers the page size that one exchange accepted after it refused a larger one."""

    def __init__(self, state: Path, exchange: str) -> None:
        self._path, self._exchange = state / FILE, exchange

    def sizes_below(self, refused: int) -> Iterator[int]:
        """The sizes to try when one is refused: the last accepted size, then round numbers down to 10."""
        known = min(self._read().get(self._exchange, refused), refused)
        if known < refused:
            yield known
        yield from (size for size in _ROUND_SIZES if size < known)

    def remember(self, accepted: int) -> None:
        """Store the accepted size. If that fails, the next run makes a few more refused requests."""
        known = self._read()
        if known.get(self._exchange) == accepted:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, msgspec.json.format(msgspec.json.encode({**known, self._exchange: accepted})))
        except OSError as error:
            run_log.info("page size not kept", reason=error.strerror or "")

    def _read(self) -> dict[str, int]:
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        return {}


def with_reason(listing: Listing, *, asked: int, accepted: int, allowed: int) -> Listing:
    """The listing, with a reason and advice if it is incomplete. It was fetched with page size `accepted` after `asked` was
    refused (equal: not refused). The setting allows `allowed` (0: any).
    """
    if listing.complete:
        return listing
    shown = len(listing.results)
    if accepted < asked:
        reason, todo = f"the exchange refuses a page_size of more than {accepted:,}", _ASK_OPERATOR
    elif listing.page_size < accepted:
        reason, todo = f"the exchange lists at most {shown:,} records", _ASK_OPERATOR
    elif accepted == allowed and shown >= accepted:
        reason = f"assumptions.page_size_max is {allowed:,}"
        todo = "raise assumptions.page_size_max, or set it to 0, if the exchange lists more"
    else:
        reason = f"the exchange counts {listing.total_count:,} records but lists {shown:,}"
        todo = "check again with `loadsheet report --ask`; if it stays, ask the operator of the exchange"
    return replace(listing, reason=reason, todo=todo)

"""The client of one exchange: makes a call, returns the reply, and reads listings.

Holds the base URL and the token, and chooses the page size of listings. An exchange may refuse a large page size: the size it accepts is
then remembered in the state folder. An exchange that cuts the page instead needs no memory: it is asked for all records every time.
`outcomes` interprets replies to writes; `transport` moves the bytes.
"""

import io
import ipaddress
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
from loadsheet.dispatch.connections import Deadlines, trusted_authorities
from loadsheet.dispatch.outcomes import Reply, excerpt
from loadsheet.dispatch.token_masking import TokenMask
from loadsheet.dispatch.transport import CallConnection
from loadsheet.problems import ExchangeUnreachable, ListingNotServed, PageSizeRefused, SettingsError, TokenRefused
from loadsheet.settings import Settings

LISTING_TRIES = 3
LISTING_PAUSE_S = 0.5
MARGIN = 100  # records that may be added to a listing between two looks at it
_OK, _UNAUTHORISED = 200, 401
_NOT_SERVED = (403, 404, 405, 410, 501)
_SIZE_REFUSED = (400, 413, 422)


class Client:
    """The way to one exchange. Calls may come from many threads: each has a session and one connection of its own.

    `renew` is asked for another token when the exchange refuses one, and gets the refused one; None from it is the end. A refusal
    comes before any effect, so the call that met it is made again. Raises SettingsError for a base URL that is none, that carries
    credentials, or that would send the token in the clear to another machine, and for a token that cannot stand in a header.
    """

    def __init__(
        self, base_url: str, token: str, settings: Settings, *, renew: Callable[[str], str | None] | None = None
    ) -> None:
        self.base_url = _checked_url(base_url, allow_insecure=settings.allow_insecure)
        self._mask = TokenMask()
        self._token = self._checked_token(token)
        self._renew = renew
        self._renewing = threading.Lock()
        self._hopeless = ""  # the refused token for which there was no other
        self._settings = settings
        self._desks = threading.local()
        self._opened: list[CallConnection] = []
        self._spare: list[CallConnection] = []
        self._deadlines = Deadlines(settings.call_timeout_s)
        self._page_sizes = PageSizes(settings.state, self.base_url)
        self._trust = trusted_authorities() if self.base_url.startswith("https:") else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.base_url!r})"

    def close(self) -> None:
        """Close all connections. No call may be under way."""
        self._deadlines.close()
        for desk in self._opened:
            desk.close()
        self._opened.clear()
        self._spare.clear()

    def call(self, operation: Operation, body: bytes) -> Reply:
        """Make one call of a write operation, once. Never raises for what happens on the network: the reply says it."""
        return self._authorised(operation, body, "")

    # calls in steps, for whoever makes many at once

    @property
    def token(self) -> str:
        """The token that the next call bears."""
        return self._token

    @property
    def may_renew(self) -> bool:
        """Whether another token can be asked for when one is refused."""
        return self._renew is not None

    def desk(self) -> CallConnection:
        """A desk that nobody sits at. `take_back` wants it back."""
        while self._spare:
            desk = self._spare.pop()
            if desk.token == self._token:
                return desk
        return self._new_desk()

    def take_back(self, desk: CallConnection) -> None:
        """Nobody needs this desk now."""
        desk.close()
        self._spare.append(desk)

    def begin(self, desk: CallConnection, operation: Operation, body: bytes) -> None:
        """A call of a write operation begins at a desk; its steps are the desk's."""
        desk.begin(operation, body)

    def renewed(self, refused: str) -> bool:
        """Whether there is another token than the refused one. Asking may take its time: one thread does, the others wait and find it."""
        with self._renewing:
            if self._token == refused and self._renew and self._hopeless != refused:
                another = self._renew(refused)
                if another is None:
                    self._hopeless = refused
                else:
                    self._token = self._checked_token(another)
            return self._token != refused

    def ask(self, operation: Operation, body: bytes = b"", *, query: str = "") -> Reply:
        """One request just as it is given, once, listings and operations of nobody included: the probe asks so. Never raises."""
        return self._desk().send(operation, body, query=query)

    def shortest_listing(self, operation: Operation) -> Reply:
        """One look at the shortest listing, as it was answered: for the date that the answer says. Never raises."""
        reply = self._look(operation, 1)
        if reply.kept:
            reply.kept.close()
        return reply

    def listing(self, operation: Operation, page_size: int) -> Listing:
        """One answer of a listing, numbers as int or Decimal; its records stay encoded, and those of a long one in a file. A look
        changes nothing, so one that meets nobody is repeated.

        Raises TokenRefused for a 401, ListingNotServed where there is none, PageSizeRefused for a 400 and its kin, ExchangeUnreachable
        for anything else that is no listing.
        """
        for tries in range(1, LISTING_TRIES + 1):
            reply = self._look(operation, page_size)
            if reply.failure is None or tries == LISTING_TRIES:
                break
            time.sleep(LISTING_PAUSE_S * tries)
        if reply.failure is not None:
            run_log.info("a listing got no answer", operation=operation.name, failure=reply.failure.log)
            raise ExchangeUnreachable(
                f"the listing at {self.base_url} gave no answer: {reply.failure.text}",
                todo="check `exchange` and the way to it, or try again later",
            )
        if reply.kept and reply.status != _OK:
            reply.kept.close()
        if reply.status == _UNAUTHORISED:
            raise TokenRefused(
                f"the exchange at {self.base_url} refused the token",
                todo="set LOADSHEET_TOKEN, token_file or token_command",
            )
        if reply.status != _OK:
            said = f'it answered {reply.status}, "{excerpt(reply.body)}"'
            told = f"the listing at {self.base_url} cannot be used: {said}"
            if reply.status in _NOT_SERVED:
                raise ListingNotServed(told, todo=f"check `exchange`, to which calls add {operation.path}")
            if reply.status in _SIZE_REFUSED:
                raise PageSizeRefused(told, todo="ask whoever runs the exchange which page_size it takes")
            raise ExchangeUnreachable(told, todo="ask whoever runs the exchange, or try again later")
        body = reply.kept or io.BytesIO(reply.body)
        try:
            return scan_listing(body)
        except (UndocumentedAnswer, ValueError, RecursionError) as error:
            body.close()
            told = f"the listing at {self.base_url} cannot be used: {error}"
            raise ExchangeUnreachable(told, todo="check that `exchange` is the address of one") from None

    def whole_listing(self, operation: Operation) -> Listing:
        """A listing with all its records, as far as the exchange gives them: asked first how many there are, then for all.

        It may still be incomplete (`Listing.complete`), and says why then. Raises what `listing` raises, but for a page size that is
        refused: then smaller ones are asked for.
        """
        listing, most = self.listing(operation, 1), self._settings.assumptions.page_size_max
        for _ in range(LISTING_TRIES):
            if listing.complete:
                break
            wanted = listing.total_count + listing.total_count // 5 + MARGIN
            asked = min(wanted, most) if most else wanted
            listing, taken = self._page_of(operation, asked, listing)
            listing = explained(listing, asked=asked, taken=taken, allowed=most)
            if taken < wanted or listing.page_size < taken:
                break  # nothing but a larger page could show more
        told = {"records": len(listing.results), "total": listing.total_count, "complete": listing.complete}
        run_log.info("listing read", operation=operation.name, **told)
        return listing

    def _page_of(self, operation: Operation, asked: int, shorter: Listing) -> tuple[Listing, int]:
        """A listing of so many records or, where the exchange refuses that, of as many as it lists, and for how many it was asked;
        `shorter` is that of one record.
        """
        with suppress(PageSizeRefused):
            return self.listing(operation, asked), asked
        for size in self._page_sizes.below(asked):
            with suppress(PageSizeRefused):
                listing = self.listing(operation, size)
                self._page_sizes.remember(size)
                return listing, size
        return shorter, 1

    def _look(self, operation: Operation, page_size: int) -> Reply:
        assumptions = self._settings.assumptions
        asked = {PAGE_SIZE: page_size}
        query = [] if assumptions.page_size_in == "body" else [urlencode(asked)]
        if operation.subject == "tender" and assumptions.tender_listing_query:
            query.append(assumptions.tender_listing_query)
        body = b"" if assumptions.page_size_in == "query" else msgspec.json.encode(asked)
        return self._authorised(operation, body, "&".join(query), long=page_size > 1)

    def _authorised(self, operation: Operation, body: bytes, query: str, *, long: bool = False) -> Reply:
        desk, keep = self._desk(), not operation.is_write
        reply = desk.send(operation, body, query=query, keep=keep, long=long)
        if reply.status == _UNAUTHORISED and self.renewed(desk.token):
            if reply.kept:
                reply.kept.close()
            return self._desk().send(operation, body, query=query, keep=keep, long=long)
        return reply

    def _desk(self) -> CallConnection:
        desk: CallConnection | None = getattr(self._desks, "mine", None)
        if desk is None or desk.token != self._token:
            if desk is not None:
                desk.close()
            desk = self._desks.mine = self._new_desk()
        return desk

    def _new_desk(self) -> CallConnection:
        desk = CallConnection(self.base_url, self._token, self._settings, self._deadlines, self._trust, mask=self._mask)
        self._opened.append(desk)
        return desk

    def _checked_token(self, token: str) -> str:
        # The library would show a header that it cannot send, and with it the token: so it is checked here, and not shown.
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise SettingsError("token: a token is needed, of printable ASCII characters without a space")
        run_log.hide(token)
        self._mask.add(token)
        return token


def _checked_url(base_url: str, *, allow_insecure: bool) -> str:
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise SettingsError(f"exchange: {base_url!r} is not a URL ({error})") from None
    if parts.username is not None or parts.password is not None:
        raise SettingsError("exchange: the URL carries a user name or password; leave it out, the token is set apart")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise SettingsError(f"exchange: {base_url!r} is not a base URL; write https://host or https://host/path")
    if parts.scheme == "http" and not allow_insecure and not _is_loopback(host):
        raise SettingsError(
            f"exchange: {base_url} would carry the token in the clear; write https://, or set allow_insecure"
        )
    return base_url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


FILE = "page_sizes.json"
_DIGITS_MAX = 12
_ASK_THEM = "ask the operator of the exchange to raise its maximum page_size"
_ROUND = sorted((step * 10**power for power in range(1, _DIGITS_MAX) for step in (1, 2, 5)), reverse=True)


class PageSizes:
    """The page size that one exchange took after it had refused a larger one."""

    def __init__(self, state: Path, exchange: str) -> None:
        self._path, self._exchange = state / FILE, exchange

    def below(self, refused: int) -> Iterator[int]:
        """The sizes to try when one is refused: what was taken last time, then round numbers, down to 10."""
        known = self._read().get(self._exchange, 0)
        if 1 < known < refused:
            yield known
        yield from (size for size in _ROUND if size < (known or refused))

    def remember(self, taken: int) -> None:
        """Keep what the exchange took. That it cannot be kept costs only some more refused requests next time."""
        known = self._read()
        if known.get(self._exchange) == taken:
            return
        draft = self._path.with_name(f"{FILE}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.format(msgspec.json.encode({**known, self._exchange: taken})))
            draft.replace(self._path)
        except OSError as error:
            run_log.info("page size not kept", reason=error.strerror or "")

    def _read(self) -> dict[str, int]:
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        return {}


def explained(listing: Listing, *, asked: int, taken: int, allowed: int) -> Listing:
    """The same listing; one that is not complete says why, and what to do. It was asked for with a page size of `taken` after
    one of `asked` was refused (the same: it was not); our own setting allows `allowed` (0: any).
    """
    if listing.complete:
        return listing
    shown = len(listing.results)
    if taken < asked:
        reason, todo = f"the exchange refuses a page_size of more than {taken:,}", _ASK_THEM
    elif listing.page_size < taken:
        reason, todo = f"the exchange lists at most {shown:,} records", _ASK_THEM
    elif taken == allowed and shown >= taken:
        reason = f"assumptions.page_size_max is {allowed:,}"
        todo = "raise assumptions.page_size_max, or set it to 0, if the exchange lists more"
    else:
        reason = f"the exchange counts {listing.total_count:,} records but lists {shown:,}"
        todo = "`loadsheet report --ask` looks again; if it stays, ask the operator of the exchange"
    return replace(listing, reason=reason, todo=todo)

"""Notifications: notices when a condition changes, a digest for each owner, fix files to the shipper, health pings.

`ping_start` runs before a run, `send_notifications` after it. A notice is stored in an outbox first (see `state`), then delivered, then
removed. An undelivered notice stays in the outbox; a process that is killed may send a notice twice, but loses none.
"""

import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

from loadsheet import exit_codes
from loadsheet.ledger import State
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files import Overdue, statuses
from loadsheet.operations.notifications import texts
from loadsheet.operations.notifications.conditions import (
    LATE,
    Change,
    Facts,
    Rules,
    update_conditions,
)
from loadsheet.operations.notifications.delivery import NOTIFY, deliver_all
from loadsheet.operations.notifications.digests import add_digests
from loadsheet.operations.notifications.fix_file_delivery import add_fix_files
from loadsheet.operations.notifications.state import Notice, NotificationState, Say, open_store
from loadsheet.problems import LedgerError
from loadsheet.reports.run_document import RunOutcome
from loadsheet.settings import Settings

__all__ = ["ping", "ping_start", "send_notifications"]

PING_BYTES_MAX = 10_000
"""Maximum size of a ping's body; a longer body loses its beginning."""

_COMPANION_OVERDUE = "A111"


def ping_start(settings: Settings, say: Say) -> None:
    """Ping the health check that a run begins."""
    _ping(settings, "start", f"{texts.title_prefix(settings.shipper)} begins\n", say)


def send_notifications(
    settings: Settings, outcome: RunOutcome, queries: LedgerQueries | None, late: Sequence[Overdue], say: Say
) -> None:
    """Send notices about what changed with this run, and the ping at its end. Undelivered notices are retried after the next run. `late`
    comes from `expected_files.overdue` and is ignored without `queries`. Failures are passed to `say`; none is raised.
    """
    say = _without_repeats(say)
    if _is_enabled(settings):
        facts = _facts_of(outcome, late, _unknown(queries))
        with open_store(settings, say) as store:
            if store is not None:
                before = store.read()
                state = _add_notices(settings, before, outcome, queries, facts, say=say)
                if state != before:
                    store.write(state)
                deliver_all(settings, state, store.write, say)
    _ping(settings, str(outcome.exit_code), texts.run_summary(outcome), say)


def _without_repeats(say: Say) -> Say:
    """The same callback, but each text only once: a full disk fails for every notice."""
    seen: set[str] = set()

    def say_once(text: str) -> None:
        if text not in seen:
            seen.add(text)
            say(text)

    return say_once


def _is_enabled(settings: Settings) -> bool:
    notices = (
        settings.notifications.urls or settings.notifications.urls_file is not None or settings.notifications.owners
    )
    return bool(notices or settings.notifications.fixes_mail or settings.notifications.fixes_to is not None)


def _add_notices(
    settings: Settings,
    state: NotificationState,
    outcome: RunOutcome,
    queries: LedgerQueries | None,
    facts: Facts,
    *,
    say: Say,
) -> NotificationState:
    """The state with all notices about this run in its outbox. Steps that need the ledger come last: it may be damaged."""
    general = settings.notifications.urls or settings.notifications.urls_file is not None
    if general:
        state = _add_change_notice(settings, state, outcome, queries, facts)
    try:
        state = add_fix_files(settings, state, outcome, queries, say)
        if queries is not None and (general or settings.notifications.owners):
            state = add_digests(settings, state, outcome, queries)
    except LedgerError as error:
        say(f"notices: some could not be created: {texts.error_line(error)}")
    return state


def _unknown(queries: LedgerQueries | None) -> int | None:
    """How many outcomes are unknown; None if the ledger cannot be read."""
    try:
        return None if queries is None else queries.count_in(State.UNKNOWN)
    except LedgerError:
        return None


def _facts_of(outcome: RunOutcome, late: Sequence[Overdue], unknown: int | None) -> Facts:
    """The facts about a run. Those from the ledger or the inbox stay None if these were not read."""
    facts = Facts(
        outcome.ended,
        outcome.exit_code,
        "" if outcome.exit_code in exit_codes.WORK_DONE else texts.failure_text(outcome),
    )
    if outcome.summary is not None:
        waiting = {problem.found: problem.text for problem in outcome.left if problem.code == _COMPANION_OVERDUE}
        facts = replace(facts, waiting=waiting)
    if unknown is None:
        return facts
    files = {item.name: item.text for item in late if not item.is_one_off}
    return replace(
        facts, late=files, one_off={item.name: item.text for item in late if item.is_one_off}, unknown=unknown
    )


def _add_change_notice(
    settings: Settings, state: NotificationState, outcome: RunOutcome, queries: LedgerQueries | None, facts: Facts
) -> NotificationState:
    again = timedelta(days=settings.notifications.again_days) if settings.notifications.again_days else None
    state, changes = update_conditions(state, facts, Rules(settings.notifications.after, again))
    if not changes:
        return state
    changes = [_with_outcome(settings, queries, change) for change in changes]
    kind, title, body = texts.change_notice(changes, outcome)
    return replace(state, outbox=(*state.outbox, Notice(NOTIFY, stamp(outcome.ended), kind, title, body)))


def _with_outcome(settings: Settings, queries: LedgerQueries | None, change: Change) -> Change:
    """The change; if it closes a late file, its text says how it ended."""
    if change.kind != "closed" or not change.name.startswith(LATE) or queries is None:
        return change
    name = change.name.removeprefix(LATE)
    try:
        status = next((found for found in statuses(settings, queries) if found.name == name), None)
    except LedgerError:
        return change
    if status is None:
        return change._replace(text=f"{name}: not expected any more")
    before, now = (text.removeprefix(f"{name}: ").partition(", ")[0] for text in (change.text, status.text))
    more = "" if before == now or not status.previous else f"; {status.previous}"
    return change._replace(text=f"{status.text}{more}")


# ---- health checks ----


def _ping(settings: Settings, step: str, body: str, say: Say) -> None:
    if settings.notifications.ping_url is None:
        return
    error = ping(settings.notifications.ping_url.get_secret_value(), step, body, settings.notifications.ping_timeout_s)
    if error:
        say(error)


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

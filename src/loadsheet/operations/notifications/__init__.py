"""Telling: notices on a change of state only, a digest for each owner, fix files back to the shipper, health pings.

`began` and `tell` are the verbs. What has been told is remembered (`places` says where): what is to be told is written there first, then
delivered, then struck out. So what cannot be delivered waits, and a process that is killed may tell twice, but loses nothing. `move`
takes the memory along when a ledger moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from loadsheet.ledger import State
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files import Late, standing
from loadsheet.operations.notifications import storage, texts
from loadsheet.operations.notifications.conditions import LATE, WELL, Change, Facts, Rules, turn
from loadsheet.operations.notifications.delivery import NOTIFY, deliver_all
from loadsheet.operations.notifications.digests import with_digests
from loadsheet.operations.notifications.fix_file_delivery import with_fixes
from loadsheet.operations.notifications.health_pings import ping
from loadsheet.operations.notifications.state import Kept, Notice
from loadsheet.problems import LedgerError
from loadsheet.run_outcome import Night
from loadsheet.settings import Settings

__all__ = ["began", "move", "tell"]

Say = Callable[[str], None]

_WAITS_TOO_LONG = "A111"  # the problem of a file whose companion is overdue


def began(settings: Settings, say: Say) -> None:
    """Ping that a run begins."""
    _ping(settings, "start", f"{texts.name_of(settings.shipper)} begins\n", say)


def tell(settings: Settings, night: Night, queries: LedgerQueries | None, late: Sequence[Late], say: Say) -> None:
    """Tell whoever should know what has changed with this night; what cannot be told now is told after the next. `late` is what
    `arrivals.overdue` found, and means nothing without `queries`. What goes wrong is said, and changes nothing else.
    """
    say = _once(say)
    if _tells(settings):
        facts = _facts(night, late, _unknown(queries))
        with storage.held(settings, say) as memory:
            if memory is not None:
                before = memory.read()
                kept = _with_news(settings, before, night, queries, facts, say=say)
                if kept != before:
                    memory.write(kept)
                deliver_all(settings, kept, memory.write, say)
    _ping(settings, str(night.exit_code), texts.said(night), say)


def move(settings: Settings, say: Say) -> None:
    """Remember what was told from a file, for all machines of the fleet whose shared ledger these settings name. Who tells next does that
    as well, on the machine where the file lies.
    """
    with storage.held(settings, say):
        pass


def _once(say: Say) -> Say:
    """The same, but nothing twice: a disk that is full is full for each notice."""
    said: set[str] = set()

    def say_once(text: str) -> None:
        if text not in said:
            said.add(text)
            say(text)

    return say_once


def _tells(settings: Settings) -> bool:
    notices = settings.notify or settings.notify_file is not None or settings.notify_owners
    return bool(notices or settings.fixes_mail or settings.fixes_to is not None)


def _with_news(
    settings: Settings, kept: Kept, night: Night, queries: LedgerQueries | None, facts: Facts, *, say: Say
) -> Kept:
    """The memory with everything that is to be told of this night in its outbox. What needs the ledger comes last: it may be damaged."""
    general = settings.notify or settings.notify_file is not None
    if general:
        kept = _with_changes(settings, kept, night, queries, facts)
    try:
        kept = with_fixes(settings, kept, night, queries, say)
        if queries is not None and (general or settings.notify_owners):
            kept = with_digests(settings, kept, night, queries)
    except LedgerError as error:
        say(f"notices: not everything can be told: {texts.refused(error)}")
    return kept


def _unknown(queries: LedgerQueries | None) -> int | None:
    """How many outcomes are unknown; None if nobody can say."""
    try:
        return None if queries is None else queries.count_in(State.UNKNOWN)
    except LedgerError:
        return None


def _facts(night: Night, late: Sequence[Late], unknown: int | None) -> Facts:
    """What the night came to; without the ledger, or without a look into the inbox, as far as anybody knows it."""
    found = Facts(night.ended, night.exit_code, "" if night.exit_code in WELL else texts.failure(night))
    if night.summary is not None:
        waiting = {one.found: one.text for one in night.left if one.code == _WAITS_TOO_LONG}
        found = replace(found, waiting=waiting)
    if unknown is None:
        return found
    files = {one.what: one.text for one in late if not one.over}
    return replace(found, late=files, over={one.what: one.text for one in late if one.over}, unknown=unknown)


def _with_changes(settings: Settings, kept: Kept, night: Night, queries: LedgerQueries | None, facts: Facts) -> Kept:
    again = timedelta(days=settings.notify_again_days) if settings.notify_again_days else None
    kept, changes = turn(kept, facts, Rules(settings.notify_after, again))
    if not changes:
        return kept
    told = [_as_it_ended(settings, queries, change) for change in changes]
    kind, title, body = texts.notice(told, night)
    return replace(kept, outbox=(*kept.outbox, Notice(NOTIFY, stamp(night.ended), kind, title, body)))


def _as_it_ended(settings: Settings, queries: LedgerQueries | None, change: Change) -> Change:
    """What was late, with how that ended."""
    if change.what != "closed" or not change.name.startswith(LATE) or queries is None:
        return change
    what = change.name.removeprefix(LATE)
    try:
        stands = next((one for one in standing(settings, queries) if one.name == what), None)
    except LedgerError:
        return change
    if stands is None:
        return change._replace(text=f"{what}: not expected any more")
    before, now = (text.removeprefix(f"{what}: ").partition(", ")[0] for text in (change.text, stands.text))
    more = "" if before == now or not stands.before else f"; {stands.before}"
    return change._replace(text=f"{stands.text}{more}")


def _ping(settings: Settings, step: str, said: str, say: Say) -> None:
    if settings.ping_url is None:
        return
    why = ping(settings.ping_url.get_secret_value(), step, said, settings.ping_timeout_s)
    if why:
        say(why)

"""Arrivals: which files should come until when, which of them are late, and what history suggests to expect.

`overdue` is the verb; `standing` tells how each expectation stands, `next_due` when to look again, `suggest` what could be expected.
Reads settings and the ledger's history; touches no file and tells nobody. A due moment is judged by the first run that began after it:
what came meanwhile is in nobody's book yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files.due_times import Dues, shown
from loadsheet.operations.expected_files.lateness import CHAIN, Awaited, judge
from loadsheet.operations.expected_files.suggestions import Suggestion, as_toml, suggest
from loadsheet.settings import Settings

__all__ = ["Awaited", "Late", "Suggestion", "as_toml", "next_due", "overdue", "standing", "suggest"]


@dataclass(frozen=True, slots=True)
class Late:
    """Something expected that did not come: `what` names the expectation for good (the same text as long as the same thing is late),
    `text` says it to people, `due` is when it should have been there (aware, UTC). `over`: it is over already, as with a run that
    did not happen, so that nothing will close it.
    """

    what: str
    text: str
    due: datetime
    over: bool = False


def overdue(settings: Settings, queries: LedgerQueries | None, began: datetime) -> Sequence[Late]:
    """What is late: of the files as far as runs have looked for them, and of the runs before the one that `began` (or before now, if none
    did; aware, UTC).
    """
    if queries is None:
        return ()
    late = [
        Late(one.name, one.text, one.due) for one in standing(settings, queries) if one.late and one.due is not None
    ]
    return (*late, *_missing_runs(settings, queries, began))


def standing(settings: Settings, queries: LedgerQueries) -> list[Awaited]:
    """How each expectation stands, in the order of the settings; none of them as long as no run has looked for any."""
    if not settings.expect:
        return []
    first, last = queries.looks()
    if not last:
        return []
    looked = _moment(last)
    dues = [list(islice(Dues(one, settings.working_days).before(looked), CHAIN + 1)) for one in settings.expect]
    oldest = min((some[-1] for some in dues if some), default=looked)
    counted = any(one.at_least_records for one in settings.expect)
    arrivals = queries.arrivals(stamp(oldest), counted=counted)
    return [
        judge(one, arrivals, looked=looked, since=_moment(first), working_days=settings.working_days)
        for one in settings.expect
    ]


def next_due(settings: Settings, now: datetime) -> datetime | None:
    """When the next file is due after `now` (both aware, UTC): whoever runs only when files come should run then too. None: never."""
    dues = (Dues(one, settings.working_days).after(now) for one in settings.expect)
    return min((due for due in dues if due is not None), default=None)


def _missing_runs(settings: Settings, queries: LedgerQueries, began: datetime) -> list[Late]:
    if not settings.runs_due_s:
        return []
    before = queries.begun_before(stamp(began))
    if not before:
        return []
    last = _moment(before)
    due = last + timedelta(seconds=settings.runs_due_s)
    if began <= due:
        return []
    hours = (began - last).total_seconds() / 3600
    text = f"no run began between {shown(last, None)} and {shown(began, None)} ({hours:,.1f} hours)"
    return [Late(f"runs since {before}", text, due, over=True)]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)

"""Judging: whether what is expected has come, as far as anybody has looked.

Owns: for which due moment a file counts. One that came up to a due moment counts for it; one that came later, but before half of the time
to the next, counts for it too if it had not been there in full by then; any other counts for the next. Pure: moments and arrivals in,
words out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import pairwise

from loadsheet.ledger.arrival_queries import Arrival
from loadsheet.operations.expected_files.due_times import Dues, shown
from loadsheet.settings.expected_files import Expectation

CHAIN = 4
"""So many due moments back it is followed up which file counted for which."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """How an expectation stands. `due` is the last due moment that somebody has looked after (None: none yet), `next_due` the one after;
    `came` are the arrivals since the due moment before; `late` says that they were not enough. `text` says it to people, and `before` how
    it ended with the due moment before this one (empty: there was none).
    """

    name: str
    due: datetime | None
    next_due: datetime | None
    came: tuple[Arrival, ...]
    late: bool
    text: str
    before: str = ""


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name of an inbox file fits a pattern, without regard to case; one without a slash fits the bare name."""
    folded, bare = name.casefold(), name.casefold().rpartition("/")[2]
    return any(fnmatchcase(folded if "/" in one else bare, one.casefold()) for one in patterns)


def judge(
    expectation: Expectation, arrivals: Sequence[Arrival], *, looked: datetime, since: datetime, working_days: str = ""
) -> Awaited:
    """How an expectation stands when the inbox was `looked` into last. `arrivals` are in the order in which they came; what was due before
    `since`, when somebody looked first, is not judged.
    """
    dues = Dues(expectation, working_days)
    mine = [one for one in arrivals if fits(one.name, expectation.files)]
    last: list[datetime] = []
    for due in dues.before(looked):
        last.append(due)
        if len(last) > CHAIN or due < since:
            break
    upcoming = dues.after(looked)
    judged = [due for due in last[:CHAIN] if due >= since]
    if not judged:
        text = (
            f"{expectation.called}: due {shown(upcoming, dues.zone)}"
            if upcoming
            else f"{expectation.called}: never due"
        )
        return Awaited(expectation.called, None, upcoming, tuple(mine[-3:]), late=False, text=text)
    start = last[len(judged)] if len(last) > len(judged) else None
    came, came_before = _counted(expectation, mine, start, judged[::-1], looked)
    late = not _enough(expectation, came)
    text = _says(expectation, came, judged[0], dues, late=late)
    before = _ended(expectation, came_before, judged[1], dues) if len(judged) > 1 else ""
    return Awaited(expectation.called, judged[0], upcoming, tuple(came), late=late, text=text, before=before)


def _counted(
    expectation: Expectation,
    arrivals: Sequence[Arrival],
    start: datetime | None,
    dues: Sequence[datetime],
    looked: datetime,
) -> tuple[list[Arrival], list[Arrival]]:
    """The arrivals that count for the last of these due moments, or closed it later; and those that did so for the one before."""
    before: list[Arrival] = []
    left = [one for one in arrivals if (start is None or one.came > start) and one.came <= looked]
    for due, following in pairwise(dues):
        half = due + (following - due) / 2
        in_time = [one for one in left if one.came <= due]
        until = due if _enough(expectation, in_time) else half
        before = [one for one in left if one.came <= until]
        left = [one for one in left if one.came > until]
    return left, before


def _enough(expectation: Expectation, came: Sequence[Arrival]) -> bool:
    return len(came) >= expectation.at_least and _records(came) >= expectation.at_least_records


def _records(came: Sequence[Arrival]) -> int:
    return sum({one.number: one.records for one in came}.values())


def _says(expectation: Expectation, came: Sequence[Arrival], due: datetime, dues: Dues, *, late: bool) -> str:
    when = f"due {shown(due, dues.zone)}"
    if not late:
        last = came[min(len(came), expectation.at_least) - 1]
        after = ", late" if last.came > due else ""
        return f"{expectation.called}: {when}, came {shown(last.came, dues.zone)}{after} ({last.name}{_aside(last)})"
    if not came:
        return f"{expectation.called}: {when}, no file was taken in"
    wanted = [f"{expectation.at_least} file{'s' if expectation.at_least > 1 else ''}"]
    wanted += [f"{expectation.at_least_records:,} records"] * bool(expectation.at_least_records)
    found = [f"{len(came)} file{'s' if len(came) > 1 else ''}"]
    found += [f"{_records(came):,} records"] * bool(expectation.at_least_records)
    aside = sum(one.set_aside for one in came)
    more = f", {aside} of them set aside" if aside else ""
    return f"{expectation.called}: {when}, {' with '.join(found)} came{more}, expected are {' with '.join(wanted)}"


def _ended(expectation: Expectation, came: Sequence[Arrival], due: datetime, dues: Dues) -> str:
    when = f"what was due {shown(due, dues.zone)}"
    if not _enough(expectation, came):
        return f"{when} never came" if not came else f"{when} came in part"
    last = came[min(len(came), expectation.at_least) - 1]
    return f"{when} came {shown(last.came, dues.zone)} ({last.name}{_aside(last)})"


def _aside(one: Arrival) -> str:
    return ", set aside" if one.set_aside else ""

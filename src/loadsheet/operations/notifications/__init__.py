"""Notifications: notices when a condition changes, a digest for each owner, fix files to the shipper, health pings.

`ping_start` runs before a run, `send_notifications` after it. A notice is stored in an outbox first (see `state`), then delivered, then
removed. An undelivered notice stays in the outbox; a process that is killed may send a notice twice, but loses none.

A notice about an ongoing condition, such as failing runs or a late file, is due when the condition opens, when its cause changes, again
after `notifications.again_days`, and when it closes. `update_conditions` decides this: pure, from the state and the facts about a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from loadsheet import exit_codes
from loadsheet.display_text import capitalized, count_of
from loadsheet.errors import LedgerError
from loadsheet.ledger import State
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files import Overdue, statuses
from loadsheet.operations.notifications.mailings import add_digests, add_fix_files
from loadsheet.operations.notifications.notice_delivery import NOTIFY, deliver_all, ping
from loadsheet.operations.notifications.state import (
    Condition,
    Kind,
    Notice,
    NotificationState,
    Say,
    open_store,
    shorten,
)
from loadsheet.reports.run_document import RunOutcome, todo_of, verdict_of
from loadsheet.settings import Settings

RUN, UNKNOWN, LATE, WAITS = "run", "unknown", "late ", "waits "
"""The names of conditions: runs fail; outcomes are unknown; and prefixes, before the name of an expectation whose file is late, and before
that of a file whose companion is overdue.
"""

_ONE_OFFS_MAX = 100

ChangeKind = Literal["opened", "changed", "again", "closed", "once"]

_FAILED = {
    exit_codes.INTERNAL_ERROR: "failed with an internal error, or does not balance",
    exit_codes.TRY_AGAIN: "could not be finished; the next run continues",
    exit_codes.TOKEN_REFUSED: "stopped: the exchange refused the token",
    exit_codes.CONFIG_WRONG: "did not take place: settings or a mapping are wrong",
}
_NEXT = {70: "runs", 75: "doctor", 77: "doctor", 78: "doctor"}
_LEFT_MAX = 20
_SUBJECT_MAX = 150
PAGE = "run.html"

_COMPANION_OVERDUE = "A111"


class ConditionChange(NamedTuple):
    """A change to report: the condition by name, its values at the time, and its text for people."""

    kind: ChangeKind
    name: str
    condition: Condition
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a run that decide on conditions: when it ended, its exit code and error; texts by name of late files, of one-off
    events and of files that wait too long; how many outcomes are unknown. None: not known, so its conditions stay as they are.
    """

    at: datetime
    exit_code: int
    failure: str = ""
    late: Mapping[str, str] | None = None
    one_off: Mapping[str, str] = field(default_factory=dict)
    unknown: int | None = None
    waiting: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """`after`: runs in a row with exit code 75 before a notice. `again`: time until a notice is repeated (None: never)."""

    after: int = 2
    again: timedelta | None = None


def update_conditions(
    state: NotificationState, facts: Facts, rules: Rules
) -> tuple[NotificationState, Sequence[ConditionChange]]:
    """The state after a run, and the changes to report: failures first, closed conditions last."""
    open_now = dict(state.conditions)
    changes = [_run(open_now, facts, rules)]
    if facts.unknown is not None:
        text = f"{facts.unknown:,} outcome{'s are' if facts.unknown != 1 else ' is'} unknown" if facts.unknown else ""
        changes.append(_update_condition(open_now, UNKNOWN, text, facts, rules))
    for prefix, texts in ((LATE, facts.late), (WAITS, facts.waiting)):
        if texts is not None:
            current = {f"{prefix}{name}": text for name, text in texts.items()}
            known = [name for name in open_now if name.startswith(prefix)]
            changes += [
                _update_condition(open_now, name, current.get(name, ""), facts, rules)
                for name in dict.fromkeys((*known, *current))
            ]
    new = [name for name in facts.one_off if name not in state.once]
    if RUN not in state.conditions:  # while runs fail, a missing run is part of that condition
        changes += [ConditionChange("once", name, Condition(stamp(facts.at)), facts.one_off[name]) for name in new]
    due = sorted((change for change in changes if change is not None), key=lambda change: change.kind == "closed")
    return replace(state, conditions=open_now, once=(*state.once, *new)[-_ONE_OFFS_MAX:]), due


def _run(open_now: dict[str, Condition], facts: Facts, rules: Rules) -> ConditionChange | None:
    if facts.exit_code in exit_codes.WORK_DONE:
        return _close(open_now, RUN)
    cause, now = str(facts.exit_code), stamp(facts.at)
    before = open_now.get(RUN)
    if before is None:
        condition = Condition(now, cause=cause, text=facts.failure)
    else:
        streak = before.streak + 1 if before.cause == cause else 1
        condition = replace(before, runs=before.runs + 1, cause=cause, streak=streak, text=facts.failure)
    patience = rules.after if facts.exit_code == exit_codes.TRY_AGAIN else 1
    if cause != condition.told_cause and condition.streak < patience:
        open_now[RUN] = condition
        return None
    return _report(open_now, RUN, condition, facts, rules)


def _update_condition(
    open_now: dict[str, Condition], name: str, text: str, facts: Facts, rules: Rules
) -> ConditionChange | None:
    """Open, continue or close a condition that has one cause: it holds while `text` is not empty."""
    if not text:
        return _close(open_now, name)
    before = open_now.get(name)
    if before is None:
        condition = Condition(stamp(facts.at), cause=name, text=text)
    else:
        condition = replace(before, runs=before.runs + 1, text=text)
    return _report(open_now, name, condition, facts, rules)


def _report(
    open_now: dict[str, Condition], name: str, condition: Condition, facts: Facts, rules: Rules
) -> ConditionChange | None:
    kind: ChangeKind | None = None
    if not condition.told_at:
        kind = "opened"
    elif condition.cause != condition.told_cause:
        kind = "changed"
    elif rules.again is not None and facts.at - datetime.fromisoformat(condition.told_at) >= rules.again:
        kind = "again"
    if kind is not None:
        condition = replace(condition, told_at=stamp(facts.at), told_cause=condition.cause)
    open_now[name] = condition
    return None if kind is None else ConditionChange(kind, name, condition, condition.text)


def _close(open_now: dict[str, Condition], name: str) -> ConditionChange | None:
    condition = open_now.pop(name, None)
    if condition is None or not condition.told_at:
        return None
    return ConditionChange("closed", name, condition, condition.text)


def ping_start(settings: Settings, say: Say) -> None:
    """Ping the health check that a run begins."""
    _ping(settings, "start", f"loadsheet {settings.shipper}".rstrip() + " begins\n", say)


def send_notifications(
    settings: Settings, outcome: RunOutcome, queries: LedgerQueries | None, late: Sequence[Overdue], say: Say
) -> None:
    """Send notices about what changed with this run, and the ping at its end. Undelivered notices are retried after the next run. `late`
    comes from `expected_files.overdue` and is ignored without `queries`. Failures are passed to `say`; none is raised.
    """
    say = _without_repeats(say)
    chosen = settings.notifications
    general = bool(chosen.urls or chosen.urls_file is not None)
    if general or chosen.owners or chosen.fixes_mail or chosen.fixes_to is not None:
        facts = _facts_of(outcome, late, queries)
        with open_store(settings, say) as store:
            if store is not None:
                before = state = store.read()
                if general:
                    state = _add_change_notice(settings, state, outcome, queries, facts)
                try:  # the steps that need the ledger come last: it may be damaged
                    state = add_fix_files(settings, state, outcome, queries, say)
                    if queries is not None and (general or chosen.owners):
                        state = add_digests(settings, state, outcome, queries)
                except LedgerError as error:
                    say(f"notices: some could not be created: {' '.join(shorten(str(error)).split())}")
                if state != before:
                    store.write(state)
                deliver_all(settings, state, store.write, say)
    _ping(settings, str(outcome.exit_code), run_summary(outcome), say)


def _ping(settings: Settings, step: str, body: str, say: Say) -> None:
    if settings.notifications.ping_url is not None:
        url = settings.notifications.ping_url.get_secret_value()
        if error := ping(url, step, body, settings.notifications.ping_timeout_s):
            say(error)


def _without_repeats(say: Say) -> Say:
    """The same callback, but each text only once: a full disk fails for every notice."""
    seen: set[str] = set()

    def say_once(text: str) -> None:
        if text not in seen:
            seen.add(text)
            say(text)

    return say_once


def _facts_of(outcome: RunOutcome, late: Sequence[Overdue], queries: LedgerQueries | None) -> Facts:
    """The facts about a run. Those from the ledger or the inbox stay None if these were not or cannot be read."""
    failure = "" if outcome.exit_code in exit_codes.WORK_DONE else failure_text(outcome)
    facts = Facts(outcome.ended, outcome.exit_code, failure)
    if outcome.summary is not None:
        waiting = {
            problem.found: problem.text for problem in outcome.inbox_problems if problem.code == _COMPANION_OVERDUE
        }
        facts = replace(facts, waiting=waiting)
    if queries is None:
        return facts
    try:
        unknown = queries.count_in(State.UNKNOWN)
    except LedgerError:
        return facts
    files = {item.name: item.text for item in late if not item.is_one_off}
    one_off = {item.name: item.text for item in late if item.is_one_off}
    return replace(facts, late=files, one_off=one_off, unknown=unknown)


def _add_change_notice(
    settings: Settings, state: NotificationState, outcome: RunOutcome, queries: LedgerQueries | None, facts: Facts
) -> NotificationState:
    again = timedelta(days=settings.notifications.again_days) if settings.notifications.again_days else None
    state, changes = update_conditions(state, facts, Rules(settings.notifications.after, again))
    if not changes:
        return state
    changes = [_with_outcome(settings, queries, change) for change in changes]
    kind, title, body = change_notice(changes, outcome)
    return replace(state, outbox=(*state.outbox, Notice(NOTIFY, stamp(outcome.ended), kind, title, body)))


def _with_outcome(settings: Settings, queries: LedgerQueries | None, change: ConditionChange) -> ConditionChange:
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


# ---- texts ----


def failure_text(outcome: RunOutcome) -> str:
    """Why a run failed, in a line or two."""
    if outcome.stopped is None:
        return _FAILED.get(outcome.exit_code, f"ended with exit code {outcome.exit_code}")
    return shorten(str(outcome.stopped))


def change_notice(changes: Sequence[ConditionChange], outcome: RunOutcome) -> tuple[Kind, str, str]:
    """The kind, title and body of a notice about changes after a run; there is at least one change."""
    first = changes[0]
    more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
    title = f"{outcome.title}: {_title(first, outcome)}{more}"
    kind: Kind = "success" if first.kind == "closed" else "failure" if first.name == RUN else "warning"
    commands = dict.fromkeys(_next(change) for change in changes if change.kind != "closed")
    steps = [f"Next: {outcome.command(words)}" for words in commands]
    steps += [f"See: {outcome.report(PAGE)}"] if outcome.folder else []
    blocks = ("\n".join(map(_line, changes)), verdict_of(outcome), todo_of(outcome), "\n".join(steps))
    return kind, title, "\n\n".join(block for block in blocks if block)


def run_summary(outcome: RunOutcome) -> str:
    """A summary of a run for the log of a health check."""
    lines = [f"{outcome.title} {outcome.run}: exit code {outcome.exit_code}".replace(" :", ":")]
    lines += [shorten(str(outcome.stopped))] if outcome.stopped else []
    lines += [text for text in (verdict_of(outcome), todo_of(outcome)) if text]
    lines += [shorten(str(problem)) for problem in outcome.inbox_problems[:_LEFT_MAX]]
    return "\n".join(lines) + "\n"


def _title(change: ConditionChange, outcome: RunOutcome) -> str:
    if change.name == RUN:
        return _title_of_runs(change, outcome)
    if change.name == UNKNOWN:
        return "no more unknown outcomes" if change.kind == "closed" else shorten(change.text)
    if change.name.startswith(LATE):
        what = change.name.removeprefix(LATE)
        return f"{what}: no longer late" if change.kind == "closed" else f"{what}: late"
    if change.name.startswith(WAITS):
        what = change.name.removeprefix(WAITS)
        return f"{what} no longer waits" if change.kind == "closed" else f"{what} waits for its companion"
    return "a run did not happen"


def _title_of_runs(change: ConditionChange, outcome: RunOutcome) -> str:
    condition = change.condition
    if change.kind == "closed":
        return f"works again after {count_of(condition.runs, 'failed run')}"
    word = {"again": "still fails", "changed": "fails for another reason"}.get(change.kind, "a run failed")
    if change.kind == "opened" and condition.runs > 1:
        word = f"{condition.runs} runs failed"
    verdict = outcome.summary.headline.text if outcome.summary else ""
    if not verdict and outcome.stopped is None:
        return f"{word} (exit code {condition.cause})"
    text, _, _ = (verdict or condition.text).partition(" (")  # the body has the details
    text, _, _ = text.partition("\n")
    text = text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"
    return f"{word}: {text if len(text) <= _SUBJECT_MAX else f'{text[: _SUBJECT_MAX - 1]}…'}"


def _line(change: ConditionChange) -> str:
    since = f"since {datetime.fromisoformat(change.condition.since).astimezone():%Y-%m-%d %H:%M}"
    if change.name == RUN:
        if change.kind == "closed":
            return f"Runs work again after {count_of(change.condition.runs, 'failed run')} {since}."
        meant = _FAILED.get(int(change.condition.cause), "ended early")
        again = f" ({count_of(change.condition.runs, 'run')} {since})" if change.condition.runs > 1 else ""
        return f"The run {meant}{again}.\n{capitalized(change.text)}"
    if change.kind == "closed":
        if change.name.startswith(WAITS):
            return (
                f"{change.name.removeprefix(WAITS)} no longer waits: its companion came, or it was removed ({since})."
            )
        ended = change.text if change.name.startswith(LATE) else "No more unknown outcomes"
        return f"{ended} ({since})."
    still = f" ({since})" if change.kind == "again" else ""
    return f"{'Late: ' if change.name.startswith(LATE) else ''}{change.text}{still}."


def _next(change: ConditionChange) -> str:
    if change.name == RUN:
        return _NEXT.get(int(change.condition.cause), "runs")
    if change.name == UNKNOWN:
        return "resolve"
    return "expected" if change.name.startswith(LATE) else "runs"

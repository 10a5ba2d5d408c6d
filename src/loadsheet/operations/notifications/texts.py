"""The texts of notices and mails: title, a line for each change, counts, the next command, and where the reports are. Pure."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from loadsheet import exit_codes
from loadsheet.operations.notifications.conditions import LATE, RUN, UNKNOWN, WAITS, Change
from loadsheet.operations.notifications.state import Kind
from loadsheet.problems import LoadsheetError
from loadsheet.reports.run_document import RunOutcome

_CHARACTERS_MAX = 1_000
_FAILED = {
    exit_codes.INTERNAL_ERROR: "failed with an internal error, or does not balance",
    exit_codes.TRY_AGAIN: "could not be finished; the next run continues",
    exit_codes.TOKEN_REFUSED: "stopped: the exchange refused the token",
    exit_codes.CONFIG_WRONG: "did not take place: settings or a mapping are wrong",
}
_NEXT = {70: "runs", 75: "doctor", 77: "doctor", 78: "doctor"}
_LEFT_MAX = 20
_NAMES_IN_TITLE = 3


def title_prefix(shipper: str) -> str:
    """The beginning of the title of a notice: `loadsheet`, or `loadsheet acme`."""
    return f"loadsheet {shipper}".rstrip()


def command(words: str, shipper: str) -> str:
    """A command to type, with `--shipper` if there is one."""
    return f"loadsheet {words}" + (f" --shipper {shlex.quote(shipper)}" if shipper else "")


def failure_text(outcome: RunOutcome) -> str:
    """Why a run failed, in a line or two."""
    if outcome.stopped is None:
        return _FAILED.get(outcome.exit_code, f"ended with exit code {outcome.exit_code}")
    return _shorten(str(outcome.stopped))


def change_notice(changes: Sequence[Change], outcome: RunOutcome) -> tuple[Kind, str, str]:
    """The kind, title and body of a notice about changes after a run; there is at least one change."""
    first = changes[0]
    more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
    title = f"{title_prefix(outcome.shipper)}: {_title(first)}{more}"
    kind: Kind = "success" if first.kind == "closed" else "failure" if first.name == RUN else "warning"
    lines = [_line(change) for change in changes]
    lines += ["", *_counts(outcome)] if outcome.summary else []
    commands = dict.fromkeys(_next(change) for change in changes if change.kind != "closed")
    lines += [f"Next: {command(words, outcome.shipper)}" for words in commands]
    lines += [f"Reports: {outcome.report()}"] if outcome.folder else []
    return kind, title, "\n".join(lines)


def run_summary(outcome: RunOutcome) -> str:
    """A summary of a run for the log of a health check."""
    lines = [f"{title_prefix(outcome.shipper)} {outcome.run}: exit code {outcome.exit_code}".replace(" :", ":")]
    lines += [_shorten(str(outcome.stopped))] if outcome.stopped else []
    lines += _counts(outcome)
    lines += [_shorten(str(problem)) for problem in outcome.left[:_LEFT_MAX]]
    return "\n".join(lines) + "\n"


def error_line(error: LoadsheetError) -> str:
    """An error in one line."""
    return " ".join(_shorten(str(error)).split())


def _title(change: Change) -> str:
    condition = change.condition
    if change.name == RUN:
        if change.kind == "closed":
            return f"works again after {_count_of(condition.runs, 'failed run')}"
        word = {"again": "still fails", "changed": "fails for another reason"}.get(change.kind, "a run failed")
        if change.kind == "opened" and condition.runs > 1:
            word = f"{condition.runs} runs failed"
        return f"{word} (exit code {condition.cause})"
    if change.name == UNKNOWN:
        return "no more unknown outcomes" if change.kind == "closed" else _shorten(change.text)
    if change.name.startswith(LATE):
        what = change.name.removeprefix(LATE)
        return f"{what}: no longer late" if change.kind == "closed" else f"{what}: late"
    if change.name.startswith(WAITS):
        what = change.name.removeprefix(WAITS)
        return f"{what} no longer waits" if change.kind == "closed" else f"{what} waits for its companion"
    return "a run did not happen"


def _line(change: Change) -> str:
    since = f"since {_local_time(change.condition.since)}"
    if change.name == RUN:
        if change.kind == "closed":
            return f"Runs work again after {_count_of(change.condition.runs, 'failed run')} {since}."
        meant = _FAILED.get(int(change.condition.cause), "ended early")
        again = f" ({_count_of(change.condition.runs, 'run')} {since})" if change.condition.runs > 1 else ""
        return f"The run {meant}{again}.\n{change.text}"
    if change.kind == "closed":
        if change.name.startswith(WAITS):
            return (
                f"{change.name.removeprefix(WAITS)} no longer waits: its companion came, or it was removed ({since})."
            )
        ended = change.text if change.name.startswith(LATE) else "No more unknown outcomes"
        return f"{ended} ({since})."
    still = f" ({since})" if change.kind == "again" else ""
    return f"{'Late: ' if change.name.startswith(LATE) else ''}{change.text}{still}."


def _next(change: Change) -> str:
    if change.name == RUN:
        return _NEXT.get(int(change.condition.cause), "runs")
    if change.name == UNKNOWN:
        return "resolve"
    return "expected" if change.name.startswith(LATE) else "runs"


def _counts(outcome: RunOutcome) -> Iterator[str]:
    if outcome.summary is None:
        return
    files = sum(len(drop.files) for drop in outcome.summary.drops)
    counts = ", ".join(f"{count:,} {state}" for state, count in outcome.summary.entries.items() if count)
    yield f"Run {outcome.summary.run}: {_count_of(files, 'file')}, {counts or 'no documents'}"
    someone = outcome.summary.needs_someone
    if someone.entries:
        first = f", first {someone.first}" if someone.first else ""
        yield f"{someone.entries:,} need someone{first}"


def _count_of(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _local_time(to_utc: str) -> str:
    return f"{datetime.fromisoformat(to_utc).astimezone():%Y-%m-%d %H:%M}"


def _shorten(text: str) -> str:
    return text if len(text) <= _CHARACTERS_MAX else f"{text[: _CHARACTERS_MAX - 3]}..."


def fix_mail(language: str, files: Sequence[tuple[str, int]]) -> tuple[str, str]:
    """Title and body of the mail with fix files, in the shipper's language. `files` are the names of the original files and how many records
    need a fix (0: the file could not be read at all).
    """
    words = _FIX_MAIL["de" if language.lower().startswith("de") else "en"]
    names = ", ".join(name for name, _ in files[:_NAMES_IN_TITLE])
    more = words.more.format(count=len(files) - _NAMES_IN_TITLE) if len(files) > _NAMES_IN_TITLE else ""
    counted = [(words.line if count else words.unread).format(name=name, count=count) for name, count in files]
    return _shorten(words.title.format(names=names + more)), "\n".join([words.intro, "", *counted, "", words.outro])


class _FixMail(NamedTuple):
    title: str
    more: str
    intro: str
    line: str
    unread: str
    outro: str


_FIX_MAIL = {
    "en": _FixMail(
        "To be fixed: {names}",
        " and {count} more",
        "Some data in these files could not be used. The attached files say beside each cell what is wrong.",
        "- {name}: {count} to fix",
        "- {name}: could not be used at all",
        "Please correct the attached files and drop them into your folder, as you did with the originals. Accepted records are not in"
        " them and need not be sent again.",
    ),
    "de": _FixMail(
        "Bitte korrigieren: {names}",
        " und {count} weitere",
        "Einige Daten dieser Dateien konnten nicht verwendet werden. Was falsch ist, steht in den Anhängen bei den Zellen.",
        "- {name}: {count} zu korrigieren",
        "- {name}: konnte gar nicht verwendet werden",
        "Bitte korrigieren Sie die angehängten Dateien und legen Sie diese wie die ersten in Ihren Ordner. Was angenommen wurde, ist nicht"
        " darin und muss nicht noch einmal geschickt werden.",
    ),
}


def report_line(outcome: RunOutcome, name: str) -> str:
    """The line that says where a report is; empty if there are no reports."""
    return f"See: {outcome.report(name)}" if outcome.folder else ""

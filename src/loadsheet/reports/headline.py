"""The verdict on a run in one line, and the run in a few lines for the terminal.

`headline` is the only place that decides how a run went in words. The terminal, the page, the workbook, the index and the notices show
its text. It computes no numbers: it reads them from the run's document.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from loadsheet import exit_codes
from loadsheet.display_text import as_argument, capitalized, count_of
from loadsheet.ledger import STATES_THAT_NEED_SOMEONE, State
from loadsheet.places import place_text
from loadsheet.reconcile import ONLY_CHECKED, RED, REMEDIES, Verdict
from loadsheet.reports.html_pages import PAGE
from loadsheet.reports.run_document import CauseSummary, FileSummary, Headline, ProblemSummary, RunSummary
from loadsheet.reports.run_summary import fates_of, files_of, missing_sentence, with_missing_records
from loadsheet.settings import Settings

GOOD, NOTE, BAD, PLAIN = "good", "note", "bad", "plain"
_MARKS = {GOOD: "✓", NOTE: "✗", BAD: "✗", PLAIN: "·", "": "✗"}  # no tone: an internal error left no verdict
_UNFINISHED = frozenset({"A103", "A104", "A107"})  # problems of files that are taken once they are complete
_FILES_SHOWN, _PROBLEMS_SHOWN, _KEYS_SHOWN = 5, 5, 5
_NAME_MAX = 44  # characters of a file's name on the terminal
_VALUE_MAX, _ANSWER_MAX = 30, 120  # characters of an example: a value of a cell, and what the exchange said
_CODED = re.compile(r"([A-Z][0-9]{3}) [a-z]+: (.*)", re.DOTALL)  # a problem as a line of text
_TODO = {
    Verdict.INVALID: "to be corrected by the sender",
    Verdict.HELD: "held",
    Verdict.REFUSED: "refused by the exchange",
    Verdict.UNKNOWN: "with an unknown outcome",
    Verdict.VALUE_DIFFERENCE: "shown with other values by the exchange",
    Verdict.MISSING: "missing at the exchange",
    Verdict.STILL_LISTED: "still at the exchange",
    Verdict.LISTED_TWICE: "twice at the exchange",
}
_CHECKED = frozenset({"agrees", *RED})
_DEFAULTS: dict[str, Path] = {name: Settings.model_fields[name].default for name in ("state", "mappings")}


def with_headline(summary: RunSummary) -> RunSummary:
    """The document with its headline."""
    return replace(summary, headline=_headline(summary))


def exit_code_shown(summary: RunSummary) -> int | None:
    """The exit code of a run, or of a day: that of its last run if that failed, else 1 if something is open."""
    if not summary.is_day or summary.exit_code not in exit_codes.WORK_DONE:
        return summary.exit_code
    return exit_codes.NEEDS_SOMEONE if any(_open_points(summary)) else exit_codes.DONE


def _headline(summary: RunSummary) -> Headline:
    """The verdict on a run: the most urgent point first, then the other counts. Only a run without any open point is `good`."""
    if summary.stopped == ONLY_CHECKED:
        points, sendable = list(_open_points(summary)), summary.entries.get(State.READY, 0)
        would = f"{sendable:,} of {count_of(sum(summary.entries.values()), 'document')} would be sent"
        return Headline(NOTE if points else GOOD, capitalized(ONLY_CHECKED), (would, *points))
    failed, points, remarks = list(_faults(summary)), list(_open_points(summary)), list(_remarks(summary))
    accepted = list(_accepted(summary))
    settled = sum(summary.settled.values())
    if failed or points:
        text, *rest = [*failed, *points]
        done = [f"{settled:,} no longer open"] if settled else []
        details = [*rest, *(accepted or (["0 accepted"] if summary.entries else [])), *done, *remarks]
    else:
        text = _clean(summary)
        details = [*(accepted if len(accepted) > 1 or settled else ()), *remarks]
    warned = sum(problem.count for problem in summary.problems if problem.level == "warning")
    details += [count_of(warned, "warning")] if warned else []
    tone = BAD if failed else NOTE if points or remarks else GOOD if summary.entries else PLAIN
    balance = " · ".join(part for _, part in _balance_parts(summary))
    return Headline(tone, capitalized(text), tuple(details), balance, tuple(_todo(summary)))


def _todo(summary: RunSummary) -> Iterator[str]:
    """What people have to do, a line each: documents by verdict with their first key, then files, then control totals."""
    for verdict, count, text in attention(summary):
        first = summary.firsts.get(verdict, "")
        yield f"{count_of(count, 'document')} {text}{f', first {first}' if first else ''}"
    if fixes := sum(len(drop.fix) for drop in summary.drops):
        yield f"{count_of(fixes, 'fix file')} to send back"
    for name in _unread(summary):
        yield f"{name} could not be read"
    if red := summary.red_totals:
        yield f"{count_of(red, 'control total')} to explain: see the sheet Control totals"


def balance_sentence(summary: RunSummary) -> str:
    """Whether every row is accounted for, in one sentence."""
    balance = summary.balance
    parts = " + ".join(f"{count:,} {fate}" for fate, count in balance.rows.items() if count) or "0"
    if balance.balances:
        return f"Every row is accounted for: {balance.read:,} read = {parts}"
    return f"The rows do not balance: {'; '.join(balance.faults)} ({balance.read:,} read, {parts})"


class RunPlaces(NamedTuple):
    """Where a run is found again: the folders of its reports, its ledger and its mappings, and the shipper if several are declared. Also
    when its reports were complete (ISO 8601 UTC; empty: not known).
    """

    folder: Path
    state: Path
    mappings: Path = _DEFAULTS["mappings"]
    shipper: str = ""
    reported_at: str = ""

    def options(self, *names: str) -> str:
        """The options of a command that needs these folders (`state`, `mappings`): none that has its default value."""
        if self.shipper:
            return f" --shipper {shlex.quote(self.shipper)}"
        given = {name: getattr(self, name) for name in names}
        return "".join(
            f" --{name} {shlex.quote(str(place))}" for name, place in given.items() if place != _DEFAULTS[name]
        )


def terminal_lines(summary: RunSummary, places: RunPlaces, *, verbose: bool = False) -> list[str]:
    """The run for the terminal, without control characters. `verbose` lists every file with all outcomes, and every kind of problem."""
    verdict = summary.headline
    mark = "!" if verdict.tone == NOTE and not any(_open_points(summary)) else _MARKS[verdict.tone]
    facts = " · ".join((verdict.text, *verdict.details, *_seconds(summary, places.reported_at)))
    lines = [f"{mark} {facts}     ({summary.title})"]
    if todo := [f"{count:,} {text}" for _, count, text in attention(summary)]:
        lines.append("  " + "   ".join(todo))
    lines.append(_balance_line(summary))
    parts = (
        _files(summary, verbose=verbose),
        _reasons(summary, verbose=verbose),
        _steps(summary, places),
    )
    for part in parts:
        if some := list(part):
            lines += ["", *some]
    return [line if line.isprintable() else "".join(s if s.isprintable() else "?" for s in line) for line in lines]


def _faults(summary: RunSummary) -> Iterator[str]:
    """What went wrong with the run itself."""
    if not summary.balance.balances:
        yield f"The rows do not balance: {'; '.join(summary.balance.faults)}"
    if summary.stopped:
        yield summary.stopped.rstrip(".")
        if waiting := max(summary.ready, summary.entries.get(State.READY, 0)):  # older runs did not record the first
            goes = "goes" if waiting == 1 else "go"
            yield f"nothing is lost: {count_of(waiting, 'document')} {goes} with the next run, drop nothing again"
    if summary.missing:
        yield f"An internal error prevented these reports: {', '.join(one.report for one in summary.missing)}"
    if summary.undone:
        yield f"Failed after the run: {', '.join(one.what for one in summary.undone)}"


def _open_points(summary: RunSummary) -> Iterator[str]:
    """What needs attention or is not finished, most urgent first."""
    total, needing = sum(summary.entries.values()), summary.needs_someone.entries
    if needing:
        yield f"{needing:,} of {count_of(total, 'document')} {'needs' if needing == 1 else 'need'} attention"
    aside = len(_unread(summary))
    for count, text in (
        (aside, "could not be read"),
        (summary.inbox.stuck, f"{'is' if summary.inbox.stuck == 1 else 'are'} stuck in the inbox"),
    ):
        if count:
            yield f"{count_of(count, 'file')} {text}"
    if red := summary.red_totals:
        yield f"{count_of(red, 'control total')} {'differs' if red == 1 else 'differ'}"


def _unread(summary: RunSummary) -> list[str]:
    """The names of the files that could not be read. On a day, a file may have come again: the last one counts."""
    last = {file.name: bool(file.set_aside) for file in files_of(summary)}
    return [name for name, aside in last.items() if aside]


def _remarks(summary: RunSummary) -> Iterator[str]:
    """What a limit of the run left, what is not proved, or open since earlier runs. It does not change the exit code, but the run is not
    `good` either.
    """
    waiting = summary.verdicts.get(Verdict.WAITING, 0)
    if waiting and not summary.stopped:
        yield f"{count_of(waiting, 'document')} {'waits' if waiting == 1 else 'wait'} to be sent"
    if unseen := summary.verdicts.get(Verdict.NOT_VERIFIABLE, 0):
        yield f"{count_of(unseen, 'document')} cannot be verified"
    if summary.open_earlier:
        are = "is" if summary.open_earlier == 1 else "are"
        more = summary.open_earlier - len(summary.open_keys)
        keys = ", ".join(summary.open_keys) + (f" and {more:,} more" if more else "")
        where = f": {keys} (index.html)" if summary.open_keys else ""
        # more than the documents of this run that need attention
        kind = "more exception" if summary.needs_someone.entries else "exception"
        yield f"{count_of(summary.open_earlier, kind)} of earlier runs {are} still open{where}"


def _clean(summary: RunSummary) -> str:
    """The text of a run without open points."""
    total, before = sum(summary.entries.values()), summary.entries.get(State.UNCHANGED, 0) + summary.accepted_before
    if settled := sum(summary.settled.values()):
        return f"{count_of(settled, 'document')} that needed attention no longer {'does' if settled == 1 else 'do'}"
    if not total:
        return _no_document(summary)
    if summary.verdicts.get(Verdict.WAITING, 0):
        accepted = summary.entries.get(State.ACCEPTED, 0) + summary.entries.get(State.UNCHANGED, 0)
        return f"{accepted:,} of {count_of(total, 'document')} accepted"
    if before == total:
        return f"Nothing new: {'the document was' if total == 1 else f'all {total:,} documents were'} accepted before"
    if before:
        return f"All {total:,} documents were accepted, now or before"
    return "The document was accepted" if total == 1 else f"All {total:,} documents were accepted"


def _no_document(summary: RunSummary) -> str:
    if rows := summary.balance.read:
        return f"{count_of(rows, 'row')} read, no document to send"
    unfinished = sum(file.code in _UNFINISHED for file in summary.inbox.files)
    wait = "waits" if unfinished == 1 else "wait"
    return f"No file was ready: {count_of(unfinished, 'file')} {wait} in the inbox" if unfinished else "No file came in"


def _accepted(summary: RunSummary) -> Iterator[str]:
    """How many documents this run sent, how many of its earlier drops were sent before, and how many are unchanged."""
    before, counts = summary.accepted_before, summary.entries
    for count, text in (
        (counts.get(State.ACCEPTED, 0) - before, "accepted"),
        (before, "accepted before"),
        (counts.get(State.UNCHANGED, 0), "unchanged"),
    ):
        if count:
            yield f"{count:,} {text}"


def _seconds(summary: RunSummary, reported_at: str) -> Iterator[str]:
    end = reported_at or summary.finished_at
    if end and not summary.is_day:
        took = datetime.fromisoformat(end) - datetime.fromisoformat(summary.started_at)
        yield f"{took.total_seconds():,.1f} s"


def attention(summary: RunSummary) -> list[tuple[Verdict, int, str]]:
    """The documents that need attention: verdict, count, and what has to happen in a few words."""
    counts = summary.current_verdicts
    return [(verdict, counts[verdict], text) for verdict, text in _TODO.items() if counts[verdict]]


def _balance_line(summary: RunSummary) -> str:
    """Rows and control totals, each with its mark."""
    return "    ".join(f"{_MARKS[tone]} {text}" for tone, text in _balance_parts(summary))


def _balance_parts(summary: RunSummary) -> list[tuple[str, str]]:
    rows = f"{sum(summary.balance.rows.values()):,} of {count_of(summary.balance.read, 'row')} accounted for"
    return [(GOOD if summary.balance.balances else BAD, rows), *totals_texts(summary)]


def totals_texts(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """How many control totals agree, and how many could not be checked: the tone and the text of each."""
    says = Counter(total.says for total in summary.totals)
    checked = sum(says[word] for word in _CHECKED)
    if checked:
        red = summary.red_totals
        agree = "agrees" if checked == 1 else "agree"
        yield BAD if red else GOOD, f"{checked - red:,} of {count_of(checked, 'control total')} {agree}"
    if unchecked := says.total() - checked:
        yield PLAIN, f"{count_of(unchecked, 'control total')} could not be checked"


def _files(summary: RunSummary, *, verbose: bool) -> Iterator[str]:
    """The files with rows that need attention, worst first; with `verbose` all files, in the order of sending."""
    found = [(file, drop.run) for drop in summary.drops for file in drop.files]
    if not verbose:
        found = [(file, run) for file, run in found if rows_needing(file)]
        found.sort(key=lambda one: -rows_needing(one[0]))
    shown_files = found if verbose else found[:_FILES_SHOWN]
    names = [file.name if verbose else _shortened(file.name) for file, _ in shown_files]
    width = max(map(len, names), default=0)
    for name, (file, run) in zip(names, shown_files, strict=True):
        earlier = "" if run == summary.run else f" (dropped in run {run})"
        yield f"  {name:<{width}}  {_file_text(file, verbose=verbose)}{earlier}"
    if (hidden := len(found) - len(shown_files)) > 0:
        yield f"  … {hidden:,} more file{'' if hidden == 1 else 's'} (--verbose)"


def rows_needing(file: FileSummary) -> int:
    """The rows of a file that need attention; a file that could not be read outranks all."""
    needing = sum(fates_of(file)[state] for state in STATES_THAT_NEED_SOMEONE)
    return 1 << 40 if file.set_aside else needing - sum(table.settled for table in file.tables)


def _file_text(file: FileSummary, *, verbose: bool) -> str:
    if file.set_aside:
        text = file.set_aside[0].removeprefix(f"{file.name}: ")
        coded = _CODED.fullmatch(text)
        return f"not read: {coded[2]} ({coded[1]})" if coded else f"not read: {text}"
    rows = sum(table.rows for table in file.tables)
    if not verbose:
        needing = rows_needing(file)
        return f"{needing:,} of {count_of(rows, 'row')} {'needs' if needing == 1 else 'need'} attention"
    fates = ", ".join(f"{count:,} {fate}" for fate, count in fates_of(file).items() if count)
    return f"{count_of(rows, 'row')}: {fates or 'none'}"


def _shortened(name: str) -> str:
    """A path of at most 44 characters, with its first folder if there is room."""
    if len(name) <= _NAME_MAX:
        return name
    folder, file = name.partition("/")[0], name.rpartition("/")[2]
    short = f"{folder}/…/{file}"
    return short if folder != file and len(short) <= _NAME_MAX else f"…{name[1 - _NAME_MAX :]}"


def _reasons(summary: RunSummary, *, verbose: bool) -> Iterator[str]:
    """Why: findings of the listings, records that are missing from a new file, then the problems, most frequent first."""
    counts = summary.current_verdicts
    for verdict, remedy in REMEDIES.items():
        if count := counts[verdict]:
            first = summary.firsts.get(verdict, "")
            yield f"{count:>7,}x {verdict}{f', first {first}' if first else ''}: {remedy}"
    yield from (f"  {missing_sentence(drop, keys_max=_KEYS_SHOWN)}" for drop in with_missing_records(summary))
    problems = summary.problems if verbose else summary.problems[:_PROBLEMS_SHOWN]
    examples: dict[tuple[str, str], CauseSummary] = {}
    for cause in summary.causes:
        examples.setdefault((cause.code, cause.level), cause)
    follow = Counter[str]()
    for cause in summary.causes:
        follow.update(cause.consequences.kinds)
    for problem in problems:
        line = _problem_line(problem, examples.get((problem.code, problem.level)))
        yield f"{line}{_following(follow[problem.code], problem.count)}"
    if (hidden := len(summary.problems) - len(problems)) > 0:
        yield f"        … {'1 more kind of problem' if hidden == 1 else f'{hidden} more kinds of problems'} (--verbose)"


def _following(follow: int, count: int) -> str:
    """How many problems of a kind follow from others."""
    if not follow:
        return ""
    some = "" if follow >= count else f"{follow:,} of them "
    return f"   ({some}follow{'s' if follow == 1 else ''} from another problem)"


def _problem_line(problem: ProblemSummary, example: CauseSummary | None) -> str:
    title = problem.title if problem.title[1:2].isupper() else problem.title[:1].lower() + problem.title[1:]
    level = ", warning" if problem.level == "warning" else ""
    text = f"{problem.count:>7,}x {title} ({problem.code}{level})"
    places = example.places if example is not None and example.places else problem.places
    if places:
        found = example.found[0] if example is not None and example.found else ""
        most = _ANSWER_MAX if problem.code[0] == "X" else _VALUE_MAX
        value = f' "{found if len(found) <= most else found[: most - 1] + "…"}"' if found else ""
        text += f"   e.g. {places[0]}{value}"
    return text


def _steps(summary: RunSummary, places: RunPlaces) -> Iterator[str]:
    """What to do next, and where the reports are."""
    folder = places.folder
    fixes = [name for drop in summary.drops for name in drop.fix]
    if len(fixes) == 1:
        yield f"→ Send back: {place_text(folder / fixes[0])}"
    elif fixes:
        yield f"→ Send back: {len(fixes)} fix files in {place_text(folder)}/"
    if summary.needs_someone.first:
        yield f"→ Look into: loadsheet show{places.options('state')} {as_argument(summary.needs_someone.first)}"
    elif summary.verdicts.get(Verdict.WAITING, 0):
        first = "put in the new token, then " if summary.exit_code == exit_codes.TOKEN_REFUSED else ""
        yield f"→ Send them: {first}loadsheet run{places.options('state', 'mappings')}"
    page = PAGE if PAGE in summary.reports else ""
    yield f"→ Reports:   {place_text(folder)}/{page}"

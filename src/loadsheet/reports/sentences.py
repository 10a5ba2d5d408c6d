"""A run in a few sentences, for the terminal and the head of the workbook. Also the rows of a document in words."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loadsheet.contract import BY_NAME, Action, Operation
from loadsheet.ledger import SourceTable
from loadsheet.mapping.documents import SourceRow
from loadsheet.reconcile import AGREES, REMEDIES, Verdict
from loadsheet.reports.run_document import DropSummary, FileSummary, ProblemSummary, RunSummary
from loadsheet.settings import Settings
from loadsheet.settings.places import shown

_UNLISTED = {Action.STATUS: "status events", Action.QUOTE: "quotes", Action.CONFIRM: "quote confirmations"}
_PROBLEMS_SHOWN = 5
_FIXES_SHOWN = 5
_KEYS_SHOWN = 5
_DASHES_OF_A_DAY = 2  # a run has one more, before its number


def verdict_sentence(summary: RunSummary) -> str:
    """The whole run in one sentence, such as `112 of 120 orders agree; 8 documents need attention`."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for name in sorted(summary.groups, key=lambda name: (not BY_NAME[name].proved_by, name)):
        groups.setdefault(_group(BY_NAME[name]), Counter()).update(summary.groups[name])
    agreeing = [_agreeing(*group, counts) for group, counts in groups.items()]
    text = ", ".join(agreeing) or "No document was submitted"
    rest = (
        (summary.needs_someone.entries, "documents need attention", "document needs attention"),
        (summary.verdicts.get(Verdict.WAITING, 0), "documents wait to be sent", "document waits to be sent"),
        (
            summary.verdicts.get(Verdict.NOT_VERIFIABLE, 0),
            "documents cannot be verified",
            "document cannot be verified",
        ),
        (summary.red_totals, "control totals differ", "control total differs"),
        (sum(bool(file.set_aside) for file in files_of(summary)), "files were set aside", "file was set aside"),
        (summary.inbox.stuck, "files are stuck in the inbox", "file is stuck in the inbox"),
    )
    more = ", ".join(f"{count:,} {one if count == 1 else many}" for count, many, one in rest if count)
    sentence = text + (f"; {more}" if more else "")
    sentence = sentence[0].upper() + sentence[1:]
    return sentence if summary.balance.balances else f"DOES NOT BALANCE. {sentence}"


def balance_sentence(summary: RunSummary) -> str:
    """The tie-out in one sentence."""
    parts = " + ".join(f"{count:,} {fate}" for fate, count in summary.balance.rows.items() if count) or "0"
    if summary.balance.balances:
        return f"Every row is accounted for: {summary.balance.read:,} read = {parts}"
    return f"DOES NOT BALANCE: {'; '.join(summary.balance.faults)} ({summary.balance.read:,} read, {parts})"


def sentences(summary: RunSummary, folder: Path, state: Path, shipper: str = "") -> list[str]:
    """The summary for the terminal, line by line, without control characters. `folder` holds the run's reports, `state`
    its ledger. `shipper` is set if several are declared.
    """
    what = "day" if summary.run.count("-") == _DASHES_OF_A_DAY else "run"
    lines = [f"{what} {summary.run}", *_file_lines(summary), verdict_sentence(summary), balance_sentence(summary)]
    lines += _shown_by_listings(summary)
    lines += (missing_sentence(drop, keys_max=_KEYS_SHOWN) for drop in with_missing_records(summary))
    lines += [
        f"  {problem.count:>5,} x {problem.code} {_titled(problem)}{_first(problem.places)}"
        for problem in summary.problems[:_PROBLEMS_SHOWN]
    ]
    if (hidden := len(summary.problems) - _PROBLEMS_SHOWN) > 0:
        lines.append(f"        and {hidden} more kind{'s' if hidden > 1 else ''} of problems")
    lines.append(f"reports in {shown(folder)}: {_reports(summary)}")
    lines += _to_fix(summary, folder)
    standard = state == Settings.model_fields["state"].default
    elsewhere = f" --shipper {shipper}" if shipper else "" if standard else f" --state {shlex.quote(str(state))}"
    lines += _next(summary, folder, elsewhere)
    return [line if line.isprintable() else _printable(line) for line in lines]


def _printable(line: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in line)


def files_of(summary: RunSummary) -> Iterator[FileSummary]:
    """Every file of the run."""
    for drop in summary.drops:
        yield from drop.files


def name_of(drop: DropSummary) -> str:
    """The names of the files of a drop."""
    return " + ".join(dict.fromkeys(file.name for file in drop.files))


def with_missing_records(summary: RunSummary) -> list[DropSummary]:
    """The drops that lack records of the previous version."""
    return [drop for drop in summary.drops if drop.missing_records.count]


def missing_sentence(drop: DropSummary, *, keys_max: int) -> str:
    """The records missing from a drop, with the first keys."""
    run, count, keys = drop.missing_records.run, drop.missing_records.count, drop.missing_records.keys[:keys_max]
    records, are = ("record", "is") if count == 1 else ("records", "are")
    more = f" and {count - len(keys):,} more" if count > len(keys) else ""
    return f"{count:,} {records} of the previous {name_of(drop)} (run {run}) {are} missing from the new file: {', '.join(keys)}{more}"


def fates_of(file: FileSummary) -> Counter[str]:
    """The rows of a file by outcome, all its tables together."""
    fates: Counter[str] = Counter()
    for table in file.tables:
        fates.update(table.fates)
    return fates


def _shown_by_listings(summary: RunSummary) -> Iterator[str]:
    """The findings that only a listing shows, each with its remedy. No problem of an entry reports them."""
    for verdict, remedy in REMEDIES.items():
        if count := summary.verdicts.get(verdict, 0):
            first = summary.firsts.get(verdict, "")
            yield f"  {count:>5,} x {verdict}{f', first {first}' if first else ''}: {remedy}"


def _reports(summary: RunSummary) -> str:
    results = {name for file in files_of(summary) for name in file.results}
    to_fix = {name for drop in summary.drops for name in drop.fix}
    others = [name for name in summary.reports if name not in results | to_fix and "/" not in name]
    for_programs = len([name for name in summary.reports if "/" in name])
    counted = [f"{len(results)} results file{'' if len(results) == 1 else 's'}"]
    counted += [f"{for_programs} files in ack"] if for_programs else []
    return ", ".join([*others, *counted])


def _to_fix(summary: RunSummary, folder: Path) -> Iterator[str]:
    """The fix files for senders, the first few by name."""
    names = [name for drop in summary.drops for name in drop.fix]
    yield from (f"to fix: {shown(folder / name)}" for name in names[:_FIXES_SHOWN])
    if (hidden := len(names) - _FIXES_SHOWN) > 0:
        yield f"        and {hidden} more fix files"


def _group(operation: Operation) -> tuple[str, str]:
    if operation.proved_by:
        return f"{operation.subject}s", "agree"
    return _UNLISTED[operation.action], "are acknowledged"


def _agreeing(noun: str, verb: str, verdicts: Mapping[str, int]) -> str:
    total = sum(verdicts.values())
    agreeing = sum(count for verdict, count in verdicts.items() if verdict in AGREES)
    if total == 1:
        one, agrees = noun.removesuffix("s"), verb.replace("are ", "is ").replace("agree", "agrees")
        return f"the only {one} {agrees}" if agreeing else f"0 of 1 {noun} {verb}"
    return f"all {total:,} {noun} {verb}" if agreeing == total else f"{agreeing:,} of {total:,} {noun} {verb}"


def _file_lines(summary: RunSummary) -> Iterator[str]:
    width = max((len(file.name) for file in files_of(summary)), default=0)
    for drop in summary.drops:
        for file in drop.files:
            earlier = "" if drop.run == summary.run else f" (dropped in run {drop.run})"
            if file.set_aside:
                yield f"  {file.name:<{width}}  set aside: {file.set_aside[0]}"
                continue
            rows = sum(table.rows for table in file.tables)
            fates = ", ".join(f"{count:,} {fate}" for fate, count in fates_of(file).items() if count)
            yield f"  {file.name:<{width}}  {rows:>6,} {'row' if rows == 1 else 'rows'}: {fates or 'none'}{earlier}"


def _titled(problem: ProblemSummary) -> str:
    return f"{problem.title} (warning)" if problem.level == "warning" else problem.title


def _first(places: tuple[str, ...]) -> str:
    return f", first at {places[0]}" if places else ""


def _next(summary: RunSummary, folder: Path, elsewhere: str) -> Iterator[str]:
    if summary.needs_someone.rows:
        plural = "s need" if summary.needs_someone.rows > 1 else " needs"
        yield f"{summary.needs_someone.rows:,} row{plural} attention: see the problem column of the results files in {shown(folder)}"
    if summary.needs_someone.first:
        yield f"next: loadsheet show {shlex.quote(summary.needs_someone.first)}{elsewhere}"
    elif summary.verdicts.get(Verdict.WAITING, 0):
        yield "next: loadsheet run"


def rows_by_place(rows: Iterable[SourceRow], tables: Mapping[str, SourceTable]) -> dict[str, str]:
    """The row numbers of a document by file and sheet, with ranges shortened."""
    by_table: dict[str, list[int]] = {}
    for row in rows:
        mine = by_table.get(row.table)
        if mine is None:
            by_table[row.table] = [row.number]
        else:
            mine.append(row.number)
    numbers: dict[str, list[int]] = {}
    for name, mine in by_table.items():
        place = f"{tables[name].file} {tables[name].sheet}".strip()
        numbers[place] = numbers[place] + mine if place in numbers else mine
    return {place: _ranges(sorted(found)) for place, found in numbers.items()}


def _ranges(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return str(first)
    if numbers == list(range(first, last + 1)):
        return f"{first}-{last}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number <= runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

"""`loadsheet run --dry-run`: what a run would take, and what would become of it; nothing is claimed, planned, sent or written.

Owns: the text of the forecast. Files are found like in a run, read and mapped like in `check`, and compared with the ledger. The exchange
is not asked, so unknown outcomes stay unknown.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from loadsheet import exit_codes, inbox, ingest
from loadsheet.cli.check import describe_cause, unclaimed
from loadsheet.cli.ledger_access import ledger_to_read
from loadsheet.contract import SENDING_ORDER
from loadsheet.fix_files import FixFile, OpenedDrop, recognise
from loadsheet.ledger import Ledger, State, open_ledger
from loadsheet.ledger.forecast import Forecaster
from loadsheet.ledger.moved import refuse_beside_a_file
from loadsheet.ledger.opening import is_there
from loadsheet.ledger.recording import stop_reasons
from loadsheet.ledger.states import Waits
from loadsheet.mapping import Document, Route, load_folder, translate
from loadsheet.mapping.plausibility import NotationCheck
from loadsheet.problem_groups import Causes
from loadsheet.problems import WAITS_FOR_MAPPING, FileRefused, Problem
from loadsheet.settings import Settings
from loadsheet.translation import CountedTables

WAITING = "waiting"  # for an order or tender that is not there and does not come with this run
_WORDS = {
    "ready": "would be sent",
    WAITING: "would wait for their order or tender",
    "held": "would be held",
    "invalid": "invalid",
    "unchanged": "unchanged",
    "refused": "refused before",
}


class DryRunResult(NamedTuple):
    """The result of a dry run: the exit code that a run would have, lines, JSON, and warnings for stderr."""

    exit_code: int
    lines: tuple[str, ...]
    json: bytes
    warnings: tuple[str, ...]


@dataclass(slots=True)
class _Collected:
    """What the forecast has collected so far."""

    drops: list[dict[str, Any]] = field(default_factory=list)
    aside: dict[str, Problem] = field(default_factory=dict)
    left: list[Problem] = field(default_factory=list)
    causes: Causes = field(default_factory=Causes)
    states: Counter[str] = field(default_factory=Counter)


def forecast_run(settings: Settings) -> DryRunResult:
    """Forecast what a run would do now. Raises MappingError, FolderError and LedgerError."""
    mappings = load_folder(settings.mappings, settings.assumptions)
    collected = _Collected()
    with _ledger(settings) as ledger, tempfile.TemporaryDirectory(prefix="loadsheet-") as folder:
        inbox.check_inbox(settings)
        seen = inbox.peek(settings) if settings.inbox_address or settings.inbox.exists() else inbox.Scan(())
        seen = inbox.fetch_objects(seen, settings.model_copy(update={"state": Path(folder)}))
        by_name = {candidate.name: candidate for candidate in seen.candidates}
        fix_files = recognise(seen.candidates, ledger.queries, mappings, settings)
        names = [name for name in by_name if not fix_files.holds(name)]
        routes = ingest.routes_of(names, by_name, mappings, ledger.queries, settings)
        collected.left += [
            *ingest.overdue(settings, by_name, routes),
            *ingest.waiting_for_mappings(mappings, routes),
            *seen.left,
        ]
        collected.aside |= {**fix_files.refused, **routes.unmapped, **routes.ambiguous}
        complete = [*routes.complete, *(fix.route for fix in fix_files.files.values())]
        forecaster = ledger.forecaster()
        for chosen in sorted(complete, key=lambda chosen: SENDING_ORDER.index(chosen.mapping.operation.name)):
            fix = fix_files.files.get(next(iter(chosen.files.values())))
            opened = _opener(chosen, fix, by_name, ledger, settings)
            _forecast_route(chosen, opened, forecaster, collected, settings)
        already = {state.value: ledger.queries.count_in(state) for state in (State.READY, State.UNKNOWN)}
    return _result(collected, already, settings)


@contextmanager
def _ledger(settings: Settings) -> Iterator[Ledger]:
    """The ledger for reading; a temporary empty one if there is none yet."""
    if is_there(settings.database_url):
        with ledger_to_read(settings) as ledger:
            yield ledger
        return
    if settings.is_shared:
        refuse_beside_a_file(settings.state, "on PostgreSQL")
    with (
        tempfile.TemporaryDirectory(prefix="loadsheet-") as folder,
        open_ledger(f"sqlite:///{Path(folder, 'ledger.db')}") as ledger,
    ):
        yield ledger


def _opener(
    chosen: Route, fix: FixFile | None, by_name: dict[str, inbox.Candidate], ledger: Ledger, settings: Settings
) -> Callable[[], OpenedDrop]:
    names = [*dict.fromkeys(chosen.files.values())]
    files = [unclaimed(name, by_name[name].path) for name in names]
    return lambda: ingest.open_drop(chosen, fix, files, ledger.queries, settings)


def _forecast_route(
    chosen: Route,
    opened: Callable[[], OpenedDrop],
    forecaster: Forecaster,
    collected: _Collected,
    settings: Settings,
) -> None:
    """Forecast the files of one route."""
    mapping, names = chosen.mapping, [*dict.fromkeys(chosen.files.values())]
    states: Counter[str] = Counter()
    notation_check = NotationCheck()
    try:
        drop = opened()
        counted = CountedTables(mapping, drop.tables)
        now = datetime.now(UTC)
        translated = translate(mapping, counted.tables, now=now)
        looked_at = ingest.far_dates(settings, now).watch(translated, mapping.lineage, drop.tables)
        made = drop.with_fixed_entries(notation_check.watch(looked_at))
        documents = (one for one in made if isinstance(one, Document))
        for document, verdict in forecaster.verdicts(documents, changed=mapping.changed):
            waits = verdict.waits is Waits.PARENT
            states[WAITING if waits else verdict.state.value] += 1
            for problem in (*document.problems, *([verdict.problem] if verdict.problem else [])):
                collected.causes.add(problem, document.key)
        for notes in counted.notes().values():
            for problem in notes.problems:
                collected.causes.add(problem)
    except FileRefused as refused:
        collected.aside |= dict.fromkeys(names, refused.problem)
        return
    share_max = 1.0 if drop.fixes is not None else ingest.error_share_max(mapping, settings)
    doubts = notation_check.problems(drop.tables) if drop.fixes is None else ()
    fates: Counter[State] = Counter()
    for name, number in states.items():
        fates[State.READY if name == WAITING else State(name)] += number
    if why := stop_reasons(names[0], fates, share_max, doubts):
        for problem in why:
            collected.causes.add(problem)
        states["held"] += states.pop("ready", 0) + states.pop(WAITING, 0)
    collected.states += states
    records = dict(states)
    collected.drops.append(
        {"files": names, "mapping": mapping.name, "operation": mapping.operation.name, "records": records}
    )


def _result(collected: _Collected, already: dict[str, int], settings: Settings) -> DryRunResult:
    ranked = collected.causes.ranked()
    code = _exit_code(collected, already)
    document = {
        "dry_run": True,
        "exit_code": code,
        "files": collected.drops,
        "set_aside": [{"file": name, "problem": problem.to_json()} for name, problem in collected.aside.items()],
        "left": [problem.to_json() for problem in collected.left],
        "records": dict(collected.states),
        "already": already,
        "causes": ranked,
    }
    lines = [_drop_line(drop) for drop in collected.drops]
    lines += [f"{name}: would be set aside: {problem.text}" for name, problem in collected.aside.items()]
    lines += [line for cause in ranked for line in describe_cause(cause).splitlines()]
    lines.append(_sum_line(collected, already, settings.run_entries_max))
    return DryRunResult(code, tuple(lines), msgspec.json.encode(document), tuple(map(str, collected.left)))


def _drop_line(drop: dict[str, Any]) -> str:
    return f"{' + '.join(drop['files'])} ({drop['mapping']}): {_counts(drop['records'])}"


def _counts(records: dict[str, int]) -> str:
    return ", ".join(f"{records[name]:,} {words}" for name, words in _WORDS.items() if records.get(name)) or "no record"


def _sum_line(collected: _Collected, already: dict[str, int], limit: int) -> str:
    ready = collected.states["ready"] + already["ready"]
    counts = [f"{ready:,} records would be sent"]
    if already["ready"]:
        counts.append(f"{already['ready']:,} of them were ready before")
    if limit and ready > limit:
        counts.append(f"{limit:,} of them by this run, and the rest by later ones")
    if already["unknown"]:
        counts.append(f"{already['unknown']:,} earlier ones are unknown and would be looked for first")
    return "; ".join(counts) + ". Nothing was moved, kept or sent"


def _exit_code(collected: _Collected, already: dict[str, int]) -> int:
    states = {name for name, count in collected.states.items() if count}
    wrong = states & {"invalid", "held", "refused", WAITING}
    stuck = any(problem.level == "error" for problem in collected.left)
    return exit_codes.exit_code(
        stopped=None,
        lacks_mapping=any(problem.code in WAITS_FOR_MAPPING for problem in collected.left),
        nothing_usable=bool(collected.aside or states) and states <= {"invalid"},
        needs_someone=bool(wrong or collected.aside or stuck or already["unknown"]),
    )

"""`loadsheet capsule`: archive a run in one file; show, verify and replay the archive on any machine."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadsheet import exit_codes
from loadsheet.cli.options import (
    CONFIG,
    JSON,
    MAPPINGS,
    OUTBOX,
    STATE,
    Target,
    clock,
    combined_options,
    ledger_to_read,
    load,
    run_names,
    with_settings,
)
from loadsheet.cli.output import print_json, print_lines, say
from loadsheet.display_text import count_of

if TYPE_CHECKING:
    from loadsheet.ledger import Run
    from loadsheet.ledger.queries import LedgerQueries
    from loadsheet.run_archive.replay import ReplayResult
    from loadsheet.settings import Settings

_HEAD_LETTERS = 16

FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@click.group()
def capsule() -> None:
    """A run in one archive: its files, mappings, payloads and answers, with a hash chain."""


@capsule.command()
@click.argument("run", metavar="RUN", shell_complete=run_names)
@click.option(
    "--to",
    "--out",
    "target",
    type=Target(),
    help="The file to write (default: STATE/capsules/RUN.capsule.zip).",
)
@with_settings(MAPPINGS, OUTBOX, STATE)
@JSON
def make(*, settings: "Settings", run: str, target: Path | None, as_json: bool) -> int:
    """Pack a run, such as 2026-03-04-01 or `last`, into a capsule, and print its head. Keep the head elsewhere.

    The capsule holds the files of the run as they were dropped, including personal data.
    """
    from loadsheet.run_archive import capsule_path, seal

    with ledger_to_read(settings) as ledger:
        chosen = _run(ledger.queries, run)
        if chosen is None:
            say(f"there is no run {run}; `loadsheet runs` lists the runs")
            return exit_codes.NOTHING_USABLE
        sealed = seal(ledger.queries, chosen, settings, target or capsule_path(settings, chosen.name), clock()())
    for remark in sealed.remarks:
        say(remark)
    if as_json:
        print_json({"run": chosen.name, "file": str(sealed.path), "head": sealed.head, "remarks": sealed.remarks})
    else:
        print_lines([f"{sealed.path}: {_counts_text(sealed.manifest.counts)}", f"head {sealed.head}"])
    return 0


@capsule.command()
@FILE
@click.option(
    "--head",
    metavar="HASH",
    default="",
    help="The head that was printed when it was made, or the beginning of the head.",
)
@combined_options(STATE, CONFIG, JSON)
def verify(file: Path, *, head: str, state: Path | None, config: Path | None, as_json: bool) -> int:
    """Check whether a capsule is unchanged: 0 if it is, otherwise 1, with what is wrong.

    Its hash chain shows every change inside it. Whether the whole capsule was replaced can only be seen from its head: give --head,
    or use the record of capsules in STATE if the capsule was made here.
    """
    from loadsheet.run_archive import verify as archive

    if head and len(head) < _HEAD_LETTERS:
        raise click.BadParameter(
            f"{head} is too short; give {_HEAD_LETTERS} letters or more of it", param_hint="--head"
        )
    known = archive.CapsuleRecord(()) if head else archive.read_record(load(config, state=state).state)
    verdict = archive.verify(file, known, head)
    if as_json:
        print_json({**verdict._asdict(), "sound": not verdict.wrong})
    elif verdict.wrong:
        print_lines([f"{file}: TAMPERED WITH", *(f"  {text}" for text in verdict.wrong)])
    else:
        vouched = f"the {verdict.vouched_by} confirms it" if verdict.vouched_by else _UNVOUCHED
        print_lines([f"{file}: sound, run {verdict.run}, {verdict.members} members; {vouched}", f"head {verdict.head}"])
    return exit_codes.NEEDS_SOMEONE if verdict.wrong else 0


@capsule.command()
@FILE
@click.option(
    "--to",
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the rebuilt reports in this folder, which must be empty.",
)
@JSON
def replay(file: Path, *, folder: Path | None, as_json: bool) -> int:
    """Rebuild payloads and reports from a capsule alone, offline, and compare them byte for byte.

    Exits with 0 if everything is the same. Otherwise exits with 1 and shows every difference by key and field.
    """
    from loadsheet.run_archive.replay import replay as run_replay

    done = run_replay(file, folder)
    if as_json:
        values = {name: value for name, value in done._asdict().items() if name != "manifest"}
        differences = [difference._asdict() for difference in done.differences]
        print_json(values | {"differences": differences, "run": done.manifest.run, "is_same": done.is_same})
    else:
        print_lines(_replay_lines(done))
    for remark in () if as_json else done.remarks:
        say(remark)
    return 0 if done.is_same else exit_codes.NEEDS_SOMEONE


@capsule.command()
@FILE
@JSON
def show(file: Path, *, as_json: bool) -> int:
    """Show the contents of a capsule: run, files, mappings, answers and reports. Verify it before you trust it."""
    from loadsheet.run_archive.contents import CapsuleReader, read_manifest

    manifest = read_manifest(CapsuleReader(file))
    if as_json:
        print_json(manifest)
        return 0
    lines = [
        f"run {manifest.run}, {manifest.started_at} to {manifest.finished_at}, exit code {manifest.exit_code}",
        f"made by loadsheet {manifest.loadsheet} on Python {manifest.python}",
        *(
            f"  file {file.name}, {file.size:,} bytes, {file.sha256[:12]}"
            for drop in manifest.drops
            for file in drop.files
        ),
        *(
            f"  mapping {mapping.name} {mapping.version}, {mapping.hash[:12]}: {', '.join(mapping.files)}"
            for mapping in manifest.mappings
        ),
        f"  {_counts_text(manifest.counts)}",
        *(f"  report {report.name}, {report.size:,} bytes, {report.sha256[:12]}" for report in manifest.outputs),
    ]
    print_lines(lines)
    return 0


_UNVOUCHED = "there is no record of it here; give its head (--head) to detect whether the whole capsule was replaced"


def _run(queries: "LedgerQueries", name: str) -> "Run | None":
    if name == "last":
        return next((run for run in queries.runs() if run.finished_at and queries.drops_of(run)), None)
    return next((run for run in queries.runs_named(name) if run.name == name), None)


def _counts_text(counts: dict[str, int]) -> str:
    files, attempts = count_of(counts["files"], "file"), count_of(counts["attempts"], "attempt")
    return f"{files}, {count_of(counts['entries'], 'entry', 'entries')}, {attempts}"


def _replay_lines(done: "ReplayResult") -> list[str]:
    lines = [
        f"run {done.manifest.run}: {count_of(done.drops, 'drop')} read again, {count_of(done.entries, 'entry', 'entries')}"
    ]
    if done.difference_count:
        lines.append(f"DIFFERENT: {count_of(done.difference_count, 'difference')} in plans, requests or answers")
        lines += [f"  {difference}" for difference in done.differences]
        if len(done.differences) < done.difference_count:
            lines.append(f"  and {done.difference_count - len(done.differences):,} more")
    elif done.drops:
        lines.append("every payload and verdict is identical")
    if done.calls and not done.difference_count:
        lines.append(f"the requests of {count_of(done.calls, 'attempt')} match these payloads")
    lines.append(f"{len(done.same)} of {len(done.same) + len(done.other)} reports are identical")
    return [*lines, *(f"  different: {name}" for name in done.other)]

"""Mutation testing: change the source in one place, run the tests that reach it, count the changes that no test notices.

cosmic-ray finds and applies the changes. Its runner has one test command for all of them and edits the working tree, so this driver
draws a sample that rotates by day, chooses the tests and works in two copies of the tree. (mutmut changes no decorated function and no
constant of a module, draws no sample, and does not see what child processes of the tests reach.)

First the tests of a room run once, with a mark in each function, to learn which test reaches which function. Then each mutant faces the
tests that reach its function until one fails, the quickest first; the slowest are left out if they take too long together. A timeout
counts as a failure. The exit code says only whether this driver works, whatever survives.
"""

import argparse
import ast
import datetime as dt
import importlib
import json
import mmap
import re
import shutil
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from cosmic_ray.mutating import mutate_code
from tests.mutation.copies import MARKS, Copy, Plugin, finished, marked
from tests.mutation.places import ROOMS, ROOT, Mutant, changed_lines, drawn_for, functions, room_of

TESTS_OF = {  # where they are not, or not all, in tests/ROOM
    "dispatch": ("dispatch", "exchange/test_probe.py"),
    "object_storage": ("inbox/test_object_storage.py", "retention/test_kept_in_stores.py"),
    "annotations": ("reports/test_annotations.py",),
}
SLOW = {"acceptance", "exchange", "cluster", "house", "oracle", "proofs"}  # used for no room but their own
PRELOADED = ("babel", "duckdb", "openpyxl", "pandas", "pydantic", "rich", "rule_engine", "sqlalchemy")
SECONDS_MAX = 60.0  # of tests for one mutant, by the time they took unchanged
JOBS = 2


def test_files(room: str) -> list[str]:
    """The tests of a room, and those elsewhere that import it; the longest first."""
    named = [ROOT / "tests" / name for name in TESTS_OF.get(room, (room,))]
    named = [place for place in named if place.exists()]
    found = {file for place in named for file in (place.rglob("test_*.py") if place.is_dir() else [place])}
    imports = re.compile(rf"^\s*(from|import) loadsheet\.{room}\b|^\s*from loadsheet import .*\b{room}\b", re.MULTILINE)
    quick = (file for file in (ROOT / "tests").rglob("test_*.py") if file.parts[-2] not in SLOW)
    found |= {file for file in quick if imports.search(file.read_text(encoding="utf-8"))}
    return [str(file.relative_to(ROOT)) for file in sorted(found, key=lambda file: -file.stat().st_size)]


def tests_that_reach(room: str, paths: list[str], copies: list[Copy]) -> dict[tuple[str, int], dict[str, float]]:
    """The tests that reach each function of some files, with the seconds that they take; function 0 is the file as a whole."""
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    places = [(path, node.lineno) for path, source in sources.items() for node in functions(ast.parse(source))]
    for order, copy in enumerate(copies):
        memory = copy.folder / "marks.bin"
        memory.write_bytes(bytes(max(len(places), 1)))
        (copy.folder / "src/loadsheet_marks.py").write_text(MARKS.format(path=str(memory), size=len(places)))
        for path, source in sources.items():
            copy.write(path, marked(source, {line: n for n, (of, line) in enumerate(places) if of == path}))
        with memory.open("r+b") as file:
            plugin = Plugin(mmap.mmap(file.fileno(), 0), copy.folder / "report.json")
        if mine := test_files(room)[order :: len(copies)]:
            copy.start(mine, plugin, 1800)
    found = defaultdict(dict)
    for copy, code in finished(copies):
        for path, source in sources.items():
            copy.write(path, source)
        report = copy.folder / "report.json"
        if code not in (0, 1) or not report.is_file():
            raise RuntimeError(f"the tests of {room} did not end: {copy.output()}")
        for name, test in json.loads(report.read_text(encoding="utf-8")).items():
            reached = {places[number] for number in test["reached"]} if test["passed"] else set()
            for place in reached | {(path, 0) for path, _ in reached}:
                found[place][name] = test["seconds"]
        report.unlink()
    return found


def chosen(tests: dict[str, float]) -> tuple[list[str], float]:
    """The quickest tests, for SECONDS_MAX in all, and how long they take."""
    kept, seconds = [], 0.0
    for name in sorted(tests, key=tests.__getitem__):
        if not kept or seconds + tests[name] <= SECONDS_MAX:
            kept.append(name)
            seconds += tests[name]
    return kept, seconds


def change_of(mutant: Mutant, source: str, mutated: str) -> str:
    pairs = zip(source.splitlines(), mutated.splitlines(), strict=False)
    was, now = next((pair for pair in pairs if pair[0] != pair[1]), ("?", "?"))
    return f"{mutant.path}:{mutant.line}: {was.strip()}  ->  {now.strip()}"


def try_room(room: str, drawn: list[Mutant], copies: list[Copy], until: float) -> dict:
    """What became of the mutants of a room."""
    found = tests_that_reach(room, sorted({mutant.path for mutant in drawn}), copies)
    waiting, survivors, killed = list(drawn), [], 0
    control, seconds = next((chosen(tests) for tests in found.values()), ([], 0.0))
    if not control:
        raise RuntimeError(f"no test of {room} reaches any of the files that were drawn: {copies[0].output()}")
    copies[0].start(control, Plugin(), seconds * 3 + 60)
    if any(code for _, code in finished(copies[:1])):
        raise RuntimeError(f"tests fail without any change: {copies[0].output()}")

    def try_next(copy: Copy) -> None:
        while waiting and time.monotonic() < until:
            mutant = waiting.pop(0)
            source = (ROOT / mutant.path).read_text(encoding="utf-8")
            mutated = mutate_code(source, mutant.operator, mutant.occurrence)
            change, (tests, seconds) = change_of(mutant, source, mutated), chosen(found[mutant.path, mutant.function])
            if tests:
                copy.write(mutant.path, mutated)
                copy.trying = mutant.path, source, change
                copy.start(tests, Plugin(), seconds * 3 + 30)
                return
            survivors.append(f"{change}  (no test reaches it)")

    for copy in copies:
        try_next(copy)
    for copy, code in finished(copies):
        path, source, change = copy.trying
        copy.write(path, source)
        killed += code != 0
        survivors += [change] * (code == 0)
        try_next(copy)
    tried = killed + len(survivors)
    share = round(len(survivors) / max(tried, 1), 3)
    counts = {"mutants": tried, "killed": killed, "survived": len(survivors), "share": share, "not tried": len(waiting)}
    print(
        "\n".join(sorted(survivors)), *(f"{value} {name}," for name, value in counts.items()), f"in {room}", flush=True
    )
    return {**counts, "survivors": sorted(survivors)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mutation testing of loadsheet.")
    today = dt.datetime.now(tz=dt.UTC).date().toordinal()
    parser.add_argument("--mutants", type=int, default=200, help="sample size for all rooms")
    parser.add_argument("--seed", type=int, default=today, help="default: the day")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no mutant after that")
    parser.add_argument(
        "--base", default="", help="changed lines since this commit; default: merge base, tag or HEAD~1"
    )
    parser.add_argument(
        "--rooms", nargs="*", help="default: the five with a target, another one first each day, and changed ones"
    )
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    until, results, changed = time.monotonic() + asked.minutes * 60, {}, changed_lines(asked.base)
    turn = asked.seed % len(ROOMS)
    rooms = asked.rooms or list(dict.fromkeys([*ROOMS[turn:], *ROOMS[:turn], *sorted(map(room_of, changed))]))
    for name in PRELOADED:
        importlib.import_module(name)
    scratch = tempfile.mkdtemp(prefix="mutants")  # a TemporaryDirectory would be removed by each fork that ends
    Path(scratch).chmod(0o755)  # servers of tests may have a user of their own
    try:
        copies = [Copy(Path(scratch, str(number))) for number in range(JOBS)]
        for room in rooms:
            anywhere, most = room in ROOMS or bool(asked.rooms), max(1, asked.mutants // len(asked.rooms or ROOMS))
            drawn = drawn_for(room, changed, most, asked.seed, anywhere=anywhere)
            if drawn and time.monotonic() < until:
                results[room] = try_room(room, drawn, copies, until)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    (ROOT / "dist").mkdir(exist_ok=True)
    left = [room for room in rooms if room not in results]
    report = {"seed": asked.seed, "rooms": results, "rooms not tried": left}
    (ROOT / "dist/mutants.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\n{'room':14}", *(f"{name:>9}" for name in ("mutants", "killed", "survived", "share", "not tried")))
    for room, result in results.items():
        counts = {**result, "share": f"{result['share']:.1%}"}
        print(f"{room:14}", *(f"{value:>9}" for value in list(counts.values())[:5]))
    print("rooms not tried:", ", ".join(left) or "none", "\ndist/mutants.json")


if __name__ == "__main__":
    main()

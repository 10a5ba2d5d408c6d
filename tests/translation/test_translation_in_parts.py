"""A drop that is translated in parts leaves the ledger that one process leaves, whoever translates the parts and whatever becomes of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from ledgers import Ticking, ledger_at
from orders import MAPPINGS, write_orders
from sqlalchemy import select
from workspace import copy_mappings

from loadsheet import run_log, translation
from loadsheet.contract import Assumptions
from loadsheet.ledger.ledger_tables import drops, entries, events, files, ignored, mappings, tables
from loadsheet.ledger_sink import ingest_files
from loadsheet.mapping import load_folder, route
from loadsheet.mapping.documents import Document
from loadsheet.problems import FileRefused, MappingError
from loadsheet.reading import open_tables
from loadsheet.settings import Settings
from loadsheet.translation import PartTranslation, merge_chunks, rows_of_each

ROOT = Path(__file__).parents[2]
TIMES = {"at", "arrived", "created_at", "changed_at"}
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")


@cache
def loaded_from(folder):
    return load_folder(folder, Assumptions())


class House:
    """A ledger of its own, with files dropped into an inbox of its own, and what it knows in the end."""

    def __init__(self, folder, *, mappings=MAPPINGS, **given):
        folder.mkdir(parents=True, exist_ok=True)
        self.settings = Settings(
            inbox=folder / "inbox",
            mappings=mappings,
            outbox=folder / "outbox",
            state=folder / "state",
            settle_s=0,
            **{"parts_bytes_min": 1, "translation_processes": 1, **given},
        )
        self.settings.inbox.mkdir()
        self.url = f"sqlite:///{folder / 'ledger.db'}"
        self.folder = folder

    def known(self):
        """Every row of the ledger after one intake, but for times and folders."""
        loaded = loaded_from(self.settings.mappings)
        with ledger_at(self.url, Ticking()) as ledger:
            assert ingest_files(self.settings, ledger, ledger.begin_run(), loaded).fault is None
            return rows_of(ledger, self.folder)


def rows_of(ledger, folder):
    """What lies in the ledger."""
    found = {}
    with ledger.queries._engine.connect() as connection:
        for table in (mappings, drops, files, tables, entries, ignored, events):
            columns = [column for column in table.c if column.name not in TIMES]
            order = table.c.id if "id" in table.c else table.c.hash
            found[table.name] = [
                tuple(str(value).replace(str(folder), "") if isinstance(value, str) else value for value in row)
                for row in connection.execute(select(*columns).order_by(order))
            ]
    return found


def with_orders(house, count=300, **more):
    write_orders(house.settings.inbox, count, **more)
    return house


def test_parts_that_read_different_rows_are_not_whole(tmp_path):
    house, loaded = with_orders(House(tmp_path), 20), loaded_from(MAPPINGS)
    parts = [PartTranslation(order_of(house, loaded, part, 2), house.settings) for part in range(2)]
    chunks = sorted((chunk for part in parts for chunk in part.chunks()), key=lambda chunk: chunk.first)
    first, second = [part.summary() for part in parts]
    assert len(list(merge_chunks(chunks, lambda: [first.groups, second.groups]))) == 20
    assert rows_of_each([first, second]) == {"orders": 20, "packages": 60}
    with pytest.raises(translation.PartsLost, match="different rows"):
        rows_of_each([first, replace(second, rows={**second.rows, "orders": 1})])


def order_of(house, loaded, part=0, of=1):
    (chosen,) = route(["orders.csv", "packages.csv"], loaded).complete
    sources = []
    for role, name in chosen.files.items():
        sources.append(translation.PartFile(role, name, str(house.settings.inbox / name)))
    return translation.part_jobs(chosen.mapping, sources, "2026-03-06T02:15:00.000Z", of)[part]


# ---- parts that processes of this machine translate ----


@contextmanager
def journal_in(folder):
    """A journal, and what gives the warnings in it once it is closed."""
    state = folder / "journal"
    with run_log.opened(Settings(state=state)):
        yield lambda: [
            line
            for log in (state / "logs").glob("*.jsonl")
            for line in log.read_text(encoding="ascii").splitlines()
            if json.loads(line)["level"] == "warning"
        ]


@pytest.mark.journey
def test_the_ledger_after_other_processes_is_the_ledger_without(tmp_path, monkeypatch):
    """Also with rows that are wrong or left out, and values that look damaged. `mapping/test_parts.py` has the parts of every layout."""
    known, shared_out, in_parts = [], [], translation.PartProcesses
    monkeypatch.setattr(translation, "PartProcesses", lambda *given: shared_out.append(given) or in_parts(*given))
    for processes in (1, 3):
        house = House(tmp_path / str(processes), translation_processes=processes)
        with_orders(house, 330, wrong_every=9)
        orders = house.settings.inbox / "orders.csv"
        orders.write_text(orders.read_text("utf-8").replace("Empfänger 7,", "EmpfÃ¤nger 7,"), encoding="utf-8")
        with journal_in(tmp_path / f"journal {processes}") as lines:
            known.append(house.known())
        assert lines() == []
    without, parts = known
    assert (parts, len(shared_out)) == (without, 1)
    assert any(row for row in without["tables"] if row[-1] != "[]"), "something looks damaged"


def alone(folder, count):
    """What a ledger knows after an intake without parts."""
    return with_orders(House(folder / "alone"), count).known()


@contextmanager
def killed():
    """Whoever translates for this process is killed, as soon as it is there."""
    pids, over = [], threading.Event()

    def kill():
        while not over.is_set():
            for pid in translating() - set(pids):
                os.kill(pid, signal.SIGKILL)
                pids.append(pid)
            time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield pids
    finally:
        over.set()
        killer.join()


def translating(parent=None):
    """The processes of ours, or of another one, that translate parts."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            ours = int(stat.read_text().rpartition(")")[2].split()[1]) == (parent or os.getpid())
            if ours and b"translation import serve" in (stat.parent / "cmdline").read_bytes():
                found.add(int(stat.parent.name))
        except OSError:
            continue
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to find processes in")


@needs_proc
def test_a_process_that_is_killed_costs_time_and_nothing_else(tmp_path):
    house = with_orders(House(tmp_path / "parts", translation_processes=3), 20)
    with journal_in(tmp_path) as lines, killed() as pids:
        assert house.known() == alone(tmp_path, 20)
    assert len(pids) >= 1
    (line,) = lines()
    assert "parts of a translation lost" in line
    assert "ended early" in line


@needs_proc
def test_a_process_that_is_killed_halfway_is_a_lost_part_and_no_process_has_a_secret_or_leaves_a_file(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("LOADSHEET_TOKEN", "s3cret")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    house = House(tmp_path / "house", database="postgresql://me:s3cret@host/base")
    with_orders(house, 2_000)  # far more than a pipe holds
    given = [order_of(house, loaded_from(MAPPINGS), part, 2) for part in range(2)]
    with translation.PartProcesses(given, house.settings) as processes:
        stream = processes.documents()
        assert all(isinstance(one, Document) for one in islice(stream, 150))
        pids = translating()
        assert len(pids) == 2
        for pid in pids:
            said = b"".join((Path("/proc") / str(pid) / name).read_bytes() for name in ("environ", "cmdline"))
            assert b"s3cret" not in said
        os.kill(min(pids), signal.SIGKILL)
        with pytest.raises(translation.PartsLost, match="ended early"):
            list(stream)
    assert translating() == set()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_a_process_finds_wrong_with_a_file_comes_through_with_its_problem(tmp_path):
    house = with_orders(House(tmp_path), 20)
    loaded = loaded_from(MAPPINGS)
    given = [order_of(house, loaded)]
    (house.settings.inbox / "packages.csv").write_bytes(b"Order,Kind,Item,Weight,Volume\r\n1,BOX,\xff\xfe,1,1\r\n")
    (chosen,) = route(["orders.csv", "packages.csv"], loaded).complete
    with pytest.raises(FileRefused) as here:
        open_tables(
            house.settings.inbox / "packages.csv", "packages.csv", chosen.mapping.layouts["packages"], house.settings
        )
    with translation.PartProcesses(given, house.settings) as processes, pytest.raises(FileRefused) as there:
        list(processes.documents())
    assert there.value.problem == here.value.problem


def test_a_process_whose_mapping_comes_out_as_another_one_is_a_lost_part(tmp_path):
    house = with_orders(House(tmp_path), 20)
    given = replace(order_of(house, loaded_from(MAPPINGS)), hash="another")
    with pytest.raises(MappingError, match="different mapping in this process"):
        PartTranslation(given, house.settings)
    failed = pytest.raises(translation.PartsLost, match="part 1 failed: MappingError")
    with translation.PartProcesses([given], house.settings) as processes, failed:
        list(processes.documents())


PLANNER = """
import sys, msgspec
from loadsheet import translation
from loadsheet.settings import Settings
jobs = msgspec.json.decode(sys.stdin.buffer.readline(), type=list[translation.PartJob])
with translation.PartProcesses(jobs, Settings()) as processes:
    next(processes.documents())
    print("planning", flush=True)
    sys.stdin.read()
"""


@needs_proc
def test_processes_end_when_the_one_that_plans_is_killed(tmp_path):
    house = with_orders(House(tmp_path), 2_000)
    given = [order_of(house, loaded_from(MAPPINGS))]
    words = [sys.executable, "-c", PLANNER]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path) as planner:
        planner.stdin.write(msgspec.json.encode(given) + b"\n")
        planner.stdin.flush()
        assert planner.stdout.readline() == b"planning\n"
        theirs = translating(planner.pid)
        assert len(theirs) == 1
        planner.kill()
    while any(is_alive(pid) for pid in theirs):  # the test's own time limit is the only one
        time.sleep(0.01)


def is_alive(pid):
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---- what is shared out at all ----


@pytest.mark.parametrize(
    ("file", "given"),
    [
        ("orders", {"parts_bytes_min": 10_000_000}),
        ("orders", {"reading_process": "none"}),
        ("acme_orders_2026-03.xlsx", {}),  # every part would have to unpack it
    ],
    ids=["small files", "files that this process has to read itself", "a workbook"],
)
def test_what_is_quick_or_has_to_be_done_here_is_not_shared_out(tmp_path, monkeypatch, file, given):
    monkeypatch.setattr(translation, "PartProcesses", lambda *given: pytest.fail(f"{given} was shared out"))
    house = House(tmp_path, translation_processes=3, **given)
    if file == "orders":
        with_orders(house, 5)
    else:
        copy_mappings(tmp_path / "mappings", "acme-flat")
        house.settings = house.settings.model_copy(update={"mappings": tmp_path / "mappings"})
        shutil.copy(ROOT / "inbox_samples" / file, house.settings.inbox)
    assert house.known()["entries"]


def test_the_processes_are_as_many_as_the_cores_and_no_more_than_four(tmp_path):
    house = House(tmp_path)
    cores = len(os.sched_getaffinity(0))
    chosen = [
        translation.extra_processes(house.settings.model_copy(update={"translation_processes": n}))
        for n in (0, 1, 3, 9)
    ]
    assert chosen == [min(cores, 4) - 1, 0, 2, 8]

"""A claimed file lies in one place at any time, with the bytes it came with, until it is archived, set aside or given back."""

import errno
import hashlib
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import threading
import time
import unicodedata
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from inbox_files import RUN, drop, left, lies_in, names, settings_in, settled, taken, touch

from loadsheet.errors import FolderError
from loadsheet.inbox import (
    Candidate,
    InboxFile,
    archive,
    claim,
    find_archived_copy,
    give_back,
    is_unchanged,
    purge,
    scan,
    set_aside,
    shown_name,
)
from loadsheet.inbox.files import folder_error
from loadsheet.problems import Problem, Where

DAY = date(2026, 3, 4)
NEXT = "2026-03-04-02"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")


def claimed(place, name="orders.csv", content=b"Order\nA1\n"):
    return claim(Candidate(name, drop(place, name, content)), place, RUN)


def found_now(place):
    """What a run finds that does not wait."""
    return scan(place.model_copy(update={"settle_s": 0.0}))


# ---- claims ----


def test_a_claim_moves_the_file_and_returns_its_hash(place):
    path = drop(place, "nordic/orders.csv", b"Order\nA1\n")
    os.utime(path, (1_772_600_000, 1_772_600_000))
    file = claim(Candidate("nordic/orders.csv", path), place, RUN)
    assert file == InboxFile(
        "nordic/orders.csv",
        place.state / "work" / RUN / "nordic" / "orders.csv",
        9,
        hashlib.sha256(b"Order\nA1\n").hexdigest(),
        datetime(2026, 3, 4, 4, 53, 20, tzinfo=UTC),
    )
    assert (path.exists(), file.path.read_bytes()) == (False, b"Order\nA1\n")


def test_a_vanished_file_is_not_claimed_and_a_name_outside_the_inbox_is_refused(place, apart):
    for settings in (place, apart):
        assert claim(Candidate("late.csv", settings.inbox / "late.csv"), settings, RUN) is None
    path = drop(place)
    for name in ("../../x", "/etc/passwd", "a/../../b", "", "a\0b"):
        with pytest.raises(FolderError, match="not a path below the inbox"):
            claim(Candidate(name, path), place, RUN)
    assert path.exists()


def test_a_second_file_of_the_same_name_does_not_overwrite_the_first(place):
    first = claimed(place, content=b"one")
    second = claimed(place, content=b"two")
    assert (first.path.read_bytes(), second.path.read_bytes()) == (b"one", b"two")
    assert second.path.name == "orders~2.csv"


def race(settings, run, barrier, wins):
    won = 0
    for number in range(100):
        barrier.wait()
        won += claim(Candidate(f"{number}.csv", settings.inbox / f"{number}.csv"), settings, run) is not None
    wins.put(won)


@pytest.mark.parametrize("runs", [("one", "two"), ("same", "same")])
def test_of_two_processes_one_claims_each_file(place, runs):
    for number in range(100):
        drop(place, f"{number}.csv", str(number).encode())
    context = multiprocessing.get_context("fork")
    barrier, wins = context.Barrier(2), context.Queue()
    rivals = [context.Process(target=race, args=(place, run, barrier, wins)) for run in runs]
    for rival in rivals:
        rival.start()
    won = [wins.get(timeout=60) for _ in rivals]
    for rival in rivals:
        rival.join()
    assert sum(won) == 100
    kept = sorted(path.read_bytes() for path in (place.state / "work").rglob("*.csv"))
    assert kept == sorted(str(number).encode() for number in range(100))


def test_claims_of_a_killed_run_come_first_the_inbox_waits_and_half_made_copies_go(place):
    claimed(place, "z.csv", b"old")
    drop(place, "z.csv", b"new")
    drop(place, "a.csv")
    half = place.state / "copying" / "7.tmp"
    half.parent.mkdir()
    half.write_bytes(b"half")
    first = found_now(place)
    assert names(first) == ["z.csv", "a.csv"]
    assert not half.exists()
    file = claim(first.candidates[0], place, NEXT)
    assert (file.path, file.path.read_bytes()) == (place.state / "work" / NEXT / "z.csv", b"old")
    assert not (place.state / "work" / RUN).exists()
    archive(file, place, NEXT)
    assert names(found_now(place)) == ["z.csv", "a.csv"]  # in the order in which they came


def test_a_file_we_may_not_read_or_take_stays_and_says_why(ordinary):
    path = drop(ordinary)
    path.chmod(0)
    with pytest.raises(FolderError, match=r"orders\.csv could not be read: permission denied; grant it"):
        claim(Candidate("orders.csv", path), ordinary, RUN)
    path.chmod(0o644)
    ordinary.inbox.chmod(0o555)
    with pytest.raises(FolderError, match=r"orders\.csv could not be moved from \S+inbox: permission denied; grant it"):
        claim(Candidate("orders.csv", path), ordinary, RUN)
    ordinary.inbox.chmod(0o755)
    assert (lies_in(ordinary.inbox), lies_in(ordinary.state)) == (["orders.csv"], [])


def test_a_claim_across_volumes_is_verified_and_a_full_disk_keeps_the_source(apart):
    content = random.Random(1).randbytes(3_000_000)
    path = drop(apart, "n/a.csv", content)
    touch(path, 1_772_600_000)
    _, most = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 1, 4096, 1_048_576, 2_999_999):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))  # as on a disk with that much room
        try:
            with pytest.raises(FolderError, match=r"^n/a\.csv could not be moved from "):
                claim(Candidate("n/a.csv", path), apart, RUN)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.read_bytes() == content
        assert lies_in(apart.state) == []
    (file,) = taken(apart)
    assert file.path.read_bytes() == content
    assert (file.size, file.arrived.timestamp()) == (3_000_000, 1_772_600_000)
    assert (lies_in(apart.inbox), lies_in(apart.state)) == ([], [f"work/{RUN}/n/a.csv"])
    assert file.path.stat().st_mode & 0o007 == 0


def claim_and_die(place, run, after_s):
    """A process that claims and archives everything and is killed so many seconds after it began."""
    begun, begin = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(begin, b"!")
            for candidate in scan(place).candidates:
                if file := claim(candidate, place, run):
                    archive(file, place, run)
        finally:
            os._exit(0)
    os.read(begun, 1)
    os.close(begun)
    os.close(begin)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("count", "kills", "seed"),
    [(40, 3, 1), *(pytest.param(150, 5, seed, marks=pytest.mark.sweep) for seed in range(4))],
)
@pytest.mark.parametrize("volumes", ["place", "apart"])
def test_killed_at_random_moments_every_file_lies_in_one_place(request, volumes, count, kills, seed):
    """Claim and archive `count` files, killed again and again; each lies in one place at each death, and all arrive."""
    place, chance = request.getfixturevalue(volumes), random.Random(seed)
    contents = {chance.randbytes(chance.choice([10, 10_000, 300_000])) for _ in range(count)}
    for number, content in enumerate(contents):
        drop(place, f"{number}.csv", content)
    for life in range(kills):
        claim_and_die(place.model_copy(update={"settle_s": 0.0}), f"run-{life}", chance.uniform(0, 0.02))
        lying = [path.read_bytes() for top in (place.inbox, place.state) for path in top.rglob("*.csv")]
        assert set(lying) == contents
    known = [find_archived_copy(file, place) for _ in range(2) for file in taken(place) if archive(file, place, RUN)]
    assert len(known) <= count + kills  # across volumes a kill may leave the original beside its copy
    assert {path.read_bytes() for path in (place.state / "archive").rglob("*.csv")} == contents
    assert lies_in(place.inbox) == []
    assert not list((place.state / "work").rglob("*.csv"))


# ---- what changes while it is taken ----


@LINUX
def test_a_claim_of_a_file_that_is_written_to_is_undone(place):
    path = drop(place)
    with path.open("ab") as writer:
        assert claim(Candidate("orders.csv", path), place, RUN) is None
        writer.write(b"A2\n")
    assert path.read_bytes() == b"Order\nA1\nA2\n"
    assert lies_in(place.state) == []


def test_a_late_write_is_noticed_and_the_file_goes_back(place):
    path = drop(place, "n/orders.csv")
    file = claim(Candidate("n/orders.csv", path), place, RUN)
    assert is_unchanged(file)
    status = file.path.stat()
    with file.path.open("ab") as late:
        late.write(b"A2\n")
    assert not is_unchanged(file)
    file.path.write_bytes(b"Order\nA7\n")  # the same length, and its times set back
    os.utime(file.path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not is_unchanged(file)
    give_back(file, place)
    assert lies_in(place.inbox) == ["n/orders.csv"]
    assert lies_in(place.state) == []


def test_what_the_shipper_drops_afterwards_changes_nothing_and_is_never_overwritten(place):
    file = claimed(place, content=b"old")
    drop(place, content=b"new").unlink()
    assert file.path.read_bytes() == b"old"
    path = drop(place, content=b"new")
    give_back(file, place)
    assert path.read_bytes() == b"new"
    assert [candidate.path.read_bytes() for candidate in found_now(place).candidates] == [b"old"]


def test_both_contents_of_a_file_replaced_at_any_moment_arrive(place):
    stop, written = threading.Event(), set()

    def replace():
        number = 0
        while not stop.is_set() or number < 200:
            number += 1
            content = f"{number}".encode() * 50
            written.add(content)
            drop(place, "a.tmp", content).replace(place.inbox / "a.csv")
            time.sleep(0.001)

    shipper = threading.Thread(target=replace)
    shipper.start()
    arrived, scans = [], 0
    while scans < 150 or len(arrived) < 4:  # a busy machine lets the shipper write seldom
        scans += 1
        for file in taken(place):
            assert hashlib.sha256(file.path.read_bytes()).hexdigest() == file.sha256
            arrived.append(archive(file, place, RUN).read_bytes())
    stop.set()
    shipper.join()
    arrived += [archive(file, place, RUN).read_bytes() for file in taken(place)]
    assert len(arrived) == len(set(arrived))
    assert set(arrived) <= written
    assert arrived[-1] == max(written, key=lambda content: int(content[: len(content) // 50]))


def test_files_that_vanish_during_a_scan_or_claim_are_no_error(place):
    stop = threading.Event()

    def come_and_go():
        while not stop.is_set():
            with suppress(OSError):  # we took it first
                drop(place, "a.csv").unlink(missing_ok=True)
                drop(place, "folder/b.csv").unlink(missing_ok=True)
                (place.inbox / "folder").rmdir()

    shipper = threading.Thread(target=come_and_go)
    shipper.start()
    for _ in range(300):
        for file in taken(place):
            file.path.unlink()
    stop.set()
    shipper.join()


# ---- names and kinds ----


@examples(max_examples=60)
@given(
    raw=st.binary(min_size=1, max_size=255).filter(lambda raw: not set(raw) & set(b"\0/") and raw not in (b".", b".."))
)
def test_any_name_is_data(tmp_path_factory, raw):
    place = settings_in(tmp_path_factory.mktemp("names"), ignore=(), settle_s=0)
    Path(os.fsdecode(os.fsencode(place.inbox) + b"/" + raw)).write_bytes(raw)
    (candidate,) = scan(place).candidates
    shown = candidate.name.encode()  # it can be written down, and shown on a terminal
    assert len(shown) <= 240
    assert all(unicodedata.category(sign) not in ("Cc", "Cs", "Zl", "Zp") for sign in candidate.name)
    file = claim(candidate, place, RUN)
    kept = archive(file, place, RUN)
    assert kept.parent == place.state / "archive" / "2026" / "03" / "04" / RUN
    assert kept.read_bytes() == raw


def test_odd_names_are_data_and_are_shown_readably(place):
    """Endless ones are cut and stay apart."""
    shown = {
        b"a\nb.csv": "a%0Ab.csv",
        b"a\xffb.csv": "a%FFb.csv",
        "a\u202evsc.exe".encode(): "a%E2%80%AEvsc.exe",
        b"-rf.csv": "-rf.csv",
        b"$(x) 'q' \"*.csv": "$(x) 'q' \"*.csv",
        "Aufträge\u00a0März.xlsx".encode(): "Aufträge\u00a0März.xlsx",
        b"..csv": "..csv",
        b"CON": "CON",
    }
    for raw in shown:
        Path(os.fsdecode(os.fsencode(place.inbox) + b"/" + raw)).write_bytes(raw)
    files = taken(place.model_copy(update={"ignore": ()}))
    assert {file.path.read_bytes(): file.name for file in files} == shown
    one, other = (shown_name(Path("ü" * 110 + "\n" * 20 + end + ".csv")) for end in "ab")
    assert one != other
    assert max(len(os.fsencode(one)), len(os.fsencode(other))) <= 240
    assert one.endswith(".csv")
    assert archive(claimed(place, shown_name(Path("n" * 251 + ".csv"))), place, RUN).suffix == ".csv"


def test_names_that_differ_in_case_or_composition_are_two_files(place):
    twins = ["Aufträge.csv", unicodedata.normalize("NFD", "Aufträge.csv"), "AUFTRÄGE.csv"]
    for name in twins:
        drop(place, name, name.encode())
    kept = {file.name: archive(file, place, RUN).read_bytes() for file in taken(place)}
    assert kept == {name: name.encode() for name in twins}


def test_only_regular_files_are_taken(place, machine, tmp_path):
    (place.inbox / "link.csv").symlink_to(place.inbox / "real.csv")
    os.mkfifo(place.inbox / "pipe.csv")
    (place.inbox / "folder.csv").mkdir()
    (place.inbox / "folder").symlink_to(tmp_path)
    drop(place, "real.csv")
    found = settled(place, machine)
    assert names(found) == ["real.csv"]
    assert [problem.text for problem in found.left] == [
        "folder is a symbolic link; only regular files are read",
        "link.csv is a symbolic link; only regular files are read",
        "pipe.csv is a pipe; only regular files are read",
    ]
    for name in ("link.csv", "pipe.csv"):
        assert claim(Candidate(name, place.inbox / name), place, RUN) is None
        assert os.path.lexists(place.inbox / name)


def test_a_file_with_a_second_name_is_copied(place, tmp_path):
    path = drop(place)
    place.inbox.chmod(0o755)
    (tmp_path / "second").hardlink_to(path)
    (file,) = taken(place)
    (tmp_path / "second").write_bytes(b"changed by its other name")
    assert is_unchanged(file)
    assert archive(file, place, RUN).read_bytes() == b"Order\nA1\n"


def test_a_hard_link_in_a_folder_that_others_may_write_to_stays_there_unread(place, tmp_path, machine):
    secret, link = tmp_path / "secret.csv", place.inbox / "link.csv"
    secret.write_bytes(b"Order\nA9\n")
    drop(place)
    link.hardlink_to(secret)
    for mode in (0o775, 0o757, 0o1777):
        place.inbox.chmod(mode)
        found = settled(place, machine)
        assert (names(found), left(found, "A117")) == (["orders.csv"], ("link.csv",))
        assert claim(Candidate("link.csv", link), place, RUN) is None
    assert link.samefile(secret)
    assert not list((place.state / "work").rglob("link*"))


def swap(path, other, stop, link):
    """Swap a link and a file at one name, as fast as it goes."""
    while not stop.is_set():
        for source in (path.with_suffix(".tmp"), path.with_suffix(".part")):
            if source.suffix == ".tmp":
                source.write_bytes(b"own")
            elif not os.path.lexists(source):
                link(source, other)
            source.replace(path)


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_link_swapped_in_leads_nowhere(place, tmp_path, link):
    secret, stop = tmp_path / "secret", threading.Event()
    secret.write_bytes(b"secret")
    path = place.inbox / "a.csv"
    swapping = threading.Thread(target=swap, args=(path, secret, stop, link))
    place.inbox.chmod(0o777)
    swapping.start()
    got, tries = set(), 0
    while tries < 2_000 or (not got and tries < 200_000):
        tries += 1
        if file := claim(Candidate("a.csv", path), place, RUN):
            got.add(file.path.read_bytes())
            file.path.unlink()
    stop.set()
    swapping.join()
    assert got == {b"own"}
    assert secret.read_bytes() == b"secret"


def test_a_link_replaced_once_it_is_open_leads_nowhere(place, tmp_path, monkeypatch):
    secret, path = tmp_path / "secret", place.inbox / "a.csv"
    secret.write_bytes(b"secret")
    path.hardlink_to(secret)
    place.inbox.chmod(0o777)
    fdopen = os.fdopen

    def fdopen_after_the_swap(descriptor, *rest):
        if secret.stat().st_nlink > 1:  # what is open has one name less from here on
            drop(place, "a.tmp", b"own").replace(path)
        return fdopen(descriptor, *rest)

    monkeypatch.setattr(os, "fdopen", fdopen_after_the_swap)
    assert claim(Candidate("a.csv", path), place, RUN) is None
    assert path.read_bytes() == b"own"


def test_a_folder_swapped_for_a_link_leads_nowhere(place, tmp_path):
    path = drop(place, "shipper/a.csv")
    (candidate,) = scan(place, sleep=lambda _: None).candidates
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.csv").write_bytes(b"not for us")
    path.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(elsewhere)
    assert claim(candidate, place, RUN) is None
    assert (elsewhere / "a.csv").exists()


# ---- the same again ----


def test_the_same_name_is_another_arrival_and_the_same_bytes_are_known(place):
    kept = []
    for content in (b"one", b"two", b"one"):
        drop(place, content=content)
        (file,) = taken(place)
        kept.append((find_archived_copy(file, place), archive(file, place, RUN)))
    assert [known for known, _ in kept] == ["", "", f"{RUN}/orders.csv"]
    assert [path.read_bytes() for _, path in kept] == [b"one", b"two", b"one"]
    assert [path.name for _, path in kept] == ["orders.csv", "orders~2.csv", "orders~3.csv"], "nothing is overwritten"


def test_a_bad_file_dropped_again_and_again_is_counted(place):
    """It is set aside anew where the first was changed or fetched, or is another."""

    def aside(run, content=b"?"):
        return set_aside(claimed(place, "a.csv", content), place, run, [Problem("R202")])

    first, *others = [aside(f"run-{number}") for number in range(4)]
    assert set(others) == {first} == {place.outbox / "run-0" / "set-aside" / "a.csv"}
    assert lies_in(place.outbox) == ["run-0/set-aside/a.csv", "run-0/set-aside/a.csv.why.txt"]
    reasons = first.with_name("a.csv.why.txt").read_text(encoding="utf-8").splitlines()
    assert reasons[-1] == "Dropped again 3 times; the last time for run run-3."
    assert lies_in(place.state) == []
    first.write_bytes(b"edited")
    second = aside("two")
    second.unlink()
    third, fourth = aside("three"), aside("three", b"!")
    assert [path.parts[-3] for path in (second, third, fourth)] == ["two", "three", "three"]
    assert [path.read_bytes() for path in (first, third, fourth)] == [b"edited", b"?", b"!"]
    assert {path.name for path in fourth.parent.iterdir()} == {
        *("a.csv", "a.csv.why.txt", "a~2.csv", "a~2.csv.why.txt")
    }


# ---- archive and set aside ----


def test_the_archive_keeps_the_original_bytes_read_only_by_day_and_run_closed_to_others(place):
    content, before = bytes(range(256)) * 100, os.umask(0)
    try:
        target = archive(claimed(place, "nordic/orders.csv", content), place, RUN)
    finally:
        os.umask(before)
    assert target == place.state / "archive" / "2026" / "03" / "04" / RUN / "nordic" / "orders.csv"
    assert target.read_bytes() == content
    assert target.stat().st_mode & 0o777 == 0o400
    assert lies_in(place.state / "work") == []
    ours = [path for top in ("work", "archive") for path in (place.state / top, *(place.state / top).rglob("*"))]
    assert [path for path in ours if path.exists() and path.stat().st_mode & 0o007] == []


@pytest.mark.parametrize("volumes", ["one", "two"])
def test_a_file_set_aside_has_its_reasons_in_plain_words_beside_it(place, apart, volumes):
    place = place if volumes == "one" else place.model_copy(update={"outbox": apart.inbox / "outbox"})
    problems = [
        Problem("R201", Where("nordic/a.xlsx"), "", {"reason": "it is a PDF document"}, "send the table itself"),
        Problem("R210", Where("nordic/a.xlsx", "Orders", 3), "", {"expected": "Orders", "sheets": "Ö"}),
    ]
    target = set_aside(claimed(place, "nordic/a.xlsx", b"%PDF"), place, RUN, problems)
    assert target == place.outbox / RUN / "set-aside" / "nordic" / "a.xlsx"
    assert target.read_bytes() == b"%PDF"
    assert lies_in(place.outbox) == [f"{RUN}/set-aside/nordic/a.xlsx", f"{RUN}/set-aside/nordic/a.xlsx.why.txt"]
    assert lies_in(place.state) == []
    text = target.with_name("a.xlsx.why.txt").read_text(encoding="utf-8")
    assert text.splitlines()[0] == "loadsheet could not use the file nordic/a.xlsx"
    assert "  - File cannot be read: the file cannot be read: it is a PDF document [R201]" in text
    assert "    What to do: send the table itself" in text
    assert "nordic/a.xlsx:Orders!3: Sheet not found" in text
    assert "Nothing from this file was sent." in text
    assert re.search(r"SHA-256 [0-9a-f]{64}", text)


def test_the_sender_of_a_file_that_was_processed_before_is_not_told_to_drop_it_again(place):
    problem = Problem("A120", Where("a.csv"), "a.csv", {"earlier": "a.csv of 2026-03-01-01"})
    text = set_aside(claimed(place, "a.csv"), place, RUN, [problem]).with_name("a.csv.why.txt").read_text("utf-8")
    assert "Nothing from this file was sent this time." in text
    assert text.endswith("\n\nContact the people who run loadsheet before you drop it again.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_file_that_cannot_be_archived_keeps_its_claim_and_no_half_copy(place):
    file, problems = claimed(place), [Problem("R202")]
    for top in (place.state / "archive", place.outbox):
        top.write_text("a file where the folder should be")
    with pytest.raises(FolderError, match=r"orders\.csv could not be moved"):
        archive(file, place, RUN)
    with pytest.raises(FolderError, match=r"orders\.csv could not be set aside"):
        set_aside(file, place, RUN, problems)
    for top in (place.state / "archive", place.outbox):
        top.unlink()
    aside = place.outbox / RUN / "set-aside"
    aside.mkdir(parents=True)
    (aside / ".orders.csv.why.txt.tmp").symlink_to("/dev/full")
    with pytest.raises(FolderError, match="the disk is full; make room and run again"):
        set_aside(file, place, RUN, problems)
    assert lies_in(place.outbox) == []
    assert file.path.read_bytes() == b"Order\nA1\n"
    file.path.unlink()
    with pytest.raises(FolderError, match="another program moved it"):
        archive(file, place, RUN)


def test_every_refusal_of_the_system_says_what_to_do():
    for code in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO):
        text = str(folder_error(OSError(code, os.strerror(code), "/x/a.csv"), "a.csv", "moved"))
        assert text.startswith("a.csv could not be moved: ")
        assert "run again" in text
        assert "/x/a.csv" in text


def test_old_originals_are_removed_but_for_those_that_are_needed_or_not_ours(tmp_path):
    place = settings_in(tmp_path, archive_days=30)
    notes = place.state / "archive" / "2026" / "notes" / "a.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    runs = {"old": "2026-01-01-01", "needed": "2026-01-01-01", "young": "2026-02-02-01"}
    kept = {name: archive(claimed(place, f"{name}.csv", name.encode()), place, run) for name, run in runs.items()}
    assert purge(place.model_copy(update={"archive_days": 0}), DAY, ()) == 0
    assert purge(place, DAY, [kept["needed"]]) == 1
    assert [name for name, path in kept.items() if path.exists()] == ["needed", "young"]
    marks = place.state / "known" / "archived"
    assert sorted(mark.resolve() for mark in marks.rglob("*/*")) == sorted(kept[name] for name in ("needed", "young"))
    assert purge(place, date(2026, 3, 5), ()) == 2
    assert not marks.exists(), "nothing leads to what is not kept any more"
    assert lies_in(place.state / "archive") == ["2026/notes/a.txt"]
    assert find_archived_copy(claimed(place, "old.csv", b"old"), place) == ""

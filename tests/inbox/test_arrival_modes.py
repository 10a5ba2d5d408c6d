"""Every known way in which an arrival goes wrong, and the test that holds what is owed then."""

import hashlib
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from inbox_files import (
    RUN,
    Machine,
    drop,
    held_open,
    left,
    lies_in,
    names,
    settings_in,
    settled,
    taken,
    touch,
    workbook,
)

from loadsheet.inbox import (
    Candidate,
    archive,
    claim,
    find_archived_copy,
    give_back,
    is_unchanged,
    purge,
    quick_scan,
    scan,
    set_aside,
)
from loadsheet.inbox.files import file_system_of, is_written_to, needs_polling, shows_open_writers
from loadsheet.inbox.sightings import Sightings, signature
from loadsheet.problems import FolderError, Problem
from loadsheet.settings import Settings

DAY = date(2026, 3, 4)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")

MODES = {  # failure mode of arrival -> the tests that hold what is owed, here or in the file that is named
    "A1": ["test_a_slow_writer_is_waited_for", "test_a_writer_that_stalls_is_known_by_its_handle"],
    "A2": [
        "test_a_late_write_is_noticed_and_the_file_goes_back",
        "test_a_claim_of_a_file_that_is_written_to_is_undone",
        "tests/inbox/test_taking_in.py",
    ],
    "A3": ["tests/mapping/test_cut_files.py"],
    "A4": ["test_names_of_unfinished_files_are_never_opened"],
    "A5": ["test_both_contents_of_a_file_replaced_at_any_moment_arrive"],
    "A6": ["test_the_same_name_again_is_another_arrival"],
    "A7": ["test_the_same_bytes_again_are_known", "tests/inbox/test_taking_in.py", "tests/acceptance/test_watch.py"],
    "A8": "judged by content, record by record: the ledger, tests/ledger/test_planning.py",
    "A9": ["test_both_contents_of_a_file_replaced_at_any_moment_arrive"],
    "A10": ["test_files_that_vanish_under_our_hands_are_nobodys_fault"],
    "A11": ["test_an_empty_file_is_given_time"],
    "A12": ["test_a_huge_file_is_reported_unread"],
    "A13": ["test_a_swarm_is_found_in_the_order_of_arrival", "tests/acceptance/test_watch_swarm.py"],
    "A14": ["tests/acceptance/test_watch_swarm.py"],
    "A15": ["tests/acceptance/test_watch.py"],
    "A16": ["test_shares_are_known_by_their_file_system", "tests/inbox/test_watching.py"],
    "A17": ["test_another_folder_in_the_place_of_the_inbox_is_refused"],
    "A18": ["tests/inbox/test_inbox.py"],
    "A19": ["test_a_full_disk_leaves_the_source_and_no_half_copy"],
    "A20": ["test_a_claim_across_volumes_is_verified"],
    "A21": ["test_killed_at_random_moments_every_file_lies_in_one_place"],
    "A22": ["tests/acceptance/test_watch.py"],
    "A23": ["tests/acceptance/test_watch.py"],
    "A24": ["test_a_clock_that_jumps_finishes_nothing"],
    "A25": ["test_a_time_of_change_decides_nothing"],
    "A26": ["test_any_name_is_data"],
    "A27": ["test_only_regular_files_are_taken", "test_a_file_with_a_second_name_is_copied"],
    "A28": ["test_a_link_swapped_in_leads_nowhere", "test_a_folder_swapped_for_a_link_leads_nowhere"],
    "A29": ["test_names_that_differ_in_case_or_composition_are_two_files"],
    "A30": "packed files are opened or refused by reading: tests/reading",
    "A31": ["test_what_the_shipper_does_afterwards_changes_nothing"],
    "A32": ["test_a_bad_file_dropped_again_and_again_is_counted"],
}


def test_every_failure_mode_of_arrival_has_its_tests():
    assert list(MODES) == [f"A{number}" for number in range(1, 33)]
    root = Path(__file__).parents[2]
    for tests in MODES.values():
        for test in tests if isinstance(tests, list) else []:
            assert (root / test).is_file() if "/" in test else test in globals(), test


@pytest.fixture
def place(tmp_path):
    return settings_in(tmp_path)


@pytest.fixture
def machine():
    return Machine()


# when a file is finished


def test_a_slow_writer_is_waited_for(place, machine):
    path = drop(place, content=b"")
    for _ in range(60):
        machine.passes(place.arrival.settle_s / 2)
        with path.open("ab") as file:
            file.write(b"x" * 1024)
        assert quick_scan(place, up=machine).candidates == ()
    assert names(settled(place, machine)) == ["orders.csv"]


@pytest.mark.parametrize("seed", range(6))
def test_a_file_is_finished_when_it_has_not_changed_for_as_long_as_is_demanded(place, machine, seed):
    chance, path = random.Random(seed), drop(place)
    quick_scan(place, up=machine)
    quiet = 0.0
    for _ in range(40):
        pause = chance.uniform(0, 20)
        machine.passes(pause)
        quiet += pause
        assert bool(quick_scan(place, up=machine).candidates) is (quiet >= place.arrival.settle_s)
        if chance.random() < 0.3:
            path.write_bytes(b"y" * chance.randrange(1, 1_000_000))
            quick_scan(place, up=machine)
            quiet = 0.0


@LINUX
def test_a_writer_that_stalls_is_known_by_its_handle(place, machine):
    with held_open(drop(place)):
        found = settled(place, machine)
        assert (found.candidates, left(found, "A104")) == ((), ("orders.csv",))
        assert found.again_s is not None
    assert names(quick_scan(place, up=machine)) == ["orders.csv"]


@LINUX
def test_asking_for_writers_disturbs_none(tmp_path):
    path = tmp_path / "busy.csv"
    path.write_bytes(b"")
    done = threading.Event()

    def ask():
        with path.open("rb") as file:
            while not done.is_set():
                is_written_to(file.fileno())

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(500):  # whoever opens it while a lease is held breaks the lease, and we are signalled
        with path.open("ab") as file:
            file.write(f"{number}\n".encode())
    done.set()
    asking.join()
    assert path.read_bytes().count(b"\n") == 500


@pytest.mark.parametrize("ending", ["xlsx", "XLSM", "ods"])
def test_a_workbook_without_its_end_is_given_time(place, machine, ending):
    whole = workbook(place.inbox / f"a.{ending}").read_bytes()
    (place.inbox / f"a.{ending}").write_bytes(whole[:-30])
    found = settled(place, machine)
    assert (found.candidates, left(found, "A107")) == ((), (f"a.{ending}",))
    (place.inbox / f"a.{ending}").write_bytes(whole)
    assert names(settled(place, machine)) == [f"a.{ending}"]
    (place.inbox / f"a.{ending}").write_bytes(whole[:-30])
    settled(place, machine)
    machine.passes(place.arrival.unfinished_wait_s)
    assert names(quick_scan(place, up=machine)) == [f"a.{ending}"]  # reading will say what is wrong with it


def test_an_empty_file_is_given_time(place, machine):
    drop(place, content=b"")
    assert left(settled(place, machine), "A107") == ("orders.csv",)
    machine.passes(place.arrival.unfinished_wait_s)
    assert names(quick_scan(place, up=machine)) == ["orders.csv"]


def test_a_done_marker_decides_where_one_is_demanded(tmp_path, machine):
    place = settings_in(tmp_path, done_marker="{name}.done")
    drop(place)
    assert left(settled(place, machine), "A107") == ("orders.csv",)
    drop(place, "orders.csv.done", b"")
    drop(place, "other.csv.done", b"")
    (candidate,) = quick_scan(place, up=machine).candidates
    assert candidate.name == "orders.csv"
    archive(claim(candidate, place, RUN), place, DAY, RUN)
    assert lies_in(place.inbox) == ["other.csv.done"]
    drop(place)
    assert settled(place, machine).candidates == ()  # the marker of the last one is gone with it


def test_a_run_takes_no_file_that_lacks_its_done_marker_however_quiet_it_is(tmp_path):
    place = settings_in(tmp_path, done_marker="{name}.done")
    drop(place)
    found = scan(place, sleep=lambda _: None)
    assert (found.candidates, left(found, "A107")) == ((), ("orders.csv",))


def test_of_two_files_shown_under_one_name_the_second_is_told_and_taken_next(place, machine):
    for name in ("a\nb.csv", "a%0Ab.csv"):
        drop(place, name, name.encode())
    found = settled(place, machine)
    assert (names(found), left(found, "A114")) == (["a%0Ab.csv"], ("a%0Ab.csv",))
    assert [problem.level for problem in found.left] == ["warning"]
    archive(claim(found.candidates[0], place, RUN), place, DAY, RUN)
    found = settled(place, machine)
    assert (names(found), found.left) == (["a%0Ab.csv"], ())


@pytest.mark.parametrize("pattern", ["done", "{name}", "done/{name}", "{name}{name}"])
def test_a_done_marker_must_name_its_file(pattern):
    with pytest.raises(ValueError, match=re.escape("{name}")):
        Settings(done_marker=pattern)


def test_names_of_unfinished_files_are_never_opened(place, machine):
    unfinished = ["a.part", "a.tmp", "a.filepart", "a.crdownload", "a.partial", "a.swp", "~$a.xlsx", ".~lock.a.xlsx#"]
    unfinished += [".a.csv.AbC123", "A.PART", "a.csv.download", ".a.xlsx.icloud", "a.icloud", "a.nextcloud", "a.cloud"]
    before = {}
    for name in unfinished:
        path = drop(place, name)
        os.utime(path, ns=(0, 0))
        before[path] = path.stat().st_atime_ns
    found = settled(place, machine)
    assert (found.candidates, found.left) == ((), ())
    assert {path: path.stat().st_atime_ns for path in before} == before
    (place.inbox / "a.part").rename(place.inbox / "a.csv")
    assert names(settled(place, machine)) == ["a.csv"]


@pytest.mark.parametrize("jump", [86_400, -86_400, 3_600, -3_600, 10 * 365 * 86_400])
def test_a_clock_that_jumps_finishes_nothing(place, machine, jump):
    path = drop(place)
    wall = [time.time()]
    scan(place, sleep=lambda _: path.write_bytes(b"more"), clock=lambda: wall[0], up=machine)
    wall[0] += jump
    for _ in range(5):  # it is being written all the time
        machine.passes(1)
        path.write_bytes(b"x" * int(machine.seconds))
        assert scan(place, sleep=lambda _: None, clock=lambda: wall[0], up=machine).candidates == ()
    scan(place, clock=lambda: wall[0], up=machine)
    machine.passes(place.arrival.settle_s)
    assert names(scan(place, clock=lambda: wall[0], up=machine)) == ["orders.csv"]


@pytest.mark.parametrize("moment", [0, 86_400, 4_102_444_800])
def test_a_time_of_change_decides_nothing(place, machine, moment):
    touch(drop(place), moment)
    assert quick_scan(place, up=machine).candidates == ()
    machine.passes(place.arrival.settle_s)
    assert names(quick_scan(place, up=machine)) == ["orders.csv"]


def test_a_run_believes_no_time_in_the_future(place):
    touch(drop(place), 4_102_444_800)
    later = time.time() + 3_600
    assert names(scan(place, sleep=pytest.fail, clock=lambda: later)) == ["orders.csv"]


def test_the_memory_is_shared_by_runs_and_lost_with_a_restart_of_the_machine(place, machine):
    drop(place)
    quick_scan(place, up=machine)
    kept = (place.state / "sightings.json").read_text(encoding="utf-8")
    machine.passes(place.arrival.settle_s)
    (place.state / "sightings.json").write_text(kept.replace('"boot":"', '"boot":"another '), encoding="utf-8")
    assert quick_scan(place, up=machine).candidates == ()
    (place.state / "sightings.json").write_bytes(b"\xff{ no json")
    assert quick_scan(place, up=machine).candidates == ()
    machine.passes(place.arrival.settle_s)
    assert names(quick_scan(place, up=machine)) == ["orders.csv"]


def test_what_was_seen_is_remembered_where_the_system_has_no_boot_id(tmp_path):
    (tmp_path / "orders.csv").write_text("a;b\n", encoding="utf-8")
    seen, nowhere = signature(tmp_path / "orders.csv"), tmp_path / "no such file"
    Sightings.read(tmp_path, 100.0, boot_id=nowhere).save({seen: 100.0})
    assert Sightings.read(tmp_path, 106.0, boot_id=nowhere).since(seen) == 100.0
    assert Sightings.read(tmp_path, 40.0, boot_id=nowhere).since(seen) is None  # started again meanwhile


def test_a_swarm_is_found_in_the_order_of_arrival(place, machine):
    drop(place, "zuerst.csv")
    quick_scan(place, up=machine)
    machine.passes(1)
    for number in range(400):
        drop(place, f"big-shipper/{number % 40}/{number}.csv", b"x")
    quick_scan(place, up=machine)
    machine.passes(1)
    drop(place, "a-small-one.csv")
    found = names(settled(place, machine))
    assert (found[0], found[-1], len(found)) == ("zuerst.csv", "a-small-one.csv", 402)


@pytest.mark.sweep
def test_fifty_thousand_files_need_little_memory_and_time(place):
    for number in range(50_000):
        (place.inbox / f"{number:05}.csv").touch()
    code = (
        "import resource, sys, time\n"
        "from pathlib import Path\n"
        "from loadsheet.inbox import quick_scan\n"
        "from loadsheet.settings import Settings\n"
        "place = Settings(inbox=Path(sys.argv[1]), state=Path(sys.argv[2]), settle_s=0, unfinished_wait_s=0)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = [len(quick_scan(place).candidates) for _ in range(3)]\n"
        "print(*found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(place.inbox), str(place.state)], capture_output=True, text=True, check=True
    )
    *found, kilobytes = map(int, done.stdout.split())
    assert found == [50_000] * 3
    assert kilobytes < 150_000


# what changes while it is taken


@LINUX
def test_a_claim_of_a_file_that_is_written_to_is_undone(place):
    path = drop(place)
    with held_open(path) as writer:
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


def test_a_file_that_goes_back_overwrites_no_new_one(place):
    path = drop(place, content=b"old")
    file = claim(Candidate("orders.csv", path), place, RUN)
    drop(place, content=b"new")
    give_back(file, place)
    assert path.read_bytes() == b"new"
    assert [candidate.path.read_bytes() for candidate in scan(place, sleep=lambda _: None).candidates] == [b"old"]


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
    arrived = []
    for _ in range(150):
        for file in taken(place):
            assert hashlib.sha256(file.path.read_bytes()).hexdigest() == file.sha256
            arrived.append(archive(file, place, DAY, RUN).read_bytes())
    stop.set()
    shipper.join()
    arrived += [archive(file, place, DAY, RUN).read_bytes() for file in taken(place)]
    assert len(arrived) == len(set(arrived)) > 3
    assert set(arrived) <= written
    assert arrived[-1] == max(written, key=lambda content: int(content[: len(content) // 50]))


def test_files_that_vanish_under_our_hands_are_nobodys_fault(place):
    stop = threading.Event()

    def come_and_go():
        while not stop.is_set():
            drop(place, "a.csv").unlink(missing_ok=True)
            (place.inbox / "folder").mkdir(exist_ok=True)
            with_name = drop(place, "folder/b.csv")
            with_name.unlink(missing_ok=True)
            (place.inbox / "folder").rmdir()

    def bold():
        try:
            come_and_go()
        except OSError:  # we took it first
            bold()

    shipper = threading.Thread(target=bold)
    shipper.start()
    for _ in range(300):
        for file in taken(place):
            file.path.unlink()
    stop.set()
    shipper.join()


def test_what_the_shipper_does_afterwards_changes_nothing(place):
    path = drop(place)
    file = claim(Candidate("orders.csv", path), place, RUN)
    drop(place, content=b"edited")
    path.unlink()
    assert archive(file, place, DAY, RUN).read_bytes() == b"Order\nA1\n"


# the same again


def test_the_same_name_again_is_another_arrival(place):
    kept = []
    for content in (b"one", b"two", b"one"):
        drop(place, content=content)
        (file,) = taken(place)
        kept.append((find_archived_copy(file, place), archive(file, place, DAY, RUN).read_bytes()))
    assert kept == [("", b"one"), ("", b"two"), (f"{RUN}/orders.csv", b"one")]


def test_the_same_bytes_again_are_known(place):
    for number in range(12):
        drop(place, f"copies/{number:02}.csv")
    said = []
    for file in sorted(taken(place)[:], key=lambda file: file.name):
        said.append(find_archived_copy(file, place))
        archive(file, place, DAY, RUN)
    assert said == ["", *[f"{RUN}/copies/00.csv"] * 11]


def test_a_bad_file_dropped_again_and_again_is_counted(place):
    problems = [Problem("R201", values={"reason": "it is a PDF document"})]
    places = []
    for number in range(12):
        drop(place, "a.pdf", b"%PDF")
        (file,) = taken(place)
        places.append(set_aside(file, place, f"run-{number}", problems))
    assert set(places) == {place.outbox / "run-0" / "set-aside" / "a.pdf"}
    assert lies_in(place.outbox) == ["run-0/set-aside/a.pdf", "run-0/set-aside/a.pdf.why.txt"]
    reasons = places[0].with_name("a.pdf.why.txt").read_text(encoding="utf-8").splitlines()
    assert reasons[-1] == "Dropped again 11 times; the last time for run run-11."
    assert lies_in(place.state) == []


def test_a_bad_file_is_set_aside_anew_where_the_first_was_changed_or_fetched(place):
    problems = [Problem("R202")]
    drop(place, "a.csv", b"?")
    first = set_aside(taken(place)[0], place, "one", problems)
    first.write_bytes(b"edited")
    drop(place, "a.csv", b"?")
    second = set_aside(taken(place)[0], place, "two", problems)
    second.unlink()
    drop(place, "a.csv", b"?")
    third = set_aside(taken(place)[0], place, "three", problems)
    assert [path.parts[-3] for path in (first, second, third)] == ["one", "two", "three"]
    assert first.read_bytes() == b"edited"


# places and file systems


def test_another_folder_in_the_place_of_the_inbox_is_refused(place):
    drop(place)
    assert len(scan(place, sleep=lambda _: None).candidates) == 1
    place.inbox.rename(place.inbox.with_name("mounted"))
    with pytest.raises(FolderError, match="it was there before: is it mounted"):
        quick_scan(place)
    place.inbox.mkdir()
    with pytest.raises(FolderError, match=r"is not the folder that it was.* is missing; is it mounted"):
        scan(place)
    (place.inbox / ".loadsheet-inbox").write_text("another one")
    with pytest.raises(FolderError, match="its marker is another one"):
        scan(place)
    (place.state / "inboxes.json").unlink()
    assert scan(place).candidates == ()  # replaced on purpose


def test_an_inbox_is_known_again_by_its_marker_or_by_its_place(place, tmp_path):
    scan(place)
    marker = place.inbox / ".loadsheet-inbox"
    marker.unlink()  # a shipper who tidies up
    scan(place)
    copy = tmp_path / "restored"
    copy.mkdir()
    (copy / marker.name).write_bytes(marker.read_bytes())
    place.inbox.rename(tmp_path / "before")
    copy.rename(place.inbox)
    assert scan(place).candidates == ()


MOUNTS = """\
22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
30 22 0:40 / /srv/share rw - nfs4 server:/export rw
31 22 0:41 / /srv/with\\040space rw master:3 - cifs //server/x rw
32 30 0:42 / /srv/share/local rw - xfs /dev/vdb rw
33 22 0:43 / /mnt/ssh rw - fuse.sshfs user@host: rw
34 22 0:44 / /mnt/ssh rw - tmpfs none rw
"""


@pytest.mark.parametrize(
    ("folder", "kind", "polled"),
    [
        ("/home/inbox", "ext4", False),
        ("/srv/share/inbox", "nfs4", True),
        ("/srv/shared", "ext4", False),
        ("/srv/with space/in", "cifs", True),
        ("/srv/share/local/in", "xfs", False),
        ("/mnt/ssh", "tmpfs", False),
    ],
)
def test_shares_are_known_by_their_file_system(tmp_path, folder, kind, polled):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system_of(Path(folder), mounts) == kind
    assert (needs_polling(kind), shows_open_writers(kind)) == (polled, not polled)
    assert file_system_of(Path(folder), tmp_path / "nowhere") == ""
    assert needs_polling("fuse.sshfs")


def test_a_huge_file_is_reported_unread(place, machine):
    with (place.inbox / "huge.csv").open("wb") as file:
        file.truncate(20_000_000_000)
    drop(place)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = settled(place, machine)
    assert (names(found), left(found, "A108")) == (["orders.csv"], ("huge.csv",))
    assert "20,000,000,000 bytes; the limit is 10,000,000,000" in str(found.left[0])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.fixture
def apart(tmp_path, other_volume):
    """Settings whose inbox lies on another volume than the rest."""
    (tmp_path / "apart").mkdir()
    return settings_in(tmp_path / "apart", inbox=other_volume)


def test_a_claim_across_volumes_is_verified(apart):
    content = random.Random(1).randbytes(3_000_000)
    touch(drop(apart, "n/a.csv", content), 1_772_600_000)
    (file,) = taken(apart)
    assert file.path.read_bytes() == content
    assert (file.size, file.arrived.timestamp()) == (3_000_000, 1_772_600_000)
    assert (lies_in(apart.inbox), lies_in(apart.state)) == ([], [f"work/{RUN}/n/a.csv"])
    assert file.path.stat().st_mode & 0o007 == 0


@contextmanager
def largest_file(size):
    """No file of this process may become larger, as on a disk with that much room."""
    _, most = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_source_and_no_half_copy(apart):
    content = random.Random(1).randbytes(3_000_000)
    path = drop(apart, "a.csv", content)
    for room in (0, 1, 4096, 1_048_576, 2_999_999):
        with pytest.raises(FolderError, match=r"^a\.csv could not be moved: "), largest_file(room):
            claim(Candidate("a.csv", path), apart, RUN)
        assert path.read_bytes() == content
        assert lies_in(apart.state) == []


def claim_in_a_child(place, run):
    """A process that claims and archives everything; it has begun."""
    begun, begin = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(begin, b"!")
            for candidate in scan(place).candidates:
                if file := claim(candidate, place, run):
                    archive(file, place, DAY, run)
        finally:
            os._exit(0)
    os.read(begun, 1)
    os.close(begun)
    os.close(begin)
    return child


def kill_again_and_again(place, count, kills, seed):
    """Claim and archive `count` files, killed at random moments; each lies in one place at each death, and all arrive."""
    chance = random.Random(seed)
    contents = {chance.randbytes(chance.choice([10, 10_000, 300_000])) for _ in range(count)}
    for number, content in enumerate(contents):
        drop(place, f"{number}.csv", content)
    for life in range(kills):
        child = claim_in_a_child(place.model_copy(update={"settle_s": 0.0}), f"run-{life}")
        time.sleep(chance.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lying = [path.read_bytes() for top in (place.inbox, place.state) for path in top.rglob("*.csv")]
        assert set(lying) == contents
    again = [
        find_archived_copy(file, place) for _ in range(2) for file in taken(place) if archive(file, place, DAY, RUN)
    ]
    assert (
        len(again) <= count + kills
    )  # across volumes a kill may leave the original beside its copy: its bytes are known
    assert {path.read_bytes() for path in (place.state / "archive").rglob("*.csv")} == contents
    assert lies_in(place.inbox) == []
    assert not list((place.state / "work").rglob("*.csv"))


def test_killed_at_random_moments_every_file_lies_in_one_place(place, apart):
    kill_again_and_again(place, 60, 3, seed=1)
    kill_again_and_again(apart, 60, 3, seed=2)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again_every_file_lies_in_one_place(place, apart, seed):
    kill_again_and_again(place, 150, 5, seed)
    kill_again_and_again(apart, 150, 5, seed)


# names and kinds


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
    kept = archive(file, place, DAY, RUN)
    assert kept.parent == place.state / "archive" / "2026" / "03" / "04" / RUN
    assert kept.read_bytes() == raw


def test_names_that_differ_in_case_or_composition_are_two_files(place):
    twins = ["Aufträge.csv", unicodedata.normalize("NFD", "Aufträge.csv"), "AUFTRÄGE.csv"]
    for name in twins:
        drop(place, name, name.encode())
    kept = {file.name: archive(file, place, DAY, RUN).read_bytes() for file in taken(place)}
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
    assert archive(file, place, DAY, RUN).read_bytes() == b"Order\nA1\n"


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_hard_link_in_a_folder_that_others_may_write_to_stays_there_unread(place, tmp_path, machine, mode):
    secret = tmp_path / "secret.csv"
    secret.write_bytes(b"Order\nA9\n")
    drop(place)
    link = place.inbox / "link.csv"
    link.hardlink_to(secret)
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


def test_what_is_ours_is_closed_to_the_rest_of_the_world(place):
    before = os.umask(0)
    try:
        drop(place)
        (file,) = taken(place)
        archive(file, place, DAY, RUN)
    finally:
        os.umask(before)
    folders = [path for top in ("work", "archive") for path in (place.state / top, *(place.state / top).rglob("*"))]
    assert [path for path in folders if path.exists() and path.stat().st_mode & 0o007] == []


# how long originals are kept


def test_old_originals_are_removed_but_for_those_that_are_needed(tmp_path):
    place = settings_in(tmp_path, archive_days=30)
    kept = {}
    for name, day in [("old", date(2026, 1, 1)), ("needed", date(2026, 1, 1)), ("young", date(2026, 2, 2))]:
        drop(place, f"{name}.csv", name.encode())
        kept[name] = archive(taken(place)[0], place, day, RUN)
    assert purge(place.model_copy(update={"archive_days": 0}), DAY, ()) == 0
    assert purge(place, DAY, [kept["needed"]]) == 1
    assert [name for name, path in kept.items() if path.exists()] == ["needed", "young"]
    marks = place.state / "known" / "archived"
    assert sorted(mark.resolve() for mark in marks.rglob("*/*")) == sorted(kept[name] for name in ("needed", "young"))
    assert purge(place, date(2026, 3, 5), ()) == 2
    assert not marks.exists(), "nothing leads to what is not kept any more"
    assert not list((place.state / "archive").iterdir())
    drop(place, "old.csv", b"old")
    assert find_archived_copy(taken(place)[0], place) == ""


def test_what_is_not_ours_in_the_archive_stays(tmp_path):
    place = settings_in(tmp_path, archive_days=1)
    notes = place.state / "archive" / "2026" / "notes" / "a.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    assert purge(place, DAY, ()) == 0
    assert notes.exists()

"""Which files of an inbox are finished, which stay where they are and why, and what is remembered from scan to scan."""

import json
import os
import random
import re
import resource
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_in_process import loadsheet
from inbox_files import RUN, drop, left, lies_in, names, settings_in, settled, touch, workbook
from monitored_runs import house
from orders import MAPPINGS

from loadsheet.cli import doctor_checks  # noqa: F401 (an ordinary user may not be able to read the code)
from loadsheet.cli.doctor import examine
from loadsheet.errors import FolderError, MappingError
from loadsheet.inbox import archive, claim, scan, scan_read_only, scan_without_waiting
from loadsheet.inbox.files import is_written_to, needs_polling, shows_open_writers
from loadsheet.inbox.sightings import Sightings, file_signature
from loadsheet.ledger.location import network_kind, read_note
from loadsheet.mapping.mapping_folder import mapping_files
from loadsheet.places import file_system_of
from loadsheet.settings import Settings

YEARS = 10 * 365 * 86_400
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")


def later():
    """A clock on which what was dropped so far has been quiet for an hour."""
    now = datetime.now(UTC).timestamp() + 3_600
    return lambda: now


def never(_seconds):
    raise AssertionError("waited although every file was quiet")


# ---- when a file is finished ----


@pytest.mark.parametrize("seed", range(3))
def test_a_file_is_finished_when_it_has_not_changed_for_as_long_as_is_demanded(place, machine, seed):
    chance, path = random.Random(seed), drop(place)
    scan_without_waiting(place, up=machine)
    quiet = 0.0
    for _ in range(60):
        pause = chance.uniform(0, 20)
        machine.passes(pause)
        quiet += pause
        assert bool(scan_without_waiting(place, up=machine).candidates) is (quiet >= place.arrival.settle_s)
        if chance.random() < 0.3:
            path.write_bytes(b"y" * chance.randrange(1, 1_000_000))
            scan_without_waiting(place, up=machine)
            quiet = 0.0


@LINUX
def test_a_writer_that_stalls_is_known_by_its_handle(place, machine):
    with drop(place).open("ab"):
        found = settled(place, machine)
        assert (found.candidates, left(found, "A104")) == ((), ("orders.csv",))
        assert found.again_s is not None
    assert names(scan_without_waiting(place, up=machine)) == ["orders.csv"]


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


@pytest.mark.parametrize("name", ["a.xlsx", "a.XLSM", "a.ods", "empty.csv"])
def test_a_workbook_without_its_end_and_an_empty_file_are_given_time(place, machine, name):
    path = workbook(place.inbox / name)
    whole = path.read_bytes()
    half = b"" if name == "empty.csv" else whole[:-30]
    path.write_bytes(half)
    found = settled(place, machine)
    assert (found.candidates, left(found, "A107")) == ((), (name,))
    path.write_bytes(whole)
    assert names(settled(place, machine)) == [name]
    path.write_bytes(half)
    settled(place, machine)
    machine.passes(place.arrival.unfinished_wait_s)
    assert names(scan_without_waiting(place, up=machine)) == [name]  # reading will say what is wrong with it


def test_a_done_marker_decides_where_one_is_demanded(tmp_path, machine):
    place = settings_in(tmp_path, done_marker="{name}.done")
    drop(place)
    assert left(settled(place, machine), "A107") == ("orders.csv",)
    assert left(scan(place, sleep=never), "A107") == ("orders.csv",)
    drop(place, "orders.csv.done", b"")
    drop(place, "other.csv.done", b"")
    (candidate,) = scan_without_waiting(place, up=machine).candidates
    assert candidate.name == "orders.csv"
    archive(claim(candidate, place, RUN), place, RUN)
    assert lies_in(place.inbox) == ["other.csv.done"]
    drop(place)
    assert settled(place, machine).candidates == ()  # the marker of the last one was archived with it
    for pattern in ("done", "{name}", "done/{name}", "{name}{name}"):
        with pytest.raises(ValueError, match=re.escape("{name}")):
            Settings(done_marker=pattern)


def test_of_two_files_shown_under_one_name_the_second_is_reported_and_claimed_next(place, machine):
    for name in ("a\nb.csv", "a%0Ab.csv"):
        drop(place, name, name.encode())
    found = settled(place, machine)
    assert (names(found), left(found, "A114")) == (["a%0Ab.csv"], ("a%0Ab.csv",))
    assert [problem.level for problem in found.left] == ["warning"]
    archive(claim(found.candidates[0], place, RUN), place, RUN)
    found = settled(place, machine)
    assert (names(found), found.left) == (["a%0Ab.csv"], ())


def test_names_that_are_to_be_ignored_are_never_opened(place, machine):
    ignored = "a.part a.tmp A.TMP x.tmp/a.csv a.filepart a.crdownload a.partial a.swp ~$a.xlsx .~lock.a.xlsx# Thumbs.db"
    ignored += " .a.csv.AbC123 A.PART a.csv.download .a.xlsx.icloud a.icloud a.nextcloud a.cloud .git/a.csv"
    before = {}
    for name in ignored.split():
        path = drop(place, name)
        touch(path, 0)
        before[path] = path.stat().st_atime_ns
    found = settled(place, machine)
    assert (found.candidates, found.left) == ((), ())
    assert {path: path.stat().st_atime_ns for path in before} == before
    (place.inbox / "a.part").rename(place.inbox / "a.csv")
    assert names(settled(place, machine)) == ["a.csv"]


@pytest.mark.parametrize("jump", [86_400, -86_400, 3_600, -3_600, YEARS])
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


def test_a_time_of_change_decides_nothing(place, machine):
    for moment in (0, 86_400, 4_102_444_800):
        touch(drop(place, f"{moment}.csv"), moment)
    assert scan_without_waiting(place, up=machine).candidates == ()
    machine.passes(place.arrival.settle_s)
    assert len(scan_without_waiting(place, up=machine).candidates) == 3


@pytest.mark.parametrize("jump", [-86_400, YEARS])
def test_a_run_believes_the_change_of_status_and_no_time_in_the_future(place, jump):
    touch(drop(place), time.time() + jump)
    assert names(scan(place, sleep=never, clock=later())) == ["orders.csv"]
    touch(drop(place, "other.csv"), time.time() + jump)
    waits = []
    assert "other.csv" in names(scan(place, sleep=waits.append))  # its status changed now: a copy may still be running
    assert waits == [30]


def test_young_files_are_looked_at_twice_after_one_wait(place):
    for name in ("growing.csv", "still.csv", "removed.csv", "replaced.csv"):
        drop(place, name)
    status, waits = (place.inbox / "replaced.csv").stat(), []

    def sleep(seconds):
        waits.append(seconds)
        drop(place, "growing.csv", b"Order\nA1\nA2\n")
        (place.inbox / "removed.csv").unlink()
        drop(place, "other.tmp").replace(place.inbox / "replaced.csv")
        os.utime(place.inbox / "replaced.csv", ns=(status.st_atime_ns, status.st_mtime_ns))

    found = scan(place, sleep=sleep)
    assert (names(found), left(found, "A104"), waits) == (["still.csv"], ("growing.csv", "replaced.csv"), [30])
    found = scan(place.model_copy(update={"settle_s": 0.0}), sleep=never)
    assert set(names(found)) == {"growing.csv", "still.csv", "replaced.csv"}


def test_a_file_that_may_not_be_read_is_named_and_the_others_are_processed(ordinary):
    drop(ordinary, "good.csv")
    drop(ordinary, "bad.csv").chmod(0)
    drop(ordinary, "closed/a.csv").parent.chmod(0)
    found = scan(ordinary, sleep=never, clock=later())
    (ordinary.inbox / "closed").chmod(0o755)
    assert (names(found), left(found, "A105")) == (["good.csv"], ("bad.csv", "closed/"))


def test_a_folder_that_may_not_be_entered_is_named_with_what_to_do_and_the_doctor_goes_on(ordinary):
    mappings = ordinary.inbox.parent / "mappings"
    settings = ordinary.model_copy(update={"mappings": mappings})
    closed = (settings.state, mappings, settings.inbox)
    for folder in closed:
        folder.mkdir(exist_ok=True)
    settings.inbox.chmod(0)
    with pytest.raises(FolderError, match="Let the user that loadsheet runs as read it"):
        scan(settings, sleep=never)
    for folder in closed:
        folder.chmod(0)
    with pytest.raises(FolderError, match="Let the user that loadsheet runs as read and write it"):
        read_note(settings.state / "ledger.db")
    with pytest.raises(MappingError, match="cannot be read: Permission denied"):
        mapping_files(mappings)
    findings = list(examine(settings, lambda: datetime.now(UTC), quick=True))
    found = {one.check for one in findings if one.level == "wrong"}
    for folder in closed:
        folder.chmod(0o755)
    assert {"ledger", "mappings"} <= found


def test_the_memory_is_shared_by_runs_and_lost_with_a_restart_of_the_machine(place, machine, tmp_path):
    path, memory = drop(place), place.state / "sightings.json"
    scan_without_waiting(place, up=machine)
    kept = memory.read_text(encoding="utf-8")
    machine.passes(place.arrival.settle_s)
    memory.write_text(kept.replace('"boot":"', '"boot":"another '), encoding="utf-8")
    assert scan_without_waiting(place, up=machine).candidates == ()
    memory.write_bytes(b"\xff{ no json")
    assert scan_without_waiting(place, up=machine).candidates == ()
    machine.passes(place.arrival.settle_s)
    assert names(scan_without_waiting(place, up=machine)) == ["orders.csv"]
    seen, no_boot_id = file_signature(path), tmp_path / "no such file"  # as on systems that have none
    Sightings.read(tmp_path, 100.0, boot_id=no_boot_id).save({seen: 100.0})
    assert Sightings.read(tmp_path, 106.0, boot_id=no_boot_id).since(seen) == 100.0
    assert Sightings.read(tmp_path, 40.0, boot_id=no_boot_id).since(seen) is None  # started again meanwhile


def test_a_swarm_is_found_in_the_order_of_arrival(place, machine):
    drop(place, "zuerst.csv")
    scan_without_waiting(place, up=machine)
    machine.passes(1)
    for number in range(400):
        drop(place, f"big-shipper/{number % 40}/{number}.csv", b"x")
    scan_without_waiting(place, up=machine)
    machine.passes(1)
    drop(place, "a-small-one.csv")
    found = names(settled(place, machine))
    assert (found[0], found[-1], len(found)) == ("zuerst.csv", "a-small-one.csv", 402)


@pytest.mark.sweep
def test_fifty_thousand_files_need_little_memory(place):
    for number in range(50_000):
        (place.inbox / f"{number:05}.csv").touch()
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from loadsheet.inbox import scan_without_waiting\n"
        "from loadsheet.settings import Settings\n"
        "place = Settings(inbox=Path(sys.argv[1]), state=Path(sys.argv[2]), settle_s=0, unfinished_wait_s=0)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = [len(scan_without_waiting(place).candidates) for _ in range(3)]\n"
        "print(*found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    words = [sys.executable, "-c", code, str(place.inbox), str(place.state)]
    *found, kilobytes = map(int, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert found == [50_000] * 3
    assert kilobytes < 150_000


def test_a_huge_file_is_reported_unread(place, machine):
    with (place.inbox / "huge.csv").open("wb") as file:
        file.truncate(20_000_000_000)
    drop(place)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = settled(place, machine)
    assert (names(found), left(found, "A108")) == (["orders.csv"], ("huge.csv",))
    assert "20,000,000,000 bytes; the limit is 10,000,000,000" in str(found.left[0])
    for limit, large in ((9, ("huge.csv",)), (8, ("huge.csv", "orders.csv"))):
        found = scan_without_waiting(place.model_copy(update={"file_bytes_max": limit}), up=machine)
        assert left(found, "A108") == large, "orders.csv has 9 bytes"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


# ---- hidden files ----


def test_hidden_files_are_named_once_and_those_of_programs_never(tmp_path):
    def hidden(found):
        return [problem.values["names"] for problem in found.left if problem.code == "A118"]

    place = settings_in(tmp_path, settle_s=0)
    drop(place, ".gitkeep", b"")
    (place.inbox / ".folder").mkdir()
    for name in (".DS_Store", "._orders.csv", ".~lock.orders.xlsx#", ".orders.csv.part"):
        drop(place, name)
    assert scan(place).left == ()
    for name in (".orders.csv", "sub/.late.csv"):
        drop(place, name)
    assert hidden(scan_read_only(place)) == [".orders.csv, sub/.late.csv"]
    assert hidden(scan_without_waiting(place)) == []
    assert hidden(scan(place)) == [".orders.csv, sub/.late.csv"]
    assert hidden(scan(place)) == hidden(scan_without_waiting(place)) == hidden(scan_read_only(place)) == []
    for number in range(12):
        drop(place, f".{number:02}.csv")
    scan_without_waiting(place)
    (said,) = hidden(scan(place))
    assert said.endswith(".09.csv and 2 more")


def test_a_run_names_a_hidden_file_and_ends_well(tmp_path):
    with house(tmp_path) as home:
        (home.settings.inbox / ".orders.csv").write_bytes(b"Order\n")
        results = [home.night(2, first=1), home.night(2, first=1)]
    first, second = (json.loads((one.reports.folder / "run.json").read_bytes())["inbox"] for one in results)
    assert (results[0].exit_code, first["stuck"], first["files"][0]["code"]) == (0, 0, "A118")
    assert ".orders.csv" in first["files"][0]["say"]
    assert second["files"] == []


# ---- the folder ----


def test_a_given_inbox_that_does_not_exist_is_a_wrong_setting(tmp_path):
    for words in (["run"], ["run", "--dry-run"], ["watch"]):
        done = loadsheet(tmp_path, *words, "--inbox", "inbx", "--mappings", MAPPINGS)
        said = "the inbox inbx does not exist. Create the folder or correct the setting `inbox` (--inbox)"
        assert (done.returncode, said in done.stderr) == (78, True), words
        assert list(tmp_path.iterdir()) == [], words


def test_the_default_inbox_is_created_and_a_link_in_it_needs_attention(tmp_path):
    words = ("run", "--mappings", MAPPINGS, "--settle", "0")
    done = loadsheet(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    (tmp_path / "inbox" / "orders.csv").symlink_to(tmp_path / "elsewhere.csv")
    done = loadsheet(tmp_path, *words)
    assert done.returncode == 1, done.stderr
    assert "1 file is stuck in the inbox" in done.stdout


def test_another_folder_in_the_place_of_the_inbox_is_refused(place):
    assert (scan(place).candidates, scan(place).left) == ((), ()), "an empty inbox is no error"
    drop(place)
    assert len(scan(place, sleep=lambda _: None).candidates) == 1
    place.inbox.rename(place.inbox.with_name("mounted"))
    for look in (scan, scan_without_waiting):
        with pytest.raises(FolderError, match=r"cannot be read.*It existed before: check that it is mounted"):
            look(place)
    place.inbox.mkdir()
    with pytest.raises(FolderError, match=r"is a different folder than before.* is missing.* that it is mounted"):
        scan(place)
    (place.inbox / ".loadsheet-inbox").write_text("another one")
    with pytest.raises(FolderError, match=r"its marker .* differs"):
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


def test_shares_are_known_by_their_file_system(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    for folder, kind, polled in (
        ("/home/inbox", "ext4", False),
        ("/srv/share/inbox", "nfs4", True),
        ("/srv/shared", "ext4", False),
        ("/srv/with space/in", "cifs", True),
        ("/srv/share/local/in", "xfs", False),
        ("/mnt/ssh", "tmpfs", False),
    ):
        assert file_system_of(Path(folder), mounts) == kind
        assert network_kind(Path(folder), mounts) == (kind if polled else ""), "a ledger is refused there"
        assert (needs_polling(kind), shows_open_writers(kind)) == (polled, not polled)
        assert file_system_of(Path(folder), tmp_path / "nowhere") == ""
    assert network_kind(tmp_path / "not" / "there" / "yet") == "", "this machine keeps its files somewhere"
    assert needs_polling("fuse.sshfs")

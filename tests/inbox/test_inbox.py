"""Files are taken when they are finished, by one winner, and lie in one place at any time with the bytes they came with."""

import errno
import hashlib
import multiprocessing
import os
import re
import shutil
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from loadsheet.inbox import Candidate, InboxFile, archive, claim, scan, set_aside, shown_name
from loadsheet.inbox.files import folder_error
from loadsheet.problems import FolderError, Problem, Where
from loadsheet.settings import Settings

RUN, DAY = "2026-03-04-01", date(2026, 3, 4)
NOBODY = 65_534
OUR_OWN = (".loadsheet-inbox", "inboxes.json", "sightings.json", "known/")


@pytest.fixture
def place(tmp_path):
    """Settings over empty folders, with a settle time that a test never waits for."""
    (tmp_path / "inbox").mkdir()
    return Settings(inbox=tmp_path / "inbox", outbox=tmp_path / "outbox", state=tmp_path / "state", settle_s=30)


@pytest.fixture
def ordinary():
    """The same, as an ordinary user: the superuser may read and move everything."""
    top = Path(tempfile.mkdtemp())
    (top / "inbox").mkdir()
    superuser = os.geteuid() == 0
    if superuser:
        for path in (top, top / "inbox"):
            os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield Settings(inbox=top / "inbox", outbox=top / "outbox", state=top / "state", settle_s=30)
    if superuser:
        os.seteuid(0)
    shutil.rmtree(top)


def drop(place, name="orders.csv", content=b"Order\nA1\n"):
    path = place.inbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def later(place, seconds=3600):
    """A clock on which what was dropped so far has been quiet for long."""
    del place
    now = datetime.now(UTC).timestamp() + seconds
    return lambda: now


def never(_seconds):
    raise AssertionError("waited although every file was quiet")


def look(place, **more):
    return scan(place, **{"sleep": never, "clock": later(place)} | more)


def left(found, code):
    return tuple(problem.found for problem in found.left if problem.code == code)


def is_empty(found):
    return found.candidates == () and found.left == ()


def names(found):
    return [candidate.name for candidate in found.candidates]


def claimed(place, name="orders.csv", content=b"Order\nA1\n"):
    return claim(Candidate(name, drop(place, name, content)), place, RUN)


def everything(folder):
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for name in found if not name.startswith(OUR_OWN))


# scan


def test_quiet_files_are_found_at_once_with_their_folders(place):
    for name in ("b.csv", "a.csv", "nordic/b1/orders.csv"):
        drop(place, name)
    found = look(place)
    assert sorted(names(found)) == ["a.csv", "b.csv", "nordic/b1/orders.csv"]
    assert {candidate.name: candidate for candidate in found.candidates}[
        "nordic/b1/orders.csv"
    ].path == place.inbox / "nordic" / "b1" / "orders.csv"


def test_an_empty_inbox_is_no_error_and_a_missing_one_is(place):
    assert is_empty(look(place))
    shutil.rmtree(place.inbox)
    with pytest.raises(FolderError, match="cannot be read"):
        look(place)


def test_names_that_are_to_be_ignored_are(place):
    names = ["~$orders.xlsx", ".orders.csv.swp", "a.tmp", "A.TMP", "a.csv.part", "a.filepart", "a.crdownload"]
    for name in [*names, "Thumbs.db", ".git/a.csv", "x.tmp/a.csv"]:
        drop(place, name)
    assert is_empty(look(place))


def test_young_files_are_looked_at_twice_after_one_wait(place):
    growing, still, gone = drop(place, "growing.csv"), drop(place, "still.csv"), drop(place, "gone.csv")
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        with growing.open("ab") as file:
            file.write(b"A2\n")
        gone.unlink()

    found = scan(place, sleep=sleep)
    assert (names(found), left(found, "A104"), waits) == (["still.csv"], ("growing.csv",), [30])
    assert still.exists()


def test_a_file_that_is_replaced_while_we_wait_is_unsettled(place):
    path = drop(place)
    status = path.stat()

    def sleep(_seconds):
        other = drop(place, "other.tmp")
        other.replace(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert left(scan(place, sleep=sleep), "A104") == ("orders.csv",)


@pytest.mark.parametrize("jump", [-86_400, 10 * 365 * 86_400])
def test_a_time_of_change_in_the_future_or_long_ago_decides_nothing_alone(place, jump):
    path = drop(place)
    moment = datetime.now(UTC).timestamp() + jump
    os.utime(path, (moment, moment))
    waits = []
    found = scan(place, sleep=waits.append)  # the change of status is now: a copy may still be running
    assert (names(found), waits) == (["orders.csv"], [30])


def test_without_settle_time_every_file_is_taken_at_once(place):
    drop(place)
    assert names(scan(place.model_copy(update={"settle_s": 0.0}), sleep=never)) == ["orders.csv"]


def test_what_may_not_be_read_is_named_and_the_rest_goes_on(ordinary):
    place = ordinary
    drop(place, "good.csv")
    drop(place, "bad.csv").chmod(0)
    drop(place, "closed/a.csv").parent.chmod(0)
    found = look(place)
    (place.inbox / "closed").chmod(0o755)
    assert (names(found), left(found, "A105")) == (["good.csv"], ("bad.csv", "closed/"))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"a\nb.csv", "a%0Ab.csv"),
        (b"a\xffb.csv", "a%FFb.csv"),
        ("a\u202evsc.exe".encode(), "a%E2%80%AEvsc.exe"),
        (b"-rf.csv", "-rf.csv"),
        (b"$(x) 'q' \"*.csv", "$(x) 'q' \"*.csv"),
        ("Aufträge\u00a0März.xlsx".encode(), "Aufträge\u00a0März.xlsx"),
        (b"..csv", "..csv"),
        (b"CON", "CON"),
    ],
)
def test_odd_names_are_data_and_go_the_whole_way(place, raw, shown):
    Path(os.fsdecode(os.fsencode(place.inbox) + b"/" + raw)).write_bytes(b"x")
    (candidate,) = scan(place.model_copy(update={"ignore": ()}), clock=later(place)).candidates
    assert candidate.name == shown == shown.encode().decode()
    file = claim(candidate, place, RUN)
    assert set_aside(file, place, RUN, [Problem("R202")]).name == shown


def test_endless_names_are_cut_and_stay_apart(place):
    one, other = (shown_name(Path("ü" * 110 + "\n" * 20 + end + ".csv")) for end in "ab")
    assert one != other
    assert max(len(os.fsencode(one)), len(os.fsencode(other))) <= 240
    assert one.endswith(".csv")
    drop(place, "n" * 251 + ".csv")
    file = claim(look(place).candidates[0], place, RUN)
    assert archive(file, place, DAY, RUN).suffix == ".csv"


# claim


def test_a_claim_moves_the_file_and_tells_its_bytes(place):
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


def test_a_file_that_vanished_is_nobodys_fault(place):
    path = drop(place)
    path.unlink()
    assert claim(Candidate("orders.csv", path), place, RUN) is None


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "a/../../b", "", "a\0b"])
def test_a_name_that_leaves_the_inbox_is_refused(place, name):
    path = drop(place)
    with pytest.raises(FolderError, match="not a name below the inbox"):
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


def test_claims_of_a_killed_run_come_first_and_the_inbox_waits(place):
    claimed(place, "z.csv", b"old")
    drop(place, "z.csv", b"new")
    drop(place, "a.csv")
    first = look(place)
    assert names(first) == ["z.csv", "a.csv"]
    file = claim(first.candidates[0], place, "next")
    assert (file.path, file.path.read_bytes()) == (place.state / "work" / "next" / "z.csv", b"old")
    assert not (place.state / "work" / RUN).exists()
    archive(file, place, DAY, "next")
    assert names(look(place)) == ["z.csv", "a.csv"]  # in the order in which they came


def test_half_made_copies_of_a_killed_run_are_thrown_away(place):
    (place.state / "copying").mkdir(parents=True)
    (place.state / "copying" / "7.tmp").write_bytes(b"half")
    assert is_empty(look(place))
    assert everything(place.state) == []


def test_a_file_that_may_not_be_read_is_put_back(ordinary):
    path = drop(ordinary)
    path.chmod(0)
    with pytest.raises(FolderError, match=r"orders\.csv could not be read: permission denied; grant it"):
        claim(Candidate("orders.csv", path), ordinary, RUN)
    assert everything(ordinary.inbox) == ["orders.csv"]


def test_an_inbox_we_may_not_take_from_says_so_and_keeps_the_file(ordinary):
    place = ordinary
    path = drop(place)
    place.inbox.chmod(0o555)
    with pytest.raises(FolderError, match=r"orders\.csv could not be moved: permission denied; grant it"):
        claim(Candidate("orders.csv", path), place, RUN)
    place.inbox.chmod(0o755)
    assert everything(place.inbox) == ["orders.csv"]
    assert everything(place.state) == []


# where the work area is on another volume


@pytest.fixture
def apart(place, other_volume):
    """The same, but the inbox lies on another volume than state and outbox."""
    return place.model_copy(update={"inbox": other_volume})


def test_a_file_that_vanishes_before_the_copy_is_nobodys_fault(apart):
    assert claim(Candidate("gone.csv", apart.inbox / "gone.csv"), apart, RUN) is None


def test_files_are_set_aside_across_volumes(apart, place):
    file = claimed(place)
    there = place.model_copy(update={"outbox": apart.inbox / "outbox"})
    target = set_aside(file, there, RUN, [Problem("R202")])
    assert target.read_bytes() == b"Order\nA1\n"
    assert sorted(path.name for path in target.parent.iterdir()) == ["orders.csv", "orders.csv.why.txt"]
    assert everything(place.state) == []


# archive and set aside


def test_the_archive_keeps_the_original_bytes_read_only_by_day_and_run(place):
    content = bytes(range(256)) * 100
    target = archive(claimed(place, "nordic/orders.csv", content), place, DAY, RUN)
    assert target == place.state / "archive" / "2026" / "03" / "04" / RUN / "nordic" / "orders.csv"
    assert target.read_bytes() == content
    assert target.stat().st_mode & 0o777 == 0o400
    assert everything(place.state / "work") == []


def test_the_archive_never_overwrites(place):
    targets = [archive(claimed(place, content=content), place, DAY, RUN) for content in (b"one", b"two", b"three")]
    assert [target.name for target in targets] == ["orders.csv", "orders~2.csv", "orders~3.csv"]
    assert [target.read_bytes() for target in targets] == [b"one", b"two", b"three"]


def test_a_file_set_aside_has_its_reasons_in_plain_words_beside_it(place):
    problems = [
        Problem("R201", Where("nordic/a.xlsx"), "", {"reason": "it is a PDF document"}, "send the table itself"),
        Problem("R210", Where("nordic/a.xlsx", "Orders", 3), "", {"expected": "Orders", "sheets": "Ö"}),
    ]
    file = claimed(place, "nordic/a.xlsx", b"%PDF")
    target = set_aside(file, place, RUN, problems)
    assert target == place.outbox / RUN / "set-aside" / "nordic" / "a.xlsx"
    assert target.read_bytes() == b"%PDF"
    assert everything(place.outbox) == [f"{RUN}/set-aside/nordic/a.xlsx", f"{RUN}/set-aside/nordic/a.xlsx.why.txt"]
    text = target.with_name("a.xlsx.why.txt").read_text(encoding="utf-8")
    assert text.splitlines()[0] == "loadsheet could not use the file nordic/a.xlsx"
    assert "  - File cannot be read: the file cannot be read: it is a PDF document [R201]" in text
    assert "    What to do: send the table itself" in text
    assert "nordic/a.xlsx:3: Sheet not found" in text
    assert "Nothing of it was sent." in text
    assert re.search(r"SHA-256 [0-9a-f]{64}", text)


def test_two_files_of_one_name_are_set_aside_side_by_side(place):
    for content in (b"one", b"two"):
        set_aside(claimed(place, content=content), place, RUN, [Problem("R202")])
    assert [Path(name).name for name in everything(place.outbox)] == [
        "orders.csv", "orders.csv.why.txt", "orders~2.csv", "orders~2.csv.why.txt",
    ]  # fmt: skip


def test_an_archive_that_cannot_be_written_leaves_the_claim(place):
    file = claimed(place)
    (place.state / "archive").write_text("a file where the folder should be")
    with pytest.raises(FolderError, match=r"orders\.csv could not be moved"):
        archive(file, place, DAY, RUN)
    assert file.path.read_bytes() == b"Order\nA1\n"


def test_an_outbox_that_cannot_be_written_leaves_the_claim_and_no_reasons(place):
    file = claimed(place)
    place.outbox.write_text("a file where the folder should be")
    with pytest.raises(FolderError, match=r"orders\.csv could not be set aside"):
        set_aside(file, place, RUN, [Problem("R202")])
    assert file.path.exists()


def test_a_claim_that_somebody_took_away_is_said(place):
    file = claimed(place)
    file.path.unlink()
    with pytest.raises(FolderError, match="somebody moved it"):
        archive(file, place, DAY, RUN)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_every_refusal_of_the_system_says_what_to_do(code):
    text = str(folder_error(OSError(code, os.strerror(code), "/x/a.csv"), "a.csv", "moved"))
    assert text.startswith("a.csv could not be moved: ")
    assert "run again" in text
    assert "/x/a.csv" in text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_reasons_that_find_no_room_leave_the_claim(place):
    file = claimed(place)
    folder = place.outbox / RUN / "set-aside"
    folder.mkdir(parents=True)
    (folder / ".orders.csv.why.txt.tmp").symlink_to("/dev/full")
    with pytest.raises(FolderError, match="the disk is full; make room and run again"):
        set_aside(file, place, RUN, [Problem("R202")])
    assert file.path.exists()
    assert everything(place.outbox) == []

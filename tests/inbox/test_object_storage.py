"""Inboxes and archives in object stores, against a real S3-compatible server: what is found, claimed and put away, and what a kill leaves."""

import contextlib
import errno
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import pytest
import s3fs
from databases import new_url
from inbox_files import taking, usual_mappings
from orders import write_orders

from loadsheet import inbox, object_storage
from loadsheet.errors import FolderError, LedgerBusy, SettingsError
from loadsheet.inbox import claim, fetch_objects, give_back, is_unchanged, scan, scan_read_only, scan_without_waiting
from loadsheet.ledger import OpenOptions, State, open_ledger
from loadsheet.ledger.shared.mutual_exclusion import held_claims
from loadsheet.ledger_sink import ingest_files
from loadsheet.settings import Settings

RUN = "2026-03-04-01"
ARCHIVE = f"outbox/archive/2026/03/04/{RUN}"
CONTENT = b"Order\nA1\n"

# ---- objects ----


@pytest.fixture(params=["s3", "memory"])
def top(request, tmp_path):
    """An address in a store that has conditions and one that has none, and what puts bytes there."""
    if request.param == "s3":
        bucket = request.getfixturevalue("bucket")
        return f"s3://{bucket.name}/top", lambda key, content: bucket.put(f"top/{key}", content)
    memory = fsspec.filesystem("memory")
    return f"memory:///{tmp_path.name}", lambda key, content: memory.pipe(f"/{tmp_path.name}/{key}", content)


def test_only_the_version_that_was_found_is_fetched_copied_and_removed(top, tmp_path):
    address, put = top
    put("sub/a.csv", CONTENT)
    found, target = object_storage.find_object(f"{address}/sub/a.csv"), tmp_path / "far" / "a.csv"
    assert (found.name, found.size) == ("a.csv", len(CONTENT))
    assert found.version.endswith(f"-{len(CONTENT)}")
    assert found.version != f"0.0-{len(CONTENT)}"
    assert abs((datetime.now(UTC) - found.changed).total_seconds()) < 60
    assert object_storage.read(found.address) == CONTENT
    assert object_storage.read(f"{address}/sub/b.csv") == b""
    assert [object_storage.find_object(f"{address}/{name}") for name in ("sub", "sub/b.csv")] == [None, None]
    for more in (1, -1):
        assert not object_storage.fetch(found._replace(size=found.size + more), target)
        assert list(target.parent.iterdir()) == []
    assert object_storage.is_still(found)
    assert object_storage.fetch(found, target)
    assert target.stat().st_mtime == pytest.approx(found.changed.timestamp(), abs=1e-3)
    assert target.parent.stat().st_mode & 0o777 == 0o750
    in_memory = address.startswith("memory")  # where a copy has a time of its own
    assert object_storage.copy(found, f"{address}/b.csv") or in_memory
    assert in_memory or not object_storage.copy(found, "memory:///elsewhere/a.csv")  # from one store to another
    put("sub/a.csv", CONTENT + b"A2\n")
    late = tmp_path / "late.csv"
    assert not object_storage.is_still(found)
    assert not object_storage.fetch(found, late)
    assert not object_storage.copy(found, f"{address}/c.csv")
    object_storage.remove_version(found)
    newer = object_storage.find_object(found.address)
    assert newer.size == len(CONTENT) + 3
    object_storage.remove_version(newer)
    assert object_storage.find_object(found.address) is None
    assert not object_storage.fetch(newer, late)
    assert not object_storage.copy(newer, f"{address}/d.csv")
    put("sub/e.csv", CONTENT)
    object_storage.remove([found.address, f"{address}/sub/e.csv"])
    assert object_storage.find_object(f"{address}/sub/e.csv") is None
    assert not late.exists()


def test_an_original_is_read_where_it_is_kept(top, tmp_path):
    address, put = top
    settings = Settings(state=tmp_path / "state")
    put("a.csv", CONTENT)
    found = object_storage.find_object(f"{address}/a.csv")
    for kept_as in (found.address, object_storage.kept_as_of(found)):
        assert object_storage.split_kept_as(kept_as)[0] == found.address
        assert object_storage.is_kept(kept_as, settings)
        assert object_storage.local_copy(kept_as, settings).read_bytes() == CONTENT
    object_storage.remove([found.address])
    assert not object_storage.is_kept(found.address, settings)
    with pytest.raises(FolderError, match="no longer exists"):
        object_storage.local_copy(found.address, settings)
    here = tmp_path / "here.csv"
    assert not object_storage.is_kept(str(here), settings)
    here.write_bytes(CONTENT)
    assert object_storage.is_kept(str(here), settings)
    assert object_storage.local_copy(str(here), settings) == here


# ---- what a scan finds ----


@pytest.fixture
def place(bucket, tmp_path):
    return bucket.settings(tmp_path)


def names(found):
    """Sorted: they come by when the store got them, in whole seconds, and a second may end between two puts."""
    return sorted(candidate.name for candidate in found.candidates)


def codes(found):
    return problems_in(found.left)


def problems_in(problems):
    return [(problem.code, problem.found) for problem in problems]


def first(place):
    """The first object of a scan, claimed."""
    return claim(fetch_objects(scan(place), place).candidates[0], place, RUN)


def put_orders(bucket, folder, count=5):
    """Orders and their packages, dropped as two objects."""
    write_orders(folder / "drop", count)
    for name in ("orders.csv", "packages.csv"):
        bucket.put(f"inbox/{name}", (folder / "drop" / name).read_bytes())


def kept(ledger):
    """Where the ledger says that files lie, by their names; each once."""
    drops = [drop for run in ledger.queries.runs() for drop in ledger.queries.drops_of(run)]
    found = [(file.name, file.kept_as) for drop in drops for file in drop.files]
    assert len(found) == len(dict(found)), found
    return dict(found)


def test_objects_are_found_with_their_folders_and_taken_with_their_bytes(bucket, place):
    bucket.put("inbox/acme/more.csv", b"three")
    bucket.put("inbox/orders.csv", b"one")
    bucket.put("inbox/acme/", b"")  # as consoles make folders
    bucket.put("inboxes/other.csv")
    bucket.put("inbox.csv")
    assert names(scan(place)) == ["acme/more.csv", "orders.csv"]
    for address in (f"s3://{bucket.name}/inbox", f"s3://{bucket.name}/inbox/"):
        assert [one.name for one in object_storage.objects_in(address)] == ["acme/more.csv", "orders.csv"]
    assert object_storage.names_in(f"s3://{bucket.name}") == ["inbox", "inbox.csv", "inboxes"]
    assert object_storage.names_in(f"s3://{bucket.name}/nowhere") == []
    assert inbox.files_outside(place, [place.inbox / "acme"]) == ["orders.csv"]
    file = first(place)
    assert (file.name, file.size, file.sha256) == ("acme/more.csv", 5, sha256(b"three").hexdigest())
    assert file.path.read_bytes() == b"three"
    assert inbox.archive(file, place, RUN) == place.outbox / ARCHIVE.removeprefix("outbox/") / "acme/more.csv"
    left = ["inbox.csv", "inbox/acme/", "inbox/orders.csv", "inboxes/other.csv"]
    assert bucket.keys() == [*left, f"{ARCHIVE}/acme/more.csv"]
    assert bucket.get(f"{ARCHIVE}/acme/more.csv") == b"three"
    assert not list((place.state / "fetched" / "work").rglob("*.csv"))


def test_names_that_would_lead_out_of_a_folder_or_hurt_a_terminal_are_taken_harmless(bucket, place):
    odd = {
        "../up.csv": "%2E%2E/up.csv", "a/../b.csv": "a/%2E%2E/b.csv", "x//y.csv": "x/y.csv", "/c.csv": "c.csv",
        "sub folder/ä#?&+=;%41.csv": "sub folder/ä#?&+=;%41.csv", "turned\u202egvs.csv": "turned%E2%80%AEgvs.csv",
        "z\x01.csv": "z%01.csv",
    }  # fmt: skip
    for name in odd:
        bucket.put(f"inbox/{name}", name.encode())
    bucket.put("inbox/a.csv?versionId=b.csv")  # the library would misread it
    place = place.model_copy(update={"ignore": ()})
    found = fetch_objects(scan(place), place)
    assert codes(found) == [("A105", "a.csv?versionId=b.csv")]
    files = [claim(candidate, place, RUN) for candidate in found.candidates]
    assert {file.path.read_text(): file.name for file in files} == odd
    assert all(file.path.is_relative_to(place.state / "fetched") for file in files)
    for file in files:
        inbox.archive(file, place, RUN)
    assert bucket.keys("inbox/") == ["inbox/a.csv?versionId=b.csv"]
    assert len(bucket.keys(ARCHIVE)) == len(odd)


def test_what_is_ignored_too_large_young_or_without_its_marker_is_left(bucket, tmp_path):
    for name in ("ok.csv", "~$ok.csv", ".hidden/a.csv", "b.TMP", "empty.csv"):
        bucket.put(f"inbox/{name}", b"" if name == "empty.csv" else b"four")
    place = bucket.settings(tmp_path)
    assert (names(scan(place)), codes(scan(place))) == (["ok.csv"], [("A107", "empty.csv")])
    assert names(scan(place.model_copy(update={"unfinished_wait_s": 0.0}))) == ["empty.csv", "ok.csv"]
    assert ("A108", "ok.csv") in codes(scan(place.model_copy(update={"file_bytes_max": 3})))
    marked = place.model_copy(update={"done_marker": "{name}.done"})
    assert names(scan(marked)) == []
    bucket.put("inbox/ok.csv.done", b"")
    assert names(scan(marked)) == ["ok.csv"]
    file = first(marked)
    inbox.archive(file, marked, RUN)
    assert bucket.keys("inbox/ok") == []


def test_a_young_object_waits_until_it_has_been_there_for_long_enough(bucket, tmp_path):
    place, now = bucket.settings(tmp_path, settle_s=30), [1_000.0]
    bucket.put("inbox/a.csv")
    assert codes(scan_read_only(place)) == [("A104", "a.csv")]
    assert codes(scan_without_waiting(place, up=lambda: now[0])) == [("A104", "a.csv")]
    now[0] += 31
    assert names(scan_without_waiting(place, up=lambda: now[0])) == ["a.csv"]
    bucket.put("inbox/a.csv", b"another one")
    assert codes(scan_without_waiting(place, up=lambda: now[0])) == [("A104", "a.csv")]
    assert names(scan_read_only(place, clock=lambda: 1e10)) == ["a.csv"]  # long after the store got it
    slept = []
    assert names(scan(bucket.settings(tmp_path / "other", settle_s=30), sleep=slept.append)) == ["a.csv"]
    assert slept == [30]
    place = bucket.settings(tmp_path / "third", settle_s=30)
    assert names(scan(place, sleep=lambda _: bucket.put("inbox/a.csv", b"newer"))) == []  # replaced meanwhile


# ---- who takes it ----


def test_an_object_removed_or_replaced_before_its_claim_is_not_taken(bucket, place):
    bucket.put("inbox/a.csv", b"old")
    bucket.put("inbox/b.csv", b"old")
    scanned = scan(place)
    found = fetch_objects(scanned, place)
    bucket.put("inbox/a.csv", b"new")
    bucket.remove("inbox/b.csv")
    assert [claim(candidate, place, RUN) for candidate in found.candidates] == [None, None]
    shutil.rmtree(place.state / "fetched")
    assert names(fetch_objects(scanned, place)) == []
    assert bucket.keys() == ["inbox/a.csv"]
    assert first(place).path.read_bytes() == b"new"


def test_a_replaced_object_is_noticed_and_its_newer_version_stays(bucket, place, monkeypatch):
    bucket.put("inbox/a.csv", b"old")
    file = first(place)
    assert is_unchanged(file)
    bucket.put("inbox/a.csv", b"new")
    assert not is_unchanged(file)
    give_back(file, place)
    assert bucket.keys() == ["inbox/a.csv"]
    file, is_still = first(place), object_storage.is_still

    def late(found):
        answer = is_still(found)
        bucket.put("inbox/a.csv", b"newest")
        return answer

    monkeypatch.setattr(object_storage, "is_still", late)  # replaced in the last moment before it is removed
    inbox.archive(file, place, RUN)
    assert bucket.get("inbox/a.csv") == b"newest"
    assert bucket.get(f"{ARCHIVE}/a.csv") == b"new"


@pytest.mark.parametrize(
    ("answer", "left"), [(errno.ENOSYS, []), (errno.EINVAL, ["inbox/a.csv"]), (errno.EACCES, ["inbox/a.csv"])]
)
def test_a_store_without_conditional_deletes_loses_the_object_all_the_same(bucket, place, monkeypatch, answer, left):
    """As s3fs translates the store's answer: the delete is not implemented, its condition is not met, it is not allowed."""
    bucket.put("inbox/a.csv", CONTENT)
    found, call = object_storage.find_object(f"s3://{bucket.name}/inbox/a.csv"), s3fs.S3FileSystem.call_s3

    def refusing(store, method, *arguments, **values):
        if method == "delete_object" and "IfMatch" in values:
            raise OSError(answer, "no")
        return call(store, method, *arguments, **values)

    monkeypatch.setattr(s3fs.S3FileSystem, "call_s3", refusing)
    refused = pytest.raises(FolderError) if answer == errno.EACCES else contextlib.nullcontext()
    with refused:
        object_storage.remove_version(found)
    assert bucket.keys() == left


def test_what_was_uploaded_in_parts_is_copied_within_the_store(store, bucket, place):
    part = b"x" * (5 << 20)
    client, there = store.client(), {"Bucket": bucket.name, "Key": "inbox/big.csv"}
    upload = client.create_multipart_upload(**there)["UploadId"]
    tags = [
        client.upload_part(**there, UploadId=upload, PartNumber=number, Body=body)["ETag"]
        for number, body in ((1, part), (2, b"rest"))
    ]
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, start=1)]
    client.complete_multipart_upload(**there, UploadId=upload, MultipartUpload={"Parts": parts})
    (found,) = object_storage.objects_in(place.inbox_address)
    address = f"s3://{bucket.name}/kept/big.csv"
    assert object_storage.copy(found, address)
    assert bucket.get("kept/big.csv") == part + b"rest"
    bucket.put("inbox/big.csv", b"new")
    assert not object_storage.copy(found, address)


def test_a_replacement_while_it_is_read_gives_the_drop_back_and_the_next_run_reads_the_newer_one(
    bucket, place, tmp_path
):
    put_orders(bucket, tmp_path)

    def replace(what):
        if what == "plan":
            bucket.put("inbox/packages.csv", bucket.get("inbox/packages.csv") + b"00000001,BOX,Late,1,0.1\n")

    with taking(place, replace) as (ledger, taken):
        assert problems_in(taken.inbox_problems) == [("A106", "packages.csv")]
        assert ledger.queries.count_in(*State) == 0
    with taking(place) as (ledger, taken):
        assert (problems_in(taken.inbox_problems), taken.fault, ledger.queries.count_in(State.READY)) == ([], None, 5)
        assert sorted(kept(ledger)) == ["orders.csv", "packages.csv"]
    assert bucket.keys("inbox/") == []
    assert len(bucket.keys("outbox/archive/")) == 2


# ---- what a kill leaves ----


class Killed(BaseException):
    """A process ends here."""


class Mortal:
    """Effects on the store and in the ledger, before one of which the process is killed."""

    def __init__(self, monkeypatch, at):
        self.count, self._at = 0, at
        for name in ("fetch", "put", "copy", "remove", "remove_version"):
            monkeypatch.setattr(object_storage, name, self._mortal(getattr(object_storage, name)))

    def __call__(self, _what):
        self.count += 1
        if self.count == self._at:
            raise Killed

    def _mortal(self, deed):
        def done(*words):
            self(deed)
            return deed(*words)

        return done


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.sweep), pytest.param(9, marks=pytest.mark.journey)])
def test_whatever_is_killed_nothing_is_lost_and_nothing_taken_twice(store, tmp_path, monkeypatch, step):
    """Every second time another machine goes on, which shares the ledger and nothing else; in the sweep, both at each step."""
    write_orders(tmp_path / "drop", 3)
    sent = {name: (tmp_path / "drop" / name).read_bytes() for name in ("orders.csv", "packages.csv")} | {
        "junk.xyz": b"junk"
    }
    for turn in range(200):
        at, elsewhere = (2 + turn // 2, turn % 2) if step == 1 else (2 + turn * step, turn % 2)
        bucket = store.bucket()
        place = bucket.settings(tmp_path / f"{turn}")
        for name, content in sent.items():
            bucket.put(f"inbox/{name}", content)
        with monkeypatch.context() as patched:
            mortal = Mortal(patched, at)
            try:
                with taking(place, mortal):
                    pass
            except Killed:
                pass
        if elsewhere:
            for folder in ("fetched", "known", "outbox", "work"):
                shutil.rmtree(place.state / folder, ignore_errors=True)
        for _ in range(2):  # the second finds nothing to do
            with taking(place) as (ledger, taken):
                assert (problems_in(taken.inbox_problems), taken.fault) == ([], None), at
                assert ledger.queries.count_in(State.READY) == ledger.queries.count_in(*State) == 3, at
                found = kept(ledger)
                assert sorted(found) == sorted(sent), at
                for name, kept_as in found.items():
                    assert bucket.get(kept_as.removeprefix(f"s3://{bucket.name}/")) == sent[name], at
        assert bucket.keys("inbox/") == [], at
        aside = [key for key in bucket.keys("outbox/") if "/set-aside/" in key]
        assert [key.rpartition("/")[2] for key in aside] == ["junk.xyz", "junk.xyz.why.txt"], at
        if mortal.count < at:
            break
    assert 15 < at < 60


def test_a_replaced_object_whose_machine_is_lost_is_kept_from_the_archive(bucket, place, tmp_path):
    put_orders(bucket, tmp_path)
    before = bucket.get("inbox/orders.csv")

    def die(what):
        if what == "archived":
            raise Killed

    with pytest.raises(Killed), taking(place, die):
        pass
    put_orders(bucket, tmp_path, 7)
    shutil.rmtree(place.state / "fetched", ignore_errors=True)
    with taking(place) as (ledger, taken):
        assert taken.fault is None
        assert ledger.queries.count_in(State.READY) == 7
        runs = {run.name for run in ledger.queries.runs()}
    assert len(runs) == 2
    (key,) = (key for key in bucket.keys("outbox/archive/") if f"{min(runs)}/orders.csv" in key)
    assert bucket.get(key) == before
    assert bucket.keys("inbox/") == []


# ---- several machines over one ledger ----


class Shared:
    """A ledger on PostgreSQL, and settings of machines that share it and nothing else."""

    def __init__(self, bucket, folder, url):
        self.bucket, self.folder, self.url = bucket, folder, url

    def place(self, name):
        return self.bucket.settings(self.folder / name, database="postgresql://elsewhere", takeover_s=30)

    def ledger(self):
        return open_ledger(self.url, OpenOptions(takeover_s=30))


@pytest.fixture
def shared(bucket, tmp_path, monkeypatch):
    url = new_url("postgresql", tmp_path)
    monkeypatch.setattr(Settings, "database_url", url)
    return Shared(bucket, tmp_path, url)


def test_machines_that_share_a_ledger_take_each_object_once(bucket, tmp_path, shared):
    for number in range(2):
        write_orders(tmp_path / "drop", 2, first=10 * number)
        for name in ("orders.csv", "packages.csv"):
            bucket.put(f"inbox/n{number}/{name}", (tmp_path / "drop" / name).read_bytes())

    def work(name):
        place = shared.place(name)
        mappings, took = usual_mappings(), 0
        while bucket.keys("inbox/"):
            try:
                with shared.ledger() as ledger:
                    assert ingest_files(place, ledger, ledger.begin_run(), mappings).fault is None
                    took += 1
            except LedgerBusy:
                time.sleep(0.01)
        return took

    with ThreadPoolExecutor(2) as machines:
        assert sum(machines.map(work, ("one", "two"))) >= 1
    with shared.ledger() as ledger:
        assert sorted(kept(ledger)) == [f"n{at}/{name}" for at in (0, 1) for name in ("orders.csv", "packages.csv")]
        assert ledger.queries.count_in(State.READY) == ledger.queries.count_in(*State) == 4
    assert len(bucket.keys("outbox/archive/")) == 4


def test_what_a_dead_machine_had_claimed_is_taken_by_the_next(bucket, tmp_path, shared):
    put_orders(bucket, tmp_path)
    dead = shared.place("dead")
    with shared.ledger() as ledger, held_claims(shared.url, 1e6) as theirs:
        for candidate in fetch_objects(scan(dead), dead).candidates:
            assert claim(candidate, dead, RUN, theirs)
        taken = ingest_files(shared.place("next"), ledger, ledger.begin_run(), usual_mappings())
        assert (problems_in(taken.inbox_problems), taken.fault, ledger.queries.count_in(State.READY)) == ([], None, 5)
        assert sorted(kept(ledger)) == ["orders.csv", "packages.csv"]
    assert bucket.keys("inbox/") == []


# ---- settings, and stores that refuse ----


def test_the_archive_is_a_folder_or_a_place_of_its_own(bucket, tmp_path, store):
    bucket.put("inbox/a.csv", b"a")
    here = bucket.settings(tmp_path, outbox=tmp_path / "outbox")
    target = inbox.archive(first(here), here, RUN)
    assert target == here.state / "archive/2026/03/04" / RUN / "a.csv"
    assert target.read_bytes() == b"a"
    assert bucket.keys() == []
    other = store.bucket()
    bucket.put("inbox/a.csv", b"a")
    there = bucket.settings(tmp_path, archive=f"s3://{other.name}/kept")
    inbox.archive(first(there), there, RUN)
    assert other.keys() == [f"kept/2026/03/04/{RUN}/a.csv"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.csv").write_bytes(b"whole")
    other.put(f"kept/2026/03/04/{RUN}/b.csv", b"who")  # what a killed run left there is replaced
    folder = there.model_copy(update={"inbox": tmp_path / "in"})
    inbox.archive(first(folder), folder, RUN)
    assert other.get(f"kept/2026/03/04/{RUN}/b.csv") == b"whole"
    assert not list((tmp_path / "in").glob("*.csv"))


def test_addresses_that_cannot_be_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, said in (
        ({"inbox": "s3://key:secret@bucket/in"}, "an address must not contain credentials"),
        ({"inbox": "s3://bucket/in?x=1"}, "must not contain ?, # or .."),
        ({"outbox": "s3://bucket/../in"}, "must not contain ?, # or .."),
        ({"inbox": "s3://"}, "write a path, or an address such as s3://bucket/prefix"),
        ({"inbox": "file:///in"}, "write a path"),
        ({"state": "s3://bucket/state"}, "must be a folder on this machine"),
        ({"inbox": "s3://bucket/in", "outbox": "s3://bucket/in/out"}, "outbox (s3://bucket/in/out) is inside inbox"),
        ({"inbox": "s3://bucket", "archive": "s3://bucket/kept"}, "archive (s3://bucket/kept) is inside inbox"),
    ):
        with pytest.raises(SettingsError) as refused:
            Settings.load(**given)
        assert said in str(refused.value)
        assert "secret" not in str(refused.value)
    with pytest.raises(SettingsError, match=r"nosuch:// is not a known kind of object store"):
        scan(Settings(inbox="nosuch://bucket/in", state=tmp_path))


def test_shippers_have_folders_of_their_own_below_those_of_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = 'inbox = "s3://b/in"\noutbox = "s3://b/out"\narchive = "s3://kept"\n[shippers.acme]\n[shippers.birch]\n'
    (tmp_path / "loadsheet.toml").write_text(text)
    acme = Settings.load(shipper="acme")
    assert (acme.inbox_address, acme.outbox_address) == ("s3://b/in/acme", "s3://b/out/acme")
    assert acme.archive_place == Settings(archive="s3://kept/acme").archive
    (tmp_path / "loadsheet.toml").write_text(f'{text}archive = "s3://kept/acme"')
    with pytest.raises(SettingsError, match="have the same archive"):
        Settings.load(shipper="acme")


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("environment", "error", "told"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"}, SettingsError, "no credentials found"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, FolderError, "the store cannot be reached"),
    ],
)  # fmt: skip
def test_a_store_that_cannot_be_reached_or_asked_says_so(place, monkeypatch, environment, error, told):
    for name, value in environment.items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place.state))
    with pytest.raises(error, match=told) as refused:
        scan(place)
    assert place.inbox_address in str(refused.value)
    assert "a-secret" not in str(refused.value)
    assert refused.value.exit_code == (78 if error is SettingsError else 75)


class Refusing(BaseHTTPRequestHandler):
    """Answers everything as a store does that refuses it."""

    code = "AccessDenied"

    def do_GET(self):
        body = (
            f'<?xml version="1.0"?><Error><Code>{self.code}</Code><Message>{self.code}: no</Message></Error>'.encode()
        )
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_GET  # noqa: N815 (the names that http.server calls)

    def log_message(self, *_words):
        pass


def test_a_store_that_refuses_is_quoted_with_what_to_do(place, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        for code, words in (
            ("AccessDenied", "access denied; give these credentials access"),
            ("InvalidAccessKeyId", "refuses the credentials"),
            ("Odd", "the store reports: "),
        ):
            monkeypatch.setattr(Refusing, "code", code)
            with pytest.raises(FolderError, match=words) as refused:
                scan(place)
            assert str(refused.value).startswith(f"{place.inbox_address} could not be listed: ")
        monkeypatch.setattr(Refusing, "code", "AccessDenied")
        found = object_storage.Object(f"{place.inbox_address}/a.csv", "a.csv", 9, "1.0-9", datetime.now(UTC))
        with pytest.raises(FolderError, match="could not be written: access denied"):
            object_storage.copy(found, f"{place.inbox_address}/b.csv")
        server.shutdown()


def test_what_a_store_refuses_is_said_in_words():
    for error, said in (
        (OSError(errno.ENOSPC, "no space"), "the disk of this machine is full; make room"),
        (OSError(errno.EDQUOT, "quota"), "the disk of this machine is full; make room"),
        (OSError("SlowDown: please"), "too many requests at this store (SlowDown: please)"),
        (OSError("timed out"), "the store did not answer in time (timed out)"),
        (OSError("at https://me:secret@far/x"), "the store reports: at https://far/x"),
        (OSError(""), "the store reports: OSError"),
        (OSError("y" * 300), f"the store reports: {'y' * 300}"),
        (OSError("y" * 301), f"the store reports: {'y' * 300}"),
    ):
        assert object_storage._reason(error) == said


def test_a_missing_bucket_ends_the_intake_with_a_clear_error(bucket, place, tmp_path):
    put_orders(bucket, tmp_path)
    with taking(place, lambda what: bucket.drop() if what == "archived" else None) as (ledger, taken):
        assert isinstance(taken.fault, FolderError)
        assert f"s3://{bucket.name} does not exist. Create it or set another address" in str(taken.fault)
        assert ledger.queries.count_in(State.READY) == 5
    with pytest.raises(FolderError, match="could not be listed"):
        scan(place)


def test_missing_libraries_of_a_store_are_reported(workspace):
    done = workspace.run("--dry-run", "--inbox", "gs://bucket/in")  # gcsfs is none of ours
    assert (done.returncode, done.stdout) == (78, "")
    assert "Install loadsheet with its extra objects: pip install 'loadsheet[objects]'" in done.stderr

"""Objects of a store: listed, looked at, fetched, copied and removed, each as the version that was found."""

import errno
from datetime import UTC, datetime

import fsspec
import pytest

from loadsheet import object_storage
from loadsheet.inbox import InboxFile, archive_folder
from loadsheet.problems import FolderError
from loadsheet.settings import Settings

CONTENT = b"Order\nA1\n"


@pytest.mark.parametrize(("more", "fetched"), [(0, True), (1, False), (-1, False)])
def test_an_object_of_another_size_than_was_listed_is_not_fetched(bucket, tmp_path, more, fetched):
    bucket.put("inbox/orders.csv", CONTENT)
    found = object_storage.look(f"s3://{bucket.name}/inbox/orders.csv")
    target = tmp_path / "orders.csv"
    assert object_storage.fetch(found._replace(size=found.size + more), target) is fetched
    assert [path.name for path in tmp_path.iterdir()] == ["orders.csv"] * fetched


@pytest.mark.parametrize(
    ("there", "after"),
    [(None, CONTENT), (CONTENT[:4], CONTENT), (b"x" * len(CONTENT), b"x" * len(CONTENT))],
    ids=["nothing", "a part of it", "as many bytes, put there by this run"],
)
def test_a_file_is_kept_unless_its_bytes_are_there(bucket, tmp_path, there, after):
    if there is not None:
        bucket.put("archive/orders.csv", there)
    path = tmp_path / "orders.csv"
    path.write_bytes(CONTENT)
    file = InboxFile("orders.csv", path, len(CONTENT), "", datetime.now(UTC))
    archive_folder._put(file, f"s3://{bucket.name}/archive/orders.csv")
    assert bucket.get("archive/orders.csv") == after


@pytest.fixture(params=["s3", "memory"])
def place(request, tmp_path):
    """An address in a store that has conditions and one that has none, and what puts bytes there."""
    if request.param == "s3":
        bucket = request.getfixturevalue("bucket")
        return f"s3://{bucket.name}/top", lambda key, content: bucket.put(f"top/{key}", content)
    memory = fsspec.filesystem("memory")
    return f"memory:///{tmp_path.name}", lambda key, content: memory.pipe(f"/{tmp_path.name}/{key}", content)


def test_listings_name_objects_and_no_folders(bucket):
    for key in ("inbox/", "inbox/sub/", "inbox/sub/b.csv", "inbox/a.csv", "inboxes/c.csv", "inbox.csv"):
        bucket.put(key)
    top = f"s3://{bucket.name}/inbox"
    assert [one.name for one in object_storage.objects_in(top)] == ["a.csv", "sub/b.csv"]
    assert [one.name for one in object_storage.objects_in(f"{top}/")] == ["a.csv", "sub/b.csv"]
    assert object_storage.names_in(f"s3://{bucket.name}") == ["inbox", "inbox.csv", "inboxes"]
    assert object_storage.names_in(f"s3://{bucket.name}/nowhere") == []


def test_an_object_is_found_with_its_size_its_version_and_its_time(place):
    top, put = place
    put("sub/a.csv", CONTENT)
    found = object_storage.look(f"{top}/sub/a.csv")
    assert (found.name, found.size) == ("a.csv", len(CONTENT))
    assert found.version.endswith(f"-{len(CONTENT)}")
    assert found.version != f"0.0-{len(CONTENT)}"
    assert abs((datetime.now(UTC) - found.changed).total_seconds()) < 60
    assert object_storage.look(f"{top}/sub") is None
    assert object_storage.look(f"{top}/sub/b.csv") is None
    assert object_storage.read(found.address) == CONTENT
    assert object_storage.read(f"{top}/sub/b.csv") == b""


def test_only_the_version_that_was_found_is_fetched_copied_and_removed(place, tmp_path):
    top, put = place
    put("a.csv", CONTENT)
    found, target = object_storage.look(f"{top}/a.csv"), tmp_path / "far" / "a.csv"
    assert object_storage.is_still(found)
    assert object_storage.fetch(found, target)
    assert target.stat().st_mtime == pytest.approx(found.changed.timestamp())
    assert target.parent.stat().st_mode & 0o777 == 0o750
    assert object_storage.copy(found, f"{top}/b.csv") or top.startswith("memory"), (
        "a copy in memory has a time of its own"
    )
    put("a.csv", CONTENT + b"A2\n")
    assert not object_storage.is_still(found)
    assert not object_storage.fetch(found, tmp_path / "late.csv")
    assert not object_storage.copy(found, f"{top}/c.csv")
    object_storage.remove_version(found)
    newer = object_storage.look(found.address)
    assert newer.size == len(CONTENT) + 3
    object_storage.remove_version(newer)
    assert object_storage.look(found.address) is None
    assert not object_storage.fetch(newer, tmp_path / "late.csv")
    object_storage.remove([found.address])
    assert not (tmp_path / "late.csv").exists()


def test_nothing_is_copied_from_one_store_to_another(bucket):
    bucket.put("a.csv", CONTENT)
    assert not object_storage.copy(object_storage.look(f"s3://{bucket.name}/a.csv"), "memory:///elsewhere/a.csv")
    assert not fsspec.filesystem("memory").exists("/elsewhere/a.csv")


def test_an_original_is_read_where_it_is_kept(place, tmp_path):
    top, put = place
    settings = Settings(state=tmp_path / "state")
    put("a.csv", CONTENT)
    found = object_storage.look(f"{top}/a.csv")
    for kept_as in (found.address, object_storage.kept_at(found)):
        assert object_storage.split_kept_as(kept_as)[0] == found.address
        assert object_storage.is_kept(kept_as)
        assert object_storage.local_copy(kept_as, settings).read_bytes() == CONTENT
    object_storage.remove([found.address])
    assert not object_storage.is_kept(found.address)
    with pytest.raises(FolderError, match="is not there any more"):
        object_storage.local_copy(found.address, settings)
    here = tmp_path / "here.csv"
    assert not object_storage.is_kept(str(here))
    here.write_bytes(CONTENT)
    assert object_storage.is_kept(str(here))
    assert object_storage.local_copy(str(here), settings) == here


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "no space"), "the disk of this machine is full; make room"),
        (OSError(errno.EDQUOT, "quota"), "the disk of this machine is full; make room"),
        (OSError("SlowDown: please"), "the store asks to be asked less often (SlowDown: please)"),
        (OSError("timed out"), "the store did not answer in time (timed out)"),
        (OSError("at https://me:secret@far/x"), "the store says: at https://far/x"),
        (OSError(""), "the store says: OSError"),
        (OSError("y" * 300), f"the store says: {'y' * 300}"),
        (OSError("y" * 301), f"the store says: {'y' * 300}"),
    ],
)
def test_what_a_store_refuses_is_said_in_words(error, told):
    assert object_storage._reason(error) == told

"""The power goes at any moment: what the disk then holds is a sound ledger, and every call that had left is written down in it.

A night is recorded write by write. Its prefixes are turned into disks: what was synced is there; of what was written since,
nothing, everything, or any part of it, the last write torn. Names follow the order of the calls, as journals of file systems keep it.
"""

import hashlib
import random
import shutil
import sqlite3
from contextlib import closing

import pytest
from effects import EVERY, Effect, read_record
from killed_runs import SCENARIOS, prepare

SECTOR = 512


class Disk:
    """What a disk holds of some files: the bytes that are safe, and the writes that are not yet."""

    def __init__(self, folder):
        self.safe = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.loose: dict[str, list[Effect]] = {}

    def take(self, effect):
        name = effect.name
        if effect.what in ("write", "truncate"):
            self.loose.setdefault(name, []).append(effect)
        elif effect.what == "sync":
            self.safe[name] = applied(self.safe.get(name, b""), self.loose.pop(name, []))
        elif effect.what == "unlink":
            self.safe.pop(name, None)
            self.loose.pop(name, None)
        elif effect.what == "rename":
            old = effect.data.decode()
            self.loose.pop(name, None)
            if old in self.loose:
                self.loose[name] = self.loose.pop(old)
            self.safe[name] = self.safe.pop(old, b"")

    def after_the_loss(self, how):
        """The files as they are found: `how` is none, all, or a random source that chooses."""
        for name in {*self.safe, *self.loose}:
            writes = self.loose.get(name, [])
            if how == "none":
                writes = []
            elif how != "all":
                writes = [torn(write, how) for write in writes if how.random() < 0.5]
            yield name, applied(self.safe.get(name, b""), writes)


def torn(write, chance):
    """A write of which only some leading sectors arrived, now and then."""
    if write.what != "write" or chance.random() < 0.7:
        return write
    return write._replace(data=write.data[: SECTOR * chance.randrange(len(write.data) // SECTOR + 1)])


def applied(content, writes):
    held = bytearray(content)
    for write in writes:
        if write.what == "truncate":
            del held[write.offset :]
            held.extend(bytes(write.offset - len(held)))
        else:
            held.extend(bytes(max(0, write.offset - len(held))))
            held[write.offset : write.offset + len(write.data)] = write.data
    return bytes(held)


def record(shop, tmp_path, name):
    """A night of a scenario, effect by effect, from the disk it began with."""
    night = prepare(shop, SCENARIOS[name], tmp_path / "night")
    disk = Disk(night.place)
    with night.served(shop) as url:
        words = {"words": ["run", "--exchange", url], "environment": night.environment}
        done = shop.do(words, night.place, record=tmp_path / "record")
    assert done.code in (0, 1, 75 if night.resends else 0), done  # 75: something became ready again at its end
    return night, disk, read_record(tmp_path / "record")


def check(night, disk, how, sent, place):
    """One disk after the loss: a sound ledger that knows every call that had left, and every file that was dropped."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    found = dict(disk.after_the_loss(how))
    state = f"{night.place}/.loadsheet/"
    for part in ("ledger.db", "ledger.db-wal"):
        if state + part in found:
            (place / part).write_bytes(found[state + part])
    held = set(found.values())
    assert all(content in held for content in night.dropped.values()), "a dropped file is gone"
    known = read_attempts(place) if sent else set()
    assert sent <= known, f"sent but not written down: {sent - known}"


def read_attempts(place):
    with closing(sqlite3.connect(place / "ledger.db")) as ledger:
        assert ledger.execute("pragma integrity_check").fetchall() == [("ok",)]
        return {digest for (digest,) in ledger.execute("select distinct request_hash from attempts")}


def losses(shop, tmp_path, name, every, variants):
    """Play the record, and lose the power at every so many effects in several ways. Returns how many disks were looked at."""
    night, disk, effects = record(shop, tmp_path, name)
    chance, sent, disks = random.Random(name), set(), 0
    for number, effect in enumerate(effects):
        if effect.what == "send" and effect.data.startswith(b"POST "):
            sent.add(hashlib.sha256(effect.data.partition(b"\r\n\r\n")[2]).hexdigest())
        disk.take(effect)
        if number % every == 0 or effect.what == "send":
            for how in ("none", "all", *[chance] * variants):
                check(night, disk, how, sent, tmp_path / "disk")
                disks += 1
    assert sent, "the record holds no call"
    return disks


@pytest.mark.journey
def test_a_power_loss_keeps_every_call_that_had_left(shop, tmp_path):
    assert losses(shop, tmp_path, "new orders", every=24, variants=1) > 50


@pytest.mark.sweep
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_power_loss_at_every_write(shop, tmp_path, name, record_property):
    record_property("disks after a power loss", losses(shop, tmp_path, name, every=max(EVERY // 4, 1), variants=4))

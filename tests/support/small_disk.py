"""A small file system of our own, which really becomes full or read-only."""

import contextlib
import os
import shutil
import subprocess

import pytest

MB = 1024 * 1024


class Disk:
    """A small file system of our own."""

    def __init__(self, folder):
        self.folder = folder
        self.url = f"sqlite:///{folder / 'ledger.db'}"

    def fill(self, left=0):
        """Use up all space except `left` bytes."""
        with contextlib.suppress(OSError), (self.folder / "filler").open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * MB)
        with contextlib.suppress(OSError), (self.folder / "filler").open("ab", buffering=0) as file:
            while file.write(b"x" * 512):
                pass
        if left:
            os.truncate(self.folder / "filler", max((self.folder / "filler").stat().st_size - left, 0))

    def free(self):
        (self.folder / "filler").unlink()

    def remount(self, how):
        subprocess.run(["mount", "-o", f"remount,{how}", self.folder], check=True)


@contextlib.contextmanager
def small_disk(folder, mb=16):
    """A disk of `mb` MB mounted at a new folder; the test is skipped with the reason where that cannot be done."""
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount here")
    words = ["mount", "-t", "tmpfs", "-o", f"size={mb}m", "tmpfs", folder]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a file system of our own cannot be mounted here: {done.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # whoever still has a file of it open keeps that

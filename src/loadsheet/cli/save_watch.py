"""Show something again at each save of a file, until Ctrl-C.

Owns: which saves count, and the pause in which an editor completes one.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path

import click

from loadsheet.cli.output import say
from loadsheet.problems import LoadsheetError

_CHANGES = frozenset({"created", "modified", "moved", "deleted"})  # reading a file is no change
_OF_MAPPINGS = frozenset({".yaml", ".yml", ".csv"})
_SETTLES_S = 0.2  # an editor writes a file in several steps


def show_at_each_save(show: Callable[[], object], files: Iterable[Path], folders: Iterable[Path]) -> int:
    """Show now and after each save of one of `files`, or of a mapping or code table in `folders`. Returns 0 after Ctrl-C. Errors are
    shown, and the watch goes on.
    """
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers import Observer

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            names = [name for name in (event.src_path, event.dest_path) if name]
            saves.note(event.event_type, {Path(os.fsdecode(name)) for name in names})

    saves, observer, handler = _Saves(files, folders), Observer(), Handler()

    def watch_folders() -> None:
        observer.unschedule_all()
        for folder, recursive in saves.folders():
            observer.schedule(handler, str(folder), recursive=recursive)

    watch_folders()
    observer.start()
    try:
        while True:
            _show(show)
            if saves.wait():
                watch_folders()
    except KeyboardInterrupt:
        return 0
    finally:
        observer.stop()
        observer.join()


class _Saves:
    """The saves since the last `wait`: of one of `files`, or of a mapping or code table in `trees`."""

    def __init__(self, files: Iterable[Path], trees: Iterable[Path]) -> None:
        self._files, self._trees = {path.resolve() for path in files}, {path.resolve() for path in trees}
        self._saved, self._replaced = threading.Event(), threading.Event()

    def folders(self) -> Iterator[tuple[Path, bool]]:
        """The folders to watch that are there, and whether with the folders in them."""
        yield from ((tree, True) for tree in self._trees if tree.is_dir())
        parents = {path.parent for path in self._files | self._trees} - self._trees
        yield from ((parent, False) for parent in parents if parent.is_dir())

    def note(self, change: str, paths: set[Path]) -> None:
        """Note a change of these paths, if it is a save. A tree that came, went or was renamed counts."""
        if change not in _CHANGES:
            return
        if change != "modified" and paths & self._trees:
            self._replaced.set()
            self._saved.set()
        if any(path in self._files or self._is_of_mappings(path) for path in paths):
            self._saved.set()

    def _is_of_mappings(self, path: Path) -> bool:
        return path.suffix.lower() in _OF_MAPPINGS and any(path.is_relative_to(tree) for tree in self._trees)

    def wait(self) -> bool:
        """Wait for a save. Returns whether the folders have to be watched anew, because one was replaced."""
        self._saved.wait()
        time.sleep(_SETTLES_S)
        self._saved.clear()
        replaced = self._replaced.is_set()
        self._replaced.clear()
        return replaced


def _show(show: Callable[[], object]) -> None:
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        click.clear()
    try:
        show()
    except click.ClickException as error:
        say(error.format_message())
    except LoadsheetError as error:
        say(str(error))
    except OSError as error:  # a file can be missing while it is saved
        say(f"{error.filename}: {error.strerror}")
    sys.stdout.flush()
    if on_terminal:
        say(f"Shown at {datetime.now().astimezone():%H:%M:%S}. Waits for the next save; Ctrl-C ends.")

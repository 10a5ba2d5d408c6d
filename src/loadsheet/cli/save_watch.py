"""Show something again at each save of a file, until Ctrl-C.

Owns: which saves count, and the pause in which an editor completes one.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
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

    saved, own = threading.Event(), {path.resolve() for path in files}
    trees = {path.resolve() for path in folders if path.is_dir()}

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            paths = [Path(os.fsdecode(name)) for name in (event.src_path, event.dest_path) if name]
            if event.event_type in _CHANGES and any(_counts(path, own, trees) for path in paths):
                saved.set()

    observer, handler = Observer(), Handler()
    for tree in trees:
        observer.schedule(handler, str(tree), recursive=True)
    for parent in {path.parent for path in own} - trees:
        observer.schedule(handler, str(parent), recursive=False)
    observer.start()
    try:
        while True:
            _show(show)
            saved.wait()
            time.sleep(_SETTLES_S)
            saved.clear()
    except KeyboardInterrupt:
        return 0
    finally:
        observer.stop()
        observer.join()


def _counts(path: Path, files: set[Path], trees: set[Path]) -> bool:
    return path in files or (path.suffix.lower() in _OF_MAPPINGS and any(path.is_relative_to(tree) for tree in trees))


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

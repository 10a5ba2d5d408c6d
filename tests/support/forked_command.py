"""What workers of the workshop do: a whole `loadsheet` command, in a process forked from one that has done a run already."""

import os

import preloaded

from loadsheet.cli import invoke


def work(task):
    """Run `loadsheet WORDS`; the exit code. With `say`, a file, what the command prints goes there at once."""
    os.environ.update(task.get("environment", {}))
    if "say" in task:
        os.dup2(os.open(task["say"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    return invoke(task["words"])


preloaded.prepare()

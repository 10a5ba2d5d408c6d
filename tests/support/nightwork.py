"""What workers of the workshop do: a whole `loadsheet` command, in a process forked from one that has imported everything."""

import os
from pathlib import Path

import pandas as pd
import structlog

import loadsheet.cli.exchange
import loadsheet.cli.run
import loadsheet.exchange.server
import loadsheet.mapping.expressions
import loadsheet.pipeline
from loadsheet.cli import invoke
from loadsheet.contract import Assumptions
from loadsheet.mapping import load_folder

IMPORTED = (
    loadsheet.cli.run,
    loadsheet.cli.exchange,
    loadsheet.exchange.server,
    loadsheet.pipeline,
    # what a run loads only when it needs it would be loaded again by every worker
    loadsheet.mapping.expressions,
    pd,
    structlog,
)
load_folder(
    Path(__file__).parents[1] / "proofs" / "mappings", Assumptions()
)  # what libraries load once is loaded before the fork


def work(task):
    """Run `loadsheet WORDS`; the exit code. With `say`, a file, what the command prints goes there at once."""
    os.environ.update(task.get("environment", {}))
    if "say" in task:
        os.dup2(os.open(task["say"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    return invoke(task["words"])

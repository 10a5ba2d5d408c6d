"""The real exchange in a process of its own, started as an operator starts it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TOKEN = "token-of-the-tests"


class Serving(NamedTuple):
    """A running exchange: its base URL and its process."""

    url: str
    process: subprocess.Popen


@contextmanager
def exchange(
    database: Path, *, token: str = TOKEN, port: int = 0, wrong_tokens: int = 10, **assumptions: str
) -> Iterator[Serving]:
    """`loadsheet exchange serve` on a loopback port; settings of the register are given by name.

    `wrong_tokens` are 401s a second that need not wait, 0 for all.
    """
    environment = {
        **os.environ,
        "LOADSHEET_TOKEN": token,
        "LOADSHEET_EXCHANGE_WRONG_TOKENS_PER_SECOND": str(wrong_tokens),
        **{f"LOADSHEET_ASSUMPTIONS__{name.upper()}": value for name, value in assumptions.items()},
    }
    words = ["exchange", "serve", "--port", str(port), "--database", f"sqlite:///{database}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "loadsheet", *words], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline().strip()
        assert line.startswith("exchange listening on "), line
        yield Serving(line.rsplit(" ", 1)[1], process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        process.stdout.close()

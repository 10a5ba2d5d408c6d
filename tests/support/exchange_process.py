"""The real exchange in a process of its own, as an operator has it; forked from one that has imported everything."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from command import TOKEN
from command_processes import Child, shared_nursery, until_it_says


class Serving(NamedTuple):
    """A running exchange: its base URL and its process."""

    url: str
    process: Child

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.url.rsplit(":", 1)[1])


@contextmanager
def serving(folder: Path, *words: object, **more: str) -> Iterator[Serving]:
    """`loadsheet exchange serve WORDS` in a folder, on a free port unless the words name one; `more` is its environment."""
    child = starting(folder, *words, **more)
    try:
        yield Serving(until_it_says("listening on", child).rsplit(" ", 1)[1], child)
    finally:
        child.stop()


def starting(folder: Path, *words: object, **more: str) -> Child:
    """The same command, not waited for."""
    return shared_nursery().start(folder, "exchange", "serve", "--port", 0, *words, **more)


def served(database: object, *, host: str = "127.0.0.1"):
    """An exchange on a database, given as its URL or as the path of a SQLite file."""
    url = str(database) if "://" in str(database) else f"sqlite:///{database}"
    return serving(Path(tempfile.gettempdir()), "--database", url, "--host", host)


@contextmanager
def exchange(
    database: Path, *, token: str = TOKEN, port: int = 0, wrong_tokens: int = 10, **assumptions: str
) -> Iterator[Serving]:
    """`loadsheet exchange serve` on a loopback port; settings of the register are given by name.

    `wrong_tokens` are 401s a second that need not wait, 0 for all.
    """
    given = {
        "LOADSHEET_TOKEN": token,
        "LOADSHEET_SERVER__WRONG_TOKENS_PER_SECOND": str(wrong_tokens),
        **{f"LOADSHEET_ASSUMPTIONS__{name.upper()}": value for name, value in assumptions.items()},
    }
    with serving(database.parent, "--port", port, "--database", f"sqlite:///{database}", **given) as running:
        yield running

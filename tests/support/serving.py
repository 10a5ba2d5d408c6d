"""The real exchange in a process of its own, as an operator has it."""

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from command import TOKEN
from nursery import Nursery, nursery, until_it_says


class Serving(NamedTuple):
    """A running exchange: its base URL."""

    url: str


@contextmanager
def exchange(
    database: Path, *, token: str = TOKEN, port: int = 0, wrong_tokens: int = 10, **assumptions: str
) -> Iterator[Serving]:
    """`loadsheet exchange serve` on a loopback port; settings of the register are given by name.

    `wrong_tokens` are 401s a second that need not wait, 0 for all.
    """
    given = {
        "LOADSHEET_TOKEN": token,
        "LOADSHEET_EXCHANGE_WRONG_TOKENS_PER_SECOND": str(wrong_tokens),
        **{f"LOADSHEET_ASSUMPTIONS__{name.upper()}": value for name, value in assumptions.items()},
    }
    words = ["exchange", "serve", "--port", port, "--database", f"sqlite:///{database}"]
    child = _nursery().start(database.parent, *words, **given)
    try:
        yield Serving(until_it_says("listening on", child).rsplit(" ", 1)[1])
    finally:
        child.stop()


@cache
def _nursery() -> Nursery:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(nursery(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loadsheet-")))))

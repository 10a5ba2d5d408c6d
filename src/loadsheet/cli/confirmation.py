"""Questions before what cannot be taken back. Whoever does not agree, or cannot answer, has nothing done and gets exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

_NOTHING_DONE = "not confirmed: nothing was done"


def confirm(question: str) -> None:
    """Go on only with a yes. Raises UsageError for a no and where nobody can answer; Ctrl-C goes through."""
    with _answered():
        if not click.confirm(question, err=True):
            raise click.UsageError(_NOTHING_DONE)


def confirm_by_typing(question: str, expected: str) -> None:
    """Go on only if this very text is typed. Raises what `confirm` raises."""
    with _answered():
        if click.prompt(question, err=True).strip() != expected:
            raise click.UsageError(_NOTHING_DONE)


@contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except click.Abort as ended:  # click has one word for Ctrl-C and for the end of input
        if not isinstance(ended.__context__, EOFError):
            raise
        raise click.UsageError(f"nobody answered, {_NOTHING_DONE}; --yes answers where nobody can") from None

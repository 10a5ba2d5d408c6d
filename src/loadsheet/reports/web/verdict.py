"""A run in a word or two, with the colour that stands beside them: the same on its page and in the index."""

from typing import NamedTuple

CODES = {
    0: "clean",
    1: "needs someone",
    65: "nothing usable",
    70: "a fault of loadsheet",
    75: "stopped early; try again",
    77: "stopped early; token refused",
    78: "settings wrong",
}
"""Exit codes in words."""


class RunVerdict(NamedTuple):
    """The words, and the tone of their colour: good, bad, note or plain."""

    text: str
    tone: str


def run_verdict(*, balances: bool, exit_code: int | None, needing: int, documents: int) -> RunVerdict:
    """The first that is true: it does not balance, it did not get to its end, some documents need someone, something else does (a
    file was set aside), all is well; or nothing came in.
    """
    if not balances:
        return RunVerdict("does not balance", "bad")
    if exit_code is not None and exit_code > 1:
        return RunVerdict(CODES.get(exit_code, f"exit code {exit_code}"), "bad")
    if needing:
        return RunVerdict(f"{needing:,} need{'s' if needing == 1 else ''} someone", "note")
    if exit_code:
        return RunVerdict(CODES[exit_code], "note")
    return RunVerdict("all is well", "good") if documents else RunVerdict("nothing came in", "plain")

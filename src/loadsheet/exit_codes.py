"""Exit codes: their meanings, their order, and the rule that chooses one for a run, a dry run or a check.

A run that an exception stops ends with the code of that exception (see `errors`). Codes follow sysexits.h where it has a fitting one.
"""

from collections.abc import Iterable

DONE = 0
NEEDS_SOMEONE = 1  # also: a comparison found differences
NOTHING_FOUND = NEEDS_SOMEONE  # a command found nothing to show or to decide
WRONG_USAGE = 2
NOTHING_USABLE = 65
INTERNAL_ERROR = 70
TRY_AGAIN = 75
TOKEN_REFUSED = 77
CONFIG_WRONG = 78
INTERRUPTED = 130
TERMINATED = 143

WORK_DONE = frozenset({DONE, NEEDS_SOMEONE, NOTHING_USABLE})
"""A run with one of these codes was successful: it processed the whole inbox; 1 and 65 concern the readers of its reports."""

ROWS_NEED_SOMEONE = frozenset({NEEDS_SOMEONE, NOTHING_USABLE})
"""The codes that `--exit-zero` turns into 0."""

FAILED = frozenset({INTERNAL_ERROR, TRY_AGAIN, TOKEN_REFUSED, CONFIG_WRONG})
"""A run with one of these codes did not do its work."""

WORST_FIRST = (INTERNAL_ERROR, CONFIG_WRONG, TOKEN_REFUSED, TRY_AGAIN, NOTHING_USABLE, NEEDS_SOMEONE)


def exit_code(*, stopped: int | None, lacks_mapping: bool, nothing_usable: bool, needs_someone: bool) -> int:
    """The exit code of a run, a dry run or a check.

    `stopped` is the code of the error that ended it early (None: it did not). `lacks_mapping`: a mapping does not load, or files wait
    for one; this outranks problems with files, but not a failure. `nothing_usable`: there were files, and none had a usable row.
    """
    if stopped is not None:
        code = stopped
    elif nothing_usable:
        code = NOTHING_USABLE
    else:
        code = NEEDS_SOMEONE if needs_someone else DONE
    return CONFIG_WRONG if lacks_mapping and code in WORK_DONE else code


def worst(codes: Iterable[int]) -> int:
    """The worst of several exit codes: the first of `WORST_FIRST` among them, else 0."""
    there = set(codes)
    return next((code for code in WORST_FIRST if code in there), DONE)


def without_rows(code: int) -> int:
    """The exit code under `--exit-zero`: rows that need someone do not count."""
    return DONE if code in ROWS_NEED_SOMEONE else code

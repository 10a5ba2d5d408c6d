"""Faults of our own in what comes beside the work or after it: they are noted, and the run goes on without what they broke.

Owns: where they are caught, and what is said of one: the run's log gets the traceback, people one line. What `LoadsheetError` says is no
fault and goes through.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeVar

from loadsheet.problems import LoadsheetError

_TEXT_MAX = 120

_Done = TypeVar("_Done")


class Fault(Exception):  # noqa: N818 (named for what it is)
    """A fault of our own in `what`; the exception that it came as is its cause."""

    def __init__(self, what: str, cause: Exception) -> None:
        super().__init__(what)
        self.what, self.cause = what, cause


def guarded(what: str, act: Callable[..., _Done], *words: Any, **more: Any) -> _Done:
    """What `act` returns. Raises Fault for a fault of our own in it."""
    try:
        return act(*words, **more)
    except (LoadsheetError, Fault):
        raise
    except Exception as cause:
        raise Fault(what, cause) from cause


@contextmanager
def isolated(what: str, faults: MutableMapping[str, str]) -> Iterator[None]:
    """A fault in this block ends the block only; it is noted, and why in short stands in `faults` under `what`."""
    try:
        yield
    except LoadsheetError:
        raise
    except Exception as cause:  # noqa: BLE001 (whatever it is, the run goes on without what it broke)
        faults[what] = noted(what, cause)


def noted(what: str, cause: Exception) -> str:
    """Write a fault with its traceback into the run's log; returns why in short."""
    from loadsheet import run_log  # noqa: PLC0415 (it loads the settings, which the process that readers come from does without)

    run_log.error(f"{what}: a fault of our own", said=True, exc_info=cause)
    said = run_log.clean(str(cause), _TEXT_MAX)
    return f"{type(cause).__name__}: {said}" if said else type(cause).__name__


def listed(faults: Mapping[str, str]) -> str:
    """What failed, each with why, in one line."""
    return ", ".join(f"{what} ({why})" for what, why in faults.items())

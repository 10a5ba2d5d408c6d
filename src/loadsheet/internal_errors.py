"""Internal errors in optional steps: they are logged, and the run continues without the failed step.

Owns: where they are caught, the exit code of an exception that ends the process, and the signals that ask it to end. The run log gets
the traceback, people get one line. A LoadsheetError is not an internal error and passes through.
"""

import signal
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeVar

from loadsheet import exit_codes
from loadsheet.errors import LoadsheetError

_TEXT_MAX = 120

_Done = TypeVar("_Done")


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM, or when the terminal closes: the command ends as with Ctrl-C."""


def stop_signals() -> list[int]:
    """The signals that ask this process to stop: Ctrl-C, SIGTERM, and its terminal closes. Without those that its parent made it ignore,
    as `nohup` and `&` in a script do.
    """
    known = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    return [number for number in known if signal.getsignal(number) != signal.SIG_IGN]


class InternalError(Exception):
    """An internal error in a step (`what`), with the original exception as its cause."""

    def __init__(self, what: str, cause: Exception) -> None:
        super().__init__(what)
        self.what, self.cause = what, cause


def raising_internal_error(what: str, act: Callable[..., _Done], *words: Any, **more: Any) -> _Done:
    """Call `act` and return its result. Raises InternalError for an internal error in it."""
    try:
        return act(*words, **more)
    except (LoadsheetError, InternalError):
        raise
    except Exception as cause:
        raise InternalError(what, cause) from cause


@contextmanager
def isolated(what: str, faults: MutableMapping[str, str]) -> Iterator[None]:
    """An internal error ends only this block. It is logged, and `faults[what]` gets the short reason."""
    try:
        yield
    except LoadsheetError:
        raise
    except Exception as cause:  # noqa: BLE001 (the run continues without this step)
        faults[what] = log_internal_error(what, cause)


def log_internal_error(what: str, cause: Exception) -> str:
    """Log an internal error with its traceback; returns the short reason."""
    from loadsheet import run_log

    run_log.error(f"{what}: an internal error", printed=True, exc_info=cause)
    message = run_log.clean(str(cause), _TEXT_MAX)
    return f"{type(cause).__name__}: {message}" if message else type(cause).__name__


def failed_steps_text(faults: Mapping[str, str]) -> str:
    """The failed steps with their reasons in one line."""
    return ", ".join(f"{what} ({why})" for what, why in faults.items())


def exit_code_of_error(error: BaseException) -> int:
    """The exit code of the process if this error ends it."""
    if isinstance(error, LoadsheetError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return exit_codes.TERMINATED if isinstance(error, Terminated) else exit_codes.INTERRUPTED
    return exit_codes.INTERNAL_ERROR

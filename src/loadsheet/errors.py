"""The exceptions that end a run, or set a file aside. Bad data is a value, a `Problem`.

Owns: the exception tree, and the exit code of each:

    LoadsheetError                  exit code
    ├── SettingsError               78  settings are wrong; nothing was sent
    ├── MappingError                78  a mapping file is wrong; nothing was sent
    ├── FileRefused                 65  one file cannot be used; a run sets it aside and continues, so only a command about one file ends with it
    ├── ReadersUnavailable          75  no process for reading files can be started
    ├── FolderError                 75  a folder or disk fails; the file stays where it was
    │   └── DiskFault               75  a disk failed to read a file                    (reading.sandbox)
    ├── LedgerError                 70  the ledger is damaged or contradicts itself
    │   ├── LedgerMissing           78  there is no ledger at this place
    │   ├── LedgerForbidden         78  its database user lacks rights                  (ledger.postgres)
    │   ├── LedgerUnwritable        75  its disk is full or read-only
    │   ├── LedgerDiskFailed        75  its disk failed
    │   ├── LedgerGone              75  its server cannot be reached
    │   ├── Superseded              75  another process has taken over
    │   └── NotSettled               1  what is to be erased may still be sent          (ledger.erasure)
    ├── LedgerBusy                  75  another process holds the ledger
    ├── RunKilled                   75  a signal ended the process of a worker's run
    ├── ExchangeUnreachable         75  try again later
    │   ├── ListingNotServed        75  it answers, but gives no listing
    │   └── PageSizeRefused         75  it refuses a listing of this page size
    ├── TokenRefused                77  the exchange answered 401
    ├── NotAllSent                  75  records became ready after sending had ended
    ├── DoesNotBalance              70  the rows read and the rows accounted for differ
    ├── ReportsIncomplete           70  an internal error prevented reports, or the damage checks of a table
    ├── CannotSeal                  65  a capsule that cannot be made                   (run_archive.contents)
    ├── CannotOpen                  65  a capsule that cannot be opened                 (run_archive.contents)
    └── MissingFile                  2  a file of a mapping was not given               (mapping_tools.comparison)
"""

from loadsheet import exit_codes
from loadsheet.problems import Problem


class LoadsheetError(Exception):
    """Stops a run. The message says where, what was found, what was expected and what to do.

    `found` is the message without the advice, `todo` the advice (empty if it is part of `found`).
    """

    exit_code = exit_codes.INTERNAL_ERROR

    def __init__(self, found: str = "", *, todo: str = "") -> None:
        super().__init__(f"{found}; {todo}" if todo else found)
        self.found, self.todo = found, todo


class SettingsError(LoadsheetError):
    """Settings are wrong; nothing was read or sent."""

    exit_code = exit_codes.CONFIG_WRONG


class MappingError(LoadsheetError):
    """A mapping file is wrong; nothing was sent. Carries `file`, `line` and `column` (from 1), if known."""

    exit_code = exit_codes.CONFIG_WRONG

    def __init__(self, text: str, *, file: str = "", line: int = 0, column: int = 0, hint: str = "") -> None:
        place = f"{file}:{line}:{column}: " if line else f"{file}: " if file else ""
        super().__init__(f"{place}{text}" + (f" ({hint})" if hint else ""))
        self.text, self.file, self.line, self.column, self.hint = text, file, line, column, hint


class FileRefused(LoadsheetError):
    """One file cannot be used. It is set aside with `problem` as the reason; the other files continue."""

    exit_code = exit_codes.NOTHING_USABLE

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class ReadersUnavailable(LoadsheetError):
    """No process for reading files can be started. The files stay where they were."""

    exit_code = exit_codes.TRY_AGAIN


class FolderError(LoadsheetError):
    """A file cannot be read, moved or written. It stays where it was."""

    exit_code = exit_codes.TRY_AGAIN


class LedgerError(LoadsheetError):
    """The ledger is damaged, or an impossible change was requested."""

    exit_code = exit_codes.INTERNAL_ERROR


class LedgerMissing(LedgerError):
    """There is no ledger at the place in the settings: no run yet, or a wrong place."""

    exit_code = exit_codes.CONFIG_WRONG


class LedgerUnwritable(LedgerError):
    """The ledger's disk is full or read-only. Recorded data stay valid; nothing more is sent until the ledger can be written."""

    exit_code = exit_codes.TRY_AGAIN


class LedgerDiskFailed(LedgerError):
    """The ledger's disk failed. The write is not retried: the next run checks the whole ledger first."""

    exit_code = exit_codes.TRY_AGAIN


class LedgerGone(LedgerError):
    """The server of the ledger cannot be reached, or closed the connection. Whether the last change is recorded is unknown."""

    exit_code = exit_codes.TRY_AGAIN


class Superseded(LedgerError):
    """Another process has taken over this one's work. The last change was not recorded."""

    exit_code = exit_codes.TRY_AGAIN


class LedgerBusy(LoadsheetError):
    """Another process holds the ledger; the message names it."""

    exit_code = exit_codes.TRY_AGAIN


class RunKilled(LoadsheetError):
    """The process of a worker's run was killed. The next run continues where it ended."""

    exit_code = exit_codes.TRY_AGAIN


class ExchangeUnreachable(LoadsheetError):
    """The exchange cannot be reached. Unsent entries are still ready."""

    exit_code = exit_codes.TRY_AGAIN


class ListingNotServed(ExchangeUnreachable):
    """The exchange answers, but gives us no listing: nothing can be verified, everything else continues."""


class PageSizeRefused(ExchangeUnreachable):
    """The exchange refuses a listing of this page size."""


class TokenRefused(LoadsheetError):
    """The exchange answered 401. Unsent entries are still ready."""

    exit_code = exit_codes.TOKEN_REFUSED


class NotAllSent(LoadsheetError):
    """Records became ready after sending had ended. Nothing is lost: the next run sends them."""

    exit_code = exit_codes.TRY_AGAIN


class DoesNotBalance(LoadsheetError):
    """The rows read and the rows accounted for differ: an internal error."""

    exit_code = exit_codes.INTERNAL_ERROR


class ReportsIncomplete(LoadsheetError):
    """An internal error prevented some reports, or the damage checks of a table. What was sent is recorded, and the ledger is intact."""

    exit_code = exit_codes.INTERNAL_ERROR

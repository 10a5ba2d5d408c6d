"""Refusals of files that cannot be read, with what their senders can do."""

from typing import NamedTuple

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where

SAVE_AS = "open it in the program it comes from and save it as .xlsx or as 'CSV UTF-8'"
OPEN_IN_EXCEL = "open it in Excel or LibreOffice and save it as .xlsx or as 'CSV UTF-8'"
SAVE_AS_XLSX = "save it as .xlsx and send it again"
SEND_TABLE = "send the table itself as .xlsx or CSV"


class RefusedFormat(NamedTuple):
    """A format of files that are refused: what such a file is, and advice to its sender."""

    description: str
    advice: str


def refuse_format(name: str, format_: RefusedFormat) -> FileRefused:
    """The refusal of a file of this format."""
    return file_refusal(name, f"it is {format_.description}", format_.advice)


def file_refusal(name: str, reason: str, hint: str, sheet: str = "") -> FileRefused:
    """The refusal of a file that cannot be read, with the reason and advice."""
    return FileRefused(Problem("R201", Where(name, sheet), "", {"reason": reason}, hint))

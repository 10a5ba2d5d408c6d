"""What can be wrong with making, reading or replaying a capsule.

Owns: the exceptions of the room, each with the exit code of the command line.
"""

from loadsheet.problems import LoadsheetError


class CannotSeal(LoadsheetError):  # noqa: N818 (named for what cannot be done)
    """A run cannot be put into a capsule: something that belongs into it is not there any more."""

    exit_code = 65


class CannotOpen(LoadsheetError):  # noqa: N818 (as above)
    """A file is no capsule that this program can read."""

    exit_code = 65

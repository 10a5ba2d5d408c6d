"""What readers hold a file to: five numbers out of the settings, which a reader's process can be told without knowing the others."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from loadsheet.settings import (
        Settings,  # a reader's process never loads it: it takes longer than all that reads CSV
    )


class Bounds(NamedTuple):
    """Settings of the same names: rows, signs, columns, bytes once unpacked, and lines of one record."""

    blank_rows_max: int
    cell_length_max: int
    columns_max: int
    inflated_bytes_max: int
    record_lines_max: int


def bounds_of(settings: "Settings") -> Bounds:
    """What readers are told of the settings."""
    return Bounds(*(getattr(settings, name) for name in Bounds._fields))

"""The names of runs: their day and a number, 2026-03-04-01. Reports lie in folders of these names, so no name is given twice."""

from collections.abc import Collection

from sqlalchemy import Connection, select

from loadsheet.ledger.schema import runs


def free_name(connection: Connection, day: str, taken: Collection[str]) -> str:
    """The name of the next run of a day, such as 2026-03-04: its number is higher than that of any run of the day that the ledger knows
    or that is among those `taken`. A ledger that was put back from a backup knows less than was reported.
    """
    known = connection.scalars(select(runs.c.name).where(runs.c.name.startswith(f"{day}-")))
    numbers = (name[len(day) + 1 :] for name in (*known, *taken) if name.startswith(f"{day}-"))
    return f"{day}-{max((int(number) for number in numbers if number.isdecimal()), default=0) + 1:02}"

"""A copy of the ledger as it stands, whole and durable, while others may read it.

Owns: how a copy is made. It appears under its name only when it is complete.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from loadsheet.ledger.location import sync_folder
from loadsheet.problems import LedgerUnwritable


def back_up(connection: Connection, target: Path) -> None:
    """Copy the database of a connection to a new file. Raises LedgerUnwritable if it cannot be written; nothing is left then."""
    part = target.with_name(f"{target.name}.part")
    source: Any = connection.connection.dbapi_connection
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT, 0o600))
        with closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
            copy.execute("pragma journal_mode=DELETE")  # one file, to be carried elsewhere
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
        sync_folder(target.parent)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise LedgerUnwritable(
            f"the backup {target} cannot be written ({error}); make room for a copy and run again"
        ) from error

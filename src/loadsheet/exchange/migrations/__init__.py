"""The schema's way from its first version to the present one, as Alembic migrations.

Owns: running them on an open transaction. A migration is never changed once it has run somewhere; a new one is added, and
`store.schema.VERSION` names it.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

_FIRST = "0001"


def upgrade(connection: Connection, *, stamped: bool) -> None:
    """Bring the schema to the present version, within the transaction of the connection.

    `stamped` says whether the database knows its version; the first databases were made before there were migrations.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    if not stamped:
        command.stamp(config, _FIRST)
    command.upgrade(config, "head")

"""The Alembic migrations of the schema, from the first version to the present one.

Owns: running them in an open transaction. A migration never changes after its release: add a new one and name it in
`database.VERSION`.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

_FIRST = "0001"


def upgrade(connection: Connection, *, stamped: bool) -> None:
    """Upgrade the schema to the present version, within the transaction of the connection.

    `stamped`: whether the database stores its version. The first databases predate the migrations.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    if not stamped:
        command.stamp(config, _FIRST)
    command.upgrade(config, "head")

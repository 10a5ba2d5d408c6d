"""The script that Alembic runs: the migrations on the connection from `upgrade`."""

from alembic import context

from loadsheet.exchange.database import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()

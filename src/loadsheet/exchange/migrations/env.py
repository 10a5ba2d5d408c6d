"""What Alembic runs: the migrations on the connection that `upgrade` hands over."""

from alembic import context

from loadsheet.exchange.store.schema import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()

"""The schema's way from its first version to the present one, step by step, with Alembic's operations.

Owns: the steps and their order. A step is never changed once it has run somewhere; a new one is added, and
`schema.SCHEMA_VERSION` counts it. The version itself stands in the ledger's own table `meta`, and changes with each step.
"""

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection

from loadsheet.ledger.migrations import fifth, first, fourth, second, sixth, third

STEPS = {0: first.upgrade, 1: second.upgrade, 2: third.upgrade, 3: fourth.upgrade, 4: fifth.upgrade, 5: sixth.upgrade}
"""Each step by the version that it starts from."""


def step(connection: Connection, version: int) -> None:
    """Bring the schema from this version to the next, within the transaction of the connection. The version row is the caller's."""
    with Operations.context(MigrationContext.configure(connection)):
        STEPS[version]()

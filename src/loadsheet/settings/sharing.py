"""Settings of a ledger that several processes share: where it lies, and how many runs they do."""

from pydantic import BaseModel, Field, NonNegativeInt, PositiveFloat, PositiveInt


class Sharing(BaseModel):
    """Where a shared ledger lies, and how many runs its workers do."""

    database_schema: str = Field(
        "loadsheet",
        pattern=r"^[a-z][a-z0-9_]{0,19}$",
        description="How the schemas of a PostgreSQL ledger are called: NAME, NAME_SHIPPER, and NAME_fleet for what all share",
    )
    takeover_s: PositiveFloat = Field(
        30.0, description="A process that shares the ledger and was not heard of for so long is taken for dead"
    )
    worker_places: PositiveInt = Field(2, description="So many runs a worker does at the same time")
    jobs_days: NonNegativeInt = Field(
        7, description="Days for which finished jobs and workers are kept in the shared tables"
    )


RETIRED = {
    "batch_entries": "a run is done by one process, and nothing of it is handed out",
    "worker_wait_s": "a run waits for no worker",
}
"""Settings of 0.5.0 that do nothing any more, and why. They are taken with a warning until 0.7.0."""

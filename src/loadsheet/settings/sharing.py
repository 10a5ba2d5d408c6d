"""Settings of a ledger that several processes share: where it lies, and how they divide the work."""

from pydantic import BaseModel, Field, NonNegativeInt, PositiveFloat, PositiveInt


class Sharing(BaseModel):
    """Where a shared ledger lies, and how processes divide the work."""

    database_schema: str = Field(
        "loadsheet",
        pattern=r"^[a-z][a-z0-9_]{0,19}$",
        description="How the schemas of a PostgreSQL ledger are called: NAME, NAME_SHIPPER, and NAME_fleet for what all share",
    )
    takeover_s: PositiveFloat = Field(
        30.0, description="A process that shares the ledger and was not heard of for so long is taken for dead"
    )
    batch_entries: PositiveInt = Field(200, description="So many entries at most a worker is handed at once")
    worker_places: PositiveInt = Field(2, description="So many batches of calls a worker has at the same time")
    worker_wait_s: PositiveFloat = Field(
        60.0, description="A run that waits for workers does the work itself if none was heard of for so long"
    )
    jobs_days: NonNegativeInt = Field(
        7, description="Days for which finished jobs and workers are kept in the shared tables"
    )

"""Settings of retention: how long what is kept."""

from pydantic import BaseModel, Field, NonNegativeInt


class Keeping(BaseModel):
    """How long payloads and reports are kept, and how many backups. Originals have `archive_days`, log files `log_days`."""

    payload_days: NonNegativeInt = Field(
        0,
        description="Days for which payloads, cells and answers of settled records are kept in the ledger (0: for ever); hashes, states and totals stay, and so does all that is open",
    )
    reports_days: NonNegativeInt = Field(
        0,
        description="Days for which the reports of a run are kept (0: for ever); those of a run with an open exception stay",
    )
    backups: NonNegativeInt = Field(
        7,
        description="So many daily copies of the ledger are kept in STATE/backups, made after the first run of a day (0: none)",
    )

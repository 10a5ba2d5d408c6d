"""Settings of reconciliation and reports."""

from typing import Literal

from pydantic import BaseModel, Field, NonNegativeFloat, PositiveInt


class Reporting(BaseModel):
    """Tolerances, sizes and languages of reports."""

    weight_tolerance: NonNegativeFloat = Field(0.001, description="Weights and volumes that differ by no more agree")
    money_tolerance: NonNegativeFloat = Field(0.01, description="Amounts of money that differ by no more agree")
    unverified_share_max: float = Field(
        0.1,
        ge=0,
        le=1,
        description=(
            "Exit code 1 if more than this share of the documents cannot be verified because the exchange does not list all records (0 to 1; "
            "1: off)"
        ),
    )
    page_documents_max: PositiveInt = Field(
        300,
        description="So many documents run.html shows one by one, those that need someone first; it counts the others",
    )
    index_runs_max: PositiveInt = Field(100, description="So many runs index.html lists, the newest")

    working_days: str = Field(
        "",
        pattern=r"^([A-Z]{2}(-[A-Z0-9]{1,4})?)?$",
        description="Country (DE, or DE-SN with its part) whose holidays are no working days for the ages of exceptions; empty: Monday to Friday",
    )

    quiet: bool = Field(
        default=False, description="A run that needs nobody says nothing, as schedulers want it; `run --quiet` sets it"
    )
    feedback: Literal["workbook", "csv", "both"] = Field(
        "workbook", description="What senders of text files get back to fix: a workbook, text like theirs, or both"
    )
    fix_rows_max: PositiveInt = Field(
        100_000,
        le=1_000_000,
        description="Of a text file, a fix workbook takes so many rows; further records go into text files beside it",
    )
    language: Literal["en", "de"] = Field(
        "en", description="Language of fix workbooks, where the mapping does not tell that of the sheet"
    )

"""Settings of reading: limits of a file, and of the process that reads it."""

from typing import Literal

from pydantic import BaseModel, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class Reading(BaseModel):
    """Limits of a file, and of the process that reads it."""

    cell_length_max: PositiveInt = Field(32_767, description="Longest cell that is read, in characters")
    record_lines_max: PositiveInt = Field(
        100, description="A quoted value of a text file runs over so many lines at most"
    )
    columns_max: PositiveInt = Field(2_000, description="Most columns that are read of a sheet")
    blank_rows_max: PositiveInt = Field(1_000, description="Reading a sheet ends after so many blank rows in a row")
    reading_process: Literal["child", "none"] = Field(
        "child", description="Files are read in a process of their own, or (for debugging) in ours: child or none"
    )
    reading_memory_mb: PositiveInt = Field(1_024, description="Reading one file may take so much memory")
    reading_cpu_s: PositiveFloat = Field(60.0, description="One pass over a file may take so much computing time ...")
    reading_wall_s: PositiveFloat = Field(300.0, description="... its reader may give no answer for so long ...")
    reading_s_per_mb: NonNegativeFloat = Field(5.0, description="... and both limits grow so much with each MB of it")
    inflated_bytes_max: PositiveInt = Field(2_000_000_000, description="A workbook may unpack to this size at most")
    dates_years_back: NonNegativeInt = Field(
        10, description="Dates and times of records that lie more years before the run are pointed out; 0: none"
    )
    dates_years_ahead: NonNegativeInt = Field(5, description="... and those that lie more years after it; 0: none")
    parts_bytes_min: PositiveInt = Field(
        16_000_000,
        description="Text files of one drop with so many bytes together are translated by processes of their own ...",
    )
    translation_processes: NonNegativeInt = Field(
        0,
        description="... so many with the one that plans; 0: one for each core, 4 at most; 1: all is done in that one",
    )

"""Translation of the files of one drop: in this process, or in parts by several processes on this machine.

Several processes are used for a big file when a core is free (`parts`). `row_counts` counts the rows that were read. The documents
and their order are the same either way. Knows no ledger.
"""

from loadsheet.translation.parts import (
    PartFile,
    PartJob,
    PartProcesses,
    PartsLost,
    extra_processes,
    part_jobs,
    should_split,
)
from loadsheet.translation.row_counts import OneProcess, with_counting_tables

__all__ = [
    "OneProcess",
    "PartFile",
    "PartJob",
    "PartProcesses",
    "PartsLost",
    "extra_processes",
    "part_jobs",
    "should_split",
    "with_counting_tables",
]

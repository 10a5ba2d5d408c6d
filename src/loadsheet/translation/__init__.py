"""Translation of the files of one drop: in this process, or in parts by several processes on this machine.

Several processes are used for a big file when a core is free. `parts` describes the parts and merges their results, `processes` runs
them, `row_counts` counts the rows that were read. The documents and their order are the same either way. Knows no ledger.
"""

from loadsheet.translation.parts import (
    PartFile,
    PartJob,
    PartsLost,
    Translated,
    extra_processes,
    in_one_process,
    part_jobs,
    should_split,
)
from loadsheet.translation.processes import PartProcesses
from loadsheet.translation.row_counts import CountedTables

__all__ = [
    "CountedTables",
    "PartFile",
    "PartJob",
    "PartProcesses",
    "PartsLost",
    "Translated",
    "extra_processes",
    "in_one_process",
    "part_jobs",
    "should_split",
]

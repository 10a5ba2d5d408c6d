"""Translation of a drop: by this process alone or, where a file is big and a second core is free, in parts by several.

`watching` counts the rows that reading gives, apart from the mapping; `parts` is one part, and what parts come to together; `children` has them translated by processes of this machine. Rows go in and documents come out, the same ones in the same
order whoever made them. Knows no ledger: what a part came to comes through a pipe.
"""

from loadsheet.translation.parts import (
    Order,
    PartsLost,
    Source,
    Translated,
    alone,
    helpers,
    is_worth_it,
    orders,
)
from loadsheet.translation.processes import Children
from loadsheet.translation.row_counts import Watched

__all__ = [
    "Children",
    "Order",
    "PartsLost",
    "Source",
    "Translated",
    "Watched",
    "alone",
    "helpers",
    "is_worth_it",
    "orders",
]

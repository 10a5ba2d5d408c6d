"""Translation of a drop: by this process alone or, where a file is big and a second core is free, in parts by several.

`watching` counts the rows that reading gives, apart from the mapping; `parts` is one part, wherever it is translated, and what parts come
to together; `children` has them translated by processes of this machine. Rows go in and documents come out, the same ones in the same
order whoever made them. Knows no ledger: what a part came to is carried by its caller, or by a pipe.
"""

from loadsheet.translation.children import Children
from loadsheet.translation.parts import (
    Order,
    PartsLost,
    Source,
    Translated,
    alone,
    carry_out,
    helpers,
    is_worth_it,
    orders,
    staged,
)
from loadsheet.translation.watching import Watched

__all__ = [
    "Children",
    "Order",
    "PartsLost",
    "Source",
    "Translated",
    "Watched",
    "alone",
    "carry_out",
    "helpers",
    "is_worth_it",
    "orders",
    "staged",
]

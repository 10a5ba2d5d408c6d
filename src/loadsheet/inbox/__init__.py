"""Stage 1: the inbox. Finds finished files, claims each exactly once by renaming it, archives it, or sets it aside with a reason.

A file lies in one place at any time: the inbox, the state folder (`work`, by run) while it is used, then its `archive`, or
`outbox/RUN/set-aside/`. A run that was killed leaves its claims in the work area; the next one finds them there. Names are
data: what could hurt a path or a terminal is written as %XX. Knows nothing of what is in a file.
"""

from loadsheet.inbox.claiming import InboxFile, claim, give_back, is_unchanged
from loadsheet.inbox.keeping import archive, archived_before, found_again, purge, set_aside
from loadsheet.inbox.looking import Candidate, Scan, glance, peek, scan, strays
from loadsheet.inbox.names import shown_name

__all__ = [
    "Candidate",
    "InboxFile",
    "Scan",
    "archive",
    "archived_before",
    "claim",
    "found_again",
    "give_back",
    "glance",
    "is_unchanged",
    "peek",
    "purge",
    "scan",
    "set_aside",
    "shown_name",
    "strays",
]

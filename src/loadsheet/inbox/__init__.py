"""Stage 1: the inbox. Finds finished files, claims each exactly once by renaming it, archives it, or sets it aside with a reason.

A file is always in one place: the inbox, the state folder (`work`, by run) while a run uses it, then the archive or
`outbox/RUN/set-aside/`. A killed run leaves its claims in the work area, where the next run finds them. An inbox in an object
store works the same, with claims in the ledger instead of renames, and a local copy. File names are data: characters that
could harm a path or a terminal are written as %XX. This package does not read the content of files.
"""

from loadsheet.inbox.archive_folder import (
    archive,
    find_archived_copy,
    find_moved,
    move_archive_mark,
    purge,
    remove,
    set_aside,
)
from loadsheet.inbox.claims import (
    SINGLE_PROCESS,
    Candidate,
    Claims,
    InboxFile,
    claim,
    give_back,
    in_place,
    is_unchanged,
    remove_fetched,
    restore_claim,
)
from loadsheet.inbox.files import remove_empty_folders, shown_name
from loadsheet.inbox.scanner import Scan, fetch_objects, files_outside, peek, quick_scan, scan
from loadsheet.inbox.sightings import check_inbox, make_inbox

__all__ = [
    "SINGLE_PROCESS",
    "Candidate",
    "Claims",
    "InboxFile",
    "Scan",
    "archive",
    "check_inbox",
    "claim",
    "fetch_objects",
    "files_outside",
    "find_archived_copy",
    "find_moved",
    "give_back",
    "in_place",
    "is_unchanged",
    "make_inbox",
    "move_archive_mark",
    "peek",
    "purge",
    "quick_scan",
    "remove",
    "remove_empty_folders",
    "remove_fetched",
    "restore_claim",
    "scan",
    "set_aside",
    "shown_name",
]

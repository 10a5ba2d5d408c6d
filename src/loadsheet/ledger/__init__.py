"""Stage 4: the ledger. A durable record of every file, document and attempt.

Stages before it never touch the network. Stages after it never touch the source files. Only this package contains SQL.
Open a ledger with `open_ledger` or `read_ledger`, change it with `Ledger`, read it with `Ledger.queries`.
"""

from loadsheet.ledger.codec import Clock, utc_now
from loadsheet.ledger.decisions import Choice, first_broken_decision
from loadsheet.ledger.exception_status import ExceptionStatus, Remark, WorkbookRead
from loadsheet.ledger.ledger_opening import OpenOptions, open_ledger, read_ledger
from loadsheet.ledger.models import (
    AT_EXCHANGE,
    FINAL,
    STATES_THAT_NEED_SOMEONE,
    TRANSITIONS,
    Attempt,
    Drop,
    Entry,
    EntryHead,
    IgnoredRow,
    ListingFinding,
    Origin,
    Run,
    Settlement,
    SourceFile,
    SourceTable,
    State,
    Waits,
)
from loadsheet.ledger.queue import Submission
from loadsheet.ledger.recording import PlanningRules, ReadTotals
from loadsheet.ledger.run_queries import MissingRecords, reported_by
from loadsheet.ledger.store import Ledger
from loadsheet.mapping.documents import ColumnGuide

__all__ = [
    "AT_EXCHANGE",
    "FINAL",
    "STATES_THAT_NEED_SOMEONE",
    "TRANSITIONS",
    "Attempt",
    "Choice",
    "Clock",
    "ColumnGuide",
    "Drop",
    "Entry",
    "EntryHead",
    "ExceptionStatus",
    "IgnoredRow",
    "Ledger",
    "ListingFinding",
    "MissingRecords",
    "OpenOptions",
    "Origin",
    "PlanningRules",
    "ReadTotals",
    "Remark",
    "Run",
    "Settlement",
    "SourceFile",
    "SourceTable",
    "State",
    "Submission",
    "Waits",
    "WorkbookRead",
    "first_broken_decision",
    "open_ledger",
    "read_ledger",
    "reported_by",
    "utc_now",
]

"""The Tender and Order Exchange interface, declared once: records, operations, answers, and the register of assumptions.

Read `records.py`, then `operations.py`. Owns every field name of the interface; knows no file, no network and no database.
"""

from loadsheet.contract.answers import (
    PAGE_SIZE,
    UNAUTHORISED,
    UNKNOWN_METHOD,
    Fault,
    Listing,
    Receipt,
    UndocumentedAnswer,
    as_listed,
    listing,
    read_listing,
    read_refusal,
    read_success,
    refusal,
    success,
)
from loadsheet.contract.assumptions import Assumption, Assumptions, register
from loadsheet.contract.checking import Checker, body_checker, check, check_body, checker, model
from loadsheet.contract.kinds import DATE_SHAPES, EXPECTED, FlagForm, Kind, NumberForm, plain, spell
from loadsheet.contract.operations import (
    BY_NAME,
    OPERATIONS,
    PATH_PREFIX,
    SENDING_ORDER,
    WRITES,
    Action,
    Answer,
    ErrorShape,
    Operation,
)
from loadsheet.contract.records import Field, Record, When
from loadsheet.contract.states import order_change, tender_change

__all__ = [
    "BY_NAME",
    "DATE_SHAPES",
    "EXPECTED",
    "OPERATIONS",
    "PAGE_SIZE",
    "PATH_PREFIX",
    "SENDING_ORDER",
    "UNAUTHORISED",
    "UNKNOWN_METHOD",
    "WRITES",
    "Action",
    "Answer",
    "Assumption",
    "Assumptions",
    "Checker",
    "ErrorShape",
    "Fault",
    "Field",
    "FlagForm",
    "Kind",
    "Listing",
    "NumberForm",
    "Operation",
    "Receipt",
    "Record",
    "UndocumentedAnswer",
    "When",
    "as_listed",
    "body_checker",
    "check",
    "check_body",
    "checker",
    "listing",
    "model",
    "order_change",
    "plain",
    "read_listing",
    "read_refusal",
    "read_success",
    "refusal",
    "register",
    "spell",
    "success",
    "tender_change",
]

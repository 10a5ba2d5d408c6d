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
from loadsheet.contract.comparing import EXACT, Difference, Tolerances, different_fields
from loadsheet.contract.kinds import DATE_SHAPES, EXPECTED, FlagForm, Kind, NumberForm, plain, spell
from loadsheet.contract.measures import MEASURES, Measure, Scale, amounts, measures_of, scale_of
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
    listed_subject,
)
from loadsheet.contract.records import Field, Record, When
from loadsheet.contract.states import order_change, tender_change

__all__ = [
    "BY_NAME",
    "DATE_SHAPES",
    "EXACT",
    "EXPECTED",
    "MEASURES",
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
    "Difference",
    "ErrorShape",
    "Fault",
    "Field",
    "FlagForm",
    "Kind",
    "Listing",
    "Measure",
    "NumberForm",
    "Operation",
    "Receipt",
    "Record",
    "Scale",
    "Tolerances",
    "UndocumentedAnswer",
    "When",
    "amounts",
    "as_listed",
    "body_checker",
    "check",
    "check_body",
    "checker",
    "different_fields",
    "listed_subject",
    "listing",
    "measures_of",
    "model",
    "order_change",
    "plain",
    "read_listing",
    "read_refusal",
    "read_success",
    "refusal",
    "register",
    "scale_of",
    "spell",
    "success",
    "tender_change",
]

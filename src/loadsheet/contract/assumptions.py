"""The register of assumptions: every point that the interface leaves open, our default, and the setting that changes it.

Owns: the questions and the defaults. `Assumptions` is the model of the settable ones (`[assumptions]` in loadsheet.toml,
`LOADSHEET_ASSUMPTIONS__NAME` in the environment); `register()` lists all of them, settable or not. Translator and exchange
read the same model, so a sandbox behaves as the translator expects. Each entry names its section of the interface.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt
from pydantic.fields import FieldInfo

from loadsheet.contract.kinds import FlagForm

Affects = Literal["exchange", "translator", "both"]


@dataclass(frozen=True, slots=True)
class OpenPoint:
    """An open point: its section of the interface, the question, and whom the answer affects."""

    section: str
    question: str
    affects: Affects = "exchange"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One line of the register. `setting` is empty if only one behaviour exists."""

    section: str
    question: str
    default: str
    choices: str
    setting: str
    affects: Affects


class Assumptions(BaseModel):
    """Our settable answers to the open points, in the order of the interface."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number_forms: Annotated[
        Literal["declared", "both"],
        OpenPoint(
            "Conventions",
            "Are numbers accepted as JSON strings and as JSON numbers, or only in the form of the interface's samples? We always send "
            "that form: numbers in order payloads, strings in all others.",
        ),
    ] = "both"
    flag_form: Annotated[
        FlagForm, OpenPoint("Conventions", "Which of the two flag forms do we send? Both are accepted.", "translator")
    ] = FlagForm.YES_NO
    offset_hours_form: Annotated[
        Literal["decimal", "clock"],
        OpenPoint("Tender, Order", "How is an offset in hours written: 5.5 or +05:30?", "translator"),
    ] = "decimal"
    text_length_max: Annotated[
        PositiveInt, OpenPoint("Conventions", "Maximum length of identifier and text fields, in characters")
    ] = 4000
    known_values: Annotated[
        Literal["open", "closed"],
        OpenPoint(
            "Package, Order",
            "Are the values named in descriptions (package kinds, modes, units) the only ones allowed?",
            "both",
        ),
    ] = "open"
    timezones: Annotated[
        Literal["iana", "any"], OpenPoint("Tender, Order", "Which zone names does a Timezone field accept?", "both")
    ] = "iana"
    empty_required: Annotated[
        Literal["accept", "reject"], OpenPoint("Resources", "Does an empty text satisfy a required field?", "both")
    ] = "accept"
    null_fields: Annotated[
        Literal["reject", "absent"], OpenPoint("Resources", "Is a JSON null refused, or read as an absent field?")
    ] = "reject"
    unknown_fields: Annotated[
        Literal["reject", "ignore"],
        OpenPoint("Resources", "Is a field that the interface does not name refused or ignored?"),
    ] = "reject"
    listing_only_fields: Annotated[
        Literal["reject", "accept"],
        OpenPoint("Tender", "Do create and update accept the fields shown only in the tender listing?", "both"),
    ] = "reject"
    history_description: Annotated[
        Literal["status_description", "status-description"],
        OpenPoint(
            "Order status update",
            "Which spelling of the history description do we send? Both are accepted.",
            "translator",
        ),
    ] = "status_description"
    status_sets_order_status: Annotated[
        Literal["off", "code", "name"],
        OpenPoint(
            "States and transitions", "Does a status update change order_status of its order, and from which field?"
        ),
    ] = "off"
    accept_sets_tender_status: Annotated[
        str, OpenPoint("States and transitions", "Which tender_status does an accepted quote set (empty: unchanged)?")
    ] = ""
    tender_listing_query: Annotated[
        str,
        OpenPoint(
            "Endpoints",
            "Tender and order listing share one path: which query asks for tenders (empty: none)?",
            "both",
        ),
    ] = "record=tender"
    plain_listing: Annotated[
        Literal["orders", "tenders"],
        OpenPoint("Endpoints", "Which records does the listing return without that query?", "both"),
    ] = "orders"
    page_size_in: Annotated[
        Literal["query", "body", "both"],
        OpenPoint(
            "Get tenders and Get orders",
            "Where do we send page_size? The exchange reads both, the query first.",
            "translator",
        ),
    ] = "query"
    page_size_default: Annotated[PositiveInt, OpenPoint("Limits", "Default page_size")] = 100
    page_size_max: Annotated[
        NonNegativeInt,
        OpenPoint(
            "Limits",
            "Maximum page_size (0: none)? Our exchange reduces a larger page_size to it. The translator never asks for more; with 0 "
            "it asks for total_count records.",
            "both",
        ),
    ] = 0
    customer_order_key: Annotated[
        str, OpenPoint("Create order", "CUSTOMER_ORDER is a placeholder: what is the key's real name?", "both")
    ] = "CUSTOMER_ORDER"
    service_order_key: Annotated[
        str, OpenPoint("Create order", "SERVICE_ORDER is a placeholder: what is the key's real name?", "both")
    ] = "SERVICE_ORDER"
    create_existing: Annotated[
        Literal["reject", "replace", "accept"],
        OpenPoint("Errors", "A create for an existing identifier: 400, replace the record, or 200 without effect?"),
    ] = "reject"
    update_unknown: Annotated[
        Literal["reject", "replace", "accept"],
        OpenPoint("Errors", "An update for an unknown identifier: 400, store a new record, or 200 without effect?"),
    ] = "reject"
    delete_unknown: Annotated[
        Literal["reject", "accept"],
        OpenPoint("Errors", "A delete for an unknown identifier: 400, or 200 without effect?"),
    ] = "reject"
    quote_unknown: Annotated[
        Literal["reject", "accept"], OpenPoint("Errors", "A quote for an unknown tender: 400, or stored anyway?")
    ] = "reject"
    quote_existing: Annotated[
        Literal["replace", "reject"],
        OpenPoint("Tender carrier quote", "A second quote by a carrier for a tender: replace the first, or 400?"),
    ] = "replace"
    quote_by: Annotated[
        Literal["parties", "involved", "any"],
        OpenPoint(
            "Tender carrier quote",
            "Who may quote a tender with a party's token? involved: its receiver and the carriers that it names (the company equals "
            "the token's party), each for itself. any: every party, for itself. parties: its sender and receiver, for every carrier.",
        ),
    ] = "involved"
    confirm_unknown: Annotated[
        Literal["reject", "accept"],
        OpenPoint("Errors", "A confirmation without a quote: 400, or stored anyway?"),
    ] = "reject"
    confirm_by: Annotated[
        Literal["sender", "parties"],
        OpenPoint(
            "Tender confirm carrier quote", "Who decides on quotes: only the tender's sender, or also its receiver?"
        ),
    ] = "sender"
    confirm_decided: Annotated[
        Literal["same", "reject", "replace"],
        OpenPoint(
            "States and transitions",
            "A second decision on a quote? same: 200 without effect if it is the same, 400 if it is the opposite. reject: always 400. "
            "replace: the later decision replaces the earlier.",
        ),
    ] = "same"
    decision_words: Annotated[
        Literal["closed", "open"],
        OpenPoint(
            "Quote confirmation",
            "Is a status other than accept and reject refused, or does it count as a rejection?",
            "both",
        ),
    ] = "closed"
    quote_accepted: Annotated[
        Literal["reject", "replace"],
        OpenPoint(
            "States and transitions",
            "A new quote by a carrier whose quote was accepted: 400, or replace the accepted one with an undecided one? After a "
            "rejection a new quote is always undecided.",
        ),
    ] = "reject"
    status_unknown: Annotated[
        Literal["reject", "accept"], OpenPoint("Errors", "A status update for an unknown order: 400, or stored anyway?")
    ] = "reject"
    status_on_400: Annotated[
        Literal["prove", "atomic", "partial"],
        OpenPoint(
            "Order status update",
            "After a 400 for some records: were all the others applied (partial), or none (atomic)? prove: unknown, so they are sent "
            "once more and reported as possible duplicates; our exchange is then atomic.",
            "both",
        ),
    ] = "prove"
    status_index_base: Annotated[
        Literal["prove", 0, 1],
        OpenPoint(
            "Errors",
            "Does data[<index>] count from 0 or from 1? prove: an error counts against a record only if the answer proves its index; "
            "our exchange then counts from 0.",
            "both",
        ),
    ] = "prove"
    unknown_path: Annotated[Literal[405, 404], OpenPoint("Errors", "Which status answers an unknown path?")] = 405
    calls_per_second: Annotated[
        NonNegativeInt,
        OpenPoint("Limits", "Rate limit that the translator respects, in calls per second (0: none)", "translator"),
    ] = 0
    body_bytes_max: Annotated[
        PositiveInt,
        OpenPoint(
            "Limits",
            "Maximum request body, in bytes; a larger one is answered 400; also the size of our batches",
            "both",
        ),
    ] = 8_000_000
    array_length_max: Annotated[PositiveInt, OpenPoint("Limits", "Maximum length of any array in a record")] = 10_000
    status_records_max: Annotated[
        PositiveInt,
        OpenPoint("Limits", "Maximum number of records in one status update; also the size of our batches", "both"),
    ] = 200

    @property
    def index_base(self) -> Literal[0, 1]:
        """The first index of data[<index>] at our own exchange."""
        return 0 if self.status_index_base == "prove" else self.status_index_base


_FIXED = (
    Assumption("Conventions", "Allowed values of tender_type, tender_status and order_status", "any text", "", "", "both"),
    Assumption("Package", "The type of stackable in a tender package (Numeric in one place)", "a string flag, as in the samples", "", "", "both"),
    Assumption("Carrier", "The type of pincode (Numeric in the summary, a string in samples)", "both accepted, a string sent", "", "", "both"),
    Assumption("Order", "How many packages an order must have ('per package rules')", "0 or more", "", "", "both"),
    Assumption("Order status update", "Form of the numeric totals and history quantity", "both accepted, strings sent, as in the sample", "", "assumptions.number_forms", "both"),
    Assumption("Conventions", "Whether the number 7 and the text 7 are one identifier", "yes; 07 is another", "", "", "both"),
    Assumption("Conventions", "How a body is encoded", "JSON in UTF-8 without a byte order mark, and each name once in an object; Content-Type and Content-Encoding are not examined", "", "", "exchange"),
    Assumption("Carrier quote", "Which forms of ISO 8601 response_datetime has", "2026-03-01T08:00:00Z is sent; accepted are also fractions of a second, no seconds, an offset such as +01:00, and no zone", "", "", "both"),
    Assumption("Get tenders and Get orders", "What answers a page_size that is not a whole number of 1 or more", "400 in the shape of a create, and it names page_size", "", "", "exchange"),
    Assumption("Tender", "What the fields shown only in the tender listing hold", "what create or update gave, otherwise empty texts, and in package_count the number of packages", "", "", "exchange"),
    Assumption("Get tenders and Get orders", "How to request another page", "not possible: only the first page", "", "", "both"),
    Assumption("States and transitions", "Whether several quotes of one tender may be accepted", "yes: each quote is decided separately", "", "", "exchange"),
    Assumption("Create order", "What data.order_id.customer_id and carrier_id hold", "sender_id and receiver_id", "", "", "exchange"),
    Assumption("Authentication", "How a token is obtained, its lifetime and its scopes", "from environment, file or command", "", "token, token_file", "both"),
    Assumption("Events", "Events, callbacks or notifications", "none", "", "", "both"),
    Assumption("Errors", "The exact texts of messages", "our own fixed sentences", "", "", "exchange"),
    Assumption("Errors", "How a wrong field inside a list is named", "packages[0].item_name, counted from 0", "", "", "both"),
    Assumption("Errors", "When 405 is answered", "any known path with another method", "", "assumptions.unknown_path", "exchange"),
    Assumption("Conventions", "How large a number and how deep a nesting of JSON may be, and how many values a body may hold", "100 digits with a fraction or an exponent (which ends at 100 too), 4300 of a whole number, 64 levels, 200000 values; beyond that 400", "", "", "exchange"),
    Assumption("Update tender, Update order", "Whether an update may name another sender or receiver", "no: 400, but for an operator's token", "", "", "exchange"),
    Assumption("Update tender, Update order", "What happens to a field that an update does not name", "it stays as it is; an empty text clears a text; a list is replaced as a whole", "", "", "both"),
    Assumption("States and transitions", "What two updates of one record at the same time leave", "each sets its own fields, one update after the other: changes of different fields both stay, of one field (an array is one) the later stays; no version is needed", "", "", "exchange"),
    Assumption("Authentication", "How often an address may try tokens that are not authorised", "for each address and each such token: 401 at once up to the set number per second, then with a growing delay, then 429", "", "server.wrong_tokens_per_second", "exchange"),
    Assumption("Errors", "What 425 and 429 mean", "nothing happened: the same call is sent again after Retry-After; our exchange never answers 425", "", "", "both"),
    Assumption("Errors", "Status codes other than 200, 400, 401 and 405", "429 beyond a limit of calls, connections, large pages or wrong tokens, 503 while the store cannot write; any other status means an unknown outcome", "", "", "both"),
    Assumption("Versioning", "Versioning scheme", "none; paths carry no version", "", "", "both"),
    Assumption("Endpoints", "Whether a repeated request is recognised (no idempotency key is shown)", "no: a call with an unknown outcome is not repeated without verification", "", "", "translator"),
)  # fmt: skip


def register() -> tuple[Assumption, ...]:
    """Every open point of the interface, settable ones first, each with default, choices and setting."""
    settable = (_entry(name, info) for name, info in Assumptions.model_fields.items())
    return (*settable, *_FIXED)


def _entry(name: str, info: FieldInfo) -> Assumption:
    point = next(item for item in info.metadata if isinstance(item, OpenPoint))
    default = info.default.value if isinstance(info.default, FlagForm) else info.default
    return Assumption(
        point.section, point.question, str(default) or "(empty)", _choices(info), f"assumptions.{name}", point.affects
    )


def _choices(info: FieldInfo) -> str:
    if get_origin(info.annotation) is Literal:
        return " | ".join(str(choice) for choice in get_args(info.annotation))
    if info.annotation is FlagForm:
        return " | ".join(form.value for form in FlagForm)
    return "a text" if info.annotation is str else "a number"

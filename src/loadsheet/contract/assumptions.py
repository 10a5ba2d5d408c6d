"""The register of assumptions: every point the interface leaves open, what we do by default, and the setting that changes it.

Owns: the questions and the defaults. `Assumptions` is the model of the settable ones (`[assumptions]` in loadsheet.toml,
`LOADSHEET_ASSUMPTIONS__NAME` in the environment); `register()` lists all of them, settable or not. Translator and exchange
read the same model, so a sandbox behaves as the translator expects. Interface sections are named in each entry.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt
from pydantic.fields import FieldInfo

from loadsheet.contract.kinds import FlagForm

Affects = Literal["exchange", "translator", "both"]


@dataclass(frozen=True, slots=True)
class Open:
    """An open point: where the interface leaves it open, the question, and whom the answer affects."""

    section: str
    question: str
    affects: Affects = "exchange"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One line of the register. `setting` is empty where only one behaviour is built."""

    section: str
    question: str
    default: str
    choices: str
    setting: str
    affects: Affects


class Assumptions(BaseModel):
    """Our settable answers to what the interface does not show. Field order is the order of the interface."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number_forms: Annotated[
        Literal["declared", "both"],
        Open(
            "Conventions",
            "Are numbers accepted as JSON strings and as JSON numbers, or only in the form of the interface's samples? Sent is always "
            "that form: order payloads numbers, all others strings",
        ),
    ] = "both"
    flag_form: Annotated[
        FlagForm, Open("Conventions", "Which of the two flag forms is sent? Both are accepted.", "translator")
    ] = FlagForm.YES_NO
    offset_hours_form: Annotated[
        Literal["decimal", "clock"],
        Open("Tender, Order", "How is an offset in hours written: 5.5 or +05:30?", "translator"),
    ] = "decimal"
    text_length_max: Annotated[
        PositiveInt, Open("Conventions", "Maximum length of identifier and text fields, in characters")
    ] = 4000
    known_values: Annotated[
        Literal["open", "closed"],
        Open(
            "Package, Order",
            "Are the values named in descriptions (package kinds, modes, units) the only ones allowed?",
            "both",
        ),
    ] = "open"
    timezones: Annotated[
        Literal["iana", "any"], Open("Tender, Order", "Which zone names does a Timezone field take?", "both")
    ] = "iana"
    empty_required: Annotated[
        Literal["accept", "reject"], Open("Resources", "Does an empty text satisfy a required field?", "both")
    ] = "accept"
    null_fields: Annotated[
        Literal["reject", "absent"], Open("Resources", "Is a JSON null refused, or read as an absent field?")
    ] = "reject"
    unknown_fields: Annotated[
        Literal["reject", "ignore"],
        Open("Resources", "Is a field that the interface does not name refused or ignored?"),
    ] = "reject"
    listing_only_fields: Annotated[
        Literal["reject", "accept"],
        Open("Tender", "Do create and update accept the fields shown only in the tender listing?", "both"),
    ] = "reject"
    history_description: Annotated[
        Literal["status_description", "status-description"],
        Open(
            "Order status update", "Which spelling of the history description is sent? Both are accepted.", "translator"
        ),
    ] = "status_description"
    status_sets_order_status: Annotated[
        Literal["off", "code", "name"],
        Open("States and transitions", "Does a status update change order_status of its order, and from which field?"),
    ] = "off"
    accept_sets_tender_status: Annotated[
        str, Open("States and transitions", "What tender_status becomes when a quote is accepted (empty: unchanged)")
    ] = ""
    tender_listing_query: Annotated[
        str,
        Open(
            "Endpoints",
            "Tender and order listing share one path: which query asks for tenders (empty: none does)?",
            "both",
        ),
    ] = "record=tender"
    plain_listing: Annotated[
        Literal["orders", "tenders"],
        Open("Endpoints", "Which records does the listing return without that query?", "both"),
    ] = "orders"
    page_size_in: Annotated[
        Literal["query", "body", "both"],
        Open(
            "Get tenders and Get orders",
            "Where is page_size sent? The exchange reads both, the query first.",
            "translator",
        ),
    ] = "query"
    page_size_default: Annotated[PositiveInt, Open("Limits", "page_size when none is given")] = 100
    page_size_max: Annotated[
        NonNegativeInt,
        Open(
            "Limits",
            "Maximum page_size (0: none)? Our exchange cuts a larger one to it; the translator asks for no more than that, and with 0 "
            "for as many records as total_count says",
            "both",
        ),
    ] = 0
    customer_order_key: Annotated[
        str, Open("Create order", "CUSTOMER_ORDER is a neutral rendering: the key's real name", "both")
    ] = "CUSTOMER_ORDER"
    service_order_key: Annotated[
        str, Open("Create order", "SERVICE_ORDER is a neutral rendering: the key's real name", "both")
    ] = "SERVICE_ORDER"
    create_existing: Annotated[
        Literal["reject", "replace", "accept"],
        Open("Errors", "A create for an identifier that exists: 400, replaced, or answered 200 and left as it is?"),
    ] = "reject"
    update_unknown: Annotated[
        Literal["reject", "replace", "accept"],
        Open("Errors", "An update for an unknown identifier: 400, stored as new, or answered 200 without effect?"),
    ] = "reject"
    delete_unknown: Annotated[
        Literal["reject", "accept"], Open("Errors", "A delete for an unknown identifier: 400, or 200 without effect?")
    ] = "reject"
    quote_unknown: Annotated[
        Literal["reject", "accept"], Open("Errors", "A quote for an unknown tender: 400, or kept all the same?")
    ] = "reject"
    quote_existing: Annotated[
        Literal["replace", "reject"],
        Open("Tender carrier quote", "A second quote of one carrier for one tender: replaces the first or 400?"),
    ] = "replace"
    quote_by: Annotated[
        Literal["parties", "involved", "any"],
        Open(
            "Tender carrier quote",
            "Who may quote a tender with a party's token: its receiver and the carriers that it names (by company, equal to the "
            "token's party), each only for itself; anybody, only for itself; or the tender's sender and receiver, for every carrier?",
        ),
    ] = "involved"
    confirm_unknown: Annotated[
        Literal["reject", "accept"],
        Open("Errors", "A confirmation of a quote that was never given: 400, or kept all the same?"),
    ] = "reject"
    confirm_by: Annotated[
        Literal["sender", "parties"],
        Open("Tender confirm carrier quote", "Who decides on quotes: the tender's sender alone, or its receiver too?"),
    ] = "sender"
    confirm_decided: Annotated[
        Literal["same", "reject", "replace"],
        Open(
            "States and transitions",
            "A second decision on a quote: 200 without effect if it is the same and 400 if it is the opposite, 400 in both cases, or "
            "does the later decision replace the earlier?",
        ),
    ] = "same"
    decision_words: Annotated[
        Literal["closed", "open"],
        Open(
            "Quote confirmation", "Is a status other than accept and reject refused, or taken for a rejection?", "both"
        ),
    ] = "closed"
    quote_accepted: Annotated[
        Literal["reject", "replace"],
        Open(
            "States and transitions",
            "A new quote by a carrier whose quote was accepted: 400, or does it replace the accepted one, undecided? After a rejection "
            "it is undecided again.",
        ),
    ] = "reject"
    status_unknown: Annotated[
        Literal["reject", "accept"], Open("Errors", "A status update for an unknown order: 400, or kept all the same?")
    ] = "reject"
    status_on_400: Annotated[
        Literal["prove", "atomic", "partial"],
        Open(
            "Order status update",
            "After a 400 naming some records: was none of the others applied, or were they all? prove: not known, so they are sent "
            "once more and named as possibly doubled; our exchange is atomic then",
            "both",
        ),
    ] = "prove"
    status_index_base: Annotated[
        Literal["prove", 0, 1],
        Open(
            "Errors",
            "Does data[<index>] count from 0 or from 1? prove: what an answer does not prove blames nobody; our exchange counts "
            "from 0 then",
            "both",
        ),
    ] = "prove"
    unknown_path: Annotated[Literal[405, 404], Open("Errors", "What answers a path that is not an operation?")] = 405
    calls_per_second: Annotated[
        NonNegativeInt, Open("Limits", "Rate limit the translator keeps to (0: none)", "translator")
    ] = 0
    body_bytes_max: Annotated[
        PositiveInt, Open("Limits", "Maximum request body, in bytes; a larger one is answered 400")
    ] = 8_000_000
    array_length_max: Annotated[PositiveInt, Open("Limits", "Maximum length of any array in a record")] = 10_000
    status_records_max: Annotated[
        PositiveInt,
        Open("Limits", "Maximum number of records in one status update; also the size of our batches", "both"),
    ] = 200

    @property
    def index_base(self) -> Literal[0, 1]:
        """From where our own exchange counts data[<index>]."""
        return 0 if self.status_index_base == "prove" else self.status_index_base


_SETTLED = (
    Assumption("Conventions", "Allowed values of tender_type, tender_status and order_status", "any text", "", "", "both"),
    Assumption("Package", "stackable of a tender package is typed Numeric in one place", "a string flag, as in the samples", "", "", "both"),
    Assumption("Carrier", "pincode is Numeric in the summary, a string in samples", "both taken, a string sent", "", "", "both"),
    Assumption("Order", "How many packages an order must have ('per package rules')", "none or more", "", "", "both"),
    Assumption("Order status update", "Form of the numeric totals and history quantity", "both taken, strings sent, as in the sample", "", "assumptions.number_forms", "both"),
    Assumption("Carrier quote", "How precise an ISO 8601 response_datetime is", "UTC to the second, with Z", "", "", "translator"),
    Assumption("Get tenders and Get orders", "How another page is asked for", "not at all: one page, the first", "", "", "both"),
    Assumption("States and transitions", "Whether several quotes of one tender may be accepted", "yes: each quote is decided for itself", "", "", "exchange"),
    Assumption("Create order", "What data.order_id.customer_id and carrier_id hold", "sender_id and receiver_id", "", "", "exchange"),
    Assumption("Authentication", "How a token is obtained, its lifetime and its scopes", "given by environment, file or command", "", "token, token_file", "both"),
    Assumption("Events", "Events, callbacks or notifications", "none", "", "", "both"),
    Assumption("Errors", "The exact texts of messages", "our own fixed sentences", "", "", "exchange"),
    Assumption("Errors", "How a wrong field inside a list is named", "packages[0].item_name, counted from 0", "", "", "both"),
    Assumption("Errors", "When 405 is answered", "any known path with another method", "", "assumptions.unknown_path", "exchange"),
    Assumption("Conventions", "How large a number and how deep a nesting of JSON may be, and how many values a body may hold", "100 digits with a fraction or an exponent (which ends at 100 too), 4300 of a whole number, 64 levels, 200000 values; beyond that 400", "", "", "exchange"),
    Assumption("Update tender, Update order", "Whether an update may name another sender or receiver", "no: 400, but for an operator's token", "", "", "exchange"),
    Assumption("States and transitions", "What two updates of one record at the same time leave", "each sets the fields that it carries, one after the other: of different fields both stay, of one field (an array is one) the later; no version is asked for", "", "", "exchange"),
    Assumption("Authentication", "How often an address may try tokens that are not authorised", "for each address and each such token: 401 at once so many times a second as the setting says, then later and later, then 429", "", "server.wrong_tokens_per_second", "exchange"),
    Assumption("Errors", "What 425 and 429 mean", "nothing happened: the same call is sent again after Retry-After; the exchange never answers 425", "", "", "both"),
    Assumption("Errors", "Status codes other than 200, 400, 401 and 405", "429 beyond a limit of calls, connections, large pages or wrong tokens, 503 while the store cannot write; any other that comes is an unknown outcome", "", "", "both"),
    Assumption("Versioning", "Versioning scheme", "none; paths carry no version", "", "", "both"),
    Assumption("Endpoints", "Whether a repeated request is recognised (no idempotency key is shown)", "no: an unanswered call is never sent again blindly", "", "", "translator"),
)  # fmt: skip


def register() -> tuple[Assumption, ...]:
    """Every open point of the interface, settable ones first, each with default, choices and setting."""
    settable = (_entry(name, info) for name, info in Assumptions.model_fields.items())
    return (*settable, *_SETTLED)


def _entry(name: str, info: FieldInfo) -> Assumption:
    point = next(item for item in info.metadata if isinstance(item, Open))
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

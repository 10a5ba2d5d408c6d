"""Settings of the protocol after an unknown outcome."""

from typing import Literal

from pydantic import BaseModel, Field, NonNegativeFloat, PositiveInt


class Proving(BaseModel):
    """What counts as evidence after an unknown outcome, and what follows from it."""

    parents: Literal["look", "wait", "send"] = Field(
        "look",
        description="What may leave before its order or tender was accepted here: what a listing shows (look), nothing, all",
    )
    quiesce_s: NonNegativeFloat = Field(
        900.0, description="After a lost answer: no conclusion from absence and no second call for so long"
    )
    status_quiesce_s: NonNegativeFloat = Field(120.0, description="The same for status updates, which no listing shows")
    confirm_gap_s: NonNegativeFloat = Field(
        60.0, description="Absence is proved by two looks at the listing that lie so far apart"
    )
    fresh_witness: Literal["preferred", "required", "off"] = Field(
        "preferred",
        description="Must a listing that proves absence show a record accepted after the answer was lost? Preferred: said only",
    )
    create_after_absent: Literal["review", "resend"] = Field(
        "review", description="A create that is proved absent: a person decides, or it is sent again"
    )
    trust_quiesce: bool = Field(
        default=False,
        description="We vouch that the exchange applies nothing later than quiesce_s: lets creates be resent",
    )
    update_resend: bool = Field(
        default=True, description="An update is sent again when the listing shows its record as it was before"
    )
    delete_resend: bool = Field(
        default=True, description="A delete is sent again when the listing shows its record as it was before"
    )
    quote_on_unknown: Literal["review", "resend_once"] = Field(
        "review", description="A quote whose answer was lost: a person decides, or it is sent once more"
    )
    status_on_unknown: Literal["resend", "review"] = Field(
        "resend",
        description="A status update whose answer was lost: sent once more and named as possibly doubled, or not",
    )
    sends_max: PositiveInt = Field(3, description="Updates and deletes are sent at most so often")
    create_sends_max: PositiveInt = Field(2, description="Creates are sent at most so often")

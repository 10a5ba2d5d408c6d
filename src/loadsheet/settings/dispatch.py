"""Settings of sending: connections, limits, rates; and of the protocol after an unknown outcome."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, SecretStr


class DispatchSettings(BaseModel):
    """Connections, times, pace and when to stop."""

    allow_insecure: bool = Field(
        default=False, description="Allow http:// to another machine: the token travels in the clear"
    )
    proxy: SecretStr | None = Field(
        None,
        description=(
            "Proxy for calls to the exchange: http://host:port or http://user:password@host:port; environment: as HTTPS_PROXY, "
            "HTTP_PROXY and NO_PROXY say; empty: none"
        ),
    )
    ca_bundle: Path | None = Field(
        None,
        description=(
            "Certificates (a PEM file, or a folder made with openssl rehash) of the authorities to trust instead of the bundled ones "
            "and those of the system"
        ),
    )
    client_certificate: Path | None = Field(
        None, description="PEM file with the certificate that identifies loadsheet to the exchange, and perhaps its key"
    )
    client_key: Path | None = Field(
        None,
        description="PEM file with the key of client_certificate, not encrypted; empty: the key is in the same file",
    )
    connections: PositiveInt = Field(8, description="Most calls to the exchange at the same time")
    connections_start: PositiveInt = Field(
        2,
        description=(
            "So many at first, later as many as the last run at this exchange settled on; more while answers come as fast as before, "
            "half after a 429, a 503 or no answer"
        ),
    )
    connect_timeout_s: PositiveFloat = Field(10.0, description="Limit for connecting to the exchange")
    call_timeout_s: PositiveFloat = Field(60.0, description="Limit for a whole call, answer included")
    idle_connection_s: PositiveFloat = Field(4.0, description="A connection idle for longer is not used again")
    answer_bytes_max: PositiveInt = Field(268_435_456, description="Largest answer that is read, unpacked")
    listing_bytes_max: PositiveInt = Field(
        8_589_934_592,
        description="Largest listing that is read; what exceeds 8 MB is kept in the folder for temporary files",
    )
    listing_timeout_s: PositiveFloat = Field(900.0, description="Limit for reading a listing, however long it is")
    retry_after_max_s: PositiveFloat = Field(3600.0, description="Longest pause that the exchange may ask for")
    unreachable_max: PositiveInt = Field(5, description="So many calls in a row that reach nobody end the sending")
    unknown_max: PositiveInt = Field(20, description="So many calls in a row without a clear answer end the sending")
    outstanding_unknown_max: PositiveInt = Field(
        20, description="With so many unknown outcomes at the same time nothing more is created; the rest goes on"
    )
    window: PositiveInt = Field(
        256, description="Most entries marked as sending at the same time: so many can be unknown after a power cut"
    )
    canary: NonNegativeInt = Field(
        3,
        description=(
            "So many records of a mapping, or of a folder of the inbox, never accepted before go alone first; if all are refused the rest is "
            "held (0: off)"
        ),
    )
    error_share_max: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Nothing of a drop is sent if more than this share of its records is invalid (0 to 1; 1: off)",
    )
    run_entries_max: NonNegativeInt = Field(
        0, description="So many entries a run sends at most, the rest stays ready (0: all); `run --limit` sets it"
    )
    finish_by: str = Field(
        "",
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
        description="Local time (HH:MM) by which sending should be over; empty: none",
    )


class VerificationSettings(BaseModel):
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

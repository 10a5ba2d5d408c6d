"""Settings of our own exchange."""

from typing import Literal

from pydantic import BaseModel, Field, NonNegativeFloat, PositiveFloat, PositiveInt


class ExchangeServerSettings(BaseModel):
    """Limits of our own exchange."""

    exchange_connections_max: PositiveInt = Field(
        1000, description="Our exchange: connections at the same time; another one is answered 429"
    )
    exchange_header_bytes_max: PositiveInt = Field(
        16_384, description="Our exchange: size of a request's first line and headers; a larger one is answered 400"
    )
    exchange_header_s: PositiveFloat = Field(10.0, description="Our exchange: time for the headers of a request")
    exchange_body_s: PositiveFloat = Field(30.0, description="Our exchange: time for the body of a request")
    exchange_send_s: PositiveFloat = Field(60.0, description="Our exchange: time a client may stop reading its answer")
    exchange_keep_alive_s: PositiveFloat = Field(
        5.0, description="Our exchange: a connection idle for longer is closed"
    )
    exchange_calls_per_second: NonNegativeFloat = Field(
        0.0,
        description="Our exchange: calls a second for each token, in each server process (0: no limit); more are answered 429",
    )
    exchange_wrong_tokens_per_second: NonNegativeFloat = Field(
        10.0,
        description="Our exchange: refused tokens a second for each address and for each token (0: no limit); more wait up to 2 s, beyond that they are 429s",
    )
    exchange_database_s: PositiveFloat = Field(
        10.0,
        description="Our exchange: time to wait for its database, for an answer of PostgreSQL twice that; then calls are answered 503",
    )
    exchange_docs: Literal["open", "login"] = Field(
        "open", description="Who may read the manual and the OpenAPI document of `exchange serve`: all, or after login"
    )

"""Settings of capsules: whether a run is put into one, and for how long they are kept."""

from typing import Literal

from pydantic import BaseModel, Field, NonNegativeInt


class Capsules(BaseModel):
    """Whether a run is put into a capsule, and for how long capsules are kept."""

    capsules: Literal["off", "each"] = Field(
        "off",
        description="After each run that had something to do, put it into STATE/capsules/RUN.capsule.zip (each), or not (off)",
    )
    capsule_days: NonNegativeInt = Field(
        0,
        description="Days for which those capsules are kept (0: for ever); they hold originals and payloads, however short these are kept",
    )

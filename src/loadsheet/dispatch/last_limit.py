"""The concurrency limit that the last run settled on, for the next run to start with: kept in the ledger, for each exchange.

Owns: how it is written, and that nobody depends on it. One that cannot be read, or is out of range, is as good as none.
"""

import contextlib
from typing import Annotated

import msgspec

from loadsheet import run_log
from loadsheet.dispatch.concurrency import Settled
from loadsheet.ledger import Ledger
from loadsheet.problems import LedgerGone, LedgerUnwritable, Superseded


class _Kept(msgspec.Struct):
    limit: Annotated[int, msgspec.Meta(ge=1)]
    wire_s: Annotated[float, msgspec.Meta(ge=0)] | None
    shrank: bool


class LastLimit:
    """What the limit of calls to this exchange (its base URL) settled on last."""

    def __init__(self, ledger: Ledger, exchange: str) -> None:
        self._remembered, self._name = ledger.remembered, f"concurrency limit of {exchange}"

    def read(self) -> Settled | None:
        """What was kept last; None if nothing was, or nothing that can be used."""
        with contextlib.suppress(msgspec.MsgspecError):
            kept = msgspec.json.decode(self._remembered.value(self._name), type=_Kept)
            return Settled(kept.limit, kept.wire_s, kept.shrank)
        return None

    def keep(self, settled: Settled | None) -> None:
        """Keep it, if there is anything new to keep. That it cannot be kept costs the next run a few rounds of calls."""
        if settled is None or settled == self.read():
            return
        try:
            self._remembered.keep(self._name, msgspec.json.encode(settled._asdict()).decode())
        except (LedgerGone, LedgerUnwritable, Superseded) as error:
            run_log.info("concurrency limit not kept", reason=str(error))

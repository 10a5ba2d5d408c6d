"""Wrong tokens cost time: one address, and one wrong token, gets so many refusals a second, further ones later, then a 429.

Owns: the counts, in this process, for calls and logins together. A good token is looked up and served at once, whatever else its
address sends: what is held back is only the answer that says no.
"""

import asyncio
import hashlib
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

PER_SECOND = 10.0
WAIT_MAX_S = 2.0  # longer than this no refusal is held back: then it is a 429, and the connection is free at once
KEYS_MAX = (
    10_000  # so many addresses (and tokens) have a count of their own; beyond it the longest unused one begins anew
)
_BURST_S = 1.0
_NETWORK_BYTES = 8  # of an IPv6 address: whoever has one has all that share these


class Guesses:
    """The pace of refused tokens: `per_second` of them for each address and for each token, a second's worth at once (0: no limit).

    `clock` gives seconds.
    """

    def __init__(self, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._addresses, self._tokens = _Pace(per_second, clock), _Pace(per_second, clock)

    async def held_back(self, client: Sequence[object] | None, token: str) -> bool:
        """Wait as long as this wrong token of this client (address and port) costs; false at once if that would be too long."""
        wait = self.wait(str(client[0]) if client else "", token) if self._per_second else 0.0
        if wait is None:
            return False
        if wait > 0:
            await asyncio.sleep(wait)
        return True

    def wait(self, address: str, token: str = "") -> float | None:
        """Seconds that the next refusal of this token at this address waits, and counts it; None for more than `WAIT_MAX_S`.

        An empty address or token has no count.
        """
        waits = [
            pace.wait(key)
            for pace, key in ((self._addresses, _network(address)), (self._tokens, _digest(token)))
            if key
        ]
        return None if None in waits else max((wait for wait in waits if wait is not None), default=0.0)

    def said(self) -> str:
        """The text of the 429."""
        return f"more than {self._per_second:g} calls a second with tokens that are not authorised; try again later"


class _Pace:
    """When the refusals so far are worked off, for each key."""

    def __init__(self, per_second: float, clock: Callable[[], float]) -> None:
        self._per_second, self._clock = per_second, clock
        self._free_at: OrderedDict[bytes | str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._free_at)

    def wait(self, key: bytes | str) -> float | None:
        """Seconds that the next refusal waits, and counts it; None, uncounted, for more than `WAIT_MAX_S`."""
        now, step = self._clock(), 1 / self._per_second
        free_at = max(self._free_at.pop(key, 0.0), now) + step
        wait = round(free_at - now - max(_BURST_S, step), 6)
        too_long = wait > max(WAIT_MAX_S, step)
        self._free_at[key] = free_at - step if too_long else free_at
        if len(self._free_at) > KEYS_MAX:
            self._free_at.popitem(last=False)
        return None if too_long else max(wait, 0.0)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest() if token else b""


def _network(address: str) -> bytes | str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # a socket file
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return parsed.ipv4_mapped.packed if parsed.ipv4_mapped else parsed.packed[:_NETWORK_BYTES]
    return parsed.packed

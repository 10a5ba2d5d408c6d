"""What one sample tells another: the orders that a carrier could report on."""

from datetime import datetime
from typing import NamedTuple


class Shipment(NamedTuple):
    """An order as its carrier sees it."""

    order_id: str
    origin: str
    destination: str
    pickup: datetime
    deliver: datetime
    zone: str
    pieces: int

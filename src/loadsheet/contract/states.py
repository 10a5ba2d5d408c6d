"""What the arrival of one record changes in another, as far as it is assumed (interface: States and transitions).

Owns: the names of the state-carrying fields, so that the exchange can carry states over without knowing them.
"""

from collections.abc import Mapping
from typing import Any

from loadsheet.contract.assumptions import Assumptions


def is_acceptance(confirmation: Mapping[str, Any]) -> bool:
    """Whether a quote confirmation accepts the quote; any other decision rejects it."""
    return str(confirmation.get("status", "")).lower() == "accept"


def tender_change(confirmation: Mapping[str, Any], assumptions: Assumptions) -> dict[str, Any]:
    """The fields of its tender that a quote confirmation sets: none, or the tender's status."""
    status = assumptions.accept_sets_tender_status
    return {"tender_status": status} if status and is_acceptance(confirmation) else {}


def order_change(event: Mapping[str, Any], assumptions: Assumptions) -> dict[str, Any]:
    """The fields of its order that a status record sets: none, or the order's status."""
    source = {"code": "status_code", "name": "status_name"}.get(assumptions.status_sets_order_status, "")
    return {"order_status": event[source]} if source in event else {}

"""Whom a record concerns: its two parties, the carrier that quotes, and the carriers that a tender is offered to.

Owns: the names of the fields that say so, so that the exchange can tell one party's records from another's.
"""

from collections.abc import Mapping
from typing import Any

PARTY_FIELDS = ("sender_id", "receiver_id")


def parties_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Sender and receiver of a tender, an order, a quote or a confirmation as texts; empty where there is none."""
    sender, receiver = (str(record.get(name, "")) for name in PARTY_FIELDS)
    return sender, receiver


def carrier_of(quote: Mapping[str, Any]) -> str:
    """The carrier of a quote or of its confirmation."""
    return str(quote.get("carrier_id", ""))


def offered_to(tender: Mapping[str, Any]) -> frozenset[str]:
    """The carriers that a tender names, by company: the interface shows no identifier for them."""
    return frozenset(str(carrier.get("carrier_company", "")) for carrier in tender.get("involved_carriers", ()))

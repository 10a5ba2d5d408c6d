"""One good payload for each operation, small but complete, with odd but honest content."""

from decimal import Decimal
from typing import Any

_STOP = {
    "company": "Müller & Söhne",
    "country": "DE",
    "city": "Köln",
    "province": "NRW",
    "pincode": "01067",
    "address1": "Weg 1",
    "address2": "",
}


def _stop(prefix: str, day: str) -> dict[str, Any]:
    window = {
        f"{prefix}_startdatetime": f"2026-03-{day} 08:00:00",
        f"{prefix}_enddatetime": f"2026-03-{day} 12:00:00",
    }
    return {**window, **{f"{prefix}_{name}": value for name, value in _STOP.items()}}


PARTIES = {"sender_id": "ACME", "receiver_id": "CARRIER-7"}
ORDER = {
    "order_id": "SO-1001",
    **PARTIES,
    "timezone": "Europe/Berlin",
    "timeoffset": "1",
    **_stop("pickup", "01"),
    **_stop("delivery", "02"),
    "total_packages": 2,
    "total_weight": Decimal("12.50"),
    "gross_weight_uom": "KG",
    "chargeable_weight": Decimal("13.00"),
    "chargeable_weight_uom": "KG",
    "total_volume": Decimal("0.250"),
    "volume_uom": "CBM",
    "goods_value": Decimal("1200.00"),
    "currency": "EUR",
    "transport_mode": "ROAD",
    "packages": [
        {"package_type": "Box", "item_name": "Schrauben", "weight": Decimal("6.25"), "inner_cargos": []},
        {"package_type": "Drum", "item_name": "Oil", "inner_cargos": [{"item_name": "can", "quantity": 4}]},
    ],
    "order_references": [{"name": "PO", "value": "004711"}],
}
TENDER = {
    "tender_id": "T-1",
    **PARTIES,
    "tender_status": "OPEN",
    "packages": [{"package_type": "Box", "item_name": "Schrauben", "weight": "6.25", "stackable": "yes"}],
}
QUOTE = {"tender_id": "T-1", **PARTIES, "tenderRate": "950.00", "carrier_id": "C-1", "currency": "EUR"}
CONFIRMATION = {"tender_id": "T-1", **PARTIES, "tenderRate": "950.00", "carrier_id": "C-1", "status": "accept"}
EVENT = {
    "order_id": "SO-1001",
    "status_code": "PU",
    "status_name": "Picked up",
    "status_datetime": "2026-03-01T09:30:00",
}

GOOD: dict[str, Any] = {
    "tender.create": TENDER,
    "tender.update": {**TENDER, "tender_status": "CLOSED"},
    "tender.quote": QUOTE,
    "tender.confirm": CONFIRMATION,
    "tender.delete": {"tender_id": "T-1"},
    "order.create": ORDER,
    "order.update": {"order_id": "SO-1001", **PARTIES, "currency": "USD"},
    "order.status": {"data": [EVENT]},
    "order.delete": {"order_id": "SO-1001"},
}
NEEDS: dict[str, tuple[str, ...]] = {  # what must have happened before a call can be answered with 200
    "tender.update": ("tender.create",),
    "tender.quote": ("tender.create",),
    "tender.confirm": ("tender.create", "tender.quote"),
    "tender.delete": ("tender.create",),
    "order.update": ("order.create",),
    "order.status": ("order.create",),
    "order.delete": ("order.create",),
}

"""Worked examples: one realistic record for every write operation, and the answers that belong to it.

Owns: the example shipment. The records hang together: in the order of `example_steps`, sent one after the other to an empty
exchange, each is answered with its own success. Refusals are not written down but made: the check of a record with faults.
"""

from decimal import Decimal
from typing import Any

from loadsheet.contract.answers import UNAUTHORISED, UNKNOWN_METHOD, as_listed, listing, refusal, success
from loadsheet.contract.assumptions import Assumptions
from loadsheet.contract.checking import check_body
from loadsheet.contract.operations import Operation

Json = dict[str, Any]

_SERVICE_ORDER = 100417
_PARTIES = {"sender_id": "NORDWIND", "receiver_id": "HANSA-CARGO"}

_PLACES: Json = {
    "pickup_startdatetime": "2026-03-02 08:00:00",
    "pickup_enddatetime": "2026-03-02 12:00:00",
    "pickup_company": "Nordwind Pumpen GmbH",
    "pickup_country": "DE",
    "pickup_city": "Hamburg",
    "pickup_province": "Hamburg",
    "pickup_pincode": "20457",
    "pickup_address1": "Am Sandtorkai 12",
    "pickup_address2": "Gate 3",
    "delivery_startdatetime": "2026-03-04 07:00:00",
    "delivery_enddatetime": "2026-03-04 16:00:00",
    "delivery_company": "Officine Valdora",
    "delivery_country": "IT",
    "delivery_city": "Brescia",
    "delivery_province": "BS",
    "delivery_pincode": "25121",
    "delivery_address1": "Via Milano 48",
    "delivery_address2": "Dock B",
}
_TENDER: Json = {
    "tender_id": "T-2026-0093",
    **_PARTIES,
    "customer_id": "NORDWIND",
    "timezone": "Europe/Berlin",
    "timeoffset": "1",
    "order_id": "SO-2026-0417",
    "tender_type": "SPOT",
    "tender_status": "OPEN",
    **_PLACES,
    "currency": "EUR",
    "transport_mode": "ROAD",
    "vehicle_type": "Tautliner 13.6 m",
    "createdon": "2026-02-26 14:05:00",
    "dedicated_vehicle": "no",
    "order_status": "OPEN",
    "packages": [
        {
            "package_type": "Pallet/Skid",
            "item_name": "Centrifugal pumps CP-40",
            "description": "Six pumps on Euro pallets",
            "quantity": "6",
            "weight": "1480.5",
            "weight_uom": "KG",
            "volume": "5.76",
            "volume_uom": "CBM",
            "length": "1.2",
            "length_uom": "M",
            "width": "0.8",
            "width_uom": "M",
            "height": "1.0",
            "height_uom": "M",
            "stackable": "no",
            "hazardous": "no",
        }
    ],
    "tender_references": [{"name": "PO", "value": "0045-7781"}],
    "involved_carriers": [
        {
            "carrier_company": "Hansa Cargo AG",
            "email": "dispatch@hansa-cargo.example",
            "contact_number": "+49 40 555 0100",
            "country": "DE",
            "city": "Hamburg",
            "province": "Hamburg",
            "address_area1": "Veddeler Damm 8",
            "address_area2": "",
            "pincode": "20539",
        }
    ],
}
_QUOTE: Json = {
    "tender_id": "T-2026-0093",
    **_PARTIES,
    "timezone": "GMT+01:00",
    "timeoffset": "60",
    "tenderRate": "1840.00",
    "currency": "EUR",
    "response_datetime": "2026-02-26T15:20:00Z",
    "carrier_id": "HANSA-CARGO",
}
_ORDER: Json = {
    "order_id": "SO-2026-0417",
    **_PARTIES,
    "timezone": "Europe/Berlin",
    "timeoffset": "1",
    **_PLACES,
    "total_packages": 6,
    "total_weight": Decimal("1480.5"),
    "gross_weight_uom": "KG",
    "chargeable_weight": 1920,
    "chargeable_weight_uom": "KG",
    "total_volume": Decimal("5.76"),
    "volume_uom": "CBM",
    "goods_value": Decimal("23800.00"),
    "currency": "EUR",
    "transport_mode": "ROAD",
    "dedicated_vehicle": "no",
    "vehicle_type": "Tautliner 13.6 m",
    "order_status": "OPEN",
    "createdon": "2026-02-27 09:10:00",
    "packages": [
        {
            "package_type": "Pallet/Skid",
            "item_name": "Centrifugal pumps CP-40",
            "quantity": 6,
            "weight": Decimal("1480.5"),
            "weight_uom": "KG",
            "volume": Decimal("5.76"),
            "volume_uom": "CBM",
            "stackable": "no",
            "hazardous": "no",
            "allow_mixed_freight": "yes",
            "inner_cargos": [
                {
                    "cargo_type": "Carton/Piece",
                    "item_name": "CP-40 with flange",
                    "goods_description": "Pump, cast iron",
                    "quantity": 6,
                    "scanned_quantity": 0,
                    "weight": Decimal("1440.0"),
                    "weight_uom": "KG",
                    "stackable": "no",
                }
            ],
        }
    ],
    "order_references": [{"name": "PO", "value": "0045-7781"}, {"name": "Tender", "value": "T-2026-0093"}],
    "involved_parties": [
        {
            "party_type": "Consignee",
            "party_name": "Giulia Ferrari",
            "party_company": "Officine Valdora",
            "email": "goods-in@valdora.example",
            "contact_number": "+39 030 555 0123",
            "country": "IT",
            "city": "Brescia",
            "province": "BS",
            "address_area1": "Via Milano 48",
            "address_area2": "Dock B",
            "pincode": "25121",
        }
    ],
}
_STATUS: Json = {
    "order_id": "SO-2026-0417",
    "order_type": "FTL",
    "origin": "Hamburg",
    "destination": "Brescia",
    "status_code": "PU",
    "status_name": "Picked up",
    "status_location": "Hamburg",
    "status_datetime": "2026-03-02T09:40:00",
    "status_description": "Loaded, six pallets, seal 88120",
    "current_location": "A7, Hannover",
    "current_location_datetime": "2026-03-02T12:15:00",
    "latitude": "52.3759",
    "longitude": "9.7320",
    "pickupDate": "2026-03-02",
    "pickupTime": "09:40:00",
    "estimatedDelivery": {
        "startDate": "2026-03-04",
        "startTime": "07:00:00",
        "endDate": "2026-03-04",
        "endTime": "11:00:00",
    },
    "totalWeight": "1480.5",
    "totalQuantity": "6",
    "totalPackages": "6",
    "statusHistory": [
        {
            "statusCode": "PU",
            "statusName": "Picked up",
            "statusDate": "2026-03-02",
            "statusTime": "09:40:00",
            "quantity": "6",
            "packageType": "Pallet/Skid",
            "packageDescription": "Pumps",
            "location": {
                "line": "Am Sandtorkai 12",
                "city": "Hamburg",
                "state": "Hamburg",
                "postalCode": "20457",
                "country": "DE",
                "latitude": "53.5436",
                "longitude": "9.9916",
            },
            "status_description": "Loaded, six pallets, seal 88120",
        }
    ],
}

_RECORDS: dict[str, Json] = {
    "tender.create": _TENDER,
    "tender.update": {**_TENDER, "tender_status": "AWARDED"},
    "tender.quote": {
        **_QUOTE,
        "additional_services": [{"service_name": "Tail lift", "service_price": "45.00"}],
    },
    "tender.confirm": {**_QUOTE, "status": "accept"},
    "order.create": _ORDER,
    "order.update": {
        "order_id": "SO-2026-0417",
        **_PARTIES,
        "delivery_startdatetime": "2026-03-05 07:00:00",
        "delivery_enddatetime": "2026-03-05 16:00:00",
    },
    "order.status": _STATUS,
    "order.delete": {"order_id": "SO-2026-0417"},
    "tender.delete": {"tender_id": "T-2026-0093", "order_id": "SO-2026-0417"},
}
_LISTED: dict[str, Json] = {"tender.list": _TENDER, "order.list": _ORDER}


def example_record(operation: Operation) -> Json:
    """A realistic request record of a write operation."""
    return dict(_RECORDS[operation.name])


def example_body(operation: Operation) -> Json:
    """A realistic request body of a write operation."""
    record = example_record(operation)
    return {"data": [record]} if operation.batched else record


def example_answer(operation: Operation, assumptions: Assumptions) -> Json:
    """What the exchange answers to the example, or to a listing that finds the example."""
    if not operation.is_write:
        found = as_listed(operation.record, _LISTED[operation.name])
        return listing([found], page_size=assumptions.page_size_default, total_count=1)
    return success(operation, example_record(operation), assumptions, service_order=_SERVICE_ORDER)


def example_fault(operation: Operation) -> Json:
    """A request body with faults: the example without its first key field, and its next field in a list."""
    record = example_record(operation)
    del record[operation.record.key[0]]
    second = next((name for name in record if name not in operation.record.key), "")
    if second:
        record[second] = [record[second]]
    return {"data": [example_record(operation), record]} if operation.batched else record


def example_refusal(operation: Operation, assumptions: Assumptions) -> Json:
    """What the exchange answers to `example_fault`: every wrong field by name."""
    faults = check_body(operation, example_fault(operation), assumptions)
    return refusal(operation, faults, index_base=assumptions.index_base)


def example_unauthorised() -> Json:
    """What answers a call without a good token, anywhere."""
    return dict(UNAUTHORISED)


def example_unknown_method() -> Json:
    """What answers a known path that is asked with another method."""
    return dict(UNKNOWN_METHOD)


def example_steps() -> tuple[str, ...]:
    """The examples in an order in which each is answered with success."""
    return tuple(_RECORDS)

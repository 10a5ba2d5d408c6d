"""status_rotterdam_2026-03-05.csv: a carrier's tracking export of one evening, for orders of Acme and Norrvik, oldest first.

Honest mistakes: two events for orders nobody knows (A-4599, 00991: the exchange refuses them), a latitude without its decimal
point, and an event code that is not in the list.
"""

import csv
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from making.dice import Dice
from making.shipments import Shipment

COLUMNS = ("Order Ref", "Event", "Event Time", "TZ", "Location", "Lat", "Lon", "Pieces", "ETA", "Remarks")
EXPORTED = datetime(2026, 3, 5, 21, 0)
EVENTS = 130


class Place(NamedTuple):
    name: str
    lat: float
    lon: float
    zone: str


PLACES = {
    place.name: place
    for place in (
        Place("Köln", 50.9632, 6.9656, "Europe/Berlin"),
        Place("Norrköping", 58.6010, 16.1810, "Europe/Stockholm"),
        Place("Hallstavik", 60.0500, 18.5900, "Europe/Stockholm"),
        Place("Skövde", 58.3912, 13.8451, "Europe/Stockholm"),
        Place("Rotterdam", 51.8850, 4.2867, "Europe/Amsterdam"),
        Place("Venlo", 51.3911, 6.1090, "Europe/Amsterdam"),
        Place("Frankfurt", 50.0521, 8.5912, "Europe/Berlin"),
        Place("Hannover", 52.4089, 9.6478, "Europe/Berlin"),
        Place("Jönköping", 57.7521, 14.0873, "Europe/Stockholm"),
        Place("Dresden", 51.0784, 13.7142, "Europe/Berlin"),
        Place("Leipzig", 51.3659, 12.4272, "Europe/Berlin"),
        Place("Halle (Saale)", 51.4892, 12.0011, "Europe/Berlin"),
        Place("Hamburg", 53.5466, 10.0427, "Europe/Berlin"),
        Place("Düsseldorf", 51.2538, 6.8034, "Europe/Berlin"),
        Place("Neumarkt", 49.2790, 11.4702, "Europe/Berlin"),
        Place("Berlin", 52.5386, 13.4433, "Europe/Berlin"),
        Place("Wien", 48.1462, 16.3531, "Europe/Vienna"),
        Place("Innsbruck", 47.2671, 11.4221, "Europe/Vienna"),
        Place("Basel", 47.5469, 7.6122, "Europe/Zurich"),
        Place("Dordrecht", 51.7990, 4.6372, "Europe/Amsterdam"),
        Place("Växjö", 56.8846, 14.7745, "Europe/Stockholm"),
        Place("Malmö", 55.5771, 13.0450, "Europe/Stockholm"),
        Place("Uppsala", 59.8434, 17.6706, "Europe/Stockholm"),
        Place("Oslo", 59.9288, 10.8414, "Europe/Oslo"),
        Place("København SV", 55.6480, 12.5480, "Europe/Copenhagen"),
        Place("Aalborg", 57.0134, 9.9421, "Europe/Copenhagen"),
        Place("Umeå", 63.8412, 20.2511, "Europe/Stockholm"),
    )
}
HUBS = {  # by destination; else by the zone the goods come from
    **dict.fromkeys(("Neumarkt", "Wien", "Innsbruck", "Basel", "Würzburg", "Strasbourg"), "Frankfurt"),
    **dict.fromkeys(("Manchester", "Weesp"), "Rotterdam"),
    "Dordrecht": "Venlo",
    "Europe/Berlin": "Hannover",
    "Europe/Stockholm": "Jönköping",
}
REMARKS = {
    "BKD": (None, None, "Slot confirmed by phone"),
    "PUP": (None, "Loaded, seal {seal}", "Loaded, seal {seal}", "Driver waited 35 min"),
    "DEP": (None,),
    "ARR": (None, None, "Cross-dock bay {bay}"),
    "OFD": (None, None, "Tail-lift needed"),
    "POD": (None, "Signed: goods inwards", "Signed: goods inwards", "Signed: reception", "1 carton wet, noted on CMR"),
}


class Event(NamedTuple):
    order_id: str
    code: str
    at: datetime
    place: str
    pieces: int
    eta: datetime | None


def make(folder: Path, shipments: list[Shipment]) -> None:
    """Writes the file from orders that are good, so that each event finds its order at the exchange."""
    dice = Dice(305)
    events = [event for shipment in shipments for event in _events(dice, shipment)]
    events = sorted(events, key=lambda event: event.at)[-(EVENTS - 2) :]
    stray = [
        Event("A-4599", "PUP", EXPORTED - timedelta(hours=30), "Köln", 3, None),
        Event("00991", "DEP", EXPORTED - timedelta(hours=5), "Norrköping", 1, None),
    ]
    rows = [_row(dice, event) for event in sorted([*events, *stray], key=lambda event: event.at)]
    spoilt = next(row for row in rows[40:] if row[5])
    spoilt[5] = spoilt[5].replace(".", "")
    next(row for row in rows[70:] if row[1] == "ARR")[1] = "ARV"
    with (folder / "status_rotterdam_2026-03-05.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def _events(dice: Dice, shipment: Shipment) -> list[Event]:
    hub = HUBS.get(shipment.destination, HUBS[shipment.zone])
    start, end = shipment.pickup, shipment.deliver
    steps = (
        ("BKD", start - timedelta(hours=20, minutes=dice.whole(0, 50)), shipment.origin),
        ("PUP", start + timedelta(minutes=dice.whole(5, 110)), shipment.origin),
        ("ARR", start + (end - start) * 0.35 + timedelta(minutes=dice.whole(0, 59)), hub),
        ("DEP", start + (end - start) * 0.55 + timedelta(minutes=dice.whole(0, 59)), hub),
        ("OFD", end - timedelta(minutes=dice.whole(100, 190)), shipment.destination),
        ("POD", end + timedelta(minutes=dice.whole(0, 75)), shipment.destination),
    )
    return [
        Event(
            shipment.order_id,
            code,
            when.replace(second=dice.whole(0, 59), microsecond=0),
            place,
            shipment.pieces,
            None if code == "POD" else end,
        )
        for code, when, place in steps
        if when < EXPORTED
    ]


def _row(dice: Dice, event: Event) -> list[str]:
    place = PLACES[event.place]
    seen = dice.chance(0.8)  # a fifth of the scans come without a position
    lat = f"{place.lat + (dice.whole(-40, 40) / 10_000):.4f}" if seen else ""
    lon = f"{place.lon + (dice.whole(-40, 40) / 10_000):.4f}" if seen else ""
    remark = (dice.pick(REMARKS[event.code]) or "").format(
        seal=f"{dice.whole(61_000, 88_000):07}", bay=dice.whole(1, 14)
    )
    return [
        event.order_id, event.code, f"{event.at:%d/%m/%Y %H:%M:%S}", place.zone, place.name, lat, lon, str(event.pieces),
        f"{event.eta:%d/%m/%Y %H:%M:%S}" if event.eta else "", remark,
    ]  # fmt: skip

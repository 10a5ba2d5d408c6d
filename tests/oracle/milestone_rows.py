"""A Swedish haulier's tracking list: several milestones a row, each one event, in the time zone that the row names."""

import csv
import re
from pathlib import Path

from cells import FaultError, moment, number, text
from dirt import Dice, delimited
from plain import Expected, Record, digits, filled, is_blank, lines

MAPPING = "milestone-rows.yaml"
FILE = "sparning_v10.csv"
EVENTS = ("Hämtad", "Terminal", "Utkörning", "Levererad")
STYLES = ("%Y-%m-%d %H:%M", "%y%m%d %H.%M", "%d %b %Y %H:%M")
with (Path(__file__).parent / "mappings" / "lookups" / "events.csv").open(encoding="utf-8") as table:
    CODES = {row["code"]: row for row in csv.DictReader(table)}


def make(seed, size):
    """The file, with so many rows."""
    dice, rows = Dice(seed), [["Sändning", "Tidszon", *EVENTS, "Plats", "Lat", "Long", "Kolli", "Chaufför"]]
    for count in range(1, size):
        rows.append(_row(dice, count))
        if dice.random() < 0.02:
            rows.append(
                dice.choice(([""] * 11, ["* uppdaterad 06:00", *[""] * 10], ["*" + rows[-1][0], *rows[-1][1:]]))
            )
    return {FILE: delimited(rows, "\t", encoding="utf-16")}


def _row(dice, count):
    key = dice.now_and_then(
        40, (f"SE{count:05}", f"se{count:06}", f"SE{count:06}".replace("0", "O", 1), ""), f"SE{count:06}"
    )
    times = [_when(dice) if dice.random() < 0.6 else "" for _ in EVENTS]
    lat, lon = dice.now_and_then(
        15, (("57,70887", ""), ("91", "11,9"), ("57.70887", "11.97456"), ("-57,5", "\N{MINUS SIGN}11,5"), ("57,7088712", "11")),
        (("", ""), ("57,70887", "11,97456"), ("59,3", "18"), ("0", "-0,5")),
    )  # fmt: skip
    return [
        dice.around(key), dice.now_and_then(40, "CEST+1", ("", "", "Europe/Helsinki", "Europe/Oslo")), *times,
        dice.choice(("", "Göteborg", "  Malmö", "Luleå\N{NO-BREAK SPACE}hamn")), lat, lon,
        dice.now_and_then(40, ("två", "1,5", "-1"), ("", "0", "12", "1 200")), "Åke",
    ]  # fmt: skip


def _when(dice):
    day, hour, minute = dice.choice((1, 12, 25, 29)), dice.randint(0, 23), dice.randint(0, 59)
    month, name = dice.choice(((3, "mars"), (10, "okt")))
    usual = (
        f"2026-{month:02}-{day} {hour}:{minute:02}",
        f"26{month:02}{day:02} {hour:02}.{minute:02}",
        f"{day} {name} 2026 {hour:02}:{minute:02}",
    )
    return dice.now_and_then(
        50, ("X", "klar", "2026-02-30 10:00", "2026-03-29", "03/04/2026 10:00"), dice.choice(usual)
    )


def expected(files):
    """What has to come of it: an event for each milestone; what is wrong with a row is wrong with each of its events."""
    found = Expected()
    for row, cells in lines(files[FILE], "utf-16", "\t")[1:]:
        place = (FILE, "", row)
        if is_blank(cells):
            continue
        times = [(word, cell) for word, cell in zip(EVENTS, cells[2:6], strict=True) if cell.strip()]
        if cells[0].strip().startswith("*") or not times:
            found.ignored.add(place)
            continue
        for word, cell in times:
            _event(found, place, cells, word, cell)
    return found


def _event(found, place, cells, word, cell):
    key, zone, *_, where, lat, lon, kolli, _ = cells
    record = Record()
    line = {
        "key": record.read(place, _key, key),
        "at": record.read(place, _at, cell, zone),
        "lat": record.read(place, number, lat, "sv", low=-90, high=90, places=5),
        "lon": record.read(place, number, lon, "sv", low=-180, high=180, places=5),
        "kolli": record.read(place, number, kolli, "sv", low=0, whole=True),
    }
    record.demand(bool(lat.strip()) == bool(lon.strip()), {place})
    record.end(found, "order.status", line["key"], lambda: _payload(line, CODES[word], text(where)))


def _key(cell):
    if not re.fullmatch("[A-Z]{2}[0-9]{6}", text(cell) or ""):
        raise FaultError
    return text(cell)


def _at(cell, zone):
    if zone not in ("", "Europe/Helsinki", "Europe/Oslo"):
        raise FaultError
    cell = re.sub(r" (mars|okt) ", lambda match: {"mars": " Mar ", "okt": " Oct "}[match[1]], cell)
    return moment(cell, STYLES, zone or "Europe/Stockholm", twice=True)


def _payload(line, code, where):
    short, when = code["short"], line["at"]
    return filled({
        "order_id": line["key"], "status_code": short, "status_name": code["name"], "status_datetime": when.strftime("%Y-%m-%dT%H:%M:%S"),
        "status_location": where, "status_description": f"{code['name']}, {where}" if where else code["name"],
        "latitude": digits(line["lat"]), "longitude": digits(line["lon"]), "pickupDate": f"{when:%Y-%m-%d}" if short == "PUP" else None,
        "deliveryDate": f"{when:%Y-%m-%d}" if short == "DLV" else None, "deliveryTime": f"{when:%H:%M:%S}" if short == "DLV" else None,
        "totalPackages": digits(line["kolli"]),
    })  # fmt: skip

"""A British tender: loads of lanes under headings of two rows and a row of units, tables with wildcards, a footer below."""

import re
from datetime import timedelta

from cells import FaultError, flag, moment, number, one_of, quantity, text
from dirt import Dice, delimited
from plain import Expected, Record, at, digits, filled, hours, is_blank, later, lines, rounded

MAPPING = "tender-lanes.yaml"
FILE = "tender_q2.csv"
STYLES = ("%d %b %Y %H:%M", "%d/%m/%Y %H:%M", "%d/%m/%y")
COUNTRIES = {"United Kingdom": "GB", "UK": "GB", "GB": "GB", "Ireland": "IE", "France": "FR"}
ABOVE = ["Tender", "", "Status", "Collect", "", "Deliver", "", "", "", "Load", "", "", "", "", "", "Carrier 1", "Carrier 2"]  # fmt: skip
BELOW = ["Ref", "Lane", "", "From", "To", "From", "Town", "Postcode", "Country", "Type", "Goods", "No.", "Weight", "Height", "Stack", "", ""]  # fmt: skip
UNITS = [*[""] * 12, "t", "m", *[""] * 3]
KINDS = {kind: kind for kind in ("Pallet/Skid", "Crate", "Drum")}


def make(seed, size):
    """The file, with about so many rows."""
    dice, rows, count = Dice(seed), [["Tenders Q2", *[""] * 16], [""] * 17, ABOVE, BELOW, UNITS], 0
    while len(rows) < size:
        count += 1
        head = _head(dice, count)
        for _ in range(dice.randint(1, 3)):
            own = [dice.choice((cell, cell.lower())) if place == 0 else cell for place, cell in enumerate(head)]
            rows.append([*own[:9], *_load(dice), *own[9:]])
        if dice.random() < 0.02:
            rows.append([" "] * 17)
    rows += [["End of list", *[""] * 16], ["printed 04 Mar 2026", *[""] * 16]]
    return {FILE: delimited(rows, "|", encoding="cp1252", quote="'")}


def _when(dice):
    day, month, hour = dice.choice((1, 5, 29)), dice.choice((3, 6, 10)), dice.randint(0, 23)
    name = {3: "Mar", 6: "June", 10: "oct"}[month]
    usual = (f"{day:02} {name} 2026 {hour:02}:00", f"{day}/{month}/2026 {hour}:30", f"{day:02}/{month:02}/26")
    return dice.now_and_then(80, ("TBC", "Week 12", "2026-03-04 10:00", "32/01/2026 8:00"), dice.choice(usual))


def _head(dice, count):
    return [
        f"T-{count:04}", dice.now_and_then(60, ("G8-1", "FR-1", "gb-1"), ("GB-1", "GB-NI3", "IE-DUB", "IE-CORK")),
        dice.now_and_then(25, "Withdrawn", ("", "Open", "CLOSED", "closed")),
        _when(dice), dice.choice(("", "?", _when(dice))), _when(dice), dice.now_and_then(60, ("Ely ", "Ay"), "King's Lynn"),
        dice.now_and_then(60, ("EC1A1BB", "SW1A 1A", "S01 2AB"), ("ec1a 1bb", "M1 1AE", " b33 8th")),
        dice.choice(("", "UK", "Ireland", "GB", "TBC")), dice.now_and_then(60, ("AC3", ""), ("ACE", "ace", "KLM7")),
        dice.choice(("", "BOX", "KLM", "TBC")),
    ]  # fmt: skip


def _load(dice):
    return [
        dice.now_and_then(60, ("Pallet", "crate", "Dru m"), tuple(KINDS)),
        dice.choice(("Ale", "Pies\n(hot)", "Pipes | tubes", "Café £")),
        dice.now_and_then(60, ("0", "a dozen", "1.5"), lambda: dice.choice(("1", "2", "1,000" if dice.random() < 0.05 else "3"))),
        dice.now_and_then(30, ("-1", "1,5", "see line 12", "1 stone", "1,00"), ("1.25", "0.5 t", "850kg", "1,000 kg", "2 plt", "0")),
        dice.now_and_then(60, ("3.01", "tall"), ("", "1.8", "180 cm", "6 ft", "?")),
        dice.now_and_then(60, "perhaps", ("", "Y", "N", "y")),
    ]  # fmt: skip


def expected(files):
    """What has to come of it."""
    found, tenders = Expected(), {}
    read, ended = lines(files[FILE], "cp1252", "|", "'")[4:], False
    for number_, (row, cells) in enumerate(read):
        place = (FILE, "", row)
        if is_blank(cells):
            continue
        ended = ended or cells[0] == "End of list"
        if number_ == 0 or ended or cells[2].casefold() == "withdrawn":
            found.ignored.add(place)
            continue
        tenders.setdefault(text(cells[0]).upper(), []).append(
            (place, ["" if cell.strip() in ("TBC", "?") else cell for cell in cells])
        )
    for key, own in tenders.items():
        record = Record()
        loads = [_read(record, place, cells) for place, cells in own]
        record.end(found, "tender.create", key, lambda key=key, loads=loads: _payload(key, loads))
    return found


def _read(record, place, cells):
    (
        _, lane, status, pickup, until, deliver, town, zip_, country, kind, goods, count, weight, height, stack, carrier1,
        carrier2,
    ) = cells  # fmt: skip
    line = {
        "lane": record.read(place, _lane, lane),
        "status": status.casefold(),
        "pickup": record.read(place, _moment, pickup),
        "until": record.read(place, _moment, until, required=False),
        "deliver": record.read(place, _moment, deliver),
        "town": record.read(place, _town, town),
        "zip": record.read(place, _zip, zip_),
        "country": record.read(place, one_of, country, COUNTRIES, default="UK"),
        "kind": record.read(place, one_of, kind, KINDS),
        "goods": record.read(place, text, goods, required=True),
        "count": record.read(place, number, count, "en", low=1, whole=True, required=True),
        "weight": record.read(place, _weight, weight),
        "height": record.read(place, _height, height),
        "stack": record.read(place, flag, stack, {"y"}, {"n"}) if stack else None,
    }
    if line["country"]:
        line["carriers"] = [record.read(place, _carrier, carrier1, line["country"])]
        if carrier2:
            line["carriers"].append(record.read(place, _carrier, carrier2, line["country"]))
    if line["weight"] is not None and line["count"] is not None:
        record.demand(line["weight"] * line["count"] <= 26_000, {place})
    return line


def _lane(cell):
    for start, found in (
        ("GB-NI", ("SEA", "Belfast", "BT1 1AA")),
        ("GB-", ("ROAD", "Leeds", "LS1 4AP")),
        ("IE-DUB", ("ROAD", "Dublin", "D02 AF30")),
        ("IE-", ("SEA", "Dublin", "D01 F5P2")),
    ):
        if cell == start or (cell.startswith(start) and start != "IE-DUB"):
            return found
    raise FaultError


def _moment(cell, **options):
    named = re.sub(r"(?i)\b(june|oct|mar)\b", lambda match: match[1][:3], cell)
    return moment(named, STYLES, "Europe/London", **options)


def _town(cell):
    if len(text(cell, required=True)) < 3:
        raise FaultError
    return text(cell)


def _zip(cell):
    found = text(cell, required=True).upper()
    if not re.fullmatch("[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][A-Z]{2}", found):
        raise FaultError
    return found


def _weight(cell):
    return quantity(cell.replace(" plt", " kg"), "en", "kg", assumed="t", low=0, required=True)


def _height(cell):
    found = quantity(cell, "en", "cm", assumed="m")
    if found is not None and found > 300:
        raise FaultError
    return found


def _carrier(cell, country):
    code = text(cell, required=True).upper()
    known = {
        ("ACE", "GB"): ("Ace Haulage Ltd", "ops@ace.example"),
        ("ACE", "IE"): ("Ace Ireland", "ops@ace-ie.example"),
        ("BOX", "GB"): ("Box & Co", "box@box.example"),
    }
    if code.startswith("KLM"):
        return "KLM Cargo", "cargo@klm.example"
    if (code, country) not in known:
        raise FaultError
    return known[code, country]


def _payload(key, loads):
    first = loads[0]
    mode, city, zip_ = first["lane"]
    return filled({
        "tender_id": key, "sender_id": "PENNINE", "receiver_id": "C1", "timezone": "Europe/London", "timeoffset": hours(first["pickup"]),
        "tender_status": "CLOSED" if first["status"] == "closed" else "OPEN", "transport_mode": mode, "pickup_city": city, "pickup_pincode": zip_,
        "pickup_startdatetime": at(first["pickup"]), "pickup_enddatetime": at(first["until"] or later(first["pickup"], timedelta(hours=4))),
        "delivery_startdatetime": at(first["deliver"]), "delivery_city": first["town"], "delivery_pincode": first["zip"],
        "delivery_country": first["country"],
        "packages": [
            filled({
                "package_type": load["kind"], "item_name": load["goods"], "quantity": digits(load["count"]), "weight": f"{rounded(load['weight'], 2):f}",
                "weight_uom": "KG", "height": digits(load["height"]),
                "height_uom": None if load["height"] is None else "CM", "stackable": load["stack"],
            })
            for load in loads
        ],
        "tender_references": [{"name": "Gross", "value": f"{rounded(sum(load['weight'] * load['count'] for load in loads), 1):f}"}],
        "involved_carriers": [{"carrier_company": company, "email": email} for company, email in first["carriers"]],
    })  # fmt: skip

"""The scores of a draft: the verdict of each column, and what else is wrong with it or with what the completed draft makes of the sheet."""

import json
from collections import Counter
from dataclasses import dataclass, field

from command_in_process import loadsheet

from .draft_reading import Draft, filled_in
from .sheet_layouts import repeated

REFUSED = 65
RIGHT, MARKED, UNMARKED, MISSING = VERDICTS = "right", "wrong, marked", "wrong, unmarked", "missing"
FAULTS = (
    "not refused", "target", "key", "group", "data in a heading", "lint", "rows lost", "not all rows translate", "order of files",
)  # fmt: skip
"""What can be wrong with a draft besides its columns."""

FILL = {
    "sender_id": "SHIPPER-1", "receiver_id": "CARRIER-1", "customer_id": "C-1", "timezone": "Europe/Berlin", "carrier_id": "CARRIER-7",
    "pickup_company": "Depot GmbH", "pickup_country": "DE", "pickup_city": "Köln", "pickup_province": "NRW", "pickup_pincode": "50667",
    "pickup_address1": "Hafenweg 1", "pickup_address2": "", "delivery_company": "Lager GmbH", "delivery_country": "DE",
    "delivery_city": "Dresden", "delivery_province": "Sachsen", "delivery_pincode": "01067", "delivery_address1": "Prager Str. 1",
    "delivery_address2": "", "pickup_startdatetime": "2026-03-02 08:00:00", "pickup_enddatetime": "2026-03-02 12:00:00",
    "delivery_startdatetime": "2026-03-04 08:00:00", "delivery_enddatetime": "2026-03-04 12:00:00", "currency": "EUR",
    "transport_mode": "ROAD", "tender_status": "OPEN", "status_code": "IN_TRANSIT", "status": "accept", "package_type": "Pallet/Skid",
    "item_name": "Goods", "tenderRate": "100", "tender_id": "T-1", "order_id": "O-1", "total_packages": 1, "total_weight": 1, "goods_value": 1,
    "total_volume": 1, "chargeable_weight": 1, "gross_weight_uom": "KG", "chargeable_weight_uom": "KG", "volume_uom": "CBM",
}  # fmt: skip
"""What a person writes for a constant, if the layout has nothing else."""

CODES = {
    "Pallet/Skid": "eup plt pal pallet skid palette ewp pl europalette palett pallets europal paleta palé pll",
    "Carton/Piece": "ctn krt karton carton box colis caja doos kartong scatola karton caixa ct pc",
    "Roll": "rol roll rolle rouleau rollo rulle rotolo rolka rolo", "Drum": "drm fass drum fût bidón vat fat fusto beczka tambor",
    "Crate": "crt kiste ki", "Bag": "bag sack", "ROAD": "road truck lkw", "SEA": "sea ocean see", "AIR": "air luft",
}  # fmt: skip
CODES = {word: meant for meant, words in CODES.items() for word in words.split()}

_MEASURED = {"weight", "volume", "length", "width", "height", "quantity"}
_TOTALS = {
    "total_packages", "total_weight", "chargeable_weight", "total_volume", "totalWeight", "totalQuantity", "totalPackages",
}  # fmt: skip
_BESIDE = {  # what may follow from a column besides its own field
    "item_name": {"packages.description"}, "description": {"packages.item_name"}, "status_code": {"status_name"},
    "status_name": {"status_code", "status_description"}, "status_description": {"status_name"}, "timezone": {"timeoffset"},
    "party_name": {"involved_parties.party_company"}, "party_company": {"involved_parties.party_name"},
    "status_datetime": {"current_location_datetime"}, "value": {"tender_references.value"},
    "carrier_id": {"involved_carriers.carrier_company"}, "total_weight": _TOTALS, "total_volume": _TOTALS, "total_packages": _TOTALS,
}  # fmt: skip
_UNITS = {
    "m**3": "m3",
    "cbm": "m3",
    "meter**3": "m3",
    "kilogram": "kg",
    "pound": "lb",
    "t": "t",
    "ton": "t",
    "tonne": "t",
    "inch": "in",
}


@dataclass
class Score:
    """The scores of one layout. `columns` has the verdict of each column by its heading, with the fields that it fills in the draft;
    `faults` has what else is wrong (see `FAULTS`), and `notes` why.
    """

    name: str
    held_out: bool = False
    columns: dict = field(default_factory=dict)
    faults: set = field(default_factory=set)
    notes: list = field(default_factory=list)

    @property
    def counts(self):
        """The number of columns by verdict."""
        return Counter(verdict for verdict, _ in self.columns.values())

    def demand(self, holds, fault, *notes):
        """Note a fault, and why, unless it holds."""
        if not holds:
            self.faults.add(fault)
            self.notes += notes


def score(layout, folder):
    """The scores of a layout, whose files are written into this empty folder."""
    found, paths = Score(layout.name, layout.held_out), [path.name for path in layout.write(folder)]
    done = loadsheet(folder, "mapping", "suggest", *paths)
    if not layout.targets:
        found.demand(done.returncode == REFUSED, "not refused")
        return found
    if done.returncode:  # nothing is right where a draft should be and is none
        read = [sheet for sheet in layout.sheets if not sheet.unrelated]
        found.columns = {_name(sheet, column): (MISSING, {}) for sheet in read for column in sheet.columns}
        found.faults, found.notes = {*FAULTS} - {"not refused"}, [done.stderr[-400:]]
        return found
    draft = Draft(done.stdout)
    score_draft(found, layout, draft)
    _score_use(found, layout, folder, draft, paths)
    if len(layout.sheets) > 1:
        other = folder / "backwards"
        other.mkdir()
        again = [path.name for path in layout.write(other, backwards=True)][::-1]
        text = loadsheet(other, "mapping", "suggest", *again).stdout
        found.demand(text and Draft(text).values == draft.values, "order of files")
    return found


def _name(sheet, column):
    return f"{sheet.title or sheet.file}: {column.heading}"


# ---- the draft against its labels ----


def score_draft(found, layout, draft):
    """Note the verdict of each column, and whether target, key, groups and headings are right."""
    homes = {table: _home(draft, table, layout.sheets) for table in draft.tables}
    wanted = [sheet for sheet in layout.sheets if not sheet.unrelated]
    for sheet in wanted:
        twice, drafted = repeated(sheet.columns), [one for one in draft.columns if homes.get(one.table) is sheet]
        for position, column in enumerate(sheet.columns):
            if column.heading:
                own = _read_by(column, position, sheet, drafted)
                place = f" ({position + 1})" if column.heading.casefold() in twice else ""
                fills = {path: mark for one in own for path, mark in one.fills.items()}
                found.columns[_name(sheet, column) + place] = _verdict(column, own), fills
    found.demand(draft.target in layout.targets, "target", f"target {draft.target}")
    keys = [column for column in layout.sheets[0].columns if column.is_key]
    used = {
        _fold(label) for key in keys[:1] for one in draft.columns if key.fields[0] in one.fills for label in one.labels
    }
    found.demand(not keys or used & {_fold(key.heading) for key in keys}, "key")
    joined = {id(sheet) for sheet in homes.values()} == {id(sheet) for sheet in wanted}
    found.demand(joined and set(map(_fold, draft.group())) == set(map(_fold, layout.group)), "group")
    cells = {_fold(str(cell)) for sheet in layout.sheets for cell in _first_cells(layout, sheet)} - {""}
    known = {_fold(column.heading) for sheet in layout.sheets for column in sheet.columns}
    labels = {_fold(label) for one in draft.columns for label in one.labels} - known
    found.demand(not {part for label in labels for part in label.split(" / ")} & cells, "data in a heading")


def _fold(text):
    return " ".join(text.casefold().split())


def _home(draft, table, sheets):
    """The sheet that a table of the draft reads: the one with most of its headings."""
    labels = {_fold(label) for one in draft.columns if one.table == table for label in one.labels}
    best = max(sheets, key=lambda sheet: len(labels & {_fold(column.heading) for column in sheet.columns}))
    title = (draft.tables[table] or {}).get("sheet")
    named = [
        sheet for sheet in sheets if sheet.title and sheet.title in ([title] if isinstance(title, str) else title or [])
    ]
    return named[0] if named else best


def _read_by(column, position, sheet, drafted):
    """The drafted columns that read this column of the sheet. A place counts from 1. Of columns with the same heading, a draft reads the
    first, unless it repeats the heading or reads sets of columns.
    """
    placed = [one for one in drafted if one.keys.get("place") == str(position + 1)]
    named = [one for one in drafted if not one.keys.get("place") and _fold(column.heading) in map(_fold, one.labels)]
    before = sum(_fold(other.heading) == _fold(column.heading) for other in sheet.columns[:position])
    if len(named) > 1 and column.heading.casefold() in repeated(sheet.columns):
        named = named[before : before + 1]
    elif before:
        named = [one for one in named if one.in_sets]
    return placed + named


def _first_cells(layout, sheet):
    if sheet.raw:
        lines = sheet.raw.splitlines()
        return lines[sheet.first - 1].split(sheet.delimiter) if len(lines) >= sheet.first else []
    return [layout._cell(sheet, column, 0) for column in sheet.columns]


def _verdict(column, own):
    accepted, fills = _accepted(column), {}
    for one in own:
        for path, marked in one.fills.items():
            fills[path] = fills.get(path, True) and marked
    assumed = {
        path for path, marked in fills.items() if marked and path.endswith("datetime")
    }  # of a moment without a column
    accepted |= assumed if set(column.fields) & fills.keys() else set()
    wrong = {path: marked for path, marked in fills.items() if path not in accepted}
    if wrong:
        return MARKED if all(wrong.values()) else UNMARKED
    if not fills:
        return RIGHT if "-" in column.fields else MISSING
    if not set(column.fields) & fills.keys():
        return MARKED if all(fills.values()) else UNMARKED
    if all(_is_read_right(column, one) for one in own if one.fills):
        return RIGHT
    return MARKED if all(one.marked for one in own if one.fills) else UNMARKED


def _accepted(column):
    """The paths that an expert would fill from this column, or compute from it."""
    found = {"join"} if column.is_key or "join" in column.more else set()
    found |= {"status_code", "status_name"} if "set" in column.more else set()
    for wanted in column.fields:
        side, leaf = wanted.partition("_")[0], wanted.rpartition(".")[2]
        found |= {wanted} | _BESIDE.get(leaf, set())
        found |= {*_TOTALS, "packages.volume"} if leaf in _MEASURED else set()
        found |= {"timeoffset"} if "datetime" in wanted or wanted == "createdon" else set()
        if wanted.endswith(("_startdatetime", "_enddatetime")):
            found |= {f"{side}_startdatetime", f"{side}_enddatetime"}
        if wanted in ("pickup_company", "delivery_company"):
            found |= {"involved_parties.party_company", "involved_parties.party_name"}
    return found


def _is_read_right(column, drafted):
    """Whether the type and the unit of a drafted column are those of the label."""
    type_ = drafted.keys.get("type", "text")
    if column.types and type_ not in column.types and not drafted.keys.get("from_set"):
        return False
    if type_ != "quantity" or column.unit in ("", "cell"):
        return True
    unit = drafted.keys.get("from_unit") or drafted.keys.get("unit") or ""
    return drafted.marked if column.unit == "?" else _UNITS.get(unit, unit) == column.unit


# ---- the completed draft at work ----


def _score_use(found, layout, folder, draft, paths):
    codes = CODES | {key.casefold(): code for key, code in layout.codes.items()}
    (folder / "filled.yaml").write_text(filled_in(draft.text, FILL | layout.fill, codes)[0], encoding="utf-8")
    linted = loadsheet(folder, "mapping", "lint", "filled.yaml", "--json")
    if linted.returncode:
        found.faults |= {"lint", "not all rows translate"}
        found.notes += [f"{one['line']}: {one['text']}" for one in json.loads(linted.stdout)]
        return
    made = loadsheet(folder, "mapping", "preview", *paths, "--mapping", "filled.yaml", "--rows", "100000", "--json")
    records = json.loads(made.stdout)["records"] if made.stdout else []
    errors = [[problem for problem in record["problems"] if problem.get("level") == "error"] for record in records]
    lost = set(layout.sheets[0].data_rows) - _main_rows(draft, layout, records)
    found.demand(not lost, "rows lost", f"rows {sorted(lost)}", made.stderr[-400:])
    keys = layout.keys()
    made_keys = [record["key"] if record["key"] in keys else record["key"].partition("/")[0] for record in records]
    several = draft.target == "order.status"  # events
    same_keys = not keys or (set(made_keys) == keys and (several or len(made_keys) == len(keys)))
    wrong = layout.bad + sum(bool(column.word("outlier")) for sheet in layout.sheets for column in sheet.columns)
    notes = sorted({_problem(one) for own in errors for one in own})[:8]
    holds = records and not lost and same_keys and sum(map(bool, errors)) <= wrong
    found.demand(holds, "not all rows translate", *notes)


def _problem(problem):
    return " ".join(filter(None, (problem["code"], problem["where"].get("column"), problem["found"], problem["hint"])))


def _main_rows(draft, layout, records):
    """The rows of the first sheet that the records have."""
    tables = {table for table in draft.tables if _home(draft, table, layout.sheets) is layout.sheets[0]}
    found = set()
    for record in records:
        for text in record["rows"]:
            table, _, numbers = text.partition(": ")
            found |= {int(number) for number in numbers.split(", ")} if table in tables else set()
    return found

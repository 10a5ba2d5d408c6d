"""The scores of a draft: each column, the target, the key, the grouping, and what the completed draft makes of the sheet."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from command_in_process import loadsheet
from process_memory import memory_mb
from ruamel.yaml.error import YAMLError

from .draft_reading import Draft, filled_in
from .sheet_layouts import repeated

REFUSED = 65
RIGHT, MARKED, UNMARKED, MISSING = "right", "wrong, marked", "wrong, unmarked", "missing"
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
    """The scores of one layout. `columns` has the verdict of each column by its heading, with the fields that it fills in the draft."""

    name: str
    held_out: bool
    exit_code: int
    refusal: bool = False
    columns: dict = field(default_factory=dict)
    outliers: dict = field(default_factory=dict)
    target: str = ""
    target_right: bool = True
    key_right: bool = True
    group_right: bool = True
    lints: bool = True
    findings: list = field(default_factory=list)
    rows_lost: int = 0
    data_in_heading: bool = False
    translates: bool = True
    problems: list = field(default_factory=list)
    same_in_any_order: bool = True
    fill_ins: int = 0
    error: str = ""

    @property
    def counts(self):
        """The number of columns by verdict."""
        return Counter(verdict for verdict, _ in self.columns.values())


def score(layout, folder):
    """The scores of a layout, whose files are written into this empty folder."""
    paths = [path.name for path in layout.write(folder)]
    done = loadsheet(folder, "mapping", "suggest", *paths)
    found = Score(layout.name, layout.held_out, done.returncode, refusal=not layout.targets)
    if found.refusal:
        found.target_right = done.returncode == REFUSED
        return found
    if done.returncode:
        found.error = done.stderr[-400:]
        _all_lost(found, layout)
        return found
    (folder / "draft.yaml").write_text(done.stdout, encoding="utf-8")
    try:
        draft = Draft(done.stdout)
    except YAMLError as error:
        found.error, found.lints = str(error)[-400:], False
        _all_lost(found, layout)
        return found
    score_draft(found, layout, draft)
    _score_use(found, layout, folder, draft, paths)
    if len(layout.sheets) > 1:
        other = folder / "backwards"
        other.mkdir()
        again = [path.name for path in layout.write(other, backwards=True)][::-1]
        text = loadsheet(other, "mapping", "suggest", *again).stdout
        found.same_in_any_order = bool(text) and Draft(text).values == draft.values
    return found


def _all_lost(found, layout):
    """Nothing is right where a draft should be and is none."""
    for sheet in layout.sheets:
        for column in () if sheet.unrelated else sheet.columns:
            found.columns[f"{sheet.title or sheet.file}: {column.heading}"] = MISSING, {}
    found.target_right = found.key_right = found.group_right = found.translates = found.same_in_any_order = False


# ---- the draft against its labels ----


def score_draft(found, layout, draft):
    found.target = draft.target
    found.target_right = draft.target in layout.targets
    homes = {table: _home(draft, table, layout.sheets) for table in draft.tables}
    for sheet in layout.sheets:
        if sheet.unrelated:
            continue
        twice = repeated(sheet.columns)
        for position, column in enumerate(sheet.columns):
            if not column.heading:
                continue
            own = _read_by(column, position, sheet, [one for one in draft.columns if homes.get(one.table) is sheet])
            name = f"{sheet.title or sheet.file}: {column.heading}" + (
                f" ({position + 1})" if column.heading.casefold() in twice else ""
            )
            found.columns[name] = _verdict(column, own), {path: mark for one in own for path, mark in one.fills.items()}
            if outlier := column.word("outlier").rpartition("@")[0]:
                found.outliers[name] = any(_is_shown(one, outlier) for one in own)
    keys = [column.heading for column in layout.sheets[0].columns if column.is_key]
    field_ = next((column.fields[0] for column in layout.sheets[0].columns if column.is_key), "")
    used = [label for one in draft.columns if field_ in one.fills for label in one.labels]
    found.key_right = not keys or bool({_fold(label) for label in used} & {_fold(key) for key in keys})
    joined = {id(homes[table]) for table in homes}
    wanted = {id(sheet) for sheet in layout.sheets if not sheet.unrelated}
    found.group_right = {_fold(one) for one in draft.group()} == {
        _fold(one) for one in layout.group
    } and joined == wanted
    cells = {_fold(str(cell)) for sheet in layout.sheets for cell in _first_cells(layout, sheet)}
    known = {_fold(column.heading) for sheet in layout.sheets for column in sheet.columns}
    parts = {
        _fold(part)
        for one in draft.columns
        for label in one.labels
        if _fold(label) not in known
        for part in label.split(" / ")
    }
    found.data_in_heading = bool(parts & cells - {""})


def _is_shown(drafted, outlier):
    """Whether a drafted column shows an outlier or has a limit that refuses it."""
    return bool({"min", "max"} & drafted.keys.keys()) or outlier.partition("_")[0] in drafted.line


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
    text, found.fill_ins = filled_in(
        draft.text, FILL | layout.fill, CODES | {key.casefold(): code for key, code in layout.codes.items()}
    )
    (folder / "filled.yaml").write_text(text, encoding="utf-8")
    linted = loadsheet(folder, "mapping", "lint", "filled.yaml", "--json")
    found.findings = [f"{one['line']}: {one['text']}" for one in json.loads(linted.stdout)] if linted.returncode else []
    found.lints = linted.returncode == 0
    if not found.lints:
        found.translates = False
        return
    made = loadsheet(folder, "mapping", "preview", *paths, "--mapping", "filled.yaml", "--rows", "100000", "--json")
    if not made.stdout:
        found.translates, found.error = False, made.stderr[-400:]
        found.rows_lost = len(layout.sheets[0].data_rows)
        return
    records = json.loads(made.stdout)["records"]
    errors = [[problem for problem in record["problems"] if problem.get("level") == "error"] for record in records]
    found.problems = sorted({_problem(one) for several in errors for one in several})[:8]
    keys = layout.keys()
    made_keys = [record["key"] if record["key"] in keys else record["key"].partition("/")[0] for record in records]
    several = draft.target == "order.status"  # events
    wrong_keys = bool(keys) and (set(made_keys) != keys or (len(made_keys) > len(keys) and not several))
    found.rows_lost = len(set(layout.sheets[0].data_rows) - _main_rows(draft, layout, records))
    invalid = sum(bool(several) for several in errors)
    found.translates = (
        invalid <= layout.bad + len(found.outliers) and not wrong_keys and not found.rows_lost and bool(records)
    )


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


# ---- cost ----


def cost(folder, rows=10_000):
    """CPU seconds and the peak of the memory (MB) of `suggest` for a file of 30 columns, the process as a whole."""
    from .made_layouts import wide

    (path,) = wide(rows).write(folder)
    variables = {**os.environ, "LOADSHEET_ALLOW_ROOT": "true"}
    command = [sys.executable, "-m", "loadsheet", "mapping", "suggest", path.name, "--out", "wide.yaml"]
    before, peak = os.times(), 0.0
    with subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, memory_mb(process.pid))
            time.sleep(0.05)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "rows": rows,
        "columns": 30,
        "cpu_s": round(seconds, 2),
        "peak_mb": round(peak),
        "exit_code": process.returncode,
    }

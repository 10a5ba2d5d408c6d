"""The verdict on each column of a labelled layout, by what the draft with its marks filled in sends of it."""

import re

from drafting import drafted_columns, fields_of

RIGHT, MARKED, UNMARKED, MISSING = "right", "wrong, marked", "wrong, unmarked", "missing"
NO_FIELD = {"-", "join", "kind", "target"}
TOTALS = {
    "total_packages", "total_weight", "chargeable_weight", "total_volume", "totalWeight", "totalQuantity", "totalPackages",
}  # fmt: skip
MEASURED = {"weight", "volume", "length", "width", "height", "quantity"}
BESIDE = {  # what may follow from a column besides its own field
    "item_name": {"packages.description"}, "description": {"packages.item_name"}, "status_code": {"status_name"},
    "status_name": {"status_code", "status_description"}, "status_description": {"status_name"}, "timezone": {"timeoffset"},
    "party_name": {"involved_parties.party_company"}, "party_company": {"involved_parties.party_name"},
    "status_datetime": {"current_location_datetime"}, "value": {"tender_references.value"},
    "carrier_id": {"involved_carriers.carrier_company"}, "total_weight": TOTALS, "total_volume": TOTALS, "total_packages": TOTALS,
}  # fmt: skip


def verdicts(layout, text, mapping):
    """The verdict on each column by its heading: of a layout, its draft, and the mapping that the draft is once it is filled in."""
    lines, sent, found = drafted_columns(text), fields_of(mapping), {}
    for sheet in (sheet for sheet in layout.sheets if not sheet.unrelated):
        for position, column in enumerate(sheet.columns):
            before = sum(other.heading == column.heading for other in sheet.columns[:position])
            numbered = f"{column.heading} ({before + 1})" if before else column.heading
            labels = [numbered] if numbered in sent else [label for label in sent if is_label_of(label, column)]
            fields = {
                field for label in labels for field in sent[label] if not field.startswith("(")
            }  # ( before a table itself
            marked = any(is_marked(lines.get(label, "")) for label in labels)
            if column.heading and not ("join" in column.fields and fields <= {"order_id"}):
                found[f"{sheet.title or sheet.file}: {numbered}"] = verdict(column, fields, text, marked=marked)
    return found


def is_label_of(label, column):
    """Whether a label is the heading of a column, or that of a set of columns to which the column belongs."""
    if label == "{set}":
        return "set" in column.more
    pattern = re.escape(label).replace(r"\ \{set\}", "(?: .+)?").replace(r"\{set\}", ".+")
    return re.fullmatch(pattern, column.heading, re.IGNORECASE) is not None


def is_marked(line):
    return "CHECK" in line or "FILL IN" in line


def verdict(column, fields, text, *, marked):
    """`marked`: whether the draft marks the line of the column. Otherwise it may mark each field."""
    lines = text.partition("\npayload:")[2].splitlines()

    def is_doubted(field):
        name = field.rpartition(".")[2]
        return any(is_marked(line) for line in lines if line.strip().removeprefix("- ").startswith(f"{name}: "))

    right = fields & set(column.fields)
    times = {
        field for field in fields if field.endswith("datetime") and right and is_doubted(field)
    }  # of a moment without a column
    if wrong := (fields - accepted(column) - times) or (set() if right else fields):
        return MARKED if marked or all(map(is_doubted, wrong)) else UNMARKED
    return RIGHT if fields or NO_FIELD & set(column.fields) else MISSING


def accepted(column):
    """The fields that an expert would fill from this column, or compute from it."""
    found = {"status_code", "status_name"} if "set" in column.more else set()
    for wanted in column.fields:
        side, leaf = wanted.partition("_")[0], wanted.rpartition(".")[2]
        found |= {wanted} | BESIDE.get(leaf, set())
        found |= {*TOTALS, "packages.volume"} if leaf in MEASURED else set()
        found |= {"timeoffset"} if "datetime" in wanted or wanted == "createdon" else set()
        if wanted.endswith(("_startdatetime", "_enddatetime")):
            found |= {f"{side}_startdatetime", f"{side}_enddatetime"}
        if wanted in ("pickup_company", "delivery_company"):
            found |= {"involved_parties.party_company", "involved_parties.party_name"}
    return found

"""Small sheets, the drafts of mappings that they give, and what is read from a draft."""

import re
from pathlib import Path

from shipped_samples import NOW
from workspace import book_of

from loadsheet.contract import BY_NAME, Assumptions, example_record
from loadsheet.mapping.compile import lint, load
from loadsheet.mapping_tools.comparison import translate_files
from loadsheet.mapping_tools.drafts import FILL_IN
from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import draft
from loadsheet.mapping_tools.value_origins import without_positions
from loadsheet.mapping_tools.yaml_writer import write_draft
from loadsheet.settings import Settings

HEAD = "Order no;Consignee;Street;Postcode;City;Country;Pickup date;Delivery date"
PLACES = [
    "Möbel Höffner;Prager Str. 1;01067;Dresden;DE;02.03.2026;03.03.2026",
    "Rhein Pumpen;Domkloster 4;50667;Köln;DE;03.03.2026;16.03.2026",
    "Alt Papier;Kade 8;80331;München;DE;04.03.2026;05.03.2026",
]


def orders(*columns, keys=12):
    """A sheet of orders with further columns, each `heading;one;two` with cells that take turns. `keys`: the keys, or their number."""
    texts = [column.split(";") for column in columns]
    lines = [";".join([HEAD, *(own[0] for own in texts)])]
    for at, key in enumerate([f"A-{number}" for number in range(1, keys + 1)] if isinstance(keys, int) else keys):
        lines.append(";".join([key, PLACES[at % 3], *(own[1 + at % (len(own) - 1)] for own in texts)]))
    return "\n".join(lines) + "\n"


def table(heading, *lines):
    """A sheet with these lines, each with a key of its own before it."""
    return "".join(f"{line}\n" for line in [heading, *(f"A-{at};{line}" for at, line in enumerate(lines, 1))])


def written(folder, sheet):
    """The paths of a sheet, written: a text, its bytes or rows of cells as one file, a dictionary as a file for each name, or, where it
    has rows of cells, as one workbook with these sheets; a path as it is.
    """
    if isinstance(sheet, Path):
        return [sheet]
    if isinstance(sheet, str | bytes):
        return written(folder, {"sheet.csv": sheet})
    if isinstance(sheet, list):
        return written(folder, {"Sheet": sheet})
    if any(isinstance(rows, list) for rows in sheet.values()):
        book_of(sheet).save(folder / "sheet.xlsx")
        return [folder / "sheet.xlsx"]
    for name, text in sheet.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return [folder / name for name in sheet]


def suggested(folder, sheet, target=None, *known):
    """The draft for a sheet (see `written`); `known` are the values of other mappings."""
    return write_draft(draft(observe(written(folder, sheet), Settings()), target, *known))


def mistakes(folder, text):
    """What lint finds in a draft besides the places to fill in."""
    path = folder / "draft.yaml"
    path.write_text(text, encoding="utf-8")
    lines = text.splitlines()
    return [str(finding) for finding in lint(path, Assumptions()) if FILL_IN not in lines[finding.line - 1]]


def unsaid(text, said):
    """The texts that are missing in another one, and those that it has although a ! stands before them."""
    return [one for one in said if (one[1:] in text if one.startswith("!") else one not in text)]


def drafted_columns(text):
    """The lines of a draft's columns by heading, also those that are commented out."""
    lines = text.partition("\ncolumns:")[2].partition("\npayload:")[0].splitlines()
    found = {}
    for line in lines:
        if label := re.search(r'label: (?:"([^"]*)"|([^,}]*))', line):
            found[label[1] or label[2]] = line.strip()
    return found


def filled_in(text, operation):
    """The draft with something in every marked place, as an author would write it."""
    values = {path.rpartition(".")[2]: value for path, value in _leaves(example_record(BY_NAME[operation]))}
    lines = []
    for line in text.splitlines():
        name = line.strip().partition(":")[0]
        known = re.search(r"the meaning of the codes: (.*)", line)
        value = known[1].split(", ")[0] if known else f'"{values.get(name, "X")}"'
        value = {"timezone": "Europe/Berlin", "target": operation}.get(name, value)
        lines.append(re.sub(r": null\b", f": {value}", line) if FILL_IN in line else line)
    return "\n".join(lines)


def _leaves(value, path=""):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    else:
        yield path, value


def mapping_of(folder, text, operation="order.create"):
    """A draft's mapping once its marks are filled in."""
    path = folder / "filled.yaml"
    path.write_text(filled_in(text, operation), encoding="utf-8")
    return load(path, Assumptions())


def translated(mapping, paths):
    """The documents that a mapping makes of files, the main one first."""
    return translate_files(mapping, paths, Settings(), now=NOW).documents


def fields_of(mapping):
    """Which fields each column sends, by its heading; the numbers of lists are left away."""
    labels = {(each.name, column.name): column.label for each in mapping.plan.tables for column in each.columns}
    found = {}
    for path, sources in mapping.lineage.items():
        for source in sources:
            if (source.table, source.column) in labels:
                found.setdefault(labels[source.table, source.column], set()).add(
                    without_positions(path).replace("[]", "")
                )
    return found

"""Values explained backwards: payload path <- leaf of the mapping <- converted value <- cells as the sender wrote them.

Owns: payloads as paths and values, the explanation of a value, and the preview of a document (its cells beside their fields).
The sources are the document itself (rows, lineage) and the mapping file, if that is still the version the document was made with.
Nothing is stored for it. Knows no ledger.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadsheet.contract import encode_record, values_by_path
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.documents import Document, Lineage, Place, RowLinks, SourceRow, locate
from loadsheet.mapping.lookups import lookup_key, read_lookup
from loadsheet.mapping.plans import ColumnPlan
from loadsheet.mapping.schema import LookupSpec
from loadsheet.mapping.yamlfile import Loc, YamlFile, read_with_base
from loadsheet.problems import Problem, Where
from loadsheet.reading import Table, fold_label
from loadsheet.similar_text import did_you_mean, short_list
from loadsheet.workbook_marks import table_of

_CELLS_SHOWN = 50


def json_by_path(payload: bytes) -> dict[str, str]:
    """A payload as paths (`packages[0].weight`) with their values as JSON; empty lists and objects are kept."""
    return {path: encode_record(value).decode() for path, value in values_by_path(payload)}


def without_positions(path: str) -> str:
    """A path without the positions in its lists: `packages[1].weight` is `packages[].weight`."""
    head, *rest = path.split("[")
    return head + "".join(f"[{part[part.index(']') :]}" for part in rest)


@dataclass(frozen=True, slots=True)
class TracedCell:
    """A cell behind a value: its place, its heading, its text as sent, how it is read, and the code row it matched."""

    where: Where
    label: str
    text: str
    read: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """One value of a payload: its path, the value as JSON, its cells (none: the mapping supplies it), the total number of cells, and the
    place and text of the mapping's leaf.
    """

    path: str
    value: str
    cells: tuple[TracedCell, ...]
    cells_in_all: int
    leaf: str = ""
    leaf_at: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """The stored parts of a document: its payload, rows and links (see `Document`), and the lineage of its mapping. By table, `columns`
    has the position of each column (by the mapping's name), and `headers` has the headings. `place` gives the place of a cell from
    table, row number and position.
    """

    payload: bytes
    rows: Sequence[SourceRow]
    links: RowLinks
    lineage: Lineage
    columns: Mapping[str, Mapping[str, int]]
    headers: Mapping[str, tuple[str, ...]]
    place: Callable[[str, int, int | None], Where]


def fields_named(payload: bytes, wanted: str) -> list[str]:
    """The payload paths that match an input: the path itself, all places of a pattern (`packages[].weight`), all below an object or list
    (`packages[1]`), or all fields of that name. Raises KeyError with the existing fields.
    """
    paths = list(json_by_path(payload))
    tests: tuple[Callable[[str], bool], ...] = (
        lambda path: path == wanted,
        lambda path: without_positions(path) == wanted,
        lambda path: path.startswith((f"{wanted}.", f"{wanted}[")),
        lambda path: path.rpartition(".")[2] == wanted,
    )
    for is_meant in tests:
        if found := [path for path in paths if is_meant(path)]:
            return found
    hint = did_you_mean(wanted, paths) or f"there are {short_list(dict.fromkeys(map(without_positions, paths)), 60)}"
    raise KeyError(f"the record has no field {wanted}; {hint}")


def explain(origin: Origin, paths: Sequence[str], mapping: CompiledMapping | None) -> list[ValueOrigin]:
    """The explanation of each payload path; without a mapping only the cells."""
    values = json_by_path(origin.payload)
    file = read_with_base(mapping.path) if mapping is not None else None
    tables = mapping.plan.tables if mapping is not None else ()
    columns = {(table.name, column.name): column for table in tables for column in table.columns}
    found = []
    for path in paths:
        places = locate(origin.lineage, origin.rows, origin.links, path)
        shown = places[:_CELLS_SHOWN]
        cells = tuple(_cell(origin, place, columns.get((table_of(place.table), place.column)), file) for place in shown)
        leaf, leaf_at = _leaf(file, path, origin.links) if file is not None else ("", "")
        found.append(ValueOrigin(path, values[path], cells, len(places), leaf, leaf_at))
    return found


def _cell(origin: Origin, place: Place, column: ColumnPlan | None, file: YamlFile | None) -> TracedCell:
    row = origin.rows[place.row]
    index = origin.columns.get(row.table, {}).get(place.column)
    if index is None:  # a column of a set has a different heading in each set
        labels = [fold_label(label) for label in origin.headers.get(row.table, ())]
        index = labels.index(fold_label(place.label)) if fold_label(place.label) in labels else None
    text = row.cells[index] if index is not None and index < len(row.cells) else ""
    where = origin.place(row.table, row.number, index)
    if column is None:
        return TracedCell(
            where, place.label, text, "" if index is not None or not place.column else "computed for the row"
        )
    return TracedCell(where, column.label, text, _reading(column, file), _code(column, text, file))


def _reading(column: ColumnPlan, file: YamlFile | None) -> str:
    """How a column reads its cells, in the mapping's keys, with the file's settings for numbers and dates."""
    spec = column.spec
    keys = [key for key in type(spec).model_fields if key in spec.model_fields_set and key not in _NOT_READING]
    ways = [f"{key} {_plain(getattr(spec, key))}" for key in keys if getattr(spec, key) not in (None, [], "", False)]
    source = file.values.get("source", {}) if file is not None else {}
    habits = [key for key in _HABITS.get(spec.type, ()) if source.get(key) and key not in keys]
    ways += [f"{key} {_plain(source[key])}" for key in habits]
    return ", ".join([spec.type, *ways])


_HABITS = {  # keys of `source` that affect how a type is read
    **dict.fromkeys(("integer", "decimal", "quantity", "country", "yesno"), ("locale",)),
    **dict.fromkeys(("date", "datetime"), ("dates", "timezone")),
}
_NOT_READING = frozenset({"label", "aliases", "type", "required", "key", "example", "note", "one_of"})


def _plain(value: Any) -> str:
    if hasattr(value, "model_dump"):
        value = {name: inner for name, inner in value.model_dump(by_alias=True).items() if inner is not None}
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {inner}" for name, inner in value.items()) + "}"
    return " or ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _code(column: ColumnPlan, text: str, file: YamlFile | None) -> str:
    """The row of a code table, or the pair of a code list, that a text matched."""
    spec = column.spec
    if isinstance(spec.one_of, dict):
        own = lookup_key(text, ignore_case=True)
        found = next((value for key, value in spec.one_of.items() if lookup_key(key, ignore_case=True) == own), None)
        return f"one_of: {text} -> {found}" if found is not None else ""
    if spec.lookup is None or file is None:
        return ""
    table = LookupSpec.model_validate(file.values["lookups"][spec.lookup])
    bounds = [f"{table.range.from_} to {table.range.to}"] if table.range is not None else []
    by = f"by {' and '.join([*table.key, *bounds])}"
    if table.table is not None:
        return f"{table.table}: {by}"
    lookup = read_lookup(table, file, ("lookups", spec.lookup))
    if lookup is not None and (lookup.more_keys or lookup.range is not None):
        return f"{table.file}: {by}"
    codes = lookup.find(text) if lookup is not None else None
    if lookup is None or codes is None:
        return f"{table.file}: no row for {text}"
    meant = ", ".join(f"{name} {value or 'blank'}" for name, value in zip(lookup.columns, codes, strict=True))
    return f"{table.file}: {table.key[0]} {text} -> {meant}"


# ---- the leaf of the mapping ----


def _leaf(file: YamlFile, path: str, links: RowLinks) -> tuple[str, str]:
    """The leaf that fills a path: its text in the file, and `file:line`."""
    for loc in _locs(file, path, links):
        if loc in file.marks and loc[-1] != "payload":
            line, column = file.marks[loc]
            path_of_it = file.owner(loc)
            text = path_of_it.read_text(encoding="utf-8-sig").splitlines()[line - 1][column - 1 :]
            return text.split("  #")[0].strip(), f"{path_of_it}:{line}"
    return "", ""


def _locs(file: YamlFile, path: str, links: RowLinks) -> Iterator[Loc]:
    """Possible places of a path's leaf in the file, the deepest first."""
    loc: Loc = ("payload",)
    walked = ""
    for step in path.replace("[", ".[").split("."):
        if not step.startswith("["):
            walked = f"{walked}.{step}" if walked else step
            loc = (*loc, step)
            continue
        index = int(step[1:-1])
        entries = links.present.get(walked, ())
        walked += step
        if (*loc, "list") in file.marks:
            loc = (*loc, "list", entries[index] if index < len(entries) else index)
        elif (*loc, "item") in file.marks:
            loc = (*loc, "item")
    while len(loc) > 1:
        yield loc
        loc = loc[:-1]


# ---- the preview of a document ----


@dataclass(frozen=True, slots=True)
class Preview:
    """A document: operation, key, its rows as `table: numbers`, its values in the payload's order, the cells that fill no field (of a
    refused document: all cells of its first rows), and its problems.
    """

    operation: str
    key: str
    rows: tuple[str, ...]
    values: tuple[ValueOrigin, ...]
    unused: tuple[TracedCell, ...]
    problems: tuple[Problem, ...]


def document_origin(mapping: CompiledMapping, document: Document, tables: Mapping[str, Table]) -> Origin:
    """The origin of a document that was read from these tables (by the mapping's names)."""

    def place(table: str, row: int, column: int | None) -> Where:
        return tables[table].where(row, column)

    columns = {name: table.columns for name, table in tables.items()}
    headers = {name: table.header for name, table in tables.items()}
    return Origin(document.payload, document.rows, document.links, mapping.lineage, columns, headers, place)


def preview(mapping: CompiledMapping, document: Document, tables: Mapping[str, Table]) -> Preview:
    """The preview of one document that was read from these tables (by the mapping's names)."""
    origin = document_origin(mapping, document, tables)
    values = tuple(explain(origin, list(json_by_path(document.payload)), None))
    numbers: dict[str, list[str]] = {}
    for row in document.rows:
        numbers.setdefault(row.table, []).append(str(row.number))
    rows = tuple(f"{table}: {', '.join(found)}" for table, found in numbers.items())
    unused = tuple(_unused(mapping, document, tables))
    return Preview(document.operation, document.key, rows, values, unused, document.problems)


def _unused(mapping: CompiledMapping, document: Document, tables: Mapping[str, Table]) -> list[TracedCell]:
    """Cells of the document's first rows whose column fills no field of any record, with the header's words. For a refused document all
    cells.
    """
    lineage = mapping.lineage if document.payload else {}
    used = {fold_label(source.label) for sources in lineage.values() for source in sources}
    for table in mapping.plan.tables:  # a column is the same under an alias
        for column in table.columns:
            own = set(map(fold_label, column.labels))
            used |= own if own & used else set()
    found = []
    for name, source in tables.items():
        row = next((row for row in document.rows if row.table == name), None)
        for position, label in enumerate(source.header):
            filled = row is not None and position < len(row.cells) and row.cells[position].strip()
            if row is not None and filled and label.strip() and fold_label(label) not in used:
                found.append(TracedCell(source.where(row.number, position), label, row.cells[position]))
    return found

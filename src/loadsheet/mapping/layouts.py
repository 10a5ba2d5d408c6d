"""The layouts of a compiled mapping: which tables to read from which file, under which headings, in which notation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from loadsheet.mapping.plans import TablePlan, in_every_set
from loadsheet.mapping.schema import Source, TableSpec
from loadsheet.reading.header import fold
from loadsheet.reading.tables import Layout, RowFilters, WantedColumn

KIND = "(kind)"
"""The layout's name for the column with the kind of row."""


def layouts_of(source: Source, tables: tuple[TablePlan, ...], main_role: str) -> dict[str, tuple[Layout, ...]]:
    """By role, the tables to read from that file, in the order of the mapping."""
    found: dict[str, list[Layout]] = {}
    repeated = _repeated(tables)
    for name in dict.fromkeys(table.source for table in tables):
        spec = source.tables[name]
        columns = [column for table in tables if table.source == name for column in wanted_columns(table, repeated)]
        base, marks = Layout(name, tuple(columns)), marks_of(source)
        layout = Layout(
            base.name,
            base.columns,
            tuple(spec.sheet or ()),
            spec.header_row,
            tuple(source.encoding or base.encodings),
            tuple(source.delimiter or (usual for usual in base.delimiters if usual not in marks)),
            *marks,
            header_rows=spec.header_rows,
            row_filters=_row_filters(spec),
        )
        found.setdefault(spec.file or main_role, []).append(layout)
    return {role: tuple(layouts) for role, layouts in found.items()}


def _row_filters(spec: TableSpec) -> RowFilters:
    totals, footer = (tuple(rule.begins_with) if rule else () for rule in (spec.totals, spec.footer))
    return RowFilters(
        spec.units_row, spec.comment or "", totals, footer, spec.stop_at_blank, spec.hidden_rows, spec.hidden_columns
    )


def marks_of(source: Source) -> tuple[str, str]:
    """The quote and the escape character of the text files; empty: none."""
    quote = '"' if source.quote is None else source.quote
    return "" if quote == "none" else quote, source.escape or ""


def wanted_columns(plan: TablePlan, repeated: Mapping[tuple[str, str], int] | None = None) -> list[WantedColumn]:
    """The headings that a compiled table needs in its file. A required column of the sets is required in the first set only. `repeated`
    says how often the tables of a sheet read each heading that repeats (see `_repeated`; default: only this table reads it).
    """
    found = []
    repeated = _repeated([plan]) if repeated is None else repeated
    for column in plan.columns:
        if column.spec.whereabouts():
            continue
        name, required = f"{plan.prefix}{column.name}", column.spec.required
        labels = (column.plain_label, *column.spec.aliases)
        if plan.sets is None or not in_every_set(column):
            occurrence = column.spec.occurrence or 0
            count = repeated[plan.source, fold(column.plain_label)] if occurrence else 0
            found.append(WantedColumn(name, labels, required, occurrence, count))
            continue
        sets, count = plan.sets, len(plan.sets.words)
        for number in range(count):
            own = tuple(sets.heading(label, 0 if sets.repeated else number) for label in labels)
            repeats = (number + 1, count, True) if sets.repeated else (0, 0, False)
            found.append(WantedColumn(f"{name}#{number}", own, required and not number, *repeats))
    if plan.kind is not None and plan.kind.others is not None:
        found.append(WantedColumn(KIND, (plan.kind.label,)))
    return found


def heading_clashes(tables: Sequence[TablePlan]) -> Iterator[tuple[str, str, str]]:
    """The columns that do not say which column of a repeated heading they read: table, column, and what is wrong."""
    numbered = set(_repeated(tables))
    in_sets = {
        (table.source, fold(table.sets.heading(column.plain_label, 0))): table.name
        for table in tables
        if table.sets is not None and table.sets.repeated
        for column in table.sets.columns
    }
    for table in tables:
        for column in table.columns:
            place = table.source, fold(column.plain_label)
            if column.spec.whereabouts() or in_every_set(column):
                continue
            if place in in_sets:
                text = f"repeats as a heading of the sets of {in_sets[place]}, and only they can read it"
                yield table.name, column.name, f"{column.plain_label} {text}"
            elif place in numbered and not column.spec.occurrence:
                yield table.name, column.name, f"{column.plain_label} repeats: give this column its occurrence"


def _repeated(tables: Iterable[TablePlan]) -> dict[tuple[str, str], int]:
    """How often each heading with an occurrence is read, by the table whose sheet has it and the folded label."""
    found: dict[tuple[str, str], int] = {}
    for table in tables:
        for column in (column for column in table.columns if column.spec.occurrence):
            place = table.source, fold(column.plain_label)
            found[place] = max(found.get(place, 0), column.spec.occurrence or 0)
    return found

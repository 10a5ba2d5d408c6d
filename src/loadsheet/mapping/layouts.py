"""The layouts of a compiled mapping: which tables to read from which file, under which headings, in which notation."""

from collections.abc import Sequence

from loadsheet.mapping.plans import TablePlan, in_every_set
from loadsheet.mapping.schema import SET, Source, TableSpec
from loadsheet.reading.header import fold
from loadsheet.reading.tables import Layout, RowFilters, WantedColumn

KIND = "(kind)"
"""The layout's name for the column with the kind of row."""


def layouts_of(source: Source, tables: tuple[TablePlan, ...], main_role: str) -> dict[str, tuple[Layout, ...]]:
    """By role, the tables to read from that file, in the order of the mapping."""
    found: dict[str, list[Layout]] = {}
    for name in dict.fromkeys(table.source for table in tables):
        spec = source.tables[name]
        columns = [column for table in tables if table.source == name for column in wanted_columns(table)]
        base = Layout(name, tuple(columns))
        layout = Layout(
            base.name,
            base.columns,
            tuple(spec.sheet or ()),
            spec.header_row,
            tuple(source.encoding or base.encodings),
            tuple(source.delimiter or base.delimiters),
            *marks_of(source),
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


def wanted_columns(plan: TablePlan) -> list[WantedColumn]:
    """The headings that a compiled table needs in its file. A required column of the sets is required in the first set only."""
    found, most = [], dict[str, int]()  # `most`: how often a repeated heading is read
    for column in plan.columns:
        most[fold(column.spec.label or "")] = max(
            most.get(fold(column.spec.label or ""), 0), column.spec.occurrence or 0
        )
    for column in plan.columns:
        if column.spec.whereabouts():
            continue
        name, required = f"{plan.prefix}{column.name}", column.spec.required
        labels = (column.label, *column.spec.aliases)
        if plan.sets is None or not in_every_set(column):
            number, count = column.spec.occurrence or 0, most[fold(column.spec.label or "")]
            numbered = _numbered((column.spec.label or "", *column.spec.aliases), count)
            found.append(WantedColumn(name, numbered if number else labels, required, number, count if number else 0))
            continue
        for number, (word, _) in enumerate(plan.sets.words):
            own = tuple(label.replace(SET, "" if plan.sets.repeated else word).strip() for label in labels)
            own = _numbered(own, len(plan.sets.words)) if plan.sets.repeated else own
            occurrence = number + 1 if plan.sets.repeated else 0
            most_sets = -len(plan.sets.words) if plan.sets.repeated else 0
            found.append(WantedColumn(f"{name}#{number}", own, required and not number, occurrence, most_sets))
    if plan.kind is not None and plan.kind.others is not None:
        found.append(WantedColumn(KIND, (plan.kind.label,)))
    return found


def _numbered(labels: Sequence[str], count: int) -> tuple[str, ...]:
    """Labels that repeat, with the numbers that a fix file gives them: Item, Item (2)."""
    return (*labels, *(f"{label} ({number})" for label in labels for number in range(2, count + 1)))

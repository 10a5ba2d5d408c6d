"""The layouts of a mapping's files: which tables to read, under which headings, in which notation; and what each
column takes, in words for its sender: for templates, fix workbooks and error texts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache

from babel import Locale

from loadsheet.languages import Language, known_language, words_in
from loadsheet.mapping.codes import NO_COUNTRIES, YES_NO, currency_codes, folded_name
from loadsheet.mapping.documents import ColumnGuide
from loadsheet.mapping.lookups import Lookup
from loadsheet.mapping.notations import in_format
from loadsheet.mapping.plans import ColumnPlan, TableLookup, TablePlan, in_every_set
from loadsheet.mapping.schema import Column, Source, TableSpec
from loadsheet.mapping.texts import example_of, group_names
from loadsheet.reading.header import fold_label
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
            count = repeated[plan.source, fold_label(column.plain_label)] if occurrence else 0
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


def columns_by_heading(plan: TablePlan) -> Iterator[tuple[WantedColumn, ColumnPlan]]:
    """The headings of a compiled table, each with the column that reads it. The heading of a kind column has none."""
    by_name = {f"{plan.prefix}{column.name}": column for column in plan.columns}
    for wanted in wanted_columns(plan):
        column = by_name.get(wanted.name.partition("#")[0])
        if column is not None:
            yield wanted, column


def heading_clashes(tables: Sequence[TablePlan]) -> Iterator[tuple[str, str, str]]:
    """The columns that do not say which column of a repeated heading they read: table, column, and what is wrong."""
    numbered = set(_repeated(tables))
    in_sets = {
        (table.source, fold_label(table.sets.heading(column.plain_label, 0))): table.name
        for table in tables
        if table.sets is not None and table.sets.repeated
        for column in table.sets.columns
    }
    for table in tables:
        for column in table.columns:
            place = table.source, fold_label(column.plain_label)
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
            place = table.source, fold_label(column.plain_label)
            found[place] = max(found.get(place, 0), column.spec.occurrence or 0)
    return found


# ---- what a column takes, in words ----

MOMENT = datetime(2026, 3, 24, 8, 0)  # noqa: DTZ001 (a local time in an example)
"""A moment for examples: its day cannot be mistaken for a month."""

_NAMED = re.compile("%[aAbBp]")  # these differ by language
_CLOCK = re.compile("%[HIs]")

CHOICES_MAX = 300
"""Longer lists are not offered as choices."""

_UNIT_SIGNS = {"in": "inch", "m**3": "m³", "ft**3": "ft³", "in**3": "in³", "cm**3": "cm³"}
DESCRIBED = {
    "text": "a text",
    "integer": "a whole number",
    "decimal": "a number",
    "quantity": "a number (add the unit if it differs)",
    "date": "a date",
    "datetime": "a date and time",
    "time": "a time of day",
    "country": "a country: name or two-letter code",
    "currency": "a three-letter currency code",
    "yesno": "yes or no",
    "timezone": "the name of a time zone, such as Europe/Berlin",
}
DETAILS = {
    "min": "at least {0}",
    "max": "at most {0}",
    "places": "at most {0} decimals",
    "max_length": "at most {0} characters",
}


def language_of(locale: str | None) -> str:
    """The language of a locale (`de_DE` gives `de`); empty if there is no locale."""
    return (locale or "").partition("_")[0].casefold()


def column_guides_of(
    tables: Sequence[TablePlan], locale: str | None, known: Mapping[tuple[str, str], tuple[str, ...]]
) -> dict[str, dict[str, ColumnGuide]]:
    """The descriptions of a file's columns, by table and by every heading that a column may have: in the language of the sheet, or in
    English if there are no texts in it. `known` are the values that the interface names, by table and column: a column that leaves all
    of them as they are offers them.
    """
    language = known_language(locale or "") or "en"
    found: dict[str, dict[str, ColumnGuide]] = {}
    for table in tables:
        own = found.setdefault(table.source or table.name, {})
        for wanted, column in columns_by_heading(table):
            choices = column.choices or _unchanged(column, known.get((table.name, column.name), ()))
            choices = choices if len(choices) <= CHOICES_MAX else ()
            guide = ColumnGuide(expected_text(column, language), choices, column.spec.required)
            own |= {label: guide for label in wanted.shown if label not in own}
    return found


def _unchanged(column: ColumnPlan, known: tuple[str, ...]) -> tuple[str, ...]:
    """Texts that a column offers: these, if it leaves each of them as it is."""
    return known if column.spec.type == "text" and all(column.convert(text) == text for text in known) else ()


def expected_text(column: ColumnPlan, language: Language) -> str:
    """What the cells of a column hold, in one sentence."""
    spec, words = column.spec, words_in(language)
    kind = "date" if spec.type == "datetime" and column.writes and not _CLOCK.search(column.writes) else spec.type
    parts = [words.say(DESCRIBED[kind])]
    if column.writes and not _NAMED.search(column.writes):
        parts.append(words.say("such as {0}", in_format(MOMENT, column.writes)))
    unit = spec.from_unit or spec.unit or spec.currency
    if unit:
        parts.append(words.say("in {0}", _UNIT_SIGNS.get(unit, unit)))
    details = ((text, getattr(spec, key)) for key, text in DETAILS.items())
    parts += [words.say(text, words.decimal(Decimal(value))) for text, value in details if value is not None]
    example = spec.example if spec.example is not None else example_of(spec.pattern or "")
    if spec.pattern and example:
        parts.append(words.say("such as {0}", example))
    if spec.split:
        parts.append(words.say("made of {0}", ", ".join(group_names(spec.split))))
    if spec.default is not None and spec.default != "":
        parts.append(words.say("blank means {0}", spec.default))
    return ", ".join(parts)


def choices_of(spec: Column, lookup: Lookup | TableLookup | None, locale: str | None) -> tuple[str, ...]:
    """The texts that a cell of this column may hold, if they can be listed."""
    if spec.one_of:
        return tuple(spec.one_of)
    if lookup is not None:
        return tuple(key for key in lookup.keys if key != "*") if isinstance(lookup, Lookup) else ()
    if spec.type == "yesno":
        yes, no = _yes_no_words(locale)
        return ((spec.yes or [yes])[0], (spec.no or [no])[0])
    if spec.type == "country":
        return _country_names(locale)
    return currency_codes() if spec.type == "currency" else ()


def _yes_no_words(locale: str | None) -> tuple[str, str]:
    yes, no = YES_NO.get(Locale.parse(locale or "en").language, YES_NO["en"])
    return yes.split()[0], no.split()[0]


@cache
def _country_names(locale: str | None) -> tuple[str, ...]:
    """The countries in the locale's language, in alphabetical order."""
    named = Locale.parse(locale or "en").territories.items()
    names = [name for code, name in named if len(code) == 2 and code.isalpha() and code not in NO_COUNTRIES]
    return tuple(sorted(names, key=folded_name))

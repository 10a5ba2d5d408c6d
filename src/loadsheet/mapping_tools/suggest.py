"""A draft of a mapping from sheets: the target, the tables, the key, the groups, and the columns with their keys.

Owns: the shape of the draft, and the two marks. The author must complete each `FILL IN` before the draft loads. `CHECK` marks a guess that
the sheet does not prove. `suggest_payload.py` fills the payload, `yaml_writer.py` turns the draft into text.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from loadsheet.contract import BY_NAME, Action, FieldKind, Operation
from loadsheet.mapping.schema import SET
from loadsheet.mapping_tools.column_types import as_text
from loadsheet.mapping_tools.columns import CHECK, NUMBERS, Column
from loadsheet.mapping_tools.compound_columns import Parts, Sets, in_sets, review_comments, with_items, with_parts
from loadsheet.mapping_tools.drafts import (
    CODE_EXAMPLES,
    Chooser,
    Draft,
    DraftColumn,
    DraftTable,
    FolderValues,
    OperationCandidate,
    codes_of,
    is_named,
    operation_column,
    ranked_operations,
    slug,
    take_units,
    unique_name,
)
from loadsheet.mapping_tools.field_matching import Filled, Match, match
from loadsheet.mapping_tools.headings import MEASURES, concepts_of, words_of
from loadsheet.mapping_tools.payload_parts import is_time_of, is_without_clock
from loadsheet.mapping_tools.relations import (
    WEAK,
    RecordRows,
    Tables,
    agreeing,
    count_common,
    count_copies,
    key_by_values,
    left_out,
    padded_length,
    record_rows,
    related_tables,
    sheets_of_same_kind,
    total_rows,
    with_repeated_amounts,
)
from loadsheet.mapping_tools.sheet_profiles import Sheet
from loadsheet.mapping_tools.table_rows import filled_columns

_OFTEN = 10  # one key in this many has several rows, if rows are to be grouped
_SELDOM = 100  # fewer than one key in this many: its rows are doubles, not the lines of one record
_BLANK_IN_ROW = 4  # columns; a row that lacks all of these is no record
_POINTS_SHOWN = 3  # operations in the comment of the target


def draft(sheets: Sequence[Sheet], target: str | None, folder: FolderValues | None = None) -> Draft:
    """The draft for these sheets. `target` is the operation, or the subject (order, tender) of the most likely one or of the operations that
    a column chooses; by default the most likely of all. `folder` are values that other mappings have in common.
    """
    named = BY_NAME.get(target or "")
    split = [with_parts(sheet) for sheet in sheets]
    sheets = [sheet for sheet, _ in split]
    with_sets = [with_items(sheet) for sheet in sheets]
    first, candidates = _main_sheet([sheet for sheet, _ in with_sets])
    likely = next(one.match for one in candidates if target in (None, one.match.operation.subject) or named)
    found = match([with_sets[first][0]], named) if named else likely
    key = found.by_path.get(found.operation.record.key[0]) or key_by_values(sheets[first], first, found)
    tables = related_tables(sheets, key.column if key is not None else None, first)
    choosing = operation_column(sheets[tables.main], found.operation.subject)
    chosen_by = choosing.column if choosing is not None and named is None else None
    operation = BY_NAME[choosing.operation] if choosing is not None and chosen_by is not None else found.operation
    sheets, tables, of_items = _items_apart(sheets, tables, with_sets[tables.main], operation)
    found = match(sheets, operation, tables.main, tables.lines)
    if tables.lines >= 0 and all(one.sheet != tables.lines for one in found.by_path.values()):
        tables = tables._replace(lines=-1, lines_key=None)  # its columns fill nothing
        found = match(sheets, operation, tables.main)
    found = _with_key(found, tables, key)
    found, own, sets = in_sets(found, sheets, tables.main)
    sheets = [own if number == tables.main else sheet for number, sheet in enumerate(sheets)]
    numbers = [tables.main, *([tables.lines] if tables.lines >= 0 else [])]
    taken: set[str] = set()
    same_kind = sheets_of_same_kind(sheets, tables, [one.column for one in found.by_path.values()])
    made = Draft(
        name=slug("-".join(words_of(re.sub(r"[0-9]", " ", sheets[tables.main].path.stem))), "-") or "draft",
        operation=operation,
        why=_why(operation, candidates, is_asked=named is not None, is_chosen=chosen_by is not None),
        tables=[DraftTable(_table_name(sheets, number, tables, taken), sheets[number]) for number in numbers],
        by_path={},
        unused=[],
        folder=folder or FolderValues(),
        doubts={path: one.doubt for path, one in found.by_path.items() if one.doubt},
        left_out=left_out(sheets, tables, same_kind),
        same_kind=same_kind,
        is_confirmed=named is not None or is_named(operation, sheets) or _speaks_for(operation, found),
    )
    made.main.sets = sets
    if of_items is not None:
        items = made.tables[1]
        items.name, items.sets, items.source = "items", of_items, made.main
        made.main.name = f"{operation.subject}s"
    _shape_tables(made, found, dict(zip(numbers, made.tables, strict=True)), chosen_by, tables.lines_key)
    _name_parts(made, [parts for _, found_parts in split for parts in found_parts])
    if choosing is not None:
        _use_chooser(made, choosing, by_it=chosen_by is not None)
    return made


def _speaks_for(operation: Operation, found: Match) -> bool:
    """Whether the columns are enough to tell the operation: those of cancellations never are, and a key alone, such as the places of a matrix
    of lanes, is none.
    """
    return operation.action is not Action.DELETE and len(found.by_path) > 1


def _items_apart(
    sheets: Sequence[Sheet], tables: Tables, combined: tuple[Sheet, Sets | None], operation: Operation
) -> tuple[Sequence[Sheet], Tables, Sets | None]:
    """The sheets with the repeated items of the main one (`combined`) as a table of their own, unless another sheet has the lines, or the record
    has none.
    """
    main, sets = combined
    if sets is None or tables.lines >= 0:
        return sheets, tables, None
    own = replace(main, columns=tuple(column for column in main.columns if column not in sets.columns))
    items = replace(main, columns=sets.columns, doubles=(), unnamed=(), is_cut=False)
    apart = [*(own if number == tables.main else sheet for number, sheet in enumerate(sheets)), items]
    found = match(apart, operation, tables.main, len(sheets))
    if not any("[]" in path for path in found.by_path):
        return sheets, tables, None
    return apart, tables._replace(lines=len(sheets)), sets


def _shape_tables(
    made: Draft, found: Match, places: dict[int, DraftTable], chosen_by: Column | None, lines_key: Column | None
) -> None:
    """Name the columns, join the tables (by `lines_key` in that of the lines) and group the rows. Rows of one key for different operations
    (`chosen_by` a column) are different records.
    """
    key = found.by_path.get(found.operation.record.key[0])
    more = [found.by_path[name].column for name in found.operation.record.key[1:] if name in found.by_path]
    more += [column for column in made.main.sheet.columns if column is chosen_by]
    keyed = record_rows(made.main.sheet, key.column, *more) if key is not None else None
    if key is not None and keyed is not None:
        found = with_repeated_amounts(found, keyed)
        if lines_key is not None:
            found = with_repeated_amounts(found, record_rows(made.tables[1].sheet, lines_key), of_lines=True)
        made.doubts |= {path: one.doubt for path, one in found.by_path.items() if one.doubt}
        if not made.operation.repeatable and _have_nothing_in_common(keyed, found):
            made.doubts.setdefault(
                found.operation.record.key[0], "rows with the same value differ in all others of the record"
            )
    _name_columns(made, found, places, keyed)
    take_units(made)
    if lines_key is not None and key is not None:
        _join(made, key.column, lines_key)
    if key is not None and keyed is not None and key.score > WEAK:
        _group(made, [made.main.named(column) for column in (key.column, *more)], keyed)
        _leave_out_heads(made, keyed)


def _have_nothing_in_common(keyed: RecordRows, found: Match) -> bool:
    """Whether rows of one key differ in all columns that fill the record itself."""
    own = [one.column for path, one in found.by_path.items() if "[]" not in path and one.column is not keyed.key]
    own = [column for column in own if len(column.cells.values) > 1 and column.rows == keyed.key.rows]
    return bool(keyed.rows and own) and not any(agreeing(keyed, column)[0] for column in own)


def _why(operation: Operation, candidates: Sequence[OperationCandidate], *, is_asked: bool, is_chosen: bool) -> str:
    """Why the draft is for this operation, with the points of the first three, of its own and, if a column chooses among those of a subject,
    of the best one for the other subject.
    """
    own = next((one for one in candidates if one.match.operation is operation), candidates[0])
    other = next(one for one in candidates if one.match.operation.subject != operation.subject)
    shown = [
        one
        for place, one in enumerate(candidates)
        if place < _POINTS_SHOWN or one is own or (is_chosen and one is other)
    ]
    others = ", ".join(f"{one.match.operation.name} {round(one.points)}" for one in shown)
    reasons = "; ".join(own.reasons[:3])
    if is_asked:
        return f"as asked for; points: {others}"
    is_doubtful = own.points < 0 or any(one.points > own.points - 2 for one in candidates if one is not own)
    return f"{f'{CHECK}: ' if is_doubtful else ''}{reasons}{'; ' if reasons else ''}points: {others}"


# ---- tables and the key ----


def _main_sheet(sheets: Sequence[Sheet]) -> tuple[int, list[OperationCandidate]]:
    """The number of the sheet that says most of the records, and its operations."""
    by_sheet = [ranked_operations([sheet]) for sheet in sheets]
    points = [found[0].points for found in by_sheet]  # of equals, not the first: the order of sheets says nothing
    first = min(range(len(sheets)), key=lambda one: (-points[one], -len(sheets[one].rows), sheets[one].title, one))
    return first, by_sheet[first]


def _with_key(found: Match, tables: Tables, key: Filled | None) -> Match:
    """The match with the column of the main table that identifies the records."""
    if key is None or tables.main_key is None:
        return found
    path = found.operation.record.key[0]
    by_path = {
        other: one for other, one in found.by_path.items() if one.column is not tables.main_key and other != path
    }
    return Match(found.operation, {path: Filled(tables.main, tables.main_key, key.score, key.doubt), **by_path})


def _table_name(sheets: Sequence[Sheet], number: int, tables: Tables, taken: set[str]) -> str:
    if tables.lines < 0:
        return "rows"  # its rows have this name in expressions
    sheet, several = sheets[number], len({other.path for other in sheets}) > 1
    text = sheet.path.stem if several and not sheet.title else sheet.title or sheet.path.stem
    return unique_name(slug(re.sub(r"[0-9]+", " ", text)) or ("records" if number == tables.main else "lines"), taken)


# ---- columns ----


def _name_columns(made: Draft, found: Match, places: dict[int, DraftTable], keyed: RecordRows | None) -> None:
    fields = {(one.sheet, id(one.column)): path for path, one in found.by_path.items()}
    summed, word, totals = total_rows(made.main.sheet, keyed) if keyed is not None else (None, "", set[int]())
    for number, table in places.items():
        taken = {other.name for other in made.tables}  # a column with a table's name would hide it in expressions
        rows = set(range(len(table.sheet.rows))) - (totals if table is made.main else set())
        for column in table.sheet.columns:
            blank = "at" if column.label == SET else f"c{column.position + 1}"
            drafted = DraftColumn(table, unique_name(slug(column.label.replace(SET, " ")) or blank, taken), column)
            path = fields.get((number, id(column)), "")
            if table.sets is not None and column is table.sets.word:
                drafted.keys, drafted.remark = {"from_set": True, "type": "text"}, column.guess.evidence
                drafted.nullable = False
            else:
                _describe(drafted, path, found.operation, rows, keyed if table is made.main else None)
                _fill_down(drafted, keyed if table is made.main else None, path)
            table.columns.append(drafted)
            if path:
                made.by_path[path] = drafted
            else:
                made.unused.append(drafted)
    for table in made.tables:
        for rule in _rules_by_text(table):
            table.leave_out(rule)
    if summed is not None and keyed is not None:
        _ignore_totals(made, (summed, word), keyed, min(totals))
    _ignore_few_cells(made)
    order = list(found.by_path)
    made.by_path = {path: made.by_path[path] for path in sorted(made.by_path, key=order.index)}


def _rules_by_text(table: DraftTable) -> Iterator[str]:
    """The rules for titles such as `Customer: Acme` above the rows of each group, for subtotals, and for the row that explains the headings."""
    texts = [drafted for drafted in table.columns if drafted.keys.get("type") == "text"]
    leftmost = min(table.columns, key=lambda drafted: drafted.column.position, default=None)
    if leftmost in texts:
        yield from (f'({leftmost.name} ?? "").starts_with("{word}")' for word in table.sheet.outside.titles)
    for one in table.sheet.outside.subtotals:
        drafted = next((drafted for drafted in table.columns if drafted.column.position == one.place), None)
        if drafted is not None and drafted.keys.get("type") == "integer":
            drafted.keys = {**_heading_keys(drafted.column), "type": "text"}
        if drafted is not None and drafted.keys.get("type") == "text":
            yield f'({drafted.name} ?? "").{one.found_by}("{one.text}")'
    explained = dict(table.sheet.explained)
    ruling = (drafted for drafted in texts if drafted.column.position in explained)
    yield from (f'{drafted.name} == "{explained[drafted.column.position]}"' for drafted in islice(ruling, 1))


def _name_parts(made: Draft, parts: Sequence[Parts]) -> None:
    """Let the columns of parts that fill a field, or hold the times of a date, read them from the whole cell; leave the others out."""
    filled = set(made.by_path.values())
    days = [day.column for day in filled if is_without_clock(day)]
    for table in made.tables:
        by_column = {id(drafted.column): drafted for drafted in table.columns}
        for one in parts:
            whole = by_column.get(id(one.whole))
            if whole is None:
                continue
            own = {concept: by_column[id(column)] for concept, column in one.columns.items()}
            used = {
                concept: drafted
                for concept, drafted in own.items()
                if drafted in filled
                or (drafted.keys["type"] == "time" and any(is_time_of(drafted.column, day) for day in days))
            }
            for drafted in own.values():
                if drafted not in used.values():
                    table.columns.remove(drafted)
                    made.mark_used(drafted)
            if not used:
                continue
            made.mark_used(whole)
            names = {concept: drafted.name for concept, drafted in used.items()}
            whole.keys["split"] = one.split(names)
            if names.keys() & {"early", "length"}:  # an address of a customer is no example for others
                whole.keys["example"] = one.example
            for drafted in used.values():
                drafted.keys.pop("label")
                drafted.keys = {"part_of": whole.name, **drafted.keys}


def _ignore_totals(made: Draft, word: tuple[Column, str], keyed: RecordRows, row: int) -> None:
    """Ignore the rows with a word for totals."""
    table, (column, text) = made.main, word
    rule = f'{table.named(column).name} == "{text}"'
    if not keyed.is_written_once:
        rule = f"{table.named(keyed.key).name} == null and {rule}"
    table.leave_out(rule)
    made.evidence.append(f"row {table.sheet.rows[row]} has no {keyed.key.label} and contains {text}: a total row")


def _ignore_few_cells(made: Draft) -> None:
    """Ignore sums that no word names, and the rows that a template filled in beforehand, by columns that are blank in them alone."""
    for table in made.tables:
        sums, prefilled = table.sheet.outside.sums, table.sheet.outside.prefilled
        if sums and _ignore_without(made, table, filled_columns(sums)):
            made.evidence.append(f"rows such as {sums[0][0]} hold only the sums of rows above")
        if prefilled and _ignore_without(made, table, filled_columns(prefilled)):
            made.evidence.append(
                f"rows {prefilled[0][0]} to {prefilled[-1][0]} hold only what was filled in beforehand"
            )


def _ignore_without(made: Draft, table: DraftTable, filled: Collection[int]) -> bool:
    """Ignore the rows that lack the columns which all records have and these rows, with only `filled` columns, have not. Returns whether there
    are any.
    """
    used = [drafted for drafted in table.columns if drafted in made.by_path.values()]
    always = [drafted for drafted in used if drafted.column.filled_count == drafted.column.rows]
    names = [drafted.name for drafted in always if drafted.column.position not in filled]
    if names:
        table.leave_out(" and ".join(f"{name} == null" for name in names[:_BLANK_IN_ROW]))
    return bool(names)


def _describe(drafted: DraftColumn, path: str, operation: Operation, rows: set[int], keyed: RecordRows | None) -> None:
    """Set the keys and the comment of a column that fills the field at `path` (empty: none)."""
    column, guess, is_key = drafted.column, drafted.column.guess, path in operation.record.key
    filled = dict(operation.record.walk()).get(path)
    is_code = filled is not None and bool(filled.known) and guess.type == "yesno"  # `Awarded?`
    is_text = is_code or (filled is not None and filled.kind is FieldKind.STRING and guess.type == "integer")
    if is_text or (is_key and guess.type != "text"):  # an order number that is digits today may have letters tomorrow
        guess = as_text(column.cells)
    keys = drafted.keys = {**_heading_keys(column), "type": guess.type}
    sets = drafted.table.sets
    own = sets if sets is not None and column in sets.columns else None
    blank = sum(code < 0 and row in rows for row, code in enumerate(column.cells.value_indexes))
    blank = int(column.position not in own.always) if own is not None else blank
    at_top = keyed is not None and keyed.is_at_top(column)
    offered = review_comments(
        drafted.table.sheet, column, drafted.name, at_top=at_top, deletes=operation.action is Action.DELETE
    )
    drafted.remark = "; ".join([guess.evidence, *offered])
    if is_key or (path and not blank):
        keys["required"] = True
        drafted.nullable = False
    if is_key:
        keys["key"] = True
    keys |= guess.keys | ({"fill_down": True} if at_top and "ignore_rows" in drafted.remark else {})
    if "default" in keys:
        keys.pop("required", None)
        drafted.nullable = False
    if (
        filled is not None
        and (is_code or column.guess.type == "text")
        and (filled.known or CODE_EXAMPLES.keys() & concepts_of(filled))
    ):
        codes, remark = codes_of(column, filled, drafted.table.sheet.notation.locale)
        keys |= {"one_of": codes} if codes else {}
        drafted.remark += remark
    if 0 < blank < len(rows) and path and own is None:
        drafted.remark += f"; {blank} of {len(rows)} cells blank"
    if filled is not None and filled.kind is FieldKind.NUMERIC:
        _refuse_negative(drafted)


def _heading_keys(column: Column) -> dict[str, Any]:
    """The heading of a column, and which of several columns with that heading it is."""
    return {"label": column.label, **({"occurrence": column.occurrence} if column.occurrence else {})}


def _refuse_negative(drafted: DraftColumn) -> None:
    """Refuse negative amounts, unless some are negative and the author has to decide."""
    concepts = MEASURES.keys() | {"quantity", "package", "value"}
    if drafted.column.concepts & concepts and "min" not in drafted.keys:
        texts = drafted.column.cells.shown
        if not any(text.startswith(("-", "\N{MINUS SIGN}", "(")) or text.endswith("-") for text in texts):
            drafted.keys["min"] = 0


def _fill_down(drafted: DraftColumn, keyed: RecordRows | None, path: str) -> None:
    """Take the cell above where a record's values are written in its first row alone."""
    if keyed is None or not keyed.is_written_once or not path:
        return
    if drafted.column is keyed.key or keyed.is_once(drafted.column):
        drafted.keys |= {"required": True, "fill_down": True}
        drafted.nullable = False
        drafted.remark += "; written in the first row of a record alone"


def _use_chooser(made: Draft, choosing: Chooser, *, by_it: bool) -> None:
    """Let the column choose the operation, or only add a comment if the author named an operation."""
    made.chooser = choosing
    drafted = next((one for one in made.main.columns if one.column.label == choosing.column.label), None)
    if not by_it or drafted is None:
        return
    made.chosen_by = drafted
    made.by_path = {path: found for path, found in made.by_path.items() if found is not drafted}
    made.mark_used(drafted)
    drafted.keys = {**_heading_keys(drafted.column), "type": "text", "required": True, "one_of": choosing.codes}
    drafted.nullable = False
    drafted.remark = f"{drafted.column.guess.evidence}; {CHECK} the meaning of each code"


# ---- join and group ----


def _join(made: Draft, key: Column, other: Column) -> None:
    """Join the table of lines to that of the records by their keys."""
    main, table = made.main.named(key), made.tables[1]
    drafted = table.named(other)
    for short, long in ((drafted, main), (main, drafted)):
        if length := padded_length(long.column, short.column):
            short.keys["pad_left"] = {"to": length}
            short.keys["type"] = "text"
            short.remark += f"; {CHECK} the leading zeros: with them the values match the other table"
    made.evidence.append(
        f"{table.name} is joined on {other.label}: {count_common(key, other)} of {len(other.cells.values)} values also occur in {made.main.name}"
    )
    drafted.keys["required"], drafted.nullable = True, False
    if drafted.keys["type"] != main.keys["type"]:  # 00471 and 471 are compared as texts
        for one in (drafted, main):
            kept = {name: value for name, value in one.keys.items() if name not in one.column.guess.keys}
            one.keys = kept | {"type": "text"}
    table.join = f"{drafted.name}: {main.name}"
    made.by_path = {path: one for path, one in made.by_path.items() if one is not drafted}
    made.mark_used(drafted)


def _group(made: Draft, keys: Sequence[DraftColumn], keyed: RecordRows) -> None:
    """Group the rows of a key into one record. Columns with one value for each group are recorded."""
    in_list = {drafted for path, drafted in made.by_path.items() if "[]" in path}
    names = " and ".join(drafted.column.label for drafted in keys)
    some = f"{keyed.several} of {keyed.groups} values of {names} occur"
    lines = keyed.several - count_copies(made.main.sheet, keyed) if in_list and not made.is_joined else 0
    often = keyed.several * _OFTEN > keyed.groups or lines * _SELDOM > keyed.groups
    if made.operation.repeatable or not (keyed.several and often):
        if keyed.several and not made.operation.repeatable:
            made.evidence.append(f"{CHECK}: {some} twice or more; these rows are refused, unless they are grouped")
        return
    made.group = [drafted.name for drafted in keys]
    made.of_group |= set(made.group)
    sets = made.main.sets.columns if made.main.sets is not None else ()
    made.evidence.append(f"{some} in several rows, so rows are grouped")
    for drafted in made.main.columns:
        if drafted in keys or drafted in in_list or drafted.column in sets:
            continue
        fits, is_same = agreeing(keyed, drafted.column)
        if fits:
            made.of_group.add(drafted.name)
            if len(drafted.column.cells.values) == 1 and drafted.column.guess.type in NUMBERS:
                said = f"all rows have the same; is it that of each row, or of the whole {made.operation.subject}?"
                made.doubts |= {path: said for path, one in made.by_path.items() if one is drafted}
            if is_same or drafted.keys.get("fill_down"):
                made.one_value.append(drafted.name)
    _free_varying_texts(made)


def _leave_out_heads(made: Draft, keyed: RecordRows) -> None:
    """Leave out the first row of each record with several rows if it is a head without an item, as eBay exports orders: it has the place, and
    the sums of the rows below, which take the place from it.
    """
    heads = {rows[0] for rows in keyed.rows}
    own = [one for one in made.main.columns if one.name not in made.group and keyed.is_at_top(one.column)]
    items = (one for path, one in made.by_path.items() if "[]" in path and one.column.guess.type == "text")
    for item in items if own and made.group and not made.is_joined else ():
        if {row for row, code in enumerate(item.column.cells.value_indexes) if code < 0} == heads:
            made.main.leave_out(f"{item.name} == null")
            made.main.has_heads = True
            for drafted in own:
                drafted.keys["fill_down"] = True
            return


def _free_varying_texts(made: Draft) -> None:
    """Texts that differ within a record fill none of its fields: they say something of a line."""
    for path, drafted in list(made.by_path.items()):
        is_word = drafted.column.guess.type in {"text", "country", "currency", "yesno"}
        if "[]" in path or path in made.operation.record.key or not (is_word and made.varies(drafted)):
            continue
        del made.by_path[path]
        made.unused.append(drafted)
        drafted.keys = {**_heading_keys(drafted.column), "type": drafted.column.guess.type, **drafted.column.guess.keys}
        drafted.nullable = True
        drafted.remark = f"{drafted.column.guess.evidence}; {CHECK}: its values differ within a record"
